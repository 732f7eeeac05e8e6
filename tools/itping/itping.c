/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itping: sends verified messages over an Interface and measures round-trip times.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif
#include "itping.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tool.h"

static const char help_text[] =
    "Usage: itping -l [-p PORT] [-I NAME] [--once] [--busy] [--max-memory SIZE] [-q]  (server)\n"
    "       itping [OPTION]... HOST[:PORT]                           (client)\n"
    "Sends messages over an IT-API interface, has them answered, compares every byte on both "
    "sides\n"
    "and shows the round-trip times.\n"
    "\n"
    "  -l, --listen        be the server\n"
    "  -p, --port PORT     port (default 7471; server: 0 takes any free one and prints it)\n"
    "  -I, --interface NAME  interface to use (default: the first usable one, see itinfo)\n"
    "  -1, --once          server: end after one client\n"
    "  -b, --busy          poll for events instead of sleeping; the client's wish holds for both\n"
    "  -q, --quiet         no line per message or client\n"
    "      --max-memory SIZE   server: bytes for all clients together (default 1G); a client that\n"
    "                      needs more is refused\n"
    "Client:\n"
    "  -o, --op OP         send (default), write or read: RDMA Write and RDMA Read\n"
    "  -s, --size SIZE     bytes per message, k and M allowed (default 64, at most 16M)\n"
    "  -n, --count N       number of messages, 0: until stopped (default 1000; with -t 0)\n"
    "  -t, --time SECONDS  stop after that time\n"
    "  -i, --interval SECONDS  pause between messages (default none), a line for each\n"
    "  -w, --wait SECONDS  longest wait for connection and for each answer (default 10)\n"
    "  -T, --tcp           do the same over plain TCP afterwards and show the ratio\n"
    "  -j, --json          results as JSON\n"
    "      --damage BYTE   spoil that byte of the third message, to see that it is noticed\n"
    "  -h, --help          this text\n"
    "  -V, --version       the version\n"
    "\n"
    "HOST is a name, an IPv4 or IPv6 address (with %scope if link-local); [ADDRESS]:PORT for "
    "IPv6.\n"
    "Exit status: 0 if every message came back whole, 1 if not, 2 for wrong arguments.\n"
    "Example: itping -l &  itping -s 4k -n 10000 localhost\n";

struct arguments {
    struct ping_options ping;
    bool listen, once, count_given, client_only, port_given;
    uint64_t max_memory; /* 0: not given */
};

static bool parse_op(const char *text, enum ping_op *op)
{
    static const char *const names[] = { "send", "write", "read" };

    for (int i = 0; i < 3; i++) {
        if (!strcmp(text, names[i])) {
            *op = (enum ping_op)(i + 1);
            return true;
        }
    }
    return false;
}

/* 0, or the exit code after the complaint. */
static int take_value(struct arguments *arguments, int letter, const char *text)
{
    struct ping_options *ping = &arguments->ping;
    uint64_t number;

    switch (letter) {
    case 'p':
        if (!tool_parse_number(text, 0, 65535, &number))
            return tool_usage("'%s' is no port: 0 to 65535", text);
        ping->port = (uint16_t)number;
        arguments->port_given = true;
        return 0;
    case 'm':
        if (!tool_parse_size(text, 1, UINT64_MAX, &arguments->max_memory))
            return tool_usage("'%s' is no amount of memory: bytes, k, M and G allowed", text);
        return 0;
    case 'o':
        if (!parse_op(text, &ping->op))
            return tool_usage("'%s' is no operation: send, write or read", text);
        break;
    case 's':
        if (!tool_parse_size(text, 1, PING_SIZE_MAX, &number))
            return tool_usage("'%s' is no message size: 1 to 16M bytes", text);
        ping->size = (uint32_t)number;
        break;
    case 'n':
        if (!tool_parse_size(text, 0, UINT64_MAX, &ping->count))
            return tool_usage("'%s' is no number of messages", text);
        arguments->count_given = true;
        break;
    case 't':
        if (!tool_parse_seconds(text, 1e-3, 1e9, &ping->duration_us))
            return tool_usage("'%s' is no time: seconds, 0.001 or more", text);
        break;
    case 'i':
        if (!tool_parse_seconds(text, 0, 1e6, &ping->interval_us))
            return tool_usage("'%s' is no interval in seconds", text);
        break;
    case 'w':
        if (!tool_parse_seconds(text, 1e-3, 1e6, &ping->timeout_us))
            return tool_usage("'%s' is no waiting time: seconds, 0.001 or more", text);
        break;
    default:
        if (!tool_parse_size(text, 0, PING_SIZE_MAX - 1, &number))
            return tool_usage("'%s' is no byte of a message", text);
        ping->damage = (int64_t)number;
        break;
    }
    arguments->client_only = true;
    return 0;
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct arguments *arguments)
{
    static const struct option longs[] = {
        { "listen", no_argument, NULL, 'l' },
        { "port", required_argument, NULL, 'p' },
        { "interface", required_argument, NULL, 'I' },
        { "once", no_argument, NULL, '1' },
        { "busy", no_argument, NULL, 'b' },
        { "quiet", no_argument, NULL, 'q' },
        { "op", required_argument, NULL, 'o' },
        { "size", required_argument, NULL, 's' },
        { "count", required_argument, NULL, 'n' },
        { "time", required_argument, NULL, 't' },
        { "interval", required_argument, NULL, 'i' },
        { "wait", required_argument, NULL, 'w' },
        { "tcp", no_argument, NULL, 'T' },
        { "json", no_argument, NULL, 'j' },
        { "damage", required_argument, NULL, 'D' },
        { "max-memory", required_argument, NULL, 'm' },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { NULL, 0, NULL, 0 },
    };
    static const char shorts[] = ":lp:I:1bqo:s:n:t:i:w:TjhV";
    struct ping_options *ping = &arguments->ping;
    int letter, result;

    while ((letter = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        switch (letter) {
        case 'l': arguments->listen = true; break;
        case 'I': ping->interface = optarg; break;
        case '1': arguments->once = true; break;
        case 'b': ping->busy = true; break;
        case 'q': ping->quiet = true; break;
        case 'T': ping->tcp = arguments->client_only = true; break;
        case 'j': ping->json = arguments->client_only = true; break;
        case 'h': fputs(help_text, stdout); return TOOL_OK;
        case 'V': tool_version(); return TOOL_OK;
        case '?':
        case ':': return tool_bad_option(letter, argv, shorts);
        default:
            result = take_value(arguments, letter, optarg);
            if (result)
                return result;
        }
    }
    return -1;
}

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
    if (ping->duration_us && !arguments->count_given)
        ping->count = 0;
    return -1;
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
    result = parse(argc, argv, &arguments);
    if (result >= 0)
        return result;
    if (arguments.listen) {
        if (arguments.client_only)
            return tool_usage("that option is for clients; servers take -p, -I, -1, -b, -q "
                              "and --max-memory");
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
