/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itconform: is an iWARP endpoint what the RFCs say? Arguments and the run.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "helper.h"
#include "itconform.h"

#include "tools/common/tool.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const char help_text[] =
    "Usage: itconform [OPTION...] HOST:PORT\n"
    "       itconform --list [--only PATTERN]\n"
    "Judges an iWARP endpoint from outside, by raw octets over TCP: which of the numbered\n"
    "requirements of MPA, DDP and RDMAP it keeps. At HOST:PORT something listens and accepts,\n"
    "again and again. No RDMA library is needed here.\n"
    "\n"
    "  -o, --only PATTERN         only numbers that match, such as C-05*\n"
    "  -x, --except PATTERN       not the numbers that match, which may harm this peer\n"
    "  -n, --least N              failed unless N are judged (default 50; 1 with --only)\n"
    "  -j, --json                 the report as one JSON object\n"
    "  -w, --pcap FILE            writes what is said and heard, for Wireshark\n"
    "  -P, --private-data HEX     private data of the Requests, for listeners that want some\n"
    "  -t, --timeout SECONDS      how long an answer may take (default 3)\n"
    "  -T, --timer SECONDS        how long the peer's own timers may take (default 15)\n"
    "      --settle MS            pause between the Reply and the first FPDU (default 20)\n"
    "      --with-verbs[=PORT]    also what itconform-peer, beside the peer, has to post for\n"
    "                             (its control port, default 7472)\n"
    "      --dangerous            also, and last, what has crashed kernels\n"
    "  -l, --list                 prints what each number wants, and ends\n"
    "  -v, --verbose              the octets of those that pass, too\n"
    "  -h, --help                 this text\n"
    "  -V, --version              the version\n"
    "\n"
    "Exit status: 0 nothing failed and enough were judged, 1 failed, 2 could not run.\n"
    "Every connection is ended by FIN, unless the number is about RST. Never point this at an\n"
    "endpoint that others use.\n"
    "\n"
    "Example: ital-run itconform-peer 127.0.0.1 &\n"
    "         itconform 127.0.0.1:7471\n";

struct arguments {
    const char *only, *except, *pcap;
    uint64_t least, control;
    bool least_given, json, list, verbose;
    uint8_t private_data[504];
};

enum { OPT_SETTLE = 256, OPT_DANGEROUS, OPT_VERBS };

/* ---- arguments ---- */

static int take_private_data(const char *text, struct arguments *arguments)
{
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

static int take_seconds(const char *text, unsigned int *ms)
{
    uint64_t us;

    if (!tool_parse_seconds(text, 0.05, 600, &us))
        return tool_usage("'%s' is no number of seconds from 0.05 to 600", text);
    *ms = (unsigned int)(us / 1000);
    return -1;
}

static int take_number(const char *text, uint64_t most, uint64_t *value)
{
    if (tool_parse_number(text, 0, most, value))
        return -1;
    return tool_usage("'%s' is no number from 0 to %llu", text, (unsigned long long)most);
}

/* Returns -1 to continue, else the exit code. */
static int take_option(int letter, struct arguments *arguments)
{
    uint64_t settle = target.settle_ms;
    int code;

    switch (letter) {
    case 'o': arguments->only = optarg; return -1;
    case 'x': arguments->except = optarg; return -1;
    case 'n':
        arguments->least_given = true;
        return take_number(optarg, MOST_REQUIREMENTS, &arguments->least);
    case 'j': arguments->json = true; return -1;
    case 'w': arguments->pcap = optarg; return -1;
    case 'P': return take_private_data(optarg, arguments);
    case 't': return take_seconds(optarg, &target.patience_ms);
    case 'T': return take_seconds(optarg, &target.timer_ms);
    case OPT_SETTLE:
        code = take_number(optarg, 10000, &settle);
        target.settle_ms = (unsigned int)settle;
        return code;
    case OPT_VERBS:
        arguments->control = TOOL_PORT + 1;
        return optarg ? take_number(optarg, 65535, &arguments->control) : -1;
    case OPT_DANGEROUS: target.dangerous = true; return -1;
    case 'l': arguments->list = true; return -1;
    case 'v': arguments->verbose = true; return -1;
    case 'h': fputs(help_text, stdout); return TOOL_OK;
    case 'V': tool_version(); return TOOL_OK;
    default: return TOOL_USAGE;
    }
}

static int check_operands(int argc, char **argv, struct arguments *arguments)
{
    const char *colon;

    if (arguments->only && !arguments->least_given)
        arguments->least = 1;
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
    colon = strrchr(argv[optind], ':');
    if (!colon || colon == argv[optind] || !colon[1])
        return tool_usage("'%s' is not HOST:PORT", argv[optind]);
    return -1;
}

static int parse(int argc, char **argv, struct arguments *arguments)
{
    static const struct option longs[] = {
        { "only", required_argument, NULL, 'o' },
        { "except", required_argument, NULL, 'x' },
        { "least", required_argument, NULL, 'n' },
        { "json", no_argument, NULL, 'j' },
        { "pcap", required_argument, NULL, 'w' },
        { "private-data", required_argument, NULL, 'P' },
        { "timeout", required_argument, NULL, 't' },
        { "timer", required_argument, NULL, 'T' },
        { "settle", required_argument, NULL, OPT_SETTLE },
        { "with-verbs", optional_argument, NULL, OPT_VERBS },
        { "dangerous", no_argument, NULL, OPT_DANGEROUS },
        { "list", no_argument, NULL, 'l' },
        { "verbose", no_argument, NULL, 'v' },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { NULL, 0, NULL, 0 },
    };
    static const char shorts[] = ":o:x:n:jw:P:t:T:lvhV";
    int letter, code;

    while ((letter = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (letter == '?' || letter == ':')
            return tool_bad_option(letter, argv, shorts);
        code = take_option(letter, arguments);
        if (code >= 0)
            return code;
    }
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

    if (!run_all(arguments, results, &report))
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

int main(int argc, char **argv)
{
    static struct arguments arguments = { .least = 50 };
    int code;

    tool_init("itconform");
    target.patience_ms = 3000;
    target.timer_ms = 15000;
    target.settle_ms = 20;
    code = parse(argc, argv, &arguments);
    if (code >= 0)
        return code;
    if (arguments.list)
        return list(&arguments);
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
