/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams above kal: service requests for an endpoint and their answers, listen points for both
 * kinds.
 */
#include "ual/mechanism/mechanism_private.h"
#include "datagrams.h"

#include "ual/policy/evd_private.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* --- the asking side --- */

static struct ual_connect question_to(const struct sockaddr_in *to)
{
    return (struct ual_connect){ .destination = (const struct sockaddr *)to,
                                 .service_id = 0x123456789abcull,
                                 .timeout_us = UINT64_MAX,
                                 .private_data = "who",
                                 .private_data_length = 3 };
}

static struct ual_ud_request *make_question(void)
{
    struct sockaddr_in to = address(4791);
    struct ual_connect ask = question_to(&to);
    struct ual_ud_request *made;

    ok(ual_ud_request_create(connect_evd, &ask, 0, &made));
    return made;
}

static struct ri_connection_event reply_of(enum ri_service_status status)
{
    struct ri_connection_event event = news(RI_CONNECTION_SERVICE_REPLY);

    event.service_status = status;
    event.remote_qpn = 99;
    event.remote_qkey = 98;
    event.private_data = "here";
    event.private_data_length = 4;
    return event;
}

START_TEST(question_and_answer)
{
    static const struct ri_ah_attr path = { .destination_lid = 9 };
    struct ri_connection_event reply = reply_of(RI_SERVICE_VALID);
    struct ual_connection_event got;
    struct ual_ud_request *question;

    question = make_question();
    ck_assert_uint_eq(fk.connections, 0); /* no effect before the request is sent */
    ok(ual_ud_request_send(question));
    ck_assert_uint_eq(fk.questions, 1);
    ck_assert_uint_eq(fk.connection->param.service_id, 0x123456789abcull);
    ck_assert_uint_eq(fk.connection->param.private_data_length, 3);
    ck_assert_uint_eq(fk.connection->param.deadline, RI_NO_DEADLINE);
    ck_assert_ptr_null(fk.connection->param.source);
    reply.path = &path;
    fk_connection_event(fk.connection, &reply);
    got = expect(connect_evd, UAL_SERVICE_REPLY);
    ck_assert_uint_eq(got.ep, ual_handle_of(question));
    ck_assert_uint_eq(got.service.status, RI_SERVICE_VALID);
    ck_assert_uint_eq(got.service.qpn, 99);
    ck_assert_uint_eq(got.service.qkey, 98);
    ck_assert(got.service.path_known);
    ck_assert_uint_eq(got.service.path.destination_lid, 9);
    ck_assert_uint_eq(got.private_data_length, 4);
    fails(ual_evd_free(connect_evd), RI_ERR_BUSY);
    ok(ual_ud_request_free(question));
    ck_assert_uint_eq(fk.connections, 0);
}
END_TEST

/* With another status the answer has no endpoint. */
START_TEST(refused_answer)
{
    struct ri_connection_event reply = reply_of(RI_SERVICE_REJECTED);
    struct ual_connection_event got;

    ok(ual_ud_request_send(make_question()));
    fk_connection_event(fk.connection, &reply);
    got = expect(connect_evd, UAL_SERVICE_REPLY);
    ck_assert_uint_eq(got.service.status, RI_SERVICE_REJECTED);
    ck_assert_uint_eq(got.service.qpn, 0);
    ck_assert_uint_eq(got.service.qkey, 0);
    ck_assert(!got.service.path_known);
}
END_TEST

/* Without an answer there is no event. A new request abandons the one before, whose answer is
 * dropped. */
START_TEST(asked_again)
{
    struct ri_connection_event reply = reply_of(RI_SERVICE_VALID);
    struct ual_ud_request *question;

    question = make_question();
    ok(ual_ud_request_send(question));
    tell(RI_CONNECTION_FAILED);
    expect_nothing(connect_evd);
    ok(ual_ud_request_send(question));
    ck_assert_uint_eq(fk.connections, 1);
    fk_hold(true);
    fk_connection_event(fk.connection, &reply);
    ok(ual_ud_request_send(question));
    fk_hold(false);
    expect_nothing(connect_evd);
    fk_connection_event(fk.connection, &reply);
    fk_drain();
    ok(ual_ud_request_free(question)); /* with its answer still queued */
    expect_nothing(connect_evd);
}
END_TEST

