/* SPDX-License-Identifier: BSD-3-Clause
 * Finds libraries in the order of the dynamic linker. */
#include "library.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE "/etc/ld.so.cache"

/* A file of another processor is passed over, as the dynamic linker does. */
static bool open_like(const struct library *loader, struct elf_file *file, const char *path)
{
    if (!elf_open(file, path))
        return false;
    if (elf_machine(file) == elf_machine(&loader->file))
        return true;
    elf_close(file);
    return false;
}

/* The length of "$ORIGIN" or "${ORIGIN}" at the beginning, or 0. */
static size_t origin_length(const char *folder)
{
    if (!strncmp(folder, "$ORIGIN", 7))
        return 7;
    return strncmp(folder, "${ORIGIN}", 9) ? 0 : 9;
}

/* A folder of a list of `owner`; $ORIGIN is the folder of the owner. An empty one is the current
 * folder. */
static bool find_in(const struct library *loader, const struct library *owner, const char *folder,
                    size_t length, const char *name, struct elf_file *file, char *path)
{
    size_t origin = origin_length(folder);
    int before = origin ? (int)(strrchr(owner->path, '/') - owner->path) : 0;
    int written;

    if (length == 0)
        written = snprintf(path, PATH_MAX, "./%s", name);
    else if (origin > length)
        return false;
    else
        written = snprintf(path, PATH_MAX, "%.*s%.*s/%s", before, owner->path,
                           (int)(length - origin), folder + origin, name);
    return written < PATH_MAX && open_like(loader, file, path);
}

static bool find_in_list(const struct library *loader, const struct library *owner,
                         const char *list, const char *separators, const char *name,
                         struct elf_file *file, char *path)
{
    size_t length;

    if (!list || !*list)
        return false;
    for (;; list += length + 1) {
        length = strcspn(list, separators);
        if (find_in(loader, owner, list, length, name, file, path))
            return true;
        if (!list[length])
            return false;
    }
}

/* DT_RPATH counts only where there is no DT_RUNPATH, and also for what a library's needs need. */
static bool find_by_rpath(const struct library *loader, const char *name, struct elf_file *file,
                          char *path)
{
    if (elf_dynamic(&loader->file, DT_RUNPATH, 0))
        return false;
    for (const struct library *owner = loader; owner; owner = owner->loader)
        if (!elf_dynamic(&owner->file, DT_RUNPATH, 0) &&
            find_in_list(loader, owner, elf_dynamic(&owner->file, DT_RPATH, 0), ":", name, file,
                         path))
            return true;
    return false;
}

static bool find_in_cache(const struct library *loader, const char *name, struct elf_file *file,
                          char *path)
{
    struct elf_file cache;
    const char *cached;
    bool found = false;

    if (!elf_map(&cache, CACHE))
        return false;
    for (unsigned i = 0; !found && (cached = library_cached(cache.octets, cache.size, name, i));
         i++)
        found = snprintf(path, PATH_MAX, "%s", cached) < PATH_MAX && open_like(loader, file, path);
    elf_close(&cache);
    return found;
}

static const struct library *program_of(const struct library *library)
{
    while (library->loader)
        library = library->loader;
    return library;
}

bool library_find(const struct library *loader, const char *name, struct elf_file *file, char *path)
{
    if (strchr(name, '/'))
        return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && open_like(loader, file, path);
    return find_by_rpath(loader, name, file, path) ||
           find_in_list(loader, program_of(loader), getenv("LD_LIBRARY_PATH"), ":;", name, file,
                        path) ||
           find_in_list(loader, loader, elf_dynamic(&loader->file, DT_RUNPATH, 0), ":", name, file,
                        path) ||
           find_in_cache(loader, name, file, path) ||
           find_in_list(loader, loader, "/lib64:/usr/lib64:/lib:/usr/lib", ":", name, file, path);
}
