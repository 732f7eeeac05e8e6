/* SPDX-License-Identifier: BSD-3-Clause */
/* A lane for tests: see fake_lane.h. */
#include "fake_lane.h"

#include "base/clock.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS        32
#define EXPIRIES_MOST 100000u /* of timers, in one pass */

/* The lane in whose pass this thread is. */
static _Thread_local const struct fake_lane *inside;

/* ---- life ---- */

void fake_lane_open(struct fake_lane *lane, bool epoll)
{
    memset(lane, 0, sizeof(*lane));
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->expired, NULL);
    lane->epoll = lane->event = -1;
    if (!epoll)
        return;
    lane->epoll = epoll_create1(EPOLL_CLOEXEC);
    lane->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    FAKE_CHECK(lane->epoll >= 0 && lane->event >= 0);
    fake_lane_listen(lane, lane->event);
}

static void free_off(struct fake_lane *lane)
{
    struct ri_watch *off, *next;

    pthread_mutex_lock(&lane->lock);
    off = lane->off;
    lane->off = NULL;
    pthread_mutex_unlock(&lane->lock);
    for (; off; off = next) {
        next = off->next_off;
        pthread_mutex_destroy(&off->busy);
        free(off);
    }
}

void fake_lane_close(struct fake_lane *lane)
{
    if (lane->threaded) {
        atomic_store(&lane->stop, true);
        fake_lane_wake(lane);
        pthread_join(lane->thread, NULL);
    }
    free_off(lane);
    if (lane->epoll >= 0) {
        close(lane->epoll);
        close(lane->event);
    }
    pthread_cond_destroy(&lane->expired);
    pthread_mutex_destroy(&lane->lock);
}

/* ---- descriptors ---- */

