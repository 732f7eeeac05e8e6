/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs and packets over connections of set A: see rnicpi_set_a_rc.h. */
#include "rnicpi_set_a_rc.h"

#include <stdlib.h>
#include <sys/epoll.h>

#define TURN 64 /* packets that a QP sends or takes before others have their turn */

/* ---- QPs ---- */

/* A last segment says why, if there is room. */
static void rc_end(struct ri_rc *rc, enum ri_event_type type, uint16_t code, bool explained)
{
    struct ri_mem_connection *c = rc->qp.connection;

    if (c->set->carrier->flush)
        c->set->carrier->flush(c);
    ri_set_a_end(c, type, code, explained);
}

enum ri_status ri_rc_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out)
{
    struct ri_mem_pd *pd = (struct ri_mem_pd *)base;
    const struct ri_carrier *carrier = pd->rnic->set_a->carrier;
    struct ri_rc *rc = calloc(1, carrier->qp_size);
    enum ri_status status;

    if (!rc)
        return RI_ERR_NO_RESOURCES;
    rc->put = carrier->put;
    rc->end = rc_end;
    status = ri_mem_qp_open(&rc->qp, pd, attr);
    if (status != RI_OK) {
        free(rc);
        return status;
    }
    *out = &rc->qp.base;
    return RI_OK;
}

enum ri_status ri_rc_qp_change(struct ri_mem_qp *qp, enum ri_qp_state state)
{
    enum ri_status status;

    switch (state) {
    case RI_QPS_ERROR:
        if (qp->connection && qp->state == RI_QPS_RTS)
            ri_set_a_end(qp->connection, 0, 0, false);
        ri_mem_qp_end(qp, 0, 0, false);
        return RI_OK;
    case RI_QPS_IDLE:
        status = ri_mem_qp_idle(qp);
        if (status == RI_OK)
            ri_rc_reset((struct ri_rc *)qp);
        return status;
    default: return RI_ERR_NOT_SUPPORTED;
    }
}

enum ri_status ri_rc_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify)
{
    struct ri_mem_qp *qp = (struct ri_mem_qp *)base;
    enum ri_status status = RI_OK;

    if (modify->mask & ~(uint32_t)RI_QPM_STATE)
        return RI_ERR_NOT_SUPPORTED;
    pthread_mutex_lock(&qp->rnic->lock);
    if (modify->mask & RI_QPM_STATE)
        status = ri_rc_qp_change(qp, modify->state);
    ri_mem_report(qp);
    return status;
}

enum ri_status ri_rc_qp_destroy(struct ri_qp *base)
{
    struct ri_mem_qp *qp = (struct ri_mem_qp *)base;
    pthread_mutex_t *lock = &qp->rnic->lock;

    pthread_mutex_lock(lock);
    ri_set_a_part(qp);
    pthread_mutex_unlock(lock);
    ri_mem_qp_close(qp);
    free(qp);
    return RI_OK;
}

/* ---- packets: out. Under the lock ---- */

static struct ri_packet_rnic *rnic_of(const struct ri_mem_connection *c)
{
    return (struct ri_packet_rnic *)c->set->rnic;
}

static const struct ri_packet_carrier *carrier_of(const struct ri_mem_connection *c)
{
    return (const struct ri_packet_carrier *)c->set->carrier;
}

bool ri_packet_message(struct ri_mem_connection *c, const struct ri_cm_message *message)
{
    return carrier_of(c)->send(c, message, sizeof(*message)) > 0;
}

/* The last segment may go where another would wait. */
uint8_t *ri_packet_put(struct ri_rc *rc, const struct ri_segment *segment)
{
    struct ri_mem_connection *c = rc->qp.connection;
    struct ri_packet_rnic *rnic = rnic_of(c);

    if (segment->type != RI_SEGMENT_END && !carrier_of(c)->has_room(c)) {
        carrier_of(c)->await_room(c);
        return NULL;
    }
    rnic->out.segment = *segment;
    rnic->out_length = (uint32_t)sizeof(*segment) + segment->length;
    return rnic->out.octets;
}

