/* SPDX-License-Identifier: BSD-3-Clause */
/* A rdma-core of the tests' own: see fake.h. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "fake.h"

#include "tc.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEVICES 4
#define QUEUED  64

static struct rdmacore_calls calls; /* the table in use */
static char class_folder[256], verbs_folder[256], node_folder[256];
static struct ibv_device devices[DEVICES];
static unsigned int device_count;
static uint64_t memlock_octets = UINT64_MAX;

static struct ibv_context context;
static struct ibv_comp_channel channel;
static struct rdma_event_channel cm_channel;
static struct fake_id *ids;
static unsigned int unacknowledged;
static int post_error, objects;
static bool lost;

/* Events in the order of their arrival; the descriptor counts them. */
static struct fake_cq *cq_events[QUEUED];
static struct ibv_async_event async_events[QUEUED];
static struct rdma_cm_event *cm_events[QUEUED];
static unsigned int cq_head, cq_tail, async_head, async_tail, cm_head, cm_tail;

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
    struct ibv_device **list = calloc(DEVICES + 1, sizeof(*list));

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
    context.device = device;
    context.async_fd = eventfd(0, EFD_SEMAPHORE);
    objects++;
    return &context;
}

static int call_close_device(struct ibv_context *ctx)
{
    close(ctx->async_fd);
    objects--;
    return 0;
}

static int call_query_device(struct ibv_context *ctx, struct ibv_device_attr_ex *attr)
{
    (void)ctx;
    attr->orig_attr = (struct ibv_device_attr){
        .fw_ver = "1.2.3",
        .max_mr_size = UINT64_C(1) << 40,
        .vendor_id = 0x1234,
        .vendor_part_id = 7,
        .hw_ver = 3,
        .max_qp = 100,
        .max_qp_wr = 128,
        .device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW |
                            IBV_DEVICE_MEM_WINDOW_TYPE_2B,
        .max_sge = 4,
        .max_sge_rd = 2,
        .max_cq = 100,
        .max_cqe = 1000,
        .max_mr = 100,
        .max_pd = 100,
        .max_qp_rd_atom = 16,
        .max_qp_init_rd_atom = 300,
        .atomic_cap = IBV_ATOMIC_HCA,
        .max_mw = 100,
        .max_srq = 100,
        .max_srq_wr = 128,
        .max_srq_sge = 3,
        .phys_port_cnt = 1,
    };
    return 0;
}

static int call_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
    (void)ctx;
    if (port != 1)
        return EINVAL;
    attr->state = IBV_PORT_ACTIVE;
    attr->max_msg_sz = 1u << 30;
    attr->active_mtu = IBV_MTU_1024;
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
    return 0;
}

/* The device's network interface is the loopback. */
static int call_query_gid(struct ibv_context *ctx, uint32_t port, uint32_t index,
                          struct ibv_gid_entry *entry)
{
    (void)ctx, (void)port;
    if (index)
        return ENODATA;
    entry->gid.raw[0] = 0xfe;
    entry->ndev_ifindex = if_nametoindex("lo");
    return 0;
}

/* ---- memory ---- */

static void *made(size_t size)
{
    void *object = calloc(1, size);

    ck_assert_ptr_nonnull(object);
    objects++;
    return object;
}

static int gone(void *object)
{
    free(object);
    objects--;
    return 0;
}

static struct ibv_pd *call_alloc_pd(struct ibv_context *ctx)
{
    struct ibv_pd *pd = made(sizeof(*pd));

    pd->context = ctx;
    return pd;
}

static int call_dealloc_pd(struct ibv_pd *pd)
{
    return gone(pd);
}

static struct ibv_mr *call_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    static uint32_t key = 0x100;
    struct ibv_mr *mr = made(sizeof(*mr));

    (void)access;
    mr->context = pd->context;
    mr->pd = pd;
    mr->addr = addr;
    mr->length = length;
    mr->lkey = mr->rkey = key += 0x100;
    return mr;
}

static int call_dereg_mr(struct ibv_mr *mr)
{
    return gone(mr);
}

