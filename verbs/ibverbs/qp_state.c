/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What follows from a state of a QP, and what its access rights are to the provider: whoever has
 * brought it there, a stream or the device.
 */
#include "ibverbs_private.h"

void vb_qp_note_state(struct vb_qp *qp, enum ibv_qp_state state)
{
    static const uint8_t gates[IBV_QPS_UNKNOWN + 1] = {
        [IBV_QPS_RESET] = VB_GATE_SHUT,   [IBV_QPS_INIT] = VB_GATE_SHUT,
        [IBV_QPS_RTR] = VB_GATE_SHUT,     [IBV_QPS_RTS] = VB_GATE_OPEN,
        [IBV_QPS_SQD] = VB_GATE_OPEN,     [IBV_QPS_SQE] = VB_GATE_OPEN,
        [IBV_QPS_ERR] = VB_GATE_OPEN, /* requests are flushed */
        [IBV_QPS_UNKNOWN] = VB_GATE_SHUT,
    };

    __atomic_store_n(&qp->ibv.qp_base.state, state, __ATOMIC_RELAXED);
    atomic_store_explicit(&qp->gate, gates[state], memory_order_release);
}

uint32_t vb_qp_flags_of(const struct vb_qp *qp, unsigned int access)
{
    uint32_t flags = qp->attr.flags &
                     ~(uint32_t)(RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE | RI_QP_ATOMIC_ENABLE);

    if (access & IBV_ACCESS_REMOTE_READ)
        flags |= RI_QP_READ_ENABLE;
    if (access & IBV_ACCESS_REMOTE_WRITE)
        flags |= RI_QP_WRITE_ENABLE;
    if (access & IBV_ACCESS_REMOTE_ATOMIC)
        flags |= RI_QP_ATOMIC_ENABLE;
    return flags;
}
