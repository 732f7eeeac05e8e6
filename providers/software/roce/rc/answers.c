/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requester: the peer's answers. All that one says is taken in order of PSNs, so
 * requests complete in order of posting. Inside tx.
 */
#include "engine.h"

#include "base/minmax.h"

/* How far an acknowledgement has come. */
enum reach {
    REACHED,       /* all of it is taken */
    REACH_MISSING, /* it is behind an answer that has not come */
};

void rc_finish_head(struct rc_qp *qp, struct wqe *wqe)
{
    struct qp *core = &qp->core;

    if (!wqe_is_answered(wqe)) {
        count_up(&core->counters.sent_messages, 1);
        count_up(&core->counters.sent_octets, wqe->length);
    }
    wqe_finish(wqe, RI_WC_SUCCESS, (uint32_t)wqe->length);
    atomic_store_explicit(&core->sq.sent, ++qp->req.head, memory_order_release);
}

/* All up to `psn`, which is outstanding. *packets: so many more are acknowledged. */
static enum reach acknowledge(struct rc_qp *qp, uint32_t psn, uint32_t *packets)
{
    struct rc_requester *req = &qp->req;
    uint32_t una = req->una;
    enum reach reach = REACHED;

    while (bth_psn_diff(psn, req->una) >= 0) {
        struct wqe *wqe = rc_request(qp, req->head);
        uint32_t behind = bth_psn_add(wqe->byte_len, rc_request_packets(qp, wqe));

        if (wqe_is_answered(wqe)) {
            reach = REACH_MISSING;
            break;
        }
        if (bth_psn_diff(bth_psn_add(psn, 1), behind) < 0) {
            req->una = bth_psn_add(psn, 1);
            break;
        }
        req->una = behind;
        rc_finish_head(qp, wqe);
    }
    *packets = (req->una - una) & BTH_MASK24;
    return reach;
}

/* All before `psn`. */
static enum reach acknowledge_before(struct rc_qp *qp, uint32_t psn)
{
    uint32_t packets = 0;
    enum reach reach = REACHED;

    if (bth_psn_diff(psn, qp->req.una) > 0)
        reach = acknowledge(qp, bth_psn_add(psn, BTH_MASK24), &packets);
    if (packets)
        rc_progress(qp, packets, false);
    return reach;
}

static void on_ack(struct rc_qp *qp, uint32_t psn)
{
    struct rc_requester *req = &qp->req;
    uint32_t una = req->una, packets;
    bool by_probe = req->probed && psn == una;
    enum reach reach = acknowledge(qp, psn, &packets);

    if (packets)
        rc_progress(qp, packets, by_probe);
    if (reach == REACH_MISSING)
        rc_lost(qp);
}

/* the request with this PSN fails, wherever the oldest is. */
static void on_refusal(struct rc_qp *qp, uint32_t psn, uint8_t syndrome)
{
    static const struct {
        enum ri_wc_status status;
        const char *detail;
    } refusals[] = {
        { RI_WC_REMOTE_INVALID_REQUEST, "the peer refuses a request as invalid" },
        { RI_WC_REMOTE_ACCESS, "the peer refuses an access to its memory" },
        { RI_WC_REMOTE_OPERATION, "the peer could not execute a request" },
    };
    uint32_t which = syndrome - AETH_NAK_INVALID_REQUEST, index = qp->req.head;

    contract(which < 3);
    for (;; index++) {
        const struct wqe *wqe = rc_request(qp, index);
        uint32_t first = wqe->byte_len;

        contract(index != qp->req.fresh);
        if (((psn - first) & BTH_MASK24) < rc_request_packets(qp, wqe))
            break;
    }
    rc_fail(qp, rc_request(qp, index), refusals[which].status, RI_EVENT_TERMINATE_RECEIVED,
            syndrome, refusals[which].detail);
}

static void on_nak(struct rc_qp *qp, uint32_t psn, uint8_t syndrome)
{
    enum reach reach = acknowledge_before(qp, psn);

    rc_count(&qp->counters.naks_received, 1);
    if (syndrome != AETH_NAK_SEQUENCE)
        on_refusal(qp, psn, syndrome);
    else if (reach == REACH_MISSING || psn == qp->req.una)
        rc_lost(qp);
}

static void on_rnr(struct rc_qp *qp, uint32_t psn, uint8_t syndrome)
{
    enum reach reach = acknowledge_before(qp, psn);

    rc_count(&qp->counters.rnr_received, 1);
    if (reach == REACH_MISSING)
        rc_lost(qp);
    else if (psn == qp->req.una && !qp->req.rnr_until)
        rc_wait_for_receiver(qp, syndrome);
}

