/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tools share: arguments, names in messages, rate limit of messages; the histogram. */
#include <fcntl.h>

#include "tc.h"
#include "tools/common/adapter.h"
#include "tools/common/histogram.h"
#include "tools/common/tool.h"

/* --- arguments and messages --- */

START_TEST(sizes_are_read)
{
    static const struct {
        const char *text;
        bool good;
        uint64_t value;
    } table[] = {
        { "0", true, 0 },
        { "1", true, 1 },
        { "64k", true, 65536 },
        { "64K", true, 65536 },
        { "1M", true, 1 << 20 },
        { "2MiB", true, 2 << 20 },
        { "3kB", true, 3072 },
        { "7B", true, 7 },
        { "1G", true, 1 << 30 },
        { "", false, 0 },
        { "k", false, 0 },
        { "-1", false, 0 },
        { "+1", false, 0 },
        { " 1", false, 0 },
        { "1 ", false, 0 },
        { "1x", false, 0 },
        { "1kk", false, 0 },
        { "1.5M", false, 0 },
        { "18446744073709551616", false, 0 },
        { "18446744073709551615k", false, 0 },
        { "99999999999999999999999", false, 0 },
    };
    uint64_t value = 4711;

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        value = 4711;
        ck_assert_msg(tool_parse_size(table[i].text, 0, UINT64_MAX, &value) == table[i].good,
                      "'%s'", table[i].text);
        ck_assert_uint_eq(value, table[i].good ? table[i].value : 4711);
    }
    ck_assert(!tool_parse_size("5", 6, 10, &value));
    ck_assert(!tool_parse_size("11", 6, 10, &value));
    ck_assert(!tool_parse_number("1k", 0, UINT64_MAX, &value));
    ck_assert(tool_parse_number("10", 6, 10, &value) && value == 10);
}
END_TEST

START_TEST(seconds_are_read)
{
    uint64_t us = 0;

    ck_assert(tool_parse_seconds("1.5", 0, 10, &us) && us == 1500000);
    ck_assert(tool_parse_seconds(".25", 0, 10, &us) && us == 250000);
    ck_assert(!tool_parse_seconds("", 0, 10, &us));
    ck_assert(!tool_parse_seconds("nan", 0, 10, &us));
    ck_assert(!tool_parse_seconds("inf", 0, 10, &us));
    ck_assert(!tool_parse_seconds("-1", 0, 10, &us));
    ck_assert(!tool_parse_seconds("11", 0, 10, &us));
    ck_assert(!tool_parse_seconds("1s", 0, 10, &us));
    ck_assert(!tool_parse_seconds("0", 0.1, 10, &us));
    ck_assert_uint_eq(us, 250000);
}
END_TEST

START_TEST(hosts_and_ports_are_read)
{
    static const struct {
        const char *text, *host; /* host NULL: refused */
        unsigned port;
    } table[] = {
        { "host", "host", 7471 },
        { "host:80", "host", 80 },
        { "192.0.2.1:1", "192.0.2.1", 1 },
        { "::1", "::1", 7471 },
        { "[::1]", "::1", 7471 },
        { "[::1]:65535", "::1", 65535 },
        { "fe80::1%lo", "fe80::1%lo", 7471 },
        { "[fe80::1%lo]:9", "fe80::1%lo", 9 },
        { "", NULL, 0 },
        { ":80", NULL, 0 },
        { "host:", NULL, 0 },
        { "host:0", NULL, 0 },
        { "host:65536", NULL, 0 },
        { "host:8o", NULL, 0 },
        { "[::1", NULL, 0 },
        { "[::1]x", NULL, 0 },
        { "[]:1", NULL, 0 },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        char host[ADDRESS_HOST];
        uint16_t port = 7471;
        bool good = address_parse(table[i].text, host, &port);

        ck_assert_msg(good == (table[i].host != NULL), "'%s'", table[i].text);
        if (good) {
            ck_assert_str_eq(host, table[i].host);
            ck_assert_uint_eq(port, table[i].port);
        }
    }
}
END_TEST

