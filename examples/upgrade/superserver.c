/* SPDX-License-Identifier: BSD-3-Clause
 *
 * superserver: accepts connections for a worker, as inetd, systemd or a load balancer does.
 *
 *     superserver PORT COUNT WORKER [ARGUMENT...]
 *
 * It starts the worker once, with one end of a Unix socket as its standard input, accepts COUNT
 * connections and passes each over that socket (SCM_RIGHTS). It knows nothing of RDMA: neither its
 * headers nor its library are used here.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void give_up(const char *what)
{
    fprintf(stderr, "superserver: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int start_worker(char **command)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        give_up("socketpair");
    switch (fork()) {
    case -1: give_up("fork"); break;
    case 0:
        dup2(ends[1], STDIN_FILENO);
        execvp(command[0], command);
        give_up(command[0]);
        break;
    default: close(ends[1]); break;
    }
    return ends[0];
}

static void pass(int to, int fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    char octet = 0;
    struct iovec iov = { &octet, 1 };
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
    };

    memset(&control, 0, sizeof(control));
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    if (sendmsg(to, &message, MSG_NOSIGNAL) != 1)
        give_up("passing a socket");
    close(fd);
}

int main(int argc, char **argv)
{
    struct sockaddr_in6 where = { .sin6_family = AF_INET6 };
    socklen_t length = sizeof(where);
    int listener, worker, status = 0;

    if (argc < 4) {
        fprintf(stderr, "usage: superserver PORT COUNT WORKER [ARGUMENT...]\n");
        return 2;
    }
    where.sin6_port = htons((uint16_t)atoi(argv[1]));
    listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&where, sizeof(where)) || listen(listener, 16) ||
        getsockname(listener, (struct sockaddr *)&where, &length))
        give_up("listening");
    worker = start_worker(argv + 3);
    printf("listening on port %u\n", ntohs(where.sin6_port));
    fflush(stdout);
    for (int count = atoi(argv[2]); count > 0; count--) {
        int fd = accept(listener, NULL, NULL);

        if (fd < 0)
            give_up("accepting");
        pass(worker, fd);
    }
    close(worker);
    wait(&status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