static int bind_mw(struct ibv_qp *ibv, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    struct fake_qp *qp = (struct fake_qp *)ibv;

    ck_assert_int_eq(mw->type, IBV_MW_TYPE_1);
    qp->bind = *bind;
    qp->binds++;
    mw->rkey = ibv_inc_rkey(mw->rkey);
    return post_error;
}

static struct ibv_mw *call_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    static uint32_t key = 0x10000;
    struct ibv_mw *mw = made(sizeof(*mw));

    mw->context = pd->context;
    mw->pd = pd;
    mw->type = type;
    mw->rkey = key += 0x100;
    return mw;
}

static int call_dealloc_mw(struct ibv_mw *mw)
{
    return gone(mw);
}

/* ---- completion queues ---- */

static struct ibv_comp_channel *call_create_comp_channel(struct ibv_context *ctx)
{
    channel.context = ctx;
    channel.fd = eventfd(0, EFD_SEMAPHORE);
    objects++;
    return &channel;
}

static int call_destroy_comp_channel(struct ibv_comp_channel *ch)
{
    close(ch->fd);
    objects--;
    return 0;
}

static struct ibv_cq *call_create_cq(struct ibv_context *ctx, int depth, void *cq_context,
                                     struct ibv_comp_channel *ch, int vector)
{
    struct fake_cq *cq = made(sizeof(*cq));

    (void)vector;
    ck_assert_ptr_eq(ch, &channel);
    cq->ibv.context = ctx;
    cq->ibv.cq_context = cq_context;
    cq->ibv.cqe = depth;
    cq->armed = -1;
    return &cq->ibv;
}

/* As libibverbs does, but where that would block for ever the test fails. */
static int call_destroy_cq(struct ibv_cq *ibv)
{
    struct fake_cq *cq = (struct fake_cq *)ibv;

    ck_assert_msg(cq->events == cq->acknowledged, "a CQ is destroyed with events of it about");
    return gone(cq);
}

static int nothing(int fd)
{
    (void)fd;
    errno = lost ? EIO : EAGAIN;
    return -1;
}

static int call_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **cq_context)
{
    eventfd_t one;

    if (cq_head == cq_tail)
        return nothing(ch->fd);
    eventfd_read(ch->fd, &one);
    *cq = &cq_events[cq_head % QUEUED]->ibv;
    *cq_context = (*cq)->cq_context;
    cq_events[cq_head++ % QUEUED]->events++;
    unacknowledged++;
    return 0;
}

static void call_ack_cq_events(struct ibv_cq *ibv, unsigned int count)
{
    ((struct fake_cq *)ibv)->acknowledged += count;
    unacknowledged -= count;
}

static int poll_cq(struct ibv_cq *ibv, int count, struct ibv_wc *wc)
{
    struct fake_cq *cq = (struct fake_cq *)ibv;
    int taken = 0;

    while (taken < count && cq->head != cq->tail)
        wc[taken++] = cq->ring[cq->head++ % FAKE_POSTS];
    return taken;
}

static int req_notify_cq(struct ibv_cq *ibv, int solicited)
{
    struct fake_cq *cq = (struct fake_cq *)ibv;

    if (cq->armed != 0) /* any completion is more than solicited ones */
        cq->armed = solicited;
    return 0;
}

void fake_complete(struct ri_cq *base, const struct ibv_wc *wc)
{
    struct fake_cq *cq = fake_cq(base);

    ck_assert_uint_lt(cq->tail - cq->head, FAKE_POSTS);
    cq->ring[cq->tail++ % FAKE_POSTS] = *wc;
    if (cq->armed < 0 || (cq->armed == 1 && wc->status == IBV_WC_SUCCESS))
        return;
    cq->armed = -1;
    cq_events[cq_tail++ % QUEUED] = cq;
    ck_assert_int_eq(eventfd_write(channel.fd, 1), 0);
}

void fake_sent(struct ri_qp *qp, struct ri_cq *cq, unsigned int n, enum ibv_wc_status status)
{
    struct fake_qp *fake = fake_qp(qp);
    struct ibv_wc wc = { .wr_id = fake->sent[n].wr_id,
                         .status = status,
                         .vendor_err = status ? 77 : 0,
                         .qp_num = fake->ibv.qp_num };

    ck_assert_uint_lt(n, fake->sends);
    fake_complete(cq, &wc);
}

