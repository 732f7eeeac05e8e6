/* SPDX-License-Identifier: BSD-3-Clause
 *
 * QP 1 of the RNIC: MADs to the connection manager and out, its timer, what the host watches.
 */
#include "connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#define GSI_DATAGRAMS 16u
#define FLUSH_AFTER   CLOCK_NS_PER_MS
/* DREQs that wait for a pass. */
#define LEAVES_MAX 256u

struct roce_leave {
    struct cm_address address;
    uint8_t octets[MAD_LEN];
};

/* --- out: under cm.lock --- */

static struct roce_rnic *device_of(struct cm_manager *manager)
{
    return container_of(roce_cm(manager), struct roce_rnic, cm);
}

/* Each time: it is repeated seldom, and the host limits lines. */
static void log_refusal(struct roce_rnic *device, const uint8_t peer[static GID_LEN], int error)
{
    const bool ipv4 = gid_is_ipv4(peer);
    char text[INET6_ADDRSTRLEN] = "";

    inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? peer + GID_IPV4 : peer, text, sizeof(text));
    ri_log(device->core.host, RI_LOG_WARNING,
           "this host does not send a message of connection management to %s: %s%s", text,
           strerror(error), error == EPERM || error == EACCES ? " (a firewall?)" : "");
}

static void send_mad(struct cm_manager *manager, const struct cm_address *to,
                     const uint8_t mad[static MAD_LEN])
{
    struct roce_rnic *device = device_of(manager);
    struct roce_port *port = roce_port_at(device, to->own);
    struct net_to there = { .traffic_class = NET_TRAFFIC_CLASS_DEFAULT };
    struct net_path path = { .no_segments = true };

    memcpy(there.gid, to->peer, GID_LEN);
    if (!port || net_path_init(&path, port->net, &there) != RI_OK)
        return;
    if (gsi_send(device->cm.gsi, port->net, &path, mad) != RI_OK)
        log_refusal(device, to->peer, errno);
    else if (roce_port_at(device, to->peer))
        gsi_pass_dreq(device->cm.gsi, port->net, to->peer, mad);
}

static void arm(struct cm_manager *manager, uint64_t at)
{
    struct roce_rnic *device = device_of(manager);
    const struct ri_host *host = device->core.host;
    struct ri_timer *timer = &device->cm.timer;

    if (at == CM_NEVER)
        return; /* it may expire, and nothing is due */
    timer->deadline = at;
    host->timer_set(host, device->core.lanes[0]->base.context, timer);
}

static uint32_t new_id(struct cm_manager *manager)
{
    uint32_t id = gsi_comm_id(device_of(manager)->cm.gsi);

    return id ? id
              : net_comm_id(net_slot(device_of(manager)->net), net_slots(device_of(manager)->net),
                            (uint32_t)++manager->transactions * 0x9E3779B1u);
}

static const struct cm_ops ops = {
    .send = send_mad,
    .arm = arm,
    .make = roce_cm_make,
    .event = roce_cm_event,
    .done = roce_cm_done,
    .new_id = new_id,
};

/* --- in: in the lane --- */

static void expired(struct ri_timer *timer)
{
    struct roce_cm *cm = container_of(timer, struct roce_cm, timer);

    pthread_mutex_lock(&cm->lock);
    cm_manager_expired(&cm->manager, clock_now());
    pthread_mutex_unlock(&cm->lock);
    roce_cm_deliver(device_of(&cm->manager));
}

static void give(struct roce_rnic *device, const struct cm_address *address, const uint8_t *octets)
{
    pthread_mutex_lock(&device->cm.lock);
    cm_manager_receive(&device->cm.manager, address, octets, MAD_LEN, clock_now());
    pthread_mutex_unlock(&device->cm.lock);
}

static void take_leaves(struct roce_rnic *device)
{
    struct roce_cm *cm = &device->cm;

    for (uint32_t i = 0; i < atomic_load(&cm->leaving); i++)
        give(device, &cm->leaves[i].address, cm->leaves[i].octets);
    atomic_store(&cm->leaving, 0);
}

/* The peer's last packets may still be in the sockets for data: the next pass reads them first. */
static void keep_leave(struct roce_rnic *device, const struct cm_address *address,
                       const uint8_t *octets)
{
    struct roce_cm *cm = &device->cm;
    struct lane *lane = device->core.lanes[0];
    uint32_t at;

    if (atomic_load(&cm->leaving) == LEAVES_MAX)
        take_leaves(device);
    at = atomic_load(&cm->leaving);
    cm->leaves[at].address = *address;
    memcpy(cm->leaves[at].octets, octets, MAD_LEN);
    atomic_store(&cm->leaving, at + 1u);
    cm->leave_passes = 0;
    spinlock_lock(&lane->lock);
    for (struct roce_port *port = atomic_load(&device->ports); port; port = port->next) {
        port->full = true;
        atomic_store(&port->readable, true);
    }
    spinlock_unlock(&lane->lock);
}

static void received(void *context, const struct gsi_mad *mad)
{
    struct roce_rnic *device = context;
    struct cm_address address;

    memcpy(address.own, mad->destination, GID_LEN);
    memcpy(address.peer, mad->source, GID_LEN);
    if (mad->attribute_id == CM_DREQ)
        keep_leave(device, &address, mad->octets);
    else
        give(device, &address, mad->octets);
}

