/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages out. What is repeated is kept as octets, so a repetition is the same (M-002).
 */
#include "internal.h"

#include "base/clock.h"

/* The first pause: UDP loses datagrams (M-031). */
#define FIRST_PAUSE (500 * CLOCK_NS_PER_MS)
/* So that the peer does not ask again while the consumer decides: what Linux says. */
#define MRA_CODE 24u

static void put(uint8_t mad[static MAD_LEN], const struct cm_message *message)
{
    enum mad_result result = cm_put(mad, message);

    contract(result == MAD_OK);
    (void)result;
}

void cm_send(struct cm_manager *manager, const struct cm_address *to,
             const struct cm_message *message)
{
    uint8_t mad[MAD_LEN];

    put(mad, message);
    manager->ops->send(manager, to, mad);
}

void cm_keep(struct cm_conn *conn, const struct cm_message *message)
{
    put(conn->mad, message);
}

void cm_send_again(struct cm_conn *conn)
{
    conn->manager->ops->send(conn->manager, &conn->address, conn->mad);
}

static void set_timer(struct cm_conn *conn, uint64_t ns)
{
    uint64_t at = clock_after(conn->manager->now, ns);

    cm_heap_set(conn, at < conn->give_up ? at : conn->give_up);
}

void cm_send_repeated(struct cm_conn *conn, const struct cm_message *message, uint64_t interval,
                      uint8_t repeats)
{
    cm_keep(conn, message);
    conn->interval = interval;
    conn->pause = interval < FIRST_PAUSE ? interval : FIRST_PAUSE;
    conn->repeats_left = conn->repeats = repeats;
    set_timer(conn, conn->pause);
    cm_send_again(conn);
}

bool cm_repeat(struct cm_conn *conn)
{
    if (!conn->repeats_left)
        return false;
    conn->repeats_left--;
    conn->pause = 2 * conn->pause < conn->interval ? 2 * conn->pause : conn->interval;
    set_timer(conn, conn->pause);
    cm_send_again(conn);
    return true;
}

void cm_send_rtu(struct cm_conn *conn, const void *private_data, uint32_t length)
{
    const struct cm_message message = { .attribute_id = CM_RTU,
                                        .transaction_id = conn->transaction_id,
                                        .rtu = { conn->own_id, conn->peer_id },
                                        .private_data = private_data,
                                        .private_len = length };

    cm_keep(conn, &message);
    cm_send_again(conn);
}

void cm_send_mra(struct cm_conn *conn, enum cm_answered what)
{
    const struct cm_message message = { .attribute_id = CM_MRA,
                                        .transaction_id = conn->transaction_id,
                                        .mra = { .local_comm_id = conn->own_id,
                                                 .remote_comm_id = conn->peer_id,
                                                 .message_mraed = (uint8_t)what,
                                                 .service_timeout = MRA_CODE } };

    cm_send(conn->manager, &conn->address, &message);
}

void cm_send_drep(struct cm_manager *manager, const struct cm_address *to,
                  const struct cm_message *dreq)
{
    const struct cm_message message = { .attribute_id = CM_DREP,
                                        .transaction_id = dreq->transaction_id,
                                        .drep = { dreq->dreq.remote_comm_id,
                                                  dreq->dreq.local_comm_id } };

    cm_send(manager, to, &message);
}

void cm_send_dreq(struct cm_conn *conn, const void *private_data, uint32_t length)
{
    const struct cm_message message = { .attribute_id = CM_DREQ,
                                        .transaction_id = conn->transaction_id,
                                        .dreq = { conn->own_id, conn->peer_id, conn->peer_qpn },
                                        .private_data = private_data,
                                        .private_len = length };

    conn->state = CM_DREQ_SENT;
    cm_send_repeated(conn, &message, conn->interval, conn->repeats);
}

/* --- refusals --- */

static struct cm_message rejection(uint64_t transaction_id, const struct cm_rejection *why,
                                   enum cm_answered what, uint32_t own_id, uint32_t peer_id)
{
    return (struct cm_message){ .attribute_id = CM_REJ,
                                .transaction_id = transaction_id,
                                .rej = { .local_comm_id = own_id,
                                         .remote_comm_id = peer_id,
                                         .message_rejected = (uint8_t)what,
                                         .reject_info_length = why->ari_length,
                                         .reason = why->reason,
                                         .ari = why->ari },
                                .private_data = why->private_data,
                                .private_len = why->length };
}

void cm_refuse_req(struct cm_manager *manager, const struct cm_address *to,
                   const struct cm_message *req, const struct cm_rejection *why)
{
    const struct cm_message message = rejection(req->transaction_id, why, CM_ANSWERED_REQ, 0,
                                                req->req.local_comm_id);

    cm_send(manager, to, &message);
}

void cm_send_rej(struct cm_conn *conn, enum cm_answered what, const struct cm_rejection *why)
{
    const struct cm_message message = rejection(conn->transaction_id, why, what, conn->own_id,
                                                conn->peer_id);

    cm_keep(conn, &message);
    cm_send_again(conn);
}

void cm_refuse_sidr(struct cm_manager *manager, const struct cm_address *to,
                    const struct cm_message *req, enum cm_sidr_status status)
{
    const struct cm_message message = { .attribute_id = CM_SIDR_REP,
                                        .transaction_id = req->transaction_id,
                                        .sidr_rep = { .request_id = req->sidr_req.request_id,
                                                      .status = (uint8_t)status,
                                                      .service_id = req->sidr_req.service_id } };

    cm_send(manager, to, &message);
}
