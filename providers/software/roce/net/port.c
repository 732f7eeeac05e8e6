/* SPDX-License-Identifier: BSD-3-Clause */
#include "port.h"

#include "base/compiler.h"
#include "holder.h"
#include "process.h"
#include "sockets.h"

#include <linux/sock_diag.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* How often somebody may have made the sockets, and died, while this process asked for them. */
#define ROUNDS 4

/* ---- its sockets ----------------------------------------------------------------------------- */

static void close_sockets(struct net_group *group)
{
    while (group->count)
        close(group->fds[--group->count]);
}

static enum ri_status take_sockets(const struct net_process *process, struct net_group *group,
                                   const struct share_fds *found, struct net_why *why)
{
    group->count = found->count;
    memcpy(group->fds, found->fd, found->count * sizeof(int));
    if (found->count == slots_count(process->slots) + 1u &&
        group_check(&group->key, process->udp_port, group->fds, group->count))
        return RI_OK;
    close_sockets(group);
    net_say(why, "another process of this user has sockets of another release");
    return RI_ERR_NO_RESOURCES;
}

static enum ri_status make_sockets(const struct net_process *process, struct net_group *group,
                                   struct net_why *why)
{
    uint32_t slots = slots_count(process->slots);
    enum ri_status status = group_make(&group->key, process->udp_port, slots, group->fds, why);

    if (status == RI_OK)
        group->count = slots + 1u;
    return status;
}

/* Nobody of this user answers for the sockets. */
static void say_who(const struct net_process *process, const struct share_key *key,
                    struct net_why *why)
{
    struct holder list[HOLDERS_MAX], holder;
    uint32_t count = holder_list(process->udp_port, list);

    if (holder_of(list, count, geteuid(), key->gid, &holder) != HOLDER_OTHER)
        net_say(why,
                "UDP port %u of this address is taken: by another program, another user, or the "
                "kernel's rdma_rxe (lsmod)",
                process->udp_port);
    else if (!holder.user && holder_is_wildcard(&holder))
        net_say(why,
                "UDP port %u is taken on all addresses: by the kernel's rdma_rxe (lsmod), or a "
                "program of root; ital-run --as roce does without",
                process->udp_port);
    else
        net_say(why,
                "another user, %u, has UDP port %u of this address: let root start kald(8) before, "
                "by which users share it; or ital-run --as roce",
                holder.user, process->udp_port);
}

/* Makes them, or gets them from who has them. */
static enum ri_status get_sockets(const struct net_process *process, struct net_group *group,
                                  struct net_why *why)
{
    enum share_found found = SHARE_NONE;
    struct share_fds fds;

    for (int round = 0; round < ROUNDS && found == SHARE_NONE; round++) {
        enum ri_status status = make_sockets(process, group, why);

        if (status != RI_ERR_ADDRESS_IN_USE)
            return status;
        found = share_ask(process->share, &group->key, &fds, why);
    }
    switch (found) {
    case SHARE_FOUND: return take_sockets(process, group, &fds, why);
    case SHARE_SILENT: return RI_ERR_TIMED_OUT;
    case SHARE_SHORT: return RI_ERR_NO_RESOURCES;
    default: say_who(process, &group->key, why); return RI_ERR_ADDRESS_IN_USE;
    }
}

static enum ri_status fill_group(const struct net_process *process, struct net_group *group,
                                 struct net_why *why)
{
    enum ri_status status = get_sockets(process, group, why);

    if (status == RI_OK && !share_offer(process->share, &group->key, group->fds, group->count,
                                        (uint16_t)slots_count(process->slots))) {
        net_say(why, "no memory");
        close_sockets(group);
        status = RI_ERR_NO_RESOURCES;
    }
    return status;
}

static enum ri_status make_group(struct net_process *process, const struct share_key *key,
                                 struct net_group **group, struct net_why *why)
{
    struct net_group *made = calloc(1, sizeof(*made));
    enum ri_status status;

    if (!made) {
        net_say(why, "no memory");
        return RI_ERR_NO_RESOURCES;
    }
    made->key = *key;
    status = fill_group(process, made, why);
    if (status != RI_OK) {
        free(made);
        return status;
    }
    made->next = process->groups;
    process->groups = made;
    *group = made;
    return RI_OK;
}

static enum ri_status hold_group(struct net_process *process, const struct share_key *key,
                                 struct net_group **group, struct net_why *why)
{
    struct net_group *found = process->groups;
    enum ri_status status = RI_OK;

