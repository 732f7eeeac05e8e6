/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, a Terminate of the peer, stage 13: which request it refuses, and the end.
 */
#include "providers/software/iwarp/codec/terminate.h"
#include "rx.h"

/*
 * The Read or atomic that the peer refuses. The MSN in the returned DDP header identifies it. With
 * RDMAP errors the peer returns the Read Request header; if that does not identify a request, the
 * oldest is meant. Atomics have no such header.
 */
static struct wqe *blamed_request(struct iwarp_qp *qp, const struct terminate_info *info,
                                  const struct ddp_hdr *hdr)
{
    uint32_t out = atomic_load(&qp->reads.ord_out), in = atomic_load(&qp->reads.ord_in), at = in;
    const struct outstanding_read *read;

    if (out == in)
        return NULL;
    if (hdr && !hdr->tagged && hdr->qn == DDP_QN_READ)
        for (at = out;
             at != in && qp->reads.ord_ring[at & (qp->reads.ord_size - 1)].msn != hdr->msn;)
            at++;
    if (at == in && !(info->value >> 12 == TERMINATE_RDMAP && info->rdma_hdr))
        return NULL;
    read = &qp->reads.ord_ring[(at == in ? out : at) & (qp->reads.ord_size - 1)];
    if (qp_is_acknowledged(&qp->core) && read->own == read->ack)
        rx_acknowledge(qp, read->index, true);
    return read->own ? NULL : wq_slot(&qp->core.sq, read->index);
}

/* The Write whose segment header the peer returns; or, if the peer had no receive for a Send, the
 * oldest message that takes one. Only if the socket has not taken all of it: otherwise it has
 * completed, or completes at once. Inside tx. */
static struct wqe *blamed_message(struct iwarp_qp *qp, const struct ddp_hdr *hdr)
{
    uint32_t index = qp_is_acknowledged(&qp->core)
                         ? qp->reads.acked
                         : atomic_load_explicit(&qp->core.sq.sent, memory_order_relaxed);
    uint32_t end = atomic_load_explicit(&qp->core.sq.next, memory_order_relaxed) +
                   qp->tx.message_begun;

    tx_assert_inside(&qp->core);
    for (; index != end; index++) {
        struct wqe *wqe = wq_slot(&qp->core.sq, index);

        if (!atomic_load(&wqe->done) &&
            (hdr->tagged ? rx_is_of_write(wqe, hdr) : rx_takes_receive(wqe)))
            return wqe;
    }
    return NULL;
}

/* The peer's retries are over, on a connection whose Sends may wait or are acknowledged. */
static bool is_not_ready(const struct iwarp_qp *qp, const struct terminate_info *info,
                         const struct ddp_hdr *hdr)
{
    return (qp->core.attr.rnr_retry || qp_is_acknowledged(&qp->core)) &&
           info->value == TERMINATE_U_NOBUF && !hdr->tagged && hdr->qn == DDP_QN_SEND;
}

/* A Send that is refused has not completed yet. */
static bool is_of_send(const struct iwarp_qp *qp, const struct ddp_hdr *hdr)
{
    return qp_is_acknowledged(&qp->core) && !hdr->tagged && hdr->qn == DDP_QN_SEND;
}

/* An atomic whose target is not aligned (C-136), or that the peer does not know (C-062). */
static bool is_invalid_atomic(uint16_t value, const struct wqe *wqe)
{
    return (value == TERMINATE_STREAM || value == TERMINATE_OPCODE) && wqe &&
           (wqe->opcode == RI_WR_ATOMIC_FETCH_ADD || wqe->opcode == RI_WR_ATOMIC_COMPARE_SWAP);
}

/* The peer reports refused access by protection errors, and by "invalid queue number" for a Read
 * where none is enabled (C-108). */
static enum ri_wc_status status_of_refusal(uint16_t value)
{
    bool access = value >> 8 == 0x01 || value == TERMINATE_U_QN ||
                  (value >= TERMINATE_T_STAG && value <= TERMINATE_T_WRAP);

    if (value == TERMINATE_U_LONG)
        return RI_WC_REMOTE_INVALID_REQUEST;
    return access ? RI_WC_REMOTE_ACCESS : RI_WC_REMOTE_OPERATION;
}

/* Handles a received Terminate; for RDMAP and DDP errors it finds the request that caused it.
 * *entered: tx was entered, so that no other thread completes a Write whose outcome is known here.
 * If another thread is inside tx, the event reports the refusal. */
static void find_blamed(struct iwarp_qp *qp, const struct terminate_info *info, struct qp_end *end,
                        bool *entered)
{
    struct ddp_hdr hdr;
    bool known = info->ddp_hdr && ddp_get(info->ddp_hdr, info->ddp_hdr_len, &hdr) == DDP_OK;

    end->status = status_of_refusal(info->value);
    if (info->value >> 12 > TERMINATE_DDP)
        return;
    if (known && ((hdr.tagged && (hdr.ulp_ctrl & RDMAP_CTRL_OP) == RDMAP_WRITE) ||
                  is_not_ready(qp, info, &hdr) || is_of_send(qp, &hdr))) {
        end->status = is_not_ready(qp, info, &hdr) ? RI_WC_RNR : end->status;
        end->wqe = qp_is_acknowledged(&qp->core) ? rx_refused_request(qp, &hdr) : NULL;
        *entered = !end->wqe && tx_try_enter(&qp->core);
        end->wqe = *entered ? blamed_message(qp, &hdr) : end->wqe;
    } else {
        end->wqe = blamed_request(qp, info, known ? &hdr : NULL);
        if (is_invalid_atomic(info->value, end->wqe))
            end->status = RI_WC_REMOTE_INVALID_REQUEST;
    }
}

void rx_on_terminate(struct iwarp_qp *qp, const struct rdmap_segment *segment)
{
    struct terminate_info info = { .value = 0x01FF };
    struct qp_end end = { .event = RI_EVENT_TERMINATE_RECEIVED,
                          .state = RI_QPS_ERROR,
                          .terminate_received = true,
                          .terminate = segment->payload };
    bool entered = false;

    rx_assert_held(qp->stream);
    if (terminate_parse(segment->payload, segment->payload_len, false, &info) == TERMINATE_OK)
        find_blamed(qp, &info, &end, &entered);
    end.terminate_length = segment->payload_len < sizeof(qp->core.life.terminate)
                               ? segment->payload_len
                               : (uint32_t)sizeof(qp->core.life.terminate);
    end.terminate_value = info.value;
    end.detail = terminate_text(info.value);
    qp_end(&qp->core, &end);
    if (entered)
        tx_leave_work(&qp->core);
}
