/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The STag table: memory regions, and the one check that every access by STag passes. Readers never lock: an entry
 * is published by a release store of its STag and revoked by storing 0 there. Who revokes waits for those that may
 * still be using the memory: passes of the lane (placement) and the entry's `users` (Read Responses).
 */
#ifndef ITAL_SOFTRDMA_STAG_H
#define ITAL_SOFTRDMA_STAG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/spinlock.h"

struct pd;

struct stag_entry {
    _Atomic uint32_t stag; /* 0: free or revoked */
    uint32_t access;       /* enum ri_access */
    uint64_t base;         /* first valid TO: the address, or 0 when zero-based */
    uint64_t length;
    uint8_t *memory; /* of TO == base */
    struct pd *pd;
    atomic_uint users;
    uint32_t place, next_free;
    uint8_t key;
};

/* Entries live in chunks that stay until the table closes, so that readers need no lock. */
#define STAG_CHUNK_ENTRIES 4096u
#define STAG_CHUNKS        4096u

struct stag_table {
    struct spinlock lock;
    _Atomic(struct stag_entry *) chunks[STAG_CHUNKS];
    uint32_t permutation[4]; /* keys of the index permutation: indices are not predictable */
    uint32_t first_free;
    uint32_t used; /* entries ever handed out */
    uint32_t count;
};

enum stag_result {
    STAG_OK = 0,
    STAG_INVALID, /* unknown, key, revoked, STag 0 */
    STAG_PD,      /* of another PD */
    STAG_ACCESS,
    STAG_WRAP, /* TO + length passes 2^64 */
    STAG_BOUNDS
};

/* false: the kernel gives no random numbers. */
bool stag_table_open(struct stag_table *table);
void stag_table_close(struct stag_table *table);

/* A new entry, not yet valid; NULL: table full or no memory. Then fill it and publish. */
struct stag_entry *stag_allocate(struct stag_table *table, uint32_t *stag);
void stag_publish(struct stag_entry *entry, uint32_t stag);
/* No new access finds it. */
void stag_revoke(struct stag_entry *entry);
/* Back to the free entries; revoked before and no longer used. */
void stag_release(struct stag_table *table, struct stag_entry *entry);

/*
 * May `pd` access [to, to + length) of `stag` with all of `access`? length > 0. The order of the tests is that of
 * C-082..C-092 (Writes) and C-110..C-114 (Reads). On STAG_OK *memory is the first octet.
 */
enum stag_result stag_check(struct stag_table *table, uint32_t stag, const struct pd *pd,
                            uint32_t access, uint64_t to, uint64_t length, uint8_t **memory,
                            struct stag_entry **entry);

/* Its two halves: the place of an STag, the same for as long as the table is open (NULL: there is none yet), and the judgement. */
struct stag_entry *stag_find(struct stag_table *table, uint32_t stag);
enum stag_result stag_judge(struct stag_entry *entry, uint32_t stag, const struct pd *pd,
                            uint32_t access, uint64_t to, uint64_t length, uint8_t **memory);

/* Most look-ups are of the same STag as the one before: whoever makes them remembers its place. */
struct stag_hint {
    uint32_t stag;
    struct stag_entry *entry;
};
static inline enum stag_result stag_check_hinted(struct stag_table *table, struct stag_hint *hint,
                                                 uint32_t stag, const struct pd *pd,
                                                 uint32_t access, uint64_t to, uint64_t length,
                                                 uint8_t **memory)
{
    if (hint->stag != stag || !hint->entry)
        *hint = (struct stag_hint){ stag, stag_find(table, stag) };
    return stag_judge(hint->entry, stag, pd, access, to, length, memory);
}

/* The same, and hold the entry: stag_revoke waits until it is left. For users outside a pass of the lane. */
enum stag_result stag_enter(struct stag_table *table, uint32_t stag, const struct pd *pd,
                            uint32_t access, uint64_t to, uint64_t length, uint8_t **memory,
                            struct stag_entry **entry);
void stag_leave(struct stag_entry *entry);

#endif
