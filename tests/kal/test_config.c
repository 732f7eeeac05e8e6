/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration file: types, messages, environment, writing the file out. */
#include "kal_fixture.h"

#include <sys/stat.h>
#include <utlist.h>

/* ---- values ---- */

static const struct {
    const char *type, *unit, *value, *normal; /* normal NULL: refused */
} values[] = {
    { "bool", "", "yes", "yes" },
    { "bool", "", "On", "yes" },
    { "bool", "", "TRUE", "yes" },
    { "bool", "", "1", "yes" },
    { "bool", "", "off", "no" },
    { "bool", "", "0", "no" },
    { "bool", "", "2", NULL },
    { "bool", "", "", NULL },
    { "int", "", "42", "42" },
    { "int", "", "-3", NULL },
    { "int", "", "+3", NULL },
    { "int", "", "007", "7" },
    { "int", "", "4.2", NULL },
    { "int", "", "4 2", NULL },
    { "int", "", "0x10", NULL },
    { "int", "", "", NULL },
    { "int", "", "18446744073709551615", "18446744073709551615" },
    { "int", "", "18446744073709551616", NULL },
    { "size", "octets", "512", "512" },
    { "size", "octets", "64k", "65536" },
    { "size", "octets", "64 KiB", "65536" },
    { "size", "octets", "3M", "3145728" },
    { "size", "octets", "1g", "1073741824" },
    { "size", "octets", "2t", "2199023255552" },
    { "size", "octets", "17179869183g", "18446744072635809792" },
    { "size", "octets", "17179869184g", NULL },
    { "size", "octets", "-1", NULL },
    { "size", "octets", "1x", NULL },
    { "size", "octets", "1kb", NULL },
    { "size", "octets", "k", NULL },
    { "time", "ms", "250", "250" },
    { "time", "ms", "10s", "10000" },
    { "time", "ms", "10 s", "10000" },
    { "time", "ms", "2min", "120000" },
    { "time", "ms", "1h", "3600000" },
    { "time", "ms", "3000us", "3" },
    { "time", "ms", "1500us", NULL },
    { "time", "us", "1ms", "1000" },
    { "time", "us", "20", "20" },
    { "time", "ms", "soon", NULL },
    { "time", "ms", "-1", NULL },
    { "time", "ms", "1 fortnight", NULL },
    { "time", "", "5", "5" },
    { "time", "", "5s", NULL },
    { "time", "ms", "18446744073709551615h", NULL },
    { "string: 0..3", "", "", "" },
    { "string: 0..3", "", "abc", "abc" },
    { "string: 0..3", "", "abcd", NULL },
    { "path: 1..", "", "", NULL },
    { "list", "", "", "" },
    { "list", "", " a ,b\tc, ", "a b c" },
    { "list: 1..3", "", "abc,def", "abc def" },
    { "list: 1..3", "", "a abcd", NULL },
    { "shape: 1..2", "", "of a newer minor", "of a newer minor" },
    { "enum: fast|safe", "", "fast", "fast" },
    { "enum: fast|safe", "", "SAFE", "safe" },
    { "enum: fast|safe", "", "saf", NULL },
    { "enum: fast|safe", "", "fast|safe", NULL },
    { "enum: fast|safe", "", "", NULL },
    { "path", "", "/a b", "/a b" },
    { "string", "", "anything = at; all", "anything = at; all" },
    { "string", "", "", "" },
    { "colour", "", "of a newer minor", "of a newer minor" },
};

START_TEST(test_value)
{
    struct ri_option option = { .name = "x", .type = values[_i].type, .unit = values[_i].unit };
    char normal[KAL_VALUE_MAX] = "untouched", allowed[KAL_ALLOWED_MAX] = "";

    ck_assert_int_eq(kal_option_normal(&option, values[_i].value, normal, allowed),
                     values[_i].normal != NULL);
    ck_assert_str_ne(allowed, "");
    if (values[_i].normal)
        ck_assert_str_eq(normal, values[_i].normal);
    else
        ck_assert_str_eq(normal, "untouched");
}
END_TEST

