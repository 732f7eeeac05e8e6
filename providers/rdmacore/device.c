/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An open device: its context, its two channels, the connection manager's channel, its attributes.
 */
#include "apart.h"
#include "connection.h"
#include "verbs.h"

#include "base/clock.h"
#include "base/minmax.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* The private data that rdma_cm leaves to the consumer in CM messages (IB: REQ 92 less its own 36,
 * REP, REJ). On iWARP the length is one octet; drivers use up to 4 octets for the read depths. */
#define IB_REQUEST_DATA 56u
#define IB_REPLY_DATA   196u
#define IB_REJECT_DATA  148u
#define IB_SERVICE_DATA 180u /* SIDR REQ 216 less the same 36, SIDR REP */
#define IB_ANSWER_DATA  136u
#define IWARP_DATA      248u
#define GUARD_ADDRESSES 8u
#define SIW_VENDOR      0x626d74u
#define DEPTH_MAX       255u /* rdma_conn_param has an octet for each */

static enum ri_status read_options(struct rnic *rnic)
{
    uint64_t octets, connect_ms, close_ms;
    enum ri_status status = ri_option_number(rnic->host, "inline", &octets);

    if (status == RI_OK)
        status = ri_option_number(rnic->host, "connect_timeout", &connect_ms);
    if (status == RI_OK)
        status = ri_option_number(rnic->host, "close_timeout", &close_ms);
    if (status != RI_OK)
        return status;
    rnic->inline_octets = (uint32_t)octets;
    rnic->connect_timeout = connect_ms * CLOCK_NS_PER_MS;
    rnic->close_timeout = close_ms * CLOCK_NS_PER_MS;
    return RI_OK;
}

/* ---- attributes ---- */

static uint32_t count_of(int number)
{
    return number > 0 ? (uint32_t)number : 0;
}

static bool is_siw(const struct rnic *rnic, const struct ibv_device_attr *device)
{
    return rnic->iwarp && device->vendor_id == SIW_VENDOR;
}

static uint64_t features(const struct rnic *rnic, const struct ibv_device_attr *device)
{
    uint64_t found = RI_FEATURE_CONNECTION_SET_A | RI_FEATURE_PORT_EVENTS;

    if (rnic->iwarp)
        found |= RI_FEATURE_READ_SINK_REMOTE_WRITE;
    else
        found |= RI_FEATURE_IMMEDIATE | RI_FEATURE_THREE_WAY | RI_FEATURE_ACCESS_MODIFY |
                 RI_FEATURE_QP_NUMBERS | RI_FEATURE_UC | RI_FEATURE_SQD | RI_FEATURE_EXTERNAL_QP;
    if (!rnic->iwarp && device->max_ah > 0)
        found |= RI_FEATURE_UD;
    if (found & RI_FEATURE_UD && device->max_mcast_grp > 0 && device->max_mcast_qp_attach > 0)
        found |= RI_FEATURE_MULTICAST;
    if (device->max_srq > 0 && device->max_srq_wr > 0) {
        found |= RI_FEATURE_SRQ;
        if (device->device_cap_flags & IBV_DEVICE_SRQ_RESIZE)
            found |= RI_FEATURE_SRQ_RESIZE;
    }
    if (device->atomic_cap != IBV_ATOMIC_NONE)
        found |= RI_FEATURE_ATOMICS;
    if (device->device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS)
        found |= RI_FEATURE_SEND_INVALIDATE | RI_FEATURE_LOCAL_INVALIDATE;
    if (device->max_mw > 0 && (device->device_cap_flags & IBV_DEVICE_MEM_WINDOW))
        found |= RI_FEATURE_MW_WIDE;
    if (device->max_mw > 0 && (device->device_cap_flags &
                               (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)))
        found |= RI_FEATURE_MW_NARROW;
    found |= RI_FEATURE_READ_MULTI_SGE; /* see split.c */
    /* siw accepts an address from the caller and uses another */
    if (!is_siw(rnic, device))
        found |= RI_FEATURE_IO_ADDR;
    return found;
}

