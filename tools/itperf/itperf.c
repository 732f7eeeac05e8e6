/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: what messages over an Interface cost; perftest's programs in one.
 */
#include "itperf.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/options.h"
#include "tools/common/tool.h"

static int take_sizes(void *into, const char *text)
{
    struct perf_options *options = into;
    char word[32];
    uint64_t size;

    options->plan.sizes = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");

        if (options->plan.sizes == PERF_SIZES)
            return tool_usage("-s takes at most %u sizes", PERF_SIZES);
        snprintf(word, sizeof(word), "%.*s", length < 31 ? (int)length : 31, at);
        if (length > 30 || !tool_parse_size(word, 1, PERF_SIZE_MAX, &size))
            return tool_usage("'%s' is no message size: 1 to 64M bytes, several with commas", word);
        options->size[options->plan.sizes++] = (uint32_t)size;
        at += length;
        if (!*at)
            return -1;
    }
}

static int take_all_sizes(void *into, const char *text)
{
    struct perf_options *options = into;

    (void)text;
    options->plan.sizes = PERF_ALL_LAST;
    for (uint32_t i = 0; i < PERF_ALL_LAST; i++)
        options->size[i] = 2u << i;
    return -1;
}

/* Seconds, or with s, ms, us behind. */
static bool parse_time(const char *text, uint64_t *microseconds)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = { { "ms", 1e-3 }, { "us", 1e-6 }, { "s", 1 }, { "", 1 } };
    size_t length = strlen(text);
    char number[32];

    for (size_t i = 0; i < 4; i++) {
        size_t tail = strlen(units[i].unit);
        uint64_t micros;

        if (length < tail + 1 || length - tail >= sizeof(number) ||
            strcmp(text + length - tail, units[i].unit) != 0)
            continue;
        memcpy(number, text, length - tail);
        number[length - tail] = '\0';
        if (!tool_parse_seconds(number, 0, 1e6, &micros))
            return false;
        *microseconds = (uint64_t)((double)micros * units[i].seconds + 0.5);
        return *microseconds > 0;
    }
    return false;
}

static int take_idle(void *into, const char *text)
{
    if (!parse_time(text, &((struct perf_options *)into)->idle_us))
        return tool_usage("'%s' is no pause: seconds, or with ms or us behind", text);
    return -1;
}

static int take_away(void *into, const char *text)
{
    if (!parse_time(text, &((struct perf_options *)into)->away_us))
        return tool_usage("'%s' is no time: seconds, or with ms or us behind", text);
    return -1;
}

static int take_events(void *into, const char *text)
{
    (void)text;
    ((struct perf_options *)into)->plan.mode = PERF_EVENT;
    return -1;
}

static int take_json_default(void *into, const char *text)
{
    struct perf_options *options = into;

    (void)text;
    if (!options->json_file)
        options->json_file = "perftest_out.json";
    return -1;
}

static int take_connection(void *into, const char *text)
{
    (void)into;
    if (strcmp(text, "RC") != 0)
        return tool_usage("connection type '%s' is not supported: RC only", text);
    return -1;
}

#define TO(member) TOOL_TO(struct perf_options, member)
#define TIME       "time: seconds, 0.001 or more"

