/* SPDX-License-Identifier: BSD-3-Clause */
/* Two connected rsockets in this process, and octets between them. */
#ifndef ITAL_TESTS_RSOCKETS_PAIR_H
#define ITAL_TESTS_RSOCKETS_PAIR_H

#include "tc.h"

#include <netinet/in.h>
#include <rdma/rsocket.h>

#define WAIT_MS 20000u
#define fails(call, error)              \
    do {                                \
        ck_assert_int_eq((call), -1);   \
        ck_assert_int_eq(errno, error); \
    } while (0)

extern int listener, client, server;
extern struct sockaddr_in place; /* the listener's */

/* A test's fixture: all three. */
void set_up(void);
void tear_down(void);

/* On a free port of 127.0.0.1, which `place` names then. */
int new_listener(int backlog);
/* Connects `client` to `server`; both block. */
void join(void);
/* Without waiting; returns the rsocket. */
int begin_connect(void);
/* Closes both at once. */
void close_both(void);

/* Waits for an event; returns all there are. */
short await(int fd, short events);
int error_of(int fd); /* SO_ERROR */

void give(int fd, const void *octets, size_t length);
void expect(int fd, const void *octets, size_t length);
void expect_end(int fd);

/* Octets of a stream, in parts of random sizes: a function of their place and of a salt. */
struct flow {
    int fd;
    size_t length;
    uint64_t salt;
};

/* For pthread_create. */
void *write_flow(void *flow);
void *read_flow(void *flow);

#endif
