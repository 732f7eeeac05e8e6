/* SPDX-License-Identifier: BSD-3-Clause */
/* What is mapped where, from the text of /proc/self/maps. The file is opened for each question: it
 * names the memory of the process that opened it. */
#include "pin.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool read_line(const char *line, struct kal_mapping *mapping)
{
    unsigned long start, end, inode;
    int name = 0;
    char rights[5];

    if (sscanf(line, "%lx-%lx %4s %*s %*s %lu %n", &start, &end, rights, &inode, &name) != 4)
        return false;
    mapping->start = start;
    mapping->end = end;
    mapping->readable = rights[0] == 'r';
    mapping->writable = rights[1] == 'w';
    mapping->shared = rights[3] == 's';
    mapping->file = inode != 0;
    snprintf(mapping->name, sizeof(mapping->name), "%s", name ? line + name : "");
    return true;
}

int kal_mapping_at(uintptr_t at, struct kal_mapping *mapping)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), result = 0;
    char text[8192];
    size_t used = 0;
    ssize_t got = -1;

    if (fd < 0)
        return -1;
    while (!result && (got = read(fd, text + used, sizeof(text) - 1 - used)) > 0) {
        char *line = text, *next;

        used += (size_t)got;
        text[used] = '\0';
        for (; !result && (next = strchr(line, '\n')); line = next + 1) {
            *next = '\0';
            if (read_line(line, mapping) && mapping->end > at)
                result = 1;
        }
        used -= (size_t)(line - text); /* of an incomplete line */
        memmove(text, line, used);
    }
    close(fd);
    return !result && got < 0 ? -1 : result;
}

bool kal_mapping_find(uintptr_t start, uintptr_t end, bool (*wrong)(const struct kal_mapping *),
                      struct kal_mapping *mapping, bool *gap)
{
    int found;

    while (start < end) {
        found = kal_mapping_at(start, mapping);
        if (found < 0)
            return false;
        *gap = !found || mapping->start > start;
        if (*gap || wrong(mapping))
            return true;
        start = mapping->end;
    }
    return false;
}
