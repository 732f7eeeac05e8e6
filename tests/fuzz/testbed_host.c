/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of the provider in a test bed: a host and a lower layer in memory, and random
 * numbers that are the same for each input. */
#include "tests/fuzz/testbed_private.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

struct testbed the_bed;
struct fuzz_wire the_wires[TESTBED_WIRES];

struct fake_host the_host;

/* ---- random numbers: the same for each input ---- */

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

/* Test beds are many and short-lived: ASan keeps freed memory only briefly. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=8";
}

/* ---- host ---- */

static bool may_watch(struct fake_lane *own, int fd)
{
    (void)own;
    FUZZ_CHECK(fd >= 0 && fd < (int)TESTBED_WIRES && !the_wires[fd].closed);
    return true;
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

/* Each connection has one end event, for its QP. */
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

/* Formats log messages, so that a wrong format shows, and drops them. */
void host_open(void)
{
    fake_host_init(&the_host, &rnicpi_provider_v1, false);
    the_host.quiet = true;
    the_host.events.may_watch = may_watch;
    the_host.host.cq_event = host_cq_event;
    the_host.host.cq_error = host_cq_error;
    the_host.host.qp_event = host_qp_event;
    the_host.host.srq_event = host_srq_event;
}

void host_expire(void)
{
    fake_lane_expire_timers(&the_host.events);
    for (uint32_t i = fake_lane_timers(&the_host.events); i; i--)
        fake_lane_run_timer(&the_host.events);
}

/* ---- the lower layer ---- */

static int wire_number(const struct fuzz_wire *wire)
{
    return (int)(wire - the_wires);
}

bool wire_is_watched(const struct fuzz_wire *wire)
{
    return fake_lane_watch_of(&the_host.events, wire_number(wire)) != NULL;
}

static struct fuzz_wire *wire_of(const struct stream *stream)
{
    FUZZ_CHECK(stream->fd >= 0 && stream->fd < (int)TESTBED_WIRES && !the_wires[stream->fd].closed);
    return &the_wires[stream->fd];
}

static ssize_t wire_send(struct stream *stream, const struct iovec *iov, int count)
{
    struct fuzz_wire *wire = wire_of(stream);
    uint64_t taken = 0;

    FUZZ_CHECK(count > 0 && count <= (int)TX_IOV);
    if (wire->reset || wire->finished)
        return wire->reset ? -ECONNRESET : -EPIPE;
    if (wire->send_error)
        return -wire->send_error;
    for (int i = 0; i < count && wire->credit; i++) {
        size_t part = iov[i].iov_len < wire->credit ? iov[i].iov_len : (size_t)wire->credit;

        FUZZ_CHECK(iov[i].iov_len);
        checker_octets(&wire->checker, iov[i].iov_base, part);
        wire->credit -= part;
        taken += part;
    }
    return taken ? (ssize_t)taken : -EAGAIN;
}

static ssize_t wire_receive(struct stream *stream, void *buffer, size_t length)
{
    struct fuzz_wire *wire = wire_of(stream);
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

/* Octets beyond `length` do not touch the first buffer, nor octets beyond what came the second. */
static ssize_t wire_receive_two(struct stream *stream, void *buffer, size_t length, void *behind,
                                size_t more)
{
    ssize_t got = wire_receive(stream, buffer, length), further = 0;
    struct fuzz_wire *wire = wire_of(stream);

    if (got == (ssize_t)length && wire->input_length != wire->input_taken)
        further = wire_receive(stream, behind, more);
    return got + further;
}

static uint32_t wire_emss(struct stream *stream)
{
    return wire_of(stream)->emss;
}

static void wire_finish(struct stream *stream)
{
    struct fuzz_wire *wire = wire_of(stream);

    FUZZ_CHECK(!wire->finished);
    if (!wire->send_error && !wire->reset)
        checker_fin(&wire->checker);
    wire->finished = true;
}

static void wire_close(struct stream *stream, bool reset)
{
    struct fuzz_wire *wire = wire_of(stream);

    (void)reset;
    FUZZ_CHECK(!wire_is_watched(wire));
    wire->closed = true;
}

const struct llp_ops testbed_llp = { .send = wire_send,
                                     .receive = wire_receive,
                                     .receive_two = wire_receive_two,
                                     .emss = wire_emss,
                                     .finish = wire_finish,
                                     .close = wire_close };

static bool unread(const struct fuzz_wire *wire)
{
    return wire->input_length != wire->input_taken || wire->fin || wire->reset;
}

bool wire_report(struct fuzz_wire *wire)
{
    uint32_t events = 0;

    if (!wire->used)
        return false;
    if (unread(wire))
        events |= EPOLLIN | (wire->fin || wire->reset ? EPOLLRDHUP : 0u);
    if (wire->credit || wire->send_error || wire->reset)
        events |= EPOLLOUT;
    if (wire->reset)
        events |= EPOLLERR | EPOLLHUP;
    return fake_lane_ready(&the_host.events, wire_number(wire), events);
}
