/* SPDX-License-Identifier: BSD-3-Clause */
/* A link in virtual time: see sim.h. */
#include "sim_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(call) FAKE_CHECK((call) == RI_OK)

/* A generator of its own: the fuzz target has no Check, which tc.c needs. */
static uint64_t draw(struct sim *sim)
{
    uint64_t z = sim->rng += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static bool chance(struct sim *sim, uint32_t per_mille)
{
    return per_mille && draw(sim) % 1000 < per_mille;
}

/* --- the queue --- */

static void enqueue(struct sim *sim, uint32_t to, const void *octets, uint32_t len, uint64_t at)
{
    struct sim_packet *packet = malloc(sizeof(*packet) + len), **place = &sim->queue;

    FAKE_CHECK(packet);
    packet->at = at;
    packet->side = to;
    packet->len = len;
    memcpy(packet->octets, octets, len);
    while (*place && (*place)->at <= at)
        place = &(*place)->next;
    packet->next = *place;
    *place = packet;
    sim->queued++;
}

static struct sim_packet *dequeue(struct sim *sim)
{
    struct sim_packet *packet = sim->queue;

    if (!packet || packet->at > sim->now)
        return NULL;
    sim->queue = packet->next;
    sim->queued--;
    return packet;
}

/* --- the carrier --- */

static struct sim_end *end_of(const struct rc_qp *qp)
{
    return qp->attr.path;
}

static struct sim_sent *record(struct sim *sim, uint32_t side, const uint8_t *octets, uint32_t len)
{
    struct sim_sent *sent = &sim->log[sim->logged % SIM_LOG];
    struct bth_packet packet;

    FAKE_CHECK(bth_parse(octets, len, &packet) == BTH_OK);
    sim->logged++;
    *sent = (struct sim_sent){ .at = sim->now,
                               .side = (uint8_t)side,
                               .opcode = packet.opcode,
                               .ack_req = packet.ack_req,
                               .solicited = packet.solicited,
                               .psn = packet.psn,
                               .payload_len = packet.payload_len };
    if (packet.op->headers & BTH_HAS_AETH) {
        sent->syndrome = packet.syndrome;
        sent->msn = packet.msn;
    }
    if (packet.op->headers & (BTH_HAS_RETH | BTH_HAS_ATOMIC)) {
        sent->va = packet.va;
        sent->r_key = packet.r_key;
        sent->dma_length = packet.op->headers & BTH_HAS_RETH ? packet.dma_length : 0;
    }
    return sent;
}

static void cross(struct sim *sim, uint32_t side, const uint8_t *octets, uint32_t len)
{
    struct sim_sent *sent = record(sim, side, octets, len);
    uint64_t at = sim->now + sim->link.delay;

    sent->lost = (sim->lose && sim->lose(sim, sent)) || chance(sim, sim->link.loss);
    if (sent->lost || sim->alone)
        return;
    if (chance(sim, sim->link.reorder))
        at += draw(sim) % (4 * sim->link.delay);
    enqueue(sim, !side, octets, len, at);
    if (chance(sim, sim->link.duplicate))
        enqueue(sim, !side, octets, len, at + draw(sim) % (4 * sim->link.delay));
}

/* Of `count` packets; under the lock. */
static uint32_t accepted(struct sim_end *end, uint32_t count)
{
    struct sim *sim = end->sim;

    sim->calls++;
    if (!chance(sim, sim->link.refuse))
        return count;
    end->refused = true;
    return (uint32_t)(draw(sim) % count);
}

/* Returns the length with pad and ICRC. */
static uint32_t put_payload(uint8_t *to, uint32_t len, const struct iovec *iov, uint32_t iovs,
                            uint32_t expected)
{
    uint32_t payload = 0, rest = bth_pad(expected) + BTH_ICRC_LEN;

    for (uint32_t i = 0; i < iovs; i++) {
        FAKE_CHECK(payload + iov[i].iov_len <= expected);
        memcpy(to + len + payload, iov[i].iov_base, iov[i].iov_len);
        payload += (uint32_t)iov[i].iov_len;
    }
    FAKE_CHECK(payload == expected);
    memset(to + len + payload, 0, rest);
    return len + payload + rest;
}

static void send_one(struct sim_end *end, const struct rc_batch *batch, const struct rc_out *out)
{
    uint8_t octets[BTH_HEADERS_MAX + BTH_MTU_MAX + 8];

    FAKE_CHECK(out->iov + out->iovs <= RC_BATCH_IOVS && out->pad == bth_pad(out->payload_len));
    memcpy(octets, out->header, out->header_len);
    cross(end->sim, end->side, octets,
          put_payload(octets, out->header_len, &batch->iov[out->iov], out->iovs, out->payload_len));
}

static uint32_t carrier_send(struct rc_qp *qp, const struct rc_batch *batch)
{
    struct sim_end *end = end_of(qp);
    uint32_t taken;

    FAKE_CHECK(batch->count && batch->count <= RC_BATCH);
    pthread_mutex_lock(&end->sim->lock);
    taken = accepted(end, batch->count);
    for (uint32_t i = 0; i < taken; i++)
        send_one(end, batch, &batch->packets[i]);
    pthread_mutex_unlock(&end->sim->lock);
    return taken;
}

static uint64_t carrier_now(const struct rc_qp *qp)
{
    return end_of(qp)->sim->now;
}

static void carrier_timer_set(struct rc_qp *qp, enum rc_side side, uint64_t at)
{
    struct sim_end *end = end_of(qp);

    pthread_mutex_lock(&end->sim->lock);
    end->timers[side] = at ? at : 1;
    pthread_mutex_unlock(&end->sim->lock);
}

static const char *carrier_silent(struct rc_qp *qp)
{
    struct sim_end *end = end_of(qp);

    end->silences++;
    return end->unreachable;
}

static void carrier_hide(struct rc_qp *qp)
{
    struct sim_end *end = end_of(qp);

    end->connected = end->refused = false;
    memset(end->timers, 0, sizeof(end->timers));
}

static const struct rc_carrier carrier = {
    .send = carrier_send,
    .now = carrier_now,
    .timer_set = carrier_timer_set,
    .silent = carrier_silent,
    .hide = carrier_hide,
};

/* --- datagrams --- */

static struct sim_end *end_of_any(const struct qp *qp)
{
    return &sim_current->end[qp->base.context == &sim_current->end[1].events];
}

static void send_datagram(struct sim_end *end, const struct ud_batch *batch,
                          const struct ud_out *out)
{
    uint8_t octets[BTH_HEADERS_MAX + BTH_MTU_MAX + 8];

    FAKE_CHECK(out->iov + out->iovs <= UD_BATCH_IOVS && out->header_len <= UD_HEADERS_MAX);
    memcpy(octets, out->header, out->header_len);
    cross(end->sim, end->side, octets,
          put_payload(octets, out->header_len, &batch->iov[out->iov], out->iovs, out->payload_len));
}

static uint32_t carrier_send_datagrams(struct ud_qp *qp, const struct ud_batch *batch)
{
    struct sim_end *end = end_of_any(&qp->core);
    uint32_t taken;

    FAKE_CHECK(batch->count && batch->count <= UD_BATCH);
    pthread_mutex_lock(&end->sim->lock);
    taken = accepted(end, batch->count);
    for (uint32_t i = 0; i < taken; i++)
        send_datagram(end, batch, &batch->packets[i]);
    pthread_mutex_unlock(&end->sim->lock);
    return taken;
}

static void carrier_hide_datagrams(struct ud_qp *qp)
{
    struct sim_end *end = end_of_any(&qp->core);

    end->connected = end->refused = false;
}

static const struct ud_carrier datagram_carrier = {
    .send = carrier_send_datagrams,
    .hide = carrier_hide_datagrams,
};

static enum ri_status start_datagrams(struct qp *qp)
{
    static const struct ud_attr attr = { .wire = &sim_ud_wire, .carrier = &datagram_carrier };

    atomic_store(&qp->attr.fused, true);
    atomic_store(&ud_qp(qp)->q_key, sim_current->key);
    ud_start(ud_qp(qp), &attr);
    end_of_any(qp)->connected = true;
    return RI_OK;
}

enum ri_status sim_start(struct qp *qp)
{
    struct sim_end *end = end_of_any(qp);
    enum ri_status status;

    if (qp->type == RI_QP_UD)
        return start_datagrams(qp);
    end->attr.wire = &sim_wire;
    end->attr.carrier = &carrier;
    end->attr.path = end;
    status = rc_start(rc_qp(qp), &end->attr);
    end->connected = status == RI_OK;
    return status;
}

/* --- passes --- */

#define TOGETHER 16u /* packets of one call */

/* Packets to one side that have arrived, up to TOGETHER. */
static uint32_t take(struct sim *sim, uint32_t side, struct sim_packet **taken)
{
    uint32_t count = 0;

    pthread_mutex_lock(&sim->lock);
    while (count < TOGETHER && sim->queue && sim->queue->side == side &&
           (taken[count] = dequeue(sim)))
        count++;
    pthread_mutex_unlock(&sim->lock);
    return count;
}

static void give_datagrams(struct sim *sim, uint32_t side, const struct bth_packet *parsed,
                           const uint32_t *lengths, uint32_t count)
{
    struct ud_packet packets[TOGETHER];

    for (uint32_t i = 0; i < count; i++)
        packets[i] = (struct ud_packet){ parsed[i], sim->origin, lengths[i] };
    ud_receive(sim_ud_qp(sim, side), packets, count);
}

/* In one call. */
static uint32_t deliver(struct sim *sim, uint32_t side)
{
    struct sim_packet *taken[TOGETHER];
    struct bth_packet parsed[TOGETHER];
    uint32_t lengths[TOGETHER], count = take(sim, side, taken), good = 0;

    for (uint32_t i = 0; i < count; i++) {
        lengths[good] = taken[i]->len;
        good += bth_parse(taken[i]->octets, taken[i]->len, &parsed[good]) == BTH_OK;
    }
    if (good && sim->end[side].connected) {
        if (sim->datagrams)
            give_datagrams(sim, side, parsed, lengths, good);
        else
            rc_receive(sim_qp(sim, side), parsed, good);
    }
    for (uint32_t i = 0; i < count; i++)
        free(taken[i]);
    return count;
}

/* The side to which the next packet goes. */
static uint32_t next_side(struct sim *sim)
{
    uint32_t side;

    pthread_mutex_lock(&sim->lock);
    side = sim->queue ? sim->queue->side : 0;
    pthread_mutex_unlock(&sim->lock);
    return side;
}

uint32_t sim_serve(struct lane *lane)
{
    struct sim *sim = sim_current;
    uint32_t taken = 0, more;

    (void)lane;
    do {
        more = deliver(sim, next_side(sim));
        taken += more;
    } while (more);
    for (uint32_t side = 0; side < 2 && !sim->keep_owed && !sim->datagrams; side++)
        if (sim->end[side].connected)
            rc_flush(sim_qp(sim, side));
    return taken;
}

void sim_pass(struct sim *sim)
{
    fake_host_run(&sim->fake, NULL);
}

/* The earliest time at which something happens; UINT64_MAX: never. */
static uint64_t next_time(struct sim *sim)
{
    uint64_t at;

    pthread_mutex_lock(&sim->lock);
    at = sim->queue ? sim->queue->at : UINT64_MAX;
    for (uint32_t side = 0; side < 2; side++) {
        const struct sim_end *end = &sim->end[side];

        for (int i = 0; end->connected && i < RC_SIDES; i++)
            if (end->timers[i] && end->timers[i] < at)
                at = end->timers[i];
        if (end->connected && end->refused && sim->now + sim->link.delay < at)
            at = sim->now + sim->link.delay;
    }
    pthread_mutex_unlock(&sim->lock);
    return at;
}

/* What is due of this side: 1 << enum rc_side, and 1 << RC_SIDES for room. */
static uint32_t take_due(struct sim *sim, struct sim_end *end)
{
    uint32_t due = 0;

    pthread_mutex_lock(&sim->lock);
    for (int i = 0; i < RC_SIDES; i++)
        if (end->timers[i] && end->timers[i] <= sim->now) {
            end->timers[i] = 0;
            due |= 1u << i;
        }
    if (end->refused)
        due |= 1u << RC_SIDES;
    end->refused = false;
    pthread_mutex_unlock(&sim->lock);
    return due;
}

static void run_timers(struct sim *sim)
{
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t due = sim->end[side].connected ? take_due(sim, &sim->end[side]) : 0;

        for (int i = 0; i < RC_SIDES; i++)
            if (due & 1u << i)
                rc_expired(sim_qp(sim, side), (enum rc_side)i);
        if (due & 1u << RC_SIDES && sim->datagrams)
            ud_resume(sim_ud_qp(sim, side));
        else if (due & 1u << RC_SIDES)
            rc_resume(sim_qp(sim, side));
    }
}

