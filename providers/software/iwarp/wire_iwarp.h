/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The wire iwarp (RFC 5040, 5041, 5044, 7306 over TCP), as the device adds it to its RNIC. Its
 * folders, from the bottom up; none calls or includes one behind it:
 *
 *   codec     headers and Terminate, pure functions
 *   objects   its parts of RNIC, lane and QP
 *   llp       sockets, connections and their ends, who is to be served
 *   tx        work -> FPDUs -> socket
 *   rx        socket -> FPDUs -> memory, completions
 *
 * rx is a lock of the connection, a spinlock that the lane takes by try. With it held a pass may
 * wait for tx (rx_invalidate.c), and enters it by try to answer a Read (tx_single.c) or to find the
 * Write that a Terminate is about (rx.c). The other locks: core/core.h.
 *
 * A stream that a pass of the lane may still hold is freed at the start of a later pass, or by
 * close (iwarp_lane.freed_streams).
 */
#ifndef ITAL_SOFTWARE_WIRE_IWARP_H
#define ITAL_SOFTWARE_WIRE_IWARP_H

#include "providers/software/iwarp/llp/connection.h"
#include "providers/software/iwarp/objects/iwarp.h"
#include "providers/software/iwarp/rx/receive.h"
#include "providers/software/iwarp/tx/transmit.h"

extern const struct wire iwarp_wire;

/* --- start.c --- */

/* Hand-over of a stream over `llp`: the wire passes llp_tcp, tests and benchmarks other layers. The
 * QP is IDLE. Inside tx. */
enum ri_status iwarp_start(struct iwarp_qp *qp, const struct ri_llp_handover *handover,
                           const struct llp_ops *llp);

/* --- reads.c --- */

/* Rings for so many unanswered requests of the peer and of this side; their contents stay. Held
 * (qp_hold), or no other thread uses them. */
enum ri_status iwarp_open_reads(struct iwarp_qp *qp, uint32_t ird, uint32_t ord);

/* --- serve.c --- */

enum ri_status iwarp_lane_open(struct lane *lane);
/* Nothing runs any more. Open streams are reset. */
void iwarp_lane_close(struct lane *lane);
uint32_t iwarp_serve(struct lane *lane, struct cq *first, uint32_t budget);
/* ri_user_ops.progress of an RNIC that has no other wire. */
uint32_t iwarp_progress(struct ri_lane *base, struct ri_cq *first, uint32_t budget,
                        uint64_t *next_deadline);

/* --- timers.c --- */

extern const struct stream_timers iwarp_stream_timers;

#endif
