/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the connection manager stands on when it is fuzzed: TCP sockets that are local stream
 * sockets (socket, bind, listen, connect, accept4 and their kin are this program's own), a clock
 * that goes when it is told to, one lane that runs when it is told to, queue pairs that record
 * their hand-over.
 */
#ifndef ITAL_TESTS_FUZZ_FAKE_NET_H
#define ITAL_TESTS_FUZZ_FAKE_NET_H

#include "tests/fuzz/fuzz.h"

#include "fake_upper.h"
#include "kal/cm/cm.h"
#include "kal/registry/registry.h"

#define NET_ENDS 8u
#define NET_QPS  4u

/* One TCP connection as seen by its peer. */
struct net_end {
    int fd;         /* the peer's; -1 closed */
    int kal_fd;     /* the manager's, as long as it has it */
    bool active;    /* made by connect() */
    bool waiting;   /* for accept4() */
    size_t written; /* octets that the manager wrote, read here */
    uint8_t said[2048];
};

struct net_qp {
    struct ri_qp base;
    enum ri_status answer; /* to the next hand-over */
    unsigned int handovers;
    struct ri_llp_handover last;
    uint8_t rest[MPA_STARTUP_FRAME_MAX];
    int fd; /* ours after a hand-over */
};

enum net_connect { NET_AT_ONCE, NET_LATER, NET_REFUSED, NET_LATER_REFUSED, NET_UNREACHABLE };

struct fake_net {
    struct kal kal;
    struct kal_rnic rnic;
    struct fake_lane lane;
    struct net_end ends[NET_ENDS];
    uint32_t end_count;
    struct net_qp qps[NET_QPS];
    enum net_connect connect; /* what the next connect() does */
    int connecting_fd, connecting_error;
    bool connecting_failed; /* the error can be seen */
    int accept_error;       /* of the next accept4(); 0 none */
    bool watch_fails;
    size_t credit; /* octets that sockets take; SIZE_MAX: any */
    bool limited;  /* once they took less */
    uint64_t now;  /* CLOCK_MONOTONIC */
};
extern struct fake_net net;

/* What the consumer does is the target's. */
void net_request(void *listener_context, struct kal_connection *connection,
                 const struct ri_connect_request *request, void **connection_context);
void net_event(void *connection_context, const struct ri_connection_event *event);

void net_open(void);
/* Fails when an object, a descriptor, a watch or a timer is left. */
void net_close(void);
/* The lane runs until it has nothing to do. */
void net_run(void);
/* Time goes by, then the lane runs. */
void net_pass(uint64_t ns);
/* A peer knocks; NULL: there are enough of them. */
struct net_end *net_knock(void);
/* The other end of a socket that is converted: *fd is the consumer's. NULL: enough. */
struct net_end *net_pair(int *fd);
/* A connect() that was under way is decided. */
void net_connected(void);
void net_say(struct net_end *end, const uint8_t *octets, size_t length);
void net_hang_up(struct net_end *end, bool both);
/* Take what the manager wrote there. */
void net_listen_to(struct net_end *end);

#endif
