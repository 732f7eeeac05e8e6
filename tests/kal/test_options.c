/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of interfaces: those that every provider's interfaces have, their ranges, and what a
 * provider's table may declare. */
#include "kal_fixture.h"

#include "base/compiler.h"

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
    { "int", "", "-1", NULL, "a whole number" },
    { "string: 0..3", "", "four", NULL, "text, from 0 to 3 octets" },
    { "list: 1..3", "", "one four", NULL,
      "names separated by blanks or commas, from 1 to 3 octets each" },
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
    RI_OPTION_DEFAULT("connect_timeout", "7s"),
    { "depth", "int: 1..9", "7", "", "Its own." },
    RI_OPTION_DEFAULT("keepalive", "off"),
    { "mode", "enum: fast|safe", "safe", "", "Its own." },
};
#define OWN (sizeof(own) / sizeof(*own))

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
    ck_assert_str_eq(option.type, ours.type); /* kal sets the range */
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

static const struct ri_option each_type[] = {
    { "truth", "bool", "On", "", "" },
    { "int", "int", "18446744073709551615", "", "" },
    { "size", "size", "64k", "octets", "" },
    { "time", "time", "2s", "ms", "" },
    { "word", "enum: one|two|three", "TWO", "", "" },
    { "last", "enum: one|two|twothree", "twothree", "", "" },
    { "text", "string", "a text", "", "" },
    { "file", "path", "/a", "", "" },
    { "names", "list", "a,b", "", "" },
    { "shape", "shape", "of a newer minor", "", "" },
};

static const struct {
    const char *name;
    enum ri_option_kind kind;
    uint64_t number; /* RI_OPTION_TEXT: ignored */
    const char *text;
} typed[] = {
    { "truth", RI_OPTION_BOOL, 1, NULL },
    { "crc", RI_OPTION_BOOL, 1, NULL },
    { "markers", RI_OPTION_BOOL, 0, NULL },
    { "int", RI_OPTION_NUMBER, UINT64_MAX, NULL },
    { "size", RI_OPTION_NUMBER, 65536, NULL },
    { "time", RI_OPTION_NUMBER, 2000, NULL },
    { "connect_timeout", RI_OPTION_NUMBER, 30000, NULL },
    { "word", RI_OPTION_WORD, 1, NULL },
    { "last", RI_OPTION_WORD, 2, NULL },
    { "rtr", RI_OPTION_WORD, 0, NULL },
    { "text", RI_OPTION_TEXT, 0, "a text" },
    { "file", RI_OPTION_TEXT, 0, "/a" },
    { "names", RI_OPTION_TEXT, 0, "a b" },
    { "shape", RI_OPTION_TEXT, 0, "of a newer minor" },
};

/* Each option can be read as its own type only. */
START_TEST(provider_reads_values_by_type)
{
    struct kal_values *values = kal_values_of_interface(each_type, ARRAY_SIZE(each_type));

    ck_assert_ptr_nonnull(values);
    for (int kind = RI_OPTION_BOOL; kind <= RI_OPTION_TEXT; kind++) {
        union ri_option_value value = { .number = 0x5a5a5a5a5a5a5a5a };
        const char *wrong = "untouched";
        enum ri_status status = kal_values_read(values, typed[_i].name, (enum ri_option_kind)kind,
                                                &value, &wrong);

        if (kind != (int)typed[_i].kind) {
            ck_assert_int_eq(status, RI_ERR_INVALID_ARGUMENT);
            ck_assert_uint_eq(value.number, 0x5a5a5a5a5a5a5a5a);
            ck_assert_ptr_nonnull(strstr(wrong, "which it is not"));
            continue;
        }
        ck_assert_int_eq(status, RI_OK);
        ck_assert_ptr_null(wrong);
        if (kind == RI_OPTION_BOOL)
            ck_assert_int_eq(value.truth, typed[_i].number);
        else if (kind == RI_OPTION_NUMBER)
            ck_assert_uint_eq(value.number, typed[_i].number);
        else if (kind == RI_OPTION_WORD)
            ck_assert_uint_eq(value.word, typed[_i].number);
        else
            ck_assert_str_eq(value.text, typed[_i].text);
    }
    kal_values_destroy(values);
}
END_TEST

