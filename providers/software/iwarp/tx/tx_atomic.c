/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, RFC 7306: this side's Atomic Requests and Immediate Data, and the execution of the
 * peer's atomics.
 *
 * A peer's atomic is executed when its answer is built, or before a later Send or Write is
 * (tx_fetch.c), in its place among the answers to Reads: a Read that came before it has fetched its
 * data by then (an atomic is in no batch that names the source of a Read before it), one that came
 * after it fetches later. Two
 * lanes or QPs may execute atomics on the same word at once: the processor's compare-and-exchange
 * makes each of them atomic.
 */
#include "fpdu.h"
#include "providers/software/core/guard.h"
#include "providers/software/iwarp/codec/rdmap.h"
#include "providers/software/iwarp/codec/terminate.h"
#include "providers/software/core/regions.h"

/* --- ours --- */

bool tx_immediate(struct iwarp_qp *qp, const struct wqe *wqe)
{
    bool solicited = wqe->flags & RI_WR_SOLICITED;
    bool fused = atomic_load_explicit(&qp->core.attr.fused, memory_order_relaxed);
    struct fpdu fpdu;
    uint8_t *at = fpdu_begin(qp, &fpdu);
    uint32_t head = ddp_put_untagged_fpdu(at, RDMAP_IMM_LEN, true,
                                          rdmap_ctrl(solicited ? RDMAP_IMM_SE : RDMAP_IMM), 0,
                                          DDP_QN_SEND, qp->tx.send_msn++, 0);

    rdmap_put_imm(at + head, wqe->operand | (fused ? wqe->length << 32 : 0));
    fpdu_end_short(qp, &fpdu, head + RDMAP_IMM_LEN);
    qp->tx.immediate_due = false;
    return true;
}

/* On the whole word: no masks (S-066). */
static void describe(struct rdmap_atomic_req *request, const struct wqe *wqe)
{
    bool swap = wqe->opcode == RI_WR_ATOMIC_COMPARE_SWAP;

    *request = (struct rdmap_atomic_req){
        .op = swap ? RDMAP_CMP_SWAP : RDMAP_FETCH_ADD,
        .stag = wqe->rkey,
        .to = wqe->remote_addr,
        .data = wqe->operand,
        .mask = swap ? UINT64_MAX : 0,
        .compare = swap ? wqe->compare : 0,
        .compare_mask = UINT64_MAX,
    };
}

bool tx_atomic_request(struct iwarp_qp *qp, const struct wqe *wqe, uint32_t index)
{
    struct rdmap_atomic_req request;
    struct fpdu fpdu;
    uint8_t *at = fpdu_begin(qp, &fpdu);
    uint32_t head;

    describe(&request, wqe);
    *tx_outstanding_place(qp) = (struct outstanding_read){ .index = index,
                                                           .atomic = true,
                                                           .sink_stag = wqe->sges[0].lkey,
                                                           .sink_to = wqe->sges[0].addr,
                                                           .size = ATOMIC_OCTETS };
    request.id = tx_note_awaited(qp); /* its MSN identifies it */
    head = ddp_put_untagged_fpdu(at, RDMAP_ATOMIC_REQ_LEN, true, rdmap_ctrl(RDMAP_ATOMIC_REQ), 0,
                                 DDP_QN_READ, request.id, 0);
    rdmap_put_atomic_req(at + head, &request);
    fpdu_end_short(qp, &fpdu, head + RDMAP_ATOMIC_REQ_LEN);
    return true;
}

/* --- the peer's --- */

/* Each set bit of the mask is the upper end of a field, out of which no carry goes (RFC 7306
 * 5.1.1). The sum without these bits cannot carry beyond them, and they are added without carry. */
static uint64_t add_fields(uint64_t old, uint64_t add, uint64_t mask)
{
    return ((old & ~mask) + (add & ~mask)) ^ ((old ^ add) & mask);
}

static uint64_t result_of(const struct inbound_read *request, uint64_t old)
{
    if (request->atomic_op == RDMAP_FETCH_ADD)
        return add_fields(old, request->data, request->mask);
    if ((request->compare ^ old) & request->compare_mask)
        return old;
    return (old & ~request->mask) | (request->data & request->mask);
}

/* Returns the value before the operation. */
static uint64_t execute(uint64_t *word, const struct inbound_read *request)
{
    uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);

    while (!__atomic_compare_exchange_n(word, &old, result_of(request, old), false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
    return old;
}

/* The target is looked up again: it may have been revoked, or bound elsewhere, since the request
 * was accepted. */
bool tx_execute_atomic(struct iwarp_qp *qp, struct inbound_read *request)
{
    struct stag_entry *entry;
    uint8_t *memory;
    enum stag_result result;

    tx_assert_inside(&qp->core);
    if (request->executed)
        return true;
    result = qp_enter_remote(&qp->core, &qp->tx.answer_hint, request->source_stag,
                             RI_ACCESS_REMOTE_ATOMIC, request->source_to, ATOMIC_OCTETS, &memory,
                             &entry);
    if (result != STAG_OK) {
        tx_refuse_answer(qp, request, tx_protection_value(result), RI_EVENT_READ_ACCESS);
        return false;
    }
    if ((uintptr_t)memory % ATOMIC_OCTETS) {
        stag_leave(entry);
        tx_refuse_answer(qp, request, TERMINATE_STREAM, RI_EVENT_REMOTE_OPERATION);
        return false;
    }
    if (qp->core.rnic->options.guard && !guard_word(&qp->core, request->source_stag, memory)) {
        stag_leave(entry);
        tx_refuse_answer(qp, request, TERMINATE_LOCAL, RI_EVENT_READ_ACCESS);
        return false;
    }
    request->data = execute((uint64_t *)(void *)memory, request);
    request->executed = true;
    stag_leave(entry);
    return true;
}

bool tx_atomic_response(struct iwarp_qp *qp, struct inbound_read *request)
{
    struct rdmap_atomic_resp response = { .id = request->sink_stag };
    struct fpdu fpdu;
    uint8_t *at = fpdu_begin(qp, &fpdu);
    uint32_t head;

    if (!tx_execute_atomic(qp, request))
        return false;
    response.value = request->data;
    head = ddp_put_untagged_fpdu(at, RDMAP_ATOMIC_RESP_LEN, true, rdmap_ctrl(RDMAP_ATOMIC_RESP), 0,
                                 DDP_QN_ATOMIC, qp->tx.atomic_msn++, 0);
    rdmap_put_atomic_resp(at + head, &response);
    fpdu_end_short(qp, &fpdu, head + RDMAP_ATOMIC_RESP_LEN);
    return true;
}
