/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The ring of requests: see ring.h.
 */
#include "ring.h"

#include <assert.h>

static_assert(sizeof(struct ring_header) == 48, "a header and 16 octets are one cache line");
static_assert(offsetof(struct ring_header, stamp) == 0, "the stamp is the first word");

#define HEADER ((uint32_t)sizeof(struct ring_header))

void ring_put_open(struct ring_put *put, uint8_t *ring, uint32_t octets)
{
    *put = (struct ring_put){
        .ring = ring, .octets = octets, .free_until = octets, .held = RING_NOT_HELD
    };
}

void ring_take_open(struct ring_take *take, const uint8_t *ring, uint32_t octets)
{
    *take = (struct ring_take){ .ring = ring, .octets = octets };
}

void ring_note_taken(struct ring_put *put, uint64_t taken)
{
    if (taken <= put->at && taken + put->octets > put->free_until)
        put->free_until = taken + put->octets;
}

static void store(struct ring_put *put, const struct ring_header *header, uint32_t octets)
{
    uint8_t *place = put->ring + (put->at & (put->octets - 1));
    const size_t stamp = sizeof(header->stamp);

    memcpy(place + stamp, (const uint8_t *)header + stamp, HEADER - stamp);
    ring_store_stamp(put, octets);
}

uint8_t *ring_reserve_slowly(struct ring_put *put, uint32_t piece)
{
    const struct ring_header skip = { .kind = RING_SKIP };
    uint32_t octets = ring_record(piece),
             left = put->octets - (uint32_t)(put->at & (put->octets - 1));
    uint32_t skipped = left < octets ? left : 0;

    contract(piece <= RING_PIECE);
    /* With the line of the next stamp. */
    if (put->free_until - put->at < (uint64_t)skipped + octets + RING_LINE)
        return NULL;
    if (skipped)
        store(put, &skip, skipped);
    return put->ring + (put->at & (put->octets - 1)) + HEADER;
}

void ring_publish(struct ring_put *put, const struct ring_header *header)
{
    store(put, header, ring_record(header->piece));
}

enum ring_found ring_look_slowly(struct ring_take *take, struct ring_header *header,
                                 const uint8_t **octets)
{
    for (int rounds = 0; rounds < 2; rounds++) {
        uint32_t offset = (uint32_t)(take->at & (take->octets - 1));

        if (!ring_has(take))
            return RING_NONE;
        memcpy(header, take->ring + offset, sizeof(*header));
        __asm__ volatile("" : "+m"(*header)); /* as in ring_look() */
        if (header->kind == RING_SKIP && !offset)
            return RING_BROKEN; /* nothing is skipped there */
        if (header->kind != RING_SKIP) {
            *octets = take->ring + offset + HEADER;
            return header->kind && header->kind < RING_KINDS && header->piece <= RING_PIECE &&
                           ring_record(header->piece) <= take->octets - offset
                       ? RING_RECORD_FOUND
                       : RING_BROKEN;
        }
        take->at += take->octets - offset;
    }
    return RING_BROKEN; /* a ring of nothing */
}

const uint8_t *ring_octets(const struct ring_take *take)
{
    return take->ring + (take->at & (take->octets - 1)) + HEADER;
}

uint32_t ring_parts(const struct ring_header *header, const uint8_t *octets,
                    struct ring_part *parts, uint32_t room)
{
    const uint32_t count = header->piece / (uint32_t)sizeof(*parts);
    uint64_t sum = 0;

    if (header->piece % sizeof(*parts) || count > room)
        return 0;
    memcpy(parts, octets, header->piece);
    for (uint32_t i = 0; i < count; i++)
        sum += parts[i].length;
    return header->length && sum == header->length ? count : 0;
}
