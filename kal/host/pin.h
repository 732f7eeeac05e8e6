/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pinned pages, and how often each is pinned. Overlapping ranges nest, so the kernel charges a page
 * once for each way of pinning. A table for each way: what is pinned in both is charged in both.
 */
#ifndef ITAL_KAL_PIN_H
#define ITAL_KAL_PIN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rnicpi.h"

struct kal_host;
struct kal_pins;
struct kal_ring;
struct policy_rule;

/* Pages that the kernel releases together. */
struct kal_pin_block {
    uintptr_t start;
    uint64_t size; /* octets */
    uint64_t live; /* of these, octets in the table; released at 0 */
    /* hold: where it is registered */
    struct kal_ring *ring;
    uint32_t slot;
};

struct kal_pin_range {
    uintptr_t start, end; /* page aligned; never empty */
    uint64_t count;       /* > 0, except during kal_pin */
    /* NULL: every part of the range is released by itself */
    struct kal_pin_block *block;
};

/* Why a range cannot be pinned. */
struct kal_pin_refusal {
    /* RI_ERR_NO_RESOURCES: a limit, or memory. RI_ERR_ADDRESS: not all of it is mapped.
     * RI_ERR_PERMISSION: this way of pinning is not possible on this system, or not for this kind
     * of mapping. RI_ERR_INVALID_ARGUMENT: empty or wrapping */
    enum ri_status status;
    /* A sentence without a full stop, with what to do */
    char why[640];
};

/* Where a way of pinning has failed. */
struct kal_pin_failure {
    int error; /* errno */
    /* SETUP: ENOMEM, PAGES: ENOMEM, EAGAIN and EPERM are the limit of locked memory, or want of
     * memory */
    enum { KAL_PIN_AT_QUOTA, KAL_PIN_AT_MEMORY, KAL_PIN_AT_SETUP, KAL_PIN_AT_PAGES } step;
    uintptr_t start, end;
    uint64_t wanted; /* octets that the whole call would pin in addition */
    /* QUOTA: the rule of the host's policy that refuses; NULL: the host does */
    const struct policy_rule *rule;
};

/* A way of pinning. All operations are called with the lock held. */
struct kal_pin_ops {
    const char *done; /* "locked" */
    void (*open)(struct kal_pins *pins);
    void (*close)(struct kal_pins *pins); /* nothing is pinned */
    /*
     * Pins pages from start on, at most to end. *stop: behind the last one. *block: new, with start
     * and size; or NULL. False: nothing changed; failure has step and error.
     */
    bool (*take)(struct kal_pins *pins, uintptr_t start, uintptr_t end, uintptr_t *stop,
                 struct kal_pin_block **block, struct kal_pin_failure *failure);
    /* Releases a block, and frees it. */
    void (*give)(struct kal_pins *pins, struct kal_pin_block *block);
    /* Releases pages without a block. NULL: there are none */
    void (*give_pages)(struct kal_pins *pins, uintptr_t start, uintptr_t end);
    /* The explanation, for the last failure of take. */
    void (*explain)(struct kal_pins *pins, const struct kal_pin_failure *failure,
                    struct kal_pin_refusal *refusal);
    /* What the kernel charges besides the pages. NULL: nothing */
    uint64_t (*overhead)(const struct kal_pins *pins);
    /* The limit of locked memory may be of all processes of the user: it is worth to wait for one
     * that has ended and whose share is not free yet */
    bool by_user;
};

/* Locked by mlock2: no page fault, but the kernel may move the page. */
extern const struct kal_pin_ops kal_pin_lock;
/* Held by a registered buffer of io_uring: the page stays where it is. */
extern const struct kal_pin_ops kal_pin_hold;

