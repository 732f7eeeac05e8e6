/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections whose QP is the consumer's, connections that outlive their QP, and what consumers of
 * InfiniBand give rdma_cm. */
#include "attempt.h"

#include "tc.h"

#include <arpa/inet.h>

static struct ri_connect_param external(void)
{
    return (struct ri_connect_param){ .size = sizeof(struct ri_connect_param),
                                      .destination = (const struct sockaddr *)&there,
                                      .deadline = RI_NO_DEADLINE,
                                      .qpn = 0x17,
                                      .srq = true,
                                      .ird = 5,
                                      .ord = 7,
                                      .retries_given = true,
                                      .retry_count = 2,
                                      .outlives_qp = true };
}

static void resolve_both(void)
{
    fake_cm_device(id, "fake0");
    tell(RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    tell(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
}

static void numbers_are_told(void)
{
    ck_assert_uint_eq(fake_numbers.size, sizeof(fake_numbers));
    ck_assert_uint_eq(fake_numbers.destination_qpn, 0x123456);
    ck_assert_uint_eq(fake_numbers.receive_psn, 0xabcdef);
    ck_assert_uint_eq(fake_numbers.send_psn, 0x654321);
    ck_assert_uint_eq(fake_numbers.path_mtu, 1024);
    ck_assert_uint_eq(fake_numbers.timeout, 19);
    ck_assert_uint_eq(fake_numbers.retry_count, 5);
    ck_assert_uint_eq(fake_numbers.rnr_retry, 6);
    ck_assert_uint_eq(fake_numbers.path.traffic_class, 7);
}

/* The acceptance is told with the numbers, no QP is moved, and confirm sends the third leg. */
START_TEST(active_side)
{
    struct ri_connect_param param = external();

    ck_assert_int_eq(ops()->connect(connection, NULL, &param), RI_OK);
    resolve_both();
    ck_assert_uint_eq(id->param.qp_num, 0x17);
    ck_assert_uint_eq(id->param.srq, 1);
    ck_assert_uint_eq(id->param.retry_count, 2);
    ck_assert_uint_eq(id->param.rnr_retry_count, 0);
    ck_assert_uint_eq(id->param.flow_control, 0);
    tell(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &reply);
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_ACCEPTED);
    numbers_are_told();
    ck_assert_int_eq(ops()->confirm(connection, &param), RI_OK);
    fake_run(&set);
    ck_assert_uint_eq(id->calls[FAKE_ESTABLISH], 1);
    ck_assert_int_eq(news(2)->type, RI_CONNECTION_ESTABLISHED);
    ck_assert_uint_eq(news(2)->ord, 3);
    ck_assert_int_eq(ops()->disconnect(connection, NULL, 0), RI_OK);
    tell(RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    ck_assert_int_eq(news(3)->type, RI_CONNECTION_DISCONNECTED);
    tell(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
    ck_assert_int_eq(news(4)->type, RI_CONNECTION_TIME_WAIT_EXIT);
    tell(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
    news(4);
    ck_assert_int_ne(fake_qp(set.qp)->state, IBV_QPS_ERR);
}
END_TEST

static const struct rdma_conn_param asked = { .responder_resources = 9, .initiator_depth = 2 };

static struct ri_listener *ask(void)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct ri_listen_param param = { .size = sizeof(param),
                                     .address = (const struct sockaddr *)&in,
                                     .backlog = 4,
                                     .reuse_address = true };
    struct sockaddr_storage bound;
    struct ri_listener *listener;

    ck_assert_int_eq(ops()->connection_destroy(connection), RI_OK);
    ck_assert_int_eq(ops()->listen(set.host.rnic, &param, &set, &bound, &listener), RI_OK);
    ck_assert_uint_eq(fake_ids()->options[RDMA_OPTION_ID_REUSEADDR], 1);
    id = fake_cm_request(fake_ids(), &asked);
    fake_run(&set);
    connection = fake_asked;
    return listener;
}

/* The request has the numbers. What the QP hears early establishes the connection. */
START_TEST(passive_side)
{
    struct ri_connect_param param = external();
    struct ri_listener *listener = ask();

    numbers_are_told();
    ck_assert_int_eq(ops()->confirm(connection, &param), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(ops()->accept(connection, NULL, &param), RI_OK);
    ck_assert_uint_eq(id->param.qp_num, 0x17);
    ck_assert_uint_eq(id->calls[FAKE_NOTIFY], 0);
    ck_assert_int_eq(ops()->confirm(connection, &param), RI_OK);
    ck_assert_uint_eq(id->calls[FAKE_NOTIFY], 1);
    tell(RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_ESTABLISHED);
    ck_assert_int_eq(ops()->confirm(connection, &param), RI_ERR_INVALID_STATE);
    tell(RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    ck_assert_int_eq(news(2)->type, RI_CONNECTION_DISCONNECTED);
    ck_assert_int_eq(ops()->listen_destroy(listener), RI_OK);
}
END_TEST

/* A QP that is put into error does not end the connection; disconnect does. */
START_TEST(outlived_qp)
{
    struct ri_qp_modify error = { .size = sizeof(error),
                                  .mask = RI_QPM_STATE,
                                  .state = RI_QPS_ERROR };
    struct ri_connect_param param = external();

    ck_assert_int_eq(ops()->connect(connection, set.qp, &param), RI_OK);
    resolve_both();
    tell(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &reply);
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_ESTABLISHED);
    ck_assert_int_eq(ops()->qp_modify(set.qp, &error), RI_OK);
    ck_assert_uint_eq(id->calls[FAKE_DISCONNECT], 0);
    news(1);
    ck_assert_int_eq(ops()->disconnect(connection, NULL, 0), RI_OK);
    ck_assert_uint_eq(id->calls[FAKE_DISCONNECT], 1);
}
END_TEST

/* The peer's disconnect leaves the QP to its consumer: what was sent may still be acknowledged. */
START_TEST(outlived_connection)
{
    struct ri_connect_param param = external();

    ck_assert_int_eq(ops()->connect(connection, set.qp, &param), RI_OK);
    resolve_both();
    tell(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &reply);
    tell(RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    ck_assert_int_eq(news(2)->type, RI_CONNECTION_DISCONNECTED);
    ck_assert_int_eq(fake_qp(set.qp)->state, IBV_QPS_RTS);
}
END_TEST

START_TEST(options)
{
    struct ri_connect_param param = external();

    param.traffic_class = 0x60;
    param.ack_timeout_given = true;
    param.local_ack_timeout = 14;
    ck_assert_int_eq(ops()->connect(connection, set.qp, &param), RI_OK);
    ck_assert_uint_eq(id->options[RDMA_OPTION_ID_TOS], 0x60);
    ck_assert_uint_eq(id->options[RDMA_OPTION_ID_ACK_TIMEOUT], 14);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdmacore_external");
    TCase *all = tc_case(suite, "external", attempt_setup, attempt_teardown);

    tc_add_tests(all, active_side, passive_side, outlived_qp, outlived_connection, options);
    return tc_main(suite);
}
