/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives. What does not fit is dropped without a word, but for a receive that is too short
 * (U-007 to U-011).
 */
#include "datagram.h"

#include "providers/software/roce/rc/store.h"

/* ri_wc.source.sl */
#define SL_IPV6 9u
#define SL_IPV4 10u

static bool has_key(struct ud_qp *qp, const struct bth_packet *packet)
{
    return packet->q_key == atomic_load_explicit(&qp->q_key, memory_order_relaxed);
}

static bool is_datagram(const struct bth_packet *packet)
{
    return packet->op->service == BTH_UD && bth_check(packet, BTH_MTU_MAX) == BTH_OK;
}

static bool has_receive(struct ud_qp *qp)
{
    const char *why;

    return qp->core.srq ? qp_take_shared(&qp->core, &why) : wq_pending(&qp->core.rq);
}

/* False: a buffer is not usable. */
static bool place(struct ud_qp *qp, const struct ud_packet *packet, const struct wqe *receive)
{
    const struct qp *core = &qp->core;
    const struct ri_sge *sges = core->srq ? core->srq_sges : receive->sges;
    uint8_t grh[UD_GRH];

    ud_put_grh(grh, &packet->from, packet->octets);
    return roce_scatter(core, &qp->receive_hint, core->recv_pd, sges, receive->num_sge, 0, grh,
                        UD_GRH, USE_RECEIVE, false) &&
           roce_scatter(core, &qp->receive_hint, core->recv_pd, sges, receive->num_sge, UD_GRH,
                        packet->bth.payload, packet->bth.payload_len, USE_RECEIVE, true);
}

static void describe(const struct ud_packet *packet, struct wqe *receive)
{
    const uint8_t *gid = packet->from.source;

    receive->wc_flags |= RI_WC_GRH;
    if (packet->bth.solicited)
        receive->wc_flags |= RI_WC_SOLICITED;
    if (packet->bth.op->headers & BTH_HAS_IMM) {
        receive->operand = packet->bth.imm;
        receive->wc_flags |= RI_WC_WITH_IMMEDIATE;
    }
    receive->opcode = gid_is_ipv4(gid) ? SL_IPV4 : SL_IPV6;
    receive->rkey = packet->bth.src_qpn;
    memcpy(&receive->remote_addr, gid, sizeof(receive->remote_addr));
    memcpy(&receive->compare, gid + sizeof(receive->remote_addr), sizeof(receive->compare));
}

static void finish(struct ud_qp *qp, struct wqe *receive, enum ri_wc_status status, uint32_t octets)
{
    struct wq *rq = &qp->core.rq;

    atomic_store_explicit(&rq->next, atomic_load_explicit(&rq->next, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    wqe_finish(receive, status, octets);
}

static void fail(struct ud_qp *qp, struct wqe *receive)
{
    const struct qp_end end = { .event = RI_EVENT_LOCAL_ERROR,
                                .state = RI_QPS_ERROR,
                                .by_this_side = true,
                                .wqe = receive,
                                .status = RI_WC_LOCAL_PROTECTION,
                                .detail = "receive buffer is not usable" };

    qp_retire(&qp->core, &qp->core.rq);
    qp_end(&qp->core, &end);
}

static void deliver(struct ud_qp *qp, const struct ud_packet *packet, struct wqe *receive)
{
    uint32_t octets = UD_GRH + packet->bth.payload_len;

    if (octets > receive->length) { /* U-010 */
        count_up(&qp->counters.too_long, 1);
        finish(qp, receive, RI_WC_LOCAL_LENGTH, 0);
        return;
    }
    if (!place(qp, packet, receive)) {
        fail(qp, receive);
        return;
    }
    describe(packet, receive);
    count_up(&qp->counters.received, 1);
    count_up(&qp->core.counters.received_messages, 1);
    count_up(&qp->core.counters.received_octets, packet->bth.payload_len);
    finish(qp, receive, RI_WC_SUCCESS, octets);
}

static void take(struct ud_qp *qp, const struct ud_packet *packet)
{
    const struct wq *rq = &qp->core.rq;

    spinlock_assert_held(&qp->rx);
    if (!is_datagram(&packet->bth))
        count_up(&qp->counters.malformed, 1);
    else if (!has_key(qp, &packet->bth))
        count_up(&qp->counters.wrong_key, 1);
    else if (!has_receive(qp))
        count_up(&qp->counters.no_receive, 1);
    else
        deliver(qp, packet, wq_slot(rq, atomic_load_explicit(&rq->next, memory_order_relaxed)));
}

void ud_receive(struct ud_qp *qp, const struct ud_packet *packets, uint32_t count)
{
    lane_assert_run(qp->core.lane);
    qp_assert_unlocked(&qp->core);
    spinlock_lock(&qp->rx);
    for (uint32_t i = 0; i < count && qp_state(&qp->core) == RI_QPS_RTS; i++)
        take(qp, &packets[i]);
    qp_retire(&qp->core, &qp->core.rq);
    spinlock_unlock(&qp->rx);
    qp_deliver(&qp->core);
}
