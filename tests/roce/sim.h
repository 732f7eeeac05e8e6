/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A link between two QPs of one process, in virtual time: a queue of packets with delay, loss,
 * reordering and duplication by a seeded generator, timers, and a carrier that may have no room.
 * Nothing sleeps: the clock jumps to the next packet or timer. It does not use Check, so that a
 * fuzz target can use it too: a violated rule ends the program with one line.
 *
 * With `alone` the QP of side a has no QP at the other end: the test reads what it sends, and
 * injects what it gets.
 */
#ifndef ITAL_TESTS_ROCE_SIM_H
#define ITAL_TESTS_ROCE_SIM_H

#include "fake_host.h"

#include "providers/software/roce/datagram/datagram.h"
#include "providers/software/roce/rc/rc.h"

#include <pthread.h>
#include <stdatomic.h>

#define SIM_US    UINT64_C(1000)
#define SIM_MS    UINT64_C(1000000)
#define SIM_DELAY (10 * SIM_US)
#define SIM_LOG   65536u
#define SIM_QPN   0x100u /* of side a; that of b is one more */

struct sim_link {
    uint32_t loss, reorder, duplicate, refuse; /* per mille */
    uint64_t delay;                            /* 0: SIM_DELAY */
};

/* One packet that was sent. */
struct sim_sent {
    uint64_t at;
    uint8_t side, opcode, syndrome;
    bool ack_req, solicited, lost;
    uint32_t psn, msn, payload_len, dma_length, r_key;
    uint64_t va;
};

struct sim_packet {
    struct sim_packet *next;
    uint64_t at;
    uint32_t side, len; /* to whom */
    uint8_t octets[];
};

struct sim;

struct sim_end {
    struct sim *sim;
    uint32_t side;
    struct ri_pd *pd;
    struct ri_cq *send_cq, *recv_cq;
    struct ri_qp *qp;
    struct fake_record events;
    struct rc_attr attr;
    uint64_t timers[RC_SIDES]; /* 0: not set */
    bool connected, refused;
    const char *unreachable; /* what the carrier says of silence; NULL: nothing */
    uint32_t silences;       /* so often it was asked */
};

struct sim {
    struct fake_host fake;
    struct sim_link link;
    /* Carriers run in any thread: it guards queue, timers, log and generator. One thread steps. */
    pthread_mutex_t lock;
    uint64_t rng;
    atomic_ullong now;
    struct sim_packet *queue; /* in order of time */
    uint32_t queued;
    struct sim_end end[2];
    bool alone;
    /* Of each packet, before the link's own: true, it is lost. */
    bool (*lose)(struct sim *sim, const struct sim_sent *sent);
    uint32_t counter; /* of `lose` */
    struct sim_sent *log;
    uint32_t logged;
    uint32_t calls;          /* of the carrier's send */
    bool keep_owed;          /* passes leave acknowledgements to what is posted */
    bool datagrams;          /* the QPs are for datagrams */
    uint32_t key;            /* Q_Key of both */
    struct ud_origin origin; /* of all datagrams that arrive */
};

/* Sizes of the QPs. */
struct sim_shape {
    uint32_t depth, sge, cqe;
    uint32_t flags; /* enum ri_qp_flags; 0: all of Write, Read, atomics */
    struct ri_srq *srq[2];
    bool datagrams;
};

/* Attributes as a test that wants nothing special has them. */
struct rc_attr sim_attr(uint32_t mtu, uint32_t psn);

/* Opens a device with both ends; neither is connected. */
void sim_open(struct sim *sim, const struct sim_link *link, uint64_t seed,
              const struct sim_shape *shape);
/* Both ends, or a alone. The attributes are a's; b has the same with the PSNs exchanged. */
void sim_connect(struct sim *sim, const struct rc_attr *attr);
void sim_connect_alone(struct sim *sim, const struct rc_attr *attr);
void sim_close(struct sim *sim);
/* Side a for datagrams, in RTS, alone. */
void sim_begin_alone(struct sim *sim, uint32_t key);
struct rc_qp *sim_qp(struct sim *sim, uint32_t side);
struct ud_qp *sim_ud_qp(struct sim *sim, uint32_t side);

/* The next packet or timer, and a pass. False: there is nothing left to do. */
bool sim_step(struct sim *sim);
/* Until nothing is left to do, or the time has passed; at most `steps`, which is a failure. */
void sim_run(struct sim *sim, uint64_t until, uint32_t steps);
#define sim_settle(sim) sim_run((sim), UINT64_MAX, 2000000)
/* A pass now, with no time passing. */
void sim_pass(struct sim *sim);
/* Octets from the BTH to the ICRC arrive at this side now, in one pass. */
void sim_inject(struct sim *sim, uint32_t side, const void *octets, uint32_t len);
/* The same from fields: dest_qpn and P_Key are filled in. */
void sim_inject_packet(struct sim *sim, uint32_t side, struct bth_packet packet);

/* Memory. */
struct sim_region {
    struct ri_mr *mr;
    struct ri_mr_keys keys;
    uint8_t *octets;
    uint64_t length;
};
struct sim_region sim_region(struct sim *sim, uint32_t side, uint64_t length, uint32_t access);
void sim_region_free(struct sim *sim, struct sim_region *region);
struct ri_sge sim_sge(const struct sim_region *region, uint64_t offset, uint32_t length);

/* Posts. */
enum ri_status sim_post(struct sim *sim, uint32_t side, struct ri_send_wr *wr);
enum ri_status sim_post_recv(struct sim *sim, uint32_t side, uint64_t cookie, struct ri_sge sge);
bool sim_poll(struct sim *sim, struct ri_cq *cq, struct ri_wc *wc);

#endif
