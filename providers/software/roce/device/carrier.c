/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The carrier of the engines: packets to the socket, time, timers. A sender's packets leave before
 * the call returns, or are given back: nothing waits here.
 */
#include "device.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>

/* --- packets --- */

static struct roce_sender *take_sender(const struct roce_qp *qp, struct roce_port *port)
{
    struct roce_sender *senders = port->senders;

    for (uint32_t i = qp->core.qpn >> 7;; i++) {
        if (spinlock_try(&senders[i % SENDERS].lock))
            return &senders[i % SENDERS];
        if (i % SENDERS == SENDERS - 1)
            sched_yield();
    }
}

/* Its source may change meanwhile, and then the ICRC would be wrong. In a pass. */
static const struct iovec *copy_response(struct roce_qp *qp, uint32_t which,
                                         const struct iovec *iov, uint32_t iovs, struct iovec *copy)
{
    struct roce_lane *lane = roce_lane(qp->rc.core.lane);
    uint8_t *to = lane->copies + (size_t)which * BTH_MTU_MAX;

    lane_assert_run(&lane->core);
    *copy = (struct iovec){ to, 0 };
    for (uint32_t i = 0; i < iovs; i++) {
        memcpy(to + copy->iov_len, iov[i].iov_base, iov[i].iov_len);
        copy->iov_len += iov[i].iov_len;
    }
    return copy;
}

static bool is_read_response(const struct rc_out *out)
{
    return bth_ops[out->header[0]].kind == BTH_KIND_READ_RESPONSE;
}

static void add(struct roce_qp *qp, struct net_tx *tx, const struct rc_batch *batch, uint32_t which)
{
    const struct rc_out *out = &batch->packets[which];
    const struct iovec *iov = &batch->iov[out->iov];
    uint32_t iovs = out->iovs;
    struct iovec copy;
    bool added;

    if (iovs && is_read_response(out)) {
        iov = copy_response(qp, which, iov, iovs, &copy);
        iovs = 1;
    }
    added = net_tx_add(tx, &qp->path, out->header, out->header_len, iov, iovs, out->payload_len);
    contract(added);
}

/* Asks to be told when there is room. The mark comes first: who is told looks for it. */
static void await_room(struct roce_qp *qp, const struct roce_port *port)
{
    const struct ri_host *host = qp->core.rnic->host;

    atomic_store(&qp->waits, true);
    host->rewatch(host, port->watch, EPOLLIN | EPOLLOUT);
}

/* What the kernel refuses is lost. Returns how many packets are left, for which the socket has no
 * room. *too_long is set if one was longer than the way takes. */
static uint32_t flush(struct roce_qp *qp, struct roce_sender *sender, bool *too_long)
{
    struct net_stop stop = { .error = 0 };
    uint32_t left;

    while (!net_tx_flush(sender->tx, &stop) && stop.error != EAGAIN) {
        atomic_fetch_add(&roce_rnic(qp->core.rnic)->counters.unsent, stop.packets);
        roce_warn_unsent(qp, stop.error);
        *too_long |= stop.error == EMSGSIZE;
    }
    left = net_tx_pending(sender->tx);
    net_tx_clear(sender->tx);
    return left;
}

/* The engine sends again what is lost, or gives up. A packet that is too long is too long the next
 * time. */
static uint32_t carrier_send(struct rc_qp *rc, const struct rc_batch *batch)
{
    struct roce_qp *qp = roce_qp(rc);
    struct roce_sender *sender = take_sender(qp, qp->port);
    bool too_long = false;
    uint32_t left;

    for (uint32_t i = 0; i < batch->count; i++)
        add(qp, sender->tx, batch, i);
    left = flush(qp, sender, &too_long);
    spinlock_unlock(&sender->lock);
    if (left)
        await_room(qp, qp->port);
    if (unlikely(too_long) && !rc->attr.unreliable)
        rc_break(rc, "its packets are longer than the way to the peer takes");
    return batch->count - left;
}

void roce_send_cnp(struct roce_qp *qp)
{
    const struct bth_packet packet = {
        .opcode = BTH_CNP, .becn = true, .p_key = BTH_P_KEY, .dest_qpn = qp->rc.attr.dest_qpn
    };
    struct roce_sender *sender = take_sender(qp, qp->port);
    uint8_t header[BTH_HEADERS_MAX];
    struct net_stop stop;

    lane_assert_run(qp->rc.core.lane);
    net_tx_add(sender->tx, &qp->path, header, bth_put(header, &packet), NULL, 0, 0);
    if (net_tx_flush(sender->tx, &stop))
        count_up(&qp->rc.counters.cnps_sent, 1);
    net_tx_clear(sender->tx);
    spinlock_unlock(&sender->lock);
}

/* --- datagrams --- */

static const struct roce_ah *handle(const struct ud_batch *batch, uint32_t which)
{
    return container_of(batch->packets[which].ah, struct roce_ah, ud);
}

