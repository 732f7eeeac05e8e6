/* SPDX-License-Identifier: BSD-3-Clause */
#include "notifier.h"

#include "ual/progress/descriptors.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEEDED_FIRST 2u
#define NEEDED_MOST  64u
#define USEFUL_LEAST 16u /* useful wake-ups that restore NEEDED_FIRST */

static void close_fds(struct notifier *notifier)
{
    if (notifier->fd >= 0)
        close(notifier->fd);
    if (notifier->event_fd >= 0)
        close(notifier->event_fd);
    notifier->fd = notifier->event_fd = -1;
}

enum ri_status notifier_open(struct notifier *notifier, const struct feed *feed, bool with_fd)
{
    struct epoll_event event = { .events = EPOLLIN };

    *notifier = (struct notifier){
        .feed = feed,
        .fd = -1,
        .event_fd = -1,
        .needed = NEEDED_FIRST,
    };
    if (!with_fd)
        return RI_OK;
    notifier->fd = epoll_create1(EPOLL_CLOEXEC);
    notifier->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (notifier->fd < 0 || notifier->event_fd < 0 ||
        epoll_ctl(notifier->fd, EPOLL_CTL_ADD, notifier->event_fd, &event) < 0) {
        kal_log(RI_LOG_ERROR, "cannot make the descriptor of an EVD: %s; raise RLIMIT_NOFILE",
                strerrordesc_np(errno));
        close_fds(notifier);
        return RI_ERR_NO_RESOURCES;
    }
    ual_fd_track(notifier->fd);
    ual_fd_track(notifier->event_fd);
    return RI_OK;
}

/* What closes a lane's descriptors has closed these, too. */
static bool has_own_fds(const struct notifier *notifier)
{
    return !ual_lane_is_broken(feed_first(notifier->feed));
}

static void listen_to_lane(struct notifier *notifier)
{
    struct epoll_event event = { .events = EPOLLIN };
    struct ual_lane *lane = feed_first(notifier->feed);

    if (ual_lane_is_broken(lane) || !ual_lane_take_listener(lane))
        return;
    /* The kernel refuses a set that is nested too deeply: it does not listen then. */
    if (epoll_ctl(notifier->fd, EPOLL_CTL_ADD, ual_lane_epoll_fd(lane), &event) < 0) {
        ual_lane_give_listener(lane);
        return;
    }
    notifier->heard = lane;
    atomic_store_explicit(&notifier->listening, true, memory_order_relaxed);
    notifier->useful = 0;
}

static void stop_listening(struct notifier *notifier)
{
    if (has_own_fds(notifier))
        epoll_ctl(notifier->fd, EPOLL_CTL_DEL, ual_lane_epoll_fd(notifier->heard), NULL);
    ual_lane_give_listener(notifier->heard);
    atomic_store_explicit(&notifier->listening, false, memory_order_relaxed);
}

void notifier_close(struct notifier *notifier)
{
    waiters_await_leavers(
        &notifier->waiters); /* the last one that left may be about to drop its lock */
    if (notifier->fd < 0)
        return;
    if (notifier_listens(notifier))
        stop_listening(notifier);
    ual_fd_forget(notifier->fd);
    ual_fd_forget(notifier->event_fd);
    if (has_own_fds(notifier))
        close_fds(notifier);
}

/* Under listen_lock. */
static void adapt_listening(struct notifier *notifier, bool taken)
{
    bool listening = atomic_load_explicit(&notifier->listening, memory_order_relaxed);

    spinlock_assert_held(&notifier->listen_lock);
    if (!listening) {
        if (!notifier_is_muted(notifier) &&
            atomic_load_explicit(&notifier->handed, memory_order_relaxed) >= notifier->needed)
            listen_to_lane(notifier);
    } else if (taken) {
        if (++notifier->useful >= USEFUL_LEAST)
            notifier->needed = NEEDED_FIRST;
    } else {
        stop_listening(notifier);
        atomic_store_explicit(&notifier->handed, 0, memory_order_relaxed);
        notifier->needed = notifier->needed < NEEDED_MOST ? 2 * notifier->needed : NEEDED_MOST;
    }
}

