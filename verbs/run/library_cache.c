/* SPDX-License-Identifier: BSD-3-Clause
 * The dynamic linker's cache, as ldconfig(8) writes it. */
#include "library.h"

#include <stdint.h>
#include <string.h>

/* Numbers are in the machine's order; strings are counted from the beginning of the file. */
struct cache_header {
    char magic[20];
    uint32_t entries, string_octets;
    uint8_t flags, padding[3];
    uint32_t extension, unused[3];
};

struct cache_entry {
    uint32_t kind, name, path, system;
    uint64_t hwcap; /* not 0: for processors with these features */
};

static const char *string_at(const unsigned char *octets, size_t size, uint32_t at)
{
    return at < size && memchr(octets + at, 0, size - at) ? (const char *)octets + at : NULL;
}

const char *library_cached(const unsigned char *octets, size_t size, const char *name,
                           unsigned index)
{
    struct cache_header header;
    struct cache_entry entry;
    const char *found, *path;

    if (size < sizeof(header))
        return NULL;
    memcpy(&header, octets, sizeof(header));
    if (memcmp(header.magic, "glibc-ld.so.cache1.1", sizeof(header.magic)))
        return NULL;
    for (size_t at = sizeof(header); header.entries-- && size - at >= sizeof(entry);
         at += sizeof(entry)) {
        memcpy(&entry, octets + at, sizeof(entry));
        found = entry.hwcap ? NULL : string_at(octets, size, entry.name);
        if (!found || strcmp(found, name))
            continue;
        path = string_at(octets, size, entry.path);
        if (path && index-- == 0)
            return path;
    }
    return NULL;
}
