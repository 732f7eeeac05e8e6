/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pinned pages, counted by range; the way of pinning is an operation.
 *
 * kal_pin has two steps, so that a failure changes nothing. It pins the parts of the range that are
 * not in the table yet, and puts each into it with count 0. Only then, and with memory reserved, it
 * raises the counts.
 *
 * A block is what the kernel releases as a whole. It stays until none of its pages is pinned any
 * more: to pin the remaining pages again would pin those that are mapped there now, and a device
 * may still use the earlier ones. For the same reason pages outside the table are pinned anew even
 * where a block that waits for its other pages still has them.
 */
#include "host_private.h"

#include "base/checked.h"
#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long to wait for what an ended process had pinned, and how often to look. */
#define WAIT_NS      CLOCK_NS_PER_S
#define LOOK_NS      CLOCK_NS_PER_MS
#define LOOK_MOST_NS (50 * CLOCK_NS_PER_MS)
/* How often another thread may take what was leased for this one. */
#define LEASES_MOST 16

void kal_pins_init(struct kal_pins *pins, struct kal_host *host, const struct kal_pin_ops *ops)
{
    pthread_condattr_t monotonic;

    memset(pins, 0, sizeof(*pins));
    pthread_mutex_init(&pins->lock, NULL);
    pthread_mutex_init(&pins->ring_lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&pins->released, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pins->host = host;
    pins->ops = ops;
    ops->open(pins);
}

static bool to_pages(const void *addr, uint64_t length, uintptr_t *start, uintptr_t *end)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)addr, last;

    if (!length || length > UINTPTR_MAX || !checked_add(first, (uintptr_t)length, &last) ||
        last > UINTPTR_MAX - page + 1)
        return false;
    *start = first & ~(page - 1);
    *end = (last + page - 1) & ~(page - 1);
    return true;
}

/* ---- the table ---- */

