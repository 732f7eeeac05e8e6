/* SPDX-License-Identifier: BSD-3-Clause */
#include "net_process.h"

#include "tc.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

struct command {
    enum net_order order;
    uint32_t number;
};

static struct {
    struct net *net;
    struct net_port *port[4];
    uint32_t ports;
    struct net_rx *rx;
} own;

static void order_open(uint32_t slots, struct net_reply *reply)
{
    const struct net_options options = { .slots = (uint16_t)slots };
    struct net_why why = { "" };

    reply->status = net_open(&options, &own.net, &why);
    if (reply->status == RI_OK)
        reply->value = net_slot(own.net);
    else
        own.net = NULL;
    strcpy(reply->text, why.text);
}

static void order_port(uint32_t address, struct net_reply *reply)
{
    struct share_key key = net_test_key(address);
    struct net_why why = { "" };

    reply->status = net_port_open(own.net, key.gid, 0, &own.port[own.ports], &why);
    own.ports += reply->status == RI_OK;
    strcpy(reply->text, why.text);
}

static void close_all(void)
{
    while (own.ports)
        net_port_close(own.port[--own.ports]);
    if (own.net)
        net_close(own.net);
    own.net = NULL;
}

static uint32_t count(enum net_queue queue)
{
    uint32_t sum = 0, got;

    if (!own.rx)
        own.rx = net_rx_new(16, true);
    do {
        got = net_receive(own.port[own.ports - 1], queue, own.rx);
        sum += got;
    } while (got && queue == NET_DATA);
    return sum;
}

/* In the child: what it must not have. */
static const char *wrong_in_child(const int *fds, uint32_t n)
{
    struct net_port *port = NULL;
    struct net_why why;

    for (uint32_t i = 0; i < n; i++)
        if (fcntl(fds[i], F_GETFD) >= 0 || errno != EBADF)
            return "a descriptor is open in the child";
    if (net_share_fd(own.net) >= 0)
        return "the child serves";
    if (net_qpn_take(own.net))
        return "the child gets a QPN of its parent's slot";
    if (net_port_open(own.net, net_test_key(1).gid, 0, &port, &why) != RI_ERR_DEVICE)
        return "the child opens a port of its parent's";
    return NULL;
}

static void live_on(int fd)
{
    struct pollfd end = { fd, 0, 0 };

    while (poll(&end, 1, -1) < 0 || !(end.revents & (POLLHUP | POLLERR)))
        ;
    _exit(0);
}

static void be_child(int fd, const int *fds, uint32_t n)
{
    struct net_reply reply = { .status = RI_OK };
    const char *wrong = wrong_in_child(fds, n);

    close_all();
    if (wrong)
        snprintf(reply.text, sizeof(reply.text), "%s", wrong);
    else
        order_open(0, &reply);
    send(fd, &reply, sizeof(reply), MSG_NOSIGNAL);
    live_on(fd);
}

/* The parent serves its child meanwhile. */
static void order_fork(struct net_reply *reply)
{
    int pair[2], fds[3] = { net_share_fd(own.net), net_port_fd(own.port[0], NET_DATA),
                            net_port_fd(own.port[0], NET_GSI) };
    struct pollfd wait[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        _exit(3);
    if (!fork()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pair[0]);
        be_child(pair[1], fds, 3);
    }
    close(pair[1]);
    do {
        wait[0] = (struct pollfd){ pair[0], POLLIN, 0 };
        wait[1] = (struct pollfd){ net_share_fd(own.net), POLLIN, 0 };
        if (poll(wait, 2, -1) > 0 && wait[1].revents)
            net_serve(own.net);
    } while (!wait[0].revents);
    if (recv(pair[0], reply, sizeof(*reply), 0) != sizeof(*reply))
        _exit(4);
}

static void obey(const struct command *command, struct net_reply *reply)
{
    switch (command->order) {
    case ORDER_OPEN: order_open(command->number, reply); break;
    case ORDER_PORT: order_port(command->number, reply); break;
    case ORDER_CLOSE: close_all(); break;
    case ORDER_QPN: reply->value = net_qpn_take(own.net); break;
    case ORDER_COUNT: reply->value = count(NET_DATA); break;
    case ORDER_COUNT_GSI: reply->value = count(NET_GSI); break;
    case ORDER_FORK: order_fork(reply); break;
    }
}

static void run(int fd)
{
    for (;;) {
        struct pollfd wait[2] = { { fd, POLLIN, 0 },
                                  { own.net ? net_share_fd(own.net) : -1, POLLIN, 0 } };
        struct net_reply reply = { .status = RI_OK };
        struct command command;

        if (poll(wait, 2, -1) < 0)
            continue;
        if (wait[1].revents)
            net_serve(own.net);
        if (!wait[0].revents)
            continue;
        if (recv(fd, &command, sizeof(command), 0) != sizeof(command))
            _exit(0); /* the test has ended */
        obey(&command, &reply);
        if (send(fd, &reply, sizeof(reply), MSG_NOSIGNAL) < 0)
            _exit(0);
    }
}

void net_process_start(struct net_process *process, uid_t user)
{
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    process->pid = fork();
    ck_assert_int_ge(process->pid, 0);
    if (!process->pid) {
        if (user && setuid(user))
            _exit(2);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* setuid() clears it */
        close(pair[0]);
        run(pair[1]);
    }
    close(pair[1]);
    process->fd = pair[0];
}

void net_process_order(const struct net_process *process, enum net_order order, uint32_t number)
{
    const struct command command = { order, number };

    ck_assert_int_eq(send(process->fd, &command, sizeof(command), MSG_NOSIGNAL), sizeof(command));
}

struct net_reply net_process_reply(const struct net_process *process)
{
    struct net_reply reply;

    ck_assert_int_eq(tc_wait_fd(process->fd, POLLIN, tc_deadline(10000)) & POLLIN, POLLIN);
    ck_assert_int_eq(recv(process->fd, &reply, sizeof(reply), 0), sizeof(reply));
    return reply;
}

struct net_reply net_process_do(const struct net_process *process, enum net_order order,
                                uint32_t number)
{
    net_process_order(process, order, number);
    return net_process_reply(process);
}

uint32_t net_process_open(const struct net_process *process, uint32_t slots, uint32_t address)
{
    struct net_reply opened = net_process_do(process, ORDER_OPEN, slots), port;

    ck_assert_msg(opened.status == RI_OK, "%s", opened.text);
    port = net_process_do(process, ORDER_PORT, address);
    ck_assert_msg(port.status == RI_OK, "%s", port.text);
    return opened.value;
}

void net_process_kill(struct net_process *process)
{
    ck_assert_int_eq(kill(process->pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(process->pid, NULL, 0), process->pid);
    close(process->fd);
}
