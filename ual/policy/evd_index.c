/* SPDX-License-Identifier: BSD-3-Clause
 * Queued events by their source: freeing one of many endpoints visits its events only. The number
 * of chains grows with the queue; without memory for more chains they are longer. */
#include "evd_private.h"

#include <stdlib.h>
#include <utlist.h>

#define CHAIN_LENGTH 4u /* average length that doubles the number of chains */

static struct node **chain_of(struct evd_index *index, ual_handle source)
{
    return &index->chains[(source * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - index->bits)];
}

void evd_index_init(struct evd_index *index)
{
    index->chains = index->first;
    index->bits = EVD_INDEX_BITS;
}

void evd_index_end(struct evd_index *index)
{
    if (index->chains != index->first)
        free(index->chains);
}

void evd_index_add(struct evd_index *index, struct node *node, ual_handle source)
{
    struct node **chain = chain_of(index, source);

    node->source = source;
    DL_APPEND2(*chain, node, same_prev, same_next);
}

void evd_index_remove(struct evd_index *index, struct node *node)
{
    struct node **chain = chain_of(index, node->source);

    DL_DELETE2(*chain, node, same_prev, same_next);
}

struct node *evd_index_find(struct evd_index *index, ual_handle source)
{
    struct node *node;

    DL_FOREACH2 (*chain_of(index, source), node, same_next) {
        index->looked++;
        if (node->source == source)
            break;
    }
    return node;
}

bool evd_index_is_crowded(const struct evd_index *index, uint32_t queued)
{
    return queued >> index->bits >= CHAIN_LENGTH;
}

void evd_index_grow(struct ual_evd *evd)
{
    struct evd_index *index = &evd->index;
    uint32_t bits = index->bits + 1;
    struct node **old, **chains, *node;

    if (bits > EVD_INDEX_BITS_MOST)
        return;
    chains = calloc((size_t)1 << bits, sizeof(struct node *));
    if (!chains)
        return;
    spinlock_lock(&evd->queue_lock);
    if (bits <= index->bits) { /* another thread was faster */
        spinlock_unlock(&evd->queue_lock);
        free(chains);
        return;
    }
    old = index->chains;
    index->chains = chains;
    index->bits = bits;
    DL_FOREACH (evd->queue, node)
        DL_APPEND2(*chain_of(index, node->source), node, same_prev, same_next);
    spinlock_unlock(&evd->queue_lock);
    if (old != index->first)
        free(old);
}
