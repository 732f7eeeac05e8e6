/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire local, as this device has it: its table, InfiniBand's rules, and the change of a QP to
 * it.
 */
#include "rendezvous.h"

#include "providers/software/core/post.h"

#include <unistd.h>

static struct roce_qp *of(const struct qp *qp)
{
    return roce_qp(rc_qp((struct qp *)(uintptr_t)qp));
}

/* --- the table --- */

/* In SQD, too: what is posted there waits. {numbers-posts} */
static enum ri_status post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    enum roce_phase phase = roce_phase(roce_qp_of(base));

    if (likely(phase == PHASE_RTS))
        return local_wire.post_send(base, wr, bad);
    if (phase < PHASE_RTS && qp_state(container_of(base, struct qp, base)) == RI_QPS_RTS) {
        *bad = wr;
        return RI_ERR_INVALID_STATE;
    }
    return wire_post_send(base, wr, bad);
}

/* Inside tx. */
static void stop(struct qp *qp)
{
    local_wire.stop(qp);
    roce_rnic(qp->rnic)->above->qp_stopped(of(qp));
}

bool roce_local_open(struct roce_rnic *device)
{
    struct wire *wire = &device->meet.wire;

    *wire = local_wire;
    wire->post_send = post_send;
    wire->send = local_send_infiniband;
    wire->stop = stop;
    wire->close = rc_close;
    wire->terminate = rc_terminate;
    wire->set_depths = rc_set_depths;
    return local_open_rnic(&device->core, &device->meet.local, wire);
}

/* --- rules --- */

static bool is_ready(const struct qp *qp)
{
    return roce_phase(of(qp)) >= PHASE_RTS;
}

static void heard(struct qp *core)
{
    struct roce_qp *qp = of(core);

    if (atomic_load(&qp->unheard))
        roce_rnic(core->rnic)->above->heard(qp);
    if (qp->established_reported || roce_phase(qp) != PHASE_RTR)
        return;
    qp->established_reported = true;
    qp_record_communication(core);
    qp_deliver(core);
}

static const struct local_rules rules = {
    .is_ready = is_ready,
    .heard = heard,
    .patience = roce_patience,
};

/* --- the outcome --- */

/* Inside tx. False: it has ended. */
static bool release_held(struct roce_qp *qp)
{
    bool held = qp->rc.held && qp_state(&qp->core) == RI_QPS_RTS;

    tx_assert_inside(&qp->core);
    qp->rc.held = false;
    return held;
}

void roce_go_udp(struct roce_qp *qp, const char *why)
{
    tx_enter(&qp->core);
    if (release_held(qp)) {
        if (roce_rnic(qp->core.rnic)->options.local == ROCE_LOCAL_ONLY)
            rc_break(&qp->rc, why);
        else
            roce_show(qp);
    }
    tx_go_on(&qp->core);
    tx_defer_to_lane(&qp->core); /* what there is to deliver */
}

/* The peer has agreed: without memory for it, the QP ends. */
static bool join(struct roce_qp *qp, struct ri_local *memory, int bell)
{
    const struct rc_requester *req = &qp->rc.req;
    bool drained = req->drained;

    if (!release_held(qp))
        return false;
    if (local_join(&qp->core, &roce_rnic(qp->core.rnic)->meet.wire, &rules, memory, bell) !=
        RI_OK) {
        rc_break(&qp->rc, "no memory for the wire local, which the peer has agreed to");
        return false;
    }
    if (req->suspended)
        local_suspend(&qp->core, true, drained);
    return true;
}

void roce_go_local(struct roce_qp *qp, struct ri_local *memory, int bell)
{
    bool joined;

    tx_enter(&qp->core);
    joined = join(qp, memory, bell);
    tx_go_on(&qp->core);
    tx_defer_to_lane(&qp->core);
    if (joined)
        return;
    close(bell);
    local_drop(&qp->core.rnic->base, memory);
}
