/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: what is passed through to kal and back, and how a listener handles requests. */
#include "conn_fixture.h"

/* --- the active side --- */

START_TEST(connect_passes_through)
{
    struct ri_connect_param param = to(4791);

    ok(ual_conn_connect(conn, qp, &param));
    ck_assert_ptr_eq(fk.connection->qp, fk.qp);
    ck_assert_uint_eq(fk.connection->param.ird, 2);
    ck_assert_uint_eq(fk.connection->param.private_data_length, 5);
    ck_assert_ptr_eq(fk.connection->param.destination, &destination);
    ck_assert_ptr_null(fk.connection->param.source);
    fails(ual_conn_connect(conn, qp, &param), RI_ERR_INVALID_STATE);
    fk_establish(fk.connection);
    ck_assert_uint_eq(events(&one), 1);
    ck_assert_int_eq(one.type, RI_CONNECTION_ESTABLISHED);
    tell(RI_CONNECTION_DISCONNECTED, 3);
    ck_assert_uint_eq(events(&one), 2);
    ck_assert_uint_eq(one.private_data_length, 3);
    ck_assert(!pthread_equal(one.thread, pthread_self())); /* in the lane */
}
END_TEST

/* A failed call has started nothing: the object is as new, and another attempt may follow. */
START_TEST(failed_calls_say_why_and_leave_nothing)
{
    static const enum ri_status table[] = { RI_ERR_UNREACHABLE,    RI_ERR_PERMISSION,
                                            RI_ERR_ADDRESS_IN_USE, ITAL_ERR_QUOTA,
                                            RI_ERR_LIMIT,          RI_ERR_NOT_SUPPORTED };
    struct ual_adopt_param adopt = { .fd = 0 };
    struct ri_connect_param param = to(1);

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        fk_fail(FK_CONNECTION_CREATE, table[i]);
        fails(ual_conn_connect(conn, qp, &param), table[i]);
        fk_fail(FK_CONNECT, table[i]);
        fails(ual_conn_connect(conn, qp, &param), table[i]);
        fk_fail(FK_CONVERT, table[i]);
        fails(ual_conn_adopt(conn, qp, &adopt), table[i]);
        fk_fail(FK_SERVICE_REQUEST, table[i]);
        fails(ual_conn_ask(conn, &param), table[i]);
        ck_assert_uint_eq(fk.connections, 0);
    }
    ok(ual_conn_connect(conn, qp, &param));
    ck_assert_uint_eq(events(&one), 0);
    fk_rnic_event(RI_EVENT_RNIC_FATAL, 0);
    fk_drain();
    ual_conn_free(conn);
    fails(ual_conn_create(device, &upcalls, &one, &conn), RI_ERR_DEVICE);
    conn = NULL;
}
END_TEST

START_TEST(without_a_connection_there_is_nothing_to_do)
{
    struct ri_connection_event info = { .size = sizeof(info) };
    struct ri_service_reply reply = { .size = sizeof(reply) };
    struct ri_connect_param param = to(1);

    fails(ual_conn_accept(conn, qp, &param), RI_ERR_INVALID_STATE);
    fails(ual_conn_attach(conn, qp), RI_ERR_INVALID_STATE);
    fails(ual_conn_confirm(conn, &param), RI_ERR_INVALID_STATE);
    fails(ual_conn_reject(conn, NULL, 0), RI_ERR_INVALID_STATE);
    fails(ual_conn_disconnect(conn, qp, NULL, 0), RI_ERR_INVALID_STATE);
    fails(ual_conn_query(conn, &info), RI_ERR_INVALID_STATE);
    fails(ual_conn_answer(conn, &reply), RI_ERR_INVALID_STATE);
    ual_conn_room(conn);
}
END_TEST

