/* SPDX-License-Identifier: BSD-3-Clause */
/* Octets of the peer into the consumer's memory. */
#include "store.h"

#include "base/minmax.h"

#define TAIL 8u /* octets that a consumer polls */

static bool store_part(const struct qp *qp, uint32_t stag, uint8_t *to, const uint8_t *from,
                       uint32_t octets, enum memory_use use)
{
    if (unlikely(qp->rnic->options.guard))
        return guard_write(qp, stag, to, from, octets, use);
    memcpy(to, from, octets);
    return true;
}

bool roce_store(const struct qp *qp, uint32_t stag, uint8_t *to, const uint8_t *from,
                uint32_t octets, enum memory_use use, bool last)
{
    uint32_t tail = last ? min_u32(octets, TAIL) : 0;

    if (octets - tail && !store_part(qp, stag, to, from, octets - tail, use))
        return false;
    if (!tail)
        return true;
    atomic_thread_fence(memory_order_release);
    return store_part(qp, stag, to + octets - tail, from + octets - tail, tail, use);
}

bool roce_scatter(const struct qp *qp, struct stag_hint *hint, const struct pd *pd,
                  const struct ri_sge *sges, uint32_t count, uint64_t offset, const uint8_t *from,
                  uint32_t octets, enum memory_use use, bool last)
{
    for (uint32_t i = 0; i < count && octets; i++) {
        uint8_t *memory;
        uint32_t part;

        if (sges[i].length <= offset) {
            offset -= sges[i].length;
            continue;
        }
        part = min_u32(sges[i].length - (uint32_t)offset, octets);
        if (stag_check_hinted(&qp->rnic->stags, hint, sges[i].lkey, pd, RI_ACCESS_LOCAL_WRITE,
                              sges[i].addr + offset, part, &memory) != STAG_OK ||
            !roce_store(qp, sges[i].lkey, memory, from, part, use, last && part == octets))
            return false;
        from += part;
        octets -= part;
        offset = 0;
    }
    return !octets;
}
