/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of connections share: see attempt.h. */
#include "attempt.h"

#include "tc.h"

struct ri_connection *connection;
struct fake_id *id;
const struct sockaddr_in there = { .sin_family = AF_INET, .sin_port = 0x1234 };

const struct ri_privileged_ops *ops(void)
{
    return &set.host.privileged;
}

void attempt_setup(void)
{
    fake_open(&set, false);
    ck_assert_int_eq(ops()->connection_create(set.host.rnic, &set, &connection), RI_OK);
    id = fake_id(connection);
}

void attempt_teardown(void)
{
    if (connection)
        ck_assert_int_eq(ops()->connection_destroy(connection), RI_OK);
    fake_close(&set);
}

enum ri_status connect_with(bool three_way)
{
    struct ri_connect_param param = {
        .size = sizeof(param),
        .destination = (const struct sockaddr *)&there,
        .deadline = RI_NO_DEADLINE,
        .private_data = "hello",
        .private_data_length = 5,
        .ird = 5,
        .ord = 7,
        .three_way = three_way,
    };

    return ops()->connect(connection, set.qp, &param);
}

void tell(enum rdma_cm_event_type type, int status, const struct rdma_conn_param *param)
{
    fake_cm(id, type, status, param);
    fake_run(&set);
    ck_assert_uint_eq(fake_unacknowledged(), 0);
}

void request(bool three_way)
{
    ck_assert_int_eq(connect_with(three_way), RI_OK);
    ck_assert_int_eq(connect_with(three_way), RI_ERR_INVALID_STATE);
    fake_cm_device(id, "fake0");
    tell(RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    ck_assert_uint_eq(id->calls[FAKE_CONNECT], 0);
    tell(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    ck_assert_uint_eq(id->calls[FAKE_CONNECT], 1);
    ck_assert_uint_eq(fake_events.count, 0);
}

const struct ri_connection_event *news(unsigned int number)
{
    ck_assert_uint_eq(fake_events.count, number);
    return &fake_events.event[number - 1];
}

const struct rdma_conn_param reply = { .private_data = "welcome\0\0\0",
                                       .private_data_len = 10,
                                       .responder_resources = 4,
                                       .initiator_depth = 3 };

void establish(void)
{
    request(false);
    tell(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &reply);
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_ESTABLISHED);
}
