/* SPDX-License-Identifier: BSD-3-Clause */
#include "held.h"

#include <stdlib.h>
#include <string.h>

struct held_record {
    struct services_owner owner;
    uint32_t tries;
    bool gone;
    uint8_t octets[PASS_RECORD_LEN];
};

void held_free(struct held *held)
{
    free(held->record);
    *held = (struct held){ .record = NULL };
}

static bool is_of(const struct held_record *record, const struct services_owner *owner)
{
    return record->owner.slot == owner->slot && record->owner.generation == owner->generation;
}

bool held_has(const struct held *held, const struct services_owner *owner)
{
    return held->of[owner->slot % HELD_SLOTS];
}

bool held_add(struct held *held, const struct services_owner *owner, const struct gsi_mad *mad)
{
    struct held_record *record;

    if (!held->record)
        held->record = malloc(HELD_MAX * sizeof(*held->record));
    if (!held->record || held->count == HELD_MAX ||
        held->of[owner->slot % HELD_SLOTS] == HELD_OF_ONE)
        return false;
    held->of[owner->slot % HELD_SLOTS]++;
    record = &held->record[held->count++];
    record->owner = *owner;
    record->tries = 0;
    record->gone = false;
    pass_put(record->octets, mad);
    return true;
}

/* From `first` on, of its owner, as many as a message has. */
static uint32_t gather(const struct held *held, uint32_t first, uint8_t octets[static PASS_MAX],
                       struct held_record *taken[static PASS_RECORDS])
{
    const struct services_owner *owner = &held->record[first].owner;
    uint32_t records = 0;

    for (uint32_t i = first; i < held->count && records < PASS_RECORDS; i++) {
        struct held_record *record = &held->record[i];

        if (record->gone || !is_of(record, owner))
            continue;
        memcpy(octets + PASS_LEN(records), record->octets, PASS_RECORD_LEN);
        taken[records++] = record;
    }
    return records;
}

/* All of the owner wait for the next time, or have waited for too long. */
static void put_off(struct held *held, uint32_t first, uint64_t *lost)
{
    const struct services_owner owner = held->record[first].owner;

    for (uint32_t i = first; i < held->count; i++) {
        struct held_record *record = &held->record[i];

        if (record->gone || !is_of(record, &owner) || ++record->tries < HELD_TRIES)
            continue;
        record->gone = true;
        ++*lost;
    }
}

static void close_up(struct held *held)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < held->count; i++) {
        if (held->record[i].gone) {
            held->of[held->record[i].owner.slot % HELD_SLOTS]--;
            continue;
        }
        if (kept != i)
            held->record[kept] = held->record[i];
        kept++;
    }
    held->count = kept;
}

void held_flush(struct held *held, bool counted, held_send *send, void *context, uint64_t *passed,
                uint64_t *lost)
{
    struct held_record *taken[PASS_RECORDS];
    uint8_t octets[PASS_MAX];
    bool full[HELD_SLOTS] = { false };

    for (uint32_t i = 0; i < held->count; i++) {
        uint32_t records;

        if (held->record[i].gone || full[held->record[i].owner.slot % HELD_SLOTS])
            continue;
        records = gather(held, i, octets, taken);
        if (send(context, &held->record[i].owner, octets, records)) {
            for (uint32_t k = 0; k < records; k++)
                taken[k]->gone = true;
            *passed += records;
        } else {
            full[held->record[i].owner.slot % HELD_SLOTS] = true;
            if (counted)
                put_off(held, i, lost);
        }
    }
    close_up(held);
}
