/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: the end of a connection object, by kal_connection_destroy or by the caller
 * that has claimed it. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "cm.h"

#include <utlist.h>

/* ---- set A: the provider's object ---- */

/* Waits for upcalls of the provider. Later upcalls find the connection dead and return. */
static void destroy_foreign(struct kal_connection *connection)
{
    struct kal_rnic *rnic = connection->rnic;
    struct ri_connection *ri = connection->ri;

    connection->ri = NULL;
    rnic->ops.connection_destroy(ri);
}

void cm_a_refuse(struct kal_rnic *rnic, struct ri_connection *ri, bool datagram)
{
    struct ri_service_reply reply = { .size = sizeof reply, .status = RI_SERVICE_REJECTED };

    if (datagram)
        rnic->ops.service_reply(ri, &reply);
    else
        rnic->ops.reject(ri, NULL, 0);
}

/* The next run destroys the object, because the provider's upcall is still running here. */
void cm_a_orphan(struct kal_connection *connection)
{
    struct kal_cm *cm = connection->rnic->cm;

    cm_assert_locked(&connection->guard);
    pthread_mutex_lock(&cm->lock);
    connection->orphan = true;
    pthread_mutex_unlock(&cm->lock);
    cm_schedule(connection);
}

bool cm_a_adopt(struct kal_connection *connection)
{
    struct kal_cm *cm = connection->rnic->cm;
    bool ours;

    pthread_mutex_lock(&cm->lock);
    ours = connection->orphan;
    connection->orphan = false;
    pthread_mutex_unlock(&cm->lock);
    return ours;
}

/* ---- the object ---- */

void cm_connection_end(struct kal_connection *connection)
{
    struct kal_connection *c = connection;
    struct kal_cm *cm = c->rnic->cm;

    cm_kill(&c->guard);
    cm_reset_unanswered(c);
    cm_unwatch(c);
    cm_cancel_timers(c);
    cm_rendezvous_end(c);
    if (c->ri)
        destroy_foreign(c);
    if (c->listener)
        cm_listener_leave(c, c->state == CM_PENDING);
    if (c->state == CM_REJECTING)
        cm_to_linger(c);
    cm_stream_close(&c->stream, c->conversion);
    cm_detach(c);
    cm_uncount(c);
    pthread_mutex_lock(&cm->lock);
    DL_DELETE(cm->connections, c);
    pthread_mutex_unlock(&cm->lock);
    if (cm_drop(&c->guard))
        cm_connection_free(c);
}

void kal_connection_destroy(struct kal_connection *connection)
{
    struct kal_connection *c = connection;
    bool later;

    /* A provider's own connection may not be destroyed inside its upcall. */
    pthread_mutex_lock(&c->guard.lock);
    later = c->ri && cm_inside(&c->guard);
    if (later) {
        if (c->listener)
            cm_listener_leave(c, c->state == CM_PENDING);
        c->state = CM_ENDED;
        cm_a_orphan(c);
    }
    pthread_mutex_unlock(&c->guard.lock);
    if (!later)
        cm_connection_end(c);
}
