/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queue pairs: the core's part, each member with the lock that guards it; states, ends, events to
 * report. Locks and their order: core.h.
 */
#ifndef ITAL_SOFTWARE_QP_H
#define ITAL_SOFTWARE_QP_H

#include "queues.h"
#include "wire.h"
#include "base/compiler.h"

struct lane;

/* Of a Terminate message: its control, and the headers of the segment that caused it. */
#define QP_TERMINATE_OCTETS 56u

/* Attributes that modify can change. Written inside tx, under rx (if there is a connection) and
 * life.lock; a reader needs one of the three. */
struct qp_attributes {
    uint32_t ird, ord;
    /* enum ri_qp_flags. Posts read them with none of the three locks. */
    atomic_uint flags;
    /* ord was above 0 in this connection. */
    bool reads_agreed;
    /* RI_QPM_RNR */
    uint8_t rnr_retry, rnr_timer;
    /* RI_QPM_IMMEDIATE. Posts read it with none of the three locks. */
    atomic_bool fused;
    /* RI_QPM_ACKNOWLEDGED */
    atomic_bool acknowledged;
    /* Receives of the SRQ in use, at most. UINT32_MAX: no limit. */
    uint32_t rq_limit, rq_hard_limit;
};

/* States and ends. Under `lock`, except for the atomic members. `state` leaves RTS under it.
 * Other states end inside tx, where `lost` is written, too. */
struct qp_life {
    struct spinlock lock;
    /* enum ri_qp_state */
    atomic_int state;
    /* The Terminate below has to be sent. */
    bool terminate_wanted;
    /* Nothing can be sent any more. */
    bool lost;
    /* RI_QP_KEEP_RECEIVES, and the peer has ended the connection. */
    atomic_bool keeps_receives;
    /* The same, without an error: the first unfinished request tells it. */
    atomic_bool tells_leave;
    /* The end was reported or will be. */
    bool reported;
    /* A thread is reporting. */
    bool reporting;
    uint16_t terminate_sent, terminate_received;
    uint8_t terminate[QP_TERMINATE_OCTETS];
    uint32_t terminate_length;
    /* One of the events below is to be reported. */
    atomic_bool pending;
    bool end_pending, established_pending, rq_limit_pending, communication_pending, drained_pending;
    bool destroyed;
    struct ri_event end_event;
};

/* In lists of the lane. Under lane->lock. There is one for each endpoint: it is kept small. */
struct qp_lane {
    /* Those that a pass has to visit; those that are freed when no pass can hold them, which none
     * visits any more. */
    struct qp *prev;
    union {
        struct qp *next, *free_next;
    };
    /* Those that are connected, in the order of `number` (from 1; 0: not connected). */
    struct qp *connected_prev, *connected_next;
    uint64_t number : 63;
    /* To be visited. */
    uint64_t listed : 1;
};

/* Output: who is inside tx, what there is to do (tx.c). */
struct qp_tx {
    /* Threads that are inside tx or want to be. 0: none. */
    atomic_uint requests;
    /* A thread has found work for tx. Any thread. */
    atomic_bool wanted;
    /* Output has ended, and tx no longer uses the consumer's memory. Written inside tx. */
    atomic_bool stopped;
    /* Nothing may be sent before the peer has sent something (RFC 5044 7.1.2). */
    atomic_bool holding;
#ifdef ITAL_DEBUG
    /* pthread_t of the thread inside; 0: none. */
    atomic_ulong inside;
#endif
};

/* One writer each, tx or rx; any reader. */
struct qp_counters {
    atomic_ullong sent_messages, sent_octets, received_messages, received_octets;
    /* Received RDMA Writes without an octet. */
    atomic_ullong empty_writes;
    /* Errors of its peers, over all connections. Any thread writes. */
    atomic_ullong access_errors;
    /* Messages that found no receive and had to wait. */
    atomic_ullong waits;
};

