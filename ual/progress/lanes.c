/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lanes of an RNIC together. Each is run, waited for and served by its background thread as if
 * it were the only one (lane.c, lane_wait.c), so the invariant that keeps wake-ups holds for each.
 * This file has what spans several lanes.
 *
 * PLACEMENT. An endpoint is placed when it is created: on the lane with the fewest endpoints. But
 * several endpoints with one EVD are probably polled by one thread. So a lane that feeds the EVD
 * already is preferred while it has at most 2 * (least + 1) endpoints. A thread's endpoints stay
 * together while they are few, and many endpoints on one EVD spread over all lanes. Listen points,
 * and the start-up of accepted connections, are on the first lane until an endpoint accepts; then
 * the connection moves to the endpoint's lane (kal_place).
 *
 * POLLING an EVD runs the lanes that feed it until one did something, beginning with another lane
 * each time. Two threads that poll one EVD run different lanes.
 *
 * WAITING. A thread can sleep in the epoll set of one lane only. Before it sleeps it ensures that
 * another thread sleeps in each of the other lanes that feed its EVD: a consumer that already does,
 * one that waits there on its word, or else the background thread of that lane, at once and not
 * after an interval (feed_delegate_others). That thread arms its lane before it sleeps, like any
 * sleeper; its completions find the CQ armed and wake the waiter, in whatever lane it sleeps. If
 * that thread leaves (other threads poll), or an endpoint is added on another lane meanwhile, the
 * deadline of the background thread of that lane covers it, as always.
 */
#include "lanes.h"

#include "base/cpus.h"

#include <stdlib.h>
#include <sys/epoll.h>

/* --- life --- */

enum ri_status ual_lanes_open(struct ual_lanes *lanes, const struct ual_progress *progress)
{
    uint32_t count = kal_rnic_attr(lanes->rnic)->lanes;
    struct ual_processors processors = { .count = 0 };
    enum ri_status status;
    cpu_set_t allowed;

    count = count < UAL_LANES_MOST ? count : UAL_LANES_MOST;
    cpus_mask(&allowed);
    status = ual_processors_choose(progress, count, &allowed, cpus_quota(), &processors);
    for (uint32_t i = 0; i < count && status == RI_OK; i++) {
        status = ual_lane_open(lanes, i, progress->spin_ns, &processors, &lanes->lane[i]);
        lanes->count += status == RI_OK;
    }
    if (status != RI_OK)
        ual_lanes_stop(lanes);
    return status;
}

void ual_lanes_stop(struct ual_lanes *lanes)
{
    for (uint32_t i = 0; i < lanes->count; i++)
        ual_lane_stop(lanes->lane[i]);
}

void ual_lanes_close(struct ual_lanes *lanes)
{
    for (uint32_t i = 0; i < lanes->count; i++)
        ual_lane_close(lanes->lane[i]);
}

void ual_lanes_run_others(struct ual_lanes *lanes)
{
    for (uint32_t i = 1; i < lanes->count; i++)
        ual_lane_run(lanes->lane[i], NULL);
}

static void run_joined(void *lane, uint32_t events)
{
    (void)events;
    ual_lane_run(lane, NULL);
}

void ual_lanes_join_begin(struct ual_lanes *lanes)
{
    for (uint32_t i = 1; i < lanes->count; i++)
        ual_lane_watch(lanes->lane[0], ual_lane_epoll_fd(lanes->lane[i]), EPOLLIN, run_joined,
                       lanes->lane[i], &lanes->joined[i]);
}

void ual_lanes_join_end(struct ual_lanes *lanes)
{
    for (uint32_t i = 1; i < lanes->count; i++) {
        if (lanes->joined[i])
            ual_lane_unwatch(lanes->joined[i]);
        lanes->joined[i] = NULL;
    }
}

/* --- what feeds a consumer --- */

static uint64_t bit(uint32_t lane)
{
    return UINT64_C(1) << lane;
}

static uint64_t fed_by(const struct feed *feed)
{
    return atomic_load_explicit(&feed->lanes, memory_order_relaxed);
}

struct ual_lane *feed_first(const struct feed *feed)
{
    return feed->all->lane[__builtin_ctzll(fed_by(feed))];
}

/* The lanes with users. */
static uint64_t used_lanes(const struct feed *feed)
{
    uint64_t lanes = 0;

    for (uint32_t i = 0; feed->users && i < feed->all->count; i++)
        lanes |= atomic_load_explicit(&feed->users[i], memory_order_relaxed) ? bit(i) : 0;
    return lanes;
}

/* Under the lock, or before other threads know the feed. */
static void set_lanes(struct feed *feed)
{
    uint64_t used = used_lanes(feed), lanes = used ? used : bit(0);
    struct ual_lane *first = feed->all->lane[__builtin_ctzll(lanes)];

    atomic_store_explicit(&feed->lanes, lanes, memory_order_relaxed);
    atomic_store_explicit(&feed->takes, ual_lane_takes(first), memory_order_relaxed);
    atomic_store_explicit(&feed->only, lanes & (lanes - 1) ? NULL : first, memory_order_relaxed);
}

enum ri_status feed_open(struct feed *feed, struct ual_lanes *all, bool with_first)
{
    feed->all = all;
    spinlock_init(&feed->lock);
    if (all->count > 1) {
        feed->users = calloc(all->count, sizeof(*feed->users));
        if (!feed->users)
            return RI_ERR_NO_RESOURCES;
        feed->users[0] = with_first;
    }
    set_lanes(feed);
    return RI_OK;
}

