/* SPDX-License-Identifier: BSD-3-Clause */
/* Ways in which a program waits for a descriptor that it was given. */
#ifndef ITAL_TESTS_ITAPI_WATCHING_H
#define ITAL_TESTS_ITAPI_WATCHING_H

#include <stdbool.h>
#include <stdint.h>

enum way {
    BY_POLL,
    BY_EPOLL,             /* level-triggered */
    BY_EPOLL_EDGE,        /* edge-triggered */
    BY_NESTED_EPOLL,      /* a set in a set, both level-triggered */
    BY_NESTED_EPOLL_EDGE, /* the outer one edge-triggered */
    BY_URING,             /* one IORING_OP_POLL_ADD for each wait */
    BY_URING_MULTISHOT,   /* one for all */
    WAYS
};

struct uring;
struct watching {
    enum way way;
    int fd, inner, outer; /* -1: not used */
    struct uring *uring;
};

/* Skips the test where the kernel has no io_uring for it. */
void watching_open(struct watching *watching, enum way way, int fd);
void watching_close(struct watching *watching);
/* The descriptor is readable, or, by edges, has become so since the last time. */
bool watching_wait(struct watching *watching, uint64_t deadline);
/* It tells of what is new only: everything has to be taken before the next wait. */
static inline bool way_is_edge(enum way way)
{
    return way == BY_EPOLL_EDGE || way == BY_NESTED_EPOLL_EDGE || way == BY_URING_MULTISHOT;
}

#endif
