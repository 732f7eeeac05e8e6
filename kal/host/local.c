/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host without a daemon: the process decides everything, from its own configuration. The leases
 * are the whole quotas. Identifiers of shared regions are known in this process only.
 */
#include "host_private.h"
#include "kal/config/kal_config.h"
#include "netlink.h"
#include "reload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct shared {
    uint32_t id;
    uint64_t length, regions;
    struct shared *next;
};

struct local {
    struct kal_host *host;
    struct kal_reload reload;
    uint64_t quota[KAL_ACCOUNT_KINDS];
    /* Leaf; guards `shared` */
    pthread_mutex_t lock;
    struct shared *shared;
};

const char *kal_policy_folder;
uint32_t kal_policy_owner;

static const char *rules_folder(void)
{
    return kal_policy_folder ? kal_policy_folder : policy_folder;
}

static bool is_same(const struct policy_rule *a, const struct policy_rule *b)
{
    return a->verdict == b->verdict && a->directions == b->directions && a->family == b->family &&
           !memcmp(a->address, b->address, sizeof(a->address)) && a->bits == b->bits &&
           a->port_first == b->port_first && a->port_last == b->port_last &&
           a->any_port == b->any_port && a->any_user == b->any_user &&
           a->any_group == b->any_group && a->user == b->user && a->group == b->group &&
           !strcmp(a->interface, b->interface) && a->kind == b->kind && a->amount == b->amount &&
           !strcmp(a->source, b->source) && a->line == b->line;
}

/* Copies stay until the end, so the same rules are not pushed again. */
static bool are_in_force(const struct kal_host *host, const struct policy *list)
{
    const struct kal_policy *now = atomic_load(&host->governing);
    size_t count = now ? now->list.count : 0;

    if (count != list->count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!is_same(&now->list.rules[i], &list->rules[i]))
            return false;
    return true;
}

/* What root says is read whatever ITAL_CONF names. A policy that cannot be used is not taken for
 * none: `meanwhile` says what holds until it can. */
static enum ri_status push_governing(struct kal_host *host, const char *meanwhile)
{
    struct policy list;
    char why[1024];

    switch (policy_read_folder(&list, rules_folder(), kal_policy_owner, why, sizeof(why))) {
    case POLICY_OK: break;
    case POLICY_NO_MEMORY: return RI_ERR_NO_RESOURCES;
    case POLICY_WRONG:
        kal_log(RI_LOG_ERROR, "%s; until then %s", why, meanwhile);
        return ITAL_ERR_CONFIGURATION;
    }
    if (are_in_force(host, &list)) {
        policy_clear(&list);
        return RI_OK;
    }
    return kal_host_push_governing(host, &list);
}

static int local_rules_watch(void *state)
{
    const struct local *local = state;

    return local->reload.fd;
}

void kal_local_rules_drain(void *state)
{
    struct local *local = state;

    kal_reload_noticed(&local->reload, rules_folder());
}

static void local_rules_changed(void *state)
{
    struct local *local = state;
    enum ri_status status;

    if (!kal_reload_noticed(&local->reload, rules_folder()))
        return;
    status = push_governing(local->host, "the earlier rules hold in this process");
    if (status == RI_ERR_NO_RESOURCES)
        kal_log(RI_LOG_ERROR, "the host's policy has changed and cannot be read: out of memory; "
                              "the earlier rules hold in this process");
}

static enum ri_status push_policy(struct kal_host *host, const struct kal_config *config)
{
    const struct kal_setting *setting;
    struct kal_host_rule *rules;
    enum ri_status status;
    size_t count = 0, i = 0;

    LL_COUNT(config->rules, setting, count);
    if (!count)
        return RI_OK;
    rules = calloc(count, sizeof(*rules));
    if (!rules)
        return RI_ERR_NO_RESOURCES;
    LL_FOREACH (config->rules, setting)
        rules[i++] = (struct kal_host_rule){ setting->name, setting->value, setting->file,
                                             setting->line };
    status = kal_host_push_policy(host, rules, count);
    free(rules);
    return status;
}

void kal_local_grant(struct kal_host *host, const struct kal_config *config,
                     enum kal_account_kind kind)
{
    kal_host_grant(host, kind, config->quota[kind] ? config->quota[kind] : UINT64_MAX);
}

