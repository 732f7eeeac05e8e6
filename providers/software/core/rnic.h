/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Limits, options, the RNIC and its PDs, small helpers.
 */
#ifndef ITAL_SOFTWARE_RNIC_H
#define ITAL_SOFTWARE_RNIC_H

#include "rnicpi_util.h"
#include "providers/software/core/stag.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/spinlock.h"

#include <pthread.h>
#include <string.h>

/* Pages of one region that requests register. The post reads their list. */
#define MAX_FAST_REGISTER_PAGES 512u

#define MAX_OBJECTS   65536u /* PDs, CQs, SRQs of an RNIC */
#define MAX_SGE       64u
#define MAX_WR        65536u
#define MAX_CQE       (1u << 22)
#define LANES_MOST    64u
#define ATOMIC_OCTETS 8u
#define REMOTE_RIGHTS (RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE | RI_ACCESS_REMOTE_ATOMIC)

/* Options that every wire obeys. */
struct core_options {
    bool remote_invalidate; /* of regions */
    /* Accesses to the consumer's memory go by guard.c: the kernel makes them (option guard), or a
     * sanitizer is told (enum sanitizer_scope). */
    bool guard, by_kernel;
    uint8_t sanitizers;
    uint32_t lanes;
};

/* The wires of one RNIC: the one that leaves the host, and the one within it. */
enum wire_slot { WIRE_NETWORK, WIRE_LOCAL, WIRE_SLOTS };

struct pd {
    struct ri_pd base;
    struct rnic *rnic;
    atomic_uint users;
    /* QPs that use its memory: its own QPs, and those of its SRQs. */
    atomic_uint streams;
    pthread_mutex_t windows_lock; /* the list; before the locks of entries */
    struct mw *windows;
};

struct memory_range {
    const uint8_t *memory;
    uint64_t length;
};

struct lane;
struct wire;

struct rnic {
    struct ri_rnic base;
    const struct ri_host *host;
    /* The operations of lanes, CQs and SRQs, and of QPs that no wire has connected. */
    const struct ri_user_ops *user;
    /* Of lanes whose pass serves several wires; else NULL: `user`. */
    const struct ri_user_ops *lane_user;
    /* Those of QPs that a wire has connected. */
    struct ri_user_ops connected[WIRE_SLOTS];
    struct ri_user_ops watched; /* of an RNIC whose accesses a sanitizer sees (watched.c) */
    /* NULL: it has none in this slot. A wire's own part beside it. */
    const struct wire *wires[WIRE_SLOTS];
    void *parts[WIRE_SLOTS];
    size_t qp_octets; /* of a QP, with the part of the wire in WIRE_NETWORK */
    struct ri_rnic_attr attr;
    struct core_options options;
    struct stag_table stags;
    struct lane *lanes[LANES_MOST]; /* options.lanes of them */
    atomic_ullong pds, cqs, qps, srqs, mws;
    atomic_uint next_qpn;
    /* Errors of all peers. */
    atomic_ullong access_errors;
};

/* Copy up to 64 octets, the common case, without a call. */
static inline void copy_short(uint8_t *to, const uint8_t *from, uint32_t octets)
{
    if (octets - 32 > 32) {
        memcpy(to, from, octets);
        return;
    }
    memcpy(to, from, 32);
    memcpy(to + octets - 32, from + octets - 32, 32);
}

/* Counters have one writer each, tx or rx: a plain addition that other threads may read. Written
 * as assembler because compilers take three instructions. */
static inline void count_up(atomic_ullong *counter, uint64_t by)
{
#if defined(ITAL_WITHOUT_COUNTERS) /* bench/instructions: what they cost */
    (void)counter, (void)by;
#elif defined(__x86_64__) && defined(__GNUC__)
    __asm__("addq %1, %0" : "+m"(*counter) : "er"(by));
#else
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
#endif
}

/* The same if it is enough that the number changes: of two additions at once one may be lost. */
static inline void count_up_32(atomic_uint *counter)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __asm__("addl $1, %0" : "+m"(*counter));
#else
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
#endif
}

#endif
