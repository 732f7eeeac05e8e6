/* SPDX-License-Identifier: BSD-3-Clause */
/* A fake rdma-core: files of the kernel, devices, memory, asynchronous events. */
#include "fake_private.h"

#include "tc.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#define DEVICES 4

static char class_folder[256], verbs_folder[256], node_folder[256];
static struct ibv_device devices[DEVICES];
static unsigned int device_count;
static uint64_t memlock_octets = UINT64_MAX;

static bool is_infiniband;
static uint8_t ports = 1;
static struct ibv_gid_entry gids[8];

struct ibv_context fake_context;

/* Events in the order of their arrival; the descriptor counts them. */
static struct ibv_async_event async_events[FAKE_QUEUED];
static atomic_uint async_head, async_tail;

/* ---- folders ---- */

static void touch(const char *folder, const char *name, const char *text)
{
    char path[600];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

void fake_modules(void)
{
    ck_assert_int_eq(mkdir(verbs_folder, 0755), 0);
    ck_assert_int_eq(mkdir(class_folder, 0755), 0);
    ck_assert_int_eq(mkdir(node_folder, 0755), 0);
    touch(node_folder, "rdma_cm", "");
}

void fake_device(const char *name, bool iwarp, bool listed)
{
    struct ibv_device *device = &devices[device_count];
    char path[600], node[32];

    ck_assert_uint_lt(device_count, DEVICES);
    snprintf(node, sizeof(node), "uverbs%u", device_count);
    snprintf(path, sizeof(path), "%s/%s", class_folder, name);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/%s", verbs_folder, node);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    touch(path, "ibdev", name);
    touch(node_folder, node, "");
    if (!listed)
        return;
    snprintf(device->name, sizeof(device->name), "%s", name);
    snprintf(device->dev_name, sizeof(device->dev_name), "%s", node);
    device->transport_type = iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
    device->node_type = iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
    device_count++;
}

void fake_remove_node(const char *node)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/%s", node_folder, node);
    ck_assert_int_eq(unlink(path), 0);
}

void fake_memlock(uint64_t octets)
{
    memlock_octets = octets;
}

static uint64_t call_memlock(void)
{
    return memlock_octets;
}

/* ---- device ---- */

static struct ibv_device **call_get_device_list(int *count)
{
    struct ibv_device **list;

    if (fake_refused())
        return NULL;
    list = calloc(DEVICES + 1, sizeof(*list));
    if (access(verbs_folder, F_OK)) {
        free(list);
        errno = ENOSYS;
        return NULL;
    }
    for (unsigned int i = 0; i < device_count; i++)
        list[i] = &devices[i];
    if (count)
        *count = (int)device_count;
    return list;
}

static void call_free_device_list(struct ibv_device **list)
{
    free(list);
}

static struct ibv_context *call_open_device(struct ibv_device *device)
{
    if (fake_refused())
        return NULL;
    fake_context.device = device;
    fake_context.async_fd = eventfd(0, EFD_SEMAPHORE);
    fake_count(1);
    return &fake_context;
}

static int call_close_device(struct ibv_context *ctx)
{
    close(ctx->async_fd);
    fake_count(-1);
    return 0;
}

static int call_query_device(struct ibv_context *ctx, struct ibv_device_attr_ex *attr)
{
    (void)ctx;
    if (fake_refused())
        return errno;
    attr->orig_attr = (struct ibv_device_attr){
        .fw_ver = "1.2.3",
        .node_guid = htobe64(UINT64_C(0x0002c90300fed671)),
        .max_mr_size = UINT64_C(1) << 40,
        .vendor_id = 0x1234,
        .vendor_part_id = 7,
        .hw_ver = 3,
        .max_qp = 100,
        .max_qp_wr = 128,
        .device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW |
                            IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_SRQ_RESIZE,
        .max_sge = FAKE_ELEMENTS,
        .max_sge_rd = FAKE_ELEMENTS / 2,
        .max_cq = 100,
        .max_cqe = 1000,
        .max_mr = 100,
        .max_pd = 100,
        .max_qp_rd_atom = 16,
        .max_qp_init_rd_atom = 300,
        .atomic_cap = IBV_ATOMIC_HCA,
        .max_mw = 100,
        .max_ah = 50,
        .max_mcast_grp = 20,
        .max_mcast_qp_attach = 5,
        .max_total_mcast_qp_attach = 100,
        .max_srq = 100,
        .max_srq_wr = 128,
        .max_srq_sge = 3,
        .phys_port_cnt = ports,
    };
    return 0;
}

static int call_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
    (void)ctx;
    if (port < 1 || port > ports)
        return EINVAL;
    attr->state = IBV_PORT_ACTIVE;
    attr->max_msg_sz = 1u << 30;
    attr->active_speed = 32; /* EDR */
    attr->active_width = 2;  /* 4x */
    attr->active_mtu = port == 1 ? IBV_MTU_1024 : IBV_MTU_512;
    attr->gid_tbl_len = 8;
    attr->link_layer = is_infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
    return 0;
}

/* The device's folder leads to where it is on PCI. */
void fake_on_pci(const char *name, const char *address, const char *numa_node)
{
    char path[600], target[700];

    snprintf(path, sizeof(path), "%s/bus", class_folder);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    snprintf(target, sizeof(target), "%s/%s", path, address);
    ck_assert_int_eq(mkdir(target, 0755), 0);
    touch(target, "numa_node", numa_node);
    snprintf(path, sizeof(path), "%s/%s/device", class_folder, name);
    ck_assert_int_eq(symlink(target, path), 0);
}

void fake_two_ports(void)
{
    ports = 2;
}

void fake_infiniband(void)
{
    is_infiniband = true;
}

