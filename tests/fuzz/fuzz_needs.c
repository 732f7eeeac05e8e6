/* SPDX-License-Identifier: BSD-3-Clause */
/* What ital-run reads before it starts a program: ELF files and the dynamic linker's cache.
 * Nothing is read outside of them, and each string that is told ends in them. */
#include "tests/fuzz/fuzz.h"

#include <elf.h>
#include <string.h>

#include "verbs/run/elf_file.h"
#include "verbs/run/library.h"

static bool is_inside(const struct elf_file *file, const char *string)
{
    const unsigned char *begin = (const unsigned char *)string;

    return begin >= file->octets && begin < file->octets + file->size &&
           memchr(begin, 0, (size_t)(file->octets + file->size - begin));
}

static bool take_need(const struct elf_need *need, void *file)
{
    FUZZ_CHECK(is_inside(file, need->library) && is_inside(file, need->version));
    return true;
}

static bool take_version(const char *version, void *file)
{
    FUZZ_CHECK(is_inside(file, version));
    return true;
}

static bool take_symbol(const struct elf_symbol *symbol, void *file)
{
    FUZZ_CHECK(is_inside(file, symbol->name));
    FUZZ_CHECK(!*symbol->version || is_inside(file, symbol->version));
    return true;
}

static void read_dynamic(const struct elf_file *file, long tag)
{
    const char *string;

    for (unsigned i = 0; (string = elf_dynamic(file, tag, i)); i++)
        FUZZ_CHECK(i < file->size && is_inside(file, string));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct elf_file file = { .octets = data, .size = size };
    const char *string = elf_interpreter(&file);

    FUZZ_CHECK(!string || is_inside(&file, string));
    FUZZ_CHECK(size >= 20 || !elf_machine(&file));
    read_dynamic(&file, DT_NEEDED);
    read_dynamic(&file, DT_RPATH);
    read_dynamic(&file, DT_SONAME);
    elf_needs(&file, take_need, &file);
    elf_definitions(&file, take_version, &file);
    elf_symbols(&file, false, take_symbol, &file);
    elf_symbols(&file, true, take_symbol, &file);
    for (unsigned i = 0; (string = library_cached(data, size, "libx.so.1", i)); i++)
        FUZZ_CHECK(i < size && is_inside(&file, string));
    return 0;
}