/* --- Reads and atomics --- */

static void bad_response(struct rc_qp *qp, struct wqe *wqe)
{
    rc_fail(qp, wqe, RI_WC_BAD_RESPONSE, RI_EVENT_RESPONSE_ERROR, 0,
            "a response of the peer does not fit its request");
}

/* The octets that belong to una, and no others. Where a response begins and ends does not
 * matter: the peer may have been asked in parts. */
static bool response_fits(const struct rc_qp *qp, const struct wqe *wqe,
                          const struct bth_packet *packet, uint64_t *offset)
{
    *offset = (uint64_t)((packet->psn - wqe->byte_len) & BTH_MASK24) * qp->attr.mtu;
    return packet->payload_len == min_u64(wqe->length - *offset, qp->attr.mtu);
}

static bool store_answer(struct rc_qp *qp, struct wqe *wqe, uint64_t offset, const uint8_t *octets,
                         uint32_t length, bool last)
{
    if (roce_scatter(&qp->core, &qp->req.hint, qp->core.pd, wqe->sges, wqe->num_sge, offset, octets,
                     length, USE_SINK, last))
        return true;
    rc_fail(qp, wqe, RI_WC_LOCAL_PROTECTION, RI_EVENT_LOCAL_ERROR, 0,
            "the sink of a Read or an atomic is not usable");
    return false;
}

static void on_read_response(struct rc_qp *qp, struct wqe *wqe, const struct bth_packet *packet)
{
    struct rc_requester *req = &qp->req;
    uint64_t offset;

    if (!response_fits(qp, wqe, packet, &offset)) {
        bad_response(qp, wqe);
        return;
    }
    if (!store_answer(qp, wqe, offset, packet->payload, packet->payload_len,
                      offset + packet->payload_len == wqe->length))
        return;
    req->una = bth_psn_add(req->una, 1);
    if (offset + packet->payload_len == wqe->length)
        rc_finish_head(qp, wqe);
    rc_progress(qp, 1, false);
}

static void on_atomic_ack(struct rc_qp *qp, struct wqe *wqe, const struct bth_packet *packet)
{
    struct rc_requester *req = &qp->req;
    bool by_probe = req->probed;

    if (!store_answer(qp, wqe, 0, (const uint8_t *)&packet->original, ATOMIC_OCTETS, true))
        return;
    req->una = bth_psn_add(req->una, 1);
    rc_finish_head(qp, wqe);
    rc_progress(qp, 1, by_probe);
}

/* Also an acknowledgement of all before it. */
static void on_response(struct rc_qp *qp, const struct bth_packet *packet)
{
    bool atomic = packet->op->kind == BTH_KIND_ATOMIC_ACKNOWLEDGE;
    enum reach reach = acknowledge_before(qp, packet->psn);
    struct wqe *wqe;

    if (reach == REACH_MISSING) {
        rc_lost(qp);
        return;
    }
    contract(packet->psn == qp->req.una);
    wqe = rc_request(qp, qp->req.head);
    if (!wqe_is_answered(wqe) || rc_is_atomic(wqe) != atomic)
        rc_count(&qp->counters.ghosts, 1); /* */
    else if (atomic)
        on_atomic_ack(qp, wqe, packet);
    else
        on_read_response(qp, wqe, packet);
}

/* Is it about something outstanding? A NAK may name what was never sent only as a ghost;
 * what was acknowledged before says nothing new. */
static bool is_current(struct rc_qp *qp, uint32_t psn)
{
    const struct rc_requester *req = &qp->req;

    if (bth_psn_diff(psn, req->una) < 0)
        return false;
    if (((psn - req->una) & BTH_MASK24) < ((req->max - req->una) & BTH_MASK24))
        return true;
    rc_count(&qp->counters.ghosts, 1);
    return false;
}

void rc_answer(struct rc_qp *qp, const struct bth_packet *packet)
{
    tx_assert_inside(&qp->core);
    if (!is_current(qp, packet->psn))
        return;
    if (packet->op->kind != BTH_KIND_ACKNOWLEDGE)
        on_response(qp, packet);
    else if (aeth_is_ack(packet->syndrome))
        on_ack(qp, packet->psn);
    else if (aeth_is_rnr_nak(packet->syndrome))
        on_rnr(qp, packet->psn, packet->syndrome);
    else
        on_nak(qp, packet->psn, packet->syndrome);
}
