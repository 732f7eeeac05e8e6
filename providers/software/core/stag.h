/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The STag table: memory regions and windows, and the one check that every access by STag passes.
 * Readers never lock: an entry is made valid by a release store of its STag and revoked by storing
 * 0 there. The thread that revokes waits for those that may still be using the memory: passes of
 * the lane (placement) and the entry's `users` (answers to the peer).
 *
 *   INVALID -- register, bind, fast register --> VALID -- deregister, invalidate, unbind -> REVOKED
 *      ^---------------------- nobody uses it any more (invalidate_quiet) ---------------------'
 *
 * An entry keeps its name, the STag that it goes by, in every state. What a REVOKED entry says may
 * still be read: only an INVALID one is filled anew. Of a VALID region `access` alone may change
 * (core_mr_reregister, RI_ACCESS_KEEP_KEYS). States and rights change under the entry's lock, a
 * window's before its region's.
 */
#ifndef ITAL_SOFTRDMA_STAG_H
#define ITAL_SOFTRDMA_STAG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "base/spinlock.h"

#include "stag_index.h"

struct entropy;
struct pd;

enum stag_kind { STAG_REGION, STAG_NARROW, STAG_WIDE }; /* windows: of one QP, of a whole PD */
enum stag_state { STAG_IS_INVALID, STAG_IS_REVOKED, STAG_IS_VALID };

/* A file that the memory stands on, which peers of this host may map (memory_file.h). */
struct stag_file {
    uint64_t number; /* 0: none */
    uint64_t shift;  /* place in the file less address, modulo 2^64 */
    int fd;          /* of this process */
};

struct stag_entry {
    _Atomic uint32_t stag; /* 0: not VALID */
    _Atomic uint32_t
        /* enum ri_access. Windows have remote bits only, so no window is a local element. */
        access;
    /* Who may use it: the PD; for a narrow window the QP. */
    _Atomic(const void *) scope;
    uint64_t base; /* first valid TO: the address, or 0 when zero-based */
    uint64_t length;
    uint8_t *memory; /* of TO == base */
    atomic_uint users;
    uint32_t place, next_freed;
    /* under lock; pd and kind do not change while the entry is in use */
    struct spinlock lock;
    struct pd *pd;
    union {
        struct stag_entry *region; /* of a VALID window */
        /* of a region: number of the QP that fast-registered it; 0: none */
        uint32_t registrar;
    };
    uint32_t name;  /* 0: the entry is free */
    uint32_t bound; /* region: VALID windows on it */
    uint32_t use;   /* changes when the entry is allocated and when it is given up */
    uint8_t kind, state, key;
    struct stag_file file; /* as base, length and memory */
};

/* Entries live in chunks that stay until the table closes, so that readers need no lock. */
#define STAG_CHUNK_ENTRIES 4096u
#define STAG_CHUNKS        4096u

/* A freed index is not reused before so many others have been freed, as long as the table has
 * room. */
#define STAG_AGE     8192u
#define STAG_RESERVE 256u /* an index is chosen among so many: by one random octet */

