/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, acknowledgements (RI_QPM_ACKNOWLEDGED): iWARP has none, so this side asks for them by
 * empty Reads (tx_ack_is_due), and any answer to a Read or an atomic is one. Until then Sends,
 * Writes and local requests are not done, so none of them is retired and no slot of theirs is
 * filled again. If the peer refuses one, the segment that it returns says which.
 */
#include "rx.h"

bool rx_takes_receive(const struct wqe *wqe)
{
    return wqe->opcode == RI_WR_SEND || wqe->opcode == RI_WR_SEND_INVALIDATE ||
           wqe->opcode == RI_WR_SEND_IMMEDIATE || wqe->opcode == RI_WR_RDMA_WRITE_IMMEDIATE;
}

bool rx_is_of_write(const struct wqe *wqe, const struct ddp_hdr *hdr)
{
    bool writes = wqe->opcode == RI_WR_RDMA_WRITE || wqe->opcode == RI_WR_RDMA_WRITE_IMMEDIATE;

    return writes && wqe->rkey == hdr->stag && hdr->to - wqe->remote_addr < wqe->length;
}

void rx_acknowledge(struct iwarp_qp *qp, uint32_t index, bool awaited)
{
    for (uint32_t at = qp->reads.acked; at != index; at++) {
        struct wqe *wqe = wq_slot(&qp->core.sq, at);

        if (wqe_is_answered(wqe))
            continue;
        qp->reads.acked_msn += rx_takes_receive(wqe);
        wqe_finish(wqe, RI_WC_SUCCESS, (uint32_t)wqe->length);
    }
    qp->reads.acked = index + !awaited;
}

/* Inside tx. Of the requests in the socket, those of which TCP has all acknowledged. */
static uint32_t first_unread(const struct iwarp_qp *qp, uint32_t sent, uint64_t unacknowledged)
{
    uint64_t read = qp->tx.accepted - unacknowledged;

    tx_assert_inside(&qp->core);
    if (unacknowledged > qp->tx.accepted)
        return qp->reads.acked;
    while (sent != qp->reads.acked && wq_slot(&qp->core.sq, sent - 1)->end > read)
        sent--;
    return sent;
}

void rx_acknowledge_read(struct iwarp_qp *qp, struct stream *stream)
{
    uint32_t sent = atomic_load(&qp->core.sq.sent);
    struct llp_wait wait = { .octets = false };

    rx_assert_held(stream);
    if (stream->llp->waits)
        stream->llp->waits(stream, &wait);
    if (wait.unacknowledged) {
        if (!tx_try_enter(&qp->core))
            return; /* another thread sends behind the peer's end: nothing is certain */
        sent = first_unread(qp, sent, wait.unacknowledged);
        tx_leave_work(&qp->core);
    }
    rx_acknowledge(qp, sent, true);
}

struct wqe *rx_refused_request(struct iwarp_qp *qp, const struct ddp_hdr *hdr)
{
    uint32_t end = atomic_load_explicit(&qp->core.sq.next, memory_order_acquire);
    uint32_t msn = qp->reads.acked_msn;

    rx_assert_held(qp->stream);
    for (uint32_t at = qp->reads.acked; at != end; at++) {
        struct wqe *wqe = wq_slot(&qp->core.sq, at);
        bool takes = rx_takes_receive(wqe);

        if (hdr->tagged ? rx_is_of_write(wqe, hdr) : takes && msn == hdr->msn) {
            rx_acknowledge(qp, at, true);
            return wqe;
        }
        msn += takes;
    }
    return NULL;
}

/* Some may have been sent, and completed, before it holds. */
static void begin(struct iwarp_qp *qp)
{
    uint32_t next = atomic_load(&qp->core.sq.next), at = atomic_load(&qp->core.sq.sent);

    qp->reads.acked = at;
    qp->reads.acked_msn = qp->tx.send_msn;
    qp->tx.unasked = next - at;
    for (; at != next; at++)
        qp->reads.acked_msn -= rx_takes_receive(wq_slot(&qp->core.sq, at));
    qp->tx.single_below = 0;
}

void rx_set_acknowledged(struct iwarp_qp *qp, bool on)
{
    tx_assert_inside(&qp->core);
    if (on && !qp_is_acknowledged(&qp->core))
        begin(qp);
    else if (!on && qp_is_acknowledged(&qp->core))
        rx_acknowledge(qp, atomic_load(&qp->core.sq.sent), true);
    atomic_store_explicit(&qp->core.attr.acknowledged, on, memory_order_relaxed);
}
