/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lane's list of QPs that a pass has to visit, because they have posts that wait to leave
 * together or work for tx; and how a consumer that polls has them leave.
 */
#ifndef ITAL_SOFTWARE_COALESCED_H
#define ITAL_SOFTWARE_COALESCED_H

#include "lane.h"
#include "qp.h"
#include "base/compiler.h"

#define TX_HITS 16u /* polls that found something without arming: the consumer counts as polling */

/* Put the QP on the list. `worth`: its posts are long, so the next sleep for the lane is short.
 * True: a thread may sleep and must be woken. */
bool tx_enlist(struct qp *qp, bool worth);
/* Take it off the list, if it is there. */
void tx_unlist(struct qp *qp);
/* Take off the first QP that is not left to its consumer (qp_is_left_to_consumer). Its destroy
 * waits until upcalls is counted down. NULL: none. */
struct qp *tx_take_enlisted(struct lane *lane, const struct cq *first);
/* Send coalesced posts. No lock held. first: the CQ that is polled; QPs of other consumers that
 * poll are left to them then. NULL: send all. */
void tx_send_all_coalesced(struct lane *lane, const struct cq *first);
/* How a thread may sleep for the lane, which has nothing to do. LANE_NOT_ARMED: after another pass,
 * which says until when. Under the lane's lock (coalesced.c). */
enum lane_armed tx_choose_sleep(struct lane *lane);
/* The lane's next pass runs tx of this QP. Not with its lock held. */
void tx_defer_to_lane(struct qp *qp);
/* A consumer polls. True: there are coalesced posts, to be sent now with no lock held. */
static inline bool tx_has_coalesced(struct lane *lane)
{
    count_up_32(&lane->coalesce.polls);
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

    if (likely(lane != NULL))
        tx_note_poll(lane, cq);
    else
        tx_note_poll_everywhere(cq->rnic);
}
/* A completion was taken; under the lock. */
static inline void tx_note_taken(struct cq *cq)
{
    unsigned char consumer = atomic_load_explicit(&cq->consumer, memory_order_relaxed);

    spinlock_assert_held(&cq->lock);
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
/* A hint: nobody waits on a CQ of the QP, and somebody polls one. */
static inline bool qp_consumer_polls(const struct qp *qp)
{
    unsigned int send = atomic_load_explicit(&qp->send_cq->consumer, memory_order_relaxed);
    unsigned int receive = atomic_load_explicit(&qp->recv_cq->consumer, memory_order_relaxed);

    return send <= CONSUMER_POLLS && receive <= CONSUMER_POLLS && (send | receive);
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

#endif
