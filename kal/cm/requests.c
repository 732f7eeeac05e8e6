/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: the start-ups of a listener, and the queue of complete requests for which ual
 * has no room.
 *
 * ual defers a request (kal_defer) inside the upcall that reports it. From then on requests are
 * reported in the order in which they were completed: a new one joins the queue unreported.
 * kal_listen_room sets a timer in the listener's lane. Its run schedules the first of the queue,
 * whose run reports it, and so on until ual defers one again or the queue is empty. Removing a
 * request from the queue schedules the next one, so no wake-up is lost with a removed request.
 *
 * Requests beyond the backlog are queued in the same way: their start-up was under way when the
 * backlog became full. Each decision reports the first of them, by the listener's timer `resume`.
 *
 * The time of queued requests (request_timeout) runs while the program accepts none: each one that
 * it takes restarts the time of the whole queue.
 *
 * No wake-up is lost between the deferral and the queue: room that is made meanwhile sets the
 * timer, and a lane runs its timers after the upcall, not at the same time.
 */
#include "cm.h"

#include "base/clock.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

void cm_listener_free(struct kal_listener *listener)
{
    cm_lifetime_end(&listener->lifetime);
    free(listener);
}

const char *cm_listener_name(struct kal_listener *listener, char name[CM_NAME_ROOM])
{
    pthread_mutex_lock(&listener->lifetime.lock);
    snprintf(name, CM_NAME_ROOM, "%s", *listener->name ? listener->name : "(new)");
    pthread_mutex_unlock(&listener->lifetime.lock);
    return name;
}

void cm_log_memory(struct kal_listener *listener)
{
    char name[CM_NAME_ROOM];

    atomic_fetch_add_explicit(&listener->no_memory, 1, memory_order_relaxed);
    kal_rnic_log(
        listener->rnic, RI_LOG_ERROR,
        "listener %s: out of memory, connections are reset; free memory or raise its limit "
        "(ulimit -v, or that of the control group)",
        cm_listener_name(listener, name));
}

void cm_listener_room(struct kal_listener *listener)
{
    struct kal_listener *l = listener;
    bool accepts = l->paused && l->undecided + l->queued < l->backlog &&
                   l->half_open < l->half_open_max;
    /* kal_listen_room reports the others */
    bool shows = l->queued && l->undecided + 1 == l->backlog;

    cm_assert_locked(&l->lifetime);
    if ((!accepts && !shows) || l->lifetime.dead)
        return;
    l->resume.deadline = clock_now();
    l->rnic->upper->timer_set(l->lane, &l->resume);
}

/* ---- the right to end a listed request ---- */

bool cm_claim(struct kal_connection *connection)
{
    struct kal_listener *listener = connection->listener;
    bool ours;

    pthread_mutex_lock(&listener->lifetime.lock);
    ours = connection->listed && !connection->claimed;
    if (ours)
        connection->claimed = true;
    pthread_mutex_unlock(&listener->lifetime.lock);
    return ours;
}

static struct kal_connection *first_queued(const struct kal_listener *l)
{
    struct kal_connection *c;

    cm_assert_locked(&l->lifetime);
    DL_FOREACH2 (l->queue, c, listed_next)
        if (!c->claimed)
            break;
    return c;
}

/* In the listener's lane no run of the connection can be active at the same time. As cm_schedule,
 * but without the connection's lock. */
void cm_show_next(struct kal_listener *listener)
{
    struct kal_connection *c = listener->lifetime.dead ? NULL : first_queued(listener);

    cm_assert_locked(&listener->lifetime);
    if (c)
        cm_schedule(c);
}

static void unlist(struct kal_listener *listener, struct kal_connection *connection)
{
    cm_assert_locked(&listener->lifetime);
    contract(connection->listed);
    if (connection->queued) {
        DL_DELETE2(listener->queue, connection, listed_prev, listed_next);
        listener->queued--;
    } else {
        DL_DELETE2(listener->starting, connection, listed_prev, listed_next);
        listener->half_open--;
    }
    connection->listed = connection->claimed = connection->fresh = connection->queued = false;
}

void cm_unlist(struct kal_listener *listener, struct kal_connection *connection)
{
    unlist(listener, connection);
    cm_listener_room(listener);
}

/* One that leaves the queue takes the room that it leaves. Were that told, and the request deferred
 * again, the lane would report the same request for ever. */
void cm_unlist_shown(struct kal_listener *listener, struct kal_connection *connection)
{
    bool room = !connection->queued;

    listener->undecided++;
    unlist(listener, connection);
    if (room)
        cm_listener_room(listener);
}

