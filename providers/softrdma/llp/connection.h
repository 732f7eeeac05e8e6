/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection as seen from below the QP, and the lower layer under it.
 */
#ifndef ITAL_SOFTRDMA_CONNECTION_H
#define ITAL_SOFTRDMA_CONNECTION_H

#include "llp.h"
#include "providers/softrdma/objects/lane.h"

#include <sys/types.h>
#include <sys/uio.h>

struct qp;

enum stream_state {
    STREAM_OPEN,    /* carries FPDUs of a QP */
    STREAM_CLOSING, /* the tail goes out, then FIN; input is drained to the peer's FIN */
    STREAM_CLOSED
};

enum attention {
    ATTEND_FRESH = 1u,    /* the rest came with the hand-over: parse it without waiting for more */
    ATTEND_FILL = 2u,     /* an FPDU comes in small parts: read on into the rest */
    ATTEND_SILENT = 4u,   /* nothing has been received yet, and rtr_repeat wants to know */
    ATTEND_EVICT = 8u,    /* the connection has to go: rest_limit */
    ATTEND_STALLED = 16u, /* it has to go if there is nothing to read: stall_timeout */
};

struct stream {
    const struct llp_ops *llp;
    const struct llp_ops *sender; /* tx sends by it: llp, or llp_resting for it; inside tx */
    int fd;
    uint32_t repeats; /* llp_acks.c: of octets, when the wait began */
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
    atomic_ullong rest_since; /* when it began to be incomplete; 0: it is not; written under rx */
    uint64_t rest_fed;        /* when something of it came last; under rx */
    struct ri_timer stall;    /* stall_timeout */
    bool stall_set;           /* under rx */
    uint8_t rtr_repeats;      /* of the ready-to-receive message; under rx */
    atomic_uint attention;    /* enum attention; what receive has to look at first */
    uint32_t rest_whole;      /* octets of the rest's FPDU in the stream, 0 not known yet */
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
    uint32_t heard;                 /* lane->heard when it brought something last */
    uint64_t number;                /* from 1; the list of all is in this order */
    uint64_t capture;               /* token */
    const struct llp_ops *captured; /* the lower layer under llp_capture */
    struct ri_timer acks;           /* llp_acks.c, as what follows */
    uint64_t waits_since;           /* the first look that found this wait; 0: none */
    uint64_t looked_at;
};

/* What the timers of a stream do; those above hand it down. In a run of the lane. */
struct stream_timers {
    void (*expired)(struct ri_timer *timer); /* stream.timer */
    void (*stalled)(struct ri_timer *timer); /* stream.stall */
    void (*acks)(struct ri_timer *timer);    /* stream.acks */
};

enum ri_status stream_open(struct lane *lane, struct qp *qp, const struct ri_llp_handover *handover,
                           const struct llp_ops *llp, const struct stream_timers *timers,
                           struct stream **out);
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
/* The octets of an incomplete FPDU go. Under rx, or nobody else knows the stream. */
void stream_drop_partial(struct stream *stream);
/* Its buffer has `room` octets now. As above. */
void stream_charge_partial(struct stream *stream, uint32_t room);

/* --- ready.c --- */

/* Have the stream served in the next pass. Any thread. */
void lane_mark_ready(struct stream *stream);
void lane_mark_ready_locked(struct stream *stream); /* under lane->lock */
/* The same, and who sleeps for the lane is woken. */
void lane_call(struct stream *stream);

/* --- quiescence.c --- */

/* After it returned no pass that began before is still going on (unless the caller is inside it). */
void lane_wait_pass(struct lane *lane);
/* Call `visit` for each connected QP of the PD on this lane; it stays alive meanwhile. No lock held. */
void lane_visit_qps(struct lane *lane, const struct pd *pd, void (*visit)(struct qp *qp, void *arg),
                    void *arg);
/* After what was revoked: wait until no pass of any lane places into it any more, then call `visit` for each connected QP of the PD
 * (NULL: for none). The caller is in no pass, or in one and places nothing; with one rx at most, of a QP of that pass. */
void lanes_leave_memory(struct rnic *rnic, const struct pd *pd,
                        void (*visit)(struct qp *qp, void *arg), void *arg);

#endif
