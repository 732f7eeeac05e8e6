/* SPDX-License-Identifier: BSD-3-Clause */
/* Resolving a UD endpoint by its service: requests, answers, refusals; listen points by service ID.
 * Both ends are in this process. */
#include "ud.h"

#include <endian.h>

#define SERVICE 0x01110000u /* RDMA IP CM service: UDP port */

static it_ud_svc_req_handle_t ask_on(const it_conn_qual_t *qualifier, const void *data,
                                     size_t length)
{
    it_ud_svc_req_handle_t question;
    it_path_t path = way(&a, &b);

    ok(it_ud_service_request_handle_create(qualifier, a.connections, &path, data, length,
                                           &question));
    ok(it_ud_service_request(question));
    return question;
}

static it_ud_svc_request_event_t expect_question(void)
{
    return expect(b.asked, IT_CM_REQ_UD_SERVICE_REQUEST_EVENT).ud_svc_request;
}

static it_ud_svc_reply_event_t expect_answer(it_ud_svc_req_handle_t question,
                                             it_ud_svc_req_status_t status)
{
    it_ud_svc_reply_event_t got =
        expect(a.connections, IT_CM_MSG_UD_SERVICE_REPLY_EVENT).ud_svc_reply;

    ck_assert_ptr_eq(got.ud_svc, question);
    ck_assert_int_eq(got.status, status);
    return got;
}

/* The whole exchange: request, answer, a datagram to the address in the answer. */
static void found_by(const it_conn_qual_t *listened, const it_conn_qual_t *asked)
{
    it_ud_svc_req_handle_t question = ask_on(asked, "who", 3);
    it_ud_svc_request_event_t request = expect_question();
    it_remote_ep_info_t info = own_info(b.ep);
    it_dg_remote_ep_addr_t to;
    it_ud_svc_reply_event_t reply;

    ck_assert(request.private_data_present);
    ck_assert_mem_eq(request.private_data, "who", 3);
    ck_assert_int_eq(request.conn_qual.type, listened->type);
    ck_assert_uint_eq(request.conn_qual.conn_qual.port, listened->conn_qual.port);
    ck_assert_uint_eq(request.spigot_id, b.info->spigot_info[0].spigot_id);
    ck_assert_int_eq(request.source_addr.addr_type, IT_IPV4);
    ok(it_ud_service_reply(request.ud_svc_req_id, IT_UD_SVC_EP_INFO_VALID, info,
                           (const unsigned char *)"me", 2));
    is(IT_ERR_INVALID_UD_SVC_REQ_ID,
       it_ud_service_reply(request.ud_svc_req_id, IT_UD_SVC_REQ_REJECTED, info, NULL, 0));
    reply = expect_answer(question, IT_UD_SVC_EP_INFO_VALID);
    ck_assert(reply.private_data_present);
    ck_assert_mem_eq(reply.private_data, "me", 2);
    ck_assert_uint_eq(reply.ep_info.ud_ep_id, info.ud_ep_id);
    ck_assert_uint_eq(reply.ep_info.ud_ep_key, info.ud_ep_key);
    to = destination(handle_for(&a, &reply.dst_path), reply.ep_info);
    ok(receive_at(b.ep, 0, 1000, 1));
    ok(send_part(&to, 0, SOME, 2));
    expect_datagram(&b, 1, SOME);
    ok(it_ud_service_request_handle_free(question));
    is(IT_ERR_INVALID_UD_SVC, it_ud_service_request(question));
}

START_TEST(found_by_port)
{
    it_conn_qual_t qualifier;

    open_both(IFACE);
    node_listen(&b);
    qualifier = towards(&b.qualifier);
    found_by(&b.qualifier, &qualifier);
}
END_TEST

