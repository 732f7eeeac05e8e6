/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Begin and end of a QP for datagrams, turns of the lane. The members of struct wire that have
 * nothing to say about packets.
 */
#include "datagram.h"

/* --- begin --- */

void ud_start(struct ud_qp *qp, const struct ud_attr *attr)
{
    tx_assert_inside(&qp->core);
    qp->attr = *attr;
    qp->psn = 0;
    qp->blocked = false;
    atomic_store(&qp->resumed, false);
    qp_connected(&qp->core, attr->wire, 0, 0);
}

/* --- turns --- */

void ud_resume(struct ud_qp *qp)
{
    atomic_store(&qp->resumed, true);
    tx_defer_to_lane(&qp->core);
}

void ud_turn(struct qp *base)
{
    struct ud_qp *qp = ud_qp(base);

    tx_enter(base);
    if (atomic_exchange(&qp->resumed, false))
        qp->blocked = false;
    tx_go_on(base);
    qp_deliver(base);
}

void ud_send_waiting(struct qp *qp)
{
    tx_run(qp);
    qp_deliver(qp);
}

/* What came without a receive is gone (U-010). */
void ud_receive_posted(struct qp *qp)
{
    (void)qp;
}

/* --- the end --- */

void ud_stop(struct qp *base)
{
    struct ud_qp *qp = ud_qp(base);

    tx_assert_inside(base);
    atomic_store(&base->tx.stopped, true);
    spinlock_lock(&qp->rx);
    if (qp_state(base) == RI_QPS_TERMINATE || qp_state(base) == RI_QPS_CLOSING)
        atomic_store(&base->life.state, RI_QPS_ERROR);
    qp_flush_ended(base);
    spinlock_unlock(&qp->rx);
}

void ud_rest(struct qp *qp)
{
    (void)qp;
}

/* A packet under way is inside tx, or in a pass, for which the caller has waited. */
void ud_leave(struct qp *qp, enum leave what, const struct memory_range *range, bool in_pass)
{
    (void)what, (void)range, (void)in_pass;
    tx_enter(qp);
    tx_leave(qp);
}

/* {qp-ud} It has no state CLOSING. */
bool ud_close(struct qp *qp)
{
    (void)qp;
    return false;
}

/* A CQ has no room (event of `end`), or modify asks for TERMINATE, which it has not. */
bool ud_terminate(struct qp *qp, enum qp_cause cause, const struct qp_end *end)
{
    struct qp_end whole = *end;

    if (cause == QP_CAUSE_CONSUMER)
        return false;
    whole.state = RI_QPS_ERROR;
    whole.by_this_side = true;
    return qp_end(qp, &whole);
}

void ud_cut(struct qp *qp)
{
    if (!qp->tx.stopped)
        ud_stop(qp);
}

void ud_hide(struct qp *base)
{
    struct ud_qp *qp = ud_qp(base);

    if (qp->attr.carrier)
        qp->attr.carrier->hide(qp);
}

void ud_release(struct qp *base)
{
    if (!base->tx.stopped)
        ud_stop(base);
    ud_hide(base);
    ud_qp(base)->attr.carrier = NULL;
}

/* --- attributes --- */

bool ud_try_hold(struct qp *qp)
{
    return spinlock_try(&ud_qp(qp)->rx);
}

void ud_unhold(struct qp *qp)
{
    spinlock_unlock(&ud_qp(qp)->rx);
}

enum ri_status ud_set_depths(struct qp *qp, uint32_t ird, uint32_t ord)
{
    (void)qp;
    return ird || ord ? RI_ERR_LIMIT : RI_OK;
}

void ud_set_acknowledged(struct qp *qp, bool on)
{
    (void)qp, (void)on;
}

void ud_attributes_changed(struct qp *qp)
{
    (void)qp;
}

uint32_t ud_answered_request(const struct qp *qp)
{
    return atomic_load_explicit(&qp->sq.sent, memory_order_relaxed);
}

bool ud_counter(const struct ud_qp *qp, uint32_t number, const char **name, uint64_t *value)
{
    const struct ud_counters *counters = &qp->counters;
    const struct {
        const char *name;
        const atomic_ullong *value;
    } rows[] = {
        { "datagrams sent", &counters->sent },
        { "datagrams received", &counters->received },
        { "datagrams with a wrong Q_Key", &counters->wrong_key },
        { "datagrams without a receive", &counters->no_receive },
        { "datagrams longer than the receive", &counters->too_long },
        { "datagrams that are malformed", &counters->malformed },
    };

    if (number >= sizeof(rows) / sizeof(rows[0]))
        return false;
    *name = rows[number].name;
    *value = atomic_load_explicit(rows[number].value, memory_order_relaxed);
    return true;
}
