/* SPDX-License-Identifier: BSD-3-Clause */
/* A host for the provider alone: see fake_host.h. */
#include "fake_host.h"

#include "fake_filters.h"

#include "host_options.h"

#include "base/clock.h"
#include "base/compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A provider that does not return from close ends the program. */
#define CLOSE_NS (20 * CLOCK_NS_PER_S)

static struct fake_host *fake_of(const struct ri_host *host)
{
    return host->context;
}

/* ---- options and log ---- */

static void host_log(const struct ri_host *host, enum ri_log_level level, const char *format,
                     va_list args)
{
    char line[1024];

    fake_of(host)->logged[level]++;
    vsnprintf(line, sizeof(line), format, args);
    if (!fake_of(host)->quiet)
        fprintf(stderr, "# provider: %s\n", line);
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
    /* Options that depend on time; the results of a test must not depend on its speed. */
    static const char *const without[] = { "rtr_repeat", "ack_timeout" };
    const char *lanes = getenv("ITAL_TEST_LANES"), *local = getenv("ITAL_TEST_LOCAL");
    const char *access = getenv("ITAL_TEST_LOCAL_ACCESS");
    bool good = true;

    for (size_t i = 0; i < ARRAY_SIZE(without); i++)
        if (host_options_type(fake->options, without[i]))
            good &= configure(fake, without[i], "0");
    if (lanes && host_options_type(fake->options, "lanes"))
        good &= configure(fake, "lanes", lanes);
    if (local && host_options_type(fake->options, "local"))
        good &= configure(fake, "local", local);
    if (access && host_options_type(fake->options, "local_access"))
        good &= configure(fake, "local_access", access);
    for (; own && *own; own += 2)
        good &= configure(fake, own[0], own[1]);
    return good ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

/* ---- the lane ---- */

static enum ri_status host_watch(const struct ri_host *host, void *lane_context, int fd,
                                 uint32_t events, ri_ready_fn ready, void *arg,
                                 struct ri_watch **watch)
{
    FAKE_CHECK(lane_context == &fake_of(host)->events);
    return fake_lane_watch(lane_context, fd, events, ready, arg, watch);
}

static enum ri_status host_rewatch(const struct ri_host *host, struct ri_watch *watch,
                                   uint32_t events)
{
    (void)host;
    return fake_lane_rewatch(watch, events);
}

static void host_unwatch(const struct ri_host *host, struct ri_watch *watch)
{
    (void)host;
    fake_lane_unwatch(watch);
}

static void host_timer_set(const struct ri_host *host, void *lane_context, struct ri_timer *timer)
{
    FAKE_CHECK(lane_context == &fake_of(host)->events);
    fake_lane_timer_set(lane_context, timer);
}

static void host_timer_cancel(const struct ri_host *host, void *lane_context,
                              struct ri_timer *timer)
{
    FAKE_CHECK(lane_context == &fake_of(host)->events);
    fake_lane_timer_cancel(lane_context, timer);
}

static void host_wake(const struct ri_host *host, void *lane_context)
{
    FAKE_CHECK(lane_context == &fake_of(host)->events);
    fake_lane_wake(lane_context);
}

void fake_host_listen(struct fake_host *fake, int fd)
{
    fake_lane_listen(&fake->events, fd);
}

void fake_host_wake(struct fake_host *fake)
{
    fake_lane_wake(&fake->events);
}

void fake_host_expire_timers(struct fake_host *fake)
{
    fake_lane_expire_timers(&fake->events);
}

/* ---- upcalls ---- */

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
    FAKE_CHECK(event->type == RI_EVENT_CQ_OVERFLOW && event->detail);
    if (record)
        atomic_fetch_add(&record->cq_errors, 1);
}

/* Front ends log it; without, nobody learns why a connection broke. An end in order needs none, nor
 * does what this side asked for, or a completion tells. */
static bool has_reason(const struct ri_event *event)
{
    switch (event->type) {
    case RI_EVENT_ESTABLISHED:
    case RI_EVENT_LLP_CLOSED:
    case RI_EVENT_LOCAL_ERROR: return true;
    default:
        return (event->type > RI_EVENT_QP_FATAL && event->type != RI_EVENT_QP_OVERFLOW) ||
               (event->detail && *event->detail);
    }
}

static void host_qp_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    struct fake_record *record = context;
    unsigned int place = atomic_load(&record->count);

    (void)host;
    FAKE_CHECK(place < FAKE_EVENTS);
    FAKE_CHECK(has_reason(event));
    record->type[place] = event->type;
    record->code[place] = event->terminate_code;
    record->explained[place] = event->explained;
    atomic_store(&record->count, place + 1);
}

static void host_srq_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    host_qp_event(host, context, event);
}