/* Service IDs of ports, which every connection manager takes. */
START_TEST(found_by_service_id)
{
    it_conn_qual_t port = { .type = IT_IANA_PORT }, id = { .type = IT_IB_SERVICEID };
    it_listen_param_t got;

    open_both(IFACE);
    ck_assert(b.info->spigot_info[0].passive_side_conn_qual & IT_IB_SERVICEID);
    ok(it_listen_create(b.ia, 0, b.asked, IT_LISTEN_NO_FLAG, &port, &b.listen)); /* a free one */
    ok(it_listen_free(b.listen));
    id.conn_qual.serviceid = htobe64(SERVICE | be16toh(port.conn_qual.port));
    ok(it_listen_create(b.ia, 0, b.asked, IT_LISTEN_CONN_QUAL_INPUT, &id, &b.listen));
    ok(it_listen_query(b.listen, IT_LISTEN_PARAM_CONN_QUAL, &got));
    ck_assert_int_eq(got.connect_qual.type, IT_IB_SERVICEID);
    ck_assert_uint_eq(got.connect_qual.conn_qual.serviceid, id.conn_qual.serviceid);
    found_by(&id, &id);
    id.conn_qual.serviceid = 0;
    is(IT_ERR_INVALID_CONN_QUAL,
       it_listen_create(b.ia, 0, b.asked, IT_LISTEN_CONN_QUAL_INPUT, &id, &b.listen));
}
END_TEST

START_TEST(answered_with_a_refusal)
{
    it_ud_svc_req_handle_t question;
    it_ud_svc_request_event_t request;
    it_ud_svc_reply_event_t reply;
    it_remote_ep_info_t nobody = { 0, 0 };
    it_conn_qual_t qualifier;

    open_both(IFACE);
    node_listen(&b);
    qualifier = towards(&b.qualifier);
    question = ask_on(&qualifier, NULL, 0);
    request = expect_question();
    ck_assert(!request.private_data_present);
    is(IT_ERR_INVALID_UD_STATUS,
       it_ud_service_reply(request.ud_svc_req_id, (it_ud_svc_req_status_t)9, nobody, NULL, 0));
    ok(it_ud_service_reply(request.ud_svc_req_id, IT_UD_SVC_REQ_REJECTED, nobody,
                           (const unsigned char *)"no", 2));
    reply = expect_answer(question, IT_UD_SVC_REQ_REJECTED);
    ck_assert_mem_eq(reply.private_data, "no", 2);
}
END_TEST

/* Every refusal arrives with its reason or, where the connection manager has only one, as a
 * rejection; none of them reveals an endpoint. */
START_TEST(answered_with_each_refusal)
{
    it_remote_ep_info_t info;
    it_conn_qual_t qualifier;

    open_both(IFACE);
    node_listen(&b);
    info = own_info(b.ep);
    qualifier = towards(&b.qualifier);
    for (int status = IT_UD_SVC_ID_NOT_SUPPORTED; status <= IT_UD_REQ_REDIRECTED; status++) {
        it_ud_svc_req_handle_t question = ask_on(&qualifier, NULL, 0);
        it_ud_svc_reply_event_t reply;

        ok(it_ud_service_reply(expect_question().ud_svc_req_id, (it_ud_svc_req_status_t)status,
                               info, NULL, 0));
        reply = expect(a.connections, IT_CM_MSG_UD_SERVICE_REPLY_EVENT).ud_svc_reply;
        ck_assert_ptr_eq(reply.ud_svc, question);
        if ((int)reply.status != status)
            ck_assert_int_eq(reply.status, IT_UD_SVC_REQ_REJECTED);
        ck_assert_uint_eq(reply.ep_info.ud_ep_id, 0);
        ck_assert_uint_eq(reply.ep_info.ud_ep_key, 0);
        ok(it_ud_service_request_handle_free(question));
    }
}
END_TEST

START_TEST(nobody_listens)
{
    it_ud_svc_req_handle_t question;
    it_conn_qual_t qualifier;

    open_both(IFACE);
    node_listen(&b);
    qualifier = towards(&b.qualifier);
    ok(it_listen_free(b.listen));
    question = ask_on(&qualifier, NULL, 0);
    expect_answer(question, IT_UD_SVC_ID_NOT_SUPPORTED);
}
END_TEST

/* Without an answer there is no event. A repeated request is a new one, and the handle gets one
 * answer. */