START_TEST(names_are_made_printable)
{
    static const struct {
        const char *raw, *shown; /* shown NULL: unchanged */
    } table[] = {
        { "plain", NULL },
        { "Gr\xc3\xb6\xc3\x9f"
          "e \xe2\x82\xac \xf0\x9f\x98\x80",
          NULL },
        { "a\033[31mb\n", "a\\033[31mb\\012" },
        { "\177", "\\177" },
        { "\x9b"
          "31m",
          "\\23331m" }, /* C1 control as an octet */
        { "\xc2\x9b"
          "31m\xc2\x80\xc2\xa0",
          "\\302\\23331m\\302\\200\xc2\xa0" }, /* in UTF-8 */
        { "gpj.\xe2\x80\xae"
          "exe",
          "gpj.\\342\\200\\256exe" }, /* U+202E */
        { "\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\xaa", "\\342\\200\\216\\342\\200\\217\\342\\200\\252" },
        { "\xe2\x81\xa6\xe2\x81\xa9", "\\342\\201\\246\\342\\201\\251" }, /* U+2066, U+2069 */
        { "\xd8\x9c\xe2\x80\xa8\xef\xbb\xbf", "\\330\\234\\342\\200\\250\\357\\273\\277" },
        { "\xc0\x8a \xe0\x80\x8a", "\\300\\212 \\340\\200\\212" }, /* overlong line feed */
        { "\xed\xa0\x80", "\\355\\240\\200" },                     /* a surrogate */
        { "\xf4\x90\x80\x80", "\\364\\220\\200\\200" },            /* beyond U+10FFFF */
        { "cut \xe2\x82", "cut \\342\\202" },
        { "\xff\xfe", "\\377\\376" },
    };
    char buffer[64];

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        ck_assert_str_eq(tool_printable(table[i].raw, buffer, sizeof(buffer)),
                         table[i].shown ? table[i].shown : table[i].raw);
    /* Cut before an escape or a character that does not fit whole. */
    ck_assert_str_eq(tool_printable("ab\n", buffer, 7), "ab\\012");
    ck_assert_str_eq(tool_printable("ab\n", buffer, 6), "ab");
    ck_assert_str_eq(tool_printable("ab\xe2\x82\xac", buffer, 5), "ab");
}
END_TEST

/* For any input the output is UTF-8 without control characters, and terminated. */
START_TEST(random_names_are_made_printable)
{
    struct tc_rng rng = tc_rng(6);
    char raw[33], shown[140];
    unsigned controls = 0;

    for (unsigned long turn = 0; turn < tc_count(20000); turn++) {
        size_t length = tc_below(&rng, sizeof(raw)), room = 1 + tc_below(&rng, sizeof(shown));

        for (size_t i = 0; i < length; i++)
            raw[i] = (char)(tc_below(&rng, 2) ? 0x80 + tc_below(&rng, 128)
                                              : 1 + tc_below(&rng, 255));
        raw[length] = '\0';
        tool_printable(raw, shown, room);
        ck_assert_uint_lt(strlen(shown), room);
        for (const char *at = shown; *at; at++)
            controls += (unsigned char)*at < 0x20 || *at == 0x7f;
        ck_assert_uint_eq(controls, 0);
        ck_assert_ptr_null(strstr(shown, "\xe2\x80\xae"));
        /* Printing the result again does not change it. */
        memcpy(raw, shown, strlen(shown) < 32 ? strlen(shown) + 1 : 1);
        if (strlen(shown) < 32)
            ck_assert_str_eq(tool_printable(raw, shown, sizeof(shown)), raw);
    }
}
END_TEST

/* The standard error while act runs, NUL-terminated; freed by the caller. */
static char *stderr_of(void (*act)(void))
{
    char *text = calloc(1, 1 << 20), path[4096];
    int kept = dup(STDERR_FILENO), file;
    ssize_t got;

    snprintf(path, sizeof(path), "%s/stderr", tc_tempdir());
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    ck_assert(text && kept >= 0 && file >= 0);
    fflush(stderr);
    ck_assert_int_eq(dup2(file, STDERR_FILENO), STDERR_FILENO);
    act();
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    got = pread(file, text, (1 << 20) - 1, 0);
    ck_assert_int_ge(got, 0);
    close(file);
    return text;
}

static unsigned times_in(const char *text, const char *part)
{
    unsigned count = 0;

    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        count++;
    return count;
}

