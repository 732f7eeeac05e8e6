/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, coalescing: which posts leave at once, and which wait for others to leave with them in
 * one write.
 *
 * RULE. A single post leaves at once: nothing of its QP has left since the consumer last looked,
 * and nothing waits. Posts behind it, before the consumer polls again, wait in the send queue if
 * the consumer polls, or if RI_WR_COALESCE asks for it. They leave in one write, as far as a batch
 * takes them (tx_build.c: a TCP segment where segments are large):
 *   - when there is much: TX_COALESCE_SMALL octets of short requests, TX_BATCH_OCTETS of large
 *     ones, or a batch's entries;
 *   - when the consumer finds its CQ empty, takes the last completion, or arms it; and with any
 *     pass of the lane, except passes for other CQs while this one's consumer polls as often
 *     (qp_is_left_to_consumer);
 *   - at the end of a list: several requests in one post, or RI_WR_COALESCE on all but the last;
 *   - when the consumer closes or destroys the QP: as much as the socket takes, and one batch.
 * If much had accumulated at the consumer's last look, its posts wait from the first one on.
 *
 * WHO POLLS is found without a clock. A CQ that was armed has a consumer in blocking wait (asleep,
 * or on its descriptor). The consumer counts as polling after two passes of the lane in a row for
 * that CQ without a completion taken and without arming, or after TX_HITS polls that took
 * something. A waiter that finds a completion in the first pass of its wait has not become a
 * poller. If either CQ of the QP is in blocking-wait mode, nothing is coalesced unless requested.
 *
 * NOTHING IS LOST. Posts of a QP wait only while the QP is on the lane's list (coalesced.c).
 * lane_arm refuses while the list is not empty, so nobody sleeps without a deadline: the host runs
 * the lane after 50 us to 1 ms without a consumer's run, and a pass empties the list. While the
 * lane is armed, putting a QP on the list wakes the sleeper once, unless it wakes soon anyway
 * (coalesced.c). A large post is not worth that, and leaves at once; some in a row are. A
 * consumer's pass disarms the lane; the host arms it again behind that pass if somebody sleeps.
 *
 * COUNTS: qp->coalesce belongs to
 * sq.posting. The thread that empties the list takes sq.posting between taking the QP off and
 * tx_run(): it transmits a post that came before, and a post that comes behind does not find
 * coalesce.active. The lane keeps the QP alive by upcalls.
 */
#include "transmit.h"

/* So many octets accumulated between two polls: the consumer streams. */
#define STREAM_OCTETS 1024u
#define ENTRIES_MOST  (TX_IOV / 2)
/* Gathering saves less with a post this long than it costs to wake the sleeper. */
#define LARGE_ALONE (32u * 1024u)
/* Posts so long that leave alone in a row before one wakes the sleeper: at first, and at most; it
 * was worth it if so many batches fill after that. */
#define ALONE_FIRST 32u
#define ALONE_MOST  256u
#define WORTH_IT    8u

/* A consumer that always finds completions makes no pass, so the sleeper stays where it is, and the
 * lane armed. Woken once, it leaves the lane to such a consumer. If it is soon asleep again it is
 * woken more rarely. */
static bool wakes_for_little(struct iwarp_qp *qp, const struct coalesce_post *post)
{
    struct iwarp_coalesce *coalesce = &qp->coalesce;
    uint32_t most = coalesce->alone_most ? coalesce->alone_most : ALONE_FIRST;

    if (post->large < LARGE_ALONE || post->asked ||
        atomic_load_explicit(&qp->core.lane->armed, memory_order_relaxed) != LANE_ARMED)
        return false;
    if (++coalesce->alone < most)
        return true;
    coalesce->alone_most = most < ALONE_MOST ? most * 2 : ALONE_MOST;
    coalesce->alone = coalesce->filled = 0;
    return false;
}

static void reset_counts(struct iwarp_qp *qp)
{
    qp->coalesce.small = qp->coalesce.entries = 0;
    qp->coalesce.large = 0;
}

static bool count(struct iwarp_qp *qp, const struct coalesce_post *post)
{
    qp->coalesce.small += post->small;
    qp->coalesce.entries += post->entries;
    qp->coalesce.large += post->large;
    qp->coalesce.streak += post->small + post->large;
    if (qp->coalesce.small < TX_COALESCE_SMALL && qp->coalesce.large < TX_BATCH_OCTETS &&
        qp->coalesce.entries < ENTRIES_MOST)
        return false;
    reset_counts(qp);
    if (++qp->coalesce.filled == WORTH_IT)
        qp->coalesce.alone_most = ALONE_FIRST;
    return true;
}

/* Take the QP off the list, if it is there. Under posting. */
static void end_coalescing(struct iwarp_qp *qp)
{
    spinlock_assert_held(&qp->core.sq.posting);
    tx_unlist(&qp->core);
    qp->coalesce.active = false;
    reset_counts(qp);
}

static enum coalesce begin(struct iwarp_qp *qp, const struct coalesce_post *post)
{
    spinlock_assert_held(&qp->core.sq.posting);
    if (qp_state(&qp->core) != RI_QPS_RTS)
        return COALESCE_NOT;
    qp->coalesce.streak = 0;
    reset_counts(qp);
    if (count(qp, post))
        return COALESCE_NOT;
    qp->coalesce.active = true;
    return tx_enlist(&qp->core, post->large) ? COALESCE_WAKE : COALESCED;
}

enum coalesce tx_coalesce_slowly(struct iwarp_qp *qp, const struct coalesce_post *post)
{
    uint32_t polls = lane_polls(qp->core.lane);
    bool list_ends = !post->asked && (qp->coalesce.asked || post->requests > 1);

    spinlock_assert_held(&qp->core.sq.posting);
    qp->coalesce.asked = post->asked;
    if (list_ends) {
        if (qp->coalesce.active)
            end_coalescing(qp);
        qp->coalesce.sent_at = polls;
        return COALESCE_NOT;
    }
    if (qp->coalesce.active)
        return count(qp, post) ? COALESCE_NOT : COALESCED;
    if ((post->asked || ((qp->coalesce.streams || qp->coalesce.sent_at == polls) &&
                         qp_consumer_polls(&qp->core))) &&
        !wakes_for_little(qp, post))
        return begin(qp, post);
    qp->coalesce.streams = false;
    qp->coalesce.sent_at = polls;
    return COALESCE_NOT;
}

/* --- leaving --- */

void tx_leave_together(struct iwarp_qp *qp)
{
    qp_assert_unlocked(&qp->core);
    spinlock_lock(&qp->core.sq.posting);
    qp->coalesce.streams = qp->coalesce.active && qp->coalesce.streak >= STREAM_OCTETS;
    qp->coalesce.active = false;
    spinlock_unlock(&qp->core.sq.posting);
    tx_run(&qp->core);
    qp_deliver(&qp->core);
}

/* Runs tx whether posts wait or not: the thread that took the QP off the list may not have run
 * tx yet, or the QP was listed again before. */
void tx_send_coalesced(struct iwarp_qp *qp)
{
    qp_assert_unlocked(&qp->core);
    spinlock_lock(&qp->core.sq.posting);
    end_coalescing(qp);
    spinlock_unlock(&qp->core.sq.posting);
    tx_run(&qp->core);
}
