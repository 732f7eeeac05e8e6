/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itconform: is an iWARP endpoint what the RFCs say? Arguments and the run.
 */
#include "helper.h"
#include "itconform.h"
#include "roce/roce.h"

#include "tools/common/options.h"
#include "tools/common/tool.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h> /* optind */
#include <stdlib.h>
#include <string.h>

struct arguments {
    const char *only, *except, *pcap;
    uint64_t least, control, timeout_us, timer_us;
    uint32_t given; /* enum given */
    bool json, list, verbose, roce;
    uint8_t private_data[504];
};
enum given { LEAST = 1, NOT_ROCE = 2 /* not with --roce */ };

#define LEAST_IWARP 50u
#define LEAST_ROCE  25u

/* ---- arguments ---- */

static int take_private_data(void *into, const char *text)
{
    struct arguments *arguments = into;
    size_t length = strlen(text) / 2;
    unsigned int octet;
    int used;

    if (strlen(text) % 2 || length > sizeof(arguments->private_data))
        return tool_usage("--private-data takes at most %zu octets, two hexadecimal digits each",
                          sizeof(arguments->private_data));
    for (size_t i = 0; i < length; i++) {
        if (sscanf(text + 2 * i, "%2x%n", &octet, &used) != 1 || used != 2)
            return tool_usage("'%.2s' is no octet in hexadecimal digits", text + 2 * i);
        arguments->private_data[i] = (uint8_t)octet;
    }
    target.private_data = arguments->private_data;
    target.private_length = length;
    return -1;
}

static int take_verbs(void *into, const char *text)
{
    struct arguments *arguments = into;

    arguments->control = TOOL_PORT + 1;
    if (text && !tool_parse_number(text, 0, 65535, &arguments->control))
        return tool_usage("'%s' is no port: 0 to 65535", text);
    return -1;
}

static int take_dangerous(void *into, const char *text)
{
    (void)into;
    (void)text;
    target.dangerous = true;
    return -1;
}

static int take_settle(void *into, const char *text)
{
    uint64_t settle;

    (void)into;
    if (!tool_parse_number(text, 0, 10000, &settle))
        return tool_usage("'%s' is no number from 0 to 10000", text);
    target.settle_ms = (unsigned int)settle;
    return -1;
}

#define TO(member) TOOL_TO(struct arguments, member)
#define SECONDS    "number of seconds from 0.05 to 600"

static const struct tool_option rows[] = {
    TOOL_SWITCH('R', "roce", TO(roce), 0,
                "judges a receiver of RoCEv2 instead, by raw packets over UDP; with :PORT also "
                "connections"),
    TOOL_ARGUMENT('o', "only", "PATTERN", TO(only), "@list", 0,
                  "only numbers that match, such as C-05*"),
    TOOL_ARGUMENT('x', "except", "PATTERN", TO(except), "@list", 0,
                  "not the numbers that match, which may harm this peer"),
    TOOL_VALUE(TOOL_NUMBER, 'n', "least", "N", TO(least), 0, MOST_REQUIREMENTS, NULL, LEAST,
               "failed unless N are judged (default 50, with --roce 25; 1 with --only)"),
    TOOL_SWITCH('j', "json", TO(json), 0, "the report as one JSON object"),
    TOOL_ARGUMENT('w', "pcap", "FILE", TO(pcap), "@file", NOT_ROCE,
                  "writes what is said and heard, for Wireshark"),
    TOOL_BY('P', "private-data", "HEX", take_private_data, NULL, 0,
            "private data of the Requests, for listeners that want some"),
    TOOL_VALUE(TOOL_SECONDS, 't', "timeout", "SECONDS", TO(timeout_us), 50000, 600000000, SECONDS,
               0, "how long an answer may take (default 3)"),
    TOOL_VALUE(TOOL_SECONDS, 'T', "timer", "SECONDS", TO(timer_us), 50000, 600000000, SECONDS, 0,
               "how long the peer's own timers may take (default 15)"),
    TOOL_BY(0, "settle", "MS", take_settle, NULL, NOT_ROCE,
            "pause between the Reply and the first FPDU (default 20)"),
    TOOL_MAYBE(0, "with-verbs", "PORT", take_verbs, NOT_ROCE,
               "also what itconform-peer, beside the peer, has to post for (its control port, "
               "default 7472)"),
    TOOL_BY(0, "dangerous", NULL, take_dangerous, NULL, NOT_ROCE,
            "also, and last, what has crashed kernels"),
    TOOL_SWITCH('l', "list", TO(list), 0, "prints what each number wants, and ends"),
    TOOL_SWITCH('v', "verbose", TO(verbose), 0, "the octets of those that pass, too"),
};

