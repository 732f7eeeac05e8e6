/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Instructions of the verbs front end alone: one post and one polled completion, inline wrapper
 * included, over a provider whose operations do nothing. The cost of the same rounds with these
 * operations alone is subtracted. Run it by `make bench-cost`; without callgrind it runs its rounds
 * and counts nothing.
 */
#include "verbs/verbs_objects.h"
#include "tests/common/callgrind.h"

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 1000u

static void must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s failed\n", what);
    exit(1);
}

/* ---- operations that do nothing, in place of the provider's for a QP and a CQ ---- */

static uint32_t posted, completed;
static ual_handle handle;

static enum ri_status post_send(struct ri_qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    (void)qp, (void)bad;
    must(wr->cookie == posted++, "the conversion of a request");
    return RI_OK;
}

static enum ri_status post_recv(struct ri_qp *qp, struct ri_recv_wr *wr, struct ri_recv_wr **bad)
{
    (void)qp, (void)bad;
    must(wr->cookie == posted++, "the conversion of a receive");
    return RI_OK;
}

static uint32_t poll_one(struct ri_cq *cq, uint32_t count, struct ri_wc *wc)
{
    (void)cq, (void)count;
    wc->context = (void *)handle;
    wc->cookie = completed++;
    wc->byte_len = 64;
    wc->status = RI_WC_SUCCESS;
    wc->opcode = RI_WC_SEND;
    wc->flags = 0;
    wc->vendor_error = 0;
    return 1;
}

static const struct ri_user_ops nothing = {
    .size = sizeof(nothing), .post_send = post_send, .post_recv = post_recv, .poll = poll_one
};

/* ---- rounds ---- */

static void post_sends(struct ibv_qp *qp)
{
    struct ibv_sge sge = { .addr = (uintptr_t)&sge, .length = 8 };
    struct ibv_send_wr *bad;

    posted = 0;
    CALLGRIND_ZERO_STATS;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct ibv_send_wr wr;

        wr.wr_id = i;
        wr.next = NULL;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        must(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
    }
    CALLGRIND_DUMP_STATS_AT("verbs_send_whole:1000");
}

static void post_receives(struct ibv_qp *qp)
{
    struct ibv_sge sge = { .addr = (uintptr_t)&sge, .length = 8 };
    struct ibv_recv_wr *bad;

    posted = 0;
    CALLGRIND_ZERO_STATS;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct ibv_recv_wr wr;

        wr.wr_id = i;
        wr.next = NULL;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        must(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
    }
    CALLGRIND_DUMP_STATS_AT("verbs_recv_whole:1000");
}

static void poll_completions(struct ibv_cq *cq, uint32_t number)
{
    struct ibv_wc wc;

    CALLGRIND_ZERO_STATS;
    for (uint32_t i = 0; i < ROUNDS; i++)
        must(ibv_poll_cq(cq, 1, &wc) == 1 && wc.wr_id == i && wc.qp_num == number, "ibv_poll_cq");
    CALLGRIND_DUMP_STATS_AT("verbs_poll_whole:1000");
}

static void provider_alone(struct ri_qp *qp, struct ri_cq *cq)
{
    struct ri_send_wr send = { 0 }, *bad_send;
    struct ri_recv_wr receive = { 0 }, *bad_receive;
    struct ri_wc wc;

    posted = 0;
    CALLGRIND_ZERO_STATS;
    for (send.cookie = 0; send.cookie < ROUNDS; send.cookie++)
        must(ri_qp_ops(qp)->post_send(qp, &send, &bad_send) == RI_OK, "post_send");
    CALLGRIND_DUMP_STATS_AT("verbs_post_send/verbs_send_whole/1:1000");
    posted = 0;
    CALLGRIND_ZERO_STATS;
    for (receive.cookie = 0; receive.cookie < ROUNDS; receive.cookie++)
        must(ri_qp_ops(qp)->post_recv(qp, &receive, &bad_receive) == RI_OK, "post_recv");
    CALLGRIND_DUMP_STATS_AT("verbs_post_recv/verbs_recv_whole/1:1000");
    completed = 0;
    CALLGRIND_ZERO_STATS;
    for (uint32_t i = 0; i < ROUNDS; i++)
        must(cq->ops->poll(cq, 1, &wc) == 1 && wc.cookie == i, "poll");
    CALLGRIND_DUMP_STATS_AT("verbs_poll/verbs_poll_whole/1:1000");
    completed = 0;
}

/* The objects are real. Only the operations of the data path are replaced during the rounds. */
static void measure(struct ibv_qp *ibv_qp, struct ibv_cq *ibv_cq)
{
    struct vb_qp *qp = vb_qp_of(ibv_qp);
    struct ual_cq *cq = vb_cq_of(ibv_cq)->ual;
    struct ri_qp *own_qp = qp->ual.qp, idle_qp = { .ops = &nothing };
    struct ri_cq *own_cq = cq->polled, idle_cq = { .ops = &nothing };

    handle = qp->ual.object.handle;
    qp->ual.qp = &idle_qp;
    cq->polled = &idle_cq;
    vb_qp_enter(qp, IBV_QPS_RTS, VB_GATE_OPEN);
    provider_alone(&idle_qp, &idle_cq);
    post_sends(ibv_qp);
    post_receives(ibv_qp);
    poll_completions(ibv_cq, ibv_qp->qp_num);
    qp->ual.qp = own_qp;
    cq->polled = own_cq;
}

int main(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
                                     .cap = { .max_send_wr = 8, .max_recv_wr = 8 } };

    must(list && list[0], "ibv_get_device_list");
    context = ibv_open_device(list[0]);
    must(context, "ibv_open_device");
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    must(pd && cq, "ibv_create_cq");
    attr.send_cq = attr.recv_cq = cq;
    qp = ibv_create_qp(pd, &attr);
    must(qp, "ibv_create_qp");
    measure(qp, cq);
    must(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) &&
             !ibv_close_device(context),
         "the end");
    ibv_free_device_list(list);
    return 0;
}
