/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the rooms of softrdma share: objects, locks, who may call whom.
 *
 *   provider  RNIC, PD, options        stag   regions, windows and the check of every access; mr mw invalidate: their life
 *   cq wq srq rings, completion        qp     states; post; qp_modify: hand-over, transitions
 *   tx        work -> FPDUs -> socket  fpdu   the batch and what fills it; tx_control: start, stop, detach
 *   rx        socket -> FPDUs -> memory, completions
 *   stream    connection's life and end, lane: who is served when, lanes: what concerns all of them; llp_tcp: the socket
 *
 * Locks, in the order in which they may be held together: rx (spinlock; the lane takes it by try), state, posting
 * (one per work queue), lane, CQ; STag table, entries (a window's before its region's), under any of
 * these and with none of them inside. A CQ's guards the retirement of its work queues, too. tx, before all of them, is no lock that the data path waits for (see tx.c); control verbs
 * enter it alone, and before it take the mutexes srq.qps_lock and pd.windows_lock. One exception: a pass of the
 * lane may wait for tx with one rx held (invalidate.c).
 * Upcalls are made with none of them held: what has to be told is noted (CQ fired, QP event) and told by
 * qp_settle() at the end of whatever the thread was doing.
 *
 * Memory: a stream or QP that a pass of the lane may still hold is put into the lane's graveyard and freed at the
 * start of a later pass, or by close.
 */
#ifndef ITAL_SOFTRDMA_H
#define ITAL_SOFTRDMA_H

#include <pthread.h>
#include <string.h>

#include "rnicpi.h"
#include "stag.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/spinlock.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define MAX_SGE         32u
#define MAX_WR          65536u
#define MAX_CQE         (1u << 22)
#define HOT_MAX         16u
#define LANES_MOST      64u
#define RX_RING_OCTETS  (256u * 1024u)
#define TX_BATCH_OCTETS (1024u * 1024u) /* aimed at in one system call */
#define TX_BATCH_TAIL \
    (128u * 1024u) /* more, so that the end of a message does not take a call of its own */
#define TX_IOV           1024u          /* UIO_MAXIOV */
#define TX_ARENA_OCTETS  (64u * 1024u)  /* headers, trailers, small payload of one batch */
#define TX_BOUNCE_OCTETS (512u * 1024u) /* Read Response payload of one batch */
#define TX_COPY_OCTETS   256u           /* payload up to here is copied next to its header */
#define TX_GATHER_SMALL \
    (48u * 1024u) /* gathered requests leave: octets of small ones, headers too */
#define SEGMENT_MOST \
    (32u * 1024u) /* payload: what is summed is in the first cache when it is copied */
#define LEAD_LEAST \
    (16u * 1024u) /* payload of a TCP segment from which on lone messages have a lead ... */
#define LEAD_SEGMENTS    4u /* ... of so many such segments at most: it is worth less in longer ones */
#define TX_HITS          16u     /* polls: who finds something so often without arming polls */
#define TX_RETRY_NS      20000u  /* a full socket is left alone that long ... */
#define TX_RETRY_MOST_NS 160000u /* ... up to that long, while it takes nothing */
#define TX_ROUNDS        4u      /* batches that one visitor writes; the rest is left to the lane */
#define MULPDU_OCTETS    (1024u * 1024u) /* output between two looks at the EMSS */
#define ATOMIC_OCTETS    8u
#define REMOTE_RIGHTS    (RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE | RI_ACCESS_REMOTE_ATOMIC)
/* Of one read: more is not in the cache any more when it is summed and placed. Two FPDUs of SEGMENT_MOST, or one of any size. */
#define GULP_MOST  (2u * SEGMENT_MOST + 64u)
#define GULP_LEAST (GULP_MOST / 4) /* a flood of tiny FPDUs is read in parts of that */
#define STRIDE_LEAST \
    (8u * 1024u)         /* octets of an FPDU from which on reads end where such FPDUs do */
#define RX_PIECES  512u  /* FPDUs of one stream in one pass, about */
#define TX_SPARES  4u    /* memory of batches that the lane keeps */
#define TX_KEEPERS 8u    /* QPs that keep theirs between batches */
#define REST_KEPT  4096u /* a larger buffer for a rest is given back when it is empty */

struct softrdma_options {
    bool fpdu_max;
    uint32_t hot, lanes;
    uint64_t close_timeout_ns;
    uint64_t rtr_timeout_ns, rtr_repeat_ns;
    uint64_t stall_timeout_ns; /* 0: none */
    uint64_t rest_limit;
    uint32_t tcp_user_timeout_ms;
    uint32_t keepalive_idle_s, keepalive_interval_s, keepalive_count;
    char congestion[16];
    char netdev[16];
};

struct pd {
    struct ri_pd base;
    struct rnic *rnic;
    atomic_uint users;
    pthread_mutex_t windows_lock; /* the list; before the locks of entries */
    struct mw *windows;
};