START_TEST(question_refused)
{
    struct sockaddr_in to = address(4791);
    struct ual_connect ask = question_to(&to);
    struct ual_ud_request *question;

    fails(ual_ud_request_create(request_evd, &ask, 0, &question), RI_ERR_INVALID_ARGUMENT);
    ask.private_data_length = 101;
    fails(ual_ud_request_create(connect_evd, &ask, 0, &question), RI_ERR_LIMIT);
    ask = question_to(&to);
    ask.destination = NULL;
    fails(ual_ud_request_create(connect_evd, &ask, 0, &question), RI_ERR_INVALID_ARGUMENT);
    question = make_question();
    fk_fail(FK_CONNECTION_CREATE, ITAL_ERR_QUOTA);
    fails(ual_ud_request_send(question), ITAL_ERR_QUOTA);
    fk_fail(FK_SERVICE_REQUEST, RI_ERR_NOT_SUPPORTED);
    fails(ual_ud_request_send(question), RI_ERR_NOT_SUPPORTED);
    ck_assert_uint_eq(fk.connections, 0);
    ok(ual_ud_request_send(question));
    ask = question_to(&to);
    fk.attr.features &= ~(uint64_t)RI_FEATURE_UD;
    fails(ual_ud_request_create(connect_evd, &ask, 0, &question), RI_ERR_NOT_SUPPORTED);
}
END_TEST

/* --- the answering side --- */

static struct ual_request_event asked(void)
{
    struct sockaddr_in local = address(7), peer = address(8);
    struct ri_connect_request request = {
        .size = sizeof(request), .private_data = "who", .private_data_length = 3, .datagram = true
    };
    struct ual_event event;

    memcpy(&request.local, &local, sizeof(local));
    memcpy(&request.peer, &peer, sizeof(peer));
    fk_request(fk.listener, &request);
    event = next_event(request_evd);
    ck_assert(event.request.datagram);
    ck_assert_uint_eq(event.request.private_data_length, 3);
    return event.request;
}

static struct ual_service_reply valid(void)
{
    return (struct ual_service_reply){ .status = RI_SERVICE_VALID,
                                       .qpn = 17,
                                       .qkey = 77,
                                       .private_data = "me",
                                       .private_data_length = 2 };
}

START_TEST(answered)
{
    struct ual_service_reply reply = valid();
    ual_handle request;

    ok(create_ud(&ud));
    request = asked().request;
    ck_assert_ptr_eq(ual_service_request_ia(request), ia);
    ck_assert_ptr_null(ual_request_ia(request));
    ok(ual_service_reply(request, &reply));
    ck_assert_uint_eq(fk.replies, 1);
    ck_assert_ptr_eq(fk.service_reply.qp, ud->qp.qp);
    ck_assert_uint_eq(fk.service_reply.qkey, 77);
    ck_assert_uint_eq(fk.service_reply.private_data_length, 2);
    ck_assert_uint_eq(fk.connections, 0);
    fails(ual_service_reply(request, &reply), ITAL_ERR_INVALID_HANDLE);
    ck_assert_ptr_null(ual_service_request_ia(request));
    request = asked().request;
    reply.status = RI_SERVICE_NO_QP;
    ok(ual_service_reply(request, &reply));
    ck_assert_ptr_null(fk.service_reply.qp); /* ignored in that case */
    ck_assert_uint_eq(fk.service_reply.status, RI_SERVICE_NO_QP);
}
END_TEST

START_TEST(answer_refused)
{
    struct ual_service_reply reply = valid();
    ual_handle request;

    request = asked().request;
    fails(ual_service_reply(request, &reply), RI_ERR_INVALID_ARGUMENT); /* no such endpoint */
    make_ep();                                                          /* RC, same number */
    fails(ual_service_reply(request, &reply), RI_ERR_INVALID_ARGUMENT);
    ok(create_ud(&ud));
    fk.attr.service_qkey = 78;
    fails(ual_service_reply(request, &reply), RI_ERR_ACCESS);
    fk.attr.service_qkey = 77;
    reply.private_data_length = 51;
    fails(ual_service_reply(request, &reply), RI_ERR_LIMIT);
    reply = valid();
    fk_fail(FK_SERVICE_REPLY, RI_ERR_NO_RESOURCES);
    fails(ual_service_reply(request, &reply), RI_ERR_NO_RESOURCES);
    ck_assert_uint_eq(fk.replies, 0);
    ok(ual_service_reply(request, &reply)); /* none of them consumed it */
}
END_TEST

