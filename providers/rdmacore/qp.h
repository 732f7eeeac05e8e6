/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queues, queue pairs, windows, and posted requests; from the bottom up.
 *
 * Shadow slots. A work completion of verbs has neither the consumer's cookie nor, for many opcodes
 * and all errors, the operation. So every request has a slot, whose address is the wr_id. The slots
 * of a QP's own queues are a ring: a post fills slots[tail], and a completion frees all slots up to
 * its own. Slots of an SRQ, which complete in any order, have a free list.
 *
 * Flushing. A request that is posted after the QP has ended never reaches the device: it is `soft`,
 * and completes FLUSHED when all before it have (wq_flush). If a device does not flush its
 * requests, a timer (qp_sweep) makes all that are left soft; completions of the device for slots
 * that are free already are dropped. Flushed completions, and those that were removed from the
 * device's CQ because a QP is destroyed, are in the CQ's stash, which is polled first. A request's
 * place in its queue is free when its completion has been polled, whether from the stash or from
 * the device.
 */
#ifndef ITAL_RDMACORE_QP_H
#define ITAL_RDMACORE_QP_H

#include "rdmacore.h"

struct mw {
    struct ri_mw base;
    struct pd *pd;
    struct ibv_mw *ibv;
    bool narrow;
    uint32_t index; /* STag without its key */
    UT_hash_handle hh;
    struct qp *bound; /* narrow: the QP on which it is bound. rnic.windows_lock */
    /* Wide windows; the caller posts one at a time. See window.c. */
    bool was_bound;
    struct ibv_mr region;        /* copy of the region that it was bound to last */
    _Atomic(uint8_t) device_key; /* the device's count of keys */
};

/* FILLER: belongs to no request, see window.c. DATAGRAM: a receive of a UD QP. PART: other slots of
 * the same request follow, see split.c. */
enum slot_flags {
    SLOT_NOTIFY = 1,
    SLOT_STAG = 2,
    SLOT_SOFT = 4,
    SLOT_FILLER = 8,
    SLOT_DATAGRAM = 16,
    SLOT_PART = 32
};

/* What a completion needs from its request. */
struct slot {
    struct qp *qp; /* constant; NULL: of an SRQ */
    union {        /* constant */
        struct wq *wq;
        struct srq *srq;
    };
    struct slot *link; /* the next in the ring, constant; SRQ: the next free one */
    uint64_t cookie;
    union {
        struct {
            /* octets of the request; with SLOT_STAG: keys of a wide window that it takes */
            uint32_t length;
            uint32_t stag; /* with SLOT_STAG: STag of the bind or invalidate */
        };
        const uint8_t *header; /* datagrams: address of the GRH; NULL: unknown */
    };
    uint32_t index; /* position in the ring, never reset */
    uint8_t opcode; /* enum ri_wc_opcode */
    uint8_t flags;
};

struct wq {
    struct spinlock lock; /* held by threads that post */
    bool receive;
    uint32_t size, mask;
    atomic_uint tail; /* next slot to post; under lock */
    /* limit of tail: slots a ring's size before it have been polled; under the CQ's lock */
    atomic_uint limit;
    uint32_t pending; /* flushed slots after those, not polled yet; under the CQ's lock */
    /* a part was reported as failed, others of its request were not; under the CQ's lock */
    bool part_failed;
    struct slot *next; /* slots[tail]; under lock */
    struct slot *slots;
};

struct stashed {
    struct ri_wc wc;
    struct qp *qp;
    struct wq *wq; /* gets a place back when this is polled; NULL: it has it already */
    bool silent;   /* only the place matters: nothing is reported */
};

struct cq {
    struct ri_cq base;
    struct rnic *rnic;
    struct ibv_cq *ibv;
    atomic_uint users, upcalls;
    atomic_bool armed;
    atomic_bool leaving, missed; /* see cq_enter */
    pthread_mutex_t sizing;      /* a leaf; held over the device's resize */
    /* Under sizing: what the consumer asked for, and what split requests of its QPs add. */
    uint32_t depth, parts;
    struct spinlock lock;
    /* Under lock. */
    uint32_t stash_head, stash_tail, stash_room;
    struct stashed *stash;
    struct qp *by_number; /* QPs with an SRQ that complete receives here */
};