struct rnic {
    struct ri_rnic base;
    const struct ri_host *host;
    const struct ri_user_ops *user;
    struct ri_rnic_attr attr;
    struct softrdma_options options;
    struct stag_table stags;
    struct lane *lanes[LANES_MOST]; /* options.lanes of them */
    atomic_uint pds, cqs, qps, srqs, mws;
    atomic_uint next_qpn;
    atomic_ullong rest_octets; /* of all rests */
};

/* --- work queues --- */

/* One request, as posted. The index runs freely; slot = index & mask. */
struct wqe {
    uint64_t cookie;
    uint64_t remote_addr;
    uint64_t length; /* octets of all elements */
    union {
        uint64_t compare; /* atomics, until they are built */
        struct {
            uint32_t access; /* enum ri_access, remote bits and RI_ACCESS_ZERO_BASED */
            uint32_t use;    /* stag_entry.use of the window when this was posted */
        } bind;              /* until it is executed */
        uint64_t end;        /* stream position behind its last octet, from then on; sends */
    };
    /* atomics: to add or to swap in; immediate data: 8 octets as a number; else the STag that is invalidated or bound */
    uint64_t operand;
    uint32_t rkey;
    uint32_t byte_len; /* for the completion */
    uint32_t num_sge;
    uint32_t vendor_error;
    uint16_t status;  /* enum ri_wc_status */
    uint8_t wc_flags; /* enum ri_wc_flags, WC_NAMES_STAG */
    atomic_bool done; /* outcome known: may be retired when everything before it is */
    uint16_t flags;   /* enum ri_wr_flags, WQE_ANSWERED */
    uint8_t opcode;   /* enum ri_wr_opcode; receive queue: unused */
    struct ri_sge sges[];
};

/* Mark a request's outcome. */
static inline void wqe_finish(struct wqe *wqe, enum ri_wc_status status, uint32_t byte_len)
{
    wqe->status = (uint16_t)status;
    wqe->byte_len = byte_len;
    atomic_store_explicit(&wqe->done, true, memory_order_release);
}

/* Is a request complete when its answer has come, not when it was sent? It takes a place of ORD until then. */
#define WC_NAMES_STAG (1u << 7)  /* in wc_flags: operand is the STag that the request was about */
#define WQE_ANSWERED  (1u << 15) /* in flags, beside those of the request */
#define WQE_SHORT     (1u << 14) /* likewise: tx_short.c may build it */
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

/* posted >= next >= done >= freed, all modulo 2^32 differences. */
struct wq {
    struct spinlock posting; /* posted, and the contents of free slots */
    uint32_t mask, depth, max_sge;
    size_t stride;
    uint8_t *slots; /* aligned to cache lines, inside allocation */
    void *allocation;
    atomic_uint posted; /* next index to post */
    atomic_uint next;   /* next to execute: sends under tx, receives under rx */
    atomic_uint done;   /* next to retire; under the lock of its CQ */
    atomic_uint freed;  /* slots below are free: their completions were polled */
    bool receive;
};

enum ri_status wq_open(struct wq *wq, bool receive, uint32_t depth, uint32_t max_sge);
void wq_close(struct wq *wq);
static inline struct wqe *wq_slot(const struct wq *wq, uint32_t index)
{
    return (struct wqe *)(wq->slots + (size_t)(index & wq->mask) * wq->stride);
}
/* Take over the slots of `larger`, just opened, with what is in these; `larger` gets the old ones. Nobody looks at slots. */
void wq_exchange(struct wq *wq, struct wq *larger);
static inline bool wq_pending(const struct wq *wq)
{
    return atomic_load_explicit(&wq->next, memory_order_relaxed) !=
           atomic_load_explicit(&wq->posted, memory_order_acquire);
}
/* The next free slot and the total length of the elements copied there; the caller fills the rest and publishes.
 * Under posting. */
enum ri_status wq_take(struct wq *wq, const struct ri_sge *sges, uint32_t num_sge, uint32_t limit,
                       struct wqe **wqe);
static inline void wq_publish_at(struct wq *wq, uint32_t index)
{
    atomic_store_explicit(&wq->posted, index + 1, memory_order_release);
}
static inline void wq_publish(struct wq *wq)
{
    wq_publish_at(wq, atomic_load_explicit(&wq->posted, memory_order_relaxed));
}

/* --- shared receive queues: srq.c --- */

/*
 * Requests are taken in the order in which they were posted: at the first segment of a message one moves into the QP's own rq,
 * whose slots have no elements (they go to qp->srq_sges: one message at a time is under way), and completes there like any
 * other. It counts as outstanding until its completion was polled.
 */
struct srq {
    struct ri_srq base;
    struct rnic *rnic;
    struct pd *pd;
    struct wq queue;         /* all of it under queue.posting */
    uint32_t low_watermark;  /* 0: not armed; under queue.posting */
    atomic_uint outstanding; /* posted, completion not yet polled */
    atomic_bool low_pending; /* srq_settle has to tell of it */
    atomic_uint upcalls;
    pthread_mutex_t qps_lock; /* the list, and the depth of the queue */
    struct qp *qps;
};

