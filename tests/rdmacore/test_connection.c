/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection verbs over rdma_cm: every step of both sides, every reject reason. */
#include "attempt.h"

#include "tc.h"

#include <arpa/inet.h>
#include <signal.h>

START_TEST(two_way)
{
    struct ri_qp_info info = { .size = sizeof(info) };
    const struct ri_connection_event *event;

    request(false);
    ck_assert_uint_eq(id->param.responder_resources, 5);
    ck_assert_uint_eq(id->param.initiator_depth, 7);
    ck_assert_uint_eq(id->param.qp_num, fake_qp(set.qp)->ibv.qp_num);
    ck_assert_uint_eq(id->param.rnr_retry_count, 7);
    ck_assert_uint_eq(id->private_length, 5);
    ck_assert_mem_eq(id->private_data, "hello", 5);
    tell(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &reply);
    event = news(1);
    ck_assert_int_eq(event->type, RI_CONNECTION_ESTABLISHED);
    ck_assert_uint_eq(event->private_data_length, 10);
    ck_assert_mem_eq(fake_events.private_data, "welcome", 7);
    ck_assert(event->depths_valid);
    ck_assert_uint_eq(event->ird, 4); /* the peer asks for no more */
    ck_assert_uint_eq(event->ord, 3); /* the peer serves no more */
    ck_assert_uint_eq(id->calls[FAKE_ESTABLISH], 1);
    ck_assert_uint_eq(fake_qp(set.qp)->modified[IBV_QPS_RTR], 1);
    ck_assert_int_eq(fake_qp(set.qp)->state, IBV_QPS_RTS);
    ck_assert_uint_eq(fake_qp(set.qp)->last.max_rd_atomic, 3);
    ck_assert_int_eq(ops()->qp_query(set.qp, &info), RI_OK);
    ck_assert_int_eq(info.state, RI_QPS_RTS);
    ck_assert_uint_eq(info.ird, 4);
    ck_assert_uint_eq(info.ord, 3);
    fake_host_expire_timers(&set.host);
    fake_run(&set);
    ck_assert_uint_eq(fake_events.count, 1); /* the attempt's deadline is cancelled */
}
END_TEST

START_TEST(three_way)
{
    struct ri_connect_param param = { .size = sizeof(param) };

    ck_assert_int_eq(ops()->confirm(connection, &param), RI_ERR_INVALID_STATE);
    request(true);
    tell(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &reply);
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_ACCEPTED);
    ck_assert_uint_eq(news(1)->private_data_length, 10);
    ck_assert_uint_eq(id->calls[FAKE_ESTABLISH], 0);
    ck_assert_int_eq(ops()->confirm(connection, &param), RI_OK);
    ck_assert_int_eq(ops()->confirm(connection, &param), RI_ERR_INVALID_STATE);
    fake_run(&set);
    ck_assert_int_eq(news(2)->type, RI_CONNECTION_ESTABLISHED);
    ck_assert_uint_eq(id->calls[FAKE_ESTABLISH], 1);
    ck_assert_int_eq(fake_qp(set.qp)->state, IBV_QPS_RTS);
}
END_TEST

START_TEST(three_way_rejected)
{
    request(true);
    tell(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &reply);
    ck_assert_int_eq(ops()->reject(connection, "no", 2), RI_OK);
    ck_assert_uint_eq(id->calls[FAKE_REJECT], 1);
    ck_assert_uint_eq(id->private_length, 2);
    ck_assert_int_eq(ops()->reject(connection, NULL, 0), RI_ERR_INVALID_STATE);
    ck_assert_uint_eq(fake_events.count, 1);
}
END_TEST

/* The peer leaves after its acceptance. 1: the third leg is due then. */
START_TEST(three_way_withdrawn)
{
    struct ri_connect_param param = { .size = sizeof(param) };

    request(true);
    tell(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &reply);
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_ACCEPTED);
    if (_i)
        ck_assert_int_eq(ops()->confirm(connection, &param), RI_OK);
    tell(RDMA_CM_EVENT_REJECTED, 28, NULL);
    ck_assert_int_eq(news(2)->type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(news(2)->reason, RI_REASON_OTHER);
    ck_assert_int_eq(ops()->confirm(connection, &param), RI_ERR_INVALID_STATE);
}
END_TEST

