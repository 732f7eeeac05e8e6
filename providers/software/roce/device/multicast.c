/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups: {multicast} of rnicpi.h. A group that a QP is attached to is a port of the RNIC that is
 * received from, and has the numbers of its QPs. A pass finds the QPs in the table of the RNIC, so
 * those that are not in RTS get nothing.
 */
#include "device.h"

#include <stdlib.h>

/* --- ports of groups: under lock, or they take it --- */

static uint32_t interfaces_of(const struct roce_rnic *device, const uint8_t gid[static GID_LEN],
                              uint32_t *interfaces)
{
    static const uint8_t gone[GID_LEN];
    uint32_t count = 0;

    for (uint32_t i = 0; i < device->gids.count; i++) {
        const struct net_gid *own = &device->gids.entry[i];
        bool known = !own->interface || !memcmp(own->gid, gone, GID_LEN) ||
                     gid_is_ipv4(own->gid) != gid_is_ipv4(gid);

        for (uint32_t k = 0; k < count && !known; k++)
            known = interfaces[k] == own->interface;
        if (!known)
            interfaces[count++] = own->interface;
    }
    return count;
}

static struct roce_port *find_group(struct roce_rnic *device, const uint8_t gid[static GID_LEN])
{
    struct roce_port *port = atomic_load(&device->ports);

    while (port && (!port->attached || memcmp(port->gid, gid, GID_LEN) != 0))
        port = port->next;
    return port;
}

static enum ri_status open_group(struct roce_rnic *device, struct roce_port *port)
{
    uint32_t interfaces[NET_GIDS_MAX];
    uint32_t count = interfaces_of(device, port->gid, interfaces);
    struct net_why why = { "" };
    enum ri_status status = net_multicast_open(device->net, port->gid, interfaces, count,
                                               &port->net, &why);

    if (status != RI_OK) {
        ri_log(device->core.host, RI_LOG_ERROR, "a multicast group cannot be joined: %s", why.text);
        return status;
    }
    net_port_want_hop_limit(port->net);
    return roce_watch_port(port);
}

static void free_group(struct roce_port *port)
{
    if (port->net)
        net_port_close(port->net);
    free(port->attached);
    free(port);
}

static enum ri_status add_group(struct roce_rnic *device, const uint8_t gid[static GID_LEN],
                                struct roce_port **out)
{
    struct roce_port *port;
    enum ri_status status;

    if (device->groups == ROCE_GROUPS)
        return RI_ERR_LIMIT;
    port = calloc(1, sizeof(*port));
    if (!port)
        return RI_ERR_NO_RESOURCES;
    port->rnic = device;
    memcpy(port->gid, gid, GID_LEN);
    port->attached = calloc(ROCE_GROUP_QPS, sizeof(*port->attached));
    status = port->attached ? open_group(device, port) : RI_ERR_NO_RESOURCES;
    if (status != RI_OK) {
        free_group(port);
        return status;
    }
    device->groups++;
    port->next = atomic_load(&device->ports);
    atomic_store(&device->ports, port);
    *out = port;
    return RI_OK;
}

static void unlink_port(struct roce_rnic *device, const struct roce_port *port)
{
    struct lane *lane = device->core.lanes[0];
    _Atomic(struct roce_port *) *at = &device->ports;
    struct net_counters counters;

    spinlock_lock(&lane->lock);
    while (atomic_load(at) != port)
        at = &atomic_load(at)->next;
    atomic_store(at, port->next);
    net_port_count(port->net, &counters);
    net_counters_add(&device->left, &counters);
    spinlock_unlock(&lane->lock);
}

/* A pass may be reading it, perhaps the one that the caller is in. */
static void drop_group(struct roce_rnic *device, struct roce_port *port)
{
    const struct ri_host *host = device->core.host;

    unlink_port(device, port);
    device->groups--;
    host->unwatch(host, port->watch);
    net_multicast_leave(port->net);
    port->gone = device->gone;
    device->gone = port;
}

void roce_join_groups(struct roce_rnic *device)
{
    uint32_t interfaces[NET_GIDS_MAX];

    pthread_mutex_lock(&device->lock);
    for (struct roce_port *port = atomic_load(&device->ports); port; port = port->next)
        if (port->attached)
            net_multicast_join(port->net, interfaces, interfaces_of(device, port->gid, interfaces));
    pthread_mutex_unlock(&device->lock);
}

/* --- places --- */

static _Atomic uint32_t *place_of(struct roce_port *port, uint32_t qpn)
{
    for (uint32_t i = 0; i < ROCE_GROUP_QPS; i++)
        if (atomic_load(&port->attached[i]) == qpn)
            return &port->attached[i];
    return NULL;
}

static enum ri_status attach(struct roce_rnic *device, struct roce_qp *qp,
                             const uint8_t gid[static GID_LEN])
{
    struct roce_port *port = find_group(device, gid);
    enum ri_status status = port ? RI_OK : add_group(device, gid, &port);
    _Atomic uint32_t *place;

    if (status != RI_OK || place_of(port, qp->core.qpn))
        return status;
    place = place_of(port, 0);
    if (!place)
        return RI_ERR_LIMIT;
    atomic_store(place, qp->core.qpn);
    port->attached_count++;
    qp->groups++;
    return RI_OK;
}

enum ri_status roce_multicast_attach(struct ri_qp *base, const uint8_t gid[16], uint16_t lid)
{
    struct roce_qp *qp = roce_qp_of(base);
    struct roce_rnic *device = roce_rnic(qp->core.rnic);
    enum ri_status status;

    (void)lid;
    if (!roce_is_datagram(qp) || !gid_is_multicast(gid))
        return RI_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&device->lock);
    status = attach(device, qp, gid);
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* --- the end --- */

static enum ri_status detach(struct roce_rnic *device, struct roce_qp *qp,
                             const uint8_t gid[static GID_LEN])
{
    struct roce_port *port = find_group(device, gid);
    _Atomic uint32_t *place = port ? place_of(port, qp->core.qpn) : NULL;

    if (!place)
        return RI_ERR_INVALID_ARGUMENT;
    atomic_store(place, 0);
    qp->groups--;
    if (!--port->attached_count)
        drop_group(device, port);
    return RI_OK;
}

void roce_free_groups(struct roce_rnic *device)
{
    struct roce_port *gone, *next;

    pthread_mutex_lock(&device->lock);
    gone = device->gone;
    device->gone = NULL;
    pthread_mutex_unlock(&device->lock);
    if (gone)
        lane_wait_pass(device->core.lanes[0]);
    for (; gone; gone = next) {
        next = gone->gone;
        free_group(gone);
    }
}

enum ri_status roce_multicast_detach(struct ri_qp *base, const uint8_t gid[16], uint16_t lid)
{
    struct roce_qp *qp = roce_qp_of(base);
    struct roce_rnic *device = roce_rnic(qp->core.rnic);
    enum ri_status status;

    (void)lid;
    pthread_mutex_lock(&device->lock);
    status = detach(device, qp, gid);
    pthread_mutex_unlock(&device->lock);
    if (status != RI_OK || lane_inside(qp->core.lane))
        return status; /* the pass of this thread goes on with it: the next call frees it */
    lane_wait_pass(qp->core.lane);
    roce_free_groups(device);
    return RI_OK;
}
