/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, short messages: a Send or an RDMA Write of at most one element and TX_COPY_OCTETS that
 * fits one FPDU of a stream without markers. It is built in one step, contiguous in the arena. All
 * other requests, and wrong ones, take the general path (tx_build.c, fpdu.c).
 * tests/softrdma/test_short.c compares the octets of both.
 */
#include "headers.h"

bool tx_short(struct iwarp_qp *qp, struct wqe *wqe)
{
    uint32_t octets = (uint32_t)wqe->length;
    uint8_t *memory = NULL;

    tx_assert_inside(&qp->core);
    if (octets && !tx_find_local(qp, &wqe->sges[0], RI_ACCESS_LOCAL_READ, octets, &memory))
        return false;
    fpdu_append(
        qp, tx_put_short(qp, qp->tx.batch.arena + qp->tx.batch.arena_used, wqe, memory, octets));
    return true;
}
