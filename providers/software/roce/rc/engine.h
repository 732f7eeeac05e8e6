/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the engine share. */
#ifndef ITAL_SOFTROCE_ENGINE_H
#define ITAL_SOFTROCE_ENGINE_H

#include "rc.h"
#include "store.h"

/* --- both sides --- */

static inline uint64_t rc_now(const struct rc_qp *qp)
{
    return qp->attr.carrier->now(qp);
}

static inline struct wqe *rc_request(const struct rc_qp *qp, uint32_t index)
{
    return wq_slot(&qp->core.sq, index);
}

static inline uint8_t rc_service(const struct rc_qp *qp)
{
    return qp->attr.unreliable ? BTH_UC : BTH_RC;
}

/* Headers of a packet to the peer; the caller sets what its opcode has beyond them. */
static inline struct bth_packet rc_header(const struct rc_qp *qp, uint8_t opcode, uint32_t psn)
{
    return (struct bth_packet){ .opcode = (uint8_t)(opcode | rc_service(qp)),
                                .mig_req = true,
                                .p_key = BTH_P_KEY,
                                .dest_qpn = qp->attr.dest_qpn,
                                .psn = psn };
}

static inline void batch_open(struct rc_batch *batch)
{
    batch->count = batch->iovs = 0;
}

/* The packet whose payload is in iov[first_iov, iovs). */
static inline void batch_add(struct rc_batch *batch, const struct bth_packet *packet,
                             uint32_t first_iov)
{
    struct rc_out *out = &batch->packets[batch->count++];

    contract(batch->count <= RC_BATCH && batch->iovs <= RC_BATCH_IOVS);
    out->header_len = (uint8_t)bth_put(out->header, packet);
    out->pad = (uint8_t)bth_pad(packet->payload_len);
    out->iov = (uint16_t)first_iov;
    out->iovs = (uint16_t)(batch->iovs - first_iov);
    out->payload_len = packet->payload_len;
}

static inline void batch_add_octets(struct rc_batch *batch, uint8_t *octets, uint32_t length)
{
    batch->iov[batch->iovs++] = (struct iovec){ octets, length };
}

static inline void batch_ask(struct rc_batch *batch, uint32_t which)
{
    batch->packets[which].header[8] |= BTH_ACK_REQ;
}

static inline uint32_t rc_transmit(struct rc_qp *qp, const struct rc_batch *batch)
{
    uint32_t taken = batch->count ? qp->attr.carrier->send(qp, batch) : 0;

    contract(taken <= batch->count);
    return taken;
}