void rdmacore_attributes(struct rnic *rnic, const struct ibv_device_attr_ex *ex,
                         const struct ibv_port_attr *port)
{
    const struct ibv_device_attr *device = &ex->orig_attr;
    struct ri_rnic_attr *attr = &rnic->attr;
    uint32_t sge = count_of(device->max_sge), wr = count_of(device->max_qp_wr);
    uint64_t message = port->max_msg_sz ? port->max_msg_sz : UINT32_MAX;

    rnic->write_elements = sge;
    rnic->read_elements = min_u32(count_of(device->max_sge_rd), sge);
    if (!rnic->read_elements) /* drivers that do not know this member */
        rnic->read_elements = 1;
    *attr = (struct ri_rnic_attr){
        .size = sizeof(*attr),
        .transport = rnic->kind->transport,
        .features = features(rnic, device),
        .max_mr_length = device->max_mr_size ? device->max_mr_size : UINT64_MAX,
        .max_message = message,
        .max_send = message,
        .max_pd = count_of(device->max_pd),
        .max_cq = count_of(device->max_cq),
        .max_qp = count_of(device->max_qp),
        .max_mr = count_of(device->max_mr),
        .max_cqe = count_of(device->max_cqe),
        .max_send_wr = wr,
        .max_recv_wr = wr,
        .max_send_sge = sge,
        .max_recv_sge = sge,
        .max_write_sge = max_u32(sge, SPLIT_ELEMENTS),
        .max_read_sge = max_u32(rnic->read_elements, SPLIT_ELEMENTS),
        .max_ird = min_u32(count_of(device->max_qp_rd_atom), DEPTH_MAX),
        .max_ord = min_u32(count_of(device->max_qp_init_rd_atom), DEPTH_MAX),
        .max_inline = rnic->inline_octets,
        .ports = device->phys_port_cnt,
        .lanes = 1,
        .alignment_hint = 64,
        .connect_private_data = rnic->iwarp ? IWARP_DATA : IB_REQUEST_DATA,
        .accept_private_data = rnic->iwarp ? IWARP_DATA : IB_REPLY_DATA,
        .reject_private_data = rnic->iwarp ? IWARP_DATA : IB_REJECT_DATA,
        .vendor_id = device->vendor_id,
        .vendor_part = device->vendor_part_id,
        .hardware_version = device->hw_ver,
    };
    if (!attr->max_ord)
        attr->max_ord = attr->max_ird;
    if (attr->features & (RI_FEATURE_MW_NARROW | RI_FEATURE_MW_WIDE))
        attr->max_mw = count_of(device->max_mw);
    if (attr->features & RI_FEATURE_SRQ) {
        attr->max_srq = count_of(device->max_srq);
        attr->max_srq_wr = count_of(device->max_srq_wr);
        attr->max_srq_sge = count_of(device->max_srq_sge);
    }
    if (attr->features & RI_FEATURE_UD) {
        attr->max_ah = count_of(device->max_ah);
        attr->max_ud_send = port_mtu(port->active_mtu);
        attr->service_request_private_data = IB_SERVICE_DATA;
        attr->service_reply_private_data = IB_ANSWER_DATA;
        attr->service_qkey = RDMA_UDP_QKEY; /* librdmacm supports no other value */
    }
    if (attr->features & RI_FEATURE_MULTICAST) {
        attr->max_multicast_groups = count_of(device->max_mcast_grp);
        attr->max_multicast_qps = count_of(device->max_mcast_qp_attach);
    }
    rnic->windows = attr->max_mw != 0;
    rnic->ethernet = port->link_layer == IBV_LINK_LAYER_ETHERNET;
    rnic->drowsy = is_siw(rnic, device);
    snprintf(attr->firmware, sizeof(attr->firmware), "%s", device->fw_ver);
}

enum ri_status rdmacore_query(struct ri_rnic *base, struct ri_rnic_attr *attr)
{
    const struct rnic *rnic = rnic_of(base);

