/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QPs for datagrams: {qp-ud} of rnicpi.h, and address handles.
 */
#include "device.h"

#include <stdlib.h>

/* --- states --- */

static enum ri_status set_key(struct roce_qp *qp, uint32_t q_key)
{
    if (q_key & UD_CONTROLLED_KEY) /* U-008 */
        return RI_ERR_PERMISSION;
    atomic_store(&qp->ud.q_key, q_key);
    return RI_OK;
}

static enum ri_status to_rts(struct roce_qp *qp)
{
    struct roce_rnic *device = roce_rnic(qp->core.rnic);
    const struct ud_attr attr = { .wire = &roce_ud_wire, .carrier = &roce_ud_carrier };
    enum ri_status status = roce_open_all(device);

    if (status != RI_OK)
        return status;
    tx_enter(&qp->core);
    if (qp_state(&qp->core) == RI_QPS_IDLE) {
        atomic_store(&qp->waits, false);
        atomic_store(&qp->warned, false);
        ud_start(&qp->ud, &attr);
        roce_show(qp);
    } else {
        status = RI_ERR_INVALID_STATE;
    }
    tx_leave(&qp->core);
    return status;
}

/* No event follows. */
static void end(struct roce_qp *qp)
{
    static const struct qp_end end = { .state = RI_QPS_ERROR, .by_this_side = true };

    if (qp_end(&qp->core, &end))
        tx_run(&qp->core);
}

static enum ri_status change_state(struct roce_qp *qp, enum ri_qp_state state)
{
    const struct ri_qp_modify modify = { .size = sizeof(modify),
                                         .mask = RI_QPM_STATE,
                                         .state = state };

    switch (state) {
    case RI_QPS_RTS: return to_rts(qp);
    case RI_QPS_ERROR: end(qp); break; /* of one that was not in RTS: the core */
    case RI_QPS_IDLE: break;
    default: return RI_ERR_INVALID_STATE;
    }
    return core_qp_modify(&qp->core.base, &modify);
}

enum ri_status roce_ud_modify(struct roce_qp *qp, const struct ri_qp_modify *modify)
{
    enum ri_status status = RI_OK;

    if (modify->mask & ~(RI_QPM_STATE | RI_QPM_QKEY | RI_QPM_FLAGS))
        return RI_ERR_NOT_SUPPORTED;
    if (modify->mask & RI_QPM_FLAGS && modify->flags) /* rights of a peer's, which there is not */
        return RI_ERR_INVALID_ARGUMENT;
    if (modify->mask & RI_QPM_QKEY)
        status = set_key(qp, modify->qkey);
    if (status == RI_OK && modify->mask & RI_QPM_STATE)
        status = change_state(qp, modify->state);
    return status;
}

/* --- address handles --- */

static enum ri_status aim(struct roce_rnic *device, const struct ri_ah_attr *attr,
                          struct roce_ah *ah)
{
    struct ri_ah_attr used;

    if (attr->port || !attr->global)
        return RI_ERR_INVALID_ARGUMENT; /* U-030 */
    return roce_find_path(device, attr, &ah->port, &ah->path, &used);
}

enum ri_status roce_ah_create(struct ri_pd *base, const struct ri_ah_attr *attr, struct ri_ah **out)
{
    struct pd *pd = container_of(base, struct pd, base);
    struct roce_rnic *device = roce_rnic(pd->rnic);
    enum ri_status status = RI_ERR_NO_RESOURCES;
    struct roce_ah *ah;

    if (atomic_fetch_add(&device->ahs, 1) >= device->core.attr.max_ah) {
        status = RI_ERR_LIMIT;
        goto uncount;
    }
    ah = calloc(1, sizeof(*ah));
    if (!ah)
        goto uncount;
    status = aim(device, attr, ah);
    if (status != RI_OK)
        goto free_ah;
    ah->ud.base.ops = device->core.base.ops;
    ah->ud.base.context = attr->context;
    ah->ud.pd = pd;
    atomic_fetch_add(&pd->users, 1);
    *out = &ah->ud.base;
    return RI_OK;

free_ah:
    free(ah);
uncount:
    atomic_fetch_sub(&device->ahs, 1);
    return status;
}

enum ri_status roce_ah_modify(struct ri_ah *base, const struct ri_ah_attr *attr)
{
    struct roce_ah *ah = container_of(base, struct roce_ah, ud.base);
    struct roce_ah fresh = *ah;
    enum ri_status status = aim(roce_rnic(ah->ud.pd->rnic), attr, &fresh);

    if (status == RI_OK)
        *ah = fresh;
    return status;
}

enum ri_status roce_ah_destroy(struct ri_ah *base)
{
    struct roce_ah *ah = container_of(base, struct roce_ah, ud.base);

    atomic_fetch_sub(&roce_rnic(ah->ud.pd->rnic)->ahs, 1);
    atomic_fetch_sub(&ah->ud.pd->users, 1);
    free(ah);
    return RI_OK;
}