struct stag_table {
    struct spinlock lock;
    _Atomic(struct stag_entry *) chunks[STAG_CHUNKS];
    struct entropy *chance;         /* under the lock */
    stag_rounds rounds;             /* of the index permutation: random functions */
    uint32_t reserve[STAG_RESERVE]; /* free places, from which the next one is chosen */
    uint32_t reserved;
    uint32_t oldest, youngest, aged; /* the queue of places that were freed, and how many */
    uint32_t used;                   /* places ever taken into use */
    uint32_t count, windows;         /* regions, windows */
    /* The directory (directory.h), which has the first chunks. NULL and -1: there is none. */
    struct directory_head *head;
    int directory;
    pthread_mutex_t files_lock;
    struct memory_file *files; /* under it */
    uint64_t files_made;
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

/* A new entry, INVALID; NULL: the table is full or there is no memory. The caller fills it and
 * publishes it. */
struct stag_entry *stag_allocate(struct stag_table *table, struct pd *pd, enum stag_kind kind,
                                 uint32_t *stag);
/* The entry is VALID from now on, by this name. Under the entry's lock, or no other thread knows
 * it. */
void stag_publish(struct stag_entry *entry, uint32_t stag);
/* No new access finds it; a window releases its region. Under the entry's lock. */
void stag_withdraw(struct stag_entry *entry);
/* Wait until answers to the peer that use it have ended. */
void stag_wait_users(struct stag_entry *entry);
/* Both, in any state. The entry is given up: a bind that is queued for it is refused. */
void stag_revoke(struct stag_entry *entry);
/* Free the entry, behind all that were freed before. It is revoked and no longer used. */
void stag_release(struct stag_table *table, struct stag_entry *entry);
/* The entry of this name, in any state, locked; NULL: there is none. */
struct stag_entry *stag_lock_named(struct stag_table *table, uint32_t name);

/*
 * May `scope`, a PD, or a QP for the windows bound to it, access [to, to + length) of `stag` with
 * all of `access`? length > 0. The order of the checks is that of C-082..C-092 (Writes) and
 * C-110..C-114 (Reads). On STAG_OK *memory is the first octet. qp_check_remote() and
 * qp_enter_remote(), which know both scopes, check STags that a peer names.
 */
enum stag_result stag_check(struct stag_table *table, uint32_t stag, const void *scope,
                            uint32_t access, uint64_t to, uint64_t length, uint8_t **memory);

/* The two halves of stag_check: the place of an STag, which stays the same while the table is
 * open (NULL: there is none yet), and the check. */
struct stag_entry *stag_find(struct stag_table *table, uint32_t stag);
static inline enum stag_result stag_check_entry(struct stag_entry *entry, uint32_t stag,
                                                const void *scope, uint32_t access, uint64_t to,
                                                uint64_t length, uint8_t **memory)
{
    uint64_t offset;

    if (!entry || atomic_load(&entry->stag) != stag)
        return STAG_INVALID;
    if (atomic_load_explicit(&entry->scope, memory_order_relaxed) != scope)
        return STAG_PD;
    /* Rights may go in place: the thread that takes them then waits for this pass or user. */
    if ((atomic_load(&entry->access) & access) != access)
        return STAG_ACCESS;
    /* No entry passes 2^64, so a TO before the entry gives a large offset. */
    offset = to - entry->base;
    if (offset > entry->length || length > entry->length - offset)
        return checked_wraps(to, length) ? STAG_WRAP : STAG_BOUNDS;
    *memory = entry->memory + offset;
    return STAG_OK;
}

/* Most look-ups name the same STag as the one before, so the caller keeps its place. */
struct stag_hint {
    uint32_t stag; /* 0: none */
    struct stag_entry *entry;
};
void stag_learn(struct stag_table *table, struct stag_hint *hint, uint32_t stag);
static inline enum stag_result stag_check_hinted(struct stag_table *table, struct stag_hint *hint,
                                                 uint32_t stag, const void *scope, uint32_t access,
                                                 uint64_t to, uint64_t length, uint8_t **memory)
{
    if (unlikely(hint->stag != stag))
        stag_learn(table, hint, stag);
    return stag_check_entry(hint->entry, stag, scope, access, to, length, memory);
}

/* The same, and the entry stays in use: stag_wait_users waits until it is left. For users
 * outside a pass of the lane. */
enum stag_result stag_enter(struct stag_table *table, uint32_t stag, const void *scope,
                            uint32_t access, uint64_t to, uint64_t length, uint8_t **memory,
                            struct stag_entry **entry);
void stag_leave(struct stag_entry *entry);
/* The user is counted before the check. A thread that revokes stores 0 and then reads users:
 * either it waits or the check fails. So nothing is read of an entry that another thread fills
 * anew. */
static inline enum stag_result stag_enter_hinted(struct stag_table *table, struct stag_hint *hint,
                                                 uint32_t stag, const void *scope, uint32_t access,
                                                 uint64_t to, uint64_t length, uint8_t **memory,
                                                 struct stag_entry **entry)
{
    enum stag_result result;

    if (unlikely(hint->stag != stag))
        stag_learn(table, hint, stag);
    if (!hint->entry)
        return STAG_INVALID;
    atomic_fetch_add(&hint->entry->users, 1);
    result = stag_check_entry(hint->entry, stag, scope, access, to, length, memory);
    if (result != STAG_OK) {
        stag_leave(hint->entry);
        return result;
    }
    *entry = hint->entry;
    return STAG_OK;
}

#endif
