/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Posts to a queue pair: a single short request goes the fast path (tx/tx_single.c), any list the
 * general one (tx/post_list.c).
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "softrdma.h"
#include "providers/softrdma/tx/post.h"

enum ri_status softrdma_post_send(struct ri_qp *base, struct ri_send_wr *wr,
                                  struct ri_send_wr **bad)
{
    struct qp *qp = container_of(base, struct qp, base);

    if (post_is_short(wr))
        return tx_post_single(qp, wr, bad);
    if (post_is_single_read(wr))
        return tx_post_single_read(qp, wr, bad);
    return post_list(qp, wr, bad);
}

enum ri_status softrdma_post_recv(struct ri_qp *base, struct ri_recv_wr *wr,
                                  struct ri_recv_wr **bad)
{
    struct qp *qp = container_of(base, struct qp, base);
    enum ri_status status = RI_OK;
    enum ri_qp_state state;
    struct wqe *wqe;

    if (qp->srq) {
        *bad = wr;
        return RI_ERR_INVALID_ARGUMENT;
    }
    spinlock_lock(&qp->rq.posting);
    for (; wr; wr = wr->next) {
        status = wq_take(&qp->rq, wr->sg_list, wr->num_sge, qp->rq.max_sge, &wqe);
        if (status != RI_OK) {
            *bad = wr;
            break;
        }
        wqe->cookie = wr->cookie;
        wqe->flags = (uint16_t)wr->flags;
        wq_publish(&qp->rq);
    }
    /* Read under posting: see qp_flush(). */
    state = qp_state(qp);
    spinlock_unlock(&qp->rq.posting);
    if (unlikely(state != RI_QPS_RTS) && state != RI_QPS_IDLE) {
        tx_run(qp); /* flushes */
        qp_deliver(qp);
    }
    return status;
}
