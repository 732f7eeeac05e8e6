/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The parts of the tools that have no connection: numbers, addresses, histogram, pattern,
 * messages, the server's files.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tc.h"
#include "tools/common/adapter.h"
#include "tools/common/histogram.h"
#include "tools/common/tool.h"
#include "tools/itperf/itperf.h"
#include "tools/itping/itping.h"
#ifdef HAVE_LIBCRYPTO
#include "tools/itcp/itcp.h"
#endif

/* ---- arguments ------------------------------------------------------------------------------- */

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
        const char *raw, *shown; /* shown NULL: as it is */
    } table[] = {
        { "plain", NULL },
        { "Gr\xc3\xb6\xc3\x9f"
          "e \xe2\x82\xac \xf0\x9f\x98\x80",
          NULL },
        { "a\033[31mb\n", "a\\033[31mb\\012" },
        { "\177", "\\177" },
        { "\x9b"
          "31m",
          "\\23331m" }, /* C1 as an octet */
        { "\xc2\x9b"
          "31m\xc2\x80\xc2\xa0",
          "\\302\\23331m\\302\\200\xc2\xa0" }, /* in UTF-8 */
        { "gpj.\xe2\x80\xae"
          "exe",
          "gpj.\\342\\200\\256exe" }, /* U+202E */
        { "\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\xaa", "\\342\\200\\216\\342\\200\\217\\342\\200\\252" },
        { "\xe2\x81\xa6\xe2\x81\xa9", "\\342\\201\\246\\342\\201\\251" }, /* U+2066, U+2069 */
        { "\xd8\x9c\xe2\x80\xa8\xef\xbb\xbf", "\\330\\234\\342\\200\\250\\357\\273\\277" },
        { "\xc0\x8a \xe0\x80\x8a", "\\300\\212 \\340\\200\\212" }, /* a line feed, too long */
        { "\xed\xa0\x80", "\\355\\240\\200" },                     /* a surrogate */
        { "\xf4\x90\x80\x80", "\\364\\220\\200\\200" },            /* beyond U+10FFFF */
        { "cut \xe2\x82", "cut \\342\\202" },
        { "\xff\xfe", "\\377\\376" },
    };
    char buffer[64];

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        ck_assert_str_eq(tool_printable(table[i].raw, buffer, sizeof(buffer)),
                         table[i].shown ? table[i].shown : table[i].raw);
    /* Cut before an escape, or a character, that does not fit whole. */
    ck_assert_str_eq(tool_printable("ab\n", buffer, 7), "ab\\012");
    ck_assert_str_eq(tool_printable("ab\n", buffer, 6), "ab");
    ck_assert_str_eq(tool_printable("ab\xe2\x82\xac", buffer, 5), "ab");
}
END_TEST

/* Whatever octets come: what is shown is UTF-8 without control characters, and ends in time. */
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
        /* Shown once more it is the same. */
        memcpy(raw, shown, strlen(shown) < 32 ? strlen(shown) + 1 : 1);
        if (strlen(shown) < 32)
            ck_assert_str_eq(tool_printable(raw, shown, sizeof(shown)), raw);
    }
}
END_TEST

/* What was said while act ran, NUL-terminated; freed by the caller. */
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
    /* Each was said, or counted where it was left out. */
    for (at = text; (at = strstr(at, " is refused (")); at++) {
        unsigned more = 0;

        if (sscanf(at, " is refused (%u more like it were", &more) == 1)
            left_out += more;
    }
    ck_assert_uint_eq(said - 1 + left_out, 1000);
    free(text);
}
END_TEST

/* ---- histogram ------------------------------------------------------------------------------- */