    while (found && !share_key_equal(&found->key, key))
        found = found->next;
    if (!found)
        status = make_group(process, key, &found, why);
    if (status == RI_OK) {
        found->users++;
        *group = found;
    }
    return status;
}

static void unlink_group(struct net_process *process, const struct net_group *group)
{
    for (struct net_group **at = &process->groups; *at; at = &(*at)->next)
        if (*at == group) {
            *at = group->next;
            return;
        }
}

/* In the child of a fork the descriptors are closed already. */
static void drop_group(struct net_process *process, struct net_group *group)
{
    if (--group->users)
        return;
    unlink_group(process, group);
    if (!process->dead) {
        share_withdraw(process->share, &group->key);
        close_sockets(group);
    }
    free(group);
}

/* ---- open ------------------------------------------------------------------------------------ */

/* 0 where the kernel does not tell. */
static uint32_t memory_info(const struct net_port *port, unsigned what)
{
    uint32_t memory[SK_MEMINFO_VARS] = { 0 };
    socklen_t size = sizeof(memory);

    return getsockopt(port->fd[NET_DATA], SOL_SOCKET, SO_MEMINFO, memory, &size) ? 0 : memory[what];
}

static enum ri_status claim_socket(struct net_port *port, struct net_why *why)
{
    const struct net_options *options = &port->net->options;
    struct socket_abilities abilities;

    port->attr.receive_octets = options->receive_octets ? options->receive_octets
                                                        : PORT_RECEIVE_OCTETS;
    socket_probe(&port->key, &abilities);
    port->attr.gso = abilities.segments && options->gso != NET_OFF;
    /* With other users: what the kernel merges with the packets of one may be another's */
    port->attr.gro = abilities.gro && options->gro != NET_OFF && port->group;
    if (socket_claim(port->fd[NET_DATA], port->ipv6, port->attr.gro, &port->attr.receive_octets,
                     &port->attr.counts_overflow)) {
        port->overflow_before = memory_info(port, SK_MEMINFO_DROPS);
        return RI_OK;
    }
    net_say(why, "the kernel does not have IP_MTU_DISCOVER, without which the ICRC of a packet "
                 "over IPv4 cannot be known");
    return RI_ERR_NOT_SUPPORTED;
}

static enum ri_status open_by_kald(struct net_port *port, struct net_why *why)
{
    enum ri_status status = by_kald_address(port->net->by_kald, &port->key, &port->fd[NET_DATA],
                                            why);

    if (status == RI_ERR_ADDRESS_IN_USE)
        say_who(port->net->process, &port->key, why);
    if (status != RI_OK)
        return status;
    port->fd[NET_GSI] = -1;
    if (group_check(&port->key, port->attr.udp_port, port->fd, 1)) {
        status = claim_socket(port, why);
    } else {
        net_say(why, "kald has given a socket of another address");
        status = RI_ERR_DEVICE;
    }
    if (status != RI_OK)
        close(port->fd[NET_DATA]);
    return status;
}

static enum ri_status open_port(struct net_port *port, struct net_why *why)
{
    struct net_process *process = port->net->process;
    enum ri_status status;

    if (port->net->by_kald)
        return open_by_kald(port, why);
    status = hold_group(process, &port->key, &port->group, why);
    if (status != RI_OK)
        return status;
    port->fd[NET_DATA] = port->group->fds[net_slot(port->net)];
    port->fd[NET_GSI] = port->group->fds[port->group->count - 1u];
    status = claim_socket(port, why);
    if (status != RI_OK)
        drop_group(process, port->group);
    return status;
}

static enum ri_status make_port(struct net *net, const struct share_key *key,
                                struct net_port **port, struct net_why *why)
{
    struct net_port *made = calloc(1, sizeof(*made));
    enum ri_status status;

    if (!made) {
        net_say(why, "no memory");
        return RI_ERR_NO_RESOURCES;
    }
    made->net = net;
    made->key = *key;
    made->ipv6 = !gid_is_ipv4(key->gid);
    memcpy(made->attr.gid, key->gid, GID_LEN);
    made->attr.scope = key->scope;
    made->attr.udp_port = net->process->udp_port;
    status = open_port(made, why);
    if (status != RI_OK) {
        free(made);
        return status;
    }
    made->next = net->ports;
    net->ports = made;
    *port = made;
    return RI_OK;
}

static enum ri_status find_or_make(struct net *net, const struct share_key *key,
                                   struct net_port **port, struct net_why *why)
{
    struct net_port *found = net->ports;
    enum ri_status status = RI_OK;

