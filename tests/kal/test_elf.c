/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing a provider file's bytes: sound, foreign, truncated anywhere, damaged anywhere. */
#include "kal_fixture.h"
#include "kal/registry/kal_elf.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>

static uint8_t *bytes;
static size_t length;

static void load(const char *module)
{
    FILE *file = fopen(fixture_module_path(module), "re");

    ck_assert_msg(file != NULL, "%s", fixture_module_path(module));
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    length = (size_t)ftell(file);
    rewind(file);
    bytes = malloc(length);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(fread(bytes, 1, length, file), length);
    fclose(file);
}

static void setup(void)
{
    load("vp_test");
}

static void teardown(void)
{
    free(bytes);
}

static void reload(const char *module)
{
    free(bytes);
    load(module);
}

static enum kal_elf_result patched(size_t offset, const void *data, size_t size)
{
    struct kal_elf_summary summary;
    enum kal_elf_result result;
    uint8_t saved[16];

    memcpy(saved, bytes + offset, size);
    memcpy(bytes + offset, data, size);
    result = kal_elf_read(bytes, length, &summary);
    memcpy(bytes + offset, saved, size);
    return result;
}

START_TEST(test_sound_provider)
{
    struct kal_elf_summary summary;

    ck_assert_int_eq(kal_elf_read(bytes, length, &summary), KAL_ELF_OK);
    ck_assert_uint_eq(summary.majors, 1);
    ck_assert_uint_eq(summary.major[0], 1);
    ck_assert_msg(summary.foreign == 0, "%s", summary.foreign_name);
}
END_TEST

START_TEST(test_other_exports)
{
    struct kal_elf_summary summary;

    reload("broken/vp_major2");
    ck_assert_int_eq(kal_elf_read(bytes, length, &summary), KAL_ELF_OK);
    ck_assert_uint_eq(summary.majors, 1);
    ck_assert_uint_eq(summary.major[0], 2);
    reload("broken/vp_endless"); /* too many digits: no version; it must not wrap around */
    ck_assert_int_eq(kal_elf_read(bytes, length, &summary), KAL_ELF_OK);
    ck_assert_uint_eq(summary.majors, 1);
    ck_assert_uint_eq(summary.major[0], UINT32_MAX);
    reload("broken/vp_nosymbol");
    ck_assert_int_eq(kal_elf_read(bytes, length, &summary), KAL_ELF_OK);
    ck_assert_uint_eq(summary.majors, 0);
    reload("broken/vp_foreign");
    ck_assert_int_eq(kal_elf_read(bytes, length, &summary), KAL_ELF_OK);
    ck_assert_uint_eq(summary.majors, 1);
    ck_assert_uint_eq(summary.foreign, 1);
    ck_assert_str_eq(summary.foreign_name, "foreign_symbol");
}
END_TEST

START_TEST(test_header_says_no)
{
    uint16_t machine = EM_S390, type = ET_EXEC, none = 0;
    uint8_t byte = ELFCLASS32;
    struct kal_elf_summary summary;

    ck_assert_int_eq(patched(EI_CLASS, &byte, 1), sizeof(void *) == 8 ? KAL_ELF_CLASS : KAL_ELF_OK);
    byte = bytes[EI_DATA] == ELFDATA2LSB ? ELFDATA2MSB : ELFDATA2LSB;
    ck_assert_int_eq(patched(EI_DATA, &byte, 1), KAL_ELF_BYTE_ORDER);
    ck_assert_int_eq(patched(offsetof(Elf64_Ehdr, e_machine), &machine, 2), KAL_ELF_MACHINE);
    ck_assert_int_eq(patched(offsetof(Elf64_Ehdr, e_type), &type, 2), KAL_ELF_TYPE);
    byte = 'e';
    ck_assert_int_eq(patched(1, &byte, 1), KAL_ELF_NOT_ELF);
    if (sizeof(void *) == 8)
        ck_assert_int_eq(patched(offsetof(Elf64_Ehdr, e_phnum), &none, 2), KAL_ELF_BROKEN);
    ck_assert_int_eq(kal_elf_read("#!/bin/sh\n", 10, &summary), KAL_ELF_NOT_ELF);
    ck_assert_int_eq(kal_elf_read("", 0, &summary), KAL_ELF_NOT_ELF);
    ck_assert_str_eq(kal_elf_machine_name(EM_S390), "IBM Z");
    ck_assert_str_eq(kal_elf_machine_name(0xfefe), "an unknown processor");
}
END_TEST

