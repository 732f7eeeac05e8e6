/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's policy, ital-policy(5), in this process: the newest list, and its limits. */
#include "host_private.h"

#include "base/clock.h"

#include <stdlib.h>
#include <unistd.h>

_Atomic bool kal_host_has_rules;

void kal_host_publish(_Atomic(struct kal_policy *) *newest, struct kal_policy *policy)
{
    bool any = policy->list.count;

    policy->since = clock_wall();
    policy->before = atomic_load(newest);
    while (!atomic_compare_exchange_weak(newest, &policy->before, policy))
        ;
    if (any)
        atomic_store_explicit(&kal_host_has_rules, true, memory_order_relaxed);
}

enum ri_status kal_host_push_governing(struct kal_host *host, struct policy *list)
{
    struct kal_policy *policy = kal_policy_create();

    if (!policy) {
        policy_clear(list);
        return RI_ERR_NO_RESOURCES;
    }
    policy->list = *list;
    *list = (struct policy){ NULL, 0, NULL, 0 };
    kal_host_publish(&host->governing, policy);
    return RI_OK;
}

void kal_host_rules(struct kal_host *host, struct kal_rules_seen *seen)
{
    const struct kal_policy *governing = atomic_load(&host->governing);
    const struct kal_policy *policy = atomic_load(&host->policy);

    *seen = (struct kal_rules_seen){ .own = policy ? policy->list.count : 0 };
    if (!governing)
        return;
    seen->governed = true;
    seen->since = governing->since;
    seen->count = governing->list.count;
    seen->files = (const char *const *)governing->list.sources;
    seen->file_count = governing->list.source_count;
}

int kal_host_rules_watch(struct kal_host *host)
{
    return host->ops->rules_watch ? host->ops->rules_watch(host->state) : -1;
}

void kal_host_rules_changed(struct kal_host *host)
{
    if (host->ops->rules_changed)
        host->ops->rules_changed(host->state);
}

bool kal_host_in_group(const void *arg, uint32_t group)
{
    (void)arg;
    return getegid() == group || group_member(group) > 0;
}

static const int kinds[KAL_ACCOUNT_KINDS] = { [KAL_ACCOUNT_QP] = POLICY_ENDPOINTS + 1,
                                              [KAL_ACCOUNT_MR] = POLICY_REGIONS + 1,
                                              [KAL_ACCOUNT_PINNED] = POLICY_PINNED + 1 };

bool kal_is_leased(enum kal_account_kind kind)
{
    return kinds[kind];
}

static const struct policy_rule *limit_of(const struct kal_host *host, enum kal_account_kind kind)
{
    const struct kal_policy *governing = atomic_load(&host->governing);
    const struct policy_question question = { .user = geteuid(), .in_group = kal_host_in_group };

    if (!governing || !kinds[kind])
        return NULL;
    return policy_limit(governing->list.rules, governing->list.count,
                        (enum policy_kind)(kinds[kind] - 1), &question);
}

const struct policy_rule *kal_host_limit_refuses(const struct kal_host *host,
                                                 enum kal_account_kind kind, uint64_t amount)
{
    const struct policy_rule *rule = limit_of(host, kind);
    uint64_t used = kal_account_used(&host->account, kind);

    return rule && (amount > rule->amount || used > rule->amount - amount) ? rule : NULL;
}

enum kal_refusal kal_host_refusal(const struct kal_host *host, enum kal_account_kind kind,
                                  uint64_t amount, const struct policy_rule **rule)
{
    uint64_t quota = host->ops->quota(host->state, kind);
    uint64_t used = kal_account_used(&host->account, kind);

    if (*rule)
        return KAL_REFUSAL_LIMIT;
    if (quota && (amount > quota || used > quota - amount))
        return KAL_REFUSAL_QUOTA;
    *rule = limit_of(host, kind);
    return *rule ? KAL_REFUSAL_USER_LIMIT : KAL_REFUSAL_NOW;
}