static const struct tool_option rows[] = {
    TOOL_HEADLINE("What is measured:"),
    TOOL_BY('s', "size", "SIZE[,SIZE]...", take_sizes, NULL, PERF_GIVEN_SIZE,
            "bytes per message, k and M allowed (default: lat 2, bw 64k)"),
    TOOL_BY('a', "all", NULL, take_all_sizes, NULL, PERF_GIVEN_SIZE, "sizes 2, 4, 8 ... 8M"),
    TOOL_VALUE(TOOL_SIZE, 'n', "iters", "N", TO(plan.iterations), 5, 1ull << 40,
               "number of messages: 5 or more", PERF_GIVEN_COUNT,
               "messages per endpoint (default 1000, write 5000; at least 5)"),
    TOOL_VALUE(TOOL_SECONDS, 'D', "duration", "SECONDS", TO(plan.duration_us), 1000, 1000000000000,
               TIME, PERF_GIVEN_TIME, "measure for that time instead"),
    TOOL_VALUE(TOOL_SIZE, 'q', "qp", "N", TO(plan.endpoints), 1, PERF_ENDPOINTS_MAX, NULL,
               PERF_GIVEN_ENDPOINTS,
               "connected endpoints over all threads (default: one per thread)"),
    TOOL_VALUE(TOOL_SIZE, 0, "active", "N", TO(plan.active), 1, PERF_ENDPOINTS_MAX, NULL,
               PERF_GIVEN_ACTIVE,
               "endpoints that carry messages (default: all); the others only exist"),
    TOOL_VALUE(TOOL_SIZE, 0, "threads", "N", TO(plan.threads), 1, PERF_THREADS_MAX, NULL,
               PERF_GIVEN_THREADS,
               "threads on each side, each with endpoints of its own (default 1)"),
    TOOL_SWITCH('b', "bidirectional", TO(plan.bidirectional), PERF_GIVEN_BIDIRECTIONAL,
                "bw: both directions at once; the figures are sums"),
    TOOL_VALUE(TOOL_SIZE, 't', "tx-depth", "N", TO(plan.tx_depth), 1, PERF_DEPTH_MAX, NULL,
               PERF_GIVEN_TX, "requests outstanding per endpoint (default: bw 128, lat 16)"),
    TOOL_VALUE(TOOL_SIZE, 'r', "rx-depth", "N", TO(plan.rx_depth), 1, PERF_DEPTH_MAX, NULL,
               PERF_GIVEN_RX, "send: receives posted per endpoint (default: bw 512, lat 16)"),
    TOOL_VALUE(TOOL_SIZE, 'l', "post_list", "N", TO(plan.list), 1, PERF_DEPTH_MAX, NULL,
               PERF_GIVEN_LIST, "bw: requests posted in one run, released together (default 1)"),
    TOOL_VALUE(TOOL_SIZE, 'Q', "cq-mod", "N", TO(plan.cq_mod), 1, PERF_DEPTH_MAX, NULL,
               PERF_GIVEN_CQ_MOD,
               "bw: a completion for every N-th request (default: 1 from 8k up, else a quarter of "
               "-t, at most 100)"),
    TOOL_VALUE(TOOL_SIZE, 'o', "outs", "N", TO(plan.reads), 1, PERF_DEPTH_MAX, NULL,
               PERF_GIVEN_READS,
               "read: RDMA Reads in flight per endpoint (default: what there is)"),
    TOOL_VALUE(TOOL_SIZE, 0, "ird-ord", "N", TO(plan.reads), 1, PERF_DEPTH_MAX, NULL,
               PERF_GIVEN_IRD_ORD, "IRD and ORD of every endpoint (default: read as -o, else 0)"),
    TOOL_BY(0, "idle", "TIME", take_idle, NULL, 0,
            "lat: pause before each message; ms, us and s allowed (default s)"),
    TOOL_SWITCH(0, "write-send", TO(plan.write_send), PERF_GIVEN_WRITE_SEND,
                "write lat: each Write is followed by a Send that tells of it"),
    TOOL_SWITCH(0, "pair", TO(plan.pair), PERF_GIVEN_PAIR,
                "send lat: a lone Send, then two posted in a row, whose second one is timed on its "
                "way; one host only, -s of 16 or more (default 64)"),
    TOOL_BY(0, "away", "TIME", take_away, NULL, 0,
            "--pair: the client does not call for so long after the posts; ms, us and s allowed "
            "(default: it waits at once)"),
    TOOL_ONE_OF(0, "poll-memory", "WAY", TO(plan.pure_memory), "mixed pure", 0,
                "way to poll memory: pure or mixed", PERF_GIVEN_POLL,
                "write lat: mixed (default) looks at memory and polls its events between looks, "
                "pure never calls the library in between"),
    TOOL_SWITCH(0, "perform_warm_up", TO(warm_up), 0, "run each size once without measuring first"),
    TOOL_HEADLINE("How to wait for completions:"),
    TOOL_BY('e', "events", NULL, take_events, NULL, PERF_GIVEN_MODE,
            "sleep until an event comes (default: poll)"),
    TOOL_ONE_OF(0, "completion", "MODE", TO(plan.mode), "busy event fd", PERF_BUSY,
                "way to learn of completions: busy, event or fd", PERF_GIVEN_MODE,
                "busy, event (as -e) or fd: sleep in poll(2) on the descriptor"),
    TOOL_ONE_OF(0, "target", "MODE", TO(plan.target), "busy event fd nap", PERF_BUSY,
                "way to learn of completions: busy, event or fd, or nap", PERF_GIVEN_TARGET,
                "of the server (default: as the client; with fd its program sleeps outside of the "
                "library, as one does that is only written to); nap, read lat: polls, then does "
                "not call, and is read from then"),
    TOOL_HEADLINE("Connection:"),
    TOOL_ARGUMENT('d', "ib-dev", "NAME", TO(interface), "@interface", 0,
                  "interface (default: the first usable one, see itinfo)"),
    TOOL_ARGUMENT(0, "interface", "NAME", TO(interface), "@interface", 0, "the same"),
    TOOL_VALUE(TOOL_NUMBER, 'p', "port", "PORT", TO(port), 0, 65535, "port: 0 to 65535", 0,
               "port (default 18515; server: 0 takes any free one and prints it)"),
    TOOL_VALUE(TOOL_SECONDS, 0, "timeout", "SECONDS", TO(timeout_us), 1000, 1000000000000,
               "waiting " TIME, 0, "longest wait for a connection (default 10)"),
    TOOL_SWITCH(0, "keep", TO(keep), 0, "server: stay after a client instead of ending"),
    TOOL_HEADLINE("What a server grants; a client that asks for more is refused, with the reason:"),
    TOOL_VALUE(TOOL_SIZE, 0, "max-memory", "SIZE", TO(limits.memory), 1, UINT64_MAX,
               "amount of memory: bytes, k, M and G allowed", PERF_GIVEN_LIMIT,
               "bytes of a session (default 1G)"),
    TOOL_VALUE(TOOL_SIZE, 0, "max-threads", "N", TO(limits.threads), 1, PERF_THREADS_MAX, NULL,
               PERF_GIVEN_LIMIT,
               "threads (default: the processors, at least 2; --threads raises it)"),
    TOOL_VALUE(TOOL_SIZE, 0, "max-polling", "N", TO(limits.polling), 0, PERF_THREADS_MAX, NULL,
               PERF_GIVEN_LIMIT | PERF_GIVEN_POLLING,
               "of them, those that poll instead of sleeping (default: all)"),
    TOOL_VALUE(TOOL_SECONDS, 0, "max-time", "SECONDS", TO(limits.time_us), 1000, 1000000000000000,
               TIME, PERF_GIVEN_LIMIT, "of a session (default 3600)"),
    TOOL_VALUE(TOOL_SECONDS, 0, "max-silence", "SECONDS", TO(limits.silence_us), 1000,
               1000000000000000, TIME, PERF_GIVEN_LIMIT,
               "until a client of which nothing is heard is given up (default 60)"),
    TOOL_HEADLINE("Results:"),
    TOOL_SWITCH(0, "report_gbits", TO(gbits), 0, "bandwidth in Gb/s instead of MiB/s"),
    TOOL_SWITCH('N', "noPeak", TO(no_peak), 0, "bw: no peak"),
    TOOL_SWITCH(0, "cpu_util", TO(cpu_util), 0,
                "columns for CPU time: share of one CPU, ns per message on each side"),
    TOOL_SWITCH('H', "report-histogram", TO(histogram), 0, "lat: every single time, sorted"),
    TOOL_SWITCH('U', "report-unsorted", TO(unsorted), 0, "lat: every single time, as they came"),
    TOOL_SWITCH(0, "plot", TO(plot), 0, "a plot of sizes against times or bandwidth"),
    TOOL_SWITCH(0, "json", TO(json), 0, "results as JSON on stdout, instead of text"),
    TOOL_BY(0, "out_json", NULL, take_json_default, NULL, 0,
            "... into perftest_out.json, besides text"),
    TOOL_ARGUMENT(0, "out_json_file", "FILE", TO(json_file), "@file", 0, "... into that file"),
    TOOL_SWITCH(0, "quiet", TO(quiet), 0, "no progress bar, no head"),
    /* Of perftest, without effect; the notes have them. */
    TOOL_UNUSED('R', "rdma_cm"),
    TOOL_UNUSED('z', "comm_rdma_cm"),
    TOOL_UNUSED('F', "CPU-freq"),
    TOOL_BY('c', "connection", "RC", take_connection, "RC", 0, NULL),
};