/* Fixed-size fields of zeros contain no private data. */
START_TEST(padding_is_no_data)
{
    static const uint8_t zeros[148];
    struct rdma_conn_param param = { .private_data = zeros, .private_data_len = sizeof(zeros) };

    request(false);
    tell(RDMA_CM_EVENT_REJECTED, 28, &param);
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_REJECTED);
    ck_assert_uint_eq(news(1)->private_data_length, 0);
    ck_assert_ptr_null(news(1)->private_data);
}
END_TEST

/* The table of the IB CM's reject reasons. Others map to OTHER; 28 is the peer's consumer. */
static enum ri_connection_reason expected_reason(int number)
{
    switch (number) {
    case 1 ... 3: return RI_REASON_RESOURCES;
    case 4: return RI_REASON_TIMEOUT;
    case 5 ... 7:
    case 9:
    case 29 ... 31: return RI_REASON_PARAMETERS;
    case 8: return RI_REASON_REFUSED;
    case 10: return RI_REASON_STALE;
    case 12 ... 23:
    case 26:
    case 32 ... 33: return RI_REASON_UNREACHABLE;
    case 27: return RI_REASON_READ_DEPTH;
    default: return RI_REASON_OTHER;
    }
}

START_TEST(reject_reasons)
{
    request(false);
    tell(RDMA_CM_EVENT_REJECTED, _i, NULL);
    ck_assert_uint_eq(news(1)->reject_code, (unsigned int)_i);
    if (_i == 28) {
        ck_assert_int_eq(news(1)->type, RI_CONNECTION_REJECTED);
        return;
    }
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(news(1)->reason, expected_reason(_i));
    /* where nobody listens the QP keeps its receives for another attempt */
    ck_assert_int_eq(fake_qp(set.qp)->state,
                     expected_reason(_i) == RI_REASON_REFUSED ? IBV_QPS_INIT : IBV_QPS_ERR);
}
END_TEST

static const struct {
    enum rdma_cm_event_type event;
    int status;
    enum ri_connection_reason reason;
} failures[] = {
    { RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, RI_REASON_TIMEOUT },
    { RDMA_CM_EVENT_CONNECT_ERROR, -ECONNREFUSED, RI_REASON_REFUSED },
    { RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL, RI_REASON_PARAMETERS },
    { RDMA_CM_EVENT_CONNECT_ERROR, -ENOMEM, RI_REASON_RESOURCES },
    { RDMA_CM_EVENT_CONNECT_ERROR, -EHOSTUNREACH, RI_REASON_UNREACHABLE },
    { RDMA_CM_EVENT_CONNECT_ERROR, 0, RI_REASON_OTHER },
    { RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, RI_REASON_REFUSED },
    { RDMA_CM_EVENT_DEVICE_REMOVAL, 0, RI_REASON_OTHER },
};

START_TEST(other_failures)
{
    request(false);
    tell(failures[_i].event, failures[_i].status, NULL);
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(news(1)->reason, failures[_i].reason);
    tell(failures[_i].event, failures[_i].status, NULL);
    ck_assert_uint_eq(fake_events.count, 1); /* once */
    ck_assert_uint_eq(fake_rnic_events, failures[_i].event == RDMA_CM_EVENT_DEVICE_REMOVAL);
}
END_TEST

START_TEST(no_address)
{
    ck_assert_int_eq(connect_with(false), RI_OK);
    tell(RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT, NULL);
    ck_assert_int_eq(news(1)->reason, RI_REASON_UNREACHABLE);
}
END_TEST