static void take(struct roce_port *port, const struct net_packet *packet,
                 const struct bth_packet *parsed)
{
    gsi_take(port->rnic->cm.gsi, port->net, packet, parsed);
}

/* What other processes have no room for now. In runs of the lane. */
static void flush_later(struct roce_rnic *device)
{
    const struct ri_host *host = device->core.host;
    struct roce_cm *cm = &device->cm;

    if (cm->flushes || !gsi_holds(cm->gsi))
        return;
    cm->flushes = true;
    cm->flush.deadline = clock_after(clock_now(), FLUSH_AFTER);
    host->timer_set(host, device->core.lanes[0]->base.context, &cm->flush);
}

static void flush(struct ri_timer *timer)
{
    struct roce_cm *cm = container_of(timer, struct roce_cm, flush);

    cm->flushes = false;
    gsi_flush(cm->gsi);
    flush_later(device_of(&cm->manager));
}

static void port_ready(void *arg, uint32_t events)
{
    struct roce_port *port = arg;
    struct roce_rnic *device = port->rnic;

    (void)events;
    gsi_read(device->cm.gsi, port->net, device->cm.rx);
    flush_later(device);
    roce_cm_deliver(device);
}

static void mailbox_ready(void *arg, uint32_t events)
{
    struct roce_rnic *device = arg;

    (void)events;
    gsi_serve(device->cm.gsi);
    roce_cm_deliver(device);
}

/* What a REQ may ask for is what the interfaces carry now. */
static void addresses_changed(struct roce_rnic *device)
{
    uint8_t code = roce_mtu_code(device);

    roce_join_groups(device);
    pthread_mutex_lock(&device->cm.lock);
    device->cm.manager.mtu_code = code;
    pthread_mutex_unlock(&device->cm.lock);
}

/* --- what the host watches --- */

static enum ri_status watch(struct roce_rnic *device)
{
    const struct ri_host *host = device->core.host;

    return host->watch(host, device->core.lanes[0]->base.context, gsi_fd(device->cm.gsi), EPOLLIN,
                       mailbox_ready, device, &device->cm.watch);
}

static enum ri_status watch_port(struct roce_port *port)
{
    const struct ri_host *host = port->rnic->core.host;

    if (net_port_fd(port->net, NET_GSI) < 0)
        return RI_OK;
    return host->watch(host, port->rnic->core.lanes[0]->base.context,
                       net_port_fd(port->net, NET_GSI), net_port_events(port->net, NET_GSI),
                       port_ready, port, &port->gsi_watch);
}

static void unwatch(struct roce_rnic *device)
{
    const struct ri_host *host = device->core.host;

    if (!device->cm.watch) /* the lane may be no lane of the host yet; no timer has been set */
        return;
    host->unwatch(host, device->cm.watch);
    device->cm.watch = NULL;
    host->timer_cancel(host, device->core.lanes[0]->base.context, &device->cm.timer);
    host->timer_cancel(host, device->core.lanes[0]->base.context, &device->cm.flush);
}

/* --- life --- */

static const struct roce_above above = {
    .watch = watch,
    .watch_port = watch_port,
    .unwatch = unwatch,
    .addresses_changed = addresses_changed,
    .take = take,
    .take_leaves = take_leaves,
    .deliver = roce_cm_deliver,
    .heard = roce_cm_heard,
    .qp_stopped = roce_cm_qp_stopped,
    .qp_gone = roce_cm_qp_gone,
};

enum ri_status roce_cm_open(struct roce_rnic *device)
{
    struct roce_cm *cm = &device->cm;
    struct net_why why = { "" };
    enum ri_status status = gsi_open(device->net, received, device, &cm->gsi, &why);

    if (status != RI_OK) {
        ri_log(device->core.host, RI_LOG_ERROR, "RoCE over UDP cannot be used: %s", why.text);
        return status;
    }
    cm->rx = net_rx_new(GSI_DATAGRAMS, true);
    cm->leaves = calloc(LEAVES_MAX, sizeof(*cm->leaves));
    if (!cm->rx || !cm->leaves) {
        net_rx_free(cm->rx);
        free(cm->leaves);
        gsi_close(cm->gsi);
        return RI_ERR_NO_RESOURCES;
    }
    pthread_mutex_init(&cm->lock, NULL);
    pthread_cond_init(&cm->reported, NULL);
    cm->timer.expired = expired;
    cm->flush.expired = flush;
    device->above = &above;
    cm_manager_init(&cm->manager, &ops, roce_mtu_code(device));
    return RI_OK;
}

/* All connections and listeners are destroyed, and nothing is watched. */
void roce_cm_close(struct roce_rnic *device)
{
    struct roce_cm *cm = &device->cm;

    cm_manager_clear(&cm->manager);
    pthread_cond_destroy(&cm->reported);
    pthread_mutex_destroy(&cm->lock);
    net_rx_free(cm->rx);
    free(cm->leaves);
    gsi_close(cm->gsi);
}

bool roce_cm_is_used(struct roce_rnic *device)
{
    bool used;

    pthread_mutex_lock(&device->cm.lock);
    used = device->cm.listeners || device->cm.connections;
    pthread_mutex_unlock(&device->cm.lock);
    return used;
}
