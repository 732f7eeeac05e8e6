/* SPDX-License-Identifier: BSD-3-Clause */
/* A fake rdma-core: completion queues, queue pairs, shared receive queues, and posted requests. */
#include "fake_private.h"

#include "tc.h"

#include <sys/eventfd.h>

struct ibv_comp_channel fake_channel;

static int post_error;
static struct fake_cq
    *cq_events[FAKE_QUEUED]; /* in the order of their arrival; the descriptor counts them */
static atomic_uint cq_head, cq_tail;

/* ---- completion queues ---- */

static struct ibv_comp_channel *call_create_comp_channel(struct ibv_context *ctx)
{
    if (fake_refused())
        return NULL;
    fake_channel.context = ctx;
    fake_channel.fd = eventfd(0, EFD_SEMAPHORE);
    fake_count(1);
    return &fake_channel;
}

static int call_destroy_comp_channel(struct ibv_comp_channel *ch)
{
    close(ch->fd);
    fake_count(-1);
    return 0;
}

static struct ibv_cq *call_create_cq(struct ibv_context *ctx, int depth, void *cq_context,
                                     struct ibv_comp_channel *ch, int vector)
{
    struct fake_cq *cq = fake_refused() ? NULL : fake_made(sizeof(*cq));

    (void)vector;
    if (!cq)
        return NULL;
    ck_assert(ch == &fake_channel || !cq_context); /* a CQ that is waited for has events */
    cq->ibv.context = ctx;
    cq->ibv.cq_context = cq_context;
    cq->ibv.cqe = depth;
    cq->armed = -1;
    return &cq->ibv;
}

static int call_resize_cq(struct ibv_cq *ibv, int depth)
{
    const struct fake_cq *cq = (const struct fake_cq *)ibv;

    if (fake_refused())
        return errno;
    if ((unsigned int)depth < cq->tail - cq->head)
        return EINVAL;
    ibv->cqe = (depth + 15) & ~15;
    return 0;
}

void (*fake_on_destroy_cq)(void);

/* Drivers first take the CQ from its users: siw's unmaps it, erdma's keeps its lock. Only then
 * libibverbs waits until its events are acknowledged; where it would wait for ever the test
 * fails. */
static int call_destroy_cq(struct ibv_cq *ibv)
{
    struct fake_cq *cq = (struct fake_cq *)ibv;
    int error;

    cq->leaving = true;
    if (fake_on_destroy_cq)
        fake_on_destroy_cq();
    ck_assert_msg(tc_until(cq->events == cq->acknowledged, 5000),
                  "a CQ is destroyed with events of it about");
    error = fake_gone(cq);
    if (error && error != EIO && error != ENODEV)
        cq->leaving = false;
    return error;
}

static void expect_present(const struct fake_cq *cq)
{
    ck_assert_msg(!cq->leaving, "a CQ is used while it is destroyed");
}

static int call_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **cq_context)
{
    eventfd_t one;

    if (cq_head == cq_tail)
        return fake_nothing(ch->fd);
    eventfd_read(ch->fd, &one);
    fake_unacknowledged_events++;
    *cq = &cq_events[cq_head % FAKE_QUEUED]->ibv;
    *cq_context = (*cq)->cq_context;
    cq_events[cq_head % FAKE_QUEUED]->events++;
    cq_head++;
    return 0;
}

bool fake_cq_taken(void)
{
    return cq_head == cq_tail;
}

static void call_ack_cq_events(struct ibv_cq *ibv, unsigned int count)
{
    ((struct fake_cq *)ibv)->acknowledged += count;
    fake_unacknowledged_events -= count;
}

static int poll_cq(struct ibv_cq *ibv, int count, struct ibv_wc *wc)
{
    struct fake_cq *cq = (struct fake_cq *)ibv;
    int taken = 0;

    expect_present(cq);
    while (taken < count && cq->head != cq->tail)
        wc[taken++] = cq->ring[cq->head++ % FAKE_POSTS];
    return taken;
}

