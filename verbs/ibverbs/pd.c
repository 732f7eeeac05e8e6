/* SPDX-License-Identifier: BSD-3-Clause
 * Protection domains and address handles. */
#include "ibverbs_private.h"

#include <stdlib.h>

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ibv)
{
    VB_CALL;
    VB_OWN(ibv, NULL);
    static _Atomic uint32_t made;
    struct vb_pd *pd = calloc(1, sizeof(*pd));
    enum ri_status status;

    if (!pd)
        return NULL;
    status = ual_pd_create(vb_context_of(ibv)->device, &pd->ual);
    if (status != RI_OK) {
        free(pd);
        errno = vb_errno(status);
        return NULL;
    }
    pd->ibv.context = ibv;
    pd->ibv.handle = atomic_fetch_add(&made, 1);
    vb_share(ibv, &pd->shared, VB_SHARED_PD, pd->ibv.handle);
    return &pd->ibv;
}

int ibv_dealloc_pd(struct ibv_pd *ibv)
{
    VB_CALL;
    VB_OWN(ibv->context, EIO);
    struct vb_pd *pd = vb_pd_of(ibv);
    enum ri_status status;

    if (pd->protection)
        return vb_dealloc_parent_domain(pd);
    if (atomic_load(&pd->parents))
        return EBUSY;
    if (vb_is_dead(ibv->context, &pd->shared))
        return EINVAL;
    status = ual_pd_free(pd->ual);
    if (status == RI_OK) {
        vb_unshare(ibv->context, &pd->shared, true);
        free(pd);
    }
    return vb_errno(status);
}

/* --- address handles --- */

int vb_path(struct vb_context *context, const struct ibv_ah_attr *from, struct ri_ah_attr *to)
{
    struct ri_ah_attr path = {
        .size = sizeof(path),
        .port = from->port_num - 1u,
        .destination_lid = from->dlid,
        .sl = from->sl,
        .hop_limit = from->grh.hop_limit,
        .traffic_class = from->grh.traffic_class,
        .path_bits = from->src_path_bits,
        .global = from->is_global,
        .flow_label = from->grh.flow_label,
        .static_rate = from->static_rate,
    };
    int error = 0;

    if (from->port_num < 1 || from->port_num > ual_device_attr(context->device)->ports)
        return EINVAL;
    if (from->is_global)
        error = vb_gid_at(context, from->port_num, from->grh.sgid_index, path.source_gid);
    else if (vb_is_ethernet(context, from->port_num))
        error = EINVAL; /* a LID is no address there */
    memcpy(path.destination_gid, from->grh.dgid.raw, sizeof(path.destination_gid));
    if (!error)
        *to = path;
    return error;
}

/* Without RI_FEATURE_UD there are no datagrams, so nothing can be sent with an address handle.
 * Programs create one to check whether a peer is reachable. */
struct ibv_ah *ibv_create_ah(struct ibv_pd *ibv, struct ibv_ah_attr *attr)
{
    VB_CALL;
    VB_OWN(ibv->context, NULL);
    static _Atomic uint32_t made;
    struct vb_context *context = vb_context_of(ibv->context);
    struct vb_ah *ah = calloc(1, sizeof(*ah));
    struct ri_ah_attr asked;
    int error;

    if (!ah)
        return NULL;
    error = vb_path(context, attr, &asked);
    if (error)
        goto free_ah;
    if (ual_device_attr(context->device)->features & RI_FEATURE_UD)
        error = vb_errno(ual_ah_create(vb_pd_of(ibv)->ual, &asked, 0, &ah->ual));
    if (error)
        goto free_ah;
    ah->ibv.context = ibv->context;
    ah->ibv.pd = ibv;
    ah->ibv.handle = atomic_fetch_add(&made, 1);
    return &ah->ibv;
free_ah:
    free(ah);
    errno = error;
    return NULL;
}

int ibv_destroy_ah(struct ibv_ah *ibv)
{
    VB_CALL;
    VB_OWN(ibv->context, EIO);
    struct vb_ah *ah = vb_ah_of(ibv);
    enum ri_status status = ah->ual ? ual_ah_free(ah->ual) : RI_OK;

    if (status == RI_OK)
        free(ah);
    return vb_errno(status);
}