/* The device's network interface is the loopback. */
void fake_gid(unsigned int index, const char *text, enum ibv_gid_type type)
{
    gids[index].gid_type = type;
    gids[index].ndev_ifindex = if_nametoindex("lo");
    ck_assert_int_eq(inet_pton(AF_INET6, text, gids[index].gid.raw), 1);
}

static int call_query_gid(struct ibv_context *ctx, uint32_t port, uint32_t index,
                          struct ibv_gid_entry *entry)
{
    (void)ctx, (void)port;
    if (index >= sizeof(gids) / sizeof(gids[0]) || !gids[index].ndev_ifindex)
        return ENODATA;
    *entry = gids[index];
    return 0;
}

/* ---- memory ---- */

static struct ibv_pd *call_alloc_pd(struct ibv_context *ctx)
{
    struct ibv_pd *pd = fake_refused() ? NULL : fake_made(sizeof(*pd));

    if (!pd)
        return NULL;
    pd->context = ctx;
    return pd;
}

static int call_dealloc_pd(struct ibv_pd *pd)
{
    return fake_gone(pd);
}

static struct ibv_mr *call_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    static uint32_t key = 0x100;
    struct ibv_mr *mr = fake_refused() ? NULL : fake_made(sizeof(*mr));

    (void)access;
    if (!mr)
        return NULL;
    mr->context = pd->context;
    mr->pd = pd;
    mr->addr = addr;
    mr->length = length;
    mr->lkey = mr->rkey = key += 0x100;
    return mr;
}

uint64_t fake_iova;

static struct ibv_mr *call_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                       int access)
{
    struct ibv_mr *mr = call_reg_mr(pd, addr, length, access);

    fake_iova = mr ? iova : 0;
    return mr;
}

static int call_dereg_mr(struct ibv_mr *mr)
{
    return fake_gone(mr);
}

static struct ibv_mw *call_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    static uint32_t key = 0x10000;
    struct ibv_mw *mw = fake_refused() ? NULL : fake_made(sizeof(*mw));

    if (!mw)
        return NULL;
    mw->context = pd->context;
    mw->pd = pd;
    mw->type = type;
    mw->rkey = key += 0x100;
    return mw;
}

static int call_dealloc_mw(struct ibv_mw *mw)
{
    return fake_gone(mw);
}

static struct ibv_ah *call_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct fake_ah *ah = fake_refused() ? NULL : fake_made(sizeof(*ah));

    if (!ah)
        return NULL;
    ah->ibv.context = pd->context;
    ah->ibv.pd = pd;
    ah->attr = *attr;
    return &ah->ibv;
}

static int call_destroy_ah(struct ibv_ah *ah)
{
    return fake_gone(ah);
}

/* One group of one QP. */
static struct {
    struct ibv_qp *qp;
    union ibv_gid gid;
    uint16_t lid;
} attached;

static int call_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    if (fake_refused())
        return errno;
    attached.qp = qp;
    attached.gid = *gid;
    attached.lid = lid;
    return 0;
}

static int call_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    if (attached.qp != qp || attached.lid != lid || memcmp(&attached.gid, gid, sizeof(*gid)) != 0)
        return EINVAL;
    attached.qp = NULL;
    return 0;
}

/* ---- asynchronous events ---- */

void fake_async(enum ibv_event_type type, void *element)
{
    struct ibv_async_event event = { .event_type = type };

    if (type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR)
        event.element.port_num = (int)(intptr_t)element;
    else
        event.element.qp = element; /* a union of pointers */
    async_events[async_tail % FAKE_QUEUED] = event;
    async_tail++; /* from now on another thread may take it */
    ck_assert_int_eq(eventfd_write(fake_context.async_fd, 1), 0);
}

static int call_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
    eventfd_t one;

    if (async_head == async_tail)
        return fake_nothing(ctx->async_fd);
    eventfd_read(ctx->async_fd, &one);
    fake_unacknowledged_events++;
    *event = async_events[async_head % FAKE_QUEUED];
    async_head++;
    return 0;
}

bool fake_async_taken(void)
{
    return async_head == async_tail;
}

static void call_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
    fake_unacknowledged_events--;
}

/* ---- its part of the table ---- */

void fake_device_calls(struct rdmacore_calls *calls)
{
    const char *folder = tc_tempdir();

    fake_gid(0, "fe80::1", IBV_GID_TYPE_IB);
    snprintf(class_folder, sizeof(class_folder), "%s/class", folder);
    snprintf(verbs_folder, sizeof(verbs_folder), "%s/verbs", folder);
    snprintf(node_folder, sizeof(node_folder), "%s/node", folder);
    calls->class_folder = class_folder;
    calls->verbs_folder = verbs_folder;
    calls->node_folder = node_folder;
    calls->memlock = call_memlock;
    calls->get_device_list = call_get_device_list;
    calls->free_device_list = call_free_device_list;
    calls->open_device = call_open_device;
    calls->close_device = call_close_device;
    calls->query_device = call_query_device;
    calls->query_port = call_query_port;
    calls->query_gid = call_query_gid;
    calls->alloc_pd = call_alloc_pd;
    calls->dealloc_pd = call_dealloc_pd;
    calls->reg_mr = call_reg_mr;
    calls->reg_mr_iova = call_reg_mr_iova;
    calls->dereg_mr = call_dereg_mr;
    calls->alloc_mw = call_alloc_mw;
    calls->dealloc_mw = call_dealloc_mw;
    calls->create_ah = call_create_ah;
    calls->destroy_ah = call_destroy_ah;
    calls->attach_mcast = call_attach_mcast;
    calls->detach_mcast = call_detach_mcast;
    calls->get_async_event = call_get_async_event;
    calls->ack_async_event = call_ack_async_event;
}
