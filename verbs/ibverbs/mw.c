/* SPDX-License-Identifier: BSD-3-Clause
 * Memory windows: of type 1, usable over the PD, and of type 2, usable over one QP. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "ibverbs_private.h"

#include <stdlib.h>

#define KEY_BITS UINT32_C(0xff)

struct ibv_mw *vb_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    VB_CALL;
    struct vb_mw *mw = calloc(1, sizeof(*mw));
    enum ual_status status = UAL_ERR_INVALID_ARGUMENT;
    struct ual_mw_state state;

    if (!mw)
        return NULL;
    if (type == IBV_MW_TYPE_1 || type == IBV_MW_TYPE_2)
        status = ual_mw_create(vb_pd_of(pd)->ual, type == IBV_MW_TYPE_2, &mw->ual);
    if (status != UAL_OK) {
        free(mw);
        errno = vb_errno(status);
        return NULL;
    }
    ual_mw_query(mw->ual, &state);
    mw->ibv.context = pd->context;
    mw->ibv.pd = pd;
    mw->ibv.rkey = state.stag;
    mw->ibv.handle = vb_slot_of(ual_handle_of(mw->ual));
    mw->ibv.type = type;
    return &mw->ibv;
}

int vb_dealloc_mw(struct ibv_mw *ibv)
{
    VB_CALL;
    struct vb_mw *mw = vb_mw_of(ibv);
    enum ual_status status = ual_mw_free(mw->ual);

    if (status == UAL_OK)
        free(mw);
    return vb_errno(status);
}

/* A window has remote rights only. */
static int link_of(const struct ibv_mw_bind_info *info, struct ual_mw_link *link)
{
    uint32_t access = 0;
    int error = vb_access(info->mw_access_flags | IBV_ACCESS_LOCAL_WRITE, &access);

    if (error)
        return error;
    if (info->mw_access_flags & IBV_ACCESS_MW_BIND)
        return EINVAL;
    *link = (struct ual_mw_link){
        .mr = vb_mr_of(info->mr)->ual,
        .addr = (void *)(uintptr_t)info->addr,
        .length = info->length,
        .access = access & ~(uint32_t)(RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE),
    };
    return 0;
}

static uint16_t flags_of(const struct ibv_qp *qp, unsigned int send_flags)
{
    uint32_t flags = vb_qp_of((struct ibv_qp *)qp)->every_flag;

    if (send_flags & IBV_SEND_SIGNALED)
        flags |= RI_WR_SIGNALED;
    if (send_flags & IBV_SEND_FENCE)
        flags |= RI_WR_READ_FENCE;
    return (uint16_t)flags;
}

static bool is_open(const struct ibv_qp *qp)
{
    return atomic_load_explicit(&vb_qp_of((struct ibv_qp *)qp)->gate, memory_order_relaxed) ==
           VB_GATE_OPEN;
}

/* The inline wrapper has checked the type and the PDs. Length 0 unbinds the window. */
int vb_bind_mw(struct ibv_qp *qp, struct ibv_mw *ibv, struct ibv_mw_bind *bind)
{
    const struct ibv_mw_bind_info *info = &bind->bind_info;
    struct vb_mw *mw = vb_mw_of(ibv);
    uint16_t flags = flags_of(qp, bind->send_flags);
    struct ual_mw_link link;
    enum ual_status status;
    uint32_t stag = ibv->rkey;
    int error;

    if (!is_open(qp) || !vb_same_pd(qp->pd, ibv->pd))
        return EINVAL;
    if (!info->length)
        return vb_errno(ual_mw_unlink(mw->ual, &vb_qp_of(qp)->ual, bind->wr_id, flags));
    if (!info->mr)
        return EINVAL;
    error = link_of(info, &link);
    if (error)
        return error;
    status = ual_mw_link(mw->ual, &vb_qp_of(qp)->ual, &link, bind->wr_id, flags, &stag);
    if (status == UAL_OK)
        ibv->rkey = stag;
    return vb_errno(status);
}

int vb_mw_post_bind(struct vb_qp *qp, uint64_t cookie, uint16_t flags, struct ibv_mw *ibv,
                    uint32_t rkey, const struct ibv_mw_bind_info *info)
{
    struct vb_mw *mw = vb_mw_of(ibv);
    struct ual_mw_link link;
    uint32_t stag;
    int error;

    if (ibv->type != IBV_MW_TYPE_2 || !info->mr || !vb_same_pd(ibv->pd, info->mr->pd) ||
        ((ibv->rkey ^ rkey) & ~KEY_BITS))
        return EINVAL;
    error = link_of(info, &link);
    if (error)
        return error;
    link.keyed = true;
    link.key = (uint8_t)(rkey & KEY_BITS);
    return vb_errno(ual_mw_link(mw->ual, &qp->ual, &link, cookie, flags, &stag));
}
