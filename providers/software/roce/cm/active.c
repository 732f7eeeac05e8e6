/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The active side: REQ, and the messages that answer it; RTU.
 */
#include "internal.h"

#include "base/clock.h"

/* A peer disconnects what it holds for stale, and rests it. */
#define STALE_PAUSE (2500 * CLOCK_NS_PER_MS)

bool cm_conn_connect(struct cm_conn *conn, const struct cm_address *address,
                     struct cm_message *message, uint64_t give_up, uint64_t now)
{
    struct cm_req *req = &message->req;

    if (conn->state != CM_IDLE || conn->own_id)
        return false;
    cm_enter(conn->manager, now);
    conn->state = CM_REQ_SENT;
    conn->address = *address;
    conn->give_up = give_up;
    conn->own_qpn = req->local_qpn;
    conn->own_guid = req->local_ca_guid;
    conn->service_id = req->service_id;
    conn->ack_timeout = req->primary.local_ack_timeout;
    conn->path_mtu = req->path_mtu;
    cm_take_id(conn);
    req->local_comm_id = conn->own_id;
    message->attribute_id = CM_REQ;
    message->transaction_id = conn->transaction_id;
    cm_send_repeated(conn, message,
                     cm_interval(req->remote_cm_response_timeout) +
                         2 * cm_interval(conn->ack_timeout ? conn->ack_timeout - 1u : 0),
                     req->max_cm_retries);
    cm_leave(conn->manager);
    return true;
}

/* With new IDs: the peer knows the old ones. */
void cm_ask_again(struct cm_conn *conn)
{
    struct cm_message message;
    uint8_t copy[MAD_LEN];

    memcpy(copy, conn->mad, MAD_LEN);
    if (cm_parse(copy, MAD_LEN, &message) != MAD_OK)
        return;
    conn->waits = false;
    cm_table_remove(conn, CM_BY_OWN_ID);
    cm_take_id(conn);
    message.req.local_comm_id = conn->own_id;
    message.req.path_mtu = conn->path_mtu;
    message.transaction_id = conn->transaction_id;
    cm_send_repeated(conn, &message, conn->interval, conn->repeats);
}

bool cm_conn_confirm(struct cm_conn *conn, const void *private_data, uint32_t length, uint64_t now)
{
    if (conn->state != CM_REP_RCVD && conn->state != CM_MRA_REP_SENT)
        return false;
    cm_enter(conn->manager, now);
    conn->state = CM_ESTABLISHED;
    conn->give_up = CM_NEVER;
    cm_send_rtu(conn, private_data, length);
    cm_leave(conn->manager);
    return true;
}

/* --- messages --- */

static void refuse_rep(struct cm_conn *conn, uint16_t reason)
{
    const struct cm_rejection why = { .reason = reason };

    cm_send_rej(conn, CM_ANSWERED_REP, &why);
    cm_report(conn, CM_EVENT_REJECTED, NULL);
    cm_refused(conn);
}

static void take_rep(struct cm_conn *conn, const struct cm_message *message)
{
    const struct cm_rep *rep = &message->rep;
    struct cm_conn *old = cm_table_by_peer_qp(conn->manager, &conn->address, rep->local_ca_guid,
                                              rep->local_qpn);

    conn->peer_id = rep->local_comm_id;
    conn->peer_guid = rep->local_ca_guid;
    conn->peer_qpn = rep->local_qpn;
    cm_table_add(conn, CM_BY_PEER_ID);
    if (rep->local_qpn < 2) {
        refuse_rep(conn, CM_REJ_NO_QP);
    } else if (old && !cm_give_way(old)) {
        refuse_rep(conn, CM_REJ_STALE_CONN);
    } else {
        cm_table_add(conn, CM_BY_PEER_QP);
        conn->state = CM_REP_RCVD;
        cm_heap_set(conn, CM_NEVER);
        cm_report(conn, CM_EVENT_REP, message);
    }
}

void cm_on_rep(struct cm_manager *manager, const struct cm_address *from,
               const struct cm_message *message)
{
    struct cm_conn *conn = cm_table_by_own_id(manager, from, message->rep.remote_comm_id, false);

    if (!conn || conn->passive || !message->rep.local_comm_id)
        manager->strangers++;
    else if (conn->state == CM_REQ_SENT || conn->state == CM_MRA_REQ_RCVD)
        take_rep(conn, message);
    else if (message->rep.local_comm_id != conn->peer_id)
        manager->strangers++;
    else if (conn->state == CM_REP_RCVD || conn->state == CM_MRA_REP_SENT) {
        conn->state = CM_MRA_REP_SENT;
        cm_send_mra(conn, CM_ANSWERED_REP);
    } else if (conn->state == CM_ESTABLISHED) {
        cm_send_again(conn); /* RTU (M-034) */
    } else if (conn->state == CM_TIMEWAIT && conn->refused) {
        cm_refuse_again(conn);
    }
}

