/* SPDX-License-Identifier: BSD-3-Clause */
/* What an open RNIC takes from the accounts of the process and asks of its policy; refusals are logged here, once. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "kal/kal_private.h"

#include <stdio.h>
#include <unistd.h>

/* " from PEER" or the like, or nothing where there is none: for lines that refuse. */
static const char *about_peer(const char *joint, const struct sockaddr *peer, char text[160])
{
    char address[120];

    text[0] = '\0';
    if (peer && kal_address_length(peer)) {
        kal_address_text(peer, address, sizeof address);
        snprintf(text, 160, " %s %s", joint, address);
    }
    return text;
}

enum kal_status kal_rnic_take_for(struct kal_rnic *rnic, enum kal_account_kind kind,
                                  uint64_t amount, const struct sockaddr *peer)
{
    char text[160];

    if (!kal_account_take(&rnic->kal->account, kind, amount)) {
        kal_rnic_log(rnic, RI_LOG_ERROR,
                     "the quota of %llu %s is used up%s; free some, or raise %s in "
                     "section [quota]",
                     (unsigned long long)rnic->kal->account.limit[kind], kal_account_text(kind),
                     about_peer("for", peer, text), kal_account_option(kind));
        return KAL_ERR_QUOTA;
    }
    kal_account_take(&rnic->objects, kind, amount); /* has no limits */
    return KAL_OK;
}

enum kal_status kal_rnic_take(struct kal_rnic *rnic, enum kal_account_kind kind, uint64_t amount)
{
    return kal_rnic_take_for(rnic, kind, amount, NULL);
}

void kal_rnic_give(struct kal_rnic *rnic, enum kal_account_kind kind, uint64_t amount)
{
    kal_account_give(&rnic->objects, kind, amount);
    kal_account_give(&rnic->kal->account, kind, amount);
}

enum ri_status kal_rnic_ask_policy(struct kal_rnic *rnic, enum ri_policy_direction direction,
                                   const struct sockaddr *local, const struct sockaddr *peer)
{
    static const struct {
        const char *name, *joint;
    } texts[] = { [RI_POLICY_CONNECT] = { "connecting", "to" },
                  [RI_POLICY_LISTEN] = { "listening", "on" },
                  [RI_POLICY_REQUEST] = { "a request", "from" } };
    struct ri_policy_question question = {
        .size = sizeof question, .direction = direction, .local = local, .peer = peer
    };
    char text[160];
    const char *rule;

    if ((unsigned)direction >= sizeof texts / sizeof *texts)
        return RI_ERR_PERMISSION;
    if (kal_policy_allows(rnic->kal->policy, &question, geteuid(), &rule))
        return RI_OK;
    kal_rnic_log(
        rnic, RI_LOG_WARNING, "%s%s is denied by %s in section [policy] of %s",
        texts[direction].name,
        about_peer(texts[direction].joint, direction == RI_POLICY_LISTEN ? local : peer, text),
        rule, rnic->kal->config->source);
    return RI_ERR_PERMISSION;
}
