/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itconform-peer: what listens beside an RDMA device while itconform judges it. Arguments and the
 * two listeners.
 */
#include "peer.h"

#include "tools/common/options.h"
#include "tools/common/tool.h"

#include <errno.h>
#include <getopt.h> /* optind */
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct arguments {
    uint16_t port, control;
};

#define TO(member) TOOL_TO(struct arguments, member)

static const struct tool_option rows[] = {
    TOOL_VALUE(TOOL_NUMBER, 'p', "port", "PORT", TO(port), 0, 65535, "port: 0 to 65535", 0,
               "for RDMA (default 7471; 0: any)"),
    TOOL_VALUE(TOOL_NUMBER, 'c', "control", "PORT", TO(control), 0, 65535, "port: 0 to 65535", 0,
               "for itconform (default 7472; 0: any)"),
};

static const struct tool_table table = {
    .usage = "Usage: itconform-peer [OPTION...] [ADDRESS]\n"
             "Listens at an RDMA device's ADDRESS (default 0.0.0.0) by libibverbs and librdmacm, "
             "accepts\n"
             "every connection and posts receives, for itconform to judge the device. Posts what\n"
             "'itconform --with-verbs' asks for over the control port: only for networks that are\n"
             "trusted. Also: ital-run itconform-peer.\n",
    .notes = "Ends with SIGINT or SIGTERM. Exit status: 0, 1 if it could not listen, 2 wrong "
             "arguments.\n",
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
};

static int parse(int argc, char **argv, struct arguments *arguments)
{
    int code = tool_read_options(&table, argc, argv, arguments);

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
    struct arguments arguments = { .port = TOOL_PORT, .control = TOOL_PORT + 1 };
    int code, control;

    tool_init("itconform-peer");
    code = parse(argc, argv, &arguments);
    if (code >= 0)
        return code;
    if (!peer_listen(&peer, optind < argc ? argv[optind] : "0.0.0.0", &arguments.port))
        return TOOL_FAILED;
    control = listen_control(&arguments.control);
    if (control < 0)
        return TOOL_FAILED;
    printf("listening on port %u\ncontrol on port %u\n", arguments.port, arguments.control);
    fflush(stdout);
    tool_catch_signals();
    serve(&peer, control);
    peer_forget(&peer);
    close(control);
    return TOOL_OK;
}
