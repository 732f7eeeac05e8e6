/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host without a daemon: the process decides everything, from its own configuration. The leases
 * are the whole quotas. Identifiers of shared regions are known in this process only.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "host_private.h"
#include "kal/config/kal_config.h"
#include "netlink.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct shared {
    uint32_t id;
    uint64_t length, regions;
    struct shared *next;
};

struct local {
    uint64_t quota[KAL_ACCOUNT_KINDS];
    /* Leaf; guards `shared` */
    pthread_mutex_t lock;
    struct shared *shared;
};

const char *kal_policy_folder;
uint32_t kal_policy_owner;

/* What root says is read whatever ITAL_CONF names. A policy that cannot be used is not taken for
 * none. */
static enum kal_status push_governing(struct kal_host *host)
{
    const char *folder = kal_policy_folder ? kal_policy_folder : policy_folder;
    struct policy list;
    char why[1024];

    switch (policy_read_folder(&list, folder, kal_policy_owner, why, sizeof why)) {
    case POLICY_OK: break;
    case POLICY_NO_MEMORY: return KAL_ERR_NO_RESOURCES;
    case POLICY_WRONG:
        kal_log(RI_LOG_ERROR, "%s; until then the host's policy allows nothing", why);
        return KAL_ERR_CONFIGURATION;
    }
    if (!list.count) {
        policy_clear(&list);
        return KAL_OK;
    }
    return kal_host_push_governing(host, &list);
}

static enum kal_status push_policy(struct kal_host *host, const struct kal_config *config)
{
    const struct kal_setting *setting;
    struct kal_host_rule *rules;
    enum kal_status status;
    size_t count = 0, i = 0;

    LL_COUNT(config->rules, setting, count);
    if (!count)
        return KAL_OK;
    rules = calloc(count, sizeof *rules);
    if (!rules)
        return KAL_ERR_NO_RESOURCES;
    LL_FOREACH (config->rules, setting)
        rules[i++] = (struct kal_host_rule){ setting->name, setting->value, setting->file,
                                             setting->line };
    status = kal_host_push_policy(host, rules, count);
    free(rules);
    return status;
}

static enum kal_status local_open(struct kal_host *host, const struct kal_config *config,
                                  void **state)
{
    struct local *local = calloc(1, sizeof *local);
    enum kal_status status;

    if (!local)
        return KAL_ERR_NO_RESOURCES;
    status = push_governing(host);
    if (status == KAL_OK)
        status = push_policy(host, config);
    if (status != KAL_OK) {
        free(local);
        return status;
    }
    pthread_mutex_init(&local->lock, NULL);
    memcpy(local->quota, config->quota, sizeof local->quota);
    for (int kind = 0; kind < KAL_ACCOUNT_KINDS; kind++)
        kal_host_grant(host, (enum kal_account_kind)kind,
                       local->quota[kind] ? local->quota[kind] : UINT64_MAX);
    *state = local;
    return KAL_OK;
}

static void local_close(void *state)
{
    struct local *local = state;
    struct shared *shared, *next;

    LL_FOREACH_SAFE (local->shared, shared, next)
        free(shared);
    pthread_mutex_destroy(&local->lock);
    free(local);
}

/* Nothing to do: the child opens a new instance. */
static void local_fork_child(void *state)
{
    (void)state;
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
        shared = calloc(1, sizeof *shared);
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

static enum kal_status local_links_open(void *state, struct kal_links **links, int *fd)
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
    .share = local_share,
    .unshare = local_unshare,
    .links_open = local_links_open,
    .links_changed = kal_links_changed,
    .link_running = kal_link_running,
    .links_close = kal_links_close,
};
