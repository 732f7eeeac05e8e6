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

static struct qp_end end_of(struct local_qp *qp, const struct refusal *why)
{
    return (struct qp_end){
        .event = why->event,
        .state = RI_QPS_ERROR,
        .terminate_value = why->code,
        .bad_access = is_about_memory(why->event),
        .wqe = qp->has_receive && why->receive_status ? local_next_receive(qp->core) : NULL,
        .status = why->receive_status,
        .detail = why->detail,
    };
}

enum outcome local_refuse(struct local_qp *qp, const struct refusal *why)
{
    struct refusal refusal = *why;
    struct qp_end end;

    local_assert_rx(qp);
    if (qp->rules)
        refusal.code = local_syndrome(refusal.status);
    end = end_of(qp, &refusal);
    qp->refused = (struct refused){ true, atomic_load_explicit(&qp->done, memory_order_relaxed),
                                    refusal.code, (uint16_t)refusal.status };
    if (!qp_end(qp->core, &end))
        qp->refused.is_set = false;
    return OUTCOME_ENDED;
}

enum outcome local_refuse_disabled(struct local_qp *qp, const struct refusal *why)
{
    struct refusal refusal = *why;

    if (qp->rules) {
        refusal.event = RI_EVENT_BAD_OPCODE;
        refusal.status = RI_WC_REMOTE_INVALID_REQUEST;
    }
    return local_refuse(qp, &refusal);
}

enum outcome local_refuse_stag(struct local_qp *qp, enum ri_event_type event, uint16_t code,
                               const char *detail)
{
    const struct refusal why = { event, code, RI_WC_REMOTE_ACCESS, 0, detail };

    return local_refuse(qp, &why);
}
