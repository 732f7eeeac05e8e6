/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passes: from the sockets to the QPs. What net hands over has lengths and an ICRC that are right;
 * here the QP is found, and whether the packet comes from its peer. P-020, P-025, R-060.
 */
#include "device.h"

/* A socket in which so many passes found nothing is read when epoll reports it. */
#define SILENT_PASSES 64u
/* So many passes read all that a socket's buffer holds. */
#define LEAVE_PASSES 512u
/* Packets that a QP gets in one call. */
#define TOGETHER 32u
#define QP1      1u
/* The lower bits of a traffic class (RFC 3168). */
#define ECN_MASK      3u
#define ECN_CONGESTED 3u

/* Between two CNPs of a QP. */
#define CNP_INTERVAL (50 * CLOCK_NS_PER_US)

/* --- QPs of a run --- */

static void ask_for_less(struct roce_qp *qp)
{
    uint64_t now = clock_now();

    qp->crowded = false;
    if (now < qp->next_cnp)
        return;
    qp->next_cnp = now + CNP_INTERVAL;
    roce_send_cnp(qp);
}

static void flush_touched(struct roce_lane *lane)
{
    for (uint32_t i = 0; i < lane->touched_count; i++) {
        struct roce_qp *qp = lane->touched[i];

        qp->touched = false;
        if (unlikely(qp->crowded))
            ask_for_less(qp);
        rc_flush(&qp->rc);
    }
    lane->touched_count = 0;
}

static void touch(struct roce_lane *lane, struct roce_qp *qp)
{
    if (qp->touched)
        return;
    if (lane->touched_count == TOUCHED_MAX)
        flush_touched(lane);
    qp->touched = true;
    lane->touched[lane->touched_count++] = qp;
}

/* Packets of one QP that follow each other. */
struct run {
    struct roce_qp *qp;
    uint32_t count;
    bool own; /* from the UDP port of own ends; while a peer is unknown, all or none are */
    union {
        struct bth_packet packets[TOGETHER];
        struct ud_packet datagrams[TOGETHER];
    };
};

/* {numbers} In RTR the first message is reported. */
static void report_first(struct roce_qp *qp, uint32_t epsn)
{
    if (qp->established_reported || qp->rc.rsp.epsn == epsn || roce_phase(qp) != PHASE_RTR)
        return;
    qp->established_reported = true;
    qp_record_communication(&qp->rc.core);
    qp_deliver(&qp->rc.core);
}

static bool has_answered(const struct roce_qp *qp)
{
    return atomic_load_explicit(&qp->rc.req.answered, memory_order_relaxed);
}

static void hand_over_connected(struct roce_lane *lane, const struct run *run)
{
    struct roce_qp *qp = run->qp;
    uint32_t epsn = qp->rc.rsp.epsn;
    bool answered = has_answered(qp);

    touch(lane, qp);
    rc_receive(&qp->rc, run->packets, run->count);
    if (unlikely(qp->peer == PEER_UNKNOWN) &&
        (qp->rc.rsp.epsn != epsn || has_answered(qp) != answered))
        qp->peer = run->own ? PEER_OWN : PEER_OTHER;
    if (unlikely(atomic_load_explicit(&qp->unheard, memory_order_relaxed)) &&
        qp->rc.rsp.epsn != epsn)
        roce_rnic(qp->core.rnic)->above->heard(qp);
    report_first(qp, epsn);
}

static void hand_over(struct roce_lane *lane, struct run *run)
{
    if (!run->count)
        return;
    if (roce_is_datagram(run->qp))
        ud_receive(&run->qp->ud, run->datagrams, run->count);
    else
        hand_over_connected(lane, run);
    run->count = 0;
}

/* --- packets --- */

/* NULL: nobody's. */
static struct roce_qp *find(const struct roce_port *port, uint32_t qpn)
{
    const struct roce_rnic *device = port->rnic;

    if ((qpn & (net_slots(device->net) - 1)) != net_slot(device->net))
        return NULL;
    return atomic_load_explicit(&device->table[qpn >> device->shift], memory_order_acquire);
}

