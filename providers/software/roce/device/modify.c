/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * {numbers} of rnicpi.h: InfiniBand's transitions and attributes, brought to the engine and to the
 * core, which knows IDLE, RTS and ERROR.
 */
#include "device.h"

/* {numbers-needed} */
#define PATH_BITS (RI_QPM_PATH | RI_QPM_PATH_MTU | RI_QPM_DESTINATION_QPN | RI_QPM_RECEIVE_PSN)
#define NUMBERS_BITS                                                                        \
    (RI_QPM_PORT | PATH_BITS | RI_QPM_SEND_PSN | RI_QPM_IRD | RI_QPM_ORD | RI_QPM_TIMEOUT | \
     RI_QPM_RETRY_COUNT | RI_QPM_RNR_RETRY | RI_QPM_RNR_TIMER)
/* UC has none of these. */
#define RELIABLE_BITS                                                                   \
    (RI_QPM_IRD | RI_QPM_ORD | RI_QPM_TIMEOUT | RI_QPM_RETRY_COUNT | RI_QPM_RNR_RETRY | \
     RI_QPM_RNR_TIMER)

static enum ri_status to_init(struct roce_qp *qp, const struct ri_qp_modify *modify);
static enum ri_status to_rtr(struct roce_qp *qp, const struct ri_qp_modify *modify);
static enum ri_status to_rts(struct roce_qp *qp, const struct ri_qp_modify *modify);
static enum ri_status stay(struct roce_qp *qp, const struct ri_qp_modify *modify);
static enum ri_status to_sqd(struct roce_qp *qp, const struct ri_qp_modify *modify);
static enum ri_status resume(struct roce_qp *qp, const struct ri_qp_modify *modify);
static enum ri_status recover(struct roce_qp *qp, const struct ri_qp_modify *modify);

static const struct transition {
    enum ri_qp_state from, to;
    uint32_t needed, allowed;
    enum ri_status (*go)(struct roce_qp *qp, const struct ri_qp_modify *modify);
} transitions[] = {
    { RI_QPS_IDLE, RI_QPS_INIT, RI_QPM_PORT | RI_QPM_FLAGS, 0, to_init },
    { RI_QPS_INIT, RI_QPS_INIT, 0, RI_QPM_PORT | RI_QPM_FLAGS, stay },
    { RI_QPS_INIT, RI_QPS_RTR, PATH_BITS | RI_QPM_IRD | RI_QPM_RNR_TIMER, RI_QPM_FLAGS, to_rtr },
    { RI_QPS_RTR, RI_QPS_RTS,
      RI_QPM_SEND_PSN | RI_QPM_TIMEOUT | RI_QPM_RETRY_COUNT | RI_QPM_RNR_RETRY | RI_QPM_ORD,
      RI_QPM_FLAGS | RI_QPM_RNR_TIMER, to_rts },
    { RI_QPS_RTS, RI_QPS_RTS, 0, RI_QPM_FLAGS | RI_QPM_RNR_TIMER, stay },
    { RI_QPS_SQD, RI_QPS_RTS, 0, RI_QPM_FLAGS | RI_QPM_RNR_TIMER, resume },
    { RI_QPS_SQE, RI_QPS_RTS, 0, RI_QPM_FLAGS, recover },
    { RI_QPS_RTS, RI_QPS_SQD, 0, 0, to_sqd },
    { RI_QPS_SQD, RI_QPS_SQD, 0, 0, to_sqd },
};

/* --- values --- */

static bool in_range(struct roce_rnic *device, const struct ri_qp_modify *modify)
{
    const uint32_t mask = modify->mask, mtu = modify->path_mtu;

    if ((mask & RI_QPM_PORT) && modify->port)
        return false;
    if ((mask & RI_QPM_PATH_MTU) &&
        (mtu < BTH_MTU_MIN || mtu & (mtu - 1) || mtu > roce_mtu(device)))
        return false;
    if ((mask & RI_QPM_PATH) && (!modify->path || modify->path->port || !modify->path->global))
        return false;
    if (((mask & RI_QPM_DESTINATION_QPN) && modify->destination_qpn >> 24) ||
        ((mask & RI_QPM_RECEIVE_PSN) && modify->receive_psn >> 24) ||
        ((mask & RI_QPM_SEND_PSN) && modify->send_psn >> 24))
        return false;
    return !(((mask & RI_QPM_TIMEOUT) && modify->timeout > 31) ||
             ((mask & RI_QPM_RETRY_COUNT) && modify->retry_count > 7) ||
             ((mask & RI_QPM_RNR_RETRY) && modify->rnr_retry > 7) ||
             ((mask & RI_QPM_RNR_TIMER) && modify->rnr_timer > 31));
}

