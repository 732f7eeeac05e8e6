/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the exports of a shared object from its bytes. The dynamic segment is followed as the
 * dynamic linker does, because section headers may be wrong. Every offset is checked against the
 * file, and every structure is copied out.
 */
#include "kal_elf.h"

#include "base/elf_octets.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

#if __SIZEOF_POINTER__ == 8
#define SYM_BIND(info)        ELF64_ST_BIND(info)
#define SYM_VISIBILITY(other) ELF64_ST_VISIBILITY(other)
#else
#define SYM_BIND(info)        ELF32_ST_BIND(info)
#define SYM_VISIBILITY(other) ELF32_ST_VISIBILITY(other)
#endif

#if defined __x86_64__
#define OWN_MACHINE EM_X86_64
#elif defined __aarch64__
#define OWN_MACHINE EM_AARCH64
#elif defined __i386__
#define OWN_MACHINE EM_386
#elif defined __arm__
#define OWN_MACHINE EM_ARM
#elif defined __riscv
#define OWN_MACHINE EM_RISCV
#elif defined __powerpc64__
#define OWN_MACHINE EM_PPC64
#elif defined __s390x__
#define OWN_MACHINE EM_S390
#elif defined __loongarch__
#define OWN_MACHINE 258
#else
#define OWN_MACHINE EM_NONE /* the machine is not compared */
#endif

struct image {
    struct elf_file file;
    ElfW(Ehdr) header;
};

/* A table of the dynamic segment as a range of the file. */
struct table {
    uint64_t offset, size;
};

struct dynamic {
    struct table symbols, strings, hash,
        gnu_hash; /* size: the octets of the segment in the file behind it */
    uint64_t string_size;
};

static enum kal_elf_result check_header(struct image *image, struct kal_elf_summary *summary)
{
    switch (elf_kind_of(&image->file)) {
    case ELF_IS_NONE: return KAL_ELF_NOT_ELF;
    case ELF_IS_OTHER_CLASS: return KAL_ELF_CLASS;
    case ELF_IS_OTHER_ORDER: return KAL_ELF_BYTE_ORDER;
    case ELF_IS_OWN: break;
    }
    if (!elf_read_at(&image->file, 0, &image->header, sizeof(image->header)))
        return KAL_ELF_BROKEN;
    summary->machine = image->header.e_machine;
    if (OWN_MACHINE != EM_NONE && image->header.e_machine != OWN_MACHINE)
        return KAL_ELF_MACHINE;
    if (image->header.e_type != ET_DYN)
        return KAL_ELF_TYPE;
    if (image->header.e_phentsize != sizeof(ElfW(Phdr)) || !image->header.e_phnum)
        return KAL_ELF_BROKEN;
    return KAL_ELF_OK;
}

static bool program_header(const struct image *image, unsigned index, ElfW(Phdr) * out)
{
    uint64_t offset;

    return checked_add((uint64_t)image->header.e_phoff, (uint64_t)index * sizeof(*out), &offset) &&
           elf_read_at(&image->file, offset, out, sizeof(*out));
}

/* Every loaded byte must be in the file: a truncated file would load and raise SIGBUS later. */
static bool segments_inside(const struct image *image)
{
    ElfW(Phdr) segment;

    for (unsigned i = 0; i < image->header.e_phnum; i++) {
        if (!program_header(image, i, &segment))
            return false;
        if (segment.p_type == PT_LOAD &&
            !checked_inside(segment.p_offset, segment.p_filesz, 0, image->file.size))
            return false;
    }
    return true;
}

/* Converts a virtual address to a position in the file, and the size of the segment behind it. */
static bool locate(const struct image *image, uint64_t address, struct table *out)
{
    ElfW(Phdr) segment;

    for (unsigned i = 0; i < image->header.e_phnum; i++) {
        if (!program_header(image, i, &segment))
            return false;
        if (segment.p_type == PT_LOAD &&
            checked_inside(address, 1, segment.p_vaddr, segment.p_filesz)) {
            out->offset = segment.p_offset + (address - segment.p_vaddr);
            out->size = segment.p_filesz - (address - segment.p_vaddr);
            return checked_inside(out->offset, out->size, 0, image->file.size);
        }
    }
    return false;
}

static bool read_dynamic(const struct image *image, struct dynamic *out)
{
    ElfW(Phdr) segment;
    ElfW(Dyn) entry;
    uint64_t offset;
    unsigned i;

    memset(out, 0, sizeof(*out));
    for (i = 0; i < image->header.e_phnum; i++) {
        if (!program_header(image, i, &segment))
            return false;
        if (segment.p_type == PT_DYNAMIC)
            break;
    }
    if (i == image->header.e_phnum)
        return false;
    for (uint64_t at = 0; checked_inside(at, sizeof(entry), 0, segment.p_filesz);
         at += sizeof(entry)) {
        bool found = true;

        if (!checked_add((uint64_t)segment.p_offset, at, &offset) ||
            !elf_read_at(&image->file, offset, &entry, sizeof(entry)))
            return false;
        switch (entry.d_tag) {
        case DT_NULL: return out->symbols.size && out->strings.size;
        case DT_SYMTAB: found = locate(image, entry.d_un.d_ptr, &out->symbols); break;
        case DT_STRTAB: found = locate(image, entry.d_un.d_ptr, &out->strings); break;
        case DT_HASH: found = locate(image, entry.d_un.d_ptr, &out->hash); break;
        case DT_GNU_HASH: found = locate(image, entry.d_un.d_ptr, &out->gnu_hash); break;
        case DT_STRSZ: out->string_size = entry.d_un.d_val; break;
        default: break;
        }
        if (!found)
            return false;
    }
    return false;
}