static pthread_t freeing;
static atomic_bool begun;

static void *free_ud(void *arg)
{
    (void)arg;
    atomic_store(&begun, true);
    ok(ual_ep_free(ud));
    return NULL;
}

/* Called in the provider's reply, which names the endpoint's QP. */
static void free_meanwhile(void)
{
    uint64_t until = tc_deadline(50);

    ck_assert_int_eq(pthread_create(&freeing, NULL, free_ud, NULL), 0);
    while (!atomic_load(&begun) || !tc_expired(until))
        sched_yield();
    ck_assert_uint_eq(fk.qps, 1);
}

START_TEST(endpoint_freed_while_it_is_told)
{
    struct ual_service_reply reply = valid();
    ual_handle request;

    ok(create_ud(&ud));
    request = asked().request;
    fk.during_reply = free_meanwhile;
    ok(ual_service_reply(request, &reply));
    fk.during_reply = NULL;
    ck_assert_int_eq(pthread_join(freeing, NULL), 0);
    ck_assert_uint_eq(fk.qps, 0);
    request = asked().request;
    fails(ual_service_reply(request, &reply), RI_ERR_INVALID_ARGUMENT);
}
END_TEST

/* Any peer can send service requests without end: they fill their share, and take nothing from
 * connection requests, nor the reverse. */
START_TEST(each_kind_has_its_room)
{
    struct ri_connect_request request = { .size = sizeof(request), .datagram = _i == 0 };

    for (unsigned int i = 0; i < 6; i++)
        fk_request(fk.listener, &request);
    request.datagram = !request.datagram;
    for (unsigned int i = 0; i < 5; i++)
        fk_request(fk.listener, &request);
    fk_drain();
    ck_assert_uint_eq(fk.waiting, 3);    /* of each kind, 4 have room */
    for (unsigned int i = 0; i < 8; i++) /* requests that waited follow */
        ck_assert_int_eq(next_event(request_evd).request.datagram, (i < 4) == (_i == 0));
    for (unsigned int i = 0; i < 3; i++)
        next_event(request_evd);
    ck_assert_uint_eq(fk.waiting, 0);
}
END_TEST

static atomic_bool no_memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

/* Fails once, at the size that the EVD's list allocates for a request event. */
void *__wrap_malloc(size_t size)
{
    size_t event = offsetof(struct whole_node, event.request) + sizeof(struct ual_request_event);
    bool fails = size == event && atomic_exchange(&no_memory, false);

    return fails ? NULL : __real_malloc(size);
}

/* A request without memory for its event would wait for room that never comes: it is dropped at
 * once, and the next one is reported. */
START_TEST(no_memory_for_a_request)
{
    struct ri_connect_request request = { .size = sizeof(request), .datagram = true };

    atomic_store(&no_memory, true);
    fk_request(fk.listener, &request);
    fk_drain();
    ck_assert(!atomic_load(&no_memory));
    ck_assert_uint_eq(fk.waiting, 0);
    ck_assert_uint_eq(fk.connections, 0);
    asked();
}
END_TEST

/* Neither kind of request can be answered as the other. */
START_TEST(two_kinds)
{
    struct ual_service_reply reply = valid();
    ual_handle datagram, connection;

    ok(create_ud(&ud));
    ep = make_ep();
    datagram = asked().request;
    connection = ask().request;
    fails(ual_service_reply(connection, &reply), ITAL_ERR_INVALID_HANDLE);
    fails(accept_it(ep, datagram), ITAL_ERR_INVALID_HANDLE);
    fails(ual_reject(datagram, NULL, 0), ITAL_ERR_INVALID_HANDLE);
    ok(ual_service_reply(datagram, &reply));
    ok(accept_it(ep, connection));
}
END_TEST

START_TEST(withdrawn)
{
    struct ual_service_reply reply = valid();
    ual_handle request;

    ok(create_ud(&ud));
    request = asked().request;
    fk_withdraw(fk.connection, true);
    fk_drain();
    fails(ual_service_reply(request, &reply), ITAL_ERR_INVALID_HANDLE);
    request = asked().request;
    fk_withdraw(fk.connection, false);
    fails(ual_service_reply(request, &reply), ITAL_ERR_INVALID_HANDLE);
    asked(); /* undecided when the IA goes */
}
END_TEST

