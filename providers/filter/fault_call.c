/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that fail. */
#include "fault.h"

#include <inttypes.h>

enum ri_status fault_call(struct pass_rnic *pass, enum pass_verb verb)
{
    struct fault_rnic *rnic = fault_rnic_of(pass);
    const struct fault_rule *hit = NULL;
    uint64_t number = 0;

    if (!rnic->script.fails)
        return RI_OK;
    pthread_mutex_lock(&rnic->lock);
    for (size_t i = 0; i < rnic->script.count; i++) {
        const struct fault_rule *rule = &rnic->script.rules[i];

        if (rule->action != FAULT_FAIL || rule->verb != verb ||
            !fault_rule_hits(&rnic->script, rule, &rnic->counts[i], 0) || hit)
            continue;
        hit = rule;
        number = rnic->counts[i].seen;
    }
    pthread_mutex_unlock(&rnic->lock);
    if (!hit)
        return RI_OK;
    atomic_fetch_add(&rnic->injected, 1);
    ri_log(pass->upper, RI_LOG_INFO, "filter fault: %s %" PRIu64 " fails with %s (line %u)",
           pass_verb_names[verb], number, ri_status_name(hit->status), hit->line);
    return hit->status;
}
