/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of RoCEv2, reliable ones and, by attr.unreliable, unreliable ones: the engine, over a
 * carrier that takes packets and tells the time. It knows no socket. R- and P-: requirements of the
 * RoCE suite.
 *
 * WHO WORKS WHERE. The requester works inside tx of its QP: posts, answers of the peer, its timer.
 * The responder works under rx, in a pass of the lane alone. Nobody waits for tx with rx held.
 * Payload is named by reference and is read before carrier.send() returns: so a thread inside tx,
 * or a pass, is all that a release of memory waits for. What either side has to send for the other
 * goes by one word, rc_qp.owed.
 *
 * A request completes when it is acknowledged. Until then its slot stays as it was posted, but for
 * byte_len, which has its first PSN. Over an unreliable connection it completes when the carrier
 * has taken its last packet; nothing is outstanding there, and nothing is answered (unreliable.c).
 */
#ifndef ITAL_SOFTROCE_RC_H
#define ITAL_SOFTROCE_RC_H

#include "providers/software/core/core.h"
#include "providers/software/roce/codec/bth.h"

#include "window.h"

#include <sys/uio.h>

struct rc_qp;

/* Reads and atomics under way in one direction, at most. */
#define RC_DEPTH 16u
/* Packets of one call of the carrier, and the pieces of their payload: one packet may have
 * MAX_SGE of them. */
#define RC_BATCH      32u
#define RC_BATCH_IOVS (MAX_SGE + RC_BATCH)

struct rc_attr {
    uint32_t dest_qpn;
    uint32_t sq_psn, rq_psn;
    uint32_t mtu;             /* octets: 256 to 4096 (P-024) */
    uint8_t timeout;          /* 4.096 us * 2^timeout; 0: none */
    uint8_t retry_cnt;        /* 0 to 7 */
    uint8_t rnr_retry;        /* 0 to 6; 7: for ever */
    uint8_t rnr_timer;        /* code of the RNR NAKs that the responder sends */
    uint32_t ird, ord;        /* 0 to RC_DEPTH */
    bool unreliable;          /* UC: of the members above the first three count */
    struct rc_window *window; /* shared by the QPs of one peer; NULL: one of its own */
    const struct wire *wire;  /* whose table calls this engine */
    const struct rc_carrier *carrier;
    void *path; /* the carrier's: rc_qp.path */
};

/* One packet: headers, then its payload, `pad` zeros, and the ICRC, which the carrier adds. */
struct rc_out {
    uint8_t header[BTH_HEADERS_MAX];
    uint8_t header_len;
    uint8_t pad;
    uint16_t iov, iovs; /* of rc_batch.iov */
    uint32_t payload_len;
};

struct rc_batch {
    uint32_t count, iovs;
    struct rc_out packets[RC_BATCH];
    struct iovec iov[RC_BATCH_IOVS];
};

enum rc_side { RC_REQUESTER, RC_RESPONDER, RC_SIDES };

/* All functions: any thread, several at once. */
struct rc_carrier {
    /* Sends the packets to the QP's peer, in order. Payload is not read after the return. Fewer
     * than all are taken: rc_resume() follows when there is room again. */
    uint32_t (*send)(struct rc_qp *qp, const struct rc_batch *batch);
    /* Nanoseconds. */
    uint64_t (*now)(const struct rc_qp *qp);
    /* rc_expired() is to be called then, once; it replaces an earlier time of this side. */
    void (*timer_set)(struct rc_qp *qp, enum rc_side side, uint64_t at);
    /* A whole time-out has passed without an answer. Returns why there will be none, a constant;
     * NULL: nobody knows. Inside tx. */
    const char *(*silent)(struct rc_qp *qp);
    /* From the return on nothing calls rc_*() for the QP, but a pass that runs already. */
    void (*hide)(struct rc_qp *qp);
    /* There may be something to send, and the QP is held. Inside tx. NULL: none ever is. */
    void (*held)(struct rc_qp *qp);
};

/* --- requester --- */

