/* SPDX-License-Identifier: BSD-3-Clause */
/* The filter `fault`: calls that fail, requests that complete in error or late, connections that
 * are lost, as a script says. Its objects and its descriptor. */
#include "fault.h"

#include "base/entropy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---- the script ---- */

static enum ri_status read_script(struct fault_rnic *rnic, const char *path)
{
    const struct ri_host *host = rnic->pass.upper;
    FILE *file = fopen(path, "re");
    char why[600];
    bool good;

    if (!file) {
        ri_log(host, RI_LOG_ERROR, "filter fault: %s: %s", path, strerror(errno));
        return RI_ERR_INVALID_ARGUMENT;
    }
    good = fault_script_read(file, &rnic->script, why, sizeof(why));
    fclose(file);
    if (good)
        return RI_OK;
    ri_log(host, RI_LOG_ERROR, "filter fault: %s:%s", path, why);
    return RI_ERR_INVALID_ARGUMENT;
}

static enum ri_status choose_seed(struct fault_rnic *rnic, const char *path)
{
    struct fault_script *script = &rnic->script;

    if (script->seeded || !script->uses_chance)
        return RI_OK;
    if (!entropy_draw(&script->seed, sizeof(script->seed)))
        return RI_ERR_NO_RESOURCES;
    ri_log(rnic->pass.upper, RI_LOG_WARNING,
           "filter fault: %s is run with seed %" PRIu64 "; a line 'seed %" PRIu64 "' repeats it",
           path, script->seed, script->seed);
    return RI_OK;
}

static enum ri_status fault_open_filter(struct pass_rnic *pass, const char *argument)
{
    struct fault_rnic *rnic = fault_rnic_of(pass);
    enum ri_status status;

    if (!argument || !*argument) {
        ri_log(pass->upper, RI_LOG_ERROR,
               "filter fault has no script: write filter = fault:FILE; see ital-filters(5)");
        return RI_ERR_INVALID_ARGUMENT;
    }
    status = read_script(rnic, argument);
    if (status != RI_OK)
        return status;
    status = choose_seed(rnic, argument);
    if (status != RI_OK)
        goto free_script;
    rnic->counts = calloc(rnic->script.count, sizeof(*rnic->counts));
    if (!rnic->counts) {
        status = RI_ERR_NO_RESOURCES;
        goto free_script;
    }
    pthread_mutex_init(&rnic->lock, NULL);
    return RI_OK;

free_script:
    fault_script_free(&rnic->script);
    return status;
}

static void fault_close_filter(struct pass_rnic *pass)
{
    struct fault_rnic *rnic = fault_rnic_of(pass);

    pthread_mutex_destroy(&rnic->lock);
    free(rnic->counts);
    fault_script_free(&rnic->script);
}

/* ---- the RNIC ---- */

/* What depends on the content of a CQ would not know of delayed completions. */
static void fault_query(struct pass_rnic *pass, struct ri_rnic_attr *attr)
{
    if (fault_rnic_of(pass)->script.delays)
        attr->features &= ~(RI_FEATURE_CQ_ARM_NTH | RI_FEATURE_CQ_ARM_NOTIFY | RI_FEATURE_CQ_PEEK);
}

static enum ri_status fault_counters(struct ri_rnic *ri, const char **names, uint64_t *values,
                                     size_t *count)
{
    const struct fault_rnic *rnic = fault_rnic_of(PASS_OF(rnic, ri));

    return pass_counters_and(ri, "faults_injected", atomic_load(&rnic->injected), names, values,
                             count);
}

/* ---- queues ---- */

static enum ri_status fault_srq_open(struct pass_srq *pass)
{
    struct fault_srq *srq = (struct fault_srq *)pass;

    srq->counts = calloc(fault_rnic_of(pass->rnic)->script.count, sizeof(*srq->counts));
    return srq->counts ? RI_OK : RI_ERR_NO_RESOURCES;
}

static void fault_srq_close(struct pass_srq *pass)
{
    struct fault_srq *srq = (struct fault_srq *)pass;

    fault_queue_clear(&srq->queue);
    free(srq->counts);
}

