/* SPDX-License-Identifier: BSD-3-Clause
 * Attributes of a device and its ports, converted to those of verbs. */
#include "ibverbs_private.h"
#include "later.h"

#include "base/clock.h"
#include "base/minmax.h"

#include <limits.h>
#include <stdio.h>

#define ANY_PAGE_SIZE 0xfffffffffffff000
#define PKEY          0xffff
/* of a device that nobody has given a number; rdma_rxe has it, too */
#define NO_VENDOR 0xffffff

/* of time stamps, which count nanoseconds */
#define CLOCK_KHZ 1000000

/* --- device --- */

static int count(uint32_t value)
{
    return value > INT_MAX ? INT_MAX : (int)value;
}

static unsigned int flags_of(uint64_t features)
{
    unsigned int flags = IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID;

    if (features & RI_FEATURE_SRQ_RESIZE)
        flags |= IBV_DEVICE_SRQ_RESIZE;
    if (features & RI_FEATURE_MW_WIDE)
        flags |= IBV_DEVICE_MEM_WINDOW;
    if (features & RI_FEATURE_MW_NARROW)
        flags |= IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    if ((features & RI_FEATURE_LOCAL_INVALIDATE) && (features & RI_FEATURE_SEND_INVALIDATE))
        flags |= IBV_DEVICE_MEM_MGT_EXTENSIONS;
    return flags;
}

static int product(int a, int b)
{
    return a * (int64_t)b > INT_MAX ? INT_MAX : a * b;
}

static void fill_counts(const struct ri_rnic_attr *rnic, struct ibv_device_attr *attr)
{
    attr->max_qp = count(rnic->max_qp);
    attr->max_qp_wr = count(min_u32(rnic->max_send_wr, rnic->max_recv_wr));
    attr->max_sge = count(
        min_u32(min_u32(rnic->max_send_sge, rnic->max_write_sge), rnic->max_recv_sge));
    attr->max_sge_rd = count(rnic->max_read_sge);
    attr->max_cq = count(rnic->max_cq);
    attr->max_cqe = count(rnic->max_cqe);
    attr->max_mr = count(rnic->max_mr);
    attr->max_pd = count(rnic->max_pd);
    attr->max_mw = count(rnic->max_mw);
    attr->max_ah = count(rnic->max_ah);
    attr->max_srq = count(rnic->max_srq);
    attr->max_srq_wr = count(rnic->max_srq_wr);
    attr->max_srq_sge = count(rnic->max_srq_sge);
    attr->max_mcast_grp = count(rnic->max_multicast_groups);
    attr->max_mcast_qp_attach = count(rnic->max_multicast_qps);
    attr->max_total_mcast_qp_attach = product(attr->max_mcast_grp, attr->max_mcast_qp_attach);
    /* struct ibv_qp_attr has one octet for each */
    attr->max_qp_rd_atom = count(min_u32(rnic->max_ird, UINT8_MAX));
    attr->max_qp_init_rd_atom = count(min_u32(rnic->max_ord, UINT8_MAX));
    attr->max_res_rd_atom = product(attr->max_qp_rd_atom, attr->max_qp);
}

static void fill_device(struct vb_context *context, struct ibv_device_attr *attr)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(context->device);
    struct vb_device *device = vb_device_of(context->verbs.context.device);

    memset(attr, 0, sizeof(*attr));
    snprintf(attr->fw_ver, sizeof(attr->fw_ver), "%.50s%s", rnic->firmware,
             rnic->transport == RI_TRANSPORT_IWARP && vb_is_roce() ? " as roce" : "");
    attr->node_guid = attr->sys_image_guid = device->guid;
    attr->max_mr_size = rnic->max_mr_length;
    attr->page_size_cap = ANY_PAGE_SIZE;
    attr->vendor_id = rnic->vendor_id ? rnic->vendor_id : NO_VENDOR;
    attr->vendor_part_id = rnic->vendor_part;
    attr->hw_ver = rnic->hardware_version;
    attr->device_cap_flags = flags_of(rnic->features);
    attr->atomic_cap = rnic->features & RI_FEATURE_ATOMICS ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
    attr->max_pkeys = 1;
    attr->phys_port_cnt = (uint8_t)min_u32(rnic->ports, UINT8_MAX);
    fill_counts(rnic, attr);
}