struct srq {
    struct ri_srq base;
    struct pd *pd;
    struct ibv_srq *ibv;
    uint32_t max_sge;
    atomic_uint limit; /* armed; 0 not */
    atomic_uint users;
    struct spinlock lock;
    /* Under lock. The device uses the slots, so they cannot move: added ones have memory of their
     * own. */
    uint32_t max_wr, posted, slots;
    struct slot *free;
    struct srq_slots *blocks;
};

struct srq_slots {
    struct srq_slots *next;
    struct slot slots[];
};

struct qp {
    struct ri_qp base;
    struct pd *pd;
    struct rnic *rnic;
    struct ibv_qp *ibv;
    struct cq *send_cq, *recv_cq;
    struct srq *srq;
    bool datagram;
    bool unreliable;      /* UC */
    bool numbered;        /* has left IDLE by INIT: keeps its number. Constant from then on */
    uint32_t known;       /* attributes that it has, by numbers; enum ri_qp_modify_mask */
    uint8_t port;         /* 1 .. */
    uint32_t qkey;        /* UD */
    struct group *groups; /* that it is attached to; under rnic.lock */
    atomic_int state;     /* enum ri_qp_state, UD: see qp_state; written under both wq locks */
    struct slot filler;
    atomic_uint filler_status; /* enum ri_wc_status of a failed filler, until it is reported */
    uint32_t min_inline, max_inline, max_send_sge, max_recv_sge, max_read_sge, max_write_sge;
    uint32_t parts; /* places of sq beyond those asked for */
    uint32_t ird, ord, flags, number;
    uint8_t sge_limits[16]; /* by enum ri_wr_opcode; the device's limit if that is smaller */
    /* the device has refused the last part of a request; set under sq.lock */
    atomic_bool cut;
    struct wq sq, rq;
    atomic_uint upcalls;
    atomic_bool ended;             /* the end of this connection was reported */
    struct connection *connection; /* rnic.lock */
    struct qp *next_failed;        /* under the CQ's lock, then used by the polling thread */
    struct qp *prev, *next;        /* rnic.all */
    bool lost;                     /* the device's failure was reported for it. rnic.lock */
    /* Called after the last completion of a failed request was reported. No lock held. */
    void (*request_failed)(struct qp *qp);
    atomic_bool failing;
    struct ri_timer sweep;
    UT_hash_handle hh; /* cq.by_number */
};

/*
 * Some drivers have a queue in memory that the kernel reads. They fill it, then notify the kernel
 * by write(2), and return -1 if that fails, for example while the stream ends. The request is in
 * the queue then, and completes like those before it.
 */
static inline bool post_is_queued(int rc)
{
    return rc == -1;
}

/* The states of a UD QP have their own numbers, below all others, and so do INIT and RTR. So the
 * fast paths of posting, which are for connections, exclude them by the check of the state that
 * they make anyway. Of a QP that is connected by numbers RTS is also SQD and SQE: the device
 * decides what happens to requests then. */
enum { STATE_RTR = -4, STATE_INIT = -3, DATAGRAM_IDLE = -2, DATAGRAM_RTS = -1 };

static inline enum ri_qp_state qp_state(const struct qp *qp)
{
    int state = atomic_load(&((struct qp *)(uintptr_t)qp)->state);

    switch (state) {
    case STATE_RTR: return RI_QPS_RTR;
    case STATE_INIT: return RI_QPS_INIT;
    case DATAGRAM_IDLE: return RI_QPS_IDLE;
    case DATAGRAM_RTS: return RI_QPS_RTS;
    default: return (enum ri_qp_state)state;
    }
}

/* ---- path.c ---- */
/* 0, EINVAL, or EADDRNOTAVAIL: no GID of the port suits as the source. */
int path_to_verbs(const struct rnic *rnic, const struct ri_ah_attr *attr,
                  struct ibv_ah_attr *verbs);
void path_from_verbs(const struct rnic *rnic, const struct ibv_ah_attr *verbs,
                     struct ri_ah_attr *attr);

/* ---- grh.c ---- */
/* The address of the 40 octets in front of the datagram. NULL: they are spread over several
 * elements. */
const uint8_t *datagram_header(const struct ri_recv_wr *wr);
void datagram_source(const struct ibv_wc *raw, const uint8_t *header, struct ri_wc *wc);

