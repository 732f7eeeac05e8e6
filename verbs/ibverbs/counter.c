/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Completion counters (ibv_create_comp_cntr(3), rdma-core 65): the calls. How completions are
 * counted stands in counting.h.
 *
 * A read first counts what has completed since the last one, and works for the connections if that
 * is nothing, as a poll does. Values are atomic; the mutex of a counter guards the list of the CQs
 * that it counts from.
 */
#include "counting.h"
#include "later.h"

#include <stdlib.h>
#include <utlist.h>

#define MAX_COUNTERS 65536u
/* What the peer does to this side's memory makes no completion here. */
#define SENDS ((uint32_t)(VB_ATTACH_SEND | VB_ATTACH_RDMA_READ | VB_ATTACH_RDMA_WRITE))
#define KNOWN (SENDS | (uint32_t)VB_ATTACH_RECV)

/* A CQ that the counter counts from. */
struct source {
    struct vb_cq *cq;
    uint32_t uses; /* queues of QPs */
    struct source *next;
};

struct vb_comp_cntr {
    struct ibv_context *context; /* these two as in struct ibv_comp_cntr */
    uint32_t handle;
    struct vb_count count;
    uint32_t qps;         /* it is attached to; under the context's mutex */
    pthread_mutex_t lock; /* of `sources` */
    struct source *sources;
};

static const uint32_t bits[VB_COUNTED_KINDS] = {
    [VB_COUNTED_SEND] = VB_ATTACH_SEND,
    [VB_COUNTED_RECV] = VB_ATTACH_RECV,
    [VB_COUNTED_READ] = VB_ATTACH_RDMA_READ,
    [VB_COUNTED_WRITE] = VB_ATTACH_RDMA_WRITE,
};

static struct vb_comp_cntr *counter_of(struct ibv_comp_cntr *ibv)
{
    return (struct vb_comp_cntr *)ibv;
}

/* --- life --- */

int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
                              size_t caps_size)
{
    struct vb_comp_cntr_caps told = { .max_value = UINT64_MAX,
                                      .max_counters = MAX_COUNTERS,
                                      .supported_qp_attach_ops = KNOWN };

    VB_OWN(context, EIO);
    if (caps_size < sizeof(told))
        return EINVAL;
    memset(caps, 0, caps_size);
    memcpy(caps, &told, sizeof(told));
    sanitizer_defined(caps, caps_size);
    return 0;
}

static struct vb_comp_cntr *create(struct ibv_context *context, bool of_octets)
{
    static _Atomic uint32_t made;
    struct vb_comp_cntr *counter = calloc(1, sizeof(*counter));

    if (!counter)
        return NULL;
    counter->context = context;
    counter->handle = atomic_fetch_add(&made, 1);
    counter->count.of_octets = of_octets;
    pthread_mutex_init(&counter->lock, NULL);
    return counter;
}

struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
                                           struct ibv_comp_cntr_init_attr *cc_attr)
{
    VB_CALL;
    VB_OWN(context, NULL);
    const struct vb_comp_cntr_init_attr *attr = (const void *)cc_attr;
    _Atomic uint32_t *counters = &vb_context_of(context)->counters;
    struct vb_comp_cntr *counter;

