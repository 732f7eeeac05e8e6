/* SPDX-License-Identifier: BSD-3-Clause */
/* The lane of the connection manager's tests, an epoll loop that the test or a thread
 * runs, and the upcalls into it. */
#include "cm_fake_private.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

/* ---- lane ---- */

struct ri_watch {
    struct fake_lane *lane;
    int fd;
    ri_ready_fn ready;
    void *arg;
    pthread_mutex_t busy; /* held while ready runs */
    bool dead;            /* under the lane's lock */
    struct ri_watch *next_dead;
};

struct fake_lane {
    int epoll_fd, event_fd;
    pthread_mutex_t lock;
    pthread_cond_t expired;
    struct timers {
        struct ri_timer *timer[256];
        unsigned count;
    } timers;
    struct ri_timer *expiring;
    struct ri_watch *dead; /* freed after a pass: no fetched event names them then */
    unsigned watches;
    _Atomic bool running, stop;
    pthread_t runner; /* while running */
    pthread_t thread;
    bool threaded;
};

static bool inside(struct fake_lane *lane)
{
    bool in;

    pthread_mutex_lock(&lane->lock);
    in = lane->running && pthread_equal(lane->runner, pthread_self());
    pthread_mutex_unlock(&lane->lock);
    return in;
}

struct fake_lane *fake_lane_new(void)
{
    struct fake_lane *lane = calloc(1, sizeof *lane);
    struct epoll_event event = { .events = EPOLLIN };

    lane->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    lane->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, lane->event_fd, &event);
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->expired, NULL);
    return lane;
}

static void bury(struct fake_lane *lane)
{
    struct ri_watch *dead, *next;

    pthread_mutex_lock(&lane->lock);
    dead = lane->dead;
    lane->dead = NULL;
    pthread_mutex_unlock(&lane->lock);
    for (; dead; dead = next) {
        next = dead->next_dead;
        pthread_mutex_destroy(&dead->busy);
        free(dead);
    }
}

static void poke(struct fake_lane *lane)
{
    uint64_t one = 1;

    if (write(lane->event_fd, &one, sizeof one) < 0)
        ck_assert_int_eq(errno, EAGAIN);
}

void fake_lane_free(struct fake_lane *lane)
{
    if (lane->threaded) {
        lane->stop = true;
        poke(lane);
        pthread_join(lane->thread, NULL);
    }
    bury(lane);
    close(lane->epoll_fd);
    close(lane->event_fd);
    pthread_cond_destroy(&lane->expired);
    pthread_mutex_destroy(&lane->lock);
    free(lane);
}

unsigned fake_lane_watches(struct fake_lane *lane)
{
    unsigned watches;

    pthread_mutex_lock(&lane->lock);
    watches = lane->watches;
    pthread_mutex_unlock(&lane->lock);
    return watches;
}

unsigned fake_lane_timers(struct fake_lane *lane)
{
    unsigned timers;

    pthread_mutex_lock(&lane->lock);
    timers = lane->timers.count;
    pthread_mutex_unlock(&lane->lock);
    return timers;
}

static uint64_t next_timer(struct fake_lane *lane)
{
    uint64_t next = CLOCK_NEVER;

    pthread_mutex_lock(&lane->lock);
    for (unsigned i = 0; i < lane->timers.count; i++)
        if (lane->timers.timer[i]->deadline < next)
            next = lane->timers.timer[i]->deadline;
    pthread_mutex_unlock(&lane->lock);
    return next;
}

static bool forget_timer(struct fake_lane *lane, struct ri_timer *timer)
{
    struct timers *t = &lane->timers;

    for (unsigned i = 0; i < t->count; i++) {
        if (t->timer[i] == timer) {
            t->timer[i] = t->timer[--t->count];
            return true;
        }
    }
    return false;
}