static bool is_from_own_port(const struct roce_port *port, const struct net_packet *packet)
{
    return packet->source_port == port->udp_port;
}

/* Datagrams come from anybody (U-009). */
static bool is_from_peer(const struct roce_port *port, const struct roce_qp *qp,
                         const struct net_packet *packet)
{
    return roce_is_datagram(qp) ||
           (qp->port == port && !memcmp(packet->source, qp->ah.destination_gid, GID_LEN) &&
            (qp->peer != PEER_OWN || is_from_own_port(port, packet)));
}

static void add_datagram(struct run *run, const struct bth_packet *parsed,
                         const struct roce_port *port, const struct net_packet *packet)
{
    struct ud_packet *datagram = &run->datagrams[run->count++];

    datagram->bth = *parsed;
    datagram->octets = packet->len;
    datagram->from.traffic_class = packet->traffic_class;
    datagram->from.hop_limit = packet->hop_limit ? packet->hop_limit : NET_HOP_LIMIT_DEFAULT;
    memcpy(datagram->from.source, packet->source, GID_LEN);
    memcpy(datagram->from.destination, port->gid, GID_LEN);
}

static void add(struct run *run, struct roce_qp *qp, const struct bth_packet *parsed,
                const struct roce_port *port, const struct net_packet *packet)
{
    run->qp = qp;
    if (likely(!roce_is_datagram(qp))) {
        run->own = is_from_own_port(port, packet);
        run->packets[run->count++] = *parsed;
        return;
    }
    add_datagram(run, parsed, port, packet);
}

/* One for each QP (U-046), also of the sender's own (U-048). */
static void hand_over_copies(const struct roce_port *port, struct run *run)
{
    for (uint32_t i = 0; i < ROCE_GROUP_QPS && run->count; i++) {
        uint32_t qpn = atomic_load_explicit(&port->attached[i], memory_order_acquire);
        struct roce_qp *qp = qpn ? find(port, qpn) : NULL;

        if (qp)
            ud_receive(&qp->ud, run->datagrams, run->count);
    }
    run->count = 0;
}

/* U-040 */
static void take_of_group(const struct roce_port *port, const struct net_packet *packet,
                          const struct bth_packet *parsed, struct run *run)
{
    if (parsed->dest_qpn != BTH_QPN_MULTICAST) {
        count_up(&port->rnic->counters.unknown_qpn, 1);
        return;
    }
    if (run->count == TOGETHER)
        hand_over_copies(port, run);
    add_datagram(run, parsed, port, packet);
}

static void take(struct roce_lane *lane, struct roce_port *port, const struct net_packet *packet,
                 struct run *run)
{
    struct roce_counters *counters = &port->rnic->counters;
    struct bth_packet parsed;
    struct roce_qp *qp;

    if (bth_parse(packet->octets, packet->len, &parsed) != BTH_OK) {
        count_up(&counters->malformed, 1);
        return;
    }
    if (unlikely(port->attached != NULL)) {
        take_of_group(port, packet, &parsed, run);
        return;
    }
    if (run->count &&
        (run->count == TOGETHER || run->qp->core.qpn != parsed.dest_qpn ||
         (unlikely(run->qp->peer == PEER_UNKNOWN) && run->own != is_from_own_port(port, packet))))
        hand_over(lane, run);
    /* Behind it: an upcall may have destroyed another QP than its own. */
    if (unlikely(parsed.dest_qpn == QP1)) {
        port->rnic->above->take(port, packet, &parsed);
        return;
    }
    qp = find(port, parsed.dest_qpn);
    if (!qp || !is_from_peer(port, qp, packet)) {
        count_up(qp ? &counters->strangers : &counters->unknown_qpn, 1);
        return;
    }
    add(run, qp, &parsed, port, packet);
    if (unlikely((packet->traffic_class & ECN_MASK) == ECN_CONGESTED) && !roce_is_datagram(qp))
        qp->crowded = true;
}

