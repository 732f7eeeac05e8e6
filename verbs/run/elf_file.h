/* SPDX-License-Identifier: BSD-3-Clause
 *
 * elf_file.h - reads ELF files of this machine's class and byte order. Every offset is checked
 * against the size of the file, so a broken file only has fewer entries.
 */
#ifndef ITAL_VERBS_ELF_FILE_H
#define ITAL_VERBS_ELF_FILE_H

#include "base/elf_octets.h"

/* Maps any file. False: it cannot be read (errno is set), or it is empty or no ordinary file
 * (ENOEXEC). */
bool elf_map(struct elf_file *file, const char *path);
/* False: the file cannot be read, or it is no ELF file of this machine's class and byte order
 * (ENOEXEC). errno is set. */
bool elf_open(struct elf_file *file, const char *path);
void elf_close(struct elf_file *file);

/* The processor that it is for (EM_X86_64 ...); 0: unknown. */
unsigned elf_machine(const struct elf_file *file);
/* The path of the dynamic linker, or NULL. Strings live until elf_close. */
const char *elf_interpreter(const struct elf_file *file);
/* The string of the index-th dynamic entry with that tag (DT_NEEDED, DT_RPATH ...), or NULL. */
const char *elf_dynamic(const struct elf_file *file, long tag, unsigned index);

struct elf_symbol {
    const char *name;
    const char *version; /* "" for none */
    bool defined, weak;
};
/* Calls fn for the symbols of the dynamic table, or with `all` of the complete one, until it
 * returns false. */
void elf_symbols(const struct elf_file *file, bool all,
                 bool (*fn)(const struct elf_symbol *symbol, void *arg), void *arg);

struct elf_need {
    const char *library; /* the file that has to define the version, as DT_NEEDED names it */
    const char *version;
    bool weak; /* the dynamic linker starts the program without it, too */
};
/* Calls fn for each version that the file needs of others, until it returns false. */
void elf_needs(const struct elf_file *file, bool (*fn)(const struct elf_need *need, void *arg),
               void *arg);
/* Calls fn for each version that the file defines, until it returns false. */
void elf_definitions(const struct elf_file *file, bool (*fn)(const char *version, void *arg),
                     void *arg);

#endif