START_TEST(quantiles_are_close)
{
    struct histogram *histogram = calloc(1, sizeof(*histogram));
    struct tc_rng rng = tc_rng(1);

    ck_assert_ptr_nonnull(histogram);
    ck_assert_uint_eq(histogram_quantile(histogram, 0.5), 0);
    /* 1 .. 100000 in a random order: the q-quantile is q * 100000. */
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

/* ---- itperf ---------------------------------------------------------------------------------- */

static struct perf_plan a_plan(void)
{
    return (struct perf_plan){ .op = PERF_WRITE,
                               .kind = PERF_LAT,
                               .mode = PERF_EVENT,
                               .target = PERF_FD,
                               .size_least = 2,
                               .size_max = 4096,
                               .sizes = 3,
                               .iterations = 1ull << 33,
                               .threads = 2,
                               .endpoints = 7,
                               .active = 5,
                               .tx_depth = 16,
                               .rx_depth = 12,
                               .list = 4,
                               .cq_mod = 8,
                               .reads = 3,
                               .write_send = true };
}

START_TEST(perf_messages_survive_the_way)
{
    struct perf_message message, back;
    uint8_t data[PERF_MESSAGE];

    memset(&message, 0, sizeof(message));
    message.type = PERF_PARAMS;
    message.u.plan = a_plan();
    perf_put_message(data, &message);
    ck_assert(perf_get_message(data, sizeof(data), &back));
    ck_assert_int_eq(back.type, PERF_PARAMS);
    ck_assert_uint_eq(back.u.plan.iterations, 1ull << 33);
    ck_assert_uint_eq(back.u.plan.active, 5);
    ck_assert(back.u.plan.write_send && !back.u.plan.bidirectional && !back.u.plan.pure_memory);
    ck_assert_int_eq(back.u.plan.target, PERF_FD);

    memset(&message, 0, sizeof(message));
    message.type = PERF_RESULT;
    message.u.result.good = true;
    message.u.result.tally.rate = 1.5e7;
    message.u.result.tally.user_ns = UINT64_MAX;
    perf_put_message(data, &message);
    ck_assert(perf_get_message(data, sizeof(data), &back));
    ck_assert_double_eq(back.u.result.tally.rate, 1.5e7);
    ck_assert_uint_eq(back.u.result.tally.user_ns, UINT64_MAX);
    message.u.result.tally.rate = -1;
    perf_put_message(data, &message);
    ck_assert(!perf_get_message(data, sizeof(data), &back));
}
END_TEST

/* Whatever is spoilt: a message is refused or its plan is one that can be carried out. */
START_TEST(spoilt_plans_do_no_harm)
{
    struct perf_message message = { .type = PERF_PARAMS }, back;
    struct tc_rng rng = tc_rng(2);
    uint8_t data[PERF_MESSAGE];
    unsigned refused = 0;

    for (unsigned turn = 0; turn < 20000; turn++) {
        message.u.plan = a_plan();
        perf_put_message(data, &message);
        data[8 + tc_below(&rng, 80)] = (uint8_t)tc_below(&rng, 256);
        if (!perf_get_message(data, sizeof(data), &back)) {
            refused++;
            continue;
        }
        ck_assert(back.u.plan.op >= PERF_SEND && back.u.plan.op <= PERF_READ);
        ck_assert(back.u.plan.kind == PERF_LAT || back.u.plan.kind == PERF_BW);
        ck_assert_uint_ge(back.u.plan.threads, 1);
        ck_assert_uint_le(back.u.plan.threads, back.u.plan.active);
        ck_assert_uint_le(back.u.plan.active, back.u.plan.endpoints);
        ck_assert_uint_le(back.u.plan.endpoints, PERF_ENDPOINTS_MAX);
        ck_assert_uint_le(back.u.plan.size_least, back.u.plan.size_max);
        ck_assert_uint_le(back.u.plan.size_max, PERF_SIZE_MAX);
        ck_assert_uint_le(back.u.plan.cq_mod, back.u.plan.tx_depth);
        ck_assert_uint_le(back.u.plan.list, back.u.plan.tx_depth);
    }
    ck_assert_uint_gt(refused, 5000);
}
END_TEST

START_TEST(memory_of_a_plan_is_counted)
{
    struct perf_plan plan = { .op = PERF_WRITE,
                              .kind = PERF_BW,
                              .size_max = 1 << 20,
                              .threads = 1,
                              .endpoints = 100,
                              .active = 100,
                              .tx_depth = 1,
                              .rx_depth = 1 };
    struct perf_limits limits = { .memory = 1u << 30, .threads = 4, .polling = 2 };
    char text[PERF_TEXT];
    uint64_t before;

    ck_assert_uint_ge(perf_server_memory(&plan), 100u << 20); /* a target for each */
    ck_assert_uint_le(perf_server_memory(&plan), 120u << 20);
    ck_assert(perf_limits_grant(&limits, &plan, text, sizeof(text)));
    plan.op = PERF_READ; /* all from one source */
    ck_assert_uint_le(perf_server_memory(&plan), 20u << 20);
    before = perf_server_memory(&plan);
    plan.kind = PERF_LAT;
    ck_assert_uint_ge(perf_server_memory(&plan), before + (100u << 20));
    plan.endpoints = plan.active = 2000;
    ck_assert(!perf_limits_grant(&limits, &plan, text, sizeof(text)));
    ck_assert_ptr_nonnull(strstr(text, "--max-memory"));
    /* Larger than any peer can ask for: counted all the same, never wrapped. */
    plan = (struct perf_plan){ .op = PERF_SEND,
                               .kind = PERF_BW,
                               .size_max = UINT32_MAX - 63,
                               .threads = UINT32_MAX,
                               .endpoints = UINT32_MAX,
                               .tx_depth = UINT32_MAX / 4,
                               .rx_depth = UINT32_MAX / 4 };
    ck_assert_uint_eq(perf_server_memory(&plan), UINT64_MAX);
    plan = (struct perf_plan){ .op = PERF_SEND,
                               .kind = PERF_LAT,
                               .target = PERF_BUSY,
                               .threads = 3,
                               .endpoints = 3,
                               .active = 3,
                               .tx_depth = 1,
                               .rx_depth = 1 };
    ck_assert(!perf_limits_grant(&limits, &plan, text, sizeof(text)));
    ck_assert_ptr_nonnull(strstr(text, "--max-polling"));
    plan.target = PERF_EVENT;
    ck_assert(perf_limits_grant(&limits, &plan, text, sizeof(text)));
    plan.op = PERF_WRITE; /* nothing tells of a Write: it is polled for, whatever is said */
    ck_assert(!perf_limits_grant(&limits, &plan, text, sizeof(text)));
    ck_assert_ptr_nonnull(strstr(text, "--max-polling"));
    ck_assert_ptr_nonnull(strstr(text, "--write-send"));
    plan.write_send = true;
    ck_assert(perf_limits_grant(&limits, &plan, text, sizeof(text)));
    plan.threads = 5;
    ck_assert(!perf_limits_grant(&limits, &plan, text, sizeof(text)));
    ck_assert_ptr_nonnull(strstr(text, "--max-threads"));
}
END_TEST

static int ends[2];
static atomic_int mover;

static void *move_busily(void *writes)
{
    static uint8_t octets[1 << 20];

    atomic_store(&mover, (int)syscall(SYS_gettid));
    if (writes)
        ck_assert_int_eq(plain_write(ends[0], octets, sizeof(octets), true, 600000000), -1);
    else
        ck_assert_int_eq(plain_read(ends[0], octets, 1, true, 600000000), 0);
    return NULL;
}

static char state_of(int thread)
{
    char path[64], state = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
    file = fopen(path, "r");
    if (!file)
        return 0;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 0;
    fclose(file);
    return state;
}

/* Who is eager with a peer that moves nothing is so for a second, not for as long as the peer likes. */
START_TEST(nobody_spins_for_a_silent_peer)
{
    pthread_t thread;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    atomic_store(&mover, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, move_busily, _i ? &ends : NULL), 0);
    ck_assert(tc_until(atomic_load(&mover) && state_of(atomic_load(&mover)) == 'S', 20000));
    close(ends[1]);
    pthread_join(thread, NULL);
    close(ends[0]);
}
END_TEST

