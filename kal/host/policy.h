/* SPDX-License-Identifier: BSD-3-Clause */
/* Ordered allow and deny rules for connections. Parsed once, then read only: any thread, never
 * blocks. */
#ifndef ITAL_KAL_POLICY_H
#define ITAL_KAL_POLICY_H

#include <stdbool.h>
#include <sys/types.h>

#include "kal.h"

struct kal_rule;

struct kal_policy {
    struct kal_rule *rules;
    /* Used by host.c: the copy that these rules replaced */
    struct kal_policy *before;
};

struct kal_policy *kal_policy_create(void);
void kal_policy_destroy(struct kal_policy *policy);

/*
 * Appends one rule: `allow|deny connect|listen|request|any [to|from|on|at ADDRESS[/PREFIX]|any]
 * [port N[-M]] [user NAME|UID]`. KAL_ERR_CONFIGURATION (why[] has one sentence) or
 * KAL_ERR_NO_RESOURCES; then nothing is appended. kal_policy_allows returns `name`.
 */
enum kal_status kal_policy_add(struct kal_policy *policy, const char *name, const char *text,
                               char *why, size_t why_size);

/*
 * The first matching rule decides; without one the answer is yes. *rule is the name of the deciding
 * rule, or NULL. A rule compares: for connect, the peer's address and port; for listen, the local
 * address and port; for request, the peer's address and the local port. An unknown or wildcard
 * address matches the prefix of every deny rule of its family; of allow rules it matches only
 * prefix length 0.
 */
bool kal_policy_allows(const struct kal_policy *policy, const struct ri_policy_question *question,
                       uid_t user, const char **rule);

#endif