START_TEST(asked_again)
{
    it_ud_svc_request_event_t request;
    it_ud_svc_req_handle_t question;
    it_conn_qual_t qualifier;

    open_both(IFACE);
    node_listen(&b);
    qualifier = towards(&b.qualifier);
    question = ask_on(&qualifier, "who", 3);
    expect_question();
    ok(it_ud_service_request(question));
    request = expect_question();
    ok(it_ud_service_reply(request.ud_svc_req_id, IT_UD_SVC_EP_INFO_VALID, own_info(b.ep), NULL,
                           0));
    expect_answer(question, IT_UD_SVC_EP_INFO_VALID);
    expect_nothing(a.connections);
    ok(it_ud_service_request(question)); /* and after an answer */
    request = expect_question();
    ok(it_ud_service_request_handle_free(question)); /* given up */
    ok(it_ud_service_reply(request.ud_svc_req_id, IT_UD_SVC_EP_INFO_VALID, own_info(b.ep), NULL,
                           0));
    expect_nothing(a.connections);
}
END_TEST

START_TEST(no_answer_in_time)
{
    it_ud_svc_req_handle_t question;
    it_conn_qual_t qualifier;
    it_path_t path;

    open_both(IFACE);
    node_listen(&b);
    qualifier = towards(&b.qualifier);
    path = way(&a, &b);
    path.timeout = 50000;
    ok(it_ud_service_request_handle_create(&qualifier, a.connections, &path, NULL, 0, &question));
    ok(it_ud_service_request(question));
    expect_question();
    expect_nothing(a.connections);
}
END_TEST

START_TEST(question_refused)
{
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT, .conn_qual.port = htobe16(7) }, bad;
    it_ud_svc_req_handle_t question;
    unsigned char data[IT_MAX_PRIV_DATA + 1] = { 0 };
    size_t most;
    it_path_t path, wrong;

    open_both(IFACE);
    path = way(&a, &b);
    most = a.info->ud_req_private_data_len;
    is(IT_ERR_INVALID_EVD_TYPE,
       it_ud_service_request_handle_create(&qualifier, a.asked, &path, NULL, 0, &question));
    is(IT_ERR_INVALID_PDATA_LENGTH,
       it_ud_service_request_handle_create(&qualifier, a.connections, &path, data, most + 1,
                                           &question));
    is(IT_ERR_FAULT,
       it_ud_service_request_handle_create(NULL, a.connections, &path, NULL, 0, &question));
    bad = qualifier;
    bad.conn_qual.port = 0;
    is(IT_ERR_INVALID_CONN_QUAL,
       it_ud_service_request_handle_create(&bad, a.connections, &path, NULL, 0, &question));
    bad.type = IT_VIA_DISCRIMINATOR;
    is(IT_ERR_INVALID_CONN_QUAL,
       it_ud_service_request_handle_create(&bad, a.connections, &path, NULL, 0, &question));
    wrong = path;
    wrong.spigot_id = 1000;
    is(IT_ERR_INVALID_SPIGOT,
       it_ud_service_request_handle_create(&qualifier, a.connections, &wrong, NULL, 0, &question));
    memset(&wrong, 0, sizeof(wrong));
    is(IT_ERR_INVALID_SOURCE_PATH,
       it_ud_service_request_handle_create(&qualifier, a.connections, &wrong, NULL, 0, &question));
    ok(it_ud_service_request_handle_create(&qualifier, a.connections, &path, data, most,
                                           &question));
    is(IT_ERR_EVD_BUSY, it_evd_free(a.connections));
}
END_TEST

START_TEST(question_queried)
{
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT, .conn_qual.port = htobe16(7) };
    it_ud_svc_req_handle_t question, second;
    it_ud_svc_req_param_t got, other;
    it_handle_type_enum_t type;
    it_path_t path;

    open_both(IFACE);
    path = way(&a, &b);
    ok(it_ud_service_request_handle_create(&qualifier, a.connections, &path,
                                           (const unsigned char *)"abc", 3, &question));
    ok(it_ud_service_request_handle_create(&qualifier, a.connections, &path, NULL, 0, &second));
    ok(it_get_handle_type(question, &type));
    ck_assert_int_eq(type, IT_HANDLE_TYPE_UD_SVC_REQ);
    ok(it_ud_service_request_handle_query(question, IT_UD_PARAM_ALL, &got));
    ck_assert_ptr_eq(got.ia, a.ia);
    ck_assert_ptr_eq(got.reply_evd, a.connections);
    ck_assert_uint_eq(got.conn_qual.conn_qual.port, qualifier.conn_qual.port);
    ck_assert_mem_eq(&got.destination_path, &path, sizeof(path));
    ck_assert_uint_eq(got.private_data_length, 3);
    ck_assert_mem_eq(got.private_data, "abc", 3);
    ok(it_ud_service_request_handle_query(second, IT_UD_PARAM_REQ_ID, &other));
    ck_assert_uint_ne(got.request_id, other.request_id);
    is(IT_ERR_INVALID_MASK,
       it_ud_service_request_handle_query(question, (it_ud_svc_req_param_mask_t)0x100, &got));
    is(IT_ERR_FAULT, it_ud_service_request_handle_query(question, IT_UD_PARAM_ALL, NULL));
}
END_TEST

