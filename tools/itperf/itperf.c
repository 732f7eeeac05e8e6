/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: what messages over an Interface cost; perftest's programs in one.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif
#include "itperf.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/tool.h"

static const char help_text[] =
    "Usage: itperf [send|write|read] [lat|bw] [OPTION]...                (server)\n"
    "       itperf [send|write|read] [lat|bw] [OPTION]... HOST[:PORT]    (client)\n"
    "Measures latency, bandwidth and message rate over an IT-API interface, with perftest's "
    "flags,\n"
    "columns and JSON keys: 'itperf write bw' is its ib_write_bw. Client default: send lat.\n"
    "The client says what is measured; a server that was given options takes only clients that\n"
    "agree with them, and says what does not.\n"
    "\n"
    "What is measured:\n"
    "  -s, --size SIZE[,SIZE]...  bytes per message, k and M allowed (default: lat 2, bw 64k)\n"
    "  -a, --all             sizes 2, 4, 8 ... 8M\n"
    "  -n, --iters N         messages per endpoint (default 1000, write 5000; at least 5)\n"
    "  -D, --duration SECONDS  measure for that time instead\n"
    "  -q, --qp N            connected endpoints over all threads (default: one per thread)\n"
    "      --active N        endpoints that carry messages (default: all); the others only exist\n"
    "      --threads N       threads on each side, each with endpoints of its own (default 1)\n"
    "  -b, --bidirectional   bw: both directions at once; the figures are sums\n"
    "  -t, --tx-depth N      requests outstanding per endpoint (default: bw 128, lat 16)\n"
    "  -r, --rx-depth N      send: receives posted per endpoint (default: bw 512, lat 16)\n"
    "  -l, --post_list N     bw: requests posted in one run, released together (default 1)\n"
    "  -Q, --cq-mod N        bw: a completion for every N-th request\n"
    "                        (default: 1 from 8k up, else a quarter of -t, at most 100)\n"
    "  -o, --outs N          read: RDMA Reads in flight per endpoint (default: what there is)\n"
    "      --ird-ord N       IRD and ORD of every endpoint (default: read as -o, else 0)\n"
    "      --idle TIME       lat: pause before each message; ms, us and s allowed (default s)\n"
    "      --write-send      write lat: each Write is followed by a Send that tells of it\n"
    "      --pair            send lat: a lone Send, then two posted in a row, whose second one is\n"
    "                        timed on its way; one host only, -s of 16 or more (default 64)\n"
    "      --away TIME       --pair: the client does not call for so long after the posts; ms, us\n"
    "                        and s allowed (default: it waits at once)\n"
    "      --poll-memory WAY   write lat: mixed (default) looks at memory and polls its events\n"
    "                        between looks, pure never calls the library in between\n"
    "      --perform_warm_up run each size once without measuring first\n"
    "How to wait for completions:\n"
    "  -e, --events          sleep until an event comes (default: poll)\n"
    "      --completion MODE   busy, event (as -e) or fd: sleep in poll(2) on the descriptor\n"
    "      --target MODE     of the server (default: as the client; with fd its program sleeps\n"
    "                        outside of the library, as one does that is only written to);\n"
    "                        nap, read lat: polls, then does not call, and is read from then\n"
    "Connection:\n"
    "  -d, --ib-dev, --interface NAME   interface (default: the first usable one, see itinfo)\n"
    "  -p, --port PORT       port (default 18515; server: 0 takes any free one and prints it)\n"
    "      --timeout SECONDS   longest wait for a connection (default 10)\n"
    "      --keep            server: stay after a client instead of ending\n"
    "What a server grants; a client that asks for more is refused, with the reason:\n"
    "      --max-memory SIZE   bytes of a session (default 1G)\n"
    "      --max-threads N   threads (default: the processors, at least 2; --threads raises it)\n"
    "      --max-polling N   of them, those that poll instead of sleeping (default: all)\n"
    "      --max-time SECONDS  of a session (default 3600)\n"
    "      --max-silence SECONDS  until a client of which nothing is heard is given up (default "
    "60)\n"
    "Results:\n"
    "      --report_gbits    bandwidth in Gb/s instead of MiB/s\n"
    "  -N, --noPeak          bw: no peak\n"
    "      --cpu_util        columns for CPU time: share of one CPU, ns per message on each side\n"
    "  -H, --report-histogram  lat: every single time, sorted\n"
    "  -U, --report-unsorted   lat: every single time, as they came\n"
    "      --plot            a plot of sizes against times or bandwidth\n"
    "      --json            results as JSON on stdout, instead of text\n"
    "      --out_json        ... into perftest_out.json, besides text\n"
    "      --out_json_file FILE  ... into that file\n"
    "      --quiet           no progress bar, no head\n"
    "  -h, --help            this text\n"
    "  -V, --version         the version\n"
    "Accepted as by perftest, without effect: -R, --rdma_cm, -z, --comm_rdma_cm, "
    "-F, "
    "--CPU-freq,\n"
    "-c RC.\n"
    "\n"
    "Columns: t_typical is the median; t_* are half round trips, of read whole ones. A message "
    "counts\n"
    "when it has arrived.\n"
    "Exit status: 0, 1 if something failed, 2 for wrong arguments.\n"
    "Example: itperf &  itperf write bw -a --plot localhost\n";

