/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses: the GID table, the sockets of those that QPs use, paths to peers, and what the host
 * watches for the lane.
 */
#include "device.h"

#include "providers/software/host/port.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/* --- the table --- */

enum ri_status roce_read_gids(struct roce_rnic *device, bool *changed)
{
    *changed = false;
    return net_gids_read(&device->gids, device->options.netdevs, changed);
}

static void describe(const struct net_gid *from, struct ri_gid *to)
{
    static const uint8_t gone[GID_LEN];

    memset(to, 0, sizeof(*to));
    if (!memcmp(from->gid, gone, GID_LEN))
        return;
    memcpy(to->gid, from->gid, GID_LEN);
    to->type = RI_GID_ROCE_V2;
    to->interface = from->interface;
}

enum ri_status roce_query_gids(struct ri_rnic *base, uint32_t port, struct ri_gid *gids,
                               uint32_t *count)
{
    struct roce_rnic *device = roce_of(base);
    uint32_t room = *count;

    if (port != 0)
        return RI_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&device->lock);
    *count = device->gids.count;
    for (uint32_t i = 0; i < device->gids.count && i < room; i++)
        describe(&device->gids.entry[i], &gids[i]);
    pthread_mutex_unlock(&device->lock);
    return RI_OK;
}

/* Of the smallest interface. */
static uint32_t mtu_of(const struct roce_rnic *device, uint32_t interfaces)
{
    uint32_t octets = bth_mtu_octets(bth_mtu_code(interfaces));

    return device->options.mtu && device->options.mtu < octets ? device->options.mtu : octets;
}

uint32_t roce_mtu(struct roce_rnic *device)
{
    uint32_t least = 0;

    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < device->gids.count; i++) {
        uint32_t mtu = device->gids.entry[i].mtu;

        if (mtu && (!least || mtu < least))
            least = mtu;
    }
    pthread_mutex_unlock(&device->lock);
    return mtu_of(device, least);
}

uint8_t roce_mtu_code(struct roce_rnic *device)
{
    return (uint8_t)bth_mtu_code(roce_mtu(device) + 80u);
}

enum ri_status roce_query_port(struct ri_rnic *base, struct ri_port_attr *attr)
{
    struct roce_rnic *device = roce_of(base);
    enum ri_status status = host_query_port(device->core.host, device->options.netdevs, attr);

    if (status != RI_OK)
        return status;
    attr->mtu = mtu_of(device, attr->mtu);
    pthread_mutex_lock(&device->lock);
    if (device->gids.count)
        memcpy(attr->gid, device->gids.entry[0].gid, GID_LEN);
    pthread_mutex_unlock(&device->lock);
    return RI_OK;
}

/* --- addresses in use --- */

static void free_senders(struct roce_port *port)
{
    for (uint32_t i = 0; i < SENDERS; i++)
        net_tx_free(port->senders[i].tx);
}

static bool make_senders(struct roce_port *port)
{
    for (uint32_t i = 0; i < SENDERS; i++) {
        spinlock_init(&port->senders[i].lock);
        port->senders[i].tx = net_tx_new(port->net, RC_BATCH);
        if (!port->senders[i].tx)
            return false;
    }
    return true;
}

struct roce_port *roce_port_at(struct roce_rnic *device, const uint8_t gid[static GID_LEN])
{
    struct lane *lane = device->core.lanes[0];
    struct roce_port *port;

    spinlock_lock(&lane->lock);
    port = atomic_load(&device->ports);
    while (port && (port->attached || memcmp(port->gid, gid, GID_LEN) != 0))
        port = port->next;
    spinlock_unlock(&lane->lock);
    return port;
}

/* Also while a sender waits for room: roce_resume() asks for it again if there is none. */
static void ready(void *arg, uint32_t events)
{
    struct roce_port *port = arg;
    const struct ri_host *host = port->rnic->core.host;

    if (events & EPOLLOUT) {
        host->rewatch(host, port->watch, EPOLLIN);
        atomic_store(&port->writable, true);
    }
    atomic_store(&port->readable, true);
}

enum ri_status roce_watch_port(struct roce_port *port)
{
    const struct ri_host *host = port->rnic->core.host;

