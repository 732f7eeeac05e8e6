/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: copies of its listeners and connections for itstat.
 *
 * The lists are walked under cm->lock, which keeps their objects alive but comes after their own
 * locks in the order. So those are only tried: an object that another thread changes at this moment
 * is shown as such.
 */
#include "cm.h"

#include "base/clock.h"

#include <stdio.h>
#include <utlist.h>

static void copy_listener(struct kal_listener *l, struct kal_listener_seen *seen)
{
    if (pthread_mutex_trylock(&l->lifetime.lock))
        return;
    seen->known = l->name[0]; /* otherwise it is being created */
    if (!seen->known) {
        pthread_mutex_unlock(&l->lifetime.lock);
        return;
    }
    snprintf(seen->address, sizeof(seen->address), "%s", l->name);
    seen->half_open = l->half_open;
    seen->half_open_max = l->half_open_max;
    seen->undecided = l->undecided;
    seen->queued = l->queued;
    seen->backlog = l->backlog;
    seen->paused = l->paused;
    seen->ended = l->ended;
    pthread_mutex_unlock(&l->lifetime.lock);
    seen->strangers = atomic_load_explicit(&l->strangers, memory_order_relaxed);
    seen->crowded = atomic_load_explicit(&l->crowded, memory_order_relaxed);
    seen->late = atomic_load_explicit(&l->late, memory_order_relaxed);
    seen->no_descriptor = atomic_load_explicit(&l->no_descriptor, memory_order_relaxed);
}

size_t kal_cm_listeners(struct kal_rnic *rnic, struct kal_listener_seen *seen, size_t room)
{
    struct kal_listener *l;
    size_t count = 0;

    pthread_mutex_lock(&rnic->cm->lock);
    DL_FOREACH (rnic->cm->listeners, l) {
        if (count < room) {
            seen[count] = (struct kal_listener_seen){ .known = false };
            copy_listener(l, &seen[count]);
        }
        count++;
    }
    pthread_mutex_unlock(&rnic->cm->lock);
    return count;
}

static const char *state_text(enum cm_state state)
{
    static const char *const texts[] = {
        [CM_IDLE] = "idle",
        [CM_CONNECTING] = "connecting",
        [CM_REQUESTED] = "requested",
        [CM_AGAIN] = "connecting",
        [CM_LAST_WORDS] = "converting",
        [CM_STARTING] = "half-open",
        [CM_SHOWING] = "undecided",
        [CM_QUEUED] = "queued",
        [CM_PENDING] = "undecided",
        [CM_MOVING] = "moving",
        [CM_ACCEPTING] = "accepting",
        [CM_CONVERTING] = "converting",
        [CM_REJECTING] = "rejecting",
        [CM_ESTABLISHED] = "established",
        [CM_ENDED] = "ended",
        [CM_FOREIGN] = "of the provider",
    };

    return texts[state];
}

static const char *wire_text(const struct kal_connection *c)
{
    if (!c->local_why)
        return "local";
    return c->stream.ops->carried ? NULL : "tcp";
}

static void copy_connection(struct kal_connection *c, struct kal_connection_seen *seen)
{
    seen->state = "changing";
    if (pthread_mutex_trylock(&c->lifetime.lock))
        return;
    seen->state = state_text(c->state);
    seen->initiator = c->initiator;
    seen->converted = c->conversion;
    seen->awaits_qp = c->awaits_qp;
    seen->local = c->stream.local;
    seen->peer = c->stream.peer;
    if (c->handed && c->state != CM_FOREIGN) {
        seen->wire = wire_text(c);
        seen->local_why = cm_rendezvous_why(c);
    }
    if (c->startup && c->startup->began)
        seen->age_ns = clock_now() - c->startup->began;
    pthread_mutex_unlock(&c->lifetime.lock);
}

size_t kal_cm_connections(struct kal_rnic *rnic, struct kal_connection_seen *seen, size_t room)
{
    struct kal_connection *c;
    size_t count = 0;

    pthread_mutex_lock(&rnic->cm->lock);
    DL_FOREACH (rnic->cm->connections, c) {
        if (count < room) {
            seen[count] = (struct kal_connection_seen){ .age_ns = 0 };
            copy_connection(c, &seen[count]);
            seen[count].carrier = c->carrier;
            seen[count].handover = c->handover;
        }
        count++;
    }
    pthread_mutex_unlock(&rnic->cm->lock);
    return count;
}
