/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces of requests (rnicpi_rc.h) in the rings. Everything is under the lock. */
#include "memory.h"

#define FRAMES 64u /* taken at once: others have their turn */

static uint8_t *at_position(const struct half *half)
{
    return half->octets + (half->position & (ROOM - 1));
}

/* The peer sees it after ring_publish(). */
uint8_t *rc_put(struct ri_rc *rc, const struct ri_piece *piece)
{
    struct half *out = &((struct connection *)rc->qp.connection)->out;
    uint8_t *at = at_position(out);

    if (!ring_has_room(out))
        return NULL;
    memcpy(at, piece, sizeof(*piece));
    out->position += (uint32_t)sizeof(*piece) + piece->length;
    return at + sizeof(*piece);
}

/* One piece of the ring. The head is copied before it is looked at: the peer could change it. */
static bool take(struct qp *qp)
{
    struct connection *c = (struct connection *)qp->rc.qp.connection;
    uint32_t there = ring_in(&c->in);
    struct ri_piece piece;

    if (!there)
        return false;
    memcpy(&piece, at_position(&c->in), sizeof(piece));
    if (there > ROOM || (piece.length <= RI_RC_PAYLOAD && there < sizeof(piece) + piece.length))
        piece.length = UINT32_MAX; /* no peer of ours writes that */
    ri_rc_take(&qp->rc, &piece, at_position(&c->in) + sizeof(piece));
    if (qp->rc.qp.connection != &c->channel.mem)
        return true;
    c->in.position += (uint32_t)sizeof(piece) + piece.length;
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
