/* SPDX-License-Identifier: BSD-3-Clause
 *
 * library.h - finds the files of the libraries that a program needs as the dynamic linker of the
 * GNU C library does (ld.so(8)), and reads its cache. Nothing is loaded.
 */
#ifndef ITAL_VERBS_LIBRARY_H
#define ITAL_VERBS_LIBRARY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "elf_file.h"

/* The program, or a library that it loads. */
struct library {
    struct library *next;
    const struct library *loader; /* what needs it first; NULL: the program itself */
    const char *name;             /* as its loader names it */
    const char *soname;           /* as it names itself; NULL: it does not */
    struct elf_file file;
    char path[PATH_MAX];
};

/* Finds and opens the library that the loader needs by that name: by the RPATH of the loader and
 * of its own loaders, LD_LIBRARY_PATH, the RUNPATH of the loader, the cache and the default
 * folders, in this order. It is of the loader's processor. Sets file (elf_close) and path of
 * `library`. False: there is none. Not found are the variants of a library for some processors
 * (glibc-hwcaps), and folders with $LIB or $PLATFORM in their names. */
bool library_find(const struct library *loader, const char *name, struct elf_file *file,
                  char *path);

/* Of an ld.so.cache (ldconfig(8), format 1.1) in `octets`: the path of the index-th library of that
 * name, or NULL. A broken cache only has fewer entries. The string lives as the octets do. */
const char *library_cached(const unsigned char *octets, size_t size, const char *name,
                           unsigned index);

#endif