void fake_received(struct ri_qp *qp, struct ri_cq *cq, unsigned int n, enum ibv_wc_status status,
                   uint32_t octets)
{
    struct fake_qp *fake = fake_qp(qp);
    struct ibv_wc wc = { .wr_id = fake->received[n],
                         .status = status,
                         .opcode = IBV_WC_RECV,
                         .byte_len = octets,
                         .qp_num = fake->ibv.qp_num };

    ck_assert_uint_lt(n, fake->receives);
    fake_complete(cq, &wc);
}

/* ---- queue pairs and shared receive queues ---- */

static struct ibv_qp *call_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    static uint32_t number = 100;
    struct fake_qp *qp = made(sizeof(*qp));

    qp->ibv.context = pd->context;
    qp->ibv.qp_context = attr->qp_context;
    qp->ibv.pd = pd;
    qp->ibv.qp_num = ++number;
    return &qp->ibv;
}

static int call_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
    struct fake_qp *qp = (struct fake_qp *)ibv;

    qp->last = *attr;
    qp->last_mask = mask;
    if (mask & IBV_QP_STATE) {
        qp->state = attr->qp_state;
        qp->modified[attr->qp_state]++;
    }
    return 0;
}

static int call_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
                         struct ibv_qp_init_attr *init)
{
    (void)mask, (void)init;
    attr->qp_state = ((struct fake_qp *)ibv)->state;
    return 0;
}

static int call_destroy_qp(struct ibv_qp *qp)
{
    return gone(qp);
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fake_qp *qp = (struct fake_qp *)ibv;

    if (post_error) {
        *bad = wr;
        return post_error;
    }
    for (; wr; wr = wr->next) {
        ck_assert_uint_lt(qp->sends, FAKE_POSTS);
        qp->sent[qp->sends] = *wr;
        if (wr->num_sge)
            qp->sge[qp->sends] = wr->sg_list[0];
        qp->sends++;
    }
    return 0;
}

static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fake_qp *qp = (struct fake_qp *)ibv;

    if (post_error) {
        *bad = wr;
        return post_error;
    }
    for (; wr; wr = wr->next)
        qp->received[qp->receives++] = wr->wr_id;
    return 0;
}

static struct ibv_srq *call_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct fake_srq *srq = made(sizeof(*srq));

    srq->ibv.context = pd->context;
    srq->ibv.srq_context = attr->srq_context;
    return &srq->ibv;
}

static int call_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
    ck_assert_int_eq(mask, IBV_SRQ_LIMIT);
    ((struct fake_srq *)ibv)->limit = attr->srq_limit;
    return 0;
}

static int call_destroy_srq(struct ibv_srq *srq)
{
    return gone(srq);
}

static int post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fake_srq *srq = (struct fake_srq *)ibv;

    (void)bad;
    for (; wr; wr = wr->next)
        srq->received[srq->receives++] = wr->wr_id;
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
    async_events[async_tail++ % QUEUED] = event;
    ck_assert_int_eq(eventfd_write(context.async_fd, 1), 0);
}

static int call_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
    eventfd_t one;

    if (async_head == async_tail)
        return nothing(ctx->async_fd);
    eventfd_read(ctx->async_fd, &one);
    *event = async_events[async_head++ % QUEUED];
    unacknowledged++;
    return 0;
}

static void call_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
    unacknowledged--;
}

/* ---- connection manager ---- */

static struct fake_id *fake_of(struct rdma_cm_id *id)
{
    return container_of(id, struct fake_id, id);
}

static struct rdma_event_channel *call_create_event_channel(void)
{
    cm_channel.fd = eventfd(0, EFD_SEMAPHORE);
    objects++;
    return &cm_channel;
}

static void call_destroy_event_channel(struct rdma_event_channel *ch)
{
    close(ch->fd);
    objects--;
}

static int call_create_id(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *ctx,
                          enum rdma_port_space ps)
{
    struct fake_id *fake = calloc(1, sizeof(*fake));

    objects++;
    fake->id.channel = ch;
    fake->id.context = ctx;
    fake->id.ps = ps;
    fake->next = ids;
    ids = fake;
    *id = &fake->id;
    return 0;
}

