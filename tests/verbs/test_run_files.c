/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ital-run reads: versions in ELF files, and the dynamic linker's cache. Images are made here
 * and lie at the end of their memory, so a sanitizer sees each octet that is read behind them.
 */
#include "tc.h"

#include "verbs/run/elf_file.h"
#include "verbs/run/library.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

/* --- ELF files --- */

/* Needs V_1 and, weakly, V_2 of libx; defines OWN_1 beside its name. */
struct image {
    ElfW(Ehdr) header;
    ElfW(Shdr) sections[3];
    struct {
        ElfW(Verneed) of;
        ElfW(Vernaux) versions[2];
    } needs;
    struct {
        ElfW(Verdef) def;
        ElfW(Verdaux) name;
    } definitions[2];
    char strings[24];
};

enum { STRINGS = 0, NEEDS = 1, DEFINITIONS = 2 };
enum { LIBX = 1, V_1 = 6, V_2 = 10, OWN = 14, OWN_1 = 18 };

static void fill_header(struct image *image)
{
    static const unsigned char ident[] = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3 };

    memcpy(image->header.e_ident, ident, sizeof(ident));
    image->header.e_machine = EM_X86_64;
    image->header.e_shoff = offsetof(struct image, sections);
    image->header.e_shnum = 3;
    image->sections[STRINGS].sh_type = SHT_STRTAB;
    image->sections[STRINGS].sh_offset = offsetof(struct image, strings);
    image->sections[STRINGS].sh_size = sizeof(image->strings);
    image->sections[NEEDS].sh_type = SHT_GNU_verneed;
    image->sections[NEEDS].sh_offset = offsetof(struct image, needs);
    image->sections[NEEDS].sh_size = sizeof(image->needs);
    image->sections[NEEDS].sh_info = 1;
    image->sections[DEFINITIONS].sh_type = SHT_GNU_verdef;
    image->sections[DEFINITIONS].sh_offset = offsetof(struct image, definitions);
    image->sections[DEFINITIONS].sh_size = sizeof(image->definitions);
    image->sections[DEFINITIONS].sh_info = 2;
}

static struct image new_image(void)
{
    struct image image = { .strings = "\0libx\0V_1\0V_2\0own\0OWN_1" };

    fill_header(&image);
    image.needs.of.vn_cnt = 2;
    image.needs.of.vn_file = LIBX;
    image.needs.of.vn_aux = sizeof(image.needs.of);
    image.needs.versions[0].vna_name = V_1;
    image.needs.versions[0].vna_next = sizeof(image.needs.versions[0]);
    image.needs.versions[1].vna_name = V_2;
    image.needs.versions[1].vna_flags = VER_FLG_WEAK;
    for (unsigned i = 0; i < 2; i++)
        image.definitions[i].def.vd_aux = sizeof(image.definitions[i].def);
    image.definitions[0].def.vd_flags = VER_FLG_BASE;
    image.definitions[0].def.vd_next = sizeof(image.definitions[0]);
    image.definitions[0].name.vda_name = OWN;
    image.definitions[1].name.vda_name = OWN_1;
    return image;
}

/* What was told, as text. */
static char told[256];

static bool tell_need(const struct elf_need *need, void *arg)
{
    unsigned *left = arg;

    sprintf(told + strlen(told), "%s of %s%s;", need->version, need->library,
            need->weak ? " weakly" : "");
    return --*left > 0;
}

static bool tell_version(const char *version, void *arg)
{
    unsigned *left = arg;

    sprintf(told + strlen(told), "%s;", version);
    return --*left > 0;
}

static const char *needs_of(const void *octets, size_t size, unsigned most)
{
    struct elf_file file = { .octets = octets, .size = size };

    *told = '\0';
    elf_needs(&file, tell_need, &most);
    return told;
}

static const char *definitions_of(const void *octets, size_t size, unsigned most)
{
    struct elf_file file = { .octets = octets, .size = size };

    *told = '\0';
    elf_definitions(&file, tell_version, &most);
    return told;
}

START_TEST(needed_versions_are_told_with_their_library)
{
    struct image image = new_image();

    ck_assert_str_eq(needs_of(&image, sizeof(image), 9), "V_1 of libx;V_2 of libx weakly;");
    ck_assert_str_eq(needs_of(&image, sizeof(image), 1), "V_1 of libx;");
}
END_TEST

START_TEST(defined_versions_are_told_without_the_name_of_the_file)
{
    struct image image = new_image();

    ck_assert_str_eq(definitions_of(&image, sizeof(image), 9), "OWN_1;");
}
END_TEST

