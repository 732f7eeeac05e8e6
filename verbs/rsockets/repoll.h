/* SPDX-License-Identifier: BSD-3-Clause
 * repoll.h - calls of rdma-core 65 that its header of release 44 does not have: as epoll(7), for
 * rsockets and other descriptors. What the rest of rsockets tells them. */
#ifndef ITAL_VERBS_RSOCKETS_REPOLL_H
#define ITAL_VERBS_RSOCKETS_REPOLL_H

#include <stdbool.h>
#include <sys/epoll.h>

#ifndef VB_PUBLIC
#define VB_PUBLIC __attribute__((visibility("default")))
#endif

/* A new set; rclose closes it. flags: EPOLL_CLOEXEC, O_NONBLOCK (no effect). -1: errno. Any
 * thread. */
VB_PUBLIC int repoll_create(int flags);
/* As epoll_ctl(2), without sets inside of sets. An rsocket is level-triggered, with EPOLLET, too.
 * 0, or -1 with errno. Any thread, also while others wait. */
VB_PUBLIC int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
/* As epoll_wait(2). timeout: ms; negative: none. A thread that waits while the set is closed gets
 * 0. */
VB_PUBLIC int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

/* The number of a set is closed. False: it is none. */
bool rs_repoll_close(int fd);
/* That number is no rsocket any more. */
void rs_repoll_forget(int fd);

#endif