bool sim_step(struct sim *sim)
{
    uint64_t at = next_time(sim);

    if (at == UINT64_MAX)
        return false;
    if (at > sim->now)
        sim->now = at;
    run_timers(sim);
    sim_pass(sim);
    return true;
}

void sim_run(struct sim *sim, uint64_t until, uint32_t steps)
{
    sim_pass(sim);
    for (; next_time(sim) <= until; steps--) {
        FAKE_CHECK(steps);
        if (!sim_step(sim))
            return;
    }
    sim->now = until > sim->now ? until : sim->now;
}

void sim_inject(struct sim *sim, uint32_t side, const void *octets, uint32_t len)
{
    pthread_mutex_lock(&sim->lock);
    enqueue(sim, side, octets, len, sim->now);
    pthread_mutex_unlock(&sim->lock);
    sim_pass(sim);
}

void sim_inject_packet(struct sim *sim, uint32_t side, struct bth_packet packet)
{
    uint8_t octets[BTH_HEADERS_MAX + BTH_MTU_MAX + 8];
    uint32_t len;

    packet.p_key = BTH_P_KEY;
    packet.dest_qpn = SIM_QPN + side;
    len = bth_put(octets, &packet);
    if (packet.payload_len)
        memcpy(octets + len, packet.payload, packet.payload_len);
    len += packet.payload_len;
    memset(octets + len, 0, 8);
    sim_inject(sim, side, octets, len + bth_pad(packet.payload_len) + BTH_ICRC_LEN);
}