START_TEST(numbers_that_are_too_large_end_the_list)
{
    struct image image = new_image();

    image.needs.of.vn_cnt = UINT16_MAX;
    image.sections[NEEDS].sh_info = UINT32_MAX;
    image.needs.versions[1].vna_next = UINT32_MAX;
    image.needs.of.vn_next = UINT32_MAX;
    ck_assert_str_eq(needs_of(&image, sizeof(image), 9), "V_1 of libx;V_2 of libx weakly;");
    image.needs.versions[0].vna_name = UINT32_MAX;
    ck_assert_str_eq(needs_of(&image, sizeof(image), 9), "V_2 of libx weakly;");
    image.sections[NEEDS].sh_offset = (ElfW(Off)) - 8;
    ck_assert_str_eq(needs_of(&image, sizeof(image), 9), "");
    image.sections[DEFINITIONS].sh_link = UINT32_MAX;
    ck_assert_str_eq(definitions_of(&image, sizeof(image), 9), "");
}
END_TEST

START_TEST(a_file_that_is_cut_off_has_fewer_entries)
{
    static const char all[] = "V_1 of libx;V_2 of libx weakly;";
    struct image image = new_image();

    for (size_t size = 0; size < sizeof(image); size++) {
        unsigned char *octets = malloc(size ? size : 1);

        memcpy(octets, &image, size);
        needs_of(octets, size, 9);
        ck_assert(!strncmp(all, told, strlen(told)));
        ck_assert_str_eq(definitions_of(octets, size, 9), "");
        free(octets);
    }
}
END_TEST

/* --- the cache --- */

struct cache {
    char magic[20];
    uint32_t entries, string_octets, flags, extension, unused[3];
    struct {
        uint32_t kind, name, path, system;
        uint64_t hwcap;
    } entry[3];
    char strings[24];
};

static struct cache new_cache(void)
{
    struct cache cache = { .magic = { 0 }, .entries = 3, .strings = "libx\0/hw/x\0/a/x\0/b/x" };
    static const uint32_t paths[] = { 5, 11, 16 };

    memcpy(cache.magic, "glibc-ld.so.cache1.1", sizeof(cache.magic));
    for (unsigned i = 0; i < 3; i++) {
        cache.entry[i].name = offsetof(struct cache, strings);
        cache.entry[i].path = offsetof(struct cache, strings) + paths[i];
    }
    cache.entry[0].hwcap = 1;
    return cache;
}

static const char *cached(const struct cache *cache, const char *name, unsigned index)
{
    return library_cached((const unsigned char *)cache, sizeof(*cache), name, index);
}

START_TEST(the_cache_has_the_paths_of_a_name_in_order)
{
    struct cache cache = new_cache();

    ck_assert_str_eq(cached(&cache, "libx", 0), "/a/x"); /* the first is for other processors */
    ck_assert_str_eq(cached(&cache, "libx", 1), "/b/x");
    ck_assert_ptr_null(cached(&cache, "libx", 2));
    ck_assert_ptr_null(cached(&cache, "lib", 0));
}
END_TEST

START_TEST(a_broken_cache_has_fewer_entries)
{
    struct cache cache = new_cache();

    cache.entry[1].name = UINT32_MAX;
    cache.entries = UINT32_MAX;
    ck_assert_str_eq(cached(&cache, "libx", 0), "/b/x");
    cache.entry[2].path = sizeof(cache);
    ck_assert_ptr_null(cached(&cache, "libx", 0));
    cache = new_cache();
    cache.magic[19] = '2';
    ck_assert_ptr_null(cached(&cache, "libx", 0));
}
END_TEST

START_TEST(a_cache_that_is_cut_off_is_not_read_past_its_end)
{
    struct cache cache = new_cache();

    for (size_t size = 0; size < offsetof(struct cache, strings) + 5; size++) {
        unsigned char *octets = malloc(size ? size : 1);

        memcpy(octets, &cache, size);
        ck_assert_ptr_null(library_cached(octets, size, "libx", 0));
        free(octets);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("files that ital-run reads");
    TCase *tc = tc_case(suite, "versions", NULL, NULL);

    tc_add_tests(tc, needed_versions_are_told_with_their_library,
                 defined_versions_are_told_without_the_name_of_the_file,
                 numbers_that_are_too_large_end_the_list, a_file_that_is_cut_off_has_fewer_entries);
    tc = tc_case(suite, "cache", NULL, NULL);
    tc_add_tests(tc, the_cache_has_the_paths_of_a_name_in_order, a_broken_cache_has_fewer_entries,
                 a_cache_that_is_cut_off_is_not_read_past_its_end);
    return tc_main(suite);
}
