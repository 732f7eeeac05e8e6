/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watches the network interfaces that an RNIC's ports stand on. The netlink socket lies in lane 0's
 * epoll set; a message only says that something changed, the flags are then read, so that a lost
 * message costs nothing. They are read through the same socket (netdevice(7): any will do): a process
 * that is out of descriptors or memory then hears of a change as any other.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "kal/kal_private.h"

#ifdef HAVE_LIBMNL

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

struct kal_monitor {
    struct kal_rnic *rnic;
    struct mnl_socket *socket;
    struct ri_watch *watch;
    uint32_t ports;
    struct {
        char netdev[IFNAMSIZ]; /* empty: the port stands on no network interface */
        bool online;
    } port[];
};

static bool is_running(int fd, const char *netdev)
{
    struct ifreq request;

    memset(&request, 0, sizeof request);
    memcpy(request.ifr_name, netdev, IFNAMSIZ);
    return !ioctl(fd, SIOCGIFFLAGS, &request) && (request.ifr_flags & IFF_UP) &&
           (request.ifr_flags & IFF_RUNNING);
}

/* Read the state of every port; report what changed unless this is the first look. */
static void refresh(struct kal_monitor *monitor, bool report)
{
    int fd = mnl_socket_get_fd(monitor->socket);

    for (uint32_t i = 0; i < monitor->ports; i++) {
        struct ri_event event = { .size = sizeof event, .port = i };
        bool online;

        if (!*monitor->port[i].netdev)
            continue;
        online = is_running(fd, monitor->port[i].netdev);
        if (report && online != monitor->port[i].online) {
            event.type = online ? RI_EVENT_PORT_UP : RI_EVENT_PORT_DOWN;
            event.detail = monitor->port[i].netdev;
            monitor->rnic->upper->rnic_event(monitor->rnic->context, &event);
        }
        monitor->port[i].online = online;
    }
}

static void on_message(void *arg, uint32_t events)
{
    struct kal_monitor *monitor = arg;
    char buffer[8192];
    ssize_t got;
    bool any = false;

    (void)events;
    do {
        got = mnl_socket_recvfrom(monitor->socket, buffer, sizeof buffer);
        if (got > 0 || (got < 0 && (errno == ENOBUFS || errno == ENOSPC)))
            any = true;
    } while (got > 0 || (got < 0 && (errno == EINTR || errno == ENOBUFS || errno == ENOSPC)));
    if (any)
        refresh(monitor, true);
}

/* Fill the ports; how many stand on a network interface. */
static unsigned find_netdevs(struct kal_monitor *monitor)
{
    unsigned found = 0;

    for (uint32_t i = 0; i < monitor->ports; i++) {
        struct ri_port_attr attr = { .size = sizeof attr, .port = i };

        if (kal_rnic_port(monitor->rnic, &attr) != KAL_OK || !attr.name[0] ||
            strnlen(attr.name, sizeof attr.name) >= IFNAMSIZ || !if_nametoindex(attr.name))
            continue;
        strcpy(monitor->port[i].netdev, attr.name);
        found++;
    }
    return found;
}

void kal_monitor_start(struct kal_rnic *rnic, void *lane_context)
{
    struct kal_monitor *monitor;

    if (rnic->monitor || (rnic->attr.features & RI_FEATURE_PORT_EVENTS))
        return;
    monitor = calloc(1, sizeof *monitor + rnic->attr.ports * sizeof *monitor->port);
    if (!monitor)
        goto failed;
    monitor->rnic = rnic;
    monitor->ports = rnic->attr.ports;
    if (!find_netdevs(monitor)) {
        free(monitor);
        return;
    }
    monitor->socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (!monitor->socket)
        goto free_monitor;
    if (mnl_socket_bind(monitor->socket, RTMGRP_LINK, MNL_SOCKET_AUTOPID) < 0)
        goto close_socket;
    refresh(monitor, false);
    if (rnic->upper->watch(lane_context, mnl_socket_get_fd(monitor->socket), EPOLLIN, on_message,
                           monitor, &monitor->watch) != RI_OK)
        goto close_socket;
    rnic->monitor = monitor;
    rnic->attr.features |= RI_FEATURE_PORT_EVENTS;
    return;

close_socket:
    mnl_socket_close(monitor->socket);
free_monitor:
    free(monitor);
failed:
    kal_rnic_log(rnic, RI_LOG_WARNING,
                 "network interfaces cannot be watched: no event will tell that a "
                 "port goes down or comes up");
}

void kal_monitor_stop(struct kal_rnic *rnic)
{
    struct kal_monitor *monitor = rnic->monitor;

    if (!monitor)
        return;
    rnic->upper->unwatch(monitor->watch);
    mnl_socket_close(monitor->socket);
    free(monitor);
    rnic->monitor = NULL;
}

#else

void kal_monitor_start(struct kal_rnic *rnic, void *lane_context)
{
    (void)rnic;
    (void)lane_context;
}

void kal_monitor_stop(struct kal_rnic *rnic)
{
    (void)rnic;
}

#endif
