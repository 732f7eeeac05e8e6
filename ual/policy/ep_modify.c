/* SPDX-License-Identifier: BSD-3-Clause
 * Endpoints: attributes, query, addresses. */
#include "connect.h"

uint64_t ual_ep_payload_limit(const struct ual_device *device, enum ual_type type)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(device);

    return type == UAL_UD_EP ? rnic->max_ud_send : rnic->max_send;
}

#define RQ_LIMITS (UAL_EP_RQ_LIMIT | UAL_EP_RQ_HARD_LIMIT)

static const struct {
    uint32_t asked, passed;
} modify_bits[] = {
    { UAL_EP_ORD, RI_QPM_ORD },
    { UAL_EP_IRD, RI_QPM_IRD },
    { UAL_EP_FLAGS, RI_QPM_FLAGS },
    { UAL_EP_SEND_WR, RI_QPM_MAX_SEND_WR },
    { UAL_EP_RECV_WR, RI_QPM_MAX_RECV_WR },
    { RQ_LIMITS, RI_QPM_RQ_LIMITS },
    { UAL_EP_QKEY, RI_QPM_QKEY },
};

/* The attributes that the endpoint will have. */
static struct ual_ep_attr merged(const struct ual_ep *ep, uint32_t mask,
                                 const struct ual_ep_attr *attr, uint32_t flags)
{
    struct ual_ep_attr all = ep->attr;

    if (mask & UAL_EP_PAYLOAD)
        all.max_payload = attr->max_payload;
    if (mask & UAL_EP_ORD)
        all.ord = attr->ord;
    if (mask & UAL_EP_IRD)
        all.ird = attr->ird;
    if (mask & UAL_EP_FLAGS)
        all.flags = (all.flags & ~flags) | (attr->flags & flags);
    if (mask & UAL_EP_SEND_WR)
        all.max_send_wr = attr->max_send_wr;
    if (mask & UAL_EP_RECV_WR)
        all.max_recv_wr = attr->max_recv_wr;
    if (mask & UAL_EP_RQ_LIMIT)
        all.rq_limit = attr->rq_limit;
    if (mask & UAL_EP_RQ_HARD_LIMIT)
        all.rq_hard_limit = attr->rq_hard_limit;
    if (mask & UAL_EP_QKEY)
        all.qkey = ual_ep_qkey(ual_ep_device(ep), attr->qkey);
    return all;
}

/* On a connection the depth is the agreed one, which may be less than the endpoint's own. */
static bool raises_ord(struct ual_ep *ep, uint32_t ord)
{
    struct ri_qp_info info;

    return ual_qp_query(&ep->qp, &info) != RI_OK || ord > info.ord;
}

static bool possible_when_connected(struct ual_ep *ep, uint32_t mask,
                                    const struct ual_ep_attr *attr)
{
    uint64_t features = ual_device_attr(ual_ep_device(ep))->features;

    return !(mask & UAL_EP_PAYLOAD) &&
           (!(mask & UAL_EP_IRD) || (features & RI_FEATURE_IRD_MODIFY)) &&
           (!(mask & UAL_EP_FLAGS) || (features & RI_FEATURE_ACCESS_MODIFY)) &&
           (!(mask & UAL_EP_ORD) || (features & RI_FEATURE_ORD_RAISE) ||
            !raises_ord(ep, attr->ord));
}

#define UD_ALWAYS      UAL_EP_QKEY
#define UD_OPERATIONAL (UAL_EP_PAYLOAD | UAL_EP_SEND_WR | UAL_EP_RECV_WR)

static bool possible_now(struct ual_ep *ep, uint32_t mask, const struct ual_ep_attr *attr)
{
    int state = atomic_load(&ep->state);

    if (ual_ep_is_ud(ep))
        return !(mask & ~(UD_ALWAYS | (state == UAL_EP_CONNECTED ? UD_OPERATIONAL : 0u)));
    return !(mask & UAL_EP_QKEY) &&
           (state == UAL_EP_UNCONNECTED ||
            (state == UAL_EP_CONNECTED && possible_when_connected(ep, mask, attr)));
}

