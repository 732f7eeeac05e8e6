/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queues: of requests (wq.c), of requests that QPs share (srq.c), of completions (cq.c).
 */
#ifndef ITAL_SOFTRDMA_QUEUES_H
#define ITAL_SOFTRDMA_QUEUES_H

#include "rnic.h"

#include "rnicpi_arming.h"
#include "rnicpi_ring.h"

struct lane;
struct qp;

/* --- work queues --- */

/* One request, as posted. The index runs freely; slot = index & mask. */
struct wqe {
    uint64_t cookie;
    uint64_t
        remote_addr; /* received datagrams: 8 octets of the sender's GID, the others: compare */
    uint64_t length; /* octets of all elements */
    union {
        uint64_t compare; /* atomics, until they are built */
        struct {
            uint32_t access; /* enum ri_access, remote bits and RI_ACCESS_ZERO_BASED */
            uint32_t use;    /* stag_entry.use of the window when this was posted */
        } bind;              /* until it is executed */
        uint64_t end;        /* stream position behind its last octet, from then on; sends */
    };
    /* atomics: to add or to swap in; immediate data: 8 octets as a number; else the STag that is
     * invalidated or bound */
    uint64_t operand;
    uint32_t rkey;     /* received datagrams: the sender's QPN */
    uint32_t byte_len; /* for the completion */
    uint32_t num_sge;
    uint32_t vendor_error;
    uint16_t status;  /* enum ri_wc_status */
    uint8_t wc_flags; /* enum ri_wc_flags, WC_NAMES_STAG */
    /* The outcome is known: it may be retired when all before it are. */
    atomic_bool done;
    uint16_t flags; /* enum ri_wr_flags, WQE_ANSWERED */
    uint8_t opcode; /* enum ri_wr_opcode; received datagrams: ri_wc.source.sl */
    struct ri_sge sges[];
};

/* Mark a request's outcome. */
static inline void wqe_finish(struct wqe *wqe, enum ri_wc_status status, uint32_t byte_len)
{
    wqe->status = (uint16_t)status;
    wqe->byte_len = byte_len;
    atomic_store_explicit(&wqe->done, true, memory_order_release);
}

/* In wc_flags of a receive: its immediate data came with a Send. */
#define WC_OF_SEND (1u << 5)
/* Requests that are complete when their answer has come, not when they were sent. Each takes a
 * place of ORD until then. */
#define WC_NAMES_STAG (1u << 7)  /* in wc_flags: operand is the STag that the request was about */
#define WQE_ANSWERED  (1u << 15) /* in flags, beside those of the request */
#define WQE_SHORT     (1u << 14) /* likewise: tx_short.c may build it */
/* A Read into several elements is one request of the peer for each: others of it follow. Of these
 * the last alone is signalled; wc_flags there: operand are the octets of all. */
#define WQE_PART (1u << 13)
/* A local invalidation that has revoked its STag: it goes on when nobody uses that any more. */
#define WQE_REVOKED (1u << 12)
#define WC_WHOLE    (1u << 6)
static inline uint16_t wqe_flags(const struct ri_send_wr *wr)
{
    const uint32_t answered = 1u << RI_WR_RDMA_READ | 1u << RI_WR_RDMA_READ_INVALIDATE |
                              1u << RI_WR_ATOMIC_FETCH_ADD | 1u << RI_WR_ATOMIC_COMPARE_SWAP;

    return (uint16_t)(wr->flags | (answered >> wr->opcode & 1) * WQE_ANSWERED);
}
static inline bool wqe_is_answered(const struct wqe *wqe)
{
    return wqe->flags & WQE_ANSWERED;
}
/* Requests that send nothing (own_requests.h). */
static inline bool wqe_is_local(const struct wqe *wqe)
{
    return wqe->opcode >= RI_WR_BIND_WINDOW;
}