/* A copy that ends at an unmapped page: reading one octet too far crashes. */
static uint8_t *before_the_edge(const uint8_t *data, size_t size, uint8_t **map, size_t *map_size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    *map_size = (size + page - 1) / page * page + page;
    *map = mmap(NULL, *map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(*map, MAP_FAILED);
    ck_assert_int_eq(mprotect(*map + *map_size - page, page, PROT_NONE), 0);
    memcpy(*map + *map_size - page - size, data, size);
    return *map + *map_size - page;
}

/* End of the last octet that is loaded. */
static size_t end_of_segments(void)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) segment;
    size_t end = 0;

    memcpy(&header, bytes, sizeof(header));
    for (unsigned i = 0; i < header.e_phnum; i++) {
        memcpy(&segment, bytes + header.e_phoff + i * sizeof(segment), sizeof(segment));
        if (segment.p_type == PT_LOAD && segment.p_offset + segment.p_filesz > end)
            end = segment.p_offset + segment.p_filesz;
    }
    return end;
}

/* All loaded segments must be present: only the section headers at the end may be missing. */
START_TEST(test_cut_off_anywhere)
{
    uint8_t *map, *end = before_the_edge(bytes, length, &map, &(size_t){ 0 });
    struct kal_elf_summary summary, whole;
    size_t loaded = 0;

    ck_assert_int_eq(kal_elf_read(bytes, length, &whole), KAL_ELF_OK);
    for (size_t size = length; size > 0; size--) {
        enum kal_elf_result result;

        memmove(end - size, bytes, size);
        result = kal_elf_read(end - size, size, &summary);
        if (result == KAL_ELF_OK) {
            ck_assert_uint_eq(summary.majors, 1);
            ck_assert_uint_eq(loaded, 0); /* once truncated too far, always refused */
        } else {
            if (!loaded)
                loaded = size;
            ck_assert_int_eq(result, size < EI_NIDENT ? KAL_ELF_NOT_ELF : KAL_ELF_BROKEN);
        }
        if (size > 70000) /* sanitizer builds are large: test their middle in strides */
            size -= 61;
    }
    ck_assert_uint_lt(loaded, end_of_segments());
    ck_assert_uint_ge(loaded + (loaded > 70000 - 62 ? 62 : 1), end_of_segments());
}
END_TEST

START_TEST(test_damaged_anywhere)
{
    struct tc_rng rng = tc_rng(11);
    struct kal_elf_summary summary;
    uint8_t *map, *end = before_the_edge(bytes, length, &map, &(size_t){ 0 }),
                  *start = end - length;
    /* headers, dynamic segment and symbol tables are at the start of the file */
    size_t head = length < 4096 ? length : 4096;
    unsigned refused = 0;

    for (unsigned long round = tc_count(20000); round; round--) {
        for (unsigned i = 1 + (unsigned)tc_below(&rng, 4); i; i--) {
            size_t at = tc_below(&rng, tc_below(&rng, 2) ? head : length);

            start[at] = (uint8_t)(tc_below(&rng, 3) ? tc_rand(&rng) : 0xff);
        }
        refused += kal_elf_read(start, length, &summary) != KAL_ELF_OK;
        ck_assert_uint_le(summary.majors, KAL_ELF_MAJORS);
        ck_assert_uint_lt(strnlen(summary.foreign_name, sizeof(summary.foreign_name)),
                          sizeof(summary.foreign_name));
        memcpy(start, bytes, head);
        if (round % 64 == 0)
            memcpy(start, bytes, length);
    }
    ck_assert_uint_gt(refused, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("elf");
    TCase *tc = tc_case(suite, "elf", setup, teardown);

    tcase_set_timeout(tc, 30);
    tc_add_tests(tc, test_sound_provider, test_other_exports, test_header_says_no,
                 test_cut_off_anywhere, test_damaged_anywhere);
    return tc_main(suite);
}
