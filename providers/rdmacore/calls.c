/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The one table through which rdma-core is reached, filled here and nowhere else.
 */
#include "calls.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Functions for what the headers define as macros or inline functions. */

static struct ibv_device **get_device_list(int *count)
{
    return ibv_get_device_list(count);
}

static int query_device(struct ibv_context *context, struct ibv_device_attr_ex *attr)
{
    return ibv_query_device_ex(context, NULL, attr);
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    return ibv_query_port(context, port, attr);
}

static int query_gid(struct ibv_context *context, uint32_t port, uint32_t index,
                     struct ibv_gid_entry *entry)
{
    return ibv_query_gid_ex(context, port, index, entry, 0);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return ibv_reg_mr(pd, addr, length, access);
}

static struct ibv_mr *reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                  int access)
{
    return ibv_reg_mr_iova(pd, addr, length, iova, access);
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    return ibv_alloc_mw(pd, type);
}

static int dealloc_mw(struct ibv_mw *mw)
{
    return ibv_dealloc_mw(mw);
}

/* A process with CAP_IPC_LOCK is not bound by the limit. */
static bool may_lock(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    return !syscall(SYS_capget, &header, data) &&
           (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK));
}

static uint64_t memlock(void)
{
    struct rlimit limit;

    if (may_lock() || getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

const struct rdmacore_calls rdmacore_real = {
    .class_folder = "/sys/class/infiniband",
    .verbs_folder = "/sys/class/infiniband_verbs",
    .node_folder = "/dev/infiniband",
    .memlock = memlock,
    .get_device_list = get_device_list,
    .free_device_list = ibv_free_device_list,
    .open_device = ibv_open_device,
    .close_device = ibv_close_device,
    .query_device = query_device,
    .query_port = query_port,
    .query_gid = query_gid,
    .alloc_pd = ibv_alloc_pd,
    .dealloc_pd = ibv_dealloc_pd,
    .reg_mr = reg_mr,
    .reg_mr_iova = reg_mr_iova,
    .dereg_mr = ibv_dereg_mr,
    .alloc_mw = alloc_mw,
    .dealloc_mw = dealloc_mw,
    .create_comp_channel = ibv_create_comp_channel,
    .destroy_comp_channel = ibv_destroy_comp_channel,
    .create_cq = ibv_create_cq,
    .resize_cq = ibv_resize_cq,
    .destroy_cq = ibv_destroy_cq,
    .get_cq_event = ibv_get_cq_event,
    .ack_cq_events = ibv_ack_cq_events,
    .create_srq = ibv_create_srq,
    .modify_srq = ibv_modify_srq,
    .destroy_srq = ibv_destroy_srq,
    .create_ah = ibv_create_ah,
    .destroy_ah = ibv_destroy_ah,
    .create_qp = ibv_create_qp,
    .modify_qp = ibv_modify_qp,
    .query_qp = ibv_query_qp,
    .destroy_qp = ibv_destroy_qp,
    .attach_mcast = ibv_attach_mcast,
    .detach_mcast = ibv_detach_mcast,
    .get_async_event = ibv_get_async_event,
    .ack_async_event = ibv_ack_async_event,
    .create_event_channel = rdma_create_event_channel,
    .destroy_event_channel = rdma_destroy_event_channel,
    .get_cm_event = rdma_get_cm_event,
    .ack_cm_event = rdma_ack_cm_event,
    .create_id = rdma_create_id,
    .destroy_id = rdma_destroy_id,
    .bind_addr = rdma_bind_addr,
    .listen = rdma_listen,
    .resolve_addr = rdma_resolve_addr,
    .resolve_route = rdma_resolve_route,
    .init_qp_attr = rdma_init_qp_attr,
    .connect = rdma_connect,
    .establish = rdma_establish,
    .accept = rdma_accept,
    .reject = rdma_reject,
    .disconnect = rdma_disconnect,
    .notify = rdma_notify,
    .set_option = rdma_set_option,
};

const struct rdmacore_calls *rdmacore = &rdmacore_real;