/* PSNs: una <= psn <= max. [una, max) is outstanding; psn < max: sent again. */
struct rc_requester {
    uint32_t una, psn, max;
    /* Requests: that with una, that with psn, the first that was never begun. */
    uint32_t head, index, fresh;
    uint32_t unasked; /* packets since the last with AckReq */
    /* Ends of Reads and atomics that are asked for; R-006. */
    uint32_t asked[RC_DEPTH];
    uint32_t asked_in, asked_out;
    struct rc_window *window, own_window;
    bool blocked; /* the carrier has no room */
    /* No request begins (InfiniBand's SQD); all that were begun are done. */
    bool suspended, drained;
    atomic_bool failed; /* UC: InfiniBand's SQE, requests are flushed. Any thread reads it */
    uint8_t retries, rnr_retries;
    /* A NAK of this PSN is taken for the same loss until then. */
    uint32_t lost_psn;
    uint64_t lost_until;
    uint64_t rnr_until;  /* 0: does not wait for a receiver */
    uint64_t timeout_at; /* 0: nothing is outstanding, or there is no time-out */
    uint64_t probe_at;   /* 0: nothing is outstanding */
    uint64_t armed;      /* what the carrier's timer is set to; 0: nothing */
    uint8_t probe_shift;
    bool probed; /* of una */
    /* Something was acknowledged: the peer was there. Any thread reads it. */
    atomic_bool answered;
    /* One packet is timed. */
    bool timed;
    uint32_t timed_psn;
    uint64_t timed_at, srtt; /* srtt 0: not known yet */
    struct stag_hint hint;
    struct own_requests own;
};

/* --- responder --- */

/* A Read or an atomic that was executed, for its duplicates. */
struct rc_saved {
    uint32_t psn, packets; /* packets 0: none */
    uint32_t rkey, length, msn;
    bool atomic;
    uint64_t va;
    uint64_t original; /* of an atomic */
};

/* A Read whose responses are being sent. */
struct rc_reading {
    bool active, replay, begun;
    uint32_t psn, left, rkey, msn;
    uint64_t va;
};

enum rc_message { RC_NO_MESSAGE, RC_IN_SEND, RC_IN_WRITE };
/* What the responder has to say. A NAK that ends the QP goes out at once. */
enum rc_owes { RC_OWES_NOTHING, RC_OWES_ACK, RC_OWES_NAK, RC_OWES_RNR };

struct rc_responder {
    uint32_t epsn, msn;
    bool nak_sent;   /* */
    bool dropped;    /* requests behind a Read that is being answered */
    uint8_t message; /* enum rc_message */
    uint8_t owes;    /* enum rc_owes */
    /* Octets that have come of it; of a Write what is to come, where, in all. */
    uint32_t offset, left, rkey, length;
    uint64_t va;
    struct rc_saved saved[RC_DEPTH];
    uint32_t saved_next;
    struct rc_reading reading;
    uint64_t replay_octets, replay_at; /* a budget, filled up to this time */
    struct stag_hint hint, receive_hint;
};

/* Raised where only one side writes, by count_up. */
struct rc_counters {
    atomic_ullong packets_sent, retransmitted, probes, timeouts, naks_received, rnr_received;
    atomic_ullong packets_received, naks_sent, rnr_sent, duplicates, out_of_order, replayed_octets;
    atomic_ullong ghosts, cnps, cnps_sent;
    atomic_ullong dropped; /* messages of UC */
};

struct rc_qp {
    struct qp core;
    struct rc_attr attr;
    struct spinlock rx; /* the responder */
    /* Nothing is sent: the device sets and clears it. Inside tx. */
    bool held;
    struct rc_requester req;
    struct rc_responder rsp;
    /* An acknowledgement to be sent: bit 63, syndrome << 48, PSN << 24, MSN. 0: none. */
    atomic_ullong owed;
    /* 1 << enum rc_side: its timer has expired, or the carrier has room. */
    atomic_uint expired, resumed;
    _Atomic(const char *) broken; /* rc_break(); NULL: it is not */
    struct rc_counters counters;
};

