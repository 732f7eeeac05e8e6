/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The provider softroce: its descriptor, the device.
 */
#include "connection.h"
#include "device.h"
#include "options_table.h"

#include "providers/software/core/counters.h"
#include "providers/software/core/guard.h"
#include "providers/software/host/port.h"

#include <stdlib.h>

/* Options fill max_qp and lanes. */
static const struct ri_rnic_attr attributes = {
    .size = sizeof(struct ri_rnic_attr),
    .transport = RI_TRANSPORT_INFINIBAND,
    .features = RI_FEATURE_CONNECTION_SET_A | RI_FEATURE_THREE_WAY | RI_FEATURE_EXTERNAL_QP |
                RI_FEATURE_QP_NUMBERS | RI_FEATURE_SQD | RI_FEATURE_UD | RI_FEATURE_UC |
                RI_FEATURE_ZERO_BASED | RI_FEATURE_CQ_ARM_NOTIFY | RI_FEATURE_CQ_ARM_NTH |
                RI_FEATURE_CQ_PEEK | RI_FEATURE_CQ_HOLDS_OVERFLOW | RI_FEATURE_CQ_RESIZE |
                RI_FEATURE_ATOMICS | RI_FEATURE_IMMEDIATE | RI_FEATURE_SRQ | RI_FEATURE_SRQ_RESIZE |
                RI_FEATURE_MW_NARROW | RI_FEATURE_MW_WIDE | RI_FEATURE_SEND_INVALIDATE |
                RI_FEATURE_LOCAL_INVALIDATE | RI_FEATURE_IO_ADDR | RI_FEATURE_FAST_REGISTER |
                RI_FEATURE_PRIVILEGED_QP | RI_FEATURE_READ_MULTI_SGE | RI_FEATURE_RNR |
                RI_FEATURE_FUSED_IMMEDIATE | RI_FEATURE_KEEP_KEYS | RI_FEATURE_MULTICAST,
    CORE_LIMITS,
    .max_ird = RC_DEPTH,
    .max_ord = RC_DEPTH,
    .max_ah = MAX_OBJECTS,
    .max_multicast_groups = ROCE_GROUPS,
    .max_multicast_qps = ROCE_GROUP_QPS,
    .connect_private_data = CMA_REQ_PRIVATE,
    .accept_private_data = CM_REP_PRIVATE,
    .reject_private_data = CM_REJ_PRIVATE,
    .disconnect_private_data = CM_DREQ_PRIVATE,
    .service_request_private_data = CMA_SIDR_REQ_PRIVATE,
    .service_reply_private_data = CM_SIDR_REP_PRIVATE,
    .firmware = "ital softroce " PACKAGE_VERSION,
    .wire = "RoCEv2/UDP",
};

/* --- open --- */

static void captured(void *context, bool outbound, const struct iovec *iov, int count)
{
    const struct ri_host *host = ((const struct roce_rnic *)context)->core.host;

    host->capture(host, 0, outbound ? RI_TRANSMIT : RI_RECEIVE, iov, count);
}

static enum ri_status open_net(struct roce_rnic *device)
{
    struct net_options options = device->options.net;
    struct net_why why = { "" };
    enum ri_status status;
    bool changed;

    if (device->core.host->capture) {
        options.captured = captured;
        options.captured_context = device;
    }
    status = net_open(&options, &device->net, &why);

    if (status != RI_OK) {
        ri_log(device->core.host, RI_LOG_ERROR, "RoCE over UDP cannot be used: %s", why.text);
        return status;
    }
    device->shift = (uint32_t)__builtin_ctz(net_slots(device->net));
    device->table = calloc((BTH_MASK24 + 1u) >> device->shift, sizeof(*device->table));
    status = device->table ? roce_read_gids(device, &changed) : RI_ERR_NO_RESOURCES;
    if (status == RI_OK)
        status = roce_cm_open(device);
    if (status != RI_OK) {
        free(device->table);
        net_close(device->net);
        return status;
    }
    return RI_OK;
}

static void close_net(struct roce_rnic *device)
{
    roce_cm_close(device);
    free(device->table);
    net_close(device->net);
}

static enum ri_status prepare(struct roce_rnic *device, const struct ri_open *open)
{
    struct rnic *rnic = &device->core;
    enum ri_status status;

