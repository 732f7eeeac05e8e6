/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Send requests of the passive side between rdma_accept and ESTABLISHED. As with the kernel's
 * librdmacm the QP is in RTS when rdma_accept returns: there are programs that answer the first
 * message of their peer without a look at ESTABLISHED, whose upcall may run after that message is
 * in the CQ.
 */
#include "cm.h"

enum ri_status rcm_posts_hold(void *context, struct vb_qp *qp, struct ri_send_wr *wr,
                              struct ri_send_wr **bad)
{
    struct rcm_id *id = context;
    bool kept;

    return vb_held_send(&id->held, qp, wr, bad, &kept);
}

enum ri_status rcm_posts_hold_bind(void *context, struct vb_qp *qp, const struct vb_bind *bind)
{
    struct rcm_id *id = context;
    bool kept;

    return vb_held_bind(&id->held, qp, bind, &kept);
}

static enum ibv_qp_state state_of(const struct vb_qp *qp)
{
    return __atomic_load_n(&qp->ibv.qp_base.state, __ATOMIC_RELAXED);
}

void rcm_posts_begin(struct rcm_id *id)
{
    if (!id->qp)
        return;
    id->before_accept = state_of(id->qp);
    /* the program may still have to move a QP of its own, and then hears of an error */
    if ((id->qp->flags & VB_QP_BY_ADDRESS) || id->before_accept == IBV_QPS_RTS)
        vb_qp_enter(id->qp, IBV_QPS_RTS, VB_GATE_HELD);
}

void rcm_posts_undo(struct rcm_id *id)
{
    if (!id->qp)
        return;
    vb_qp_enter(id->qp, id->before_accept, VB_GATE_SHUT);
    rcm_posts_drop(id);
}

void rcm_posts_established(struct rcm_id *id)
{
    pthread_mutex_lock(&id->held.lock);
    vb_held_release(&id->held, id->qp);
    /* one of them may have failed already */
    if (!vb_qp_gate(id->qp, VB_GATE_HELD, VB_GATE_OPEN) && state_of(id->qp) != IBV_QPS_ERR)
        vb_qp_enter(id->qp, IBV_QPS_RTS, VB_GATE_OPEN);
    pthread_mutex_unlock(&id->held.lock);
}

/* The QP's event may come in the call of vb_qp_enter, and it flushes, too. */
void rcm_posts_flush(struct rcm_id *id)
{
    vb_qp_enter(id->qp, IBV_QPS_ERR, VB_GATE_OPEN);
    pthread_mutex_lock(&id->held.lock);
    vb_held_release(&id->held, id->qp);
    pthread_mutex_unlock(&id->held.lock);
}

void rcm_posts_end(struct rcm_id *id)
{
    if (rcm_state(id) == RCM_ACCEPTING)
        rcm_posts_flush(id);
}

void rcm_posts_drop(struct rcm_id *id)
{
    pthread_mutex_lock(&id->held.lock);
    vb_held_drop(&id->held);
    pthread_mutex_unlock(&id->held.lock);
}