START_TEST(both_sides_are_compared)
{
    struct perf_options own = { .server = true };
    struct perf_plan plan = a_plan();
    char text[PERF_TEXT], tiny[16];

    ck_assert(perf_options_agree(&own, &plan, text, sizeof(text)));
    ck_assert_str_eq(text, "");
    own.plan = plan;
    own.size[0] = 4096, own.size[1] = 2, own.size[2] = 64;
    own.given = ~0u;
    ck_assert(perf_options_agree(&own, &plan, text, sizeof(text)));
    plan.tx_depth++;
    plan.kind = PERF_BW;
    ck_assert(!perf_options_agree(&own, &plan, text, sizeof(text)));
    ck_assert_str_eq(text, "lat there, bw here; -t 16 there, 17 here");
    ck_assert(!perf_options_agree(&own, &plan, tiny, sizeof(tiny)));
    ck_assert_uint_lt(strlen(tiny), sizeof(tiny));
    plan = a_plan();
    plan.size_max++;
    ck_assert(!perf_options_agree(&own, &plan, text, sizeof(text)));
    ck_assert_ptr_nonnull(strstr(text, "2 to 4096 there"));
}
END_TEST

/* A message that tells of something must never look like data. */
START_TEST(control_lengths_are_not_data)
{
    for (uint32_t size = 1; size < 40; size++) {
        for (int control = PERF_CREDIT; control <= PERF_NOTE; control++) {
            uint32_t length = perf_control_length(size, (enum perf_control)control);

            ck_assert_uint_ne(length, size);
            ck_assert_uint_le(length, PERF_CONTROL_MAX);
        }
    }
}
END_TEST

/* ---- itping ---------------------------------------------------------------------------------- */

START_TEST(every_spoilt_byte_is_found)
{
    uint8_t data[67];

    for (size_t length = 1; length <= sizeof(data); length++) {
        for (size_t at = 0; at < length; at++) {
            struct ping_tally tally = { 0 };

            pattern_fill(data, length, 42, 7, PING_THERE, 3);
            ck_assert(pattern_check(data, length, 42, 7, PING_THERE, 3, &tally));
            data[at] ^= 1;
            ck_assert(!pattern_check(data, length, 42, 7, PING_THERE, 3, &tally));
            ck_assert_uint_eq(tally.offset, at);
            ck_assert_uint_eq(tally.expected ^ tally.found, 1);
            ck_assert(tally.verified == 1 && tally.damaged == 1 && tally.message == 7);
        }
    }
}
END_TEST

START_TEST(patterns_differ)
{
    struct ping_tally tally = { 0 };
    uint8_t data[64], whole[128];

    pattern_fill(data, sizeof(data), 1, 1, PING_THERE, 0);
    ck_assert(!pattern_check(data, sizeof(data), 2, 1, PING_THERE, 0, &tally));
    ck_assert(!pattern_check(data, sizeof(data), 1, 2, PING_THERE, 0, &tally));
    ck_assert(!pattern_check(data, sizeof(data), 1, 1, PING_BACK, 0, &tally));
    ck_assert(!pattern_check(data, sizeof(data), 1, 1, PING_THERE, 1, &tally));
    /* A piece from the middle is the piece of the whole. */
    pattern_fill(whole, sizeof(whole), 1, 0, PING_FIXED, 0);
    ck_assert(pattern_check(whole + 13, 70, 1, 0, PING_FIXED, 13, &tally));
}
END_TEST

