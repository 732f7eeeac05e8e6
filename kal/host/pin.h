/* SPDX-License-Identifier: BSD-3-Clause */
/* Which pages are pinned for DMA, and how often. Overlapping ranges nest; a page is locked once. */
#ifndef ITAL_KAL_PIN_H
#define ITAL_KAL_PIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rnicpi.h"

struct kal_host;

struct kal_pin_range {
    uintptr_t start, end; /* page aligned; never empty */
    uint64_t count;       /* > 0 */
};

struct kal_pins {
    pthread_mutex_t lock; /* leaf; held over mlock and munlock */
    /* Sorted, disjoint, neighbours differ in count where they touch */
    struct kal_pin_range *ranges;
    size_t used, room;
    /* Pins not undone yet */
    size_t live;
    /* Ranges that were read to join them; for tests */
    uint64_t looked;
    /* Its account of KAL_ACCOUNT_PINNED */
    struct kal_host *host;
    /* The kernel does not copy pinned pages on fork: MADV_DONTFORK */
    bool dont_fork;
};

void kal_pins_init(struct kal_pins *pins, struct kal_host *host);
void kal_pins_destroy(struct kal_pins *pins);

/*
 * Pin the pages of [addr, addr + length). Logs a refusal with what to do. RI_ERR_NO_RESOURCES:
 * RLIMIT_MEMLOCK, the quota, or memory. RI_ERR_ADDRESS: not mapped. RI_ERR_INVALID_ARGUMENT: empty
 * or wrapping. Nothing changes then. May block.
 */
enum ri_status kal_pin(struct kal_pins *pins, const void *addr, uint64_t length);
/* Undo one kal_pin of exactly this range. Never fails. */
void kal_unpin(struct kal_pins *pins, const void *addr, uint64_t length);

#endif
