/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fault.h - the filter `fault`: its objects, and what its files share. One lock, a leaf, guards
 * what is marked; it is not held over a call of the provider below or of the host.
 */
#ifndef ITAL_FILTER_FAULT_H
#define ITAL_FILTER_FAULT_H

#include "fault_script.h"

#include <pthread.h>
#include <stdatomic.h>

#define HASH_NONFATAL_OOM 1 /* an entry that could not be added has no hh.tbl */
#include <uthash.h>

/* The completion of this request is not what the provider below reports. */
struct fault_pending {
    const struct fault_rule *rule;
    uint64_t cookie;
    uint64_t ahead; /* completions of the queue that come before */
    struct fault_pending *next;
};

struct fault_queue {
    uint64_t outstanding; /* requests whose completions are not polled */
    struct fault_pending *pending;
};

struct fault_rnic {
    struct pass_rnic pass;
    struct fault_script script;
    pthread_mutex_t lock;
    struct fault_count *counts; /* of calls, by rule; under the lock */
    struct fault_qp *qps;       /* by context; under the lock */
    uint64_t qp_count;          /* under the lock */
    _Atomic uint64_t injected;
};

struct fault_srq {
    struct pass_srq pass;
    struct fault_count *counts; /* under the lock */
    struct fault_queue queue;   /* under the lock */
};

struct fault_qp {
    struct pass_qp pass;
    void *context; /* key of the table */
    uint64_t number;
    struct fault_count *counts;    /* by rule; under the lock */
    struct fault_queue send, recv; /* under the lock */
    UT_hash_handle hh;
};

/* A completion that was taken from the CQ below, until `due`. */
struct fault_held {
    struct ri_wc wc;
    uint64_t due;
    void *lane; /* of its QP */
};

struct fault_cq {
    struct pass_cq pass;
    /* In the order in which they are given; under the lock. Two: where one was reordered. */
    unsigned holds;
    struct fault_held held[2];
    atomic_bool armed;
    /* One thread at a time takes completions, if some are delayed. `missed`: another one was told
     * that there is none. */
    atomic_flag taking;
    atomic_bool missed;
    struct ri_timer timer;
    void *timer_lane; /* where the timer was set last */
};

static inline struct fault_rnic *fault_rnic_of(struct pass_rnic *rnic)
{
    return (struct fault_rnic *)rnic; /* its first member */
}

/* ---- fault_post.c ---- */
enum ri_status fault_post_send(struct ri_qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad);
enum ri_status fault_post_recv(struct ri_qp *qp, struct ri_recv_wr *wr, struct ri_recv_wr **bad);
enum ri_status fault_post_srq_recv(struct ri_srq *srq, struct ri_recv_wr *wr,
                                   struct ri_recv_wr **bad);
void fault_queue_clear(struct fault_queue *queue);

/* ---- fault_poll.c ---- */
uint32_t fault_poll(struct ri_cq *cq, uint32_t count, struct ri_wc *wc);
enum ri_status fault_arm(struct ri_cq *cq, enum ri_arm kind, uint32_t count);
enum ri_status fault_cq_peek(struct ri_cq *cq, uint32_t *total, uint32_t *notify);
void fault_cq_event(struct pass_cq *cq);
void fault_cq_close(struct pass_cq *cq);
/* The QP is gone: a completion of it that is held is dropped. */
void fault_cq_forget(struct pass_cq *cq, const void *qp_context);

/* ---- fault_call.c ---- */
enum ri_status fault_call(struct pass_rnic *rnic, enum pass_verb verb);

#endif