static inline struct rc_qp *rc_qp(struct qp *qp)
{
    return container_of(qp, struct rc_qp, core);
}

/* The time-out of the attributes. 0: none. */
static inline uint64_t rc_timeout_ns(const struct rc_qp *qp)
{
    return qp->attr.timeout ? UINT64_C(4096) << qp->attr.timeout : 0;
}

/* --- for the wire: a connection --- */

/* Connects: inside tx, the QP is IDLE. Nothing fails but attributes out of range. */
enum ri_status rc_start(struct rc_qp *qp, const struct rc_attr *attr);
/* A QP that was started without its requester's attributes (InfiniBand's RTR) gets them: sq_psn,
 * timeout, retry_cnt, rnr_retry, ord; others are not looked at. Nothing was posted. Inside tx. */
enum ri_status rc_start_requester(struct rc_qp *qp, const struct rc_attr *attr);
/* From now on no request begins; when those that were are done, RI_EVENT_SEND_QUEUE_DRAINED is
 * recorded, once. Off: requests begin again. The caller has tx run. Inside tx. */
void rc_suspend(struct rc_qp *qp, bool on);
/* An unreliable connection in which a request has failed sends again. Inside tx. */
void rc_recover(struct rc_qp *qp);
/* Members of struct wire. */
void rc_send(struct qp *qp);
void rc_stop(struct qp *qp);
void rc_rest(struct qp *qp);
void rc_leave(struct qp *qp, enum leave what, const struct memory_range *range, bool in_pass);
bool rc_close(struct qp *qp);
bool rc_terminate(struct qp *qp, enum qp_cause cause, const struct qp_end *end);
void rc_cut(struct qp *qp);
void rc_hide(struct qp *qp);
void rc_release(struct qp *qp);
void rc_qp_free(struct qp *qp);
bool rc_try_hold(struct qp *qp);
void rc_unhold(struct qp *qp);
enum ri_status rc_set_depths(struct qp *qp, uint32_t ird, uint32_t ord);
void rc_set_acknowledged(struct qp *qp, bool on);
void rc_attributes_changed(struct qp *qp);
uint32_t rc_answered_request(const struct qp *qp);
void rc_send_waiting(struct qp *qp);
void rc_receive_posted(struct qp *qp);
bool rc_counter(const struct qp *qp, uint32_t number, const char **name, uint64_t *value);
/* wire.leave_together: what timers and the carrier have left to the lane. */
void rc_turn(struct qp *qp);
/* All but lanes, `start`, `post_send`, for which wire_post_send is enough, and what a device may
 * add to: hide, stop (rc_stop), qp_free, counter. */
#define RC_WIRE_MEMBERS                                                                       \
    .leave_together = rc_turn, .send_waiting = rc_send_waiting,                               \
    .receive_posted = rc_receive_posted, .send = rc_send, .rest = rc_rest, .leave = rc_leave, \
    .close = rc_close, .terminate = rc_terminate, .cut = rc_cut, .release = rc_release,       \
    .try_hold = rc_try_hold, .unhold = rc_unhold, .set_depths = rc_set_depths,                \
    .set_acknowledged = rc_set_acknowledged, .attributes_changed = rc_attributes_changed,     \
    .answered_request = rc_answered_request, .way = wire_has_no_way

/* --- for the carrier --- */

/* Packets to this QP, in the order of arrival: bth_parse() took them, ICRC and addresses are
 * right. In a pass of the QP's lane, no lock held. What they make the QP say it says in rc_flush()
 * or with what it sends before. */
void rc_receive(struct rc_qp *qp, const struct bth_packet *packets, uint32_t count);
void rc_flush(struct rc_qp *qp);
/* Any thread, no lock held; the lane's next pass does the work. */
void rc_expired(struct rc_qp *qp, enum rc_side side);
void rc_resume(struct rc_qp *qp);
/* What the QP sends cannot arrive any more, for this reason, a constant: it ends as if retry_cnt
 * were used up. Any thread, in send(), too; the lane's next pass does the work. */
void rc_break(struct rc_qp *qp, const char *why);

#endif
