/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upgrade_server: a blackboard over lines of text, on which a client may continue to write by RDMA.
 *
 *     upgrade_server [PORT]     listens itself, for one client (default 7473)
 *     upgrade_server --passed   its standard input is a Unix socket over which a parent passes
 *                               connected sockets (SCM_RIGHTS), until the parent closes it
 *
 * The server need not know which program accepted a connection, nor how long it has been in use.
 *
 *     HELLO name      250 hello, name
 *     UPGRADE RDMA    230 CONTEXT ADDRESS LENGTH     then the connection carries RDMA
 *     QUIT            221 goodbye
 */
#include "common.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- sockets of clients --- */

static int accept_one(int port)
{
    struct sockaddr_in6 where = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
    socklen_t length = sizeof(where);
    int listener = socket(AF_INET6, SOCK_STREAM, 0), one = 1, fd;

    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(listener, (struct sockaddr *)&where, sizeof(where)) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&where, &length))
        give_up("listening", strerror(errno));
    printf("listening on port %u\n", ntohs(where.sin6_port));
    fflush(stdout);
    fd = accept(listener, NULL, NULL);
    if (fd < 0)
        give_up("accepting", strerror(errno));
    close(listener);
    return fd;
}

/* The next socket that the parent passes; -1: there are no more. */
static int receive_one(int from)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    char octet;
    struct iovec iov = { &octet, 1 };
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
    };
    struct cmsghdr *cmsg;
    int fd;

    if (recvmsg(from, &message, MSG_CMSG_CLOEXEC) <= 0)
        return -1;
    cmsg = CMSG_FIRSTHDR(&message);
    if (!cmsg || cmsg->cmsg_type != SCM_RIGHTS)
        give_up("receiving a socket", "the parent sent none");
    memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
    return fd;
}

/* --- one client --- */

/* The answer to UPGRADE is the last line of text. The library sends it when it is ready for
 * RDMA. */
static void upgrade(int fd)
{
    struct rdma *rdma = malloc(sizeof(*rdma));
    char answer[LINE];
    int length;

    if (!rdma)
        give_up("upgrading", "out of memory");
    rdma_open(rdma);
    length = snprintf(answer, sizeof(answer), "230 %" PRIx64 " %" PRIx64 " %d\r\n",
                      (uint64_t)rdma->context, (uint64_t)it_make_rdma_addr_absolute(rdma->board),
                      BOARD);
    check(it_socket_convert(fd, rdma->ep, IT_SC_DEFAULT, (unsigned char *)answer, (size_t)length),
          "converting the socket");
    close(fd); /* the library has its own */
    rdma_expect(rdma->connection, IT_CM_MSG_CONN_ESTABLISHED_EVENT, "converting the socket");

    /* The client writes into our memory, and sends a message when it is done. */
    printf("client says: %s\n", rdma_hear(rdma));
    rdma->board[BOARD - 1] = '\0';
    printf("the board says: %s\n", rdma->board);
    rdma_send(rdma, "seen");
    rdma_expect(rdma->connection, IT_CM_MSG_CONN_DISCONNECT_EVENT, "waiting for the end");
    check(it_ia_free(rdma->ia), "closing the interface");
    free(rdma);
}

static void serve(int fd)
{
    char line[LINE], answer[LINE];

    write_line(fd, "220 blackboard");
    while (read_line(fd, line)) {
        if (!strcmp(line, "UPGRADE RDMA")) {
            upgrade(fd);
            return;
        }
        if (!strcmp(line, "QUIT")) {
            write_line(fd, "221 goodbye");
            break;
        }
        if (!strncmp(line, "HELLO ", 6))
            snprintf(answer, sizeof(answer), "250 hello, %.200s", line + 6);
        else
            snprintf(answer, sizeof(answer), "500 what?");
        write_line(fd, answer);
    }
    printf("a client left\n");
    close(fd);
}

int main(int argc, char **argv)
{
    int fd;

    if (argc > 1 && !strcmp(argv[1], "--passed"))
        while ((fd = receive_one(STDIN_FILENO)) >= 0)
            serve(fd);
    else
        serve(accept_one(argc > 1 ? atoi(argv[1]) : 7473));
    return 0;
}