enum long_only {
    OPT_ACTIVE = 256,
    OPT_THREADS,
    OPT_IRD_ORD,
    OPT_IDLE,
    OPT_PAIR,
    OPT_AWAY,
    OPT_WRITE_SEND,
    OPT_POLL_MEMORY,
    OPT_WARM_UP,
    OPT_COMPLETION,
    OPT_TARGET,
    OPT_TIMEOUT,
    OPT_KEEP,
    OPT_MAX_MEMORY,
    OPT_MAX_THREADS,
    OPT_MAX_POLLING,
    OPT_MAX_TIME,
    OPT_MAX_SILENCE,
    OPT_GBITS,
    OPT_CPU_UTIL,
    OPT_PLOT,
    OPT_JSON,
    OPT_OUT_JSON,
    OPT_OUT_JSON_FILE,
    OPT_QUIET
};

static const struct option longs[] = {
    { "size", required_argument, NULL, 's' },
    { "all", no_argument, NULL, 'a' },
    { "iters", required_argument, NULL, 'n' },
    { "duration", required_argument, NULL, 'D' },
    { "qp", required_argument, NULL, 'q' },
    { "active", required_argument, NULL, OPT_ACTIVE },
    { "threads", required_argument, NULL, OPT_THREADS },
    { "bidirectional", no_argument, NULL, 'b' },
    { "tx-depth", required_argument, NULL, 't' },
    { "rx-depth", required_argument, NULL, 'r' },
    { "post_list", required_argument, NULL, 'l' },
    { "cq-mod", required_argument, NULL, 'Q' },
    { "outs", required_argument, NULL, 'o' },
    { "ird-ord", required_argument, NULL, OPT_IRD_ORD },
    { "idle", required_argument, NULL, OPT_IDLE },
    { "pair", no_argument, NULL, OPT_PAIR },
    { "away", required_argument, NULL, OPT_AWAY },
    { "write-send", no_argument, NULL, OPT_WRITE_SEND },
    { "poll-memory", required_argument, NULL, OPT_POLL_MEMORY },
    { "perform_warm_up", no_argument, NULL, OPT_WARM_UP },
    { "events", no_argument, NULL, 'e' },
    { "completion", required_argument, NULL, OPT_COMPLETION },
    { "target", required_argument, NULL, OPT_TARGET },
    { "ib-dev", required_argument, NULL, 'd' },
    { "interface", required_argument, NULL, 'd' },
    { "port", required_argument, NULL, 'p' },
    { "timeout", required_argument, NULL, OPT_TIMEOUT },
    { "keep", no_argument, NULL, OPT_KEEP },
    { "max-memory", required_argument, NULL, OPT_MAX_MEMORY },
    { "max-threads", required_argument, NULL, OPT_MAX_THREADS },
    { "max-polling", required_argument, NULL, OPT_MAX_POLLING },
    { "max-time", required_argument, NULL, OPT_MAX_TIME },
    { "max-silence", required_argument, NULL, OPT_MAX_SILENCE },
    { "report_gbits", no_argument, NULL, OPT_GBITS },
    { "noPeak", no_argument, NULL, 'N' },
    { "cpu_util", no_argument, NULL, OPT_CPU_UTIL },
    { "report-histogram", no_argument, NULL, 'H' },
    { "report-unsorted", no_argument, NULL, 'U' },
    { "plot", no_argument, NULL, OPT_PLOT },
    { "json", no_argument, NULL, OPT_JSON },
    { "out_json", no_argument, NULL, OPT_OUT_JSON },
    { "out_json_file", required_argument, NULL, OPT_OUT_JSON_FILE },
    { "quiet", no_argument, NULL, OPT_QUIET },
    { "rdma_cm", no_argument, NULL, 'R' },
    { "comm_rdma_cm", no_argument, NULL, 'z' },
    { "CPU-freq", no_argument, NULL, 'F' },
    { "connection", required_argument, NULL, 'c' },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, 'V' },
    { NULL, 0, NULL, 0 },
};

static const char shorts[] = ":s:an:D:q:bt:r:l:Q:o:ed:p:NHURzFc:hV";