START_TEST(ping_hello_is_checked)
{
    struct ping_hello hello = { .op = PING_WRITE,
                                .flags = PING_FLAG_TCP,
                                .size = 77,
                                .seed = 5,
                                .address = 6,
                                .context = 7 },
                      got;
    struct tc_rng rng = tc_rng(2);
    uint8_t data[PING_PRIVATE], random[PING_PRIVATE];
    size_t length = ping_put_hello(data, &hello);

    ck_assert_int_eq(ping_get_hello(data, length, &got), 0);
    ck_assert(got.op == PING_WRITE && got.flags == PING_FLAG_TCP && got.size == 77 &&
              got.seed == 5 && got.address == 6 && got.context == 7);
    for (size_t i = 0; i < length; i++)
        ck_assert_int_eq(ping_get_hello(data, i, &got), PING_REFUSED_VERSION);
    data[5]++;
    ck_assert_int_eq(ping_get_hello(data, length, &got), PING_REFUSED_VERSION);
    hello.size = PING_SIZE_MAX + 1;
    ping_put_hello(data, &hello);
    ck_assert_int_eq(ping_get_hello(data, length, &got), PING_REFUSED_PARAMETER);
    for (unsigned long i = 0; i < tc_count(20000); i++) {
        tc_fill(&rng, random, sizeof(random));
        if (tc_below(&rng, 2))
            memcpy(random, data, 6);
        if (ping_get_hello(random, tc_below(&rng, sizeof(random) + 1), &got) == 0)
            ck_assert(got.size >= 1 && got.size <= PING_SIZE_MAX && got.op >= PING_SEND &&
                      got.op <= PING_READ);
    }
}
END_TEST

/* ---- itcp ------------------------------------------------------------------------------------ */

#ifdef HAVE_LIBCRYPTO

START_TEST(messages_survive_the_way)
{
    struct copy_message *one = calloc(1, sizeof(*one)), *two = calloc(1, sizeof(*two));
    uint8_t data[COPY_MESSAGE];
    struct tc_rng rng = tc_rng(3);
    size_t length, rest;

    ck_assert(one && two);
    for (unsigned type = 0; type < 256; type++) {
        memset(one, 0, sizeof(*one));
        one->type = (uint8_t)type;
        one->flags = 3;
        one->mode = 0644;
        one->size = 1234567890123;
        one->mtime = -5;
        one->mtime_ns = 999999999;
        one->slot = 7;
        one->length = 9;
        tc_fill(&rng, one->sum, sizeof(one->sum));
        strcpy(one->text, "a/name");
        length = copy_encode(one, data);
        if (!copy_decode(data, length, two)) {
            /* Types that do not exist. */
            ck_assert(type == 0 || type > COPY_BYE_OK || (type > COPY_BYE && type < COPY_GO));
            continue;
        }
        ck_assert(copy_head(data, &rest) && rest == length - COPY_HEAD);
        ck_assert_uint_eq(two->type, type);
        if (type == COPY_FILE)
            ck_assert(two->size == one->size && two->mode == one->mode && two->mtime == -5 &&
                      two->mtime_ns == 999999999 && !strcmp(two->text, "a/name"));
        if (type == COPY_DATA)
            ck_assert(two->slot == 7 && two->length == 9);
        if (type == COPY_DONE)
            ck_assert(!memcmp(one->sum, two->sum, COPY_SUM));
        /* Shorter and longer are refused. */
        for (size_t i = 0; i < length; i++)
            ck_assert(!copy_decode(data, i, two));
        ck_assert(!copy_decode(data, length + 1, two));
    }
    free(one);
    free(two);
}
END_TEST

START_TEST(random_messages_do_no_harm)
{
    struct copy_message *message = calloc(1, sizeof(*message));
    struct tc_rng rng = tc_rng(4);

    ck_assert_ptr_nonnull(message);
    for (unsigned long i = 0; i < tc_count(100000); i++) {
        size_t length = tc_below(&rng, 2) ? tc_below(&rng, 64) : tc_below(&rng, COPY_MESSAGE + 1);
        uint8_t *data = malloc(length + 1); /* exact, so that sanitizers see an over-read */

        tc_fill(&rng, data, length);
        if (length >= COPY_HEAD && tc_below(&rng, 4)) {
            data[0] = (uint8_t)(1 + tc_below(&rng, COPY_BYE_OK));
            data[4] = data[5] = 0;
            data[6] = (uint8_t)((length - COPY_HEAD) >> 8);
            data[7] = (uint8_t)(length - COPY_HEAD);
            if (length >= COPY_HEAD + 2 && tc_below(&rng, 2)) {
                data[8] = (uint8_t)((length - COPY_HEAD - 2) >> 8);
                data[9] = (uint8_t)(length - COPY_HEAD - 2);
            }
        }
        if (copy_decode(data, length, message))
            ck_assert_uint_lt(strnlen(message->text, COPY_PATH), COPY_PATH);
        free(data);
    }
    free(message);
}
END_TEST

