/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_rc.h - a reliable connection in software, for providers (librnicpi.a): what the requests
 * of a QP become, segment by segment, and what the peer's segments do here. For a provider whose
 * device only carries octets in order; one whose device executes requests does not need it.
 *
 * It does what the verbs ask of a connection, whatever carries it: order of completions, fences;
 * ORD and IRD {depths}; elements, keys and rights on both sides; receives that are missing or too
 * short; Read Responses; the answer to an error, and the one event of the end {end-once}. The
 * provider carries segments, in order and without loss, from `put` to ri_rc_take() of the peer.
 *
 * Everything is under ri_mem_rnic.lock. Nothing here allocates or blocks.
 */
#ifndef RNICPI_RC_H
#define RNICPI_RC_H

#ifdef __cplusplus
#error "rnicpi_rc.h is C only (atomic members): from C++ include rnicpi.h, call this from C."
#endif

#include "rnicpi_mem.h"

#define RI_RC_PAYLOAD 16384u /* octets of a segment at most */
#define RI_RC_DEPTH   64u    /* the largest IRD: an attribute max_ird is no larger */

/* READY: nothing; for carriers that need a first segment. END: the sender ends the connection. */
enum ri_segment_type {
    RI_SEGMENT_READY = 1,
    RI_SEGMENT_SEND,
    RI_SEGMENT_WRITE,
    RI_SEGMENT_READ,
    RI_SEGMENT_ANSWER,
    RI_SEGMENT_END,
};

enum ri_segment_flags {
    RI_SEGMENT_LAST = 1u << 0, /* of its message */
    RI_SEGMENT_SOLICITED = 1u << 1,
};

/* The head of a segment. 32 octets without holes, in the byte order of the machine: a carrier
 * between machines translates it. */
struct ri_segment {
    uint32_t length;  /* octets that follow; 0 .. RI_RC_PAYLOAD */
    uint8_t type;     /* enum ri_segment_type */
    uint8_t flags;    /* OR of enum ri_segment_flags */
    uint16_t code;    /* END: the Terminate value 0xLECC, why */
    uint32_t key;     /* WRITE, READ: the rkey */
    uint32_t wanted;  /* READ: octets */
    uint64_t address; /* WRITE, READ: at the receiver; SEND, ANSWER: offset in the message */
    uint64_t reserved;
};

static_assert(sizeof(struct ri_segment) == 32, "a segment has no holes");

/* A Read of the peer that is not answered yet. */
struct ri_rc_answer {
    uint64_t from;
    uint32_t key, length, moved;
};

/* Embed it as the first member of the provider's QP. The library owns all but `qp` (rnicpi_mem.h)
 * and the two functions. */
struct ri_rc {
    struct ri_mem_qp qp;
    /* Room for the segment, whose head is copied: where its octets go, segment->length of them.
     * They are there when ri_rc_send() or ri_rc_fail() has returned. NULL: there is no room now. */
    uint8_t *(*put)(struct ri_rc *rc, const struct ri_segment *segment);
    /* The connection is over, by an error that the segment before tells the peer, or by the peer's.
     * The provider calls ri_mem_qp_end() with these values, and ends what carries the connection
     * when its segments have left. The state of the QP is not RTS when it returns. */
    void (*end)(struct ri_rc *rc, enum ri_event_type type, uint16_t code, bool explained);
    uint32_t reads; /* own Reads that are not answered */
    struct ri_rc_answer answers[RI_RC_DEPTH];
    uint32_t answer_first, answer_count;
};

/* Put one segment: of an answer, else of the next request. Called in RTS only; again until it
 * answers false: there is nothing that can be sent now, or the connection has ended. */
bool ri_rc_send(struct ri_rc *rc);
/* A segment of the peer, as it came: nothing in it is trusted but that `length` octets are there.
 * Called in RTS only. The octets are not read after it returned. */
void ri_rc_take(struct ri_rc *rc, const struct ri_segment *segment, const uint8_t *octets);
/* Tell the peer why, in a last segment if there is room, then `end`. In RTS only. */
void ri_rc_fail(struct ri_rc *rc, enum ri_event_type type, uint16_t code, bool explained);
/* Would ri_rc_send put something if there is room? For lane_arm. May say so in vain. While own
 * Reads are out it speaks of answers alone: what comes for those Reads wakes the lane. */
bool ri_rc_wants(const struct ri_rc *rc);
/* No Read is under way, of either side: for a new life, when the QP goes to IDLE. */
void ri_rc_reset(struct ri_rc *rc);

#endif
