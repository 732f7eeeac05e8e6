/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes from the leases of the host, and decides when to ask for more. */
#include "host_private.h"

static bool take(struct kal_host *host, enum kal_account_kind kind, uint64_t amount, bool wait)
{
    while (!kal_account_take(&host->account, kind, amount)) {
        uint64_t missing = kal_account_missing(&host->account, kind, amount);

        if (missing && !host->ops->lease(host->state, kind, missing, wait))
            return kal_account_take(&host->account, kind, amount); /* an earlier grant covers it */
    }
    if (kal_account_is_low(&host->account, kind))
        host->ops->lease(host->state, kind, 0, false);
    return true;
}

void kal_host_grant(struct kal_host *host, enum kal_account_kind kind, uint64_t amount)
{
    kal_account_grant(&host->account, kind, amount);
}

uint64_t kal_host_return(struct kal_host *host, enum kal_account_kind kind, uint64_t amount)
{
    return kal_account_return(&host->account, kind, amount);
}

uint64_t kal_host_quota(const struct kal_host *host, enum kal_account_kind kind)
{
    return host->ops->quota(host->state, kind);
}

uint64_t kal_host_holds(const struct kal_host *host, enum kal_account_kind kind)
{
    return kal_account_used(&host->account, kind);
}

/* Of two threads that take the last one, none passes the limit; both may be refused. */
bool kal_host_take(struct kal_host *host, enum kal_account_kind kind, uint64_t amount, bool wait,
                   const struct policy_rule **rule)
{
    *rule = kal_host_limit_refuses(host, kind, amount);
    if (*rule || !take(host, kind, amount, wait))
        return false;
    *rule = kal_host_limit_refuses(host, kind, 0);
    if (!*rule)
        return true;
    kal_account_give(&host->account, kind, amount);
    return false;
}