    rnic->base.ops = open->privileged;
    rnic->base.context = open->context;
    rnic->host = open->host;
    rnic->user = open->user;
    rnic->attr = attributes;
    rnic->attr.max_send_sge = rnic->attr.max_write_sge = SEND_SGE_MAX;
    device->gids_fd = -1;
    status = roce_read_options(device);
    if (status == RI_OK && rnic->options.by_kernel && !guard_works()) {
        ri_log(rnic->host, RI_LOG_ERROR,
               "option guard is on, and the kernel refuses process_vm_readv or process_vm_writev: "
               "a filter of system calls (seccomp) may be the cause");
        status = RI_ERR_NOT_SUPPORTED;
    }
    return status;
}

static enum ri_status open_parts(struct roce_rnic *device)
{
    struct rnic *rnic = &device->core;
    enum ri_status status;

    if (!stag_table_open(&rnic->stags)) {
        ri_log(rnic->host, RI_LOG_ERROR, "the kernel gives no random numbers (getrandom)");
        return RI_ERR_NO_RESOURCES;
    }
    status = open_net(device);
    if (status != RI_OK)
        goto close_stags;
    rnic_add_wire(rnic, &roce_wire, NULL);
    status = roce_meet_open(device);
    if (status != RI_OK)
        goto close_net;
    rnic->attr.max_ud_send = roce_mtu(device);
    host_find_guid(device->options.netdevs, rnic->attr.node_guid);
    status = lanes_create(rnic);
    if (status == RI_OK)
        return RI_OK;
    roce_meet_close(device);
close_net:
    close_net(device);
close_stags:
    stag_table_close(&rnic->stags);
    return status;
}

static enum ri_status roce_open(const struct ri_open *open, struct ri_rnic **out)
{
    enum ri_status status;
    struct roce_rnic *device;

    if (open->device && strcmp(open->device, DEVICE))
        return RI_ERR_INVALID_ARGUMENT;
    device = calloc(1, sizeof(*device));
    if (!device)
        return RI_ERR_NO_RESOURCES;
    pthread_mutex_init(&device->lock, NULL);
    status = prepare(device, open);
    if (status == RI_OK)
        status = open_parts(device);
    if (status != RI_OK) {
        pthread_mutex_destroy(&device->lock);
        free(device);
        return status;
    }
    *out = &device->core.base;
    return RI_OK;
}

static enum ri_status roce_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                                     struct ri_lane **out)
{
    enum ri_status status = core_lane_open(base, index, context, out);

    if (status == RI_OK)
        status = roce_meet_watch(roce_of(base));
    return status == RI_OK ? roce_watch(roce_of(base)) : status;
}

static enum ri_status roce_close(struct ri_rnic *base, bool force)
{
    struct roce_rnic *device = roce_of(base);
    struct rnic *rnic = &device->core;

    (void)force; /* nothing goes on closing */
    if (atomic_load(&rnic->pds) || atomic_load(&rnic->cqs) || atomic_load(&rnic->qps) ||
        roce_cm_is_used(device))
        return RI_ERR_BUSY;
    roce_free_groups(device);
    roce_meet_unwatch(device);
    roce_close_ports(device);
    lanes_destroy(rnic);
    roce_meet_close(device);
    close_net(device);
    stag_table_close(&rnic->stags);
    pthread_mutex_destroy(&device->lock);
    free(device);
    return RI_OK;
}

/* --- query --- */

static enum ri_status roce_query(struct ri_rnic *base, struct ri_rnic_attr *attr)
{
    const struct rnic *rnic = &roce_of(base)->core;

