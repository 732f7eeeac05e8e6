/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: moves an undecided request to another listener, or to the RNIC and lane of
 * its QP. */
#include "cm.h"

#include <sys/epoll.h>
#include <utlist.h>

/* Reserves a place in the listener's lists. */
static enum ri_status reserve(struct kal_listener *l, struct kal_connection *c)
{
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&l->lifetime.lock);
    if (l->lifetime.dead)
        status = RI_ERR_INVALID_ARGUMENT;
    else if (l->undecided + l->queued >= l->backlog)
        status = RI_ERR_NO_RESOURCES;
    if (!status) {
        DL_APPEND2(l->starting, c, listed_prev, listed_next);
        c->listed = true;
        l->half_open++;
        l->lifetime.refs++;
    }
    pthread_mutex_unlock(&l->lifetime.lock);
    return status;
}

static void unreserve(struct kal_listener *l, struct kal_connection *c)
{
    pthread_mutex_lock(&l->lifetime.lock);
    cm_unlist(l, c);
    l->lifetime.refs--; /* the caller keeps its listener alive */
    pthread_mutex_unlock(&l->lifetime.lock);
}

enum ri_status cm_change_rnic(struct kal_connection *connection, struct kal_rnic *rnic)
{
    struct kal_connection *c = connection;
    struct kal_rnic *old = c->rnic;

    cm_assert_locked(&c->lifetime);
    contract(c->state == CM_MOVING);
    if (old == rnic)
        return RI_OK;
    if (c->counted && kal_rnic_take_now(rnic, KAL_ACCOUNT_CONNECTION, 1, &c->stream.peer.any))
        return ITAL_ERR_QUOTA;
    if (c->counted)
        kal_rnic_give(old, KAL_ACCOUNT_CONNECTION, 1);
    pthread_mutex_lock(&old->cm->lock);
    DL_DELETE(old->cm->connections, c);
    pthread_mutex_unlock(&old->cm->lock);
    pthread_mutex_lock(&rnic->cm->lock);
    DL_APPEND(rnic->cm->connections, c);
    pthread_mutex_unlock(&rnic->cm->lock);
    c->rnic = rnic;
    return RI_OK;
}

/* Begins the move: handlers in the old lane see MOVING and return. Locked; the caller gets the
 * watch. */
static struct ri_watch *begin_move(struct kal_connection *c)
{
    struct ri_watch *watch;

    cm_assert_locked(&c->lifetime);
    contract(c->state == CM_PENDING);
    c->state = CM_MOVING;
    cm_lifetime_wait_others(&c->lifetime);
    watch = c->watch;
    c->watch = NULL;
    return watch;
}

/* Leaves the old lane, without a lock. */
static void leave_lane(struct kal_connection *c, struct ri_watch *watch)
{
    const struct kal_upper *upper = c->rnic->upper;

    contract(c->state == CM_MOVING && !c->watch);
    if (watch)
        upper->unwatch(watch);
    upper->timer_cancel(c->lane, &c->startup->soon);
    upper->timer_cancel(c->lane, &c->startup->deadline);
}

/* If this fails, accept finds the withdrawal. */
void cm_watch_undecided(struct kal_connection *connection)
{
    cm_assert_locked(&connection->lifetime);
    if (cm_watch(connection, EPOLLIN | EPOLLRDHUP))
        kal_rnic_log(connection->rnic, RI_LOG_ERROR,
                     "out of memory: a request is no longer watched");
}

/*
 * Moves stream, watch and timers to the listener's lane, whose next run makes the upcall. This
 * thread may be in an upcall of the object, which called kal_migrate.
 */
enum ri_status kal_migrate(struct kal_connection *connection, struct kal_listener *listener)
{
    struct kal_connection *c = connection;
    enum ri_status status = RI_ERR_INVALID_STATE;
    struct ri_watch *watch;

    if (listener->rnic->kal != c->rnic->kal)
        return RI_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&c->lifetime.lock);
    if (c->state != CM_PENDING || c->lifetime.dead)
        goto unlock;
    if (listener->rnic->cm->kind != c->kind) {
        status = RI_ERR_INVALID_ARGUMENT;
        goto unlock;
    }
    watch = begin_move(c);
    pthread_mutex_unlock(&c->lifetime.lock);
    leave_lane(c, watch);
    pthread_mutex_lock(&c->lifetime.lock);

    status = reserve(listener, c);
    if (!status) {
        status = c->kind->migrate(c, listener->rnic);
        if (status)
            unreserve(listener, c);
    }
    if (status) {
        c->state = CM_PENDING;
        c->kind->await(c);
        goto unlock;
    }
    cm_listener_leave(c, true);
    c->migrations++;
    c->listener = listener;
    c->lane = listener->lane;
    c->context = NULL;
    c->state = CM_SHOWING;
    c->kind->await(c);
    cm_schedule(c);
unlock:
    pthread_mutex_unlock(&c->lifetime.lock);
    return status;
}

enum ri_status kal_place(struct kal_connection *connection, struct kal_rnic *rnic,
                         void *lane_context)
{
    if (rnic->kal != connection->rnic->kal)
        return RI_ERR_INVALID_ARGUMENT;
    return connection->kind->place(connection, rnic, lane_context);
}

/* Changes during the move are seen in the new lane: readiness is level-triggered. */
enum ri_status cm_place_start_up(struct kal_connection *connection, struct kal_rnic *rnic,
                                 void *lane_context)
{
    struct kal_connection *c = connection;
    enum ri_status status = RI_OK;
    struct ri_watch *watch;

    pthread_mutex_lock(&c->lifetime.lock);
    if (c->lane == lane_context || c->state != CM_PENDING || c->lifetime.dead)
        goto unlock;
    watch = begin_move(c);
    pthread_mutex_unlock(&c->lifetime.lock);
    leave_lane(c, watch);
    pthread_mutex_lock(&c->lifetime.lock);
    status = cm_change_rnic(c, rnic);
    if (!status)
        c->lane = lane_context;
    c->state = CM_PENDING;
    cm_watch_undecided(c);
unlock:
    pthread_mutex_unlock(&c->lifetime.lock);
    return status;
}
