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

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* The end that puts. `free_until` is what the other one allows. */
struct ring_put {
    uint8_t *ring;
    uint32_t octets;
    uint64_t at, free_until;
};

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
/* Room for a record with `piece` octets (at most RING_PIECE), which the caller fills: there the
 * octets go. NULL: there is none now. */
uint8_t *ring_reserve(struct ring_put *put, uint32_t piece);
/* The record that was reserved last, with the same piece, can be taken from now on. */
void ring_publish(struct ring_put *put, const struct ring_header *header);
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
/* Is there something at this place? A cheap look; ring_look judges. */
static inline bool ring_has(const struct ring_take *take)
{
    return atomic_load_explicit(ring_word(take->ring, take->octets, take->at),
                                memory_order_acquire) == ring_stamp(take->at);
}
/* The record at this place: its header, and where its octets are, which may change meanwhile. */
enum ring_found ring_look(struct ring_take *take, struct ring_header *header,
                          const uint8_t **octets);
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
