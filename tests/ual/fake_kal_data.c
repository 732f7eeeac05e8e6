/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data path of the fake kal: send requests complete at once, receives when the test orders it
 * or at the end.
 */
#include "fake_kal_private.h"

#include "tc.h"

struct fk_cq *fk_last_cq;

/* Under lock. Returns true if the CQ was armed: the caller fires it afterwards. */
static bool complete(struct fk_cq *cq, struct fk_qp *qp, const struct ri_wc *wc)
{
    bool counts = cq->kind == RI_ARM_NEXT || wc->status || (wc->flags & RI_WC_SOLICITED);
    bool fire = cq->armed && counts;
    uint32_t place = (cq->first + cq->count) % 256;

    ck_assert_uint_lt(cq->count, 256);
    cq->wc[place] = *wc;
    cq->of[place] = qp;
    cq->count++;
    cq->armed &= !fire;
    return fire;
}

static void drop_from(struct fk_cq *cq, const struct fk_qp *qp)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < cq->count; i++) {
        uint32_t from = (cq->first + i) % 256, to = (cq->first + left) % 256;

        if (cq->of[from] == qp)
            continue;
        cq->wc[to] = cq->wc[from];
        cq->of[to] = cq->of[from];
        left++;
    }
    cq->count = left;
}

void fk_forget_completions(const struct fk_qp *qp)
{
    drop_from((struct fk_cq *)qp->attr.send_cq, qp);
    drop_from((struct fk_cq *)qp->attr.recv_cq, qp);
}

void fk_cq_complete(struct ri_cq *ri, const struct ri_wc *wc)
{
    struct fk_cq *cq = (struct fk_cq *)ri;
    bool fire;

    pthread_mutex_lock(&fk_lock);
    fire = complete(cq, NULL, wc);
    pthread_mutex_unlock(&fk_lock);
    if (fire)
        fk_upper->cq_event(ri->context);
}

void fk_to_error(struct fk_qp *qp)
{
    struct fk_cq *cq = (struct fk_cq *)qp->attr.recv_cq;
    bool fire = false;

    pthread_mutex_lock(&fk_lock);
    qp->state = RI_QPS_ERROR;
    for (uint32_t i = 0; i < qp->receives; i++)
        fire |= complete(cq, qp,
                         &(struct ri_wc){ .context = qp->ri.context,
                                          .cookie = qp->cookies[i],
                                          .opcode = RI_WC_RECV,
                                          .status = RI_WC_FLUSHED });
    qp->receives = 0;
    pthread_mutex_unlock(&fk_lock);
    if (fire)
        fk_upper->cq_event(cq->ri.context);
}

void fk_complete(struct fk_qp *qp, const struct ri_wc *wc)
{
    struct fk_cq *cq = (struct fk_cq *)qp->attr.recv_cq;
    struct ri_wc filled = *wc;
    bool fire;

    filled.context = qp->ri.context;
    pthread_mutex_lock(&fk_lock);
    fire = complete(cq, qp, &filled);
    pthread_mutex_unlock(&fk_lock);
    if (fire)
        fk_upper->cq_event(cq->ri.context);
}

/* As rnicpi.h describes struct ri_wc. Under lock. */
static struct ri_wc completion_of(struct fk_qp *qp, const struct ri_send_wr *wr)
{
    static const uint8_t opcodes[] = {
        [RI_WR_RDMA_READ_INVALIDATE] = RI_WC_RDMA_READ,
        [RI_WR_BIND_WINDOW] = RI_WC_BIND_WINDOW,
        [RI_WR_LOCAL_INVALIDATE] = RI_WC_LOCAL_INVALIDATE,
        [RI_WR_FAST_REGISTER] = RI_WC_FAST_REGISTER,
    };
    enum ri_wc_status status = qp->state == RI_QPS_RTS ? fk.next_status : RI_WC_FLUSHED;
    struct ri_wc wc = { .context = qp->ri.context, .cookie = wr->cookie, .status = status };

    wc.opcode = opcodes[wr->opcode];
    if (wr->opcode == RI_WR_LOCAL_INVALIDATE)
        wc.invalidated_stag = wr->invalidate_stag;
    if (wr->opcode == RI_WR_BIND_WINDOW)
        wc.invalidated_stag = (uint32_t)(uintptr_t)wr->bind.mw->ops << 8 | wr->bind.new_key;
    if (wr->opcode == RI_WR_FAST_REGISTER)
        wc.invalidated_stag = (uint32_t)(uintptr_t)wr->fast_register.mr->ops << 8 |
                              wr->fast_register.new_key;
    if (wr->opcode == RI_WR_RDMA_READ_INVALIDATE) {
        wc.invalidated_stag = wr->sg_list[0].lkey;
        wc.flags = status ? 0 : RI_WC_WITH_INVALIDATE;
    }
    fk.next_status = RI_WC_SUCCESS;
    return wc;
}