static int call_destroy_id(struct rdma_cm_id *id)
{
    ck_assert(!fake_of(id)->destroyed);
    fake_of(id)->destroyed = true; /* memory stays, for looking at */
    objects--;
    return 0;
}

static int call_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&id->route.addr.src_storage;

    memcpy(&id->route.addr.src_storage, address,
           address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(*in));
    if (!in->sin_port) /* at the same place in both */
        in->sin_port = htons(4711);
    return 0;
}

static int call_listen(struct rdma_cm_id *id, int backlog)
{
    (void)backlog;
    fake_of(id)->listening = true;
    return 0;
}

static int call_resolve_addr(struct rdma_cm_id *id, struct sockaddr *source,
                             struct sockaddr *destination, int timeout_ms)
{
    (void)source;
    ck_assert_int_gt(timeout_ms, 0);
    memcpy(&id->route.addr.dst_storage, destination, sizeof(struct sockaddr_in));
    return 0;
}

static int call_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    (void)id, (void)timeout_ms;
    return 0;
}

static int call_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    (void)id;
    *mask = IBV_QP_STATE;
    if (attr->qp_state == IBV_QPS_RTR)
        *mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_DEST_QPN;
    if (attr->qp_state == IBV_QPS_RTS)
        *mask |= IBV_QP_MAX_QP_RD_ATOMIC;
    return 0;
}

static int called(struct rdma_cm_id *id, enum fake_call call, const struct rdma_conn_param *param)
{
    struct fake_id *fake = fake_of(id);

    ck_assert(!fake->destroyed);
    fake->calls[call]++;
    if (param) {
        fake->param = *param;
        fake->private_length = param->private_data_len;
        if (param->private_data_len)
            memcpy(fake->private_data, param->private_data, param->private_data_len);
    }
    return 0;
}

static int call_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    return called(id, FAKE_CONNECT, param);
}

static int call_establish(struct rdma_cm_id *id)
{
    return called(id, FAKE_ESTABLISH, NULL);
}

static int call_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    return called(id, FAKE_ACCEPT, param);
}

static int call_reject(struct rdma_cm_id *id, const void *private_data, uint8_t length)
{
    struct rdma_conn_param param = { .private_data = private_data, .private_data_len = length };

    return called(id, FAKE_REJECT, &param);
}

static int call_disconnect(struct rdma_cm_id *id)
{
    return called(id, FAKE_DISCONNECT, NULL);
}

static int call_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
    (void)id, (void)event;
    return 0;
}

static int call_get_cm_event(struct rdma_event_channel *ch, struct rdma_cm_event **event)
{
    eventfd_t one;

    if (cm_head == cm_tail) {
        errno = EAGAIN;
        return -1;
    }
    eventfd_read(ch->fd, &one);
    *event = cm_events[cm_head++ % QUEUED];
    unacknowledged++;
    return 0;
}

static int call_ack_cm_event(struct rdma_cm_event *event)
{
    free(event);
    unacknowledged--;
    return 0;
}

static void queue_cm(const struct rdma_cm_event *event)
{
    struct rdma_cm_event *copy = malloc(sizeof(*copy));

    *copy = *event;
    cm_events[cm_tail++ % QUEUED] = copy;
    ck_assert_int_eq(eventfd_write(cm_channel.fd, 1), 0);
}

void fake_cm(struct fake_id *id, enum rdma_cm_event_type type, int status,
             const struct rdma_conn_param *conn)
{
    struct rdma_cm_event event = { .id = &id->id, .event = type, .status = status };

    if (conn)
        event.param.conn = *conn;
    queue_cm(&event);
}

struct fake_id *fake_cm_request(struct fake_id *listener, const struct rdma_conn_param *conn)
{
    struct rdma_cm_event event = { .listen_id = &listener->id,
                                   .event = RDMA_CM_EVENT_CONNECT_REQUEST };

    call_create_id(&cm_channel, &event.id, listener->id.context, RDMA_PS_TCP);
    event.id->verbs = &context;
    event.id->port_num = 1;
    event.id->route.addr.src_addr.sa_family = event.id->route.addr.dst_addr.sa_family = AF_INET;
    event.param.conn = *conn;
    queue_cm(&event);
    return fake_of(event.id);
}

