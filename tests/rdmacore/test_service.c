/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram services, paths to an address, and service identifiers, on the fake connection
 * manager. */
#include "work.h"

#include "tc.h"

#include <arpa/inet.h>
#include <infiniband/ib.h>

static struct ri_connection *connection;
static struct fake_record record;
static struct ri_qp *ud;

static const struct ri_privileged_ops *ops(void)
{
    return &set.host.privileged;
}

static void setup(void)
{
    struct ri_qp_attr attr = { .size = sizeof(attr), .type = RI_QP_UD, .context = &record };

    work_setup();
    attr.send_cq = attr.recv_cq = set.cq;
    ck_assert_int_eq(ops()->qp_create(set.pd, &attr, &ud), RI_OK);
    ck_assert_int_eq(ops()->connection_create(set.host.rnic, &set, &connection), RI_OK);
}

static void teardown(void)
{
    ck_assert_int_eq(ops()->connection_destroy(connection), RI_OK);
    ck_assert_int_eq(ops()->qp_destroy(ud), RI_OK);
    work_teardown();
}

static struct sockaddr_storage address_of(const char *text, uint16_t port)
{
    struct sockaddr_storage address = { .ss_family = strchr(text, ':') ? AF_INET6 : AF_INET };
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address;
    struct sockaddr_in *in = (struct sockaddr_in *)&address;
    bool six = address.ss_family == AF_INET6;

    ck_assert_int_eq(
        inet_pton(address.ss_family, text, six ? (void *)&in6->sin6_addr : (void *)&in->sin_addr),
        1);
    in->sin_port = htons(port); /* at the same place in both */
    return address;
}

static struct ri_connect_param request_to(const struct sockaddr_storage *address)
{
    return (struct ri_connect_param){ .size = sizeof(struct ri_connect_param),
                                      .destination = (const struct sockaddr *)address,
                                      .deadline = RI_NO_DEADLINE,
                                      .private_data = "question",
                                      .private_data_length = 8 };
}

static void tell(enum rdma_cm_event_type type, int status, const struct rdma_ud_param *ud_param)
{
    fake_cm_datagram(fake_id(connection), type, status, ud_param);
    fake_run(&set);
    ck_assert_uint_eq(fake_unacknowledged(), 0);
}

static const struct ri_connection_event *news(unsigned int number)
{
    ck_assert_uint_eq(fake_events.count, number);
    return &fake_events.event[number - 1];
}

typedef enum ri_status (*begin_fn)(struct ri_connection *, const struct ri_connect_param *);

