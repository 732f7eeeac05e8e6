/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams: UD endpoints, address handles, sending and receiving. Both ends are in this
 * process. */
#include "ud.h"

#include <endian.h>

#define SEND IT_DTO_SEND_CMPL_EVENT
#define RECV IT_DTO_UD_RECV_CMPL_EVENT

static void fill(struct buffer *buffer, unsigned char seed)
{
    for (size_t i = 0; i < buffer->length; i++)
        buffer->data[i] = (unsigned char)(seed + i * 7);
}

/* --- without datagrams --- */

START_TEST(interface_says_what_it_has)
{
    it_ep_attributes_t attributes;
    it_path_t path = { .timeout = 0 };
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT, .conn_qual.port = htobe16(7) };
    it_ud_svc_req_handle_t question;
    it_addr_handle_t ah;
    it_ep_handle_t ep;

    node_open(&a, IFACE);
    ck_assert(a.info->supported_service_types & IT_RC_SERVICE);
    attributes = ud_attributes(&a);
    if (has_datagrams(&a)) {
        ck_assert_uint_gt(longest(&a), 0);
        ck_assert_uint_gt(a.info->ud_req_private_data_len, 0);
        ck_assert_uint_gt(a.info->ud_rep_private_data_len, 0);
        ok(create_ep(&a, &attributes, &ep));
        ok(it_ep_free(ep));
    } else {
        ck_assert_uint_eq(longest(&a), 0);
        ck_assert_uint_eq(a.info->ud_req_private_data_len, 0);
        is(IT_ERR_OP_NOT_SUPPORTED, create_ep(&a, &attributes, &ep));
        is(IT_ERR_OP_NOT_SUPPORTED, it_address_handle_create(a.pz, &path, (it_ah_flags_t)0, &ah));
        is(IT_ERR_OP_NOT_SUPPORTED, it_ud_service_request_handle_create(&qualifier, a.connections,
                                                                        &path, NULL, 0, &question));
    }
    node_close(&a);
}
END_TEST

START_TEST(rc_endpoints_take_no_datagrams)
{
    it_lmr_triplet_t part;
    it_status_t refusal;

    node_open(&a, IFACE);
    ok(it_ep_rc_create(a.pz, a.requests, a.receives, a.connections, IT_EP_NO_FLAG,
                       &(it_ep_attributes_t){ .max_dto_payload_size = 64 }, &a.ep));
    here = buffer_make(&a, 4096, IT_PRIV_LOCAL);
    part = segment(&here, 0, 64);
    refusal = has_datagrams(&a) ? IT_ERR_INVALID_EP_TYPE : IT_ERR_OP_NOT_SUPPORTED;
    is(refusal, it_post_recvfrom(a.ep, &part, 1, 1, BOTH));
    is(refusal, it_post_sendto(a.ep, &part, 1, 1, BOTH, &(it_dg_remote_ep_addr_t){ 0 }));
    is(IT_ERR_INVALID_EP_TYPE,
       it_ep_modify(a.ep, IT_EP_PARAM_EP_KEY, &(it_ep_attributes_t){ .max_request_dtos = 1 }));
    node_close(&a);
}
END_TEST

#ifdef CONTROLLED_KEYS /* no attribute says that the interface refuses them to everybody */
/* Q_Keys with the highest bit set need privileges. */
START_TEST(keys_of_the_privileged)
{
    it_ep_attributes_t asked;
    it_ep_handle_t ep;

    open_both(IFACE);
    asked = ud_attributes(&a);
    asked.srv.ud.ep_info.ud_ep_key = 0x80000001;
    is(IT_ERR_INVALID_EP_KEY, create_ep(&a, &asked, &ep));
    is(IT_ERR_INVALID_EP_KEY, it_ep_modify(a.ep, IT_EP_PARAM_EP_KEY, &asked));
}
END_TEST
#endif

/* --- endpoints --- */

