/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pinned pages, counted by range. Only for providers with DMA: those that copy need none.
 *
 * kal_pin has three steps, so that a failure changes nothing. It finds the unlocked parts of the
 * range, charges the account, and locks each part by mlock. Only then, with memory reserved, it
 * changes the table.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "host_private.h"

#include "base/checked.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Since Linux 5.12 fork copies pages that a device has pinned instead of sharing them. */
static bool fork_shares_pinned(void)
{
    struct utsname about;
    unsigned major, minor;

    if (uname(&about) || sscanf(about.release, "%u.%u", &major, &minor) != 2)
        return true;
    return major < 5 || (major == 5 && minor < 12);
}

void kal_pins_init(struct kal_pins *pins, struct kal_host *host)
{
    memset(pins, 0, sizeof *pins);
    pthread_mutex_init(&pins->lock, NULL);
    pins->host = host;
    pins->dont_fork = fork_shares_pinned();
}

void kal_pins_destroy(struct kal_pins *pins)
{
    free(pins->ranges);
    pthread_mutex_destroy(&pins->lock);
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

/* The next part of [*at, end) without a range; moves *at behind it. False: there is none. */
static bool next_gap(const struct kal_pins *pins, uintptr_t *at, uintptr_t end,
                     uintptr_t *gap_start, uintptr_t *gap_end)
{
    size_t i = first_behind(pins, *at);

    while (*at < end && i < pins->used && pins->ranges[i].start <= *at)
        *at = pins->ranges[i++].end;
    if (*at >= end)
        return false;
    *gap_start = *at;
    *gap_end = i < pins->used && pins->ranges[i].start < end ? pins->ranges[i].start : end;
    *at = *gap_end;
    return true;
}

static void unlock_pages(struct kal_pins *pins, uintptr_t start, uintptr_t end)
{
    if (pins->dont_fork)
        madvise((void *)start, end - start, MADV_DOFORK);
    munlock((void *)start, end - start);
    kal_account_give(&pins->host->account, KAL_ACCOUNT_PINNED, end - start);
}

static bool is_mapped(uintptr_t start, uintptr_t end)
{
    unsigned char pages[1024];
    uintptr_t step = sizeof pages * (uintptr_t)sysconf(_SC_PAGESIZE);

    for (; start < end; start += end - start < step ? end - start : step)
        if (mincore((void *)start, end - start < step ? end - start : step, pages))
            return false;
    return true;
}

static enum ri_status refused(uintptr_t start, uintptr_t end, int error)
{
    unsigned long long length = end - start;
    struct rlimit limit = { 0, 0 };

    if (error == ENOMEM && !is_mapped(start, end)) {
        kal_log(RI_LOG_ERROR, "%llu octets at %p cannot be pinned: not all of them are mapped",
                length, (void *)start);
        return RI_ERR_ADDRESS;
    }
    getrlimit(RLIMIT_MEMLOCK, &limit);
    kal_log(RI_LOG_ERROR,
            "%llu octets cannot be pinned: %s; the limit of locked memory is %llu octets, "
            "raise it (ulimit -l, LimitMEMLOCK=, /etc/security/limits.conf)",
            length, strerror(error), (unsigned long long)limit.rlim_cur);
    return RI_ERR_NO_RESOURCES;
}

/* mlock(2), but returns 0 or an error number. If the limit of locked memory refuses, the host may
 * raise it; that may change errno. */
static int lock(struct kal_pins *pins, uintptr_t start, uintptr_t end)
{
    struct kal_host *host = pins->host;
    uint64_t pinned = kal_host_holds(host, KAL_ACCOUNT_PINNED);
    int error = mlock((void *)start, end - start) ? errno : 0;

    if ((error == ENOMEM || error == EAGAIN || error == EPERM) && is_mapped(start, end) &&
        host->ops->raise_memlock(host->state, pinned))
        error = mlock((void *)start, end - start) ? errno : 0;
    return error;
}

static enum ri_status lock_pages(struct kal_pins *pins, uintptr_t start, uintptr_t end)
{
    struct kal_host *host = pins->host;
    const struct policy_rule *rule;
    int error;

    if (!kal_host_take(host, KAL_ACCOUNT_PINNED, end - start, true)) {
        rule = kal_host_limit_refuses(host, KAL_ACCOUNT_PINNED, end - start);
        if (rule) {
            kal_log(RI_LOG_ERROR,
                    "%llu more octets cannot be pinned: the limit is %llu by %s:%u, the host's "
                    "policy; ask root to raise it",
                    (unsigned long long)(end - start), (unsigned long long)rule->amount,
                    rule->source, rule->line);
            return RI_ERR_NO_RESOURCES;
        }
        kal_log(RI_LOG_ERROR,
                "%llu more octets cannot be pinned: the quota is %llu; raise "
                "max_pinned in section [quota]",
                (unsigned long long)(end - start),
                (unsigned long long)host->ops->quota(host->state, KAL_ACCOUNT_PINNED));
        return RI_ERR_NO_RESOURCES;
    }
    error = lock(pins, start, end);
    if (error) {
        /* A part of the range may be locked: unlock all */
        munlock((void *)start, end - start);
        kal_account_give(&pins->host->account, KAL_ACCOUNT_PINNED, end - start);
        return refused(start, end, error);
    }
    if (pins->dont_fork)
        madvise((void *)start, end - start, MADV_DONTFORK);
    return RI_OK;
}

/* Lock every gap of the range, or none. */
static enum ri_status lock_gaps(struct kal_pins *pins, uintptr_t start, uintptr_t end)
{
    uintptr_t at = start, gap_start, gap_end, failed;
    enum ri_status status;

    while (next_gap(pins, &at, end, &gap_start, &gap_end)) {
        status = lock_pages(pins, gap_start, gap_end);
        if (status == RI_OK)
            continue;
        failed = gap_start;
        for (at = start; next_gap(pins, &at, end, &gap_start, &gap_end) && gap_start < failed;)
            unlock_pages(pins, gap_start, gap_end);
        return status;
    }
    return RI_OK;
}

/*
 * Memory for one more pin. Every edge in the table is an edge of a live pin, so n pins make at most
 * 2n - 1 ranges and gaps. With this reserved, neither the rest of kal_pin nor kal_unpin can run out
 * of memory.
 */
static bool reserve(struct kal_pins *pins)
{
    size_t need = 2 * (pins->live + 1);
    struct kal_pin_range *more;

    if (need <= pins->room)
        return true;
    need += need / 2 + 8;
    more = realloc(pins->ranges, need * sizeof *more);
    if (!more)
        return false;
    pins->ranges = more;
    pins->room = need;
    return true;
}

static void insert(struct kal_pins *pins, size_t at, uintptr_t start, uintptr_t end, uint64_t count)
{
    memmove(&pins->ranges[at + 1], &pins->ranges[at], (pins->used - at) * sizeof *pins->ranges);
    pins->ranges[at] = (struct kal_pin_range){ start, end, count };
    pins->used++;
}

static void split(struct kal_pins *pins, uintptr_t at)
{
    size_t i = first_behind(pins, at);

    if (i == pins->used || pins->ranges[i].start >= at)
        return;
    insert(pins, i, pins->ranges[i].start, at, pins->ranges[i].count);
    pins->ranges[i + 1].start = at;
}

/* Joins adjacent ranges with the same count, around and inside [start, end]. Ranges behind that are
 * not read. */
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
        if (last->end == range->start && last->count == range->count)
            last->end = range->end;
        else
            pins->ranges[++keep] = *range;
    }
    if (keep + 1 == from)
        return;
    memmove(&pins->ranges[keep + 1], &pins->ranges[from],
            (pins->used - from) * sizeof *pins->ranges);
    pins->used -= from - keep - 1;
}

