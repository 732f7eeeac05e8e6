/* SPDX-License-Identifier: BSD-3-Clause */
/* The pages that are pinned for DMA, and how often. Overlapping ranges nest; a page is locked
 * once. */
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
    /* Sorted and disjoint; adjacent ranges differ in count */
    struct kal_pin_range *ranges;
    size_t used, room;
    /* Pins not yet undone */
    size_t live;
    /* Number of ranges read to join them; for tests */
    uint64_t looked;
    /* Has the account KAL_ACCOUNT_PINNED */
    struct kal_host *host;
    /* Set MADV_DONTFORK, because the kernel does not copy pinned pages on fork */
    bool dont_fork;
};

void kal_pins_init(struct kal_pins *pins, struct kal_host *host);
void kal_pins_destroy(struct kal_pins *pins);

/*
 * Pins the pages of [addr, addr + length). Logs a refusal, with what to do. RI_ERR_NO_RESOURCES:
 * RLIMIT_MEMLOCK, the quota, or memory. RI_ERR_ADDRESS: not mapped. RI_ERR_INVALID_ARGUMENT: empty
 * or wrapping. On an error nothing changes. May block.
 */
enum ri_status kal_pin(struct kal_pins *pins, const void *addr, uint64_t length);
/* Undoes one kal_pin of exactly this range. Never fails. */
void kal_unpin(struct kal_pins *pins, const void *addr, uint64_t length);

#endif
