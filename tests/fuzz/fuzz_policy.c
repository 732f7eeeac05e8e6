/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's policy: any text is read without a step outside it, errors name a line, and what a
 * rule that was read means is decided. */
#include "tests/fuzz/fuzz.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "formats/policy.h"

static bool known(const char *name, uint32_t *id)
{
    *id = (uint32_t)strlen(name);
    return *name != 'x';
}

static bool in_group(const void *arg, uint32_t group)
{
    (void)arg;
    return group & 1;
}

static void decide(const struct policy *policy)
{
    struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(7471) };
    struct policy_question question = { .directions = POLICY_CONNECT,
                                        .peer = policy_place_of((struct sockaddr *)&peer),
                                        .local = policy_place_of(NULL),
                                        .user = 4,
                                        .in_group = in_group };
    const struct policy_rule *rule;

    for (question.directions = 1; question.directions <= POLICY_ANY; question.directions *= 2) {
        rule = policy_decide(policy->rules, policy->count, &question);
        FUZZ_CHECK(!rule || rule->verdict != POLICY_LIMIT);
        FUZZ_CHECK(!rule || (rule->directions & question.directions));
    }
    rule = policy_limit(policy->rules, policy->count, POLICY_PINNED, &question);
    FUZZ_CHECK(!rule || (rule->verdict == POLICY_LIMIT && rule->kind == POLICY_PINNED));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct policy_names names = { known, known };
    struct policy policy = { NULL, 0, NULL, 0 };
    char *exact = malloc(size ? size : 1), why[300] = "";
    enum policy_result result;

    FUZZ_CHECK(exact);
    if (size)
        memcpy(exact, data, size);
    result = policy_read_text(&policy, "file", exact, size, &names, why, sizeof(why));
    FUZZ_CHECK((result == POLICY_WRONG) == !strncmp(why, "file:", 5));
    for (size_t i = 0; i < policy.count; i++) {
        const struct policy_rule *rule = &policy.rules[i];

        FUZZ_CHECK(rule->line && rule->bits <= 128 && rule->port_first <= rule->port_last);
        FUZZ_CHECK(memchr(rule->interface, '\0', sizeof(rule->interface)));
    }
    decide(&policy);
    policy_clear(&policy);
    free(exact);
    return 0;
}
