/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queue pairs: all that transmit and receive keep there, states, ends, what is told.
 */
#ifndef ITAL_SOFTRDMA_QP_H
#define ITAL_SOFTRDMA_QP_H

#include "queues.h"
#include "rnic.h"

struct lane;
struct llp_ops;
struct stream;

/* A request of ours that the peer has to answer: a Read, or an atomic (8 octets). */
struct outstanding_read {
    uint32_t index; /* of its request; UINT32_MAX with rtr */
    bool rtr;       /* our ready-to-receive message: nobody waits for it */
    bool atomic;    /* its Request Identifier is its MSN */
    bool full;      /* all octets have come, the last segment without L (C-100) */
    bool invalidates;
    uint32_t sink_stag;
    uint64_t sink_to;
    uint32_t size, received;
    uint32_t msn; /* of its request */
};

/* A request of the peer that waits for its answer. Atomics: size 0, executed when the answer is built. */
struct inbound_read {
    uint32_t sink_stag; /* atomics: the Request Identifier */
    uint32_t source_stag;
    uint64_t sink_to, source_to;
    uint32_t size, sent;
    uint32_t msn;
    uint8_t header
        [6]; /* the request's first octets as they came, ignored bits too: a Terminate sends them back */
    bool atomic;
    uint8_t atomic_op;                          /* enum rdmap_atomic_op */
    uint64_t data, mask, compare, compare_mask; /* atomics */
};

struct tx_memory;

struct tx_batch {
    struct tx_memory *memory; /* lent, see tx_memory.c; NULL: the next three are, too */
    struct iovec *iov;        /* TX_IOV */
    uint32_t count, first;    /* entries, next to send */
    size_t octets;            /* not yet sent */
    uint8_t *arena;
    uint32_t arena_used;
    uint32_t count_most, arena_most; /* batch_bound */
    uint32_t full,
        full_begun;       /* octets from which on nothing is added; while a message is under way */
    uint32_t most, piece; /* it is one TCP segment: octets of it, of an FPDU. 0: it is not */
    uint8_t *bounce;      /* Read Response payload; NULL: not needed yet */
    uint32_t bounce_used;
    uint8_t *fetched; /* option guard: payload of the next FPDU, in the bounce buffer */
    uint8_t *own;     /* octets of this batch that are in none of the above; freed with it */
};

struct qp {
    struct ri_qp base;
    struct rnic *rnic;
    struct lane *lane; /* carries its connections */
    struct pd *pd;
    struct cq *send_cq, *recv_cq;
    struct srq *srq;                /* NULL: an own receive queue */
    struct pd *recv_pd;             /* of the elements of receives: the SRQ's, or pd */
    struct qp *srq_prev, *srq_next; /* under srq->qps_lock */
    uint32_t qpn;
    uint32_t ird, ord,
        flags;         /* changed inside tx, under rx and state_lock: each is enough to read */
    bool reads_agreed; /* ord was above 0 in this connection; as above */
    uint32_t rq_limit, rq_hard_limit; /* receives of the SRQ in use; UINT32_MAX none; as above */
    uint32_t max_read_sge, max_write_sge;
    atomic_uint windows; /* VALID narrow windows */

    struct spinlock state_lock;
    atomic_int state;      /* enum ri_qp_state */
    struct stream *stream; /* the QP's from hand-over to reset or destroy, also when it is CLOSED */
    bool terminate_wanted; /* the Terminate below has to be sent; under state_lock */
    bool lost;             /* nothing can be sent any more; under state_lock */
    bool told;             /* the end was told or will be; under state_lock */
    bool telling;          /* a thread is at it; under state_lock */
    atomic_ullong access_errors; /* of its peers, over all connections */
    uint16_t terminate_sent, terminate_received;
    uint8_t terminate[56];
    uint32_t terminate_length;
    atomic_bool news; /* one of the next two; written under state_lock */
    bool event_pending, established_pending, soft_pending; /* under state_lock */
    bool destroyed;                                        /* likewise */
    bool blocked[2];                                       /* in the CQs' lists: as blocked_next */
    struct ri_event event;
    atomic_bool tx_wanted; /* somebody found work for tx */
    atomic_uint upcalls;
    struct qp *blocked_next[2]; /* in the CQs' lists: [0] send, [1] receive */
    struct qp *grave_next;

