/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A peer that acknowledges nothing any more is lost: option ack_timeout. Neither TCP_USER_TIMEOUT
 * nor keep-alive can say so. The former also ends a connection whose live peer keeps its window
 * closed because it does not read; the latter asks nothing while octets are out. So the stream
 * looks at what TCP knows (llp_ops.waits), a sixth of ack_timeout apart, for as long as octets wait
 * for an acknowledgement or for the window, and ends when one wait has lasted for ack_timeout. A
 * probe of a closed window that the peer answers ends a wait as any acknowledgement does: a live
 * peer may read nothing for ever. So that probes and repetitions come often enough to tell in that
 * time, llp_tcp_prepare bounds the time between them where the kernel allows it (TCP_RTO_MAX_MS,
 * Linux 6.15); else it grows to two minutes while a window stays closed, and the wait with it.
 *
 * The data path has nothing to ask for that. A stream for which TCP has nothing to do is idle: it
 * has no timer, and tx sends by llp_idle, whose send puts the real lower layer back and sets the
 * timer. A look sees that there is nothing to do, and makes the stream idle, inside tx: so what was
 * sent before shows in what TCP knows, and a thread that comes later finds llp_idle.
 *
 * A wait begins where a look finds it, so what waits is found lost after seven sixths of
 * ack_timeout at most. Keep-alive's probes, which ask an idle peer, are a wait, too: of who first
 * sends while some are unanswered it began with them.
 */
#include "connection.h"
#include "providers/software/iwarp/objects/iwarp.h"

#define LOOKS LLP_ACK_LOOKS
/* Unanswered probes: fewer may be lost on their way, or come faster than a peer answers. */
#define PROBES      3u
#define REPEATS     2u                     /* of octets, for the same reason */
#define TCP_TICK_NS (20 * CLOCK_NS_PER_MS) /* TCP reports ages in ticks of its clock */

static uint64_t before(uint64_t now, uint64_t age)
{
    return age < now ? now - age : 1;
}

static void check_stream(struct stream *stream, uint64_t deadline)
{
    const struct ri_host *host = stream->lane->rnic->host;

    stream->acks.timer.deadline = deadline;
    host->timer_set(host, stream->lane->base.context, &stream->acks.timer);
}

static uint64_t between_looks(const struct stream *stream)
{
    return iwarp_rnic(stream->lane->rnic)->options.ack_timeout_ns / LOOKS;
}

static void begin_wait(struct stream *stream, const struct llp_wait *wait, uint64_t since)
{
    stream->acks.waits_since = since;
    stream->acks.repeats = wait->repeats;
}

/* Inside tx. The last check has left the fields and the timer to this thread. */
static ssize_t idle_send(struct stream *stream, const struct iovec *iov, int count)
{
    uint64_t interval = iwarp_rnic(stream->lane->rnic)->options.keepalive_interval_s *
                        CLOCK_NS_PER_S;
    uint64_t now = clock_now();
    struct llp_wait wait;

    stream->sender = stream->llp;
    stream->llp->waits(stream, &wait);
    stream->acks.looked_at = now;
    begin_wait(stream, &wait, wait.probes ? before(now, (wait.probes - 1) * interval) : 0);
    check_stream(stream, clock_after(now, between_looks(stream)));
    return stream->llp->send(stream, iov, count);
}

static const struct llp_ops llp_idle = { .send = idle_send };

void llp_acks_insert(struct stream *stream)
{
    bool on = iwarp_rnic(stream->lane->rnic)->options.ack_timeout_ns && stream->llp->waits;

    stream->sender = on ? &llp_idle : stream->llp;
}

/* True: TCP waits for nothing. False: there is something to wait for, or a thread is sending. It
 * does not wait for tx with rx held. Work that other threads left meanwhile is left to
 * qp_deliver: it may end the connection, which takes rx. */
static bool becomes_idle(struct stream *stream, struct iwarp_qp *qp, struct llp_wait *wait)
{
    bool alone = tx_try_enter(&qp->core);

    rx_assert_held(stream);
    stream->llp->waits(stream, wait);
    if (!alone)
        return false;
    if (!wait->octets)
        stream->sender = &llp_idle;
    tx_leave_work(&qp->core);
    return !wait->octets;
}

/* One wait without an answer has lasted for ack_timeout, and so much was sent meanwhile that a
 * live peer would have answered. */
static bool is_lost(struct stream *stream, const struct llp_wait *wait, uint64_t now)
{
    bool heard = before(now, wait->heard_ago_ns) + TCP_TICK_NS > stream->acks.looked_at;

    if (!wait->asked)
        stream->acks.waits_since = 0;
    else if (!stream->acks.waits_since || heard)
        begin_wait(stream, wait, now);
    stream->acks.looked_at = now;
    return stream->acks.waits_since &&
           now - stream->acks.waits_since >=
               iwarp_rnic(stream->lane->rnic)->options.ack_timeout_ns &&
           (wait->probes >= PROBES || wait->repeats - stream->acks.repeats >= REPEATS);
}

bool llp_acks_check(struct stream *stream, struct iwarp_qp *qp)
{
    uint64_t now = clock_now(), next = clock_after(now, between_looks(stream)), last;
    struct llp_wait wait;

    rx_assert_held(stream);
    contract(stream->state == STREAM_OPEN);
    if (becomes_idle(stream, qp, &wait))
        return false;
    if (is_lost(stream, &wait, now))
        return true;
    last = clock_after(stream->acks.waits_since,
                       iwarp_rnic(stream->lane->rnic)->options.ack_timeout_ns);
    check_stream(stream, stream->acks.waits_since && last > now && last < next ? last : next);
    return false;
}