START_TEST(endpoint_created_and_queried)
{
    it_handle_type_enum_t type;
    it_ep_attributes_t asked;
    it_ep_param_t got;

    open_both(IFACE);
    asked = ud_attributes(&a);
    memset(&got, 0xff, sizeof(got));
    ok(it_ep_query(a.ep, IT_EP_PARAM_ALL, &got));
    ck_assert_int_eq(got.service_type, IT_UD_SERVICE);
    ck_assert_int_eq(got.ep_state.ud, IT_EP_STATE_UD_OPERATIONAL);
    ck_assert_ptr_eq(got.ia, a.ia);
    ck_assert_ptr_eq(got.pz, a.pz);
    ck_assert_ptr_eq(got.request_sevd, a.requests);
    ck_assert_ptr_eq(got.recv_sevd, a.receives);
    ck_assert_ptr_null(got.connect_sevd);
    ck_assert_uint_eq(got.spigot_id, a.info->spigot_info[0].spigot_id);
    ck_assert_uint_ge(got.attr.max_dto_payload_size, asked.max_dto_payload_size);
    ck_assert_uint_ge(got.attr.max_request_dtos, asked.max_request_dtos);
    ck_assert_uint_ge(got.attr.max_recv_dtos, asked.max_recv_dtos);
    ck_assert_uint_ge(got.attr.max_send_segments, asked.max_send_segments);
    ck_assert_uint_ge(got.attr.max_recv_segments, asked.max_recv_segments);
    ck_assert_uint_ne(got.attr.srv.ud.ep_info.ud_ep_id, own_info(b.ep).ud_ep_id);
    ok(it_get_handle_type(a.ep, &type));
    ck_assert_int_eq(type, IT_HANDLE_TYPE_EP);
    is(IT_ERR_PZ_BUSY, it_pz_free(a.pz));
    is(IT_ERR_EVD_BUSY, it_evd_free(a.receives));
    ok(it_ep_free(a.ep));
    is(IT_ERR_INVALID_EP, it_ep_query(a.ep, IT_EP_PARAM_ALL, &got));
}
END_TEST

START_TEST(endpoint_refused)
{
    it_ep_attributes_t attributes;
    it_ep_handle_t ep;

    open_both(IFACE);
    attributes = ud_attributes(&a);
    is(IT_ERR_INVALID_SPIGOT,
       it_ep_ud_create(a.pz, a.requests, a.receives, &attributes, 1000, &ep));
    is(IT_ERR_INVALID_EVD_TYPE,
       it_ep_ud_create(a.pz, a.connections, a.receives, &attributes, 0, &ep));
    is(IT_ERR_INVALID_EVD_TYPE,
       it_ep_ud_create(a.pz, a.requests, a.connections, &attributes, 0, &ep));
    is(IT_ERR_INVALID_REQ_EVD, it_ep_ud_create(a.pz, b.requests, a.receives, &attributes, 0, &ep));
    is(IT_ERR_FAULT, it_ep_ud_create(a.pz, a.requests, a.receives, NULL, 0, &ep));
    is(IT_ERR_FAULT, create_ep(&a, &attributes, NULL));
    attributes.max_dto_payload_size = longest(&a) + 1;
    is(IT_ERR_PAYLOAD_SIZE, create_ep(&a, &attributes, &ep));
    attributes = ud_attributes(&a);
    attributes.max_request_dtos = SIZE_MAX;
    is(IT_ERR_RESOURCE_REQ_DTO, create_ep(&a, &attributes, &ep));
    attributes = ud_attributes(&a);
    attributes.max_recv_dtos = SIZE_MAX;
    is(IT_ERR_RESOURCE_RECV_DTO, create_ep(&a, &attributes, &ep));
    attributes = ud_attributes(&a);
    attributes.max_send_segments = SIZE_MAX;
    is(IT_ERR_RESOURCE_SSEG, create_ep(&a, &attributes, &ep));
    attributes = ud_attributes(&a);
    attributes.max_recv_segments = SIZE_MAX;
    is(IT_ERR_RESOURCE_RSEG, create_ep(&a, &attributes, &ep));
    attributes = ud_attributes(&a);
    attributes.priv_ops_enable = IT_TRUE;
    is(IT_ERR_PRIV_OPS_UNAVAILABLE, create_ep(&a, &attributes, &ep));
}
END_TEST