static int req_notify_cq(struct ibv_cq *ibv, int solicited)
{
    struct fake_cq *cq = (struct fake_cq *)ibv;

    expect_present(cq);
    if (cq->armed != 0) /* any completion counts, not only solicited ones */
        cq->armed = solicited;
    return 0;
}

void fake_complete(struct ri_cq *base, const struct ibv_wc *wc)
{
    struct fake_cq *cq = fake_cq(base);

    ck_assert_uint_lt(cq->tail - cq->head, FAKE_POSTS);
    cq->ring[cq->tail % FAKE_POSTS] = *wc;
    cq->tail++; /* from now on another thread may take it */
    if (cq->armed < 0 || (cq->armed == 1 && wc->status == IBV_WC_SUCCESS))
        return;
    cq->armed = -1;
    cq_events[cq_tail % FAKE_QUEUED] = cq;
    cq_tail++;
    ck_assert_int_eq(eventfd_write(fake_channel.fd, 1), 0);
}

void fake_sent(struct ri_qp *qp, struct ri_cq *cq, unsigned int n, enum ibv_wc_status status)
{
    struct fake_qp *fake = fake_qp(qp);
    struct ibv_wc wc = { .wr_id = fake->sent[n].wr_id,
                         .status = status,
                         .vendor_err = status ? 77 : 0,
                         .qp_num = fake->ibv.qp_num };

    ck_assert_uint_lt(n, fake->sends);
    fake_complete(cq, &wc);
}

void fake_received(struct ri_qp *qp, struct ri_cq *cq, unsigned int n, enum ibv_wc_status status,
                   uint32_t octets)
{
    struct fake_qp *fake = fake_qp(qp);
    struct ibv_wc wc = { .wr_id = fake->received[n],
                         .status = status,
                         .opcode = IBV_WC_RECV,
                         .byte_len = octets,
                         .qp_num = fake->ibv.qp_num };

    ck_assert_uint_lt(n, fake->receives);
    fake_complete(cq, &wc);
}

/* ---- queue pairs and shared receive queues ---- */

static struct ibv_qp *call_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    static uint32_t number = 100;
    struct fake_qp *qp = fake_refused() ? NULL : fake_made(sizeof(*qp));

    if (!qp)
        return NULL;
    qp->ibv.context = pd->context;
    qp->ibv.qp_context = attr->qp_context;
    qp->ibv.pd = pd;
    qp->ibv.qp_num = ++number;
    qp->ibv.qp_type = attr->qp_type;
    return &qp->ibv;
}

void (*fake_on_modify)(struct ibv_qp *qp);

static void keep(struct ibv_qp_attr *has, const struct ibv_qp_attr *attr, int mask)
{
#define KEEP(bit, member) has->member = mask & (bit) ? attr->member : has->member
    KEEP(IBV_QP_PORT, port_num);
    KEEP(IBV_QP_AV, ah_attr);
    KEEP(IBV_QP_PATH_MTU, path_mtu);
    KEEP(IBV_QP_DEST_QPN, dest_qp_num);
    KEEP(IBV_QP_RQ_PSN, rq_psn);
    KEEP(IBV_QP_SQ_PSN, sq_psn);
    KEEP(IBV_QP_TIMEOUT, timeout);
    KEEP(IBV_QP_RETRY_CNT, retry_cnt);
    KEEP(IBV_QP_RNR_RETRY, rnr_retry);
    KEEP(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
#undef KEEP
}

static int call_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
    struct fake_qp *qp = (struct fake_qp *)ibv;

    if (fake_on_modify)
        fake_on_modify(ibv);
    if (fake_refused())
        return errno;
    qp->last = *attr;
    qp->last_mask = mask;
    keep(&qp->has, attr, mask);
    if (mask & IBV_QP_STATE) {
        qp->state = attr->qp_state;
        qp->modified[attr->qp_state]++;
    }
    return 0;
}

static int call_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
                         struct ibv_qp_init_attr *init)
{
    const struct fake_qp *qp = (struct fake_qp *)ibv;

    (void)mask, (void)init;
    *attr = qp->has;
    attr->qp_state = qp->state;
    return 0;
}