START_TEST(test_value_of_any_length)
{
    struct ri_option option = { .name = "x", .type = "string" };
    char normal[KAL_VALUE_MAX], allowed[KAL_ALLOWED_MAX], value[KAL_VALUE_MAX + 1];

    memset(value, 'a', sizeof(value));
    value[KAL_VALUE_MAX] = '\0';
    ck_assert(!kal_option_normal(&option, value, normal, allowed));
    value[KAL_VALUE_MAX - 1] = '\0';
    ck_assert(kal_option_normal(&option, value, normal, allowed));
    ck_assert_str_eq(normal, value);
}
END_TEST

/* ---- files that cannot be used: one line each, with the line's number ---- */

static const struct {
    const char *text, *message;
} broken[] = {
    { "spin = 20\n", ":1: \"spin\" stands before the first section" },
    { "\n[ital\n", ":2: the section header has no closing bracket" },
    { "[ital]\nspin\n", ":2: \"spin\" is no \"name = value\"" },
    { "[ital]\n\n; comment\n  = 5\n", ":4: \"= 5\" is no \"name = value\"" },
    { "[ital]\nspin = 5\n\tlog = loud\n", ":3: log = \"loud\": allowed is" },
    { "[ital]\nspin = soon\n", ":2: spin = \"soon\": allowed is a whole number" },
    { "[ital]\nask_timeout = 9\n", "or h, from 10 to 86400000 ms" },
    { "[ital]\nspin = 2min\n", "or h, from 0 to 60000000 us" },
    { "[ital]\nspin = 5\nspin = -5\n", ":3: spin = \"-5\": allowed is" },
    { "[ital]\ndefault_interfaces = perhaps\n",
      ":2: default_interfaces = \"perhaps\": allowed is yes or no" },
    { "[ital]\nlog = loud\n", ":2: log = \"loud\": allowed is error, warning, info or debug" },
    { "[ital]\nlog = info:\n", ":2: log = \"info:\": allowed is stderr, syslog or a file name" },
    { "[quota]\nmax_qp = many\n", ":2: max_qp = \"many\": allowed is a whole number" },
    { "[quota]\nmax_qp = -1\n", ":2: max_qp = \"-1\": allowed is a whole number" },
    { "[quota]\nmax_pinned = 1 mile\n",
      ":2: max_pinned = \"1 mile\": allowed is a number of octets" },
    { "[policy]\nrule1 = permit any\n",
      ":2: rule1 = \"permit any\": a rule begins with allow or deny" },
    { "[policy]\nrule1 = deny any\nrule1 = allow any\n", ":2 already; give it another number" },
    { "[policy]\nrule1 = deny any\nrule1 = allow any\n", ":3: \"rule1\" was given in " },
    { "[policy]\nruel1 = deny any\n", ":2: \"ruel1\": section [policy] holds rule1, rule2" },
    { "[policy]\nrule = deny any\n", ":2: \"rule\": section [policy] holds" },
    { "[interface]\nprovider = test\n", ":1: [interface] needs a name" },
    { "[interface 0123456789012345678901234567890123456789]\n",
      ":1: the section's name is longer than 48 octets" },
    { "[ital]\nprovider_path = /0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/"
      "0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/"
      "0123456789/0123456789/0123456789\n",
      ":2: the line is longer than" },
};

START_TEST(test_broken_file)
{
    fixture_conf(broken[_i].text);
    ck_assert_int_eq(kal_get(&fake_upper, &kal), ITAL_ERR_CONFIGURATION);
    ck_assert_ptr_null(kal);
    /* The log is closed again, its lines remain. */
    ck_assert_msg(strstr(fixture_log(), broken[_i].message) != NULL, "wanted %s, log is:\n%s",
                  broken[_i].message, fixture_log());
    ck_assert_uint_eq(fixture_log_count(""), 1);
    ck_assert_uint_eq(fixture_log_count("ital: error: "), 1);
    ck_assert_uint_eq(fixture_log_count(fixture_conf_path()), 1);
}
END_TEST

START_TEST(test_no_text_file)
{
    fixture_file("conf", "[ital]\nspin\0= 5\n", 16);
    ck_assert_int_eq(kal_get(&fake_upper, &kal), ITAL_ERR_CONFIGURATION);
    ck_assert_uint_eq(fixture_log_count(":2: a NUL octet"), 1);
}
END_TEST

