/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The interface of the receive side: rx.c, and reassembly.c for partial FPDUs.
 */
#ifndef ITAL_SOFTRDMA_RECEIVE_H
#define ITAL_SOFTRDMA_RECEIVE_H

#include "providers/software/iwarp/objects/iwarp.h"

#include <sys/types.h>

struct iwarp_qp;
struct stream;

/* rx.c. Returns the number of FPDUs taken, which is bounded. */
uint32_t rx_run(struct stream *stream);
/* A responder may send from now on. Under rx. */
void rx_end_holding(struct iwarp_qp *qp);
/* rx_fast.c. Chooses the path again after a change of what it depends on. Called under rx, or while
 * no other thread knows the stream. */
void rx_choose_path(struct iwarp_qp *qp);

/* rx_stash.c. The agreed retries have changed. Held (qp_hold). */
void rx_stash_patience(struct iwarp_qp *qp);

/* rx_behind.c. The stall time of an FPDU that waits behind Reads is over. False: the socket has
 * taken nothing since the last call, and the FPDU does not wait any more. Under rx. */
bool rx_behind_moves(struct iwarp_qp *qp, struct stream *stream);

/* reassembly.c; under rx. Keeps octets of a partial FPDU. False: no memory. `whole`: octets of the
 * FPDU, 0 if unknown; `another`: it is not the FPDU of the last call. */
bool partial_keep(struct stream *stream, const uint8_t *octets, size_t length, uint32_t whole,
                  bool another);
/* Octets of the FPDU have arrived: the stall time begins again. */
void partial_fed(struct stream *stream);
/* Reads into the buffer, up to the end of its FPDU. Returns as llp_ops.receive. */
ssize_t partial_fill(struct stream *stream);
void partial_end(struct iwarp_qp *qp, bool evicted);
/* stall.c. For ATTEND_STALLED, when there was nothing to read. */
void partial_check(struct iwarp_qp *qp, struct stream *stream);
/* stall.c. Timer of stream->stall; called without rx. */
void partial_stalled(struct ri_timer *timer);
/* The consumer turns acknowledgements on or off (rx_ack.c). Inside tx, and under rx if there is a
 * stream. */
void rx_set_acknowledged(struct iwarp_qp *qp, bool on);

#endif
