/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection: its memory, and the list of those of which there is something to tell.
 */
#include "connection.h"

#include <stdlib.h>
#include <utlist.h>

/* --- memory: under cm.lock --- */

struct roce_connection *roce_connection_new(struct roce_rnic *device)
{
    struct roce_connection *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->base.ops = device->core.base.ops;
    c->device = device;
    if (cm_conn_init(&device->cm.manager, &c->cm)) {
        device->cm.connections++;
        return c;
    }
    free(c);
    return NULL;
}

void roce_connection_release(struct roce_connection *c)
{
    roce_decided(c);
    c->device->cm.connections--;
    cm_conn_release(&c->cm, clock_now());
}

static struct roce_connection *next_waiting(struct roce_listener *listener)
{
    struct cm_conn *conn;

    DL_FOREACH (listener->service.requests, conn) {
        struct roce_connection *c = container_of(conn, struct roce_connection, cm);

        if (c->listener && !c->listed)
            return c;
    }
    return NULL;
}

void roce_decided(struct roce_connection *c)
{
    struct roce_listener *listener = c->shown_by;
    struct roce_connection *next;

    if (!listener)
        return;
    c->shown_by = NULL;
    listener->shown--;
    next = next_waiting(listener);
    if (!next)
        return;
    roce_add_report(next, REPORT_REQUEST);
    roce_wake_lane(c->device);
}

/* --- reports that wait --- */

void roce_add_report(struct roce_connection *c, enum roce_report kind)
{
    c->reports |= 1u << kind;
    if (c->listed)
        return;
    c->listed = true;
    DL_APPEND(c->device->cm.reporting, c);
    atomic_store(&c->device->cm.has_reports, true);
}

void roce_wake_lane(struct roce_rnic *device)
{
    const struct ri_host *host = device->core.host;

    host->wake(host, device->core.lanes[0]->base.context);
}

void roce_silence_connection(struct roce_connection *c)
{
    struct roce_cm *cm = &c->device->cm;

    if (c->listed)
        DL_DELETE(cm->reporting, c);
    c->listed = true; /* nothing more is noted */
    c->reports = 0;
    while (c->upcalls)
        pthread_cond_wait(&cm->reported, &cm->lock);
    c->reports = 0;
}
