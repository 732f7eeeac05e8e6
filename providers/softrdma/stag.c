/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An STag is a 24-bit index and an 8-bit key (RDMAC 7.2.1). The index is the place in the table sent through a keyed
 * permutation (a four-round Feistel network over 24 bits, keys from getrandom), the key is random and new for
 * each use of the place: a peer can guess neither what exists nor what will exist (RFC 5042 6.1.1).
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "softrdma.h"

#include <stdlib.h>
#include <sys/random.h>

#define HALF_BITS 12
#define HALF_MASK ((1u << HALF_BITS) - 1)

static uint32_t mix(uint32_t half, uint32_t key)
{
    uint32_t x = (half ^ key) * 0x9E3779B1u;

    x ^= x >> 15;
    x *= 0x85EBCA6Bu;
    return (x >> 13) & HALF_MASK;
}

static uint32_t permute(const struct stag_table *table, uint32_t place)
{
    uint32_t left = place >> HALF_BITS, right = place & HALF_MASK;

    for (int round = 0; round < 4; round++) {
        uint32_t next = left ^ mix(right, table->permutation[round]);

        left = right;
        right = next;
    }
    return left << HALF_BITS | right;
}

static uint32_t unpermute(const struct stag_table *table, uint32_t index)
{
    uint32_t left = index >> HALF_BITS, right = index & HALF_MASK;

    for (int round = 3; round >= 0; round--) {
        uint32_t before = right ^ mix(left, table->permutation[round]);

        right = left;
        left = before;
    }
    return left << HALF_BITS | right;
}

bool stag_table_open(struct stag_table *table)
{
    return getrandom(table->permutation, sizeof(table->permutation), 0) ==
           (ssize_t)sizeof(table->permutation);
}

void stag_table_close(struct stag_table *table)
{
    for (uint32_t i = 0; i < STAG_CHUNKS; i++)
        free(atomic_load(&table->chunks[i]));
}

static struct stag_entry *entry_at(struct stag_table *table, uint32_t place)
{
    struct stag_entry *chunk = atomic_load_explicit(&table->chunks[place / STAG_CHUNK_ENTRIES],
                                                    memory_order_acquire);

    return chunk ? &chunk[place % STAG_CHUNK_ENTRIES] : NULL;
}

/* Under the lock. Place 0 is never used: 0 ends the free list. */
static uint32_t new_place(struct stag_table *table)
{
    uint32_t place = table->first_free, chunk;
    struct stag_entry *entries;

    if (place) {
        table->first_free = entry_at(table, place)->next_free;
        return place;
    }
    place = table->used + 1;
    chunk = place / STAG_CHUNK_ENTRIES;
    if (chunk >= STAG_CHUNKS)
        return 0;
    if (!atomic_load(&table->chunks[chunk])) {
        entries = calloc(STAG_CHUNK_ENTRIES, sizeof(*entries));
        if (!entries)
            return 0;
        atomic_store_explicit(&table->chunks[chunk], entries, memory_order_release);
    }
    table->used = place;
    return place;
}

static uint32_t name_of(const struct stag_table *table, uint32_t place, uint8_t key)
{
    return permute(table, place) << 8 | key;
}

/* Under the lock. The place whose index is 0 stays unused: with key 0, which consumers may choose, it would be STag 0. */
static uint32_t usable_place(struct stag_table *table)
{
    uint32_t place = new_place(table);

    return place && !permute(table, place) ? new_place(table) : place;
}

