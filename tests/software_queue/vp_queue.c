/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The provider queue: a device of the core whose only wire is queue, at 127.0.0.1.
 */
#include "queue.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE           "queue"
#define MPA_PRIVATE_DATA 508u

static enum ri_status queue_enumerate(const struct ri_host *host, ri_found_fn found, void *arg)
{
    const struct ri_device device = {
        .size = sizeof(device), .name = DEVICE, .transport = RI_TRANSPORT_IWARP, .usable = true
    };

    (void)host;
    found(arg, &device);
    return RI_OK;
}

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
                RI_FEATURE_FUSED_IMMEDIATE | RI_FEATURE_ACKNOWLEDGE | RI_FEATURE_KEEP_KEYS,
    CORE_LIMITS,
    .max_qp = MAX_OBJECTS,
    .max_ird = 128,
    .max_ord = 128,
    .connect_private_data = MPA_PRIVATE_DATA,
    .accept_private_data = MPA_PRIVATE_DATA,
    .reject_private_data = MPA_PRIVATE_DATA,
    .firmware = "a wire of the tests",
};

static const struct ri_option option_table[] = {
    { "lanes", "int: 1..64", "1", "",
      "Parts of the interface that threads run beside each other." },
};

static enum ri_status queue_open(const struct ri_open *open, struct ri_rnic **out)
{
    uint64_t lanes = 1;
    enum ri_status status;
    struct rnic *rnic;

    if (open->device && strcmp(open->device, DEVICE))
        return RI_ERR_INVALID_ARGUMENT;
    status = ri_option_number(open->host, "lanes", &lanes);
    if (status != RI_OK)
        return status;
    rnic = calloc(1, sizeof(*rnic));
    if (!rnic)
        return RI_ERR_NO_RESOURCES;
    rnic->base.ops = open->privileged;
    rnic->base.context = open->context;
    rnic->host = open->host;
    rnic->user = open->user;
    rnic->attr = attributes;
    rnic->attr.lanes = rnic->options.lanes = (uint32_t)lanes;
    rnic->options.remote_invalidate = true;
    status = RI_ERR_NO_RESOURCES;
    if (!stag_table_open(&rnic->stags))
        goto free_rnic;
    rnic_add_wire(rnic, &queue_wire, NULL);
    status = lanes_create(rnic);
    if (status != RI_OK)
        goto close_stags;
    *out = &rnic->base;
    return RI_OK;

close_stags:
    stag_table_close(&rnic->stags);
free_rnic:
    free(rnic);
    return status;
}

/* No connection outlives its QP, so `force` has nothing to do. */
static enum ri_status queue_close(struct ri_rnic *base, bool force)
{
    struct rnic *rnic = container_of(base, struct rnic, base);

    (void)force;
    if (atomic_load(&rnic->pds) || atomic_load(&rnic->cqs) || atomic_load(&rnic->qps))
        return RI_ERR_BUSY;
    lanes_destroy(rnic);
    stag_table_close(&rnic->stags);
    free(rnic);
    return RI_OK;
}

static enum ri_status queue_query(struct ri_rnic *base, struct ri_rnic_attr *attr)
{
    const struct rnic *rnic = container_of(base, struct rnic, base);

    return ri_sized_copy(attr, &rnic->attr, sizeof(rnic->attr)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

static enum ri_status queue_query_port(struct ri_rnic *base, struct ri_port_attr *attr)
{
    const struct sockaddr_in loopback = { .sin_family = AF_INET,
                                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    (void)base;
    if (attr->size < offsetof(struct ri_port_attr, reserved) || attr->port)
        return RI_ERR_INVALID_ARGUMENT;
    attr->online = true;
    attr->link_ethernet = true;
    attr->mtu = 65536;
    strcpy(attr->name, "lo");
    if (attr->address_capacity) {
        memset(&attr->addresses[0], 0, sizeof(attr->addresses[0]));
        memcpy(&attr->addresses[0].sockaddr, &loopback, sizeof(loopback));
        attr->addresses[0].prefix_length = 8;
    }
    attr->address_count = 1;
    return RI_OK;
}

static const struct ri_privileged_ops privileged_ops = {
    .size = sizeof(privileged_ops),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .enumerate = queue_enumerate,
    .open = queue_open,
    .close = queue_close,
    .query = queue_query,
    .query_port = queue_query_port,
    CORE_PRIVILEGED_OPS,
};

static const struct ri_user_ops user_ops = {
    .size = sizeof(user_ops),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    CORE_USER_OPS,
    .progress = core_progress,
};

RI_PROVIDER(vp_queue) = {
    .size = sizeof(struct ri_provider),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .name = DEVICE,
    .description = "two endpoints of one process, for tests of software/core",
    .version = "1",
    .privileged = &privileged_ops,
    .user = &user_ops,
    .options = option_table,
    .option_count = sizeof(option_table) / sizeof(option_table[0]),
};
