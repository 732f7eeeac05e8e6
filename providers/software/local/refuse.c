/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A request of the peer is refused: the connection ends. Under rx, in a pass.
 */
#include "execute.h"

static bool is_about_memory(enum ri_event_type event)
{
    return event == RI_EVENT_WRITE_ACCESS || event == RI_EVENT_READ_ACCESS ||
           event == RI_EVENT_INVALIDATE_ACCESS;
}

enum outcome local_refuse(struct local_qp *qp, const struct refusal *why)
{
    const struct qp_end end = {
        .event = why->event,
        .state = RI_QPS_ERROR,
        .terminate_value = why->code,
        .bad_access = is_about_memory(why->event),
        .wqe = qp->has_receive && why->receive_status ? local_next_receive(qp->core) : NULL,
        .status = why->receive_status,
        .detail = why->detail,
    };

    local_assert_rx(qp);
    qp->refused = (struct refused){ true, atomic_load_explicit(&qp->done, memory_order_relaxed),
                                    why->code, (uint16_t)why->status };
    if (!qp_end(qp->core, &end))
        qp->refused.is_set = false;
    return OUTCOME_ENDED;
}

enum outcome local_refuse_stag(struct local_qp *qp, enum ri_event_type event, uint16_t code,
                               const char *detail)
{
    const struct refusal why = { event, code, RI_WC_REMOTE_ACCESS, 0, detail };

    return local_refuse(qp, &why);
}
