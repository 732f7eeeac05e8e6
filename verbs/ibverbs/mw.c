/* SPDX-License-Identifier: BSD-3-Clause
 * Memory windows: of type 1, usable over the PD, and of type 2, usable over one QP. */
#include "ibverbs_private.h"

#include <stdlib.h>

#define KEY_BITS UINT32_C(0xff)

struct ibv_mw *vb_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    VB_CALL;
    VB_OWN(pd->context, NULL);
    struct vb_mw *mw = calloc(1, sizeof(*mw));
    enum ri_status status = RI_ERR_INVALID_ARGUMENT;
    struct ual_mw_state state;

    if (!mw)
        return NULL;
    if (type == IBV_MW_TYPE_1 || type == IBV_MW_TYPE_2)
        status = ual_mw_create(vb_pd_of(pd)->ual, type == IBV_MW_TYPE_2, &mw->ual);
    if (status != RI_OK) {
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
    VB_OWN(ibv->context, EIO);
    struct vb_mw *mw = vb_mw_of(ibv);
    enum ri_status status = ual_mw_free(mw->ual);

    if (status == RI_OK)
        free(mw);
    return vb_errno(status);
}

enum ri_status vb_bind_post(struct vb_qp *qp, const struct vb_bind *bind, uint32_t *stag)
{
    struct ual_mw *mw = ual_lookup(bind->mw, UAL_MW);
    struct ual_mw_link link = bind->link;

    if (!mw)
        return ITAL_ERR_INVALID_HANDLE;
    if (!bind->mr)
        return ual_mw_unlink(mw, &qp->ual, bind->cookie, bind->flags);
    link.mr = ual_lookup(bind->mr, UAL_MR);
    if (!link.mr)
        return ITAL_ERR_INVALID_HANDLE;
    return ual_mw_link(mw, &qp->ual, &link, bind->cookie, bind->flags, stag);
}

/* --- binds of a program --- */

/* A window has remote rights only. */
static int bind_to(const struct ibv_mw_bind_info *info, struct vb_bind *bind)
{
    uint32_t access = 0;
    int error = vb_access(info->mw_access_flags | IBV_ACCESS_LOCAL_WRITE, &access);

    if (error)
        return error;
    if (info->mw_access_flags & IBV_ACCESS_MW_BIND)
        return EINVAL;
    bind->mr = ual_handle_of(vb_mr_of(info->mr)->ual);
    bind->link = (struct ual_mw_link){
        .addr = (void *)(uintptr_t)info->addr,
        .length = info->length,
        .access = access & ~(uint32_t)(RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE),
    };
    return 0;
}

static uint16_t flags_of(const struct ibv_qp *qp, unsigned int send_flags)
{
    unsigned int of_bind = IBV_SEND_SIGNALED | IBV_SEND_FENCE;

    return vb_qp_of((struct ibv_qp *)qp)->send_flags[send_flags & of_bind];
}

/* As vb_bind_post. Until the connection is established the QP's connector keeps the bind; then
 * *stag is not set. */
static enum ri_status post_by_gate(struct vb_qp *qp, const struct vb_bind *bind, uint32_t *stag)
{
    const struct vb_connector *connector;
    uint32_t gate = atomic_load_explicit(&qp->gate, memory_order_acquire);

    if (gate == VB_GATE_OPEN)
        return vb_bind_post(qp, bind, stag);
    connector = atomic_load_explicit(&qp->connector, memory_order_acquire);
    if (gate == VB_GATE_HELD && connector && connector->hold_bind)
        return connector->hold_bind(qp->connector_context, qp, bind);
    return vb_is_parents(qp->ibv.qp_base.context) ? RI_ERR_DEVICE : RI_ERR_INVALID_STATE;
}

/* The key that the window gets if the bind is held: the program reads it before the post. An
 * unbinding has a key of its own, too. */
static void choose_key(struct vb_bind *bind, struct ibv_mw *ibv, uint32_t *stag)
{
    *stag = (ibv->rkey & ~KEY_BITS) | ((ibv->rkey + 1) & KEY_BITS);
    bind->link.keyed = true;
    bind->link.key = (uint8_t)(*stag & KEY_BITS);
}

/* The inline wrapper has checked the type and the PDs. Length 0 unbinds the window. */
int vb_bind_mw(struct ibv_qp *ibv, struct ibv_mw *mw, struct ibv_mw_bind *asked)
{
    VB_OWN(ibv->context, EIO);
    const struct ibv_mw_bind_info *info = &asked->bind_info;
    struct vb_qp *qp = vb_qp_of(ibv);
    struct vb_bind bind = { .mw = ual_handle_of(vb_mw_of(mw)->ual),
                            .cookie = asked->wr_id,
                            .flags = flags_of(ibv, asked->send_flags) };
    uint32_t stag = mw->rkey;
    enum ri_status status;
    int error;

    if (!vb_same_pd(ibv->pd, mw->pd) || (info->length && !info->mr))
        return EINVAL;
    error = info->length ? bind_to(info, &bind) : 0;
    if (error)
        return error;
    if (atomic_load_explicit(&qp->gate, memory_order_acquire) == VB_GATE_HELD)
        choose_key(&bind, mw, &stag);
    status = post_by_gate(qp, &bind, &stag);
    if (status == RI_OK)
        mw->rkey = stag;
    return vb_errno(status);
}

int vb_mw_post_bind(struct vb_qp *qp, uint64_t cookie, uint16_t flags, struct ibv_mw *mw,
                    uint32_t rkey, const struct ibv_mw_bind_info *info)
{
    struct vb_bind bind = { .mw = ual_handle_of(vb_mw_of(mw)->ual),
                            .cookie = cookie,
                            .flags = flags };
    uint32_t stag;
    int error;

    if (mw->type != IBV_MW_TYPE_2 || !info->mr || !vb_same_pd(mw->pd, info->mr->pd) ||
        ((mw->rkey ^ rkey) & ~KEY_BITS))
        return EINVAL;
    error = bind_to(info, &bind);
    if (error)
        return error;
    bind.link.keyed = true;
    bind.link.key = (uint8_t)(rkey & KEY_BITS);
    return vb_errno(post_by_gate(qp, &bind, &stag));
}