void cm_remove(struct kal_listener *listener, struct kal_connection *connection)
{
    pthread_mutex_lock(&listener->lifetime.lock);
    cm_unlist(listener, connection);
    cm_show_next(listener);
    cm_lifetime_signal(&listener->lifetime);
    pthread_mutex_unlock(&listener->lifetime.lock);
}

void cm_listener_leave(struct kal_connection *connection, bool undecided)
{
    struct kal_listener *listener = connection->listener;

    connection->listener = NULL;
    if (undecided) {
        pthread_mutex_lock(&listener->lifetime.lock);
        listener->undecided--;
        cm_listener_room(listener);
        pthread_mutex_unlock(&listener->lifetime.lock);
    }
    if (cm_drop(&listener->lifetime))
        cm_listener_free(listener);
}

/* ---- places ---- */

enum cm_place cm_place_for(const struct kal_listener *listener,
                           const struct kal_connection *connection)
{
    cm_assert_locked(&listener->lifetime);
    if (connection->claimed)
        return CM_PLACE_TAKEN;
    if (listener->undecided >= listener->backlog && connection->queued)
        return CM_PLACE_QUEUE;
    if (connection->queued)
        return first_queued(listener) == connection ? CM_PLACE_SHOW : CM_PLACE_QUEUE;
    if (!connection->kind->pauses && listener->undecided + listener->queued >= listener->backlog)
        return CM_PLACE_NONE;
    return listener->queued || listener->undecided >= listener->backlog ? CM_PLACE_QUEUE
                                                                        : CM_PLACE_SHOW;
}

void cm_enqueue(struct kal_listener *listener, struct kal_connection *connection, bool first)
{
    struct kal_connection *c = connection;

    cm_assert_locked(&listener->lifetime);
    cm_assert_locked(&c->lifetime);
    if (c->queued)
        return; /* it is queued already */
    if (c->listed)
        cm_unlist(listener, c);
    if (first)
        DL_PREPEND2(listener->queue, c, listed_prev, listed_next);
    else
        DL_APPEND2(listener->queue, c, listed_prev, listed_next);
    c->listed = c->queued = true;
    listener->queued++;
    c->state = CM_QUEUED;
    if (!c->startup->queued_until)
        c->startup->queued_until = clock_after(clock_now(), c->rnic->cm->options.request_timeout);
    cm_deadline(c, c->startup->queued_until);
}

bool cm_stay_queued(struct kal_connection *connection)
{
    struct kal_listener *listener = connection->listener;
    uint64_t end;

    cm_assert_locked(&connection->lifetime);
    pthread_mutex_lock(&listener->lifetime.lock);
    end = clock_after(listener->taken_at, connection->rnic->cm->options.request_timeout);
    pthread_mutex_unlock(&listener->lifetime.lock);
    if (!listener->taken_at || end <= clock_now())
        return false;
    connection->startup->queued_until = end;
    cm_deadline(connection, end);
    return true;
}

void kal_defer(struct kal_connection *connection)
{
    struct kal_listener *listener;

    pthread_mutex_lock(&connection->lifetime.lock);
    listener = connection->listener;
    pthread_mutex_lock(&listener->lifetime.lock);
    listener->undecided--;
    cm_enqueue(listener, connection, true);
    pthread_mutex_unlock(&listener->lifetime.lock);
    pthread_mutex_unlock(&connection->lifetime.lock);
}

void cm_room_made(struct ri_timer *timer)
{
    struct kal_listener *l = (struct kal_listener *)(void *)((char *)timer -
                                                             offsetof(struct kal_listener, room));
    struct cm_run run;

    if (!cm_enter(&l->lifetime, &run))
        return;
    cm_show_next(l);
    if (cm_leave(&l->lifetime, &run))
        cm_listener_free(l);
}

void kal_listen_advise(struct kal_listener *listener, const char *advice)
{
    atomic_store(&listener->advice, advice);
}

void kal_listen_room(struct kal_listener *listener)
{
    listener->room.deadline = clock_now();
    listener->rnic->upper->timer_set(listener->lane, &listener->room);
}

/* ---- fed listeners ---- */

/* The listener may be going meanwhile, and its context with it: inside a run it stays. */
void cm_fed_in_vain(struct kal_listener *listener)
{
    struct ri_connection_event event = { .size = sizeof(event), .type = RI_CONNECTION_FAILED };
    struct cm_run run;

    if (!listener->fed || !cm_enter(&listener->lifetime, &run))
        return;
    pthread_mutex_unlock(&listener->lifetime.lock);
    listener->rnic->upper->connection_event(listener->context, &event);
    pthread_mutex_lock(&listener->lifetime.lock);
    if (cm_leave(&listener->lifetime, &run))
        cm_listener_free(listener);
}
