/* SPDX-License-Identifier: BSD-3-Clause
 * Reading ELF files: sections, dynamic entries, symbols with their versions. */
#include "elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_own_kind(const struct elf_file *file)
{
    ElfW(Ehdr) header;

    return elf_kind_of(file) == ELF_IS_OWN && elf_read_at(file, 0, &header, sizeof(header));
}

bool elf_map(struct elf_file *file, const char *path)
{
    struct stat status;
    void *octets = MAP_FAILED;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
        octets = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (octets == MAP_FAILED) {
        errno = ENOEXEC;
        return false;
    }
    *file = (struct elf_file){ .octets = octets, .size = (size_t)status.st_size };
    return true;
}

bool elf_open(struct elf_file *file, const char *path)
{
    if (!elf_map(file, path))
        return false;
    if (is_own_kind(file))
        return true;
    elf_close(file);
    errno = ENOEXEC;
    return false;
}

void elf_close(struct elf_file *file)
{
    munmap((void *)(uintptr_t)file->octets, file->size);
}

unsigned elf_machine(const struct elf_file *file)
{
    ElfW(Ehdr) header;

    return elf_read_at(file, 0, &header, sizeof(header)) ? header.e_machine : 0;
}

const char *elf_interpreter(const struct elf_file *file)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) segment;

    if (!elf_read_at(file, 0, &header, sizeof(header)))
        return NULL;
    for (unsigned i = 0; i < header.e_phnum; i++)
        if (elf_read_at(file, header.e_phoff + (uint64_t)i * sizeof(segment), &segment,
                        sizeof(segment)) &&
            segment.p_type == PT_INTERP)
            return elf_string_at(file, segment.p_offset, file->size);
    return NULL;
}

static bool section_at(const struct elf_file *file, unsigned index, ElfW(Shdr) * section)
{
    ElfW(Ehdr) header;

    return elf_read_at(file, 0, &header, sizeof(header)) && index < header.e_shnum &&
           elf_read_at(file, header.e_shoff + (uint64_t)index * sizeof(*section), section,
                       sizeof(*section));
}

static bool section_of_type(const struct elf_file *file, uint32_t type, ElfW(Shdr) * section)
{
    for (unsigned i = 0; section_at(file, i, section); i++)
        if (section->sh_type == type)
            return true;
    return false;
}

/* A string of the string table that the section is linked to. */
static const char *linked_string(const struct elf_file *file, const ElfW(Shdr) * section,
                                 uint64_t offset)
{
    ElfW(Shdr) strings;

    if (!section_at(file, section->sh_link, &strings) || offset >= strings.sh_size)
        return NULL;
    return elf_string_at(file, strings.sh_offset + offset, file->size);
}

const char *elf_dynamic(const struct elf_file *file, long tag, unsigned index)
{
    ElfW(Shdr) section;
    ElfW(Dyn) entry;

    if (!section_of_type(file, SHT_DYNAMIC, &section))
        return NULL;
    for (uint64_t at = 0; at + sizeof(entry) <= section.sh_size; at += sizeof(entry)) {
        if (!elf_read_at(file, section.sh_offset + at, &entry, sizeof(entry)) ||
            entry.d_tag == DT_NULL)
            return NULL;
        if (entry.d_tag == tag && index-- == 0)
            return linked_string(file, &section, entry.d_un.d_val);
    }
    return NULL;
}

/* The name of a version that the file requires of other files. */
static const char *needed_version(const struct elf_file *file, unsigned number)
{
    ElfW(Shdr) section;
    ElfW(Verneed) need;
    ElfW(Vernaux) aux;
    uint64_t at, from;

    if (!section_of_type(file, SHT_GNU_verneed, &section))
        return NULL;
    for (at = section.sh_offset; elf_read_at(file, at, &need, sizeof(need)); at += need.vn_next) {
        for (from = at + need.vn_aux; elf_read_at(file, from, &aux, sizeof(aux));
             from += aux.vna_next) {
            if ((aux.vna_other & 0x7fff) == number)
                return linked_string(file, &section, aux.vna_name);
            if (!aux.vna_next)
                break;
        }
        if (!need.vn_next)
            break;
    }
    return NULL;
}

