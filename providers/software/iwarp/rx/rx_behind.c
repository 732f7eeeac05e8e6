/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, what comes behind Reads. The source of a Read is fetched, and an atomic executed, before
 * a later Send, Write or refused request of the same peer is executed: programs for InfiniBand lean
 * on that order, though RFC 5040 would allow less. Answers to requests of this side are no
 * requests, and never wait: so both ends can always take what they asked for.
 *
 * The common case costs one test (rx.unfetched). If something is not fetched, tx fetches it
 * (tx_fetch.c). If that is too much, the FPDU waits, and the stream is not read until more of the
 * answers has been sent. A peer that takes none of them for stall_timeout has what follows executed
 * out of order, as the standard allows.
 */
#include "providers/software/iwarp/codec/terminate.h"
#include "rx.h"

#include <stdlib.h>
#include <string.h>

static bool is_fetched(struct iwarp_qp *qp)
{
    if (!tx_fetch(qp))
        return false;
    qp->rx.unfetched = false;
    return true;
}

bool rx_is_behind(struct iwarp_qp *qp, enum rdmap_opcode opcode)
{
    switch (opcode) {
    case RDMAP_READ_REQ:
    case RDMAP_READ_RESP:
    case RDMAP_ATOMIC_REQ:
    case RDMAP_ATOMIC_RESP: return false;
    default: return !is_fetched(qp);
    }
}

/* A consumer's mistake, not one of the protocol: access that the memory or the QP does not
 * allow. */
bool rx_is_refused_behind(struct iwarp_qp *qp, enum rdmap_opcode opcode, const struct fault *fault)
{
    bool refused = fault->value >> 8 == TERMINATE_R_STAG >> 8 || fault->value == TERMINATE_U_QN ||
                   fault->value == TERMINATE_STREAM;

    return refused && (opcode == RDMAP_READ_REQ || opcode == RDMAP_ATOMIC_REQ) && !is_fetched(qp);
}

bool rx_wait_behind(struct iwarp_qp *qp, const struct mpa_fpdu *fpdu, enum mpa_result framing)
{
    struct stream *stream = qp->stream;
    struct behind *behind = malloc(sizeof(*behind) + fpdu->ulpdu_len);

    rx_assert_held(stream);
    contract(!stream->behind);
    if (!behind)
        return false;
    behind->framing = framing;
    behind->accepted = 0;
    behind->impatient = false;
    behind->length = fpdu->ulpdu_len;
    memcpy(behind->ulpdu, fpdu->ulpdu, fpdu->ulpdu_len);
    stream->behind = behind;
    stream_hold_input(stream, ATTEND_BEHIND, true);
    partial_fed(stream); /* sets the timer */
    return true;
}

bool rx_behind_moves(struct iwarp_qp *qp, struct stream *stream)
{
    uint64_t before = stream->behind->accepted;

    rx_assert_held(stream);
    contract(stream->behind);
    if (!tx_try_enter(&qp->core))
        return true; /* a thread is sending */
    stream->behind->accepted = qp->tx.accepted;
    tx_leave_work(&qp->core);
    if (stream->behind->accepted != before)
        return true;
    stream->behind->impatient = true;
    ri_log(
        qp->core.rnic->host, RI_LOG_INFO,
        "QP %u: its peer takes no answers to its RDMA Reads; the message behind them is executed "
        "before they are answered",
        qp->core.qpn);
    return false;
}

struct behind *rx_take_behind(struct iwarp_qp *qp, struct stream *stream)
{
    struct behind *behind = stream->behind;

    rx_assert_held(stream);
    contract(stream->behind);
    if (behind->impatient)
        qp->rx.unfetched = false;
    else if (!is_fetched(qp))
        return NULL;
    stream->behind = NULL;
    stream_hold_input(stream, ATTEND_BEHIND, false);
    return behind;
}
