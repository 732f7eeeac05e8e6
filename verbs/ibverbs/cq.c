/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Completion queues and their channels: life and events.
 *
 * A CQ is bound to its channel, so that the channel knows which lanes to run while a thread waits
 * for it. A function is called when the CQ fires; it counts each event.
 */
#include "ibverbs_private.h"

#include "base/kept.h"

#include <stdlib.h>

#define TIME_STAMPS \
    ((uint64_t)IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

/* --- channels --- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ibv)
{
    VB_CALL;
    VB_OWN(ibv, NULL);
    struct vb_channel *channel = calloc(1, sizeof(*channel));
    enum ri_status status;

    if (!channel)
        return NULL;
    status = ual_channel_create(vb_context_of(ibv)->device, UAL_CHANNEL_FD, &channel->ual);
    if (status != RI_OK) {
        free(channel);
        errno = vb_errno(status);
        return NULL;
    }
    channel->ibv.context = ibv;
    channel->ibv.fd = ual_channel_fd(channel->ual);
    return &channel->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
    VB_CALL;
    VB_OWN(ibv->context, EIO);
    static struct kept destroyed; /* for a thread that is about to call ibv_get_cq_event */
    struct vb_channel *channel = vb_channel_of(ibv);
    enum ri_status status = ual_channel_free(channel->ual);

    if (status == RI_OK)
        free(kept_put(&destroyed, channel));
    return vb_errno(status);
}

static void count_user(struct ibv_comp_channel *channel, int change)
{
    if (!channel)
        return;
    pthread_mutex_lock(&channel->context->mutex);
    channel->refcnt += change;
    pthread_mutex_unlock(&channel->context->mutex);
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **cq_context)
{
    VB_OWN(ibv->context, -1);
    SANITIZER_OUTPUT(cq);
    SANITIZER_OUTPUT(cq_context);
    struct vb_channel *channel = vb_channel_of(ibv);
    struct ual_channel_event event;
    int error = vb_channel_get(channel->ual, &event);
    struct vb_cq *of;

    if (error) {
        errno = error;
        return -1;
    }
    of = container_of(event.item, struct vb_cq, completions.item);
    *cq = ibv_cq_ex_to_cq(&of->ibv);
    *cq_context = of->ibv.cq_context;
    vb_source_take_one(channel->ual, &of->completions); /* the CQ may be destroyed from here on */
    return 0;
}

int vb_cq_wait(struct ibv_comp_channel *ibv, uint64_t timeout_us, struct ibv_cq **cq)
{
    VB_CALL;
    struct vb_channel *channel = vb_channel_of(ibv);
    struct ual_channel_event event;
    enum ri_status status = ual_channel_get(channel->ual, timeout_us, &event);
    struct vb_cq *of;

    if (status == ITAL_ERR_EMPTY || status == RI_ERR_TIMED_OUT || status == ITAL_ERR_WAITER_LIMIT)
        return EAGAIN;
    if (status != RI_OK)
        return vb_errno(status);
    *cq = NULL;
    if (!event.context)
        return 0;
    of = container_of(event.item, struct vb_cq, completions.item);
    *cq = ibv_cq_ex_to_cq(&of->ibv);
    vb_source_take_one(channel->ual, &of->completions);
    return 0;
}

void vb_cq_wait_end(struct ibv_comp_channel *channel, struct ual_channel_item *item)
{
    item->context = NULL;
    ual_channel_post(vb_channel_of(channel)->ual, item);
}

void vb_cq_wait_purge(struct ibv_comp_channel *channel)
{
    ual_channel_purge(vb_channel_of(channel)->ual, NULL, NULL);
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
    VB_CALL;
    VB_OWN(cq->context, );

    if (nevents)
        vb_acknowledge(&cq->mutex, &cq->cond, &cq->comp_events_completed, nevents);
}

/* --- upcalls --- */

static void on_fired(void *context)
{
    struct vb_cq *cq = context;

    vb_cq_fired(cq);
    if (cq->ibv.channel)
        vb_source_report_one(vb_channel_of(cq->ibv.channel)->ual, &cq->completions);
}

static void on_error(void *context, const struct ri_event *event)
{
    struct vb_cq *cq = context;

    vb_cq_log(cq, event);
    vb_source_report_type(vb_context_of(cq->ibv.context)->async, &cq->async, IBV_EVENT_CQ_ERR);
}

/* --- life --- */

static bool is_valid(const struct ibv_context *context, int64_t cqe,
                     const struct ibv_comp_channel *channel, int64_t comp_vector)
{
    return cqe > 0 && comp_vector >= 0 && comp_vector < context->num_comp_vectors &&
           (!channel || channel->context == context);
}

