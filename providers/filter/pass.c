/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening over another provider, and the data path's calls that no filter changes. */
#include "pass.h"

#include <stdlib.h>

const char *const pass_verb_names[PASS_VERBS] = {
    [PASS_PD_CREATE] = "pd_create",
    [PASS_CQ_CREATE] = "cq_create",
    [PASS_CQ_RESIZE] = "cq_resize",
    [PASS_QP_CREATE] = "qp_create",
    [PASS_QP_MODIFY] = "qp_modify",
    [PASS_SRQ_CREATE] = "srq_create",
    [PASS_SRQ_MODIFY] = "srq_modify",
    [PASS_MR_REGISTER] = "mr_register",
    [PASS_MR_REREGISTER] = "mr_reregister",
    [PASS_MW_ALLOCATE] = "mw_allocate",
    [PASS_AH_CREATE] = "ah_create",
    [PASS_AH_MODIFY] = "ah_modify",
    [PASS_MULTICAST_ATTACH] = "multicast_attach",
    [PASS_CONNECTION_CREATE] = "connection_create",
    [PASS_RESOLVE] = "resolve",
    [PASS_LISTEN] = "listen",
    [PASS_CONNECT] = "connect",
    [PASS_ACCEPT] = "accept",
    [PASS_CONFIRM] = "confirm",
    [PASS_REJECT] = "reject",
    [PASS_SERVICE_REQUEST] = "service_request",
    [PASS_SERVICE_REPLY] = "service_reply",
    [PASS_POST_SEND] = "post_send",
    [PASS_POST_RECV] = "post_recv",
    [PASS_POST_SRQ_RECV] = "post_srq_recv",
    [PASS_ARM] = "arm",
};

const char *const pass_kind_names[PASS_KINDS] = {
    [PASS_KIND_PD] = "pd",
    [PASS_KIND_CQ] = "cq",
    [PASS_KIND_QP] = "qp",
    [PASS_KIND_SRQ] = "srq",
    [PASS_KIND_MR] = "mr",
    [PASS_KIND_MW] = "mw",
    [PASS_KIND_AH] = "ah",
    [PASS_KIND_CONNECTION] = "connection",
    [PASS_KIND_LISTENER] = "listener",
    [PASS_KIND_LANE] = "lane",
    [PASS_KIND_RNIC] = "rnic",
};

enum ri_status pass_enumerate(const struct ri_host *host, ri_found_fn found, void *arg)
{
    const struct ri_device none = { .size = sizeof(none),
                                    .transport = RI_TRANSPORT_IWARP,
                                    .reason = "it is a filter, which has no device",
                                    .advice = "name it in option filter of an interface" };

    (void)host;
    found(arg, &none);
    return RI_OK;
}

static enum ri_status open_below(struct pass_rnic *rnic, const struct ri_open *open)
{
    const struct ri_lower *lower = open->lower;
    const struct ri_open below = { .size = sizeof(below),
                                   .host = &rnic->host,
                                   .privileged = lower->privileged,
                                   .user = lower->user,
                                   .device = lower->device,
                                   .context = open->context,
                                   .lower = lower->lower };

    rnic->ops = lower->privileged;
    return rnic->ops->open(&below, &rnic->below);
}

/* Of the provider that is no filter. */
static const char *device_of(const struct ri_lower *lower)
{
    while (lower->lower)
        lower = lower->lower;
    return lower->device;
}

enum ri_status pass_open(const struct pass_filter *filter, const struct ri_open *open,
                         struct ri_rnic **rnic)
{
    struct pass_rnic *made;
    enum ri_status status;

    if (!open->lower) {
        ri_log(open->host, RI_LOG_ERROR, "a filter is opened over a provider only");
        return RI_ERR_INVALID_ARGUMENT;
    }
    made = calloc(1, filter->rnic_size);
    if (!made)
        return RI_ERR_NO_RESOURCES;
    made->base = (struct ri_rnic){ .ops = open->privileged, .context = open->context };
    made->own_user = open->user;
    made->upper = open->host;
    made->filter = filter;
    made->device = device_of(open->lower);
    made->provider = open->lower->provider ? open->lower->provider : "below";
    pass_host_init(made);
    status = filter->open(made, open->device);
    if (status != RI_OK)
        goto free_rnic;
    status = open_below(made, open);
    if (status != RI_OK)
        goto close_filter;
    *rnic = &made->base;
    return RI_OK;

close_filter:
    filter->close(made);
free_rnic:
    free(made);
    return status;
}

void pass_send_wr(const struct pass_qp *qp, const struct ri_send_wr *wr, struct ri_send_wr *below)
{
    *below = *wr;
    below->next = NULL;
    if (qp->datagram) {
        if (wr->ud.ah)
            below->ud.ah = PASS_OF(ah, wr->ud.ah)->below;
    } else if (wr->opcode == RI_WR_BIND_WINDOW) {
        if (wr->bind.mw)
            below->bind.mw = PASS_OF(mw, wr->bind.mw)->below;
        if (wr->bind.mr)
            below->bind.mr = PASS_OF(mr, wr->bind.mr)->below;
    } else if (wr->opcode == RI_WR_FAST_REGISTER && wr->fast_register.mr) {
        below->fast_register.mr = PASS_OF(mr, wr->fast_register.mr)->below;
    }
}

enum ri_status pass_cq_peek(struct ri_cq *cq, uint32_t *total, uint32_t *notify)
{
    struct ri_cq *below = PASS_OF(cq, cq)->below;

    return below->ops->cq_peek(below, total, notify);
}

uint32_t pass_progress(struct ri_lane *lane, struct ri_cq *first_cq, uint32_t budget,
                       uint64_t *next_deadline)
{
    struct ri_lane *below = PASS_OF(lane, lane)->below;

    return below->ops->progress(below, first_cq ? PASS_OF(cq, first_cq)->below : NULL, budget,
                                next_deadline);
}

bool pass_lane_arm(struct ri_lane *lane)
{
    struct ri_lane *below = PASS_OF(lane, lane)->below;

    return below->ops->lane_arm(below);
}
