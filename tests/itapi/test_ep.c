/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: attributes, states, which call is allowed in which state. */
#include "opened.h"

#include <pthread.h>
#include <stdatomic.h>

START_TEST(attributes_are_given_or_more)
{
    it_ep_attributes_t asked;
    it_ep_param_t params;

    node_open(&node, IFACE);
    node_endpoint(&node);
    asked = node_attributes(&node);
    memset(&params, 0, sizeof(params));
    ok(it_ep_query(node.ep, IT_EP_PARAM_ALL, &params));
    ck_assert_ptr_eq(params.ia, node.ia);
    ck_assert_ptr_eq(params.pz, node.pz);
    ck_assert_ptr_eq(params.request_sevd, node.requests);
    ck_assert_ptr_eq(params.recv_sevd, node.receives);
    ck_assert_ptr_eq(params.connect_sevd, node.connections);
    ck_assert_int_eq(params.service_type, IT_RC_SERVICE);
    ck_assert_int_eq(params.ep_state.rc, IT_EP_STATE_UNCONNECTED);
    ck_assert_uint_ge(params.attr.max_dto_payload_size, asked.max_dto_payload_size);
    ck_assert_uint_ge(params.attr.max_request_dtos, asked.max_request_dtos);
    ck_assert_uint_ge(params.attr.max_recv_dtos, asked.max_recv_dtos);
    ck_assert_uint_ge(params.attr.max_send_segments, asked.max_send_segments);
    ck_assert_uint_ge(params.attr.max_recv_segments, asked.max_recv_segments);
    ck_assert_uint_ge(params.attr.srv.rc.max_rdma_read_segments,
                      asked.srv.rc.max_rdma_read_segments);
    ck_assert_uint_ge(params.attr.srv.rc.max_rdma_write_segments,
                      asked.srv.rc.max_rdma_write_segments);
    ck_assert_uint_ge(params.attr.srv.rc.rdma_read_ird, 1);
    ck_assert_uint_ge(params.attr.srv.rc.rdma_read_ord, 1);
    ck_assert_int_eq(params.attr.srv.rc.rdma_read_enable, IT_TRUE);
    ck_assert_int_eq(params.attr.srv.rc.rdma_write_enable, IT_TRUE);
    ck_assert_int_eq(params.attr.srv.rc.atomics_enable, IT_FALSE);
    ck_assert_int_eq(params.attr.priv_ops_enable, IT_FALSE);
    ck_assert_ptr_null(params.attr.srv.rc.srq);
}
END_TEST

START_TEST(query_masks)
{
    it_ep_param_t params;

    node_open(&node, IFACE);
    node_endpoint(&node);
    is(IT_ERR_INVALID_MASK, it_ep_query(node.ep, (it_ep_param_mask_t)0, &params));
    is(IT_ERR_INVALID_MASK, it_ep_query(node.ep, (it_ep_param_mask_t)0x10000000, &params));
    is(IT_ERR_FAULT, it_ep_query(node.ep, IT_EP_PARAM_ALL, NULL));
    for (unsigned int bit = 2; bit < 0x10000000u; bit <<= 1)
        ok(it_ep_query(node.ep, (it_ep_param_mask_t)bit, &params));
    memset(&params, 0x11, sizeof(params));
    ok(it_ep_query(node.ep, IT_EP_PARAM_MAX_ORD, &params));
    ck_assert_uint_eq(params.attr.srv.rc.rdma_read_ird, 0x11111111);
    ck_assert_uint_ne(params.attr.srv.rc.rdma_read_ord, 0x11111111);
}
END_TEST

/* --- attributes beyond the adapter --- */

#define BEYOND(member, code)                                                              \
    do {                                                                                  \
        it_ep_attributes_t wanted = node_attributes(&node);                               \
                                                                                          \
        wanted.member = (size_t)1 << 40;                                                  \
        is(code, it_ep_rc_create(node.pz, node.requests, node.receives, node.connections, \
                                 IT_EP_NO_FLAG, &wanted, &ep));                           \
        wanted.member = SIZE_MAX;                                                         \
        is(code, it_ep_rc_create(node.pz, node.requests, node.receives, node.connections, \
                                 IT_EP_NO_FLAG, &wanted, &ep));                           \
    } while (0)