/* Calls that need a connection are refused with their own error. */
START_TEST(no_connection_calls)
{
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT, .conn_qual.port = htobe16(7) };
    it_lmr_triplet_t part;
    it_rmr_context_t key;
    it_path_t path;

    open_both(IFACE);
    path = way(&a, &b);
    part = segment(&here, 0, 8);
    is(IT_ERR_INVALID_EP_TYPE,
       it_ep_connect(a.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    is(IT_ERR_INVALID_EP_TYPE, it_ep_accept(a.ep, 0, NULL, 0));
    is(IT_ERR_INVALID_EP_TYPE, it_ep_disconnect(a.ep, NULL, 0));
    is(IT_ERR_INVALID_EP_TYPE, it_post_send(a.ep, &part, 1, 1, BOTH));
    is(IT_ERR_INVALID_EP_TYPE, it_post_recv(a.ep, &part, 1, 1, BOTH));
    is(IT_ERR_INVALID_EP_TYPE, it_post_rdma_write(a.ep, &part, 1, 1, BOTH, 0, 0));
    is(IT_ERR_INVALID_EP_TYPE, it_post_rdma_read(a.ep, &part, 1, 1, BOTH, 0, 0));
    is(IT_ERR_INVALID_EP_TYPE, it_post_rdma_read_to_rmr(a.ep, NULL, 0, 1, BOTH, 0, 0));
    is(IT_ERR_INVALID_EP_TYPE, it_post_send_and_unlink(a.ep, &part, 1, 1, BOTH, 0));
    is(IT_ERR_INVALID_EP_TYPE, it_post_atomic(a.ep, IT_FETCH_AND_ADD, 1, 1, &part, 1, BOTH, 0, 0));
    if (a.info->rmr_types_supported) {
        it_rmr_handle_t rmr;

        ok(it_rmr_create(a.pz, IT_RMR_TYPE_DEFAULT, &rmr));
        is(IT_ERR_INVALID_EP_TYPE, it_rmr_link(rmr, here.lmr, here.data, 8, IT_ADDR_MODE_ABSOLUTE,
                                               IT_PRIV_REMOTE_READ, a.ep, 1, BOTH, &key));
        is(IT_ERR_INVALID_EP_TYPE,
           it_rmr_bind10(rmr, here.lmr, here.data, 8, IT_PRIV_REMOTE_READ, a.ep, 1, BOTH, &key));
        is(IT_ERR_INVALID_EP_TYPE, it_rmr_unlink(rmr, a.ep, 1, BOTH));
    }
    is(IT_ERR_INVALID_EP_TYPE, it_lmr_link(here.lmr, here.data, NULL, 8, IT_ADDR_MODE_ABSOLUTE,
                                           IT_PRIV_LOCAL, a.ep, 1, BOTH, &key));
    is(IT_ERR_INVALID_EP_TYPE, it_lmr_unlink(here.lmr, a.ep, 1, BOTH));
    is(IT_ERR_INVALID_EP_TYPE, it_socket_convert(0, a.ep, IT_SC_DEFAULT, NULL, 0));
    is(IT_ERR_INVALID_EP_TYPE,
       itx_ep_connect_with_rmr(a.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0,
                               &part, &key));
    is(IT_ERR_INVALID_EP_TYPE, itx_ep_accept_with_rmr(a.ep, 0, &part, &key));
    is(IT_ERR_INVALID_EP_TYPE, itx_bind_ep_to_device(a.ep, 0));
}
END_TEST

START_TEST(endpoint_modified)
{
    it_ep_attributes_t change;

    open_both(IFACE);
    change = ud_attributes(&b);
    change.srv.ud.ep_info.ud_ep_key = 0x2345;
    ok(it_ep_modify(b.ep, IT_EP_PARAM_EP_KEY, &change));
    ck_assert_uint_eq(own_info(b.ep).ud_ep_key, 0x2345);
    change.max_dto_payload_size = 64;
    ok(it_ep_modify(b.ep, IT_EP_PARAM_MAX_PAYLOAD, &change));
    is(IT_ERR_INVALID_LENGTH, receive_at(b.ep, 0, 64 + GRH + 1, 1));
    change.max_dto_payload_size = longest(&b) + 1;
    is(IT_ERR_PAYLOAD_SIZE, it_ep_modify(b.ep, IT_EP_PARAM_MAX_PAYLOAD, &change));
    change.max_send_segments = 1;
    ok(it_ep_modify(b.ep, IT_EP_PARAM_MAX_SEND_SEG, &change));
    change.max_recv_segments = SIZE_MAX;
    is(IT_ERR_RESOURCE_RSEG, it_ep_modify(b.ep, IT_EP_PARAM_MAX_RECV_SEG, &change));
    is(IT_ERR_INVALID_EP_TYPE, it_ep_modify(b.ep, IT_EP_PARAM_RDMA_WR_ENABLE, &change));
    is(IT_ERR_INVALID_EP_TYPE, it_ep_modify(b.ep, IT_EP_PARAM_MAX_ORD, &change));
    is(IT_ERR_INVALID_MASK, it_ep_modify(b.ep, IT_EP_PARAM_EP_ID, &change));
    is(IT_ERR_INVALID_MASK, it_ep_modify(b.ep, IT_EP_PARAM_SPIGOT, &change));
    if (!b.info->ep_work_queues_resizable)
        is(IT_ERR_OP_NOT_SUPPORTED, it_ep_modify(b.ep, IT_EP_PARAM_MAX_REQ_DTO, &change));
    is(IT_ERR_CANNOT_RESET, it_ep_reset(b.ep));
}
END_TEST

/* The memory of a Receive is freed before its datagram arrives. */
START_TEST(error_and_reset)
{
    it_dg_remote_ep_addr_t to;
    struct buffer doomed;
    it_lmr_triplet_t part;
    it_event_t event;

    open_both(IFACE);
    to = towards_b();
    doomed = buffer_make(&b, 4096, IT_PRIV_LOCAL);
    part = segment(&doomed, 0, 1000);
    ok(it_post_recvfrom(b.ep, &part, 1, 1, BOTH));
    ok(receive_at(b.ep, 0, 1000, 2));
    ok(it_lmr_free(doomed.lmr));
    ok(send_part(&to, 0, SOME, 3));
    expect_done(a.requests, SEND, 3, IT_DTO_SUCCESS);
    event = expect(b.receives, RECV);
    ck_assert_uint_eq(event.dto_cmpl.cookie, 1);
    ck_assert_int_ne(event.dto_cmpl.dto_status, IT_DTO_SUCCESS);
    expect_done(b.receives, RECV, 2, IT_DTO_ERR_FLUSHED);
    for (unsigned tries = 0; state_of(b.ep) != IT_EP_STATE_UD_NONOPERATIONAL; tries++) {
        ck_assert_uint_lt(tries, 1000);
        is(IT_ERR_TIMEOUT_EXPIRED, it_evd_wait(b.receives, 10000, &event, NULL));
    }
    ok(receive_at(b.ep, 0, 1000, 4));
    expect_done(b.receives, RECV, 4, IT_DTO_ERR_FLUSHED);
    is(IT_ERR_INVALID_EP_STATE, it_ep_modify(b.ep, IT_EP_PARAM_MAX_PAYLOAD,
                                             &(it_ep_attributes_t){ .max_dto_payload_size = 64 }));
    ok(it_ep_reset(b.ep));
    ck_assert_int_eq(state_of(b.ep), IT_EP_STATE_UD_OPERATIONAL);
    ok(receive_at(b.ep, 0, 1000, 5));
    ok(send_part(&to, 0, SOME, 6));
    expect_datagram(&b, 5, SOME);
}
END_TEST

/* --- datagrams --- */

START_TEST(sizes)
{
    static const size_t lengths[] = { 0, 1, 7, 64, 1000 };
    size_t count = sizeof(lengths) / sizeof(*lengths);
    it_dg_remote_ep_addr_t to;

    open_both(IFACE);
    to = towards_b();
    fill(&here, 3);
    for (size_t i = 0; i <= count; i++) {
        size_t octets = i < count ? lengths[i] : longest(&a);
        it_all_dto_cmpl_event_t got;

        memset(there.data, 0xee, there.length);
        ok(receive_at(b.ep, 0, GRH + octets, i));
        ok(send_part(&to, i, octets, 100 + i));
        expect_done(a.requests, SEND, 100 + i, IT_DTO_SUCCESS);
        got = expect_datagram(&b, i, octets);
        ck_assert_uint_eq(got.ud_ep_id, own_info(a.ep).ud_ep_id);
        ck_assert_mem_eq(there.data + GRH, here.data + i, octets);
        ck_assert_uint_eq(there.data[GRH + octets], 0xee);
    }
}
END_TEST

/* The 40 octets of the GRH take as many segments as they need. */
START_TEST(segments)
{
    it_dg_remote_ep_addr_t to;
    it_lmr_triplet_t out[2], in[3];

    open_both(IFACE);
    to = towards_b();
    fill(&here, 9);
    out[0] = segment(&here, 500, 30);
    out[1] = segment(&here, 0, 70);
    in[0] = segment(&there, 0, 16);
    in[1] = segment(&there, 100, 30); /* 24 of the header, 6 of the message */
    in[2] = segment(&there, 200, 300);
    ok(it_post_recvfrom(b.ep, in, 3, 1, BOTH));
    ok(it_post_sendto(a.ep, out, 2, 2, BOTH, &to));
    expect_datagram(&b, 1, 100);
    ck_assert_mem_eq(there.data + 124, here.data + 500, 6);
    ck_assert_mem_eq(there.data + 200, here.data + 506, 24);
    ck_assert_mem_eq(there.data + 224, here.data, 70);
}
END_TEST

/* An answer that uses only the receive event. */
START_TEST(answered)
{
    it_all_dto_cmpl_event_t got;
    it_dg_remote_ep_addr_t to, back;
    it_lmr_triplet_t part;

    open_both(IFACE);
    to = towards_b();
    fill(&here, 1);
    ok(receive_at(b.ep, 0, 1000, 1));
    ok(send_part(&to, 0, SOME, 2));
    got = expect_datagram(&b, 1, SOME);
    ck_assert_uint_eq(got.src_path.spigot_id, b.info->spigot_info[0].spigot_id);
    back = destination(handle_for(&b, &got.src_path),
                       (it_remote_ep_info_t){ got.ud_ep_id, own_info(a.ep).ud_ep_key });
    part = segment(&here, 4000, 1000);
    ok(it_post_recvfrom(a.ep, &part, 1, 3, BOTH));
    part = segment(&there, GRH, SOME);
    ok(it_post_sendto(b.ep, &part, 1, 4, BOTH, &back));
    expect_datagram(&a, 3, SOME);
    ck_assert_mem_eq(here.data + 4000 + GRH, here.data, SOME);
}
END_TEST

/* No such peer, another key, no Receive: the datagram is lost without a report to the sender, and
 * both sides continue. */
START_TEST(lost)
{
    it_dg_remote_ep_addr_t to, wrong;

    open_both(IFACE);
    to = towards_b();
    wrong = to;
    wrong.addr.ud.ep_info.ud_ep_id ^= 0x700000;
    ok(send_part(&wrong, 0, SOME, 1));
    expect_done(a.requests, SEND, 1, IT_DTO_SUCCESS);
    ok(send_part(&to, 0, SOME, 2)); /* nothing posted */
    expect_done(a.requests, SEND, 2, IT_DTO_SUCCESS);
    expect_nothing(b.receives); /* it has arrived */
    ok(receive_at(b.ep, 0, 1000, 3));
    wrong = to;
    wrong.addr.ud.ep_info.ud_ep_key ^= 1;
    ok(send_part(&wrong, 0, SOME, 4));
    expect_done(a.requests, SEND, 4, IT_DTO_SUCCESS);
    expect_nothing(b.receives);
    ok(send_part(&to, 0, SOME, 5));
    expect_datagram(&b, 3, SOME);
    ck_assert_int_eq(state_of(a.ep), IT_EP_STATE_UD_OPERATIONAL);
    ck_assert_int_eq(state_of(b.ep), IT_EP_STATE_UD_OPERATIONAL);
}
END_TEST

START_TEST(posts_refused)
{
    it_dg_remote_ep_addr_t to, wrong;
    it_lmr_triplet_t parts[4];
    struct buffer readable;
    it_pz_handle_t other;
    it_path_t path;

    open_both(IFACE);
    to = towards_b();
    for (int i = 0; i < 4; i++)
        parts[i] = segment(&here, 0, 64);
    is(IT_ERR_INVALID_DTO_FLAGS, it_post_sendto(a.ep, parts, 1, 1, IT_BARRIER_FENCE_FLAG, &to));
    is(IT_ERR_FAULT, it_post_sendto(a.ep, parts, 1, 1, BOTH, NULL));
    wrong = to;
    wrong.type = (it_dg_type_t)7;
    is(IT_ERR_INVALID_AH, it_post_sendto(a.ep, parts, 1, 1, BOTH, &wrong));
    wrong = to;
    wrong.addr.ud.addr = (it_addr_handle_t)(void *)a.pz;
    is(IT_ERR_INVALID_AH, it_post_sendto(a.ep, parts, 1, 1, BOTH, &wrong));
    ok(it_pz_create(a.ia, &other));
    path = way(&a, &b);
    ok(it_address_handle_create(other, &path, (it_ah_flags_t)0, &wrong.addr.ud.addr));
    is(IT_ERR_INVALID_AH, it_post_sendto(a.ep, parts, 1, 1, BOTH, &wrong));
    is(IT_ERR_INVALID_NUM_SEGMENTS, it_post_sendto(a.ep, parts, 1000, 1, BOTH, &to));
    parts[0] = segment(&there, 0, 64); /* of another adapter */
    is(IT_ERR_INVALID_LMR, it_post_sendto(a.ep, parts, 1, 1, BOTH, &to));
    parts[0] = segment(&here, 0, here.length + 1);
    is(IT_ERR_RANGE, it_post_sendto(a.ep, parts, 1, 1, BOTH, &to));
    parts[0].length = longest(&a) + 1;
    is(IT_ERR_INVALID_LENGTH, it_post_sendto(a.ep, parts, 1, 1, BOTH, &to));
    ok(it_ep_modify(a.ep, IT_EP_PARAM_MAX_PAYLOAD,
                    &(it_ep_attributes_t){ .max_dto_payload_size = 64 }));
    is(IT_ERR_INVALID_LENGTH, send_part(&to, 0, 65, 1)); /* less than the adapter's limit */
    is(IT_ERR_INVALID_LENGTH, receive_at(b.ep, 0, GRH - 1, 1));
    is(IT_ERR_INVALID_LENGTH, receive_at(b.ep, 0, longest(&b) + GRH + 1, 1));
    is(IT_ERR_INVALID_LMR, receive_at(a.ep, 0, 100, 1));
    is(IT_ERR_INVALID_DTO_FLAGS, it_post_recvfrom(b.ep, parts, 1, 1, IT_SOLICITED_WAIT_FLAG));
    is(IT_ERR_INVALID_NUM_SEGMENTS, it_post_recvfrom(b.ep, parts, 1000, 1, BOTH));
    is(IT_ERR_FAULT, it_post_recvfrom(b.ep, NULL, 1, 1, BOTH));
    is(IT_ERR_RANGE, receive_at(b.ep, there.length - 99, 100, 1));
    readable = buffer_make(&b, 4096, IT_PRIV_LOCAL_READ);
    parts[0] = segment(&readable, 0, 100);
    is(IT_ERR_ACCESS, it_post_recvfrom(b.ep, parts, 1, 1, BOTH));
    expect_nothing(a.requests);
}
END_TEST

START_TEST(slots)
{
    it_ep_param_t got;
    size_t posted = 0;

    open_both(IFACE);
    ok(it_ep_query(b.ep, IT_EP_PARAM_MAX_RECV_DTO, &got));
    while (receive_at(b.ep, 0, 100, posted) == IT_SUCCESS)
        ck_assert_uint_le(++posted, got.attr.max_recv_dtos);
    ck_assert_uint_eq(posted, got.attr.max_recv_dtos);
    is(IT_ERR_TOO_MANY_POSTS, receive_at(b.ep, 0, 100, 1));
}
END_TEST

/* A datagram keeps its place until its completion is taken. */
START_TEST(places_of_datagrams)
{
    it_dg_remote_ep_addr_t to;
    it_ep_param_t got;

    open_both(IFACE);
    to = towards_b();
    ok(it_ep_query(a.ep, IT_EP_PARAM_MAX_REQ_DTO, &got));
    for (size_t i = 0; i < got.attr.max_request_dtos; i++)
        ok(send_part(&to, 0, SOME, i));
    is(IT_ERR_TOO_MANY_POSTS, send_part(&to, 0, SOME, 1));
    for (size_t i = 0; i < got.attr.max_request_dtos; i++)
        expect_done(a.requests, SEND, i, IT_DTO_SUCCESS);
    ok(send_part(&to, 0, SOME, 1));
}
END_TEST

START_TEST(unsignaled)
{
    it_dg_remote_ep_addr_t to;
    it_lmr_triplet_t part;

    open_both(IFACE);
    to = towards_b();
    part = segment(&here, 0, SOME);
    for (unsigned i = 0; i < 3; i++)
        ok(receive_at(b.ep, i * 1000, 1000, i));
    ok(it_post_sendto(a.ep, &part, 1, 1, (it_dto_flags_t)0, &to));
    ok(it_post_sendto(a.ep, &part, 1, 2, IT_SOLICITED_WAIT_FLAG, &to));
    ok(it_post_sendto(a.ep, &part, 1, 3, BOTH, &to));
    expect_done(a.requests, SEND, 3, IT_DTO_SUCCESS);
    for (unsigned i = 0; i < 3; i++)
        expect_datagram(&b, i, SOME);
    expect_nothing(a.requests);
}
END_TEST

/* --- address handles --- */

START_TEST(address_handle)
{
    it_handle_type_enum_t type;
    it_addr_handle_t ah;
    it_addr_param_t got;
    it_pz_handle_t other;
    it_path_t path, bad;

    open_both(IFACE);
    ok(it_pz_create(a.ia, &other));
    path = way(&a, &b);
    is(IT_ERR_INVALID_FLAGS, it_address_handle_create(a.pz, &path, (it_ah_flags_t)2, &ah));
    is(IT_ERR_FAULT, it_address_handle_create(a.pz, NULL, (it_ah_flags_t)0, &ah));
    bad = path;
    bad.spigot_id = 1000;
    is(IT_ERR_INVALID_SPIGOT, it_address_handle_create(a.pz, &bad, (it_ah_flags_t)0, &ah));
    memset(&bad, 0, sizeof(bad));
    is(IT_ERR_INVALID_SOURCE_PATH, it_address_handle_create(a.pz, &bad, (it_ah_flags_t)0, &ah));
    ah = handle_for(&a, &path);
    ok(it_get_handle_type(ah, &type));
    ck_assert_int_eq(type, IT_HANDLE_TYPE_ADDR);
    ok(it_address_handle_query(ah, IT_ADDR_PARAM_ALL, &got));
    ck_assert_ptr_eq(got.ia, a.ia);
    ck_assert_ptr_eq(got.pz, a.pz);
    ck_assert_mem_eq(&got.path, &path, sizeof(path));
    is(IT_ERR_INVALID_MASK, it_address_handle_query(ah, (it_addr_param_mask_t)16, &got));
    is(IT_ERR_INVALID_MASK, it_address_handle_modify(ah, IT_ADDR_PARAM_IA, &got));
    got.pz = other;
    ok(it_address_handle_modify(ah, IT_ADDR_PARAM_PZ, &got));
    is(IT_ERR_PZ_BUSY, it_pz_free(other));
    ok(it_address_handle_query(ah, IT_ADDR_PARAM_PZ, &got));
    ck_assert_ptr_eq(got.pz, other);
    got.pz = b.pz;
    is(IT_ERR_INVALID_PZ, it_address_handle_modify(ah, IT_ADDR_PARAM_PZ, &got));
    got.path = bad;
    is(IT_ERR_INVALID_SOURCE_PATH, it_address_handle_modify(ah, IT_ADDR_PARAM_PATH, &got));
    got.path = path;
    got.path.spigot_id = 1000;
    is(IT_ERR_INVALID_SPIGOT, it_address_handle_modify(ah, IT_ADDR_PARAM_PATH, &got));
    is(IT_ERR_FAULT, it_address_handle_modify(ah, IT_ADDR_PARAM_PATH, NULL));
    is(IT_ERR_FAULT, it_address_handle_query(ah, IT_ADDR_PARAM_ALL, NULL));
    ok(it_address_handle_free(ah));
    is(IT_ERR_INVALID_AH, it_address_handle_free(ah));
    ok(it_pz_free(other));
}
END_TEST

/* A source address that is not the Spigot's. */
START_TEST(source_path)
{
    it_addr_handle_t ah;
    it_path_t path;

    open_both(IFACE);
    path = way(&a, &b);
    if (path.u.iwarp.ip_vers != IT_IP_VERS_IPV4)
        tc_skip("Paths of the interface are not of IP addresses");
    path.u.iwarp.laddr.ipv4.s_addr = htobe32(0xc0000201u); /* 192.0.2.1, an example's */
    is(IT_ERR_INVALID_SOURCE_PATH, it_address_handle_create(a.pz, &path, (it_ah_flags_t)0, &ah));
}
END_TEST

/* The same way as a Path of IP addresses and as one of GIDs. */
START_TEST(path_of_gids)
{
    it_net_addr_t address, gid;
    it_dg_remote_ep_addr_t to;
    it_addr_param_t change;
    it_path_t path;
    it_status_t gone;

    open_both(IFACE);
    address = node_address(&b, IT_IPV4);
    ok(it_convert_net_addr(&address, IT_IB_GID, &gid));
    path = path_to(&a, &gid);
    ck_assert_mem_eq(&path.u.ib.remote_port_gid, &gid.addr.gid, sizeof(gid.addr.gid));
    to = destination(handle_for(&a, &path), own_info(b.ep));
    ok(receive_at(b.ep, 0, 1000, 1));
    ok(send_part(&to, 0, SOME, 2));
    ck_assert_int_eq(expect_datagram(&b, 1, SOME).flags, IT_UD_IB_GRH_PRESENT);
    /* Changes the handle to an unreachable address, unless the adapter detects and refuses that;
     * then back. */
    change.path = path;
    change.path.u.ib.remote_port_gid.s6_addr[15] ^= 0x55;
    gone = it_address_handle_modify(to.addr.ud.addr, IT_ADDR_PARAM_PATH, &change);
    if (gone != IT_SUCCESS)
        is(IT_ERR_INVALID_SOURCE_PATH, gone);
    ok(it_address_handle_query(to.addr.ud.addr, IT_ADDR_PARAM_PATH, &change));
    ck_assert_int_eq(memcmp(&change.path, &path, sizeof(path)) == 0, gone != IT_SUCCESS);
    change.path = path;
    ok(it_address_handle_modify(to.addr.ud.addr, IT_ADDR_PARAM_PATH, &change));
    expect_done(a.requests, SEND, 2, IT_DTO_SUCCESS);
    ok(receive_at(b.ep, 0, 1000, 3));
    ok(send_part(&to, 0, SOME, 4));
    expect_datagram(&b, 3, SOME);
}
END_TEST

START_TEST(gid_and_ip)
{
    it_net_addr_t four = { .addr_type = IT_IPV4 }, six = { .addr_type = IT_IPV6 }, got;

    four.addr.ipv4.s_addr = htobe32(0x0a000102u);
    ok(it_convert_net_addr(&four, IT_IB_GID, &got));
    ck_assert_int_eq(got.addr_type, IT_IB_GID);
    ck_assert_uint_eq(got.addr.gid.s6_addr[11], 0xff);
    ck_assert_uint_eq(got.addr.gid.s6_addr[15], 2);
    ok(it_convert_net_addr(&got, IT_IPV4, &got));
    ck_assert_uint_eq(got.addr.ipv4.s_addr, four.addr.ipv4.s_addr);
    six.addr.ipv6.s6_addr[0] = 0xfe;
    six.addr.ipv6.s6_addr[1] = 0x80;
    six.addr.ipv6.s6_addr[15] = 5;
    ok(it_convert_net_addr(&six, IT_IB_GID, &got));
    ck_assert_mem_eq(&got.addr.gid, &six.addr.ipv6, 16);
    is(IT_ERR_INVALID_CONVERSION, it_convert_net_addr(&got, IT_IPV4, &six));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_ud");
    TCase *tc = tc_case(suite, "ud", NULL, close_both);

    tcase_set_timeout(tc, 60);
    add_each(tc, interface_says_what_it_has, rc_endpoints_take_no_datagrams);
#ifdef CONTROLLED_KEYS
    add_each(tc, keys_of_the_privileged);
#endif
    add_where(tc, FX_DATAGRAMS, endpoint_created_and_queried, endpoint_refused, no_connection_calls,
              endpoint_modified, error_and_reset, sizes, segments, answered, lost, posts_refused,
              slots, places_of_datagrams, unsignaled, address_handle, source_path, path_of_gids);
    tcase_add_test(tc, gid_and_ip);
    return tc_main(suite);
}