/* More Reads than the peer agreed to serve would end the connection. */
static bool beyond_agreed(struct ual_ep *ep, uint32_t mask, const struct ual_ep_attr *attr)
{
    return (mask & UAL_EP_ORD) && atomic_load(&ep->state) == UAL_EP_CONNECTED &&
           attr->ord > ual_ep_inside(ep)->agreed_ord;
}

static enum ri_status check_modify(struct ual_ep *ep, uint32_t mask, const struct ual_ep_attr *attr)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(ual_ep_device(ep));

    if (!possible_now(ep, mask, attr))
        return RI_ERR_INVALID_STATE;
    if (beyond_agreed(ep, mask, attr))
        return RI_ERR_LIMIT;
    if ((mask & (UAL_EP_SEND_WR | UAL_EP_RECV_WR)) && !(rnic->features & RI_FEATURE_QP_RESIZE))
        return RI_ERR_NOT_SUPPORTED;
    return (mask & UAL_EP_PAYLOAD) &&
                   attr->max_payload > ual_ep_payload_limit(ual_ep_device(ep), ep->qp.object.type)
               ? RI_ERR_LIMIT
               : RI_OK;
}

static enum ri_status modify_qp(struct ual_ep *ep, uint32_t mask, const struct ual_ep_attr *attr)
{
    struct ri_qp_modify modify = {
        .size = sizeof(modify),
        .ord = attr->ord,
        .ird = attr->ird,
        .flags = attr->flags,
        .max_send_wr = attr->max_send_wr,
        .max_recv_wr = attr->max_recv_wr,
        .rq_limit = attr->rq_limit,
        .rq_hard_limit = attr->rq_hard_limit,
        .qkey = attr->qkey,
    };

    for (size_t i = 0; i < sizeof(modify_bits) / sizeof(modify_bits[0]); i++)
        if (mask & modify_bits[i].asked)
            modify.mask |= modify_bits[i].passed;
    if (!modify.mask)
        return RI_OK;
    return ual_qp_modify(&ep->qp, &modify);
}

/* Posts and queries may be reading: members that do not change are not written. */
static void take_modified(struct ual_ep *ep, uint32_t mask, const struct ual_ep_attr *all)
{
    if (mask & UAL_EP_ORD)
        ep->ord = all->ord;
    if (mask & UAL_EP_SEND_WR)
        ep->attr.max_send_wr = all->max_send_wr;
    if (mask & UAL_EP_RECV_WR)
        ep->attr.max_recv_wr = all->max_recv_wr;
    ep->attr.max_payload = all->max_payload;
    ep->attr.ord = all->ord;
    ep->attr.ird = all->ird;
    ep->attr.flags = all->flags;
    ep->attr.rq_limit = all->rq_limit;
    ep->attr.rq_hard_limit = all->rq_hard_limit;
    ep->attr.qkey = all->qkey;
}

enum ri_status ual_ep_modify(struct ual_ep *ep, uint32_t mask, const struct ual_ep_attr *attr,
                             uint32_t flags)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ri_status status = ual_device_alive(ual_ep_device(ep));
    struct ual_ep_attr all;

    if (status != RI_OK)
        return status;
    pthread_mutex_lock(&inside->control);
    all = merged(ep, mask, attr, flags);
    status = check_modify(ep, mask, &all);
    if (status == RI_OK)
        status = modify_qp(ep, mask, &all);
    if (status == RI_OK)
        take_modified(ep, mask, &all);
    pthread_mutex_unlock(&inside->control);
    return status;
}

enum ri_status ual_ep_query(struct ual_ep *ep, struct ri_qp_info *info)
{
    return ual_qp_query(&ep->qp, info);
}

enum ri_status ual_ep_addresses(struct ual_ep *ep, struct sockaddr_storage *local,
                                struct sockaddr_storage *peer)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ri_status status = RI_OK;

    spinlock_lock(&inside->lock);
    if (ual_ep_is_ud(ep) || inside->state == EP_UNCONNECTED || inside->state == EP_NONOPERATIONAL ||
        inside->state == EP_DISCONNECTING) {
        status = RI_ERR_INVALID_STATE;
    } else {
        *local = address_storage(&inside->local);
        *peer = address_storage(&inside->peer);
    }
    spinlock_unlock(&inside->lock);
    return status;
}
