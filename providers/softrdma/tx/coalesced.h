/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lane's list of QPs that a pass has to visit, because their posts wait for others or because
 * they have work for tx.
 */
#ifndef ITAL_SOFTRDMA_GATHERED_H
#define ITAL_SOFTRDMA_GATHERED_H

#include "transmit.h"

/* On the list. True: somebody may sleep, and has to be woken. */
bool tx_enlist(struct qp *qp);
/* Off the list, if it is there. */
void tx_unlist(struct qp *qp);
/* Off the list: the first that is not left to its consumer (qp_is_left_to_consumer). The QP's
 * destroy waits from here on, until upcalls is counted down. NULL: none. */
struct qp *tx_take_enlisted(struct lane *lane, const struct cq *first);

#endif
