/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection below the QP, and its lower layer.
 */
#ifndef ITAL_SOFTRDMA_CONNECTION_H
#define ITAL_SOFTRDMA_CONNECTION_H

#include "llp.h"
#include "providers/software/iwarp/objects/iwarp.h"

#include <sys/types.h>
#include <sys/uio.h>

struct iwarp_qp;

enum stream_state {
    STREAM_OPEN,    /* carries FPDUs of a QP */
    STREAM_CLOSING, /* the tail goes out, then FIN; input is drained to the peer's FIN */
    STREAM_CLOSED
};

/* What a run has to check before it reads. */
enum attention {
    /* Octets came with the hand-over: parse them without waiting for more. */
    ATTEND_FRESH = 1u,
    /* An FPDU comes in small parts: read on into the reassembly buffer. */
    ATTEND_FILL = 2u,
    /* Nothing has been received yet: rtr_repeat needs to know. */
    ATTEND_SILENT = 4u,
    /* The connection is to be reset: reassembly_limit. */
    ATTEND_EVICT = 8u,
    /* It is to be reset if there is nothing to read: stall_timeout. */
    ATTEND_STALLED = 16u,
    /* Sends wait in the stash. */
    ATTEND_STASH = 32u,
    /* Nothing is read until some of them are delivered. */
    ATTEND_HELD = 64u,
    /* The connection broke meanwhile. */
    ATTEND_BROKEN = 128u,
    /* An FPDU waits until earlier requests of the peer are fetched: nothing is read before. */
    ATTEND_BEHIND = 256u,
    /* The peer has ended its output, and Sends before that wait in the stash. */
    ATTEND_OVER = 512u,
};
/* In these states nothing is read, so the peer's window closes. */
#define ATTEND_UNREAD (ATTEND_HELD | ATTEND_BEHIND)

/* The reassembly buffer: octets of an FPDU that has not arrived completely (rx/reassembly.c).
 * Under rx. */
struct stream_partial {
    uint8_t *octets;
    uint32_t length, room;
    /* Octets of that FPDU in the stream. 0: not known yet. */
    uint32_t whole;
    /* The buffer has its header alone; `placed` octets of its payload are in their place
     * (rx/rx_direct.c). */
    bool direct;
    /* The timer below is set. */
    bool stall_set;
    uint32_t placed;
    /* When the FPDU became incomplete. 0: there is none. Written under rx. */
    atomic_ullong since;
    /* When its last octets arrived. */
    uint64_t fed_at;
    /* Option stall_timeout. */
    struct ri_timer stall;
};

/* Segments of Sends that found no receive (rx/rx_stash.c). The memory is freed with the stream.
 * Under rx. */
struct stash_entry {
    struct stash_entry *next;
    uint32_t length;
    uint8_t ulpdu[];
};
struct stash {
    struct stream *stream;
    struct stash_entry *first, **end;
    /* Memory of the entries. */
    size_t octets;
    /* When the first message began to wait. */
    uint64_t since;
    /* When the peer's end is taken up, and when a full stash ends the connection because answers to
     * this side are behind it. CLOCK_NEVER: there is no such end. */
    uint64_t over_at, stuck_at;
    /* Ends the connection by one of them, or when the agreed retries are over. */
    struct ri_timer timer;
    bool timer_set;
    /* An entry is being delivered; it found no receive again. */
    bool delivering, again;
};

/* An FPDU behind requests of the peer that are not fetched yet (rx/rx_behind.c). What came after it
 * is in the reassembly buffer. Under rx. */
struct behind {
    /* enum mpa_result */
    int framing;
    /* Octets that the socket had taken at the last look of the timer. It takes none: do not
     * wait. */
    uint64_t accepted;
    bool impatient;
    uint32_t length;
    uint8_t ulpdu[];
};

/* How much to read at once. Under rx. */
struct stream_read {
    /* Octets at most. */
    uint32_t most;
    /* Size of the FPDUs that arrive, if they are large. 0: they are not. */
    uint32_t fpdu_size;
    /* Octets to read if no octet is left over from the last read. */
    uint32_t next;
};

/* An orderly close. Under rx. */
struct stream_closing {
    /* FIN sent. */
    bool output_ended;
    /* Report the end of the close to the QP. */
    bool announce;
    /* It began before the ready-to-receive message or its answer was here. */
    bool starting;
    /* Octets arrived meanwhile that are neither. */
    bool spoken_to;
    /* The timer is set for a look at what the peer has acknowledged, `poll_ns` after the last. */
    bool looks;
    uint64_t poll_ns;
    /* CLOCK_MONOTONIC ns: the bound of the close. */
    uint64_t until;
    /* Output that is still to be sent. */
    uint8_t *tail;
    size_t tail_length, tail_sent;
};

