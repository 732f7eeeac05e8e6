/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, gathering: which posts leave at once and which wait for others, to leave in one write.
 *
 * THE RULE. A post that comes alone leaves at once: nothing of its QP has left since its consumer last looked, and nothing
 * waits. What is posted behind it, before the consumer looks again, gathers in the queue if the consumer polls; and
 * where RI_WR_COALESCE asks for it, whoever the consumer is. It leaves, in one write for as much as a batch takes (tx.c: a TCP
 * segment where those are large),
 *   - when there is much (TX_GATHER_SMALL octets of short requests, TX_BATCH_OCTETS of large ones, or a batch's entries),
 *   - when the consumer looks and finds its CQ empty, takes the last completion there, or arms it; with any pass of the lane
 *     but those for other CQs while this one's consumer looks as often (qp_is_left_to_consumer),
 *   - at the end of a list: several requests in one post, or RI_WR_COALESCE on all but the last,
 *   - when the consumer closes or destroys the QP: as much as the socket takes, and one batch.
 * A consumer that polls in streams (what it had gathered at its last look was long) gathers from its first post on.
 *
 * WHO POLLS is told without a clock. A CQ that was armed belongs to one who waits, by sleeping or by its descriptor; he
 * becomes one who polls by two passes of the lane in a row for that CQ with no completion taken and without arming, or by
 * TX_HITS polls that took something. One who waits and finds a completion in the first pass of his wait has not changed
 * sides. If one of the QP's CQs is waited
 * for nothing gathers, unless asked.
 *
 * NOTHING IS LOST. A QP gathers only while it is on the lane's list. lane_arm refuses as long as somebody is on it, so nobody
 * sleeps without a deadline meanwhile: the host runs the lane after 50 us to 1 ms without a consumer's run, and a pass
 * empties the list. While the lane is armed (set by lane_arm; taken back by a consumer's pass, behind which the host arms
 * again if somebody sleeps) who puts a QP on the list wakes the sleeper, once: he runs the lane, or leaves it to consumers
 * that run it, and arms again before he sleeps.
 * gathering and the counts belong to sq.posting, which the one who empties the list takes between taking the QP off and
 * tx_kick: a post before that is seen by his tx, one behind it does not find gathering. Lanes keep the QP alive by upcalls.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "gathered.h"

#define STREAM_OCTETS 1024u /* gathered at once: the consumer streams */
#define ENTRIES_MOST  (TX_IOV / 2)

static bool consumer_polls(const struct qp *qp)
{
    unsigned int send = atomic_load_explicit(&qp->send_cq->consumer, memory_order_relaxed);
    unsigned int receive = atomic_load_explicit(&qp->recv_cq->consumer, memory_order_relaxed);

    return send <= CONSUMER_POLLS && receive <= CONSUMER_POLLS && (send | receive);
}

static void reset_counts(struct qp *qp)
{
    qp->gather.small = qp->gather.entries = 0;
    qp->gather.large = 0;
}

static bool count(struct qp *qp, const struct gather_post *post)
{
    qp->gather.small += post->small;
    qp->gather.entries += post->entries;
    qp->gather.large += post->large;
    qp->gather.streak += post->small + post->large;
    if (qp->gather.small < TX_GATHER_SMALL && qp->gather.large < TX_BATCH_OCTETS &&
        qp->gather.entries < ENTRIES_MOST)
        return false;
    reset_counts(qp);
    return true;
}

/* Off the list, if it is there. Under posting. */
static void end_gathering(struct qp *qp)
{
    tx_unlist_gathered(qp);
    qp->gather.active = false;
    reset_counts(qp);
}

static enum gather begin(struct qp *qp, const struct gather_post *post)
{
    if (qp_state(qp) != RI_QPS_RTS)
        return GATHER_NOT;
    qp->gather.streak = 0;
    reset_counts(qp);
    if (count(qp, post))
        return GATHER_NOT;
    qp->gather.active = true;
    return tx_enlist_gathered(qp) ? GATHER_WAKE : GATHERED;
}

enum gather tx_gather_slowly(struct qp *qp, const struct gather_post *post)
{
    uint32_t looks = lane_looks(qp->lane);
    bool list_ends = !post->asked && (qp->gather.asked || post->requests > 1);

    qp->gather.asked = post->asked;
    if (list_ends) {
        if (qp->gather.active)
            end_gathering(qp);
        qp->gather.sent_at = looks;
        return GATHER_NOT;
    }
    if (qp->gather.active)
        return count(qp, post) ? GATHER_NOT : GATHERED;
    if (post->asked || ((qp->gather.streams || qp->gather.sent_at == looks) && consumer_polls(qp)))
        return begin(qp, post);
    qp->gather.streams = false;
    qp->gather.sent_at = looks;
    return GATHER_NOT;
}

void tx_forget_gathered(struct qp *qp)
{
    spinlock_lock(&qp->sq.posting);
    end_gathering(qp);
    spinlock_unlock(&qp->sq.posting);
}

/* --- leaving --- */

static void leave_together(struct qp *qp)
{
    spinlock_lock(&qp->sq.posting);
    qp->gather.streams = qp->gather.active && qp->gather.streak >= STREAM_OCTETS;
    qp->gather.active = false;
    spinlock_unlock(&qp->sq.posting);
    tx_kick(qp);
    qp_settle(qp);
}

/* As many as there are now: others may gather meanwhile. */
void tx_send_all_gathered(struct lane *lane, const struct cq *first)
{
    uint32_t count = atomic_load_explicit(&lane->gather.count, memory_order_relaxed);
    struct qp *qp;

    while (count-- && (qp = tx_take_gathered(lane, first))) {
        leave_together(qp);
        atomic_fetch_sub(&qp->upcalls, 1);
    }
}

/* Gathering or not: who took it off the list may not have kicked yet, or it came back there before it was told to leave. */
void tx_send_gathered(struct qp *qp)
{
    spinlock_lock(&qp->sq.posting);
    end_gathering(qp);
    spinlock_unlock(&qp->sq.posting);
    tx_kick(qp);
}

void tx_note_look_everywhere(struct rnic *rnic)
{
    for (uint32_t i = 0; i < rnic->options.lanes; i++)
        tx_note_look(rnic->lanes[i], NULL);
}
