/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: the end of a connection object, by kal_connection_destroy or by the caller
 * that has claimed it. */
#include "cm.h"

#include <utlist.h>

void cm_connection_end(struct kal_connection *connection)
{
    struct kal_connection *c = connection;
    struct kal_cm *cm = c->rnic->cm;

    cm_kill(&c->lifetime);
    cm_cancel_timers(c);
    c->kind->end(c);
    if (c->listener)
        cm_listener_leave(c, c->state == CM_PENDING);
    cm_uncount(c);
    pthread_mutex_lock(&cm->lock);
    DL_DELETE(cm->connections, c);
    pthread_mutex_unlock(&cm->lock);
    if (cm_drop(&c->lifetime))
        cm_connection_free(c);
}

void kal_connection_destroy(struct kal_connection *connection)
{
    connection->kind->destroy(connection);
}
