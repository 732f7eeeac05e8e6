/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itconform-peer: what listens beside an RDMA device while itconform judges it. Arguments and the
 * two listeners.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "peer.h"

#include "tools/common/tool.h"

#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char help_text[] =
    "Usage: itconform-peer [OPTION...] [ADDRESS]\n"
    "Listens at an RDMA device's ADDRESS (default 0.0.0.0) by libibverbs and librdmacm, accepts\n"
    "every connection and posts receives, for itconform to judge the device. Posts what\n"
    "'itconform --with-verbs' asks for over the control port: only for networks that are\n"
    "trusted. Also: ital-run itconform-peer.\n"
    "\n"
    "  -p, --port PORT            for RDMA (default 7471; 0: any)\n"
    "  -c, --control PORT         for itconform (default 7472; 0: any)\n"
    "  -h, --help                 this text\n"
    "  -V, --version              the version\n"
    "\n"
    "Ends with SIGINT or SIGTERM. Exit status: 0, 1 if it could not listen, 2 wrong arguments.\n";

static int take_port(const char *text, uint16_t *port)
{
    uint64_t value;

    if (!tool_parse_number(text, 0, 65535, &value))
        return tool_usage("'%s' is no port", text);
    *port = (uint16_t)value;
    return -1;
}

static int parse(int argc, char **argv, uint16_t *port, uint16_t *control)
{
    static const struct option longs[] = {
        { "port", required_argument, NULL, 'p' },
        { "control", required_argument, NULL, 'c' },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { NULL, 0, NULL, 0 },
    };
    static const char shorts[] = ":p:c:hV";
    int letter, code = -1;

    while (code < 0 && (letter = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        switch (letter) {
        case 'p': code = take_port(optarg, port); break;
        case 'c': code = take_port(optarg, control); break;
        case 'h': fputs(help_text, stdout); return TOOL_OK;
        case 'V': tool_version(); return TOOL_OK;
        default: return tool_bad_option(letter, argv, shorts);
        }
    }
    if (code < 0 && argc > optind + 1)
        return tool_usage("'%s' is one argument too many", argv[optind + 1]);
    return code;
}

static int listen_control(uint16_t *port)
{
    struct sockaddr_in where = { .sin_family = AF_INET, .sin_port = htons(*port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    socklen_t length = sizeof(where);

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (fd < 0 || bind(fd, (struct sockaddr *)&where, length) || listen(fd, 4) ||
        getsockname(fd, (struct sockaddr *)&where, &length)) {
        tool_error("cannot listen at control port %u: %s", *port, strerror(errno));
        return -1;
    }
    *port = ntohs(where.sin_port);
    return fd;
}

/* One client of the control port after the other; connections are accepted all the time. */
static void serve(struct peer *peer, int control)
{
    while (!atomic_load(&tool_stop)) {
        struct pollfd fds[2] = { { .fd = control, .events = POLLIN },
                                 { .fd = peer->channel->fd, .events = POLLIN } };
        int fd;

        poll(fds, 2, 1000);
        peer_run(peer);
        if (!(fds[0].revents & POLLIN))
            continue;
        fd = accept4(control, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            control_serve(peer, fd);
            close(fd);
        }
    }
}

int main(int argc, char **argv)
{
    static struct peer peer = { .receives = 16, .length = 4096, .ird = 8, .ord = 8 };
    uint16_t port = TOOL_PORT, control_port = TOOL_PORT + 1;
    int code, control;

    tool_init("itconform-peer");
    code = parse(argc, argv, &port, &control_port);
    if (code >= 0)
        return code;
    if (!peer_listen(&peer, optind < argc ? argv[optind] : "0.0.0.0", &port))
        return TOOL_FAILED;
    control = listen_control(&control_port);
    if (control < 0)
        return TOOL_FAILED;
    printf("listening on port %u\ncontrol on port %u\n", port, control_port);
    fflush(stdout);
    tool_catch_signals();
    serve(&peer, control);
    peer_forget(&peer);
    close(control);
    return TOOL_OK;
}
