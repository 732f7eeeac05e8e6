/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The rings of unanswered Reads and atomics of a QP, which grow with its depths.
 */
#include "wire_iwarp.h"

#include <stdlib.h>

static uint32_t power_of_two(uint32_t n)
{
    uint32_t size = 1;

    while (size < n)
        size *= 2;
    return size;
}

/* One more than asked for: the ready-to-receive Read of either side. */
static bool enlarge(void **ring, uint32_t *size, uint32_t entries, size_t octets, uint32_t from,
                    uint32_t to)
{
    uint32_t larger = power_of_two(entries + 1);
    uint8_t *fresh;

    if (larger <= *size)
        return true;
    fresh = calloc(larger, octets);
    if (!fresh)
        return false;
    for (uint32_t at = from; at != to; at++)
        memcpy(fresh + (at & (larger - 1)) * octets, (uint8_t *)*ring + (at & (*size - 1)) * octets,
               octets);
    free(*ring);
    *ring = fresh;
    *size = larger;
    return true;
}

enum ri_status iwarp_open_reads(struct iwarp_qp *qp, uint32_t ird, uint32_t ord)
{
    void *ird_ring = qp->reads.ird_ring, *ord_ring = qp->reads.ord_ring;
    bool ird_fits = enlarge(&ird_ring, &qp->reads.ird_size, ird, sizeof(*qp->reads.ird_ring),
                            atomic_load(&qp->reads.ird_out), atomic_load(&qp->reads.ird_in));
    bool ord_fits = enlarge(&ord_ring, &qp->reads.ord_size, ord, sizeof(*qp->reads.ord_ring),
                            atomic_load(&qp->reads.ord_out), atomic_load(&qp->reads.ord_in));

    tx_assert_inside(&qp->core);
    qp->reads.ird_ring = ird_ring;
    qp->reads.ord_ring = ord_ring;
    return ird_fits && ord_fits ? RI_OK : RI_ERR_NO_RESOURCES;
}
