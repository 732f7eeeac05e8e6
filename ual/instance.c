/* SPDX-License-Identifier: BSD-3-Clause
 * The kal of this process, and the one upcall table that ual hands down to it. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "ual_private.h"

static const struct kal_upper upper = {
    .watch = ual_lane_watch,
    .rewatch = ual_lane_rewatch,
    .unwatch = ual_lane_unwatch,
    .timer_set = ual_lane_timer_set,
    .timer_cancel = ual_lane_timer_cancel,
    .wake = ual_lane_wake,
    .cq_event = ual_evd_cq_fired,
    .cq_error = ual_evd_cq_error,
    .qp_event = ual_ep_qp_event,
    .srq_event = ual_srq_event,
    .rnic_event = ual_ia_rnic_event,
    .connection_request = ual_listen_connection_request,
    .connection_event = ual_ep_connection_event,
};

enum ual_status ual_instance_get(struct kal **kal)
{
    enum ual_status status;

    if (ual_lookup_failed() == UAL_ERR_DEAD)
        return UAL_ERR_DEAD;
    status = ual_fork_prepare();
    if (status != UAL_OK)
        return status;
    return ual_status_of_kal(kal_get(&upper, kal));
}

void ual_instance_put(struct kal *kal)
{
    kal_put(kal);
}

void ual_keep(void)
{
    static _Atomic(struct kal *) kept;
    struct kal *none = NULL, *kal;

    if (atomic_load(&kept) || ual_instance_get(&kal) != UAL_OK)
        return;
    if (!atomic_compare_exchange_strong(&kept, &none, kal))
        ual_instance_put(kal);
}