/* Runs until the address is resolved. */
static void begin(begin_fn verb)
{
    struct sockaddr_storage there = address_of("127.0.0.1", 4000);
    struct ri_connect_param param = request_to(&there);

    ck_assert_int_eq(verb(connection, &param), RI_OK);
    fake_cm_device(fake_id(connection), "fake0");
    tell(RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
}

static void failed_by(enum ri_connection_reason reason)
{
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(news(1)->reason, reason);
}

/* ---- asking ---- */

/* Runs until the request has left. */
static void ask(void)
{
    struct sockaddr_storage there = address_of("127.0.0.1", 4000);
    struct ri_connect_param param = request_to(&there);

    begin(ops()->service_request);
    ck_assert_int_eq(ops()->service_request(connection, &param), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(fake_id(connection)->id.ps, RDMA_PS_UDP);
    ck_assert_uint_eq(fake_id(connection)->calls[FAKE_CONNECT], 0);
    tell(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    ck_assert_uint_eq(fake_id(connection)->calls[FAKE_CONNECT], 1);
    ck_assert_uint_eq(fake_id(connection)->private_length, 8);
    ck_assert_mem_eq(fake_id(connection)->private_data, "question", 8);
    ck_assert_uint_eq(fake_events.count, 0);
}

static struct ri_ah_attr told_path; /* valid during the upcall only */
static void (*next_upcall)(const struct ri_host *, void *, const struct ri_connection_event *);

static void keep_path(const struct ri_host *host, void *context,
                      const struct ri_connection_event *event)
{
    if (event->path)
        told_path = *event->path;
    next_upcall(host, context, event);
}

static void watch_path(void)
{
    next_upcall = set.host.host.connection_event;
    set.host.host.connection_event = keep_path;
}

/* Both ends, and the other fields as text. */
static void way_is(const uint8_t *destination, const uint8_t *source, const char *rest)
{
    const struct ri_ah_attr *way = &told_path;
    char text[128];

    snprintf(text, sizeof(text),
             "lid %u sl %u bits %u rate %u global %u flow %u hops %u class %u port %u",
             way->destination_lid, way->sl, way->path_bits, way->static_rate, way->global,
             way->flow_label, way->hop_limit, way->traffic_class, way->port);
    ck_assert_mem_eq(way->destination_gid, destination, 16);
    ck_assert_mem_eq(way->source_gid, source, 16);
    ck_assert_str_eq(text, rest);
}

static const struct rdma_ud_param answer = {
    .private_data = "answer\0\0\0",
    .private_data_len = 9,
    .qp_num = 0x4321,
    .qkey = 0x1234567,
    .ah_attr = { .grh = { .dgid.raw = { 0xfe, 0x80, [15] = 7 },
                          .flow_label = 3,
                          .hop_limit = 5,
                          .traffic_class = 6 },
                 .dlid = 9,
                 .sl = 2,
                 .src_path_bits = 1,
                 .static_rate = 4,
                 .is_global = 1,
                 .port_num = 1 },
};

START_TEST(answered)
{
    const struct ri_connection_event *event;
    const uint8_t own[16] = { 0xfe, 0x80, [15] = 1 };

    watch_path();
    ask();
    tell(RDMA_CM_EVENT_ESTABLISHED, 0, &answer);
    event = news(1);
    ck_assert_int_eq(event->type, RI_CONNECTION_SERVICE_REPLY);
    ck_assert_uint_eq(event->service_status, RI_SERVICE_VALID);
    ck_assert_uint_eq(event->remote_qpn, 0x4321);
    ck_assert_uint_eq(event->remote_qkey, 0x1234567);
    ck_assert_uint_eq(event->private_data_length, 9);
    ck_assert_mem_eq(fake_events.private_data, "answer", 6);
    way_is(answer.ah_attr.grh.dgid.raw, own,
           "lid 9 sl 2 bits 1 rate 4 global 1 flow 3 hops 5 class 6 port 0");
    fake_host_expire_timers(&set.host);
    fake_run(&set);
    tell(RDMA_CM_EVENT_ESTABLISHED, 0, &answer); /* once more */
    ck_assert_uint_eq(fake_events.count, 1);
}
END_TEST

/* SIDR's status: no such service, refused, no queue pair, ... With private data. */
START_TEST(answered_without_a_queue_pair)
{
    ask();
    tell(RDMA_CM_EVENT_UNREACHABLE, _i, &answer);
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_SERVICE_REPLY);
    ck_assert_uint_eq(news(1)->service_status, _i);
    ck_assert_uint_eq(news(1)->remote_qpn, 0);
    ck_assert_ptr_null(news(1)->path);
    ck_assert_uint_eq(news(1)->private_data_length, 9);
}
END_TEST

START_TEST(not_answered)
{
    ask();
    if (_i == 0) {
        tell(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
    } else {
        fake_host_expire_timers(&set.host);
        fake_run(&set);
    }
    failed_by(RI_REASON_TIMEOUT);
}
END_TEST

START_TEST(request_does_not_leave)
{
    begin(ops()->service_request);
    fake_fail_call(1, ENOMEM);
    tell(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    failed_by(RI_REASON_RESOURCES);
}
END_TEST

START_TEST(wrong_requests)
{
    struct sockaddr_storage there = address_of("127.0.0.1", 4000);
    struct ri_connect_param param = request_to(&there);

    param.private_data_length = 181;
    ck_assert_int_eq(ops()->service_request(connection, &param), RI_ERR_LIMIT);
    param.private_data = NULL;
    ck_assert_int_eq(ops()->service_request(connection, &param), RI_ERR_INVALID_ARGUMENT);
    param.private_data_length = 0;
    param.destination = NULL;
    ck_assert_int_eq(ops()->service_request(connection, &param), RI_ERR_INVALID_ARGUMENT);
    there.ss_family = AF_UNIX;
    param.destination = (const struct sockaddr *)&there;
    ck_assert_int_eq(ops()->service_request(connection, &param), RI_ERR_INVALID_ARGUMENT);
    for (unsigned int n = 1; n < 3; n++) { /* the identifier; the way */
        there.ss_family = AF_INET;
        fake_fail_call(n, ENOMEM);
        ck_assert_int_eq(ops()->service_request(connection, &param), RI_ERR_NO_RESOURCES);
    }
    ck_assert_int_eq(ops()->service_request(connection, &param), RI_OK); /* nothing was started */
}
END_TEST

/* ---- being asked ---- */

static struct ri_listener *listener;

static void be_asked(void)
{
    static const struct rdma_conn_param question = { .private_data = "who", .private_data_len = 3 };
    struct sockaddr_storage here = address_of("127.0.0.1", 0), bound;
    const struct ri_listen_param param = { .size = sizeof(param),
                                           .address = (const struct sockaddr *)&here,
                                           .backlog = 4,
                                           .datagram = true };

    ck_assert_int_eq(ops()->connection_destroy(connection), RI_OK);
    ck_assert_int_eq(ops()->listen(set.host.rnic, &param, &set, &bound, &listener), RI_OK);
    ck_assert_uint_eq(((struct sockaddr_in *)&bound)->sin_port, htons(4711));
    ck_assert_int_eq(fake_ids()->id.ps, RDMA_PS_UDP);
    fake_cm_request(fake_ids(), &question);
    fake_run(&set);
    connection = fake_asked;
    ck_assert(fake_request.datagram);
    ck_assert(!fake_request.depths_valid);
    ck_assert_uint_eq(fake_request.private_data_length, 3);
}

static struct ri_service_reply reply_of(enum ri_service_status status)
{
    return (struct ri_service_reply){ .size = sizeof(struct ri_service_reply),
                                      .status = status,
                                      .qp = status == RI_SERVICE_VALID ? ud : NULL,
                                      .qkey = RDMA_UDP_QKEY,
                                      .private_data = "you",
                                      .private_data_length = 3 };
}

START_TEST(replied)
{
    struct ri_service_reply reply = reply_of((enum ri_service_status)_i);
    struct ri_connect_param param = { .size = sizeof(param) };
    enum fake_call call = _i == RI_SERVICE_VALID ? FAKE_ACCEPT : FAKE_REJECT;

    be_asked();
    ck_assert_int_eq(ops()->accept(connection, set.qp, &param), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(ops()->reject(connection, NULL, 0), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(ops()->service_reply(connection, &reply), RI_OK);
    ck_assert_uint_eq(fake_id(connection)->calls[call], 1);
    ck_assert_uint_eq(fake_id(connection)->private_length, 3);
    ck_assert_mem_eq(fake_id(connection)->private_data, "you", 3);
    if (_i == RI_SERVICE_VALID)
        ck_assert_uint_eq(fake_id(connection)->param.qp_num, fake_qp(ud)->ibv.qp_num);
    ck_assert_int_eq(ops()->service_reply(connection, &reply), RI_ERR_INVALID_STATE);
    fake_run(&set);
    ck_assert_uint_eq(fake_events.count, 0);
    ck_assert_int_eq(ops()->listen_destroy(listener), RI_OK);
}
END_TEST

START_TEST(wrong_replies)
{
    struct ri_service_reply reply = reply_of(RI_SERVICE_VALID);

    be_asked();
    reply.qkey = 5;
    ck_assert_int_eq(ops()->service_reply(connection, &reply), RI_ERR_INVALID_ARGUMENT);
    ck_assert_uint_eq(set.host.logged[RI_LOG_WARNING], 1);
    reply = reply_of(RI_SERVICE_VALID);
    reply.qp = NULL;
    ck_assert_int_eq(ops()->service_reply(connection, &reply), RI_ERR_INVALID_ARGUMENT);
    reply.qp = set.qp; /* of connections */
    ck_assert_int_eq(ops()->service_reply(connection, &reply), RI_ERR_INVALID_ARGUMENT);
    reply = reply_of(RI_SERVICE_REJECTED);
    reply.private_data_length = 137;
    ck_assert_int_eq(ops()->service_reply(connection, &reply), RI_ERR_LIMIT);
    reply.private_data = NULL;
    ck_assert_int_eq(ops()->service_reply(connection, &reply), RI_ERR_INVALID_ARGUMENT);
    reply = reply_of(RI_SERVICE_VALID);
    fake_fail_call(1, ENOMEM);
    ck_assert_int_eq(ops()->service_reply(connection, &reply), RI_ERR_NO_RESOURCES);
    ck_assert_int_eq(ops()->service_reply(connection, &reply), RI_OK); /* still undecided */
    ck_assert_int_eq(ops()->listen_destroy(listener), RI_OK);
}
END_TEST

START_TEST(reply_to_a_connection)
{
    struct ri_service_reply reply = reply_of(RI_SERVICE_VALID);

    ck_assert_int_eq(ops()->service_reply(connection, &reply), RI_ERR_INVALID_STATE);
}
END_TEST

/* ---- ways ---- */

START_TEST(resolved_then_connected)
{
    struct sockaddr_storage there = address_of("127.0.0.1", 4000);
    struct ri_connect_param param = request_to(&there);
    const uint8_t peer[16] = { 0x20, 1, [15] = 9 }, own[16] = { 0x20, 1, [15] = 8 };
    struct ri_qp *qp = fake_make_qp(&set, NULL, &record);

    watch_path();
    param.private_data_length = 0;
    ck_assert_int_eq(ops()->resolve(connection, &param), RI_OK);
    fake_cm_device(fake_id(connection), "fake0");
    tell(RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    tell(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_RESOLVED);
    way_is(peer, own, "lid 7 sl 2 bits 0 rate 4 global 1 flow 5 hops 12 class 3 port 0");
    fake_host_expire_timers(&set.host);
    fake_run(&set);
    ck_assert_uint_eq(fake_events.count, 1); /* the deadline was that of the way */
    ck_assert_int_eq(ops()->resolve(connection, &param), RI_ERR_INVALID_STATE);
    ck_assert_uint_eq(fake_id(connection)->calls[FAKE_CONNECT], 0);
    fake_fail_call(2, ENOMEM);
    ck_assert_int_eq(ops()->connect(connection, qp, &param), RI_ERR_NO_RESOURCES);
    ck_assert_int_eq(ops()->connect(connection, qp, &param), RI_OK);
    ck_assert_uint_eq(fake_id(connection)->calls[FAKE_CONNECT], 1);
    fake_host_expire_timers(&set.host);
    fake_run(&set);
    ck_assert_int_eq(news(2)->type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(ops()->qp_destroy(qp), RI_OK);
}
END_TEST

START_TEST(no_way)
{
    begin(ops()->resolve);
    tell(RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT, NULL);
    failed_by(RI_REASON_UNREACHABLE);
}
END_TEST

/* ---- names ---- */

static const struct {
    const char *destination, *source;
    uint64_t id;
    bool datagram, infiniband;
    enum ri_status status;
    enum rdma_port_space ps;
    const char *to; /* NULL: AF_IB */
    uint16_t port;
} names[] = {
    { "127.0.0.1", NULL, 0, false, false, RI_OK, RDMA_PS_TCP, "127.0.0.1", 4000 },
    { "127.0.0.1", NULL, 0, true, false, RI_OK, RDMA_PS_UDP, "127.0.0.1", 4000 },
    { "127.0.0.1", NULL, 0x1061234, false, false, RI_OK, RDMA_PS_TCP, "127.0.0.1", 0x1234 },
    { "127.0.0.1", NULL, 0x1111234, true, false, RI_OK, RDMA_PS_UDP, "127.0.0.1", 0x1234 },
    { "::ffff:127.0.0.1", "::", 0x1061234, false, false, RI_OK, RDMA_PS_TCP, "127.0.0.1", 0x1234 },
    { "::ffff:127.0.0.1", "::ffff:127.0.0.2", 0, true, false, RI_OK, RDMA_PS_UDP, "127.0.0.1",
      4000 },
    { "2001:db8::1", NULL, 0x1061234, false, false, RI_OK, RDMA_PS_TCP, "2001:db8::1", 0x1234 },
    { "127.0.0.1", NULL, 0x1111234, false, false, RI_ERR_NOT_SUPPORTED, 0, NULL, 0 },
    { "127.0.0.1", NULL, 0x1061234, true, false, RI_ERR_NOT_SUPPORTED, 0, NULL, 0 },
    { "2001:db8::1", NULL, 0x42, false, false, RI_ERR_NOT_SUPPORTED, 0, NULL, 0 }, /* Ethernet */
    { "127.0.0.1", NULL, 0x42, false, true, RI_ERR_NOT_SUPPORTED, 0, NULL, 0 },    /* no GID */
    { "2001:db8::1", NULL, 0x42, false, true, RI_OK, RDMA_PS_IB, NULL, 0 },
    { "2001:db8::1", "2001:db8::2", 0x42, true, true, RI_OK, RDMA_PS_UDP, NULL, 0 },
    { "2001:db8::1", NULL, 0x1061234, false, true, RI_OK, RDMA_PS_TCP, "2001:db8::1", 0x1234 },
};

static void is_address(const struct sockaddr_storage *address, const char *text, uint16_t port)
{
    struct sockaddr_storage expected = address_of(text, port);

    ck_assert_mem_eq(address, &expected, sizeof(struct sockaddr_in6));
}

static void is_infiniband(const struct sockaddr_storage *address, const char *gid, uint64_t id)
{
    const struct sockaddr_ib *ib = (const struct sockaddr_ib *)address;
    uint8_t expected[16];

    ck_assert_uint_eq(ib->sib_family, AF_IB);
    ck_assert_int_eq(inet_pton(AF_INET6, gid, expected), 1);
    ck_assert_mem_eq(&ib->sib_addr, expected, 16);
    ck_assert_uint_eq(ib->sib_sid, htobe64(id));
    ck_assert_uint_eq(ib->sib_sid_mask, id ? UINT64_MAX : 0);
    ck_assert_uint_eq(ib->sib_pkey, 0xffff);
}

START_TEST(names_of_services)
{
    struct sockaddr_storage there = address_of(names[_i].destination, 4000);
    struct sockaddr_storage here = address_of(names[_i].source ? names[_i].source : "::", 0);
    struct ri_connect_param param = request_to(&there);
    const struct rdma_addr *used;
    struct ri_qp *qp;

    if (names[_i].infiniband)
        fake_infiniband();
    setup();
    qp = fake_make_qp(&set, NULL, &record);
    param.source = names[_i].source ? (const struct sockaddr *)&here : NULL;
    param.service_id = names[_i].id;
    ck_assert_int_eq(names[_i].datagram ? ops()->service_request(connection, &param)
                                        : ops()->connect(connection, qp, &param),
                     names[_i].status);
    if (names[_i].status == RI_OK) {
        used = &fake_id(connection)->id.route.addr;
        ck_assert_int_eq(fake_id(connection)->id.ps, names[_i].ps);
        ck_assert_int_eq(fake_id(connection)->sourced, names[_i].source != NULL);
        if (names[_i].to)
            is_address(&used->dst_storage, names[_i].to, names[_i].port);
        else
            is_infiniband(&used->dst_storage, names[_i].destination, names[_i].id);
        if (names[_i].source)
            ck_assert_int_eq(used->src_addr.sa_family, used->dst_addr.sa_family);
    } else {
        ck_assert_uint_eq(set.host.logged[RI_LOG_WARNING], 1);
    }
    ck_assert_int_eq(ops()->qp_destroy(qp), RI_OK);
    teardown();
}
END_TEST

/* An address within the link is completed with the link: here the loopback. */
START_TEST(link_local)
{
    struct sockaddr_storage there = address_of("fe80::9", 4000);
    struct ri_connect_param param = request_to(&there);
    const struct sockaddr_in6 *used;

    ck_assert_int_eq(ops()->service_request(connection, &param), RI_OK);
    used = &fake_id(connection)->id.route.addr.dst_sin6;
    ck_assert_uint_gt(used->sin6_scope_id, 0);
}
END_TEST

static const struct {
    uint64_t id;
    bool datagram, infiniband;
    enum ri_status status;
    enum rdma_port_space ps;
    uint16_t port; /* 0: AF_IB */
} heard[] = {
    { 0x1061234, false, false, RI_OK, RDMA_PS_TCP, 0x1234 },
    { 0x1111234, true, false, RI_OK, RDMA_PS_UDP, 0x1234 },
    { 0x1061234, true, false, RI_ERR_NOT_SUPPORTED, 0, 0 },
    { 0x1111234, false, false, RI_ERR_NOT_SUPPORTED, 0, 0 },
    { 0x42, false, false, RI_ERR_NOT_SUPPORTED, 0, 0 },
    { 0x42, true, false, RI_ERR_NOT_SUPPORTED, 0, 0 },
    { 0x1061234, true, true, RI_ERR_NOT_SUPPORTED, 0, 0 },
    { 0x13f0042, false, true, RI_OK, RDMA_PS_IB, 0 },
    { 0x42, true, true, RI_OK, RDMA_PS_UDP, 0 },
};

START_TEST(names_to_listen_at)
{
    struct sockaddr_storage here = address_of("0.0.0.0", 0), bound;
    const struct ri_listen_param param = { .size = sizeof(param),
                                           .address = (const struct sockaddr *)&here,
                                           .service_id = heard[_i].id,
                                           .datagram = heard[_i].datagram };
    const struct fake_id *id;

    if (heard[_i].infiniband)
        fake_infiniband();
    setup();
    ck_assert_int_eq(ops()->listen(set.host.rnic, &param, &set, &bound, &listener),
                     heard[_i].status);
    if (heard[_i].status == RI_OK) {
        id = fake_ids();
        ck_assert(id->listening);
        ck_assert_int_eq(id->id.ps, heard[_i].ps);
        is_address(&bound, "0.0.0.0", heard[_i].port);
        if (heard[_i].port)
            ck_assert_uint_eq(id->id.route.addr.src_sin.sin_port, htons(heard[_i].port));
        else
            is_infiniband(&id->id.route.addr.src_storage, "::", heard[_i].id);
        ck_assert_int_eq(ops()->listen_destroy(listener), RI_OK);
    }
    teardown();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdmacore_service");
    TCase *asking = tc_case(suite, "asking", setup, teardown),
          *asked = tc_case(suite, "asked", setup, teardown);
    TCase *ways = tc_case(suite, "ways", setup, teardown),
          *named = tc_case(suite, "names", NULL, NULL);

    tcase_add_test(asking, answered);
    tcase_add_loop_test(asking, answered_without_a_queue_pair, 1, 5);
    tcase_add_loop_test(asking, not_answered, 0, 2);
    tc_add_tests(asking, request_does_not_leave, wrong_requests);
    tcase_add_loop_test(asked, replied, RI_SERVICE_VALID, RI_SERVICE_REDIRECTED + 1);
    tc_add_tests(asked, wrong_replies, reply_to_a_connection);
    tc_add_tests(ways, resolved_then_connected, no_way, link_local);
    tc_add_rows(named, names_of_services, names);
    tc_add_rows(named, names_to_listen_at, heard);
    return tc_main(suite);
}