    if (attr->comp_mask || attr->flags ||
        (attr->type != VB_COMP_CNTR_WRS && attr->type != VB_COMP_CNTR_BYTES)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    counter = atomic_fetch_add(counters, 1) < MAX_COUNTERS
                  ? create(context, attr->type == VB_COMP_CNTR_BYTES)
                  : NULL;
    if (!counter) {
        atomic_fetch_sub(counters, 1);
        errno = ENOMEM;
    }
    return (struct ibv_comp_cntr *)counter;
}

int ibv_destroy_comp_cntr(struct ibv_comp_cntr *ibv)
{
    struct vb_comp_cntr *counter = counter_of(ibv);
    VB_CALL;
    VB_OWN(counter->context, EIO);
    bool attached;

    pthread_mutex_lock(&counter->context->mutex);
    attached = counter->qps;
    pthread_mutex_unlock(&counter->context->mutex);
    if (attached)
        return EBUSY;
    atomic_fetch_sub(&vb_context_of(counter->context)->counters, 1);
    pthread_mutex_destroy(&counter->lock);
    free(counter);
    return 0;
}

/* --- values --- */

/* Counts what has completed. */
static void refresh(struct vb_comp_cntr *counter)
{
    uint32_t taken = 0;
    struct source *source;

    pthread_mutex_lock(&counter->lock);
    LL_FOREACH (counter->sources, source)
        taken += vb_cq_counting_take(source->cq);
    if (!taken)
        LL_FOREACH (counter->sources, source) {
            ual_cq_run(source->cq->ual);
            vb_cq_counting_take(source->cq);
        }
    pthread_mutex_unlock(&counter->lock);
}

static int read_value(struct vb_comp_cntr *counter, atomic_ullong *from, uint64_t *value)
{
    VB_CALL;
    VB_OWN(counter->context, EIO);
    SANITIZER_OUTPUT(value);

    refresh(counter);
    *value = atomic_load(from);
    return 0;
}

/* What has completed before is not added to the new value. */
static int set_value(struct vb_comp_cntr *counter, atomic_ullong *to, uint64_t value)
{
    VB_CALL;
    VB_OWN(counter->context, EIO);

    refresh(counter);
    atomic_store(to, value);
    return 0;
}

static int add_value(struct vb_comp_cntr *counter, atomic_ullong *to, uint64_t amount)
{
    VB_OWN(counter->context, EIO);

    atomic_fetch_add(to, amount);
    return 0;
}

int ibv_read_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t *value)
{
    return read_value(counter_of(ibv), &counter_of(ibv)->count.done, value);
}

int ibv_read_err_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t *value)
{
    return read_value(counter_of(ibv), &counter_of(ibv)->count.failed, value);
}

int ibv_set_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t value)
{
    return set_value(counter_of(ibv), &counter_of(ibv)->count.done, value);
}

int ibv_set_err_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t value)
{
    return set_value(counter_of(ibv), &counter_of(ibv)->count.failed, value);
}

int ibv_inc_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t amount)
{
    return add_value(counter_of(ibv), &counter_of(ibv)->count.done, amount);
}

int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t amount)
{
    return add_value(counter_of(ibv), &counter_of(ibv)->count.failed, amount);
}

/* --- attachment; under the context's mutex --- */

static struct source *find_source(const struct vb_comp_cntr *counter, const struct vb_cq *cq)
{
    struct source *source;

    LL_SEARCH_SCALAR(counter->sources, source, cq, cq);
    return source;
}

static int use_source(struct vb_comp_cntr *counter, struct vb_cq *cq)
{
    struct source *source = find_source(counter, cq), *made = NULL;

    if (!source) {
        made = source = calloc(1, sizeof(*source));
        if (!source)
            return ENOMEM;
        source->cq = cq;
    }
    source->uses++;
    if (made) {
        pthread_mutex_lock(&counter->lock);
        LL_PREPEND(counter->sources, made);
        pthread_mutex_unlock(&counter->lock);
    }
    return 0;
}

static void leave_source(struct vb_comp_cntr *counter, struct vb_cq *cq)
{
    struct source *source = find_source(counter, cq);

    if (--source->uses)
        return;
    pthread_mutex_lock(&counter->lock);
    LL_DELETE(counter->sources, source);
    pthread_mutex_unlock(&counter->lock);
    free(source);
}

/* Is a counter attached for one of these operations? */
static bool has_counter(const struct vb_qp_counting *counting, uint32_t ops)
{
    for (uint32_t kind = 0; kind < VB_COUNTED_KINDS; kind++)
        if ((ops & bits[kind]) && counting->count[kind])
            return true;
    return false;
}

static void leave_sources(struct vb_comp_cntr *counter, const struct vb_qp *qp, uint32_t ops)
{
    for (uint32_t kind = 0; kind < VB_COUNTED_KINDS; kind++)
        if (ops & bits[kind])
            leave_source(counter, vb_counted_cq(qp, kind));
}

static int use_sources(struct vb_comp_cntr *counter, const struct vb_qp *qp, uint32_t ops)
{
    uint32_t used = 0;

    for (uint32_t kind = 0; kind < VB_COUNTED_KINDS; kind++) {
        int error = ops & bits[kind] ? vb_cq_counting_open(vb_counted_cq(qp, kind)) : 0;

        if (!error && (ops & bits[kind]))
            error = use_source(counter, vb_counted_cq(qp, kind));
        if (error) {
            leave_sources(counter, qp, used);
            return error;
        }
        used |= ops & bits[kind];
    }
    return 0;
}