void fake_lane_listen(struct fake_lane *lane, int fd)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = NULL };

    FAKE_CHECK(epoll_ctl(lane->epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

/* Under the lock. */
static struct ri_watch *find(const struct fake_lane *lane, int fd)
{
    struct ri_watch *watch = lane->watches;

    while (watch && watch->fd != fd)
        watch = watch->next;
    return watch;
}

struct ri_watch *fake_lane_watch_of(struct fake_lane *lane, int fd)
{
    struct ri_watch *watch;

    pthread_mutex_lock(&lane->lock);
    watch = find(lane, fd);
    pthread_mutex_unlock(&lane->lock);
    return watch;
}

unsigned int fake_lane_watches(struct fake_lane *lane)
{
    unsigned int count = 0;

    pthread_mutex_lock(&lane->lock);
    for (const struct ri_watch *watch = lane->watches; watch; watch = watch->next)
        count++;
    pthread_mutex_unlock(&lane->lock);
    return count;
}

enum ri_status fake_lane_watch(struct fake_lane *lane, int fd, uint32_t events, ri_ready_fn ready,
                               void *arg, struct ri_watch **out)
{
    struct epoll_event event = { .events = events };
    struct ri_watch *watch;

    FAKE_CHECK(lane && ready);
    if (lane->may_watch && !lane->may_watch(lane, fd))
        return RI_ERR_NO_RESOURCES;
    watch = calloc(1, sizeof(*watch));
    if (!watch)
        return RI_ERR_NO_RESOURCES;
    watch->lane = lane;
    watch->fd = fd;
    watch->events = events;
    watch->ready = ready;
    watch->arg = arg;
    pthread_mutex_init(&watch->busy, NULL);
    pthread_mutex_lock(&lane->lock);
    FAKE_CHECK(!find(lane, fd));
    watch->next = lane->watches;
    lane->watches = watch;
    lane->watch_calls++;
    *out = watch;
    pthread_mutex_unlock(&lane->lock);
    event.data.ptr = watch;
    FAKE_CHECK(lane->epoll < 0 || epoll_ctl(lane->epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    return RI_OK;
}

enum ri_status fake_lane_rewatch(struct ri_watch *watch, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = watch };
    struct fake_lane *lane = watch->lane;

    FAKE_CHECK(lane->epoll < 0 || epoll_ctl(lane->epoll, EPOLL_CTL_MOD, watch->fd, &event) == 0);
    pthread_mutex_lock(&lane->lock);
    FAKE_CHECK(!watch->off);
    watch->events = events;
    pthread_mutex_unlock(&lane->lock);
    return RI_OK;
}

/* Under the lock. */
static void take_off(struct fake_lane *lane, struct ri_watch *watch)
{
    struct ri_watch **at = &lane->watches;

    while (*at && *at != watch)
        at = &(*at)->next;
    FAKE_CHECK(*at && !watch->off);
    *at = watch->next;
    watch->off = true;
    lane->unwatch_calls++;
}

/* A `ready` that runs in another thread ends before this returns. */
void fake_lane_unwatch(struct ri_watch *watch)
{
    struct fake_lane *lane = watch->lane;

    if (lane->before_unwatch)
        lane->before_unwatch(watch);
    FAKE_CHECK(lane->epoll < 0 || epoll_ctl(lane->epoll, EPOLL_CTL_DEL, watch->fd, NULL) == 0);
    pthread_mutex_lock(&lane->lock);
    take_off(lane, watch);
    pthread_mutex_unlock(&lane->lock);
    if (inside != lane) {
        pthread_mutex_lock(&watch->busy);
        pthread_mutex_unlock(&watch->busy);
    }
    pthread_mutex_lock(&lane->lock);
    watch->next_off = lane->off;
    lane->off = watch;
    pthread_mutex_unlock(&lane->lock);
    if (lane->epoll < 0 && inside != lane)
        free_off(lane);
}

/* ---- timers ---- */

/* Under the lock. */
static bool forget_timer(struct fake_lane *lane, const struct ri_timer *timer)
{
    for (unsigned int i = 0; i < lane->timer_count; i++) {
        if (lane->timers[i] != timer)
            continue;
        lane->timers[i] = lane->timers[--lane->timer_count];
        return true;
    }
    return false;
}

void fake_lane_timer_set(struct fake_lane *lane, struct ri_timer *timer)
{
    FAKE_CHECK(lane);
    pthread_mutex_lock(&lane->lock);
    forget_timer(lane, timer);
    FAKE_CHECK(lane->timer_count < FAKE_TIMERS);
    timer->host_deadline =
        timer->deadline; /* a caller that moves it writes `deadline` without the lock */
    lane->timers[lane->timer_count++] = timer;
    pthread_mutex_unlock(&lane->lock);
    if (lane->threaded && inside != lane)
        fake_lane_wake(lane);
}

void fake_lane_timer_cancel(struct fake_lane *lane, struct ri_timer *timer)
{
    FAKE_CHECK(lane);
    pthread_mutex_lock(&lane->lock);
    forget_timer(lane, timer);
    while (inside != lane && lane->expiring == timer) {
        pthread_cond_wait(&lane->expired, &lane->lock);
        forget_timer(lane, timer); /* its upcall may have set it again */
    }
    pthread_mutex_unlock(&lane->lock);
}

unsigned int fake_lane_timers(struct fake_lane *lane)
{
    unsigned int count;

    pthread_mutex_lock(&lane->lock);
    count = lane->timer_count;
    pthread_mutex_unlock(&lane->lock);
    return count;
}

uint64_t fake_lane_next_timer(struct fake_lane *lane)
{
    uint64_t next = CLOCK_NEVER;

    pthread_mutex_lock(&lane->lock);
    for (unsigned int i = 0; i < lane->timer_count; i++)
        if (lane->timers[i]->host_deadline < next)
            next = lane->timers[i]->host_deadline;
    pthread_mutex_unlock(&lane->lock);
    return next;
}

void fake_lane_expire_timers(struct fake_lane *lane)
{
    pthread_mutex_lock(&lane->lock);
    for (unsigned int i = 0; i < lane->timer_count; i++)
        lane->timers[i]->deadline = lane->timers[i]->host_deadline = 0;
    pthread_mutex_unlock(&lane->lock);
}

static struct ri_timer *begin_expired(struct fake_lane *lane)
{
    uint64_t now = clock_now();
    struct ri_timer *timer = NULL;

    pthread_mutex_lock(&lane->lock);
    for (unsigned int i = 0; i < lane->timer_count && !timer; i++)
        if (lane->timers[i]->host_deadline <= now)
            timer = lane->timers[i];
    if (timer)
        forget_timer(lane, timer);
    lane->expiring = timer;
    pthread_mutex_unlock(&lane->lock);
    return timer;
}

/* ---- passes ---- */

static void begin_pass(const struct fake_lane *lane)
{
    FAKE_CHECK(!inside);
    inside = lane;
}

static void end_pass(struct fake_lane *lane)
{
    inside = NULL;
    free_off(lane);
}

static void call_ready(struct ri_watch *watch, uint32_t events)
{
    bool off;

    pthread_mutex_lock(&watch->busy);
    pthread_mutex_lock(&watch->lane->lock);
    off = watch->off;
    pthread_mutex_unlock(&watch->lane->lock);
    if (!off)
        watch->ready(watch->arg, events);
    pthread_mutex_unlock(&watch->busy);
}

static bool expire_one(struct fake_lane *lane)
{
    struct ri_timer *timer = begin_expired(lane);

    if (!timer)
        return false;
    timer->expired(timer);
    pthread_mutex_lock(&lane->lock);
    lane->expiring = NULL;
    pthread_cond_broadcast(&lane->expired);
    pthread_mutex_unlock(&lane->lock);
    return true;
}

/* Timers run after descriptors, as in ual's lanes. One that its own upcall sets to a time that has
 * passed would hold a lane for ever. */
void fake_lane_pass(struct fake_lane *lane, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(lane->epoll, events, EVENTS, timeout_ms);
    unsigned int expired = 0;
    eventfd_t woken;

    begin_pass(lane);
    for (int i = 0; i < count; i++)
        if (events[i].data.ptr)
            call_ready(events[i].data.ptr, events[i].events);
        else /* the test's own, or a wake-up */
            eventfd_read(lane->event, &woken);
    while (expire_one(lane))
        FAKE_CHECK(++expired < EXPIRIES_MOST);
    end_pass(lane);
}

bool fake_lane_run_timer(struct fake_lane *lane)
{
    bool any;

    begin_pass(lane);
    any = expire_one(lane);
    end_pass(lane);
    return any;
}

static bool tell(struct ri_watch *watch, uint32_t events)
{
    events &= watch->events | EPOLLERR | EPOLLHUP;
    if (events && !watch->off)
        call_ready(watch, events);
    return events;
}

bool fake_lane_ready(struct fake_lane *lane, int fd, uint32_t events)
{
    struct ri_watch *watch = fake_lane_watch_of(lane, fd);
    bool any;

    if (!watch)
        return false;
    begin_pass(lane);
    any = tell(watch, events);
    end_pass(lane);
    return any;
}

/* A removed watch stays readable up to the end of the pass; new ones are added in front. */
bool fake_lane_ready_all(struct fake_lane *lane, uint32_t (*events_of)(int fd))
{
    bool any = false;

    begin_pass(lane);
    for (struct ri_watch *watch = lane->watches; watch; watch = watch->next)
        if (!watch->off)
            any |= tell(watch, events_of(watch->fd));
    end_pass(lane);
    return any;
}

static void *run_thread(void *arg)
{
    struct fake_lane *lane = arg;

    while (!atomic_load(&lane->stop))
        fake_lane_pass(lane, clock_poll_ms(clock_now(), fake_lane_next_timer(lane)));
    return NULL;
}

void fake_lane_run_thread(struct fake_lane *lane)
{
    lane->threaded = true;
    FAKE_CHECK(pthread_create(&lane->thread, NULL, run_thread, lane) == 0);
}

void fake_lane_wake(struct fake_lane *lane)
{
    FAKE_CHECK(lane);
    atomic_fetch_add(&lane->wakes, 1);
    if (lane->event >= 0)
        FAKE_CHECK(eventfd_write(lane->event, 1) == 0);
}
