/* SPDX-License-Identifier: BSD-3-Clause */
/* Interfaces that replace another that cannot be used. */
#include "kal_fixture.h"
#include "kal/registry/load.h"

#include <sys/stat.h>

/* The end of each section: a device that vp_test does not have, and one that it has. */
#define ABSENT  "provider = test\ndevice = absent\n"
#define PRESENT "provider = test\ndevice = test\n"

static const struct {
    const char *conf;
    const char *option; /* option mode of the interface opened as "a"; NULL: none opens */
    enum ri_status status;
    const char *log; /* NULL: no warning and no error */
} rows[] = {
    { "[interface a]\n" PRESENT "fallback = b\n[interface b]\n" PRESENT "mode = fast\n", "safe",
      RI_OK, NULL },
    { "[interface a]\n" ABSENT "fallback = b\n[interface b]\n" PRESENT "mode = fast\n", "fast",
      RI_OK,
      "interface a is not usable: provider test has no device \"absent\"; correct device, or leave "
      "it out for the provider's default; b stands in for it\n" },
    /* The first usable one. */
    { "[interface a]\n" ABSENT "fallback = b, c d\n[interface b]\n" ABSENT "[interface c]\n" PRESENT
      "mode = fast\n[interface d]\n" PRESENT,
      "fast", RI_OK, "interface b, in the fallback of a, is not usable: provider test has no" },
    /* A missing provider, and an interface without a section. */
    { "[interface a]\nprovider = quantum\nfallback = nothing test\n", "safe", RI_OK,
      "there is no interface \"nothing\", which is in the fallback of a\n" },
    { "[interface a]\n" ABSENT "fallback = a\n", NULL, ITAL_ERR_NO_INTERFACE,
      "error: interface a is not usable: provider test has no device" },
    /* No chains, and so no loops. */
    { "[interface a]\n" ABSENT "fallback = b\n[interface b]\n" ABSENT
      "fallback = c\n[interface c]\n" PRESENT,
      NULL, ITAL_ERR_NO_INTERFACE, "interface b, in the fallback of a, is not usable" },
    { "[interface b]\n" ABSENT "fallback = c\n[interface c]\n" PRESENT "[interface a]\n" ABSENT
      "fallback = b\n",
      NULL, ITAL_ERR_NO_INTERFACE, "interface b, in the fallback of a, is not usable" },
    { "[interface a]\n" ABSENT "fallback = b\n[interface b]\n" ABSENT "fallback = a\n", NULL,
      ITAL_ERR_NO_INTERFACE, "interface b, in the fallback of a, is not usable" },
    /* A mistake in the configuration is an error: no fallback. */
    { "[interface a]\n" ABSENT "fallback = b\nmode = slow\n[interface b]\n" PRESENT, NULL,
      ITAL_ERR_CONFIGURATION, "mode = \"slow\": allowed is fast|safe" },
    { "[interface a]\nfallback = b\n[interface b]\n" PRESENT, NULL, ITAL_ERR_CONFIGURATION,
      "[interface a] names no provider" },
    /* A missing fallback, or an empty one. */
    { "[interface a]\n" ABSENT "fallback =\n[interface b]\n" PRESENT, NULL, ITAL_ERR_NO_INTERFACE,
      "error: interface a is not usable" },
};

struct found {
    char reason[400], provider[32];
    bool usable, seen;
};

static void on_interface(const struct kal_interface_info *info, void *arg)
{
    struct found *found = arg;

    if (strcmp(info->name, "a"))
        return;
    found->seen = true;
    found->usable = info->usable;
    snprintf(found->reason, sizeof(found->reason), "%s", info->reason ? info->reason : "");
    snprintf(found->provider, sizeof(found->provider), "%s", info->provider);
}

/* Checks what is opened, and that the list agrees. */
START_TEST(interface_with_a_fallback)
{
    struct found found = { .seen = false };
    struct kal_rnic *rnic = NULL;

    fixture_module("vp_test", NULL);
    fixture_conf(rows[_i].conf);
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "a", NULL, &rnic), rows[_i].status);
    if (rnic) {
        ck_assert_str_eq(kal_rnic_option(rnic, "mode"), rows[_i].option);
        ck_assert_str_eq(kal_rnic_provider(rnic), "test");
        ck_assert_str_eq(rnic->interface, "a");
        ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
    }
    if (rows[_i].log)
        ck_assert_msg(strstr(fixture_log(), rows[_i].log) != NULL, "%s", fixture_log());
    else
        ck_assert_uint_eq(fixture_log_count("warning") + fixture_log_count("error"), 0);
    ck_assert_int_eq(kal_interface_list(kal, on_interface, &found), RI_OK);
    ck_assert(found.seen);
    ck_assert_int_eq(found.usable, rows[_i].option != NULL);
    if (found.usable) {
        ck_assert_str_eq(found.provider, "test");
        ck_assert_int_eq(strstr(found.reason, " stands in for it: ") != NULL, rows[_i].log != NULL);
    }
}
END_TEST

