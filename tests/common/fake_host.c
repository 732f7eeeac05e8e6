/* SPDX-License-Identifier: BSD-3-Clause */
/* A host for the provider alone: see fake_host.h. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "fake_host.h"

#include "host_options.h"
#include "tc.h"

#include "base/compiler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct ri_watch {
    ri_ready_fn ready; /* NULL: taken off */
    void *arg;
    int fd;
    struct ri_watch *next;
};

static struct fake_host *fake_of(const struct ri_host *host)
{
    return host->context;
}

/* ---- options and log ---- */

static void host_log(const struct ri_host *host, enum ri_log_level level, const char *format,
                     va_list args)
{
    fake_of(host)->logged[level]++;
    fprintf(stderr, "# provider: ");
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

static void say(struct fake_host *fake, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(struct fake_host *fake, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    host_log(&fake->host, RI_LOG_ERROR, format, args);
    va_end(args);
}

static enum ri_status host_option(const struct ri_host *host, const char *name,
                                  enum ri_option_kind kind, union ri_option_value *value)
{
    const char *wrong;
    enum ri_status status = host_options_read(fake_of(host)->options, name, kind, value, &wrong);

    if (wrong)
        say(fake_of(host), "the provider asks for option %s%s", name, wrong);
    return status;
}

static bool configure(struct fake_host *fake, const char *name, const char *value)
{
    char why[800];

    if (host_options_set(fake->options, name, value, why, sizeof(why)))
        return true;
    say(fake, "%s", why);
    return false;
}

static enum ri_status set_options(struct fake_host *fake, const char *const *own)
{
    /* What a test expects does not depend on its speed. */
    static const char *const without[] = { "rtr_repeat", "ack_timeout" };
    const char *lanes = getenv("ITAL_TEST_LANES");
    bool good = true;

    fake->options = host_options_create(fake->provider);
    for (size_t i = 0; i < ARRAY_SIZE(without); i++)
        if (host_options_type(fake->options, without[i]))
            good &= configure(fake, without[i], "0");
    if (lanes && host_options_type(fake->options, "lanes"))
        good &= configure(fake, "lanes", lanes);
    for (; own && *own; own += 2)
        good &= configure(fake, own[0], own[1]);
    return good ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

/* ---- watches ---- */

static enum ri_status host_watch(const struct ri_host *host, void *lane_context, int fd,
                                 uint32_t events, ri_ready_fn ready, void *arg,
                                 struct ri_watch **out)
{
    struct fake_host *fake = fake_of(host);
    struct ri_watch *watch = calloc(1, sizeof(*watch));
    struct epoll_event event = { .events = events, .data.ptr = watch };

    ck_assert_ptr_eq(lane_context, fake);
    if (!watch)
        return RI_ERR_NO_RESOURCES;
    watch->ready = ready;
    watch->arg = arg;
    watch->fd = fd;
    pthread_mutex_lock(&fake->lock);
    watch->next = fake->watches;
    fake->watches = watch;
    *out = watch;
    pthread_mutex_unlock(&fake->lock);
    if (epoll_ctl(fake->epoll, EPOLL_CTL_ADD, fd, &event))
        ck_abort_msg("watch: %s", strerror(errno));
    return RI_OK;
}

static enum ri_status host_rewatch(const struct ri_host *host, struct ri_watch *watch,
                                   uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = watch };

    if (epoll_ctl(fake_of(host)->epoll, EPOLL_CTL_MOD, watch->fd, &event))
        ck_abort_msg("rewatch: %s", strerror(errno));
    return RI_OK;
}

/* Waits for a callback that runs in another thread. The record stays until a run
 * begins: epoll may have named it. */
static void host_unwatch(const struct ri_host *host, struct ri_watch *watch)
{
    struct fake_host *fake = fake_of(host);
    struct ri_watch **at;

    if (epoll_ctl(fake->epoll, EPOLL_CTL_DEL, watch->fd, NULL))
        ck_abort_msg("unwatch: %s", strerror(errno));
    pthread_mutex_lock(&fake->running);
    pthread_mutex_lock(&fake->lock);
    for (at = &fake->watches; *at != watch; at = &(*at)->next)
        ck_assert_ptr_nonnull(*at);
    *at = watch->next;
    watch->ready = NULL;
    watch->next = fake->dead;
    fake->dead = watch;
    pthread_mutex_unlock(&fake->lock);
    pthread_mutex_unlock(&fake->running);
}

static void bury(struct fake_host *fake)
{
    struct ri_watch *watch;

    pthread_mutex_lock(&fake->lock);
    while ((watch = fake->dead)) {
        fake->dead = watch->next;
        free(watch);
    }
    pthread_mutex_unlock(&fake->lock);
}

void fake_host_listen(struct fake_host *fake, int fd)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = NULL };

    if (epoll_ctl(fake->epoll, EPOLL_CTL_ADD, fd, &event))
        ck_abort_msg("listen: %s", strerror(errno));
}