START_TEST(test_file_that_was_asked_for_must_be_there)
{
    char path[4300];

    snprintf(path, sizeof(path), "%s/none", fixture_folder());
    setenv("ITAL_CONF", path, 1);
    ck_assert_int_eq(kal_get(&fake_upper, &kal), ITAL_ERR_CONFIGURATION);
    ck_assert_uint_eq(fixture_log_count("cannot be opened"), 1);
    setenv("ITAL_CONF", fixture_folder(), 1);
    ck_assert_int_eq(kal_get(&fake_upper, &kal), ITAL_ERR_CONFIGURATION);
    ck_assert_uint_eq(fixture_log_count("is not a file"), 1);
}
END_TEST

/* ---- files that can be used ---- */

START_TEST(test_values_are_read)
{
    const struct kal_interface_section *section;

    fixture_conf("\xef\xbb\xbf# comment\n[ital]\r\n  spin = 1ms  ; comment\nprovider_path=/a:/b\n"
                 "[quota]\nmax_qp = 3\nmax_pinned: 1m\n"
                 "[policy]\nrule2 = deny listen\nrule1 = allow any\n"
                 "[interface one]\nprovider = test\n crc = no\n[interface two]\n"
                 "[ital]\ndefault_interfaces = no");
    fixture_get();
    ck_assert_str_eq(kal_config_value(kal, "spin"), "1000");
    ck_assert_str_eq(kal_config_value(kal, "provider_path"), "/a:/b");
    ck_assert_str_eq(kal_config_value(kal, "default_interfaces"), "no");
    ck_assert_ptr_null(kal_config_value(kal, "spni"));
    ck_assert_ptr_null(kal_config_value(kal, NULL));
    ck_assert_str_eq(kal_config_source(kal), fixture_conf_path());
    ck_assert_uint_eq(kal->config->quota[KAL_ACCOUNT_QP], 3);
    ck_assert_uint_eq(kal->config->quota[KAL_ACCOUNT_PINNED], 1 << 20);
    ck_assert_uint_eq(kal->config->quota[KAL_ACCOUNT_CQ], 0);
    ck_assert_str_eq(kal->config->rules->name, "rule2");
    ck_assert_str_eq(kal->config->rules->next->value, "allow any");
    section = kal->config->interfaces;
    ck_assert_str_eq(section->name, "one");
    ck_assert_uint_eq(section->line, 11);
    ck_assert_str_eq(kal_setting_find(section->settings, "provider")->value, "test");
    ck_assert_uint_eq(kal_setting_find(section->settings, "crc")->line, 13);
    ck_assert_str_eq(section->next->name, "two");
    ck_assert_ptr_null(section->next->settings);
    ck_assert_uint_eq(fixture_log_count("warning"), 0);
}
END_TEST

START_TEST(test_defaults)
{
    setenv("ITAL_CONF", "/dev/null", 1);
    fixture_get();
    ck_assert_str_eq(kal_config_value(kal, "spin"), "20");
    ck_assert_str_eq(kal_config_value(kal, "default_interfaces"), "yes");
    ck_assert_str_eq(kal_config_value(kal, "provider_path"), "");
}
END_TEST

static const struct {
    const char *text, *message;
} unknown[] = {
    { "[ital]\nspni = 5\n",
      ":2: unknown option of [ital] \"spni\" is ignored; did you mean \"spin\"?" },
    { "[ital]\nzzzzzzzz = 5\n", ":2: unknown option of [ital] \"zzzzzzzz\" is ignored\n" },
    { "[quota]\nmax_qps = 5\n", "did you mean \"max_qp\"?" },
    { "[itl]\nspin = 5\n", ":1: unknown section \"itl\" is ignored; did you mean \"ital\"?" },
    { "[Policy]\nrule1 = deny any\n", "did you mean \"policy\"?" },
    { "[intreface x]\nprovider = y\n", "did you mean \"interface\"?" },
    { "[ital]\nspin = 5\nspin = 6\n",
      ":3: \"spin\" was given in line 2 already; this line counts" },
    { "[interface a]\ncrc = no\ncrc = yes\n", ":3: \"crc\" was given in line 2 already" },
};

START_TEST(test_unknown_is_warned_about)
{
    fixture_conf(unknown[_i].text);
    fixture_get();
    ck_assert_msg(strstr(fixture_log(), unknown[_i].message) != NULL, "%s", fixture_log());
    ck_assert_uint_eq(fixture_log_count("ital: warning: "), 1);
}
END_TEST

