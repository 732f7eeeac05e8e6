/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments of requests (rnicpi_rc.h) in the rings. Everything is under the lock. */
#include "memory.h"

#define FRAMES 64u /* taken at once: others have their turn */

static uint8_t *at_position(const struct half *half)
{
    return half->octets + (half->position & (ROOM - 1));
}

/* The peer sees it after ring_publish(). */
uint8_t *rc_put(struct ri_rc *rc, const struct ri_segment *segment)
{
    struct half *out = &((struct connection *)rc->qp.connection)->out;
    uint8_t *at = at_position(out);

    if (!ring_has_room(out))
        return NULL;
    memcpy(at, segment, sizeof(*segment));
    out->position += (uint32_t)sizeof(*segment) + segment->length;
    return at + sizeof(*segment);
}

/* One segment of the ring. The head is copied before it is looked at: the peer could change it. */
static bool take(struct qp *qp)
{
    struct connection *c = (struct connection *)qp->rc.qp.connection;
    uint32_t there = ring_in(&c->in);
    struct ri_segment segment;

    if (!there)
        return false;
    memcpy(&segment, at_position(&c->in), sizeof(segment));
    if (there > ROOM ||
        (segment.length <= RI_RC_PAYLOAD && there < sizeof(segment) + segment.length))
        segment.length = UINT32_MAX; /* no peer of ours writes that */
    ri_rc_take(&qp->rc, &segment, at_position(&c->in) + sizeof(segment));
    if (qp->rc.qp.connection != &c->channel.mem)
        return true;
    c->in.position += (uint32_t)sizeof(segment) + segment.length;
    ring_publish(c, &c->in);
    return true;
}

static bool is_connected(const struct qp *qp)
{
    return qp->rc.qp.connection && qp->rc.qp.connection->state == RI_CM_CONNECTED;
}

uint32_t serve_qp(struct qp *qp)
{
    struct connection *c = (struct connection *)qp->rc.qp.connection;
    uint32_t work = 0, before;

    while (work < FRAMES && is_connected(qp) && take(qp))
        work++;
    if (!is_connected(qp))
        return work;
    before = c->out.position;
    while (is_connected(qp) && ri_rc_send(&qp->rc))
        work++;
    if (is_connected(qp) && c->out.position != before)
        ring_publish(c, &c->out);
    return work;
}

void serve(struct ri_mem_qp *base)
{
    struct qp *qp = (struct qp *)base;

    if (base->type == RI_QP_UD)
        send_datagrams(qp);
    else
        serve_qp(qp);
}

/* The peer rings the bell from now on; what it did before is seen here. */
bool is_quiet(struct connection *c)
{
    struct qp *qp = (struct qp *)c->channel.mem.qp;

    if (c->channel.mem.state != RI_CM_CONNECTED || !qp)
        return true;
    atomic_store(&c->in.ring->sleeps, 1);
    return !ring_in(&c->in) && !(ri_rc_wants(&qp->rc) && ring_has_room(&c->out));
}
