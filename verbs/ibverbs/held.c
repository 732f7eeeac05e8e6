/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Send requests and binds that are posted before the connection is established. They are copied,
 * and posted in order when it is established or has failed. Inline data is in the QP's own memory
 * already.
 *
 * What a provider refuses by the request alone is refused here, at the post. So each request that
 * was taken completes, once and in its turn. One that the provider refuses later, because its
 * object was freed or the peer cannot do it, completes in error (post_instead). */
#include "ibverbs_private.h"

#include <stdlib.h>
#include <utlist.h>

#define ATOMIC_OCTETS 8u

struct vb_held_post {
    struct vb_held_post *next;
    uint32_t places; /* of the send queue */
    bool binds;
    struct vb_bind bind;  /* if it binds */
    struct ri_send_wr wr; /* else */
    struct ri_sge sges[];
};

void vb_held_open(struct vb_held *held)
{
    *held = (struct vb_held){ 0 };
    pthread_mutex_init(&held->lock, NULL);
}

void vb_held_close(struct vb_held *held)
{
    vb_held_drop(held);
    pthread_mutex_destroy(&held->lock);
}

static struct vb_held_post *copy(const struct ri_send_wr *wr)
{
    struct vb_held_post *post = calloc(1, sizeof(*post) + wr->num_sge * sizeof(struct ri_sge));

    if (!post)
        return NULL;
    post->wr = *wr;
    post->wr.next = NULL;
    post->wr.sg_list = post->sges;
    if (wr->num_sge)
        memcpy(post->sges, wr->sg_list, wr->num_sge * sizeof(struct ri_sge));
    return post;
}

static void append(struct vb_held *held, struct vb_held_post *post, uint32_t places)
{
    if (!held->first)
        held->first = post;
    else
        held->last->next = post;
    held->last = post;
    post->places = places;
    held->count += places;
}

/* --- what a provider refuses --- */

/* Elements with octets. */
static uint32_t count_solid(const struct ri_send_wr *wr, uint64_t *octets)
{
    uint32_t solid = 0;

    *octets = 0;
    for (uint32_t i = 0; i < wr->num_sge; i++) {
        solid += wr->sg_list[i].length != 0;
        *octets += wr->sg_list[i].length;
    }
    return solid;
}

static uint32_t most_sges(const struct ual_qp_attr *limits, uint16_t opcode)
{
    switch (opcode) {
    case RI_WR_RDMA_READ: return limits->max_read_sge;
    case RI_WR_RDMA_WRITE:
    case RI_WR_RDMA_WRITE_IMMEDIATE: return limits->max_write_sge;
    case RI_WR_ATOMIC_FETCH_ADD:
    case RI_WR_ATOMIC_COMPARE_SWAP: return 1;
    case RI_WR_LOCAL_INVALIDATE: return 0;
    default: return limits->max_send_sge;
    }
}

static uint64_t feature_of(uint16_t opcode)
{
    switch (opcode) {
    case RI_WR_SEND_IMMEDIATE:
    case RI_WR_RDMA_WRITE_IMMEDIATE: return RI_FEATURE_IMMEDIATE;
    case RI_WR_SEND_INVALIDATE: return RI_FEATURE_SEND_INVALIDATE;
    case RI_WR_LOCAL_INVALIDATE: return RI_FEATURE_LOCAL_INVALIDATE;
    case RI_WR_ATOMIC_FETCH_ADD:
    case RI_WR_ATOMIC_COMPARE_SWAP: return RI_FEATURE_ATOMICS;
    default: return 0;
    }
}

static bool is_atomic(const struct ri_send_wr *wr)
{
    return wr->opcode == RI_WR_ATOMIC_FETCH_ADD || wr->opcode == RI_WR_ATOMIC_COMPARE_SWAP;
}

/* Opcode, elements and lengths; memory is not looked at before the request is executed. *places: of
 * the send queue, where a Read takes one for each sink. */
static enum ri_status check(const struct vb_held *held, struct vb_qp *qp,
                            const struct ri_send_wr *wr, uint32_t *places)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(vb_qp_context(qp)->device);
    uint64_t feature = feature_of(wr->opcode), octets;
    uint32_t solid;

    if ((rnic->features & feature) != feature)
        return RI_ERR_NOT_SUPPORTED;
    if (wr->num_sge > most_sges(&qp->attr, wr->opcode) || (is_atomic(wr) && !wr->num_sge))
        return RI_ERR_INVALID_ARGUMENT;
    solid = count_solid(wr, &octets);
    if (is_atomic(wr) && octets < ATOMIC_OCTETS)
        return RI_ERR_INVALID_ARGUMENT;
    if (octets > UINT32_MAX)
        return RI_ERR_LIMIT;
    if (wr->opcode == RI_WR_SEND_IMMEDIATE && octets && !held->fuses &&
        rnic->transport == RI_TRANSPORT_IWARP)
        return RI_ERR_NOT_SUPPORTED;
    *places = wr->opcode == RI_WR_RDMA_READ && solid > 1 ? solid : 1;
    return RI_OK;
}

/* --- posts --- */

