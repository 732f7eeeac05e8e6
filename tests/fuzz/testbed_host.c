/* SPDX-License-Identifier: BSD-3-Clause */
/* What a test bed gives the provider: a host and a lower layer of memory, chance
 * that is the same for each input. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "kal/config/kal_config.h"
#include "tests/fuzz/testbed_private.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#define TIMERS 32u

struct testbed the_bed;
struct wire the_wires[TESTBED_WIRES];

static struct ri_timer *timers[TIMERS];
static uint32_t timer_count;

/* ---- chance: the same for each input ---- */

static uint64_t chance;

ssize_t getrandom(void *buffer, size_t length, unsigned int flags)
{
    uint8_t *out = buffer;

    (void)flags;
    for (size_t i = 0; i < length; i++) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        out[i] = (uint8_t)(chance >> 56);
    }
    return (ssize_t)length;
}

void host_begin(void)
{
    chance = 1;
}

/* Worlds are many and short: what they free is not kept for long. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=8";
}

/* ---- host ---- */

static enum ri_status host_option(const struct ri_host *host, const char *name,
                                  enum ri_option_kind kind, union ri_option_value *value)
{
    static struct kal_values *defaults;
    const char *wrong;

    (void)host;
    if (!defaults)
        defaults = kal_values_of_interface(rnicpi_provider_v1.options,
                                           rnicpi_provider_v1.option_count);
    FUZZ_CHECK(defaults && kal_values_read(defaults, name, kind, value, &wrong) == RI_OK);
    return RI_OK;
}

/* Nobody reads it, but a format that does not fit its arguments shows. */
static void host_log(const struct ri_host *host, enum ri_log_level level, const char *format,
                     va_list args)
{
    char line[512];

    (void)host, (void)level;
    vsnprintf(line, sizeof(line), format, args);
}

struct ri_watch {
    struct wire *wire;
};
static struct ri_watch watches[TESTBED_WIRES];

static enum ri_status host_watch(const struct ri_host *host, void *context, int fd, uint32_t events,
                                 ri_ready_fn ready, void *arg, struct ri_watch **watch)
{
    struct wire *wire = &the_wires[fd];

    (void)host, (void)context;
    FUZZ_CHECK(fd >= 0 && fd < (int)TESTBED_WIRES && !wire->is_watched && !wire->closed);
    wire->ready = ready;
    wire->arg = arg;
    wire->watched = events;
    wire->is_watched = true;
    watches[fd].wire = wire;
    *watch = &watches[fd];
    return RI_OK;
}

static enum ri_status host_rewatch(const struct ri_host *host, struct ri_watch *watch,
                                   uint32_t events)
{
    (void)host;
    FUZZ_CHECK(watch->wire->is_watched && !watch->wire->closed);
    watch->wire->watched = events;
    return RI_OK;
}

static void host_unwatch(const struct ri_host *host, struct ri_watch *watch)
{
    (void)host;
    FUZZ_CHECK(watch->wire->is_watched && !watch->wire->closed);
    watch->wire->is_watched = false;
}

static void host_timer_cancel(const struct ri_host *host, void *context, struct ri_timer *timer)
{
    (void)host, (void)context;
    for (uint32_t i = 0; i < timer_count; i++)
        if (timers[i] == timer)
            timers[i--] = timers[--timer_count];
}

static void host_timer_set(const struct ri_host *host, void *context, struct ri_timer *timer)
{
    host_timer_cancel(host, context, timer);
    FUZZ_CHECK(timer_count < TIMERS);
    timers[timer_count++] = timer;
}

static void host_wake(const struct ri_host *host, void *context)
{
    (void)host, (void)context;
}

static void host_cq_event(const struct ri_host *host, void *context)
{
    (void)host, (void)context;
    the_bed.cq_events++;
}

static void host_cq_error(const struct ri_host *host, void *context, const struct ri_event *event)
{
    (void)host, (void)context;
    FUZZ_CHECK(event->type == RI_EVENT_CQ_OVERFLOW);
    the_bed.cq_errors++;
}

static void host_srq_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    (void)host, (void)context, (void)event;
    the_bed.srq_events++;
}

