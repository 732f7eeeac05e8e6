/* SPDX-License-Identifier: BSD-3-Clause */
/* Ways in which a program waits for an EVD's descriptor. */
#ifndef ITAL_TESTS_ITAPI_WATCHING_H
#define ITAL_TESTS_ITAPI_WATCHING_H

#include <stdbool.h>
#include <stdint.h>

enum way {
    BY_POLL,
    BY_EPOLL,             /* level-triggered */
    BY_EPOLL_EDGE,        /* edge-triggered */
    BY_NESTED_EPOLL,      /* nested epoll, both sets level-triggered */
    BY_NESTED_EPOLL_EDGE, /* nested, the outer set edge-triggered */
    BY_URING,             /* one IORING_OP_POLL_ADD for each wait */
    BY_URING_MULTISHOT,   /* one multishot request for all waits */
    WAYS
};

struct uring;
struct watching {
    enum way way;
    int fd, inner, outer; /* -1: not used */
    struct uring *uring;
};

/* Skips the test where the kernel does not offer io_uring. */
void watching_open(struct watching *watching, enum way way, int fd);
void watching_close(struct watching *watching);
/* The descriptor is readable or, edge-triggered, has become so since the last wait. */
bool watching_wait(struct watching *watching, uint64_t deadline);
/* It reports only new events: all must be taken before the next wait. */
static inline bool way_is_edge(enum way way)
{
    return way == BY_EPOLL_EDGE || way == BY_NESTED_EPOLL_EDGE || way == BY_URING_MULTISHOT;
}

#endif