/* --- ends --- */

struct rc_qp *sim_qp(struct sim *sim, uint32_t side)
{
    return container_of(sim->end[side].qp, struct rc_qp, core.base);
}

struct ud_qp *sim_ud_qp(struct sim *sim, uint32_t side)
{
    return container_of(sim->end[side].qp, struct ud_qp, core.base);
}

struct rc_attr sim_attr(uint32_t mtu, uint32_t psn)
{
    return (struct rc_attr){ .sq_psn = psn,
                             .rq_psn = bth_psn_add(psn, 0x1000),
                             .mtu = mtu,
                             .timeout = 14,
                             .retry_cnt = 7,
                             .rnr_retry = 7,
                             .rnr_timer = 12,
                             .ird = 8,
                             .ord = 8 };
}

static struct ri_cq *new_cq(struct sim *sim, uint32_t depth, struct fake_record *record)
{
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = depth, .context = record };
    struct ri_cq *cq;

    OK(sim->fake.privileged.cq_create(sim->fake.rnic, &attr, &cq));
    return cq;
}

static void end_open(struct sim *sim, uint32_t side, const struct sim_shape *shape)
{
    struct sim_end *end = &sim->end[side];
    uint32_t depth = shape->depth ? shape->depth : 64, sge = shape->sge ? shape->sge : 4;
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_RC,
                               .context = &end->events,
                               .lane = sim->fake.lane,
                               .max_send_wr = depth,
                               .max_recv_wr = depth,
                               .max_send_sge = sge,
                               .max_recv_sge = sge,
                               .max_write_sge = sge,
                               .max_read_sge = 1,
                               .ird = 8,
                               .ord = 8,
                               .srq = shape->srq[side] };

    end->sim = sim;
    end->side = side;
    if (shape->datagrams) {
        attr.type = RI_QP_UD;
        attr.ird = attr.ord = 0;
    }
    attr.flags = shape->flags ? shape->flags
                              : RI_QP_WRITE_ENABLE | RI_QP_READ_ENABLE | RI_QP_ATOMIC_ENABLE |
                                    RI_QP_INVALIDATE_ENABLE;
    OK(sim->fake.privileged.pd_create(sim->fake.rnic, end, &end->pd));
    end->send_cq = attr.send_cq = new_cq(sim, shape->cqe ? shape->cqe : 256, &end->events);
    end->recv_cq = attr.recv_cq = new_cq(sim, shape->cqe ? shape->cqe : 256, &end->events);
    OK(sim->fake.privileged.qp_create(end->pd, &attr, &end->qp));
}

