/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, the single post: one short Send or Write, or a Read, on a connection that has nothing
 * else to send. One function takes it from the work request to the socket and, unless an answer
 * completes it, into the CQ. It does what post_list.c, tx_coalesce.c, tx.c, tx_short.c and cq.c do
 * for any request, without the checks that other requests need. It refuses nothing: a request that
 * is not plainly right goes to the general path before anything has changed. If the socket turns
 * out to be full or the CQ to be armed, the general path continues from there. The answer to a
 * short Read that came alone leaves in the same way, from inside the receive that checked its
 * request. tests/softrdma/test_single.c and test_answer.c compare both paths.
 */
#include "providers/software/core/cq.h"
#include "headers.h"

/* In full operation, with nothing else to send, to ask or to wait for. Inside tx. */
static inline bool is_quiet(const struct iwarp_qp *qp, uint32_t index, uint32_t octets)
{
    return likely(octets < qp->tx.single_below) && likely(qp_state(&qp->core) == RI_QPS_RTS) &&
           likely(atomic_load_explicit(&qp->core.sq.next, memory_order_relaxed) == index) &&
           likely(!qp->tx.batch.octets) && likely(qp->tx.position < qp->tx.learn_at) &&
           likely(atomic_load_explicit(&qp->tx.keeps_memory, memory_order_relaxed)) &&
           likely(atomic_load_explicit(&qp->reads.ird_in, memory_order_relaxed) ==
                  atomic_load_explicit(&qp->reads.ird_out, memory_order_relaxed));
}

/* The socket did not take all of it: continue as with any batch under way. */
static __attribute__((noinline, cold)) void take_up(struct iwarp_qp *qp, uint32_t fpdu,
                                                    ssize_t sent)
{
    tx_assert_inside(&qp->core);
    batch_reset(&qp->tx.batch);
    batch_add(&qp->tx.batch, qp->tx.batch.arena, fpdu);
    qp->tx.batch.arena_used = fpdu;
    tx_take_up(qp, sent);
}

/* Push the completion if it is the next one of its queue and the CQ is not armed; else mark the
 * request as done. */
static inline bool complete(struct iwarp_qp *qp, struct wqe *wqe, uint32_t index, uint32_t octets)
{
    struct cq *cq = qp->core.send_cq;

    if (unlikely(!spinlock_try_blind(&cq->lock)))
        goto mark;
    if (unlikely(atomic_load_explicit(&qp->core.sq.done, memory_order_relaxed) != index) ||
        unlikely(cq->arming.kind != RI_NOT_ARMED) || unlikely(qp->core.cq_wait[0].on) ||
        unlikely(!ri_ring_room(&cq->ring)))
        goto unlock;
    if (wqe->flags & RI_WR_SIGNALED)
        cq_push(cq, &qp->core, &qp->core.sq, wqe, index, octets,
                wqe->opcode == RI_WR_SEND ? RI_WC_SEND : RI_WC_RDMA_WRITE, false);
    atomic_store_explicit(&qp->core.sq.done, index + 1, memory_order_release);
    spinlock_unlock(&cq->lock);
    return true;

unlock:
    spinlock_unlock(&cq->lock);
mark:
    wqe_finish(wqe, RI_WC_SUCCESS, octets);
    return false;
}

/* Pass the arena, which holds all that is to be sent, to the lower layer. False: it did not take
 * all. */
static inline __attribute__((always_inline)) bool write_fpdu(struct iwarp_qp *qp, uint32_t fpdu)
{
    const struct iovec iov = { qp->tx.batch.arena, fpdu };
    ssize_t sent = qp->stream->sender->send(qp->stream, &iov, 1);

    TRACE3(send, qp->core.qpn, fpdu, sent);
    if (unlikely(sent != (ssize_t)fpdu)) {
        take_up(qp, fpdu, sent);
        return false;
    }
    qp->tx.accepted += fpdu;
    return true;
}

/* Pass the FPDU in the arena, the whole request, to the lower layer. False: as send_single(). */
static inline __attribute__((always_inline)) bool send_fpdu(struct iwarp_qp *qp, struct wqe *wqe,
                                                            uint32_t index, uint32_t fpdu,
                                                            uint64_t octets)
{
    qp->tx.position += fpdu;
    wqe->end = qp->tx.position;
    atomic_store_explicit(&qp->core.sq.next, index + 1, memory_order_relaxed);
    count_up(&qp->core.counters.sent_messages, 1);
    count_up(&qp->core.counters.sent_octets, octets);
    if (!write_fpdu(qp, fpdu))
        return false;
    atomic_store_explicit(&qp->core.sq.sent, index + 1, memory_order_release);
    return true;
}