struct qp {
    /* These do not change while the QP lives. */
    struct ri_qp base;
    struct rnic *rnic;
    /* The lane that carries its connections. */
    struct lane *lane;
    struct pd *pd;
    struct cq *send_cq, *recv_cq;
    /* NULL: an own receive queue. */
    struct srq *srq;
    /* The PD of the elements of receives: the SRQ's, or pd. */
    struct pd *recv_pd;
    uint32_t qpn;
    uint32_t max_read_sge, max_write_sge;
    uint8_t type; /* enum ri_qp_type */

    /* Under srq->qps_lock. */
    struct qp *srq_prev, *srq_next;

    /* no_wire, or the wire that has connected it: from hand-over to reset. Written inside tx and
     * under sq.posting, with base.ops. */
    _Atomic(const struct wire *) wire;
    struct qp_attributes attr;
    struct qp_life life;
    /* Its places in the lists of CQs whose ring was full: [CQ_SENDS], [CQ_RECEIVES]. Under the
     * lock of that CQ. */
    struct ri_queued cq_wait[2];
    struct wq sq, rq;
    struct qp_lane on_lane;
    struct qp_tx tx;
    struct qp_counters counters;
    /* With an SRQ: MAX_SGE elements of the request under way that was taken from it. Under rx. */
    struct ri_sge *srq_sges;
    /* Of a sanitizer. NULL: there is none. */
    struct qp_watch *watch;
    /* The part of the wire in WIRE_LOCAL, made when it first connects the QP. NULL: it has not. */
    _Atomic(void *) local_part;
    /* VALID narrow windows. Any thread. */
    atomic_uint windows;
    /* Uses of the QP outside a pass: destroy waits until there are none. Any thread. Not in a
     * cache line that every post and every pass reads. */
    atomic_uint upcalls;
    /* Behind it, in the same memory: the part of the wire in WIRE_NETWORK. */
};

static inline const struct wire *qp_wire(const struct qp *qp)
{
    return atomic_load_explicit(&qp->wire, memory_order_relaxed);
}

static inline enum ri_qp_state qp_state(const struct qp *qp)
{
    return (enum ri_qp_state)atomic_load_explicit(&qp->life.state, memory_order_acquire);
}
/* Is this flag of enum ri_qp_flags set? */
static inline bool qp_allows(const struct qp *qp, uint32_t flag)
{
    return atomic_load_explicit(&qp->attr.flags, memory_order_relaxed) & flag;
}
static inline struct cq *qp_cq(const struct qp *qp, const struct wq *wq)
{
    return wq->receive ? qp->recv_cq : qp->send_cq;
}
/* Push the completions of finished requests, in order (cq.c). Any thread; no lock but rx or tx
 * held. */
void qp_retire_sends(struct qp *qp);
void qp_retire_receives(struct qp *qp);
/* The same after plain Sends, and after a Read Response. False: qp_retire() or qp_deliver() has
 * something left to do. */
bool qp_retire_received(struct qp *qp);
bool qp_retire_answered(struct qp *qp);
/* A hint without the lock reads no more than this: of two threads that finish requests at once,
 * one must see both. */
static inline bool wq_may_retire(const struct wq *wq)
{
    return atomic_load_explicit(&wq->done, memory_order_relaxed) !=
           atomic_load_explicit(&wq->posted, memory_order_relaxed);
}
static inline void qp_retire(struct qp *qp, struct wq *wq)
{
    if (wq_may_retire(wq))
        wq->receive ? qp_retire_receives(qp) : qp_retire_sends(qp);
}
/* After the end of a connection: unsignalled requests that no completion covers leave their slots.
 * Those of other requests are free when their completions are polled. All requests are done, and
 * the QP is IDLE, so nobody posts. Inside tx. */
void qp_free_unsignalled(struct qp *qp);
/*
 * The connection ends: the state leaves RTS, event and Terminate are noted, tx will stop and flush.
 * The first end wins: false if the connection has ended already. The caller holds no lock of the QP
 * but rx.
 */
