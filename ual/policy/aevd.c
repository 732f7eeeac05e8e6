/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Aggregate EVDs. An aggregate has a notifier and a feed like every EVD, so waits, descriptors and
 * callbacks are those of the others; only its way to take an event is its own. It holds no events:
 * it holds a list of the members that have some.
 *
 * THE READY LIST. A member is in it, or its next notification puts it there: its notifier's
 * observer does that. A thread that finds a member empty takes it out of the list first, then arms
 * it, then looks again. An event that comes before the look is found by it; one that comes later
 * finds the member armed and not in the list. So the cost of an event does not depend on how many
 * members there are.
 *
 * EVENTS OR NOTIFICATIONS. An aggregate that yields events takes one from the first ready member
 * and moves that member to the end of the list. One that yields notifications takes the member out
 * and arms it: what comes from then on makes it ready again. A member that was emptied meanwhile is
 * passed over.
 *
 * EVENTS THAT DO NOT NOTIFY make no member ready. An aggregate that yields events and has no ready
 * member checks a few members in turn (SWEEP). So a consumer that polls finds those events, too, at
 * a cost that does not depend on the number of members.
 *
 * A MEMBER LEAVES while other threads take from it for the aggregate: they count themselves in
 * `takers` under the lock, and the member waits for them. `attached` keeps such a thread from
 * putting it back into the list.
 */
#include "aevd.h"

#include <sched.h>
#include <stdlib.h>
#include <utlist.h>

#define SWEEP 8u /* members; a dequeue that finds nothing sweeps twice */

struct member {
    struct notifier_observer observer; /* first: of the EVD's notifier */
    struct ual_evd *evd;
    struct aggregate *aggregate;
    bool attached, ready; /* under aggregate->lock */
    atomic_uint takers;   /* rises under aggregate->lock only */
    struct member *prev, *next;
    struct member *prev_ready, *next_ready;
};

struct aggregate {
    struct ual_evd *evd; /* whose `queued` counts the ready ones */
    bool notifications;
    struct spinlock lock;
    struct member *members, *ready;
    uint64_t looks; /* checks of members */
};

/* --- the ready list --- */

/* False: it is in the list already, or left the aggregate. */
static bool add_ready(struct member *member)
{
    struct aggregate *aggregate = member->aggregate;
    bool added;

    spinlock_lock(&aggregate->lock);
    added = member->attached && !member->ready;
    if (added) {
        member->ready = true;
        DL_APPEND2(aggregate->ready, member, prev_ready, next_ready);
        /* In one order with the flag of the descriptor: notifier_lower(). */
        atomic_fetch_add(&aggregate->evd->queued, 1);
    }
    spinlock_unlock(&aggregate->lock);
    return added;
}

/* Under the lock. */
static void drop_ready(struct member *member)
{
    struct aggregate *aggregate = member->aggregate;

    if (!member->ready)
        return;
    member->ready = false;
    DL_DELETE2(aggregate->ready, member, prev_ready, next_ready);
    atomic_fetch_sub_explicit(&aggregate->evd->queued, 1, memory_order_relaxed);
}

static void remove_ready(struct member *member)
{
    spinlock_lock(&member->aggregate->lock);
    drop_ready(member);
    spinlock_unlock(&member->aggregate->lock);
}

static void make_ready(struct member *member)
{
    if (add_ready(member))
        notifier_raise(&member->aggregate->evd->notifier);
}

static void member_raised(struct notifier_observer *observer)
{
    make_ready((struct member *)observer); /* its first member */
}

/* Under the lock. */
static void hold(struct member *member)
{
    atomic_fetch_add_explicit(&member->takers, 1, memory_order_relaxed);
    member->aggregate->looks++;
}

static void release(struct member *member)
{
    atomic_fetch_sub_explicit(&member->takers, 1, memory_order_release);
}

/* The first ready member. It becomes the last, or leaves the list. NULL: none. The caller releases
 * it. */
static struct member *hold_first(struct aggregate *aggregate, bool remove)
{
    struct member *member = NULL;