static bool run_timer(struct fake_lane *lane)
{
    uint64_t now = clock_now();
    struct ri_timer *timer = NULL;

    pthread_mutex_lock(&lane->lock);
    for (unsigned i = 0; i < lane->timers.count && !timer; i++)
        if (lane->timers.timer[i]->deadline <= now)
            timer = lane->timers.timer[i];
    if (timer)
        forget_timer(lane, timer);
    lane->expiring = timer;
    pthread_mutex_unlock(&lane->lock);
    if (!timer)
        return false;
    timer->expired(timer);
    pthread_mutex_lock(&lane->lock);
    lane->expiring = NULL;
    pthread_cond_broadcast(&lane->expired);
    pthread_mutex_unlock(&lane->lock);
    return true;
}

static void pass(struct fake_lane *lane, int timeout)
{
    struct epoll_event events[32];
    int count = epoll_wait(lane->epoll_fd, events, 32, timeout);
    uint64_t word;

    pthread_mutex_lock(&lane->lock);
    lane->runner = pthread_self();
    lane->running = true;
    pthread_mutex_unlock(&lane->lock);
    for (int i = 0; i < count; i++) {
        struct ri_watch *watch = events[i].data.ptr;
        bool dead;

        if (!watch) {
            if (read(lane->event_fd, &word, sizeof word) < 0)
                ck_assert_int_eq(errno, EAGAIN);
            continue;
        }
        pthread_mutex_lock(&watch->busy);
        pthread_mutex_lock(&lane->lock);
        dead = watch->dead;
        pthread_mutex_unlock(&lane->lock);
        if (!dead)
            watch->ready(watch->arg, events[i].events);
        pthread_mutex_unlock(&watch->busy);
    }
    while (run_timer(lane)) /* behind the descriptors, as in ual's lanes */
        ;
    pthread_mutex_lock(&lane->lock);
    lane->running = false;
    pthread_mutex_unlock(&lane->lock);
    bury(lane);
}

void fake_lane_run(struct fake_lane *lane)
{
    pass(lane, 0);
}

static void *lane_thread(void *arg)
{
    struct fake_lane *lane = arg;

    while (!lane->stop)
        pass(lane, clock_poll_ms(clock_now(), next_timer(lane)));
    return NULL;
}

void fake_lane_thread(struct fake_lane *lane)
{
    lane->threaded = true;
    ck_assert_int_eq(pthread_create(&lane->thread, NULL, lane_thread, lane), 0);
}

void fake_pump(int fd, short events, uint64_t deadline)
{
    struct fake_lane *lanes[2] = { fake.lane, fake.lane2 };
    struct pollfd p[3] = { { .fd = fd, .events = events } };
    uint64_t until = deadline;

    for (int i = 0; i < 2; i++) {
        uint64_t next = lanes[i]->threaded ? CLOCK_NEVER : next_timer(lanes[i]);

        p[i + 1].fd = lanes[i]->threaded ? -1 : lanes[i]->epoll_fd;
        p[i + 1].events = POLLIN;
        if (next < until)
            until = next;
    }
    if ((lanes[0]->threaded || lanes[1]->threaded) &&
        until > clock_after(clock_now(), CLOCK_NS_PER_MS))
        until = clock_after(clock_now(), CLOCK_NS_PER_MS); /* what it does is not seen by poll */
    poll(p, 3, clock_poll_ms(clock_now(), until));
    for (int i = 0; i < 2; i++)
        if (!lanes[i]->threaded)
            fake_lane_run(lanes[i]);
}

/* ---- upper ---- */

static enum ri_status up_watch(void *lane_context, int fd, uint32_t events, ri_ready_fn ready,
                               void *arg, struct ri_watch **watch)
{
    struct fake_lane *lane = lane_context;
    struct ri_watch *w = calloc(1, sizeof *w);
    struct epoll_event event = { .events = events, .data.ptr = w };

    w->lane = lane;
    w->fd = fd;
    w->ready = ready;
    w->arg = arg;
    pthread_mutex_init(&w->busy, NULL);
    *watch = w;
    pthread_mutex_lock(&lane->lock);
    lane->watches++;
    pthread_mutex_unlock(&lane->lock);
    ck_assert_int_eq(epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, fd, &event), 0);
    return RI_OK;
}