/* The first range that ends behind `at`. */
static size_t first_behind(const struct kal_pins *pins, uintptr_t at)
{
    size_t low = 0, high = pins->used;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (pins->ranges[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The next part of [*at, end) without a range; moves *at to it. False: there is none. */
static bool next_gap(const struct kal_pins *pins, uintptr_t *at, uintptr_t end, uintptr_t *gap_end)
{
    size_t i = first_behind(pins, *at);

    while (*at < end && i < pins->used && pins->ranges[i].start <= *at)
        *at = pins->ranges[i++].end;
    if (*at >= end)
        return false;
    *gap_end = i < pins->used && pins->ranges[i].start < end ? pins->ranges[i].start : end;
    return true;
}

/*
 * Memory for one more pin and one more block. Counts change only at edges of live pins, blocks only
 * at edges of live blocks, so n pins and m blocks make less than 2n + 2m ranges. With this
 * reserved, neither the second step of kal_pin nor kal_unpin can run out of memory.
 */
static bool reserve(struct kal_pins *pins)
{
    size_t need = 2 * (pins->live + 1) + 2 * (pins->blocks + 1);
    struct kal_pin_range *more;

    if (need <= pins->room)
        return true;
    need += need / 2 + 8;
    more = realloc(pins->ranges, need * sizeof(*more));
    if (!more)
        return false;
    pins->ranges = more;
    pins->room = need;
    return true;
}

static void insert(struct kal_pins *pins, size_t at, const struct kal_pin_range *range)
{
    memmove(&pins->ranges[at + 1], &pins->ranges[at], (pins->used - at) * sizeof(*pins->ranges));
    pins->ranges[at] = *range;
    pins->used++;
}

static void split(struct kal_pins *pins, uintptr_t at)
{
    size_t i = first_behind(pins, at);
    struct kal_pin_range low;

    if (i == pins->used || pins->ranges[i].start >= at)
        return;
    low = pins->ranges[i];
    low.end = at;
    insert(pins, i, &low);
    pins->ranges[i + 1].start = at;
}

/* Joins adjacent ranges with the same count and block, around and inside [start, end]. Ranges
 * behind that are not read. */
static void join(struct kal_pins *pins, uintptr_t start, uintptr_t end)
{
    size_t keep = first_behind(pins, start), from;

    if (!pins->used)
        return;
    if (keep > 0)
        keep--;
    for (from = keep + 1; from < pins->used && pins->ranges[from].start <= end; from++) {
        struct kal_pin_range *last = &pins->ranges[keep], *range = &pins->ranges[from];

        pins->looked++;
        if (last->end == range->start && last->count == range->count && last->block == range->block)
            last->end = range->end;
        else
            pins->ranges[++keep] = *range;
    }
    if (keep + 1 == from)
        return;
    memmove(&pins->ranges[keep + 1], &pins->ranges[from],
            (pins->used - from) * sizeof(*pins->ranges));
    pins->used -= from - keep - 1;
}

/* ---- parts of a range ---- */

static void count_octets(struct kal_pins *pins, int64_t octets)
{
    uint64_t now = atomic_load_explicit(&pins->octets, memory_order_relaxed);

    atomic_store_explicit(&pins->octets, now + (uint64_t)octets, memory_order_relaxed);
}

static void give_account(struct kal_pins *pins, uint64_t octets)
{
    count_octets(pins, -(int64_t)octets);
    kal_account_give(&pins->host->account, KAL_ACCOUNT_PINNED, octets);
}

/* The range leaves the table. */
static void release(struct kal_pins *pins, const struct kal_pin_range *range)
{
    struct kal_pin_block *block = range->block;
    uint64_t size = range->end - range->start;

    if (!block) {
        pins->ops->give_pages(pins, range->start, range->end);
        give_account(pins, size);
    } else if ((block->live -= size) == 0) {
        size = block->size;
        pins->ops->give(pins, block);
        pins->blocks--;
        give_account(pins, size);
    }
    pthread_cond_broadcast(&pins->released);
}

/* Removes the ranges of [start, end) whose count is 0. */
static void remove_unused(struct kal_pins *pins, uintptr_t start, uintptr_t end)
{
    size_t first = first_behind(pins, start), kept = first, i;

    if (!pins->used)
        return;
    for (i = first; i < pins->used && pins->ranges[i].start < end; i++) {
        if (pins->ranges[i].count == 0)
            release(pins, &pins->ranges[i]);
        else
            pins->ranges[kept++] = pins->ranges[i];
    }
    memmove(&pins->ranges[kept], &pins->ranges[i], (pins->used - i) * sizeof(*pins->ranges));
    pins->used -= i - kept;
}

static bool fail(struct kal_pin_failure *failure, int step, int error)
{
    failure->step = step;
    failure->error = error;
    return false;
}

/* Pins a first part of the gap, and puts it into the table. */
static bool take_part(struct kal_pins *pins, uintptr_t *at, uintptr_t end,
                      struct kal_pin_failure *failure)
{
    struct kal_pin_range part = { *at, end, 0, NULL };

    failure->start = *at;
    failure->end = end;
    if (!reserve(pins))
        return fail(failure, KAL_PIN_AT_MEMORY, ENOMEM);
    if (!pins->ops->take(pins, *at, end, &part.end, &part.block, failure))
        return false;
    if (part.block) {
        part.block->live = part.end - part.start;
        pins->blocks++;
    }
    insert(pins, first_behind(pins, part.start), &part);
    *at = part.end;
    return true;
}

/* The account is charged for the gap as a whole; what was not pinned is given back. */
static bool take_gap(struct kal_pins *pins, uintptr_t start, uintptr_t end,
                     struct kal_pin_failure *failure)
{
    if (!kal_host_take(pins->host, KAL_ACCOUNT_PINNED, end - start, false, &failure->rule))
        return fail(failure, KAL_PIN_AT_QUOTA, ENOMEM);
    count_octets(pins, (int64_t)(end - start));
    while (start < end) {
        if (!take_part(pins, &start, end, failure)) {
            give_account(pins, end - start);
            return false;
        }
    }
    return true;
}

/* Octets of [start, end) that are not in the table. */
static uint64_t missing(const struct kal_pins *pins, uintptr_t start, uintptr_t end)
{
    uintptr_t gap_end;
    uint64_t sum = 0;

    for (; next_gap(pins, &start, end, &gap_end); start = gap_end)
        sum += gap_end - start;
    return sum;
}

/* The first step of kal_pin. */
static bool take_gaps(struct kal_pins *pins, uintptr_t start, uintptr_t end,
                      struct kal_pin_failure *failure)
{
    uintptr_t at = start, gap_end;

    /* Edges of the pin, also where all of it is in the table */
    if (!reserve(pins))
        return fail(failure, KAL_PIN_AT_MEMORY, ENOMEM);
    for (; next_gap(pins, &at, end, &gap_end); at = gap_end) {
        if (!take_gap(pins, at, gap_end, failure)) {
            remove_unused(pins, start, end);
            failure->wanted = missing(pins, start, end);
            return false;
        }
    }
    return true;
}

/* The second step. */
static void count_up(struct kal_pins *pins, uintptr_t start, uintptr_t end)
{
    split(pins, start);
    split(pins, end);
    for (size_t i = first_behind(pins, start); i < pins->used && pins->ranges[i].start < end; i++)
        pins->ranges[i].count++;
    pins->live++;
    atomic_store_explicit(&pins->pins, pins->live, memory_order_relaxed);
    join(pins, start, end);
}

/* ---- what a refusal leads to ---- */

uint64_t kal_pins_charged(const struct kal_pins *pins, uint64_t wanted)
{
    uint64_t overhead = pins->ops->overhead ? pins->ops->overhead(pins) : 0;

    return atomic_load(&pins->octets) + wanted + overhead;
}

/* The limit of locked memory may be the reason. */
static bool is_limit(const struct kal_pin_failure *failure)
{
    if (failure->step == KAL_PIN_AT_SETUP)
        return failure->error == ENOMEM;
    return failure->step == KAL_PIN_AT_PAGES &&
           (failure->error == ENOMEM || failure->error == EAGAIN || failure->error == EPERM);
}

/*
 * The host leases what the range still wants. That may wait for kald, so the lock is released: a
 * lane that pins or unpins does not wait. Another thread may take it then. False: the host, or its
 * policy, refuses.
 */
static bool lease(struct kal_pins *pins, uintptr_t start, uintptr_t end,
                  struct kal_pin_failure *failure)
{
    struct kal_host *host = pins->host;
    uint64_t lacks;

    failure->wanted = missing(pins, start, end);
    failure->rule = kal_host_limit_refuses(host, KAL_ACCOUNT_PINNED, failure->wanted);
    if (failure->rule)
        return fail(failure, KAL_PIN_AT_QUOTA, ENOMEM);
    if (!kal_account_missing(&host->account, KAL_ACCOUNT_PINNED, failure->wanted))
        return true;
    pthread_mutex_unlock(&pins->lock);
    do
        lacks = kal_account_missing(&host->account, KAL_ACCOUNT_PINNED, failure->wanted);
    while (lacks && host->ops->lease(host->state, KAL_ACCOUNT_PINNED, lacks, true));
    pthread_mutex_lock(&pins->lock);
    /* A refusal may come after a grant that was another question's */
    if (!lacks || !kal_account_missing(&host->account, KAL_ACCOUNT_PINNED, failure->wanted))
        return true;
    return fail(failure, KAL_PIN_AT_QUOTA, ENOMEM);
}

/* The host may raise the limit. Both ways count there. Without the lock, as in lease(). */
static bool raised(struct kal_pins *pins, const struct kal_pin_failure *failure)
{
    struct kal_host *host = pins->host;
    uint64_t total = kal_host_holds(host, KAL_ACCOUNT_PINNED) - atomic_load(&pins->octets) +
                     kal_pins_charged(pins, failure->wanted);
    bool done;

    pthread_mutex_unlock(&pins->lock);
    done = host->ops->raise_memlock(host->state, total);
    pthread_mutex_lock(&pins->lock);
    return done;
}

/*
 * True: try again. The kernel returns the charge of a process that has ended, or of a ring that was
 * closed, a little later, and reports it to nobody. So this looks again and again, for a second, if
 * the limit has room for this process alone. A release by another thread wakes it.
 */
static bool wait_for_charge(struct kal_pins *pins, const struct kal_pin_failure *failure,
                            uint64_t *until, uint64_t *pause)
{
    uint64_t now = clock_now(), next;
    struct timespec at;

    if (!pins->ops->by_user || !is_limit(failure) ||
        !kal_pin_limit_allows(kal_pins_charged(pins, failure->wanted)))
        return false;
    if (!*until) {
        *until = clock_after(now, WAIT_NS);
        *pause = LOOK_NS;
    }
    if (now >= *until)
        return false;
    next = clock_after(now, *pause);
    at = (struct timespec){ .tv_sec = (time_t)(next / CLOCK_NS_PER_S),
                            .tv_nsec = (long)(next % CLOCK_NS_PER_S) };
    pthread_cond_timedwait(&pins->released, &pins->lock, &at);
    *pause = *pause * 2 < LOOK_MOST_NS ? *pause * 2 : LOOK_MOST_NS;
    return true;
}

static void explain_quota(const struct kal_pins *pins, const struct kal_pin_failure *failure,
                          struct kal_pin_refusal *refusal)
{
    struct kal_host *host = pins->host;
    unsigned long long wanted = failure->wanted;
    const struct policy_rule *rule = failure->rule;
    enum kal_refusal why = kal_host_refusal(host, KAL_ACCOUNT_PINNED, wanted, &rule);

    switch (why) {
    case KAL_REFUSAL_LIMIT:
    case KAL_REFUSAL_USER_LIMIT:
        kal_pin_refuse(refusal, RI_ERR_NO_RESOURCES,
                       "%llu more octets would pass the limit of %llu by %s:%u, the host's "
                       "policy%s; ask root to raise it",
                       wanted, (unsigned long long)rule->amount, rule->source, rule->line,
                       why == KAL_REFUSAL_LIMIT ? "" : ", for all processes of the user");
        return;
    case KAL_REFUSAL_QUOTA:
        kal_pin_refuse(refusal, RI_ERR_NO_RESOURCES,
                       "%llu more octets would pass the quota of %llu, of which %llu are used; "
                       "raise max_pinned in section [quota]",
                       wanted,
                       (unsigned long long)host->ops->quota(host->state, KAL_ACCOUNT_PINNED),
                       (unsigned long long)kal_host_holds(host, KAL_ACCOUNT_PINNED));
        return;
    case KAL_REFUSAL_NOW:
        kal_pin_refuse(refusal, RI_ERR_NO_RESOURCES,
                       "%llu more octets cannot be had at this moment: they were in use, or kald "
                       "has not granted them yet; try again",
                       wanted);
    }
}

static void explain(struct kal_pins *pins, const struct kal_pin_failure *failure,
                    struct kal_pin_refusal *refusal)
{
    if (failure->step == KAL_PIN_AT_MEMORY)
        kal_pin_refuse(refusal, RI_ERR_NO_RESOURCES, "there is no memory");
    else if (failure->step == KAL_PIN_AT_QUOTA)
        explain_quota(pins, failure, refusal);
    else
        pins->ops->explain(pins, failure, refusal);
}

enum ri_status kal_pin(struct kal_pins *pins, const void *addr, uint64_t length, bool may_wait,
                       struct kal_pin_refusal *refusal)
{
    uint64_t until = 0, pause = 0;
    struct kal_pin_failure failure = { 0 };
    bool done = false, asked = false;
    unsigned leases = LEASES_MOST;
    uintptr_t start, end;

    if (!to_pages(addr, length, &start, &end))
        return kal_pin_refuse(refusal, RI_ERR_INVALID_ARGUMENT, "the range is empty or wraps");
    pthread_mutex_lock(&pins->lock);
    for (;;) {
        if (may_wait && !lease(pins, start, end, &failure))
            break;
        done = take_gaps(pins, start, end, &failure);
        if (done || !may_wait)
            break;
        if (failure.step == KAL_PIN_AT_QUOTA) {
            if (failure.rule || !--leases)
                break;
            continue;
        }
        if (!asked && is_limit(&failure)) {
            asked = true;
            if (raised(pins, &failure))
                continue;
        }
        if (!wait_for_charge(pins, &failure, &until, &pause))
            break;
    }
    if (done)
        count_up(pins, start, end);
    else
        explain(pins, &failure, refusal);
    pthread_mutex_unlock(&pins->lock);
    return done ? RI_OK : refusal->status;
}

bool kal_pins_any(struct kal_pins *pins, const void *addr, uint64_t length)
{
    uintptr_t start, end;
    bool any;
    size_t i;

    if (!to_pages(addr, length, &start, &end))
        return false;
    pthread_mutex_lock(&pins->lock);
    i = first_behind(pins, start);
    any = i < pins->used && pins->ranges[i].start < end;
    pthread_mutex_unlock(&pins->lock);
    return any;
}

void kal_unpin(struct kal_pins *pins, const void *addr, uint64_t length)
{
    uintptr_t start, end;

    if (!to_pages(addr, length, &start, &end))
        return;
    pthread_mutex_lock(&pins->lock);
    split(pins, start);
    split(pins, end);
    for (size_t i = first_behind(pins, start); i < pins->used && pins->ranges[i].start < end; i++)
        pins->ranges[i].count--;
    remove_unused(pins, start, end);
    pins->live--;
    atomic_store_explicit(&pins->pins, pins->live, memory_order_relaxed);
    join(pins, start, end);
    pthread_mutex_unlock(&pins->lock);
}

/* What a program has forgotten is released, too. */
void kal_pins_destroy(struct kal_pins *pins)
{
    for (size_t i = 0; i < pins->used; i++)
        pins->ranges[i].count = 0;
    remove_unused(pins, 0, UINTPTR_MAX);
    pins->ops->close(pins);
    free(pins->ranges);
    pthread_cond_destroy(&pins->released);
    pthread_mutex_destroy(&pins->ring_lock);
    pthread_mutex_destroy(&pins->lock);
}