/* A success without RI_SEND_SIGNALED has no completion. */
static bool execute(struct fk_qp *qp, const struct ri_send_wr *wr)
{
    struct ri_wc wc = completion_of(qp, wr);

    fk.wr = *wr;
    if (!wc.status && !(wr->flags & RI_WR_SIGNALED) && wr->opcode >= RI_WR_RDMA_READ_INVALIDATE)
        return false;
    return complete((struct fk_cq *)qp->attr.send_cq, qp, &wc);
}

static enum ri_status post_send(struct ri_qp *ri, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    struct fk_qp *qp = (struct fk_qp *)ri;
    struct fk_cq *cq = (struct fk_cq *)qp->attr.send_cq;
    enum ri_status status = RI_OK;
    bool fire = false;

    pthread_mutex_lock(&fk_lock);
    for (; wr && !status; wr = wr->next) {
        status = qp->state == RI_QPS_IDLE ? RI_ERR_INVALID_STATE : fk.next_post;
        fk.next_post = RI_OK;
        if (status)
            *bad = wr;
        else
            fire |= execute(qp, wr);
    }
    pthread_mutex_unlock(&fk_lock);
    if (fire)
        fk_upper->cq_event(cq->ri.context);
    return status;
}

static enum ri_status post_recv(struct ri_qp *ri, struct ri_recv_wr *wr, struct ri_recv_wr **bad)
{
    struct fk_qp *qp = (struct fk_qp *)ri;
    enum ri_status status = RI_OK;
    bool flush;

    pthread_mutex_lock(&fk_lock);
    for (; wr && !status; wr = wr->next) {
        if (qp->receives == qp->attr.max_recv_wr || qp->receives == 64) {
            status = RI_ERR_QUEUE_FULL;
            *bad = wr;
        } else {
            qp->cookies[qp->receives++] = wr->cookie;
        }
    }
    flush = qp->state != RI_QPS_IDLE && qp->state != RI_QPS_RTS;
    pthread_mutex_unlock(&fk_lock);
    if (flush)
        fk_to_error(qp);
    return status;
}

static enum ri_status post_srq_recv(struct ri_srq *ri, struct ri_recv_wr *wr,
                                    struct ri_recv_wr **bad)
{
    struct fk_srq *srq = (struct fk_srq *)ri;
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&fk_lock);
    for (; wr && !status; wr = wr->next) {
        if (srq->receives == srq->attr.max_wr) {
            status = RI_ERR_QUEUE_FULL;
            *bad = wr;
        } else {
            srq->receives++;
        }
    }
    pthread_mutex_unlock(&fk_lock);
    return status;
}

static uint32_t poll_cq(struct ri_cq *ri, uint32_t count, struct ri_wc *wc)
{
    struct fk_cq *cq = (struct fk_cq *)ri;
    uint32_t taken = 0;

    pthread_mutex_lock(&fk_lock);
    while (taken < count && cq->count) {
        wc[taken++] = cq->wc[cq->first];
        cq->first = (cq->first + 1) % 256;
        cq->count--;
    }
    pthread_mutex_unlock(&fk_lock);
    return taken;
}

static enum ri_status arm_cq(struct ri_cq *ri, enum ri_arm kind, uint32_t count)
{
    struct fk_cq *cq = (struct fk_cq *)ri;

    (void)count;
    pthread_mutex_lock(&fk_lock);
    cq->armed = true;
    cq->kind = fk.armed_kind = kind;
    pthread_mutex_unlock(&fk_lock);
    return RI_OK;
}

static enum ri_status peek_cq(struct ri_cq *ri, uint32_t *total, uint32_t *notify)
{
    pthread_mutex_lock(&fk_lock);
    *total = ((struct fk_cq *)ri)->count;
    pthread_mutex_unlock(&fk_lock);
    *notify = 0;
    return RI_OK;
}

unsigned int fk_connections(void)
{
    unsigned int alive;

    pthread_mutex_lock(&fk_lock);
    alive = fk.connections;
    pthread_mutex_unlock(&fk_lock);
    return alive;
}

bool fk_armed(void)
{
    bool armed;

    pthread_mutex_lock(&fk_lock);
    armed = fk_last_cq->armed;
    pthread_mutex_unlock(&fk_lock);
    return armed;
}

const struct ri_user_ops fk_user_ops = {
    .size = sizeof(fk_user_ops),
    .abi_major = RI_ABI_MAJOR,
    .post_send = post_send,
    .post_recv = post_recv,
    .post_srq_recv = post_srq_recv,
    .poll = poll_cq,
    .arm = arm_cq,
    .cq_peek = peek_cq,
    .progress = fk_progress,
    .lane_arm = fk_lane_arm,
};
