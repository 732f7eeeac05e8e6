/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of interfaces: those that every provider's have, their ranges, and
 * what a provider's table may say. */
#include "kal_fixture.h"

#include <stdio.h>
#include <string.h>

/* ---- ranges ---- */

static const struct {
    const char *type, *unit, *value, *normal, *allowed; /* normal NULL: refused */
} ranges[] = {
    { "int: 1..2", "", "1", "1", "a whole number, from 1 to 2" },
    { "int: 1..2", "", "2", "2", "a whole number, from 1 to 2" },
    { "int: 1..2", "", "0", NULL, "a whole number, from 1 to 2" },
    { "int: 1..2", "", "3", NULL, "a whole number, from 1 to 2" },
    { "int: 1..2", "", "-1", NULL, "a whole number, from 1 to 2" },
    { "int: 0..", "", "-1", NULL, "a whole number, at least 0" },
    { "int: 0..", "", "9223372036854775807", "9223372036854775807", "a whole number, at least 0" },
    { "int", "", "-1", "-1", "a whole number" },
    { "size: 4096..1048576", "octets", "4k", "4096",
      "a number of octets, or one followed by k, m, g or t, from 4096 to 1048576" },
    { "size: 4096..1048576", "octets", "1m", "1048576",
      "a number of octets, or one followed by k, m, g or t, from 4096 to 1048576" },
    { "size: 4096..1048576", "octets", "2m", NULL,
      "a number of octets, or one followed by k, m, g or t, from 4096 to 1048576" },
    { "size: 4096..1048576", "octets", "4095", NULL,
      "a number of octets, or one followed by k, m, g or t, from 4096 to 1048576" },
    { "time: 1..86400000", "ms", "24h", "86400000",
      "a whole number of the option's unit, or one followed by us, ms, s, min or h, from 1 to "
      "86400000 ms" },
    { "time: 1..86400000", "ms", "25h", NULL,
      "a whole number of the option's unit, or one followed by us, ms, s, min or h, from 1 to "
      "86400000 ms" },
    { "time: 1..86400000", "ms", "0", NULL,
      "a whole number of the option's unit, or one followed by us, ms, s, min or h, from 1 to "
      "86400000 ms" },
    { "time: 0..", "s", "0s", "0",
      "a whole number of the option's unit, or one followed by us, ms, s, min or h, at least 0 s" },
};

START_TEST(range_is_enforced_and_named)
{
    struct ri_option option = { .name = "x", .type = ranges[_i].type, .unit = ranges[_i].unit };
    char normal[KAL_VALUE_MAX] = "untouched", allowed[KAL_ALLOWED_MAX];

    ck_assert_int_eq(kal_option_normal(&option, ranges[_i].value, normal, allowed),
                     ranges[_i].normal != NULL);
    ck_assert_str_eq(normal, ranges[_i].normal ? ranges[_i].normal : "untouched");
    ck_assert_str_eq(allowed, ranges[_i].allowed);
}
END_TEST

/* ---- the table of an interface ---- */

static const struct ri_option own[] = {
    { "connect_timeout", "time", "7s", "ms", "Its own words." },
    { "depth", "int: 1..9", "7", "", "Its own." },
    { "keepalive", "bool", "off", "", "Its own words." },
    { "mode", "enum: fast|safe", "safe", "", "Its own." },
};
#define OWN (sizeof own / sizeof *own)

START_TEST(every_provider_has_kals_options)
{
    struct ri_option option;
    size_t count = 0;

    while (kal_interface_option(NULL, 0, count, &option))
        count++;
    ck_assert_uint_eq(count, kal_interface_option_count);
    ck_assert(kal_interface_option_find(NULL, 0, "backlog", &option));
    ck_assert_str_eq(option.value, "128");
    ck_assert(!kal_interface_option_find(NULL, 0, "depth", &option));
}
END_TEST

