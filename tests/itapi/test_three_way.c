/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections in three legs: the active side sees the peer's acceptance and answers it. InfiniBand
 * alone has them.
 */
#include "opened.h"

/* The active side's attempt, up to the request at b. */
static it_event_t ask(struct pair *ends, const char *data)
{
    it_net_addr_t address = node_address(&ends->b, pair_family(ends));
    it_path_t path = path_to(&ends->a, &address);
    it_conn_qual_t qualifier = towards(&ends->b.qualifier);

    ok(it_ep_connect(ends->a.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_THREE_WAY,
                     (const unsigned char *)data, strlen(data)));
    return expect(ends->b.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
}

/* ... and the peer's acceptance, with these data, at a. Returns its identifier. */
static it_cn_est_identifier_t arrive(struct pair *ends, const char *name, const char *data)
{
    it_event_t asked, arrived;

    pair_open(ends, name);
    asked = ask(ends, "may I");
    ck_assert_mem_eq(asked.conn_req.private_data, "may I", 5);
    ok(it_ep_accept(ends->b.ep, asked.conn_req.cn_est_id, (const unsigned char *)data,
                    strlen(data)));
    arrived = expect(ends->a.connections, IT_CM_MSG_CONN_ACCEPT_ARRIVAL_EVENT);
    ck_assert_ptr_eq(arrived.conn.ep, ends->a.ep);
    ck_assert_int_eq(arrived.conn.private_data_present, IT_TRUE);
    ck_assert_mem_eq(arrived.conn.private_data, data, strlen(data));
    ck_assert_int_eq(node_state(ends->a.ep), IT_EP_STATE_ACTIVE2_CONNECTION_PENDING);
    return arrived.conn.cn_est_id;
}

static void post_receive(it_ep_handle_t ep, it_dto_cookie_t cookie)
{
    ok(it_post_recv(ep, NULL, 0, cookie, BOTH));
}

/* An empty Send arrives. */
static void send_to(struct node *from, struct node *to, it_dto_cookie_t cookie)
{
    ok(it_post_send(from->ep, NULL, 0, cookie, BOTH));
    expect_done(from->requests, IT_DTO_SEND_CMPL_EVENT, cookie, IT_DTO_SUCCESS);
    expect_done(to->receives, IT_DTO_RC_RECV_CMPL_EVENT, cookie, IT_DTO_SUCCESS);
}

static void expect_used(struct pair *ends, it_cn_est_identifier_t id)
{
    is(IT_ERR_INVALID_CN_EST_ID, it_ep_accept(ends->a.ep, id, NULL, 0));
    is(IT_ERR_INVALID_CN_EST_ID, it_reject(id, NULL, 0));
}

/* The endpoint is as new after the end. */
static void expect_usable(struct pair *ends)
{
    struct node *nodes[] = { &ends->a, &ends->b };

    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(node_state(nodes[i]->ep), IT_EP_STATE_NONOPERATIONAL);
        ok(it_ep_reset(nodes[i]->ep));
    }
    pair_connect(ends, pair_family(ends));
    pair_close(ends);
}

START_TEST(confirmed)
{
    it_cn_est_identifier_t id = arrive(&pair, IFACE, "you may");

    ck_assert_int_eq(node_state(pair.b.ep), IT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    is(IT_ERR_INVALID_EP_STATE, it_post_send(pair.a.ep, NULL, 0, 1, BOTH));
    is(IT_ERR_CANNOT_RESET, it_ep_reset(pair.a.ep));
    is(IT_ERR_INVALID_CN_EST_ID, it_ep_accept(pair.b.ep, id, NULL, 0)); /* it is a's */
    is(IT_ERR_INVALID_CN_EST_ID, it_handoff(&pair.b.qualifier, 0, id));
    expect_nothing(pair.a.connections); /* without the third leg nobody is connected */
    expect_nothing(pair.b.connections);
    post_receive(pair.a.ep, 2);
    post_receive(pair.b.ep, 1);
    ok(it_ep_accept(pair.a.ep, id, NULL, 0));
    ck_assert_ptr_eq(expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT).conn.ep,
                     pair.a.ep);
    ck_assert_ptr_eq(expect(pair.b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT).conn.ep,
                     pair.b.ep);
    expect_used(&pair, id);
    send_to(&pair.a, &pair.b, 1);
    send_to(&pair.b, &pair.a, 2);
}
END_TEST

