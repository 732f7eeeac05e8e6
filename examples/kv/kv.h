/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kv: what client and servers agree on. Integers on the wire are in network order.
 *
 * The table is an array of slots. A key may stand in the KV_PROBES slots from its hash on; the
 * array has KV_PROBES - 1 slots more than hashes, so these are always neighbours, and one RDMA Read
 * fetches all places where a key can be.
 *
 * A Read may come while the server writes the slot. The sum shows that: then the client reads
 * again.
 */
#ifndef KV_H
#define KV_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define KV_PORT   7474
#define KV_SLOTS  1024
#define KV_PROBES 8
#define KV_KEY    32  /* with the NUL */
#define KV_VALUE  212 /* octets */

/* Private data of the acceptance: where the table is. */
struct kv_offer {
    uint64_t address, context;
    uint32_t slots, slot_size;
};

/* What the client sends: put this. */
struct kv_put {
    char key[KV_KEY];
    uint32_t length;
    char value[KV_VALUE];
};

/* What the server answers. */
enum kv_result { KV_STORED, KV_FULL, KV_MALFORMED };
struct kv_reply {
    uint32_t result;
};

/* A slot without a key is empty: all zeros. */
struct kv_slot {
    uint64_t sum;
    struct kv_put entry;
};

static inline uint64_t kv_hash(const void *octets, size_t length) /* FNV-1a */
{
    const unsigned char *at = octets;
    uint64_t sum = 0xcbf29ce484222325;

    while (length--)
        sum = (sum ^ *at++) * 0x100000001b3;
    return sum;
}

static inline size_t kv_first_slot(const char *key)
{
    return kv_hash(key, strlen(key)) % KV_SLOTS;
}

static inline uint64_t kv_sum(const struct kv_put *entry)
{
    return kv_hash(entry, sizeof(*entry));
}

#endif