static void drop_errors(struct roce_port *port)
{
    struct net_error error;

    for (int i = 0; i < 16 && net_next_error(port->net, &error); i++)
        ;
}

/* --- congestion --- */

/* More comes than is taken: the buffer is half full behind what was just read, or it has been full.
 * Asked where all that one call reads was there, as it is a system call. */
static bool is_crowded(struct roce_port *port)
{
    struct net_port_attr attr;
    struct net_counters counters;
    bool overflowed;

    net_port_query(port->net, &attr);
    net_port_count(port->net, &counters);
    overflowed = counters.overflow != port->overflows;
    port->overflows = counters.overflow;
    return overflowed || net_port_backlog(port->net) > attr.receive_octets / 2;
}

static void ask_all_for_less(struct roce_lane *lane, const struct roce_port *port)
{
    for (uint32_t i = 0; i < lane->touched_count; i++)
        lane->touched[i]->crowded |= lane->touched[i]->port == port;
}

/* --- a pass --- */

static bool wants_look(struct roce_port *port)
{
    return atomic_load_explicit(&port->readable, memory_order_relaxed) ||
           port->silent < SILENT_PASSES;
}

/* Returns the packets that were taken. */
static uint32_t serve_port(struct roce_lane *lane, struct roce_port *port)
{
    struct net_packet packet;
    struct run run;
    uint32_t taken = 0, datagrams;

    if (atomic_load_explicit(&port->readable, memory_order_relaxed))
        atomic_store(&port->readable, false);
    if (unlikely(atomic_load_explicit(&port->writable, memory_order_relaxed)) &&
        atomic_exchange(&port->writable, false))
        roce_resume(&lane->core, port);
    datagrams = net_receive(port->net, NET_DATA, lane->rx);
    port->full = datagrams == ROCE_DATAGRAMS;
    if (!datagrams) {
        port->silent += port->silent < SILENT_PASSES;
        if (unlikely(net_port_has_errors(port->net)))
            drop_errors(port);
        return 0;
    }
    port->silent = 0;
    run.count = 0;
    for (; net_next(lane->rx, &packet); taken++)
        take(lane, port, &packet, &run);
    if (unlikely(port->attached != NULL))
        hand_over_copies(port, &run);
    else
        hand_over(lane, &run);
    if (unlikely(datagrams == ROCE_DATAGRAMS) && is_crowded(port))
        ask_all_for_less(lane, port);
    return taken;
}

/* A DREQ does not come by the socket of the packets that were sent before it: it waits for them. */
static void serve_leaves(struct roce_rnic *device)
{
    struct roce_port *port = atomic_load(&device->ports);

    for (; port; port = port->next)
        if (port->full && device->cm.leave_passes < LEAVE_PASSES) {
            device->cm.leave_passes++;
            return;
        }
    device->above->take_leaves(device);
}

uint32_t roce_serve(struct lane *base, struct cq *first, uint32_t budget)
{
    struct roce_lane *lane = roce_lane(base);
    struct roce_port *port = atomic_load(&roce_rnic(base->rnic)->ports);
    uint32_t done = 0;

    (void)first;
    lane_assert_run(base);
    for (; port; port = port->next)
        if (wants_look(port) && done < budget)
            done += serve_port(lane, port);
    flush_touched(lane);
    if (unlikely(atomic_load_explicit(&roce_rnic(base->rnic)->cm.leaving, memory_order_relaxed)))
        serve_leaves(roce_rnic(base->rnic));
    roce_rnic(base->rnic)->above->deliver(roce_rnic(base->rnic));
    return done;
}

bool roce_lane_is_idle(const struct lane *lane)
{
    const struct roce_port *port = atomic_load(&roce_rnic(lane->rnic)->ports);

    spinlock_assert_held(&lane->lock);
    if (atomic_load(&roce_rnic(lane->rnic)->cm.has_reports) ||
        atomic_load(&roce_rnic(lane->rnic)->cm.leaving))
        return false;
    for (; port; port = port->next)
        if (atomic_load(&port->readable) || atomic_load(&port->writable))
            return false;
    return true;
}