/* The name of a version that the file defines. */
static const char *defined_version(const struct elf_file *file, unsigned number)
{
    ElfW(Shdr) section;
    ElfW(Verdef) def;
    ElfW(Verdaux) aux;

    if (!section_of_type(file, SHT_GNU_verdef, &section))
        return NULL;
    for (uint64_t at = section.sh_offset; elf_read_at(file, at, &def, sizeof(def));
         at += def.vd_next) {
        if (def.vd_ndx == number && elf_read_at(file, at + def.vd_aux, &aux, sizeof(aux)))
            return linked_string(file, &section, aux.vda_name);
        if (!def.vd_next)
            break;
    }
    return NULL;
}

static const char *version_of(const struct elf_file *file, uint64_t index, bool defined)
{
    ElfW(Shdr) section;
    ElfW(Versym) number;
    const char *name;

    if (!section_of_type(file, SHT_GNU_versym, &section) ||
        !elf_read_at(file, section.sh_offset + index * sizeof(number), &number, sizeof(number)))
        return "";
    name = defined ? defined_version(file, number & 0x7fff) : needed_version(file, number & 0x7fff);
    return name ? name : "";
}

void elf_symbols(const struct elf_file *file, bool all,
                 bool (*fn)(const struct elf_symbol *symbol, void *arg), void *arg)
{
    ElfW(Shdr) section;
    ElfW(Sym) entry;
    struct elf_symbol symbol;

    if (!section_of_type(file, all ? SHT_SYMTAB : SHT_DYNSYM, &section))
        return;
    for (uint64_t i = 0; (i + 1) * sizeof(entry) <= section.sh_size; i++) {
        if (!elf_read_at(file, section.sh_offset + i * sizeof(entry), &entry, sizeof(entry)))
            return;
        symbol.name = linked_string(file, &section, entry.st_name);
        if (!symbol.name || !*symbol.name)
            continue;
        symbol.defined = entry.st_shndx != SHN_UNDEF;
        symbol.weak = ELF64_ST_BIND(entry.st_info) == STB_WEAK;
        symbol.version = all ? "" : version_of(file, i, symbol.defined);
        if (!fn(&symbol, arg))
            return;
    }
}

/* The versions that are needed of one file. False: fn returned it. */
static bool each_need(const struct elf_file *file, const ElfW(Shdr) * section, uint64_t at,
                      const ElfW(Verneed) * of, bool (*fn)(const struct elf_need *need, void *arg),
                      void *arg)
{
    struct elf_need need = { .library = linked_string(file, section, of->vn_file) };
    ElfW(Vernaux) aux;

    at += of->vn_aux;
    for (unsigned i = 0; i < of->vn_cnt && elf_read_at(file, at, &aux, sizeof(aux)); i++) {
        need.version = linked_string(file, section, aux.vna_name);
        need.weak = aux.vna_flags & VER_FLG_WEAK;
        if (need.library && need.version && !fn(&need, arg))
            return false;
        at += aux.vna_next;
    }
    return true;
}

void elf_needs(const struct elf_file *file, bool (*fn)(const struct elf_need *need, void *arg),
               void *arg)
{
    ElfW(Shdr) section;
    ElfW(Verneed) of;
    uint64_t at;

    if (!section_of_type(file, SHT_GNU_verneed, &section))
        return;
    at = section.sh_offset;
    for (uint64_t i = 0; i < section.sh_info && elf_read_at(file, at, &of, sizeof(of)); i++) {
        if (!each_need(file, &section, at, &of, fn, arg) || !of.vn_next)
            return;
        at += of.vn_next;
    }
}

void elf_definitions(const struct elf_file *file, bool (*fn)(const char *version, void *arg),
                     void *arg)
{
    ElfW(Shdr) section;
    ElfW(Verdef) def;
    ElfW(Verdaux) aux;
    const char *version;
    uint64_t at;

    if (!section_of_type(file, SHT_GNU_verdef, &section))
        return;
    at = section.sh_offset;
    for (uint64_t i = 0; i < section.sh_info && elf_read_at(file, at, &def, sizeof(def)); i++) {
        version = elf_read_at(file, at + def.vd_aux, &aux, sizeof(aux))
                      ? linked_string(file, &section, aux.vda_name)
                      : NULL;
        if ((version && !(def.vd_flags & VER_FLG_BASE) && !fn(version, arg)) || !def.vd_next)
            return;
        at += def.vd_next;
    }
}