START_TEST(three_way)
{
    struct ri_connect_param param = to(1);

    param.three_way = true;
    ok(ual_conn_connect(conn, qp, &param));
    ck_assert(fk.connection->param.three_way);
    tell(RI_CONNECTION_ACCEPTED, 6);
    ck_assert_int_eq(one.type, RI_CONNECTION_ACCEPTED);
    ck_assert_uint_eq(one.private_data_length, 6);
    fk_fail(FK_CONFIRM, RI_ERR_TIMED_OUT);
    fails(ual_conn_confirm(conn, &param), RI_ERR_TIMED_OUT);
    ok(ual_conn_confirm(conn, &param));
    ck_assert_uint_eq(fk.confirms, 1);
    ok(ual_conn_reject(conn, NULL, 0)); /* which the fake kal does not refuse */
    ck_assert_uint_eq(fk.rejects, 1);
}
END_TEST

START_TEST(attached_later)
{
    struct ri_connect_param param = to(1);

    ok(ual_conn_connect(conn, NULL, &param));
    ck_assert_ptr_null(fk.connection->qp);
    ok(ual_conn_attach(conn, qp));
    ck_assert_ptr_eq(fk.connection->qp, fk.qp);
    fails(ual_conn_attach(conn, qp), RI_ERR_INVALID_STATE);
}
END_TEST

START_TEST(disconnect_and_query)
{
    struct ri_connection_event info = { .size = sizeof(info) };
    struct ri_connect_param param = to(1);

    ok(ual_conn_connect(conn, qp, &param));
    fails(ual_conn_disconnect(conn, qp, "bye", 3), RI_ERR_INVALID_STATE);
    fk.connection->info.ird = 12;
    fk_establish(fk.connection);
    fk_drain();
    ok(ual_conn_query(conn, &info));
    ck_assert_int_eq(info.type, RI_CONNECTION_ESTABLISHED);
    ck_assert_uint_eq(info.ird, 12);
    fk_fail(FK_DISCONNECT, RI_ERR_NOT_SUPPORTED);
    fails(ual_conn_disconnect(conn, qp, "bye", 3), RI_ERR_NOT_SUPPORTED);
    ok(ual_conn_disconnect(conn, qp, "bye", 3));
    ck_assert_uint_eq(fk.disconnects, 1);
    ck_assert_uint_eq(fk.connection->private_data_length, 3);
}
END_TEST

/* Freeing does not affect an established connection, and no event comes any more. */
START_TEST(freed_while_it_is_established)
{
    struct ri_connect_param param = to(1);
    struct ri_qp_info info;

    ok(ual_conn_connect(conn, qp, &param));
    fk_establish(fk.connection);
    ck_assert_uint_eq(events(&one), 1);
    fk_hold(true);
    fk_connection_event(fk.connection,
                        &(struct ri_connection_event){ .type = RI_CONNECTION_DISCONNECTED });
    ual_conn_free(conn);
    conn = NULL;
    fk_hold(false);
    ck_assert_uint_eq(events(&one), 1);
    ok(ual_qp_query(qp, &info));
    ck_assert_int_eq(info.state, RI_QPS_RTS);
}
END_TEST

START_TEST(asked_by_datagram)
{
    struct ri_connect_param param = to(1);

    ok(ual_conn_ask(conn, &param));
    ck_assert_uint_eq(fk.questions, 1);
    ck_assert_uint_eq(fk.connection->param.private_data_length, 5);
    tell(RI_CONNECTION_SERVICE_REPLY, 2);
    ck_assert_uint_eq(events(&one), 1);
    ck_assert_int_eq(one.type, RI_CONNECTION_SERVICE_REPLY);
    fails(ual_conn_ask(conn, &param), RI_ERR_INVALID_STATE); /* one request each */
}
END_TEST