/* The next request, as the QP's message under way. False: there is none. Under the QP's rx. */
bool srq_take(struct srq *srq, struct qp *qp);
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
/* Tell what has been noted. No lock held. */
void srq_settle(struct srq *srq);
enum ri_status softrdma_srq_create(struct ri_pd *base, struct ri_srq_attr *attr,
                                   struct ri_srq **out);
enum ri_status softrdma_srq_modify(struct ri_srq *base, uint32_t mask,
                                   const struct ri_srq_attr *attr);
enum ri_status softrdma_srq_query(struct ri_srq *base, struct ri_srq_attr *attr);
enum ri_status softrdma_srq_destroy(struct ri_srq *base);
enum ri_status softrdma_post_srq_recv(struct ri_srq *base, struct ri_recv_wr *wr,
                                      struct ri_recv_wr **bad);

/* --- completion queues --- */

struct cq_entry {
    struct ri_wc wc;
    struct wq *wq;
    uint32_t index; /* of the request in its queue */
    bool shared;    /* it came from an SRQ */
};

#define CQ_FIRED      1u
#define CQ_OVERFLOWED 2u

/* How the consumer learns of completions (tx_gather.c). */
enum cq_consumer { CONSUMER_UNKNOWN, CONSUMER_POLLS, CONSUMER_WAITS, CONSUMER_ARMED };

struct cq {
    struct ri_cq base;
    struct rnic *rnic;
    _Atomic(struct lane *) lane; /* that of its QPs; NULL: there are several. Written under lock */
    _Atomic(struct lane *) home; /* that of its first QP; likewise */
    struct spinlock lock;
    struct cq_entry *ring;
    uint32_t mask, depth;
    atomic_uint head, tail; /* tail - head entries */
    uint32_t notable;       /* of them notify-marked, solicited or in error; under lock */
    int armed;              /* enum ri_arm or -1; under lock */
    uint32_t armed_count;
    atomic_bool overflowed;
    atomic_uint news; /* CQ_FIRED, CQ_OVERFLOWED: cq_settle has to tell of it */
    atomic_uint upcalls, users;
    atomic_uchar consumer; /* enum cq_consumer */
    atomic_uchar dry;      /* passes for it since it was armed or a completion was taken */
    atomic_uint seen;      /* lane->passes when its consumer looked last */
    uint8_t hits;          /* polls that took something since it was armed; under lock */
    atomic_uint blocked;   /* queues that wait for room */
    /* the QPs of these, oldest first: [0] send, [1] receive; under lock, linked by qp->blocked_next[] */
    struct qp *blocked_head[2], *blocked_tail[2];
};

void cq_settle(struct cq *cq);
/* A QP on this lane completes to it, or does no more. */
void cq_attach(struct cq *cq, struct lane *lane);
void cq_detach(struct cq *cq);
/* Is there anything to settle? */
static inline bool cq_has_news(const struct cq *cq)
{
    return atomic_load_explicit(&cq->news, memory_order_relaxed) != 0;
}
void cq_purge(struct cq *cq, struct qp *qp);
uint32_t softrdma_poll(struct ri_cq *base, uint32_t count, struct ri_wc *wc);
enum ri_status softrdma_arm(struct ri_cq *base, enum ri_arm kind, uint32_t count);
enum ri_status softrdma_cq_peek(struct ri_cq *base, uint32_t *total, uint32_t *notify);
enum ri_status softrdma_cq_create(struct ri_rnic *base, struct ri_cq_attr *attr,
                                  struct ri_cq **out);
enum ri_status softrdma_cq_destroy(struct ri_cq *base);

/* --- streams: a connection as seen from below the QP --- */

struct stream;

/* The lower layer. Results: octets moved, 0 end of stream (receive), or -errno (EAGAIN: not now). */
struct llp_ops {
    ssize_t (*send)(struct stream *stream, const struct iovec *iov, int count);
    ssize_t (*receive)(struct stream *stream, void *buffer, size_t length);
    uint32_t (*emss)(struct stream *stream);
    void (*finish)(struct stream *stream);            /* no more output: FIN */
    void (*close)(struct stream *stream, bool reset); /* reset: RST */
};
extern const struct llp_ops llp_tcp;
/* Put capture between the stream and its lower layer, if it is on. */
void llp_capture_insert(struct stream *stream, uint64_t token);
void llp_tcp_prepare(int fd, const struct softrdma_options *options);

enum stream_state {
    STREAM_OPEN,    /* carries FPDUs of a QP */
    STREAM_CLOSING, /* the tail goes out, then FIN; input is drained to the peer's FIN */
    STREAM_CLOSED
};

enum attention {
    ATTEND_FRESH = 1u,  /* the rest came with the hand-over: parse it without waiting for more */
    ATTEND_FILL = 2u,   /* an FPDU comes in small parts: read on into the rest */
    ATTEND_SILENT = 4u, /* nothing has been received yet, and rtr_repeat wants to know */
    ATTEND_EVICT = 8u,  /* the connection has to go: rest_limit */
};

