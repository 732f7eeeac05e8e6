/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of librdmacm's calls share: see rdmacm_ids.h. */
#include "rdmacm_ids.h"

#include <fcntl.h>
#include <poll.h>

struct rdma_event_channel *channels[2];
struct rdma_cm_id *listener, *client;

struct rdma_event_channel *new_channel(void)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();

    ck_assert_ptr_nonnull(channel);
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    return channel;
}

struct rdma_cm_event *take(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;

    ck_assert_int_eq(tc_wait_fd(channel->fd, POLLIN, tc_deadline(WAIT_MS)), POLLIN);
    ck_assert_int_eq(rdma_get_cm_event(channel, &event), 0);
    ck_assert_str_eq(rdma_event_str(event->event), rdma_event_str(type));
    return event;
}

void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    ck_assert_int_eq(rdma_ack_cm_event(take(channel, type)), 0);
}

void expect_nothing(struct rdma_event_channel *channel)
{
    struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
    struct rdma_cm_event *event;

    ck_assert_int_eq(poll(&fd, 1, 0), 0);
    ck_assert_int_eq(rdma_get_cm_event(channel, &event), -1);
    ck_assert_int_eq(errno, EAGAIN);
}

struct sockaddr_in loopback(__be16 port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = port,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

struct rdma_cm_id *new_id(struct rdma_event_channel *channel, void *context)
{
    struct rdma_cm_id *id;

    ck_assert_int_eq(rdma_create_id(channel, &id, context, RDMA_PS_TCP), 0);
    return id;
}

void set_up(void)
{
    struct sockaddr_in any = loopback(0);

    channels[0] = new_channel();
    channels[1] = new_channel();
    listener = new_id(channels[0], &listener);
    client = new_id(channels[1], NULL);
    ck_assert_int_eq(rdma_bind_addr(listener, (struct sockaddr *)&any), 0);
    ck_assert_int_eq(rdma_listen(listener, 8), 0);
    ck_assert_uint_ne(rdma_get_src_port(listener), 0);
}

void tear_down(void)
{
    if (client)
        ck_assert_int_eq(rdma_destroy_id(client), 0);
    if (listener)
        ck_assert_int_eq(rdma_destroy_id(listener), 0);
    rdma_destroy_event_channel(channels[0]);
    rdma_destroy_event_channel(channels[1]);
}

void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1
    };

    ck_assert_int_eq(rdma_create_qp(id, NULL, &attr), 0);
    ck_assert_uint_ge(attr.cap.max_inline_data, 16);
}

void resolve(struct rdma_cm_id *id)
{
    resolve_to(id, rdma_get_src_port(listener));
}

void resolve_to(struct rdma_cm_id *id, __be16 port)
{
    struct sockaddr_in to = loopback(port);

    ck_assert_int_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000), 0);
    expect(id->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    ck_assert_ptr_nonnull(id->verbs);
    ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
    expect(id->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    make_qp(id);
}

struct rdma_cm_event *ask(const char *text)
{
    struct rdma_conn_param param = { .private_data = text,
                                     .private_data_len = text ? (uint8_t)strlen(text) : 0,
                                     .responder_resources = 3,
                                     .initiator_depth = 5 };

    resolve(client);
    ck_assert_int_eq(rdma_connect(client, &param), 0);
    return take(channels[0], RDMA_CM_EVENT_CONNECT_REQUEST);
}

struct rdma_cm_id *take_request(void)
{
    struct rdma_cm_event *event = take(channels[0], RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;

    rdma_ack_cm_event(event);
    make_qp(server);
    ck_assert_int_eq(rdma_accept(server, NULL), 0);
    expect(channels[1], RDMA_CM_EVENT_ESTABLISHED);
    expect(channels[0], RDMA_CM_EVENT_ESTABLISHED);
    return server;
}

struct rdma_cm_id *join(void)
{
    resolve(client);
    ck_assert_int_eq(rdma_connect(client, NULL), 0);
    return take_request();
}

void forget(struct rdma_cm_id *id)
{
    rdma_destroy_qp(id);
    ck_assert_int_eq(rdma_destroy_id(id), 0);
}