START_TEST(adopt_passes_the_descriptor)
{
    struct ual_adopt_param param = {
        .fd = 42,
        .initiator = true,
        .startup_frames = true,
        .last_message = "go",
        .last_message_length = 2,
        .ird = 5,
        .ord = 6,
        .deadline = 77,
    };

    ok(ual_conn_adopt(conn, qp, &param));
    ck_assert_uint_eq(fk.converted.size, sizeof(fk.converted));
    ck_assert_int_eq(fk.converted.fd, 42);
    ck_assert(fk.converted.initiator);
    ck_assert(fk.converted.startup_frames);
    ck_assert_str_eq(fk.converted.last_message, "go");
    ck_assert_uint_eq(fk.converted.last_message_length, 2);
    ck_assert_uint_eq(fk.converted.ird, 5);
    ck_assert_uint_eq(fk.converted.ord, 6);
    ck_assert_uint_eq(fk.converted.deadline, 77);
    ck_assert_ptr_eq(fk.connection->qp, fk.qp);
    fk_establish(fk.connection);
    ck_assert_uint_eq(events(&one), 1);
}
END_TEST

/* --- the passive side --- */

START_TEST(taken_and_accepted)
{
    struct ri_connect_param param = to(1);
    struct ual_conn *request;

    listen_on(0);
    request = asked(false);
    fk_fail(FK_ACCEPT, RI_ERR_LIMIT);
    fails(ual_conn_accept(request, qp, &param), RI_ERR_LIMIT); /* still undecided */
    ok(ual_conn_accept(request, qp, &param));
    ck_assert_ptr_eq(fk.connection->qp, fk.qp);
    fk_establish(fk.connection);
    ck_assert_uint_eq(events(&one), 1);
    ck_assert_int_eq(one.type, RI_CONNECTION_ESTABLISHED);
    fails(ual_conn_accept(request, qp, &param), ITAL_ERR_INVALID_HANDLE);
    ual_conn_free(request);
    ck_assert_uint_eq(fk.connections, 0);
}
END_TEST

START_TEST(taken_and_rejected)
{
    struct ual_conn *request;

    listen_on(5);
    request = asked(false);
    fk_fail(FK_REJECT, RI_ERR_LIMIT);
    fails(ual_conn_reject(request, "no", 2), RI_ERR_LIMIT);
    ok(ual_conn_reject(request, "no", 2));
    ck_assert_uint_eq(fk.rejects, 1);
    ck_assert_uint_eq(fk.connections, 1); /* it remains to be freed */
    ual_conn_free(request);
    ck_assert_uint_eq(fk.connections, 0);
}
END_TEST

/* Passes it on to the original listener, which gets it as a new one; the first object is freed. */
START_TEST(taken_and_passed_on)
{
    struct ual_conn *request, *holder;
    struct sockaddr_in any = address(0);

    ok(ual_conn_create(device, &upcalls, &one, &holder));
    fails(ual_conn_pass_on(conn, conn), RI_ERR_INVALID_STATE); /* no request */
    listen_on(5);
    request = asked(false);
    fails(ual_conn_pass_on(request, holder), RI_ERR_INVALID_STATE); /* no listener */
    ok(ual_conn_bind(holder, (struct sockaddr *)&any, NULL));
    fails(ual_conn_pass_on(request, holder), RI_ERR_INVALID_STATE); /* it refuses all requests */
    ual_conn_free(holder);
    fk_fail(FK_MIGRATE, RI_ERR_NO_RESOURCES);
    fails(ual_conn_pass_on(request, conn), RI_ERR_NO_RESOURCES);
    ok(ual_conn_pass_on(request, conn)); /* it was still undecided */
    fk_drain();
    ck_assert_uint_eq(atomic_exchange(&one.requests, 0), 1);
    ck_assert_uint_eq(fk.connections, 1);
    request = one.request;
    fk_withdraw(fk.connection, false);
    fails(ual_conn_pass_on(request, conn), ITAL_ERR_INVALID_HANDLE);
    ual_conn_free(request);
    ck_assert_uint_eq(fk.connections, 0);
}
END_TEST