/* Under the lock. */
static enum ri_status add(struct vb_held *held, struct vb_qp *qp, const struct ri_send_wr *wr)
{
    struct vb_held_post *post;
    uint32_t places = 1;
    enum ri_status status = check(held, qp, wr, &places);

    if (status != RI_OK)
        return status;
    if (held->count + places > qp->attr.max_send_wr)
        return RI_ERR_QUEUE_FULL;
    post = copy(wr);
    if (!post)
        return RI_ERR_NO_RESOURCES;
    append(held, post, places);
    return RI_OK;
}

enum ri_status vb_held_send(struct vb_held *held, struct vb_qp *qp, struct ri_send_wr *wr,
                            struct ri_send_wr **bad, bool *kept)
{
    enum ri_status status = RI_OK;
    struct ri_send_wr *first = wr;
    bool passes;

    pthread_mutex_lock(&held->lock);
    passes = held->passes;
    while (!passes && wr) {
        status = add(held, qp, wr);
        if (status != RI_OK)
            break;
        wr = wr->next;
    }
    pthread_mutex_unlock(&held->lock);
    *kept = wr != first;
    if (passes)
        return ual_qp_post_send(&qp->ual, wr, bad);
    if (status != RI_OK)
        *bad = wr;
    return status;
}

/* Under the lock. */
static enum ri_status add_bind(struct vb_held *held, const struct ual_qp_attr *limits,
                               const struct vb_bind *bind)
{
    struct vb_held_post *post;

    if (held->count >= limits->max_send_wr)
        return RI_ERR_QUEUE_FULL;
    post = calloc(1, sizeof(*post));
    if (!post)
        return RI_ERR_NO_RESOURCES;
    post->binds = true;
    post->bind = *bind;
    append(held, post, 1);
    return RI_OK;
}

enum ri_status vb_held_bind(struct vb_held *held, struct vb_qp *qp, const struct vb_bind *bind,
                            bool *kept)
{
    enum ri_status status = RI_OK;
    uint32_t stag;
    bool passes;

    pthread_mutex_lock(&held->lock);
    passes = held->passes;
    if (!passes)
        status = add_bind(held, &qp->attr, bind);
    pthread_mutex_unlock(&held->lock);
    *kept = !passes && status == RI_OK;
    return passes ? vb_bind_post(qp, bind, &stag) : status;
}

static enum ri_status post_one(struct vb_qp *qp, struct vb_held_post *post)
{
    struct ri_send_wr *bad;
    uint32_t stag;

    return post->binds ? vb_bind_post(qp, &post->bind, &stag)
                       : ual_qp_post_send(&qp->ual, &post->wr, &bad);
}

/* --- release --- */

/* A Send that cannot succeed: its element is in no region. It takes the place of a refused request,
 * so that it completes in error when its turn comes, as an adapter would have it, and what is
 * behind it is flushed. If the connection has failed it is flushed itself. */
static enum ri_status post_instead(struct vb_qp *qp, const struct vb_held_post *post)
{
    struct ri_sge nowhere = { .length = 1, .lkey = UINT32_MAX };
    struct ri_send_wr *bad,
        wr = { .opcode = RI_WR_SEND,
               .cookie = post->binds ? post->bind.cookie : post->wr.cookie,
               .flags = (post->binds ? post->bind.flags : post->wr.flags) & RI_WR_SIGNALED,
               .sg_list = &nowhere,
               .num_sge = 1 };

    return ual_qp_post_send(&qp->ual, &wr, &bad);
}

static bool is_connected(struct vb_qp *qp)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    return ual_qp_query(&qp->ual, &info) == RI_OK && info.state == RI_QPS_RTS;
}

static void complete_in_error(struct vb_qp *qp, const struct vb_held_post *post, enum ri_status why)
{
    unsigned long long cookie = post->binds ? post->bind.cookie : post->wr.cookie;
    uint32_t number = qp->ibv.qp_base.qp_num;
    enum ri_status status;

    if (is_connected(qp)) /* else the log has the reason */
        ual_log(
            RI_LOG_WARNING,
            "QP 0x%06x: request 0x%llx (wr_id), posted before the connection was there, completes "
            "in error: %s",
            number, cookie, ital_status_name(why));
    status = post_instead(qp, post);
    if (status == RI_OK)
        return;
    ual_log(RI_LOG_ERROR,
            "QP 0x%06x: request 0x%llx (wr_id) will not complete: %s; this is a defect", number,
            cookie, ital_status_name(status));
    vb_qp_abort(qp);
}

void vb_held_release(struct vb_held *held, struct vb_qp *qp)
{
    held->passes = true;
    while (held->first) {
        struct vb_held_post *post = held->first;
        enum ri_status status = post_one(qp, post);

        if (status != RI_OK)
            complete_in_error(qp, post, status);
        LL_DELETE(held->first, post);
        held->count -= post->places;
        free(post);
    }
}

void vb_held_drop(struct vb_held *held)
{
    struct vb_held_post *post, *next;

    LL_FOREACH_SAFE (held->first, post, next)
        free(post);
    held->first = held->last = NULL;
    held->count = 0;
    held->passes = false;
}
