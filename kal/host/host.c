/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host, as an open RNIC uses it: takes from the process's lease, and questions to the policy.
 * Refusals are logged here, once.
 */
#include "host_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct kal_host *kal_host_create(const struct kal_host_ops *ops, void *state)
{
    struct kal_host *host = calloc(1, sizeof(*host));

    if (!host)
        return NULL;
    host->ops = ops;
    host->state = state;
    kal_pins_init(&host->locked, host, &kal_pin_lock);
    kal_pins_init(&host->held, host, &kal_pin_hold);
    pthread_mutex_init(&host->own_pins_lock, NULL);
    return host;
}

static void destroy_all(struct kal_policy *policy)
{
    struct kal_policy *before;

    for (; policy; policy = before) {
        before = policy->before;
        kal_policy_destroy(policy);
    }
}

void kal_host_destroy(struct kal_host *host)
{
    destroy_all(atomic_load(&host->policy));
    destroy_all(atomic_load(&host->governing));
    kal_own_pins_forget(host);
    pthread_mutex_destroy(&host->own_pins_lock);
    kal_pins_destroy(&host->held);
    kal_pins_destroy(&host->locked);
    free(host);
}

enum ri_status kal_host_open(const struct kal_host_ops *ops, const struct kal_config *config,
                             struct kal_host **host)
{
    struct kal_host *made = kal_host_create(ops, NULL);
    enum ri_status status;

    if (!made)
        return RI_ERR_NO_RESOURCES;
    status = made->ops->open(made, config, &made->state);
    if (status != RI_OK)
        kal_host_destroy(made);
    else
        *host = made;
    return status;
}

void kal_host_close(struct kal_host *host)
{
    if (!host)
        return;
    host->ops->close(host->state);
    kal_host_destroy(host);
}

void kal_host_fork_prepare(struct kal_host *host)
{
    kal_pins_fork_prepare(&host->held);
}

void kal_host_fork_parent(struct kal_host *host)
{
    kal_pins_fork_parent(&host->held);
}

void kal_host_fork_child(struct kal_host *host)
{
    kal_pins_fork_child(&host->held);
    host->ops->fork_child(host->state);
}

/* ---- accounts ---- */

uint64_t kal_rnic_holds(const struct kal_rnic *rnic, enum kal_account_kind kind)
{
    return atomic_load_explicit(&rnic->holds[kind], memory_order_relaxed);
}

/* For lines about a refusal: " from PEER" or similar, or "" without a peer. */
static const char *about_peer(const char *joint, const struct sockaddr *peer, char text[160])
{
    char address[120];

    text[0] = '\0';
    if (peer && kal_address_length(peer)) {
        kal_address_text(peer, address, sizeof(address));
        snprintf(text, 160, " %s %s", joint, address);
    }
    return text;
}

static void log_refusal(const struct kal_rnic *rnic, enum kal_account_kind kind, uint64_t amount,
                        const struct policy_rule *rule, const struct sockaddr *peer)
{
    struct kal_host *host = rnic->kal_host;
    enum kal_refusal refusal = kal_host_refusal(host, kind, amount, &rule);
    unsigned long long more = amount;
    char text[160];

    switch (refusal) {
    case KAL_REFUSAL_LIMIT:
    case KAL_REFUSAL_USER_LIMIT:
        kal_rnic_log(rnic, RI_LOG_ERROR,
                     "%llu more %s would pass the limit of %llu by %s:%u, the host's policy%s; "
                     "free some, or ask root to raise it",
                     more, kal_account_text(kind), (unsigned long long)rule->amount, rule->source,
                     rule->line,
                     refusal == KAL_REFUSAL_LIMIT ? "" : ", for all processes of the user");
        return;
    case KAL_REFUSAL_QUOTA:
        kal_rnic_log(rnic, RI_LOG_ERROR,
                     "the quota of %llu %s is used up%s; free some, or raise %s in section [quota]",
                     (unsigned long long)host->ops->quota(host->state, kind),
                     kal_account_text(kind), about_peer("for", peer, text),
                     kal_quota_option(kind).name);
        return;
    case KAL_REFUSAL_NOW:
        kal_rnic_log(rnic, RI_LOG_ERROR,
                     "%llu more %s cannot be had at this moment%s: they were in use, or kald has "
                     "not granted them yet; try again",
                     more, kal_account_text(kind), about_peer("for", peer, text));
    }
}

static enum ri_status take(struct kal_rnic *rnic, enum kal_account_kind kind, uint64_t amount,
                           bool wait, const struct sockaddr *peer)
{
    const struct policy_rule *rule;

    if (!kal_host_take(rnic->kal_host, kind, amount, wait, &rule)) {
        atomic_fetch_add_explicit(&rnic->refused.quota[kind], 1, memory_order_relaxed);
        log_refusal(rnic, kind, amount, rule, peer);
        return ITAL_ERR_QUOTA;
    }
    atomic_fetch_add_explicit(&rnic->holds[kind], amount, memory_order_relaxed);
    return RI_OK;
}

enum ri_status kal_rnic_take(struct kal_rnic *rnic, enum kal_account_kind kind, uint64_t amount)
{
    return take(rnic, kind, amount, true, NULL);
}

enum ri_status kal_rnic_take_now(struct kal_rnic *rnic, enum kal_account_kind kind, uint64_t amount,
                                 const struct sockaddr *peer)
{
    return take(rnic, kind, amount, false, peer);
}

