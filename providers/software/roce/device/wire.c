/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of the wire: lanes and posts are the device's, all else the engine's.
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
        ++*connections;
    spinlock_unlock(&lane->lock);
}

/* QPs are connected by numbers. */
static enum ri_status start(struct qp *qp, const struct ri_llp_handover *handover)
{
    (void)qp, (void)handover;
    return RI_ERR_NOT_SUPPORTED;
}

/* {numbers-posts} */
static enum ri_status post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    if (roce_phase(roce_qp_of(base)) < PHASE_RTS &&
        qp_state(container_of(base, struct qp, base)) == RI_QPS_RTS) {
        *bad = wr;
        return RI_ERR_INVALID_STATE;
    }
    return wire_post_send(base, wr, bad);
}

static void free_part(struct qp *qp)
{
    roce_forget_silence(roce_qp(rc_qp(qp)));
    rc_qp_free(qp);
}

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
    .qp_free = free_part,
    RC_WIRE_MEMBERS,
};
