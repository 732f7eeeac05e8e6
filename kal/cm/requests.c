/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: what a listener keeps: start-ups, and complete requests that wait because ual has no room for them.
 *
 * ual gives a request back (kal_defer) inside the upcall that shows it. From then on requests come up in the order in which they
 * were complete: a new one goes behind those that wait without being shown. kal_listen_room sets a timer in the listener's
 * lane; its run kicks the first one, whose run shows it, and so on until one is given back again, or none is left. Whatever
 * takes one of them away kicks the next: so no kick that was meant for all gets lost with the one that had it.
 *
 * Requests beyond the backlog wait in the same way: those whose start-up was under way when it was reached. A decision lets
 * the first of them come up, by the listener's timer `resume`.
 *
 * Their time (request_timeout) runs while the program takes none: each one that is taken lets all that wait begin anew.
 *
 * No wake-up is lost between the refusal and the hold either: room that is made meanwhile sets the timer, and a lane runs
 * its timers after the upcall, not beside it.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "cm.h"

#include "base/clock.h"

#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

void cm_listener_free(struct kal_listener *listener)
{
    cm_guard_end(&listener->guard);
    free(listener);
}

void cm_listener_room(struct kal_listener *listener)
{
    struct kal_listener *l = listener;
    bool accepts = l->paused && l->undecided + l->held < l->backlog &&
                   l->half_open < l->half_open_max;
    bool shows = l->held && l->undecided + 1 == l->backlog; /* others: kal_listen_room */

    if ((!accepts && !shows) || l->guard.dead)
        return;
    l->resume.deadline = clock_now();
    l->rnic->upper->timer_set(l->lane, &l->resume);
}

/* ---- who may end what is kept ---- */

bool cm_keep_take(struct kal_connection *connection)
{
    struct kal_listener *listener = connection->listener;
    bool ours;

    pthread_mutex_lock(&listener->guard.lock);
    ours = connection->kept && !connection->taken;
    if (ours)
        connection->taken = true;
    pthread_mutex_unlock(&listener->guard.lock);
    return ours;
}

static struct kal_connection *first_held(const struct kal_listener *l)
{
    struct kal_connection *c;

    DL_FOREACH2 (l->waiting, c, kept_next)
        if (!c->taken)
            break;
    return c;
}

/* The lane is the listener's, where no run of the connection can be beside us; cm_kick but for the connection's lock. */
void cm_show_next(struct kal_listener *listener)
{
    struct kal_connection *c = listener->guard.dead ? NULL : first_held(listener);

    if (c)
        cm_kick(c);
}

void cm_unkeep(struct kal_listener *listener, struct kal_connection *connection)
{
    if (connection->held) {
        DL_DELETE2(listener->waiting, connection, kept_prev, kept_next);
        listener->held--;
    } else {
        DL_DELETE2(listener->kept, connection, kept_prev, kept_next);
        listener->half_open--;
    }
    connection->kept = connection->taken = connection->fresh = connection->held = false;
    cm_listener_room(listener);
}

void cm_keep_remove(struct kal_listener *listener, struct kal_connection *connection)
{
    pthread_mutex_lock(&listener->guard.lock);
    cm_unkeep(listener, connection);
    cm_show_next(listener);
    cm_tell(&listener->guard);
    pthread_mutex_unlock(&listener->guard.lock);
}

void cm_listener_leave(struct kal_connection *connection, bool undecided)
{
    struct kal_listener *listener = connection->listener;

    connection->listener = NULL;
    if (undecided) {
        pthread_mutex_lock(&listener->guard.lock);
        listener->undecided--;
        cm_listener_room(listener);
        pthread_mutex_unlock(&listener->guard.lock);
    }
    if (cm_drop(&listener->guard))
        cm_listener_free(listener);
}

/* ---- places ---- */

enum cm_place cm_place_for(const struct kal_listener *listener,
                           const struct kal_connection *connection)
{
    if (connection->taken)
        return CM_PLACE_TAKEN;
    if (listener->undecided >= listener->backlog && connection->held)
        return CM_PLACE_WAIT;
    if (connection->held)
        return first_held(listener) == connection ? CM_PLACE_SHOW : CM_PLACE_WAIT;
    /* A provider that accepts by itself does not stop: what is beyond is refused. */
    if (connection->ri && listener->undecided + listener->held >= listener->backlog)
        return CM_PLACE_NONE;
    return listener->held || listener->undecided >= listener->backlog ? CM_PLACE_WAIT
                                                                      : CM_PLACE_SHOW;
}

void cm_wait(struct kal_listener *listener, struct kal_connection *connection, bool first)
{
    struct kal_connection *c = connection;

    if (c->held)
        return; /* it has its place */
    if (c->kept)
        cm_unkeep(listener, c);
    if (first)
        DL_PREPEND2(listener->waiting, c, kept_prev, kept_next);
    else
        DL_APPEND2(listener->waiting, c, kept_prev, kept_next);
    c->kept = c->held = true;
    listener->held++;
    c->state = CM_HELD;
    if (!c->startup->held_until)
        c->startup->held_until = clock_after(clock_now(), c->rnic->cm->options.request_timeout);
    cm_deadline(c, c->startup->held_until);
}

bool cm_wait_on(struct kal_connection *connection)
{
    struct kal_listener *listener = connection->listener;
    uint64_t end;

    pthread_mutex_lock(&listener->guard.lock);
    end = clock_after(listener->taken_at, connection->rnic->cm->options.request_timeout);
    pthread_mutex_unlock(&listener->guard.lock);
    if (!listener->taken_at || end <= clock_now())
        return false;
    connection->startup->held_until = end;
    cm_deadline(connection, end);
    return true;
}

void kal_defer(struct kal_connection *connection)
{
    struct kal_listener *listener;

    pthread_mutex_lock(&connection->guard.lock);
    listener = connection->listener;
    pthread_mutex_lock(&listener->guard.lock);
    listener->undecided--;
    cm_wait(listener, connection, true);
    pthread_mutex_unlock(&listener->guard.lock);
    pthread_mutex_unlock(&connection->guard.lock);
}

void cm_room_made(struct ri_timer *timer)
{
    struct kal_listener *l = (struct kal_listener *)(void *)((char *)timer -
                                                             offsetof(struct kal_listener, room));
    struct cm_run run;

    if (!cm_enter(&l->guard, &run))
        return;
    cm_show_next(l);
    if (cm_leave(&l->guard, &run))
        cm_listener_free(l);
}

void kal_listen_room(struct kal_listener *listener)
{
    listener->room.deadline = clock_now();
    listener->rnic->upper->timer_set(listener->lane, &listener->room);
}
