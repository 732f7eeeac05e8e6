/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs that their consumers connect by numbers, on the fake device. */
#include "work.h"

#include "tc.h"

#include <arpa/inet.h>

static struct fake_record record;
static struct ri_qp *qp;

static const struct ri_privileged_ops *ops(void)
{
    return &set.host.privileged;
}

static struct ri_qp *make_qp(enum ri_qp_type type)
{
    struct ri_qp_attr attr = {
        .size = sizeof(attr),
        .type = type,
        .context = &record,
        .send_cq = set.cq,
        .recv_cq = set.cq,
        .max_send_wr = 4,
        .max_recv_wr = 4,
        .max_send_sge = 2,
        .max_recv_sge = 2,
        .flags = RI_QP_WRITE_ENABLE,
    };
    struct ri_qp *made;

    ck_assert_int_eq(ops()->qp_create(set.pd, &attr, &made), RI_OK);
    return made;
}

static void setup(void)
{
    work_setup();
    record = (struct fake_record){ .count = 0 };
    fake_gid(3, "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2);
    qp = make_qp(RI_QP_RC);
}

static void teardown(void)
{
    ck_assert_int_eq(ops()->qp_destroy(qp), RI_OK);
    work_teardown();
}

static struct ri_ah_attr path = { .size = sizeof(path), .hop_limit = 7, .flow_label = 0x12345 };

/* What each transition needs, of an RC QP. */
static struct ri_qp_modify step_to(enum ri_qp_state state)
{
    struct ri_qp_modify modify = {
        .size = sizeof(modify),
        .mask = RI_QPM_STATE,
        .state = state,
        .flags = RI_QP_READ_ENABLE,
        .path_mtu = 1024,
        .destination_qpn = 0x654321,
        .receive_psn = 0xfffffe,
        .send_psn = 0x010203,
        .timeout = 14,
        .retry_count = 6,
        .rnr_retry = 5,
        .rnr_timer = 12,
        .ird = 3,
        .ord = 2,
        .path = &path,
    };

    ck_assert_int_eq(inet_pton(AF_INET6, "::ffff:10.0.0.9", path.destination_gid), 1);
    ck_assert_int_eq(inet_pton(AF_INET6, "::ffff:10.0.0.1", path.source_gid), 1);
    switch (state) {
    case RI_QPS_INIT: modify.mask |= RI_QPM_PORT | RI_QPM_FLAGS; break;
    case RI_QPS_RTR:
        modify.mask |= RI_QPM_PATH | RI_QPM_PATH_MTU | RI_QPM_DESTINATION_QPN | RI_QPM_RECEIVE_PSN |
                       RI_QPM_IRD | RI_QPM_RNR_TIMER;
        break;
    case RI_QPS_RTS:
        modify.mask |= RI_QPM_SEND_PSN | RI_QPM_TIMEOUT | RI_QPM_RETRY_COUNT | RI_QPM_RNR_RETRY |
                       RI_QPM_ORD;
        break;
    default: break;
    }
    return modify;
}

static enum ri_status step(enum ri_qp_state state)
{
    struct ri_qp_modify modify = step_to(state);

    return ops()->qp_modify(qp, &modify);
}

static enum ri_status only_state(enum ri_qp_state state)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_STATE, .state = state };

    return ops()->qp_modify(qp, &modify);
}

static void go_to(enum ri_qp_state state)
{
    static const enum ri_qp_state steps[] = { RI_QPS_INIT, RI_QPS_RTR, RI_QPS_RTS };

    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(step(steps[i]), RI_OK);
        if (steps[i] == state)
            return;
    }
}

static struct ri_qp_info info(void)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    ck_assert_int_eq(ops()->qp_query(qp, &info), RI_OK);
    return info;
}

