/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Event dispatcher. An EVD of the DTO stream is a provider CQ; the others are bounded lists. All
 * share the notifier. The order of dequeuing is the order of arrival. A waiter that leaves with an
 * event, or although it was woken, makes another one look again, because the CQ fires once for all
 * of them.
 */
#include "evd_private.h"

#include "base/sanitizer.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* Completions taken without a poll. With a descriptor: after so many the CQ is armed. */
#define TAKES_UNTOLD 8u
/* Without a descriptor: so many are counted in the lane together. */
#define TAKES_TOGETHER 16u

/* Under queue_lock. */
void evd_unqueue(struct ual_evd *evd, struct node *node)
{
    spinlock_assert_held(&evd->queue_lock);
    DL_DELETE(evd->queue, node);
    evd_index_remove(&evd->index, node);
    evd->datagrams -= evd_is_datagram(evd, node);
    atomic_fetch_sub_explicit(&evd->queued, 1, memory_order_relaxed);
}

/* An event was taken since one found no room. */
static void overflow_taken(struct ual_evd *evd)
{
    if (atomic_load(&evd->overflow_flags) & UAL_EVD_OVERFLOW_RESETS)
        atomic_store(&evd->overflowed, false);
}

bool ual_evd_take_listed(struct ual_evd *evd, struct ual_event *event)
{
    void (*room)(struct ual_evd * evd) = NULL;
    struct node *node;
    bool short_of_spares = false, own = false;

    if (!atomic_load_explicit(&evd->queued, memory_order_acquire))
        return false;
    spinlock_lock(&evd->queue_lock);
    node = evd->queue;
    if (node) {
        evd_unqueue(evd, node);
        if (unlikely(evd->refused)) {
            room = evd->room;
            evd->refused = false;
            overflow_taken(evd);
        }
        short_of_spares = evd->spares < evd->spares_due;
        own = node->end;
        if (own)
            evd_end_take(evd, node, event);
    }
    spinlock_unlock(&evd->queue_lock);
    if (!node)
        return false;
    sanitizer_ignore_begin();
    if (!own)
        memcpy(event, evd_node_event(node), evd_event_bytes(evd->stream));
    if (short_of_spares)
        evd_node_release(evd, node);
    else if (!own)
        free(node);
    sanitizer_ignore_end();
    if (room)
        room(evd);
    return true;
}

size_t ual_evd_count_left(struct ual_evd *evd)
{
    if (!evd->cq)
        return atomic_load_explicit(&evd->queued, memory_order_relaxed);
    return ual_cq_peek(evd->cq);
}

/* A CQ that resets itself does so here, so that no dequeue pays for it. */
bool ual_evd_overflowed(struct ual_evd *evd)
{
    if (atomic_load(&evd->overflowed) && ual_evd_count_left(evd) < atomic_load(&evd->size))
        overflow_taken(evd);
    return atomic_load(&evd->overflowed);
}

/* *notify: how many of those that are left are Notification Events. */
static uint32_t count_left(struct ual_evd *evd, uint32_t *notify)
{
    if (evd->cq)
        return ual_cq_count(evd->cq, notify);
    *notify = atomic_load(&evd->queued);
    return *notify;
}

static bool is_notification(const struct ual_evd *evd, const struct ual_event *event)
{
    return !evd->cq || ual_cq_is_marked(evd->cq, &event->wc);
}

bool evd_is_reached(struct ual_evd *evd)
{
    uint32_t notify, left;

    if (notifier_is_muted(&evd->notifier))
        return false;
    left = count_left(evd, &notify);
    return notify >= evd_wanted(evd) || (evd->cq && left >= evd->size);
}

/* With fewer completions than `wanted`, whatever they are, the threshold is not reached. Another
 * thread may lower the threshold and arm for the new one before this one arms for the old one: so
 * the threshold is read again after arming. */
void evd_arm_for_threshold(struct ual_evd *evd)
{
    uint32_t notify, wanted;

    do {
        wanted = evd_wanted(evd);
        if (ual_cq_count(evd->cq, &notify) < wanted)
            ual_cq_arm_nth(evd->cq, wanted);
        else
            ual_cq_arm(evd->cq, RI_ARM_NOTIFY_MARKED);
        atomic_thread_fence(memory_order_seq_cst);
    } while (evd_wanted(evd) < wanted);
}

bool ual_evd_notify_again(struct ual_evd *evd)
{
    ual_evd_arm(evd);
    atomic_thread_fence(memory_order_seq_cst);
    return evd_is_reached(evd);
}

/* The event was taken while the descriptor was lowered, or was not to be raised. Raises it if this
 * event and those that are left were enough. */
static void raise_for_remaining(struct ual_evd *evd, const struct ual_event *event, bool if_none)
{
    uint32_t notify, left = count_left(evd, &notify);

    if ((left || if_none) && notify + is_notification(evd, event) >= evd_wanted(evd) &&
        !notifier_is_muted(&evd->notifier))
        notifier_raise_fd(&evd->notifier);
}

