/* SPDX-License-Identifier: BSD-3-Clause */
/* A fake rdma-core: the connection manager. */
#include "fake_private.h"

#include "tc.h"

#include <infiniband/ib.h>
#include <sys/eventfd.h>

static struct rdma_event_channel cm_channel;
static struct fake_id *ids;
static struct rdma_cm_event
    *cm_events[FAKE_QUEUED]; /* in the order of their arrival; the descriptor counts them */
static atomic_uint cm_head, cm_tail;

struct fake_id *fake_of(struct rdma_cm_id *id)
{
    return container_of(id, struct fake_id, id);
}

static struct rdma_event_channel *call_create_event_channel(void)
{
    if (fake_refused())
        return NULL;
    cm_channel.fd = eventfd(0, EFD_SEMAPHORE);
    fake_count(1);
    return &cm_channel;
}

static void call_destroy_event_channel(struct rdma_event_channel *ch)
{
    close(ch->fd);
    fake_count(-1);
}

static int call_create_id(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *ctx,
                          enum rdma_port_space ps)
{
    struct fake_id *fake;

    if (fake_refused())
        return -1;
    fake = calloc(1, sizeof(*fake));
    ck_assert_ptr_nonnull(fake);
    fake_count(1);
    fake->id.channel = ch;
    fake->id.context = ctx;
    fake->id.ps = ps;
    fake->next = ids;
    ids = fake;
    *id = &fake->id;
    return 0;
}

/* Like librdmacm, waits until all events that were taken are acknowledged. */
static int call_destroy_id(struct rdma_cm_id *id)
{
    ck_assert(!fake_of(id)->destroyed);
    while (atomic_load(&fake_of(id)->taken))
        sched_yield();
    fake_of(id)->destroyed = true; /* the memory stays for inspection */
    fake_count(-1);
    return 0;
}

static size_t size_of(const struct sockaddr *address)
{
    switch (address->sa_family) {
    case AF_INET: return sizeof(struct sockaddr_in);
    case AF_INET6: return sizeof(struct sockaddr_in6);
    default: ck_assert_int_eq(address->sa_family, AF_IB); return sizeof(struct sockaddr_ib);
    }
}

static int call_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&id->route.addr.src_storage;

    if (fake_refused())
        return -1;
    memcpy(&id->route.addr.src_storage, address, size_of(address));
    if (address->sa_family != AF_IB && !in->sin_port) /* at the same place in both */
        in->sin_port = htons(4711);
    id->verbs = &fake_context; /* a wildcard belongs to no device, but tests do not bind one */
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
    ck_assert_int_gt(timeout_ms, 0);
    if (fake_refused())
        return -1;
    fake_of(id)->patience = timeout_ms;
    fake_of(id)->sourced = source;
    if (source)
        memcpy(&id->route.addr.src_storage, source, size_of(source));
    memcpy(&id->route.addr.dst_storage, destination, size_of(destination));
    return 0;
}

static int call_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    static struct ibv_sa_path_rec record = { .dlid = 0x0700, /* big-endian */
                                             .flow_label = 0x05000000,
                                             .hop_limit = 12,
                                             .traffic_class = 3,
                                             .sl = 2,
                                             .rate = 4,
                                             .dgid.raw = { 0x20, 1, [15] = 9 },
                                             .sgid.raw = { 0x20, 1, [15] = 8 } };

    fake_of(id)->patience = timeout_ms;
    if (fake_refused())
        return -1;
    id->route.path_rec = &record;
    id->route.num_paths = 1;
    return 0;
}

static int call_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    (void)id;
    *mask = IBV_QP_STATE;
    if (attr->qp_state == IBV_QPS_RTR) {
        *mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_PATH_MTU |
                 IBV_QP_AV;
        attr->dest_qp_num = 0x123456;
        attr->rq_psn = 0xabcdef;
        attr->path_mtu = IBV_MTU_1024;
        attr->ah_attr = (struct ibv_ah_attr){ .is_global = 1,
                                              .port_num = 1,
                                              .grh = { .hop_limit = 64, .traffic_class = 7 } };
    }
    if (attr->qp_state == IBV_QPS_RTS) {
        *mask |= IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_SQ_PSN;
        attr->sq_psn = 0x654321;
        attr->timeout = 19;
        attr->retry_cnt = 5;
        attr->rnr_retry = 6;
    }
    return 0;
}