static enum ri_status check(const struct roce_qp *qp, const struct ri_qp_modify *modify,
                            const struct transition *way)
{
    struct roce_rnic *device = roce_rnic(qp->rc.core.rnic);
    const uint32_t mask = modify->mask & ~(uint32_t)RI_QPM_STATE;
    const uint32_t has = ~(qp->core.type == RI_QP_UC ? RELIABLE_BITS : 0u);
    const uint32_t needed = way->needed & has, allowed = way->allowed & has;

    if ((mask & needed) != needed || mask & ~(needed | allowed) || !in_range(device, modify))
        return RI_ERR_INVALID_ARGUMENT;
    if (((mask & RI_QPM_IRD) && modify->ird > device->core.attr.max_ird) ||
        ((mask & RI_QPM_ORD) && modify->ord > device->core.attr.max_ord))
        return RI_ERR_LIMIT;
    return RI_OK;
}

/* Inside tx, held. */
static void take_attributes(struct roce_qp *qp, const struct ri_qp_modify *modify)
{
    struct qp *core = &qp->rc.core;

    tx_assert_inside(core);
    spinlock_lock(&core->life.lock);
    if (modify->mask & RI_QPM_FLAGS)
        atomic_store_explicit(&core->attr.flags, modify->flags, memory_order_relaxed);
    if (modify->mask & RI_QPM_RNR_TIMER)
        core->attr.rnr_timer = modify->rnr_timer;
    spinlock_unlock(&core->life.lock);
    if (modify->mask & RI_QPM_RNR_TIMER)
        qp->rc.attr.rnr_timer = modify->rnr_timer;
}

/* --- transitions: the attributes are checked --- */

static void set_phase(struct roce_qp *qp, enum roce_phase phase)
{
    atomic_store_explicit(&qp->phase, phase, memory_order_release);
}

/* The wire local hears of what has changed. Inside tx, held. */
static void tell_local(struct roce_qp *qp)
{
    if (roce_is_local(qp))
        qp_wire(&qp->core)->attributes_changed(&qp->core);
}

static enum ri_status stay(struct roce_qp *qp, const struct ri_qp_modify *modify)
{
    qp_hold(&qp->rc.core);
    take_attributes(qp, modify);
    tell_local(qp);
    qp_unhold(&qp->rc.core);
    return RI_OK;
}

static enum ri_status to_init(struct roce_qp *qp, const struct ri_qp_modify *modify)
{
    stay(qp, modify);
    set_phase(qp, PHASE_INIT);
    return RI_OK;
}

/* The requester's attributes come at the next transition. */
static struct rc_attr responder_attr(const struct roce_qp *qp, const struct ri_qp_modify *modify)
{
    bool unreliable = qp->core.type == RI_QP_UC;

    return (struct rc_attr){ .dest_qpn = modify->destination_qpn,
                             .rq_psn = modify->receive_psn,
                             .mtu = modify->path_mtu,
                             .rnr_timer = unreliable ? 0 : modify->rnr_timer,
                             .ird = unreliable ? 0 : modify->ird,
                             .unreliable = unreliable,
                             .wire = &roce_wire,
                             .carrier = &roce_carrier };
}

/* The QP is on no list, and nobody else uses what is filled in here. Inside tx. */
static enum ri_status begin(struct roce_qp *qp, const struct ri_qp_modify *modify)
{
    const struct rc_attr attr = responder_attr(qp, modify);
    struct qp *core = &qp->rc.core;
    enum ri_status status;

