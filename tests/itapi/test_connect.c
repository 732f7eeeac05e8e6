/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: both families, private data, depths, rejection, end, time-outs, wrong arguments, listen points. */
#include "fixture.h"
#include "process.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const it_net_addr_type_t families[] = { IT_IPV4, IT_IPV6 };
#define add_each_family(tc, test) tcase_add_loop_test(tc, test, 0, 2 * (int)fx_interfaces())
#define FAMILY                    families[_i % 2]
#define FAMILY_IFACE              fx_interface(_i / 2)

static void fill(unsigned char *data, size_t length, unsigned char first)
{
    for (size_t i = 0; i < length; i++)
        data[i] = (unsigned char)(first + i);
}

/* The data of an event: `length` octets as filled, zero behind them. */
static void check_data(const it_event_cm_any_t *event, size_t length, unsigned char first)
{
    ck_assert_int_eq(event->private_data_present, length ? IT_TRUE : IT_FALSE);
    for (size_t i = 0; i < IT_MAX_PRIV_DATA; i++)
        ck_assert_uint_eq(event->private_data[i], i < length ? (unsigned char)(first + i) : 0);
}

/* --- connecting --- */

START_TEST(connect_with_private_data)
{
    struct pair pair;
    unsigned char data[IT_MAX_PRIV_DATA];
    it_net_addr_t address;
    it_event_t event;
    it_ep_param_t params;

    pair_open(&pair, FAMILY_IFACE);
    address = node_address(&pair.b, FAMILY);
    fill(data, sizeof(data), 1);
    event = pair_ask(&pair, FAMILY, data, pair.a.info->connect_private_data_len);
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_ACTIVE1_CONNECTION_PENDING);
    check_data(&event.cm_any, pair.a.info->connect_private_data_len, 1);
    ck_assert_int_eq(event.conn_req.conn_qual.type, IT_IANA_PORT);
    ck_assert_uint_eq(event.conn_req.conn_qual.conn_qual.port, pair.b.qualifier.conn_qual.port);
    ck_assert_uint_eq(event.conn_req.spigot_id, pair.b.info->spigot_info[0].spigot_id);
    ck_assert_int_eq(event.conn_req.source_addr.addr_type, FAMILY);
    if (FAMILY == IT_IPV4)
        ck_assert_mem_eq(&event.conn_req.source_addr.addr.ipv4, &address.addr.ipv4, 4);
    fill(data, sizeof(data), 101);
    ok(it_ep_accept(pair.b.ep, event.conn_req.cn_est_id, data, 24));
    event = expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    ck_assert_ptr_eq(event.conn.ep, pair.a.ep);
    check_data(&event.cm_any, 24, 101);
    event = expect(pair.b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    ck_assert_ptr_eq(event.conn.ep, pair.b.ep);
    check_data(&event.cm_any, 0, 0);
    params = node_query(pair.a.ep);
    ck_assert_int_eq(params.ep_state.rc, IT_EP_STATE_CONNECTED);
    if (pair.a.info->transport_type == IT_IWARP_TCP_TRANSPORT) {
        size_t octets = FAMILY == IT_IPV4 ? 4 : 16;

        ck_assert_mem_eq(&params.dst_path.u.iwarp.raddr, &address.addr, octets);
        ck_assert_mem_eq(&event.conn.dst_path.u.iwarp.laddr, &address.addr, octets);
    }
    ck_assert_int_eq(node_state(pair.b.ep), IT_EP_STATE_CONNECTED);
    pair_close(&pair);
}
END_TEST

START_TEST(read_depths_are_agreed)
{
    struct pair pair;
    it_ep_attributes_t attributes;
    it_ep_param_t params;

    pair_open(&pair, IFACE);
    if (!pair.a.info->ird_ord_ia_support)
        tc_skip("the interface exchanges no read depths");
    ok(it_ep_free(pair.a.ep));
    ok(it_ep_free(pair.b.ep));
    attributes = node_attributes(&pair.a);
    attributes.srv.rc.rdma_read_ird = 3;
    attributes.srv.rc.rdma_read_ord = 7;
    pair.a.ep = node_make_ep(&pair.a, &attributes);
    attributes.srv.rc.rdma_read_ird = 2;
    attributes.srv.rc.rdma_read_ord = 5;
    pair.b.ep = node_make_ep(&pair.b, &attributes);
    pair_connect(&pair, pair_family(&pair));
    ck_assert_uint_eq(pair.asked.conn_req.rdma_read_ird, 3); /* the requester's own */
    ck_assert_uint_eq(pair.asked.conn_req.rdma_read_ord, 7);
    ck_assert_uint_le(pair.established.conn.rdma_read_ord, 2); /* no more than b answers */
    ck_assert_uint_ge(pair.established.conn.rdma_read_ord, 1);
    params = node_query(pair.b.ep);
    ck_assert_uint_le(params.attr.srv.rc.rdma_read_ord, 3);
    pair_close(&pair);
}
END_TEST