static void set_up(struct vb_cq *cq, struct ibv_context *context, struct ibv_comp_channel *channel,
                   void *cq_context)
{
    static _Atomic uint32_t made;

    cq->ibv.context = context;
    cq->ibv.channel = channel;
    cq->ibv.cq_context = cq_context;
    cq->ibv.handle = atomic_fetch_add(&made, 1);
    pthread_mutex_init(&cq->ibv.mutex, NULL);
    pthread_cond_init(&cq->ibv.cond, NULL);
    vb_source_init(&cq->completions, VB_SOURCE_COMPLETIONS);
    vb_source_init(&cq->async, VB_SOURCE_CQ);
    vb_cq_extended(&cq->ibv);
}

static void tear_down(struct vb_cq *cq)
{
    vb_cq_counting_close(cq);
    pthread_cond_destroy(&cq->ibv.cond);
    pthread_mutex_destroy(&cq->ibv.mutex);
    free(cq);
}

static struct vb_cq *create(struct ibv_context *context, uint32_t cqe, void *cq_context,
                            struct ibv_comp_channel *channel, uint32_t comp_vector)
{
    struct vb_cq *cq = calloc(1, sizeof(*cq));
    struct ual_cq_attr attr = {
        .depth = cqe,
        .channel = channel ? vb_channel_of(channel)->ual : NULL,
        .fired = on_fired,
        .error = on_error,
        .context = cq,
        .lane_plus_one = comp_vector + 1,
    };
    enum ri_status status;

    if (!cq)
        return NULL;
    set_up(cq, context, channel, cq_context);
    status = ual_cq_create(vb_context_of(context)->device, &attr, &cq->ual);
    if (status != RI_OK) {
        tear_down(cq);
        errno = vb_errno(status);
        return NULL;
    }
    cq->ibv.cqe = (int)cq->ual->depth;
    count_user(channel, 1);
    vb_forks_enter_cq(cq);
    return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int comp_vector)
{
    VB_CALL;
    VB_OWN(context, NULL);
    struct vb_cq *cq;

    if (!is_valid(context, cqe, channel, comp_vector)) {
        errno = EINVAL;
        return NULL;
    }
    cq = create(context, (uint32_t)cqe, cq_context, channel, (uint32_t)comp_vector);
    return cq ? ibv_cq_ex_to_cq(&cq->ibv) : NULL;
}

static bool is_parent_domain(struct ibv_pd *pd)
{
    return pd && vb_pd_of(pd)->protection;
}

struct ibv_cq_ex *vb_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    VB_CALL;
    VB_OWN(context, NULL);
    struct vb_cq *cq;
    int error = 0;

    if (!is_valid(context, attr->cqe, attr->channel, attr->comp_vector) ||
        (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) ||
        ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) && !is_parent_domain(attr->parent_domain)))
        error = EINVAL;
    else if (attr->wc_flags & ~((uint64_t)IBV_WC_STANDARD_FLAGS | TIME_STAMPS))
        error = EOPNOTSUPP;
    if (error) {
        errno = error;
        return NULL;
    }
    cq = create(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
    if (!cq)
        return NULL;
    if (attr->wc_flags & TIME_STAMPS)
        vb_cq_stamped(&cq->ibv);
    return &cq->ibv;
}

int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
    VB_CALL;
    VB_OWN(ibv->context, EIO);
    struct vb_cq *cq = vb_cq_of(ibv);
    enum ri_status status;

    if (cqe <= 0)
        return EINVAL;
    if (atomic_load(&cq->counting))
        return vb_cq_counting_resize(cq, (uint32_t)cqe);
    status = ual_cq_resize(cq->ual, (uint32_t)cqe);
    if (status == RI_OK)
        ibv->cqe = (int)cq->ual->depth;
    return status == RI_ERR_BUSY ? EINVAL : vb_errno(status);
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
    VB_CALL;
    VB_OWN(ibv->context, EIO);
    struct vb_cq *cq = vb_cq_of(ibv);
    enum ri_status status;

    pthread_mutex_lock(&ibv->context->mutex);
    status = cq->pins ? RI_ERR_BUSY : ual_cq_free(cq->ual);
    pthread_mutex_unlock(&ibv->context->mutex);
    if (status != RI_OK)
        return vb_errno(status);
    if (ibv->channel)
        vb_source_end(vb_channel_of(ibv->channel)->ual, &cq->completions);
    vb_source_end(vb_context_of(ibv->context)->async, &cq->async);
    vb_await_acknowledged(&ibv->mutex, &ibv->cond, &ibv->comp_events_completed, &cq->completions);
    vb_await_acknowledged(&ibv->mutex, &ibv->cond, &ibv->async_events_completed, &cq->async);
    count_user(ibv->channel, -1);
    vb_forks_leave_cq(cq);
    tear_down(cq);
    return 0;
}
