/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lane's list of QPs that a pass has to visit, because they have coalesced posts or work for
 * tx.
 */
#ifndef ITAL_SOFTRDMA_GATHERED_H
#define ITAL_SOFTRDMA_GATHERED_H

#include "transmit.h"

/* Put the QP with its post on the list. True: a thread may sleep and must be woken. */
bool tx_enlist(struct qp *qp, const struct coalesce_post *post);
/* Take it off the list, if it is there. */
void tx_unlist(struct qp *qp);
/* Take off the first QP that is not left to its consumer (qp_is_left_to_consumer). Its destroy
 * waits until upcalls is counted down. NULL: none. */
struct qp *tx_take_enlisted(struct lane *lane, const struct cq *first);

#endif