/* posted >= next >= done >= freed, all modulo 2^32 differences. */
struct wq {
    struct spinlock posting; /* posted, and the contents of free slots */
    uint32_t mask, depth, max_sge;
    size_t stride;
    uint8_t *slots; /* aligned to cache lines, inside allocation */
    void *allocation;
    atomic_uint posted; /* next index to post */
    atomic_uint next;   /* next to execute: sends under tx, receives under rx */
    atomic_uint sent;   /* sends: those before it have left, and tx no longer reads their slots */
    atomic_uint done;   /* next to retire; under the lock of its CQ */
    atomic_uint freed;  /* slots below are free: their completions were polled */
    bool receive;
    bool part_failed; /* and was reported, its request's others were not; under the CQ's lock */
    /* A post is more than an entry: a message waits for a receive, or (the rq of a QP with an SRQ)
     * there are no posts. Under posting. */
    bool special;
};

enum ri_status wq_open(struct wq *wq, bool receive, uint32_t depth, uint32_t max_sge);
void wq_close(struct wq *wq);
static inline struct wqe *wq_slot(const struct wq *wq, uint32_t index)
{
    return (struct wqe *)(wq->slots + (size_t)(index & wq->mask) * wq->stride);
}
/* Take over the slots of `larger`, which was just opened, with the requests in the present ones.
 * `larger` gets the old slots. No other thread uses slots meanwhile. */
void wq_exchange(struct wq *wq, struct wq *larger);
static inline bool wq_pending(const struct wq *wq)
{
    return atomic_load_explicit(&wq->next, memory_order_relaxed) !=
           atomic_load_explicit(&wq->posted, memory_order_acquire);
}
/* The next free slot and the total length of the elements copied there; the caller fills the rest
 * and publishes. Under posting. */
enum ri_status wq_take(struct wq *wq, const struct ri_sge *sges, uint32_t num_sge, uint32_t limit,
                       struct wqe **wqe);
/* Free slots. Acquire: whoever polled the completion is done with them. Under posting. */
static inline uint32_t wq_room(const struct wq *wq)
{
    spinlock_assert_held(&wq->posting);
    return wq->depth - (atomic_load_explicit(&wq->posted, memory_order_relaxed) -
                        atomic_load_explicit(&wq->freed, memory_order_acquire));
}
static inline void wq_publish_at(struct wq *wq, uint32_t index)
{
    atomic_store_explicit(&wq->posted, index + 1, memory_order_release);
}
static inline void wq_publish(struct wq *wq)
{
    wq_publish_at(wq, atomic_load_explicit(&wq->posted, memory_order_relaxed));
}

/* Marks the queue: the next post has a message delivered that waits for it. False: there is a
 * request by now. */
static inline bool wq_await_post(struct wq *wq)
{
    bool none;

    spinlock_lock(&wq->posting);
    none = !wq_pending(wq);
    wq->special |= none;
    spinlock_unlock(&wq->posting);
    return none;
}

/* --- shared receive queues: srq.c --- */

/*
 * Requests are taken in the order in which they were posted. At the first segment of a message one
 * moves into the QP's own rq and completes there like any other. The slots of that rq have no
 * elements: those go to qp->srq_sges, because one message at a time is under way. A request counts
 * as outstanding until its completion was polled.
 */
struct srq {
    struct ri_srq base;
    struct rnic *rnic;
    struct pd *pd;
    struct wq queue;         /* all of it under queue.posting */
    uint32_t limit;          /* 0: not armed; under queue.posting */
    atomic_uint outstanding; /* posted, completion not yet polled */
    atomic_bool low_pending; /* srq_deliver has to report it */
    atomic_uint upcalls;
    pthread_mutex_t qps_lock; /* the list, and the depth of the queue */
    struct qp *qps;
};

/* The next request, for the QP's message under way. False: there is none. Under the QP's rx. The
 * SRQ may have an event to deliver then. */