/* A helper that appends an octet to the file "asked" at each start. */
static void count_helpers(void)
{
    static char counting[4300];
    char text[9000];

    snprintf(counting, sizeof(counting), "%s/ask", fixture_folder());
    snprintf(text, sizeof(text), "#!/bin/sh\nprintf . >>%s/asked\nexec %s \"$@\"\n",
             fixture_folder(), kal_asker_is);
    fixture_file("ask", text, strlen(text));
    ck_assert_int_eq(chmod(counting, 0700), 0);
    fixture_file("asked", "", 0);
    kal_asker_is = counting;
}

static long helpers_started(void)
{
    struct stat about;
    char path[4300];

    snprintf(path, sizeof(path), "%s/asked", fixture_folder());
    ck_assert_int_eq(stat(path, &about), 0);
    return (long)about.st_size;
}

/* A provider that no file is named after, and devices that only all providers together can resolve:
 * each file is asked once. */
START_TEST(fallback_costs_one_round_of_helpers)
{
    static const char *const starts[] = { "provider = quantum\n", ABSENT };
    struct kal_rnic *rnic = NULL;
    char text[200];

    count_helpers();
    fixture_module("vp_test", NULL);
    fixture_module("vp_plain", NULL);
    snprintf(text, sizeof(text), "[interface a]\n%sfallback = x y z, plain0, b\n[interface b]\n%s",
             starts[_i], "provider = quantum\n");
    fixture_conf(text);
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "a", NULL, &rnic), ITAL_ERR_NO_INTERFACE);
    ck_assert_uint_eq(fixture_log_count("which is in the fallback of a"), 4);
    ck_assert_int_eq(helpers_started(), 2); /* one for each file */
}
END_TEST

/* ---- behind the default interface ---- */

static const struct {
    const char *conf, *environment;
    const char *first; /* the first usable one */
    const char *log;   /* NULL: no warning */
} orders[] = {
    { "[ital]\nfallback = b\n", NULL, "a", NULL }, /* no default, no fallback */
    { "[ital]\ndefault = a\nfallback = b\n", NULL, "a", NULL },
    { "[ital]\ndefault = u\nfallback = b\n", NULL, "b",
      "the default interface \"u\" (default in section [ital]) is not usable: provider test" },
    { "[ital]\ndefault = none\nfallback = u, nothing, b, u2\n", NULL, "b",
      "the fallback interface \"nothing\" (fallback in section [ital]) does not exist" },
    { "[ital]\nfallback = b\n", "u", "b",
      "the default interface \"u\" (ITAL_INTERFACE) is not usable: provider test" },
    { "[ital]\ndefault = u\nfallback = u b u\n", NULL, "b", "the default interface \"u\"" },
    { "[ital]\ndefault = u\nfallback = u2\n", NULL, "a",
      "the fallback interface \"u2\" (fallback in section [ital]) is not usable" },
};

struct order {
    char first[32]; /* the usable one */
    char all[200];
};

static void on_ordered(const struct kal_interface_info *info, void *arg)
{
    struct order *order = arg;
    size_t length = strlen(order->all);

    snprintf(order->all + length, sizeof(order->all) - length, "%s ", info->name);
    if (!order->first[0] && info->usable)
        snprintf(order->first, sizeof(order->first), "%s", info->name);
}

START_TEST(fallback_of_the_default)
{
    char text[600];
    struct order order = { .first = "" };

    fixture_module("vp_test", NULL);
    snprintf(text, sizeof(text),
             "%s[interface u]\n" ABSENT "[interface u2]\n" ABSENT "[interface a]\n" PRESENT
             "[interface b]\n" PRESENT,
             orders[_i].conf);
    fixture_conf(text);
    if (orders[_i].environment)
        setenv("ITAL_INTERFACE", orders[_i].environment, 1);
    fixture_get();
    ck_assert_int_eq(kal_interface_list(kal, on_ordered, &order), RI_OK);
    ck_assert_msg(!strcmp(order.first, orders[_i].first), "%s", order.all);
    if (orders[_i].log)
        ck_assert_msg(fixture_log_count(orders[_i].log) == 1, "%s", fixture_log());
    else
        ck_assert_uint_eq(fixture_log_count("warning"), 0);
    order = (struct order){ .first = "" };
    ck_assert_int_eq(kal_interface_list(kal, on_ordered, &order), RI_OK); /* reported once */
    if (orders[_i].log)
        ck_assert_uint_eq(fixture_log_count(orders[_i].log), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fallback");
    TCase *tc = tc_case(suite, "fallback", fixture_setup, fixture_put);

    tcase_set_timeout(tc, 30);
    tc_add_rows(tc, interface_with_a_fallback, rows);
    tcase_add_loop_test(tc, fallback_costs_one_round_of_helpers, 0, 2);
    tc_add_rows(tc, fallback_of_the_default, orders);
    return tc_main(suite);
}