    return ri_sized_copy(attr, &rnic->attr, sizeof(rnic->attr)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

/* ---- open ---- */

static struct ibv_context *open_context(const struct kind *kind, const char *name, char *found)
{
    struct ibv_context *context = NULL;
    struct ibv_device **list, *device;
    struct apart_reason why;

    if (!rdmacore_ready(&why)) {
        errno = ENXIO;
        return NULL;
    }
    list = rdmacore->get_device_list(NULL);
    device = list ? rdmacore_find(kind, list, name) : NULL;
    if (device)
        snprintf(found, IBV_SYSFS_NAME_MAX, "%s", device->name);
    else if (list)
        errno = ENXIO;
    if (device)
        context = rdmacore->open_device(device);
    if (list)
        rdmacore->free_device_list(list);
    return context;
}

/* Upcalls come from runs of the lane, so reads of these descriptors may not block. */
static bool no_blocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

/* No attribute shows whether CQs can be resized, so one is resized as a test. */
static bool resizes_cqs(const struct rnic *rnic)
{
    struct ibv_cq *cq = rdmacore->create_cq(rnic->verbs, 1, NULL, NULL, 0);
    bool can = cq && !rdmacore->resize_cq(cq, 2);

    if (cq)
        rdmacore->destroy_cq(cq);
    return can;
}

/* A datagram must fit a packet of any port. */
static void check_other_ports(struct rnic *rnic)
{
    struct ibv_port_attr port;

    for (uint32_t i = 2; i <= rnic->attr.ports; i++) {
        memset(&port, 0, sizeof(port));
        if (!rdmacore->query_port(rnic->verbs, (uint8_t)i, &port))
            rnic->attr.max_ud_send = min_u32(rnic->attr.max_ud_send, port_mtu(port.active_mtu));
    }
}

static int look(struct rnic *rnic)
{
    struct ibv_device_attr_ex device;
    struct ibv_port_attr port;
    int error;

    memset(&device, 0, sizeof(device));
    memset(&port, 0, sizeof(port));
    error = rdmacore_errno(rdmacore->query_device(rnic->verbs, &device));
    if (!error)
        error = rdmacore_errno(rdmacore->query_port(rnic->verbs, 1, &port));
    if (error)
        return error;
    rdmacore_attributes(rnic, &device, &port);
    rdmacore_find_hardware(rnic, &device.orig_attr);
    check_other_ports(rnic);
    if (resizes_cqs(rnic))
        rnic->attr.features |= RI_FEATURE_CQ_RESIZE;
    return 0;
}

static int open_channels(struct rnic *rnic)
{
    int error;

    rnic->channel = rdmacore->create_comp_channel(rnic->verbs);
    if (!rnic->channel)
        return errno;
    rnic->cm = rdmacore->create_event_channel();
    if (rnic->cm && no_blocking(rnic->channel->fd) && no_blocking(rnic->cm->fd) &&
        no_blocking(rnic->verbs->async_fd))
        return 0;
    error = errno;
    if (rnic->cm)
        rdmacore->destroy_event_channel(rnic->cm);
    rdmacore->destroy_comp_channel(rnic->channel);
    return error;
}

enum ri_status rdmacore_open(const struct kind *kind, const struct ri_open *open,
                             struct ri_rnic **out)
{
    struct rnic *rnic = calloc(1, sizeof(*rnic));
    enum ri_status status;
    int error;

    if (!rnic)
        return RI_ERR_NO_RESOURCES;
    rnic->base.ops = open->privileged;
    rnic->base.context = open->context;
    rnic->host = open->host;
    rnic->user = open->user;
    rnic->kind = kind;
    rnic->iwarp = kind->transport == RI_TRANSPORT_IWARP;
    status = read_options(rnic);
    if (status != RI_OK) {
        free(rnic);
        return status;
    }
    pthread_mutex_init(&rnic->lock, NULL);
    spinlock_init(&rnic->windows_lock);
    rnic->timers = &connection_timers;
    rnic->verbs = open_context(kind, open->device, rnic->device);
    error = rnic->verbs ? 0 : errno;
    if (error)
        goto free_rnic;
    error = look(rnic);
    if (!error)
        error = open_channels(rnic);
    if (error)
        goto close_device;
    *out = &rnic->base;
    return RI_OK;

close_device:
    rdmacore->close_device(rnic->verbs);
free_rnic:
    ri_log(open->host, RI_LOG_ERROR,
           "the device cannot be opened: %s; itinfo --why says what it needs", strerror(error));
    pthread_mutex_destroy(&rnic->lock);
    free(rnic);
    return error == ENXIO ? RI_ERR_INVALID_ARGUMENT : rdmacore_status(error);
}

/* ---- the lane ---- */

/*
 * The removal of a device is reported to identifiers that belong to it. For drivers that cannot be
 * removed while they have users this is the only report, and the removal waits until all have
 * closed the device. An identifier that is bound to an address of the device gets the event even
 * without a connection or listener. Its context is NULL, which identifies its events: they may
 * arrive before `guard` is set.
 */
static void open_guard(struct rnic *rnic)
{
    struct ri_address addresses[GUARD_ADDRESSES];
    struct ri_port_attr port = { .size = sizeof(port),
                                 .addresses = addresses,
                                 .address_capacity = GUARD_ADDRESSES };
    struct rdma_cm_id *id;

    if (rdmacore_query_port(&rnic->base, &port) != RI_OK)
        return;
    for (uint32_t i = 0; i < port.address_count && i < GUARD_ADDRESSES && !rnic->guard; i++) {
        if (rdmacore->create_id(rnic->cm, &id, NULL, RDMA_PS_TCP))
            return;
        if (rdmacore->bind_addr(id, (struct sockaddr *)&addresses[i].sockaddr))
            rdmacore->destroy_id(id);
        else
            rnic->guard = id;
    }
}

enum ri_status rdmacore_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                                  struct ri_lane **out)
{
    struct rnic *rnic = rnic_of(base);
    const struct ri_host *host = rnic->host;
    struct lane *lane = &rnic->lane;
    enum ri_status status;

