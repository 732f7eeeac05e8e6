/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts: open and close.
 *
 * The inline functions of <infiniband/verbs.h> find the operations of a context by address: they
 * expect the ibv_context inside a struct verbs_context, and check the size of that.
 */
#include "ibverbs_private.h"

#include "base/kept.h"

#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

/* False: verbs have no such event. GIDs are made of addresses. */
static bool device_event(enum ri_event_type type, enum ibv_event_type *told)
{
    switch (type) {
    case RI_EVENT_PORT_UP: *told = IBV_EVENT_PORT_ACTIVE; return true;
    case RI_EVENT_PORT_DOWN: *told = IBV_EVENT_PORT_ERR; return true;
    case RI_EVENT_GID_CHANGE:
    case RI_EVENT_ADDRESS_CHANGE: *told = IBV_EVENT_GID_CHANGE; return true;
    case RI_EVENT_RNIC_FATAL:
    case RI_EVENT_DEVICE_GONE: *told = IBV_EVENT_DEVICE_FATAL; return true;
    default: return false;
    }
}

static void srq_event(const struct ri_event *event, const struct ual_object *about)
{
    struct vb_srq *srq = (struct vb_srq *)(uintptr_t)atomic_load(&about->context);

    vb_source_report_type(vb_context_of(srq->ibv.context)->async, &srq->async,
                          event->type == RI_EVENT_SRQ_LIMIT_REACHED ? IBV_EVENT_SRQ_LIMIT_REACHED
                                                                    : IBV_EVENT_SRQ_ERR);
}

static void tell(struct vb_context *context, const struct ri_event *event, enum ibv_event_type told)
{
    atomic_store(&context->port_num, event->port + 1);
    vb_source_report_type(context->async, &context->events, told);
}

/* Upcall. QPs and CQs have event functions of their own. */
static void on_event(void *arg, const struct ri_event *event, const struct ual_object *about)
{
    struct vb_context *context = arg, *import;
    enum ibv_event_type told;

    if (about && about->type == UAL_SRQ) {
        srq_event(event, about);
        return;
    }
    if (!device_event(event->type, &told))
        return;
    tell(context, event, told);
    pthread_mutex_lock(&context->sharing);
    LL_FOREACH2 (context->import_list, import, next_import)
        tell(import, event, told);
    pthread_mutex_unlock(&context->sharing);
}

static const struct ual_device_upcalls upcalls = { .async = on_event };

static void set_operations(struct verbs_context *verbs)
{
    struct ibv_context_ops *ops = &verbs->context.ops;

    ops->alloc_mw = vb_alloc_mw;
    ops->bind_mw = vb_bind_mw;
    ops->dealloc_mw = vb_dealloc_mw;
    ops->poll_cq = sanitizer_wants_definitions() ? vb_poll_cq_defined : vb_poll_cq;
    ops->req_notify_cq = vb_req_notify_cq;
    ops->post_srq_recv = vb_post_srq_recv;
    ops->post_send = vb_post_send;
    ops->post_recv = vb_post_recv;
    vb_refuse_operations(verbs);
    verbs->query_port = vb_query_port;
    verbs->query_device_ex = vb_query_device_ex;
    verbs->advise_mr = vb_advise_mr;
    verbs->alloc_dm = vb_alloc_dm;
    verbs->free_dm = vb_free_dm;
    verbs->reg_dm_mr = vb_reg_dm_mr;
    verbs->query_rt_values = vb_query_rt_values;
    verbs->alloc_td = vb_alloc_td;
    verbs->dealloc_td = vb_dealloc_td;
    verbs->alloc_parent_domain = vb_alloc_parent_domain;
    verbs->create_cq_ex = vb_create_cq_ex;
    verbs->create_qp_ex = vb_create_qp_ex;
    verbs->create_srq_ex = vb_create_srq_ex;
    verbs->get_srq_num = vb_get_srq_num;
}

static void set_up(struct vb_context *context, struct ibv_device *device)
{
    struct ibv_context *ibv = &context->verbs.context;

    context->verbs.sz = sizeof(context->verbs);
    set_operations(&context->verbs);
    ibv->device = device;
    ibv->abi_compat = __VERBS_ABI_IS_EXTENDED;
    ibv->cmd_fd = -1;
    ibv->async_fd = -1;
    pthread_mutex_init(&ibv->mutex, NULL);
    pthread_mutex_init(&context->sharing, NULL);
    vb_source_init(&context->events, VB_SOURCE_DEVICE);
}

