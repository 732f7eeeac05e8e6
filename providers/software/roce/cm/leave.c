/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What ends without the peer's word: the consumer releases a connection, or time passes.
 */
#include "internal.h"

/* --- release --- */

/* Repetitions without an answer. */
#define SILENT_AFTER 3

static const struct cm_rejection by_consumer = { .reason = CM_REJ_CONSUMER_DEFINED };

static void withdraw(struct cm_conn *conn)
{
    uint8_t guid[8];
    const struct cm_rejection why = { .reason = CM_REJ_TIMEOUT, .ari = guid, .ari_length = 8 };

    for (int i = 0; i < 8; i++)
        guid[i] = (uint8_t)(conn->own_guid >> (56 - 8 * i));
    if (!conn->waits)
        cm_send_rej(conn, CM_ANSWERED_NONE, &why);
}

/* Whoever has not heard of the REP takes the REJ, whoever has takes the DREQ. */
static void leave_early(struct cm_conn *conn)
{
    cm_send_rej(conn, CM_ANSWERED_NONE, &by_consumer);
    cm_send_dreq(conn, NULL, 0);
}

static void release(struct cm_conn *conn)
{
    switch (conn->state) {
    case CM_REQ_SENT:
    case CM_MRA_REQ_RCVD:
        withdraw(conn);
        cm_end(conn);
        break;
    case CM_REQ_RCVD:
    case CM_MRA_REQ_SENT:
        cm_send_rej(conn, CM_ANSWERED_REQ, &by_consumer);
        cm_refused(conn);
        break;
    case CM_REP_RCVD:
    case CM_MRA_REP_SENT:
        cm_send_rej(conn, CM_ANSWERED_REP, &by_consumer);
        cm_refused(conn);
        break;
    case CM_REP_SENT:
    case CM_MRA_REP_RCVD: leave_early(conn); break;
    case CM_ESTABLISHED: cm_send_dreq(conn, NULL, 0); break;
    case CM_DREQ_SENT: break;
    case CM_TIMEWAIT:
    case CM_SIDR_ANSWERED: cm_start_resting(conn); break;
    case CM_SIDR_REQ_RCVD: cm_sidr_refuse(conn); break;
    case CM_IDLE:
    case CM_SIDR_REQ_SENT: cm_end(conn); break;
    }
}

void cm_conn_release(struct cm_conn *conn, uint64_t now)
{
    struct cm_manager *manager = conn->manager;

    contract(!conn->released);
    cm_enter(manager, now);
    conn->released = true;
    release(conn);
    cm_leave(manager);
}

/* --- time --- */

static void unanswered(struct cm_conn *conn)
{
    switch (conn->state) {
    case CM_REQ_SENT:
    case CM_MRA_REQ_RCVD:
        withdraw(conn);
        cm_report(conn, CM_EVENT_UNREACHABLE, NULL);
        cm_end(conn);
        break;
    case CM_SIDR_REQ_SENT:
        cm_report(conn, CM_EVENT_UNREACHABLE, NULL);
        cm_end(conn);
        break;
    case CM_DREQ_SENT:
        cm_report(conn, CM_EVENT_DISCONNECTED, NULL);
        cm_wait(conn);
        break;
    default: /* REP */
        cm_report(conn, CM_EVENT_UNREACHABLE, NULL);
        cm_wait(conn);
        break;
    }
}

static void report_silence(struct cm_conn *conn)
{
    if (conn->silent || conn->repeats - conn->repeats_left < SILENT_AFTER ||
        (conn->state != CM_REQ_SENT && conn->state != CM_SIDR_REQ_SENT))
        return;
    conn->silent = true;
    cm_report(conn, CM_EVENT_SILENT, NULL);
}

static void expired(struct cm_conn *conn)
{
    switch (conn->state) {
    case CM_TIMEWAIT:
        if (!conn->refused)
            cm_report(conn, CM_EVENT_TIMEWAIT_EXIT, NULL);
        cm_end(conn);
        return;
    case CM_SIDR_ANSWERED: cm_end(conn); return;
    case CM_MRA_REQ_RCVD: conn->state = CM_REQ_SENT; break;
    case CM_MRA_REP_RCVD: conn->state = CM_REP_SENT; break;
    default: break;
    }
    if (conn->manager->now >= conn->give_up)
        unanswered(conn);
    else if (conn->waits)
        cm_ask_again(conn);
    else if (!cm_repeat(conn))
        unanswered(conn);
    else
        report_silence(conn);
}

void cm_manager_expired(struct cm_manager *manager, uint64_t now)
{
    struct cm_conn *conn;

    cm_enter(manager, now);
    manager->armed = CM_NEVER;
    while ((conn = cm_heap_due(manager, now)))
        expired(conn);
    cm_leave(manager);
}