/* The segment that was put is whole. False: it is lost, not because the peer has gone. */
static bool flush(struct ri_mem_connection *c)
{
    struct ri_packet_rnic *rnic = rnic_of(c);
    uint32_t length = rnic->out_length;

    rnic->out_length = 0;
    return !length || carrier_of(c)->send(c, &rnic->out, length) >= 0;
}

void ri_packet_flush(struct ri_mem_connection *c)
{
    flush(c);
}

/* Everything that can be done for a QP without the peer; ri_mem_report() follows. */
static void serve(struct ri_mem_qp *qp)
{
    struct ri_mem_connection *c = qp->connection;

    for (int i = 0; qp->connection && c->state == RI_CM_CONNECTED; i++) {
        if (i == TURN)
            carrier_of(c)->await_room(c);
        if (i == TURN || !ri_rc_send((struct ri_rc *)qp))
            break;
        if (!flush(c))
            ri_set_a_end(c, RI_EVENT_LLP_LOST, 0, false);
    }
}

/* ---- packets: in. Under the lock ---- */

/* Its length has to be the one that it states. */
static void take_segment(struct ri_mem_connection *c, size_t length)
{
    struct ri_packet *packet = &rnic_of(c)->in.packet;

    if (length < sizeof(packet->segment) ||
        packet->segment.length != length - sizeof(packet->segment))
        packet->segment.length = UINT32_MAX; /* which ends the connection */
    ri_rc_take((struct ri_rc *)c->qp, &packet->segment, packet->octets);
}

static void take_message(struct ri_mem_connection *c, size_t length)
{
    struct ri_cm_message *message = &rnic_of(c)->in.message;

    if (length != sizeof(*message))
        message->type = 0; /* likewise */
    ri_set_a_message(c, message);
}

static bool receive(struct ri_mem_connection *c)
{
    ssize_t got;

    for (int i = 0; i < TURN; i++) {
        if (!c->open || c->closing)
            return false;
        got = carrier_of(c)->receive(c, &rnic_of(c)->in, RI_PACKET_MAX);
        if (got < 0)
            return false;
        if (!got)
            ri_set_a_left(c);
        else if (c->state == RI_CM_CONNECTED)
            take_segment(c, (size_t)got);
        else
            take_message(c, (size_t)got);
    }
    return true;
}

bool ri_packet_run(struct ri_mem_connection *c)
{
    pthread_mutex_t *lock = &c->set->rnic->lock;
    struct ri_mem_qp *qp;
    bool more;

    pthread_mutex_lock(lock);
    qp = c->qp; /* stays while the lock is held, though the connection may let go of it */
    more = receive(c);
    if (!qp) {
        pthread_mutex_unlock(lock);
        return more;
    }
    serve(qp);
    ri_mem_report(qp);
    return more;
}

void ri_packet_ready(void *arg, uint32_t events)
{
    struct ri_channel *channel = arg;
    pthread_mutex_t *lock = &channel->mem.set->rnic->lock;

    if (events & EPOLLOUT) {
        pthread_mutex_lock(lock);
        ri_channel_has_room(&channel->mem);
        pthread_mutex_unlock(lock);
    }
    ri_packet_run(&channel->mem);
}

/* ---- the RNIC ---- */

enum ri_status ri_packet_open(const struct ri_open *open, size_t size,
                              const struct ri_rnic_attr *attr,
                              const struct ri_packet_carrier *carrier, struct ri_rnic **out)
{
    struct ri_packet_rnic *rnic = calloc(1, size);

    if (!rnic || ri_mem_rnic_open(&rnic->mem, open, attr, serve) != RI_OK) {
        free(rnic);
        return RI_ERR_NO_RESOURCES;
    }
    ri_set_a_open(&rnic->set, &rnic->mem, &carrier->set_a);
    *out = &rnic->mem.base;
    return RI_OK;
}
