/* SPDX-License-Identifier: BSD-3-Clause */
/* The process's use of each kind, within what the host has leased to it. */
#include "account.h"

#include "base/checked.h"

bool kal_account_take(struct kal_account *account, enum kal_account_kind kind, uint64_t amount)
{
    uint64_t used = atomic_load_explicit(&account->used[kind], memory_order_relaxed), sum;

    do {
        if (!checked_add(used, amount, &sum) || sum > atomic_load(&account->granted[kind]))
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
    uint64_t returned = atomic_load(&account->returned[kind]);

    return atomic_load(&account->used[kind]) - returned;
}

void kal_account_grant(struct kal_account *account, enum kal_account_kind kind, uint64_t amount)
{
    uint64_t granted = atomic_load(&account->granted[kind]), sum;

    do {
        if (!checked_add(granted, amount, &sum))
            sum = UINT64_MAX;
    } while (!atomic_compare_exchange_weak(&account->granted[kind], &granted, sum));
}

static uint64_t free_of(const struct kal_account *account, enum kal_account_kind kind)
{
    uint64_t used = atomic_load(&account->used[kind]);

    return atomic_load(&account->granted[kind]) - used;
}

uint64_t kal_account_return(struct kal_account *account, enum kal_account_kind kind,
                            uint64_t amount)
{
    uint64_t free;

    if (atomic_load(&account->granted[kind]) == UINT64_MAX)
        return 0;
    do {
        free = free_of(account, kind);
        if (free > amount)
            free = amount;
    } while (free && !kal_account_take(account, kind, free));
    atomic_fetch_add(&account->returned[kind], free);
    return free;
}

uint64_t kal_account_missing(const struct kal_account *account, enum kal_account_kind kind,
                             uint64_t amount)
{
    uint64_t free = free_of(account, kind);

    return amount > free ? amount - free : 0;
}

bool kal_account_is_low(const struct kal_account *account, enum kal_account_kind kind)
{
    /* Read before granted, which only grows: so the difference never wraps. */
    uint64_t returned = atomic_load(&account->returned[kind]);
    uint64_t leased = atomic_load(&account->granted[kind]) - returned;

    return free_of(account, kind) < leased / 4 + (leased % 4 != 0);
}