    if (qp_state(core) != RI_QPS_IDLE)
        return RI_ERR_INVALID_STATE;
    qp->established_reported = qp->crowded = false;
    atomic_store(&qp->waits, false);
    atomic_store(&qp->warned, false);
    atomic_store(&qp->held_over, false);
    qp->held_timed = false;
    roce_forget_silence(qp);
    if (modify->mask & RI_QPM_FLAGS)
        atomic_store_explicit(&core->attr.flags, modify->flags, memory_order_relaxed);
    set_phase(qp, PHASE_RTR);
    status = rc_start(&qp->rc, &attr);
    if (status != RI_OK) {
        set_phase(qp, PHASE_INIT);
        return status;
    }
    if (!qp->rc.held)
        roce_show(qp);
    return RI_OK;
}

/* With option local = only the QP does not begin over UDP. Of a QP that has no wire yet. */
static enum ri_status choose_wire(struct roce_qp *qp, uint32_t peer)
{
    const struct roce_rnic *device = roce_rnic(qp->core.rnic);
    const char *why;
    bool may_meet = roce_may_meet(qp, peer, &why);

    if (!may_meet && device->options.local == ROCE_LOCAL_ONLY && qp->core.type == RI_QP_RC) {
        ri_log(device->core.host, RI_LOG_ERROR, "QP %u does not begin, as option local is only: %s",
               qp->core.qpn, why ? why : "the peer is of another host");
        return RI_ERR_UNREACHABLE;
    }
    qp->rc.held = may_meet;
    atomic_store(&qp->local_why, why);
    return RI_OK;
}

static enum ri_status to_rtr(struct roce_qp *qp, const struct ri_qp_modify *modify)
{
    struct roce_rnic *device = roce_rnic(qp->rc.core.rnic);
    enum ri_status status = roce_find_path(device, modify->path, &qp->port, &qp->path, &qp->ah);

    if (status == RI_OK)
        status = choose_wire(qp, modify->destination_qpn);
    if (status != RI_OK)
        return status;
    tx_enter(&qp->rc.core);
    status = begin(qp, modify);
    tx_leave(&qp->rc.core);
    if (status == RI_OK)
        roce_meet(qp);
    return status;
}

static enum ri_status to_rts(struct roce_qp *qp, const struct ri_qp_modify *modify)
{
    const bool reliable = qp->core.type == RI_QP_RC;
    const struct rc_attr attr = { .sq_psn = modify->send_psn,
                                  .timeout = reliable ? modify->timeout : 0,
                                  .retry_cnt = reliable ? modify->retry_count : 0,
                                  .rnr_retry = reliable ? modify->rnr_retry : 0,
                                  .ord = reliable ? modify->ord : 0 };
    struct qp *core = &qp->rc.core;
    enum ri_status status;

    qp_hold(core);
    status = rc_start_requester(&qp->rc, &attr);
    if (status == RI_OK) {
        take_attributes(qp, modify);
        spinlock_lock(&core->life.lock);
        core->attr.ord = attr.ord;
        core->attr.reads_agreed = attr.ord > 0;
        core->attr.rnr_retry = attr.rnr_retry;
        spinlock_unlock(&core->life.lock);
        set_phase(qp, PHASE_RTS);
        tell_local(qp);
    }
    qp_unhold(core);
    return status;
}

/* Inside tx. */
static void suspend(struct roce_qp *qp, bool on)
{
    rc_suspend(&qp->rc, on);
    if (roce_is_local(qp))
        local_suspend(&qp->core, on, false);
}

/* The event follows in any case. */
static enum ri_status to_sqd(struct roce_qp *qp, const struct ri_qp_modify *modify)
{
    (void)modify;
    tx_enter(&qp->rc.core);
    suspend(qp, true);
    set_phase(qp, PHASE_SQD);
    tx_leave(&qp->rc.core);
    tx_run(&qp->rc.core);
    return RI_OK;
}

static enum ri_status resume(struct roce_qp *qp, const struct ri_qp_modify *modify)
{
    stay(qp, modify);
    tx_enter(&qp->rc.core);
    roce_wait_anew(qp);
    suspend(qp, false);
    set_phase(qp, PHASE_RTS);
    tx_leave(&qp->rc.core);
    tx_run(&qp->rc.core);
    return RI_OK;
}

/* UC: a request has failed. */
static enum ri_status recover(struct roce_qp *qp, const struct ri_qp_modify *modify)
{
    stay(qp, modify);
    tx_enter(&qp->core);
    rc_recover(&qp->rc);
    tx_leave(&qp->core);
    return RI_OK;
}

/* --- the end --- */