struct stag_entry *stag_allocate(struct stag_table *table, struct pd *pd, enum stag_kind kind,
                                 uint32_t *stag)
{
    struct stag_entry *entry = NULL;
    uint32_t place;
    uint8_t key;

    if (getrandom(&key, sizeof(key), 0) != sizeof(key))
        return NULL;
    spinlock_lock(&table->lock);
    place = usable_place(table);
    if (place) {
        entry = entry_at(table, place);
        spinlock_lock(&entry->lock);
        if (key == entry->key)
            key++; /* never the same twice in a row at one place */
        entry->key = key;
        entry->place = place;
        entry->pd = pd;
        entry->kind = (uint8_t)kind;
        entry->state = STAG_IS_INVALID;
        entry->name = *stag = name_of(table, place, key);
        entry->use++;
        entry->bound = 0;
        atomic_store_explicit(&entry->scope, pd, memory_order_relaxed);
        atomic_store_explicit(&entry->access, 0, memory_order_relaxed);
        spinlock_unlock(&entry->lock);
        *(kind == STAG_REGION ? &table->count : &table->windows) += 1;
    }
    spinlock_unlock(&table->lock);
    return entry;
}

void stag_publish(struct stag_entry *entry, uint32_t stag)
{
    entry->name = stag;
    entry->key = (uint8_t)stag;
    entry->state = STAG_IS_VALID;
    atomic_store_explicit(&entry->stag, stag, memory_order_release);
}

void stag_withdraw(struct stag_entry *entry)
{
    const void *scope = atomic_load_explicit(&entry->scope, memory_order_relaxed);

    if (entry->state != STAG_IS_VALID)
        return;
    atomic_store(&entry->stag, 0);
    entry->state = STAG_IS_REVOKED;
    if (entry->kind == STAG_REGION)
        return;
    spinlock_lock(&entry->region->lock);
    entry->region->bound--;
    spinlock_unlock(&entry->region->lock);
    if (entry->kind == STAG_NARROW)
        atomic_fetch_sub(&((struct qp *)(uintptr_t)scope)->windows, 1);
}

void stag_wait_users(struct stag_entry *entry)
{
    while (atomic_load(&entry->users))
        sched_yield();
}

void stag_revoke(struct stag_entry *entry)
{
    spinlock_lock(&entry->lock);
    stag_withdraw(entry);
    entry->use++;
    spinlock_unlock(&entry->lock);
    stag_wait_users(entry);
}

struct stag_entry *stag_lock_named(struct stag_table *table, uint32_t name)
{
    struct stag_entry *entry = stag_find(table, name);

    if (!entry)
        return NULL;
    spinlock_lock(&entry->lock);
    if (entry->name == name)
        return entry;
    spinlock_unlock(&entry->lock);
    return NULL;
}

void stag_release(struct stag_table *table, struct stag_entry *entry)
{
    spinlock_lock(&table->lock);
    spinlock_lock(&entry->lock);
    entry->name = 0;
    spinlock_unlock(&entry->lock);
    entry->next_free = table->first_free;
    table->first_free = entry->place;
    *(entry->kind == STAG_REGION ? &table->count : &table->windows) -= 1;
    spinlock_unlock(&table->lock);
}

struct stag_entry *stag_find(struct stag_table *table, uint32_t stag)
{
    return stag ? entry_at(table, unpermute(table, stag >> 8)) : NULL;
}

/* A place that does not exist yet may exist the next time. */
void stag_learn(struct stag_table *table, struct stag_hint *hint, uint32_t stag)
{
    hint->entry = stag_find(table, stag);
    hint->stag = hint->entry ? stag : 0;
}

enum stag_result stag_check(struct stag_table *table, uint32_t stag, const void *scope,
                            uint32_t access, uint64_t to, uint64_t length, uint8_t **memory)
{
    return stag_judge(stag_find(table, stag), stag, scope, access, to, length, memory);
}

enum stag_result stag_enter(struct stag_table *table, uint32_t stag, const void *scope,
                            uint32_t access, uint64_t to, uint64_t length, uint8_t **memory,
                            struct stag_entry **out)
{
    struct stag_hint hint = { .stag = 0 };

    return stag_enter_hinted(table, &hint, stag, scope, access, to, length, memory, out);
}

void stag_leave(struct stag_entry *entry)
{
    atomic_fetch_sub(&entry->users, 1);
}
