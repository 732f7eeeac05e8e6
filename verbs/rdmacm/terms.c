/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Terms: what two sides whose devices appear as RoCE agree to, so that QPs behave as on InfiniBand.
 * They are in front of the program's private data in connect request, answer and rejection:
 * terms_wire.h.
 *
 * Devices that appear as iWARP send and expect none: their peers may be any iWARP. If one side is
 * RoCE and the other iWARP, whoever notices first refuses the connection.
 */
#include "cm.h"

#include <string.h>

static bool is_as_roce(const struct vb_context *context)
{
    return vb_is_roce() && ual_device_attr(context->device)->transport == RI_TRANSPORT_IWARP;
}

static uint8_t own_flags(const struct vb_context *context)
{
    return (uint8_t)((vb_can_rnr(context) ? RCM_TERMS_RNR : 0) |
                     (vb_can_fuse(context) ? RCM_TERMS_FUSED : 0) |
                     (vb_can_acknowledge(context) ? RCM_TERMS_ACKNOWLEDGED : 0));
}

uint16_t rcm_terms_put(const struct vb_context *context, uint8_t rnr_retry, const void *data,
                       uint8_t length, uint8_t to[RCM_DATA_MOST])
{
    const struct rcm_terms own = { .flags = own_flags(context), .rnr_retry = rnr_retry };
    uint16_t used = 0;

    if (is_as_roce(context)) {
        rcm_terms_encode(&own, to);
        used = RCM_TERMS_OCTETS;
    }
    if (length)
        memcpy(to + used, data, length);
    return (uint16_t)(used + length);
}

static void skip(const void **data, uint16_t *length)
{
    *data = (const uint8_t *)*data + RCM_TERMS_OCTETS;
    *length = (uint16_t)(*length - RCM_TERMS_OCTETS);
}

void rcm_terms_skip(const void **data, uint16_t *length)
{
    struct rcm_terms terms;

    if (rcm_terms_decode(*data, *length, &terms))
        skip(data, length);
}

bool rcm_terms_take(const struct vb_context *context, const void **data, uint16_t *length,
                    struct rcm_terms *terms)
{
    struct rcm_terms of_peer = { 0 };
    bool has_terms = rcm_terms_decode(*data, *length, &of_peer);

    *terms = of_peer;
    if (has_terms != is_as_roce(context)) {
        ual_log(RI_LOG_WARNING,
                "rdma_cm: a connection is refused: this side is %s, the other is not; start both "
                "with the same option --as of ital-run",
                is_as_roce(context) ? "RoCE" : "iWARP");
        return false;
    }
    if (has_terms)
        skip(data, length);
    return true;
}

void rcm_terms_agree(struct rcm_id *id)
{
    uint8_t both = id->peer_terms.flags & own_flags(id->context);
    struct vb_terms terms = {
        .rnr_retry = both & RCM_TERMS_RNR ? id->peer_terms.rnr_retry : 0,
        .fused_immediate = both & RCM_TERMS_FUSED,
        .acknowledged = both & RCM_TERMS_ACKNOWLEDGED,
    };

    id->held.fuses = is_as_roce(id->context) && terms.fused_immediate;
    if (!id->qp || !is_as_roce(id->context))
        return;
    terms.rnr_timer = id->qp->modified.min_rnr_timer;
    vb_qp_agree(id->qp, &terms);
}