static uint32_t unsignaled(const struct vb_qp *qp)
{
    return qp->init.sq_sig_all ? 0 : qp->attr.max_send_wr;
}

/* From now on each send request of the QP makes a completion. */
static int count_sends(struct vb_qp *qp)
{
    int error = vb_cq_counting_reserve(vb_counted_cq(qp, VB_COUNTED_SEND), unsignaled(qp));

    if (error)
        return error;
    qp->counting->sends = true;
    vb_cq_counting_enter(vb_counted_cq(qp, VB_COUNTED_SEND), qp->counting, false);
    qp->send_flags = vb_send_flags[qp->init.sq_sig_all ? VB_FLAGS_COUNTED_ALL : VB_FLAGS_COUNTED];
    return 0;
}

static void count_receives(struct vb_qp *qp)
{
    qp->counting->receives = true;
    vb_cq_counting_enter(vb_counted_cq(qp, VB_COUNTED_RECV), qp->counting, true);
}

static int attach(struct vb_qp *qp, struct vb_comp_cntr *counter, uint32_t ops)
{
    int error;

    if (!qp->counting) {
        qp->counting = calloc(1, sizeof(*qp->counting));
        if (!qp->counting)
            return ENOMEM;
        qp->counting->handle = qp->ual.object.handle;
    }
    if (has_counter(qp->counting, ops))
        return EBUSY;
    error = use_sources(counter, qp, ops);
    if (error)
        return error;
    if ((ops & SENDS) && !qp->counting->sends)
        error = count_sends(qp);
    if (error) {
        leave_sources(counter, qp, ops);
        return error;
    }
    if ((ops & VB_ATTACH_RECV) && !qp->counting->receives)
        count_receives(qp);
    for (uint32_t kind = 0; kind < VB_COUNTED_KINDS; kind++)
        if (ops & bits[kind]) {
            vb_cq_counting_set(vb_counted_cq(qp, kind), qp->counting, kind, &counter->count);
            counter->qps++;
        }
    return 0;
}

int ibv_qp_attach_comp_cntr(struct ibv_qp *ibv, struct ibv_comp_cntr *comp_cntr,
                            struct ibv_qp_attach_comp_cntr_attr *ibv_attr)
{
    VB_CALL;
    VB_OWN(ibv->context, EIO);
    const struct vb_attach_attr *attr = (const void *)ibv_attr;
    struct vb_comp_cntr *counter = counter_of(comp_cntr);
    struct vb_qp *qp = vb_qp_of(ibv);
    int error;

    if (attr->comp_mask || (attr->op_mask & ~KNOWN))
        return EOPNOTSUPP;
    if (!attr->op_mask || counter->context != ibv->context ||
        (vb_qp_state(qp) != IBV_QPS_RESET && vb_qp_state(qp) != IBV_QPS_INIT))
        return EINVAL;
    pthread_mutex_lock(&ibv->context->mutex);
    error = attach(qp, counter, attr->op_mask);
    pthread_mutex_unlock(&ibv->context->mutex);
    return error;
}

/* --- the end of a QP --- */

static void detach(struct vb_qp *qp, enum vb_counted kind)
{
    struct vb_count *count = qp->counting->count[kind];
    struct vb_comp_cntr *counter;

    if (!count)
        return;
    counter = container_of(count, struct vb_comp_cntr, count);
    vb_cq_counting_set(vb_counted_cq(qp, kind), qp->counting, kind, NULL);
    leave_source(counter, vb_counted_cq(qp, kind));
    counter->qps--;
}

void vb_qp_counting_close(struct vb_qp *qp)
{
    struct vb_qp_counting *counting = qp->counting;

    vb_qp_counting_forget(qp);
    if (!counting)
        return;
    pthread_mutex_lock(&qp->ibv.qp_base.context->mutex);
    for (uint32_t kind = 0; kind < VB_COUNTED_KINDS; kind++)
        detach(qp, kind);
    if (counting->sends) {
        vb_cq_counting_unreserve(vb_counted_cq(qp, VB_COUNTED_SEND), unsignaled(qp));
        vb_cq_counting_leave(vb_counted_cq(qp, VB_COUNTED_SEND), counting, false);
    }
    if (counting->receives)
        vb_cq_counting_leave(vb_counted_cq(qp, VB_COUNTED_RECV), counting, true);
    pthread_mutex_unlock(&qp->ibv.qp_base.context->mutex);
    free(counting);
    qp->counting = NULL;
}