void fake_cm_device(struct fake_id *id, const char *device)
{
    static struct ibv_device other_device;
    static struct ibv_context other = { .device = &other_device };

    id->id.port_num = 1;
    if (!strcmp(device, context.device->name)) {
        id->id.verbs = &context;
        return;
    }
    snprintf(other_device.name, sizeof(other_device.name), "%s", device);
    id->id.verbs = &other;
}

/* ---- looking ---- */

struct fake_cq *fake_cq(struct ri_cq *cq)
{
    return (struct fake_cq *)container_of(cq, struct cq, base)->ibv;
}

struct fake_qp *fake_qp(struct ri_qp *qp)
{
    return (struct fake_qp *)container_of(qp, struct qp, base)->ibv;
}

struct fake_srq *fake_srq(struct ri_srq *srq)
{
    return (struct fake_srq *)container_of(srq, struct srq, base)->ibv;
}

struct fake_id *fake_id(struct ri_connection *connection)
{
    return fake_of(container_of(connection, struct connection, base)->id);
}

struct fake_id *fake_ids(void)
{
    return ids;
}

unsigned int fake_unacknowledged(void)
{
    return unacknowledged;
}

void fake_fail_posts(int error)
{
    post_error = error;
}

void fake_lose_device(void)
{
    lost = true;
    eventfd_write(channel.fd, 1);
    eventfd_write(context.async_fd, 1);
}

int fake_objects(void)
{
    return objects;
}

/* ---- the table ---- */

void fake_begin(void)
{
    const char *folder = tc_tempdir();

    snprintf(class_folder, sizeof(class_folder), "%s/class", folder);
    snprintf(verbs_folder, sizeof(verbs_folder), "%s/verbs", folder);
    snprintf(node_folder, sizeof(node_folder), "%s/node", folder);
    calls = (struct rdmacore_calls){
        .class_folder = class_folder,
        .verbs_folder = verbs_folder,
        .node_folder = node_folder,
        .memlock = call_memlock,
        .get_device_list = call_get_device_list,
        .free_device_list = call_free_device_list,
        .open_device = call_open_device,
        .close_device = call_close_device,
        .query_device = call_query_device,
        .query_port = call_query_port,
        .query_gid = call_query_gid,
        .alloc_pd = call_alloc_pd,
        .dealloc_pd = call_dealloc_pd,
        .reg_mr = call_reg_mr,
        .dereg_mr = call_dereg_mr,
        .alloc_mw = call_alloc_mw,
        .dealloc_mw = call_dealloc_mw,
        .create_comp_channel = call_create_comp_channel,
        .destroy_comp_channel = call_destroy_comp_channel,
        .create_cq = call_create_cq,
        .destroy_cq = call_destroy_cq,
        .get_cq_event = call_get_cq_event,
        .ack_cq_events = call_ack_cq_events,
        .create_srq = call_create_srq,
        .modify_srq = call_modify_srq,
        .destroy_srq = call_destroy_srq,
        .create_qp = call_create_qp,
        .modify_qp = call_modify_qp,
        .query_qp = call_query_qp,
        .destroy_qp = call_destroy_qp,
        .get_async_event = call_get_async_event,
        .ack_async_event = call_ack_async_event,
        .create_event_channel = call_create_event_channel,
        .destroy_event_channel = call_destroy_event_channel,
        .get_cm_event = call_get_cm_event,
        .ack_cm_event = call_ack_cm_event,
        .create_id = call_create_id,
        .destroy_id = call_destroy_id,
        .bind_addr = call_bind_addr,
        .listen = call_listen,
        .resolve_addr = call_resolve_addr,
        .resolve_route = call_resolve_route,
        .init_qp_attr = call_init_qp_attr,
        .connect = call_connect,
        .establish = call_establish,
        .accept = call_accept,
        .reject = call_reject,
        .disconnect = call_disconnect,
        .notify = call_notify,
    };
    context.ops = (struct ibv_context_ops){
        .poll_cq = poll_cq,
        .req_notify_cq = req_notify_cq,
        .post_send = post_send,
        .post_recv = post_recv,
        .post_srq_recv = post_srq_recv,
        .bind_mw = bind_mw,
    };
    rdmacore = &calls;
}

/* ---- host ---- */

