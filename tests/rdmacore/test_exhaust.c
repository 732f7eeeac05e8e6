/* SPDX-License-Identifier: BSD-3-Clause */
/* Resources that run out: each call of rdma-core fails in its turn. */
#include "work.h"

#include "tc.h"

#include <netinet/in.h>

struct built {
    struct ri_pd *pd;
    struct ri_cq *cq;
    struct ri_qp *qp, *datagrams;
    struct ri_srq *srq;
    struct ri_mr *mr;
    struct ri_mw *mw;
    struct ri_ah *ah;
    struct ri_connection *connection;
    struct ri_listener *listener;
};

static enum ri_status build_memory(struct built *b)
{
    struct ri_mr_attr region_attr = {
        .size = sizeof(region_attr), .access = RI_ACCESS_LOCAL_READ, .addr = data, .length = 64
    };
    struct ri_ah_attr ah = { .size = sizeof(ah), .destination_gid = { 0xfe, 0x80, [15] = 2 } };
    const struct ri_privileged_ops *ops = &set.host.privileged;
    enum ri_status status = ops->pd_create(set.host.rnic, NULL, &b->pd);
    struct ri_mr_keys keys;
    uint32_t stag;

    if (status == RI_OK)
        status = ops->mr_register(b->pd, &region_attr, &keys, &b->mr);
    if (status == RI_OK)
        status = ops->mw_allocate(b->pd, true, NULL, &stag, &b->mw);
    return status == RI_OK ? ops->ah_create(b->pd, &ah, &b->ah) : status;
}

static enum ri_status build_queues(struct built *b)
{
    const struct ri_qp_modify start = { .size = sizeof(start),
                                        .mask = RI_QPM_STATE,
                                        .state = RI_QPS_RTS };
    struct ri_cq_attr cq = { .size = sizeof(cq), .depth = 8 };
    struct ri_srq_attr srq = { .size = sizeof(srq), .max_wr = 4, .max_sge = 1 };
    struct ri_qp_attr qp = { .size = sizeof(qp), .type = RI_QP_RC, .max_send_wr = 2 };
    const struct ri_privileged_ops *ops = &set.host.privileged;
    enum ri_status status = ops->cq_create(set.host.rnic, &cq, &b->cq);

    if (status == RI_OK)
        status = ops->srq_create(b->pd, &srq, &b->srq);
    qp.send_cq = qp.recv_cq = b->cq;
    qp.srq = b->srq;
    if (status == RI_OK)
        status = ops->qp_create(b->pd, &qp, &b->qp);
    qp.type = RI_QP_UD;
    qp.max_inline = 0; /* the returned value of the first one */
    if (status == RI_OK)
        status = ops->qp_create(b->pd, &qp, &b->datagrams);
    return status == RI_OK ? ops->qp_modify(b->datagrams, &start) : status;
}

static enum ri_status build_connections(struct built *b)
{
    const struct sockaddr_in there = { .sin_family = AF_INET, .sin_port = 0x1234 };
    const struct ri_connect_param param = { .size = sizeof(param),
                                            .destination = (const struct sockaddr *)&there,
                                            .deadline = RI_NO_DEADLINE };
    const struct ri_listen_param listen = { .size = sizeof(listen),
                                            .address = (const struct sockaddr *)&there,
                                            .datagram = true };
    const struct ri_privileged_ops *ops = &set.host.privileged;
    enum ri_status status = ops->connection_create(set.host.rnic, NULL, &b->connection);
    struct sockaddr_storage bound;

    if (status == RI_OK)
        status = ops->service_request(b->connection, &param);
    return status == RI_OK ? ops->listen(set.host.rnic, &listen, NULL, &bound, &b->listener)
                           : status;
}

#define TEAR_DOWN(how, object)                                        \
    do {                                                              \
        if (object)                                                   \
            ck_assert_int_eq(set.host.privileged.how(object), RI_OK); \
    } while (0)

static void tear_down(const struct built *b)
{
    TEAR_DOWN(listen_destroy, b->listener);
    TEAR_DOWN(connection_destroy, b->connection);
    TEAR_DOWN(qp_destroy, b->datagrams);
    TEAR_DOWN(qp_destroy, b->qp);
    TEAR_DOWN(srq_destroy, b->srq);
    TEAR_DOWN(cq_destroy, b->cq);
    TEAR_DOWN(ah_destroy, b->ah);
    TEAR_DOWN(mw_free, b->mw);
    TEAR_DOWN(mr_deregister, b->mr);
    TEAR_DOWN(pd_destroy, b->pd);
}

/* Whichever call of rdma-core fails, the verb that needed it reports the error, and no object is
 * left. */
START_TEST(nothing_stays_of_what_failed)
{
    const int before = fake_objects();
    unsigned int n = 0, helped = 0;
    bool failed;

    do {
        struct built built = { .pd = NULL };
        enum ri_status status;

        fake_fail_call(++n, ENOMEM);
        status = build_memory(&built);
        if (status == RI_OK)
            status = build_queues(&built);
        if (status == RI_OK)
            status = build_connections(&built);
        failed = fake_call_failed();
        fake_fail_call(0, 0);
        if (status == RI_OK)
            helped += failed;
        else
            ck_assert_int_eq(status, RI_ERR_NO_RESOURCES);
        ck_assert(failed || status == RI_OK);
        tear_down(&built);
        ck_assert_int_eq(fake_objects(), before);
    } while (failed);
    ck_assert_uint_gt(n, 16);     /* calls of rdma-core plus one */
    ck_assert_uint_eq(helped, 2); /* queue pairs are tried a second time, without inline data */
}
END_TEST

/* rdma-core's channels are created after its attributes are read. In between a CQ is created on
 * trial, and its failure is a valid answer. */
START_TEST(nothing_stays_of_a_failed_open)
{
    static const unsigned int needed[] = { 1, 2, 3, 6, 7 };

    fake_begin();
    fake_modules();
    fake_device("fake0", false, true);
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        struct fake_host host;

        fake_fail_call(needed[i], EPERM);
        ck_assert_int_eq(fake_host_open(&host, NULL), RI_ERR_PERMISSION);
        ck_assert(fake_call_failed());
        ck_assert_int_eq(fake_objects(), 0);
        ck_assert_uint_eq(host.logged[RI_LOG_ERROR], 1);
        fake_host_free(&host);
    }
}
END_TEST

/* A device whose CQs cannot be resized. */
START_TEST(cq_cannot_be_resized)
{
    uint32_t depth = 16;

    fake_fail_call(5, EOPNOTSUPP);
    work_setup();
    ck_assert_int_eq(set.host.privileged.cq_resize(set.cq, &depth), RI_ERR_NOT_SUPPORTED);
    work_teardown();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdmacore_exhaust");
    TCase *objects = tc_case(suite, "objects", work_setup, work_teardown),
          *opening = tc_case(suite, "opening", NULL, NULL);

    tcase_add_test(objects, nothing_stays_of_what_failed);
    tc_add_tests(opening, nothing_stays_of_a_failed_open, cq_cannot_be_resized);
    return tc_main(suite);
}
