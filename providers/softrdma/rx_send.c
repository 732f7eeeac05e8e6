/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, the Send family: a message is matched with the receive that its MSN names and placed there segment by segment.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "rx.h"
#include "terminate.h"

#include <string.h>

/* --- placement --- */

/* Place into the elements of a receive, from octet `offset` of the message on. False: an element is not usable. */
static bool scatter(struct qp *qp, const struct wqe *wqe, uint32_t offset, const uint8_t *from,
                    uint32_t octets)
{
    for (uint32_t i = 0; i < wqe->num_sge && octets; i++) {
        const struct ri_sge *sge = &wqe->sges[i];
        uint32_t part = sge->length > offset ? sge->length - offset : 0;
        uint8_t *memory;

        part = part < octets ? part : octets;
        if (part) {
            if (stag_check_hinted(&qp->rnic->stags, &qp->rx_hint, sge->lkey, qp->pd,
                                  RI_ACCESS_LOCAL_WRITE, sge->addr + offset, part,
                                  &memory) != STAG_OK)
                return false;
            memcpy(memory, from, part);
        }
        from += part;
        octets -= part;
        offset -= part ? offset : sge->length;
    }
    return true;
}

/* --- Send, stages 6 and 10 --- */

static struct wqe *current_receive(struct qp *qp)
{
    return wq_slot(&qp->rq, atomic_load_explicit(&qp->rq.next, memory_order_relaxed));
}

/* The receive under way completes; the queue moves on. */
static void finish_receive(struct qp *qp, struct wqe *wqe, uint32_t octets)
{
    wqe_finish(wqe, RI_WC_SUCCESS, octets);
    atomic_store_explicit(&qp->rq.next,
                          atomic_load_explicit(&qp->rq.next, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    qp->message_open = false;
}

/* MSN and buffer (C-070..C-072), or the message under way. */
static bool match_message(struct qp *qp, const struct rdmap_segment *segment, struct fault *fault)
{
    int32_t distance = ddp_msn_diff(segment->hdr.msn, qp->expect_send_msn);

    if (distance < 0)
        return FAULT(TERMINATE_U_MSN, RI_EVENT_REMOTE_OPERATION, "MSN of a Send repeats");
    if (!qp->message_open && !wq_pending(&qp->rq))
        return FAULT(TERMINATE_U_NOBUF, RI_EVENT_NO_RECEIVE,
                     "a Send came and no receive is posted");
    if (distance > 0)
        return FAULT(TERMINATE_U_MSN, RI_EVENT_REMOTE_OPERATION, "MSN of a Send leaves a gap");
    if (!qp->message_open) {
        qp->message_open = true;
        qp->message_opcode = (uint8_t)segment->opcode;
        qp->message_received = 0;
    }
    return true;
}

#define RECEIVE_FAULT(status, value, event, detail) fail(fault, wqe, status, value, event, detail)

/* Send with Invalidate: no QP can enable it yet, so it ends at C-121 at the latest. */
static bool refuse_invalidate(struct qp *qp, struct wqe *wqe, uint32_t stag, struct fault *fault)
{
    uint8_t *memory;
    uint16_t value = TERMINATE_R_ACCESS;

    switch (stag_check(&qp->rnic->stags, stag, qp->pd, 0, 0, 0, &memory, NULL)) {
    case STAG_INVALID: value = TERMINATE_R_STAG; break;
    case STAG_PD: value = TERMINATE_R_INVALIDATE; break;
    default: break;
    }
    return RECEIVE_FAULT(RI_WC_REMOTE_INVALID_REQUEST, value, RI_EVENT_INVALIDATE_ACCESS,
                         "Send with Invalidate is not enabled here");
}

bool rx_on_send(struct qp *qp, const struct rdmap_segment *segment, struct fault *fault)
{
    uint32_t offset = segment->hdr.mo, octets = segment->payload_len;
    struct wqe *wqe;

    if (!match_message(qp, segment, fault))
        return false;
    wqe = current_receive(qp);
    if (offset > wqe->length || offset != qp->message_received)
        return RECEIVE_FAULT(RI_WC_LOCAL_LENGTH, TERMINATE_U_MO, RI_EVENT_RECV_LENGTH,
                             "message offset out of order");
    if (octets > wqe->length - offset)
        return RECEIVE_FAULT(RI_WC_LOCAL_LENGTH, TERMINATE_U_LONG, RI_EVENT_RECV_LENGTH,
                             "message longer than the receive");
    if (qp->message_opcode != segment->opcode)
        return RECEIVE_FAULT(RI_WC_LOCAL_QP, TERMINATE_OPCODE, RI_EVENT_BAD_OPCODE,
                             "the opcode changes inside a message");
    if (!scatter(qp, wqe, offset, segment->payload, octets))
        return RECEIVE_FAULT(RI_WC_LOCAL_PROTECTION, TERMINATE_LOCAL, RI_EVENT_RECV_ACCESS,
                             "receive buffer is not usable");
    qp->message_received += octets;
    if (!segment->hdr.last)
        return true;
    if (segment->op->invalidates)
        return refuse_invalidate(qp, wqe, segment->hdr.ulp_word, fault);
    wqe->wc_flags = segment->op->solicited ? RI_WC_SOLICITED : 0;
    finish_receive(qp, wqe, qp->message_received);
    qp->expect_send_msn++;
    count_up(&qp->received_messages, 1);
    count_up(&qp->received_octets, qp->message_received);
    return true;
}
