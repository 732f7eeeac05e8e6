/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Events and their acknowledgement.
 *
 * A source has one item. The item is queued while `waiting` is not 0. A get that takes one event
 * queues the item again if `waiting` is still not 0. So an upcall allocates nothing; if `waiting`
 * is set already it only adds to it.
 *
 * An object is destroyed when the program has acknowledged as many events as gets have returned.
 * Its item is removed from the channel first. If the item is not there although `waiting` is set,
 * another thread's get has removed it and is about to take the event.
 */
#include "ibverbs_private.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

/* A wait runs the lanes itself for this time. Then it sleeps in poll(2), which is a cancellation
 * point, and the background threads report the events. */
#define LANE_WAIT_US 10000u

/* --- sources --- */

void vb_source_init(struct vb_source *source, enum vb_source_kind kind)
{
    source->kind = kind;
    source->item.context = source;
}

void vb_source_report_type(struct ual_channel *channel, struct vb_source *source,
                           enum ibv_event_type type)
{
    uint32_t bit = UINT32_C(1) << type, before = atomic_fetch_or(&source->waiting, bit);

    if (before & bit)
        return;
    atomic_fetch_add(&source->reported, 1);
    if (!before)
        ual_channel_post(channel, &source->item);
}

void vb_source_report_one(struct ual_channel *channel, struct vb_source *source)
{
    atomic_fetch_add(&source->reported, 1);
    if (atomic_fetch_add(&source->waiting, 1) == 0)
        ual_channel_post(channel, &source->item);
}

enum ibv_event_type vb_source_take_type(struct ual_channel *channel, struct vb_source *source)
{
    uint32_t type = (uint32_t)__builtin_ctz(atomic_load(&source->waiting));
    uint32_t bit = UINT32_C(1) << type;

    if (atomic_fetch_and(&source->waiting, ~bit) != bit)
        ual_channel_post(channel, &source->item);
    return (enum ibv_event_type)type;
}

void vb_source_take_one(struct ual_channel *channel, struct vb_source *source)
{
    if (atomic_fetch_sub(&source->waiting, 1) != 1)
        ual_channel_post(channel, &source->item);
}

static uint32_t events_in(const struct vb_source *source, uint32_t waiting)
{
    return source->kind == VB_SOURCE_COMPLETIONS ? waiting : (uint32_t)__builtin_popcount(waiting);
}

void vb_source_end(struct ual_channel *channel, struct vb_source *source)
{
    while (atomic_load(&source->waiting)) {
        if (!ual_channel_purge(channel, source, NULL)) {
            sched_yield();
            continue;
        }
        atomic_fetch_sub(&source->reported,
                         events_in(source, atomic_exchange(&source->waiting, 0)));
    }
}

/* --- acknowledgement --- */

void vb_await_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
                           const struct vb_source *source)
{
    pthread_mutex_lock(mutex);
    while (*completed != atomic_load(&source->reported))
        pthread_cond_wait(cond, mutex);
    pthread_mutex_unlock(mutex);
}

void vb_acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed,
                    uint32_t count)
{
    pthread_mutex_lock(mutex);
    *completed += count;
    pthread_cond_signal(cond);
    pthread_mutex_unlock(mutex);
}

/* --- waiting --- */

/* Another thread has destroyed the channel. As close(2) does not wake a read(2), this thread sleeps
 * until a signal comes: programs take any error of a get as the end of what it watches. */
static int sleep_for_ever(void)
{
    pause();
    return EINTR;
}

static bool is_blocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags < 0 || !(flags & O_NONBLOCK);
}

/* The channel may be destroyed meanwhile, so only its descriptor is read. */
static int sleep_on_fd(int fd)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };

    if (poll(&ready, 1, -1) < 0)
        return errno;
    return ready.revents & POLLNVAL ? sleep_for_ever() : 0;
}

int vb_channel_get(struct ual_channel *channel, struct ual_channel_event *event)
{
    int fd = ual_channel_fd(channel), error = 0;
    enum ri_status status;

    while (!error) {
        pthread_testcancel();
        status = ual_channel_get(channel, 0, event);
        if (status == ITAL_ERR_EMPTY && !is_blocking(fd))
            return EAGAIN;
        if (status == ITAL_ERR_EMPTY)
            status = ual_channel_get(channel, LANE_WAIT_US, event);
        if (status == ITAL_ERR_ABORTED)
            return sleep_for_ever();
        /* glibc from 2.41 on ends every system call of a thread that it cancels. */
        if (status == ITAL_ERR_INTERRUPTED)
            pthread_testcancel();
        if (status != RI_ERR_TIMED_OUT && status != ITAL_ERR_WAITER_LIMIT)
            return vb_errno(status);
        error = sleep_on_fd(fd);
    }
    return error;
}

/* --- asynchronous events --- */

static void describe(struct vb_context *context, struct vb_source *source,
                     struct ibv_async_event *event)
{
    event->event_type = vb_source_take_type(context->async, source);
    switch (source->kind) {
    case VB_SOURCE_CQ:
        event->element.cq = ibv_cq_ex_to_cq(&container_of(source, struct vb_cq, async)->ibv);
        break;
    case VB_SOURCE_QP:
        event->element.qp = &container_of(source, struct vb_qp, async)->ibv.qp_base;
        break;
    case VB_SOURCE_SRQ:
        event->element.srq = &container_of(source, struct vb_srq, async)->ibv;
        break;
    case VB_SOURCE_COMPLETIONS:
    case VB_SOURCE_DEVICE: event->element.port_num = (int)atomic_load(&context->port_num); break;
    }
}

int ibv_get_async_event(struct ibv_context *ibv, struct ibv_async_event *event)
{
    VB_OWN(ibv, -1);
    SANITIZER_OUTPUT(event);
    struct vb_context *context = vb_context_of(ibv);
    struct ual_channel_event got;
    int error = vb_channel_get(context->async, &got);

    if (error) {
        errno = error;
        return -1;
    }
    describe(context, container_of(got.item, struct vb_source, item), event);
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    VB_CALL;
    struct ibv_cq *cq = event->element.cq;
    struct ibv_qp *qp = event->element.qp;
    struct ibv_srq *srq = event->element.srq;

    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        vb_acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed, 1);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        vb_acknowledge(&qp->mutex, &qp->cond, &qp->events_completed, 1);
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        vb_acknowledge(&srq->mutex, &srq->cond, &srq->events_completed, 1);
        break;
    default: break;
    }
}
