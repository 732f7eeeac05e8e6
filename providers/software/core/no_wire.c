/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The wire of a QP that is not connected. In IDLE a post to its send queue is refused; in ERROR
 * what is posted is flushed at once.
 */
#include "post.h"
#include "tx.h"

enum ri_status wire_post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    struct qp *qp = container_of(base, struct qp, base);
    struct posted posted = { .requests = 0 };
    enum ri_status status;

    spinlock_lock(&qp->sq.posting);
    status = post_append(qp, wr, bad, &posted);
    spinlock_unlock(&qp->sq.posting);
    tx_run(qp);
    qp_deliver(qp);
    return status;
}

static void nothing(struct qp *qp)
{
    (void)qp;
}

/* It left RTS, which it never was in: by modify in IDLE. */
static void stop(struct qp *qp)
{
    tx_assert_inside(qp);
    atomic_store(&qp->tx.stopped, true);
    qp_flush_ended(qp);
}

static void leave(struct qp *qp, enum leave what, const struct memory_range *range, bool in_pass)
{
    (void)qp, (void)what, (void)range, (void)in_pass;
}

static enum ri_status start(struct qp *qp, const struct ri_llp_handover *handover)
{
    (void)qp, (void)handover;
    return RI_ERR_NOT_SUPPORTED;
}

static bool close_connection(struct qp *qp)
{
    (void)qp;
    return false;
}

/* A queue that overflows while requests of an earlier connection complete. */
static bool terminate(struct qp *qp, enum qp_cause cause, const struct qp_end *end)
{
    (void)qp, (void)cause, (void)end;
    return false;
}

static bool try_hold(struct qp *qp)
{
    (void)qp;
    return true;
}

static enum ri_status set_depths(struct qp *qp, uint32_t ird, uint32_t ord)
{
    (void)qp, (void)ird, (void)ord;
    return RI_OK; /* a wire makes room when it connects */
}

static void set_acknowledged(struct qp *qp, bool on)
{
    (void)qp, (void)on;
}

static uint32_t answered_request(const struct qp *qp)
{
    return atomic_load_explicit(&qp->sq.next, memory_order_relaxed);
}

const char *wire_has_no_way(const struct qp *qp)
{
    (void)qp;
    return NULL;
}

bool wire_has_no_counter(const struct qp *qp, uint32_t number, const char **name, uint64_t *value)
{
    (void)qp, (void)number, (void)name, (void)value;
    return false;
}

const struct wire no_wire = {
    .name = "none",
    .post_send = wire_post_send,
    .leave_together = nothing,
    .send_waiting = tx_run,
    .receive_posted = nothing,
    .send = nothing,
    .stop = stop,
    .rest = nothing,
    .leave = leave,
    .start = start,
    .close = close_connection,
    .terminate = terminate,
    .cut = nothing,
    .release = nothing,
    .try_hold = try_hold,
    .unhold = nothing,
    .set_depths = set_depths,
    .set_acknowledged = set_acknowledged,
    .attributes_changed = nothing,
    .answered_request = answered_request,
    .way = wire_has_no_way,
    .counter = wire_has_no_counter,
};
