/* SPDX-License-Identifier: BSD-3-Clause
 * Send requests and binds that are posted before the connection is established. They are copied,
 * and posted in order when it is established or has failed. Guarded by link.posting. Inline data is
 * in the QP's own memory already. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "numbers_private.h"

#include <stdlib.h>
#include <utlist.h>

struct held {
    struct held *next;
    bool binds;
    struct vb_bind bind;  /* if it binds */
    struct ri_send_wr wr; /* else */
    struct ri_sge sges[];
};

static struct held *copy(const struct ri_send_wr *wr)
{
    struct held *held = calloc(1, sizeof(*held) + wr->num_sge * sizeof(struct ri_sge));

    if (!held)
        return NULL;
    held->wr = *wr;
    held->wr.next = NULL;
    held->wr.sg_list = held->sges;
    if (wr->num_sge)
        memcpy(held->sges, wr->sg_list, wr->num_sge * sizeof(struct ri_sge));
    return held;
}

static void append(struct link *link, struct held *held)
{
    if (!link->held)
        link->held = held;
    else
        link->held_last->next = held;
    link->held_last = held;
    link->held_count++;
}

enum ual_status held_add(struct link *link, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    const struct ual_qp_attr *limits = &link->qp->attr;
    enum ual_status status = UAL_OK;

    for (; wr; wr = wr->next) {
        struct held *held = NULL;

        if (wr->num_sge > limits->max_send_sge)
            status = UAL_ERR_INVALID_ARGUMENT;
        else if (link->held_count >= limits->max_send_wr)
            status = UAL_ERR_FULL;
        else
            held = copy(wr);
        if (!held) {
            *bad = wr;
            status = status != UAL_OK ? status : UAL_ERR_NO_RESOURCES;
            break;
        }
        append(link, held);
    }
    return status;
}

enum ual_status held_add_bind(struct link *link, const struct vb_bind *bind)
{
    struct held *held;

    if (link->held_count >= link->qp->attr.max_send_wr)
        return UAL_ERR_FULL;
    held = calloc(1, sizeof(*held));
    if (!held)
        return UAL_ERR_NO_RESOURCES;
    held->binds = true;
    held->bind = *bind;
    append(link, held);
    return UAL_OK;
}

static enum ual_status post(struct vb_qp *qp, struct held *held)
{
    struct ri_send_wr *bad;
    uint32_t stag;

    return held->binds ? vb_bind_post(qp, &held->bind, &stag)
                       : ual_qp_post_send(&qp->ual, &held->wr, &bad);
}

/* The program's post has succeeded already: if the provider refuses a request, the QP goes to
 * ERR. */
void held_post(struct link *link)
{
    enum ual_status status = UAL_OK;

    while (link->held && status == UAL_OK) {
        struct held *held = link->held;

        status = post(link->qp, held);
        LL_DELETE(link->held, held);
        link->held_count--;
        free(held);
    }
    if (status == UAL_OK)
        return;
    ual_log(RI_LOG_ERROR,
            "QP 0x%06x: a request that was posted before its connection was there is refused: %s",
            link->number, ual_status_name(status));
    held_drop(link);
    ual_qp_set_state(&link->qp->ual, RI_QPS_ERROR);
}

void held_drop(struct link *link)
{
    struct held *held, *next;

    LL_FOREACH_SAFE (link->held, held, next)
        free(held);
    link->held = link->held_last = NULL;
    link->held_count = 0;
}