START_TEST(taken_and_answered)
{
    struct ri_service_reply reply = { .size = sizeof(reply), .qkey = 3 };
    struct ual_conn *request;

    listen_on(5);
    request = asked(true);
    ok(ual_conn_answer(request, &reply));
    ck_assert_uint_eq(fk.replies, 1);
    ck_assert_uint_eq(fk.service_reply.qkey, 3);
    fails(ual_conn_answer(request, &reply), ITAL_ERR_INVALID_HANDLE);
    ual_conn_free(request);
}
END_TEST

START_TEST(taken_and_withdrawn)
{
    struct ri_service_reply reply = { .size = sizeof(reply) };
    struct ri_connect_param param = to(1);
    struct ual_conn *request;

    listen_on(5);
    request = asked(false);
    fk_withdraw(fk.connection, true);
    ck_assert_uint_eq(events(&one), 1);
    ck_assert_int_eq(one.type, RI_CONNECTION_FAILED);
    fails(ual_conn_accept(request, qp, &param), ITAL_ERR_INVALID_HANDLE);
    fails(ual_conn_reject(request, NULL, 0), ITAL_ERR_INVALID_HANDLE);
    fails(ual_conn_answer(request, &reply), ITAL_ERR_INVALID_HANDLE);
    ual_conn_free(request);
}
END_TEST

/* Undecided requests outlive the listener. */
START_TEST(taken_and_the_listener_freed)
{
    struct ri_connect_param param = to(1);
    struct ual_conn *request;

    listen_on(5);
    request = asked(false);
    ual_conn_free(conn);
    conn = NULL;
    ck_assert_uint_eq(fk.listeners, 0);
    ok(ual_conn_accept(request, qp, &param));
    ual_conn_free(request);
}
END_TEST

START_TEST(deferred_until_there_is_room)
{
    listen_on(5);
    one.hearing = UAL_REQUEST_DEFERRED;
    ask(false);
    fk_drain();
    ck_assert_uint_eq(atomic_load(&one.requests), 1);
    ck_assert_uint_eq(fk.waiting, 1);
    ck_assert_uint_eq(fk.connections, 0);
    ual_conn_room(conn);
    fk_drain();
    ck_assert_uint_eq(atomic_load(&one.requests), 2);
    ck_assert_uint_eq(fk.waiting, 1); /* still none */
    one.hearing = UAL_REQUEST_TAKEN;
    ual_conn_room(conn);
    fk_drain();
    ck_assert_uint_eq(atomic_load(&one.requests), 3);
    ck_assert_uint_eq(fk.waiting, 0);
    ual_conn_free(one.request);
    one.hearing = UAL_REQUEST_DEFERRED;
    ask(false);
    fk_drain();
    ck_assert_uint_eq(fk.waiting, 1);
    ual_conn_free(conn); /* with the pending requests */
    conn = NULL;
    ck_assert_uint_eq(fk.waiting, 0);
}
END_TEST

START_TEST(dropped)
{
    listen_on(5);
    one.hearing = UAL_REQUEST_DROPPED;
    ask(false);
    ask(false);
    fk_drain();
    ck_assert_uint_eq(atomic_load(&one.requests), 2);
    ck_assert_uint_eq(fk.connections + fk.waiting, 0);
    ck_assert_ptr_null(one.request);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connections");

    tc_add_tests(tc_case(suite, "active", setup_conn, teardown_conn), connect_passes_through,
                 failed_calls_say_why_and_leave_nothing,
                 without_a_connection_there_is_nothing_to_do, three_way, attached_later,
                 disconnect_and_query, freed_while_it_is_established, asked_by_datagram,
                 adopt_passes_the_descriptor);
    tc_add_tests(tc_case(suite, "passive", setup_conn, teardown_conn), taken_and_accepted,
                 taken_and_rejected, taken_and_passed_on, taken_and_answered, taken_and_withdrawn,
                 taken_and_the_listener_freed, deferred_until_there_is_room, dropped);
    return tc_main(suite);
}