START_TEST(read_depths_suppressed)
{
    struct pair pair;
    it_net_addr_t address;
    it_path_t path;
    unsigned char data[4];
    it_event_t event;

    pair_open(&pair, IFACE);
    if (!pair.a.info->ird_ord_suppressible)
        tc_skip("the exchange of read depths cannot be suppressed");
    ok(it_listen_free(pair.b.listen));
    pair.b.qualifier.conn_qual.port = 0;
    ok(it_listen_create(pair.b.ia, 0, pair.b.asked, IT_LISTEN_SUPPRESS_IRD_ORD, &pair.b.qualifier,
                        &pair.b.listen));
    address = node_address(&pair.b, pair_family(&pair));
    path = path_to(&pair.a, &address);
    fill(data, 4, 0xe0);
    ok(it_ep_connect(pair.a.ep, &path, NULL, &pair.b.qualifier,
                     (it_cn_est_flags_t)(IT_CONNECT_FLAG_TWO_WAY | IT_CONNECT_SUPPRESS_IRD_ORD),
                     data, 4));
    event = expect(pair.b.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    check_data(&event.cm_any, 4, 0xe0);
    ok(it_ep_accept(pair.b.ep, event.conn_req.cn_est_id, data, 3));
    event = expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    check_data(&event.cm_any, 3, 0xe0);
    pair_close(&pair);
}
END_TEST

START_TEST(both_ports_given)
{
    struct pair pair;
    it_conn_qual_t qualifier = { .type = IT_IANA_LR_PORT };
    it_net_addr_t address;
    it_path_t path;
    it_event_t event;
    it_listen_param_t params;
    it_listen_handle_t listen;

    pair_open(&pair, IFACE);
    if (!(pair.a.info->spigot_info[0].active_side_conn_qual & IT_IANA_LR_PORT))
        tc_skip("the interface takes no pairs of ports");
    ok(it_listen_create(pair.b.ia, 0, pair.b.asked, IT_LISTEN_CONN_QUAL_INPUT, &qualifier,
                        &listen));
    ck_assert_int_eq(qualifier.type, IT_IANA_LR_PORT);
    ck_assert_uint_ne(qualifier.conn_qual.lr_port.local, 0);
    ok(it_listen_query(listen, IT_LISTEN_PARAM_ALL, &params));
    ck_assert_int_eq(params.connect_qual.type, IT_IANA_LR_PORT);
    ck_assert_uint_eq(params.connect_qual.conn_qual.lr_port.local,
                      qualifier.conn_qual.lr_port.local);
    address = node_address(&pair.b, pair_family(&pair));
    path = path_to(&pair.a, &address);
    qualifier = towards(&qualifier);
    ok(it_ep_connect(pair.a.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    event = expect(pair.b.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    ck_assert_int_eq(event.conn_req.conn_qual.type, IT_IANA_LR_PORT);
    ck_assert_uint_eq(event.conn_req.conn_qual.conn_qual.lr_port.local,
                      qualifier.conn_qual.lr_port.remote);
    ck_assert_uint_ne(event.conn_req.conn_qual.conn_qual.lr_port.remote, 0);
    ok(it_ep_accept(pair.b.ep, event.conn_req.cn_est_id, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    pair_close(&pair);
}
END_TEST

/* What SKV does: a Path with the peer's address alone, regions named in private data. */
START_TEST(connect_with_regions)
{
    struct pair pair;
    struct buffer ours, theirs;
    it_net_addr_t address;
    it_path_t path;
    it_lmr_triplet_t ours_whole, theirs_whole;
    it_rmr_context_t context = 0;
    it_event_t event;
    unsigned char expected[32], data[12];

    pair_open(&pair, IFACE);
    if (pair.a.info->transport_type != IT_IWARP_TCP_TRANSPORT)
        tc_skip("Paths are made by hand for iWARP here");
    ours = buffer_make(&pair.a, 4096, EVERYTHING);
    theirs = buffer_make(&pair.b, 8192, EVERYTHING);
    ours_whole = segment(&ours, 0, 4096);
    theirs_whole = segment(&theirs, 0, 8192);
    address = node_address(&pair.b, IT_IPV4);
    memset(&path, 0x5a, sizeof(path));
    path.u.iwarp.ip_vers = IT_IP_VERS_IPV4;
    path.u.iwarp.raddr.ipv4 = address.addr.ipv4;
    fill(data, sizeof(data), 7);
    ok(itx_ep_connect_with_rmr(pair.a.ep, &path, NULL, &pair.b.qualifier, IT_CONNECT_FLAG_TWO_WAY,
                               data, sizeof(data), &ours_whole, &context));
    ck_assert_uint_eq(context, ours.context);
    event = expect(pair.b.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    memcpy(expected, data, 12);
    memcpy(expected + 12, &(uint32_t){ htonl(4096) }, 4);
    memcpy(expected + 16, &(uint64_t){ it_hton64(ours.context) }, 8);
    memcpy(expected + 24, &(uint64_t){ it_hton64((uintptr_t)ours.data) }, 8);
    ck_assert_mem_eq(event.conn_req.private_data, expected, 32);
    ok(itx_bind_ep_to_device(pair.b.ep, event.conn_req.cn_est_id));
    ok(itx_ep_accept_with_rmr(pair.b.ep, event.conn_req.cn_est_id, &theirs_whole, &context));
    ck_assert_uint_eq(context, theirs.context);
    is(IT_ERR_INVALID_CN_EST_ID, itx_bind_ep_to_device(pair.b.ep, event.conn_req.cn_est_id));
    event = expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    memcpy(expected, &(uint64_t){ it_hton64(theirs.context) }, 8);
    memcpy(expected + 8, &(uint64_t){ it_hton64((uintptr_t)theirs.data) }, 8);
    memcpy(expected + 16, &(uint64_t){ it_hton64(8192) }, 8);
    ck_assert_mem_eq(event.conn.private_data, expected, 24);
    ok(itx_get_rmr_context_for_ep(pair.a.ep, ours.lmr, &context));
    ck_assert_uint_eq(context, ours.context);
    is(IT_ERR_INVALID_PZ, itx_get_rmr_context_for_ep(pair.a.ep, theirs.lmr, &context));
    ok(itx_init_tracing("a name", 3));
    pair_close(&pair);
}
END_TEST

START_TEST(many_at_once)
{
    enum { COUNT = 8 };
    struct pair pair;
    it_ep_handle_t active[COUNT], passive[COUNT];
    it_net_addr_t address;
    it_path_t path;
    it_ep_attributes_t attributes;

    pair_open(&pair, IFACE);
    attributes = node_attributes(&pair.a);
    address = node_address(&pair.b, pair_family(&pair));
    path = path_to(&pair.a, &address);
    for (int i = 0; i < COUNT; i++) {
        unsigned char mark = (unsigned char)i;

        active[i] = node_make_ep(&pair.a, &attributes);
        passive[i] = node_make_ep(&pair.b, &attributes);
        ok(it_ep_connect(active[i], &path, NULL, &pair.b.qualifier, IT_CONNECT_FLAG_TWO_WAY, &mark,
                         1));
    }
    for (int i = 0; i < COUNT; i++) {
        it_event_t event = expect(pair.b.asked, IT_CM_REQ_CONN_REQUEST_EVENT);

        ok(it_ep_accept(passive[i], event.conn_req.cn_est_id, NULL, 0));
    }
    for (int i = 0; i < 2 * COUNT; i++)
        expect(i < COUNT ? pair.a.connections : pair.b.connections,
               IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    for (int i = 0; i < COUNT; i++) {
        ck_assert_int_eq(node_state(active[i]), IT_EP_STATE_CONNECTED);
        ck_assert_int_eq(node_state(passive[i]), IT_EP_STATE_CONNECTED);
    }
    pair_close(&pair);
}
END_TEST

/* --- rejection and failure --- */

START_TEST(rejected_with_private_data)
{
    struct pair pair;
    unsigned char data[16];
    it_event_t event, refused;

    pair_open(&pair, FAMILY_IFACE);
    event = pair_ask(&pair, FAMILY, NULL, 0);
    check_data(&event.cm_any, 0, 0);
    fill(data, sizeof(data), 50);
    ok(it_reject(event.conn_req.cn_est_id, data, sizeof(data)));
    is(IT_ERR_INVALID_CN_EST_ID, it_reject(event.conn_req.cn_est_id, NULL, 0));
    is(IT_ERR_INVALID_CN_EST_ID, it_ep_accept(pair.b.ep, event.conn_req.cn_est_id, NULL, 0));
    refused = expect(pair.a.connections, IT_CM_MSG_CONN_PEER_REJECT_EVENT);
    ck_assert_ptr_eq(refused.conn.ep, pair.a.ep);
    check_data(&refused.cm_any, sizeof(data), 50);
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_NONOPERATIONAL);
    ck_assert_int_eq(node_state(pair.b.ep), IT_EP_STATE_UNCONNECTED);
    ok(it_ep_reset(pair.a.ep));
    pair_connect(&pair, FAMILY);
    pair_close(&pair);
}
END_TEST

START_TEST(nobody_listens)
{
    struct pair pair;
    it_net_addr_t address;
    it_path_t path;
    it_event_t event;

    pair_open(&pair, FAMILY_IFACE);
    address = node_address(&pair.b, FAMILY);
    path = path_to(&pair.a, &address);
    ok(it_listen_free(pair.b.listen));
    ok(it_ep_connect(pair.a.ep, &path, NULL, &pair.b.qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    event = expect(pair.a.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
    ck_assert_int_eq(event.conn.reject_reason_code, IT_CN_REJ_OTHER);
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_NONOPERATIONAL);
    pair_close(&pair);
}
END_TEST

START_TEST(request_not_answered)
{
    struct pair pair;
    it_net_addr_t address;
    it_path_t path;
    it_event_t event, late;
    it_status_t status;

    pair_open(&pair, IFACE);
    address = node_address(&pair.b, pair_family(&pair));
    path = path_to(&pair.a, &address);
    path.timeout = 200000;
    ok(it_ep_connect(pair.a.ep, &path, NULL, &pair.b.qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    event = expect(pair.b.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    late = expect(pair.a.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
    ck_assert_int_eq(late.conn.reject_reason_code, IT_CN_REJ_TIMEOUT);
    /* The answer is too late: refused at once if the withdrawal is known, by event otherwise. */
    status = it_ep_accept(pair.b.ep, event.conn_req.cn_est_id, NULL, 0);
    if (status == IT_SUCCESS)
        expect(pair.b.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
    else
        is(IT_ERR_INVALID_CN_EST_ID, status);
    pair_close(&pair);
}
END_TEST

/* A TCP server that speaks something else. */
enum manners { SILENT, CLOSES, TALKS };

static int plain_listener(it_conn_qual_t *qualifier)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *qualifier = (it_conn_qual_t){ .type = IT_IANA_PORT };
    qualifier->conn_qual.port = address.sin_port;
    return fd;
}

static it_conn_reject_code_t connect_to_stranger(const char *name, enum manners manners)
{
    static const char words[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    struct node node;
    it_conn_qual_t qualifier;
    it_net_addr_t address = { .addr_type = IT_IPV4 };
    it_path_t path;
    it_conn_reject_code_t code;
    int listener, fd;

    node_open(&node, name);
    if (node.info->transport_type != IT_IWARP_TCP_TRANSPORT)
        tc_skip("strangers speak TCP");
    node_endpoint(&node);
    listener = plain_listener(&qualifier);
    address.addr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    path = path_to(&node, &address);
    path.timeout = manners == SILENT ? 300000 : 5000000;
    ok(it_ep_connect(node.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    fd = accept(listener, NULL, NULL);
    if (manners == TALKS)
        ck_assert_int_eq(send(fd, words, sizeof(words), MSG_NOSIGNAL), sizeof(words));
    if (manners == CLOSES) {
        close(fd);
        fd = accept(listener, NULL, NULL); /* the second attempt, with the older revision */
        close(fd);
    }
    code = expect(node.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT).conn.reject_reason_code;
    ck_assert_int_eq(node_state(node.ep), IT_EP_STATE_NONOPERATIONAL);
    node_close(&node);
    close(listener);
    return code;
}

START_TEST(stranger_is_silent)
{
    ck_assert_int_eq(connect_to_stranger(IFACE, SILENT), IT_CN_REJ_TIMEOUT);
}
END_TEST

START_TEST(stranger_talks)
{
    ck_assert_int_eq(connect_to_stranger(IFACE, TALKS), IT_CN_REJ_BAD_CONN_PARMS);
}
END_TEST

START_TEST(stranger_closes)
{
    it_conn_reject_code_t code = connect_to_stranger(IFACE, CLOSES);

    ck_assert_int_ne(code, IT_CN_REJ_TIMEOUT);
}
END_TEST

/* A stranger that connects to us is dropped; others are served. */
START_TEST(stranger_connects)
{
    struct pair pair;
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    char octet;
    int fd;

    pair_open(&pair, IFACE);
    if (pair.a.info->transport_type != IT_IWARP_TCP_TRANSPORT)
        tc_skip("strangers speak TCP");
    address.sin_port = pair.b.qualifier.conn_qual.port;
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(send(fd, "GET / HTTP/1.0\r\n\r\nsome more", 28, MSG_NOSIGNAL), 28);
    ck_assert_int_ne(tc_wait_fd(fd, POLLIN, tc_deadline(PATIENCE)), 0);
    ck_assert_int_le(recv(fd, &octet, 1, 0), 0);
    close(fd);
    pair_connect(&pair, IT_IPV4);
    pair_close(&pair);
}
END_TEST

/* --- the end --- */

START_TEST(disconnect_by_one)
{
    struct pair pair;
    it_event_t event;

    pair_connected(&pair, IFACE);
    ok(it_ep_disconnect(pair.a.ep, (const unsigned char *)"bye", 4));
    event = expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ck_assert_ptr_eq(event.conn.ep, pair.a.ep);
    event = expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ck_assert_ptr_eq(event.conn.ep, pair.b.ep);
    expect_nothing(pair.a.connections);
    expect_nothing(pair.b.connections);
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(pair.a.affiliated, &event));
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(pair.b.affiliated, &event));
    pair_close(&pair);
}
END_TEST

START_TEST(disconnect_by_both)
{
    struct pair pair;

    pair_connected(&pair, IFACE);
    ok(it_ep_disconnect(pair.a.ep, NULL, 0));
    if (it_ep_disconnect(pair.b.ep, NULL, 0) != IT_SUCCESS) /* may have been told already */
        ck_assert_int_eq(node_state(pair.b.ep), IT_EP_STATE_NONOPERATIONAL);
    expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    expect_nothing(pair.a.connections);
    expect_nothing(pair.b.connections);
    pair_close(&pair);
}
END_TEST

START_TEST(disconnect_while_pending)
{
    struct pair pair;
    it_event_t event;

    pair_open(&pair, IFACE);
    event = pair_ask(&pair, pair_family(&pair), NULL, 0);
    ok(it_ep_disconnect(pair.a.ep, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_NONOPERATIONAL);
    ok(it_ep_reset(pair.a.ep));
    it_reject(event.conn_req.cn_est_id, NULL, 0); /* withdrawn or not, it is of no use */
    pair_connect(&pair, pair_family(&pair));
    pair_close(&pair);
}
END_TEST

START_TEST(reset_and_reconnect)
{
    struct pair pair;

    pair_open(&pair, IFACE);
    for (unsigned long round = 0; round < tc_count(20); round++) {
        struct pair *ender = &pair;

        pair_connect(&pair, pair_family(&pair));
        ok(it_ep_disconnect(round % 2 ? ender->a.ep : ender->b.ep, NULL, 0));
        expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
        expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
        ok(it_ep_reset(pair.a.ep));
        ok(it_ep_reset(pair.b.ep));
    }
    pair_close(&pair);
}
END_TEST

/* Freed adapters end their connections in order. */
START_TEST(adapter_freed)
{
    struct pair pair;

    pair_connected(&pair, IFACE);
    node_close(&pair.a);
    expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    node_close(&pair.b);
}
END_TEST

/* In a child: connects to `port`, then stays until it is killed. */
static void __attribute__((noreturn)) victim(const char *name, int from_parent, int to_parent)
{
    struct node node;
    it_conn_qual_t qualifier;
    it_net_addr_t address;
    it_path_t path;

    if (read(from_parent, &qualifier, sizeof(qualifier)) != sizeof(qualifier))
        _exit(1);
    node_open(&node, name);
    node_endpoint(&node);
    address = node_address(&node, IT_IPV4);
    path = path_to(&node, &address);
    ok(it_ep_connect(node.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    expect(node.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    if (write(to_parent, "c", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

START_TEST(peer_is_killed)
{
    struct node node;
    it_event_t event;
    int down[2], up[2];
    char octet;
    pid_t child;

    ck_assert_int_eq(pipe(down), 0);
    ck_assert_int_eq(pipe(up), 0);
    child = fork();
    if (child == 0)
        victim(IFACE, down[0], up[1]);
    node_open(&node, IFACE);
    node_endpoint(&node);
    node_listen(&node);
    node_address(&node, IT_IPV4);
    ck_assert_int_eq(write(down[1], &node.qualifier, sizeof(node.qualifier)),
                     sizeof(node.qualifier));
    event = expect(node.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    ok(it_ep_accept(node.ep, event.conn_req.cn_est_id, NULL, 0));
    expect(node.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    ck_assert_int_eq(tc_wait_fd(up[0], POLLIN, tc_deadline(PATIENCE)), POLLIN);
    ck_assert_int_eq(read(up[0], &octet, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    event = next(node.connections);
    ck_assert(event.event_number == IT_CM_MSG_CONN_DISCONNECT_EVENT ||
              event.event_number == IT_CM_MSG_CONN_BROKEN_EVENT);
    ck_assert_ptr_eq(event.conn.ep, node.ep);
    ck_assert_int_eq(node_state(node.ep), IT_EP_STATE_NONOPERATIONAL);
    expect_nothing(node.connections);
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(node.affiliated, &event));
    node_close(&node);
}
END_TEST

/* --- what was sent before the end --- */

#define PARTING        32u /* messages that a process sends just before it leaves */
#define PARTING_OCTETS 65536u

/* Connects, sends, sees all its Sends complete, closes the adapter with everything on it, and is gone. */
static void part(const char *name, int fd)
{
    struct node node;
    it_conn_qual_t qualifier;
    it_net_addr_t address;
    struct buffer buffer;
    it_lmr_triplet_t one;
    it_path_t path;

    node_open(&node, name);
    node_endpoint(&node);
    buffer = buffer_make(&node, PARTING_OCTETS, IT_PRIV_LOCAL);
    one = segment(&buffer, 0, PARTING_OCTETS);
    if (!hear(fd, &qualifier, sizeof(qualifier)))
        _exit(1);
    address = node_address(&node, IT_IPV4);
    path = path_to(&node, &address);
    ok(it_ep_connect(node.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    expect(node.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    for (unsigned int i = 0; i < PARTING; i++)
        ok(it_post_send(node.ep, &one, 1, i, BOTH));
    for (unsigned int i = 0; i < PARTING; i++)
        expect_done(node.requests, IT_DTO_SEND_CMPL_EVENT, i, IT_DTO_SUCCESS);
    ok(it_ia_free(node.ia));
}

/* The receiver looks only when the sender's process has ended. */
START_TEST(completed_sends_arrive_after_exit)
{
    struct peer peer = peer_start(IFACE, part);
    it_lmr_triplet_t one;
    struct buffer buffer;
    struct node node;
    it_event_t event;

    node_open(&node, IFACE);
    node_endpoint(&node);
    node_listen(&node);
    buffer = buffer_make(&node, PARTING_OCTETS, IT_PRIV_LOCAL);
    one = segment(&buffer, 0, PARTING_OCTETS);
    for (unsigned int i = 0; i < PARTING; i++)
        ok(it_post_recv(node.ep, &one, 1, i, BOTH));
    peer_tell(&peer, &node.qualifier, sizeof(node.qualifier));
    event = expect(node.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    ok(it_ep_accept(node.ep, event.conn_req.cn_est_id, NULL, 0));
    peer_end(&peer);
    expect(node.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    for (unsigned int i = 0; i < PARTING; i++)
        ck_assert_uint_eq(expect_done(node.receives, IT_DTO_RC_RECV_CMPL_EVENT, i, IT_DTO_SUCCESS)
                              .transferred_length,
                          PARTING_OCTETS);
    expect(node.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    buffer_free(&buffer);
    node_close(&node);
}
END_TEST

/* --- wrong arguments --- */

START_TEST(connect_errors)
{
    struct pair pair;
    unsigned char data[IT_MAX_PRIV_DATA + 1] = { 0 };
    it_net_addr_t address;
    it_path_t good, bad;
    it_conn_qual_t qualifier, wrong;
    size_t limit;

    pair_open(&pair, IFACE);
    address = node_address(&pair.b, IT_IPV4);
    good = path_to(&pair.a, &address);
    qualifier = pair.b.qualifier;
    limit = pair.a.info->connect_private_data_len;
#define CONNECT(code, path, qual, flags, pd, length)                                              \
    is(code, it_ep_connect(pair.a.ep, path, NULL, qual, (it_cn_est_flags_t)(flags), pd, length)); \
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_UNCONNECTED)
    CONNECT(IT_ERR_INVALID_CN_EST_FLAGS, &good, &qualifier, 0, NULL, 0);
    CONNECT(IT_ERR_INVALID_CN_EST_FLAGS, &good, &qualifier, 3, NULL, 0);
    CONNECT(IT_ERR_INVALID_CN_EST_FLAGS, &good, &qualifier, 4, NULL, 0);
    CONNECT(IT_ERR_INVALID_CN_EST_FLAGS, &good, &qualifier, 9, NULL, 0);
    if (!pair.a.info->three_way_handshake_support)
        CONNECT(IT_ERR_INVALID_CN_EST_FLAGS, &good, &qualifier, IT_CONNECT_FLAG_THREE_WAY, NULL, 0);
    CONNECT(IT_ERR_INVALID_PDATA_LENGTH, &good, &qualifier, 1, data, limit + 1);
    CONNECT(IT_ERR_INVALID_PDATA_LENGTH, &good, &qualifier, 1, data, SIZE_MAX);
    CONNECT(IT_ERR_FAULT, &good, &qualifier, 1, NULL, 1);
    CONNECT(IT_ERR_FAULT, NULL, &qualifier, 1, NULL, 0);
    CONNECT(IT_ERR_FAULT, &good, NULL, 1, NULL, 0);
    wrong = qualifier;
    wrong.type = IT_VIA_DISCRIMINATOR;
    CONNECT(IT_ERR_INVALID_CONN_QUAL, &good, &wrong, 1, NULL, 0);
    wrong.type = (it_conn_qual_type_t)(IT_IANA_PORT | IT_IANA_LR_PORT);
    CONNECT(IT_ERR_INVALID_CONN_QUAL, &good, &wrong, 1, NULL, 0);
    wrong = qualifier;
    wrong.conn_qual.port = 0;
    CONNECT(IT_ERR_INVALID_CONN_QUAL, &good, &wrong, 1, NULL, 0);
    bad = good;
    bad.spigot_id = 4711;
    CONNECT(IT_ERR_INVALID_SPIGOT, &bad, &qualifier, 1, NULL, 0);
    if (pair.a.info->transport_type == IT_IWARP_TCP_TRANSPORT) {
        bad = good;
        bad.u.iwarp.ip_vers = (it_ip_vers_t)7;
        CONNECT(IT_ERR_INVALID_NETADDR, &bad, &qualifier, 1, NULL, 0);
        bad = good;
        bad.u.iwarp.raddr.ipv4.s_addr = htonl(INADDR_ANY);
        CONNECT(IT_ERR_INVALID_NETADDR, &bad, &qualifier, 1, NULL, 0);
        bad = good;
        inet_pton(AF_INET, "192.0.2.1", &bad.u.iwarp.laddr.ipv4); /* not an address of this host */
        CONNECT(IT_ERR_INVALID_SOURCE_PATH, &bad, &qualifier, 1, NULL, 0);
    }
    pair_connect(&pair, IT_IPV4); /* the EP is as good as before */
    pair_close(&pair);
}
END_TEST

START_TEST(answer_errors)
{
    struct pair pair;
    struct node stranger;
    unsigned char data[IT_MAX_PRIV_DATA + 1] = { 0 };
    it_cn_est_identifier_t id;

    pair_open(&pair, IFACE);
    node_open(&stranger, IFACE);
    node_endpoint(&stranger);
    id = pair_ask(&pair, pair_family(&pair), NULL, 0).conn_req.cn_est_id;
    is(IT_ERR_INVALID_CN_EST_ID, it_ep_accept(pair.b.ep, 0, NULL, 0));
    is(IT_ERR_INVALID_CN_EST_ID, it_ep_accept(pair.b.ep, id + 1, NULL, 0));
    is(IT_ERR_INVALID_CN_EST_ID, it_ep_accept(stranger.ep, id, NULL, 0)); /* another adapter's EP */
    is(IT_ERR_INVALID_EP, it_ep_accept((it_ep_handle_t)pair.b.pz, id, NULL, 0));
    is(IT_ERR_INVALID_PDATA_LENGTH, it_ep_accept(pair.b.ep, id, data, sizeof(data)));
    is(IT_ERR_FAULT, it_ep_accept(pair.b.ep, id, NULL, 5));
    is(IT_ERR_INVALID_CN_EST_ID, it_reject(UINT64_MAX, NULL, 0));
    is(IT_ERR_INVALID_PDATA_LENGTH, it_reject(id, data, sizeof(data)));
    is(IT_ERR_FAULT, it_reject(id, NULL, 5));
    is(IT_ERR_INVALID_CN_EST_ID, it_handoff(&pair.b.qualifier, 0, id + 1));
    ok(it_ep_accept(pair.b.ep, id, NULL, 0)); /* all that used it up not */
    is(IT_ERR_INVALID_CN_EST_ID, it_ep_accept(pair.b.ep, id, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    is(IT_ERR_INVALID_PDATA_LENGTH, it_ep_disconnect(pair.a.ep, data, sizeof(data)));
    is(IT_ERR_FAULT, it_ep_disconnect(pair.a.ep, NULL, 1));
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_CONNECTED);
    node_close(&stranger);
    pair_close(&pair);
}
END_TEST

START_TEST(accept_on_a_used_endpoint)
{
    struct pair pair;
    it_ep_handle_t first;
    it_cn_est_identifier_t id;

    pair_connected(&pair, IFACE);
    first = pair.a.ep;
    node_endpoint(&pair.a);
    id = pair_ask(&pair, pair_family(&pair), NULL, 0).conn_req.cn_est_id;
    is(IT_ERR_INVALID_EP_STATE, it_ep_accept(pair.b.ep, id, NULL, 0));
    node_endpoint(&pair.b);
    ok(it_ep_accept(pair.b.ep, id, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    ok(it_ep_free(first));
    pair_close(&pair);
}
END_TEST

/* --- listen points --- */

START_TEST(listen_errors)
{
    struct node node, other;
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT }, wrong = { .type = IT_VIA_DISCRIMINATOR };
    it_listen_handle_t listen = NULL;

    node_open(&node, IFACE);
    node_open(&other, IFACE);
#define LISTEN(code, ia, spigot, evd, flags, qual) \
    is(code, it_listen_create(ia, spigot, evd, (it_listen_flags_t)(flags), qual, &listen))
    LISTEN(IT_ERR_INVALID_IA, NULL, 0, node.asked, 0, &qualifier);
    LISTEN(IT_ERR_INVALID_SPIGOT, node.ia, 99, node.asked, 0, &qualifier);
    LISTEN(IT_ERR_INVALID_CONN_EVD, node.ia, 0, NULL, 0, &qualifier);
    LISTEN(IT_ERR_INVALID_CONN_EVD, node.ia, 0, other.asked, 0, &qualifier);
    LISTEN(IT_ERR_INVALID_EVD_TYPE, node.ia, 0, node.connections, 0, &qualifier);
    LISTEN(IT_ERR_INVALID_FLAGS, node.ia, 0, node.asked, 4, &qualifier);
    LISTEN(IT_ERR_INVALID_CONN_QUAL, node.ia, 0, node.asked, 0, &wrong);
    LISTEN(IT_ERR_FAULT, node.ia, 0, node.asked, 0, NULL);
    is(IT_ERR_FAULT, it_listen_create(node.ia, 0, node.asked, IT_LISTEN_NO_FLAG, &qualifier, NULL));
    ck_assert_ptr_null(listen);
    ck_assert_uint_eq(qualifier.conn_qual.port, 0);
    node_close(&node);
    node_close(&other);
}
END_TEST

START_TEST(listen_life)
{
    struct node node;
    it_listen_param_t params;
    it_listen_handle_t second;
    it_conn_qual_t same;

    node_open(&node, IFACE);
    node_listen(&node);
    ok(it_listen_query(node.listen, IT_LISTEN_PARAM_ALL, &params));
    ck_assert_ptr_eq(params.ia_handle, node.ia);
    ck_assert_uint_eq(params.spigot_id, 0);
    ck_assert_ptr_eq(params.connect_evd, node.asked);
    ck_assert_int_eq(params.connect_qual.type, IT_IANA_PORT);
    ck_assert_uint_eq(params.connect_qual.conn_qual.port, node.qualifier.conn_qual.port);
    is(IT_ERR_INVALID_MASK, it_listen_query(node.listen, (it_listen_param_mask_t)0, &params));
    is(IT_ERR_INVALID_MASK, it_listen_query(node.listen, (it_listen_param_mask_t)0x20, &params));
    is(IT_ERR_FAULT, it_listen_query(node.listen, IT_LISTEN_PARAM_ALL, NULL));
    same = node.qualifier;
    is(IT_ERR_CONN_QUAL_BUSY,
       it_listen_create(node.ia, 0, node.asked, IT_LISTEN_CONN_QUAL_INPUT, &same, &second));
    ok(it_listen_free(node.listen));
    is(IT_ERR_INVALID_LISTEN, it_listen_free(node.listen));
    ok(it_listen_create(node.ia, 0, node.asked, IT_LISTEN_CONN_QUAL_INPUT, &same, &second));
    ck_assert_uint_eq(same.conn_qual.port, node.qualifier.conn_qual.port);
    node_close(&node);
}
END_TEST

/* A request that was reported can be answered after its listen point is gone. */
START_TEST(request_outlives_listen)
{
    struct pair pair;
    it_event_t event;

    pair_open(&pair, IFACE);
    event = pair_ask(&pair, pair_family(&pair), NULL, 0);
    ok(it_listen_free(pair.b.listen));
    ok(it_ep_accept(pair.b.ep, event.conn_req.cn_est_id, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    pair_close(&pair);
}
END_TEST

/* Requests that find the SEVD full are dropped; who asked is told, later ones are served. */
START_TEST(too_many_requests)
{
    enum { COUNT = 4 };
    struct pair pair;
    it_net_addr_t address;
    it_path_t path;
    it_ep_attributes_t attributes;
    it_evd_handle_t one;
    it_event_t event;
    int established = 0;

    pair_open(&pair, IFACE);
    ok(it_listen_free(pair.b.listen));
    ok(it_evd_create(pair.b.ia, IT_CM_REQ_EVENT_STREAM, (it_evd_flags_t)0, 1, 0, NULL, &one, NULL));
    pair.b.qualifier.conn_qual.port = 0;
    ok(it_listen_create(pair.b.ia, 0, one, IT_LISTEN_NO_FLAG, &pair.b.qualifier, &pair.b.listen));
    attributes = node_attributes(&pair.a);
    address = node_address(&pair.b, pair_family(&pair));
    path = path_to(&pair.a, &address);
    path.timeout = 500000;
    for (int i = 0; i < COUNT; i++)
        ok(it_ep_connect(node_make_ep(&pair.a, &attributes), &path, NULL, &pair.b.qualifier,
                         IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    event = expect(one, IT_CM_REQ_CONN_REQUEST_EVENT);
    ok(it_ep_accept(pair.b.ep, event.conn_req.cn_est_id, NULL, 0));
    for (int i = 0; i < COUNT; i++) { /* each attempt has exactly one outcome */
        event = next(pair.a.connections);
        if (event.event_number == IT_CM_MSG_CONN_ESTABLISHED_EVENT)
            established++;
        else
            ck_assert_int_eq(event.event_number, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
    }
    ck_assert_int_eq(established, 1);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_connect");
    TCase *up = tcase_create("up"), *refused = tcase_create("refused"),
          *down = tcase_create("down");
    TCase *wrong = tcase_create("errors"), *points = tcase_create("listen");

    add_each_family(up, connect_with_private_data);
    add_each(up, read_depths_are_agreed);
    add_each(up, read_depths_suppressed);
    add_each(up, both_ports_given);
    add_each(up, connect_with_regions);
    add_each(up, many_at_once);
    suite_add_tcase(suite, up);
    add_each_family(refused, rejected_with_private_data);
    add_each_family(refused, nobody_listens);
    add_each(refused, request_not_answered);
    add_each(refused, stranger_is_silent);
    add_each(refused, stranger_talks);
    add_each(refused, stranger_closes);
    add_each(refused, stranger_connects);
    suite_add_tcase(suite, refused);
    add_each(down, disconnect_by_one);
    add_each(down, disconnect_by_both);
    add_each(down, disconnect_while_pending);
    add_each(down, reset_and_reconnect);
    add_each(down, adapter_freed);
    add_each(down, peer_is_killed);
    add_each(down, completed_sends_arrive_after_exit);
    suite_add_tcase(suite, down);
    add_each(wrong, connect_errors);
    add_each(wrong, answer_errors);
    add_each(wrong, accept_on_a_used_endpoint);
    suite_add_tcase(suite, wrong);
    add_each(points, listen_errors);
    add_each(points, listen_life);
    add_each(points, request_outlives_listen);
    add_each(points, too_many_requests);
    suite_add_tcase(suite, points);
    return tc_main(suite);
}
