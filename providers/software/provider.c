/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The provider softrdma: its descriptor, the device.
 */
#include "provider.h"
#include "options_table.h"
#include "providers/software/core/counters.h"
#include "providers/software/core/guard.h"
#include "providers/software/host/port.h"

#include <stdlib.h>
#include <string.h>

#define DEVICE           "softrdma"
#define MPA_PRIVATE_DATA 508u /* RFC 5044 7.1: 512, less 4 for the enhanced set-up of RFC 6581 */

static struct rnic *rnic_of(struct ri_rnic *base)
{
    return container_of(base, struct rnic, base);
}

static enum ri_status softrdma_enumerate(const struct ri_host *host, ri_found_fn found, void *arg)
{
    const struct ri_device device = {
        .size = sizeof(device),
        .name = DEVICE,
        .transport = RI_TRANSPORT_IWARP,
        .usable = true,
    };

    (void)host;
    found(arg, &device);
    return RI_OK;
}

/* Options fill max_ird, max_ord, max_qp and lanes. */
static const struct ri_rnic_attr attributes = {
    .size = sizeof(struct ri_rnic_attr),
    .transport = RI_TRANSPORT_IWARP,
    .features = RI_FEATURE_CONNECTION_SET_B | RI_FEATURE_ZERO_BASED | RI_FEATURE_CQ_ARM_NOTIFY |
                RI_FEATURE_CQ_ARM_NTH | RI_FEATURE_CQ_PEEK | RI_FEATURE_CQ_HOLDS_OVERFLOW |
                RI_FEATURE_CQ_RESIZE | RI_FEATURE_ATOMICS | RI_FEATURE_IMMEDIATE | RI_FEATURE_SRQ |
                RI_FEATURE_SRQ_RESIZE | RI_FEATURE_QP_RQ_LIMITS | RI_FEATURE_MW_NARROW |
                RI_FEATURE_MW_WIDE | RI_FEATURE_SEND_INVALIDATE | RI_FEATURE_LOCAL_INVALIDATE |
                RI_FEATURE_READ_INVALIDATE | RI_FEATURE_ORD_RAISE | RI_FEATURE_IRD_MODIFY |
                RI_FEATURE_ACCESS_MODIFY | RI_FEATURE_IO_ADDR | RI_FEATURE_FAST_REGISTER |
                RI_FEATURE_PRIVILEGED_QP | RI_FEATURE_READ_MULTI_SGE | RI_FEATURE_RNR |
                RI_FEATURE_FUSED_IMMEDIATE | RI_FEATURE_ACKNOWLEDGE | RI_FEATURE_KEEP_KEYS |
                RI_FEATURE_STREAMS,
    CORE_LIMITS,
    .connect_private_data = MPA_PRIVATE_DATA,
    .accept_private_data = MPA_PRIVATE_DATA,
    .reject_private_data = MPA_PRIVATE_DATA,
    .firmware = "ital softrdma " PACKAGE_VERSION,
};

/* The pass of the only wire is shorter than that of several. */
static bool add_local(struct softrdma *device)
{
    if (device->core.options.sanitizers == SANITIZER_OFF) { /* else watched.c has that pass */
        device->both = *device->core.user;
        device->both.progress = core_progress;
        device->core.lane_user = &device->both;
    }
    device->core.attr.features |= RI_FEATURE_LOCAL;
    return local_open_rnic(&device->core, &device->local, &local_wire);
}

static enum ri_status softrdma_open(const struct ri_open *open, struct ri_rnic **out)
{
    enum ri_status status;
    struct softrdma *device;
    struct rnic *rnic;

    if (open->device && strcmp(open->device, DEVICE))
        return RI_ERR_INVALID_ARGUMENT;
    device = calloc(1, sizeof(*device));
    if (!device)
        return RI_ERR_NO_RESOURCES;
    rnic = &device->core;
    rnic->base.ops = open->privileged;
    rnic->base.context = open->context;
    rnic->host = open->host;
    rnic->user = open->user;
    rnic->attr = attributes;
    status = softrdma_read_options(device);
    if (status != RI_OK)
        goto free_device;
    if (rnic->options.sanitizers != SANITIZER_OFF)
        core_watch(rnic);
    if (rnic->options.by_kernel && !guard_works()) {
        ri_log(rnic->host, RI_LOG_ERROR,
               "option guard is on, and the kernel refuses process_vm_readv or process_vm_writev: "
               "a filter of system calls (seccomp) may be the cause");
        status = RI_ERR_NOT_SUPPORTED;
        goto free_device;
    }
    status = RI_ERR_NO_RESOURCES;
    if (!stag_table_open(&rnic->stags)) {
        ri_log(rnic->host, RI_LOG_ERROR, "the kernel gives no random numbers (getrandom)");
        goto free_device;
    }
    rnic_add_wire(rnic, &iwarp_wire, &device->iwarp);
    if (device->has_local && !add_local(device)) {
        ri_log(rnic->host, RI_LOG_ERROR, "the kernel gives no random numbers (getrandom)");
        goto close_stags;
    }
    host_find_guid(device->iwarp.options.netdevs, rnic->attr.node_guid);
    status = lanes_create(rnic);
    if (status != RI_OK)
        goto close_local;
    *out = &rnic->base;
    return RI_OK;

close_local:
    local_close_rnic(rnic);
close_stags:
    stag_table_close(&rnic->stags);
free_device:
    free(device);
    return status;
}

