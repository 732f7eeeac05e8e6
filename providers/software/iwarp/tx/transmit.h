/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The interface of the transmit side for rx and for the files on top.
 */
#ifndef ITAL_SOFTRDMA_TRANSMIT_H
#define ITAL_SOFTRDMA_TRANSMIT_H

#include "providers/software/iwarp/llp/connection.h"
#include "providers/software/core/qp.h"

#include <sys/types.h>

/* Borrow memory for a batch, and for the payload of Read Responses in it (tx_memory.c). False:
 * there is none, the connection ends. Inside tx. */
bool tx_borrow(struct qp *qp);
bool tx_borrow_bounce(struct qp *qp);
void tx_release_batch(struct qp *qp);  /* the batch is empty */
void tx_keep_no_memory(struct qp *qp); /* from here on; any thread */
/* Nothing knows the QP any more. */
void tx_close(struct qp *qp);
void tx_free_spares(struct lane *lane);
static inline bool tx_holds_idle_memory(const struct qp *qp)
{
    return __builtin_expect(!atomic_load_explicit(&qp->tx.keeps_memory, memory_order_relaxed), 0) &&
           qp->tx.batch.memory && !qp->tx.batch.octets;
}

/* tx.c, tx_start_stop.c */
enum ri_status tx_start(struct qp *qp,
                        /* Inside tx, before the QP is RTS. */
                        const struct ri_llp_handover *handover);
void tx_run(struct qp *qp);
/* tx_run() for a thread that is inside already: works, then leaves. */
void tx_go_on(struct qp *qp);
/* Process the result of the lower layer's send. True: the whole batch is in the socket. Inside
 * tx. */
bool tx_take_up(struct qp *qp, ssize_t sent);
/* Enter tx alone: wait for the thread inside (TX_ROUNDS long batches at most). Not from inside. */
void tx_enter(struct qp *qp);
void tx_leave(struct qp *qp);
/* Report the noted events; run tx if it is wanted (deliver.c). No lock held. */
void qp_deliver_now(struct qp *qp);
static inline void qp_deliver(struct qp *qp)
{
    if (__builtin_expect(atomic_load_explicit(&qp->tx.wanted, memory_order_relaxed) ||
                             cq_has_news(qp->send_cq) || cq_has_news(qp->recv_cq) ||
                             atomic_load_explicit(&qp->life.pending, memory_order_acquire),
                         0))
        qp_deliver_now(qp);
}
/* May the requests just posted wait? Given the last request of the post, its list's length and
 * the octets that it adds; under sq.posting. tx_coalesce.c. */
enum coalesce { COALESCE_NOT, COALESCED, COALESCE_WAKE /* leave posting, then host->wake */ };
struct coalesce_post {
    uint32_t requests, small, entries;
    uint64_t large;
    bool asked; /* of the last request */
};
enum coalesce tx_coalesce_slowly(struct qp *qp, const struct coalesce_post *post);
/* May posts of this QP wait, or do some wait already, whatever the polls of its lane? */
static inline bool tx_may_coalesce_anyway(const struct qp *qp)
{
    return qp->coalesce.any;
}
static inline bool tx_may_coalesce(const struct qp *qp, uint32_t looks)
{
    return tx_may_coalesce_anyway(qp) || qp->coalesce.sent_at == looks;
}
/* Does a small request without RI_WR_COALESCE that is posted now wait behind others? Both under
 * sq.posting. */
static inline bool tx_coalesces_singly(const struct qp *qp)
{
    return qp->coalesce.active && !qp->coalesce.asked;
}
/* It does wait; all that tx_coalesce_slowly() has to do for it. */
static inline enum coalesce tx_coalesce_small(struct qp *qp, uint32_t octets)
{
    qp->coalesce.small += octets;
    qp->coalesce.streak += octets;
    if (qp->coalesce.small < TX_COALESCE_SMALL)
        return COALESCED;
    qp->coalesce.small = qp->coalesce.entries = 0;
    qp->coalesce.large = 0;
    return COALESCE_NOT;
}
static inline enum coalesce tx_coalesce(struct qp *qp, const struct coalesce_post *post)
{
    uint32_t looks = lane_looks(qp->lane);

    if (post->asked || tx_may_coalesce(qp, looks))
        return tx_coalesce_slowly(qp, post);
    qp->coalesce.sent_at = looks; /* alone: sent at once */
    return COALESCE_NOT;
}
/* Send coalesced posts. No lock held. first: the CQ that is polled; QPs of other consumers that
 * poll are left to them then. NULL: send all. */
void tx_send_all_coalesced(struct lane *lane, const struct cq *first);
/* Send the coalesced posts of this QP; the consumer does not post meanwhile. No lock held. */
void tx_send_coalesced(struct qp *qp);
/* How a thread may sleep for the lane, which has nothing to do. LANE_NOT_ARMED: after another pass,
 * which says until when. Under the lane's lock (coalesced.c). */
enum lane_armed tx_choose_sleep(struct lane *lane);
/* The lane's next pass runs tx of this QP. Not with its lock held. */
void tx_defer_to_lane(struct qp *qp);
/* The lane names the QP no more; a pass that has taken it is counted in upcalls. No posts of it
 * wait any more. */
