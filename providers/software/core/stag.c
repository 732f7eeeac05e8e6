/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An STag is a 24-bit index and an 8-bit key (RDMAC 7.2.1). A peer can guess neither what exists
 * nor what will exist (RFC 5042 6.1.1), for all of it is drawn from the kernel's generator:
 *   - the index is the place in the table sent through a secret permutation: a Feistel network over
 *     24 bits whose six round functions are tables of random numbers. What is known of some indices
 *     says nothing of others;
 *   - the place is chosen at random among STAG_RESERVE: those freed longest ago, once more than
 *     STAG_AGE wait, else fresh ones;
 *   - the key is random for each use of a place, and another one than before.
 */
#include "directory.h"
#include "qp.h"

#include "base/entropy.h"

#include <stdlib.h>

bool stag_table_open(struct stag_table *table)
{
    table->directory = -1;
    pthread_mutex_init(&table->files_lock, NULL);
    table->files = NULL;
    table->chance = entropy_open();
    if (!table->chance)
        return false;
    if (entropy_draw(table->rounds, sizeof(table->rounds)))
        return true;
    entropy_close(table->chance);
    return false;
}

void stag_table_close(struct stag_table *table)
{
    for (uint32_t i = table->head ? DIRECTORY_CHUNKS : 0; i < STAG_CHUNKS; i++)
        free(atomic_load(&table->chunks[i]));
    directory_unmake(table);
    explicit_bzero(table->rounds, sizeof(table->rounds));
    entropy_close(table->chance);
    contract(!table->files);
    pthread_mutex_destroy(&table->files_lock);
}

static struct stag_entry *entry_at(struct stag_table *table, uint32_t place)
{
    struct stag_entry *chunk = atomic_load_explicit(&table->chunks[place / STAG_CHUNK_ENTRIES],
                                                    memory_order_acquire);

    return chunk ? &chunk[place % STAG_CHUNK_ENTRIES] : NULL;
}

/* --- which place comes next; under the lock, 0: none --- */

/* One that was never used. Place 0 is none: 0 ends the queue. */
static uint32_t new_place(struct stag_table *table)
{
    uint32_t place = table->used + 1, chunk = place / STAG_CHUNK_ENTRIES;
    struct stag_entry *entries;

    spinlock_assert_held(&table->lock);
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

/* The place whose index is 0 stays unused: with key 0, which consumers may choose, it would be
 * STag 0. */
static uint32_t fresh_place(struct stag_table *table)
{
    uint32_t place = new_place(table);

    return place && !stag_permute(table->rounds, place) ? new_place(table) : place;
}

static uint32_t oldest_place(struct stag_table *table)
{
    uint32_t place = table->oldest;

    spinlock_assert_held(&table->lock);
    if (!place)
        return 0;
    table->oldest = entry_at(table, place)->next_freed;
    table->aged--;
    return place;
}

static void queue_place(struct stag_table *table, struct stag_entry *entry)
{
    spinlock_assert_held(&table->lock);
    entry->next_freed = 0;
    if (table->oldest)
        entry_at(table, table->youngest)->next_freed = entry->place;
    else
        table->oldest = entry->place;
    table->youngest = entry->place;
    table->aged++;
}

/* Freed places wait as long as there is room for others. */
static uint32_t next_place(struct stag_table *table)
{
    uint32_t place = table->aged > STAG_AGE ? 0 : fresh_place(table);

    return place ? place : oldest_place(table);
}

static uint32_t any_place(struct stag_table *table, uint32_t chance)
{
    uint32_t place, at;

    spinlock_assert_held(&table->lock);
    while (table->reserved < STAG_RESERVE && (place = next_place(table)))
        table->reserve[table->reserved++] = place;
    if (!table->reserved)
        return 0;
    at = chance % table->reserved;
    place = table->reserve[at];
    table->reserve[at] = table->reserve[--table->reserved];
    return place;
}

/* --- entries --- */

static uint32_t name_of(const struct stag_table *table, uint32_t place, uint8_t key)
{
    return stag_permute(table->rounds, place) << 8 | key;
}

struct stag_entry *stag_allocate(struct stag_table *table, struct pd *pd, enum stag_kind kind,
                                 uint32_t *stag)
{
    struct stag_entry *entry = NULL;
    uint32_t place = 0;
    uint8_t chance[2], key;

    spinlock_lock(&table->lock);
    if (entropy_take(table->chance, chance, sizeof(chance)))
        place = any_place(table, chance[0]);
    if (place) {
        key = chance[1];
        entry = entry_at(table, place);
        spinlock_lock(&entry->lock);
        if (key == entry->key)
            /* Never the same key twice in a row at one place. */
            key++;
        entry->key = key;
        entry->place = place;
        entry->pd = pd;
        entry->kind = (uint8_t)kind;
        entry->state = STAG_IS_INVALID;
        entry->name = *stag = name_of(table, place, key);
        entry->use++;
        entry->bound = 0;
        entry->region = NULL;
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
    contract(entry->state == STAG_IS_INVALID);
    entry->name = stag;
    entry->key = (uint8_t)stag;
    entry->state = STAG_IS_VALID;
    atomic_store_explicit(&entry->stag, stag, memory_order_release);
}

void stag_withdraw(struct stag_entry *entry)
{
    const void *scope = atomic_load_explicit(&entry->scope, memory_order_relaxed);

    spinlock_assert_held(&entry->lock);
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
    spinlock_assert_not_held(&entry->lock);
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
    contract(entry->state != STAG_IS_VALID);
    entry->name = 0;
    spinlock_unlock(&entry->lock);
    queue_place(table, entry);
    *(entry->kind == STAG_REGION ? &table->count : &table->windows) -= 1;
    spinlock_unlock(&table->lock);
}

struct stag_entry *stag_find(struct stag_table *table, uint32_t stag)
{
    return stag ? entry_at(table, stag_unpermute(table->rounds, stag >> 8)) : NULL;
}

/* A place that does not exist yet may exist at the next lookup. */
void stag_learn(struct stag_table *table, struct stag_hint *hint, uint32_t stag)
{
    hint->entry = stag_find(table, stag);
    hint->stag = hint->entry ? stag : 0;
}

enum stag_result stag_check(struct stag_table *table, uint32_t stag, const void *scope,
                            uint32_t access, uint64_t to, uint64_t length, uint8_t **memory)
{
    return stag_check_entry(stag_find(table, stag), stag, scope, access, to, length, memory);
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
