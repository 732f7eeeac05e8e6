/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The environment of the connection manager under the fuzzer: TCP sockets that are local stream
 * sockets (this program defines socket, bind, listen, connect, accept4 and their kin), a clock and
 * a lane that move only on request, and queue pairs that record their hand-over.
 */
#ifndef ITAL_TESTS_FUZZ_FAKE_NET_H
#define ITAL_TESTS_FUZZ_FAKE_NET_H

#include "tests/fuzz/fuzz.h"

#include "fake_upper.h"
#include "kal/cm/cm.h"
#include "kal/registry/registry.h"

#define NET_ENDS 8u
#define NET_QPS  4u

/* One TCP connection from its peer's side. */
struct net_end {
    int fd;         /* the peer's; -1 closed */
    int kal_fd;     /* the manager's, while it has one */
    bool active;    /* made by connect() */
    bool waiting;   /* for accept4() */
    bool reset;     /* the peer's end is a reset, behind what it sent */
    size_t written; /* octets written by the manager, read here */
    uint8_t said[2048];
};

struct net_qp {
    struct ri_qp base;
    enum ri_status answer; /* result of the next hand-over */
    unsigned int handovers;
    struct ri_llp_handover last;
    uint8_t rest[MPA_STARTUP_FRAME_MAX];
    int fd; /* this program's, after a hand-over */
};

enum net_connect { NET_AT_ONCE, NET_LATER, NET_REFUSED, NET_LATER_REFUSED, NET_UNREACHABLE };

struct fake_net {
    struct kal kal;
    struct kal_rnic rnic;
    struct fake_lane lane;
    struct net_end ends[NET_ENDS];
    uint32_t end_count;
    struct net_qp qps[NET_QPS];
    enum net_connect connect; /* result of the next connect() */
    int connecting_fd, connecting_error;
    bool connecting_failed; /* the error is visible */
    int accept_error;       /* of the next accept4(); 0 none */
    bool watch_fails;
    size_t credit; /* octets that sockets take; SIZE_MAX: no limit */
    bool limited;  /* a socket took less at least once */
    uint64_t now;  /* CLOCK_MONOTONIC */
};
extern struct fake_net net;

/* The target defines what the consumer does. */
void net_request(void *listener_context, struct kal_connection *connection,
                 const struct ri_connect_request *request, void **connection_context);
void net_event(void *connection_context, const struct ri_connection_event *event);

void net_open(void);
/* Fails if an object, a descriptor, a watch or a timer is left. */
void net_close(void);
/* Runs the lane until it has no more work. */
void net_run(void);
/* Advances the clock, then runs the lane. */
void net_pass(uint64_t ns);
/* The events that epoll_wait would report of a descriptor. */
uint32_t net_events_of(int fd);
/* A peer connects; NULL: the limit is reached. */
struct net_end *net_knock(void);
/* Makes the other end of a socket to convert; *fd is the consumer's. NULL: the limit is reached. */
struct net_end *net_pair(int *fd);
/* Completes a pending connect(). */
void net_connected(void);
void net_say(struct net_end *end, const uint8_t *octets, size_t length);
void net_hang_up(struct net_end *end, bool both);
/* Reads what the manager wrote there. */
void net_listen_to(struct net_end *end);

#endif