START_TEST(a_provider_gives_kals_options_other_defaults_and_has_its_own)
{
    const size_t all = kal_interface_option_count + 2;
    struct ri_option option, ours;
    size_t count = 0, same;

    for (; kal_interface_option(own, OWN, count, &option); count++) {
        same = 0;
        for (size_t i = 0; kal_interface_option(own, OWN, i, &ours); i++)
            same += !strcmp(ours.name, option.name);
        ck_assert_msg(same == 1, "%s", option.name);
    }
    ck_assert_uint_eq(count, all);
    ck_assert(kal_interface_option(own, OWN, all - 2, &option));
    ck_assert_str_eq(option.name, "depth");
    ck_assert(kal_interface_option(own, OWN, all - 1, &option));
    ck_assert_str_eq(option.name, "mode");
    ck_assert(kal_interface_option_find(own, OWN, "connect_timeout", &option));
    ck_assert(kal_interface_option_find(NULL, 0, "connect_timeout", &ours));
    ck_assert_str_eq(option.value, "7s");
    ck_assert_str_eq(ours.value, "30000");
    ck_assert_str_eq(option.type, ours.type); /* the range is kal's */
    ck_assert_str_eq(option.text, ours.text);
}
END_TEST

START_TEST(values_are_typed)
{
    struct kal_values *values = kal_values_of_interface(own, OWN);

    ck_assert_ptr_nonnull(values);
    ck_assert_str_eq(kal_values_get(values, "connect_timeout"), "7000");
    ck_assert_uint_eq(kal_values_ns(values, "connect_timeout"), UINT64_C(7000000000));
    ck_assert_uint_eq(kal_values_ns(values, "keepalive_idle"), UINT64_C(60000000000));
    ck_assert_uint_eq(kal_values_number(values, "keepalive_idle"), 60);
    ck_assert_uint_eq(kal_values_number(values, "backlog"), 128);
    ck_assert(!kal_values_bool(values, "keepalive"));
    ck_assert(kal_values_bool(values, "crc"));
    ck_assert(kal_values_set(values, "crc", "no"));
    ck_assert(!kal_values_bool(values, "crc"));
    ck_assert_str_eq(kal_values_get(values, "mode"), "safe");
    ck_assert_ptr_null(kal_values_get(values, "colour"));
    kal_values_destroy(values);
}
END_TEST

/* kal's own tables are in the form that they ask of others. */
START_TEST(kals_own_tables_are_sound)
{
    char why[512] = "";

    ck_assert_msg(kal_provider_options_check(kal_interface_options, kal_interface_option_count, why,
                                             sizeof why),
                  "%s", why);
    ck_assert_msg(
        kal_provider_options_check(kal_ital_options, kal_ital_option_count, why, sizeof why), "%s",
        why);
    ck_assert(kal_provider_options_check(own, OWN, why, sizeof why));
    ck_assert(kal_provider_options_check(NULL, 0, why, sizeof why));
    for (size_t i = 0; i < kal_interface_option_count; i++) {
        const struct ri_option *option = &kal_interface_options[i];

        ck_assert(*option->text && option->unit);
        /* Readers take numbers as they are: each has a range. */
        if (!strncmp(option->type, "int", 3) || !strncmp(option->type, "time", 4))
            ck_assert_msg(strchr(option->type, ':') != NULL, "%s", option->name);
    }
}
END_TEST

static const struct {
    struct ri_option option;
    const char *why;
} unsound[] = {
    { { NULL, "int", "1", "", "" }, "entry 0 of its option table has no name" },
    { { "depth", NULL, "1", "", "" }, "entry 0 of its option table has no type" },
    { { "depth", "int: 1..9", "10", "", "" },
      "the default of its option depth is \"10\": allowed is a whole number, from 1 to 9" },
    { { "depth", "int", NULL, "", "" },
      "the default of its option depth is \"\": allowed is a whole number" },
    { { "backlog", "int", "0", "", "" },
      "the default of its option backlog is \"0\": allowed is a whole number, from 1 to 65535" },
    { { "backlog", "size", "1", "", "" },
      "option backlog is one of every interface, of type int: 1..65535 and unit \"\"; its own "
      "table may only give it another default" },
    { { "connect_timeout", "time", "10", "s", "" },
      "option connect_timeout is one of every interface, of type time: 1..86400000 and unit "
      "\"ms\"; its own table may only give it another default" },
    { { "crc", "bool", "maybe", NULL, "" },
      "the default of its option crc is \"maybe\": allowed is yes or no" },
};