int ibv_query_device(struct ibv_context *ibv, struct ibv_device_attr *attr)
{
    VB_OWN(ibv, EIO);
    SANITIZER_OUTPUT(attr);

    fill_device(vb_context_of(ibv), attr);
    return 0;
}

/* The processor copies, so that pages may come and go: but of a range that is mapped all along. */
static void fill_paging(struct ibv_device_attr_ex *attr)
{
    uint32_t rc = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                  IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_SRQ_RECV;

    if (attr->orig_attr.atomic_cap != IBV_ATOMIC_NONE)
        rc |= IBV_ODP_SUPPORT_ATOMIC;
    if (attr->orig_attr.max_ah)
        attr->odp_caps.per_transport_caps.ud_odp_caps = IBV_ODP_SUPPORT_SEND |
                                                        IBV_ODP_SUPPORT_RECV |
                                                        IBV_ODP_SUPPORT_SRQ_RECV;
    attr->odp_caps.general_caps = IBV_ODP_SUPPORT;
    attr->odp_caps.per_transport_caps.rc_odp_caps = rc;
}

/* The clock of time stamps is read now. */
int vb_query_rt_values(struct ibv_context *ibv, struct ibv_values_ex *values)
{
    VB_OWN(ibv, EIO);
    uint64_t now = clock_now();

    if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
        return EINVAL;
    if (values->comp_mask) {
        values->raw_clock.tv_sec = 0;
        values->raw_clock.tv_nsec = (long)now; /* ticks, as adapters tell them */
    }
    return 0;
}

/* `size` is that of the structure in the program's header, which may be shorter. */
int vb_query_device_ex(struct ibv_context *ibv, const struct ibv_query_device_ex_input *input,
                       struct ibv_device_attr_ex *attr, size_t size)
{
    VB_OWN(ibv, EIO);
    struct ibv_device_attr_ex full = { 0 };

    if ((input && input->comp_mask) || size < sizeof(attr->orig_attr))
        return EINVAL;
    fill_device(vb_context_of(ibv), &full.orig_attr);
    full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
    full.phys_port_cnt_ex = full.orig_attr.phys_port_cnt;
    fill_paging(&full);
    full.max_dm_size = VB_MAX_DM_SIZE;
    full.completion_timestamp_mask = UINT64_MAX;
    full.hca_core_clock = CLOCK_KHZ;
    if (size > sizeof(full))
        memset((char *)attr + sizeof(full), 0, size - sizeof(full));
    memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
    sanitizer_defined(attr, size);
    return 0;
}

/* --- ports --- */

static bool is_port(struct vb_context *context, uint32_t port_num)
{
    return port_num >= 1 && port_num <= ual_device_attr(context->device)->ports;
}

/* The largest MTU that fits into a frame of `octets` octets. */
static enum ibv_mtu mtu_of(uint32_t octets)
{
    enum ibv_mtu mtu = IBV_MTU_256;

    while (mtu < IBV_MTU_4096 && octets >= UINT32_C(256) << mtu)
        mtu++;
    return mtu;
}

static uint8_t link_layer(const struct vb_context *context, const struct ri_port_attr *port)
{
    return port->link_ethernet || ual_device_attr(context->device)->transport == RI_TRANSPORT_IWARP
               ? IBV_LINK_LAYER_ETHERNET
               : IBV_LINK_LAYER_INFINIBAND;
}

bool vb_is_ethernet(struct vb_context *context, uint32_t port_num)
{
    struct ri_port_attr port = { .size = sizeof(port), .port = port_num - 1u };

    return ual_device_port(context->device, &port) == RI_OK &&
           link_layer(context, &port) == IBV_LINK_LAYER_ETHERNET;
}

/* The fastest link of verbs that is not faster than that; of a link whose speed is unknown
 * 10 Gbit/s. Encoded as in PortInfo (IBA 14.2.5.6). */
static void fill_link(uint64_t bits_per_second, struct ibv_port_attr *attr)
{
    static const struct {
        uint32_t mbits;
        uint8_t width, speed;
    } links[] = { { 0, 1, 1 },       { 5000, 1, 2 },    { 10000, 1, 8 },  { 25000, 1, 32 },
                  { 40000, 2, 4 },   { 50000, 1, 64 },  { 56000, 2, 16 }, { 100000, 2, 32 },
                  { 200000, 2, 64 }, { 400000, 2, 128 } };
    uint64_t mbits = bits_per_second ? bits_per_second / 1000000 : 10000;

    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]) && links[i].mbits <= mbits; i++) {
        attr->active_width = links[i].width;
        attr->active_speed = links[i].speed;
    }
}

