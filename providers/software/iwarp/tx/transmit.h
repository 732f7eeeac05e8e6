/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The interface of the transmit side for rx and for the files on top.
 */
#ifndef ITAL_SOFTRDMA_TRANSMIT_H
#define ITAL_SOFTRDMA_TRANSMIT_H

#include "providers/software/iwarp/llp/connection.h"
#include "providers/software/iwarp/objects/iwarp.h"
#include "base/compiler.h"

#include <sys/types.h>

/* Borrow memory for a batch, and for the payload of Read Responses in it (tx_memory.c). False:
 * there is none, the connection ends. Inside tx. */
bool tx_borrow(struct iwarp_qp *qp);
bool tx_borrow_bounce(struct iwarp_qp *qp);
void tx_release_batch(struct iwarp_qp *qp);  /* the batch is empty */
void tx_keep_no_memory(struct iwarp_qp *qp); /* from here on; any thread */
/* Nothing knows the QP any more. */
void tx_close(struct iwarp_qp *qp);
void tx_free_spares(struct lane *lane);
static inline bool tx_holds_idle_memory(const struct iwarp_qp *qp)
{
    return unlikely(!atomic_load_explicit(&qp->tx.keeps_memory, memory_order_relaxed)) &&
           qp->tx.batch.memory && !qp->tx.batch.octets;
}

/* tx.c, tx_start_stop.c. Inside tx, before the QP is RTS. */
enum ri_status tx_start(struct iwarp_qp *qp, const struct ri_llp_handover *handover);
/* Send what is posted, as much as can be sent now. Inside tx, in RTS. */
void tx_send(struct iwarp_qp *qp);
/* Process the result of the lower layer's send. True: the whole batch is in the socket. Inside
 * tx. */
bool tx_take_up(struct iwarp_qp *qp, ssize_t sent);
/* May the requests just posted wait? Given the last request of the post, its list's length and
 * the octets that it adds; under sq.posting. tx_coalesce.c. */
enum coalesce { COALESCE_NOT, COALESCED, COALESCE_WAKE /* leave posting, then host->wake */ };
/* For the size of a batch: octets that an FPDU adds to short payload, and those of a request
 * that is answered. */
#define SHORT_OVERHEAD 28u
#define REQUEST_OCTETS 56u
struct coalesce_post {
    uint32_t requests, small, entries;
    uint64_t large;
    bool asked; /* of the last request */
};
enum coalesce tx_coalesce_slowly(struct iwarp_qp *qp, const struct coalesce_post *post);
/* May posts of this QP wait, or do some wait already, whatever the polls of its lane? */
static inline bool tx_may_coalesce_anyway(const struct iwarp_qp *qp)
{
    return qp->coalesce.any;
}
static inline bool tx_may_coalesce(const struct iwarp_qp *qp, uint32_t polls)
{
    return tx_may_coalesce_anyway(qp) || qp->coalesce.sent_at == polls;
}
/* Does a small request without RI_WR_COALESCE that is posted now wait behind others? Both under
 * sq.posting. */
static inline bool tx_coalesces_singly(const struct iwarp_qp *qp)
{
    spinlock_assert_held(&qp->core.sq.posting);
    return qp->coalesce.active && !qp->coalesce.asked;
}
/* It does wait; all that tx_coalesce_slowly() has to do for it. */
static inline enum coalesce tx_coalesce_small(struct iwarp_qp *qp, uint32_t octets)
{
    qp->coalesce.small += octets;
    qp->coalesce.streak += octets;
    if (qp->coalesce.small < TX_COALESCE_SMALL)
        return COALESCED;
    qp->coalesce.small = qp->coalesce.entries = 0;
    qp->coalesce.large = 0;
    return COALESCE_NOT;
}
static inline enum coalesce tx_coalesce(struct iwarp_qp *qp, const struct coalesce_post *post)
{
    uint32_t polls = lane_polls(qp->core.lane);

    spinlock_assert_held(&qp->core.sq.posting);
    if (post->asked || tx_may_coalesce(qp, polls))
        return tx_coalesce_slowly(qp, post);
    qp->coalesce.sent_at = polls; /* alone: sent at once */
    return COALESCE_NOT;
}
/* Coalesced posts of this QP leave: by a pass or a poll. No lock held. */
void tx_leave_together(struct iwarp_qp *qp);
/* Send the coalesced posts of this QP; the consumer does not post meanwhile. No lock held. */
void tx_send_coalesced(struct iwarp_qp *qp);
/* The whole message in one step (tx_short.c). Inside tx; the entry condition is tx_is_short().
 * False: it failed locally. */