/* ---- timers ---- */

/* Under the lock. */
static void take_off(struct fake_host *fake, const struct ri_timer *timer)
{
    for (unsigned int i = 0; i < fake->timer_count; i++)
        if (fake->timers[i] == timer)
            fake->timers[i--] = fake->timers[--fake->timer_count];
}

static void host_timer_cancel(const struct ri_host *host, void *lane_context,
                              struct ri_timer *timer)
{
    struct fake_host *fake = fake_of(host);

    (void)lane_context;
    pthread_mutex_lock(&fake->running);
    pthread_mutex_lock(&fake->lock);
    take_off(fake, timer);
    pthread_mutex_unlock(&fake->lock);
    pthread_mutex_unlock(&fake->running);
}

static void host_timer_set(const struct ri_host *host, void *lane_context, struct ri_timer *timer)
{
    struct fake_host *fake = fake_of(host);

    (void)lane_context;
    pthread_mutex_lock(&fake->lock);
    take_off(fake, timer);
    ck_assert_uint_lt(fake->timer_count, sizeof(fake->timers) / sizeof(fake->timers[0]));
    fake->timers[fake->timer_count++] = timer;
    pthread_mutex_unlock(&fake->lock);
}

static struct ri_timer *take_expired(struct fake_host *fake)
{
    struct ri_timer *timer = NULL;
    uint64_t now = tc_now_ns();

    pthread_mutex_lock(&fake->lock);
    for (unsigned int i = 0; i < fake->timer_count && !timer; i++) {
        if (fake->timers[i]->deadline <= now) {
            timer = fake->timers[i];
            fake->timers[i] = fake->timers[--fake->timer_count];
        }
    }
    pthread_mutex_unlock(&fake->lock);
    return timer;
}

void fake_host_expire_timers(struct fake_host *fake)
{
    pthread_mutex_lock(&fake->lock);
    for (unsigned int i = 0; i < fake->timer_count; i++)
        fake->timers[i]->deadline = 0;
    pthread_mutex_unlock(&fake->lock);
}

/* Time to sleep: up to the next timer. */
static int shorten(struct fake_host *fake, int timeout_ms)
{
    uint64_t now = tc_now_ns(), next = RI_NO_DEADLINE;

    pthread_mutex_lock(&fake->lock);
    for (unsigned int i = 0; i < fake->timer_count; i++)
        if (fake->timers[i]->deadline < next)
            next = fake->timers[i]->deadline;
    pthread_mutex_unlock(&fake->lock);
    if (next <= now)
        return 0;
    if ((next - now) / 1000000 < (uint64_t)timeout_ms)
        return (int)((next - now) / 1000000) + 1;
    return timeout_ms;
}

/* ---- upcalls ---- */

static void host_wake(const struct ri_host *host, void *lane_context)
{
    ck_assert_ptr_eq(lane_context, fake_of(host));
    if (eventfd_write(fake_of(host)->event, 1))
        ck_abort_msg("wake: %s", strerror(errno));
}

void fake_host_wake(struct fake_host *fake)
{
    host_wake(&fake->host, fake);
}

static void host_cq_event(const struct ri_host *host, void *context)
{
    struct fake_record *record = context;

    (void)host;
    if (record)
        atomic_fetch_add(&record->count, 1);
}

static void host_cq_error(const struct ri_host *host, void *context, const struct ri_event *event)
{
    struct fake_record *record = context;

    (void)host;
    ck_assert_int_eq(event->type, RI_EVENT_CQ_OVERFLOW);
    if (record)
        atomic_fetch_add(&record->cq_errors, 1);
}

static void host_qp_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    struct fake_record *record = context;
    unsigned int place = atomic_load(&record->count);

    (void)host;
    ck_assert_uint_lt(place, FAKE_EVENTS);
    record->type[place] = event->type;
    record->code[place] = event->terminate_code;
    record->explained[place] = event->explained;
    atomic_store(&record->count, place + 1);
}

static void host_srq_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    host_qp_event(host, context, event);
}

/* ---- life ---- */

static enum ri_status open_lanes(struct fake_host *fake)
{
    struct ri_rnic_attr attr = { .size = sizeof(attr) };
    enum ri_status status = fake->privileged.query(fake->rnic, &attr);

    for (uint32_t i = 0; status == RI_OK && i < attr.lanes; i++) {
        ck_assert_uint_lt(i, FAKE_LANES);
        status = fake->privileged.lane_open(fake->rnic, i, fake, &fake->lanes[i]);
        fake->lane_count++;
    }
    fake->lane = fake->lanes[0];
    return status;
}