static void tear_down(struct vb_context *context)
{
    static struct kept closed; /* for a thread that is about to call ibv_get_async_event */

    if (context->verbs.context.cmd_fd >= 0)
        close(context->verbs.context.cmd_fd);
    pthread_mutex_destroy(&context->sharing);
    pthread_mutex_destroy(&context->verbs.context.mutex);
    free(kept_put(&closed, context));
}

/* The channel exists before the device is opened: the first upcall may come as soon as it is open.
 * An upcall uses the channel only after an object or a port has reported something. */
static enum ri_status open_device(struct vb_context *context, const char *interface)
{
    enum ri_status status = ual_channel_create(NULL, UAL_CHANNEL_FD, &context->async);

    if (status != RI_OK)
        return status;
    status = ual_device_open(interface, &upcalls, context, &context->device);
    if (status != RI_OK)
        ual_channel_free(context->async);
    return status;
}

static enum ri_status close_device(struct vb_context *context)
{
    enum ri_status status = ual_device_close(context->device);

    if (status == RI_OK) {
        vb_source_end(context->async, &context->events);
        ual_channel_free(context->async);
    }
    return status;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    VB_CALL;
    struct vb_context *context = calloc(1, sizeof(*context));
    enum ri_status status;
    int error;

    if (!context)
        return NULL;
    set_up(context, device);
    error = vb_command_open(context);
    if (error)
        goto tear_down;
    status = open_device(context, vb_device_of(device)->interface);
    error = vb_errno(status);
    if (status != RI_OK)
        goto tear_down;
    error = vb_gids_open(context);
    if (error)
        goto close_device;
    context->verbs.context.num_comp_vectors = (int)ual_device_lane_count(context->device);
    context->verbs.context.async_fd = ual_channel_fd(context->async);
    vb_forks_enter(context);
    return &context->verbs.context;
close_device:
    close_device(context);
tear_down:
    tear_down(context);
    errno = error;
    return NULL;
}

int vb_context_import(struct vb_context *origin, int cmd_fd, struct vb_context **import)
{
    struct vb_context *context = calloc(1, sizeof(*context));
    int error = ENOMEM;

    if (!context)
        return error;
    set_up(context, origin->verbs.context.device);
    context->origin = origin;
    context->device = origin->device;
    error = vb_errno(ual_channel_create(NULL, UAL_CHANNEL_FD, &context->async));
    if (error)
        goto tear_down;
    error = vb_gids_open(context);
    if (error)
        goto free_channel;
    context->verbs.context.async_fd = ual_channel_fd(context->async);
    context->verbs.context.cmd_fd = cmd_fd;
    context->verbs.context.num_comp_vectors = origin->verbs.context.num_comp_vectors;
    vb_forks_enter(context);
    vb_import_begin(origin, context);
    *import = context;
    return 0;
free_channel:
    ual_channel_free(context->async);
tear_down:
    tear_down(context);
    return error;
}

static void log_left(const struct vb_context *context)
{
    ual_log(RI_LOG_INFO,
            "%s: ibv_close_device: completion queues, channels or queue pairs are left; the "
            "context stays until the process ends",
            context->verbs.context.device->name);
}

/* Closes the device; the context stays if objects are left. 0, or -1 and errno. */
static int finish(struct vb_context *context)
{
    enum ri_status status = close_device(context);

    if (status == RI_ERR_BUSY) {
        log_left(context);
        return 0;
    }
    if (status != RI_OK)
        return vb_errno_minus(status);
    vb_forks_leave(context);
    vb_gids_close(context);
    tear_down(context);
    return 0;
}

void vb_import_release(struct vb_context *origin)
{
    if (vb_forks_release(origin))
        finish(origin);
}

static int close_import(struct vb_context *context)
{
    struct vb_context *origin = context->origin;

    if (context->cqs || atomic_load(&context->srqs)) {
        log_left(context);
        return 0;
    }
    vb_import_end(origin, context);
    vb_source_end(context->async, &context->events);
    ual_channel_free(context->async);
    vb_forks_leave(context);
    vb_gids_close(context);
    tear_down(context);
    vb_import_release(origin);
    return 0;
}

/* As libibverbs, it succeeds with objects left: perftest leaves some, and ends in error otherwise.
 * The context lives on with them, so that none of them becomes a wild pointer. */
int ibv_close_device(struct ibv_context *ibv)
{
    VB_CALL;
    VB_OWN(ibv, -1);
    struct vb_context *context = vb_context_of(ibv);

    if (vb_numbers->close)
        vb_numbers->close(context);
    if (context->origin)
        return close_import(context);
    return vb_forks_close(context) ? 0 : finish(context);
}
