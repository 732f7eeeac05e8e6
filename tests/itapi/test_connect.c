/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: both families, private data, depths, rejection, time-outs, peers that speak no
 * iWARP. */
#include "opened.h"
#include "process.h"
#include "sockets.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

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
}
END_TEST

START_TEST(read_depths_are_agreed)
{
    it_ep_attributes_t attributes;
    it_ep_param_t params;

    pair_open(&pair, IFACE);
    ck_assert(pair.a.info->ird_ord_ia_support);
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
    ck_assert_uint_le(pair.established.conn.rdma_read_ord, 2); /* no more than b serves */
    ck_assert_uint_ge(pair.established.conn.rdma_read_ord, 1);
    params = node_query(pair.b.ep);
    ck_assert_uint_le(params.attr.srv.rc.rdma_read_ord, 3);
}
END_TEST

START_TEST(read_depths_suppressed)
{
    it_net_addr_t address;
    it_path_t path;
    unsigned char data[4];
    it_event_t event;

    pair_open(&pair, IFACE);
    ck_assert(pair.a.info->ird_ord_suppressible);
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
}
END_TEST

START_TEST(both_ports_given)
{
    it_conn_qual_t qualifier = { .type = IT_IANA_LR_PORT };
    it_net_addr_t address;
    it_path_t path;
    it_event_t event;
    it_listen_param_t params;
    it_listen_handle_t listen;

    pair_open(&pair, IFACE);
    ck_assert(pair.a.info->spigot_info[0].active_side_conn_qual & IT_IANA_LR_PORT);
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
}
END_TEST

/* What SKV does: a Path with only the peer's address, regions named in private data. */
/* A loopback port without a listener, network order. */
static uint16_t free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    close(fd);
    return address.sin_port;
}

/* Connects to the port on which b listened last. */
static it_status_t connect_from(struct pair *both, uint16_t port)
{
    it_conn_qual_t qualifier = { .type = IT_IANA_LR_PORT };
    it_net_addr_t address = node_address(&both->b, IT_IPV4);
    it_path_t path = path_to(&both->a, &address);

    qualifier.conn_qual.lr_port.local = port;
    qualifier.conn_qual.lr_port.remote = both->b.qualifier.conn_qual.port;
    return it_ep_connect(both->a.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0);
}