static const struct tool_table table = {
    .usage =
        "Usage: itconform [OPTION...] HOST:PORT\n"
        "       itconform --roce [OPTION...] HOST[:PORT]\n"
        "       itconform --list [--roce] [--only PATTERN]\n"
        "Judges an iWARP endpoint from outside, by raw octets over TCP: which of the numbered\n"
        "requirements of MPA, DDP and RDMAP it keeps. At HOST:PORT something listens and accepts,\n"
        "again and again. No RDMA library is needed here.\n"
        "With --roce: a receiver of RoCEv2, the kernel's rdma_rxe, an adapter, or ital. At PORT a\n"
        "program of rdma_cm listens and accepts, again and again, such as itconform-peer; without\n"
        "PORT what needs no connection is judged.\n",
    .notes =
        "Exit status: 0 nothing failed and enough were judged, 1 failed, 2 could not run.\n"
        "Every connection is ended by FIN, unless the number is about RST. Never point this at an\n"
        "endpoint that others use.\n"
        "\n"
        "Example: ital-run itconform-peer 127.0.0.1 &\n"
        "         itconform 127.0.0.1:7471\n"
        "         itconform --roce 192.0.2.7:7471\n",
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
    .given = offsetof(struct arguments, given),
    .operands = "@host",
};

static int check_operands(int argc, char **argv, struct arguments *arguments)
{
    const char *colon;

    if (!(arguments->given & LEAST))
        arguments->least = arguments->only ? 1 : arguments->roce ? LEAST_ROCE : LEAST_IWARP;
#ifndef HAVE_JANSSON
    if (arguments->json)
        return tool_usage("--json is not in this build; configure it with jansson");
#endif
    if (arguments->list)
        return argc == optind ? -1 : tool_usage("--list takes no '%s'", argv[optind]);
    if (argc == optind)
        return tool_usage("HOST:PORT is missing");
    if (argc > optind + 1)
        return tool_usage("'%s' is one argument too many", argv[optind + 1]);
    if (arguments->roce)
        return arguments->given & NOT_ROCE
                   ? tool_usage("-w, --settle, --with-verbs and --dangerous are not for --roce")
                   : -1;
    colon = strrchr(argv[optind], ':');
    if (!colon || colon == argv[optind] || !colon[1])
        return tool_usage("'%s' is not HOST:PORT", argv[optind]);
    return -1;
}

static int parse(int argc, char **argv, struct arguments *arguments)
{
    int code;

    arguments->timeout_us = 1000 * UINT64_C(1) * target.patience_ms;
    arguments->timer_us = 1000 * UINT64_C(1) * target.timer_ms;
    code = tool_read_options(&table, argc, argv, arguments);
    if (code >= 0)
        return code;
    target.patience_ms = (unsigned int)(arguments->timeout_us / 1000);
    target.timer_ms = (unsigned int)(arguments->timer_us / 1000);
    return check_operands(argc, argv, arguments);
}

/* HOST:PORT, or [ADDRESS]:PORT. */
static bool find_target(const char *name)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    const char *colon = strrchr(name, ':');
    char *host = strndup(name, (size_t)(colon - name)), *bare = host;
    size_t length = host ? strlen(host) : 0;
    int error;

    if (!length)
        return false;
    if (host[0] == '[' && host[length - 1] == ']') {
        host[length - 1] = '\0';
        bare = host + 1;
    }
    error = getaddrinfo(bare, colon + 1, &hints, &target.address);
    if (error)
        tool_error("%s: %s", name, gai_strerror(error));
    free(host);
    target.name = name;
    return !error;
}

/* ---- the run ---- */

static bool wanted(const struct arguments *arguments, const struct requirement *requirement)
{
    return (!arguments->only || !fnmatch(arguments->only, requirement->id, 0)) &&
           (!arguments->except || fnmatch(arguments->except, requirement->id, 0));
}

static int list_roce(const struct arguments *arguments)
{
    for (const struct roce_requirement *at = roce_requirements; at->row.id; at++)
        if (wanted(arguments, &at->row))
            printf("%-6s %s%s\n", at->row.id, at->row.text,
                   at->row.needs & NEEDS_SERVICE ? " (:PORT)" : "");
    return TOOL_OK;
}