/* rdma_cm chooses the device by the address: an address of another device is an error. */
START_TEST(wrong_device)
{
    ck_assert_int_eq(connect_with(false), RI_OK);
    fake_cm_device(id, "other0");
    tell(RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(news(1)->reason, RI_REASON_UNREACHABLE);
}
END_TEST

/* No answer: the failure is reported as such, and the identifier is destroyed, so that the peer is
 * informed. */
START_TEST(deadline)
{
    request(false);
    fake_host_expire_timers(&set.host);
    fake_run(&set);
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(news(1)->reason, RI_REASON_TIMEOUT);
    ck_assert(id->destroyed);
    ck_assert_int_eq(ops()->disconnect(connection, NULL, 0), RI_ERR_INVALID_STATE);
}
END_TEST

/* A QP of datagrams has no connection. */
START_TEST(wrong_queue_pair)
{
    struct ri_qp_attr attr = {
        .size = sizeof(attr), .type = RI_QP_UD, .send_cq = set.cq, .recv_cq = set.cq
    };
    struct ri_connect_param param = { .size = sizeof(param),
                                      .destination = (const struct sockaddr *)&there };
    struct ri_qp *ud;

    ck_assert_int_eq(ops()->qp_create(set.pd, &attr, &ud), RI_OK);
    ck_assert_int_eq(ops()->connect(connection, ud, &param), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(ops()->accept(connection, ud, &param), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(ops()->qp_destroy(ud), RI_OK);
}
END_TEST

/* The consumer's own retry counts, of which 0 is one; without them, the maximum. */
START_TEST(counts_of_retries)
{
    struct ri_connect_param param = { .size = sizeof(param),
                                      .destination = (const struct sockaddr *)&there,
                                      .deadline = RI_NO_DEADLINE,
                                      .rnr_retry_count = 3,
                                      .tuned = _i };

    ck_assert_int_eq(ops()->connect(connection, set.qp, &param), RI_OK);
    fake_cm_device(id, "fake0");
    tell(RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    tell(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    ck_assert_uint_eq(id->param.retry_count, _i ? 0 : 7);
    ck_assert_uint_eq(id->param.rnr_retry_count, _i ? 3 : 7);
}
END_TEST

START_TEST(wrong_arguments)
{
    struct ri_connect_param param = { .size = sizeof(param),
                                      .destination = (const struct sockaddr *)&there,
                                      .private_data_length = 57,
                                      .private_data = "" };

    ck_assert_int_eq(ops()->connect(connection, set.qp, &param), RI_ERR_LIMIT);
    param.private_data = NULL;
    ck_assert_int_eq(ops()->connect(connection, set.qp, &param), RI_ERR_INVALID_ARGUMENT);
    param.destination = NULL;
    ck_assert_int_eq(ops()->connect(connection, set.qp, &param), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(ops()->accept(connection, set.qp, &param), RI_ERR_INVALID_ARGUMENT);
    param.private_data_length = 0;
    ck_assert_int_eq(ops()->accept(connection, set.qp, &param), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(ops()->reject(connection, NULL, 0), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(ops()->reject(connection, "", 149), RI_ERR_LIMIT);
}
END_TEST

/* The depths that the device states, 16 and 255, and no more. */
START_TEST(depths_beyond_the_device)
{
    struct ri_connect_param param = { .size = sizeof(param),
                                      .destination = (const struct sockaddr *)&there,
                                      .deadline = RI_NO_DEADLINE,
                                      .ird = 17 };

    ck_assert_int_eq(ops()->connect(connection, set.qp, &param), RI_ERR_LIMIT);
    ck_assert_int_eq(ops()->accept(connection, set.qp, &param), RI_ERR_LIMIT);
    param.ird = 16;
    param.ord = 256;
    ck_assert_int_eq(ops()->connect(connection, set.qp, &param), RI_ERR_LIMIT);
    ck_assert_int_eq(ops()->accept(connection, set.qp, &param), RI_ERR_LIMIT);
    param.ord = 255;
    ck_assert_int_eq(ops()->connect(connection, set.qp, &param), RI_OK);
    fake_cm_device(id, "fake0");
    tell(RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    tell(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    ck_assert_uint_eq(id->param.responder_resources, 16);
    ck_assert_uint_eq(id->param.initiator_depth, 255);
}
END_TEST

/* ---- passive ---- */

static struct ri_listener *listen_on(const char *address, struct sockaddr_storage *bound)
{
    struct sockaddr_in in = { .sin_family = AF_INET };
    struct ri_listen_param param = { .size = sizeof(param),
                                     .address = (const struct sockaddr *)&in,
                                     .backlog = 4 };
    struct ri_listener *listener;

    ck_assert_int_eq(inet_pton(AF_INET, address, &in.sin_addr), 1);
    ck_assert_int_eq(ops()->listen(set.host.rnic, &param, &set, bound, &listener), RI_OK);
    return listener;
}

static const struct rdma_conn_param asked = {
    .private_data = "who", .private_data_len = 3, .responder_resources = 9, .initiator_depth = 2
};

/* Replaces the fixture's connection. */
static void ask(struct fake_id *listener)
{
    ck_assert_int_eq(ops()->connection_destroy(connection), RI_OK);
    id = fake_cm_request(listener, &asked);
    fake_run(&set);
    ck_assert_ptr_nonnull(fake_asked);
    connection = fake_asked;
    ck_assert_ptr_eq(fake_id(connection), id);
}

START_TEST(accepted)
{
    struct ri_connect_param param = {
        .size = sizeof(param), .ird = 6, .ord = 8, .private_data = "you", .private_data_length = 3
    };
    struct sockaddr_storage bound;
    struct ri_listener *listener = listen_on("127.0.0.1", &bound);

    ck_assert_uint_eq(ntohs(((struct sockaddr_in *)&bound)->sin_port), 4711);
    ask(fake_ids());
    ck_assert_uint_eq(fake_request.private_data_length, 3);
    ck_assert_uint_eq(fake_request.ord, 9); /* the requester's own values */
    ck_assert_uint_eq(fake_request.ird, 2);
    ck_assert(fake_request.depths_valid);
    ck_assert_int_eq(ops()->accept(connection, set.qp, &param), RI_OK);
    ck_assert_uint_eq(id->calls[FAKE_ACCEPT], 1);
    ck_assert_uint_eq(id->param.responder_resources, 6);
    ck_assert_uint_eq(id->param.initiator_depth, 2); /* no more than the peer serves */
    ck_assert_mem_eq(id->private_data, "you", 3);
    ck_assert_int_eq(fake_qp(set.qp)->state, IBV_QPS_RTS); /* the peer may speak at once */
    ck_assert_uint_eq(fake_events.count, 0);
    ck_assert_int_eq(ops()->listen_destroy(listener), RI_OK); /* has no effect any more */
    tell(RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_ESTABLISHED);
    ck_assert_uint_eq(news(1)->ird, 6);
    ck_assert_uint_eq(news(1)->ord, 2);
}
END_TEST

START_TEST(rejected)
{
    struct sockaddr_storage bound;
    struct ri_listener *listener = listen_on("127.0.0.1", &bound);

    ask(fake_ids());
    ck_assert_int_eq(ops()->reject(connection, "sorry", 5), RI_OK);
    ck_assert_uint_eq(id->calls[FAKE_REJECT], 1);
    ck_assert_mem_eq(id->private_data, "sorry", 5);
    ck_assert_int_eq(ops()->reject(connection, NULL, 0), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(ops()->listen_destroy(listener), RI_OK);
}
END_TEST

/* The requester gives up before the consumer decides. */
START_TEST(withdrawn)
{
    struct ri_connect_param param = { .size = sizeof(param) };
    struct sockaddr_storage bound;
    struct ri_listener *listener = listen_on("127.0.0.1", &bound);

    ask(fake_ids());
    tell(RDMA_CM_EVENT_REJECTED, 4, NULL);
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(ops()->accept(connection, set.qp, &param), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(ops()->listen_destroy(listener), RI_OK);
}
END_TEST

/* A wildcard stands for the addresses of the device's network interface, all on one port. */
START_TEST(wildcard)
{
    struct sockaddr_storage bound;
    struct ri_listener *listener = listen_on("0.0.0.0", &bound);
    const struct fake_id *at = fake_ids();
    unsigned int listening = 0;
    bool loopback = false;

    for (; at; at = at->next) {
        const struct sockaddr_in *in = (const void *)&at->id.route.addr.src_storage;

        if (!at->listening)
            continue;
        listening++;
        ck_assert_uint_eq(ntohs(in->sin_port), 4711);
        loopback |= in->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
    }
    ck_assert_uint_ge(listening, 1);
    ck_assert(loopback);
    ck_assert_uint_eq(((struct sockaddr_in *)&bound)->sin_addr.s_addr, INADDR_ANY);
    ck_assert_uint_eq(ntohs(((struct sockaddr_in *)&bound)->sin_port), 4711);
    ck_assert_int_eq(ops()->close(set.host.rnic, false), RI_ERR_BUSY);
    ck_assert_int_eq(ops()->listen_destroy(listener), RI_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdmacore_connection");
    TCase *active = tc_case(suite, "active", attempt_setup, attempt_teardown);
    TCase *passive = tc_case(suite, "passive", attempt_setup, attempt_teardown);

    tc_add_tests(active, two_way, three_way, three_way_rejected);
    tcase_add_loop_test(active, three_way_withdrawn, 0, 2);
    tcase_add_test(active, padding_is_no_data);
    tcase_add_loop_test(active, reject_reasons, 1, 36);
    tc_add_rows(active, other_failures, failures);
    tc_add_tests(active, no_address, wrong_device, deadline, wrong_arguments,
                 depths_beyond_the_device, wrong_queue_pair);
    tcase_add_loop_test(active, counts_of_retries, 0, 2);
    tc_add_tests(passive, accepted, rejected, withdrawn, wildcard);
    return tc_main(suite);
}