/* The peer needs more time (M-033). */
static void be_patient(struct cm_conn *conn, enum cm_state state, const struct cm_message *message)
{
    uint8_t code = message->mra.service_timeout;
    uint64_t at = clock_after(conn->manager->now,
                              cm_timeout_ns(code < CM_CODE_MRA_MAX ? code : CM_CODE_MRA_MAX) +
                                  cm_interval(conn->ack_timeout));

    conn->state = state;
    cm_heap_set(conn, at < conn->give_up ? at : conn->give_up);
}

void cm_on_mra(struct cm_manager *manager, const struct cm_address *from,
               const struct cm_message *message)
{
    const struct cm_mra *mra = &message->mra;
    struct cm_conn *conn = cm_table_by_own_id(manager, from, mra->remote_comm_id, false);

    if (!conn) {
        manager->strangers++;
    } else if (mra->message_mraed == CM_ANSWERED_REQ) {
        if ((conn->state == CM_REQ_SENT && !conn->waits) || conn->state == CM_MRA_REQ_RCVD)
            be_patient(conn, CM_MRA_REQ_RCVD, message);
    } else if (mra->message_mraed == CM_ANSWERED_REP && mra->local_comm_id == conn->peer_id) {
        if (conn->state == CM_REP_SENT || conn->state == CM_MRA_REP_RCVD)
            be_patient(conn, CM_MRA_REP_RCVD, message);
    }
}

/* --- REJ, to either side --- */

/* A REJ of who gave up names no ID of ours, but its own, and its CA GUID (M-030). */
static struct cm_conn *rejected(struct cm_manager *manager, const struct cm_address *from,
                                const struct cm_rej *rej)
{
    struct cm_conn *conn;
    uint64_t guid = 0;

    if (rej->remote_comm_id) {
        conn = cm_table_by_own_id(manager, from, rej->remote_comm_id, false);
        return !conn || !rej->local_comm_id || !conn->in[CM_BY_PEER_ID] ||
                       conn->peer_id == rej->local_comm_id
                   ? conn
                   : NULL;
    }
    if (rej->reason != CM_REJ_TIMEOUT)
        return NULL;
    conn = cm_table_by_peer_id(manager, from, rej->local_comm_id, false);
    for (int i = 0; i < 8; i++)
        guid = guid << 8 | rej->ari[i];
    return conn && (rej->reject_info_length < 8 || guid == conn->peer_guid) ? conn : NULL;
}

static void try_later(struct cm_conn *conn)
{
    uint64_t at = clock_after(conn->manager->now, STALE_PAUSE);

    conn->again = conn->waits = true;
    conn->state = CM_REQ_SENT;
    cm_heap_set(conn, at < conn->give_up ? at : conn->give_up);
}

/* {M-043} The peer's way takes less, and it says what. */
static bool offers_mtu(struct cm_conn *conn, const struct cm_message *message)
{
    const struct cm_rej *rej = &message->rej;

    if (rej->reason != CM_REJ_INVALID_MTU || !rej->reject_info_length || !rej->ari[0] ||
        rej->ari[0] >= conn->path_mtu)
        return false;
    conn->path_mtu = rej->ari[0];
    return true;
}

static void req_rejected(struct cm_conn *conn, const struct cm_message *message)
{
    if (conn->waits) /* the same once more */
        return;
    if (message->rej.reason == CM_REJ_STALE_CONN && !conn->again) {
        try_later(conn);
        return;
    }
    if (offers_mtu(conn, message)) {
        cm_ask_again(conn);
        return;
    }
    cm_report(conn, CM_EVENT_REJECTED, message);
    cm_end(conn);
}

void cm_on_rej(struct cm_manager *manager, const struct cm_address *from,
               const struct cm_message *message)
{
    struct cm_conn *conn = rejected(manager, from, &message->rej);

    if (!conn) {
        manager->strangers++;
        return;
    }
    switch (conn->state) {
    case CM_REQ_SENT:
    case CM_MRA_REQ_RCVD: req_rejected(conn, message); break;
    case CM_REQ_RCVD:
    case CM_MRA_REQ_SENT: /* withdrawn */
        cm_report(conn, CM_EVENT_REJECTED, message);
        cm_table_remove(conn, CM_BY_PEER_QP);
        cm_wait(conn);
        break;
    case CM_REP_SENT:
    case CM_MRA_REP_RCVD:
    case CM_REP_RCVD:
    case CM_MRA_REP_SENT:
        cm_report(conn, CM_EVENT_REJECTED, message);
        cm_wait(conn);
        break;
    case CM_DREQ_SENT:
        cm_report(conn, CM_EVENT_DISCONNECTED, NULL);
        cm_wait(conn);
        break;
    default: break;
    }
}