START_TEST(attributes_reach_the_device)
{
    const struct ibv_qp_attr *has = &fake_qp(qp)->has;

    ck_assert_int_eq(step(RI_QPS_INIT), RI_OK);
    ck_assert_int_eq(fake_qp(qp)->last.qp_access_flags, IBV_ACCESS_REMOTE_READ);
    ck_assert_int_eq(fake_qp(qp)->last_mask,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    ck_assert_int_eq(step(RI_QPS_RTR), RI_OK);
    ck_assert_int_eq(fake_qp(qp)->last_mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                                 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    ck_assert_int_eq(fake_qp(qp)->last.max_dest_rd_atomic, 3);
    ck_assert_int_eq(step(RI_QPS_RTS), RI_OK);
    ck_assert_int_eq(fake_qp(qp)->last_mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                                 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                 IBV_QP_MAX_QP_RD_ATOMIC);
    ck_assert_int_eq(fake_qp(qp)->last.max_rd_atomic, 2);
    ck_assert_int_eq(fake_qp(qp)->state, IBV_QPS_RTS);
    ck_assert_int_eq(has->path_mtu, IBV_MTU_1024);
    ck_assert_uint_eq(has->dest_qp_num, 0x654321);
    ck_assert_uint_eq(has->rq_psn, 0xfffffe);
    ck_assert_uint_eq(has->sq_psn, 0x010203);
    ck_assert_int_eq(has->timeout, 14);
    ck_assert_int_eq(has->retry_cnt, 6);
    ck_assert_int_eq(has->rnr_retry, 5);
    ck_assert_int_eq(has->min_rnr_timer, 12);
    ck_assert_int_eq(has->ah_attr.grh.sgid_index, 3);
    ck_assert_int_eq(has->ah_attr.grh.hop_limit, 7);
    ck_assert_uint_eq(has->ah_attr.grh.flow_label, 0x12345);
    ck_assert_mem_eq(has->ah_attr.grh.dgid.raw, path.destination_gid, 16);
}
END_TEST

START_TEST(attributes_come_back)
{
    const uint32_t early = RI_QPM_PORT | RI_QPM_PATH | RI_QPM_PATH_MTU | RI_QPM_DESTINATION_QPN |
                           RI_QPM_RECEIVE_PSN | RI_QPM_RNR_TIMER | RI_QPM_IRD;
    struct ri_qp_info got;

    ck_assert_uint_eq(info().known, 0);
    go_to(RI_QPS_RTR);
    got = info();
    ck_assert_int_eq(got.state, RI_QPS_RTR);
    ck_assert_uint_eq(got.known, early);
    ck_assert_int_eq(step(RI_QPS_RTS), RI_OK);
    got = info();
    ck_assert_int_eq(got.state, RI_QPS_RTS);
    ck_assert_uint_eq(got.known, early | RI_QPM_SEND_PSN | RI_QPM_TIMEOUT | RI_QPM_RETRY_COUNT |
                                     RI_QPM_RNR_RETRY | RI_QPM_ORD);
    ck_assert_uint_eq(got.qpn, fake_qp(qp)->ibv.qp_num);
    ck_assert_uint_eq(got.port, 0);
    ck_assert_uint_eq(got.path_mtu, 1024);
    ck_assert_uint_eq(got.destination_qpn, 0x654321);
    ck_assert_uint_eq(got.receive_psn, 0xfffffe);
    ck_assert_uint_eq(got.send_psn, 0x010203);
    ck_assert_uint_eq(got.timeout, 14);
    ck_assert_uint_eq(got.retry_count, 6);
    ck_assert_uint_eq(got.rnr_retry, 5);
    ck_assert_uint_eq(got.rnr_timer, 12);
    ck_assert_uint_eq(got.ird, 3);
    ck_assert_uint_eq(got.ord, 2);
    ck_assert_uint_eq(got.flags, RI_QP_READ_ENABLE);
    ck_assert_mem_eq(got.path.destination_gid, path.destination_gid, 16);
    ck_assert_mem_eq(got.path.source_gid, path.source_gid, 16);
    ck_assert_uint_eq(got.path.hop_limit, 7);
}
END_TEST

/* A mask with less or more, and values out of range: nothing changes. */
START_TEST(wrong_attributes_are_refused)
{
    static const struct {
        enum ri_qp_state state;
        uint32_t without, with;
        uint32_t set_mtu, set_psn, set_qpn;
        uint8_t set_timer;
    } cases[] = {
        { RI_QPS_INIT, RI_QPM_PORT, 0, 1024, 0, 0, 0 },
        { RI_QPS_INIT, 0, RI_QPM_SEND_PSN, 1024, 0, 0, 0 },
        { RI_QPS_RTR, RI_QPM_PATH, 0, 1024, 0, 0, 0 },
        { RI_QPS_RTR, RI_QPM_RNR_TIMER, 0, 1024, 0, 0, 0 },
        { RI_QPS_RTR, 0, RI_QPM_TIMEOUT, 1024, 0, 0, 0 },
        { RI_QPS_RTR, 0, 0, 1500, 0, 0, 0 },
        { RI_QPS_RTR, 0, 0, 1024, 1u << 24, 0, 0 },
        { RI_QPS_RTR, 0, 0, 1024, 0, 1u << 24, 0 },
        { RI_QPS_RTR, 0, 0, 1024, 0, 0, 32 },
        { RI_QPS_RTS, RI_QPM_SEND_PSN, 0, 1024, 0, 0, 0 },
        { RI_QPS_RTS, 0, RI_QPM_PATH, 1024, 0, 0, 0 },
    };
    enum ri_qp_state before;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ri_qp_modify modify = step_to(cases[i].state);

        ck_assert_int_eq(only_state(RI_QPS_IDLE), RI_OK);
        before = cases[i].state == RI_QPS_INIT ? RI_QPS_IDLE : cases[i].state - 1u;
        before = cases[i].state == RI_QPS_RTS ? RI_QPS_RTR : before;
        if (before != RI_QPS_IDLE)
            go_to(before);
        modify.mask = (modify.mask & ~cases[i].without) | cases[i].with;
        modify.path_mtu = cases[i].set_mtu;
        modify.receive_psn |= cases[i].set_psn;
        modify.destination_qpn |= cases[i].set_qpn;
        modify.rnr_timer |= cases[i].set_timer;
        ck_assert_msg(ops()->qp_modify(qp, &modify) == RI_ERR_INVALID_ARGUMENT, "case %zu", i);
        ck_assert_int_eq(info().state, before);
    }
}
END_TEST

START_TEST(wrong_transitions_are_refused)
{
    static const struct {
        enum ri_qp_state from, to;
    } cases[] = {
        { RI_QPS_IDLE, RI_QPS_RTR }, { RI_QPS_IDLE, RI_QPS_SQD }, { RI_QPS_INIT, RI_QPS_RTS },
        { RI_QPS_INIT, RI_QPS_SQD }, { RI_QPS_RTR, RI_QPS_INIT }, { RI_QPS_RTS, RI_QPS_RTR },
        { RI_QPS_RTS, RI_QPS_SQE },  { RI_QPS_RTS, RI_QPS_INIT }, { RI_QPS_RTS, RI_QPS_CLOSING },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(only_state(RI_QPS_IDLE), RI_OK);
        if (cases[i].from != RI_QPS_IDLE)
            go_to(cases[i].from);
        ck_assert_msg(step(cases[i].to) == RI_ERR_INVALID_STATE, "case %zu", i);
        ck_assert_int_eq(info().state, cases[i].from);
    }
}
END_TEST

/* The device's refusal leaves the QP as it was. */
START_TEST(device_refuses)
{
    go_to(RI_QPS_INIT);
    fake_fail_call(1, ENOMEM);
    ck_assert_int_eq(step(RI_QPS_RTR), RI_ERR_NO_RESOURCES);
    ck_assert_int_eq(info().state, RI_QPS_INIT);
    ck_assert_int_eq(inet_pton(AF_INET6, "::ffff:10.9.9.9", path.source_gid), 1);
    {
        struct ri_qp_modify modify = step_to(RI_QPS_RTR);

        ck_assert_int_eq(inet_pton(AF_INET6, "::ffff:10.9.9.9", path.source_gid), 1);
        ck_assert_int_eq(ops()->qp_modify(qp, &modify), RI_ERR_UNREACHABLE);
    }
    ck_assert_int_eq(step(RI_QPS_RTR), RI_OK);
}
END_TEST

/* Receives at any time, requests from RTS on. */
START_TEST(posts_by_state)
{
    static const enum ri_qp_state states[] = { RI_QPS_INIT, RI_QPS_RTR, RI_QPS_RTS };
    struct ri_sge sge = segment(100);
    struct ri_send_wr wr = { .sg_list = &sge, .num_sge = 1 };

    ck_assert_int_eq(receive(qp, 1, 0), RI_OK);
    for (unsigned int i = 0; i < 3; i++) {
        ck_assert_int_eq(step(states[i]), RI_OK);
        ck_assert_int_eq(post(qp, &wr), states[i] == RI_QPS_RTS ? RI_OK : RI_ERR_INVALID_STATE);
        ck_assert_int_eq(receive(qp, 2 + i, 0), RI_OK);
        ck_assert_uint_eq(fake_qp(qp)->receives, i + 2);
    }
    ck_assert_uint_eq(fake_qp(qp)->sends, 1);
}
END_TEST

START_TEST(failed_request_ends_it_once)
{
    go_to(RI_QPS_RTS);
    send_to(qp, 1, RI_WR_SIGNALED);
    send_to(qp, 2, RI_WR_SIGNALED);
    fake_sent(qp, set.cq, 0, IBV_WC_RETRY_EXC_ERR);
    ck_assert_int_eq(next().status, RI_WC_TRANSPORT);
    ck_assert_uint_eq(told(&record), 1);
    ck_assert_int_eq(record.type[0], RI_EVENT_LOCAL_ERROR);
    ck_assert_int_eq(info().state, RI_QPS_ERROR);
    fake_sent(qp, set.cq, 1, IBV_WC_WR_FLUSH_ERR);
    flushed(2, RI_WC_SEND);
    ck_assert_uint_eq(told(&record), 1);
}
END_TEST

START_TEST(error_by_modify_is_not_told)
{
    go_to(RI_QPS_RTS);
    send_to(qp, 1, RI_WR_SIGNALED);
    ck_assert_int_eq(only_state(RI_QPS_ERROR), RI_OK);
    fake_sent(qp, set.cq, 0, IBV_WC_WR_FLUSH_ERR);
    flushed(1, RI_WC_SEND);
    ck_assert_uint_eq(told(&record), 0);
    ck_assert_int_eq(only_state(RI_QPS_ERROR), RI_OK);
}
END_TEST

/* Nothing of the earlier life is polled; the number stays, and so do the places of both queues. */
START_TEST(idle_drops_everything)
{
    uint32_t number = info().qpn;

    for (unsigned int life = 0; life < 3; life++) {
        fake_qp(qp)->sends = fake_qp(qp)->receives = 0;
        go_to(RI_QPS_RTS);
        for (uint64_t i = 0; i < 4; i++) {
            send_to(qp, i, i % 2 ? RI_WR_SIGNALED : 0);
            ck_assert_int_eq(receive(qp, 10 + i, 0), RI_OK);
        }
        ck_assert_int_eq(receive(qp, 20, 0), RI_ERR_QUEUE_FULL);
        fake_sent(qp, set.cq, 1, IBV_WC_SUCCESS);
        fake_received(qp, set.cq, 0, IBV_WC_SUCCESS, 9);
        if (life == 2)
            ck_assert_int_eq(only_state(RI_QPS_ERROR), RI_OK);
        ck_assert_int_eq(only_state(RI_QPS_IDLE), RI_OK);
        nothing();
        ck_assert_int_eq(fake_qp(qp)->state, IBV_QPS_INIT);
        ck_assert_uint_eq(fake_qp(qp)->modified[IBV_QPS_RESET], life + 1);
        ck_assert_uint_eq(info().qpn, number);
        ck_assert_int_eq(info().state, RI_QPS_IDLE);
        ck_assert_uint_eq(info().known, 0);
    }
    ck_assert_uint_eq(told(&record), 0);
}
END_TEST

/* The device says when it is done. */
START_TEST(send_queue_drains)
{
    go_to(RI_QPS_RTS);
    ck_assert_int_eq(only_state(RI_QPS_SQD), RI_OK);
    ck_assert_int_eq(fake_qp(qp)->last_mask, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
    ck_assert_int_eq(info().state, RI_QPS_SQD);
    send_to(qp, 1, RI_WR_SIGNALED); /* the device keeps it */
    ck_assert_uint_eq(fake_qp(qp)->sends, 1);
    fake_async(IBV_EVENT_SQ_DRAINED, &fake_qp(qp)->ibv);
    fake_run(&set);
    ck_assert_uint_eq(told(&record), 1);
    ck_assert_int_eq(record.type[0], RI_EVENT_SEND_QUEUE_DRAINED);
    ck_assert_int_eq(only_state(RI_QPS_RTS), RI_OK);
    ck_assert_int_eq(info().state, RI_QPS_RTS);
}
END_TEST

START_TEST(first_message_is_told)
{
    go_to(RI_QPS_RTR);
    fake_async(IBV_EVENT_COMM_EST, &fake_qp(qp)->ibv);
    fake_run(&set);
    ck_assert_uint_eq(told(&record), 1);
    ck_assert_int_eq(record.type[0], RI_EVENT_COMMUNICATION_ESTABLISHED);
    ck_assert_int_eq(info().state, RI_QPS_RTR);
}
END_TEST

/* UC has no attributes of reliability, and survives a request that failed. */
START_TEST(unreliable_connection)
{
    const uint32_t reliable = RI_QPM_IRD | RI_QPM_ORD | RI_QPM_RNR_TIMER | RI_QPM_TIMEOUT |
                              RI_QPM_RETRY_COUNT | RI_QPM_RNR_RETRY;
    static const enum ri_qp_state states[] = { RI_QPS_INIT, RI_QPS_RTR, RI_QPS_RTS };

    ck_assert_int_eq(ops()->qp_destroy(qp), RI_OK);
    qp = make_qp(RI_QP_UC);
    ck_assert_int_eq(fake_qp(qp)->ibv.qp_type, IBV_QPT_UC);
    for (size_t i = 0; i < 3; i++) {
        struct ri_qp_modify modify = step_to(states[i]);

        if (states[i] != RI_QPS_INIT)
            ck_assert_int_eq(ops()->qp_modify(qp, &modify), RI_ERR_INVALID_ARGUMENT);
        modify.mask &= ~reliable;
        ck_assert_int_eq(ops()->qp_modify(qp, &modify), RI_OK);
    }
    send_to(qp, 1, RI_WR_SIGNALED);
    fake_qp(qp)->state = IBV_QPS_SQE;
    fake_sent(qp, set.cq, 0, IBV_WC_LOC_PROT_ERR);
    ck_assert_int_eq(next().status, RI_WC_LOCAL_PROTECTION);
    ck_assert_uint_eq(told(&record), 0);
    ck_assert_int_eq(info().state, RI_QPS_SQE);
    ck_assert_int_eq(only_state(RI_QPS_RTS), RI_OK);
    ck_assert_int_eq(info().state, RI_QPS_RTS);
}
END_TEST

START_TEST(gid_table)
{
    struct ri_gid gids[RDMACORE_GIDS];
    uint32_t count = 0, places;
    uint8_t wanted[16];

    ck_assert_int_eq(ops()->query_gids(set.host.rnic, 0, NULL, &count), RI_OK);
    ck_assert_uint_ge(count, 4);
    places = count;
    memset(gids, 0xee, sizeof(gids));
    ck_assert_int_eq(ops()->query_gids(set.host.rnic, 0, gids, &count), RI_OK);
    ck_assert_uint_eq(count, places);
    ck_assert_uint_eq(gids[0].type, RI_GID_INFINIBAND);
    ck_assert_uint_eq(gids[1].type, RI_GID_NONE);
    ck_assert_uint_eq(gids[3].type, RI_GID_ROCE_V2);
    ck_assert_uint_ne(gids[3].interface, 0);
    ck_assert_int_eq(inet_pton(AF_INET6, "::ffff:10.0.0.1", wanted), 1);
    ck_assert_mem_eq(gids[3].gid, wanted, 16);
    ck_assert_int_eq(ops()->query_gids(set.host.rnic, 1, gids, &count), RI_ERR_INVALID_ARGUMENT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdmacore_numbers");
    TCase *numbers = tc_case(suite, "numbers", setup, teardown);

    tc_add_tests(numbers, attributes_reach_the_device, attributes_come_back,
                 wrong_attributes_are_refused, wrong_transitions_are_refused, device_refuses,
                 posts_by_state, failed_request_ends_it_once, error_by_modify_is_not_told,
                 idle_drops_everything, send_queue_drains, first_message_is_told,
                 unreliable_connection, gid_table);
    return tc_main(suite);
}
