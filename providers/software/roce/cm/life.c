/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Life of a connection: what is told of it, how long it rests, its end.
 */
#include "internal.h"

#include "base/clock.h"

#include <utlist.h>

/* So long a refused request is known: all that it is repeated, if the refusals are lost. */
#define REFUSED_REST (64 * CLOCK_NS_PER_S)
#define ACK_TIMEOUT  19u /* of Linux over RoCE */

void cm_enter(struct cm_manager *manager, uint64_t now)
{
    manager->now = now;
}

void cm_leave(struct cm_manager *manager)
{
    uint64_t next = cm_heap_next(manager);

    if (next == manager->armed)
        return;
    manager->armed = next;
    manager->ops->arm(manager, next);
}

void cm_report(struct cm_conn *conn, enum cm_event_type type, const struct cm_message *message)
{
    const struct cm_event event = { .type = type, .message = message, .service = conn->service };

    if (!conn->released)
        conn->manager->ops->event(conn->manager, conn, &event);
}

void cm_decided(struct cm_conn *conn)
{
    if (!conn->service)
        return;
    DL_DELETE(conn->service->requests, conn);
    *cm_account(conn) -= 1;
    conn->service = NULL;
}

static void stop_resting(struct cm_conn *conn)
{
    if (!conn->rests)
        return;
    DL_DELETE(conn->manager->resting, conn);
    conn->manager->resting_count--;
    conn->rests = false;
}

/* Only what nobody holds any more is counted: the rest is the consumer's. */
void cm_start_resting(struct cm_conn *conn)
{
    struct cm_manager *manager = conn->manager;

    contract(conn->released && !conn->rests);
    if (manager->resting_count == CM_RESTING_MAX)
        cm_end(manager->resting);
    DL_APPEND(manager->resting, conn);
    manager->resting_count++;
    conn->rests = true;
}

void cm_end(struct cm_conn *conn)
{
    struct cm_manager *manager = conn->manager;

    cm_decided(conn);
    stop_resting(conn);
    cm_table_forget(conn);
    cm_heap_set(conn, CM_NEVER);
    conn->state = CM_IDLE;
    if (!conn->released)
        return;
    manager->conns--;
    manager->ops->done(manager, conn);
}

void cm_rest(struct cm_conn *conn, enum cm_state state, uint64_t ns)
{
    cm_decided(conn);
    conn->state = state;
    cm_heap_set(conn, clock_after(conn->manager->now, ns));
    if (conn->released && !conn->rests)
        cm_start_resting(conn);
}

void cm_wait(struct cm_conn *conn)
{
    cm_rest(conn, CM_TIMEWAIT, cm_interval(conn->ack_timeout));
}

/* Its QPN is free for another request. */
void cm_refused(struct cm_conn *conn)
{
    cm_table_remove(conn, CM_BY_PEER_QP);
    conn->refused = true;
    cm_rest(conn, CM_TIMEWAIT, REFUSED_REST);
}

void cm_refuse_again(struct cm_conn *conn)
{
    cm_send_again(conn);
    cm_rest(conn, CM_TIMEWAIT, REFUSED_REST);
}

bool cm_conn_init(struct cm_manager *manager, struct cm_conn *conn)
{
    if (!cm_heap_reserve(manager))
        return false;
    *conn = (struct cm_conn){
        .manager = manager, .ack_timeout = ACK_TIMEOUT, .at = CM_NEVER, .give_up = CM_NEVER
    };
    manager->conns++;
    return true;
}