/* ---- environment ---- */

static char *no_environment(const char *name)
{
    (void)name;
    return NULL;
}

START_TEST(test_environment_wins)
{
    char log[4400], path[4300];
    struct stat about;

    fixture_conf("[ital]\nlog = error:/nowhere/at/all\nprovider_path = /first\n");
    fixture_get();
    ck_assert_str_eq(kal->config->env_provider_path, fixture_folder());
    ck_assert(kal_log_wanted(RI_LOG_DEBUG)); /* ITAL_LOG of the fixture */
    fixture_put();
    ck_assert(!kal_log_wanted(RI_LOG_INFO)); /* the default without kal */
    ck_assert(kal_log_wanted(RI_LOG_WARNING));

    snprintf(path, sizeof(path), "%s/other", fixture_folder());
    snprintf(log, sizeof(log), "[ital]\nlog = info:%s\n", path);
    fixture_conf(log);
    unsetenv("ITAL_LOG");
    fixture_get();
    ck_assert(kal_log_wanted(RI_LOG_INFO));
    ck_assert(!kal_log_wanted(RI_LOG_DEBUG));
    ck_assert_int_eq(stat(path, &about), 0);
}
END_TEST

START_TEST(test_bad_log_is_ignored)
{
    setenv("ITAL_LOG", "louder", 1);
    fixture_get(); /* the warning goes to stderr */
    ck_assert(!kal_log_wanted(RI_LOG_INFO));
}
END_TEST

/* As secure_getenv in a set-user-ID program: the environment is ignored. */
START_TEST(test_set_user_id_program)
{
    struct kal_config *config = NULL;

    ck_assert_int_eq(kal_config_load(no_environment, &config), RI_OK);
    ck_assert_ptr_null(config->env_provider_path);
    ck_assert(!config->source || strcmp(config->source, fixture_conf_path()));
    ck_assert(!kal_log_wanted(RI_LOG_DEBUG));
    kal_config_free(config);
}
END_TEST

START_TEST(test_unknown_variables)
{
    char *environment[] = {
        "ITAL_LOG=x",      "ITAL_TEST_ANYTHING=1", "HOME=/", "ITAL_PROVIDER_PAHT=/x",
        "ITAL_WHATSOEVER", "XITAL_LGO=1",          NULL
    };
    const char *why;

    ck_assert(kal_log_configure(getenv("ITAL_LOG"), &why));
    kal_config_check_environment(environment);
    ck_assert_uint_eq(fixture_log_count(""), 2);
    ck_assert_uint_eq(
        fixture_log_count("variable ITAL_PROVIDER_PAHT; did you mean ITAL_PROVIDER_PATH?"), 1);
    ck_assert_uint_eq(fixture_log_count("variable ITAL_WHATSOEVER; known are"), 1);
    kal_log_reset();
}
END_TEST

/* ---- the log ---- */

START_TEST(test_log_keeps_a_line_one_line)
{
    char text[2000];
    const char *why;

    ck_assert(kal_log_configure(getenv("ITAL_LOG"), &why));
    kal_log(RI_LOG_WARNING, "a\nb\x1b[31m %d", 5);
    ck_assert_ptr_nonnull(strstr(fixture_log(), "] ital: warning: a b [31m 5\n")); /* its end */
    ck_assert_uint_eq(fixture_log_count(""), 1);
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    kal_log(RI_LOG_DEBUG, "%s", text);
    ck_assert_uint_eq(fixture_log_count(""), 2);
    kal_log_reset();
}
END_TEST

/* ---- the file written out ---- */

struct lines {
    char text[65536];
    size_t length;
    bool uncomment;
};

static void on_line(const char *line, void *arg)
{
    struct lines *lines = arg;
    const char *equals = strchr(line, '=');

    ck_assert_ptr_null(strchr(line, '\n'));
    if (lines->uncomment && line[0] == '#' && (line[1] == '[' || (equals && line[1] != ' ')))
        line++;
    lines->length += (size_t)snprintf(lines->text + lines->length,
                                      sizeof(lines->text) - lines->length, "%s\n", line);
    ck_assert_uint_lt(lines->length, sizeof(lines->text));
}

