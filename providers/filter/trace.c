/* SPDX-License-Identifier: BSD-3-Clause */
/* The filter `trace`: its RNIC and its descriptor. */
#include "trace.h"

#include "base/clock.h"

static _Atomic uint64_t rnics; /* that were opened */

static enum ri_status trace_open_filter(struct pass_rnic *pass, const char *argument)
{
    struct trace_rnic *rnic = trace_rnic_of(pass);
    struct trace_settings settings;
    char why[700];

    if (!trace_settings_read(argument, &settings, why, sizeof(why))) {
        ri_log(pass->upper, RI_LOG_ERROR, "filter trace: %s", why);
        return RI_ERR_INVALID_ARGUMENT;
    }
    rnic->out = trace_out_open(&settings, why, sizeof(why));
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
    PASS_CONTROL_TABLE(trace_),
    .open = trace_open,
    .close = trace_close,
    .rnic_counters = pass_rnic_counters,
};

static const struct ri_user_ops user = {
    PASS_DATA_TABLE(trace_),
    .cq_peek = pass_cq_peek,
};

PASS_PROVIDER(trace, "filter: writes each call, completion and event, over another provider");