/* False: something is left for the general path. Inside tx. */
static inline bool send_single(struct iwarp_qp *qp, struct wqe *wqe, uint32_t index,
                               uint64_t octets)
{
    uint8_t *memory;
    uint32_t fpdu;

    tx_assert_inside(&qp->core);
    if (!is_quiet(qp, index, (uint32_t)octets) ||
        unlikely(!tx_find_local(qp, &wqe->sges[0], RI_ACCESS_LOCAL_READ, octets, &memory)))
        return false;
    fpdu = tx_put_short(qp, qp->tx.batch.arena, wqe, memory, (uint32_t)octets);
    return send_fpdu(qp, wqe, index, fpdu, octets) && complete(qp, wqe, index, (uint32_t)octets);
}

/* Post the request. NULL: it is refused. Under posting. */
static inline __attribute__((always_inline)) struct wqe *enqueue(struct iwarp_qp *qp,
                                                                 const struct ri_send_wr *wr,
                                                                 uint32_t polls, uint32_t index,
                                                                 uint16_t mark)
{
    struct wqe *wqe = NULL;

    spinlock_assert_held(&qp->core.sq.posting);
    if (likely(qp_state(&qp->core) != RI_QPS_IDLE))
        wqe = post_plain(&qp->core, wr, wr->sg_list->length, index, mark);
    if (likely(wqe != NULL))
        qp->coalesce.sent_at = polls;
    return wqe;
}

/* Posts of the QP wait, or may: this one joins them. False: post_list() has to post it. Under
 * posting. */
static inline __attribute__((always_inline)) bool enqueue_behind(struct iwarp_qp *qp,
                                                                 const struct ri_send_wr *wr,
                                                                 uint32_t index, uint16_t mark,
                                                                 enum coalesce *coalesce)
{
    uint32_t octets = wr->sg_list->length;

    spinlock_assert_held(&qp->core.sq.posting);
    if (!tx_coalesces_singly(qp) || qp_state(&qp->core) == RI_QPS_IDLE ||
        !post_plain(&qp->core, wr, octets, index, mark))
        return false;
    *coalesce = tx_coalesce_small(qp, mark == WQE_SHORT ? octets + SHORT_OVERHEAD : REQUEST_OCTETS);
    return true;
}

/* Send the posts that waited. */
static __attribute__((noinline)) enum ri_status leave_together(struct iwarp_qp *qp)
{
    tx_run(&qp->core);
    qp_deliver(&qp->core);
    return RI_OK;
}

enum ri_status tx_post_single(struct iwarp_qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    const uint64_t octets = wr->sg_list->length;
    enum coalesce coalesce;
    struct wqe *wqe;
    uint32_t index, polls;
    bool queued;

    if (octets - 1 >= TX_COPY_OCTETS)
        __builtin_unreachable(); /* see post_is_short() */
    if (unlikely(!spinlock_try_blind(&qp->core.sq.posting)))
        return post_list(qp, wr, bad);
    index = atomic_load_explicit(&qp->core.sq.posted, memory_order_relaxed);
    if (unlikely(tx_may_coalesce_anyway(qp)) ||
        unlikely(qp->coalesce.sent_at == (polls = lane_polls(qp->core.lane))))
        goto behind;
    wqe = enqueue(qp, wr, polls, index, WQE_SHORT);
    spinlock_unlock(&qp->core.sq.posting);
    if (unlikely(!wqe))
        return post_list(qp, wr, bad);
    if (likely(tx_begin(&qp->core))) {
        if (likely(send_single(qp, wqe, index, octets)) && likely(tx_end(&qp->core)))
            return RI_OK;
        tx_go_on(&qp->core);
    }
    qp_deliver(&qp->core);
    return RI_OK;

behind:
    queued = enqueue_behind(qp, wr, index, WQE_SHORT, &coalesce);
    spinlock_unlock(&qp->core.sq.posting);
    if (!queued)
        return post_list(qp, wr, bad);
    return coalesce == COALESCED ? RI_OK : leave_together(qp);
}

/* --- a Read: its request --- */

static uint32_t put_request(uint8_t *fpdu, struct iwarp_qp *qp, const struct wqe *wqe, uint32_t msn)
{
    const struct rdmap_read_req request = tx_describe_read(wqe);

    return fpdu_seal(qp, fpdu, tx_put_read_request(fpdu, &request, msn));
}