void sim_open(struct sim *sim, const struct sim_link *link, uint64_t seed,
              const struct sim_shape *shape)
{
    static const struct sim_shape none;

    FAKE_CHECK(!sim_current);
    memset(sim, 0, sizeof(*sim));
    sim_current = sim;
    pthread_mutex_init(&sim->lock, NULL);
    sim->link = *link;
    if (!sim->link.delay)
        sim->link.delay = SIM_DELAY;
    sim->rng = seed;
    sim->now = SIM_MS;
    sim->log = calloc(SIM_LOG, sizeof(*sim->log));
    FAKE_CHECK(sim->log);
    OK(fake_host_open_provider(&sim->fake, &sim_provider, NULL));
    for (uint32_t side = 0; side < 2; side++)
        end_open(sim, side, shape ? shape : &none);
    sim->datagrams = shape && shape->datagrams;
}

static void to_rts(struct sim *sim, uint32_t side)
{
    static const struct ri_llp_handover handover = { .size = sizeof(handover) };
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE | RI_QPM_HANDOVER,
                                   .state = RI_QPS_RTS,
                                   .handover = &handover };

    OK(sim->fake.privileged.qp_modify(sim->end[side].qp, &modify));
}

static void connect_end(struct sim *sim, uint32_t side, const struct rc_attr *attr)
{
    sim->end[side].attr = *attr;
    to_rts(sim, side);
}

