/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of section [policy]: formats/policy.h with a name each. Parsed once, then read only:
 * any thread, never blocks. */
#ifndef ITAL_KAL_POLICY_H
#define ITAL_KAL_POLICY_H

#include <stdbool.h>
#include <sys/types.h>

#include "formats/policy.h"
#include "kal.h"

struct kal_policy {
    struct policy list;
    /* Used by host.c: the copy that these rules replaced */
    struct kal_policy *before;
    /* clock_wall() when they came into effect */
    uint64_t since;
};

struct kal_policy *kal_policy_create(void);
void kal_policy_destroy(struct kal_policy *policy);

/*
 * Appends one rule, as formats/policy.h reads it, but no limit. ITAL_ERR_CONFIGURATION (why[] has
 * one sentence) or RI_ERR_NO_RESOURCES; then no rule is appended. kal_policy_allows returns
 * `name`.
 */
enum ri_status kal_policy_add(struct kal_policy *policy, const char *name, const char *text,
                              char *why, size_t why_size);

/* The first matching rule decides; without one the answer is yes. *rule is the name of the deciding
 * rule, or NULL. */
bool kal_policy_allows(const struct kal_policy *policy, const struct policy_question *question,
                       const char **rule);

#endif