/* {numbers}: no event follows. */
static enum ri_status to_error(struct roce_qp *qp)
{
    static const struct ri_qp_modify modify = { .size = sizeof(modify),
                                                .mask = RI_QPM_STATE,
                                                .state = RI_QPS_ERROR };
    static const struct qp_end end = { .state = RI_QPS_ERROR, .by_this_side = true };
    struct qp *core = &qp->rc.core;

    roce_part(qp, false);
    if (qp_end(core, &end))
        tx_run(core);
    return core_qp_modify(&core->base, &modify); /* of one that was not in RTS */
}

/* What completes on the way is dropped. */
static enum ri_status reset(struct roce_qp *qp)
{
    static const struct ri_qp_modify modify = { .size = sizeof(modify),
                                                .mask = RI_QPM_STATE,
                                                .state = RI_QPS_IDLE };
    struct qp *core = &qp->rc.core;
    enum ri_status status;

    to_error(qp);
    rc_hide(core); /* a pass may use it until its end */
    lane_wait_pass(core->lane);
    status = core_qp_modify(&core->base, &modify);
    if (status != RI_OK)
        return status;
    cq_forget(core->send_cq, core);
    cq_retry_blocked(core->send_cq);
    cq_forget(core->recv_cq, core);
    cq_retry_blocked(core->recv_cq);
    qp->known = 0;
    qp->opened = false;
    qp->rc.held = false;
    set_phase(qp, PHASE_IDLE);
    roce_part(qp, true);
    return RI_OK;
}

/* --- modify --- */

static enum ri_status go(struct roce_qp *qp, const struct ri_qp_modify *modify,
                         const struct transition *way)
{
    enum ri_status status = check(qp, modify, way);

    if (status == RI_OK)
        status = way->go(qp, modify);
    if (status == RI_OK)
        qp->known |= modify->mask & NUMBERS_BITS;
    return status;
}

/* {qp-transitions} Of a QP that its host does not move by numbers the connection verbs do it. */
static enum ri_status of_connection_verbs(const struct roce_qp *qp,
                                          const struct ri_qp_modify *modify)
{
    enum ri_qp_state from = roce_qp_state(qp);

    if (!(modify->mask & RI_QPM_STATE) || modify->mask & NUMBERS_BITS ||
        (roce_phase(qp) != PHASE_IDLE && !qp->opened))
        return RI_OK;
    if (modify->state == RI_QPS_RTS || modify->state == RI_QPS_CLOSING ||
        modify->state == RI_QPS_TERMINATE)
        return RI_ERR_NOT_SUPPORTED;
    return modify->state == RI_QPS_IDLE && from != RI_QPS_IDLE && from != RI_QPS_ERROR
               ? RI_ERR_INVALID_STATE
               : RI_OK;
}

static enum ri_status change(struct roce_qp *qp, const struct ri_qp_modify *modify)
{
    enum ri_qp_state from = roce_qp_state(qp);
    enum ri_qp_state to = modify->mask & RI_QPM_STATE ? modify->state : from;

    if (modify->mask & ~(RI_QPM_STATE | RI_QPM_FLAGS | NUMBERS_BITS))
        return RI_ERR_NOT_SUPPORTED;
    if (!(modify->mask & RI_QPM_STATE) && from == RI_QPS_IDLE)
        return RI_ERR_NOT_SUPPORTED; /* what changes in IDLE has feature bits */
    if (modify->mask & RI_QPM_STATE && to == RI_QPS_ERROR)
        return to_error(qp);
    if (modify->mask & RI_QPM_STATE && to == RI_QPS_IDLE)
        return reset(qp);
    for (size_t i = 0; i < ARRAY_SIZE(transitions); i++)
        if (transitions[i].from == from && transitions[i].to == to)
            return go(qp, modify, &transitions[i]);
    return RI_ERR_INVALID_STATE;
}

enum ri_status roce_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify)
{
    struct roce_qp *qp = roce_qp_of(base);
    enum ri_status status;

    if (roce_is_datagram(qp))
        status = roce_ud_modify(qp, modify);
    else
        status = of_connection_verbs(qp, modify);
    if (status == RI_OK && !roce_is_datagram(qp))
        status = change(qp, modify);

    qp_deliver(&qp->core);
    return status;
}
