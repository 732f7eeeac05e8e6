/* SPDX-License-Identifier: BSD-3-Clause
 * The process's kal, and the upcall table that ual gives to it. */
#include "mechanism_private.h"

static const struct kal_upper upper = {
    .watch = ual_lane_watch,
    .rewatch = ual_lane_rewatch,
    .unwatch = ual_lane_unwatch,
    .timer_set = ual_lane_timer_set,
    .timer_cancel = ual_lane_timer_cancel,
    .wake = ual_lane_wake,
    .inside = ual_lane_inside_any,
    .qps_seen = ual_qps_seen,
    .lanes_seen = ual_lanes_seen,
    .cq_event = ual_cq_fired,
    .cq_error = ual_cq_error,
    .qp_event = ual_qp_event,
    .srq_event = ual_srq_event,
    .rnic_event = ual_device_rnic_event,
    .connection_request = ual_conn_request,
    .connection_event = ual_conn_event,
};

static _Atomic(struct kal *) kept;

/* --- around a fork: the locks above those of fork.c, whose handlers are installed first and so run
 * inside these --- */

static const struct ual_fork_hooks *_Atomic held; /* once set, the same for ever */

static const struct ual_fork_hooks *locked; /* by the fork that is under way */

static void fork_prepare(void)
{
    locked = atomic_load(&held);
    if (locked)
        locked->lock();
}

static void fork_parent(void)
{
    if (locked)
        locked->unlock(false);
}

static void fork_child(void)
{
    atomic_store(&kept, NULL); /* it belongs to the parent */
    if (locked)
        locked->unlock(true);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum ri_status install_status;

static void install(void)
{
    install_status = ual_fork_prepare();
    if (install_status == RI_OK && pthread_atfork(fork_prepare, fork_parent, fork_child)) {
        kal_log(RI_LOG_ERROR, "cannot install the fork handlers: out of memory");
        install_status = RI_ERR_NO_RESOURCES;
    }
}

/* A front end calls this before it opens anything, so before the handlers are installed. */
enum ri_status ual_fork_hold(const struct ual_fork_hooks *hooks)
{
    const struct ual_fork_hooks *none = NULL;

    if (!atomic_compare_exchange_strong(&held, &none, hooks) && none != hooks)
        return ITAL_ERR_EXISTS;
    pthread_once(&once, install);
    return install_status;
}

enum ri_status ual_instance_get(struct kal **kal)
{
    enum ri_status status;

    pthread_once(&once, install);
    status = install_status;
    if (status == RI_OK)
        status = kal_get(&upper, kal);
    if (status == RI_OK)
        ual_handle_revived();
    return status;
}

void ual_instance_put(struct kal *kal)
{
    kal_put(kal);
}

enum ri_status ual_keep(void)
{
    struct kal *none = NULL, *kal;
    enum ri_status status;

    if (atomic_load(&kept))
        return RI_OK;
    status = ual_instance_get(&kal);
    if (status == RI_OK && !atomic_compare_exchange_strong(&kept, &none, kal))
        ual_instance_put(kal);
    return status;
}
