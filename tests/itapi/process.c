/* SPDX-License-Identifier: BSD-3-Clause */
/* A second process; see process.h. */
#include "process.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

struct peer peer_start(const char *name, void (*play)(const char *name, int fd))
{
    struct peer peer;
    int fds[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    tc_await_quiet_for_fork();
    peer.pid = fork();
    ck_assert_int_ge(peer.pid, 0);
    if (peer.pid == 0) {
        close(fds[0]);
        play(name, fds[1]);
        _exit(0);
    }
    close(fds[1]);
    peer.fd = fds[0];
    return peer;
}

void tell(int fd, const void *data, size_t length)
{
    ck_assert_int_eq(send(fd, data, length, MSG_NOSIGNAL), (ssize_t)length);
}

bool hear(int fd, void *data, size_t length)
{
    ssize_t got;

    do {
        got = recv(fd, data, length, 0);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)length;
}

void peer_tell(const struct peer *peer, const void *data, size_t length)
{
    tell(peer->fd, data, length);
}

void peer_hear(const struct peer *peer, void *data, size_t length)
{
    ck_assert_msg(tc_wait_fd(peer->fd, POLLIN, tc_deadline(2 * PATIENCE)) & POLLIN,
                  "the other process does not answer");
    ck_assert_msg(hear(peer->fd, data, length), "the other process has ended");
}

void peer_end(struct peer *peer)
{
    int status;

    close(peer->fd);
    ck_assert_int_eq(waitpid(peer->pid, &status, 0), peer->pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the other process ended with %d",
                  status);
}

void peer_kill(struct peer *peer)
{
    kill(peer->pid, SIGKILL);
    waitpid(peer->pid, NULL, 0);
    close(peer->fd);
}

static it_event_type_t try_to_connect(struct node *node, const struct connect_order *order)
{
    it_net_addr_t address = node_address(node, IT_IPV4);
    it_path_t path = path_to(node, &address);
    it_event_type_t came;

    node_endpoint(node);
    ok(it_ep_connect(node->ep, &path, NULL, &order->qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    came = next(node->connections).event_number;
    if (came == IT_CM_MSG_CONN_ESTABLISHED_EVENT && !order->hold) {
        ok(it_ep_disconnect(node->ep, NULL, 0));
        expect(node->connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    }
    return came;
}

void play_client(const char *name, int fd)
{
    struct connect_order order;
    struct node node;

    node_open(&node, name);
    while (hear(fd, &order, sizeof(order))) {
        it_event_type_t came = try_to_connect(&node, &order);

        tell(fd, &came, sizeof(came));
    }
    node_close(&node);
}