/* --- listen points --- */

START_TEST(listen_for_both)
{
    struct sockaddr_in any = address(0);
    struct ual_listen *listen;

    ck_assert_uint_eq(fk.listeners, 2);
    ck_assert(fk.listen_param.datagram);
    ok(ual_listen_free(listen_point));
    ck_assert_uint_eq(fk.listeners, 0);
    fk.listen_kind[1] = RI_ERR_NOT_SUPPORTED;
    ok(ual_listen_create(ia, 0, request_evd, (struct sockaddr *)&any, true, NULL, &listen));
    ck_assert_uint_eq(fk.listeners, 1);
    fk.listen_kind[1] = RI_ERR_ADDRESS_IN_USE;
    fails(ual_listen_create(ia, 0, request_evd, (struct sockaddr *)&any, true, NULL, &listen),
          RI_ERR_ADDRESS_IN_USE);
    ck_assert_uint_eq(fk.listeners, 1); /* its first half is freed again */
    fk.listen_kind[0] = RI_ERR_ADDRESS_IN_USE;
    fk.listen_kind[1] = RI_OK;
    fails(ual_listen_create(ia, 0, request_evd, (struct sockaddr *)&any, true, NULL, &listen),
          RI_ERR_ADDRESS_IN_USE);
    ck_assert_uint_eq(fk.listeners, 1);
}
END_TEST

START_TEST(one_port_for_both)
{
    struct sockaddr_storage bound;
    struct sockaddr_in any = address(0);
    struct ual_listen *listen;

    ok(ual_listen_create(ia, 0, request_evd, (struct sockaddr *)&any, true, &bound, &listen));
    ck_assert_uint_eq(((struct sockaddr_in *)&bound)->sin_port, htons(4711));
    ck_assert_uint_eq(fk.datagram_port, 4711);
    fk.listen_kind[0] = RI_ERR_NOT_SUPPORTED; /* then the other kind picks one */
    ok(ual_listen_create(ia, 0, request_evd, (struct sockaddr *)&any, true, &bound, &listen));
    ck_assert_uint_eq(fk.datagram_port, 0);
    ck_assert_uint_eq(((struct sockaddr_in *)&bound)->sin_port, htons(4711));
}
END_TEST

START_TEST(listen_on_a_service)
{
    struct ual_listen *listen;

    fails(ual_listen_create_service(ia, 0, request_evd, 0, true, &listen), RI_ERR_INVALID_ARGUMENT);
    fk.listen_kind[0] = RI_ERR_NOT_SUPPORTED;
    ok(ual_listen_create_service(ia, 0, request_evd, 0x1112223334445556ull, true, &listen));
    ck_assert_uint_eq(fk.listen_param.service_id, 0x1112223334445556ull);
    ck_assert_uint_eq(ual_listen_service_id(listen), 0x1112223334445556ull);
    ck_assert_uint_eq(ual_listen_service_id(listen_point), 0);
    fk.listen_kind[1] = RI_ERR_NOT_SUPPORTED;
    fails(ual_listen_create_service(ia, 0, request_evd, 5, true, &listen), RI_ERR_NOT_SUPPORTED);
}
END_TEST

/* An adapter without datagrams gets no listen for them. */
START_TEST(listen_without_datagrams)
{
    ck_assert_uint_eq(fk.listeners, 1);
    ck_assert(!fk.listen_param.datagram);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("datagrams: service");
    TCase *tc = tc_case(suite, "ud", open_datagrams, close_ia);
    TCase *without = tc_case(suite, "without", open_ia, close_ia);

    tc_add_tests(tc, question_and_answer, refused_answer, asked_again, question_refused, answered,
                 answer_refused, endpoint_freed_while_it_is_told);
    tcase_add_loop_test(tc, each_kind_has_its_room, 0, 2);
    tc_add_tests(tc, no_memory_for_a_request, two_kinds, withdrawn, listen_for_both,
                 one_port_for_both, listen_on_a_service);
    tcase_add_test(without, listen_without_datagrams);
    return tc_main(suite);
}
