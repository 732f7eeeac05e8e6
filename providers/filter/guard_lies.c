/* SPDX-License-Identifier: BSD-3-Clause */
/* What the filter `guard` says of the provider below, and where it looks. */
#include "guard.h"

static const char *const lies[GUARD_LIES] = {
    [GUARD_TWICE] = "completes a request twice, or one that was not posted: it is dropped",
    [GUARD_UNKNOWN] = "gives a completion of a queue pair that is not there: it is dropped",
    [GUARD_MORE] = "gives more completions than there is room for: those are dropped",
    [GUARD_BEHIND] = "writes behind the array of completions",
    [GUARD_EVENT] = "tells an event of a queue pair that is not there: it is dropped",
};

void guard_note(struct guard_rnic *rnic, enum guard_lie lie, uint32_t dropped)
{
    atomic_fetch_add(&rnic->dropped, dropped);
    if (!atomic_exchange(&rnic->said[lie], true))
        ri_log(rnic->pass.upper, RI_LOG_ERROR, "filter guard: provider %s %s; richeck grades it",
               rnic->pass.provider, lies[lie]);
}

struct guard_qp *guard_find(struct guard_rnic *rnic, void *context)
{
    struct guard_qp *qp;

    HASH_FIND_PTR(rnic->qps, &context, qp);
    return qp;
}