static void live_and_end(struct pair *both)
{
    it_event_t asked = expect(both->b.asked, IT_CM_REQ_CONN_REQUEST_EVENT);

    ck_assert_int_eq(asked.conn_req.conn_qual.type, IT_IANA_PORT);
    ok(it_ep_accept(both->b.ep, asked.conn_req.cn_est_id, NULL, 0));
    expect(both->a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    expect(both->b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    ok(it_ep_disconnect(both->a.ep, NULL, 0));
    expect(both->a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    expect(both->b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ok(it_ep_reset(both->b.ep));
}

/* True if a socket without SO_REUSEADDR cannot bind the port. */
static bool port_rests(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = port };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool taken = bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 && errno == EADDRINUSE;

    close(fd);
    return taken;
}

/* An earlier connection leaves the local port in TIME_WAIT. The EP that reconnects gets
 * IT_EP_REUSEADDR, and so does another EP with the flag. */
START_TEST(local_port_that_rests)
{
    it_ep_attributes_t attributes;
    uint16_t port;

    pair_open(&pair, IFACE);
    do {
        port = free_port();
    } while (connect_from(&pair, port) == IT_ERR_CONN_QUAL_BUSY); /* another took the port */
    live_and_end(&pair);
    ck_assert(port_rests(port));
    ok(it_ep_reset(pair.a.ep));
    node_listen(&pair.b); /* another port: TCP keeps both connections apart */
    ok(connect_from(&pair, port));
    live_and_end(&pair);
    ok(it_ep_free(pair.a.ep));
    attributes = node_attributes(&pair.a);
    ok(it_ep_rc_create(pair.a.pz, pair.a.requests, pair.a.receives, pair.a.connections,
                       IT_EP_REUSEADDR, &attributes, &pair.a.ep));
    ck_assert(port_rests(port));
    node_listen(&pair.b);
    ok(connect_from(&pair, port));
    live_and_end(&pair);
}
END_TEST

START_TEST(connect_with_regions)
{
    struct buffer ours, theirs;
    it_net_addr_t address;
    it_path_t path;
    it_lmr_triplet_t ours_whole, theirs_whole;
    it_rmr_context_t context = 0;
    it_event_t event;
    unsigned char expected[32], data[12];

    pair_open(&pair, IFACE);
    ck_assert(pair.a.info->transport_type == IT_IWARP_TCP_TRANSPORT);
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
}
END_TEST

START_TEST(many_at_once)
{
    enum { COUNT = 8 };
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
}
END_TEST

/* --- rejection and failure --- */

START_TEST(rejected_with_private_data)
{
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
}
END_TEST

START_TEST(nobody_listens)
{
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
}
END_TEST

START_TEST(request_not_answered)
{
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
    /* The answer is too late: refused at once if the withdrawal is known, else reported by
     * event. */
    status = it_ep_accept(pair.b.ep, event.conn_req.cn_est_id, NULL, 0);
    if (status == IT_SUCCESS)
        expect(pair.b.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
    else
        is(IT_ERR_INVALID_CN_EST_ID, status);
}
END_TEST

/* A TCP server that speaks another protocol. */
enum manners { SILENT, CLOSES, TALKS };

static int plain_listener(const it_net_addr_t *where, it_conn_qual_t *qualifier)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = where->addr.ipv4 };
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *qualifier = (it_conn_qual_t){ .type = IT_IANA_PORT };
    qualifier->conn_qual.port = address.sin_port;
    return fd;
}

/* Closes each incoming connection until the attempt has failed: an initiator may try again with the
 * older revision. */
static it_event_t close_until_told(const struct node *own, int listener)
{
    uint64_t deadline = tc_deadline(PATIENCE);
    it_event_t event;
    it_status_t status;

    do {
        if (tc_wait_fd(listener, POLLIN, tc_deadline(10)) == POLLIN)
            close(accept(listener, NULL, NULL));
        status = it_evd_dequeue(own->connections, &event);
    } while (status == IT_ERR_QUEUE_EMPTY && !tc_expired(deadline));
    ok(status);
    return event;
}

static it_conn_reject_code_t connect_to_stranger(const char *name, enum manners manners)
{
    static const char words[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    struct node own;
    it_conn_qual_t qualifier;
    it_net_addr_t address;
    it_path_t path;
    it_event_t event;
    int listener, fd;

    node_open(&own, name);
    ck_assert(own.info->transport_type == IT_IWARP_TCP_TRANSPORT);
    node_endpoint(&own);
    address = node_address(&own, IT_IPV4);
    listener = plain_listener(&address, &qualifier);
    path = path_to(&own, &address);
    path.timeout = manners == SILENT ? 300000 : 5000000;
    ok(it_ep_connect(own.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    fd = accept(listener, NULL, NULL);
    if (manners == TALKS)
        ck_assert_int_eq(send(fd, words, sizeof(words), MSG_NOSIGNAL), sizeof(words));
    if (manners == CLOSES)
        close(fd);
    event = manners == CLOSES ? close_until_told(&own, listener) : next(own.connections);
    ck_assert_int_eq(event.event_number, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
    ck_assert_int_eq(node_state(own.ep), IT_EP_STATE_NONOPERATIONAL);
    node_close(&own);
    close(listener);
    return event.conn.reject_reason_code;
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

/* A connection that does not speak MPA is dropped; others are served. */
START_TEST(stranger_connects)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    int fd;

    pair_open(&pair, IFACE);
    ck_assert(pair.a.info->transport_type == IT_IWARP_TCP_TRANSPORT);
    address.sin_addr = node_address(&pair.b, IT_IPV4).addr.ipv4;
    address.sin_port = pair.b.qualifier.conn_qual.port;
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    speak_no_mpa(fd);
    close(fd);
    pair_connect(&pair, IT_IPV4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_connect");
    TCase *up = tc_case(suite, "up", NULL, fx_close);
    TCase *refused = tc_case(suite, "refused", NULL, fx_close);

    add_each_family(up, connect_with_private_data);
    add_where(up, FX_READ_DEPTHS, read_depths_are_agreed);
    add_where(up, FX_DEPTHS_SUPPRESSED, read_depths_suppressed);
    add_where(up, FX_PORT_PAIRS, both_ports_given);
    add_where(up, FX_SOFTRDMA, local_port_that_rests);
    add_where(up, FX_IWARP, connect_with_regions);
    add_each(up, many_at_once);
    add_each_family(refused, rejected_with_private_data);
    add_each_family(refused, nobody_listens);
    add_each(refused, request_not_answered);
    add_where(refused, FX_TCP, stranger_is_silent, stranger_talks, stranger_closes,
              stranger_connects);
    return tc_main(suite);
}