START_TEST(attributes_beyond_the_adapter)
{
    it_ep_handle_t ep = NULL;

    node_open(&node, IFACE);
    BEYOND(max_request_dtos, IT_ERR_RESOURCE_REQ_DTO);
    BEYOND(max_recv_dtos, IT_ERR_RESOURCE_RECV_DTO);
    BEYOND(max_send_segments, IT_ERR_RESOURCE_SSEG);
    BEYOND(max_recv_segments, IT_ERR_RESOURCE_RSEG);
    BEYOND(srv.rc.max_rdma_write_segments, IT_ERR_RESOURCE_RWSEG);
    BEYOND(max_dto_payload_size, IT_ERR_PAYLOAD_SIZE);
    ck_assert_ptr_null(ep);
}
END_TEST

static it_rc_only_attributes_t given(const struct node *own, uint32_t ird, uint32_t ord,
                                     size_t read_segments)
{
    it_ep_attributes_t attributes = node_attributes(own);
    it_rc_only_attributes_t rc;
    it_ep_handle_t ep;

    attributes.srv.rc.rdma_read_ird = ird;
    attributes.srv.rc.rdma_read_ord = ord;
    attributes.srv.rc.max_rdma_read_segments = read_segments;
    ep = node_make_ep(own, &attributes);
    rc = node_query(ep).attr.srv.rc;
    ok(it_ep_free(ep));
    return rc;
}

/* Programs ask for the depths of another adapter: the EP gets this adapter's, and the attributes
 * say so. */
START_TEST(reads_beyond_the_adapter_are_lowered)
{
    it_rc_only_attributes_t most, within;

    node_open(&node, IFACE);
    most = given(&node, UINT32_MAX, UINT32_MAX, SIZE_MAX);
    ck_assert_uint_ge(most.rdma_read_ird, 1);
    ck_assert_uint_lt(most.rdma_read_ird, UINT32_MAX);
    ck_assert_uint_ge(most.rdma_read_ord, 1);
    ck_assert_uint_lt(most.rdma_read_ord, UINT32_MAX);
    ck_assert_uint_ge(most.max_rdma_read_segments, 1);
    ck_assert_uint_lt(most.max_rdma_read_segments, 1025);
    within = given(&node, most.rdma_read_ird, most.rdma_read_ord, most.max_rdma_read_segments);
    ck_assert_uint_eq(within.rdma_read_ird, most.rdma_read_ird);
    ck_assert_uint_eq(within.rdma_read_ord, most.rdma_read_ord);
    ck_assert_uint_eq(within.max_rdma_read_segments, most.max_rdma_read_segments);
    within = given(&node, most.rdma_read_ird + 1, most.rdma_read_ord + 1,
                   most.max_rdma_read_segments + 1);
    ck_assert_uint_eq(within.rdma_read_ird, most.rdma_read_ird);
    ck_assert_uint_eq(within.rdma_read_ord, most.rdma_read_ord);
    ck_assert_uint_eq(within.max_rdma_read_segments, most.max_rdma_read_segments);
    within = given(&node, 256, 256, 4); /* what SKV asks for */
    ck_assert_uint_ge(within.rdma_read_ird, 1);
    ck_assert_uint_le(within.rdma_read_ird, 256);
}
END_TEST

START_TEST(smallest_attributes)
{
    it_ep_attributes_t attributes;

    node_open(&node, IFACE);
    memset(&attributes, 0, sizeof(attributes));
    attributes.srv.rc.hard_hi_watermark = 12345; /* ignored without IT_EP_SRQ */
    attributes.srv.rc.srq = (it_srq_handle_t)(uintptr_t)0x77;
    node.ep = node_make_ep(&node, &attributes);
}
END_TEST