bool srq_take(struct srq *srq, struct qp *qp);
/* Is there anything to deliver? */
static inline bool srq_has_pending_events(struct srq *srq)
{
    return atomic_load(&srq->low_pending);
}
/* A completion of this receive was polled. */
static inline void srq_polled(struct srq *srq)
{
    atomic_fetch_sub_explicit(&srq->outstanding, 1, memory_order_release);
}
static inline bool srq_has_request(struct srq *srq)
{
    return wq_pending(&srq->queue);
}
enum ri_status srq_attach(struct srq *srq, struct qp *qp); /* opens the QP's rq */
void srq_detach(struct srq *srq, struct qp *qp); /* no completion of the QP is in a CQ any more */
/* *awaited: messages of some QPs waited for it. */
enum ri_status srq_post(struct srq *srq, struct ri_recv_wr *wr, struct ri_recv_wr **bad,
                        bool *awaited);
/* Report the events that were noted. No lock held. */
void srq_deliver(struct srq *srq);
enum ri_status core_srq_create(struct ri_pd *base, struct ri_srq_attr *attr, struct ri_srq **out);
enum ri_status core_srq_query(struct ri_srq *base, struct ri_srq_attr *attr);
enum ri_status core_srq_destroy(struct ri_srq *base);

/* --- completion queues --- */

struct cq_entry {
    struct ri_wc wc;
    struct wq *wq;
    uint32_t index; /* of the request in its queue */
    bool shared;    /* it came from an SRQ */
};

#define CQ_FIRED      1u
#define CQ_OVERFLOWED 2u

/* How the consumer learns of completions (tx_coalesce.c). */
enum cq_consumer { CONSUMER_UNKNOWN, CONSUMER_POLLS, CONSUMER_WAITS, CONSUMER_ARMED };

struct cq {
    struct ri_cq base;
    struct rnic *rnic;
    _Atomic(struct lane *) lane; /* that of its QPs; NULL: there are several. Written under lock */
    _Atomic(struct lane *) home; /* that of its first QP; likewise */
    struct spinlock lock;
    struct cq_entry *entries;
    struct ri_ring ring;
    uint32_t marked;         /* entries with ri_wc_is_marked; under lock */
    struct ri_arming arming; /* under lock */
    atomic_bool overflowed;
    atomic_uint to_report; /* CQ_FIRED, CQ_OVERFLOWED: cq_deliver has to report it */
    atomic_uint upcalls, users;
    atomic_uchar consumer; /* enum cq_consumer */
    atomic_uchar dry;      /* passes for it since it was armed or a completion was taken */
    atomic_uint seen;      /* lane->passes when its consumer polled last */
    uint8_t hits;          /* polls that took something since it was armed; under lock */
    atomic_uint blocked;   /* queues that wait for room */
    /* qp.cq_wait of these: [0] send, [1] receive; under lock */
    struct ri_queued_list queued[2];
};

void cq_deliver(struct cq *cq);
/* A QP on this lane begins to complete to it, or has stopped. */
void cq_attach(struct cq *cq, struct lane *lane);
void cq_detach(struct cq *cq);
/* Is there anything to deliver? */
static inline bool cq_has_pending_events(const struct cq *cq)
{
    return atomic_load_explicit(&cq->to_report, memory_order_relaxed) != 0;
}
/* The QP's completions leave the ring. The caller has blocked queues of other QPs retried
 * (cq_retry_blocked). */
void cq_purge(struct cq *cq, struct qp *qp);
/* The same of a QP that lives on: it is IDLE, and all its requests have ended. Their slots are free
 * again, whether they had a completion or not. The caller has blocked queues of others retried. */
void cq_forget(struct cq *cq, struct qp *qp);
/* The blocked queue that has waited longest, if the ring has room: sends or receives as *which
 * says, if there are some, else the others. It is counted in qp->upcalls. It counts as blocked
 * until cq_retried: a thread that finds the ring empty in between must not take the overflow for
 * ended. NULL: none. No lock held. */
struct qp *cq_take_blocked(struct cq *cq, int *which);
void cq_retried(struct cq *cq);
enum ri_status core_cq_peek(struct ri_cq *base, uint32_t *total, uint32_t *notify);
enum ri_status core_cq_create(struct ri_rnic *base, struct ri_cq_attr *attr, struct ri_cq **out);
enum ri_status core_cq_destroy(struct ri_cq *base);

#endif