static const struct tool_table table = {
    .usage = "Usage: itperf [send|write|read] [lat|bw] [OPTION]...                (server)\n"
             "       itperf [send|write|read] [lat|bw] [OPTION]... HOST[:PORT]    (client)\n"
             "Measures latency, bandwidth and message rate over an IT-API interface, with "
             "perftest's flags,\n"
             "columns and JSON keys: 'itperf write bw' is its ib_write_bw. Client default: send "
             "lat.\n"
             "The client says what is measured; a server that was given options takes only clients "
             "that\n"
             "agree with them, and says what does not.\n",
    .notes = "Accepted as by perftest, without effect: -R, --rdma_cm, -z, --comm_rdma_cm, -F, "
             "--CPU-freq,\n"
             "-c RC.\n"
             "\n"
             "Columns: t_typical is the median; t_* are half round trips, of read whole ones. A "
             "message counts\n"
             "when it has arrived.\n"
             "Exit status: 0, 1 if something failed, 2 for wrong arguments.\n"
             "Example: itperf &  itperf write bw -a --plot localhost\n",
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
    .given = offsetof(struct perf_options, given),
    .operands = "send write read lat bw @host",
};

/* Not as a host: it is much more likely misplaced. */
static bool is_word(const char *text)
{
    for (int i = PERF_SEND; i <= PERF_READ; i++)
        if (!strcmp(text, perf_op_names[i]))
            return true;
    return !strcmp(text, perf_kind_names[PERF_LAT]) || !strcmp(text, perf_kind_names[PERF_BW]);
}

