/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard.h - the filter `guard`: its objects, and what its files share. It knows the requests whose
 * completions are not polled, and drops completions that belong to none of them. One lock, a leaf,
 * guards what is marked; it is not held over a call of the provider below or of the host.
 */
#ifndef ITAL_FILTER_GUARD_H
#define ITAL_FILTER_GUARD_H

#include "pass.h"
#include "guard_queue.h"

#include <pthread.h>
#include <stdatomic.h>

#define HASH_NONFATAL_OOM 1 /* an entry that could not be added has no hh.tbl */
#include <uthash.h>

/* What providers do wrong. Each is logged once for an open device. */
enum guard_lie {
    GUARD_TWICE,   /* a completion of no request that is outstanding */
    GUARD_UNKNOWN, /* a completion of a QP that is not there */
    GUARD_MORE,    /* more completions than asked for */
    GUARD_BEHIND,  /* octets written behind the array */
    GUARD_EVENT,   /* an event of a QP that is not there */
    GUARD_LIES
};

struct guard_rnic {
    struct pass_rnic pass;
    pthread_mutex_t lock;
    struct guard_qp *qps;    /* by context; under the lock */
    _Atomic uint32_t closed; /* QPs that were; raised under the lock */
    atomic_bool said[GUARD_LIES];
    _Atomic uint64_t dropped; /* completions and events */
};

struct guard_srq {
    struct pass_srq pass;
    struct guard_queue queue; /* under the lock */
};

struct guard_qp {
    struct pass_qp pass;
    void *context;                 /* key of the table */
    struct guard_queue send, recv; /* under the lock, like what follows */
    uint32_t posting;              /* posts of send requests that are under way */
    /* One of the same context, not in the table: the host makes a QP anew before the old one
     * goes */
    struct guard_qp *older;
    UT_hash_handle hh;
};

static inline struct guard_rnic *guard_rnic_of(struct pass_rnic *rnic)
{
    return (struct guard_rnic *)rnic; /* its first member */
}

/* ---- guard_lies.c ---- */
/* Counts what is dropped, and says it once. */
void guard_note(struct guard_rnic *rnic, enum guard_lie lie, uint32_t dropped);
/* The newest QP of a context, or NULL. Under the lock. */
struct guard_qp *guard_find(struct guard_rnic *rnic, void *context);

/* ---- guard_data.c ---- */
enum ri_status guard_post_send(struct ri_qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad);
enum ri_status guard_post_recv(struct ri_qp *qp, struct ri_recv_wr *wr, struct ri_recv_wr **bad);
enum ri_status guard_post_srq_recv(struct ri_srq *srq, struct ri_recv_wr *wr,
                                   struct ri_recv_wr **bad);
uint32_t guard_poll(struct ri_cq *cq, uint32_t count, struct ri_wc *wc);
enum ri_status guard_arm(struct ri_cq *cq, enum ri_arm kind, uint32_t count);

#endif