enum ri_status kal_pin(struct kal_pins *pins, const void *addr, uint64_t length)
{
    uintptr_t start, end, at, gap_start, gap_end;
    enum ri_status status = RI_ERR_NO_RESOURCES;
    size_t i;

    if (!to_pages(addr, length, &start, &end))
        return RI_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&pins->lock);
    if (!reserve(pins))
        goto unlock;
    status = lock_gaps(pins, start, end);
    if (status != RI_OK)
        goto unlock;
    for (at = start; next_gap(pins, &at, end, &gap_start, &gap_end);)
        insert(pins, first_behind(pins, gap_start), gap_start, gap_end, 0);
    split(pins, start);
    split(pins, end);
    for (i = first_behind(pins, start); i < pins->used && pins->ranges[i].start < end; i++)
        pins->ranges[i].count++;
    pins->live++;
    join(pins, start, end);
unlock:
    pthread_mutex_unlock(&pins->lock);
    return status;
}

void kal_unpin(struct kal_pins *pins, const void *addr, uint64_t length)
{
    uintptr_t start, end;
    size_t i, first, kept;

    if (!to_pages(addr, length, &start, &end))
        return;
    pthread_mutex_lock(&pins->lock);
    split(pins, start);
    split(pins, end);
    first = kept = first_behind(pins, start);
    for (i = first; i < pins->used && pins->ranges[i].start < end; i++) {
        if (--pins->ranges[i].count == 0)
            unlock_pages(pins, pins->ranges[i].start, pins->ranges[i].end);
        else
            pins->ranges[kept++] = pins->ranges[i];
    }
    memmove(&pins->ranges[kept], &pins->ranges[i], (pins->used - i) * sizeof *pins->ranges);
    pins->used -= i - kept;
    pins->live--;
    join(pins, start, end);
    pthread_mutex_unlock(&pins->lock);
}