/* An unknown word was taken for HOST, and others follow: most likely it is a misspelt one. */
static int no_word(const char *word, const char *next)
{
    char near[TOOL_NEAR];

    return tool_usage("'%s' is no operation (send, write, read) and no kind (lat, bw); as HOST it "
                      "would be the last word, but '%s' follows%s",
                      word, next, tool_near(table.operands, word, near));
}

/* The words: operation and kind, in this order, and a host. */
static int take_words(int argc, char **argv, struct perf_options *options)
{
    options->server = true;
    for (; optind < argc; optind++) {
        const char *word = argv[optind];
        bool taken = false;

        for (int i = PERF_SEND; options->server && i <= PERF_READ; i++) {
            if (options->plan.op || options->plan.kind || strcmp(word, perf_op_names[i]) != 0)
                continue;
            options->plan.op = (enum perf_op)i;
            taken = true;
        }
        for (int i = PERF_LAT; options->server && i <= PERF_BW; i++) {
            if (options->plan.kind || strcmp(word, perf_kind_names[i]) != 0)
                continue;
            options->plan.kind = (enum perf_kind)i;
            taken = true;
        }
        if (taken)
            continue;
        if (!options->server)
            return no_word(argv[optind - 1], word);
        if (is_word(word))
            return tool_usage("'%s' is out of place: at most one of send, write, read, then one of "
                              "lat, bw, then the HOST",
                              word);
        if (!address_parse(word, options->host, &options->port))
            return tool_usage("'%s' is no operation (send, write, read), no kind (lat, bw) and no "
                              "HOST[:PORT]",
                              word);
        options->server = false;
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct perf_options options = {
        .port = PERF_PORT,
        .timeout_us = 10000000,
        .limits = { .memory = 1u << 30, .time_us = 3600000000u, .silence_us = 60000000 },
    };
    int result;

    tool_init("itperf");
    result = tool_read_options(&table, argc, argv, &options);
    if (result < 0)
        result = take_words(argc, argv, &options);
    if (result < 0)
        result = perf_options_complete(&options);
    if (result >= 0)
        return result;
    tool_catch_signals();
    return options.server ? perf_server(&options) : perf_client(&options);
}
