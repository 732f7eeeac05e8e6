/* SPDX-License-Identifier: BSD-3-Clause */
/* The filter `guard`: the table of queue pairs, and the descriptor. */
#include "guard.h"

/* ---- the RNIC ---- */

static void guard_qp_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    struct guard_rnic *rnic = (struct guard_rnic *)host->context;
    const struct ri_host *upper = rnic->pass.upper;
    bool known;

    pthread_mutex_lock(&rnic->lock);
    known = guard_find(rnic, context);
    pthread_mutex_unlock(&rnic->lock);
    if (known)
        upper->qp_event(upper, context, event);
    else
        guard_note(rnic, GUARD_EVENT, 1);
}

static enum ri_status guard_open_filter(struct pass_rnic *pass, const char *argument)
{
    if (argument && *argument) {
        ri_log(pass->upper, RI_LOG_ERROR, "filter guard takes no argument, \"%s\" was given",
               argument);
        return RI_ERR_INVALID_ARGUMENT;
    }
    pthread_mutex_init(&guard_rnic_of(pass)->lock, NULL);
    pass->host.qp_event = guard_qp_event;
    return RI_OK;
}

static void guard_close_filter(struct pass_rnic *pass)
{
    pthread_mutex_destroy(&guard_rnic_of(pass)->lock);
}

static enum ri_status guard_counters(struct ri_rnic *ri, const char **names, uint64_t *values,
                                     size_t *count)
{
    static const char *const name = "completions_dropped";

    return pass_counters_and(ri, name, atomic_load(&guard_rnic_of(PASS_OF(rnic, ri))->dropped),
                             names, values, count);
}

/* ---- queues ---- */

static void guard_srq_close(struct pass_srq *pass)
{
    guard_queue_close(&((struct guard_srq *)pass)->queue);
}

static enum ri_status guard_qp_open(struct pass_qp *pass, const struct ri_qp_attr *attr)
{
    struct guard_rnic *rnic = guard_rnic_of(pass->rnic);
    struct guard_qp *qp = (struct guard_qp *)pass;
    bool added;

    qp->context = attr->context;
    pthread_mutex_lock(&rnic->lock);
    qp->older = guard_find(rnic, qp->context);
    HASH_ADD_PTR(rnic->qps, context, qp);
    added = qp->hh.tbl;
    if (added && qp->older)
        HASH_DEL(rnic->qps, qp->older);
    pthread_mutex_unlock(&rnic->lock);
    return added ? RI_OK : RI_ERR_NO_RESOURCES;
}

/* Under the lock. Of two with one context either may go first. Without memory the older one gets no
 * place in the table, and what completes of it is dropped. */
static void forget(struct guard_rnic *rnic, struct guard_qp *qp)
{
    struct guard_qp *newest = guard_find(rnic, qp->context);

    if (newest == qp) {
        if (qp->older)
            HASH_ADD_PTR(rnic->qps, context, qp->older);
        HASH_DEL(rnic->qps, qp);
        return;
    }
    while (newest && newest->older != qp)
        newest = newest->older;
    if (newest)
        newest->older = qp->older;
}

static void guard_qp_close(struct pass_qp *pass)
{
    struct guard_rnic *rnic = guard_rnic_of(pass->rnic);
    struct guard_qp *qp = (struct guard_qp *)pass;

    pthread_mutex_lock(&rnic->lock);
    forget(rnic, qp);
    atomic_fetch_add(&rnic->closed, 1);
    pthread_mutex_unlock(&rnic->lock);
    guard_queue_close(&qp->send);
    guard_queue_close(&qp->recv);
}

/* ---- the descriptor ---- */

static const struct pass_filter filter = {
    .rnic_size = sizeof(struct guard_rnic),
    .cq_size = sizeof(struct pass_cq),
    .qp_size = sizeof(struct guard_qp),
    .srq_size = sizeof(struct guard_srq),
    .open = guard_open_filter,
    .close = guard_close_filter,
    .srq_close = guard_srq_close,
    .qp_open = guard_qp_open,
    .qp_close = guard_qp_close,
};

static enum ri_status guard_open(const struct ri_open *open, struct ri_rnic **rnic)
{
    return pass_open(&filter, open, rnic);
}

static const struct ri_privileged_ops privileged = {
    PASS_CONTROL_TABLE(pass_),
    .open = guard_open,
    .close = pass_close,
    .rnic_counters = guard_counters,
};

static const struct ri_user_ops user = {
    PASS_DATA_TABLE(guard_),
    .cq_peek = pass_cq_peek,
};

PASS_PROVIDER(guard, "filter: drops completions that belong to no request, over another provider");