struct fake_connection fake_news;
struct ri_connection *fake_asked;
struct ri_connect_request fake_request;
unsigned int fake_rnic_events;
struct ri_event fake_rnic_event;

static void host_connection_event(const struct ri_host *host, void *connection_context,
                                  const struct ri_connection_event *event)
{
    (void)host, (void)connection_context;
    ck_assert_uint_lt(fake_news.count, 8);
    if (event->private_data)
        memcpy(fake_news.private_data, event->private_data, event->private_data_length);
    fake_news.event[fake_news.count++] = *event;
}

static void host_connection_request(const struct ri_host *host, void *listener_context,
                                    struct ri_connection *connection,
                                    const struct ri_connect_request *request,
                                    void **connection_context)
{
    (void)host;
    fake_asked = connection;
    fake_request = *request;
    *connection_context = listener_context;
}

static void host_rnic_event(const struct ri_host *host, void *rnic_context,
                            const struct ri_event *event)
{
    (void)host, (void)rnic_context;
    fake_rnic_events++;
    fake_rnic_event = *event;
}

static void host_cq_error(const struct ri_host *host, void *cq_context,
                          const struct ri_event *event)
{
    struct fake_record *record = cq_context;

    (void)host;
    ck_assert_int_eq(event->type, RI_EVENT_CQ_ERROR);
    atomic_fetch_add(&record->cq_errors, 1);
}

struct ri_qp *fake_make_qp(struct fake_set *set, struct ri_srq *srq, struct fake_record *record)
{
    struct ri_qp_attr attr = {
        .size = sizeof(attr),
        .type = RI_QP_RC,
        .context = record,
        .send_cq = set->cq,
        .recv_cq = set->cq,
        .srq = srq,
        .lane = set->host.lane,
        .max_send_wr = 8,
        .max_recv_wr = srq ? 0 : 8,
        .max_send_sge = 2,
        .max_recv_sge = 2,
        .max_read_sge = 1,
        .max_write_sge = 2,
        .ird = 4,
        .ord = 4,
        .flags = RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE,
    };
    struct ri_qp *qp;

    ck_assert_int_eq(set->host.privileged.qp_create(set->pd, &attr, &qp), RI_OK);
    return qp;
}

/* As a connection would. */
void fake_connect_qp(struct ri_qp *base)
{
    struct qp *qp = container_of(base, struct qp, base);

    atomic_store(&qp->ended, false);
    qp_connected(qp);
}

void fake_open(struct fake_set *set, bool connected)
{
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = 32, .context = &set->cq_record };
    struct ri_host *host = &set->host.host;

    memset(set, 0, sizeof(*set));
    memset(&fake_news, 0, sizeof(fake_news));
    fake_begin();
    fake_modules();
    fake_device("fake0", false, true);
    ck_assert_int_eq(fake_host_open(&set->host, NULL), RI_OK);
    host->connection_event = host_connection_event;
    host->connection_request = host_connection_request;
    host->rnic_event = host_rnic_event;
    host->cq_error = host_cq_error;
    ck_assert_int_eq(set->host.privileged.pd_create(set->host.rnic, NULL, &set->pd), RI_OK);
    ck_assert_int_eq(set->host.privileged.cq_create(set->host.rnic, &attr, &set->cq), RI_OK);
    set->qp = fake_make_qp(set, NULL, &set->qp_record);
    if (connected)
        fake_connect_qp(set->qp);
}

void fake_close(struct fake_set *set)
{
    struct fake_id *next;

    if (set->qp)
        ck_assert_int_eq(set->host.privileged.qp_destroy(set->qp), RI_OK);
    ck_assert_int_eq(set->host.privileged.cq_destroy(set->cq), RI_OK);
    ck_assert_int_eq(set->host.privileged.pd_destroy(set->pd), RI_OK);
    fake_host_close(&set->host, false);
    fake_host_free(&set->host);
    ck_assert_uint_eq(fake_unacknowledged(), 0);
    ck_assert_int_eq(fake_objects(), 0);
    for (; ids; ids = next) {
        next = ids->next;
        free(ids);
    }
}

void fake_run(struct fake_set *set)
{
    fake_host_run(&set->host, NULL);
    fake_host_sleep(&set->host, 0, 0);
}
