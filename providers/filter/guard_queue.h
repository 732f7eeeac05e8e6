/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_queue.h - the requests of one work queue that have no completion yet. No locks.
 */
#ifndef ITAL_FILTER_GUARD_QUEUE_H
#define ITAL_FILTER_GUARD_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct guard_entry {
    uint64_t cookie;
    bool silent;  /* success makes no completion */
    bool ordered; /* what is before it here was posted before it */
    bool done;
};

/* Zero: empty. */
struct guard_queue {
    struct guard_entry *ring;
    uint32_t size, head, count;
    bool blind; /* there was no memory: from then on each completion is believed */
};

void guard_queue_close(struct guard_queue *queue);
/* ordered: no other post to the queue is under way, whose place among the requests is not known. */
void guard_queue_add(struct guard_queue *queue, uint64_t cookie, bool silent, bool ordered);
/* Takes back the newest request of that cookie: it was not posted. */
void guard_queue_retract(struct guard_queue *queue, uint64_t cookie);
/* The oldest request of that cookie completes. Success is that of a request that is not silent, and
 * the silent ones before it have succeeded, too. After a failure they may have completions: another
 * thread may have polled those and bring them later. False: no such request is outstanding. */
bool guard_queue_complete(struct guard_queue *queue, uint64_t cookie, bool success);

#endif