void sim_connect(struct sim *sim, const struct rc_attr *attr)
{
    struct rc_attr own = *attr, peer = *attr;

    own.dest_qpn = SIM_QPN + 1;
    peer.dest_qpn = SIM_QPN;
    peer.sq_psn = attr->rq_psn;
    peer.rq_psn = attr->sq_psn;
    connect_end(sim, 0, &own);
    connect_end(sim, 1, &peer);
}

void sim_connect_alone(struct sim *sim, const struct rc_attr *attr)
{
    struct rc_attr own = *attr;

    sim->alone = true;
    own.dest_qpn = SIM_QPN + 1;
    connect_end(sim, 0, &own);
}

void sim_begin_alone(struct sim *sim, uint32_t key)
{
    sim->alone = true;
    sim->key = key;
    to_rts(sim, 0);
}

void sim_close(struct sim *sim)
{
    const struct ri_privileged_ops *ops = &sim->fake.privileged;

    for (uint32_t side = 0; side < 2; side++) {
        struct sim_end *end = &sim->end[side];

        if (end->qp)
            OK(ops->qp_destroy(end->qp));
        OK(ops->cq_destroy(end->send_cq));
        OK(ops->cq_destroy(end->recv_cq));
        OK(ops->pd_destroy(end->pd));
    }
    while (sim->queue) {
        struct sim_packet *packet = sim->queue;

        sim->queue = packet->next;
        free(packet);
    }
    fake_host_close(&sim->fake, false);
    fake_host_free(&sim->fake);
    free(sim->log);
    pthread_mutex_destroy(&sim->lock);
    sim_current = NULL;
}
