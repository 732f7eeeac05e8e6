/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tables of the wire: lanes, posts, and what QPs of all kinds have are the device's, all else
 * the engines'.
 */
#include "device.h"

#include "providers/software/core/post.h"

#include <stdlib.h>

static void lane_close(struct lane *base)
{
    struct roce_lane *lane = roce_lane(base);

    net_rx_free(lane->rx);
    free(lane->copies);
}

static enum ri_status lane_open(struct lane *base)
{
    struct roce_lane *lane = roce_lane(base);

    lane->rx = net_rx_new(ROCE_DATAGRAMS, true);
    lane->copies = malloc((size_t)RC_BATCH * BTH_MTU_MAX);
    if (lane->rx && lane->copies)
        return RI_OK;
    lane_close(base);
    return RI_ERR_NO_RESOURCES;
}

static void count(struct lane *lane, uint32_t *connections, uint32_t *closing)
{
    (void)closing; /* RoCE has no orderly close */
    spinlock_lock(&lane->lock);
    for (const struct qp *qp = lane->connected; qp; qp = qp->on_lane.connected_next)
        *connections += qp->type != RI_QP_UD && qp_wire(qp) == &roce_wire;
    spinlock_unlock(&lane->lock);
}

/* QPs are connected by numbers. */
static enum ri_status start(struct qp *qp, const struct ri_llp_handover *handover)
{
    (void)qp, (void)handover;
    return RI_ERR_NOT_SUPPORTED;
}

/* Sends, Writes, and what sends nothing. */
static bool is_of_unreliable(const struct ri_send_wr *wr)
{
    return wr->opcode == RI_WR_SEND || wr->opcode == RI_WR_SEND_IMMEDIATE ||
           wr->opcode == RI_WR_RDMA_WRITE || wr->opcode == RI_WR_RDMA_WRITE_IMMEDIATE ||
           (wr->opcode >= RI_WR_BIND_WINDOW && wr->opcode <= RI_WR_FAST_REGISTER);
}

/* One after the other: a list may be refused in its middle. */
static enum ri_status post_unreliable(struct ri_qp *base, struct ri_send_wr *wr,
                                      struct ri_send_wr **bad)
{
    enum ri_status status = RI_OK;
    struct ri_send_wr *refused;

    for (; wr && status == RI_OK; wr = wr->next) {
        struct ri_send_wr one = *wr;

        one.next = NULL;
        status = is_of_unreliable(wr) ? wire_post_send(base, &one, &refused)
                                      : RI_ERR_INVALID_ARGUMENT;
        if (status != RI_OK)
            *bad = wr;
    }
    return status;
}

/* {numbers-posts} */
static enum ri_status post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    if (unlikely(roce_is_datagram(roce_qp_of(base))))
        return ud_post_send(base, wr, bad);
    if (roce_phase(roce_qp_of(base)) < PHASE_RTS &&
        qp_state(container_of(base, struct qp, base)) == RI_QPS_RTS) {
        *bad = wr;
        return RI_ERR_INVALID_STATE;
    }
    if (roce_qp_of(base)->core.type == RI_QP_UC)
        return post_unreliable(base, wr, bad);
    return wire_post_send(base, wr, bad);
}

/* --- QPs of all kinds --- */

static void free_part(struct qp *qp)
{
    if (qp->type == RI_QP_UD)
        return;
    roce_forget_silence(roce_qp(rc_qp(qp)));
    rc_qp_free(qp);
}

static void hide(struct qp *qp)
{
    if (qp->type == RI_QP_UD)
        ud_hide(qp);
    else
        rc_hide(qp);
}

/* Inside tx. */
static void stop(struct qp *qp)
{
    rc_stop(qp);
    roce_rnic(qp->rnic)->above->qp_stopped(roce_qp(rc_qp(qp)));
}

/* Each QP has the counters of all kinds. */
static bool counter(const struct qp *qp, uint32_t number, const char **name, uint64_t *value)
{
    static const struct roce_qp none;
    const struct roce_qp *own = container_of(qp, const struct roce_qp, core);
    uint32_t rows = 0;

    if (rc_counter(roce_is_datagram(own) ? &none.core : qp, number, name, value))
        return true;
    while (rc_counter(&none.core, rows, name, value))
        rows++;
    return ud_counter(roce_is_datagram(own) ? &own->ud : &none.ud, number - rows, name, value);
}

const struct wire roce_ud_wire = {
    .name = "roce datagrams",
    .slot = WIRE_NETWORK,
    .start = start,
    .hide = hide,
    .qp_free = free_part,
    .counter = counter,
    UD_WIRE_MEMBERS,
};

const struct wire roce_wire = {
    .name = "roce",
    .slot = WIRE_NETWORK,
    .qp_octets = sizeof(struct roce_qp),
    .lane_octets = sizeof(struct roce_lane),
    .lane_open = lane_open,
    .lane_close = lane_close,
    .serve = roce_serve,
    .is_idle = roce_lane_is_idle,
    .count = count,
    .post_send = post_send,
    .start = start,
    .hide = hide,
    .qp_free = free_part,
    .counter = counter,
    RC_WIRE_MEMBERS,
    .stop = stop,
};
