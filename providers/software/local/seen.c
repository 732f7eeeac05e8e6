/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What people see of a connection: by which way its requests reach the peer's memory, and who has
 * executed them. Any thread, at any moment; a QP that this wire has not connected has no part of
 * it, and counts nothing.
 */
#include "local.h"

const char *local_way(const struct qp *base)
{
    const struct local_qp *qp = atomic_load_explicit(&base->local_part, memory_order_acquire);

    const char *way = qp ? atomic_load_explicit(&qp->way, memory_order_relaxed) : NULL;

    return way ? way : "ring";
}

#define COUNTER(text, member)                         \
    {                                                 \
        text, offsetof(struct local_counters, member) \
    }

static const struct {
    const char *name;
    size_t offset; /* of an atomic_ullong */
} all[] = {
    COUNTER("requests executed by the peer", by_peer),
    COUNTER("octets moved by the peer", by_peer_octets),
    COUNTER("requests executed for the peer", for_peer),
    COUNTER("octets moved for the peer", for_peer_octets),
    COUNTER("requests executed directly", directly),
    COUNTER("octets moved directly", directly_octets),
    COUNTER("requests executed in mapped memory", mapped),
    COUNTER("wake-ups sent", wakes_sent),
    COUNTER("wake-ups received", wakes_received),
};

#undef COUNTER

bool local_counter(const struct qp *base, uint32_t number, const char **name, uint64_t *value)
{
    /* It may be made at this moment. */
    const struct local_qp *qp = atomic_load_explicit(&base->local_part, memory_order_acquire);
    const atomic_ullong *counter;

    if (number >= sizeof(all) / sizeof(*all))
        return false;
    *name = all[number].name;
    *value = 0;
    if (!qp)
        return true;
    counter = (const atomic_ullong *)(const void *)((const uint8_t *)&qp->counters +
                                                    all[number].offset);
    *value = atomic_load_explicit(counter, memory_order_relaxed);
    return true;
}