static int call_destroy_qp(struct ibv_qp *qp)
{
    return fake_gone(qp);
}

void (*fake_on_post)(void);

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fake_qp *qp = (struct fake_qp *)ibv;

    if (fake_on_post)
        fake_on_post();
    if (post_error && post_error != -1) {
        *bad = wr;
        return post_error;
    }
    for (; wr; wr = wr->next) {
        ck_assert_uint_lt(qp->sends, FAKE_POSTS);
        qp->sent[qp->sends] = *wr;
        if (wr->num_sge)
            qp->sge[qp->sends] = wr->sg_list[0];
        ck_assert_int_le(wr->num_sge, FAKE_ELEMENTS);
        if (wr->num_sge)
            memcpy(qp->elements[qp->sends], wr->sg_list,
                   (size_t)wr->num_sge * sizeof(*wr->sg_list));
        qp->sends++;
    }
    if (post_error == -1)
        errno = EPIPE;
    return post_error;
}

static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fake_qp *qp = (struct fake_qp *)ibv;

    if (post_error) {
        *bad = wr;
        return post_error;
    }
    for (; wr; wr = wr->next)
        qp->received[qp->receives++] = wr->wr_id;
    return 0;
}

static struct ibv_srq *call_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct fake_srq *srq = fake_refused() ? NULL : fake_made(sizeof(*srq));

    if (!srq)
        return NULL;
    srq->max_wr = attr->attr.max_wr;
    srq->ibv.context = pd->context;
    srq->ibv.srq_context = attr->srq_context;
    return &srq->ibv;
}

static int call_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
    struct fake_srq *srq = (struct fake_srq *)ibv;

    if (fake_refused())
        return errno;
    ck_assert(mask == IBV_SRQ_LIMIT || mask == IBV_SRQ_MAX_WR);
    if (mask == IBV_SRQ_LIMIT)
        srq->limit = attr->srq_limit;
    else
        srq->max_wr = attr->max_wr;
    return 0;
}

static int call_destroy_srq(struct ibv_srq *srq)
{
    return fake_gone(srq);
}

static int post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fake_srq *srq = (struct fake_srq *)ibv;

    (void)bad;
    for (; wr; wr = wr->next)
        srq->received[srq->receives++] = wr->wr_id;
    return 0;
}

static int bind_mw(struct ibv_qp *ibv, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    struct fake_qp *qp = (struct fake_qp *)ibv;

    ck_assert_int_eq(mw->type, IBV_MW_TYPE_1);
    if (post_error && post_error != -1)
        return post_error;
    ck_assert_uint_lt(qp->binds, FAKE_POSTS);
    qp->bind = *bind;
    qp->bound[qp->binds++] = (struct fake_bind){ .bind = *bind, .before = mw->rkey };
    if (!post_error)
        mw->rkey = ibv_inc_rkey(mw->rkey);
    else
        errno = EPIPE;
    return post_error;
}

void fake_fail_posts(int error)
{
    post_error = error;
}

/* ---- its part of the table ---- */

void fake_verbs_calls(struct rdmacore_calls *calls)
{
    fake_context.ops = (struct ibv_context_ops){
        .poll_cq = poll_cq,
        .req_notify_cq = req_notify_cq,
        .post_send = post_send,
        .post_recv = post_recv,
        .post_srq_recv = post_srq_recv,
        .bind_mw = bind_mw,
    };
    calls->create_comp_channel = call_create_comp_channel;
    calls->destroy_comp_channel = call_destroy_comp_channel;
    calls->create_cq = call_create_cq;
    calls->resize_cq = call_resize_cq;
    calls->destroy_cq = call_destroy_cq;
    calls->get_cq_event = call_get_cq_event;
    calls->ack_cq_events = call_ack_cq_events;
    calls->create_srq = call_create_srq;
    calls->modify_srq = call_modify_srq;
    calls->destroy_srq = call_destroy_srq;
    calls->create_qp = call_create_qp;
    calls->modify_qp = call_modify_qp;
    calls->query_qp = call_query_qp;
    calls->destroy_qp = call_destroy_qp;
}