struct stream {
    const struct llp_ops *llp;
    int fd;
    struct lane *lane;
    struct ri_watch *watch;
    struct ri_timer timer;
    struct spinlock rx;      /* receive side and state */
    enum stream_state state; /* under rx */
    _Atomic(struct qp *) qp; /* NULL: gone; written under rx */
    bool held;               /* the QP still names it: not to be freed; under rx */
    atomic_bool input_ended; /* FIN received; written under rx */
    bool output_ended;       /* FIN sent; under rx */
    bool announce;           /* report the end of the close to the QP; under rx */
    bool
        starting; /* CLOSING began before the ready-to-receive message or its answer was here; under rx */
    bool spoken_to;          /* octets came while CLOSING that are neither; under rx */
    atomic_bool want_output; /* EPOLLOUT asked for */
    uint8_t *rest;           /* octets of an FPDU that has not arrived whole; under rx */
    uint32_t rest_length, rest_room;
    uint32_t rest_whole;      /* octets of that FPDU in the stream, 0 not known yet */
    atomic_ullong rest_since; /* when it began to be incomplete; 0: it is not; written under rx */
    struct ri_timer stall;    /* stall_timeout */
    bool stall_set;           /* under rx */
    atomic_uint attention;    /* enum attention; what receive has to look at first */
    uint32_t gulp;            /* octets to read at once, at most; under rx */
    uint32_t stride;          /* of the FPDUs that come, if they are large; else 0; under rx */
    uint32_t take;            /* octets to read where there is no rest; under rx */
    uint8_t *tail;            /* output of a closing stream */
    size_t tail_length, tail_sent;
    /* lists; under lane->lock */
    struct stream *prev, *next;             /* all */
    struct stream *ready_prev, *ready_next; /* to be served in the next pass */
    struct stream *grave_next;
    bool on_ready;
    bool hot;
    uint64_t number;                /* from 1; the list of all is in this order */
    uint64_t capture;               /* token */
    const struct llp_ops *captured; /* the lower layer under llp_capture */
};

/* --- lanes --- */

struct lane {
    struct ri_lane base;
    struct rnic *rnic;
    struct spinlock lock;
    struct stream *streams, *ready;
    uint32_t stream_count, closing_count;
    struct stream *hot[HOT_MAX];
    uint32_t hot_count, hot_clock;
    struct stream *latest; /* that was ready */
    uint64_t numbers;      /* given to streams */
    atomic_uint version;   /* of hot[] and ready: changed means copy again */
    struct stream *graves;
    struct qp *qp_graves;
    /* tx_gather.c */
    struct qp *gathered;        /* QPs that gather */
    atomic_uint gathered_count; /* of them; written under the lock */
    atomic_bool armed;          /* somebody may sleep; set under the lock */
    atomic_uint looks;          /* changes when a consumer looks */
    /* of the thread inside a pass */
    struct stream *served[HOT_MAX];
    uint32_t served_count, served_version, served_first, served_streams;
    atomic_ulong runner; /* pthread_t, 0 outside a pass */
    atomic_uint passes;  /* odd inside a pass */
    atomic_uint quiets;  /* odd while the pass places nothing: it waits for other lanes (lanes.c) */
    uint8_t *ring;
    _Atomic(struct tx_memory *) spares[TX_SPARES];
    struct qp *keepers[TX_KEEPERS]; /* see tx_memory.c; under the lock */
    uint32_t keeper_clock;
};

static inline uint32_t lane_looks(const struct lane *lane)
{
    return atomic_load_explicit(&lane->looks, memory_order_relaxed);
}
enum ri_status lane_create(struct rnic *rnic, struct lane **lane);
void lane_destroy(struct lane *lane);
enum ri_status softrdma_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                                  struct ri_lane **out);
uint32_t softrdma_progress(struct ri_lane *base, struct ri_cq *first, uint32_t budget,
                           uint64_t *next_deadline);
bool softrdma_lane_arm(struct ri_lane *base);
/* Have the stream served in the next pass. Any thread. */
void lane_mark_ready(struct stream *stream);
void lane_mark_ready_locked(struct stream *stream); /* under lane->lock */
/* The same, and who sleeps for the lane is woken. */
void lane_call(struct stream *stream);
/* After it returned no pass that began before is still going on (unless the caller is inside it). */
void lane_wait_pass(struct lane *lane);
/* Call `visit` for each connected QP of the PD on this lane; it stays alive meanwhile. No lock held. */
void lane_visit_qps(struct lane *lane, const struct pd *pd, void (*visit)(struct qp *qp, void *arg),
                    void *arg);
/* Is the calling thread the pass? */
static inline bool lane_inside(const struct lane *lane)
{
    return atomic_load_explicit(&lane->runner, memory_order_relaxed) ==
           (unsigned long)pthread_self();
}

/* lanes.c: all of an RNIC's. */
enum ri_status lanes_create(struct rnic *rnic);
void lanes_destroy(struct rnic *rnic);
/* After what was revoked: wait until no pass of any lane places into it any more, then call `visit` for each connected QP of the PD
 * (NULL: for none). The caller is in no pass, or in one and places nothing; with one rx at most, of a QP of that pass. */
