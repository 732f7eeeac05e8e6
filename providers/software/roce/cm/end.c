/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The end of a connection: rejections of this side, DREQ and DREP.
 */
#include "internal.h"

bool cm_conn_reject(struct cm_conn *conn, uint16_t reason, const void *ari, uint8_t ari_length,
                    const void *private_data, uint32_t length, uint64_t now)
{
    const struct cm_rejection why = { .reason = reason,
                                      .ari = ari,
                                      .ari_length = ari_length,
                                      .private_data = private_data,
                                      .length = length };
    bool request = conn->state == CM_REQ_RCVD || conn->state == CM_MRA_REQ_SENT;

    if (!request && conn->state != CM_REP_RCVD && conn->state != CM_MRA_REP_SENT)
        return false;
    cm_enter(conn->manager, now);
    cm_send_rej(conn, request ? CM_ANSWERED_REQ : CM_ANSWERED_REP, &why);
    cm_refused(conn);
    cm_leave(conn->manager);
    return true;
}

bool cm_conn_disconnect(struct cm_conn *conn, const void *private_data, uint32_t length,
                        uint64_t give_up, uint64_t now)
{
    if (conn->state != CM_ESTABLISHED)
        return false;
    cm_enter(conn->manager, now);
    conn->give_up = give_up;
    cm_send_dreq(conn, private_data, length);
    cm_leave(conn->manager);
    return true;
}

/* The peer leaves. */
static void left(struct cm_conn *conn, const struct cm_message *message)
{
    switch (conn->state) {
    case CM_REP_SENT:
    case CM_MRA_REP_RCVD: /* its RTU was lost */
        cm_report(conn, CM_EVENT_ESTABLISHED, NULL);
        cm_report(conn, CM_EVENT_DISCONNECTED, message);
        cm_wait(conn);
        break;
    case CM_REP_RCVD:
    case CM_MRA_REP_SENT:
        cm_report(conn, CM_EVENT_REJECTED, message);
        cm_wait(conn);
        break;
    case CM_ESTABLISHED:
    case CM_DREQ_SENT:
        cm_report(conn, CM_EVENT_DISCONNECTED, message);
        cm_wait(conn);
        break;
    default: break;
    }
}

/* Who leaves is answered even if nothing is known of it: it would ask again (M-035). */
void cm_on_dreq(struct cm_manager *manager, const struct cm_address *from,
                const struct cm_message *message)
{
    const struct cm_dreq *dreq = &message->dreq;
    struct cm_conn *conn = cm_table_by_own_id(manager, from, dreq->remote_comm_id, false);
    bool known = conn && conn->peer_id == dreq->local_comm_id && conn->in[CM_BY_PEER_ID];

    if (known && dreq->remote_qpn != conn->own_qpn) {
        manager->strangers++;
        return;
    }
    cm_send_drep(manager, from, message);
    if (known)
        left(conn, message);
}

void cm_on_drep(struct cm_manager *manager, const struct cm_address *from,
                const struct cm_message *message)
{
    struct cm_conn *conn = cm_table_by_own_id(manager, from, message->drep.remote_comm_id, false);

    if (!conn || conn->peer_id != message->drep.local_comm_id) {
        manager->strangers++;
    } else if (conn->state == CM_DREQ_SENT) {
        cm_report(conn, CM_EVENT_DISCONNECTED, message);
        cm_wait(conn);
    }
}

/* --- what is in the way --- */

bool cm_give_way(struct cm_conn *old)
{
    switch (old->state) {
    case CM_TIMEWAIT: cm_table_remove(old, CM_BY_PEER_QP); return true;
    case CM_ESTABLISHED: cm_send_dreq(old, NULL, 0); break;
    case CM_REQ_RCVD:
    case CM_MRA_REQ_SENT:
    case CM_REP_SENT:
    case CM_MRA_REP_RCVD:
        cm_report(old, CM_EVENT_UNREACHABLE, NULL);
        cm_wait(old);
        break;
    default: break;
    }
    return false;
}
