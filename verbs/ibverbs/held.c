/* SPDX-License-Identifier: BSD-3-Clause
 * Send requests and binds that are posted before the connection is established. They are copied,
 * and posted in order when it is established or has failed. Inline data is in the QP's own memory
 * already. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "ibverbs_private.h"

#include <stdlib.h>
#include <utlist.h>

struct vb_held_post {
    struct vb_held_post *next;
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

static void append(struct vb_held *held, struct vb_held_post *post)
{
    if (!held->first)
        held->first = post;
    else
        held->last->next = post;
    held->last = post;
    held->count++;
}

/* Under the lock. */
static enum ual_status add(struct vb_held *held, const struct ual_qp_attr *limits,
                           struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    enum ual_status status = UAL_OK;

    for (; wr; wr = wr->next) {
        struct vb_held_post *post = NULL;

        if (wr->num_sge > limits->max_send_sge)
            status = UAL_ERR_INVALID_ARGUMENT;
        else if (held->count >= limits->max_send_wr)
            status = UAL_ERR_FULL;
        else
            post = copy(wr);
        if (!post) {
            *bad = wr;
            status = status != UAL_OK ? status : UAL_ERR_NO_RESOURCES;
            break;
        }
        append(held, post);
    }
    return status;
}

enum ual_status vb_held_send(struct vb_held *held, struct vb_qp *qp, struct ri_send_wr *wr,
                             struct ri_send_wr **bad, bool *kept)
{
    enum ual_status status = UAL_OK;
    bool passes;

    pthread_mutex_lock(&held->lock);
    passes = held->passes;
    if (!passes)
        status = add(held, &qp->attr, wr, bad);
    pthread_mutex_unlock(&held->lock);
    *kept = !passes && status == UAL_OK;
    return passes ? ual_qp_post_send(&qp->ual, wr, bad) : status;
}

/* Under the lock. */
static enum ual_status add_bind(struct vb_held *held, const struct ual_qp_attr *limits,
                                const struct vb_bind *bind)
{
    struct vb_held_post *post;

    if (held->count >= limits->max_send_wr)
        return UAL_ERR_FULL;
    post = calloc(1, sizeof(*post));
    if (!post)
        return UAL_ERR_NO_RESOURCES;
    post->binds = true;
    post->bind = *bind;
    append(held, post);
    return UAL_OK;
}

enum ual_status vb_held_bind(struct vb_held *held, struct vb_qp *qp, const struct vb_bind *bind,
                             bool *kept)
{
    enum ual_status status = UAL_OK;
    uint32_t stag;
    bool passes;

    pthread_mutex_lock(&held->lock);
    passes = held->passes;
    if (!passes)
        status = add_bind(held, &qp->attr, bind);
    pthread_mutex_unlock(&held->lock);
    *kept = !passes && status == UAL_OK;
    return passes ? vb_bind_post(qp, bind, &stag) : status;
}

static enum ual_status post_one(struct vb_qp *qp, struct vb_held_post *post)
{
    struct ri_send_wr *bad;
    uint32_t stag;

    return post->binds ? vb_bind_post(qp, &post->bind, &stag)
                       : ual_qp_post_send(&qp->ual, &post->wr, &bad);
}

/* The program's post has succeeded already: if the provider refuses a request, the QP goes to
 * ERR. */
void vb_held_release(struct vb_held *held, struct vb_qp *qp)
{
    enum ual_status status = UAL_OK;

    held->passes = true;
    while (held->first && status == UAL_OK) {
        struct vb_held_post *post = held->first;

        status = post_one(qp, post);
        LL_DELETE(held->first, post);
        held->count--;
        free(post);
    }
    if (status == UAL_OK)
        return;
    ual_log(RI_LOG_ERROR,
            "QP 0x%06x: a request that was posted before its connection was there is refused: %s",
            qp->ibv.qp_base.qp_num, ual_status_name(status));
    vb_held_drop(held);
    held->passes = true;
    ual_qp_set_state(&qp->ual, RI_QPS_ERROR);
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