void lanes_leave_memory(struct rnic *rnic, const struct pd *pd,
                        void (*visit)(struct qp *qp, void *arg), void *arg);
void lanes_count(struct rnic *rnic, uint32_t *streams, uint32_t *closing);
/* A consumer looks at a CQ that several lanes feed, or none yet. */
void lanes_note_look(struct rnic *rnic);

enum ri_status stream_open(struct lane *lane, struct qp *qp, const struct ri_llp_handover *handover,
                           const struct llp_ops *llp, struct stream **out);
void stream_ready(void *arg, uint32_t events);
/* From OPEN: what `tail` holds still goes out (ownership passes), then FIN. Under rx. */
void stream_begin_close(struct stream *stream, uint8_t *tail, size_t length, bool announce);
/* Go on closing as far as possible now. Under rx; *ended: the QP has to be told. */
void stream_continue_close(struct stream *stream, bool *ended);
/* At once. Under rx. */
void stream_abort(struct stream *stream, bool reset);
/* The QP lets go: a closing stream goes on alone. Takes rx. */
void stream_release(struct stream *stream);
void stream_want_output(struct stream *stream, bool want);

/* --- queue pairs --- */

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
    uint8_t *bounce;                 /* Read Response payload; NULL: not needed yet */
    uint32_t bounce_used;
    uint8_t *own; /* octets of this batch that are in none of the above; freed with it */
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
        flags; /* changed inside tx, under rx and state_lock: each is enough to read */
    uint32_t soft_watermark,
        hard_watermark; /* receives of the SRQ in use; UINT32_MAX none; as above */
    uint32_t max_read_sge, max_write_sge;
    atomic_uint windows; /* VALID narrow windows */

    struct spinlock state_lock;
    atomic_int state;      /* enum ri_qp_state */
    struct stream *stream; /* the QP's from hand-over to reset or destroy, also when it is CLOSED */
    bool terminate_wanted; /* the Terminate below has to be sent; under state_lock */
    bool lost;             /* nothing can be sent any more; under state_lock */
    bool told;             /* the end was told or will be; under state_lock */
    bool telling;          /* a thread is at it; under state_lock */
    uint16_t terminate_sent, terminate_received;
    uint8_t terminate[56];
    uint32_t terminate_length;
    atomic_bool news; /* one of the next two; written under state_lock */
    bool event_pending, established_pending, soft_pending; /* under state_lock */
    struct ri_event event;
    atomic_bool tx_wanted; /* somebody found work for tx */
    atomic_uint upcalls;
    bool destroyed;             /* under state_lock */
    struct qp *blocked_next[2]; /* in the CQs' lists: [0] send, [1] receive */
    bool blocked[2];
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
    bool source_gone;    /* memory of the message under way was deregistered */
    uint32_t cursor_sge; /* of the payload of that request */
    uint32_t cursor_offset;
    uint32_t lead;       /* octets of the first segment, which is written by itself; 0: none is */
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
};

enum ri_status softrdma_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out);
enum ri_status softrdma_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify);
enum ri_status softrdma_qp_query(struct ri_qp *base, struct ri_qp_info *info);
enum ri_status softrdma_qp_destroy(struct ri_qp *base);
enum ri_status softrdma_qp_counters(struct ri_qp *base, const char **names, uint64_t *values,
                                    size_t *count);
enum ri_status softrdma_post_send(struct ri_qp *base, struct ri_send_wr *wr,
                                  struct ri_send_wr **bad);
enum ri_status softrdma_post_recv(struct ri_qp *base, struct ri_recv_wr *wr,
                                  struct ri_recv_wr **bad);

/* Up to 64 octets without a call, as most are. */
static inline void copy_short(uint8_t *to, const uint8_t *from, uint32_t octets)
{
    if (octets - 32 > 32) {
        memcpy(to, from, octets);
        return;
    }
    memcpy(to, from, 32);
    memcpy(to + octets - 32, from + octets - 32, 32);
}

/* Counters have one writer each, tx or rx: a plain addition that others may read. By hand: compilers take three instructions. */
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