    return ri_sized_copy(attr, &rnic->attr, sizeof(rnic->attr)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

static const struct core_counter counters[] = {
    { "protection zones", offsetof(struct roce_rnic, core.pds) },
    { "completion queues", offsetof(struct roce_rnic, core.cqs) },
    { "queue pairs", offsetof(struct roce_rnic, core.qps) },
    { "regions", offsetof(struct roce_rnic, summed.regions) },
    { "connections", offsetof(struct roce_rnic, summed.connections) },
    { "windows", offsetof(struct roce_rnic, core.mws) },
    { "shared receive queues", offsetof(struct roce_rnic, core.srqs) },
    { "address handles", offsetof(struct roce_rnic, ahs) },
    { "access errors of peers", offsetof(struct roce_rnic, core.access_errors) },
    { "packets received", offsetof(struct roce_rnic, summed.received) },
    { "packets with a wrong ICRC", offsetof(struct roce_rnic, summed.wrong_icrc) },
    { "packets with a strange identification", offsetof(struct roce_rnic, summed.outside) },
    { "packets that the kernel dropped", offsetof(struct roce_rnic, summed.overflow) },
    { "packets that are malformed", offsetof(struct roce_rnic, counters.malformed) },
    { "packets to unknown queue pairs", offsetof(struct roce_rnic, counters.unknown_qpn) },
    { "packets of strangers", offsetof(struct roce_rnic, counters.strangers) },
    { "packets that the kernel did not send", offsetof(struct roce_rnic, counters.unsent) },
};

/* Of all ports, also of groups that are left. */
static void sum_ports(struct roce_rnic *device, struct net_counters *sum)
{
    struct lane *lane = device->core.lanes[0];
    struct net_counters one;

    spinlock_lock(&lane->lock);
    *sum = device->left;
    for (struct roce_port *port = atomic_load(&device->ports); port; port = port->next) {
        net_port_count(port->net, &one);
        net_counters_add(sum, &one);
    }
    spinlock_unlock(&lane->lock);
}

static void sum_up(struct roce_rnic *device)
{
    struct net_counters sum;
    uint32_t connections, closing;

    spinlock_lock(&device->core.stags.lock);
    atomic_store(&device->summed.regions, device->core.stags.count);
    spinlock_unlock(&device->core.stags.lock);
    lanes_count(&device->core, &connections, &closing);
    sum_ports(device, &sum);
    atomic_store(&device->summed.connections, connections);
    atomic_store(&device->summed.received, sum.packets);
    atomic_store(&device->summed.wrong_icrc, sum.icrc_wrong);
    atomic_store(&device->summed.outside, sum.outside);
    atomic_store(&device->summed.overflow, sum.overflow);
}

static enum ri_status roce_rnic_counters(struct ri_rnic *base, const char **names, uint64_t *values,
                                         size_t *count)
{
    struct roce_rnic *device = roce_of(base);

    sum_up(device);
    return core_counters_give(counters, ARRAY_SIZE(counters), device, names, values, count);
}

/* --- the descriptor --- */

static const struct ri_privileged_ops privileged_ops = {
    .size = sizeof(privileged_ops),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .enumerate = roce_enumerate,
    .open = roce_open,
    .close = roce_close,
    .query = roce_query,
    .query_port = roce_query_port,
    .query_gids = roce_query_gids,
    .rnic_counters = roce_rnic_counters,
    .local_make = local_make,
    .local_take = local_take,
    .local_drop = local_drop,
    .lane_open = roce_lane_open,
    .qp_create = roce_qp_create,
    .qp_modify = roce_qp_modify,
    .qp_query = roce_qp_query,
    .qp_destroy = roce_qp_destroy,
    .ah_create = roce_ah_create,
    .ah_modify = roce_ah_modify,
    .ah_destroy = roce_ah_destroy,
    .multicast_attach = roce_multicast_attach,
    .multicast_detach = roce_multicast_detach,
    .connection_create = roce_connection_create,
    .connection_destroy = roce_connection_destroy,
    .resolve = roce_resolve,
    .listen = roce_listen,
    .listen_destroy = roce_listen_destroy,
    .connect = roce_connect,
    .accept = roce_accept,
    .confirm = roce_confirm,
    .reject = roce_reject,
    .disconnect = roce_disconnect,
    .service_request = roce_service_request,
    .service_reply = roce_service_reply,
    CORE_OBJECT_OPS,
};

static const struct ri_user_ops user_ops = {
    .size = sizeof(user_ops),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    CORE_USER_OPS,
    .progress = core_progress,
};

RI_PROVIDER(vp_softroce) = {
    .size = sizeof(struct ri_provider),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .name = DEVICE,
    .description = "RoCEv2 (RDMA over UDP) in software, in the process; needs no hardware and no "
                   "privilege",
    .version = PACKAGE_VERSION,
    .privileged = &privileged_ops,
    .user = &user_ops,
    .options = option_table,
    .option_count = ARRAY_SIZE(option_table),
};
