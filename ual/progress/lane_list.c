/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lanes of the process, and the descriptors of each.
 *
 * CLOSED DESCRIPTORS. Another part of the program may close them. The first system call that fails
 * marks the lane broken and the device dead (ual_lane_check). The numbers may then belong to other
 * files, and are not used again. If a new lane gets one of the numbers no call would fail, so
 * opening a lane marks the old one. So events that were fetched from a set count only if the lane
 * is intact afterwards.
 */
#include "descriptors.h"
#include "lane_private.h"
#include "lanes.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utlist.h>

static struct spinlock lanes_lock; /* leaf */
static struct ual_lane *lanes;     /* of the process */

/* --- the list --- */

bool ual_lane_inside(const struct ual_lane *lane)
{
    return atomic_load_explicit(&lane->runner, memory_order_relaxed) ==
           (unsigned long)pthread_self();
}

bool ual_lane_inside_any(void)
{
    const struct ual_lane *lane;

    spinlock_lock(&lanes_lock);
    DL_FOREACH (lanes, lane)
        if (ual_lane_inside(lane) || pthread_equal(lane->thread, pthread_self()))
            break;
    spinlock_unlock(&lanes_lock);
    return lane != NULL;
}

/* In the child of a fork: stores only. */
void ual_lane_forked(void)
{
    spinlock_init(&lanes_lock);
    lanes = NULL;
}

void ual_lane_enlist(struct ual_lane *lane)
{
    spinlock_lock(&lanes_lock);
    DL_APPEND(lanes, lane);
    spinlock_unlock(&lanes_lock);
}

void ual_lane_delist(struct ual_lane *lane)
{
    spinlock_lock(&lanes_lock);
    DL_DELETE(lanes, lane);
    spinlock_unlock(&lanes_lock);
}

/* --- descriptors --- */

bool ual_lane_is_broken(const struct ual_lane *lane)
{
    return unlikely(atomic_load_explicit(&lane->descriptors, memory_order_acquire));
}

/* Under lanes_lock, as is the tracking of a new lane, so its descriptors are not forgotten here. */
static void lose_descriptors(struct ual_lane *lane)
{
    if (ual_lane_is_broken(lane))
        return;
    ual_fd_forget(lane->epoll_fd);
    ual_fd_forget(lane->kick_fd);
    ual_fd_forget(lane->watch_fd);
    atomic_store(&lane->descriptors, DESCRIPTORS_LOST);
}

void ual_lane_check(struct ual_lane *lane)
{
    const struct ri_event event = {
        .size = sizeof(event),
        .type = RI_EVENT_RNIC_FATAL,
        .detail = "something in this process closed descriptors that are not its own, as closefrom "
                  "does; keep it from those that were open before",
    };

    if (!ual_lane_is_broken(lane) && errno != EBADF && errno != EINVAL)
        return;
    spinlock_lock(&lanes_lock);
    lose_descriptors(lane);
    spinlock_unlock(&lanes_lock);
    if (atomic_exchange(&lane->descriptors, DESCRIPTORS_TOLD) != DESCRIPTORS_TOLD)
        lane->lanes->failed(lane->lanes->context, &event);
}

static bool has_number(const struct ual_lane *lane, int fd)
{
    return lane->epoll_fd == fd || lane->kick_fd == fd || lane->watch_fd == fd;
}

/* A lane with one of these numbers has lost its own descriptors. */
static void take_numbers(const struct ual_lane *fresh)
{
    struct ual_lane *lane;

    spinlock_lock(&lanes_lock);
    DL_FOREACH (lanes, lane)
        if (has_number(lane, fresh->epoll_fd) || has_number(lane, fresh->kick_fd) ||
            has_number(lane, fresh->watch_fd))
            lose_descriptors(lane);
    ual_fd_track(fresh->epoll_fd);
    ual_fd_track(fresh->kick_fd);
    ual_fd_track(fresh->watch_fd);
    spinlock_unlock(&lanes_lock);
}

enum ri_status ual_lane_open_descriptors(struct ual_lane *lane)
{
    struct epoll_event event = { .events = EPOLLIN };

    lane->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    lane->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    lane->watch_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (lane->epoll_fd < 0 || lane->kick_fd < 0 || lane->watch_fd < 0 ||
        epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, lane->kick_fd, &event) < 0) {
        kal_log(RI_LOG_ERROR, "cannot open descriptors for a lane: %s; raise RLIMIT_NOFILE",
                strerrordesc_np(errno));
        return RI_ERR_NO_RESOURCES;
    }
    take_numbers(lane);
    return RI_OK;
}

void ual_lane_close_descriptors(struct ual_lane *lane)
{
    if (ual_lane_is_broken(lane))
        return;
    ual_fd_forget(lane->epoll_fd);
    ual_fd_forget(lane->kick_fd);
    ual_fd_forget(lane->watch_fd);
    if (lane->epoll_fd >= 0)
        close(lane->epoll_fd);
    if (lane->kick_fd >= 0)
        close(lane->kick_fd);
    if (lane->watch_fd >= 0)
        close(lane->watch_fd);
}