/* The same where it is enough that the number changes: of two at once one may be lost. */
static inline void count_up_32(atomic_uint *counter)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __asm__("addl $1, %0" : "+m"(*counter));
#else
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
#endif
}

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
/* The same after plain Sends. False: there is something to settle. */
bool qp_retire_received(struct qp *qp);
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
void qp_note_soft_watermark(struct qp *qp);
void qp_note_srq(struct qp *qp); /* its SRQ has something to tell */
/* Alone inside tx, and rx is held too, if there is a stream. Never waits for rx inside tx: a pass that holds rx may want tx. */
void qp_hold(struct qp *qp);
void qp_unhold(struct qp *qp);
/* 0: none. Under rx, or nobody else knows the QP. */
static inline void qp_set_watermarks(struct qp *qp, uint32_t soft, uint32_t hard)
{
    qp->soft_watermark = soft ? soft : UINT32_MAX;
    qp->hard_watermark = hard ? hard : UINT32_MAX;
}
void qp_closed(struct qp *qp, const char *detail); /* an orderly close is over */
/* Its first message, or the answer to its own, is still to come. */
bool qp_is_starting(struct qp *qp);
void qp_closed_badly(struct qp *qp); /* the peer sent on meanwhile */
/* Tell what has been noted; run tx if it is wanted. No lock held. */
void qp_settle_now(struct qp *qp);
static inline void qp_settle(struct qp *qp)
{
    if (__builtin_expect(atomic_load_explicit(&qp->tx_wanted, memory_order_relaxed) ||
                             cq_has_news(qp->send_cq) || cq_has_news(qp->recv_cq) ||
                             atomic_load_explicit(&qp->news, memory_order_acquire),
                         0))
        qp_settle_now(qp);
}
/* The telling alone. No lock held. */
void qp_tell(struct qp *qp);
void qp_flush(struct qp *qp, struct wq *wq); /* sends: under tx and rx; receives: under rx */
void qp_free(struct qp *qp);
/* Rings for so many requests of the peer and of this side that wait for answers; what they hold stays. Held (qp_hold), or
 * nobody else is at them. */
enum ri_status qp_open_reads(struct qp *qp, uint32_t ird, uint32_t ord);
/* The stream goes on without the QP. Inside tx. */
void qp_let_go(struct qp *qp);
/* Hand-over of a stream over `llp`; softrdma_qp_modify gives llp_tcp, tests and benchmarks others. */
enum ri_status qp_start(struct qp *qp, const struct ri_llp_handover *handover,
                        const struct llp_ops *llp);

/* tx_memory.c. Inside tx. Memory for a batch, and for the payload of Read Responses in it; false: none, the connection ends. */
bool tx_borrow(struct qp *qp);
bool tx_borrow_bounce(struct qp *qp);
void tx_give_back(struct qp *qp);      /* the batch is empty */
void tx_keep_no_memory(struct qp *qp); /* from here on; any thread */
void tx_close(struct qp *qp);          /* nobody knows the QP any more */
void tx_free_spares(struct lane *lane);
static inline bool tx_holds_idle_memory(const struct qp *qp)
{
    return __builtin_expect(!atomic_load_explicit(&qp->keeps_memory, memory_order_relaxed), 0) &&
           qp->batch.memory && !qp->batch.octets;
}

/* tx.c, tx_control.c */
enum ri_status tx_start(struct qp *qp,
                        const struct ri_llp_handover *handover); /* inside, before the QP is RTS */
void tx_kick(struct qp *qp);
/* tx_kick() for who is inside already: works, and leaves. */
void tx_go_on(struct qp *qp);
/* What the lower layer said to the batch. True: all of it is in the socket. Inside. */
bool tx_take_up(struct qp *qp, ssize_t sent);
/* Be inside alone, waiting for whoever is there (a few batches at most); not from inside. */
void tx_enter(struct qp *qp);
void tx_leave(struct qp *qp);
/* tx_gather.c. May what was just posted wait? By the last request of the post, its list's length and the octets that it adds; under
 * sq.posting. */