/* The check of what the peer acknowledges (ack_timeout.c). Under rx. */
struct stream_acks {
    struct ri_timer timer;
    /* The first check that found this wait. 0: none. */
    uint64_t waits_since;
    uint64_t looked_at;
    /* Repetitions of octets when the wait began. */
    uint32_t repeats;
};

struct stream {
    const struct llp_ops *llp;
    /* The lower layer that tx sends by: llp, or ack_timeout.c on top of it. Inside tx. */
    const struct llp_ops *sender;
    int fd;
    struct lane *lane;
    struct ri_watch *watch;
    /* Timer of the start-up, then of the close. */
    struct ri_timer timer;

    /* Receive side and state. */
    struct spinlock rx;
    /* Under rx. */
    enum stream_state state;
    /* NULL: destroyed. Written under rx. */
    _Atomic(struct iwarp_qp *) qp;
    /* Its QP, or its opener where there is none, still names it, so it is not freed. Under rx. */
    bool held;
    /* Repetitions of the ready-to-receive message. Under rx. */
    uint8_t rtr_repeats;
    /* FIN received. Written under rx. */
    atomic_bool input_ended;
    /* EPOLLOUT is asked for. Inside tx; from CLOSING on under rx. */
    atomic_bool want_output;
    /* enum attention. Any thread. */
    atomic_uint attention;
    struct stream_partial partial;
    /* NULL: no Send has had to wait. */
    struct stash *stash;
    /* NULL: none. */
    struct behind *behind;
    struct stream_read read;
    struct stream_closing closing;

    /* Lists; under lane->lock: all, those to be served in the next pass, those to be freed. */
    struct stream *prev, *next;
    struct stream *ready_prev, *ready_next;
    struct stream *free_next;
    bool on_ready;
    bool polled;
    /* It is in the list of those to be freed, or was. */
    bool freed;
    /* lane->heard when it brought something last. */
    uint32_t heard;

    /* llp_handed.c */
    struct {
        const struct ri_stream_ops *ops;
        void *stream;
    } handed;
    /* Token of the host's capture, and the lower layer under it (capture.c). */
    uint64_t capture;
    const struct llp_ops *captured;
    struct stream_acks acks;
};

static inline void rx_assert_held(const struct stream *stream)
{
    spinlock_assert_held(&stream->rx);
}

/* Handlers of a stream's timers, passed in by the folders above. In a run of the lane. */
struct stream_timers {
    /* stream.timer, stream.partial.stall, stream.acks.timer */
    void (*expired)(struct ri_timer *timer);
    void (*stalled)(struct ri_timer *timer);
    void (*acks)(struct ri_timer *timer);
};

/* The caller holds it, until stream_release. qp: NULL, it will carry no FPDU of a QP. */
enum ri_status stream_open(struct lane *lane, struct iwarp_qp *qp,
                           const struct ri_llp_handover *handover, const struct llp_ops *llp,
                           const struct stream_timers *timers, struct stream **out);
void stream_ready(void *arg, uint32_t events);
/* From OPEN: send `tail`, whose ownership passes, then FIN. Under rx. */
void stream_begin_close(struct stream *stream, uint8_t *tail, size_t length, bool announce);
/* Continue the close as far as possible now. Under rx; *ended: report the end to the QP. */
void stream_continue_close(struct stream *stream, bool *ended);
/* End it at once. Under rx. */
void stream_abort(struct stream *stream, bool reset);
/* Its holder gives it up, once: a CLOSING one continues alone, a CLOSED one is freed. Takes rx. */
void stream_release(struct stream *stream);
void stream_want_output(struct stream *stream, bool want);
/* Watch no input until the call with false for the same reason: ATTEND_HELD or ATTEND_BEHIND. Under
 * rx. */
void stream_hold_input(struct stream *stream, enum attention reason, bool hold);
/* Free what the stash keeps. Under rx, or no other thread knows the stream. */
void stash_drop(struct stream *stream);
/* Its entries take more, or less, memory. Under rx. */
void stash_charge(struct stash *stash, size_t more, size_t less);
/* Drop the octets of an incomplete FPDU. Under rx, or no other thread knows the stream. */
void partial_drop(struct stream *stream);
/* Its buffer has `room` octets now. As above. */
void partial_charge(struct stream *stream, uint32_t room);

/* --- ready.c --- */

/* Have the stream served in the next pass. Any thread. */
void lane_mark_ready(struct stream *stream);
void lane_mark_ready_locked(struct stream *stream); /* under lane->lock */
/* The same, and wake the thread that sleeps for the lane. */
void lane_call(struct stream *stream);

#endif