/* Is a place of ORD free, and is the sink a region that may be written to? */
static inline bool may_read(struct iwarp_qp *qp, const struct wqe *wqe)
{
    uint32_t reads = atomic_load_explicit(&qp->reads.ord_in, memory_order_relaxed) -
                     atomic_load_explicit(&qp->reads.ord_out, memory_order_acquire);
    uint8_t *memory;

    return likely(reads < qp->core.attr.ord) && likely(wqe->length <= SMALL_READ) &&
           likely(tx_find_local(qp, &wqe->sges[0], RI_ACCESS_LOCAL_WRITE, wqe->length, &memory));
}

/* As send_single(), but the answer completes it. */
static bool read_single(struct iwarp_qp *qp, struct wqe *wqe, uint32_t index)
{
    uint32_t fpdu;

    tx_assert_inside(&qp->core);
    if (!is_quiet(qp, index, 0) || !may_read(qp, wqe))
        return false;
    *tx_outstanding_place(qp) = (struct outstanding_read){ .index = index,
                                                           .sink_stag = wqe->sges[0].lkey,
                                                           .sink_to = wqe->sges[0].addr,
                                                           .size = (uint32_t)wqe->length };
    fpdu = put_request(qp->tx.batch.arena, qp, wqe, tx_note_outstanding(qp));
    return send_fpdu(qp, wqe, index, fpdu, wqe->length);
}

enum ri_status tx_post_single_read(struct iwarp_qp *qp, struct ri_send_wr *wr,
                                   struct ri_send_wr **bad)
{
    enum coalesce coalesce;
    struct wqe *wqe;
    uint32_t index, polls;
    bool queued;

    if (unlikely(!spinlock_try_blind(&qp->core.sq.posting)))
        return post_list(qp, wr, bad);
    index = atomic_load_explicit(&qp->core.sq.posted, memory_order_relaxed);
    if (unlikely(tx_may_coalesce_anyway(qp)) ||
        unlikely(qp->coalesce.sent_at == (polls = lane_polls(qp->core.lane))))
        goto behind;
    wqe = enqueue(qp, wr, polls, index, WQE_ANSWERED);
    spinlock_unlock(&qp->core.sq.posting);
    if (unlikely(!wqe))
        return post_list(qp, wr, bad);
    if (likely(tx_begin(&qp->core))) {
        if (unlikely(!read_single(qp, wqe, index)) || unlikely(!tx_end(&qp->core)))
            tx_go_on(&qp->core);
        else if (likely(!atomic_load(&wqe->done)))
            /* a thread that finishes it later finds sq_sent: there is a fence on both sides */
            return RI_OK;
        qp_retire(&qp->core, &qp->core.sq);
    }
    qp_deliver(&qp->core);
    return RI_OK;

behind:
    queued = enqueue_behind(qp, wr, index, WQE_ANSWERED, &coalesce);
    spinlock_unlock(&qp->core.sq.posting);
    if (!queued)
        return post_list(qp, wr, bad);
    return coalesce == COALESCED ? RI_OK : leave_together(qp);
}

/* --- the answer to a Read --- */

/* The sink's STag and TO are in the request as the response has them. Its octets are summed as they
 * were copied: others may write to the source meanwhile. */
static inline uint32_t put_response(uint8_t *fpdu, const struct iwarp_qp *qp,
                                    const uint8_t *request, const uint8_t *memory, uint32_t octets)
{
    uint32_t head = tx_put_response(fpdu, be_get32(request), be_get64(request + 4), octets, true);

    copy_short(fpdu + head, memory, octets);
    return fpdu_seal(qp, fpdu, head + octets);
}

/*
 * The memory is that of the check just made: a pass that is under way is waited for before it goes,
 * as where it is written to. Nobody is waited for here with rx held, and the work of those who came
 * meanwhile is left to the end of the pass: it may end the connection, which takes rx.
 */
bool tx_answer_single(struct iwarp_qp *qp, const uint8_t *request, const uint8_t *memory,
                      uint32_t octets)
{
    uint32_t fpdu;
    bool quiet;

    rx_assert_held(qp->stream);
    lane_assert_run(qp->core.lane);
    if (unlikely(!tx_try_enter(&qp->core)))
        return false;
    quiet = is_quiet(qp, atomic_load_explicit(&qp->core.sq.posted, memory_order_relaxed), octets);
    if (likely(quiet)) {
        qp->tx.requests_first = !qp->tx.requests_first; /* it was a turn, as in build_messages() */
        fpdu = put_response(qp->tx.batch.arena, qp, request, memory, octets);
        qp->tx.position += fpdu;
        write_fpdu(qp, fpdu);
    }
    tx_leave_work(&qp->core);
    return quiet;
}
