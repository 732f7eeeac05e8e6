/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The ring of requests: records, each with a piece of a message, in shared memory. One end puts,
 * the other takes; each has its position, which only grows.
 *
 * A record is a header and its octets, in whole cache lines, never across the end of the ring. Its
 * first word, the stamp, is stored last, so a taker looks at one line to find it and has it whole.
 * The word where the next record will begin is cleared before the stamp is stored: what stands
 * there from an earlier round is never taken for a stamp.
 *
 * Pure functions of the memory that they are given. The taker believes nothing: a header is copied,
 * then judged, and its octets lie within the ring.
 */
#ifndef ITAL_SOFTWARE_LOCAL_RING_H
#define ITAL_SOFTWARE_LOCAL_RING_H

#include "base/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RING_LINE 64u

enum ring_kind {
    RING_SKIP = 1,  /* nothing: on at the beginning of the ring */
    RING_REQUEST,   /* the first piece of a message, or a request without octets */
    RING_MORE,      /* a further piece */
    RING_REFERENCE, /* a request, and where its octets are: struct ring_part */
    RING_KINDS,
};

/* What a header says. `length` to `executed`: of a request alone. */
struct ring_header {
    uint32_t stamp;
    uint8_t kind;
    uint8_t opcode;  /* enum ri_wr_opcode */
    uint16_t flags;  /* RING_ flags below */
    uint32_t piece;  /* octets behind the header */
    uint32_t length; /* octets of the whole message, or to be read */
    uint64_t operand, compare;
    uint64_t remote_addr;
    uint32_t rkey;
    union {
        uint32_t fetching; /* Reads and atomics: how many are under way, with this one */
        uint32_t executed; /* RING_TELLS: how many requests of the other end are executed */
    };
};

#define RING_SOLICITED 1u
#define RING_FUSED     2u /* immediate data takes no receive of its own */
#define RING_TELLS     4u /* `executed` is told: of requests that are neither Reads nor atomics */

/* Octets of a message in memory of the end that puts. */
struct ring_part {
    uint64_t addr;
    uint32_t length, stag;
};

/* Octets of one record at most, and of its piece. */
#define RING_RECORD (8u << 10)
#define RING_PIECE  (RING_RECORD - (uint32_t)sizeof(struct ring_header))

/* The end that puts. `free_until` is what the other one allows. `held`: the record there has no
 * stamp yet (ring_hold); RING_NOT_HELD: there is none. */
struct ring_put {
    uint8_t *ring;
    uint32_t octets;
    uint64_t at, free_until, held;
};

#define RING_NOT_HELD UINT64_MAX

/* The end that takes. */
struct ring_take {
    const uint8_t *ring;
    uint32_t octets;
    uint64_t at;
};

enum ring_found { RING_NONE, RING_RECORD_FOUND, RING_BROKEN };

/* `octets` is a power of two, of four records at least; all of it is 0. */
void ring_put_open(struct ring_put *put, uint8_t *ring, uint32_t octets);
void ring_take_open(struct ring_take *take, const uint8_t *ring, uint32_t octets);
/* What the other end says it has taken: believed as far as it can be true. */
void ring_note_taken(struct ring_put *put, uint64_t taken);
/* Octets of a record, with its header. */
static inline uint32_t ring_record(uint32_t piece)
{
    return ((uint32_t)sizeof(struct ring_header) + piece + RING_LINE - 1) / RING_LINE * RING_LINE;
}
/* The word where a record may begin; what stands there if one does: not 0, and another one in each
 * round. */
static inline atomic_uint *ring_word(const uint8_t *ring, uint32_t octets, uint64_t at)
{
    return (atomic_uint *)(uintptr_t)(ring + (at & (octets - 1)));
}
static inline uint32_t ring_stamp(uint64_t at)
{
    return (uint32_t)(at / RING_LINE) | 1u << 31;
}
/* For ring_reserve(). */
uint8_t *ring_reserve_slowly(struct ring_put *put, uint32_t piece);
/* Room for a record with `piece` octets (at most RING_PIECE), which the caller fills: there the
 * octets go. NULL: there is none now. */
