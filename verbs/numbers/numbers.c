/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections by numbers: a program moves its QPs to RTR and RTS with ibv_modify_qp, and exchanges
 * their numbers itself. This file has the functions that libibverbs calls.
 */
#include "numbers_private.h"

#include <stdlib.h>

#define RANGE_FIRST 10000u /* below the system's range of ephemeral ports */
#define RANGE_LAST  29999u

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static struct numbers *open_numbers(struct vb_context *context)
{
    struct numbers *numbers = calloc(1, sizeof(*numbers));
    const char *range = ual_device_option(context->device, "port_range");

    if (!numbers)
        return NULL;
    numbers->context = context;
    numbers->upcalls = &requests_upcalls;
    numbers->refuser.expired = refuser_expired;
    numbers->low = RANGE_FIRST;
    numbers->high = RANGE_LAST;
    pthread_mutex_init(&numbers->lock, NULL);
    if (range && *range && !ports_parse_range(range, &numbers->low, &numbers->high))
        ual_log(
            RI_LOG_WARNING,
            "option port_range: '%s' is no range of ports from 1024 on, such as %u-%u, which is "
            "taken instead",
            range, RANGE_FIRST, RANGE_LAST);
    return numbers;
}

/* Made with the first QP of a context. */
static struct numbers *numbers_of(struct vb_context *context)
{
    pthread_mutex_lock(&opening);
    if (!context->numbers)
        context->numbers = open_numbers(context);
    pthread_mutex_unlock(&opening);
    return context->numbers;
}

static int take(struct vb_context *context, struct vb_qp *qp, uint32_t *number)
{
    struct numbers *numbers = numbers_of(context);
    struct link *link = numbers ? link_create(numbers, qp) : NULL;
    int error;

    if (!link)
        return ENOMEM;
    error = ports_take(numbers, link);
    if (error)
        link_free(link);
    else
        *number = link->number;
    return error;
}

static struct link *find(struct numbers *numbers, uint32_t number)
{
    struct link *link;

    pthread_mutex_lock(&numbers->lock);
    link = ports_find(numbers, number);
    pthread_mutex_unlock(&numbers->lock);
    return link;
}

static void release_number(struct vb_context *context, struct vb_qp *qp, uint32_t number)
{
    struct numbers *numbers = context->numbers;
    struct link *link = find(numbers, number);

    (void)qp;
    ports_release(numbers, number);
    link_free(link);
}

/* A context with QPs is not closed: they go on. Closes the listeners first, so no request comes
 * afterwards. */
static void close_numbers(struct vb_context *context)
{
    struct numbers *numbers = context->numbers;

    if (!numbers || numbers->used)
        return;
    context->numbers = NULL;
    ports_close(numbers);
    ual_timer_cancel(context->device, &numbers->refuser);
    refuser_drop(numbers);
    pthread_mutex_destroy(&numbers->lock);
    free(numbers);
}

/* --- the connector --- */

static struct link *link_of(void *context, struct vb_qp *qp)
{
    struct vb_context *ours = context;

    return find(ours->numbers, qp->ibv.qp_base.qp_num);
}

static int modify(void *context, struct vb_qp *qp, enum ibv_qp_state to,
                  const struct ibv_qp_attr *attr, int mask)
{
    struct link *link = link_of(context, qp);

    switch (to) {
    case IBV_QPS_RTR: return link_to_rtr(link, attr, mask);
    case IBV_QPS_RTS: return link_to_rts(link, attr, mask);
    case IBV_QPS_ERR: link_to_err(link); return 0;
    default: return 0;
    }
}

static enum ri_status hold(void *context, struct vb_qp *qp, struct ri_send_wr *wr,
                           struct ri_send_wr **bad)
{
    struct link *link = link_of(context, qp);
    bool kept;
    enum ri_status status;

    link_notice_end(link);
    status = vb_held_send(&link->held, qp, wr, bad, &kept);
    if (kept)
        link_start_clock(link);
    return status;
}

static enum ri_status hold_bind(void *context, struct vb_qp *qp, const struct vb_bind *bind)
{
    struct link *link = link_of(context, qp);
    bool kept;
    enum ri_status status;

    link_notice_end(link);
    status = vb_held_bind(&link->held, qp, bind, &kept);
    if (kept)
        link_start_clock(link);
    return status;
}

static void event(void *context, struct vb_qp *qp, const struct ri_event *event)
{
    link_qp_event(link_of(context, qp), event);
}

static bool outlives(void *context, struct vb_qp *qp, const struct ri_event *event)
{
    (void)context;
    (void)qp;
    return vb_ended_by_peer(event);
}

static void peer(void *context, struct vb_qp *qp, char text[VB_PEER_TEXT])
{
    link_name_peer(link_of(context, qp), text);
}

static void release(void *context, struct vb_qp *qp)
{
    link_reset(link_of(context, qp));
}

/* Another thread may have been opening one. */
static void forked(void)
{
    opening = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static const struct vb_numbers by_numbers = {
    .take = take,
    .release_number = release_number,
    .close = close_numbers,
    .forked = forked,
    .connector = { .modify = modify,
                   .hold = hold,
                   .hold_bind = hold_bind,
                   .event = event,
                   .outlives = outlives,
                   .release = release,
                   .peer = peer },
};

/* The ibverbs folder calls nothing above itself; so this library registers here. */
static __attribute__((constructor)) void install(void)
{
    vb_numbers = &by_numbers;
}