/* ---- window.c ---- */
struct mw *rdmacore_window(struct rnic *rnic, uint32_t stag); /* NULL: the STag names no window */
void rdmacore_window_bound(struct mw *mw, struct qp *qp);
bool rdmacore_window_unbound(struct mw *mw); /* false: it was not bound */
void rdmacore_windows_leave(struct qp *qp);  /* the QP is destroyed: unbinds its windows */
/* Places in a send queue for fillers, in addition to requests. */
#define WINDOW_FILLERS   16u
#define CONNECTION_WAKES 4u
void window_describe(const struct ri_send_wr *wr, struct ibv_send_wr *raw, uint32_t *stag);
/* Bind or invalidate; raw->wr_id is its slot. Returns the result of the verb. Under the lock of the
 * send queue. */
int window_post(struct qp *qp, const struct ri_send_wr *wr, struct ibv_send_wr *raw);
/* handles a posted request that failed */
void window_failed(struct rnic *rnic, const struct slot *slot);

/* ---- wq.c: rings of slots ---- */
bool wq_open(struct wq *wq, struct qp *qp, uint32_t size, bool receive);
void wq_close(struct wq *wq);

/* Takes the next slot, filled and counted before the device has the request, because its completion
 * may be polled before the post returns. NULL: none is free. Under wq.lock. */
static inline struct slot *wq_take_slot(struct wq *wq, uint64_t cookie, uint8_t opcode,
                                        uint8_t flags, uint32_t length)
{
    uint32_t tail = atomic_load_explicit(&wq->tail, memory_order_relaxed);
    struct slot *slot = wq->next;

    if (unlikely(tail == atomic_load_explicit(&wq->limit, memory_order_acquire)))
        return NULL;
    slot->cookie = cookie;
    slot->index = tail;
    slot->length = length;
    slot->opcode = opcode;
    slot->flags = flags;
    wq->next = slot->link;
    atomic_store_explicit(&wq->tail, tail + 1, memory_order_release);
    return slot;
}

/* Returns the last slot. */
static inline void wq_drop_slot(struct wq *wq)
{
    uint32_t tail = atomic_load_explicit(&wq->tail, memory_order_relaxed) - 1;

    wq->next = &wq->slots[tail & wq->mask];
    atomic_store_explicit(&wq->tail, tail, memory_order_relaxed);
}

/* Under wq.lock. */
static inline uint32_t wq_room(const struct wq *wq)
{
    return atomic_load_explicit(&wq->limit, memory_order_acquire) -
           atomic_load_explicit(&wq->tail, memory_order_relaxed);
}

/* Marks a request that will not reach the device. */
void wq_soften(struct wq *wq, struct cq *cq, struct slot *slot);

/* A slot with these flags has failed. True: its request's failure was reported already. Under the
 * CQ's lock. */
static inline bool wq_was_reported(struct wq *wq, uint8_t flags)
{
    bool reported = wq->part_failed;

    wq->part_failed = flags & SLOT_PART;
    return reported;
}
/* All slots before this were polled, so their places are free. Set under the CQ's lock. */
static inline uint32_t wq_freed(const struct wq *wq)
{
    return atomic_load_explicit(&wq->limit, memory_order_relaxed) - wq->size;
}
static inline void wq_free_up_to(struct wq *wq, uint32_t freed)
{
    atomic_store_explicit(&wq->limit, freed + wq->size, memory_order_release);
}
/* All slots before this have completed, polled or not. Under the CQ's lock. */
static inline uint32_t wq_completed(const struct wq *wq)
{
    return wq_freed(wq) + wq->pending;
}
/* Makes all posted requests soft; those that can complete do. The CQ's lock is not held. */
void wq_abandon(struct wq *wq, struct cq *cq);
/* Completes the soft slots at the head of the ring. Under the CQ's lock. */
void wq_flush(struct wq *wq, struct cq *cq);

/* ---- srq.c ---- */
void srq_put(struct srq *srq, struct slot *slot); /* the slot's request has completed */

/* ---- stash.c ---- */
/* Under the CQ's lock. wq: gets a place back when this is polled; NULL: none. silent: nothing is
 * reported. */
void cq_stash(struct cq *cq, const struct ri_wc *wc, struct qp *qp, struct wq *wq, bool silent);