    while (found && !share_key_equal(&found->key, key))
        found = found->next;
    if (!found)
        status = make_port(net, key, &found, why);
    if (status == RI_OK) {
        found->users++;
        *port = found;
    }
    return status;
}

static bool is_unspecified(const uint8_t gid[static GID_LEN])
{
    static const uint8_t zeros[GID_LEN];

    return !memcmp(gid, zeros, GID_LEN) || (gid_is_ipv4(gid) && !memcmp(gid + GID_IPV4, zeros, 4));
}

enum ri_status net_port_open(struct net *net, const uint8_t gid[static GID_LEN], uint32_t scope,
                             struct net_port **port, struct net_why *why)
{
    struct share_key key = { .scope = scope };
    enum ri_status status = RI_ERR_DEVICE;

    memcpy(key.gid, gid, GID_LEN);
    if (is_unspecified(gid) || gid_is_multicast(gid)) {
        net_say(why, "not an address of one host");
        return RI_ERR_UNREACHABLE;
    }
    net_lock();
    if (net->process->dead)
        net_say(why, "it was opened before a fork");
    else
        status = find_or_make(net, &key, port, why);
    net_unlock();
    return status;
}

static void unlink_port(const struct net_port *port)
{
    for (struct net_port **at = &port->net->ports; *at; at = &(*at)->next)
        if (*at == port) {
            *at = port->next;
            return;
        }
}

/* In the child of a fork the descriptors are closed already. */
static void close_port(struct net_port *port)
{
    const bool dead = port->net->process->dead;

    unlink_port(port);
    if (!dead && !port->multicast)
        socket_release(port->fd[NET_DATA]);
    if (port->group)
        drop_group(port->net->process, port->group);
    else if (!dead)
        close(port->fd[NET_DATA]);
    free(port);
}

void net_port_close(struct net_port *port)
{
    net_lock();
    if (!--port->users)
        close_port(port);
    net_unlock();
}

/* ---- of an open one -------------------------------------------------------------------------- */

int net_port_fd(const struct net_port *port, enum net_queue queue)
{
    return port->fd[queue];
}

static bool has_exclusive(int fd)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLEXCLUSIVE };
    int set = epoll_create1(EPOLL_CLOEXEC);
    bool has = set >= 0 && !epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);

    if (has)
        epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL);
    if (set >= 0)
        close(set);
    return has;
}

uint32_t net_port_events(const struct net_port *port, enum net_queue queue)
{
    uint32_t events = EPOLLIN;

    return queue == NET_GSI && has_exclusive(port->fd[NET_GSI]) ? events | EPOLLEXCLUSIVE : events;
}

void net_port_query(const struct net_port *port, struct net_port_attr *attr)
{
    *attr = port->attr;
}

uint32_t net_port_backlog(const struct net_port *port)
{
    return memory_info(port, SK_MEMINFO_RMEM_ALLOC);
}

void net_port_send_to_groups_by(struct net_port *port, uint32_t interface)
{
    socket_send_to_groups_by(port->fd[NET_DATA], port->ipv6, interface);
}

void net_port_want_hop_limit(struct net_port *port)
{
    const int on = 1;

    if (atomic_exchange(&port->want_hop_limit, true))
        return;
    if (port->ipv6)
        setsockopt(port->fd[NET_DATA], IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof(on));
    else
        setsockopt(port->fd[NET_DATA], IPPROTO_IP, IP_RECVTTL, &on, sizeof(on));
}

void net_port_count(const struct net_port *port, struct net_counters *counters)
{
    const struct port_counters *from = &port->counters;

    counters->packets = atomic_load_explicit(&from->packets, memory_order_relaxed);
    counters->icrc_wrong = atomic_load_explicit(&from->icrc_wrong, memory_order_relaxed);
    counters->solved = atomic_load_explicit(&from->solved, memory_order_relaxed);
    counters->outside = atomic_load_explicit(&from->outside, memory_order_relaxed);
    counters->malformed = atomic_load_explicit(&from->malformed, memory_order_relaxed);
    counters->overflow = atomic_load_explicit(&from->overflow, memory_order_relaxed);
}

void net_counters_add(struct net_counters *sum, const struct net_counters *counters)
{
    sum->packets += counters->packets;
    sum->icrc_wrong += counters->icrc_wrong;
    sum->solved += counters->solved;
    sum->outside += counters->outside;
    sum->malformed += counters->malformed;
    sum->overflow += counters->overflow;
}

bool net_port_has_errors(const struct net_port *port)
{
    return atomic_load_explicit(&port->errors, memory_order_relaxed);
}
