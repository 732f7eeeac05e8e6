/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, the Send family. A message is matched with the receive that its MSN names, and placed
 * segment by segment. Immediate Data is matched in the same way; its octets go to the completion.
 */
#include "checks.h"
#include "providers/software/iwarp/codec/terminate.h"

/* --- placement --- */

/* Places octets into the elements of a receive, from octet `offset` of the message on. False: an
 * element is not usable. */
static bool scatter(struct iwarp_qp *qp, const struct wqe *wqe, uint32_t offset,
                    const uint8_t *from, uint32_t octets)
{
    for (uint32_t i = 0; i < wqe->num_sge && octets; i++) {
        const struct ri_sge *sge = &qp->rx.message_sges[i];
        uint32_t part = sge->length > offset ? sge->length - offset : 0;
        uint8_t *memory;

        part = part < octets ? part : octets;
        if (part) {
            if (!rx_find_receive(qp, sge, offset, part, &memory))
                return false;
            if (unlikely(qp->core.rnic->options.guard)) {
                if (!guard_write(&qp->core, sge->lkey, memory, from, part, USE_RECEIVE))
                    return false;
            } else {
                memcpy(memory, from, part);
            }
        }
        from += part;
        octets -= part;
        offset -= part ? offset : sge->length;
    }
    return true;
}

/* --- Send, stages 6 and 10 --- */

static struct wqe *current_receive(struct iwarp_qp *qp)
{
    return wq_slot(&qp->core.rq, atomic_load_explicit(&qp->core.rq.next, memory_order_relaxed));
}

/* Completes the current receive; the queue advances. */
static void finish_receive(struct iwarp_qp *qp, struct wqe *wqe, uint32_t octets)
{
    qp->rx.message_open = false;
    rx_finish_receive(qp, wqe, atomic_load_explicit(&qp->core.rq.next, memory_order_relaxed),
                      octets);
}

static __attribute__((noinline)) bool take_shared(struct iwarp_qp *qp, struct fault *fault)
{
    const char *why;

    return qp_take_shared(&qp->core, &why) || FAULT(TERMINATE_U_NOBUF, RI_EVENT_NO_RECEIVE, why);
}

static ALWAYS_INLINE bool open_message(struct iwarp_qp *qp, const struct rdmap_segment *segment,
                                       struct fault *fault)
{
    if (qp->core.srq && !take_shared(qp, fault))
        return false;
    qp->rx.message_sges = qp->core.srq ? qp->core.srq_sges : current_receive(qp)->sges;
    qp->rx.message_open = true;
    qp->rx.message_opcode = (uint8_t)segment->opcode;
    qp->rx.message_stag = segment->hdr.ulp_word;
    qp->rx.message_received = 0;
    return true;
}

static inline bool receive_posted(struct iwarp_qp *qp)
{
    return qp->core.srq ? srq_has_request(qp->core.srq) : wq_pending(&qp->core.rq);
}

/* Refuses a Send: no message is under way and no receive is posted, or the MSN is wrong. (With the
 * right MSN no receive was posted, whatever another thread has posted since.) */
static bool refuse_turn(struct iwarp_qp *qp, const struct rdmap_segment *segment,
                        struct fault *fault)
{
    int32_t distance = ddp_msn_diff(segment->hdr.msn, qp->rx.expect_send_msn);

    if (distance < 0)
        return FAULT(TERMINATE_U_MSN, RI_EVENT_REMOTE_OPERATION, "MSN of a Send repeats");
    if (!distance || (!qp->rx.message_open && !receive_posted(qp)))
        return FAULT(TERMINATE_U_NOBUF, RI_EVENT_NO_RECEIVE,
                     "a Send came and no receive is posted");
    return FAULT(TERMINATE_U_MSN, RI_EVENT_REMOTE_OPERATION, "MSN of a Send leaves a gap");
}

/* Finds the receive that the MSN names, or the message under way. */
static ALWAYS_INLINE bool match_message(struct iwarp_qp *qp, const struct rdmap_segment *segment,
                                        struct fault *fault)
{
    bool open = qp->rx.message_open;

    if (!rx_send_in_turn(qp, &segment->hdr, open, open || receive_posted(qp)))
        return refuse_turn(qp, segment, fault);
    return open || open_message(qp, segment, fault);
}

#define RECEIVE_FAULT(status, value, event, detail) fail(fault, wqe, status, value, event, detail)

/* C-119..C-123: after the payload was placed, before the completion can be seen. */
static bool invalidate(struct iwarp_qp *qp, struct wqe *wqe, uint32_t stag, struct fault *fault)
{
    static const struct {
        uint16_t value;
        const char *detail;
    } refusals[] = {
        [INVALIDATE_STAG] = { TERMINATE_R_STAG, "Send with Invalidate of an unknown STag" },
        [INVALIDATE_SCOPE] = { TERMINATE_R_INVALIDATE,
                               "Send with Invalidate of an STag that is not of this connection" },
        [INVALIDATE_ACCESS] = { TERMINATE_R_ACCESS, "Send with Invalidate is not allowed here" },
        [INVALIDATE_KIND] = { TERMINATE_R_INVALIDATE,
                              "Send with Invalidate of an STag that no peer may invalidate" },
    };
    enum invalidate_result result;

    if (!invalidate_now(qp, stag, true, &result)) {
        wqe->wc_flags = 0;
        return RECEIVE_FAULT(RI_WC_REMOTE_INVALID_REQUEST, refusals[result].value,
                             RI_EVENT_INVALIDATE_ACCESS, refusals[result].detail);
    }
    wqe->operand = stag;
    wqe->wc_flags |= RI_WC_WITH_INVALIDATE;
    return true;
}

/* The zero-length Send that opens a peer-to-peer connection uses its MSN but no receive: the
 * consumer posted none (C-043). */