/* Refused answer data. IDs of datagram and connection requests are not interchangeable. */
START_TEST(answer_refused)
{
    it_remote_ep_info_t info, other;
    it_ud_svc_request_event_t request;
    it_ud_svc_req_handle_t question;
    unsigned char data[IT_MAX_PRIV_DATA + 1] = { 0 };
    it_conn_qual_t qualifier;

    open_both(IFACE);
    node_listen(&b);
    info = own_info(b.ep);
    qualifier = towards(&b.qualifier);
    question = ask_on(&qualifier, NULL, 0);
    request = expect_question();
    is(IT_ERR_INVALID_CN_EST_ID, it_reject(request.ud_svc_req_id, NULL, 0));
    is(IT_ERR_INVALID_PDATA_LENGTH,
       it_ud_service_reply(request.ud_svc_req_id, IT_UD_SVC_EP_INFO_VALID, info, data,
                           b.info->ud_rep_private_data_len + 1));
    is(IT_ERR_FAULT,
       it_ud_service_reply(request.ud_svc_req_id, IT_UD_SVC_EP_INFO_VALID, info, NULL, 1));
    other = own_info(a.ep); /* of another IA */
    is(IT_ERR_INVALID_EP,
       it_ud_service_reply(request.ud_svc_req_id, IT_UD_SVC_EP_INFO_VALID, other, NULL, 0));
    ok(it_ud_service_reply(request.ud_svc_req_id, IT_UD_SVC_EP_INFO_VALID, info, data,
                           b.info->ud_rep_private_data_len));
    expect_answer(question, IT_UD_SVC_EP_INFO_VALID);
}
END_TEST

/* Requests that are undecided, pending or incomplete are freed with their IA. */
START_TEST(closed_with_everything_open)
{
    it_dg_remote_ep_addr_t to;
    it_conn_qual_t qualifier;

    open_both(IFACE);
    node_listen(&b);
    qualifier = towards(&b.qualifier);
    to = towards_b();
    ok(receive_at(b.ep, 0, 1000, 1));
    ok(send_part(&to, 0, SOME, 2));
    ask_on(&qualifier, NULL, 0);
    expect_question();
    ask_on(&qualifier, NULL, 0);
}
END_TEST

/* --- without datagrams --- */

START_TEST(refused_without_datagrams)
{
    it_path_t path = { .timeout = 0 };
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT, .conn_qual.port = htobe16(7) };
    it_ud_svc_req_handle_t question;

    node_open(&a, IFACE);
    is(IT_ERR_OP_NOT_SUPPORTED,
       it_ud_service_request_handle_create(&qualifier, a.connections, &path, NULL, 0, &question));
    node_close(&a);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_ud_service");
    TCase *tc = tc_case(suite, "ud", NULL, close_both);

    tcase_set_timeout(tc, 60);
    add_where(tc, FX_DATAGRAMS, found_by_port);
    add_where(tc, FX_DATAGRAMS | FX_SERVICE_IDS, found_by_service_id);
    add_where(tc, FX_DATAGRAMS, answered_with_a_refusal, answered_with_each_refusal, nobody_listens,
              asked_again, no_answer_in_time, question_refused, question_queried, answer_refused,
              closed_with_everything_open);
    add_without(tc, FX_DATAGRAMS, refused_without_datagrams);
    return tc_main(suite);
}