enum gather { GATHER_NOT, GATHERED, GATHER_WAKE /* leave posting, then host->wake */ };
struct gather_post {
    uint32_t requests, small, entries;
    uint64_t large;
    bool asked; /* of the last */
};
enum gather tx_gather_slowly(struct qp *qp, const struct gather_post *post);
/* May posts of this QP wait now, or wait already? By the looks of its lane. */
static inline bool tx_may_gather(const struct qp *qp, uint32_t looks)
{
    return qp->gathering | qp->gather_asked | qp->streams | (qp->sent_at == looks);
}
/* Does what is posted now, a small request that carries no RI_WR_COALESCE, gather behind others? Both under sq.posting. */
static inline bool tx_gathers_singly(const struct qp *qp)
{
    return qp->gathering && !qp->gather_asked;
}
/* It does; all that tx_gather_slowly() has to do for it. */
static inline enum gather tx_gather_small(struct qp *qp, uint32_t octets)
{
    qp->gather_small += octets;
    qp->gather_streak += octets;
    if (qp->gather_small < TX_GATHER_SMALL)
        return GATHERED;
    qp->gather_small = qp->gather_entries = 0;
    qp->gather_large = 0;
    return GATHER_NOT;
}
static inline enum gather tx_gather(struct qp *qp, const struct gather_post *post)
{
    uint32_t looks = lane_looks(qp->lane);

    if (post->asked || tx_may_gather(qp, looks))
        return tx_gather_slowly(qp, post);
    qp->sent_at = looks; /* alone: at once */
    return GATHER_NOT;
}
/* What gathers leaves. No lock held. first: the CQ that is looked at; what others look for is left to them then; NULL: everything. */
void tx_send_all_gathered(struct lane *lane, const struct cq *first);
/* What this QP gathers leaves; the consumer does not post meanwhile. No lock held. */
void tx_send_gathered(struct qp *qp);
/* The lane's next pass runs tx of this QP. Not with its lock held. */
void tx_leave_to_lane(struct qp *qp);
/* The lane names it no more; what a pass has taken counts in upcalls. It gathers no more. */
void tx_forget_gathered(struct qp *qp);
/* A consumer looks for completions. True: something gathers, which leaves now, with no lock held. */
static inline bool tx_has_gathered(struct lane *lane)
{
    count_up_32(&lane->looks);
    return atomic_load_explicit(&lane->gathered_count, memory_order_relaxed);
}
static inline void tx_note_look(struct lane *lane, const struct cq *first)
{
    if (tx_has_gathered(lane))
        tx_send_all_gathered(lane, first);
}
static inline void tx_note_look_at(struct cq *cq)
{
    struct lane *lane = atomic_load_explicit(&cq->lane, memory_order_relaxed);

    if (__builtin_expect(lane != NULL, 1))
        tx_note_look(lane, cq);
    else
        lanes_note_look(cq->rnic);
}
/* Something was taken; under the lock. */
static inline void tx_note_taken(struct cq *cq)
{
    unsigned char consumer = atomic_load_explicit(&cq->consumer, memory_order_relaxed);

    if (consumer == CONSUMER_POLLS)
        return;
    atomic_store_explicit(&cq->dry, 0, memory_order_relaxed);
    if (consumer != CONSUMER_ARMED && ++cq->hits == TX_HITS)
        atomic_store_explicit(&cq->consumer, CONSUMER_POLLS, memory_order_relaxed);
}
/* A pass for this CQ: two in a row, without its being armed or a completion taken, are those of a consumer that polls. */
static inline void tx_note_pass(struct cq *cq, const struct lane *lane)
{
    unsigned char consumer = atomic_load_explicit(&cq->consumer, memory_order_relaxed);

    if (consumer == CONSUMER_POLLS || consumer == CONSUMER_ARMED)
        return;
    if (atomic_load_explicit(&cq->home, memory_order_relaxed) != lane)
        return; /* one look is a pass of each of several lanes */
    if (atomic_load_explicit(&cq->dry, memory_order_relaxed)) /* unless it is being armed now */
        atomic_compare_exchange_strong_explicit(&cq->consumer, &consumer, CONSUMER_POLLS,
                                                memory_order_relaxed, memory_order_relaxed);
    else
        atomic_store_explicit(&cq->dry, 1, memory_order_relaxed);
}
/*
 * Where several threads poll CQs of one lane each does the work of its own connections: they share fewer lines, and what one has
 * gathered is not sent in parts by the other's looks. A QP is left to its consumer while that one has looked within the last passes
 * and waits for nothing. Inside a pass for `first`, or a look at it.
 */
#define LOOKED_LATELY 8u /* lane->passes: four passes */
static inline bool qp_is_left_to_consumer(const struct qp *qp, const struct cq *first)
{
    const struct cq *send = qp->send_cq, *recv = qp->recv_cq;
    uint32_t passes = atomic_load_explicit(&qp->lane->passes, memory_order_relaxed);
    uint32_t since_send = passes - atomic_load_explicit(&send->seen, memory_order_relaxed);
    uint32_t since_recv = passes - atomic_load_explicit(&recv->seen, memory_order_relaxed);

    return first && first != send && first != recv &&
           atomic_load_explicit(&send->consumer, memory_order_relaxed) <= CONSUMER_POLLS &&
           atomic_load_explicit(&recv->consumer, memory_order_relaxed) <= CONSUMER_POLLS &&
           (since_send < LOOKED_LATELY || since_recv < LOOKED_LATELY);
}
/* tx_short.c: the whole message in one step. Inside tx; the entry condition is tx_is_short(). False: it failed locally. */
static inline bool tx_is_short(const struct qp *qp, const struct wqe *wqe)
{
    return (wqe->flags & WQE_SHORT) && wqe->length < qp->short_below;
}
bool tx_short(struct qp *qp, struct wqe *wqe);
/* post_send of what post_is_short() and post_is_lone_read() say, tx_alone.c, and of any list, post.c. */
enum ri_status tx_post_alone(struct qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad);
enum ri_status tx_post_read(struct qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad);
enum ri_status post_list(struct qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad);
/* The QP has left RTS: the stream goes on alone, both queues are flushed. Once per connection. Inside. */
void tx_stop(struct qp *qp);
/* The memory is about to go: nothing of it is read after the return. Not from inside. */
struct memory_range {
    const uint8_t *memory;
    uint64_t length;
};
void tx_detach(struct qp *qp, void *range);
/* Copy of the output that was built but not taken by the socket, with a Terminate behind it when one is wanted. Under tx.
 * NULL with *length 0: nothing (or no memory). */
