/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upgrade_client: talks to upgrade_server in lines of text, then writes on its blackboard by RDMA
 * over the same TCP connection.
 *
 *     upgrade_client [--text] [ADDRESS [PORT]]     (default 127.0.0.1 7473)
 *
 * With --text it uses text only and sends QUIT.
 */
#include "common.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connects as any program does. */
static int dial(const char *host, const char *port)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
    int error = getaddrinfo(host, port, &hints, &list), fd;

    if (error)
        give_up(host, gai_strerror(error));
    fd = socket(list->ai_family, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, list->ai_addr, list->ai_addrlen))
        give_up("connecting", strerror(errno));
    freeaddrinfo(list);
    return fd;
}

/* Sends a line to the server; its answer must begin with that number. */
static void ask(int fd, const char *line, const char *number, char answer[LINE])
{
    if (line)
        write_line(fd, line);
    if (!read_line(fd, answer))
        give_up("talking to the server", "it hung up");
    printf("server says: %s\n", answer);
    if (strncmp(answer, number, strlen(number)))
        give_up("talking to the server", answer);
}

/* Three Writes at once: each is placed without any action of the server. */
static void write_board(struct rdma *rdma, it_rdma_addr_t board, it_rmr_context_t context)
{
    static const char *const words[] = { "chalk ", "without ", "hands" };
    size_t at = 0;

    for (size_t i = 0; i < 3; i++) {
        size_t length = strlen(words[i]);
        it_lmr_triplet_t segment = rdma_segment(rdma, rdma->board + at, length);

        memcpy(rdma->board + at, words[i], length);
        check(it_post_rdma_write(rdma->ep, &segment, 1, i, (it_dto_flags_t)0, board + at, context),
              "writing");
        at += length;
    }
}

static void upgrade(int fd, const char *answer)
{
    struct rdma *rdma = malloc(sizeof(*rdma));
    uint64_t context, board;
    int room;

    if (!rdma)
        give_up("upgrading", "out of memory");
    if (sscanf(answer, "230 %" SCNx64 " %" SCNx64 " %d", &context, &board, &room) != 3)
        give_up("the server's answer is not understood", answer);
    rdma_open(rdma);

    /* The server's last line has been read, and nothing beyond it: from here on the connection
     * carries RDMA. Without a message we are the side that begins. */
    check(it_socket_convert(fd, rdma->ep, IT_SC_DEFAULT, NULL, 0), "converting the socket");
    close(fd); /* the library has its own */
    rdma_expect(rdma->connection, IT_CM_MSG_CONN_ESTABLISHED_EVENT, "converting the socket");

    write_board(rdma, (it_rdma_addr_t)board, (it_rmr_context_t)context);
    rdma_send(rdma, "read the board"); /* is sent after the Writes */
    printf("server says: %s\n", rdma_hear(rdma));
    check(it_ep_disconnect(rdma->ep, NULL, 0), "hanging up");
    rdma_expect(rdma->connection, IT_CM_MSG_CONN_DISCONNECT_EVENT, "hanging up");
    check(it_ia_free(rdma->ia), "closing the interface");
    free(rdma);
}

int main(int argc, char **argv)
{
    int text = argc > 1 && !strcmp(argv[1], "--text");
    char answer[LINE];
    int fd;

    argc -= text;
    argv += text;
    fd = dial(argc > 1 ? argv[1] : "127.0.0.1", argc > 2 ? argv[2] : "7473");
    ask(fd, NULL, "220", answer);
    ask(fd, "HELLO client", "250", answer);
    if (text) {
        ask(fd, "QUIT", "221", answer);
        close(fd);
    } else {
        ask(fd, "UPGRADE RDMA", "230", answer);
        upgrade(fd, answer);
    }
    return 0;
}