static enum ri_status softrdma_close(struct ri_rnic *base, bool force)
{
    struct rnic *rnic = rnic_of(base);
    uint32_t streams, closing;

    if (atomic_load(&rnic->pds) || atomic_load(&rnic->cqs) || atomic_load(&rnic->qps))
        return RI_ERR_BUSY;
    lanes_count(rnic, &streams, &closing);
    if (closing && !force)
        return RI_ERR_AGAIN;
    lanes_destroy(rnic); /* resets what is left */
    local_close_rnic(rnic);
    stag_table_close(&rnic->stags);
    free(softrdma_of(rnic));
    return RI_OK;
}

static enum ri_status softrdma_query(struct ri_rnic *base, struct ri_rnic_attr *attr)
{
    const struct rnic *rnic = rnic_of(base);

    return ri_sized_copy(attr, &rnic->attr, sizeof(rnic->attr)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

static enum ri_status softrdma_query_port(struct ri_rnic *base, struct ri_port_attr *attr)
{
    const struct rnic *rnic = rnic_of(base);

    return host_query_port(rnic->host, iwarp_rnic(rnic)->options.netdevs, attr);
}

static const struct core_counter counters[] = {
    { "protection zones", offsetof(struct softrdma, core.pds) },
    { "completion queues", offsetof(struct softrdma, core.cqs) },
    { "queue pairs", offsetof(struct softrdma, core.qps) },
    { "regions", offsetof(struct softrdma, summed.regions) },
    { "connections", offsetof(struct softrdma, summed.connections) },
    { "connections closing", offsetof(struct softrdma, summed.closing) },
    { "windows", offsetof(struct softrdma, core.mws) },
    { "shared receive queues", offsetof(struct softrdma, core.srqs) },
    { "access errors of peers", offsetof(struct softrdma, core.access_errors) },
    { "empty writes received", offsetof(struct softrdma, summed.empty_writes) },
    { "connections ended behind waiting sends", offsetof(struct softrdma, iwarp.stuck_ends) },
};

/* What lanes and the STag table count, as it is now. */
static void sum_up(struct softrdma *device)
{
    struct rnic *rnic = &device->core;
    uint32_t streams, closing;

    spinlock_lock(&rnic->stags.lock);
    atomic_store(&device->summed.regions, rnic->stags.count);
    spinlock_unlock(&rnic->stags.lock);
    lanes_count(rnic, &streams, &closing);
    atomic_store(&device->summed.connections, streams);
    atomic_store(&device->summed.closing, closing);
    atomic_store(&device->summed.empty_writes, lanes_empty_writes(rnic));
}

static enum ri_status softrdma_rnic_counters(struct ri_rnic *base, const char **names,
                                             uint64_t *values, size_t *count)
{
    struct softrdma *device = softrdma_of(rnic_of(base));

    sum_up(device);
    return core_counters_give(counters, ARRAY_SIZE(counters), device, names, values, count);
}

static const struct ri_privileged_ops privileged_ops = {
    .size = sizeof(privileged_ops),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .enumerate = softrdma_enumerate,
    .open = softrdma_open,
    .close = softrdma_close,
    .query = softrdma_query,
    .query_port = softrdma_query_port,
    .rnic_counters = softrdma_rnic_counters,
    .local_make = local_make,
    .local_take = local_take,
    .local_drop = local_drop,
    CORE_PRIVILEGED_OPS,
};

static const struct ri_user_ops user_ops = {
    .size = sizeof(user_ops),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    CORE_USER_OPS,
    .progress = iwarp_progress, /* without option local the only wire */
};

RI_PROVIDER(vp_softrdma) = {
    .size = sizeof(struct ri_provider),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .name = DEVICE,
    .description =
        "iWARP (RDMA over TCP) in software, in the process; needs no hardware and no privilege",
    .version = PACKAGE_VERSION,
    .privileged = &privileged_ops,
    .user = &user_ops,
    .options = option_table,
    .option_count = ARRAY_SIZE(option_table),
};
