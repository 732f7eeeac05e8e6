/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The end of passes that may still use memory.
 */
#ifndef ITAL_SOFTWARE_QUIESCENCE_H
#define ITAL_SOFTWARE_QUIESCENCE_H

#include "lane.h"
#include "qp.h"

/* When it returns, no pass that began before is still running (unless the caller is inside it). */
void lane_wait_pass(struct lane *lane);
/* After a revocation: waits until no pass of any lane places into the memory any more, then has
 * each connected QP of the PD (NULL: of none) leave it. An empty range: no output can name it. The
 * caller is in no pass, or in one and places nothing; it is not inside tx, and holds one rx at
 * most, of a QP of that pass. */
void lanes_leave(struct rnic *rnic, const struct pd *pd, enum leave what,
                 const struct memory_range *range);

#endif