void kal_rnic_give(struct kal_rnic *rnic, enum kal_account_kind kind, uint64_t amount)
{
    atomic_fetch_sub_explicit(&rnic->holds[kind], amount, memory_order_relaxed);
    kal_account_give(&rnic->kal_host->account, kind, amount);
}

/* ---- policy ---- */

/* The rule's name in log lines includes its file and line. */
static enum ri_status read_rule(struct kal_policy *policy, const struct kal_host_rule *rule)
{
    char *name = kal_format("%s in section [policy] of %s", rule->name, rule->source);
    enum ri_status status;
    char why[160];

    if (!name)
        return RI_ERR_NO_RESOURCES;
    status = kal_policy_add(policy, name, rule->text, why, sizeof(why));
    free(name);
    if (status == ITAL_ERR_CONFIGURATION)
        kal_log(RI_LOG_ERROR, "%s:%u: %s = \"%s\": %s", rule->source, rule->line, rule->name,
                rule->text, why);
    return status;
}

enum ri_status kal_host_push_policy(struct kal_host *host, const struct kal_host_rule *rules,
                                    size_t count)
{
    struct kal_policy *policy = kal_policy_create();
    enum ri_status status = policy ? RI_OK : RI_ERR_NO_RESOURCES;

    for (size_t i = 0; i < count && status == RI_OK; i++)
        status = read_rule(policy, &rules[i]);
    if (status != RI_OK) {
        kal_policy_destroy(policy);
        return status;
    }
    kal_host_publish(&host->policy, policy);
    return RI_OK;
}

/* NULL: allowed. Else the name of the rule that denies, in `room` or a rule's. */
static const char *denying(const struct kal_host *host, const struct policy_question *question,
                           char *room, size_t size)
{
    const struct kal_policy *governing = atomic_load(&host->governing);
    const struct kal_policy *policy = atomic_load(&host->policy);
    const struct policy_rule *rule = NULL;
    const char *name;

    if (governing)
        rule = policy_decide(governing->list.rules, governing->list.count, question);
    if (rule && rule->verdict == POLICY_DENY) {
        snprintf(room, size, "%s:%u, the host's policy", rule->source, rule->line);
        return room;
    }
    return policy && !kal_policy_allows(policy, question, &name) ? name : NULL;
}

/* Option v6only is for listeners that ital makes itself; those of a provider take both families. */
static bool is_v6only(const struct kal_rnic *rnic)
{
    enum { AUTO, YES }; /* in the order of the words of the option's type */

    return !(rnic->attr.features & RI_FEATURE_CONNECTION_SET_A) &&
           kal_values_word(rnic->options, "v6only") == YES;
}

static enum ri_status ask(struct kal_rnic *rnic, unsigned directions, const char *what,
                          const struct sockaddr *local, const struct sockaddr *peer)
{
    struct policy_question question = { .directions = directions,
                                        .local = policy_place_of(local),
                                        .peer = policy_place_of(peer),
                                        .user = geteuid(),
                                        .in_group = kal_host_in_group,
                                        .interface = rnic->interface };
    bool listens = directions == POLICY_LISTEN;
    enum ri_policy_direction counted;
    char room[512], text[160];
    const char *joint = listens ? "on" : directions & POLICY_CONNECT ? "to" : "from";
    const char *name;

    question.local.v6only = listens && is_v6only(rnic);
    name = denying(rnic->kal_host, &question, room, sizeof(room));
    if (!name)
        return RI_OK;
    kal_rnic_log(rnic, RI_LOG_WARNING, "%s%s is denied by %s", what,
                 about_peer(joint, listens ? local : peer, text), name);
    counted = listens                       ? RI_POLICY_LISTEN
              : directions & POLICY_CONNECT ? RI_POLICY_CONNECT
                                            : RI_POLICY_REQUEST;
    atomic_fetch_add_explicit(&rnic->refused.policy[counted], 1, memory_order_relaxed);
    return RI_ERR_PERMISSION;
}

enum ri_status kal_rnic_ask_policy(struct kal_rnic *rnic, enum ri_policy_direction direction,
                                   const struct sockaddr *local, const struct sockaddr *peer)
{
    switch (direction) {
    case RI_POLICY_CONNECT: return ask(rnic, POLICY_CONNECT, "connecting", local, peer);
    case RI_POLICY_LISTEN: return ask(rnic, POLICY_LISTEN, "listening", local, peer);
    case RI_POLICY_REQUEST: return ask(rnic, POLICY_REQUEST, "a request", local, peer);
    }
    return RI_ERR_PERMISSION;
}

enum ri_status kal_rnic_ask_convert(struct kal_rnic *rnic, bool initiator,
                                    const struct sockaddr *local, const struct sockaddr *peer)
{
    return ask(rnic, POLICY_CONVERT | (initiator ? POLICY_CONNECT : POLICY_REQUEST),
               "the conversion of a connection", local, peer);
}

int kal_rnic_listen(struct kal_rnic *rnic, const struct sockaddr *address, bool v6only,
                    bool share_port, int *fd)
{
    struct kal_host *host = rnic->kal_host;

    return host->ops->listen(host->state, address, v6only, share_port, fd);
}

/* ---- sharing ---- */

bool kal_rnic_share(struct kal_rnic *rnic, uint32_t id, uint64_t length)
{
    struct kal_host *host = rnic->kal_host;

    return host->ops->share(host->state, id, length);
}

void kal_rnic_unshare(struct kal_rnic *rnic, uint32_t id)
{
    struct kal_host *host = rnic->kal_host;

    host->ops->unshare(host->state, id);
}