/* Word `index` of a table. False: beyond its end. */
static bool word_of(const struct image *image, const struct table *table, uint64_t index,
                    uint32_t *out)
{
    return index < table->size / sizeof(*out) &&
           elf_read_at(&image->file, table->offset + index * sizeof(*out), out, sizeof(*out));
}

/* The GNU hash table has no count of symbols: it is the end of the last bucket's chain. */
static bool count_by_gnu_hash(const struct image *image, const struct table *table, uint64_t *count)
{
    uint32_t buckets, first, bloom, value, last = 0;
    uint64_t at, chains;

    if (!word_of(image, table, 0, &buckets) || !word_of(image, table, 1, &first) ||
        !word_of(image, table, 2, &bloom))
        return false;
    at = 4 + (uint64_t)bloom * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    chains = at + buckets;
    if (chains > table->size / sizeof(value))
        return false;
    for (uint32_t i = 0; i < buckets; i++) {
        if (!word_of(image, table, at + i, &value))
            return false;
        if (value > last)
            last = value;
    }
    *count = first;
    if (last < first)
        return last == 0; /* nothing is exported */
    do {
        if (!word_of(image, table, chains + (last - first), &value))
            return false;
        last++;
    } while (!(value & 1) && last);
    *count = last;
    return last != 0;
}

static bool count_symbols(const struct image *image, const struct dynamic *dynamic, uint64_t *count)
{
    uint32_t chains;

    if (dynamic->gnu_hash.size)
        return count_by_gnu_hash(image, &dynamic->gnu_hash, count);
    if (!dynamic->hash.size || !word_of(image, &dynamic->hash, 1, &chains))
        return false;
    *count = chains;
    return true;
}

/* Symbols that linkers and compilers put into every shared object. */
static bool is_common(const char *name)
{
    static const char *const common[] = { "_init",       "_fini",       "_edata",  "_end",
                                          "__bss_start", "__end__",     "__gcov_", "__llvm_",
                                          "__asan_",     "__ubsan_",    "__tsan_", "__sanitizer_",
                                          "__odr_asan",  "lprofDirMode" };

    for (size_t i = 0; i < sizeof(common) / sizeof(*common); i++) {
        size_t length = strlen(common[i]);
        bool prefix = common[i][0] == '_' && common[i][1] == '_' && i >= 6;

        if (prefix ? !strncmp(name, common[i], length) : !strcmp(name, common[i]))
            return true;
    }
    return false;
}

static void note_symbol(struct kal_elf_summary *summary, const char *name)
{
    static const char prefix[] = "rnicpi_provider_v";
    const char *digits = name + sizeof(prefix) - 1;
    uint32_t major = 0;

    if (!strncmp(name, prefix, sizeof(prefix) - 1) && *digits &&
        !digits[strspn(digits, "0123456789")]) {
        for (; *digits; digits++) /* too many digits: no existing version */
            if (!checked_mul(major, 10u, &major) ||
                !checked_add(major, (uint32_t)(*digits - '0'), &major))
                major = UINT32_MAX;
        if (summary->majors < KAL_ELF_MAJORS)
            summary->major[summary->majors++] = major;
        return;
    }
    if (!*name || is_common(name))
        return;
    if (!summary->foreign++)
        snprintf(summary->foreign_name, sizeof(summary->foreign_name), "%s", name);
}

static enum kal_elf_result read_symbols(const struct image *image, const struct dynamic *dynamic,
                                        struct kal_elf_summary *summary)
{
    uint64_t count, room = dynamic->string_size;
    const char *strings = (const char *)image->file.octets + dynamic->strings.offset;
    ElfW(Sym) symbol;

    if (!count_symbols(image, dynamic, &count) || count > dynamic->symbols.size / sizeof(symbol) ||
        !room || room > dynamic->strings.size)
        return KAL_ELF_BROKEN;
    for (uint64_t i = 1; i < count; i++) {
        if (!elf_read_at(&image->file, dynamic->symbols.offset + i * sizeof(symbol), &symbol,
                         sizeof(symbol)) ||
            symbol.st_name >= room ||
            !memchr(strings + symbol.st_name, '\0', room - symbol.st_name))
            return KAL_ELF_BROKEN;
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS ||
            SYM_BIND(symbol.st_info) == STB_LOCAL ||
            SYM_VISIBILITY(symbol.st_other) == STV_HIDDEN ||
            SYM_VISIBILITY(symbol.st_other) == STV_INTERNAL)
            continue;
        note_symbol(summary, strings + symbol.st_name);
    }
    return KAL_ELF_OK;
}

enum kal_elf_result kal_elf_read(const void *data, size_t length, struct kal_elf_summary *summary)
{
    struct image image = { .file = { data, length } };
    struct dynamic dynamic;
    enum kal_elf_result result;

    memset(summary, 0, sizeof(*summary));
    result = check_header(&image, summary);
    if (result != KAL_ELF_OK)
        return result;
    if (!segments_inside(&image) || !read_dynamic(&image, &dynamic))
        return KAL_ELF_BROKEN;
    return read_symbols(&image, &dynamic, summary);
}

const char *kal_elf_machine_name(uint16_t machine)
{
    switch (machine) {
    case EM_386: return "x86";
    case EM_X86_64: return "x86-64";
    case EM_ARM: return "ARM";
    case EM_AARCH64: return "AArch64";
    case EM_RISCV: return "RISC-V";
    case EM_PPC64: return "POWER";
    case EM_S390: return "IBM Z";
    case EM_MIPS: return "MIPS";
    case 258: return "LoongArch";
    default: return "an unknown processor";
    }
}