static int list(const struct arguments *arguments)
{
    for (const struct requirement *at = requirements; at->id; at++)
        if (wanted(arguments, at))
            printf("%-6s %s%s%s\n", at->id, at->text,
                   at->needs & NEEDS_VERBS ? " (--with-verbs)" : "",
                   at->needs & DANGEROUS ? " (--dangerous)" : "");
    return TOOL_OK;
}

static void take_result(struct report *report, struct result *result, const struct trial *trial)
{
    *result = (struct result){
        .requirement = trial->requirement,
        .verdict = trial->verdict,
        .sent = trial->sent,
        .received = trial->received,
        .microseconds = trial->microseconds,
    };
    memcpy(result->why, trial->why, sizeof(result->why));
    report->verdicts[result->verdict]++;
    report->count++;
}

/* False: the user stopped it. */
static bool run_roce(const struct arguments *arguments, struct result *results,
                     struct report *report)
{
    for (const struct roce_requirement *at = roce_requirements; at->row.id; at++) {
        struct result *result = &results[report->count];

        if (!wanted(arguments, &at->row) || report->count == MOST_REQUIREMENTS)
            continue;
        roce_judge(at, result);
        if (atomic_load(&tool_stop))
            return false;
        report->verdicts[result->verdict]++;
        report->count++;
        if (!arguments->json)
            report_line(result, arguments->verbose);
    }
    return true;
}

/* False: the user stopped it, or the peer cannot be reached at all. */
static bool run_all(const struct arguments *arguments, struct result *results,
                    struct report *report)
{
    static struct trial trial;

    for (const struct requirement *at = requirements; at->id; at++) {
        struct result *result = &results[report->count];

        if (!wanted(arguments, at) || report->count == MOST_REQUIREMENTS)
            continue;
        if (atomic_load(&tool_stop))
            return false;
        trial_run(&trial, at);
        if (trial.unreachable && trial.verdict == NOT_JUDGED && !report->verdicts[PASSED] &&
            !report->verdicts[FAILED]) {
            tool_error("%s: %s", target.name, trial.why);
            return false;
        }
        take_result(report, result, &trial);
        if (!arguments->json)
            report_line(result, arguments->verbose);
    }
    return true;
}

static int judge(const struct arguments *arguments)
{
    static struct result results[MOST_REQUIREMENTS];
    struct report report = { .results = results };
    unsigned int judged;

    if (!(arguments->roce ? run_roce : run_all)(arguments, results, &report))
        return TOOL_USAGE;
    if (!report.count) {
        tool_error("no number matches '%s' (itconform --list)", arguments->only);
        return TOOL_USAGE;
    }
    if (!arguments->json)
        report_summary(&report);
    else if (!report_json(&report))
        return TOOL_USAGE;
    judged = report.verdicts[PASSED] + report.verdicts[FAILED];
    if (judged < arguments->least)
        tool_error("%u requirements were judged; %llu are needed (--least)", judged,
                   (unsigned long long)arguments->least);
    return judged >= arguments->least && !report.verdicts[FAILED] ? TOOL_OK : TOOL_FAILED;
}

static int judge_roce(const struct arguments *arguments, const char *name)
{
    int code;

    if (!roce_open(name))
        return TOOL_USAGE;
    tool_catch_signals();
    code = judge(arguments);
    roce_close();
    return code;
}

int main(int argc, char **argv)
{
    static struct arguments arguments;
    int code;

    tool_init("itconform");
    target.patience_ms = 3000;
    target.timer_ms = 15000;
    target.settle_ms = 20;
    code = parse(argc, argv, &arguments);
    if (code >= 0)
        return code;
    if (arguments.list)
        return arguments.roce ? list_roce(&arguments) : list(&arguments);
    if (arguments.roce)
        return judge_roce(&arguments, argv[optind]);
    if (!find_target(argv[optind]) || (arguments.pcap && !capture_open(arguments.pcap)))
        return TOOL_USAGE;
    if (arguments.control) {
        target.helper = helper_open(target.address, (uint16_t)arguments.control);
        if (!target.helper)
            return TOOL_USAGE;
    }
    tool_catch_signals();
    code = judge(&arguments);
    if (target.helper)
        helper_close(target.helper);
    if (!capture_close())
        code = TOOL_USAGE;
    freeaddrinfo(target.address);
    return code;
}
