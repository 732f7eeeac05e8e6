/* SPDX-License-Identifier: BSD-3-Clause
 *
 * epoll_set.h - epoll sets with rsockets, for repoll_wait and for librspreload. The kernel's set
 * has the other descriptors; a list of watches beside it has the rsockets. A wait polls both, so it
 * costs with the length of the list.
 *
 * One lock of the caller's guards all of its sets: each function is called under it.
 */
#ifndef ITAL_VERBS_RSOCKETS_EPOLL_SET_H
#define ITAL_VERBS_RSOCKETS_EPOLL_SET_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

/* One rsocket in a set. */
struct rs_watch {
    int fd;
    struct epoll_event event;
    uint32_t reported; /* edge-triggered: what is not to be reported again yet */
    bool disabled;     /* one-shot */
    struct rs_watch *prev, *next;
};

struct rs_set {
    int fd, changed_fd; /* changed_fd: readable, if a watch was added or changed */
    unsigned waits;     /* threads in a wait */
    bool closed;
    size_t count;
    struct rs_watch *watches;
    struct rs_set *prev, *next; /* the caller's list */
};

struct rs_set_calls {
    /* Polls rsockets and other descriptors. deadline: of base/clock.h. mask: as ppoll(2). Called
     * without the lock. */
    int (*poll)(struct pollfd *fds, nfds_t count, uint64_t deadline, const sigset_t *mask);
    int (*epoll_wait)(int epoll, struct epoll_event *events, int most, int timeout);
    int (*close)(int fd);
    /* Removes the watches whose rsocket has gone. */
    void (*tidy)(struct rs_set *set);
    /* Edge-triggered: takes out of `reported` what is new. NULL: there is no such watch. */
    void (*refresh)(struct rs_watch *watch);
    /* Frees a watch that is in no set. */
    void (*forget)(struct rs_watch *watch);
};

/* Around the kernel's set `fd`, which stays the caller's. NULL: errno. */
struct rs_set *rs_set_new(int fd);
/* Nobody finds the set any more. It is freed now, or by the last wait. */
void rs_set_close(struct rs_set *set, const struct rs_set_calls *calls);
/* The watch passes to the set. */
void rs_set_add(struct rs_set *set, struct rs_watch *watch);
void rs_set_modify(struct rs_set *set, struct rs_watch *watch, const struct epoll_event *event);
void rs_set_remove(struct rs_set *set, struct rs_watch *watch, const struct rs_set_calls *calls);
/* As epoll_pwait(2): the number of events, or -1 with errno. Leaves the lock for its sleeps. */
int rs_set_wait(struct rs_set *set, const struct rs_set_calls *calls, pthread_mutex_t *lock,
                struct epoll_event *events, int most, uint64_t deadline, const sigset_t *mask);

#endif
