/* SPDX-License-Identifier: BSD-3-Clause
 * The kal of this process, and the one upcall table that ual hands down to it. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "ual/ual_private.h"

static const struct kal_upper upper = {
    .watch = ual_lane_watch,
    .rewatch = ual_lane_rewatch,
    .unwatch = ual_lane_unwatch,
    .timer_set = ual_lane_timer_set,
    .timer_cancel = ual_lane_timer_cancel,
    .wake = ual_lane_wake,
    .inside = ual_lane_inside_any,
    .cq_event = ual_evd_cq_fired,
    .cq_error = ual_evd_cq_error,
    .qp_event = ual_ep_qp_event,
    .srq_event = ual_srq_event,
    .rnic_event = ual_ia_rnic_event,
    .connection_request = ual_listen_connection_request,
    .connection_event = ual_ep_connection_event,
};

static _Atomic(struct kal *) kept;

/* ---- around a fork: locks above those of fork.c, whose handlers are installed first and so run inside of these ---- */

static void fork_prepare(void)
{
    ual_request_fork_lock();
    ual_evd_fork_lock();
}

static void fork_parent(void)
{
    ual_evd_fork_unlock(false);
    ual_request_fork_unlock();
}

static void fork_child(void)
{
    atomic_store(&kept, NULL); /* not ours */
    ual_evd_fork_unlock(true);
    ual_request_fork_unlock();
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum ual_status install_status;

static void install(void)
{
    install_status = ual_fork_prepare();
    if (install_status == UAL_OK && pthread_atfork(fork_prepare, fork_parent, fork_child)) {
        kal_log(RI_LOG_ERROR, "cannot install the fork handlers: out of memory");
        install_status = UAL_ERR_NO_RESOURCES;
    }
}

enum ual_status ual_instance_get(struct kal **kal)
{
    enum ual_status status;

    pthread_once(&once, install);
    status = install_status;
    if (status == UAL_OK)
        status = ual_status_of_kal(kal_get(&upper, kal));
    if (status == UAL_OK)
        ual_handle_revived();
    return status;
}

void ual_instance_put(struct kal *kal)
{
    kal_put(kal);
}

void ual_keep(void)
{
    struct kal *none = NULL, *kal;

    if (atomic_load(&kept) || ual_instance_get(&kal) != UAL_OK)
        return;
    if (!atomic_compare_exchange_strong(&kept, &none, kal))
        ual_instance_put(kal);
}