struct qp_end {
    enum ri_event_type event; /* 0: reported later (orderly close) */
    enum ri_qp_state state;   /* TERMINATE, CLOSING or ERROR */
    bool lost;                /* the connection is dead, or has to be reset */
    bool send_terminate, terminate_received;
    uint16_t terminate_value;
    /* Payload to send, or the received one; up to QP_TERMINATE_OCTETS. */
    const void *terminate;
    uint32_t terminate_length;
    bool heard;        /* the peer has sent a message: a responder may speak */
    bool by_this_side; /* not the peer, or its silence */
    bool bad_access;   /* the peer named memory that it may not use */
    /* The request that fails by it, or NULL. All others are flushed. */
    struct wqe *wqe;
    enum ri_wc_status status; /* of wqe */
    const char *detail;
};
bool qp_end(struct qp *qp, const struct qp_end *end);
/* The `detail` of an end for want of memory; its event is RI_EVENT_LLP_LOST, or LLP_RESET where an
 * orderly close cannot be finished. */
#define QP_NO_MEMORY(what) \
    "no memory for " what  \
    "; free memory or raise its limit (ulimit -v, or that of the control group)"
void qp_record_established(struct qp *qp);
void qp_record_rq_limit(struct qp *qp);
/* RI_EVENT_COMMUNICATION_ESTABLISHED, RI_EVENT_SEND_QUEUE_DRAINED. */
void qp_record_communication(struct qp *qp);
void qp_record_drained(struct qp *qp);
/* Its SRQ has something to report. */
void qp_record_srq(struct qp *qp);
/* 0: none. Under rx, or nobody else knows the QP. */
static inline void qp_set_rq_limits(struct qp *qp, uint32_t soft, uint32_t hard)
{
    qp->attr.rq_limit = soft ? soft : UINT32_MAX;
    qp->attr.rq_hard_limit = hard ? hard : UINT32_MAX;
}
void qp_closed(struct qp *qp, const char *detail); /* an orderly close is over */
static inline bool qp_is_acknowledged(const struct qp *qp)
{
    return unlikely(atomic_load_explicit(&qp->attr.acknowledged, memory_order_relaxed));
}
void qp_closed_badly(struct qp *qp, const char *detail); /* it ends by a reset */
/* The telling alone; of the second, that the connection is established, if that is to be told. No
 * lock held. */
void qp_report(struct qp *qp);
void qp_report_established(struct qp *qp);
/* Of an ended connection: sends, and receives unless they outlive it (RI_QP_KEEP_RECEIVES). Inside
 * tx; under rx, too, until output has stopped (tx.stopped): then nothing is received any more. */
void qp_flush_ended(struct qp *qp);
/* Sends: inside tx; with one that was unfinished receives are kept no longer. Receives: nothing is
 * received meanwhile. */
void qp_flush(struct qp *qp, struct wq *wq);

/* --- receives.c, under rx --- */

/* A receive of its SRQ for the message under way: it is at rq.next, its elements in srq_sges.
 * False, and why: there is none, or the QP may use no more. */
bool qp_take_shared(struct qp *qp, const char **why);
/* The minimum RNR NAK timer of a code (InfiniBand, volume 1, table 45), in ns. */
uint64_t qp_rnr_interval(uint8_t code);
/* When a message that has waited for a receive since then, in ns, waits no longer. CLOCK_NEVER:
 * without end. */
uint64_t qp_patience_over(const struct qp *qp, uint64_t since);

/* --- qp.c --- */

/* The wire's part is complete, and inside tx it connects the QP: operations and lists; the state is
 * RTS when it returns. */
void qp_connected(struct qp *qp, const struct wire *wire, uint32_t ird, uint32_t ord);
/* The QP goes on with its connection by another wire, whose part is complete; nothing was sent by
 * the one before, which does not find the QP any more. Inside tx, in RTS. */
void qp_change_wire(struct qp *qp, const struct wire *wire);
/* The QP lets go of its connection: as wire->release. Inside tx. */
void qp_release(struct qp *qp);
/* Nothing names the QP any more, and it is on no list. */
void qp_free(struct qp *qp);
/* Enter tx alone and hold what is received, if there is a connection. It never waits for rx inside
 * tx: a pass that holds rx may wait for tx. */
void qp_hold(struct qp *qp);
void qp_unhold(struct qp *qp);

#endif
