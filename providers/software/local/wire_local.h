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
 * open, and empty. False: the kernel gives no random numbers. */
bool local_open_rnic(struct rnic *rnic, struct local_rnic *local);
/* Nothing runs any more, and all QPs are gone. Also if it was not opened. */
void local_close_rnic(struct rnic *rnic);

extern const struct wire local_wire;

#endif