    if (!atomic_load_explicit(&aggregate->evd->queued, memory_order_acquire))
        return NULL;
    spinlock_lock(&aggregate->lock);
    member = aggregate->ready;
    if (member) {
        hold(member);
        if (remove) {
            drop_ready(member);
        } else if (member->next_ready) {
            DL_DELETE2(aggregate->ready, member, prev_ready, next_ready);
            DL_APPEND2(aggregate->ready, member, prev_ready, next_ready);
        }
    }
    spinlock_unlock(&aggregate->lock);
    return member;
}

/* --- taking --- */

/* The member stays in the list while it has more events. Else it is armed. */
static bool take_from(struct member *member, struct ual_event *event)
{
    struct ual_evd *evd = member->evd;
    bool taken = ual_evd_take(evd, event), reached;

    if (taken && ual_evd_count_left(evd))
        return true;
    remove_ready(member);
    reached = ual_evd_notify_again(evd);
    if (!taken) {
        taken = ual_evd_take(evd, event);
        reached = taken && ual_evd_count_left(evd);
    }
    if (reached)
        make_ready(member);
    return taken;
}

/* Members with events that did not notify become ready. Nobody is woken. */
static bool sweep(struct aggregate *aggregate)
{
    struct member *looked_at[SWEEP], *member;
    size_t count = 0;
    bool found = false;

    spinlock_lock(&aggregate->lock);
    DL_FOREACH (aggregate->members, member) {
        hold(member);
        looked_at[count++] = member;
        if (count == SWEEP)
            break;
    }
    for (size_t i = 0; i < count; i++) {
        DL_DELETE(aggregate->members, looked_at[i]);
        DL_APPEND(aggregate->members, looked_at[i]);
    }
    spinlock_unlock(&aggregate->lock);
    for (size_t i = 0; i < count; i++) {
        found |= ual_evd_count_left(looked_at[i]->evd) && add_ready(looked_at[i]);
        release(looked_at[i]);
    }
    return found;
}

static bool take_from_ready(struct aggregate *aggregate, struct ual_event *event)
{
    struct member *member;
    bool taken = false;

    while (!taken && (member = hold_first(aggregate, false))) {
        taken = take_from(member, event);
        release(member);
    }
    return taken;
}

static bool take_event(struct ual_evd *evd, struct ual_event *event)
{
    struct aggregate *aggregate = evd->aggregate;

    return take_from_ready(aggregate, event) ||
           (sweep(aggregate) && take_from_ready(aggregate, event));
}

static bool take_notification(struct ual_evd *evd, struct ual_event *event)
{
    struct member *member;
    bool taken = false;

    while (!taken && (member = hold_first(evd->aggregate, true))) {
        taken = ual_evd_notify_again(member->evd);
        event->ready = member->evd->object.handle;
        release(member);
    }
    event->stream = UAL_STREAM_NOTIFICATION;
    event->evd = evd->object.handle;
    return taken;
}

enum ri_status ual_aevd_take(struct ual_evd *evd, struct ual_event *event)
{
    return take_event(evd, event) ? RI_OK : ITAL_ERR_EMPTY;
}

/* The member may have left meanwhile, or be gone. */
void ual_aevd_requeue(struct ual_evd *evd, const struct ual_event *event)
{
    pthread_mutex_t *lock = &ual_ia_of(evd->object.device)->lock;
    const struct ual_evd *member;

    pthread_mutex_lock(lock);
    member = ual_lookup(event->ready, UAL_EVD);
    if (member && member->member && member->member->aggregate == evd->aggregate)
        make_ready(member->member);
    pthread_mutex_unlock(lock);
}

uint64_t aevd_polls(const struct ual_evd *evd)
{
    return evd->aggregate->looks;
}

/* --- life --- */

enum ri_status aevd_open(struct ual_evd *evd, bool notifications)
{
    struct aggregate *aggregate = calloc(1, sizeof(*aggregate));

    if (!aggregate)
        return RI_ERR_NO_RESOURCES;
    aggregate->evd = evd;
    aggregate->notifications = notifications;
    spinlock_init(&aggregate->lock);
    evd->aggregate = aggregate;
    evd->take = notifications ? take_notification : take_event;
    return RI_OK;
}

void aevd_close(struct ual_evd *evd)
{
    free(evd->aggregate);
}

/* --- members --- */

/* Under ia->lock, as unlink_member. */
static enum ri_status link_member(struct member *member)
{
    struct ual_evd *evd = member->evd;
    struct aggregate *aggregate = member->aggregate;
    enum ri_status status = RI_OK;