START_TEST(unsound_tables)
{
    char why[512] = "";

    ck_assert(!kal_provider_options_check(&unsound[_i].option, 1, why, sizeof why));
    ck_assert_str_eq(why, unsound[_i].why);
}
END_TEST

/* ---- in interface sections ---- */

/* vp_test's table has none of them. */
START_TEST(section_takes_options_that_the_providers_table_lacks)
{
    struct kal_rnic *rnic;
    struct kal *kal;

    fixture_module("vp_test", NULL);
    fixture_conf("[interface a]\nprovider = test\nbacklog = 7\nmarkers = On\n");
    kal = fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "a", NULL, &rnic), KAL_OK);
    ck_assert_str_eq(kal_rnic_option(rnic, "backlog"), "7");
    ck_assert_str_eq(rnic->host.option(&rnic->host, "markers"), "yes");
    ck_assert_str_eq(rnic->host.option(&rnic->host, "half_open"), "4096");
    ck_assert_uint_eq(kal_rnic_option_ns(rnic, "close_timeout"), UINT64_C(10000000000));
    ck_assert_uint_eq(fixture_log_count("warning"), 0);
    ck_assert_int_eq(kal_rnic_close(rnic, false), KAL_OK);
    kal_put(kal);
}
END_TEST

static const struct {
    const char *line, *reason;
} refused[] = {
    { "backlog = 0", ":3: backlog = \"0\": allowed is a whole number, from 1 to 65535" },
    { "mpa_revision = 3", ":3: mpa_revision = \"3\": allowed is a whole number, from 1 to 2" },
    { "connect_timeout = 2000h",
      ":3: connect_timeout = \"2000h\": allowed is a whole number of the option's unit, or one "
      "followed by us, ms, s, min or h, from 1 to 86400000 ms" },
    { "close_timeout = 0", "from 1 to 86400000 ms" },
    { "keepalive_count = 128", "from 1 to 127" },
    { "keepalive = 2", ":3: keepalive = \"2\": allowed is yes or no" },
    { "rtr = Read1", ":3: rtr = \"Read1\": allowed is write|read|none" },
};

static void on_interface(const struct kal_interface_info *info, void *arg)
{
    const char *wanted = arg;

    if (strcmp(info->name, "a"))
        return;
    ck_assert(!info->usable);
    ck_assert_msg(strstr(info->reason, wanted) != NULL, "%s", info->reason);
}

START_TEST(section_out_of_range_is_refused)
{
    char text[200];
    struct kal *kal;

    fixture_module("vp_test", NULL);
    snprintf(text, sizeof text, "[interface a]\nprovider = test\n%s\n", refused[_i].line);
    fixture_conf(text);
    kal = fixture_get();
    ck_assert_int_eq(kal_interface_list(kal, on_interface, (void *)refused[_i].reason), KAL_OK);
    kal_put(kal);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *tc = tcase_create("tables");

    tcase_add_loop_test(tc, range_is_enforced_and_named, 0, sizeof ranges / sizeof *ranges);
    tcase_add_test(tc, every_provider_has_kals_options);
    tcase_add_test(tc, a_provider_gives_kals_options_other_defaults_and_has_its_own);
    tcase_add_test(tc, values_are_typed);
    tcase_add_test(tc, kals_own_tables_are_sound);
    tcase_add_loop_test(tc, unsound_tables, 0, sizeof unsound / sizeof *unsound);
    suite_add_tcase(suite, tc);

    tc = tcase_create("sections");
    tcase_add_checked_fixture(tc, fixture_setup, NULL);
    tcase_add_test(tc, section_takes_options_that_the_providers_table_lacks);
    tcase_add_loop_test(tc, section_out_of_range_is_refused, 0, sizeof refused / sizeof *refused);
    suite_add_tcase(suite, tc);
    return tc_main(suite);
}