/* ---- cq.c ---- */
/*
 * To use a CQ because of an event of it; cq_leave follows. False: it is being destroyed, and must
 * not be used. libibverbs keeps it until the event is acknowledged, but only keeps: drivers take
 * what a poll needs before they wait for that. siw's unmaps the queue (docs/interop.md, defect 28),
 * erdma's holds its lock.
 */
bool cq_enter(struct cq *cq);
void cq_leave(struct cq *cq);
/* Handles an event of the completion channel. */
void cq_fired(struct cq *cq);
/* Moves the completions of the device to the stash. gone: drops those of this QP, also from the
 * stash. */
void cq_drain(struct cq *cq, const struct qp *gone);
/* The device has forgotten the requests of a queue that completes here, and so does the queue:
 * nothing of them is polled. */
void cq_drop(struct cq *cq, struct qp *qp, struct wq *wq);
/* From here on completions in error are noticed without a poll. */
void cq_watch_errors(struct cq *cq);
/* Completions were added to the stash: fires if armed. No lock held. */
void cq_fire(struct cq *cq);
/* A QP that may split its requests into so many more completes here, or no longer: if it breaks the
 * device completes each part, signalled or not. */
void cq_reserve(struct cq *cq, uint32_t parts);
void cq_release(struct cq *cq, uint32_t parts);

/* ---- qp_state.c ---- */
int qp_access(const struct qp *qp);
/* Changes the device's state; returns an error number. */
int qp_to_init(struct qp *qp, uint8_t port);
int qp_to_state(struct qp *qp, enum ibv_qp_state state);
void qp_set_state(struct qp *qp, enum ri_qp_state state);
/* Moves to ERROR and flushes, from any state. No lock of a queue held. */
void qp_to_error(struct qp *qp);
/* The QP is in ERROR, or goes: the peer is told, where it does not see it. */
void qp_notify_peer(struct qp *qp);
/* Flushes: first takes the completions that the device has, then flushes all other requests. */
void qp_flush(struct qp *qp);
/* Asks the device whether the QP is in error. */
bool qp_has_failed(struct qp *qp);
/* From here on requests reach the device. */
void qp_connected(struct qp *qp);
void qp_swept(struct ri_timer *timer);
/* Moves its completions to the stash; one in error ends the QP. */
void qp_collect(struct qp *qp);
/* Its device has failed: ends the QP and flushes all work. */
void qp_lost(struct qp *qp, const char *detail);
/* The connection has ended for this reason: reports it once, and disconnects the peer. No lock
 * held. */
void qp_end(struct qp *qp, enum ri_event_type type, const char *detail);
/* The same after a failed request: qp.request_failed. */
void qp_request_failed(struct qp *qp);

/* ---- qp.c ---- */
/* Enters the QP by the device's number, which identifies receives of its SRQ. False: out of memory.
 * The earlier number is removed. Under the lock of recv_cq. */
bool qp_index(struct qp *qp);
void qp_unindex(struct qp *qp);
/* Returns an error number. */
int qp_create_ibv(struct qp *qp, struct ibv_qp **out);

/* ---- split.c ---- */
#define SPLIT_ELEMENTS 64u /* of one Write or Read */
/* Places that such requests need in addition to a send queue of that size. */
uint32_t split_room(const struct qp *qp, uint32_t size);
/* For a Write or Read with more elements than the device supports; raw is filled except for wr_id,
 * next and its elements. Under sq.lock. */
enum ri_status split_send(struct qp *qp, const struct ri_send_wr *wr, uint8_t completion,
                          struct ibv_send_wr *raw);
/* Called if the last post has set qp->cut. No lock of a queue held. */
void split_cut(struct qp *qp);

/* ---- post.c ---- */
void qp_limit_elements(struct qp *qp); /* sge_limits from the numbers of attributes */

/* ---- numbers.c ---- */
/* Does the change belong to a QP that is connected by numbers? */
bool numbers_takes(const struct qp *qp, const struct ri_qp_modify *modify);
enum ri_status numbers_modify(struct qp *qp, const struct ri_qp_modify *modify);
/* Of a QP that is numbered: what the device knows. */
void numbers_query(struct qp *qp, struct ri_qp_info *info);

/* ---- group.c ---- */
bool qp_is_attached(struct qp *qp); /* to any group */

/* ---- datagram.c ---- */
enum ri_status datagram_start(struct qp *qp); /* IDLE to RTS */
enum ri_status datagram_set_qkey(struct qp *qp, uint32_t qkey);

#endif