    if (evd->member)
        status = ITAL_ERR_EXISTS;
    else if (evd->callback)
        status = RI_ERR_INVALID_STATE;
    if (status == RI_OK)
        status = waiters_refuse(&evd->notifier.waiters, RI_ERR_INVALID_STATE);
    if (status != RI_OK)
        return status;
    notifier_observe(&evd->notifier, &member->observer);
    evd->member = member;
    atomic_fetch_add(&aggregate->evd->bound, 1);
    feed_join(&evd->feed, &aggregate->evd->feed);
    spinlock_lock(&aggregate->lock);
    DL_APPEND(aggregate->members, member);
    member->attached = true;
    spinlock_unlock(&aggregate->lock);
    if (ual_evd_notify_again(evd))
        make_ready(member);
    return RI_OK;
}

/* Waits are still refused. */
static struct member *unlink_member(struct ual_evd *evd)
{
    struct member *member = evd->member;

    if (!member)
        return NULL;
    evd->member = NULL;
    notifier_unobserve(&evd->notifier);
    feed_part(&evd->feed);
    spinlock_lock(&member->aggregate->lock);
    member->attached = false;
    drop_ready(member);
    DL_DELETE(member->aggregate->members, member);
    spinlock_unlock(&member->aggregate->lock);
    return member;
}

/* NULL: it was in none. The aggregate that it was in may be gone when this returns. */
static struct member *leave(struct ual_evd *evd)
{
    struct member *member;

    pthread_mutex_lock(&ual_ia_of(evd->object.device)->lock);
    member = unlink_member(evd);
    pthread_mutex_unlock(&ual_ia_of(evd->object.device)->lock);
    if (!member)
        return NULL;
    while (atomic_load_explicit(&member->takers, memory_order_acquire))
        sched_yield();
    atomic_fetch_sub(&member->aggregate->evd->bound, 1);
    return member;
}

static enum ri_status join(struct ual_evd *evd, struct member *member, struct ual_evd *aggregate)
{
    enum ri_status status;

    *member = (struct member){
        .observer.raised = member_raised,
        .evd = evd,
        .aggregate = aggregate->aggregate,
    };
    pthread_mutex_lock(&ual_ia_of(evd->object.device)->lock);
    status = link_member(member);
    pthread_mutex_unlock(&ual_ia_of(evd->object.device)->lock);
    return status;
}

/* Another thread may have put it into an aggregate again, or given it a callback. */
static void admit_waits(struct ual_evd *evd)
{
    pthread_mutex_t *lock = &ual_ia_of(evd->object.device)->lock;

    pthread_mutex_lock(lock);
    if (!evd->member && !evd->callback)
        waiters_admit(&evd->notifier.waiters);
    pthread_mutex_unlock(lock);
}

void aevd_detach(struct ual_evd *evd)
{
    struct member *member = leave(evd);

    if (!member)
        return;
    admit_waits(evd);
    free(member);
}

/* A change from one aggregate to another uses the same memory, so it does not fail. */
enum ri_status ual_evd_set_aggregate(struct ual_evd *evd, struct ual_evd *aggregate)
{
    enum ri_status status;
    struct member *member;

    if (aggregate &&
        (!aggregate->aggregate || evd->aggregate || evd->object.device != aggregate->object.device))
        return RI_ERR_INVALID_ARGUMENT;
    if (aggregate == ual_evd_aggregate(evd))
        return RI_OK;
    if (!aggregate) {
        aevd_detach(evd);
        return RI_OK;
    }
    member = leave(evd);
    if (!member)
        member = malloc(sizeof(*member));
    if (!member)
        return RI_ERR_NO_RESOURCES;
    status = join(evd, member, aggregate);
    if (status != RI_OK)
        free(member);
    return status;
}

struct ual_evd *ual_evd_aggregate(struct ual_evd *evd)
{
    pthread_mutex_t *lock = &ual_ia_of(evd->object.device)->lock;
    struct ual_evd *aggregate;

    pthread_mutex_lock(lock);
    aggregate = evd->member ? evd->member->aggregate->evd : NULL;
    pthread_mutex_unlock(lock);
    return aggregate;
}