START_TEST(creation_errors)
{
    struct node other;
    it_ep_attributes_t good, bad;
    it_ep_handle_t ep = NULL;

    node_open(&node, IFACE);
    node_open(&other, IFACE);
    good = node_attributes(&node);
#define CREATE(code, pz, requests, receives, connections, flags, attributes) \
    is(code, it_ep_rc_create(pz, requests, receives, connections,            \
                             (it_ep_rc_creation_flags_t)(flags), attributes, &ep))
    CREATE(IT_ERR_INVALID_PZ, NULL, node.requests, node.receives, node.connections, 0, &good);
    CREATE(IT_ERR_INVALID_REQ_EVD, node.pz, NULL, node.receives, node.connections, 0, &good);
    CREATE(IT_ERR_INVALID_RECV_EVD, node.pz, node.requests, NULL, node.connections, 0, &good);
    CREATE(IT_ERR_INVALID_CONN_EVD, node.pz, node.requests, node.receives, NULL, 0, &good);
    CREATE(IT_ERR_INVALID_REQ_EVD, node.pz, other.requests, node.receives, node.connections, 0,
           &good);
    CREATE(IT_ERR_INVALID_RECV_EVD, node.pz, node.requests, other.receives, node.connections, 0,
           &good);
    CREATE(IT_ERR_INVALID_CONN_EVD, node.pz, node.requests, node.receives, other.connections, 0,
           &good);
    CREATE(IT_ERR_INVALID_EVD_TYPE, node.pz, node.asked, node.receives, node.connections, 0, &good);
    CREATE(IT_ERR_INVALID_EVD_TYPE, node.pz, node.requests, node.asked, node.connections, 0, &good);
    CREATE(IT_ERR_INVALID_EVD_TYPE, node.pz, node.requests, node.receives, node.requests, 0, &good);
    CREATE(IT_ERR_INVALID_FLAGS, node.pz, node.requests, node.receives, node.connections, 4, &good);
    CREATE(IT_ERR_FAULT, node.pz, node.requests, node.receives, node.connections, 0, NULL);
    if (!node.info->srq_support)
        CREATE(IT_ERR_SRQ_NOT_SUPPORTED, node.pz, node.requests, node.receives, node.connections,
               IT_EP_SRQ, &good);
    bad = good;
    bad.priv_ops_enable = IT_TRUE;
    if (!node.info->lmr_link_support)
        CREATE(IT_ERR_PRIV_OPS_UNAVAILABLE, node.pz, node.requests, node.receives, node.connections,
               0, &bad);
    is(IT_ERR_FAULT, it_ep_rc_create(node.pz, node.requests, node.receives, node.connections,
                                     IT_EP_NO_FLAG, &good, NULL));
    ck_assert_ptr_null(ep);
    node_close(&node);
    node_close(&other);
}
END_TEST

/* One SEVD may serve both queues. */
START_TEST(one_evd_for_both_queues)
{
    it_ep_attributes_t attributes;

    node_open(&node, IFACE);
    attributes = node_attributes(&node);
    ok(it_ep_rc_create(node.pz, node.requests, node.requests, node.connections, IT_EP_REUSEADDR,
                       &attributes, &node.ep));
    ok(it_ep_free(node.ep));
    ok(it_evd_free(node.requests));
}
END_TEST

/* --- what is possible in which state --- */

static void unconnected_refuses(struct node *own, const struct buffer *buffer)
{
    it_lmr_triplet_t whole = segment(buffer, 0, buffer->length);

    is(IT_ERR_INVALID_EP_STATE, it_post_send(own->ep, &whole, 1, 0, BOTH));
    is(IT_ERR_INVALID_EP_STATE, it_post_rdma_write(own->ep, &whole, 1, 0, BOTH, 0, 0));
    is(IT_ERR_INVALID_EP_STATE, it_post_rdma_read(own->ep, &whole, 1, 0, BOTH, 0, 0));
    is(IT_ERR_INVALID_EP_STATE, it_ep_disconnect(own->ep, NULL, 0));
}

START_TEST(unconnected)
{
    struct buffer buffer;
    it_lmr_triplet_t whole;
    it_event_t event;

    node_open(&node, IFACE);
    node_endpoint(&node);
    buffer = buffer_make(&node, 4096, EVERYTHING);
    whole = segment(&buffer, 0, 4096);
    unconnected_refuses(&node, &buffer);
    ok(it_post_recv(node.ep, &whole, 1, 7, BOTH));
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(node.receives, &event));
    ok(it_ep_reset(node.ep)); /* remains in its state, and drops its Receives */
    ck_assert_int_eq(node_state(node.ep), IT_EP_STATE_UNCONNECTED);
    expect_done(node.receives, IT_DTO_RC_RECV_CMPL_EVENT, 7, IT_DTO_ERR_FLUSHED);
    unconnected_refuses(&node, &buffer);
    ok(it_ep_free(node.ep));
    is(IT_ERR_INVALID_EP, it_ep_free(node.ep));
}
END_TEST