    return host->watch(host, port->rnic->core.lanes[0]->base.context,
                       net_port_fd(port->net, NET_DATA), EPOLLIN, ready, port, &port->watch);
}

static void free_port(struct roce_port *port)
{
    const struct ri_host *host = port->rnic->core.host;

    if (port->watch)
        host->unwatch(host, port->watch);
    if (port->gsi_watch)
        host->unwatch(host, port->gsi_watch);
    free_senders(port);
    net_port_close(port->net);
    free(port);
}

/* Under lock. */
static enum ri_status add_port(struct roce_rnic *device, const struct net_gid *gid,
                               struct roce_port **out)
{
    struct roce_port *port = calloc(1, sizeof(*port));
    struct net_port_attr attr;
    struct net_why why = { "" };
    enum ri_status status;

    if (!port)
        return RI_ERR_NO_RESOURCES;
    port->rnic = device;
    memcpy(port->gid, gid->gid, GID_LEN);
    status = net_port_open(device->net, gid->gid, gid->scope, &port->net, &why);
    if (status != RI_OK) {
        ri_log(device->core.host, RI_LOG_ERROR, "an address of %s cannot be used: %s", gid->netdev,
               why.text);
        free(port);
        return status == RI_ERR_NO_RESOURCES ? status : RI_ERR_UNREACHABLE;
    }
    net_port_query(port->net, &attr);
    port->udp_port = attr.udp_port;
    net_port_send_to_groups_by(port->net, gid->interface);
    status = make_senders(port) ? roce_watch_port(port) : RI_ERR_NO_RESOURCES;
    if (status == RI_OK)
        status = device->above->watch_port(port);
    if (status != RI_OK) {
        free_port(port);
        return status;
    }
    if (device->datagrams)
        net_port_want_hop_limit(port->net);
    port->next = atomic_load(&device->ports);
    atomic_store(&device->ports, port);
    *out = port;
    return RI_OK;
}

/* Under lock. */
static enum ri_status find_port(struct roce_rnic *device, const struct net_gid *gid,
                                struct roce_port **out)
{
    struct net_port_attr attr;

    for (struct roce_port *port = atomic_load(&device->ports); port; port = port->next) {
        net_port_query(port->net, &attr);
        if (!memcmp(port->gid, gid->gid, GID_LEN) && attr.scope == gid->scope) {
            *out = port;
            return RI_OK;
        }
    }
    return add_port(device, gid, out);
}

/* --- paths --- */

static bool is_none(const uint8_t gid[static GID_LEN])
{
    static const uint8_t zeros[GID_LEN];

    return !memcmp(gid, zeros, GID_LEN);
}

/* The first of the destination's kind; of this host's own addresses that address itself. */
static int source_for(const struct net_gids *gids, const uint8_t to[static GID_LEN])
{
    int own = net_gids_find(gids, to, 0);

    for (uint32_t i = 0; own < 0 && i < gids->count; i++) {
        const uint8_t *gid = gids->entry[i].gid;

        if (!is_none(gid) && gid_is_ipv4(gid) == gid_is_ipv4(to) &&
            net_gid_is_link_local(gid) == net_gid_is_link_local(to))
            return (int)i;
    }
    return own;
}

/* Those that can be opened. An address of IPv6 is listed before it can be bound. Under lock. */
static enum ri_status open_all(struct roce_rnic *device)
{
    enum ri_status status = RI_ERR_UNREACHABLE;

    device->missing = false;
    for (uint32_t i = 0; i < device->gids.count; i++) {
        struct roce_port *port;

        if (is_none(device->gids.entry[i].gid))
            continue;
        if (find_port(device, &device->gids.entry[i], &port) == RI_OK)
            status = RI_OK;
        else
            device->missing = true;
    }
    return status;
}

