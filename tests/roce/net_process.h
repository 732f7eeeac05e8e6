/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that tests of roce/net start and command: each opens a net and one port or two, and
 * answers others while it waits for a command.
 */
#ifndef ITAL_TESTS_ROCE_NET_PROCESS_H
#define ITAL_TESTS_ROCE_NET_PROCESS_H

#include <sys/types.h>

#include "net_helpers.h"

enum net_order {
    ORDER_OPEN,      /* with `number` slots; value: the slot */
    ORDER_PORT,      /* open 127.0.0.number; 0: ::1 */
    ORDER_CLOSE,     /* all */
    ORDER_QPN,       /* value: a QPN */
    ORDER_COUNT,     /* value: datagrams that have come to the data socket of ORDER_PORT's last */
    ORDER_COUNT_GSI, /* one call at most: value: datagrams */
    ORDER_FORK,      /* a child looks at what it has: text says what is wrong; then it opens anew,
                       value: its slot; it lives until the net process ends */
};

struct net_reply {
    enum ri_status status;
    uint32_t value;
    char text[256];
};

struct net_process {
    pid_t pid;
    int fd;
};

/* As the user, if not 0: only where the caller is root. */
void net_process_start(struct net_process *process, uid_t user);
/* In two halves, so that several can be on it at once. */
void net_process_order(const struct net_process *process, enum net_order order, uint32_t number);
struct net_reply net_process_reply(const struct net_process *process);
/* Both halves. */
struct net_reply net_process_do(const struct net_process *process, enum net_order order,
                                uint32_t number);
/* Opens net and port; returns the slot. Fails the test if it cannot. */
uint32_t net_process_open(const struct net_process *process, uint32_t slots, uint32_t address);
/* SIGKILL, and waits for its end. */
void net_process_kill(struct net_process *process);

#endif