    struct wq sq, rq;

    /* Gathering (tx_gather.c); under sq.posting */
    bool gathering;                       /* what is posted waits to leave together */
    bool gather_asked;                    /* the last post carried RI_WR_COALESCE */
    bool streams;                         /* much had gathered when it left last */
    uint32_t sent_at;                     /* lane->looks when a post left at once */
    uint32_t gather_small;                /* octets of short requests that wait, headers too */
    uint32_t gather_entries;              /* pieces of the others */
    uint64_t gather_large;                /* octets of the others */
    uint64_t gather_streak;               /* octets since it began */
    struct qp *gather_prev, *gather_next; /* under lane->lock */
    bool on_gathered;                     /* as well */

    /* tx: whoever holds tx_requests */
    atomic_uint tx_requests;
    struct tx_batch batch;
    atomic_bool keeps_memory; /* of the batch, when it is empty; written under the lane's lock */
    bool keeps_none;          /* any more; under the lane's lock */
    struct stag_hint tx_hint, answer_hint; /* elements of sends; what answers read and write */
    bool crc;
    bool markers_transmit;   /* the peer asked for markers */
    uint64_t full_operation; /* position of the first FPDU; markers count from there */
    uint32_t mulpdu;
    uint32_t piece,
        pieces; /* FPDUs that fill a TCP segment: octets, how many. 0: writes do not follow segments */
    uint32_t short_below; /* shorter payload of one element is built by tx_short.c */
    uint32_t
        alone_below; /* by tx_alone.c; 0 while the start-up is not over, and when output has ended */
    uint32_t send_msn, read_msn, atomic_msn;
    atomic_uint
        sq_sent; /* requests before it are all in the socket, and tx has let go of their slots */
    uint64_t position, accepted; /* octets built, octets taken by the socket */
    uint64_t learn_at;           /* position where the EMSS is asked for again */
    atomic_ullong retry_at;      /* the socket was full: time of the next attempt */
    uint32_t retry_ns;
    uint64_t message_offset; /* of the request at sq.next that is under way */
    bool message_begun;
    bool immediate_due;  /* of that request the Write is built, its Immediate Data is not */
    bool response_begun; /* of the Read at ird_out some octets are built, not all */
    bool requests_first; /* in the next batch: the responses had their turn */
    bool halved;         /* its last two writes are halves, and the first is begun */
    bool aim_anew;       /* the batch's bounds are those of one message */
    bool source_gone;    /* memory of the message under way was deregistered */
    uint32_t cursor_sge; /* of the payload of that request */
    uint32_t cursor_offset;
    bool local_revoked;  /* the local request at sq.next has revoked its STag */
    uint8_t rtr_to_send; /* enum ri_rtr */
    atomic_bool stopped; /* output has ended and let go of the consumer's memory */
    atomic_bool holding; /* responder: until one valid FPDU came (RFC 5044 7.1.2) */
    atomic_int
        tx_error; /* errno: the socket refused; the end is told after what can still be read */

    /* ORD: tx puts in, rx takes out. IRD: the other way round. */
    struct outstanding_read *ord_ring;
    atomic_uint ord_in, ord_out;
    struct inbound_read *ird_ring;
    atomic_uint ird_in, ird_out;
    uint32_t ord_size, ird_size; /* ring sizes, powers of two */

    /* The entry that the local request at sq.next waits for: the lane makes it quiet (tx_local.c). */
    _Atomic(struct stag_entry *) unquiet;