static int take_sizes(struct perf_options *options, const char *text)
{
    char word[32];
    uint64_t size;

    options->plan.sizes = 0;
    options->given |= PERF_GIVEN_SIZE;
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

static void take_all_sizes(struct perf_options *options)
{
    options->given |= PERF_GIVEN_SIZE;
    options->plan.sizes = PERF_ALL_LAST;
    for (uint32_t i = 0; i < PERF_ALL_LAST; i++)
        options->size[i] = 2u << i;
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

static bool parse_mode(const char *text, enum perf_mode last, enum perf_mode *mode)
{
    for (int i = PERF_BUSY; i <= (int)last; i++) {
        if (!strcmp(text, perf_mode_names[i])) {
            *mode = (enum perf_mode)i;
            return true;
        }
    }
    return false;
}

/* Options that are a number within bounds. */
static int take_number(struct perf_options *options, int letter, const char *text)
{
    struct perf_plan *plan = &options->plan;
    struct perf_limits *limits = &options->limits;
    const struct {
        int letter;
        unsigned given;
        uint64_t least, most;
        uint32_t *value;
        const char *what;
    } numbers[] = {
        { 'q', PERF_GIVEN_ENDPOINTS, 1, PERF_ENDPOINTS_MAX, &plan->endpoints,
          "number of endpoints" },
        { OPT_ACTIVE, PERF_GIVEN_ACTIVE, 1, PERF_ENDPOINTS_MAX, &plan->active,
          "number of endpoints" },
        { OPT_THREADS, PERF_GIVEN_THREADS, 1, PERF_THREADS_MAX, &plan->threads,
          "number of threads" },
        { 't', PERF_GIVEN_TX, 1, PERF_DEPTH_MAX, &plan->tx_depth, "queue depth" },
        { 'r', PERF_GIVEN_RX, 1, PERF_DEPTH_MAX, &plan->rx_depth, "queue depth" },
        { 'l', PERF_GIVEN_LIST, 1, PERF_DEPTH_MAX, &plan->list, "length of a list" },
        { 'Q', PERF_GIVEN_CQ_MOD, 1, PERF_DEPTH_MAX, &plan->cq_mod, "number of requests" },
        { 'o', PERF_GIVEN_READS, 1, PERF_DEPTH_MAX, &plan->reads, "number of reads" },
        { OPT_IRD_ORD, PERF_GIVEN_IRD_ORD, 1, PERF_DEPTH_MAX, &plan->reads, "number of reads" },
        { OPT_MAX_THREADS, PERF_GIVEN_LIMIT, 1, PERF_THREADS_MAX, &limits->threads,
          "number of threads" },
        { OPT_MAX_POLLING, PERF_GIVEN_LIMIT | PERF_GIVEN_POLLING, 0, PERF_THREADS_MAX,
          &limits->polling, "number of threads" },
    };
    uint64_t number;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        if (numbers[i].letter != letter)
            continue;
        if (!tool_parse_size(text, numbers[i].least, numbers[i].most, &number))
            return tool_usage("'%s' is no %s: %llu to %llu", text, numbers[i].what,
                              (unsigned long long)numbers[i].least,
                              (unsigned long long)numbers[i].most);
        *numbers[i].value = (uint32_t)number;
        options->given |= numbers[i].given;
        return -1;
    }
    return 0;
}

static int take_limit(struct perf_options *options, int letter, const char *text)
{
    struct perf_limits *limits = &options->limits;

    options->given |= PERF_GIVEN_LIMIT;
    if (letter == OPT_MAX_MEMORY && !tool_parse_size(text, 1, UINT64_MAX, &limits->memory))
        return tool_usage("'%s' is no amount of memory: bytes, k, M and G allowed", text);
    if (letter != OPT_MAX_MEMORY &&
        !tool_parse_seconds(text, 1e-3, 1e9,
                            letter == OPT_MAX_TIME ? &limits->time_us : &limits->silence_us))
        return tool_usage("'%s' is no time: seconds, 0.001 or more", text);
    return -1;
}

static int take_value(struct perf_options *options, int letter, const char *text)
{
    struct perf_plan *plan = &options->plan;
    uint64_t number;

    switch (letter) {
    case 's': return take_sizes(options, text);
    case 'n':
        if (!tool_parse_size(text, 5, 1ull << 40, &plan->iterations))
            return tool_usage("'%s' is no number of messages: 5 or more", text);
        options->given |= PERF_GIVEN_COUNT;
        return -1;
    case 'D':
        if (!tool_parse_seconds(text, 1e-3, 1e6, &plan->duration_us))
            return tool_usage("'%s' is no time: seconds, 0.001 or more", text);
        options->given |= PERF_GIVEN_TIME;
        return -1;
    case OPT_IDLE:
        if (!parse_time(text, &options->idle_us))
            return tool_usage("'%s' is no pause: seconds, or with ms or us behind", text);
        return -1;
    case OPT_AWAY:
        if (!parse_time(text, &options->away_us))
            return tool_usage("'%s' is no time: seconds, or with ms or us behind", text);
        return -1;
    case OPT_POLL_MEMORY:
        if (strcmp(text, "pure") != 0 && strcmp(text, "mixed") != 0)
            return tool_usage("'%s' is no way to poll memory: pure or mixed", text);
        plan->pure_memory = *text == 'p';
        options->given |= PERF_GIVEN_POLL;
        return -1;
    case OPT_COMPLETION:
    case OPT_TARGET:
        if (!(letter == OPT_TARGET ? parse_mode(text, PERF_NAP, &plan->target)
                                   : parse_mode(text, PERF_FD, &plan->mode)))
            return tool_usage("'%s' is no way to learn of completions: busy, event or fd%s", text,
                              letter == OPT_TARGET ? ", or nap" : "");
        options->given |= letter == OPT_TARGET ? PERF_GIVEN_TARGET : PERF_GIVEN_MODE;
        return -1;
    case 'p':
        if (!tool_parse_number(text, 0, 65535, &number))
            return tool_usage("'%s' is no port: 0 to 65535", text);
        options->port = (uint16_t)number;
        return -1;
    case OPT_TIMEOUT:
        if (!tool_parse_seconds(text, 1e-3, 1e6, &options->timeout_us))
            return tool_usage("'%s' is no waiting time: seconds, 0.001 or more", text);
        return -1;
    case 'c':
        if (strcmp(text, "RC") != 0)
            return tool_usage("connection type '%s' is not supported: RC only", text);
        return -1;
    case OPT_MAX_MEMORY:
    case OPT_MAX_TIME:
    case OPT_MAX_SILENCE: return take_limit(options, letter, text);
    default: return take_number(options, letter, text);
    }
}

static bool take_flag(struct perf_options *options, int letter)
{
    switch (letter) {
    case 'a': take_all_sizes(options); return true;
    case 'b':
        options->plan.bidirectional = true;
        options->given |= PERF_GIVEN_BIDIRECTIONAL;
        return true;
    case 'e':
        options->plan.mode = PERF_EVENT;
        options->given |= PERF_GIVEN_MODE;
        return true;
    case OPT_WRITE_SEND:
        options->plan.write_send = true;
        options->given |= PERF_GIVEN_WRITE_SEND;
        return true;
    case OPT_PAIR:
        options->plan.pair = true;
        options->given |= PERF_GIVEN_PAIR;
        return true;
    case OPT_WARM_UP: options->warm_up = true; return true;
    case OPT_KEEP: options->keep = true; return true;
    case OPT_GBITS: options->gbits = true; return true;
    case 'N': options->no_peak = true; return true;
    case OPT_CPU_UTIL: options->cpu_util = true; return true;
    case 'H': options->histogram = true; return true;
    case 'U': options->unsorted = true; return true;
    case OPT_PLOT: options->plot = true; return true;
    case OPT_JSON: options->json = true; return true;
    case OPT_OUT_JSON:
        if (!options->json_file)
            options->json_file = "perftest_out.json";
        return true;
    case OPT_QUIET: options->quiet = true; return true;
    case 'R':
    case 'z':
    case 'F': return true;
    default: return false;
    }
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct perf_options *options)
{
    int letter, result;

    while ((letter = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (take_flag(options, letter))
            continue;
        switch (letter) {
        case 'd': options->interface = optarg; break;
        case OPT_OUT_JSON_FILE: options->json_file = optarg; break;
        case 'h': fputs(help_text, stdout); return TOOL_OK;
        case 'V': tool_version(); return TOOL_OK;
        case '?':
        case ':': return tool_bad_option(letter, argv, shorts);
        default:
            result = take_value(options, letter, optarg);
            if (result >= 0)
                return result;
        }
    }
    return -1;
}

/* Not as a host: it is much more likely misplaced. */
static bool is_word(const char *text)
{
    for (int i = PERF_SEND; i <= PERF_READ; i++)
        if (!strcmp(text, perf_op_names[i]))
            return true;
    return !strcmp(text, perf_kind_names[PERF_LAT]) || !strcmp(text, perf_kind_names[PERF_BW]);
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
        /* An unknown word was taken for HOST: most likely it is a misspelt option. */
        if (!options->server)
            return tool_usage("'%s' is no operation (send, write, read) and no kind (lat, bw); as "
                              "HOST it would be the last word, but '%s' follows",
                              argv[optind - 1], word);
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
    result = parse(argc, argv, &options);
    if (result < 0)
        result = take_words(argc, argv, &options);
    if (result < 0)
        result = perf_options_complete(&options);
    if (result >= 0)
        return result;
    tool_catch_signals();
    return options.server ? perf_server(&options) : perf_client(&options);
}
