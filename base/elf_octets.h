/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The octets of an ELF file that need not be trusted: its kind, and reads within its bounds. What
 * its tables say is for the readers above: kal's (exports, as the dynamic linker finds them) and
 * that of ital-run (sections, versions, the complete symbol table).
 */
#ifndef ITAL_BASE_ELF_OCTETS_H
#define ITAL_BASE_ELF_OCTETS_H

#include "base/checked.h"

#include <elf.h>
#include <stddef.h>
#include <string.h>

#if __SIZEOF_POINTER__ == 8
#define ELF_OWN_CLASS ELFCLASS64
#else
#define ELF_OWN_CLASS ELFCLASS32
#endif
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ELF_OWN_ORDER ELFDATA2LSB
#else
#define ELF_OWN_ORDER ELFDATA2MSB
#endif

struct elf_file {
    const unsigned char *octets;
    size_t size;
};

enum elf_kind { ELF_IS_OWN, ELF_IS_NONE, ELF_IS_OTHER_CLASS, ELF_IS_OTHER_ORDER };

/* Tables may be unaligned, so structures are copied out. False: they are not all in the file. */
static inline bool elf_read_at(const struct elf_file *file, uint64_t offset, void *to, size_t size)
{
    if (!checked_inside(offset, size, 0, file->size))
        return false;
    memcpy(to, file->octets + offset, size);
    return true;
}

/* NULL: it does not end within `room` octets, or within the file. */
static inline const char *elf_string_at(const struct elf_file *file, uint64_t offset, uint64_t room)
{
    if (offset >= file->size)
        return NULL;
    if (room > file->size - offset)
        room = file->size - offset;
    return memchr(file->octets + offset, 0, room) ? (const char *)file->octets + offset : NULL;
}

/* Is it for a process of this class and byte order? */
static inline enum elf_kind elf_kind_of(const struct elf_file *file)
{
    if (file->size < EI_NIDENT || memcmp(file->octets, ELFMAG, SELFMAG))
        return ELF_IS_NONE;
    if (file->octets[EI_CLASS] != ELF_OWN_CLASS)
        return ELF_IS_OTHER_CLASS;
    return file->octets[EI_DATA] == ELF_OWN_ORDER ? ELF_IS_OWN : ELF_IS_OTHER_ORDER;
}

#endif