/* Those from `first` on that leave by one address, *count. Returns how many were taken. */
static uint32_t send_run(struct roce_qp *qp, const struct ud_batch *batch, uint32_t first,
                         uint32_t *count)
{
    struct roce_port *port = handle(batch, first)->port;
    struct roce_sender *sender = take_sender(qp, port);
    uint32_t i = first, left;
    bool too_long = false; /* a datagram that is lost, as others */

    for (; i < batch->count && handle(batch, i)->port == port; i++) {
        const struct ud_out *out = &batch->packets[i];
        bool added = net_tx_add(sender->tx, &handle(batch, i)->path, out->header, out->header_len,
                                &batch->iov[out->iov], out->iovs, out->payload_len);

        contract(added);
    }
    left = flush(qp, sender, &too_long);
    spinlock_unlock(&sender->lock);
    if (left)
        await_room(qp, port);
    *count = i - first;
    return *count - left;
}

static uint32_t carrier_send_datagrams(struct ud_qp *ud, const struct ud_batch *batch)
{
    struct roce_qp *qp = container_of(ud, struct roce_qp, ud);
    uint32_t done = 0, count = 0, taken = 0;

    for (; done < batch->count && taken == count; done += taken)
        taken = send_run(qp, batch, done, &count);
    return done;
}

/* --- room --- */

/* Some of the QPs behind `*after` that wait, each counted as in an upcall. */
static uint32_t next_waiting(struct lane *lane, const struct roce_port *port, uint64_t *after,
                             struct roce_qp **qps, uint32_t room)
{
    uint32_t count = 0;

    spinlock_lock(&lane->lock);
    for (struct qp *at = lane->connected; at && count < room; at = at->on_lane.connected_next) {
        struct roce_qp *qp = roce_qp(rc_qp(at));

        if (at->on_lane.number <= *after)
            continue;
        *after = at->on_lane.number;
        if ((!roce_is_datagram(qp) && qp->port != port) || !atomic_exchange(&qp->waits, false))
            continue;
        atomic_fetch_add(&at->upcalls, 1);
        qps[count++] = qp;
    }
    spinlock_unlock(&lane->lock);
    return count;
}

void roce_resume(struct lane *lane, struct roce_port *port)
{
    struct roce_qp *qps[64];
    uint64_t after = 0;
    uint32_t count;

    lane_assert_run(lane);
    while ((count = next_waiting(lane, port, &after, qps, ARRAY_SIZE(qps))))
        for (uint32_t i = 0; i < count; i++) {
            if (roce_is_datagram(qps[i]))
                ud_resume(&qps[i]->ud);
            else
                rc_resume(&qps[i]->rc);
            atomic_fetch_sub(&qps[i]->core.upcalls, 1);
        }
}

/* --- time --- */

static uint64_t carrier_now(const struct rc_qp *qp)
{
    (void)qp;
    return clock_now();
}

static void carrier_timer_set(struct rc_qp *rc, enum rc_side side, uint64_t at)
{
    const struct ri_host *host = rc->core.rnic->host;
    struct ri_timer *timer = &roce_qp(rc)->timers[side];

    timer->deadline = at;
    host->timer_set(host, rc->core.lane->base.context, timer);
}

static void requester_expired(struct ri_timer *timer)
{
    rc_expired(&container_of(timer, struct roce_qp, timers[RC_REQUESTER])->rc, RC_REQUESTER);
}

static void responder_expired(struct ri_timer *timer)
{
    rc_expired(&container_of(timer, struct roce_qp, timers[RC_RESPONDER])->rc, RC_RESPONDER);
}

void roce_timers_init(struct roce_qp *qp)
{
    qp->timers[RC_REQUESTER].expired = requester_expired;
    qp->timers[RC_RESPONDER].expired = responder_expired;
}

/* --- who gets packets --- */

static _Atomic(struct roce_qp *) *place_of(const struct roce_qp *qp)
{
    const struct roce_rnic *device = roce_rnic(qp->core.rnic);

    return &device->table[qp->core.qpn >> device->shift];
}

void roce_show(struct roce_qp *qp)
{
    tx_assert_inside(&qp->core);
    qp->peer = roce_is_datagram(qp) ? PEER_OTHER : PEER_UNKNOWN;
    atomic_store_explicit(place_of(qp), qp, memory_order_release);
}

static void carrier_hide(struct rc_qp *rc)
{
    const struct ri_host *host = rc->core.rnic->host;
    struct roce_qp *qp = roce_qp(rc);

    atomic_store(place_of(qp), NULL);
    for (int i = 0; i < RC_SIDES; i++)
        host->timer_cancel(host, rc->core.lane->base.context, &qp->timers[i]);
    host->timer_cancel(host, rc->core.lane->base.context, &qp->held_timer);
}

static void carrier_hide_datagrams(struct ud_qp *ud)
{
    atomic_store(place_of(container_of(ud, struct roce_qp, ud)), NULL);
}

const struct ud_carrier roce_ud_carrier = {
    .send = carrier_send_datagrams,
    .hide = carrier_hide_datagrams,
};

const struct rc_carrier roce_carrier = {
    .send = carrier_send,
    .now = carrier_now,
    .timer_set = carrier_timer_set,
    .silent = roce_silent,
    .hide = carrier_hide,
    .held = roce_held,
};
