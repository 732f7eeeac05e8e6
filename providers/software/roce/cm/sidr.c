/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Service resolution for datagrams: one question, one answer, which is kept for a while because the
 * question may come again (M-060 to M-062).
 */
#include "internal.h"

#include "base/clock.h"

/* All the time that a question is repeated, if the answers are lost. */
#define ANSWER_KEPT (64 * CLOCK_NS_PER_S)

/* --- who asks --- */

bool cm_conn_ask(struct cm_conn *conn, const struct cm_address *address, struct cm_message *message,
                 uint8_t response_timeout, uint8_t retries, uint64_t give_up, uint64_t now)
{
    if (conn->state != CM_IDLE || conn->own_id)
        return false;
    cm_enter(conn->manager, now);
    conn->state = CM_SIDR_REQ_SENT;
    conn->address = *address;
    conn->give_up = give_up;
    conn->service_id = message->sidr_req.service_id;
    cm_take_id(conn);
    message->attribute_id = CM_SIDR_REQ;
    message->transaction_id = conn->transaction_id;
    message->sidr_req.request_id = conn->own_id;
    cm_send_repeated(conn, message, cm_interval(response_timeout), retries);
    cm_leave(conn->manager);
    return true;
}

void cm_on_sidr_rep(struct cm_manager *manager, const struct cm_address *from,
                    const struct cm_message *message)
{
    struct cm_conn *conn = cm_table_by_own_id(manager, from, message->sidr_rep.request_id, true);

    if (!conn || conn->state != CM_SIDR_REQ_SENT) {
        manager->strangers++;
        return;
    }
    cm_report(conn, CM_EVENT_SIDR_REP, message);
    cm_end(conn);
}

/* --- who answers --- */

static void answer(struct cm_conn *conn, struct cm_message *message)
{
    message->attribute_id = CM_SIDR_REP;
    message->transaction_id = conn->transaction_id;
    message->sidr_rep.request_id = conn->peer_id;
    message->sidr_rep.service_id = conn->service_id;
    cm_keep(conn, message);
    cm_send_again(conn);
    cm_rest(conn, CM_SIDR_ANSWERED, ANSWER_KEPT);
}

bool cm_conn_answer(struct cm_conn *conn, struct cm_message *message, uint64_t now)
{
    if (conn->state != CM_SIDR_REQ_RCVD)
        return false;
    cm_enter(conn->manager, now);
    answer(conn, message);
    cm_leave(conn->manager);
    return true;
}

void cm_sidr_refuse(struct cm_conn *conn)
{
    struct cm_message message = { .sidr_rep = { .status = CM_SIDR_REJECT } };

    answer(conn, &message);
}

static void answer_again(struct cm_conn *conn)
{
    cm_send_again(conn);
    cm_rest(conn, CM_SIDR_ANSWERED, ANSWER_KEPT);
}

static void take(struct cm_manager *manager, struct cm_service *service,
                 const struct cm_address *from, const struct cm_message *message)
{
    struct cm_conn *conn = cm_service_take(manager, service, from);

    if (!conn)
        return;
    conn->state = CM_SIDR_REQ_RCVD;
    conn->peer_id = message->sidr_req.request_id;
    conn->transaction_id = message->transaction_id;
    conn->service_id = message->sidr_req.service_id;
    cm_table_add(conn, CM_BY_PEER_ID);
    cm_report(conn, CM_EVENT_REQUEST, message);
}

void cm_on_sidr_req(struct cm_manager *manager, const struct cm_address *from,
                    const struct cm_message *message)
{
    struct cm_conn *old = cm_table_by_peer_id(manager, from, message->sidr_req.request_id, true);
    enum cm_sidr_status status = cm_check_sidr(message, from);
    struct cm_service *service;

    if (old) {
        if (old->state == CM_SIDR_ANSWERED) /* else it is being decided */
            answer_again(old);
        return;
    }
    service = cm_service_find(manager, message->sidr_req.service_id, from->own, true);
    if (status == CM_SIDR_SUCCESS && service)
        take(manager, service, from, message);
    else
        cm_refuse_sidr(manager, from, message, status ? status : CM_SIDR_UNSUPPORTED);
}
