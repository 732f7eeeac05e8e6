/* SPDX-License-Identifier: BSD-3-Clause */
/* The filter `trace`: its RNIC and its descriptor. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "trace.h"

#include "base/clock.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unreleased"
#endif

static _Atomic uint64_t rnics; /* that were opened */

static enum ri_status trace_open_filter(struct pass_rnic *pass, const char *argument)
{
    struct trace_rnic *rnic = trace_rnic_of(pass);
    struct trace_settings settings;
    char why[700];

    if (!trace_settings_read(argument, &settings, why, sizeof why)) {
        ri_log(pass->upper, RI_LOG_ERROR, "filter trace: %s", why);
        return RI_ERR_INVALID_ARGUMENT;
    }
    rnic->out = trace_out_open(&settings, why, sizeof why);
    if (!rnic->out) {
        ri_log(pass->upper, RI_LOG_ERROR, "filter trace: %s", why);
        return RI_ERR_INVALID_ARGUMENT;
    }
    rnic->json = settings.json;
    rnic->number = atomic_fetch_add(&rnics, 1) + 1;
    rnic->began = clock_now();
    pthread_mutex_init(&rnic->lock, NULL);
    trace_hear(rnic);
    trace_head(rnic, pass->device);
    return RI_OK;
}

static void trace_close_filter(struct pass_rnic *pass)
{
    struct trace_rnic *rnic = trace_rnic_of(pass);

    trace_out_close(rnic->out, rnic->json);
    trace_forget_all(rnic);
    pthread_mutex_destroy(&rnic->lock);
}

/* ---- the descriptor ---- */

static const struct pass_filter filter = {
    .rnic_size = sizeof(struct trace_rnic),
    .cq_size = sizeof(struct pass_cq),
    .qp_size = sizeof(struct pass_qp),
    .srq_size = sizeof(struct pass_srq),
    .open = trace_open_filter,
    .close = trace_close_filter,
    .cq_event = trace_cq_event,
    .requested = trace_requested,
};

static enum ri_status trace_open(const struct ri_open *open, struct ri_rnic **rnic)
{
    enum ri_status status = pass_open(&filter, open, rnic);
    struct trace_line line;

    if (status != RI_OK)
        return status;
    trace_begin(&line, trace_rnic_of(PASS_OF(rnic, *rnic)), "open", PASS_KIND_RNIC, 0);
    line.began = line.rnic->began;
    return trace_end(&line, RI_OK);
}

static const struct ri_privileged_ops privileged = {
    .size = sizeof privileged,
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .enumerate = pass_enumerate,
    .open = trace_open,
    .close = trace_close,
    .query = trace_query,
    .query_port = trace_query_port,
    .lane_open = trace_lane_open,
    .pd_create = trace_pd_create,
    .pd_destroy = trace_pd_destroy,
    .cq_create = trace_cq_create,
    .cq_resize = trace_cq_resize,
    .cq_destroy = trace_cq_destroy,
    .qp_create = trace_qp_create,
    .qp_modify = trace_qp_modify,
    .qp_query = trace_qp_query,
    .qp_destroy = trace_qp_destroy,
    .srq_create = trace_srq_create,
    .srq_modify = trace_srq_modify,
    .srq_query = trace_srq_query,
    .srq_destroy = trace_srq_destroy,
    .mr_register = trace_mr_register,
    .mr_reregister = trace_mr_reregister,
    .mr_deregister = trace_mr_deregister,
    .mw_allocate = trace_mw_allocate,
    .mw_free = trace_mw_free,
    .ah_create = trace_ah_create,
    .ah_modify = trace_ah_modify,
    .ah_destroy = trace_ah_destroy,
    .connection_create = trace_connection_create,
    .connection_destroy = trace_connection_destroy,
    .resolve = trace_resolve,
    .listen = trace_listen,
    .listen_destroy = trace_listen_destroy,
    .connect = trace_connect,
    .accept = trace_accept,
    .confirm = trace_confirm,
    .reject = trace_reject,
    .disconnect = trace_disconnect,
    .service_request = trace_service_request,
    .service_reply = trace_service_reply,
    .rnic_counters = pass_rnic_counters,
    .qp_counters = pass_qp_counters,
};

static const struct ri_user_ops user = {
    .size = sizeof user,
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .post_send = trace_post_send,
    .post_recv = trace_post_recv,
    .post_srq_recv = trace_post_srq_recv,
    .poll = trace_poll,
    .arm = trace_arm,
    .cq_peek = pass_cq_peek,
    .progress = pass_progress,
    .lane_arm = pass_lane_arm,
};

RI_PROVIDER(vf_trace) = {
    .size = sizeof(struct ri_provider),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .name = "trace",
    .description = "filter: writes each call, completion and event, over another provider",
    .version = PACKAGE_VERSION,
    .privileged = &privileged,
    .user = &user,
    .flags = RI_PROVIDER_FILTER,
};