static bool ready_to_receive(const struct iwarp_qp *qp, const struct rdmap_segment *segment)
{
    return qp->rx.rtr_await && segment->opcode == RDMAP_SEND && segment->hdr.last &&
           !segment->payload_len && !segment->hdr.mo && segment->hdr.msn == qp->rx.expect_send_msn;
}

/* Refuses a segment that is out of order, or longer than the receive. */
static bool refuse_length(struct wqe *wqe, bool out_of_order, struct fault *fault)
{
    if (out_of_order)
        return RECEIVE_FAULT(RI_WC_LOCAL_LENGTH, TERMINATE_U_MO, RI_EVENT_RECV_LENGTH,
                             "message offset out of order");
    return RECEIVE_FAULT(RI_WC_LOCAL_LENGTH, TERMINATE_U_LONG, RI_EVENT_RECV_LENGTH,
                         "message longer than the receive");
}

/* The peer is told of which Send. */
bool rx_receive_gone(const struct iwarp_qp *qp, struct wqe *wqe, struct fault *fault)
{
    return RECEIVE_FAULT(RI_WC_LOCAL_PROTECTION,
                         qp_is_acknowledged(&qp->core) ? TERMINATE_STREAM : TERMINATE_LOCAL,
                         RI_EVENT_RECV_ACCESS, "receive buffer is not usable");
}

bool rx_on_send(struct iwarp_qp *qp, const struct rdmap_segment *segment, struct fault *fault)
{
    uint32_t received, octets = segment->payload_len;
    struct wqe *wqe;

    rx_assert_held(qp->stream);
    if (ready_to_receive(qp, segment)) {
        qp->rx.expect_send_msn++;
        return true;
    }
    if (rx_is_behind_stash(qp))
        return rx_stash(qp, segment, fault);
    if (!match_message(qp, segment, fault))
        return rx_may_wait(qp, segment, fault) && rx_stash(qp, segment, fault);
    wqe = current_receive(qp);
    received = qp->rx.message_received;
    if (!rx_send_fits(&segment->hdr, octets, received, wqe->length))
        return refuse_length(wqe, segment->hdr.mo != received, fault);
    if (qp->rx.message_opcode != segment->opcode ||
        ((segment->op->invalidates || segment->op->immediate) &&
         qp->rx.message_stag != segment->hdr.ulp_word))
        return RECEIVE_FAULT(RI_WC_LOCAL_QP, TERMINATE_OPCODE, RI_EVENT_BAD_OPCODE,
                             "opcode, Invalidate STag or immediate changes inside a message");
    if (!scatter(qp, wqe, received, segment->payload, octets))
        return rx_receive_gone(qp, wqe, fault);
    qp->rx.message_received = received + octets;
    if (!segment->hdr.last)
        return true;
    wqe->wc_flags = segment->op->solicited ? RI_WC_SOLICITED : 0;
    if (segment->op->immediate) {
        wqe->operand = segment->hdr.ulp_word;
        wqe->wc_flags |= RI_WC_WITH_IMMEDIATE | WC_OF_SEND;
    }
    if (segment->op->invalidates && !invalidate(qp, wqe, segment->hdr.ulp_word, fault))
        return false;
    finish_receive(qp, wqe, received + octets);
    return true;
}

/* --- Immediate Data, stage 11 --- */

/* Fused: the length of the Write before it, which goes into a completion. It is compared when it
 * comes, also if it has to wait for a receive. */
static bool tells_right_length(struct iwarp_qp *qp, const struct rdmap_segment *segment)
{
    const struct stash *stash = qp->stream->stash;
    uint64_t told = rdmap_get_imm(segment->payload) >> 32, written = qp->rx.write_length;

    if (stash && stash->delivering)
        return true;
    qp->rx.write_length = 0;
    return told == written;
}

/* One segment of 8 octets. It is checked when its receive is known. It may not come between the
 * segments of a Send. */
bool rx_on_immediate(struct iwarp_qp *qp, const struct rdmap_segment *segment, struct fault *fault)
{
    const bool inside = qp->rx.message_open;
    const bool fused = atomic_load_explicit(&qp->core.attr.fused, memory_order_relaxed);
    enum rdmap_result result = rdmap_check_payload(segment);
    uint32_t octets = 0;
    struct wqe *wqe;

    rx_assert_held(qp->stream);
    if (fused && result == RDMAP_OK && !tells_right_length(qp, segment))
        return FAULT(TERMINATE_STREAM, RI_EVENT_REMOTE_OPERATION,
                     "Immediate Data tells another length than that of the RDMA Write before it");
    if (rx_is_behind_stash(qp))
        return rx_stash(qp, segment, fault);
    if (!match_message(qp, segment, fault))
        return rx_may_wait(qp, segment, fault) && rx_stash(qp, segment, fault);
    wqe = current_receive(qp);
    if (inside)
        return RECEIVE_FAULT(RI_WC_LOCAL_QP, TERMINATE_OPCODE, RI_EVENT_BAD_OPCODE,
                             "Immediate Data inside another message");
    if (result != RDMAP_OK)
        return RECEIVE_FAULT(RI_WC_LOCAL_LENGTH, rdmap_terminate_value(result),
                             RI_EVENT_REMOTE_OPERATION, rdmap_result_text(result));
    wqe->operand = rdmap_get_imm(segment->payload);
    wqe->wc_flags = (uint8_t)(RI_WC_WITH_IMMEDIATE |
                              (segment->op->solicited ? RI_WC_SOLICITED : 0));
    if (fused) { /* of a Write, with length */
        octets = (uint32_t)(wqe->operand >> 32);
        wqe->operand &= UINT32_MAX;
    }
    finish_receive(qp, wqe, octets);
    return true;
}