/* _i 0: as written. 1: with every default in effect. */
START_TEST(test_written_file_reads_back)
{
    static struct lines lines;
    struct kal_interface *list;

    fixture_module("vp_test", NULL);
    lines.uncomment = _i == 1;
    fixture_get();
    kal_config_write(kal, on_line, &lines);
    fixture_put();
    ck_assert_ptr_nonnull(strstr(lines.text,
                                 "# How long a wait polls before it sleeps; 0: it sleeps at once. "
                                 "[time: 0..60000000; us]\n"));
    ck_assert_ptr_nonnull(strstr(lines.text, lines.uncomment ? "\nspin = 20\n" : "\n#spin = 20\n"));
    ck_assert_ptr_nonnull(strstr(lines.text, "close_timeout = 10s\n"));
    ck_assert_ptr_nonnull(strstr(lines.text, "max_pinned = 0\n"));

    fixture_conf(lines.text);
    fixture_get();
    ck_assert_int_eq(kal_interfaces_build(kal, &list), RI_OK);
    ck_assert_ptr_nonnull(list);
    for (struct kal_interface *i = list; i; i = i->next)
        ck_assert_msg(i->usable || strcmp(i->provider_name, "test"), "%s: %s", i->name, i->reason);
    kal_interfaces_free(list);
    ck_assert_msg(!strstr(fixture_log(), "warning") && !strstr(fixture_log(), "error"), "%s",
                  fixture_log());
    ck_assert_str_eq(kal_config_value(kal, "spin"), "20");
    ck_assert_ptr_eq(kal->config->rules == NULL ? NULL : kal, lines.uncomment ? kal : NULL);
}
END_TEST

static void on_option(const struct kal_option *option, void *arg)
{
    unsigned *count = arg;
    char normal[KAL_VALUE_MAX], allowed[KAL_ALLOWED_MAX];

    ck_assert_ptr_nonnull(option->option.name);
    ck_assert_ptr_nonnull(option->option.text);
    ck_assert_msg(kal_option_normal(&option->option, option->option.value, normal, allowed), "%s",
                  option->option.name);
    if (option->provider && !strcmp(option->provider, "test"))
        ck_assert_str_eq(option->section, "interface");
    ++*count;
}

START_TEST(test_every_option_is_listed)
{
    unsigned count = 0;

    fixture_module("vp_test", NULL);
    fixture_get();
    kal_option_list(kal, on_option, &count);
    ck_assert_uint_ge(count, kal_ital_option_count + KAL_ACCOUNT_KINDS + kal_policy_option_count +
                                 kal_section_option_count + kal_interface_option_count + 4);
}
END_TEST

/* The installed sample equals kal's output, except for the providers' part. */
START_TEST(test_installed_sample_is_usable)
{
    static struct lines lines;
    static char sample[65536];
    char path[4300], *end;
    FILE *file;

    snprintf(path, sizeof(path), "%s/etc/ital.conf.sample", tc_srcdir());
    setenv("ITAL_CONF", path, 1);
    fixture_get();
    ck_assert_uint_eq(fixture_log_count("warning"), 0);
    kal_config_write(kal, on_line, &lines);
    fixture_put();
    file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_gt(fread(sample, 1, sizeof(sample) - 1, file), 0);
    fclose(file);
    end = strstr(lines.text, "# An interface is");
    ck_assert_ptr_nonnull(end);
    ck_assert_mem_eq(sample, lines.text, (size_t)(end - lines.text));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tc = tc_case(suite, "values", NULL, NULL);

    tc_add_rows(tc, test_value, values);
    tcase_add_test(tc, test_value_of_any_length);

    tc = tc_case(suite, "file", fixture_setup, fixture_put);
    tc_add_rows(tc, test_broken_file, broken);
    tc_add_tests(tc, test_no_text_file, test_file_that_was_asked_for_must_be_there,
                 test_values_are_read, test_defaults);
    tc_add_rows(tc, test_unknown_is_warned_about, unknown);
    tc_add_tests(tc, test_environment_wins, test_bad_log_is_ignored, test_set_user_id_program,
                 test_unknown_variables, test_log_keeps_a_line_one_line);
    tcase_add_loop_test(tc, test_written_file_reads_back, 0, 2);
    tc_add_tests(tc, test_every_option_is_listed, test_installed_sample_is_usable);
    return tc_main(suite);
}