/* A QP that is reset is made anew, and the earlier one with the same context goes afterwards: it
 * remains the same QP for the script. Octets are those of one connection. The lock is held. */
static void number_qp(struct fault_rnic *rnic, struct fault_qp *qp)
{
    struct fault_qp *earlier;

    HASH_FIND_PTR(rnic->qps, &qp->context, earlier);
    qp->number = earlier ? earlier->number : ++rnic->qp_count;
    for (size_t i = 0; earlier && i < rnic->script.count; i++) {
        qp->counts[i] = earlier->counts[i];
        qp->counts[i].octets = 0;
    }
}

static enum ri_status fault_qp_open(struct pass_qp *pass, const struct ri_qp_attr *attr)
{
    struct fault_rnic *rnic = fault_rnic_of(pass->rnic);
    struct fault_qp *qp = (struct fault_qp *)pass;
    bool known;

    qp->context = attr->context;
    qp->counts = calloc(rnic->script.count, sizeof(*qp->counts));
    if (!qp->counts)
        return RI_ERR_NO_RESOURCES;
    pthread_mutex_lock(&rnic->lock);
    number_qp(rnic, qp);
    HASH_ADD_PTR(rnic->qps, context, qp);
    known = qp->hh.tbl;
    pthread_mutex_unlock(&rnic->lock);
    if (known)
        return RI_OK;
    free(qp->counts);
    return RI_ERR_NO_RESOURCES;
}

static void fault_qp_close(struct pass_qp *pass)
{
    struct fault_rnic *rnic = fault_rnic_of(pass->rnic);
    struct fault_qp *qp = (struct fault_qp *)pass;

    pthread_mutex_lock(&rnic->lock);
    HASH_DEL(rnic->qps, qp);
    pthread_mutex_unlock(&rnic->lock);
    fault_cq_forget(pass->send_cq, qp->context);
    fault_cq_forget(pass->recv_cq, qp->context);
    fault_queue_clear(&qp->send);
    fault_queue_clear(&qp->recv);
    free(qp->counts);
}

/* In state IDLE a new life begins: what was outstanding is flushed. */
static void fault_qp_modified(struct pass_qp *pass, const struct ri_qp_modify *modify)
{
    struct fault_rnic *rnic = fault_rnic_of(pass->rnic);
    struct fault_qp *qp = (struct fault_qp *)pass;

    if (!(modify->mask & RI_QPM_STATE) || modify->state != RI_QPS_IDLE)
        return;
    pthread_mutex_lock(&rnic->lock);
    fault_queue_clear(&qp->send);
    fault_queue_clear(&qp->recv);
    for (size_t i = 0; i < rnic->script.count; i++)
        qp->counts[i].octets = 0;
    pthread_mutex_unlock(&rnic->lock);
}

/* ---- the descriptor ---- */

static const struct pass_filter filter = {
    .rnic_size = sizeof(struct fault_rnic),
    .cq_size = sizeof(struct fault_cq),
    .qp_size = sizeof(struct fault_qp),
    .srq_size = sizeof(struct fault_srq),
    .open = fault_open_filter,
    .close = fault_close_filter,
    .call = fault_call,
    .query = fault_query,
    .srq_open = fault_srq_open,
    .srq_close = fault_srq_close,
    .qp_open = fault_qp_open,
    .qp_close = fault_qp_close,
    .qp_modified = fault_qp_modified,
    .cq_event = fault_cq_event,
    .cq_close = fault_cq_close,
};

static enum ri_status fault_open(const struct ri_open *open, struct ri_rnic **rnic)
{
    return pass_open(&filter, open, rnic);
}

static const struct ri_privileged_ops privileged = {
    PASS_CONTROL_TABLE(pass_),
    .open = fault_open,
    .close = pass_close,
    .rnic_counters = fault_counters,
};

static const struct ri_user_ops user = {
    PASS_DATA_TABLE(fault_),
    .cq_peek = fault_cq_peek,
};

PASS_PROVIDER(fault, "filter: faults by a script, over another provider");
