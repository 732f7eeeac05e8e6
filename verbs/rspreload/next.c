/* SPDX-License-Identifier: BSD-3-Clause
 * The definitions behind ours. */
#include "rspreload.h"

#include <dlfcn.h>

static struct rp_next next;
static atomic_bool found;

/* ISO C converts no pointer to an object into one to a function. */
static void find(void *place, const char *name)
{
    *(void **)place = dlsym(RTLD_NEXT, name);
}

/* Two threads may do this at the same time, with the same result. */
static void find_all(void)
{
#define X(name) find(&next.name, #name);
    RP_NEXT_CALLS(X)
#undef X
    atomic_store_explicit(&found, true, memory_order_release);
}

/* Not first in a signal handler: dlsym takes a lock. */
__attribute__((constructor)) static void find_early(void)
{
    find_all();
}

const struct rp_next *rp_next(void)
{
    if (!atomic_load_explicit(&found, memory_order_acquire))
        find_all();
    return &next;
}