static void fill_port(struct vb_context *context, const struct ri_port_attr *port,
                      struct ibv_port_attr *attr)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(context->device);

    memset(attr, 0, sizeof(*attr));
    attr->state = port->online ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    attr->phys_state = port->online ? 5 : 3; /* LinkUp, Disabled */
    attr->max_mtu = IBV_MTU_4096;
    attr->active_mtu = mtu_of(port->mtu);
    attr->gid_tbl_len = (int)vb_gids_places(context);
    attr->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
    attr->max_msg_sz = (uint32_t)(rnic->max_message > UINT32_MAX ? UINT32_MAX : rnic->max_message);
    attr->pkey_tbl_len = 1;
    attr->lid = port->lid;
    attr->max_vl_num = 1;
    fill_link(port->link_speed, attr);
    attr->link_layer = link_layer(context, port);
    if (attr->link_layer == IBV_LINK_LAYER_ETHERNET)
        attr->flags = IBV_QPF_GRH_REQUIRED;
}

int vb_query_port(struct ibv_context *ibv, uint8_t port_num, struct ibv_port_attr *attr,
                  size_t size)
{
    VB_CALL;
    VB_OWN(ibv, EIO);
    struct vb_context *context = vb_context_of(ibv);
    struct ri_port_attr port = { .size = sizeof(port), .port = port_num - 1u };
    struct ibv_port_attr full;
    enum ri_status status;

    if (!is_port(context, port_num))
        return EINVAL;
    status = ual_device_port(context->device, &port);
    if (status != RI_OK)
        return vb_errno(status);
    fill_port(context, &port, &full);
    if (size > sizeof(full))
        memset((char *)attr + sizeof(full), 0, size - sizeof(full));
    memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
    sanitizer_defined(attr, size);
    return 0;
}

/* For programs compiled before the structure had a second set of flags. */
#undef ibv_query_port
int ibv_query_port(struct ibv_context *ibv, uint8_t port_num, struct _compat_ibv_port_attr *attr)
{
    return vb_query_port(ibv, port_num, (struct ibv_port_attr *)attr,
                         offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* --- P_Keys: the default one --- */

int ibv_query_pkey(struct ibv_context *ibv, uint8_t port_num, int index, __be16 *pkey)
{
    VB_OWN(ibv, -1);
    SANITIZER_OUTPUT(pkey);

    if (!is_port(vb_context_of(ibv), port_num) || index != 0) {
        errno = EINVAL;
        return -1;
    }
    *pkey = PKEY;
    return 0;
}

int ibv_get_pkey_index(struct ibv_context *ibv, uint8_t port_num, __be16 pkey)
{
    VB_OWN(ibv, -1);
    if (!is_port(vb_context_of(ibv), port_num) || pkey != PKEY) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

/* What the port's width and speed say together, in 100 Mbit/s. */
int ibv_query_port_speed(struct ibv_context *ibv, uint32_t port_num, uint64_t *port_speed)
{
    VB_CALL;
    VB_OWN(ibv, EIO);
    SANITIZER_OUTPUT(port_speed);
    static const struct {
        uint8_t speed;
        uint16_t rate;
    } lanes[] = { { 1, 25 },   { 2, 50 },   { 4, 100 },  { 8, 100 },
                  { 16, 140 }, { 32, 250 }, { 64, 500 }, { 128, 1000 } };
    static const struct {
        uint8_t width, lanes;
    } widths[] = { { 1, 1 }, { 2, 4 }, { 4, 8 }, { 8, 12 }, { 16, 2 } };
    struct ibv_port_attr attr;
    int error = port_num > UINT8_MAX ? EINVAL
                                     : vb_query_port(ibv, (uint8_t)port_num, &attr, sizeof(attr));
    uint64_t rate = 0;

    if (error)
        return error;
    for (size_t i = 0; i < ARRAY_SIZE(lanes); i++)
        if (lanes[i].speed == attr.active_speed)
            rate = lanes[i].rate;
    for (size_t i = 0; i < ARRAY_SIZE(widths); i++)
        if (widths[i].width == attr.active_width)
            rate *= widths[i].lanes;
    *port_speed = rate;
    return 0;
}