static struct copy_message *entry_of(const char *name, uint64_t size)
{
    struct copy_message *entry = calloc(1, sizeof(*entry));

    ck_assert_ptr_nonnull(entry);
    entry->type = COPY_FILE;
    entry->mode = 06755;
    entry->size = size;
    entry->mtime = 1000000000;
    entry->mtime_ns = 1;
    snprintf(entry->text, sizeof(entry->text), "%s", name);
    return entry;
}

static bool can_open(struct store *store, const char *name, unsigned flags, struct store_file *file,
                     char *why)
{
    struct copy_message *entry = entry_of(name, 5);
    bool good;

    entry->flags = (uint8_t)flags;
    why[0] = '\0';
    good = store_open(store, entry, false, file, why);
    ck_assert_msg(good || strlen(why) > 10, "no reason for '%s'", name);
    free(entry);
    return good;
}

static struct store fresh_store(char folder[4096])
{
    struct store store = { .may_overwrite = true, .umask = 022 };

    snprintf(folder, 4096, "%s/store", tc_tempdir());
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    store.root = open(folder, O_RDONLY | O_DIRECTORY);
    ck_assert_int_ge(store.root, 0);
    return store;
}

START_TEST(nothing_outside_is_reached)
{
    static const char *const names[] = { "/etc/x", "..",     "../x", "a/../../x", ".",  "./x",
                                         "",       "/",      "//",   "a//x",      "a/", "link/x",
                                         "link",   "loop/x", "up/x", "file/x" };
    char folder[4096], why[COPY_PATH], path[4200];
    struct store store = fresh_store(folder);
    struct store_file file;

    ck_assert_int_eq(mkdirat(store.root, "a", 0755), 0);
    ck_assert_int_eq(symlinkat("/", store.root, "link"), 0);
    ck_assert_int_eq(symlinkat("loop", store.root, "loop"), 0);
    ck_assert_int_eq(symlinkat("..", store.root, "up"), 0);
    close(openat(store.root, "file", O_WRONLY | O_CREAT, 0600));
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        ck_assert_msg(!can_open(&store, names[i], 0, &file, why), "'%s' was opened", names[i]);
    snprintf(path, sizeof(path), "%s/../x", folder);
    ck_assert_int_ne(access(path, F_OK), 0);

    /* A link as the last name is replaced, not followed. */
    ck_assert_int_eq(symlinkat("victim", store.root, "replace"), 0);
    ck_assert(can_open(&store, "replace", COPY_FLAG_OVERWRITE, &file, why));
    ck_assert(store_write(&file, "12345", 5, 0, why));
    {
        struct copy_message *entry = entry_of("replace", 5);

        ck_assert_msg(store_commit(&file, entry, why), "%s", why);
        free(entry);
    }
    ck_assert_int_ne(faccessat(store.root, "victim", F_OK, 0), 0);
    close(store.root);
}
END_TEST

