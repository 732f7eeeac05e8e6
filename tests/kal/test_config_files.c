/* SPDX-License-Identifier: BSD-3-Clause */
/* The files beside the configuration file: which ones, in which order, and the messages about
 * them. */
#include "kal_fixture.h"

#include <sys/resource.h>

static void file(const char *name, const char *text)
{
    fixture_file(name, text, strlen(text));
}

START_TEST(files_are_read_in_the_order_of_their_names)
{
    const struct kal_interface_section *section;
    char sources[20000];

    fixture_conf(
        "[ital]\nspin = 1\nask_timeout = 100\n[policy]\nrule9 = deny listen\n"
        "[quota]\nmax_cq = 1\n[interface a]\nprovider = test\nbacklog = 1\nhalf_open = 1\n");
    fixture_folder_made("conf.d");
    file("conf.d/9.conf", "[ital]\nspin = 4\n[policy]\nrule2 = allow any\n");
    file("conf.d/10.conf", "[ital]\nspin = 2\n[interface a]\nbacklog = 2\n[quota]\nmax_qp = 2\n"
                           "[policy]\nrule1 = allow listen\n[interface b]\nprovider = test\n");
    file("conf.d/a b.conf", "\xef\xbb\xbf[ital]\nspin = 5\n[interface a]\nbacklog = 5\n");
    file("conf.d/B.conf", "[ital]\nspin = 3\n[quota]\nmax_cq = 3\n");
    file("conf.d/.hidden.conf", "[ital]\nspin = 100\n");
    file("conf.d/z.conf~", "[ital]\nspin = 100\n");
    file("conf.d/z.conf.bak", "[ital]\nspin = 100\n");
    file("conf.d/conf", "[ital]\nspin = 100\n");
    fixture_get();
    ck_assert_uint_eq(fixture_log_count("warning") + fixture_log_count("error"), 0);
    ck_assert_str_eq(kal_config_value(kal, "spin"), "5"); /* 10, 9, B, a b */
    ck_assert_str_eq(kal_config_value(kal, "ask_timeout"), "100");
    ck_assert_uint_eq(kal->config->quota[KAL_ACCOUNT_QP], 2);
    ck_assert_uint_eq(kal->config->quota[KAL_ACCOUNT_CQ], 3);
    ck_assert_str_eq(kal->config->rules->name, "rule9");
    ck_assert_str_eq(kal->config->rules->next->name, "rule1");
    ck_assert_str_eq(kal->config->rules->next->next->name, "rule2");
    section = kal->config->interfaces;
    ck_assert_str_eq(section->name, "a");
    ck_assert_str_eq(kal_setting_find(section->settings, "backlog")->value, "5");
    ck_assert_str_eq(kal_setting_find(section->settings, "half_open")->value, "1");
    ck_assert_str_eq(section->next->name, "b");
    snprintf(sources, sizeof(sources),
             "%1$s, %1$s.d/10.conf, %1$s.d/9.conf, %1$s.d/B.conf, %1$s.d/a b.conf",
             fixture_conf_path());
    ck_assert_str_eq(kal_config_source(kal), sources);
    ck_assert_uint_eq(fixture_log_count("\"backlog\" replaces what "), 2);
    ck_assert_uint_eq(fixture_log_count("\"spin\" replaces what "), 4);
    ck_assert_uint_eq(fixture_log_count("/9.conf:2: \"spin\" replaces what "), 1);
    ck_assert_uint_eq(fixture_log_count("\"max_cq\" replaces what "), 1);
    ck_assert_uint_eq(fixture_log_count("given in line"), 0);
}
END_TEST

/* The installed file has the folder conf.d, which is read even without the file. */
START_TEST(folder_of_the_installed_file)
{
    char path[4300];

    snprintf(path, sizeof(path), "%s/ital.conf", fixture_folder());
    kal_config_file_is = path;
    fixture_folder_made("ital.conf.d"); /* exists for ITAL_CONF only */
    file("ital.conf.d/1.conf", "[ital]\nspin = 100\n");
    fixture_folder_made("conf.d");
    file("conf.d/1.conf", "[ital]\nspin = 1\n");
    unsetenv("ITAL_CONF");
    fixture_get();
    ck_assert_str_eq(kal_config_value(kal, "spin"), "1");
    fixture_put();
    file("ital.conf", "[ital]\nspin = 2\nask_timeout = 200\n");
    fixture_get();
    ck_assert_str_eq(kal_config_value(kal, "spin"), "1");
    ck_assert_str_eq(kal_config_value(kal, "ask_timeout"), "200");
}
END_TEST

/* A missing folder, or another file of that name, counts as none. */
START_TEST(no_folder)
{
    fixture_get();
    ck_assert_str_eq(kal_config_source(kal), fixture_conf_path());
    fixture_put();
    file("conf.d", "");
    fixture_get();
    ck_assert_str_eq(kal_config_source(kal), fixture_conf_path());
}
END_TEST

static const struct {
    const char *conf, *first, *second, *message; /* "%s": the folder */
} broken[] = {
    { "", "[ital]\nspin = soon\n", "", "%s/1.conf:2: spin = \"soon\": allowed is" },
    { "", "", "spin = 5\n", "%s/2.conf:1: \"spin\" stands before the first section" },
    { "[ital]\n", "spin = 5\n", "", "%s/1.conf:1: \"spin\" stands before the first section" },
    { "", "[policy]\nrule1 = deny any\n", "\n[policy]\nrule1 = allow any\n",
      "%s/2.conf:3: \"rule1\" was given in %s/1.conf:2 already" },
    { "", "", "[policy]\n\nrule1 = permit any\n",
      "%s/2.conf:3: rule1 = \"permit any\": a rule begins with allow or deny" },
};

