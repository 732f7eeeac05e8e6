/* SPDX-License-Identifier: BSD-3-Clause
 *
 * elf_file.h - what ital-run reads of ELF files of this machine's kind. Every offset is checked
 * against the size of the file: a broken file has fewer entries, and harms nobody.
 */
#ifndef ITAL_VERBS_ELF_FILE_H
#define ITAL_VERBS_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct elf_file {
    const unsigned char *octets;
    size_t size;
};

/* False: it cannot be read, or is no ELF file of this machine's kind; errno is ENOEXEC then. */
bool elf_open(struct elf_file *file, const char *path);
void elf_close(struct elf_file *file);

/* The program that loads it, or NULL. Strings live until elf_close. */
const char *elf_interpreter(const struct elf_file *file);
/* The string of the index-th entry of that tag (DT_NEEDED, DT_RPATH ...) of the dynamic section, or
 * NULL. */
const char *elf_dynamic(const struct elf_file *file, long tag, unsigned index);

struct elf_symbol {
    const char *name;
    const char *version; /* "" for none */
    bool defined, weak;
};
/* Of the dynamic symbol table, or with `all` of the whole one. fn returns false to end it. */
void elf_symbols(const struct elf_file *file, bool all,
                 bool (*fn)(const struct elf_symbol *symbol, void *arg), void *arg);

#endif
