/* SPDX-License-Identifier: BSD-3-Clause */
/* Which number an object has that a completion or an event names by its context. */
#include "trace.h"

#include <stdlib.h>

static struct trace_name *find(struct trace_rnic *rnic, enum pass_kind kind, const void *context)
{
    const struct trace_key key = { .context = context, .kind = kind };
    struct trace_name *name;

    HASH_FIND(hh, rnic->names, &key, sizeof(key), name);
    return name;
}

/* Without memory the number stays unknown. */
void trace_remember(struct trace_rnic *rnic, enum pass_kind kind, const void *context,
                    uint64_t number)
{
    struct trace_name *name;

    pthread_mutex_lock(&rnic->lock);
    name = find(rnic, kind, context);
    if (!name) {
        name = calloc(1, sizeof(*name));
        if (name) {
            name->key = (struct trace_key){ .context = context, .kind = kind };
            HASH_ADD(hh, rnic->names, key, sizeof(name->key), name);
            if (!name->hh.tbl) {
                free(name);
                name = NULL;
            }
        }
    }
    if (name)
        name->number = number;
    pthread_mutex_unlock(&rnic->lock);
}

void trace_forget(struct trace_rnic *rnic, enum pass_kind kind, const void *context,
                  uint64_t number)
{
    struct trace_name *name;

    pthread_mutex_lock(&rnic->lock);
    name = find(rnic, kind, context);
    if (name && name->number != number)
        name = NULL;
    if (name)
        HASH_DEL(rnic->names, name);
    pthread_mutex_unlock(&rnic->lock);
    free(name);
}

uint64_t trace_number_of(struct trace_rnic *rnic, enum pass_kind kind, const void *context)
{
    const struct trace_name *name;
    uint64_t number;

    pthread_mutex_lock(&rnic->lock);
    name = find(rnic, kind, context);
    number = name ? name->number : 0;
    pthread_mutex_unlock(&rnic->lock);
    return number;
}

void trace_forget_all(struct trace_rnic *rnic)
{
    struct trace_name *name, *next;

    HASH_ITER (hh, rnic->names, name, next) {
        HASH_DEL(rnic->names, name);
        free(name);
    }
}