static void host_rnic_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    (void)event;
    FAKE_CHECK(context == host->context);
    atomic_fetch_add(&((struct fake_host *)context)->rnic_events, 1);
}

/* ---- life ---- */

static enum ri_status open_lanes(struct fake_host *fake)
{
    struct ri_rnic_attr attr = { .size = sizeof(attr) };
    enum ri_status status = fake->privileged.query(fake->rnic, &attr);

    for (uint32_t i = 0; status == RI_OK && i < attr.lanes; i++) {
        FAKE_CHECK(i < FAKE_LANES);
        status = fake->privileged.lane_open(fake->rnic, i, &fake->events, &fake->lanes[i]);
        fake->lane_count++;
    }
    fake->lane = fake->lanes[0];
    return status;
}

void fake_host_init(struct fake_host *fake, const struct ri_provider *provider, bool epoll)
{
    memset(fake, 0, sizeof(*fake));
    fake->provider = provider;
    if (provider)
        fake->options = host_options_create(provider);
    if (provider && host_options_type(fake->options, "local"))
        configure(fake, "local", "no"); /* iWARP's octets are looked at, unless asked */
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
        .rnic_event = host_rnic_event,
    };
    fake_lane_open(&fake->events, epoll);
}

enum ri_status fake_host_open_provider(struct fake_host *fake, const struct ri_provider *provider,
                                       const char *const *options)
{
    struct ri_open open = { .size = sizeof(open), .host = &fake->host, .context = fake };
    const char *reason = NULL;
    enum ri_status status;

    fake_host_init(fake, provider, true);
    FAKE_CHECK(ri_provider_check(provider, &reason) == RI_OK);
    if (set_options(fake, options) != RI_OK)
        return RI_ERR_INVALID_ARGUMENT;
    ri_complete_privileged_ops(&fake->privileged, provider->privileged);
    ri_complete_user_ops(&fake->user, provider->user);
    open.privileged = &fake->privileged;
    open.user = &fake->user;
    fake_filters_take(&open, &fake->privileged, &fake->user);
    status = fake->privileged.open(&open, &fake->rnic);
    return status == RI_OK ? open_lanes(fake) : status;
}

static uint64_t stretched(uint64_t ns)
{
    const char *scale = getenv("TEST_TIMEOUT_SCALE");

    return scale && atof(scale) > 1 ? (uint64_t)((double)ns * atof(scale)) : ns;
}

void fake_host_close(struct fake_host *fake, bool force)
{
    uint64_t end = clock_after(clock_now(), stretched(CLOSE_NS));
    enum ri_status status;

    while ((status = fake->privileged.close(fake->rnic, force)) == RI_ERR_AGAIN &&
           clock_now() < end) {
        uint32_t pieces = fake_host_run(fake, NULL);

        status = fake->privileged.close(fake->rnic, force);
        if (status != RI_ERR_AGAIN)
            break;
        fake_host_sleep(fake, pieces, clock_poll_ms(clock_now(), end));
    }
    if (status != RI_OK)
        say(fake, "close: %s", ri_status_name(status));
    FAKE_CHECK(status == RI_OK);
    fake->rnic = NULL;
    FAKE_CHECK(!fake_lane_watches(&fake->events) && !fake_lane_timers(&fake->events));
}

void fake_host_free(struct fake_host *fake)
{
    fake_lane_close(&fake->events);
    host_options_destroy(fake->options);
}

/* ---- runs ---- */

uint32_t fake_host_run(struct fake_host *fake, struct ri_cq *first)
{
    uint32_t pieces = 0;

    atomic_fetch_add(&fake->runs, 1);
    for (uint32_t i = 0; i < fake->lane_count && !(i && fake->apart); i++)
        pieces += fake_host_run_lane(fake, i, first);
    return pieces;
}

uint32_t fake_host_run_lane(struct fake_host *fake, uint32_t lane, struct ri_cq *first)
{
    uint64_t next;

    return fake->lanes[lane]->ops->progress(fake->lanes[lane], first, 256, &next);
}

/* The sleep ends at the next timer. */
static int shorten(struct fake_host *fake, int timeout_ms)
{
    int next = clock_poll_ms(clock_now(), fake_lane_next_timer(&fake->events));

    return next >= 0 && next < timeout_ms ? next : timeout_ms;
}

void fake_host_sleep(struct fake_host *fake, uint32_t pieces, int timeout_ms)
{
    bool armed = !pieces;

    for (uint32_t i = 0; armed && i < fake->lane_count && !(i && fake->apart); i++)
        armed = fake->lanes[i]->ops->lane_arm(fake->lanes[i]);
    if (armed)
        atomic_fetch_add(&fake->sleeps, 1);
    fake_lane_pass(&fake->events, armed ? shorten(fake, timeout_ms) : 0);
}
