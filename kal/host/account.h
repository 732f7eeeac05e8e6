/* SPDX-License-Identifier: BSD-3-Clause */
/* What the process holds of each kind, within what the host has leased to it. Lock-free, any
 * thread. */
#ifndef ITAL_KAL_ACCOUNT_H
#define ITAL_KAL_ACCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kal/config/quota.h"

struct kal_account {
    /* What went back to the host stays counted here, so that a lease never shrinks under a take */
    _Atomic uint64_t used[KAL_ACCOUNT_KINDS];
    _Atomic uint64_t returned[KAL_ACCOUNT_KINDS];
    /* Everything that was ever granted; UINT64_MAX: no limit */
    _Atomic uint64_t granted[KAL_ACCOUNT_KINDS];
};

/* Add amount, or change nothing and return false when that would pass the lease. */
bool kal_account_take(struct kal_account *account, enum kal_account_kind kind, uint64_t amount);
void kal_account_give(struct kal_account *account, enum kal_account_kind kind, uint64_t amount);
uint64_t kal_account_used(const struct kal_account *account, enum kal_account_kind kind);

/* The lease grows by amount; UINT64_MAX is the most. */
void kal_account_grant(struct kal_account *account, enum kal_account_kind kind, uint64_t amount);
/* Return the free part of the lease to the host, but no more than amount; returns how much that
 * is. Nothing of a lease without limit. */
uint64_t kal_account_return(struct kal_account *account, enum kal_account_kind kind,
                            uint64_t amount);
/* How much of amount is not free now; 0: nothing. */
uint64_t kal_account_missing(const struct kal_account *account, enum kal_account_kind kind,
                             uint64_t amount);
/* Is less than a quarter of the lease free? */
bool kal_account_is_low(const struct kal_account *account, enum kal_account_kind kind);

#endif