/* Raised by either side. */
static inline void rc_count(atomic_ullong *counter, uint64_t by)
{
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

/* --- requester: inside tx --- */

static inline bool rc_outstanding(const struct rc_requester *req)
{
    return req->una != req->max;
}

/* --- request.c: packets of requests --- */

enum rc_step { RC_BUILT, RC_STALLED, RC_ENDED };

/* The next request that is sent from. */
static inline void rc_set_index(struct rc_qp *qp, uint32_t index)
{
    qp->req.index = index;
    atomic_store_explicit(&qp->core.sq.next, index, memory_order_relaxed);
}

/* --- requester.c --- */

/* rc_send() of RC. */
void rc_send_reliable(struct rc_qp *qp);
/* The request at the cursor, which sends nothing; all before it are done. */
enum rc_step rc_execute_local(struct rc_qp *qp, struct wqe *wqe);
bool rc_batch_has_room(const struct rc_batch *batch);
void rc_note_drained(struct rc_qp *qp);

/* The packet of the request, whose first PSN is known, with this PSN. Nothing but the batch
 * changes. False: *status is why the request fails. */
bool rc_build(struct rc_qp *qp, struct rc_batch *batch, const struct wqe *wqe, uint32_t psn,
              enum ri_wc_status *status);
/* PSNs that this packet takes: of a Read as many as it asks for. A long one is asked for in parts,
 * whose bounds are the same when they are asked for again: a responder knows what it was asked for
 * before, and no more. */
uint32_t rc_part(const struct rc_qp *qp, const struct wqe *wqe, uint32_t psn);
uint32_t rc_request_packets(const struct rc_qp *qp, const struct wqe *wqe);
/* Of UC: the request at the cursor fails, and those behind it are flushed. */
void rc_fail_unreliable(struct rc_qp *qp, struct wqe *wqe, enum ri_wc_status status);
/* Those that are posted now complete flushed. */
void rc_flush_sends(struct rc_qp *qp);
static inline bool rc_is_atomic(const struct wqe *wqe)
{
    return wqe->opcode == RI_WR_ATOMIC_FETCH_ADD || wqe->opcode == RI_WR_ATOMIC_COMPARE_SWAP;
}

/* --- retry.c --- */

/* Everything outstanding is sent again. */
void rc_go_back(struct rc_qp *qp);
/* una is lost, as an answer says: R-010. False: the QP has ended. */
bool rc_lost(struct rc_qp *qp);
/* The receiver was not ready for una: R-011. */
void rc_wait_for_receiver(struct rc_qp *qp, uint8_t syndrome);
/* Something was acknowledged, up to una. */
void rc_progress(struct rc_qp *qp, uint32_t packets, bool by_probe);
/* After sending: una..max is outstanding. */
void rc_watch(struct rc_qp *qp);
void rc_arm(struct rc_qp *qp);
/* Ends the QP, by its oldest request if there is one. */
void rc_unreachable(struct rc_qp *qp, const char *why);
/* The timer has expired. */
void rc_requester_expired(struct rc_qp *qp);

/* --- answers.c --- */

void rc_answer(struct rc_qp *qp, const struct bth_packet *packet);
/* The oldest request is done. */
void rc_finish_head(struct rc_qp *qp, struct wqe *wqe);
/* Ends the QP by a request. */
void rc_fail(struct rc_qp *qp, struct wqe *wqe, enum ri_wc_status status, enum ri_event_type event,
             uint8_t syndrome, const char *detail);

/* --- unreliable.c: UC --- */

/* As rc_send(). Inside tx. */
void rc_send_unreliable(struct rc_qp *qp);
/* Under rx. */
void rc_take_unreliable(struct rc_qp *qp, const struct bth_packet *packet);

/* --- responder: under rx --- */

void rc_responder_take(struct rc_qp *qp, const struct bth_packet *packet);
/* */
bool rc_is_in_turn(const struct rc_responder *rsp, const struct bth_op *op);
bool rc_is_allowed(const struct rc_qp *qp, const struct bth_op *op);

/* --- owed.c: what the responder owes the requester. Under rx, but where it is said --- */

void rc_owe_ack(struct rc_responder *rsp);
void rc_owe_nak(struct rc_responder *rsp);
/* What it has to say is published for rc_flush() and the requester. */
void rc_responder_publish(struct rc_qp *qp);
/* Inside tx or in a pass: adds the acknowledgement to the batch. 0: there is none. */
uint64_t rc_take_owed(struct rc_qp *qp, struct rc_batch *batch);
/* It was not sent: it is owed again, unless there is a newer one. */
void rc_owe_again(struct rc_qp *qp, uint64_t owed);
/* Refuses the packet and ends the QP. receive: in use, or NULL. */
void rc_refuse(struct rc_qp *qp, uint32_t psn, uint8_t syndrome, struct wqe *receive,
               enum ri_wc_status status, enum ri_event_type event, const char *detail);
/* The message under way of UC is dropped without a word. */
void rc_drop_message(struct rc_qp *qp);
void rc_accept(struct rc_qp *qp, uint32_t packets, bool ack_req);

/* --- deliver.c: Sends and Writes in order --- */

void rc_take_send(struct rc_qp *qp, const struct bth_packet *packet);
void rc_take_write(struct rc_qp *qp, const struct bth_packet *packet);
/* The receive of the message under way, or NULL. */
struct wqe *rc_receive_in_use(const struct rc_qp *qp);

/* --- replay.c: Reads and atomics --- */

void rc_take_read(struct rc_qp *qp, const struct bth_packet *packet);
void rc_take_atomic(struct rc_qp *qp, const struct bth_packet *packet);
void rc_take_duplicate_answered(struct rc_qp *qp, const struct bth_packet *packet);
/* Octets of repeated Reads at once, at most. */
#define RC_REPLAY_MOST (UINT64_C(1) << 20)
/* Goes on with responses. */
void rc_read_on(struct rc_qp *qp);

#endif