    if (index != 0)
        return RI_ERR_INVALID_ARGUMENT;
    lane->base.ops = rnic->user;
    lane->base.context = context;
    status = host->watch(host, context, rnic->channel->fd, EPOLLIN, rdmacore_cq_ready, rnic,
                         &lane->completions);
    if (status == RI_OK)
        status = host->watch(host, context, rnic->verbs->async_fd, EPOLLIN, rdmacore_async_ready,
                             rnic, &lane->events);
    if (status == RI_OK)
        status = host->watch(host, context, rnic->cm->fd, EPOLLIN, connection_ready, rnic,
                             &lane->connections);
    if (status != RI_OK)
        return status;
    open_guard(rnic);
    *out = &lane->base;
    return RI_OK;
}

static void unwatch(struct rnic *rnic)
{
    struct ri_watch *watches[] = { rnic->lane.completions, rnic->lane.events,
                                   rnic->lane.connections };

    for (size_t i = 0; i < sizeof(watches) / sizeof(watches[0]); i++)
        if (watches[i])
            rnic->host->unwatch(rnic->host, watches[i]);
}

/* The device works by itself; it reports through the watched descriptors. */
static uint32_t progress(struct ri_lane *lane, struct ri_cq *first_cq, uint32_t budget,
                         uint64_t *next_deadline)
{
    (void)lane, (void)first_cq, (void)budget;
    *next_deadline = RI_NO_DEADLINE;
    return 0;
}

static bool lane_arm(struct ri_lane *lane)
{
    (void)lane;
    return true;
}

/* ---- close ---- */

enum ri_status rdmacore_close(struct ri_rnic *base, bool force)
{
    struct rnic *rnic = rnic_of(base);

    (void)force; /* connections end with their QPs: the kernel closes them in the background */
    if (atomic_load(&rnic->pds) || atomic_load(&rnic->cqs) || atomic_load(&rnic->connections) ||
        atomic_load(&rnic->listeners))
        return RI_ERR_BUSY;
    unwatch(rnic);
    if (rnic->guard)
        rdmacore->destroy_id(rnic->guard);
    rdmacore->destroy_event_channel(rnic->cm);
    rdmacore->destroy_comp_channel(rnic->channel);
    rdmacore->close_device(rnic->verbs);
    pthread_mutex_destroy(&rnic->lock);
    free(rnic);
    return RI_OK;
}

enum ri_status rdmacore_counters(struct ri_rnic *base, const char **names, uint64_t *values,
                                 size_t *count)
{
    static const char *const all[] = {
        "protection zones",      "completion queues", "queue pairs", "regions",         "windows",
        "shared receive queues", "address handles",   "connections", "listening points"
    };
    struct rnic *rnic = rnic_of(base);
    const uint64_t now[] = {
        atomic_load(&rnic->pds), atomic_load(&rnic->cqs),         atomic_load(&rnic->qps),
        atomic_load(&rnic->mrs), atomic_load(&rnic->mws),         atomic_load(&rnic->srqs),
        atomic_load(&rnic->ahs), atomic_load(&rnic->connections), atomic_load(&rnic->listeners),
    };
    const size_t total = sizeof(now) / sizeof(now[0]);

    for (size_t i = 0; i < total && i < *count; i++) {
        names[i] = all[i];
        values[i] = now[i];
    }
    *count = total;
    return RI_OK;
}

/* ---- tables ---- */

const struct ri_user_ops rdmacore_user = {
    .size = sizeof(rdmacore_user),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .post_send = rdmacore_post_send,
    .post_recv = rdmacore_post_recv,
    .post_srq_recv = rdmacore_post_srq_recv,
    .poll = rdmacore_poll,
    .arm = rdmacore_arm,
    .progress = progress,
    .lane_arm = lane_arm,
};