enum ri_status fake_host_open_provider(struct fake_host *fake, const struct ri_provider *provider,
                                       const char *const *options)
{
    struct ri_open open = { .size = sizeof(open), .host = &fake->host, .context = fake };
    const char *reason = NULL;
    pthread_mutexattr_t recursive;
    enum ri_status status;

    memset(fake, 0, sizeof(*fake));
    fake->provider = provider;
    fake->host = (struct ri_host){
        .size = sizeof(fake->host),
        .abi_major = RI_ABI_MAJOR,
        .abi_minor = RI_ABI_MINOR,
        .context = fake,
        .option = host_option,
        .log = host_log,
        .watch = host_watch,
        .rewatch = host_rewatch,
        .unwatch = host_unwatch,
        .timer_set = host_timer_set,
        .timer_cancel = host_timer_cancel,
        .wake = host_wake,
        .cq_event = host_cq_event,
        .qp_event = host_qp_event,
        .cq_error = host_cq_error,
        .srq_event = host_srq_event,
    };
    pthread_mutex_init(&fake->lock, NULL);
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&fake->running, &recursive);
    pthread_mutexattr_destroy(&recursive);
    fake->epoll = epoll_create1(EPOLL_CLOEXEC);
    fake->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ck_assert_int_ge(fake->epoll, 0);
    ck_assert_int_ge(fake->event, 0);
    fake_host_listen(fake, fake->event);
    ck_assert_int_eq(ri_provider_check(provider, &reason), RI_OK);
    if (set_options(fake, options) != RI_OK)
        return RI_ERR_INVALID_ARGUMENT;
    ri_complete_privileged_ops(&fake->privileged, provider->privileged);
    ri_complete_user_ops(&fake->user, provider->user);
    open.privileged = &fake->privileged;
    open.user = &fake->user;
    status = fake->privileged.open(&open, &fake->rnic);
    return status == RI_OK ? open_lanes(fake) : status;
}

void fake_host_close(struct fake_host *fake, bool force)
{
    uint64_t end = tc_deadline(20000);
    enum ri_status status;

    while ((status = fake->privileged.close(fake->rnic, force)) == RI_ERR_AGAIN &&
           !tc_expired(end)) {
        uint32_t pieces = fake_host_run(fake, NULL);

        status = fake->privileged.close(fake->rnic, force);
        if (status != RI_ERR_AGAIN)
            break;
        fake_host_sleep(fake, pieces, tc_remaining_ms(end));
    }
    ck_assert_msg(status == RI_OK, "close: %s", ri_status_name(status));
    fake->rnic = NULL;
    ck_assert_ptr_null(fake->watches);
    ck_assert_uint_eq(fake->timer_count, 0);
}

void fake_host_free(struct fake_host *fake)
{
    bury(fake);
    host_options_destroy(fake->options);
    close(fake->epoll);
    close(fake->event);
    pthread_mutex_destroy(&fake->running);
    pthread_mutex_destroy(&fake->lock);
}

static void call_ready(struct fake_host *fake, struct ri_watch *watch, uint32_t events)
{
    eventfd_t woken;

    if (!watch) { /* the test's own, or a wake-up */
        eventfd_read(fake->event, &woken);
        return;
    }
    pthread_mutex_lock(&fake->running);
    if (watch->ready)
        watch->ready(watch->arg, events);
    pthread_mutex_unlock(&fake->running);
}

static bool call_expired(struct fake_host *fake)
{
    struct ri_timer *timer;

    pthread_mutex_lock(&fake->running);
    timer = take_expired(fake);
    if (timer)
        timer->expired(timer);
    pthread_mutex_unlock(&fake->running);
    return timer != NULL;
}

static void dispatch(struct fake_host *fake, int timeout_ms)
{
    struct epoll_event events[16];
    int count = epoll_wait(fake->epoll, events, 16, timeout_ms);

    for (int i = 0; i < count; i++)
        call_ready(fake, events[i].data.ptr, events[i].events);
    while (call_expired(fake))
        ;
}

uint32_t fake_host_run(struct fake_host *fake, struct ri_cq *first)
{
    uint32_t pieces = 0;

    bury(fake);
    atomic_fetch_add(&fake->runs, 1);
    for (uint32_t i = 0; i < fake->lane_count && !(i && fake->apart); i++)
        pieces += fake_host_run_lane(fake, i, first);
    return pieces;
}

uint32_t fake_host_run_lane(struct fake_host *fake, uint32_t lane, struct ri_cq *first)
{
    uint64_t next;

    return fake->user.progress(fake->lanes[lane], first, 256, &next);
}

void fake_host_sleep(struct fake_host *fake, uint32_t pieces, int timeout_ms)
{
    bool armed = !pieces;

    for (uint32_t i = 0; armed && i < fake->lane_count && !(i && fake->apart); i++)
        armed = fake->user.lane_arm(fake->lanes[i]);
    if (armed)
        atomic_fetch_add(&fake->sleeps, 1);
    dispatch(fake, armed ? shorten(fake, timeout_ms) : 0);
}