void notifier_found_nothing(struct notifier *notifier)
{
    bool taken = atomic_exchange_explicit(&notifier->taken, false, memory_order_relaxed);

    if (!atomic_load_explicit(&notifier->listening, memory_order_relaxed) &&
        !atomic_load_explicit(&notifier->handed, memory_order_relaxed))
        return;
    if (!spinlock_try(&notifier->listen_lock))
        return;
    adapt_listening(notifier, taken);
    spinlock_unlock(&notifier->listen_lock);
}

bool notifier_begin_taking(struct notifier *notifier)
{
    unsigned long nobody = 0;

    return atomic_compare_exchange_strong_explicit(&notifier->taker, &nobody,
                                                   (unsigned long)pthread_self(),
                                                   memory_order_acquire, memory_order_relaxed);
}

void notifier_end_taking(struct notifier *notifier)
{
    atomic_store_explicit(&notifier->taker, 0, memory_order_release);
}

void notifier_raise_fd(struct notifier *notifier)
{
    uint64_t one = 1;

    if (atomic_exchange(&notifier->fd_raised, true) || !has_own_fds(notifier))
        return;
    syscall(SYS_write, notifier->event_fd, &one, sizeof(one));
    if (ual_lane_inside(feed_first(notifier->feed)))
        atomic_fetch_add_explicit(&notifier->handed, 1, memory_order_relaxed);
}

enum ri_status notifier_observe(struct notifier *notifier, struct notifier_observer *observer)
{
    enum ri_status status = ITAL_ERR_EXISTS;

    spinlock_lock(&notifier->observer_lock);
    if (!notifier_is_observed(notifier)) {
        atomic_store(&notifier->observer, observer);
        status = RI_OK;
    }
    spinlock_unlock(&notifier->observer_lock);
    return status;
}

void notifier_unobserve(struct notifier *notifier)
{
    spinlock_lock(&notifier->observer_lock);
    atomic_store(&notifier->observer, NULL);
    spinlock_unlock(&notifier->observer_lock);
}

static void call_observer(struct notifier *notifier)
{
    struct notifier_observer *observer;

    if (!atomic_load(&notifier->observer))
        return;
    spinlock_lock(&notifier->observer_lock);
    observer = atomic_load(&notifier->observer);
    if (observer)
        observer->raised(observer);
    spinlock_unlock(&notifier->observer_lock);
}

void notifier_raise(struct notifier *notifier)
{
    if (notifier_is_muted(notifier))
        return;
    atomic_fetch_add(&notifier->raises, 1);
    if (notifier->fd >= 0 && atomic_load_explicit(&notifier->taker, memory_order_relaxed) !=
                                 (unsigned long)pthread_self())
        notifier_raise_fd(notifier);
    waiters_wake_one(&notifier->waiters);
    call_observer(notifier);
}

/* The read comes before the store. A raise between the two does not write, but the caller checks
 * after the store. If there is nothing to read yet, the raising thread is about to write: the flag
 * stays set until a later call reads that. */
void notifier_lower(struct notifier *notifier)
{
    uint64_t count;

    if (notifier->fd < 0 || !atomic_load(&notifier->fd_raised) || !has_own_fds(notifier))
        return;
    if (syscall(SYS_read, notifier->event_fd, &count, sizeof(count)) == sizeof(count))
        atomic_store(&notifier->fd_raised, false);
}

/* A raise under way in another thread may still write: that is one wake-up in vain. */
void notifier_mute(struct notifier *notifier, bool muted)
{
    atomic_store(&notifier->muted, muted);
    if (!muted)
        return;
    notifier_lower(notifier);
    spinlock_lock(&notifier->listen_lock);
    if (notifier_listens(notifier))
        stop_listening(notifier);
    spinlock_unlock(&notifier->listen_lock);
}

void notifier_raise_for_all(struct notifier *notifier)
{
    atomic_fetch_add(&notifier->raises, 1);
    if (notifier->fd >= 0)
        notifier_raise_fd(notifier);
    waiters_wake_all(&notifier->waiters);
    call_observer(notifier);
}