void feed_close(struct feed *feed)
{
    free(feed->users);
}

/* Lock order: that of the part, then that of the feed above. */
static void change(struct feed *feed, uint32_t lane, uint32_t by)
{
    if (!feed->users)
        return;
    spinlock_lock(&feed->lock);
    feed->users[lane] += by;
    set_lanes(feed);
    if (feed->above)
        change(feed->above, lane, by);
    spinlock_unlock(&feed->lock);
}

void feed_add(struct feed *feed, uint32_t lane)
{
    change(feed, lane, 1);
}

void feed_remove(struct feed *feed, uint32_t lane)
{
    change(feed, lane, UINT32_MAX);
}

/* Under the part's lock. */
static void change_above(struct feed *part, bool joins)
{
    spinlock_assert_held(&part->lock);
    for (uint32_t lane = 0; lane < part->all->count; lane++) {
        uint32_t users = part->users[lane];

        change(part->above, lane, joins ? users : 0 - users);
    }
}

void feed_join(struct feed *part, struct feed *above)
{
    if (!part->users)
        return;
    spinlock_lock(&part->lock);
    part->above = above;
    change_above(part, true);
    spinlock_unlock(&part->lock);
}

void feed_part(struct feed *part)
{
    if (!part->users)
        return;
    spinlock_lock(&part->lock);
    change_above(part, false);
    part->above = NULL;
    spinlock_unlock(&part->lock);
}

uint32_t feed_poll(struct feed *feed, struct ri_cq *first)
{
    uint32_t count = feed->all->count, work = 0;
    uint32_t turn = atomic_load_explicit(&feed->turn, memory_order_relaxed);
    uint64_t lanes = fed_by(feed);

    atomic_store_explicit(&feed->turn, turn + 1, memory_order_relaxed);
    for (uint32_t i = 0; i < count && !work; i++) {
        uint32_t lane = (turn + i) % count;

        if (lanes & bit(lane))
            work = ual_lane_poll(feed->all->lane[lane], first);
    }
    return work;
}

void feed_poll_all(struct feed *feed, struct ri_cq *first, bool in_turn, bool check_epoll)
{
    for (uint64_t lanes = fed_by(feed); lanes; lanes &= lanes - 1) {
        struct ual_lane *lane = feed->all->lane[__builtin_ctzll(lanes)];

        if (in_turn)
            ual_lane_poll_in_turn(lane, first, check_epoll);
        else
            ual_lane_poll(lane, first);
    }
}

struct ual_lane *feed_place_to_sleep(const struct feed *feed)
{
    struct ual_lane *only = feed_only(feed);

    if (only)
        return only;
    for (uint64_t lanes = fed_by(feed); lanes; lanes &= lanes - 1) {
        struct ual_lane *lane = feed->all->lane[__builtin_ctzll(lanes)];

        if (!ual_lane_has_waiter(lane))
            return lane;
    }
    return feed_first(feed);
}

void feed_delegate_others(const struct feed *feed, const struct ual_lane *own)
{
    if (own && feed_only(feed) == own)
        return;
    for (uint64_t lanes = fed_by(feed); lanes; lanes &= lanes - 1) {
        struct ual_lane *lane = feed->all->lane[__builtin_ctzll(lanes)];

        if (lane != own)
            ual_lane_delegate(lane);
    }
}

/* --- the place of a QP --- */

/* The least loaded lane of `among`; the lowest of equals. Under place_lock. */
static uint32_t least_loaded(const struct ual_lanes *lanes, uint64_t among)
{
    uint32_t least = (uint32_t)__builtin_ctzll(among);

    for (; among; among &= among - 1) {
        uint32_t lane = (uint32_t)__builtin_ctzll(among);

        if (lanes->placed[lane] < lanes->placed[least])
            least = lane;
    }
    return least;
}

static uint32_t select_lane(struct ual_lanes *lanes, const struct feed *receives,
                            const struct feed *requests)
{
    uint64_t all = lanes->count < 64 ? bit(lanes->count) - 1 : UINT64_MAX, fed;
    uint32_t lane, near;

    if (lanes->count < 2)
        return 0;
    spinlock_lock(&lanes->place_lock);
    fed = used_lanes(receives);
    fed = fed ? fed : used_lanes(requests);
    lane = least_loaded(lanes, all);
    near = least_loaded(lanes, fed ? fed : all);
    if (lanes->placed[near] < 2 * (lanes->placed[lane] + 1))
        lane = near;
    lanes->placed[lane]++;
    spinlock_unlock(&lanes->place_lock);
    return lane;
}

uint32_t ual_lanes_place(struct ual_lanes *lanes, const struct feed *receives,
                         const struct feed *requests)
{
    uint32_t lane = select_lane(lanes, receives, requests);

    ual_lane_add_qp(lanes->lane[lane]);
    return lane;
}

void ual_lanes_leave(struct ual_lanes *lanes, uint32_t lane)
{
    ual_lane_drop_qp(lanes->lane[lane]);
    if (lanes->count < 2)
        return;
    spinlock_lock(&lanes->place_lock);
    lanes->placed[lane]--;
    spinlock_unlock(&lanes->place_lock);
}
