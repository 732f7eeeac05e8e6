/* SPDX-License-Identifier: BSD-3-Clause */
/* Listen points, and the refusals of connecting and answering. */
#include "opened.h"
#include "process.h"
#include "sockets.h"

#include <arpa/inet.h>
#include <sys/socket.h>

/* --- wrong arguments --- */

START_TEST(connect_errors)
{
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
    pair_connect(&pair, IT_IPV4); /* the EP can still be used */
}
END_TEST

START_TEST(answer_errors)
{
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
    ok(it_ep_accept(pair.b.ep, id, NULL, 0)); /* no failed call consumed the request */
    is(IT_ERR_INVALID_CN_EST_ID, it_ep_accept(pair.b.ep, id, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    is(IT_ERR_INVALID_PDATA_LENGTH, it_ep_disconnect(pair.a.ep, data, sizeof(data)));
    is(IT_ERR_FAULT, it_ep_disconnect(pair.a.ep, NULL, 1));
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_CONNECTED);
    node_close(&stranger);
}
END_TEST

START_TEST(accept_on_a_used_endpoint)
{
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
}
END_TEST

/* --- listen points --- */

START_TEST(listen_errors)
{
    struct node other;
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
}
END_TEST

/*
 * At one address: one that connects to it is heard, one that connects to another address of the
 * same host is refused. The first does not leave before the listener has taken its connection:
 * Linux's siw gives its listener up when the peer of a connection in its queue is gone.
 */
START_TEST(listen_at_an_address)
{
    static const char *const reached[] = { "127.0.0.1", "127.0.0.2" };
    struct sockaddr_in to = { .sin_family = AF_INET };
    it_net_addr_t address = { .addr_type = IT_IPV4 }, strange = { .addr_type = IT_VIA_HOSTADDR };
    it_listen_handle_t listen;
    int client;

    node_open(&node, IFACE);
    node.qualifier.type = IT_IANA_PORT;
    is(IT_ERR_FAULT, itx_listen_create(node.ia, 0, node.asked, IT_LISTEN_NO_FLAG, NULL,
                                       &node.qualifier, &listen));
    is(IT_ERR_INVALID_NETADDR, itx_listen_create(node.ia, 0, node.asked, IT_LISTEN_NO_FLAG,
                                                 &strange, &node.qualifier, &listen));
    address.addr.ipv4.s_addr = htonl(0xC0000263); /* 192.0.2.99: unassigned, RFC 5737 */
    is(IT_ERR_INVALID_NETADDR, itx_listen_create(node.ia, 0, node.asked, IT_LISTEN_NO_FLAG,
                                                 &address, &node.qualifier, &listen));
    address.addr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    ok(itx_listen_create(node.ia, 0, node.asked, IT_LISTEN_NO_FLAG, &address, &node.qualifier,
                         &listen));
    ck_assert_uint_ne(node.qualifier.conn_qual.port, 0);
    to.sin_port = node.qualifier.conn_qual.port;
    for (int i = 0; i < 2; i++) {
        client = socket(AF_INET, SOCK_STREAM, 0);
        ck_assert_int_eq(inet_pton(AF_INET, reached[i], &to.sin_addr), 1);
        ck_assert_int_eq(connect(client, (struct sockaddr *)&to, sizeof(to)), i ? -1 : 0);
        ck_assert(!i || errno == ECONNREFUSED);
        if (!i)
            speak_no_mpa(client);
        close(client);
    }
    ok(it_listen_free(listen));
}
END_TEST

/* A request that was reported can be answered after its listen point is gone. */
START_TEST(request_outlives_listen)
{
    it_event_t event;

    pair_open(&pair, IFACE);
    event = pair_ask(&pair, pair_family(&pair), NULL, 0);
    ok(it_listen_free(pair.b.listen));
    ok(it_ep_accept(pair.b.ep, event.conn_req.cn_est_id, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
}
END_TEST

/* Requests that find the SEVD full wait until it is dequeued: none is lost, no overflow. */
START_TEST(too_many_requests)
{
    enum { COUNT = 4 };
    it_net_addr_t address;
    it_path_t path;
    it_ep_attributes_t attributes;
    it_evd_handle_t one;
    it_evd_param_t params;
    it_event_t event;

    pair_open(&pair, IFACE);
    ok(it_listen_free(pair.b.listen));
    ok(it_evd_create(pair.b.ia, IT_CM_REQ_EVENT_STREAM, (it_evd_flags_t)0, 1, 0, NULL, &one, NULL));
    pair.b.qualifier.conn_qual.port = 0;
    ok(it_listen_create(pair.b.ia, 0, one, IT_LISTEN_NO_FLAG, &pair.b.qualifier, &pair.b.listen));
    attributes = node_attributes(&pair.a);
    address = node_address(&pair.b, pair_family(&pair));
    path = path_to(&pair.a, &address);
    for (int i = 0; i < COUNT; i++)
        ok(it_ep_connect(node_make_ep(&pair.a, &attributes), &path, NULL, &pair.b.qualifier,
                         IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    for (int i = 0; i < COUNT; i++) {
        event = expect(one, IT_CM_REQ_CONN_REQUEST_EVENT);
        ok(it_ep_accept(node_make_ep(&pair.b, &attributes), event.conn_req.cn_est_id, NULL, 0));
        expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    }
    ok(it_evd_query(one, IT_EVD_PARAM_OVERFLOWED, &params));
    ck_assert_int_eq(params.evd_overflowed, IT_FALSE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_listen");
    TCase *wrong = tc_case(suite, "errors", NULL, fx_close);
    TCase *points = tc_case(suite, "listen", NULL, fx_close);

    add_each(wrong, connect_errors, answer_errors, accept_on_a_used_endpoint);
    add_each(points, listen_errors, listen_life, listen_at_an_address, request_outlives_listen,
             too_many_requests);
    return tc_main(suite);
}
