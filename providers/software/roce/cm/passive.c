/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The passive side: requests, their duplicates, what is stale; REP, and its end by RTU or data.
 */
#include "internal.h"

/* --- duplicates --- */

static bool is_same(const struct cm_conn *conn, const struct cm_message *message)
{
    return conn->transaction_id == message->transaction_id &&
           conn->peer_guid == message->req.local_ca_guid &&
           conn->peer_qpn == message->req.local_qpn;
}

/* {M-032} True: this was all. */
static bool is_duplicate(struct cm_conn *conn, const struct cm_address *from,
                         const struct cm_message *message)
{
    static const struct cm_rejection reused = { .reason = CM_REJ_DUPLICATE_LOCAL_COMM_ID };

    if (!is_same(conn, message)) {
        if (conn->state == CM_TIMEWAIT)
            cm_table_forget(conn);
        else
            cm_refuse_req(conn->manager, from, message, &reused);
        return conn->state != CM_TIMEWAIT;
    }
    switch (conn->state) {
    case CM_REQ_RCVD:
    case CM_MRA_REQ_SENT:
        conn->state = CM_MRA_REQ_SENT;
        cm_send_mra(conn, CM_ANSWERED_REQ);
        break;
    case CM_REP_SENT:
    case CM_MRA_REP_RCVD: cm_send_again(conn); break;
    case CM_TIMEWAIT:
        if (conn->refused)
            cm_refuse_again(conn);
        break;
    default: break;
    }
    return true;
}

/* --- REQ --- */

static void refuse(struct cm_manager *manager, const struct cm_address *from,
                   const struct cm_message *message, uint16_t reason)
{
    const struct cm_rejection why = { .reason = reason };

    cm_refuse_req(manager, from, message, &why);
}

static bool passes_check(struct cm_manager *manager, const struct cm_address *from,
                         const struct cm_message *message)
{
    uint8_t ari;
    struct cm_rejection why = { .ari = &ari };

    why.reason = cm_check_req(message, from, manager->mtu_code, &ari, &why.ari_length);
    if (why.reason)
        cm_refuse_req(manager, from, message, &why);
    return !why.reason;
}

static void take_req(struct cm_manager *manager, struct cm_service *service,
                     const struct cm_address *from, const struct cm_message *message)
{
    const struct cm_req *req = &message->req;
    struct cm_conn *conn = cm_service_take(manager, service, from);

    if (!conn)
        return;
    conn->state = CM_REQ_RCVD;
    conn->own_id = cm_fresh_id(manager);
    conn->peer_id = req->local_comm_id;
    conn->peer_guid = req->local_ca_guid;
    conn->peer_qpn = req->local_qpn;
    conn->transaction_id = message->transaction_id;
    conn->service_id = req->service_id;
    conn->ack_timeout = req->primary.local_ack_timeout;
    conn->interval = cm_interval(req->local_cm_response_timeout);
    conn->repeats = req->max_cm_retries;
    cm_table_add(conn, CM_BY_OWN_ID);
    cm_table_add(conn, CM_BY_PEER_ID);
    cm_table_add(conn, CM_BY_PEER_QP);
    cm_report(conn, CM_EVENT_REQUEST, message);
}

void cm_on_req(struct cm_manager *manager, const struct cm_address *from,
               const struct cm_message *message)
{
    const struct cm_req *req = &message->req;
    struct cm_conn *old = cm_table_by_peer_id(manager, from, req->local_comm_id, false);
    struct cm_service *service;

    if (!req->local_comm_id) {
        manager->malformed++;
        return;
    }
    if ((old && is_duplicate(old, from, message)) || !passes_check(manager, from, message))
        return;
    old = cm_table_by_peer_qp(manager, from, req->local_ca_guid, req->local_qpn);
    if (old && !cm_give_way(old)) {
        refuse(manager, from, message, CM_REJ_STALE_CONN);
        return;
    }
    service = cm_service_find(manager, req->service_id, from->own, false);
    if (service)
        take_req(manager, service, from, message);
    else
        refuse(manager, from, message, CM_REJ_INVALID_SERVICE_ID);
}

/* --- REP --- */

bool cm_conn_accept(struct cm_conn *conn, struct cm_message *message, uint64_t now)
{
    if (conn->state != CM_REQ_RCVD && conn->state != CM_MRA_REQ_SENT)
        return false;
    cm_enter(conn->manager, now);
    cm_decided(conn);
    conn->state = CM_REP_SENT;
    conn->own_qpn = message->rep.local_qpn;
    conn->own_guid = message->rep.local_ca_guid;
    message->attribute_id = CM_REP;
    message->transaction_id = conn->transaction_id;
    message->rep.local_comm_id = conn->own_id;
    message->rep.remote_comm_id = conn->peer_id;
    cm_send_repeated(conn, message, conn->interval, conn->repeats);
    cm_leave(conn->manager);
    return true;
}

static bool waits_for_rtu(const struct cm_conn *conn)
{
    return conn->state == CM_REP_SENT || conn->state == CM_MRA_REP_RCVD;
}

static void established(struct cm_conn *conn, const struct cm_message *rtu)
{
    conn->state = CM_ESTABLISHED;
    cm_heap_set(conn, CM_NEVER);
    cm_report(conn, CM_EVENT_ESTABLISHED, rtu);
}

void cm_conn_heard(struct cm_conn *conn, uint64_t now)
{
    if (!waits_for_rtu(conn))
        return;
    cm_enter(conn->manager, now);
    established(conn, NULL);
    cm_leave(conn->manager);
}

void cm_on_rtu(struct cm_manager *manager, const struct cm_address *from,
               const struct cm_message *message)
{
    struct cm_conn *conn = cm_table_by_own_id(manager, from, message->rtu.remote_comm_id, false);

    if (!conn || conn->peer_id != message->rtu.local_comm_id)
        manager->strangers++;
    else if (waits_for_rtu(conn))
        established(conn, message);
}
