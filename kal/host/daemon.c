/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host with a daemon, kald(8): endpoints, regions and pinned octets are leased from it, its
 * policy replaces the files', and it binds ports that the process may not. All else, and
 * everything while no kald is there, is as local.c does it.
 */
#include "daemon.h"
#include "kal/config/kal_config.h"

#include <errno.h>
#include <stdlib.h>

struct with_daemon {
    void *local; /* of kal_host_local */
    struct kal_daemon *daemon;
};

static const enum kal_account_kind accounts[POLICY_KINDS] = {
    [POLICY_ENDPOINTS] = KAL_ACCOUNT_QP,
    [POLICY_REGIONS] = KAL_ACCOUNT_MR,
    [POLICY_PINNED] = KAL_ACCOUNT_PINNED,
};

static enum ri_status daemon_open(struct kal_host *host, const struct kal_config *config,
                                  void **state)
{
    struct with_daemon *both = calloc(1, sizeof(*both));
    const char *path = kal_values_get(config->ital, "kald");
    uint64_t quota[POLICY_KINDS];
    enum ri_status status;

    if (!both)
        return RI_ERR_NO_RESOURCES;
    status = kal_local_open(host, config, &both->local);
    if (status != RI_OK) {
        free(both);
        return status;
    }
    for (int kind = 0; kind < POLICY_KINDS; kind++)
        quota[kind] = config->quota[accounts[kind]];
    both->daemon = *path ? kal_daemon_open(host, path, quota) : NULL;
    for (int kind = 0; kind < KAL_ACCOUNT_KINDS; kind++)
        if (!both->daemon || !kal_is_leased((enum kal_account_kind)kind))
            kal_local_grant(host, config, (enum kal_account_kind)kind);
    *state = both;
    return RI_OK;
}

static void daemon_close(void *state)
{
    struct with_daemon *both = state;

    kal_daemon_close(both->daemon);
    kal_host_local.close(both->local);
    free(both);
}

static void daemon_fork_child(void *state)
{
    struct with_daemon *both = state;

    kal_daemon_fork_child(both->daemon);
    kal_host_local.fork_child(both->local);
}

static int daemon_rules_watch(void *state)
{
    struct with_daemon *both = state;

    return kal_host_local.rules_watch(both->local);
}

/* Both see the same files. */
static void daemon_rules_changed(void *state)
{
    struct with_daemon *both = state;

    if (both->daemon && kal_daemon_governs(both->daemon))
        kal_local_rules_drain(both->local);
    else
        kal_host_local.rules_changed(both->local);
}

static bool daemon_lease(void *state, enum kal_account_kind kind, uint64_t amount, bool wait)
{
    struct with_daemon *both = state;

    for (int i = 0; both->daemon && i < POLICY_KINDS; i++)
        if (accounts[i] == kind)
            return kal_daemon_lease(both->daemon, (enum policy_kind)i, amount, wait);
    return false;
}

static uint64_t daemon_quota(void *state, enum kal_account_kind kind)
{
    struct with_daemon *both = state;

    return kal_host_local.quota(both->local, kind);
}

static bool daemon_raise_memlock(void *state, uint64_t octets)
{
    struct with_daemon *both = state;

    (void)octets; /* they are leased already */
    return both->daemon && kal_daemon_raise_memlock(both->daemon);
}

static int daemon_listen(void *state, const struct sockaddr *address, bool v6only, bool share_port,
                         int *fd)
{
    struct with_daemon *both = state;

    return both->daemon ? kal_daemon_listen(both->daemon, address, v6only, share_port, fd) : EACCES;
}

static bool daemon_share(void *state, uint32_t id, uint64_t length)
{
    struct with_daemon *both = state;

    return kal_host_local.share(both->local, id, length);
}

static void daemon_unshare(void *state, uint32_t id)
{
    struct with_daemon *both = state;

    kal_host_local.unshare(both->local, id);
}

static enum ri_status daemon_links_open(void *state, struct kal_links **links, int *fd)
{
    struct with_daemon *both = state;

    return kal_host_local.links_open(both->local, links, fd);
}

static bool daemon_links_changed(struct kal_links *links)
{
    return kal_host_local.links_changed(links);
}

static bool daemon_link_running(struct kal_links *links, const char *netdev)
{
    return kal_host_local.link_running(links, netdev);
}

static bool daemon_links_addresses(struct kal_links *links, const char *netdevs, uint64_t *sum)
{
    return kal_host_local.links_addresses(links, netdevs, sum);
}

static void daemon_links_close(struct kal_links *links)
{
    kal_host_local.links_close(links);
}

const struct kal_host_ops kal_host_daemon = {
    .open = daemon_open,
    .close = daemon_close,
    .fork_child = daemon_fork_child,
    .lease = daemon_lease,
    .quota = daemon_quota,
    .raise_memlock = daemon_raise_memlock,
    .listen = daemon_listen,
    .share = daemon_share,
    .unshare = daemon_unshare,
    .links_open = daemon_links_open,
    .links_changed = daemon_links_changed,
    .link_running = daemon_link_running,
    .links_addresses = daemon_links_addresses,
    .links_close = daemon_links_close,
    .rules_watch = daemon_rules_watch,
    .rules_changed = daemon_rules_changed,
};
