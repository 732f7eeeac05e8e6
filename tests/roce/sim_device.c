/* SPDX-License-Identifier: BSD-3-Clause */
/* The device of the simulated link: see sim_device.h. */
#include "sim_device.h"

#include <stdlib.h>
#include <string.h>

struct sim *sim_current;

static enum ri_status lane_open(struct lane *lane)
{
    (void)lane;
    return RI_OK;
}

static void lane_close(struct lane *lane)
{
    (void)lane;
}

static uint32_t serve(struct lane *lane, struct cq *first, uint32_t budget)
{
    (void)first, (void)budget;
    return sim_serve(lane);
}

static bool is_idle(const struct lane *lane)
{
    (void)lane;
    return true;
}

static void count(struct lane *lane, uint32_t *connections, uint32_t *closing)
{
    (void)lane, (void)connections, (void)closing;
}

static enum ri_status start(struct qp *qp, const struct ri_llp_handover *handover)
{
    (void)handover;
    return sim_start(qp);
}

static void free_part(struct qp *qp)
{
    if (qp->type != RI_QP_UD)
        rc_qp_free(qp);
}

static bool count_datagrams(const struct qp *qp, uint32_t number, const char **name,
                            uint64_t *value)
{
    return ud_counter(container_of(qp, const struct ud_qp, core), number, name, value);
}

union sim_any_qp {
    struct rc_qp rc;
    struct ud_qp ud;
};

const struct wire sim_wire = {
    .name = "sim",
    .slot = WIRE_NETWORK,
    .qp_octets = sizeof(union sim_any_qp),
    .lane_octets = sizeof(struct lane),
    .lane_open = lane_open,
    .lane_close = lane_close,
    .serve = serve,
    .is_idle = is_idle,
    .count = count,
    .post_send = wire_post_send,
    .start = start,
    .hide = rc_hide,
    .qp_free = free_part,
    .counter = rc_counter,
    RC_WIRE_MEMBERS,
    .stop = rc_stop,
};

const struct wire sim_ud_wire = {
    .name = "sim datagrams",
    .slot = WIRE_NETWORK,
    .start = start,
    .hide = ud_hide,
    .qp_free = free_part,
    .counter = count_datagrams,
    UD_WIRE_MEMBERS,
};

static enum ri_status enumerate(const struct ri_host *host, ri_found_fn found, void *arg)
{
    const struct ri_device device = {
        .size = sizeof(device), .name = "sim", .transport = RI_TRANSPORT_IWARP, .usable = true
    };

    (void)host;
    found(arg, &device);
    return RI_OK;
}

static const struct ri_rnic_attr attributes = {
    .size = sizeof(struct ri_rnic_attr),
    .transport = RI_TRANSPORT_IWARP,
    .features = RI_FEATURE_CONNECTION_SET_B | RI_FEATURE_CQ_HOLDS_OVERFLOW | RI_FEATURE_ATOMICS |
                RI_FEATURE_IMMEDIATE | RI_FEATURE_SRQ | RI_FEATURE_SEND_INVALIDATE |
                RI_FEATURE_LOCAL_INVALIDATE | RI_FEATURE_MW_NARROW | RI_FEATURE_MW_WIDE |
                RI_FEATURE_RNR | RI_FEATURE_FUSED_IMMEDIATE | RI_FEATURE_READ_MULTI_SGE |
                RI_FEATURE_UD,
    CORE_LIMITS,
    .max_qp = MAX_OBJECTS,
    .max_ud_send = BTH_MTU_MAX,
    .max_ah = MAX_OBJECTS,
    .max_ird = RC_DEPTH,
    .max_ord = RC_DEPTH,
    .lanes = 1,
    .firmware = "a link of the tests",
};

static enum ri_status sim_open_rnic(const struct ri_open *open, struct ri_rnic **out)
{
    enum ri_status status;
    struct rnic *rnic = calloc(1, sizeof(*rnic));

    if (!rnic)
        return RI_ERR_NO_RESOURCES;
    rnic->base.ops = open->privileged;
    rnic->base.context = open->context;
    rnic->host = open->host;
    rnic->user = open->user;
    rnic->attr = attributes;
    rnic->options.lanes = 1;
    rnic->options.remote_invalidate = true;
    if (!stag_table_open(&rnic->stags)) {
        free(rnic);
        return RI_ERR_NO_RESOURCES;
    }
    rnic_add_wire(rnic, &sim_wire, NULL);
    status = lanes_create(rnic);
    if (status == RI_OK)
        *out = &rnic->base;
    return status;
}

static enum ri_status sim_close_rnic(struct ri_rnic *base, bool force)
{
    struct rnic *rnic = container_of(base, struct rnic, base);

    (void)force;
    lanes_destroy(rnic);
    stag_table_close(&rnic->stags);
    free(rnic);
    return RI_OK;
}

static enum ri_status query(struct ri_rnic *base, struct ri_rnic_attr *attr)
{
    const struct rnic *rnic = container_of(base, struct rnic, base);

    return ri_sized_copy(attr, &rnic->attr, sizeof(rnic->attr)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

static enum ri_status query_port(struct ri_rnic *base, struct ri_port_attr *attr)
{
    (void)base, (void)attr;
    return RI_ERR_NOT_SUPPORTED;
}

static const struct ri_privileged_ops privileged_ops = {
    .size = sizeof(privileged_ops),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .enumerate = enumerate,
    .open = sim_open_rnic,
    .close = sim_close_rnic,
    .query = query,
    .query_port = query_port,
    CORE_PRIVILEGED_OPS,
};

static const struct ri_user_ops user_ops = {
    .size = sizeof(user_ops),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    CORE_USER_OPS,
    .progress = core_progress,
};

static const struct ri_option options[] = {
    { "lanes", "int: 1..1", "1", "", "Parts of the interface." },
};

const struct ri_provider sim_provider = {
    .size = sizeof(struct ri_provider),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .name = "sim",
    .description = "two QPs of one process over a simulated link",
    .version = "1",
    .privileged = &privileged_ops,
    .user = &user_ops,
    .options = options,
    .option_count = 1,
};
