/* SPDX-License-Identifier: BSD-3-Clause
 * Protection domains. */
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
