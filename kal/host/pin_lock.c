/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages are locked by mlock2. Locks of the kernel do not nest, so what the application has locked
 * itself must not be unlocked here. The kernel tells only how much is locked: VmLck before and
 * after a call. A mapping is locked as a whole or not at all, so the difference decides for each
 * mapping. Where VmLck is no more than what was locked here, the application has locked nothing,
 * and one call is enough.
 *
 * What the application had locked gets a block, whose release does nothing. What it locks later,
 * while it is pinned here, is unlocked with the pin.
 *
 * The system calls are made directly: sanitizers replace mlock by nothing.
 */
#include "pin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
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

static void open_lock(struct kal_pins *pins)
{
    pins->dont_fork = fork_shares_pinned();
}

static void close_lock(struct kal_pins *pins)
{
    (void)pins;
}

/* Octets that are locked in the process. False: unknown. */
static bool locked_now(uint64_t *octets)
{
    if (!kal_pin_status_number("VmLck", octets))
        return false;
    *octets *= 1024;
    return true;
}

static bool is_mapped(uintptr_t start, uintptr_t end)
{
    unsigned char pages[1024];
    uintptr_t step = sizeof(pages) * (uintptr_t)sysconf(_SC_PAGESIZE);

    for (; start < end; start += end - start < step ? end - start : step)
        if (mincore((void *)start, end - start < step ? end - start : step, pages))
            return false;
    return true;
}

/* mlock2(2), but returns 0 or an error number; EFAULT: not all of it is mapped. */
static int lock(uintptr_t start, uintptr_t end)
{
    int error = syscall(SYS_mlock2, start, end - start, 0) ? errno : 0;

    return error == ENOMEM && !is_mapped(start, end) ? EFAULT : error;
}

static void unlock(uintptr_t start, uintptr_t end)
{
    syscall(SYS_munlock, start, end - start);
}

/* The end of the part of [start, end) that one call can lock. */
static uintptr_t part_of(uintptr_t start, uintptr_t end)
{
    struct kal_mapping mapping;

    if (kal_mapping_at(start, &mapping) == 1 && mapping.start <= start && mapping.end < end)
        return mapping.end;
    return end;
}

static bool take_locked(struct kal_pins *pins, uintptr_t start, uintptr_t end, uintptr_t *stop,
                        struct kal_pin_block **block, struct kal_pin_failure *failure)
{
    struct kal_pin_block *theirs = calloc(1, sizeof(*theirs));
    uint64_t before = 0, after = 0;
    bool known = locked_now(&before), ours;
    int error;

    failure->step = KAL_PIN_AT_MEMORY;
    if (!theirs)
        return false;
    if (!known || before > pins->locked)
        end = part_of(start, end);
    error = lock(start, end);
    known = known && locked_now(&after);
    ours = known && after - before == end - start;
    if (error) {
        /* A part of it may be locked now */
        if (known && after > before)
            unlock(start, end);
        free(theirs);
        failure->step = KAL_PIN_AT_PAGES;
        failure->error = error;
        return false;
    }
    if (pins->dont_fork)
        madvise((void *)start, end - start, MADV_DONTFORK);
    *stop = end;
    if (ours) {
        pins->locked += end - start;
        free(theirs);
        *block = NULL;
        return true;
    }
    theirs->start = start;
    theirs->size = end - start;
    *block = theirs;
    return true;
}

static void give_locked(struct kal_pins *pins, uintptr_t start, uintptr_t end)
{
    if (pins->dont_fork)
        madvise((void *)start, end - start, MADV_DOFORK);
    unlock(start, end);
    pins->locked -= end - start;
}

static void give_theirs(struct kal_pins *pins, struct kal_pin_block *block)
{
    if (pins->dont_fork)
        madvise((void *)block->start, block->size, MADV_DOFORK);
    free(block);
}

static bool is_forbidden(const struct kal_mapping *mapping)
{
    return !mapping->readable && !mapping->writable;
}

static void explain_lock(struct kal_pins *pins, const struct kal_pin_failure *failure,
                         struct kal_pin_refusal *refusal)
{
    struct kal_mapping mapping;
    uint64_t locked;
    bool gap;

    if (failure->error == EFAULT) {
        kal_pin_refuse(refusal, RI_ERR_ADDRESS, "not all of it is mapped");
        return;
    }
    if (kal_mapping_find(failure->start, failure->end, is_forbidden, &mapping, &gap) && !gap) {
        kal_pin_refuse(refusal, RI_ERR_PERMISSION, "the mapping at %p allows no access",
                       (void *)mapping.start);
        return;
    }
    if (!locked_now(&locked))
        locked = pins->locked;
    kal_pin_explain_limit(refusal, "this process", failure->wanted, locked + failure->wanted);
}

const struct kal_pin_ops kal_pin_lock = { .done = "locked",
                                          .open = open_lock,
                                          .close = close_lock,
                                          .take = take_locked,
                                          .give = give_theirs,
                                          .give_pages = give_locked,
                                          .explain = explain_lock };