enum ri_status kal_local_open(struct kal_host *host, const struct kal_config *config, void **state)
{
    struct local *local = calloc(1, sizeof(*local));
    enum ri_status status;

    if (!local)
        return RI_ERR_NO_RESOURCES;
    local->host = host;
    kal_reload_begin(&local->reload, rules_folder()); /* first, so that no change is missed */
    status = push_governing(host, "the host's policy allows nothing");
    if (status == RI_OK)
        status = push_policy(host, config);
    if (status != RI_OK) {
        kal_reload_end(&local->reload);
        free(local);
        return status;
    }
    pthread_mutex_init(&local->lock, NULL);
    memcpy(local->quota, config->quota, sizeof(local->quota));
    *state = local;
    return RI_OK;
}

static enum ri_status local_open(struct kal_host *host, const struct kal_config *config,
                                 void **state)
{
    enum ri_status status = kal_local_open(host, config, state);

    for (int kind = 0; kind < KAL_ACCOUNT_KINDS && status == RI_OK; kind++)
        kal_local_grant(host, config, (enum kal_account_kind)kind);
    return status;
}

static void local_close(void *state)
{
    struct local *local = state;
    struct shared *shared, *next;

    LL_FOREACH_SAFE (local->shared, shared, next)
        free(shared);
    kal_reload_end(&local->reload);
    pthread_mutex_destroy(&local->lock);
    free(local);
}

/* The child opens a new instance. */
static void local_fork_child(void *state)
{
    struct local *local = state;

    kal_reload_end(&local->reload);
}

/* Everything was leased at open. */
static bool local_lease(void *state, enum kal_account_kind kind, uint64_t amount, bool wait)
{
    (void)state;
    (void)kind;
    (void)amount;
    (void)wait;
    return false;
}

static uint64_t local_quota(void *state, enum kal_account_kind kind)
{
    struct local *local = state;

    return local->quota[kind];
}

/* Only the administrator changes the limit. */
static bool local_raise_memlock(void *state, uint64_t octets)
{
    (void)state;
    (void)octets;
    return false;
}

/* A port below 1024 needs root, or a daemon. */
static int local_listen(void *state, const struct sockaddr *address, bool v6only, bool share_port,
                        int *fd)
{
    (void)state;
    (void)address;
    (void)v6only;
    (void)share_port;
    (void)fd;
    return EACCES;
}

static struct shared *find_shared(const struct local *local, uint32_t id)
{
    struct shared *shared;

    LL_FOREACH (local->shared, shared)
        if (shared->id == id)
            break;
    return shared;
}

static bool local_share(void *state, uint32_t id, uint64_t length)
{
    struct local *local = state;
    struct shared *shared;
    bool fits;

    pthread_mutex_lock(&local->lock);
    shared = find_shared(local, id);
    if (!shared) {
        shared = calloc(1, sizeof(*shared));
        if (shared) {
            shared->id = id;
            shared->length = length;
            LL_PREPEND(local->shared, shared);
        }
    }
    fits = shared && shared->length == length;
    if (fits)
        shared->regions++;
    pthread_mutex_unlock(&local->lock);
    return fits;
}

static void local_unshare(void *state, uint32_t id)
{
    struct local *local = state;
    struct shared *shared;

    pthread_mutex_lock(&local->lock);
    shared = find_shared(local, id);
    if (--shared->regions == 0) {
        LL_DELETE(local->shared, shared);
        free(shared);
    }
    pthread_mutex_unlock(&local->lock);
}

static enum ri_status local_links_open(void *state, struct kal_links **links, int *fd)
{
    (void)state;
    return kal_links_open(links, fd);
}

const struct kal_host_ops kal_host_local = {
    .open = local_open,
    .close = local_close,
    .fork_child = local_fork_child,
    .lease = local_lease,
    .quota = local_quota,
    .raise_memlock = local_raise_memlock,
    .listen = local_listen,
    .share = local_share,
    .unshare = local_unshare,
    .links_open = local_links_open,
    .links_changed = kal_links_changed,
    .link_running = kal_link_running,
    .links_addresses = kal_links_addresses,
    .links_close = kal_links_close,
    .rules_watch = local_rules_watch,
    .rules_changed = local_rules_changed,
};