/* One end for each connection, and it is told to be the QP's. */
static void host_qp_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    struct live_qp *live = context;

    (void)host;
    FUZZ_CHECK(live >= the_bed.qps && live < the_bed.qps + TESTBED_QPS && live->qp && live->wire);
    if (event->detail)
        FUZZ_CHECK(strlen(event->detail) < 400);
    if (event->detail && strstr(event->detail, "was revoked"))
        the_bed.revoked = true;
    if (event->type == RI_EVENT_ESTABLISHED) {
        FUZZ_CHECK(!live->wire->established++ && !live->wire->ended);
    } else if (event->type < RI_EVENT_QP_FATAL || event->type == RI_EVENT_QP_OVERFLOW) {
        FUZZ_CHECK(!live->wire->ended++);
    }
    the_bed.digest = (the_bed.digest ^ (uint64_t)event->type ^
                      (uint64_t)event->terminate_code << 16) *
                     0x100000001B3u;
}

const struct ri_host testbed_host = {
    .size = sizeof(testbed_host),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
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

uint32_t host_timers(void)
{
    return timer_count;
}

void host_expire(void)
{
    struct ri_timer *now[TIMERS];
    uint32_t count = timer_count;

    memcpy(now, timers, sizeof(now));
    for (uint32_t i = 0; i < count; i++) {
        bool set = false;

        for (uint32_t k = 0; k < timer_count; k++)
            set |= timers[k] == now[i];
        if (!set)
            continue;
        host_timer_cancel(&testbed_host, NULL, now[i]);
        now[i]->deadline = 0;
        now[i]->expired(now[i]);
    }
}

/* ---- the lower layer ---- */

static struct wire *wire_of(const struct stream *stream)
{
    FUZZ_CHECK(stream->fd >= 0 && stream->fd < (int)TESTBED_WIRES && !the_wires[stream->fd].closed);
    return &the_wires[stream->fd];
}

static ssize_t wire_send(struct stream *stream, const struct iovec *iov, int count)
{
    struct wire *wire = wire_of(stream);
    uint64_t taken = 0;

    FUZZ_CHECK(count > 0 && count <= (int)TX_IOV);
    if (wire->reset || wire->finished)
        return wire->reset ? -ECONNRESET : -EPIPE;
    if (wire->send_error)
        return -wire->send_error;
    for (int i = 0; i < count && wire->credit; i++) {
        size_t part = iov[i].iov_len < wire->credit ? iov[i].iov_len : (size_t)wire->credit;

        FUZZ_CHECK(iov[i].iov_len);
        judge_octets(&wire->judge, iov[i].iov_base, part);
        wire->credit -= part;
        taken += part;
    }
    return taken ? (ssize_t)taken : -EAGAIN;
}

static ssize_t wire_receive(struct stream *stream, void *buffer, size_t length)
{
    struct wire *wire = wire_of(stream);
    size_t there = wire->input_length - wire->input_taken;

    FUZZ_CHECK(length);
    if (there > length)
        there = length;
    if (!there && wire->reset)
        return -ECONNRESET;
    if (!there)
        return wire->fin ? 0 : -EAGAIN;
    memcpy(buffer, wire->input + wire->input_taken, there);
    wire->input_taken += there;
    if (wire->input_taken == wire->input_length)
        wire->input_taken = wire->input_length = 0;
    return (ssize_t)there;
}

static uint32_t wire_emss(struct stream *stream)
{
    return wire_of(stream)->emss;
}

static void wire_finish(struct stream *stream)
{
    struct wire *wire = wire_of(stream);

    FUZZ_CHECK(!wire->finished);
    if (!wire->send_error && !wire->reset)
        judge_fin(&wire->judge);
    wire->finished = true;
}

static void wire_close(struct stream *stream, bool reset)
{
    struct wire *wire = wire_of(stream);

    (void)reset;
    FUZZ_CHECK(!wire->is_watched);
    wire->closed = true;
}

const struct llp_ops testbed_llp = { .send = wire_send,
                                     .receive = wire_receive,
                                     .emss = wire_emss,
                                     .finish = wire_finish,
                                     .close = wire_close };

static bool unread(const struct wire *wire)
{
    return wire->input_length != wire->input_taken || wire->fin || wire->reset;
}

bool wire_report(struct wire *wire)
{
    uint32_t events = 0;

    if (!wire->used || !wire->is_watched)
        return false;
    if (unread(wire))
        events |= EPOLLIN | (wire->fin || wire->reset ? EPOLLRDHUP : 0u);
    if (wire->credit || wire->send_error || wire->reset)
        events |= EPOLLOUT;
    events &= wire->watched;
    if (wire->reset)
        events |= EPOLLERR | EPOLLHUP;
    if (events)
        wire->ready(wire->arg, events);
    return events;
}
