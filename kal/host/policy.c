/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of section [policy]. */
#include "policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kal_policy *kal_policy_create(void)
{
    return calloc(1, sizeof(struct kal_policy));
}

void kal_policy_destroy(struct kal_policy *policy)
{
    if (!policy)
        return;
    policy_clear(&policy->list);
    free(policy);
}

enum ri_status kal_policy_add(struct kal_policy *policy, const char *name, const char *text,
                              char *why, size_t why_size)
{
    char reason[200];
    struct policy_rule rule;
    bool empty;

    if (!policy_read_line(text, strlen(text), &policy_system_names, &rule, &empty, reason,
                          sizeof(reason))) {
        snprintf(why, why_size, "%s", reason);
        return ITAL_ERR_CONFIGURATION;
    }
    if (empty || rule.verdict == POLICY_LIMIT) {
        snprintf(why, why_size,
                 empty ? "a rule begins with allow or deny"
                       : "a rule begins with allow or deny; limits stand in section [quota]");
        return ITAL_ERR_CONFIGURATION;
    }
    return policy_add(&policy->list, name, &rule) ? RI_OK : RI_ERR_NO_RESOURCES;
}

bool kal_policy_allows(const struct kal_policy *policy, const struct policy_question *question,
                       const char **rule_name)
{
    const struct policy_rule *rule = policy_decide(policy->list.rules, policy->list.count,
                                                   question);

    *rule_name = rule ? rule->source : NULL;
    return !rule || rule->verdict == POLICY_ALLOW;
}