static int called(struct rdma_cm_id *id, enum fake_call call, const struct rdma_conn_param *param)
{
    struct fake_id *fake = fake_of(id);

    ck_assert(!fake->destroyed);
    if (fake_refused())
        return -1;
    if (param) {
        fake->param = *param;
        fake->private_length = param->private_data_len;
        if (param->private_data_len)
            memcpy(fake->private_data, param->private_data, param->private_data_len);
    }
    fake->calls[call]++; /* last: a test that sees it sees the parameters */
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
    ck_assert_int_eq(event, IBV_EVENT_COMM_EST);
    return called(id, FAKE_NOTIFY, NULL);
}

static int call_set_option(struct rdma_cm_id *id, int level, int option, void *value, size_t length)
{
    ck_assert_int_eq(level, RDMA_OPTION_ID);
    ck_assert_uint_gt(length, 0);
    fake_of(id)->options[option] = *(const uint8_t *)value;
    return 0;
}

/* The event of a request belongs to its listener. */
static struct fake_id *owner(const struct rdma_cm_event *event)
{
    return fake_of(event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->listen_id : event->id);
}

static int call_get_cm_event(struct rdma_event_channel *ch, struct rdma_cm_event **event)
{
    eventfd_t one;

    if (cm_head == cm_tail) {
        errno = EAGAIN;
        return -1;
    }
    eventfd_read(ch->fd, &one);
    fake_unacknowledged_events++;
    *event = cm_events[cm_head % FAKE_QUEUED];
    atomic_fetch_add(&owner(*event)->taken, 1);
    cm_head++;
    return 0;
}

bool fake_cm_taken(void)
{
    return cm_head == cm_tail;
}

static int call_ack_cm_event(struct rdma_cm_event *event)
{
    atomic_fetch_sub(&owner(event)->taken, 1);
    free(event);
    fake_unacknowledged_events--;
    return 0;
}

static void queue_cm(const struct rdma_cm_event *event)
{
    struct rdma_cm_event *copy = malloc(sizeof(*copy));

    *copy = *event;
    cm_events[cm_tail % FAKE_QUEUED] = copy;
    cm_tail++; /* from now on another thread may take it */
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

void fake_cm_datagram(struct fake_id *id, enum rdma_cm_event_type type, int status,
                      const struct rdma_ud_param *ud)
{
    struct rdma_cm_event event = { .id = &id->id, .event = type, .status = status };

    if (ud)
        event.param.ud = *ud;
    queue_cm(&event);
}

struct fake_id *fake_cm_request(struct fake_id *listener, const struct rdma_conn_param *conn)
{
    struct rdma_cm_event event = { .listen_id = &listener->id,
                                   .event = RDMA_CM_EVENT_CONNECT_REQUEST };

    call_create_id(&cm_channel, &event.id, listener->id.context, listener->id.ps);
    event.id->verbs = &fake_context;
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
    if (!strcmp(device, fake_context.device->name)) {
        id->id.verbs = &fake_context;
        return;
    }
    snprintf(other_device.name, sizeof(other_device.name), "%s", device);
    id->id.verbs = &other;
}

struct fake_id *fake_ids(void)
{
    return ids;
}

void fake_forget_ids(void)
{
    struct fake_id *next;

    for (; ids; ids = next) {
        next = ids->next;
        free(ids);
    }
}

/* ---- its part of the table ---- */

void fake_cm_calls(struct rdmacore_calls *calls)
{
    calls->create_event_channel = call_create_event_channel;
    calls->destroy_event_channel = call_destroy_event_channel;
    calls->get_cm_event = call_get_cm_event;
    calls->ack_cm_event = call_ack_cm_event;
    calls->create_id = call_create_id;
    calls->destroy_id = call_destroy_id;
    calls->bind_addr = call_bind_addr;
    calls->listen = call_listen;
    calls->resolve_addr = call_resolve_addr;
    calls->resolve_route = call_resolve_route;
    calls->init_qp_attr = call_init_qp_attr;
    calls->connect = call_connect;
    calls->establish = call_establish;
    calls->accept = call_accept;
    calls->reject = call_reject;
    calls->disconnect = call_disconnect;
    calls->notify = call_notify;
    calls->set_option = call_set_option;
}