START_TEST(what_is_wrong_names_file_and_line)
{
    char folder[4300], message[9000];

    snprintf(folder, sizeof(folder), "%s.d", fixture_conf_path());
    fixture_conf(broken[_i].conf);
    fixture_folder_made("conf.d");
    file("conf.d/1.conf", broken[_i].first);
    file("conf.d/2.conf", broken[_i].second);
    ck_assert_int_eq(kal_get(&fake_upper, &kal), ITAL_ERR_CONFIGURATION);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(message, sizeof(message), broken[_i].message, folder, folder);
#pragma GCC diagnostic pop
    ck_assert_msg(fixture_log_count(message) == 1, "wanted %s, log is:\n%s", message,
                  fixture_log());
    ck_assert_uint_eq(fixture_log_count(""), 1);
}
END_TEST

START_TEST(what_cannot_be_read_is_told)
{
    char path[4300];

    snprintf(path, sizeof(path), "%s.d", fixture_conf_path());
    ck_assert_int_eq(symlink(path, path), 0);
    ck_assert_int_eq(kal_get(&fake_upper, &kal), ITAL_ERR_CONFIGURATION);
    ck_assert_uint_eq(fixture_log_count("conf.d: cannot be read: "), 1);
    ck_assert_int_eq(unlink(path), 0);
    fixture_folder_made("conf.d");
    fixture_folder_made("conf.d/1.conf");
    ck_assert_int_eq(kal_get(&fake_upper, &kal), ITAL_ERR_CONFIGURATION);
    ck_assert_uint_eq(fixture_log_count("conf.d/1.conf: is not a file"), 1);
    snprintf(path, sizeof(path), "%s/conf.d/0.conf", fixture_folder());
    ck_assert_int_eq(symlink("nowhere", path), 0);
    ck_assert_int_eq(kal_get(&fake_upper, &kal), ITAL_ERR_CONFIGURATION);
    ck_assert_uint_eq(fixture_log_count("conf.d/0.conf: cannot be opened"), 1);
    ck_assert_ptr_null(kal);
}
END_TEST

/* No descriptor left: the message says so, for the file and for the folder. */
START_TEST(want_of_descriptors_is_no_mistake_in_the_configuration)
{
    struct rlimit limit, none;
    enum ri_status file_status = RI_OK, folder_status;
    struct kal_config_file *more = NULL;
    FILE *opened;

    fixture_folder_made("conf.d");
    file("conf.d/1.conf", "");
    fixture_get(); /* the log is open already */
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){ .rlim_cur = 1, .rlim_max = limit.rlim_max };
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    opened = kal_config_open(fixture_conf_path(), true, "correct it", &file_status);
    folder_status = kal_config_more(fixture_conf_path(), true, &more);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_ptr_null(opened);
    ck_assert_ptr_null(more);
    ck_assert_int_eq(file_status, RI_ERR_NO_RESOURCES);
    ck_assert_int_eq(folder_status, RI_ERR_NO_RESOURCES);
    ck_assert_uint_eq(fixture_log_count("/conf: cannot be opened now: "), 1);
    ck_assert_uint_eq(fixture_log_count("/conf.d: cannot be read now: "), 1);
    ck_assert_uint_eq(fixture_log_count("raise the limit on open files (ulimit -n)"), 2);
}
END_TEST

static void on_interface(const struct kal_interface_info *info, void *arg)
{
    bool *seen = arg;

    if (strcmp(info->name, "a"))
        return;
    *seen = true;
    ck_assert(!info->usable);
    ck_assert_msg(strstr(info->reason, "/conf.d/1.conf:2: backlog = \"0\": allowed is") != NULL,
                  "%s", info->reason);
}

/* An option of an interface names the file of its last setting. */
START_TEST(options_of_interfaces_name_their_file)
{
    bool seen = false;

    fixture_module("vp_test", NULL);
    fixture_conf("[interface a]\nprovider = test\nbacklog = 5\n");
    fixture_folder_made("conf.d");
    file("conf.d/1.conf", "[interface a]\nbacklog = 0\n");
    file("conf.d/2.conf", "[interface a]\n\nbuckets = 0\n[interface a]\nbuckets = 1\n");
    fixture_get();
    ck_assert_int_eq(kal_interface_list(kal, on_interface, &seen), RI_OK);
    ck_assert(seen);
    ck_assert_uint_eq(
        fixture_log_count("/conf.d/2.conf:5: \"buckets\" was given in line 3 already"), 1);
    ck_assert_uint_eq(fixture_log_count("/conf.d/2.conf:5: unknown option \"buckets\" of"), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config_files");
    TCase *tc = tc_case(suite, "files", fixture_setup, fixture_put);

    tc_add_tests(tc, files_are_read_in_the_order_of_their_names, folder_of_the_installed_file,
                 no_folder);
    tc_add_rows(tc, what_is_wrong_names_file_and_line, broken);
    tc_add_tests(tc, what_cannot_be_read_is_told,
                 want_of_descriptors_is_no_mistake_in_the_configuration,
                 options_of_interfaces_name_their_file);
    return tc_main(suite);
}
