/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Descriptors and timers of a lane, as kal and providers use them (struct kal_upper). Locks:
 * lane.c.
 */
#include "descriptors.h"
#include "lane_private.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define DEAD_MOST 64 /* watches that wait to be freed while somebody sleeps in epoll */

enum ri_status ual_lane_watch(void *lane_context, int fd, uint32_t events, ri_ready_fn ready,
                              void *arg, struct ri_watch **out)
{
    struct ual_lane *lane = lane_context;
    struct ri_watch *watch = calloc(1, sizeof(*watch));
    struct epoll_event event = { .events = events, .data.ptr = watch };

    if (!watch)
        return RI_ERR_NO_RESOURCES;
    if (ual_lane_is_broken(lane)) {
        free(watch);
        return RI_ERR_INVALID_STATE;
    }
    *watch = (struct ri_watch){ .lane = lane, .fd = fd, .ready = ready, .arg = arg };
    /* All this before the add: `ready` may run, and remove the watch, before this call returns. */
    *out = watch;
    atomic_fetch_add_explicit(&lane->watches, 1, memory_order_release);
    ual_fd_track(fd);
    if (epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        kal_log(RI_LOG_ERROR,
                "cannot watch descriptor %d: %s; raise fs.epoll.max_user_watches or free memory",
                fd, strerrordesc_np(errno));
        ual_fd_forget(fd);
        atomic_fetch_sub_explicit(&lane->watches, 1, memory_order_relaxed);
        *out = NULL;
        free(watch);
        return RI_ERR_NO_RESOURCES;
    }
    return RI_OK;
}

enum ri_status ual_lane_rewatch(struct ri_watch *watch, uint32_t events)
{
    struct ual_lane *lane = watch->lane;
    struct epoll_event event = { .events = events, .data.ptr = watch };
    int fd = watch->fd;

    /* As in ual_lane_watch: `ready` may remove the watch before this call returns. */
    atomic_fetch_add_explicit(&lane->watches, 0, memory_order_release);
    if (ual_lane_is_broken(lane) || epoll_ctl(lane->epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0)
        return RI_ERR_INVALID_STATE;
    return RI_OK;
}

void ual_lane_unwatch(struct ri_watch *watch)
{
    struct ual_lane *lane = watch->lane;
    bool many;

    if (!ual_lane_is_broken(lane))
        epoll_ctl(lane->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    ual_fd_forget(watch->fd);
    atomic_fetch_sub_explicit(&lane->watches, 1, memory_order_relaxed);
    atomic_store_explicit(&watch->dead, true, memory_order_release);
    if (!ual_lane_inside(lane)) {
        spinlock_lock(&watch->busy); /* wait for a `ready` that has begun */
        spinlock_unlock(&watch->busy);
    }
    spinlock_lock(&lane->dead_lock);
    watch->next_dead = atomic_load_explicit(&lane->dead, memory_order_relaxed);
    atomic_store_explicit(&lane->dead, watch, memory_order_relaxed);
    many = ++lane->dead_count % DEAD_MOST == 0 && atomic_load(&lane->fetchers);
    spinlock_unlock(&lane->dead_lock);
    if (many)
        ual_lane_kick(lane);
}

void ual_lane_timer_set(void *lane_context, struct ri_timer *timer)
{
    struct ual_lane *lane = lane_context;
    uint64_t deadline = timer->deadline;

    spinlock_lock(&lane->timer_lock);
    timers_set(&lane->timers, timer);
    spinlock_unlock(&lane->timer_lock);
    /* The sleeper notes sleep_until before it reads the timers: either it sees this timer, or we
     * see that it sleeps. */
    if (ual_lane_sleeps_beyond(lane, deadline))
        ual_lane_kick(lane);
}

void ual_lane_timer_cancel(void *lane_context, struct ri_timer *timer)
{
    struct ual_lane *lane = lane_context;
    bool busy;

    /* A running `expired` may set the timer again: repeat until neither is the case, under the
     * lock. */
    do {
        spinlock_lock(&lane->timer_lock);
        timers_remove(&lane->timers, timer);
        busy = lane->expiring == timer && !ual_lane_inside(lane);
        spinlock_unlock(&lane->timer_lock);
        if (busy)
            sched_yield();
    } while (busy);
}

void ual_lane_wake(void *lane_context)
{
    ual_lane_kick(lane_context);
}
