/* SPDX-License-Identifier: BSD-3-Clause */
/* Watches, in lane 0, the network interfaces of an RNIC's ports, and their addresses. */
#include "host_private.h"
#include "netlink.h"

#include "base/names.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

struct kal_monitor {
    struct kal_rnic *rnic;
    const struct kal_host_ops *ops;
    struct kal_links *links;
    struct ri_watch *watch;
    uint32_t ports;
    struct port {
        /* Names, separated by blanks. Empty: the port has none, or not named ones */
        char netdevs[64];
        bool watched; /* it has network interfaces; without names it has all */
        bool online;
        bool known; /* the addresses, of which this is the sum */
        uint64_t addresses;
    } port[];
};

/* The next name of a list, with a NUL. Skips names that are too long to exist. False: no more. */
static bool next_netdev(const char **list, char name[IFNAMSIZ])
{
    const char *one;
    size_t length;

    do {
        one = names_next(list, &length);
    } while (one && length >= IFNAMSIZ);
    if (one)
        snprintf(name, IFNAMSIZ, "%.*s", (int)length, one);
    return one != NULL;
}

static bool any_running(const struct kal_monitor *monitor, const char *netdevs)
{
    char name[IFNAMSIZ];

    while (next_netdev(&netdevs, name))
        if (monitor->ops->link_running(monitor->links, name))
            return true;
    return false;
}

static bool any_exists(const char *netdevs)
{
    char name[IFNAMSIZ];

    while (next_netdev(&netdevs, name))
        if (kal_netdev_exists(name))
            return true;
    return false;
}

static void tell(struct kal_monitor *monitor, const struct port *port, enum ri_event_type type)
{
    const struct ri_event event = {
        .size = sizeof(event),
        .type = type,
        .port = (uint32_t)(port - monitor->port),
        .detail = *port->netdevs ? port->netdevs : NULL,
    };

    monitor->rnic->upper->rnic_event(monitor->rnic->context, &event);
}

static void refresh_link(struct kal_monitor *monitor, struct port *port, bool report)
{
    bool online;

    if (!*port->netdevs)
        return;
    online = any_running(monitor, port->netdevs);
    if (report && online != port->online)
        tell(monitor, port, online ? RI_EVENT_PORT_UP : RI_EVENT_PORT_DOWN);
    port->online = online;
}

/* Without memory or descriptors nobody knows what has changed: then they may have. */
static void refresh_addresses(struct kal_monitor *monitor, struct port *port, bool report)
{
    const char *netdevs = *port->netdevs ? port->netdevs : NULL;
    uint64_t sum = 0;
    bool known = monitor->ops->links_addresses(monitor->links, netdevs, &sum);
    bool same = known && port->known && sum == port->addresses;

    port->known = known;
    port->addresses = sum;
    if (report && !same)
        tell(monitor, port, RI_EVENT_ADDRESS_CHANGE);
}

/* Reads the state of every port; reports changes, except the first time. */
static void refresh(struct kal_monitor *monitor, bool report)
{
    for (uint32_t i = 0; i < monitor->ports; i++) {
        if (!monitor->port[i].watched)
            continue;
        refresh_link(monitor, &monitor->port[i], report);
        refresh_addresses(monitor, &monitor->port[i], report);
    }
}

static void on_message(void *arg, uint32_t events)
{
    struct kal_monitor *monitor = arg;

    (void)events;
    if (monitor->ops->links_changed(monitor->links))
        refresh(monitor, true);
}

/* Fills in the ports. Returns how many have network interfaces. */
static unsigned find_netdevs(struct kal_monitor *monitor)
{
    unsigned found = 0;

    for (uint32_t i = 0; i < monitor->ports; i++) {
        struct ri_port_attr attr = { .size = sizeof(attr), .port = i };
        struct port *port = &monitor->port[i];

        if (kal_rnic_port(monitor->rnic, &attr) != RI_OK ||
            !memchr(attr.name, '\0', sizeof(attr.name)))
            continue;
        if (any_exists(attr.name))
            strcpy(port->netdevs, attr.name);
        port->watched = *port->netdevs || !strcmp(attr.name, "any");
        found += port->watched;
    }
    return found;
}

static bool names_netdevs(const struct kal_monitor *monitor)
{
    for (uint32_t i = 0; i < monitor->ports; i++)
        if (*monitor->port[i].netdevs)
            return true;
    return false;
}

/* RI_ERR_NOT_SUPPORTED: there is nothing to watch, or it cannot be watched. */
static enum ri_status watch_links(struct kal_monitor *monitor, void *lane_context)
{
    struct kal_host *host = monitor->rnic->kal_host;
    enum ri_status status;
    int fd;

    if (!find_netdevs(monitor))
        return RI_ERR_NOT_SUPPORTED;
    status = host->ops->links_open(host->state, &monitor->links, &fd);
    if (status != RI_OK)
        return status;
    refresh(monitor, false);
    status = monitor->rnic->upper->watch(lane_context, fd, EPOLLIN, on_message, monitor,
                                         &monitor->watch);
    if (status != RI_OK)
        host->ops->links_close(monitor->links);
    return status;
}

void kal_monitor_start(struct kal_rnic *rnic, void *lane_context)
{
    struct kal_monitor *monitor;
    enum ri_status status = RI_ERR_NO_RESOURCES;

    if (rnic->monitor || (rnic->attr.features & RI_FEATURE_PORT_EVENTS))
        return;
    monitor = calloc(1, sizeof(*monitor) + rnic->attr.ports * sizeof(*monitor->port));
    if (monitor) {
        monitor->rnic = rnic;
        monitor->ops = rnic->kal_host->ops;
        monitor->ports = rnic->attr.ports;
        status = watch_links(monitor, lane_context);
    }
    if (status == RI_OK) {
        rnic->monitor = monitor;
        if (names_netdevs(monitor))
            rnic->attr.features |= RI_FEATURE_PORT_EVENTS;
        return;
    }
    free(monitor);
    if (status != RI_ERR_NOT_SUPPORTED)
        kal_rnic_log(rnic, RI_LOG_WARNING,
                     "network interfaces cannot be watched: no event will tell that a port goes "
                     "down or comes up, or has other addresses");
}

void kal_monitor_stop(struct kal_rnic *rnic)
{
    struct kal_monitor *monitor = rnic->monitor;

    if (!monitor)
        return;
    rnic->upper->unwatch(monitor->watch);
    monitor->ops->links_close(monitor->links);
    free(monitor);
    rnic->monitor = NULL;
}
