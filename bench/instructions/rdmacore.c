/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Instructions that the providers over rdma-core add to raw verbs, on a context whose operations do
 * nothing. The same Sends are posted and the same completions polled twice: by libibverbs' own
 * inline functions, and through the provider's table. Run it by `make bench-cost`; without
 * callgrind it runs its rounds and counts nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "providers/rdmacore/qp.h"
#include "tests/common/callgrind.h"

#define ROUNDS 1000u
#define OCTETS 64u

/* ---- a device that does nothing ---- */

static uint64_t ids[ROUNDS + 1];
static uint32_t posted, completed;
static enum ibv_wc_opcode opcode;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    (void)qp, (void)bad;
    ids[posted++ % ROUNDS] = wr->wr_id;
    return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)qp, (void)bad;
    ids[posted++ % ROUNDS] = wr->wr_id;
    return 0;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    (void)cq, (void)count;
    wc->wr_id = ids[completed++ % ROUNDS];
    wc->status = IBV_WC_SUCCESS;
    wc->opcode = opcode;
    wc->byte_len = OCTETS;
    wc->wc_flags = 0;
    return 1;
}

static int poll_nothing(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    (void)cq, (void)count, (void)wc;
    return 0;
}

static struct ibv_context context = { .ops = {
                                          .post_send = post_send,
                                          .post_recv = post_recv,
                                          .poll_cq = poll_cq,
                                      } };
static struct ibv_qp ibv_qp = { .context = &context };
static struct ibv_cq ibv_cq = { .context = &context };

static struct rnic rnic;
static struct cq cq = { .rnic = &rnic, .ibv = &ibv_cq };
static struct qp qp = {
    .rnic = &rnic,
    .ibv = &ibv_qp,
    .send_cq = &cq,
    .recv_cq = &cq,
    .max_send_sge = 1,
    .max_recv_sge = 1,
    .max_write_sge = 1,
    .max_read_sge = 1,
    .max_inline = OCTETS,
};

static void must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s failed\n", what);
    exit(1);
}

/* ---- rounds: the result is the cost of one call, its arguments included ---- */

static void raw_post(struct ibv_sge *sge)
{
    struct ibv_send_wr *bad;

    CALLGRIND_ZERO_STATS;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct ibv_send_wr wr;

        wr.wr_id = i;
        wr.next = NULL;
        wr.sg_list = sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        must(!ibv_post_send(&ibv_qp, &wr, &bad), "ibv_post_send");
    }
    CALLGRIND_DUMP_STATS_AT("raw_verbs_post_send:1000");
}

static void our_post(struct ri_sge *sge)
{
    struct ri_send_wr *bad;

    CALLGRIND_ZERO_STATS;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct ri_send_wr wr;

        wr.next = NULL;
        wr.cookie = i;
        wr.sg_list = sge;
        wr.num_sge = 1;
        wr.opcode = RI_WR_SEND;
        wr.flags = RI_WR_SIGNALED;
        wr.immediate = 0;
        must(rdmacore_user.post_send(&qp.base, &wr, &bad) == RI_OK, "post_send");
    }
    CALLGRIND_DUMP_STATS_AT("rdmacore_post_send:1000");
}

static void our_receive(struct ri_sge *sge)
{
    struct ri_recv_wr *bad;

    CALLGRIND_ZERO_STATS;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct ri_recv_wr wr;

        wr.next = NULL;
        wr.cookie = i;
        wr.sg_list = sge;
        wr.num_sge = 1;
        wr.flags = 0;
        must(rdmacore_user.post_recv(&qp.base, &wr, &bad) == RI_OK, "post_recv");
    }
    CALLGRIND_DUMP_STATS_AT("rdmacore_post_recv:1000");
}

static void raw_poll(void)
{
    struct ibv_wc wc;

    CALLGRIND_ZERO_STATS;
    for (uint32_t i = 0; i < ROUNDS; i++)
        must(ibv_poll_cq(&ibv_cq, 1, &wc) == 1, "ibv_poll_cq");
    CALLGRIND_DUMP_STATS_AT("raw_verbs_poll:1000");
}

static void our_poll(const char *name, uint8_t expected)
{
    struct ri_wc wc;

    CALLGRIND_ZERO_STATS;
    for (uint32_t i = 0; i < ROUNDS; i++)
        must(rdmacore_user.poll(&cq.base, 1, &wc) == 1 && wc.cookie == i && wc.opcode == expected,
             "poll");
    CALLGRIND_DUMP_STATS_AT(name);
    (void)name;
}

static void our_empty_poll(void)
{
    struct ri_wc wc;

    CALLGRIND_ZERO_STATS;
    for (uint32_t i = 0; i < ROUNDS; i++)
        must(rdmacore_user.poll(&cq.base, 1, &wc) == 0, "poll of nothing");
    CALLGRIND_DUMP_STATS_AT("rdmacore_poll_empty:1000");
}

int main(void)
{
    static char data[OCTETS];
    struct ibv_sge raw = { .addr = (uintptr_t)data, .length = OCTETS };
    struct ri_sge sge = { .addr = (uintptr_t)data, .length = OCTETS };

    spinlock_init(&cq.lock);
    must(wq_open(&qp.sq, &qp, ROUNDS, false) && wq_open(&qp.rq, &qp, ROUNDS, true), "wq_open");
    qp_limit_elements(&qp);
    atomic_store(&qp.state, RI_QPS_RTS);
    raw_post(&raw);
    raw_poll();
    posted = completed = 0;
    our_post(&sge);
    opcode = IBV_WC_SEND;
    our_poll("rdmacore_poll_send:1000", RI_WC_SEND);
    posted = completed = 0;
    our_receive(&sge);
    opcode = IBV_WC_RECV;
    our_poll("rdmacore_poll_recv:1000", RI_WC_RECV);
    context.ops.poll_cq = poll_nothing;
    our_empty_poll();
    return 0;
}
