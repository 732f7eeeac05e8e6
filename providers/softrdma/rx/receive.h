/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the receive side offers to the files on top: rx.c, and reassembly.c, the FPDUs that have not
 * arrived whole.
 */
#ifndef ITAL_SOFTRDMA_RECEIVE_H
#define ITAL_SOFTRDMA_RECEIVE_H

#include "providers/softrdma/objects/rnic.h"

#include <sys/types.h>

struct qp;
struct stream;

/* rx.c. Returns the FPDUs taken, a bounded number of them. */
uint32_t rx_run(struct stream *stream);
/* Choose the path again: what it depends on has changed. Under rx, or no other thread knows the
 * stream. rx_fast.c. */
void rx_choose_path(struct qp *qp);

/* reassembly.c; under rx. False: no memory. `whole`: octets of the FPDU, 0 not known; `another`:
 * than at the last call. */
bool partial_keep(struct stream *stream, const uint8_t *octets, size_t length, uint32_t whole,
                  bool another);
/* Read on into the buffer, up to the end of its FPDU, as llp_ops.receive. */
ssize_t partial_fill(struct stream *stream);
void partial_end(struct qp *qp, bool evicted);
/* ATTEND_STALLED, and there was nothing to read. */
void partial_check(struct qp *qp, struct stream *stream);
void partial_stalled(struct ri_timer *timer); /* of stream->stall; without rx */

#endif