static enum ri_status up_rewatch(struct ri_watch *w, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = w };

    ck_assert_int_eq(epoll_ctl(w->lane->epoll_fd, EPOLL_CTL_MOD, w->fd, &event), 0);
    return RI_OK;
}

static void up_unwatch(struct ri_watch *w)
{
    struct fake_lane *lane = w->lane;

    if (fake.on_unwatch)
        fake.on_unwatch();
    ck_assert_int_eq(epoll_ctl(lane->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL), 0);
    pthread_mutex_lock(&lane->lock);
    w->dead = true;
    lane->watches--;
    pthread_mutex_unlock(&lane->lock);
    if (!inside(lane)) { /* a ready that has begun ends before we return */
        pthread_mutex_lock(&w->busy);
        pthread_mutex_unlock(&w->busy);
    }
    pthread_mutex_lock(&lane->lock);
    w->next_dead = lane->dead;
    lane->dead = w;
    pthread_mutex_unlock(&lane->lock);
}

static void up_timer_set(void *lane_context, struct ri_timer *timer)
{
    struct fake_lane *lane = lane_context;

    pthread_mutex_lock(&lane->lock);
    forget_timer(lane, timer);
    ck_assert_uint_lt(lane->timers.count, 256);
    lane->timers.timer[lane->timers.count++] = timer;
    pthread_mutex_unlock(&lane->lock);
    if (!inside(lane))
        poke(lane);
}

static void up_timer_cancel(void *lane_context, struct ri_timer *timer)
{
    struct fake_lane *lane = lane_context;
    bool in = inside(lane);

    pthread_mutex_lock(&lane->lock);
    if (!forget_timer(lane, timer) && !in)
        while (lane->expiring == timer)
            pthread_cond_wait(&lane->expired, &lane->lock);
    pthread_mutex_unlock(&lane->lock);
}

static void up_wake(void *lane_context)
{
    poke(lane_context);
}

static void up_request(void *listener_context, struct kal_connection *connection,
                       const struct ri_connect_request *request, void **connection_context)
{
    struct fake_request *r;
    struct fake_connection *c;

    pthread_mutex_lock(&fake.lock);
    r = &fake.requests[fake.request_count % FAKE_REQUESTS];
    c = &fake.pool[fake.request_count % FAKE_REQUESTS];
    memset(r, 0, sizeof *r);
    memset(c, 0, sizeof *c);
    c->connection = connection;
    r->context = c;
    r->listener = listener_context;
    r->request = *request;
    ck_assert(!request->private_data_length == !request->private_data);
    if (request->private_data_length)
        memcpy(r->private_data, request->private_data, request->private_data_length);
    *connection_context = c;
    fake.request_count++;
    pthread_mutex_unlock(&fake.lock);
    if (fake.on_request)
        fake.on_request(r);
}

static void up_event(void *connection_context, const struct ri_connection_event *event)
{
    struct fake_connection *c = connection_context;
    struct kal_connection *destroy = NULL, *other;

    pthread_mutex_lock(&fake.lock);
    c->events++;
    c->last = *event;
    ck_assert(!event->private_data_length == !event->private_data);
    if (event->private_data_length)
        memcpy(c->private_data, event->private_data, event->private_data_length);
    if (c->destroy_in_upcall) {
        destroy = c->connection;
        c->connection = NULL;
    }
    other = c->destroy_other;
    c->destroy_other = NULL;
    pthread_mutex_unlock(&fake.lock);
    if (destroy)
        kal_connection_destroy(destroy);
    if (other)
        kal_connection_destroy(other);
}

const struct kal_upper fake_upper = {
    .watch = up_watch,
    .rewatch = up_rewatch,
    .unwatch = up_unwatch,
    .timer_set = up_timer_set,
    .timer_cancel = up_timer_cancel,
    .wake = up_wake,
    .connection_request = up_request,
    .connection_event = up_event,
};