static void connected_refuses(struct pair *both)
{
    it_net_addr_t address = node_address(&both->b, pair_family(both));
    it_path_t path = path_to(&both->a, &address);
    it_conn_qual_t qualifier = towards(&both->b.qualifier);

    is(IT_ERR_INVALID_EP_STATE,
       it_ep_connect(both->a.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    is(IT_ERR_INVALID_CN_EST_ID, it_ep_accept(both->a.ep, 4711, NULL, 0));
}

START_TEST(connected_and_nonoperational)
{
    struct buffer buffer;
    it_lmr_triplet_t whole;
    it_ep_param_t params;

    pair_connected(&pair, IFACE);
    buffer = buffer_make(&pair.a, 4096, EVERYTHING);
    whole = segment(&buffer, 0, 4096);
    params = node_query(pair.a.ep);
    ck_assert_int_eq(params.ep_state.rc, IT_EP_STATE_CONNECTED);
    ck_assert_uint_eq(params.spigot_id, pair.a.info->spigot_info[0].spigot_id);
    connected_refuses(&pair);
    is(IT_ERR_CANNOT_RESET, it_ep_reset(pair.a.ep));
    ok(it_ep_disconnect(pair.a.ep, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_NONOPERATIONAL);
    ck_assert_int_eq(node_state(pair.b.ep), IT_EP_STATE_NONOPERATIONAL);
    is(IT_ERR_INVALID_EP_STATE, it_ep_disconnect(pair.a.ep, NULL, 0));
    connected_refuses(&pair);
    ok(it_post_send(pair.a.ep, &whole, 1, 1, (it_dto_flags_t)0)); /* flushes are always reported */
    expect_done(pair.a.requests, IT_DTO_SEND_CMPL_EVENT, 1, IT_DTO_ERR_FLUSHED);
    ok(it_post_rdma_write(pair.a.ep, &whole, 1, 2, BOTH, 0, 0));
    expect_done(pair.a.requests, IT_DTO_RDMA_WRITE_CMPL_EVENT, 2, IT_DTO_ERR_FLUSHED);
    ok(it_post_rdma_read(pair.a.ep, &whole, 1, 3, BOTH, 0, 0));
    expect_done(pair.a.requests, IT_DTO_RDMA_READ_CMPL_EVENT, 3, IT_DTO_ERR_FLUSHED);
    ok(it_post_recv(pair.a.ep, &whole, 1, 4, BOTH));
    expect_done(pair.a.receives, IT_DTO_RC_RECV_CMPL_EVENT, 4, IT_DTO_ERR_FLUSHED);
    ok(it_ep_reset(pair.a.ep));
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_UNCONNECTED);
    expect_nothing(pair.a.connections);
}
END_TEST

/* Freeing a connected EP ends the connection in order at the peer, and discards the EP's queued
 * events. */
START_TEST(free_while_connected)
{
    it_event_t event;

    pair_connected(&pair, IFACE);
    ok(it_ep_free(pair.a.ep));
    expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(pair.a.connections, &event));
    ok(it_evd_free(pair.a.requests));
    ok(it_evd_free(pair.a.connections));
}
END_TEST

/* --- several at once --- */

static atomic_bool stop_taking;

static void *take_flushed(void *arg)
{
    it_event_t event;

    while (!atomic_load(&stop_taking)) {
        if (it_evd_dequeue((it_evd_handle_t)arg, &event) != IT_SUCCESS)
            continue;
        ck_assert_int_eq(event.dto_cmpl.dto_status, IT_DTO_ERR_FLUSHED);
        ck_assert_uint_eq(event.dto_cmpl.cookie, (uintptr_t)event.dto_cmpl.ep);
    }
    return NULL;
}

/* One thread dequeues completions of endpoints that another one makes, resets and frees. */
START_TEST(freed_while_another_dequeues)
{
    it_ep_attributes_t attributes;
    pthread_t taker;

    node_open(&node, IFACE);
    attributes = node_attributes(&node);
    pthread_create(&taker, NULL, take_flushed, node.receives);
    for (unsigned long i = tc_count(300); i; i--) {
        it_ep_handle_t ep = node_make_ep(&node, &attributes);

        for (int k = 0; k < 8; k++)
            ok(it_post_recv(ep, NULL, 0, (uintptr_t)ep, BOTH));
        ok(it_ep_reset(ep));
        ok(it_ep_free(ep));
    }
    atomic_store(&stop_taking, true);
    pthread_join(taker, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_ep");
    TCase *tc = tc_case(suite, "ep", NULL, fx_close);

    add_each(tc, attributes_are_given_or_more, query_masks, attributes_beyond_the_adapter,
             reads_beyond_the_adapter_are_lowered, smallest_attributes, creation_errors,
             one_evd_for_both_queues, unconnected, connected_and_nonoperational,
             free_while_connected, freed_while_another_dequeues);
    return tc_main(suite);
}
