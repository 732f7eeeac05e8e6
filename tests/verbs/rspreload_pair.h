/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection of two sockets that librspreload.so carries as an rsocket, over the loopback: what
 * the tests of it share. All helpers fail the test on an error.
 */
#ifndef ITAL_TESTS_VERBS_RSPRELOAD_PAIR_H
#define ITAL_TESTS_VERBS_RSPRELOAD_PAIR_H

#include "tc.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define WAIT_MS 20000u
#define fails(call, error)              \
    do {                                \
        ck_assert_int_eq((call), -1);   \
        ck_assert_int_eq(errno, error); \
    } while (0)

static int listener, client, server;
static struct sockaddr_in place; /* the listener's */

static inline struct sockaddr *address(void)
{
    return (struct sockaddr *)&place;
}

static inline bool is_carried(int fd)
{
    socklen_t length = sizeof(int);
    int value;

    return getsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &value, &length) == 0;
}

static inline int new_listener(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    socklen_t length = sizeof(place);

    ck_assert_int_ge(fd, 0);
    place = (struct sockaddr_in){ .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    ck_assert_int_eq(bind(fd, address(), sizeof(place)), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    ck_assert_int_eq(getsockname(fd, address(), &length), 0);
    ck_assert_uint_ne(place.sin_port, 0);
    ck_assert(!is_carried(fd)); /* what it accepts is */
    return fd;
}

static inline short await(int fd, short events)
{
    struct pollfd one = { .fd = fd, .events = events };

    ck_assert_int_eq(poll(&one, 1, (int)tc_timeout_ms(WAIT_MS)), 1);
    return one.revents;
}

static inline int error_of(int fd)
{
    socklen_t length = sizeof(int);
    int error = -1;

    ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    return error;
}

static inline int begin_connect(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    ck_assert_int_ge(fd, 0);
    fails(connect(fd, address(), sizeof(place)), EINPROGRESS);
    return fd;
}

static inline void join(void)
{
    client = begin_connect();
    server = accept(listener, NULL, NULL);
    ck_assert_int_ge(server, 0);
    ck_assert_int_eq(await(client, POLLOUT), POLLOUT);
    ck_assert_int_eq(error_of(client), 0);
    ck_assert_int_eq(fcntl(client, F_SETFL, 0), 0);
    ck_assert(is_carried(client) && is_carried(server));
}

/* A wait that is a call of rsockets runs inside ThreadSanitizer's own definition of the call, which
 * takes it for one of the kernel's: it sees no locks there. */
static inline void skip_if_blind(void)
{
#ifdef __SANITIZE_THREAD__
    tc_skip("ThreadSanitizer defines the same calls, and would report races that are none");
#endif
}

static inline void set_up(void)
{
    skip_if_blind();
    listener = new_listener();
    join();
}

static inline void tear_down(void)
{
    close(client);
    close(server);
    ck_assert_int_eq(close(listener), 0);
}

static inline void give(int fd, const char *text)
{
    ck_assert_int_eq(send(fd, text, strlen(text), 0), (ssize_t)strlen(text));
}

static inline void expect(int fd, const char *text)
{
    char got[64] = "";

    ck_assert_uint_lt(strlen(text), sizeof(got));
    ck_assert_int_eq(recv(fd, got, strlen(text), MSG_WAITALL), (ssize_t)strlen(text));
    ck_assert_str_eq(got, text);
}

static inline int epoll_of(int fd, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.fd = fd };
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    ck_assert_int_ge(epoll, 0);
    ck_assert_int_eq(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
    fails(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), EEXIST);
    return epoll;
}

#endif
