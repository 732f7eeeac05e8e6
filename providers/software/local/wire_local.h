/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The wire local, for the device: its table, and what it keeps of the RNIC.
 */
#ifndef ITAL_SOFTWARE_WIRE_LOCAL_H
#define ITAL_SOFTWARE_WIRE_LOCAL_H

#include "providers/software/core/core.h"
#include "process.h"
#include "segment.h"

/* Its part of the RNIC. */
struct local_rnic {
    /* Options. */
    uint64_t close_timeout_ns;
    enum local_way access;
    bool closes_tcp; /* behind the hand-over, if the peer does, too */
    /* Connections of a segment share a Unix socket. */
    bool shares_bells;
    /* The peers' processes and their memory. */
    pthread_mutex_t lock;
    struct local_process *processes;
    struct local_target *targets;
    struct local_segment *segments; /* shared with them (segment.c) */
    /* What peers read here to know that they have found this RNIC; the descriptor of its directory.
     * -1: it has none. */
    uint64_t token;
    int directory;
};

static inline struct local_rnic *local_rnic(const struct rnic *rnic)
{
    return rnic->parts[WIRE_LOCAL];
}

/* May an end access memory of the other by itself? Not where accesses are watched. */
static inline bool local_is_direct(const struct rnic *rnic)
{
    return local_rnic(rnic)->access != LOCAL_WAY_RING && !rnic->options.guard;
}

/* The RNIC has the wire from now on, with the options that are set in `local`. Its STag table is
 * open, and empty. `wire`: local_wire, or a device's own that stands on it. False: the kernel gives
 * no random numbers. */
bool local_open_rnic(struct rnic *rnic, struct local_rnic *local, const struct wire *wire);
/* Nothing runs any more, and all QPs are gone. Also if it was not opened. */
void local_close_rnic(struct rnic *rnic);

extern const struct wire local_wire;

/* --- connections of InfiniBand (infiniband.c), which a device brings together by itself --- */

struct local_rules {
    /* In RTS, as InfiniBand has it: it may send, and peers access its memory by themselves. Any
     * thread. */
    bool (*is_ready)(const struct qp *qp);
    /* The first request of the peer was executed. In a pass, no lock held. */
    void (*heard)(struct qp *qp);
    /* How long requests wait for a peer that is gone, in ns; `dead`: without a word. 0: without
     * end. Inside tx. */
    uint64_t (*patience)(const struct qp *qp, bool dead);
};

/* The QP, which is in RTS to the core and has sent nothing yet, goes on over `memory`, with `bell`,
 * the Unix socket of this connection; both are the wire's if it returns RI_OK. Inside tx. */
enum ri_status local_join(struct qp *qp, const struct wire *wire, const struct local_rules *rules,
                          struct ri_local *memory, int bell);
/* wire.send of such a connection: the device's table has it. */
void local_send_infiniband(struct qp *qp);
/* No request begins (InfiniBand's SQD); when those that were begun are executed,
 * RI_EVENT_SEND_QUEUE_DRAINED is recorded, unless it was. The caller has tx run. Inside tx. */
void local_suspend(struct qp *qp, bool on, bool drained);
bool local_is_drained(const struct qp *qp);
/* The peer takes its leave by another way: what it has published before is executed, as far as
 * receives are posted, and what it has said of requests of this side is heard. In a pass, no lock
 * held. */
void local_take_last(struct qp *qp);

#endif
