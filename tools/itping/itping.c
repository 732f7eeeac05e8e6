/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itping: sends verified messages over an Interface and measures round-trip times.
 */
#include "itping.h"
#include "itping_roce.h"

#include <getopt.h> /* optind */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/options.h"
#include "tools/common/tool.h"

struct arguments {
    struct ping_options ping;
    bool listen, once, roce;
    uint32_t given;      /* enum given */
    uint64_t max_memory; /* 0: not given */
};

enum given {
    CLIENT_ONLY = 1,
    COUNT = 2,
    NOT_ROCE = 4, /* not with --roce */
    WAIT = 8,
};

/* The byte of a message; -1 stands for none. */
static int take_damage(void *into, const char *text)
{
    uint64_t number;

    if (!tool_parse_size(text, 0, PING_SIZE_MAX - 1, &number))
        return tool_usage("'%s' is no byte of a message", text);
    ((struct arguments *)into)->ping.damage = (int64_t)number;
    return -1;
}

#define TO(member) TOOL_TO(struct arguments, member)
#define TIME       "time: seconds, 0.001 or more"

static const struct tool_option rows[] = {
    TOOL_SWITCH('l', "listen", TO(listen), 0, "be the server"),
    TOOL_VALUE(TOOL_NUMBER, 'p', "port", "PORT", TO(ping.port), 0, 65535, "port: 0 to 65535",
               NOT_ROCE, "port (default 7471; server: 0 takes any free one and prints it)"),
    TOOL_ARGUMENT('I', "interface", "NAME", TO(ping.interface), "@interface", NOT_ROCE,
                  "interface to use (default: the first usable one, see itinfo)"),
    TOOL_SWITCH('1', "once", TO(once), NOT_ROCE, "server: end after one client"),
    TOOL_SWITCH('b', "busy", TO(ping.busy), NOT_ROCE,
                "poll for events instead of sleeping; the client's wish holds for both"),
    TOOL_SWITCH('q', "quiet", TO(ping.quiet), 0, "no line per message or client"),
    TOOL_VALUE(
        TOOL_SIZE, 0, "max-memory", "SIZE", TO(max_memory), 1, UINT64_MAX,
        "amount of memory: bytes, k, M and G allowed", NOT_ROCE,
        "server: bytes for all clients together (default 1G); a client that needs more is refused"),
    TOOL_HEADLINE("Client:"),
    TOOL_ONE_OF('o', "op", "OP", TO(ping.op), "send write read", PING_SEND,
                "operation: send, write or read", CLIENT_ONLY | NOT_ROCE,
                "send (default), write or read: RDMA Write and RDMA Read"),
    TOOL_VALUE(TOOL_SIZE, 's', "size", "SIZE", TO(ping.size), 1, PING_SIZE_MAX,
               "message size: 1 to 16M bytes", CLIENT_ONLY | NOT_ROCE,
               "bytes per message, k and M allowed (default 64, at most 16M)"),
    TOOL_VALUE(TOOL_SIZE, 'n', "count", "N", TO(ping.count), 0, UINT64_MAX, "number of messages",
               CLIENT_ONLY | COUNT,
               "number of messages, 0: until stopped (default 1000; with -t 0)"),
    TOOL_VALUE(TOOL_SECONDS, 't', "time", "SECONDS", TO(ping.duration_us), 1000, 1000000000000000,
               TIME, CLIENT_ONLY | NOT_ROCE, "stop after that time"),
    TOOL_VALUE(TOOL_SECONDS, 'i', "interval", "SECONDS", TO(ping.interval_us), 0, 1000000000000,
               "interval in seconds", CLIENT_ONLY,
               "pause between messages (default none), a line for each"),
    TOOL_VALUE(TOOL_SECONDS, 'w', "wait", "SECONDS", TO(ping.timeout_us), 1000, 1000000000000,
               "waiting " TIME, CLIENT_ONLY | WAIT,
               "longest wait for connection and for each answer (default 10)"),
    TOOL_SWITCH('T', "tcp", TO(ping.tcp), CLIENT_ONLY | NOT_ROCE,
                "do the same over plain TCP afterwards and show the ratio"),
    TOOL_SWITCH('j', "json", TO(ping.json), CLIENT_ONLY, "results as JSON"),
    TOOL_BY(0, "damage", "BYTE", take_damage, NULL, CLIENT_ONLY | NOT_ROCE,
            "spoil that byte of the third message, to see that it is noticed"),
    TOOL_HEADLINE("RoCE:"),
    TOOL_SWITCH('R', "roce", TO(roce), CLIENT_ONLY,
                "does RoCEv2 reach HOST? UDP port, ICRC, NAT, path MTU, round trips; with -n "
                "(default 5), -i, -w (default 3), -q, -j. HOST needs no server"),
};

