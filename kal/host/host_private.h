/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of this folder share behind host.h. */
#ifndef ITAL_KAL_HOST_PRIVATE_H
#define ITAL_KAL_HOST_PRIVATE_H

#include "account.h"
#include "host.h"
#include "pin.h"
#include "policy.h"

struct kal_host {
    const struct kal_host_ops *ops;
    void *state;
    struct kal_account account;
    struct kal_pins pins;
    /* The newest; those before hang behind it. NULL: none was pushed, everything is allowed */
    _Atomic(struct kal_policy *) policy;
};

/* Without a table's open: for kal_host_open, and tests of single files. NULL: memory. */
struct kal_host *kal_host_create(const struct kal_host_ops *ops, void *state);
void kal_host_destroy(struct kal_host *host);

/* Take from the lease; the host is asked for more. With `wait` its answer is waited for. */
bool kal_host_take(struct kal_host *host, enum kal_account_kind kind, uint64_t amount, bool wait);

#endif