/* The EVD was empty: lowers the descriptor, arms, then checks once more. An event found then keeps
 * the descriptor raised until the next dequeue that finds nothing. */
static bool take_after_lowering(struct ual_evd *evd, struct ual_event *event)
{
    notifier_lower(&evd->notifier);
    ual_evd_arm(evd);
    atomic_thread_fence(memory_order_seq_cst);
    if (!ual_evd_take(evd, event))
        return false;
    raise_for_remaining(evd, event, true);
    return true;
}

/* Also where the CQ did not fire. A consumer that uses a descriptor does not poll: an armed CQ
 * tells the provider not to hold its posts back for a next poll. */
static void arm_again(struct ual_evd *evd, const struct ual_event *event)
{
    ual_evd_arm(evd);
    atomic_thread_fence(memory_order_seq_cst);
    raise_for_remaining(evd, event, false);
}

/* One run, whose events the caller takes at once: no system call raises the descriptor for them. */
static bool poll_and_take(struct ual_evd *evd, struct ual_event *event, bool look)
{
    bool mine = notifier_begin_taking(&evd->notifier);

    feed_poll_all(&evd->feed, ual_evd_first(evd), notifier_listens(&evd->notifier), look);
    if (mine)
        notifier_end_taking(&evd->notifier);
    if (!ual_evd_take(evd, event))
        return false; /* the caller arms */
    arm_again(evd, event);
    return true;
}

enum ri_status ual_evd_found_nothing(struct ual_evd *evd, struct ual_event *event)
{
    if (likely(ual_device_alive(evd->object.device) == RI_OK))
        return ITAL_ERR_EMPTY;
    atomic_thread_fence(memory_order_acquire);
    if (ual_evd_take(evd, event))
        return RI_OK;
    if (evd->notifier.fd >= 0) /* its consumer wakes and gets the same status */
        notifier_raise_fd(&evd->notifier);
    return RI_ERR_DEVICE;
}

/* See notifier.h for what the descriptor promises. */
static enum ri_status dequeue_with_fd(struct ual_evd *evd, struct ual_event *event)
{
    struct notifier *notifier = &evd->notifier;

    if (poll_and_take(evd, event, false) ||
        (notifier_in_vain(notifier) && poll_and_take(evd, event, true)) ||
        take_after_lowering(evd, event)) {
        if (is_notification(evd, event))
            notifier_took(notifier);
        return RI_OK;
    }
    notifier_found_nothing(notifier);
    return ual_evd_found_nothing(evd, event);
}

/* Counts a take. True: TAKES_TOGETHER of them are complete. By hand: compilers need four
 * instructions for these two. */
static inline bool count_take(struct ual_evd *evd)
{
#if defined(__x86_64__) && defined(__GCC_ASM_FLAG_OUTPUTS__)
    bool whole;

    __asm__("addb %2, %0" : "+m"(evd->takes), "=@ccc"(whole) : "i"(256 / TAKES_TOGETHER));
    return whole;
#else
    unsigned char takes = (unsigned char)(256 / TAKES_TOGETHER +
                                          atomic_load_explicit(&evd->takes, memory_order_relaxed));

    atomic_store_explicit(&evd->takes, takes, memory_order_relaxed);
    return !takes;
#endif
}

/* A consumer that streams takes completions without a poll for long. Like one that polls it does
 * not need the background thread. The takes are counted in the lane in batches, because consumers
 * of its other EVDs write the same counter. */
static __attribute__((noinline)) void count_takes(struct ual_evd *evd)
{
    atomic_uint *takes = atomic_load_explicit(&evd->feed.takes, memory_order_relaxed);

    atomic_store_explicit(takes, atomic_load_explicit(takes, memory_order_relaxed) + TAKES_TOGETHER,
                          memory_order_relaxed);
}

/* The event was queued already. A consumer that always finds one never arms: arm now and then, or
 * the provider takes it for one that polls. */
static void take_with_fd(struct ual_evd *evd, const struct ual_event *event)
{
    unsigned char takes = atomic_load_explicit(&evd->takes, memory_order_relaxed);

    if (is_notification(evd, event))
        notifier_took(&evd->notifier);
    atomic_store_explicit(&evd->takes, ++takes, memory_order_relaxed);
    if (takes % TAKES_UNTOLD == 0)
        ual_evd_arm(evd);
}

enum ri_status ual_evd_dequeue(struct ual_evd *evd, struct ual_event *event)
{
    if (ual_evd_take(evd, event)) {
        if (unlikely(evd->notifier.fd >= 0))
            take_with_fd(evd, event);
        else if (unlikely(count_take(evd)))
            count_takes(evd);
        return RI_OK;
    }
    if (evd->notifier.fd >= 0)
        return dequeue_with_fd(evd, event);
    ual_evd_poll_lanes(evd);
    return ual_evd_take(evd, event) ? RI_OK : ual_evd_found_nothing(evd, event);
}