enum ri_status roce_open_address(struct roce_rnic *device, const uint8_t gid[static GID_LEN],
                                 uint32_t *scope)
{
    struct roce_port *port;
    enum ri_status status = RI_ERR_UNREACHABLE;
    int place;

    pthread_mutex_lock(&device->lock);
    place = net_gids_find(&device->gids, gid, 0);
    if (place >= 0) {
        *scope = device->gids.entry[place].scope;
        status = find_port(device, &device->gids.entry[place], &port);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

enum ri_status roce_open_all(struct roce_rnic *device)
{
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&device->lock);
    if (!device->datagrams) {
        device->datagrams = true;
        for (struct roce_port *port = atomic_load(&device->ports); port; port = port->next)
            net_port_want_hop_limit(port->net);
        status = open_all(device);
        device->datagrams = status == RI_OK;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

static enum ri_status find_path(struct roce_rnic *device, struct ri_ah_attr *ah,
                                struct roce_port **port, struct net_path *path)
{
    struct net_to to = { .traffic_class = (uint8_t)((ah->traffic_class & ~3u) |
                                                    NET_TRAFFIC_CLASS_DEFAULT),
                         .hop_limit = ah->hop_limit,
                         .flow_label = ah->flow_label };
    enum ri_status status;
    int place;

    memcpy(to.gid, ah->destination_gid, GID_LEN);
    place = is_none(ah->source_gid) ? source_for(&device->gids, to.gid)
                                    : net_gids_find(&device->gids, ah->source_gid, 0);
    if (place < 0)
        return RI_ERR_UNREACHABLE;
    memcpy(ah->source_gid, device->gids.entry[place].gid, GID_LEN);
    status = find_port(device, &device->gids.entry[place], port);
    if (status == RI_OK && net_path_init(path, (*port)->net, &to) != RI_OK)
        status = RI_ERR_UNREACHABLE;
    return status;
}

enum ri_status roce_find_path(struct roce_rnic *device, const struct ri_ah_attr *wanted,
                              struct roce_port **port, struct net_path *path, struct ri_ah_attr *ah)
{
    enum ri_status status;

    *ah = *wanted;
    ah->size = sizeof(*ah);
    ah->context = NULL;
    pthread_mutex_lock(&device->lock);
    status = find_path(device, ah, port, path);
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* --- what is watched --- */

static void another_process_asks(void *arg, uint32_t events)
{
    struct roce_rnic *device = arg;

    (void)events;
    if (!net_serve(device->net))
        ri_log(device->core.host, RI_LOG_ERROR,
               "kald has ended, and with it its sockets: queue pairs and listeners of this device "
               "hear nothing any more; open it again");
}

static void addresses_change(void *arg, uint32_t events)
{
    const struct ri_event event = { .size = sizeof(event), .type = RI_EVENT_GID_CHANGE };
    struct roce_rnic *device = arg;
    const struct ri_host *host = device->core.host;
    bool changed;

    (void)events;
    net_gids_drain(device->gids_fd);
    pthread_mutex_lock(&device->lock);
    roce_read_gids(device, &changed);
    if (device->datagrams && (changed || device->missing))
        open_all(device);
    pthread_mutex_unlock(&device->lock);
    if (!changed)
        return;
    device->above->addresses_changed(device);
    host->rnic_event(host, device->core.base.context, &event);
}

enum ri_status roce_watch(struct roce_rnic *device)
{
    const struct ri_host *host = device->core.host;
    void *lane = device->core.lanes[0]->base.context;
    enum ri_status status = host->watch(host, lane, net_share_fd(device->net), EPOLLIN,
                                        another_process_asks, device, &device->share_watch);

    if (status == RI_OK)
        status = device->above->watch(device);
    device->gids_fd = net_gids_watch();
    if (status == RI_OK && device->gids_fd >= 0)
        status = host->watch(host, lane, device->gids_fd, EPOLLIN, addresses_change, device,
                             &device->gids_watch);
    return status;
}

void roce_close_ports(struct roce_rnic *device)
{
    const struct ri_host *host = device->core.host;
    struct roce_port *port, *next;

    device->above->unwatch(device);
    if (device->share_watch)
        host->unwatch(host, device->share_watch);
    if (device->gids_watch)
        host->unwatch(host, device->gids_watch);
    if (device->gids_fd >= 0)
        close(device->gids_fd);
    for (port = atomic_load(&device->ports); port; port = next) {
        next = port->next;
        free_port(port);
    }
}
