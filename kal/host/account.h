/* SPDX-License-Identifier: BSD-3-Clause */
/* The process's use of each kind, within what the host has leased to it. Lock-free, any thread. */
#ifndef ITAL_KAL_ACCOUNT_H
#define ITAL_KAL_ACCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kal/config/quota.h"

struct kal_account {
    /* What was returned to the host stays counted here, so a lease never shrinks during a take */
    _Atomic uint64_t used[KAL_ACCOUNT_KINDS];
    _Atomic uint64_t returned[KAL_ACCOUNT_KINDS];
    /* The total that was ever granted; UINT64_MAX: no limit */
    _Atomic uint64_t granted[KAL_ACCOUNT_KINDS];
};

/* Adds amount. False: it would exceed the lease, and nothing changes. */
bool kal_account_take(struct kal_account *account, enum kal_account_kind kind, uint64_t amount);
void kal_account_give(struct kal_account *account, enum kal_account_kind kind, uint64_t amount);
uint64_t kal_account_used(const struct kal_account *account, enum kal_account_kind kind);

/* The lease grows by amount. UINT64_MAX: no limit from now on. */
void kal_account_grant(struct kal_account *account, enum kal_account_kind kind, uint64_t amount);
/* Returns at most amount of the free part of the lease to the host; the result is how much. A lease
 * without limit returns nothing. */
uint64_t kal_account_return(struct kal_account *account, enum kal_account_kind kind,
                            uint64_t amount);
/* The part of amount that is not free now. 0: all is free. */
uint64_t kal_account_missing(const struct kal_account *account, enum kal_account_kind kind,
                             uint64_t amount);
/* True: less than a quarter of the lease is free. */
bool kal_account_is_low(const struct kal_account *account, enum kal_account_kind kind);

#endif