static inline uint8_t *ring_reserve(struct ring_put *put, uint32_t piece)
{
    const uint32_t octets = ring_record(piece), offset = (uint32_t)(put->at & (put->octets - 1));

    /* With the line of the next stamp. */
    if (unlikely(put->octets - offset < octets) ||
        unlikely(put->free_until - put->at < (uint64_t)octets + RING_LINE))
        return ring_reserve_slowly(put, piece);
    return put->ring + offset + sizeof(struct ring_header);
}
/* The record that was reserved last, with the same piece, can be taken from now on. */
void ring_publish(struct ring_put *put, const struct ring_header *header);
/*
 * Records from now on can be taken behind ring_release(), all at once. A taker waits for the first
 * one, so it does not read the lines of the others while they are written: each line would go to
 * the taker's processor, back, and there again.
 */
static inline void ring_hold(struct ring_put *put)
{
    put->held = put->at;
}
static inline void ring_release(struct ring_put *put)
{
    const uint64_t held = put->held;

    put->held = RING_NOT_HELD;
    if (held < put->at)
        atomic_store_explicit(ring_word(put->ring, put->octets, held), ring_stamp(held),
                              memory_order_release);
}
/* The line there is written soon: the taker's processor, which has read it in an earlier round,
 * gives it up meanwhile. A hint. */
static inline void ring_claim_line(const struct ring_put *put, uint64_t at)
{
    const uint8_t *line = put->ring + (at & (put->octets - 1));

#if defined(__x86_64__)
    /* The compiler's hint asks for the line without the right to write to it. Where a processor has
     * no such instruction it does nothing. */
    __asm__ volatile("prefetchw %0" : : "m"(*line));
#else
    __builtin_prefetch(line, 1);
#endif
}
/* So far ahead lines are claimed: while some short records are put. */
#define RING_AHEAD (16 * RING_LINE)
/* Behind the header and its octets, of which so many lines are a record. */
static inline void ring_store_stamp(struct ring_put *put, uint32_t octets)
{
    const uint64_t at = put->at;

    atomic_store_explicit(ring_word(put->ring, put->octets, at + octets), 0, memory_order_relaxed);
    put->at += octets;
    if (likely(at != put->held))
        atomic_store_explicit(ring_word(put->ring, put->octets, at), ring_stamp(at),
                              memory_order_release);
    ring_claim_line(put, put->at + RING_AHEAD);
    ring_claim_line(put, put->at + RING_AHEAD + RING_LINE);
}
/* ring_publish() of a request without operands, remote address and key: what stands there from an
 * earlier round stays. */
static inline void ring_publish_bare(struct ring_put *put, const struct ring_header *header)
{
    struct ring_header *place = (struct ring_header *)(void *)(put->ring +
                                                               (put->at & (put->octets - 1)));

    place->kind = header->kind;
    place->opcode = header->opcode;
    place->flags = header->flags;
    place->piece = header->piece;
    place->length = header->length;
    place->executed = header->executed;
    ring_store_stamp(put, ring_record(header->piece));
}
/* Is there something at this place? A cheap look; ring_look judges. */
static inline bool ring_has(const struct ring_take *take)
{
    return atomic_load_explicit(ring_word(take->ring, take->octets, take->at),
                                memory_order_acquire) == ring_stamp(take->at);
}
/* For ring_look(). */
enum ring_found ring_look_slowly(struct ring_take *take, struct ring_header *header,
                                 const uint8_t **octets);
/* The record at this place: its header, and where its octets are, which may change meanwhile. */
static inline enum ring_found ring_look(struct ring_take *take, struct ring_header *header,
                                        const uint8_t **octets)
{
    const uint8_t *place = take->ring + (take->at & (take->octets - 1));

    if (!ring_has(take))
        return RING_NONE;
    __builtin_prefetch(place + RING_LINE); /* most likely it has octets there */
    memcpy(header, place, sizeof(*header));
    /* The copy is judged: the compiler does not read what the other end may change again. */
    __asm__ volatile("" : "+m"(*header));
    if (unlikely(header->kind != RING_REQUEST) || unlikely(header->piece > RING_PIECE) ||
        unlikely(ring_record(header->piece) > take->octets - (take->at & (take->octets - 1))))
        return ring_look_slowly(take, header, octets);
    *octets = place + sizeof(*header);
    return RING_RECORD_FOUND;
}
/* Where the octets of the record at this place are, for who has judged and kept its header. */
const uint8_t *ring_octets(const struct ring_take *take);
/* The parts that a RING_REFERENCE names, copied; `room` of them at most. Returns how many; 0: they
 * are not those of its message. */
uint32_t ring_parts(const struct ring_header *header, const uint8_t *octets,
                    struct ring_part *parts, uint32_t room);
/* Behind it. */
static inline void ring_pass(struct ring_take *take, const struct ring_header *header)
{
    take->at += ring_record(header->piece);
}

#endif
