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
    /* host.c's: the copy that these rules replaced */
    struct kal_policy *before;
};

struct kal_policy *kal_policy_create(void);
void kal_policy_destroy(struct kal_policy *policy);

/*
 * Append one rule: `allow|deny connect|listen|request|any [to|from|on|at ADDRESS[/PREFIX]|any]
 * [port N[-M]] [user NAME|UID]`. KAL_ERR_CONFIGURATION (with why[] filled with one sentence) or
 * KAL_ERR_NO_RESOURCES; nothing is appended then. `name` is what kal_policy_allows tells.
 */
enum kal_status kal_policy_add(struct kal_policy *policy, const char *name, const char *text,
                               char *why, size_t why_size);

/*
 * The first rule that matches decides; without one the answer is yes. *rule is the deciding rule's
 * name or NULL. What a rule compares: connect: the peer's address and port. listen: the local
 * address and port. request: the peer's address, the local port. An address that is unknown, and a
 * wildcard one, matches the prefix of every deny rule of its family and of no allow rule, except
 * prefix length 0.
 */
bool kal_policy_allows(const struct kal_policy *policy, const struct ri_policy_question *question,
                       uid_t user, const char **rule);

#endif