uint8_t *tx_take_tail(struct qp *qp, size_t *length);
/* The FPDU of a Terminate of this QP in memory of its own. */
uint8_t *tx_terminate_fpdu(struct qp *qp, size_t *length);
/* tx_response.c. The Terminate value (0x01CC) for a request of the peer that the STag does not allow. */
uint16_t tx_protection_value(enum stag_result result);
/* tx_detach inside a pass, which has to do what is left over. Nobody is waited for who is inside and wants rx, which this pass or
 * that of another lane may hold: that is who ends the connection, and has copied all output (qp.stopped). */
void tx_detach_in_pass(struct qp *qp, const struct memory_range *range);

/* tx_local.c: bind and local invalidate, in their turn. True: done, the queue goes on. Inside tx. */
static inline bool wqe_is_local(const struct wqe *wqe)
{
    return wqe->opcode >= RI_WR_BIND_WINDOW;
}
bool tx_local(struct qp *qp, struct wqe *wqe, uint32_t index);
/* tx.c, for tx_local.c */
bool tx_must_wait(struct qp *qp, const struct wqe *wqe, uint32_t index);
void tx_end_locally(struct qp *qp, struct wqe *wqe, enum ri_wc_status status);
void tx_finish_accepted(struct qp *qp);

/* What the peer names: a region or wide window of the QP's PD, or a narrow window bound to the QP. As stag_check_hinted (rx) and
 * stag_enter, inside tx. */
static inline enum stag_result qp_check_remote(struct qp *qp, struct stag_hint *hint, uint32_t stag,
                                               uint32_t access, uint64_t to, uint64_t length,
                                               uint8_t **memory)
{
    enum stag_result result = stag_check_hinted(&qp->rnic->stags, hint, stag, qp->pd, access, to,
                                                length, memory);

    if (__builtin_expect(result == STAG_PD, 0))
        result = stag_judge(hint->entry, stag, qp, access, to, length, memory);
    return result;
}
enum stag_result qp_enter_remote(struct qp *qp, uint32_t stag, uint32_t access, uint64_t to,
                                 uint64_t length, uint8_t **memory, struct stag_entry **entry);

/* invalidate.c */
enum invalidate_result {
    INVALIDATE_DONE,    /* it is INVALID */
    INVALIDATE_REVOKED, /* nobody finds it any more; invalidate_quiet() comes next */
    INVALIDATE_STAG,    /* refused: no such STag (C-119) */
    INVALIDATE_SCOPE,   /* of another PD, or bound to another QP (C-120) */
    INVALIDATE_ACCESS,  /* remote: no remote right, or the QP does not allow it (C-121) */
    INVALIDATE_KIND     /* windows are bound to it; remote: STag 0, wide window (C-122) */
};
enum invalidate_result invalidate_begin(struct qp *qp, uint32_t stag, bool remote);
/* Nobody uses a REVOKED entry any more: it is INVALID. Inside a pass of the lane, rx of the QP held, and of no other. */
void invalidate_quiet(struct qp *qp, struct stag_entry *entry);
/* Both at once, there; false: refused. */
bool invalidate_now(struct qp *qp, uint32_t stag, bool remote, enum invalidate_result *result);

/* mw.c */
struct mw;
enum bind_result { BIND_DONE, BIND_REVOKED, BIND_REFUSED };
enum bind_result mw_bind(struct qp *qp, const struct wqe *wqe, struct stag_entry **entry);
/* The QP goes away: windows bound to it are INVALID from now on. No pass of the lane that knew the QP goes on. */
void mw_unbind_qp(struct qp *qp);
/* The request as posted; the objects are looked at now only. */
enum ri_status mw_describe_bind(const struct ri_send_wr *wr, struct wqe *wqe);
enum ri_status softrdma_mw_allocate(struct ri_pd *base, bool narrow, void *context, uint32_t *stag,
                                    struct ri_mw **out);
enum ri_status softrdma_mw_free(struct ri_mw *base);
/* mr.c */
uint32_t mr_stag(const struct ri_mr *base);
/* After it nobody touches the memory behind the entry, and the entry is free. Not with a lock held. */
void mr_drop_entry(struct rnic *rnic, struct stag_entry *entry);

/* Our zero-length Write once more, where the peer has not been heard. Not from inside. */
void tx_repeat_rtr(struct qp *qp);
/* rx.c. Returns the pieces of work done, a bounded number of them. */
uint32_t rx_run(struct stream *stream);
/* rx_straight.c. What it depends on has changed. Under rx, or nobody else knows the stream. */
void rx_choose_way(struct qp *qp);

/* rest.c; under rx. False: no memory. `whole`: octets of the FPDU, 0 not known; `another`: than at the last call. */
bool rest_keep(struct stream *stream, const uint8_t *octets, size_t length, uint32_t whole,
               bool another);
/* Read on into the rest, up to the end of its FPDU, as llp_ops.receive. */
ssize_t rest_fill(struct stream *stream);
void rest_drop(struct stream *stream);
void rest_end(struct qp *qp, bool evicted);
void rest_stalled(struct ri_timer *timer); /* of stream->stall; without rx */

/* provider.c */
void softrdma_log(const struct rnic *rnic, enum ri_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