static void say_a_flood(void)
{
    tool_limit_errors();
    for (int i = 0; i < 1000; i++)
        tool_error("peer %d is refused", i);
    for (int i = 0; i < 5; i++)
        tool_error("something else, \033[2J%d", i);
    tool_flush_errors(true);
}

START_TEST(a_flood_of_lines_is_held_back)
{
    uint64_t begun = tool_now(), seconds;
    char *text = stderr_of(say_a_flood), *at;
    unsigned said = times_in(text, "is refused"), left_out = 0;

    seconds = (tool_now() - begun) / 1000000000u;
    ck_assert_uint_le(said, 10 + (unsigned)seconds + 2);
    ck_assert_uint_eq(times_in(text, "something else, \\033[2J"), 5); /* another cause */
    at = strstr(text, "peer 999 is refused (the last of ");
    ck_assert_msg(at != NULL, "%s", text);
    left_out = (unsigned)atoi(at + strlen("peer 999 is refused (the last of "));
    /* Each message was printed, or counted as suppressed. */
    for (at = text; (at = strstr(at, " is refused (")); at++) {
        unsigned more = 0;

        if (sscanf(at, " is refused (%u more like it were", &more) == 1)
            left_out += more;
    }
    ck_assert_uint_eq(said - 1 + left_out, 1000);
    free(text);
}
END_TEST

/* --- histogram --- */

START_TEST(quantiles_are_close)
{
    struct histogram *histogram = calloc(1, sizeof(*histogram));
    struct tc_rng rng = tc_rng(1);

    ck_assert_ptr_nonnull(histogram);
    ck_assert_uint_eq(histogram_quantile(histogram, 0.5), 0);
    /* 1 .. 100000 in random order: the q-quantile is q * 100000. */
    for (uint64_t i = 1, place = tc_below(&rng, 100000); i <= 100000; i++)
        histogram_add(histogram, (i * 7919 + place) % 100000 + 1);
    for (double share = 0.01; share <= 1; share += 0.01) {
        double value = (double)histogram_quantile(histogram, share);

        ck_assert_double_le_tol(value / (share * 100000), 1.0, 0.008);
        ck_assert_double_ge_tol(value / (share * 100000), 1.0, 0.008);
    }
    ck_assert_uint_eq(histogram->least, 1);
    ck_assert_uint_eq(histogram->greatest, 100000);
    histogram_add(histogram, UINT64_MAX);
    histogram_add(histogram, 0);
    ck_assert_uint_eq(histogram_quantile(histogram, 0), 0);
    ck_assert_uint_ge(histogram_quantile(histogram, 1), UINT64_MAX / 256 * 254);
    free(histogram);
}
END_TEST

START_TEST(histograms_add_up)
{
    struct histogram *all = calloc(3, sizeof(*all)), *part = all + 1;

    ck_assert_ptr_nonnull(all);
    ck_assert_double_eq(histogram_deviation(all), 0);
    for (uint64_t value = 1; value <= 1000; value++) {
        histogram_add(&all[0], value * 37);
        histogram_add(&part[value % 2], value * 37);
    }
    histogram_merge(&part[0], &part[1]);
    ck_assert_mem_eq(&all[0], &part[0], sizeof(*all));
    memset(&part[1], 0, sizeof(*part));
    histogram_merge(&part[0], &part[1]); /* an empty one changes nothing */
    ck_assert_mem_eq(&all[0], &part[0], sizeof(*all));
    /* 1 .. n: the variance is (n^2 - 1) / 12. */
    ck_assert_double_eq_tol(histogram_deviation(all), 37 * 288.6749902, 1e-3);
    free(all);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("tool");
    TCase *arguments = tc_case(suite, "arguments", NULL, NULL);
    TCase *histogram = tc_case(suite, "histogram", NULL, NULL);

    tc_add_tests(arguments, sizes_are_read, seconds_are_read, hosts_and_ports_are_read,
                 names_are_made_printable, random_names_are_made_printable,
                 a_flood_of_lines_is_held_back);
    tc_add_tests(histogram, quantiles_are_close, histograms_add_up);
    return suite;
}

int main(void)
{
    return tc_main(make_suite());
}
