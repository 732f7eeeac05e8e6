/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the connection manager stands on when it is fuzzed: TCP sockets that are local stream
 * sockets (socket, bind, listen, connect, accept4 and their kin are this program's own), a clock
 * that goes when it is told to, one lane that runs when it is told to, queue pairs that record
 * their hand-over.
 */
#ifndef ITAL_TESTS_FUZZ_SEAM_H
#define ITAL_TESTS_FUZZ_SEAM_H

#include "tests/fuzz/fuzz.h"

#include "kal/cm/cm.h"

#define SEAM_ENDS 8u
#define SEAM_QPS  4u

/* One TCP connection as seen by its peer. */
struct seam_end {
    int fd;         /* the peer's; -1 closed */
    int kal_fd;     /* the manager's, as long as it has it */
    bool active;    /* made by connect() */
    bool waiting;   /* for accept4() */
    size_t written; /* octets that the manager wrote, read here */
    uint8_t said[2048];
};

struct seam_qp {
    struct ri_qp base;
    enum ri_status answer; /* to the next hand-over */
    unsigned int handovers;
    struct ri_llp_handover last;
    uint8_t rest[MPA_STARTUP_FRAME_MAX];
    int fd; /* ours after a hand-over */
};

enum seam_connect { SEAM_AT_ONCE, SEAM_LATER, SEAM_REFUSED, SEAM_LATER_REFUSED, SEAM_UNREACHABLE };

struct seam {
    struct kal kal;
    struct kal_rnic rnic;
    struct seam_end ends[SEAM_ENDS];
    uint32_t end_count;
    struct seam_qp qps[SEAM_QPS];
    enum seam_connect connect; /* what the next connect() does */
    int connecting_fd, connecting_error;
    bool connecting_failed; /* the error can be seen */
    int accept_error;       /* of the next accept4(); 0 none */
    bool watch_fails;
    size_t credit; /* octets that sockets take; SIZE_MAX: any */
    bool limited;  /* once they took less */
    uint64_t now;  /* CLOCK_MONOTONIC */
};
extern struct seam seam;

/* What the consumer does is the target's. */
void seam_request(void *listener_context, struct kal_connection *connection,
                  const struct ri_connect_request *request, void **connection_context);
void seam_event(void *connection_context, const struct ri_connection_event *event);

void seam_open(void);
/* Fails when an object, a descriptor, a watch or a timer is left. */
void seam_close(void);
/* The lane runs until it has nothing to do. */
void seam_run(void);
/* Time goes by, then the lane runs. */
void seam_pass(uint64_t ns);
/* A peer knocks; NULL: there are enough of them. */
struct seam_end *seam_knock(void);
/* The other end of a socket that is converted: *fd is the consumer's. NULL: enough. */
struct seam_end *seam_pair(int *fd);
/* A connect() that was under way is decided. */
void seam_connected(void);
void seam_say(struct seam_end *end, const uint8_t *octets, size_t length);
void seam_hang_up(struct seam_end *end, bool both);
/* Take what the manager wrote there. */
void seam_listen_to(struct seam_end *end);

#endif