void tx_forget_coalesced(struct qp *qp);
/* A consumer polls. True: there are coalesced posts, to be sent now with no lock held. */
static inline bool tx_has_coalesced(struct lane *lane)
{
    count_up_32(&lane->coalesce.looks);
    return atomic_load_explicit(&lane->coalesce.count, memory_order_relaxed);
}
static inline void tx_note_poll(struct lane *lane, const struct cq *first)
{
    if (tx_has_coalesced(lane))
        tx_send_all_coalesced(lane, first);
}
/* A consumer polls a CQ that several lanes feed, or no lane yet. */
void tx_note_poll_everywhere(struct rnic *rnic);
static inline void tx_note_poll_at(struct cq *cq)
{
    struct lane *lane = atomic_load_explicit(&cq->lane, memory_order_relaxed);

    if (__builtin_expect(lane != NULL, 1))
        tx_note_poll(lane, cq);
    else
        tx_note_poll_everywhere(cq->rnic);
}
/* A completion was taken; under the lock. */
static inline void tx_note_taken(struct cq *cq)
{
    unsigned char consumer = atomic_load_explicit(&cq->consumer, memory_order_relaxed);

    if (consumer == CONSUMER_POLLS)
        return;
    atomic_store_explicit(&cq->dry, 0, memory_order_relaxed);
    if (consumer != CONSUMER_ARMED && ++cq->hits == TX_HITS)
        atomic_store_explicit(&cq->consumer, CONSUMER_POLLS, memory_order_relaxed);
}
/* A pass for this CQ. Two in a row in which it was neither armed nor a completion taken mean
 * that the consumer polls. */
static inline void tx_note_pass(struct cq *cq, const struct lane *lane)
{
    unsigned char consumer = atomic_load_explicit(&cq->consumer, memory_order_relaxed);

    if (consumer == CONSUMER_POLLS || consumer == CONSUMER_ARMED)
        return;
    if (atomic_load_explicit(&cq->home, memory_order_relaxed) != lane)
        return; /* one poll is a pass of each of several lanes */
    if (atomic_load_explicit(&cq->dry, memory_order_relaxed)) /* unless it is being armed now */
        atomic_compare_exchange_strong_explicit(&cq->consumer, &consumer, CONSUMER_POLLS,
                                                memory_order_relaxed, memory_order_relaxed);
    else
        atomic_store_explicit(&cq->dry, 1, memory_order_relaxed);
}
/*
 * If several threads poll CQs of one lane, each does the work of its own connections: they share
 * fewer cache lines, and one thread's polls do not send in parts what another coalesces. A QP is
 * left to its consumer while that has polled within the last passes and does not wait. Inside a
 * pass for `first`, or a poll of it.
 */
#define LOOKED_LATELY 8u /* lane->passes: four passes */
static inline bool qp_is_left_to_consumer(const struct qp *qp, const struct cq *first)
{
    const struct cq *send = qp->send_cq, *recv = qp->recv_cq;
    uint32_t passes = atomic_load_explicit(&qp->lane->passes, memory_order_relaxed);
    uint32_t since_send = passes - atomic_load_explicit(&send->seen, memory_order_relaxed);
    uint32_t since_recv = passes - atomic_load_explicit(&recv->seen, memory_order_relaxed);

    return first && first != send && first != recv &&
           atomic_load_explicit(&send->consumer, memory_order_relaxed) <= CONSUMER_POLLS &&
           atomic_load_explicit(&recv->consumer, memory_order_relaxed) <= CONSUMER_POLLS &&
           (since_send < LOOKED_LATELY || since_recv < LOOKED_LATELY);
}
/* The whole message in one step (tx_short.c). Inside tx; the entry condition is tx_is_short().
 * False: it failed locally. */
static inline bool tx_is_short(const struct qp *qp, const struct wqe *wqe)
{
    return (wqe->flags & WQE_SHORT) && wqe->length < qp->tx.short_below;
}
bool tx_short(struct qp *qp, struct wqe *wqe);
/* post_send for requests of post_is_short() and post_is_single_read() (tx_single.c); for any
 * list (post_list.c). */
enum ri_status tx_post_single(struct qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad);
enum ri_status tx_post_single_read(struct qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad);
enum ri_status post_list(struct qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad);
/* tx_single.c. The answer to a Read Request that came alone, in order, and may read `octets` (not
 * 0) at `memory`; `request` is what follows its DDP header. False: nothing has changed, it takes
 * its turn. Under rx, inside a pass. */
bool tx_answer_single(struct qp *qp, const uint8_t *request, const uint8_t *memory,
                      uint32_t octets);
/* tx_fetch.c. Sources of the peer's Reads are fetched, and its atomics executed, before a later
 * request of it is. False: some are not, and the lane is called when there is more to see. Under
 * rx, inside a pass. */
bool tx_fetch(struct qp *qp);
/* The QP has left RTS: the stream continues alone, both queues are flushed. Once per connection.
 * Inside tx. */
void tx_stop(struct qp *qp);
/* The memory is about to be released: nothing reads it after the return. Not from inside. */
void tx_detach(struct qp *qp, void *range);
/* The same of output that is built. A message under way goes on. */
void tx_detach_output(struct qp *qp, void *range);
/* Copy of the output that was built and not accepted by the socket, followed by a Terminate if
 * one is wanted. Under tx. *tail is the caller's, or NULL: there is none. False: no memory. */
bool tx_take_tail(struct qp *qp, uint8_t **tail, size_t *length);
/* The FPDU of a Terminate of this QP in memory of its own. */
uint8_t *tx_terminate_fpdu(struct qp *qp, size_t *length);
/* tx_refuse.c. The Terminate value (0x01CC) for a request of the peer that the STag does not
 * allow. */
uint16_t tx_protection_value(enum stag_result result);
/* tx_detach inside a pass, which has to complete the remaining work. It does not wait for a
 * thread inside tx that waits for rx, which this pass or that of another lane may hold: that
 * thread ends the connection, and has copied all output (tx.stopped). */
void tx_detach_in_pass(struct qp *qp, const struct memory_range *range);

/* Send this side's zero-length Write again if the peer was not heard. Not from inside. */
void tx_repeat_rtr(struct qp *qp);

#endif