struct kal_pins {
    const struct kal_pin_ops *ops;
    pthread_mutex_t lock; /* held over the system calls, but not while the host is asked */
    /* Sorted and disjoint; adjacent ranges differ in count or block */
    struct kal_pin_range *ranges;
    size_t used, room;
    /* Pins not yet undone; blocks */
    size_t live, blocks;
    /* Number of ranges read to join them; for tests */
    uint64_t looked;
    /* Signalled when something was released */
    pthread_cond_t released;
    /* Charged: written under the lock, read by any thread */
    _Atomic uint64_t octets, pins;
    /* Has the account KAL_ACCOUNT_PINNED */
    struct kal_host *host;
    /* lock: octets that it has locked, which mappings removed since may still count in. Set
     * MADV_DONTFORK, because the kernel does not copy pinned pages on fork */
    uint64_t locked;
    bool dont_fork;
    /* hold: a leaf lock, which a fork takes, guards the list */
    pthread_mutex_t ring_lock;
    struct kal_ring *rings;
    _Atomic uint32_t ring_count;
};

void kal_pins_init(struct kal_pins *pins, struct kal_host *host, const struct kal_pin_ops *ops);
void kal_pins_destroy(struct kal_pins *pins);
/* Around a fork. In the child the descriptors are closed, so that it holds no page of the parent;
 * async-signal-safe. */
void kal_pins_fork_prepare(struct kal_pins *pins);
void kal_pins_fork_parent(struct kal_pins *pins);
void kal_pins_fork_child(struct kal_pins *pins);

/*
 * Pins the pages of [addr, addr + length). On an error nothing changes, and *refusal is set. May
 * block; with may_wait for up to a second more, if the limit leaves room for the range but what
 * processes that have ended had pinned is still charged.
 */
enum ri_status kal_pin(struct kal_pins *pins, const void *addr, uint64_t length, bool may_wait,
                       struct kal_pin_refusal *refusal);
/* True: a page of the range is pinned in this way already, so another pin of it is not charged. */
bool kal_pins_any(struct kal_pins *pins, const void *addr, uint64_t length);
/* Undoes one kal_pin of exactly this range. Never fails. */
void kal_unpin(struct kal_pins *pins, const void *addr, uint64_t length);

/* ---- pin_explain.c ---- */
/* Formats *refusal; the result is its status. */
enum ri_status kal_pin_refuse(struct kal_pin_refusal *refusal, enum ri_status status,
                              const char *format, ...) __attribute__((format(printf, 3, 4)));
/* What the kernel would charge in this way, with `wanted` octets more. */
uint64_t kal_pins_charged(const struct kal_pins *pins, uint64_t wanted);
/* The limit RLIMIT_MEMLOCK is too low for `total` octets: `whose` says what it counts, "this
 * process". */
void kal_pin_explain_limit(struct kal_pin_refusal *refusal, const char *whose, uint64_t wanted,
                           uint64_t total);
/* No ring can be made, with this error number. disabled, group: kernel.io_uring_disabled and
 * io_uring_group, or -1. filtered: the process has a seccomp filter. */
void kal_pin_explain_ring(struct kal_pin_refusal *refusal, int error, long disabled, long group,
                          bool filtered);
/* True: RLIMIT_MEMLOCK allows this many octets. */
bool kal_pin_limit_allows(uint64_t octets);
/* A number after "NAME:" in /proc/self/status; false: it cannot be read. */
bool kal_pin_status_number(const char *name, uint64_t *number);

/* ---- pin_mapping.c ---- */
struct kal_mapping {
    uintptr_t start, end;
    bool readable, writable, shared;
    bool file;     /* has an inode, so also memfd and shared anonymous memory */
    char name[96]; /* may be cut; empty: anonymous */
};
/* The first mapping that ends behind `at`, in *mapping: 1. 0: there is none. -1: /proc cannot be
 * read. */
int kal_mapping_at(uintptr_t at, struct kal_mapping *mapping);
/* The first mapping of [start, end) for which `wrong` is true, or a gap: then *mapping is what
 * follows the gap, if anything. False: there is none, or it is not known. */
bool kal_mapping_find(uintptr_t start, uintptr_t end, bool (*wrong)(const struct kal_mapping *),
                      struct kal_mapping *mapping, bool *gap);

#endif
