/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the rooms of softrdma share: objects, locks, who may call whom.
 *
 *   provider  RNIC, PD, options        stag   regions, windows and the check of every access; mr mw invalidate: their life
 *   cq wq srq rings, completion        qp     states; post; qp_modify: hand-over, transitions
 *   tx        work -> FPDUs -> socket  fpdu   the batch and what fills it; tx_control: start, stop, detach
 *   rx        socket -> FPDUs -> memory, completions
 *   stream    connection's life and end, lane: who is served when, lanes: what concerns all of them; llp_tcp: the socket
 *
 * Locks, in the order in which they may be held together: rx (spinlock; the lane takes it by try), state, posting
 * (one per work queue), lane, CQ; STag table, entries (a window's before its region's), under any of
 * these and with none of them inside. A CQ's guards the retirement of its work queues, too. tx, before all of them, is no lock that the data path waits for (see tx.c); control verbs
 * enter it alone, and before it take the mutexes srq.qps_lock and pd.windows_lock. Two exceptions: a pass of the
 * lane may wait for tx with one rx held (invalidate.c), and enters it by try to answer a Read (tx_alone.c) or to find the
 * Write that a Terminate is about (rx.c).
 * Upcalls are made with none of them held: what has to be told is noted (CQ fired, QP event) and told by
 * qp_settle() at the end of whatever the thread was doing.
 *
 * Memory: a stream or QP that a pass of the lane may still hold is put into the lane's graveyard and freed at the
 * start of a later pass, or by close.
 */
#ifndef ITAL_SOFTRDMA_H
#define ITAL_SOFTRDMA_H

#include "lane.h"
#include "qp.h"
#include "providers/softrdma/objects/queues.h"
#include "providers/softrdma/rx/receive.h"
#include "providers/softrdma/objects/regions.h"
#include "rnic.h"
#include "stream.h"
#include "providers/softrdma/tx/transmit.h"

#endif
