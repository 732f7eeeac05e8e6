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
    return (uint8_t)((vb_can_rnr(context) ? CM_TERMS_RNR : 0) |
                     (vb_can_fuse(context) ? CM_TERMS_FUSED : 0) |
                     (vb_can_acknowledge(context) ? CM_TERMS_ACKNOWLEDGED : 0));
}

uint16_t cm_terms_put(const struct vb_context *context, uint8_t rnr_retry, const void *data,
                      uint8_t length, uint8_t to[CM_DATA_MOST])
{
    const struct cm_terms own = { .flags = own_flags(context), .rnr_retry = rnr_retry };
    uint16_t used = 0;

    if (is_as_roce(context)) {
        cm_terms_encode(&own, to);
        used = CM_TERMS_OCTETS;
    }
    if (length)
        memcpy(to + used, data, length);
    return (uint16_t)(used + length);
}

static void skip(const void **data, uint16_t *length)
{
    *data = (const uint8_t *)*data + CM_TERMS_OCTETS;
    *length = (uint16_t)(*length - CM_TERMS_OCTETS);
}

void cm_terms_skip(const void **data, uint16_t *length)
{
    struct cm_terms terms;

    if (cm_terms_decode(*data, *length, &terms))
        skip(data, length);
}

bool cm_terms_take(const struct vb_context *context, const void **data, uint16_t *length,
                   struct cm_terms *terms)
{
    struct cm_terms of_peer = { 0 };
    bool has_terms = cm_terms_decode(*data, *length, &of_peer);

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

void cm_terms_agree(struct cm_id *id)
{
    uint8_t both = id->peer_terms.flags & own_flags(id->context);
    struct vb_terms terms = {
        .rnr_retry = both & CM_TERMS_RNR ? id->peer_terms.rnr_retry : 0,
        .fused_immediate = both & CM_TERMS_FUSED,
        .acknowledged = both & CM_TERMS_ACKNOWLEDGED,
    };

    id->held.fuses = is_as_roce(id->context) && terms.fused_immediate;
    if (!id->qp || !is_as_roce(id->context))
        return;
    terms.rnr_timer = id->qp->modified.min_rnr_timer;
    vb_qp_agree(id->qp, &terms);
}