static const struct tool_table table = {
    .usage = "Usage: itping -l [-p PORT] [-I NAME] [--once] [--busy] [--max-memory SIZE] [-q]  "
             "(server)\n"
             "       itping [OPTION]... HOST[:PORT]                           (client)\n"
             "       itping --roce [-n N] [-i SECONDS] [-w SECONDS] [-q] [-j] HOST\n"
             "Sends messages over an IT-API interface, has them answered, compares every byte on "
             "both sides\n"
             "and shows the round-trip times.\n",
    .notes = "HOST is a name, an IPv4 or IPv6 address (with %scope if link-local); [ADDRESS]:PORT "
             "for IPv6.\n"
             "Exit status: 0 if every message came back whole (--roce: if HOST answered, and the "
             "answer was\nwhole), 1 if not, 2 for wrong arguments.\n"
             "Example: itping -l &  itping -s 4k -n 10000 localhost\n"
             "         itping --roce 192.0.2.7\n",
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
    .given = offsetof(struct arguments, given),
    .operands = "@host",
    .server = "?",
};

static int check_client(int argc, char **argv, struct arguments *arguments)
{
    struct ping_options *ping = &arguments->ping;

#ifndef HAVE_JANSSON
    if (ping->json)
        return tool_usage("--json is not in this build; configure it with jansson");
#endif
    if (arguments->once)
        return tool_usage("--once is for servers (with -l)");
    if (arguments->max_memory)
        return tool_usage("--max-memory is for servers (with -l)");
    if (optind == argc)
        return tool_usage("HOST is missing; servers are started with -l");
    if (optind + 1 < argc)
        return tool_usage("one HOST only, not also '%s'", argv[optind + 1]);
    if (!address_parse(argv[optind], ping->host, &ping->port))
        return tool_usage("'%s' is no HOST[:PORT]", argv[optind]);
    if (!ping->port)
        return tool_usage("a client needs the server's port; 0 is for servers");
    if (ping->damage >= ping->size)
        return tool_usage("--damage %lld is outside of a message of %u bytes",
                          (long long)ping->damage, ping->size);
    if (ping->damage >= 0 && ping->op == PING_READ)
        return tool_usage("--damage is for send and write: with read nothing is sent");
    if (ping->duration_us && !(arguments->given & COUNT))
        ping->count = 0;
    return -1;
}

static int roce_client(int argc, char **argv, const struct arguments *arguments)
{
    const struct ping_options *ping = &arguments->ping;
    struct roce_options options = { .count = arguments->given & COUNT ? ping->count : 5,
                                    .interval_us = ping->interval_us,
                                    .timeout_us = arguments->given & WAIT ? ping->timeout_us
                                                                          : 3000000,
                                    .quiet = ping->quiet,
                                    .json = ping->json };

#ifndef HAVE_JANSSON
    if (ping->json)
        return tool_usage("--json is not in this build; configure it with jansson");
#endif
    if (arguments->listen || arguments->given & NOT_ROCE)
        return tool_usage("--roce takes -n, -i, -w, -q and -j, and no server is needed");
    if (optind == argc)
        return tool_usage("HOST is missing");
    if (optind + 1 < argc)
        return tool_usage("one HOST only, not also '%s'", argv[optind + 1]);
    if (!options.count)
        options.count = UINT64_MAX;
    options.host = argv[optind];
    tool_catch_signals();
    return ping_roce(&options);
}

int main(int argc, char **argv)
{
    struct arguments arguments = {
        .ping = { .port = TOOL_PORT,
                  .op = PING_SEND,
                  .size = 64,
                  .count = 1000,
                  .timeout_us = 10000000,
                  .damage = -1 },
    };
    int result;

    tool_init("itping");
    result = tool_read_options(&table, argc, argv, &arguments);
    if (result >= 0)
        return result;
    if (arguments.roce)
        return roce_client(argc, argv, &arguments);
    if (arguments.listen) {
        if (arguments.given & CLIENT_ONLY)
            return tool_usage("that option is for clients; servers take -p, -I, -1, -b, -q and "
                              "--max-memory");
        if (optind < argc)
            return tool_usage("a server takes no HOST ('%s')", argv[optind]);
        tool_catch_signals();
        return ping_server(&(struct ping_service_options){
            .interface = arguments.ping.interface,
            .port = arguments.ping.port,
            .once = arguments.once,
            .busy = arguments.ping.busy,
            .quiet = arguments.ping.quiet,
            .max_memory = arguments.max_memory ? arguments.max_memory : 1u << 30 });
    }
    result = check_client(argc, argv, &arguments);
    if (result >= 0)
        return result;
    tool_catch_signals();
    return ping_client(&arguments.ping);
}