/* The rejecting side gets no event. */
START_TEST(rejected)
{
    it_cn_est_identifier_t id = arrive(&pair, IFACE, "you may");
    it_event_t event;

    post_receive(pair.a.ep, 1);
    ok(it_reject(id, (const unsigned char *)"no more", 7));
    event = expect(pair.b.connections, IT_CM_MSG_CONN_PEER_REJECT_EVENT);
    ck_assert_ptr_eq(event.conn.ep, pair.b.ep);
    ck_assert_int_eq(event.conn.private_data_present, IT_TRUE);
    ck_assert_mem_eq(event.conn.private_data, "no more", 7);
    expect_done(pair.a.receives, IT_DTO_RC_RECV_CMPL_EVENT, 1, IT_DTO_ERR_FLUSHED);
    expect_used(&pair, id);
    expect_nothing(pair.a.connections);
    expect_usable(&pair);
}
END_TEST

START_TEST(abandoned_by_the_active_side)
{
    it_cn_est_identifier_t id = arrive(&pair, IFACE, "you may");

    ok(it_ep_disconnect(pair.a.ep, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_PEER_REJECT_EVENT); /* InfiniBand's REJ */
    expect_used(&pair, id);
    expect_usable(&pair);
}
END_TEST

/* It accepted, so what comes from it afterwards is no rejection. */
START_TEST(abandoned_by_the_passive_side)
{
    it_cn_est_identifier_t id = arrive(&pair, IFACE, "you may");

    post_receive(pair.a.ep, 1);
    ok(it_ep_disconnect(pair.b.ep, NULL, 0));
    expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    expect(pair.a.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
    expect_done(pair.a.receives, IT_DTO_RC_RECV_CMPL_EVENT, 1, IT_DTO_ERR_FLUSHED);
    expect_used(&pair, id);
    expect_usable(&pair);
}
END_TEST

START_TEST(freed_undecided)
{
    it_cn_est_identifier_t id = arrive(&pair, IFACE, "you may");

    ok(it_ep_free(pair.a.ep));
    pair.a.ep = NULL;
    is(IT_ERR_INVALID_CN_EST_ID, it_reject(id, NULL, 0));
    expect(pair.b.connections, IT_CM_MSG_CONN_PEER_REJECT_EVENT);
    expect_nothing(pair.a.connections);
}
END_TEST

/* The rejection of a request is as in two legs. */
START_TEST(request_rejected)
{
    it_event_t event;

    pair_open(&pair, IFACE);
    ok(it_reject(ask(&pair, "may I").conn_req.cn_est_id, (const unsigned char *)"no", 2));
    event = expect(pair.a.connections, IT_CM_MSG_CONN_PEER_REJECT_EVENT);
    ck_assert_mem_eq(event.conn.private_data, "no", 2);
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_NONOPERATIONAL);
}
END_TEST

START_TEST(refused_where_there_are_two_legs)
{
    it_net_addr_t address;
    it_path_t path;
    it_conn_qual_t qualifier;

    pair_open(&pair, IFACE);
    address = node_address(&pair.b, pair_family(&pair));
    path = path_to(&pair.a, &address);
    qualifier = towards(&pair.b.qualifier);
    is(IT_ERR_INVALID_CN_EST_FLAGS,
       it_ep_connect(pair.a.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_THREE_WAY, NULL, 0));
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_UNCONNECTED);
    expect_nothing(pair.b.asked);
    pair_connect(&pair, pair_family(&pair));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("three-way connections");
    TCase *tc = tc_case(suite, "three legs", NULL, fx_close);

    tcase_set_timeout(tc, 60);
    add_where(tc, FX_THREE_WAY, confirmed, rejected, abandoned_by_the_active_side,
              abandoned_by_the_passive_side, freed_undecided, request_rejected);
    add_without(tc, FX_THREE_WAY, refused_where_there_are_two_legs);
    return tc_main(suite);
}
