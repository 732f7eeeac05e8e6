/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queue pair: query and counters.
 */
#include "core.h"
#include "counters.h"

#include <string.h>

/* Those that it was created or modified with, but for receives that it keeps no longer. */
static uint32_t flags_now(struct qp *qp)
{
    uint32_t flags = atomic_load_explicit(&qp->attr.flags, memory_order_relaxed);
    enum ri_qp_state state = qp_state(qp);

    if (state != RI_QPS_IDLE && state != RI_QPS_RTS && !atomic_load(&qp->life.keeps_receives))
        flags &= ~(uint32_t)RI_QP_KEEP_RECEIVES;
    return flags;
}

enum ri_status core_qp_query(struct ri_qp *base, struct ri_qp_info *info)
{
    struct qp *qp = container_of(base, struct qp, base);
    struct ri_qp_info now;

    spinlock_lock(&qp->life.lock);
    now = (struct ri_qp_info){
        .size = sizeof(now),
        .state = qp_state(qp),
        .qpn = qp->qpn,
        .max_send_wr = qp->sq.depth,
        .max_recv_wr = qp->srq ? 0 : qp->rq.depth,
        .max_send_sge = qp->sq.max_sge,
        .max_recv_sge = qp->rq.max_sge,
        .max_read_sge = qp->max_read_sge,
        .max_write_sge = qp->max_write_sge,
        .ird = qp->attr.ird,
        .ord = qp->attr.ord,
        .flags = flags_now(qp),
        .holding = atomic_load(&qp->tx.holding),
        .terminate_sent = qp->life.terminate_sent,
        .terminate_received = qp->life.terminate_received,
        .terminate_length = qp->life.terminate_length,
        .way = qp_wire(qp)->way(qp),
    };
    if (qp->life.terminate_length)
        memcpy(now.terminate, qp->life.terminate, qp->life.terminate_length);
    spinlock_unlock(&qp->life.lock);
    return ri_sized_copy(info, &now, sizeof(now)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

static const struct core_counter rows[] = {
    { "messages sent", offsetof(struct qp, counters.sent_messages) },
    { "octets sent", offsetof(struct qp, counters.sent_octets) },
    { "messages received", offsetof(struct qp, counters.received_messages) },
    { "octets received", offsetof(struct qp, counters.received_octets) },
    { "access errors of peers", offsetof(struct qp, counters.access_errors) },
    { "empty writes received", offsetof(struct qp, counters.empty_writes) },
    { "waits for a receive", offsetof(struct qp, counters.waits) },
};

/* Behind `count` others. Returns how many there are in all, of which `room` are filled in. */
static size_t add_wires_counters(const struct qp *qp, const char **names, uint64_t *values,
                                 size_t count, size_t room)
{
    const char *name;
    uint64_t value;

    for (int slot = 0; slot < WIRE_SLOTS; slot++) {
        const struct wire *wire = qp->rnic->wires[slot];

        for (uint32_t i = 0; wire && wire->counter(qp, i, &name, &value); i++, count++) {
            if (count >= room)
                continue;
            names[count] = name;
            values[count] = value;
        }
    }
    return count;
}

enum ri_status core_qp_counters(struct ri_qp *base, const char **names, uint64_t *values,
                                size_t *count)
{
    struct qp *qp = container_of(base, struct qp, base);
    size_t room = *count;

    core_counters_give(rows, ARRAY_SIZE(rows), qp, names, values, count);
    *count = add_wires_counters(qp, names, values, *count, room);
    return RI_OK;
}
