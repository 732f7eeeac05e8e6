/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts of what a process holds, and the limits on them. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "account.h"

#include "base/checked.h"

static const struct {
    const char *text, *option;
} kinds[KAL_ACCOUNT_KINDS] = {
    [KAL_ACCOUNT_RNIC] = { "open interfaces", "max_rnic" },
    [KAL_ACCOUNT_PD] = { "protection zones", "max_pd" },
    [KAL_ACCOUNT_CQ] = { "completion queues", "max_cq" },
    [KAL_ACCOUNT_QP] = { "queue pairs", "max_qp" },
    [KAL_ACCOUNT_SRQ] = { "shared receive queues", "max_srq" },
    [KAL_ACCOUNT_MR] = { "memory regions", "max_mr" },
    [KAL_ACCOUNT_MW] = { "memory windows", "max_mw" },
    [KAL_ACCOUNT_AH] = { "address handles", "max_ah" },
    [KAL_ACCOUNT_CONNECTION] = { "connections being set up", "max_connection" },
    [KAL_ACCOUNT_LISTENER] = { "listeners", "max_listener" },
    [KAL_ACCOUNT_PINNED] = { "octets of pinned memory", "max_pinned" },
};

bool kal_account_take(struct kal_account *account, enum kal_account_kind kind, uint64_t amount)
{
    uint64_t used = atomic_load_explicit(&account->used[kind], memory_order_relaxed);
    uint64_t limit = account->limit[kind], sum;

    do {
        if (!checked_add(used, amount, &sum) || (limit && sum > limit))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&account->used[kind], &used, sum,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void kal_account_give(struct kal_account *account, enum kal_account_kind kind, uint64_t amount)
{
    atomic_fetch_sub_explicit(&account->used[kind], amount, memory_order_relaxed);
}

uint64_t kal_account_used(const struct kal_account *account, enum kal_account_kind kind)
{
    return atomic_load_explicit(&account->used[kind], memory_order_relaxed);
}

const char *kal_account_text(enum kal_account_kind kind)
{
    return kinds[kind].text;
}

const char *kal_account_option(enum kal_account_kind kind)
{
    return kinds[kind].option;
}
