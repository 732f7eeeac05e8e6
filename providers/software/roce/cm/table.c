/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections by what they are known by: chains in buckets.
 */
#include "internal.h"

bool cm_address_equal(const struct cm_address *a, const struct cm_address *b)
{
    return !memcmp(a->own, b->own, GID_LEN) && !memcmp(a->peer, b->peer, GID_LEN);
}

static uint32_t mix(uint32_t sum, const void *octets, size_t length)
{
    const uint8_t *at = octets;

    for (size_t i = 0; i < length; i++)
        sum = (sum ^ at[i]) * UINT32_C(0x01000193);
    return sum;
}

static uint32_t of_id(const struct cm_manager *manager, uint32_t id)
{
    uint32_t sum = mix(manager->seed, &id, sizeof(id));

    return (sum ^ sum >> 16) % CM_BUCKETS;
}

static uint32_t of_qp(const struct cm_manager *manager, uint64_t guid, uint32_t qpn)
{
    uint32_t sum = mix(mix(manager->seed, &guid, sizeof(guid)), &qpn, sizeof(qpn));

    return (sum ^ sum >> 16) % CM_BUCKETS;
}

static struct cm_conn **bucket_of(const struct cm_conn *conn, enum cm_index index)
{
    struct cm_manager *manager = conn->manager;
    uint32_t bucket = 0;

    switch (index) {
    case CM_BY_OWN_ID: bucket = of_id(manager, conn->own_id); break;
    case CM_BY_PEER_ID: bucket = of_id(manager, conn->peer_id); break;
    case CM_BY_PEER_QP: bucket = of_qp(manager, conn->peer_guid, conn->peer_qpn); break;
    case CM_INDEXES: break;
    }
    return &manager->buckets[index][bucket];
}

void cm_table_add(struct cm_conn *conn, enum cm_index index)
{
    struct cm_conn **bucket = bucket_of(conn, index);

    contract(!conn->in[index]);
    conn->chain[index] = *bucket;
    *bucket = conn;
    conn->in[index] = true;
}

void cm_table_remove(struct cm_conn *conn, enum cm_index index)
{
    struct cm_conn **at;

    if (!conn->in[index])
        return;
    for (at = bucket_of(conn, index); *at != conn; at = &(*at)->chain[index])
        ;
    *at = conn->chain[index];
    conn->in[index] = false;
}

void cm_table_forget(struct cm_conn *conn)
{
    for (int i = 0; i < CM_INDEXES; i++)
        cm_table_remove(conn, (enum cm_index)i);
}

struct cm_conn *cm_table_by_own_id(const struct cm_manager *manager,
                                   const struct cm_address *address, uint32_t own_id, bool sidr)
{
    struct cm_conn *conn = manager->buckets[CM_BY_OWN_ID][of_id(manager, own_id)];

    while (conn && (conn->own_id != own_id || cm_is_sidr(conn) != sidr ||
                    !cm_address_equal(&conn->address, address)))
        conn = conn->chain[CM_BY_OWN_ID];
    return conn;
}

struct cm_conn *cm_table_by_peer_id(const struct cm_manager *manager,
                                    const struct cm_address *address, uint32_t peer_id, bool sidr)
{
    struct cm_conn *conn = manager->buckets[CM_BY_PEER_ID][of_id(manager, peer_id)];

    while (conn && (conn->peer_id != peer_id || cm_is_sidr(conn) != sidr ||
                    !cm_address_equal(&conn->address, address)))
        conn = conn->chain[CM_BY_PEER_ID];
    return conn;
}

struct cm_conn *cm_table_by_peer_qp(const struct cm_manager *manager,
                                    const struct cm_address *address, uint64_t guid, uint32_t qpn)
{
    struct cm_conn *conn = manager->buckets[CM_BY_PEER_QP][of_qp(manager, guid, qpn)];

    while (conn && (conn->peer_guid != guid || conn->peer_qpn != qpn ||
                    memcmp(conn->address.peer, address->peer, GID_LEN) != 0))
        conn = conn->chain[CM_BY_PEER_QP];
    return conn;
}

bool cm_table_has_id(const struct cm_manager *manager, uint32_t own_id)
{
    const struct cm_conn *conn = manager->buckets[CM_BY_OWN_ID][of_id(manager, own_id)];

    while (conn && conn->own_id != own_id)
        conn = conn->chain[CM_BY_OWN_ID];
    return conn != NULL;
}

/* --- IDs --- */

uint32_t cm_fresh_id(struct cm_manager *manager)
{
    uint32_t id = manager->ops->new_id(manager);

    while (cm_table_has_id(manager, id))
        id = manager->ops->new_id(manager);
    return id;
}

void cm_take_id(struct cm_conn *conn)
{
    conn->own_id = cm_fresh_id(conn->manager);
    conn->transaction_id = (uint64_t)conn->own_id << 32 | (uint32_t)++conn->manager->transactions;
    cm_table_add(conn, CM_BY_OWN_ID);
}
