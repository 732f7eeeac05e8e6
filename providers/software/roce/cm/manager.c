/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The manager: datagrams of QP 1 to what they are.
 */
#include "internal.h"

void cm_manager_init(struct cm_manager *manager, const struct cm_ops *ops, uint8_t mtu_code)
{
    memset(manager, 0, sizeof(*manager));
    manager->ops = ops;
    manager->mtu_code = mtu_code;
    manager->armed = CM_NEVER;
    manager->seed = ops->new_id(manager);
    manager->transactions = ops->new_id(manager);
}

void cm_manager_clear(struct cm_manager *manager)
{
    contract(!manager->services);
    for (int i = 0; i < CM_INDEXES; i++)
        for (uint32_t bucket = 0; bucket < CM_BUCKETS; bucket++)
            while (manager->buckets[i][bucket])
                cm_end(manager->buckets[i][bucket]);
    while (manager->resting)
        cm_end(manager->resting);
    while (manager->heap_count)
        cm_end(manager->heap[0]);
    contract(!manager->conns);
    cm_heap_release(manager);
}

static void (*const handlers[])(struct cm_manager *manager, const struct cm_address *from,
                                const struct cm_message *message) = {
    [CM_REQ] = cm_on_req,   [CM_MRA] = cm_on_mra,           [CM_REJ] = cm_on_rej,
    [CM_REP] = cm_on_rep,   [CM_RTU] = cm_on_rtu,           [CM_DREQ] = cm_on_dreq,
    [CM_DREP] = cm_on_drep, [CM_SIDR_REQ] = cm_on_sidr_req, [CM_SIDR_REP] = cm_on_sidr_rep,
};

void cm_manager_receive(struct cm_manager *manager, const struct cm_address *address,
                        const void *mad, size_t len, uint64_t now)
{
    struct cm_message message;

    if (cm_parse(mad, len, &message) != MAD_OK || gid_is_multicast(address->own) ||
        gid_is_multicast(address->peer)) { /* M-003, M-005 */
        manager->malformed++;
        return;
    }
    cm_enter(manager, now);
    handlers[message.attribute_id](manager, address, &message);
    cm_leave(manager);
}