static unsigned partials(const struct store *store)
{
    DIR *folder = fdopendir(openat(store->root, ".", O_RDONLY | O_DIRECTORY));
    unsigned count = 0;

    ck_assert_ptr_nonnull(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        count += strlen(entry->d_name) > 5 &&
                 !strcmp(entry->d_name + strlen(entry->d_name) - 5, ".part");
    closedir(folder);
    return count;
}

/* Without set-user-ID, and without what umask takes away. */
START_TEST(mode_and_time_are_given)
{
    char folder[4096], why[COPY_PATH];
    struct store store = fresh_store(folder);
    struct copy_message *entry = entry_of("f", 5);
    struct store_file file;
    struct stat about;

    entry->mode = 06777;
    store.umask = 027;
    ck_assert_msg(store_open(&store, entry, false, &file, why), "%s", why);
    ck_assert_int_eq(faccessat(store.root, "f", F_OK, 0), -1);
    ck_assert_int_eq(fstat(file.file, &about), 0);
    ck_assert_uint_eq(about.st_mode & 07777, 0600);
    ck_assert(store_write(&file, "12345", 5, 0, why));
    ck_assert_msg(store_commit(&file, entry, why), "%s", why);
    ck_assert_int_eq(fstatat(store.root, "f", &about, 0), 0);
    ck_assert_uint_eq(about.st_mode & 07777, 0750);
    ck_assert_int_eq(about.st_mtim.tv_sec, 1000000000);
    ck_assert_int_eq(about.st_size, 5);
    ck_assert_uint_eq(partials(&store), 0);
    free(entry);
    close(store.root);
}
END_TEST

START_TEST(two_copies_of_one_name)
{
    char folder[4096], why[COPY_PATH];
    struct store store = fresh_store(folder);
    struct copy_message *entry = entry_of("f", 5);
    struct store_file one, two;

    /* Each writes a file of its own; the first one that is complete has the name. */
    ck_assert(can_open(&store, "f", 0, &one, why));
    ck_assert(can_open(&store, "f", 0, &two, why));
    ck_assert_uint_eq(partials(&store), 2);
    ck_assert(store_commit(&two, entry, why));
    ck_assert(!store_commit(&one, entry, why));
    ck_assert_ptr_nonnull(strstr(why, "meanwhile"));
    ck_assert_uint_eq(partials(&store), 0);

    /* Its partial file was taken away and another one put there: that one is left alone. */
    ck_assert(can_open(&store, "f", COPY_FLAG_OVERWRITE, &one, why));
    ck_assert_int_eq(unlinkat(store.root, one.part, 0), 0);
    close(openat(store.root, one.part, O_WRONLY | O_CREAT, 0600));
    ck_assert(!store_commit(&one, entry, why));
    ck_assert_uint_eq(partials(&store), 1);
    free(entry);
    close(store.root);
}
END_TEST

/* What has the name of a partial file, of whomever, is neither in the way nor touched. */
START_TEST(partial_files_of_others_stay)
{
    static const char *const names[] = { "f.part", "f.0000000000000000.part", ".part" };
    char folder[4096], why[COPY_PATH], name[256];
    struct store store = fresh_store(folder);
    struct copy_message *entry = entry_of("f", 0);
    struct store_file file;

    for (size_t i = 0; i < 3; i++)
        close(openat(store.root, names[i], O_WRONLY | O_CREAT, 0600));
    ck_assert_int_eq(symlinkat("victim", store.root, "g.part"), 0);
    ck_assert_msg(can_open(&store, "f", COPY_FLAG_OVERWRITE, &file, why), "%s", why);
    ck_assert(store_commit(&file, entry, why));
    ck_assert_msg(can_open(&store, "g", COPY_FLAG_OVERWRITE, &file, why), "%s", why);
    store_abandon(&file);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(faccessat(store.root, names[i], F_OK, 0), 0);
    ck_assert_int_ne(faccessat(store.root, "victim", F_OK, 0), 0);
    ck_assert_uint_eq(partials(&store), 3 - 1 + 1); /* ".part" has no name before it */
    /* The longest name there is has one too. */
    memset(name, 'n', 255);
    name[255] = '\0';
    ck_assert_msg(can_open(&store, name, 0, &file, why), "%s", why);
    ck_assert_uint_le(strlen(file.part), 255);
    store_abandon(&file);
    free(entry);
    close(store.root);
}
END_TEST

static bool directory(struct store *store, struct store_tree *tree, enum copy_type type,
                      const char *name, char *why)
{
    struct copy_message *entry = entry_of(name, 0);
    bool good;

    entry->mode = 06777;
    good = type == COPY_DIR ? store_make_directory(store, tree, entry, why)
                            : store_finish_directory(store, tree, entry, why);
    free(entry);
    return good;
}

/* Only a directory that this session made gets mode and time, also where overwriting is allowed. */
START_TEST(directories_of_others_are_left_as_they_are)
{
    char folder[4096], why[COPY_PATH];
    struct store store = fresh_store(folder);
    struct store_tree tree = { 0 };
    struct stat before, about;

    ck_assert_int_eq(mkdirat(store.root, "old", 0710), 0);
    ck_assert_int_eq(fstatat(store.root, "old", &before, 0), 0);
    ck_assert(directory(&store, &tree, COPY_DIR, "old", why));
    ck_assert(directory(&store, &tree, COPY_DIR_END, "old", why));
    ck_assert_int_eq(fstatat(store.root, "old", &about, 0), 0);
    ck_assert_uint_eq(about.st_mode, before.st_mode);
    ck_assert_int_eq(about.st_mtim.tv_sec, before.st_mtim.tv_sec);
    ck_assert(!directory(&store, &tree, COPY_DIR_END, "old", why)); /* not inside of it */

    ck_assert(directory(&store, &tree, COPY_DIR, "new", why));
    ck_assert(directory(&store, &tree, COPY_DIR, "new/old", why));
    ck_assert(!directory(&store, &tree, COPY_DIR_END, "new", why)); /* inside of another */
    ck_assert(directory(&store, &tree, COPY_DIR_END, "new/old", why));
    ck_assert(directory(&store, &tree, COPY_DIR_END, "new", why));
    ck_assert_int_eq(fstatat(store.root, "new", &about, 0), 0);
    ck_assert_uint_eq(about.st_mode & 07777, 0755); /* umask 022 */
    ck_assert_int_eq(about.st_mtim.tv_sec, 1000000000);
    /* Somebody put another one in its place. */
    ck_assert(directory(&store, &tree, COPY_DIR, "swapped", why));
    ck_assert_int_eq(renameat(store.root, "old", store.root, "swapped"), 0);
    ck_assert(!directory(&store, &tree, COPY_DIR_END, "swapped", why));
    ck_assert_int_eq(fstatat(store.root, "swapped", &about, 0), 0);
    ck_assert_uint_eq(about.st_mode, before.st_mode);
    close(store.root);
}
END_TEST

START_TEST(overwriting_is_the_servers_choice)
{
    char folder[4096], why[COPY_PATH];
    struct store store = fresh_store(folder);
    struct store_file file;

    close(openat(store.root, "f", O_WRONLY | O_CREAT, 0600));
    ck_assert(!can_open(&store, "f", 0, &file, why));
    ck_assert_ptr_nonnull(strstr(why, "give --overwrite"));
    ck_assert(can_open(&store, "f", COPY_FLAG_OVERWRITE, &file, why));
    store_abandon(&file);
    store.may_overwrite = false;
    ck_assert(!can_open(&store, "f", COPY_FLAG_OVERWRITE, &file, why));
    ck_assert_ptr_nonnull(strstr(why, "not started with --overwrite"));
    close(store.root);
}
END_TEST

static int secret_of(const char *text, size_t length, unsigned mode, struct copy_secret *secret)
{
    char path[4096];
    int file;

    snprintf(path, sizeof(path), "%s/secret", tc_tempdir());
    unlink(path);
    file = open(path, O_WRONLY | O_CREAT, 0600);
    ck_assert_int_eq(write(file, text, length), (ssize_t)length);
    ck_assert_int_eq(fchmod(file, mode), 0);
    close(file);
    return copy_read_secret(path, secret);
}

START_TEST(secret_files_are_checked)
{
    char large[5000];
    struct copy_secret secret;

    memset(large, 'x', sizeof(large));
    ck_assert_int_eq(secret_of("0123456789abcdef\n", 17, 0600, &secret), -1);
    ck_assert_uint_eq(secret.length, 16);
    ck_assert_mem_eq(secret.data, "0123456789abcdef", 16);
    ck_assert_int_eq(secret_of("0123456789abcdef", 16, 0400, &secret), -1);
    ck_assert_int_eq(secret_of("0123456789abcde\n", 16, 0600, &secret), TOOL_USAGE);
    ck_assert_int_eq(secret_of("", 0, 0600, &secret), TOOL_USAGE);
    ck_assert_int_eq(secret_of(large, sizeof(large), 0600, &secret), TOOL_USAGE);
    ck_assert_int_eq(secret_of(large, 4095, 0600, &secret), -1);
    for (unsigned bit = 1; bit < 0100; bit <<= 1)
        ck_assert_int_eq(secret_of("0123456789abcdef", 16, 0600 | bit, &secret), TOOL_USAGE);
    ck_assert_int_eq(copy_read_secret("/nonexistent/secret", &secret), TOOL_USAGE);
    ck_assert_int_eq(copy_read_secret("/dev/zero", &secret), TOOL_USAGE);
}
END_TEST

START_TEST(proofs_depend_on_everything)
{
    struct copy_secret secret = { .length = 16, .data = "0123456789abcdef" };
    uint8_t hello[COPY_HELLO] = { 1 }, welcome[COPY_WELCOME] = { 2 }, proof[COPY_SUM],
            other[COPY_SUM];

    ck_assert(copy_prove(&secret, COPY_ROLE_CLIENT, hello, welcome, proof));
    ck_assert(copy_prove(&secret, COPY_ROLE_CLIENT, hello, welcome, other));
    ck_assert(copy_proof_holds(proof, other));
    /* HMAC-SHA256 by another implementation (Python's hmac). */
    ck_assert_uint_eq(copy_token(proof), 0x1b4a9465c718ff7bu);
    ck_assert(copy_prove(&secret, COPY_ROLE_SERVER, hello, welcome, other));
    ck_assert(!copy_proof_holds(proof, other));
    ck_assert(copy_prove(&secret, COPY_ROLE_TCP, hello, welcome, other));
    ck_assert(!copy_proof_holds(proof, other));
    for (unsigned i = 0; i < COPY_HELLO + COPY_WELCOME; i++) {
        uint8_t *octet = i < COPY_HELLO ? &hello[i] : &welcome[i - COPY_HELLO];

        *octet ^= 0x80;
        ck_assert(copy_prove(&secret, COPY_ROLE_CLIENT, hello, welcome, other));
        ck_assert(!copy_proof_holds(proof, other));
        *octet ^= 0x80;
    }
    secret.length--;
    ck_assert(copy_prove(&secret, COPY_ROLE_CLIENT, hello, welcome, other));
    ck_assert(!copy_proof_holds(proof, other));
    for (unsigned i = 0; i < COPY_SUM; i++) {
        memcpy(other, proof, COPY_SUM);
        other[i] ^= 1;
        ck_assert(!copy_proof_holds(proof, other));
    }
}
END_TEST

START_TEST(greetings_are_checked)
{
    struct copy_hello hello = { .flags = COPY_FLAG_SECRET }, hello_back;
    struct copy_welcome welcome = { .flags = COPY_FLAG_SECRET,
                                    .chunk = COPY_CHUNK,
                                    .slots = COPY_SLOTS,
                                    .address = 1,
                                    .context = 2 },
                        back;
    uint8_t data[COPY_PRIVATE];
    size_t length;

    memset(hello.nonce, 7, COPY_SUM);
    memset(welcome.nonce, 9, COPY_SUM);
    length = copy_put_hello(data, &hello);
    ck_assert_uint_eq(length, COPY_HELLO);
    ck_assert(copy_get_hello(data, length, &hello_back));
    ck_assert(hello_back.flags == COPY_FLAG_SECRET && hello_back.nonce[COPY_SUM - 1] == 7);
    for (size_t i = 0; i < length; i++)
        ck_assert(!copy_get_hello(data, i, &hello_back));
    data[5]--; /* version 1 */
    ck_assert(!copy_get_hello(data, length, &hello_back));
    length = copy_put_welcome(data, &welcome);
    ck_assert_uint_eq(length, COPY_WELCOME);
    ck_assert(copy_get_welcome(data, length, &back));
    ck_assert(back.flags == COPY_FLAG_SECRET && back.nonce[0] == 9 && back.slots == COPY_SLOTS);
    for (size_t i = 0; i < length; i++)
        ck_assert(!copy_get_welcome(data, i, &back));
}
END_TEST

START_TEST(the_hasher_knows_the_sum)
{
    /* SHA-256 of a million times 'a' (FIPS 180-2, B.3). */
    static const char expected[] =
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    char path[4096], text[2 * COPY_SUM + 1], *data = malloc(1000000);
    uint8_t sum[COPY_SUM];
    struct hasher *hasher;
    int fd;

    ck_assert_ptr_nonnull(data);
    memset(data, 'a', 1000000);
    ck_assert(hash_bytes(data, 1000000, sum));
    ck_assert_str_eq(sum_text(sum, text), expected);
    snprintf(path, sizeof(path), "%s/sum", tc_tempdir());
    fd = open(path, O_RDWR | O_CREAT, 0600);
    ck_assert_int_eq(write(fd, data, 1000000), 1000000);
    hasher = hasher_start(fd, 1000000);
    ck_assert_ptr_nonnull(hasher);
    hasher_allow(hasher, 1);
    hasher_allow(hasher, 999999);
    hasher_keep_up(hasher, 999999);
    memset(sum, 0, sizeof(sum));
    ck_assert(hasher_finish(hasher, sum));
    ck_assert_str_eq(sum_text(sum, text), expected);

    /* A file that is shorter than announced. */
    hasher = hasher_start(fd, 1000001);
    ck_assert(!hasher_finish(hasher, sum));
    ck_assert_int_eq(errno, ENODATA);
    hasher_abort(hasher_start(fd, 1000000));
    hasher_abort(NULL);
    close(fd);
    free(data);
}
END_TEST

static void add_itcp(Suite *suite)
{
    TCase *wire = tcase_create("itcp messages"), *files = tcase_create("itcp files");

    tcase_set_timeout(wire, 60);
    tcase_add_test(wire, messages_survive_the_way);
    tcase_add_test(wire, random_messages_do_no_harm);
    tcase_add_test(files, nothing_outside_is_reached);
    tcase_add_test(files, mode_and_time_are_given);
    tcase_add_test(files, two_copies_of_one_name);
    tcase_add_test(files, partial_files_of_others_stay);
    tcase_add_test(files, directories_of_others_are_left_as_they_are);
    tcase_add_test(files, overwriting_is_the_servers_choice);
    tcase_add_test(wire, greetings_are_checked);
    tcase_add_test(wire, secret_files_are_checked);
    tcase_add_test(wire, proofs_depend_on_everything);
    tcase_add_test(files, the_hasher_knows_the_sum);
    suite_add_tcase(suite, wire);
    suite_add_tcase(suite, files);
}

#endif

static Suite *tools_suite(void)
{
    Suite *suite = suite_create("parts of the tools");
    TCase *arguments = tcase_create("arguments"), *measuring = tcase_create("measuring");

    tcase_add_test(arguments, sizes_are_read);
    tcase_add_test(arguments, seconds_are_read);
    tcase_add_test(arguments, hosts_and_ports_are_read);
    tcase_add_test(arguments, names_are_made_printable);
    tcase_add_test(arguments, random_names_are_made_printable);
    tcase_add_test(arguments, a_flood_of_lines_is_held_back);
    tcase_add_test(measuring, quantiles_are_close);
    tcase_add_test(measuring, histograms_add_up);
    tcase_add_test(measuring, perf_messages_survive_the_way);
    tcase_add_test(measuring, spoilt_plans_do_no_harm);
    tcase_add_test(measuring, memory_of_a_plan_is_counted);
    tcase_add_test(measuring, both_sides_are_compared);
    tcase_add_loop_test(measuring, nobody_spins_for_a_silent_peer, 0, 2);
    tcase_add_test(measuring, control_lengths_are_not_data);
    tcase_add_test(measuring, every_spoilt_byte_is_found);
    tcase_add_test(measuring, patterns_differ);
    tcase_add_test(measuring, ping_hello_is_checked);
    suite_add_tcase(suite, arguments);
    suite_add_tcase(suite, measuring);
#ifdef HAVE_LIBCRYPTO
    add_itcp(suite);
#endif
    return suite;
}

int main(void)
{
    return tc_main(tools_suite());
}