/* kal's own tables meet the rules for providers' tables. */
START_TEST(kals_own_tables_are_sound)
{
    char why[512] = "";

    ck_assert_msg(kal_provider_options_check(kal_interface_options, kal_interface_option_count, why,
                                             sizeof(why)),
                  "%s", why);
    ck_assert_msg(
        kal_provider_options_check(kal_ital_options, kal_ital_option_count, why, sizeof(why)), "%s",
        why);
    ck_assert(kal_provider_options_check(own, OWN, why, sizeof(why)));
    ck_assert(kal_provider_options_check(NULL, 0, why, sizeof(why)));
    for (size_t i = 0; i < kal_interface_option_count; i++) {
        const struct ri_option *option = &kal_interface_options[i];

        ck_assert(*option->text && option->unit);
        /* Readers do not check numbers: each has a range. */
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
    { { "depth", NULL, "1", "", "" },
      "its option depth has no type, and gives no other default to one of every interface" },
    { { "depth", "int: 1..9", "10", "", "" },
      "the default of its option depth is \"10\": allowed is a whole number, from 1 to 9" },
    { { "depth", "int", NULL, "", "" },
      "the default of its option depth is \"\": allowed is a whole number" },
    { RI_OPTION_DEFAULT("backlog", "0"),
      "the default of its option backlog is \"0\": allowed is a whole number, from 1 to 65535" },
    { RI_OPTION_DEFAULT("backlog", NULL),
      "the default of its option backlog is \"\": allowed is a whole number, from 1 to 65535" },
    { RI_OPTION_DEFAULT("bakclog", "7"),
      "its option bakclog has no type, and gives no other default to one of every interface" },
    { { "backlog", "int: 1..65535", "128", "", "" },
      "it declares option backlog, which every interface has; it may only give it another default "
      "(RI_OPTION_DEFAULT)" },
    { { "device", "string", "", "", "" },
      "it declares option device, by which a section chooses provider and device; it needs another "
      "name" },
    { { "provider", "bool", "yes", "", "" },
      "it declares option provider, by which a section chooses provider and device; it needs "
      "another name" },
    { { "fallback", "list: 1..5", "", "", "" },
      "it declares option fallback, by which a section chooses provider and device; it needs "
      "another name" },
};

/* One of its own twice, and with another default. */
START_TEST(option_that_stands_twice)
{
    static const struct ri_option twice[][3] = {
        { { "depth", "int", "1", "", "" },
          { "other", "int", "1", "", "" },
          { "depth", "bool", "no", "", "" } },
        { RI_OPTION_DEFAULT("backlog", "5"),
          { "other", "int", "1", "", "" },
          RI_OPTION_DEFAULT("backlog", "6") },
    };
    char why[512] = "", wanted[100];

    ck_assert(kal_provider_options_check(twice[_i], 2, why, sizeof(why)));
    ck_assert(!kal_provider_options_check(twice[_i], 3, why, sizeof(why)));
    snprintf(wanted, sizeof(wanted), "option %s stands in its option table twice",
             twice[_i][0].name);
    ck_assert_str_eq(why, wanted);
}
END_TEST

START_TEST(unsound_tables)
{
    char why[512] = "";

    ck_assert(!kal_provider_options_check(&unsound[_i].option, 1, why, sizeof(why)));
    ck_assert_str_eq(why, unsound[_i].why);
}
END_TEST

/* ---- in interface sections ---- */

/* Options that the table of vp_test does not declare, or declares as something else. */
START_TEST(provider_that_asks_for_what_it_did_not_declare_is_told_so)
{
    uint64_t number = 5;
    bool truth = true;
    uint32_t word = 5;
    const char *text = "untouched";
    struct kal_rnic *rnic;

    fixture_module("vp_test", NULL);
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "test", NULL, &rnic), RI_OK);
    ck_assert_int_eq(ri_option_number(&rnic->host, "dephth", &number), RI_ERR_INVALID_ARGUMENT);
    ck_assert_uint_eq(
        fixture_log_count("provider test asks for option dephth, which its table does not declare, "
                          "nor has every interface"),
        1);
    ck_assert_int_eq(ri_option_bool(&rnic->host, "depth", &truth), RI_ERR_INVALID_ARGUMENT);
    ck_assert_uint_eq(fixture_log_count("asks for option depth as a bool, which it is not"), 1);
    ck_assert_int_eq(ri_option_word(&rnic->host, "depth", &word), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(ri_option_text(&rnic->host, "mode", &text), RI_ERR_INVALID_ARGUMENT);
    ck_assert_uint_eq(fixture_log_count("asks for option"), 4);
    ck_assert(number == 5 && truth && word == 5 && !strcmp(text, "untouched"));
    ck_assert_int_eq(ri_option_number(&rnic->host, "depth", &number), RI_OK);
    ck_assert_uint_eq(number, 7);
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
}
END_TEST

/* vp_test's table has none of them. */
START_TEST(section_takes_options_that_the_providers_table_lacks)
{
    struct kal_rnic *rnic;
    uint64_t half_open = 0;
    bool markers = false;

    fixture_module("vp_test", NULL);
    fixture_conf("[interface a]\nprovider = test\nbacklog = 7\nmarkers = On\n");
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "a", NULL, &rnic), RI_OK);
    ck_assert_str_eq(kal_rnic_option(rnic, "backlog"), "7");
    ck_assert_int_eq(ri_option_bool(&rnic->host, "markers", &markers), RI_OK);
    ck_assert(markers);
    ck_assert_int_eq(ri_option_number(&rnic->host, "half_open", &half_open), RI_OK);
    ck_assert_uint_eq(half_open, 4096);
    ck_assert_uint_eq(kal_rnic_option_ns(rnic, "close_timeout"), UINT64_C(10000000000));
    ck_assert_uint_eq(fixture_log_count("warning"), 0);
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
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

    fixture_module("vp_test", NULL);
    snprintf(text, sizeof(text), "[interface a]\nprovider = test\n%s\n", refused[_i].line);
    fixture_conf(text);
    fixture_get();
    ck_assert_int_eq(kal_interface_list(kal, on_interface, (void *)refused[_i].reason), RI_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *tc = tc_case(suite, "tables", NULL, NULL);

    tc_add_rows(tc, range_is_enforced_and_named, ranges);
    tc_add_tests(tc, every_provider_has_kals_options,
                 a_provider_gives_kals_options_other_defaults_and_has_its_own, values_are_typed);
    tcase_add_loop_test(tc, provider_reads_values_by_type, 0, ARRAY_SIZE(typed));
    tcase_add_test(tc, kals_own_tables_are_sound);
    tcase_add_loop_test(tc, option_that_stands_twice, 0, 2);
    tc_add_rows(tc, unsound_tables, unsound);

    tc = tc_case(suite, "sections", fixture_setup, fixture_put);
    tc_add_tests(tc, section_takes_options_that_the_providers_table_lacks,
                 provider_that_asks_for_what_it_did_not_declare_is_told_so);
    tc_add_rows(tc, section_out_of_range_is_refused, refused);
    return tc_main(suite);
}