static inline bool tx_is_short(const struct iwarp_qp *qp, const struct wqe *wqe)
{
    return (wqe->flags & WQE_SHORT) && wqe->length < qp->tx.short_below;
}
bool tx_short(struct iwarp_qp *qp, struct wqe *wqe);
/* post_send for requests of post_is_short() and post_is_single_read() (tx_single.c); for any
 * list (post_list.c). */
enum ri_status tx_post_single(struct iwarp_qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad);
enum ri_status tx_post_single_read(struct iwarp_qp *qp, struct ri_send_wr *wr,
                                   struct ri_send_wr **bad);
enum ri_status post_list(struct iwarp_qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad);
/* tx_single.c. The answer to a Read Request that came alone, in order, and may read `octets` (not
 * 0) at `memory`; `request` is what follows its DDP header. False: nothing has changed, it takes
 * its turn. Under rx, inside a pass. */
bool tx_answer_single(struct iwarp_qp *qp, const uint8_t *request, const uint8_t *memory,
                      uint32_t octets);
/* tx_fetch.c. Sources of the peer's Reads are fetched, and its atomics executed, before a later
 * request of it is. False: some are not, and the lane is called when there is more to see. Under
 * rx, inside a pass. */
bool tx_fetch(struct iwarp_qp *qp);
/* The QP has left RTS: the stream continues alone, both queues are flushed. Once per connection.
 * Inside tx. */
void tx_stop(struct iwarp_qp *qp);
/* The memory is about to be released: nothing reads it after the return. Not from inside. */
void tx_detach(struct iwarp_qp *qp, const struct memory_range *range);
/* The same of output that is built. A message under way goes on. */
void tx_detach_output(struct iwarp_qp *qp, const struct memory_range *range);
/* The connection ends with a Terminate of this side, of end->terminate_value; state, payload and
 * length are filled in. cause: NULL if no segment of the peer has caused it. The first end wins: as
 * qp_end (tx_terminate.c). */
struct terminate_cause;
bool iwarp_terminate(struct iwarp_qp *qp, const struct qp_end *end,
                     const struct terminate_cause *cause);
/* Copy of the output that was built and not accepted by the socket, followed by a Terminate if
 * one is wanted. Under tx. *tail is the caller's, or NULL: there is none. False: no memory. */
bool tx_take_tail(struct iwarp_qp *qp, uint8_t **tail, size_t *length);
/* The FPDU of a Terminate of this QP in memory of its own. */
uint8_t *tx_terminate_fpdu(struct iwarp_qp *qp, size_t *length);
/* tx_refuse.c. The Terminate value (0x01CC) for a request of the peer that the STag does not
 * allow. */
uint16_t tx_protection_value(enum stag_result result);
/* tx_detach inside a pass, which has to complete the remaining work. It does not wait for a
 * thread inside tx that waits for rx, which this pass or that of another lane may hold: that
 * thread ends the connection, and has copied all output (tx.stopped). */
void tx_detach_in_pass(struct iwarp_qp *qp, const struct memory_range *range);

/* Send this side's zero-length Write again if the peer was not heard. Not from inside. */
void tx_repeat_rtr(struct iwarp_qp *qp);

#endif