    /* rx: under stream->rx */
    struct stag_hint rx_hint, recv_hint; /* what the peer names; elements of receives */
    const struct ri_sge *message_sges;   /* of the receive under way */
    struct ri_sge *srq_sges;             /* MAX_SGE, with an SRQ: when it came from there */
    bool markers_receive;                /* we asked for markers */
    uint32_t rx_position; /* markers: of the first octet not parsed, counted from Full Operation */
    uint32_t expect_send_msn, expect_read_msn, expect_atomic_msn;
    bool message_open; /* a Send is being received into the request at rq.next */
    uint8_t message_opcode;
    uint32_t message_stag; /* to be invalidated by it */
    uint32_t message_received;
    bool rtr_await;
    bool straight; /* FPDUs may go the straight way */

    atomic_ullong sent_messages, sent_octets, received_messages, received_octets;
    atomic_ullong empty_writes; /* received: RDMA Writes of no octet */
};

static inline enum ri_qp_state qp_state(const struct qp *qp)
{
    return (enum ri_qp_state)atomic_load_explicit(&qp->state, memory_order_acquire);
}
static inline struct cq *qp_cq(const struct qp *qp, const struct wq *wq)
{
    return wq->receive ? qp->recv_cq : qp->send_cq;
}
/* cq.c: push the completions of finished requests, in order. Any thread, no lock but rx or tx held. */
void qp_retire_sends(struct qp *qp);
void qp_retire_receives(struct qp *qp);
/* The same after plain Sends, and after a Read Response. False: something is left to qp_retire(), or to settle. */
bool qp_retire_received(struct qp *qp);
bool qp_retire_answered(struct qp *qp);
/* Not more may be looked at without the lock: of two that finish requests at once, one has to see both. */
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
/*
 * The connection ends: the state leaves RTS, event and Terminate are noted, tx will stop and flush. The first end wins:
 * false when there was one already. No lock of the QP but rx held.
 */
struct qp_end {
    enum ri_event_type event; /* 0: told later (orderly close) */
    enum ri_qp_state state;   /* TERMINATE, CLOSING or ERROR */
    bool lost;                /* the socket is dead, or has to be reset */
    bool send_terminate, terminate_received;
    uint16_t terminate_value;
    const void *terminate; /* payload to send, or that was received; up to 56 octets */
    uint32_t terminate_length;
    bool heard;               /* the peer has sent an FPDU: a responder may speak */
    struct wqe *wqe;          /* the request that fails by it, or NULL; all others are flushed */
    enum ri_wc_status status; /* of wqe */
    const char *detail;
};
bool qp_end(struct qp *qp, const struct qp_end *end);
/* The end by a Terminate of ours, of end->terminate_value; state, payload and length are filled in. cause: NULL where no segment
 * of the peer is behind it. */
struct terminate_cause;
bool qp_terminate(struct qp *qp, const struct qp_end *end, const struct terminate_cause *cause);
void qp_note_established(struct qp *qp);
void qp_note_rq_limit(struct qp *qp);
void qp_note_srq(struct qp *qp); /* its SRQ has something to tell */
/* 0: none. Under rx, or nobody else knows the QP. */
static inline void qp_set_rq_limits(struct qp *qp, uint32_t soft, uint32_t hard)
{
    qp->rq_limit = soft ? soft : UINT32_MAX;
    qp->rq_hard_limit = hard ? hard : UINT32_MAX;
}
void qp_closed(struct qp *qp, const char *detail); /* an orderly close is over */
/* Its first message, or the answer to its own, is still to come. */
bool qp_is_starting(struct qp *qp);
void qp_closed_badly(struct qp *qp); /* the peer sent on meanwhile */
/* The telling alone. No lock held. */
void qp_tell(struct qp *qp);
void qp_flush(struct qp *qp, struct wq *wq); /* sends: under tx and rx; receives: under rx */

/* --- who is inside tx: see tx/tx.c --- */

/* Inside tx alone, without waiting: false, somebody is there. What comes meanwhile is left to qp_settle(), as rx may be held. */
static inline bool tx_try_enter(struct qp *qp)
{
    unsigned int nobody = 0;

    return atomic_compare_exchange_strong(&qp->tx_requests, &nobody, 1);
}
static inline void tx_leave_work(struct qp *qp)
{
    if (atomic_exchange(&qp->tx_requests, 0) != 1)
        atomic_store(&qp->tx_wanted, true);
}

#endif
