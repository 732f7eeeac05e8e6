/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A QP that is destroyed, or reset and connected anew, while packets are under way.
 */
#include "tc.h"

#include "sim.h"

#define LENGTH 3000u
#define ALL    (RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ)

static struct sim sim;
static struct sim_region regions[2];

struct poster {
    uint32_t side;
    bool wrong;
};

static void post_next(struct poster *poster, uint32_t i)
{
    bool read = i % 3 == 0;
    struct sim_region *own = &regions[poster->side], *peer = &regions[!poster->side];
    struct ri_sge sge = sim_sge(own, read ? 2 * LENGTH : LENGTH, LENGTH);
    struct ri_send_wr wr = { .cookie = i,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = read ? RI_WR_RDMA_READ : RI_WR_SEND,
                             .flags = RI_WR_SIGNALED,
                             .rdma = { .remote_addr = (uintptr_t)peer->octets + LENGTH,
                                       .rkey = peer->keys.rkey } };

    poster->wrong |= sim_post(&sim, poster->side, &wr) != RI_OK;
}

static void open_pair(const struct sim_link *link)
{
    const struct rc_attr attr = sim_attr(1024, 0xFFFFE0);
    struct tc_rng rng = tc_rng(7);

    sim_open(&sim, link, tc_rand(&rng), NULL);
    for (uint32_t side = 0; side < 2; side++)
        regions[side] = sim_region(&sim, side, 3 * LENGTH, ALL);
    sim_connect(&sim, &attr);
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t i = 0; i < 32; i++)
            sim_post_recv(&sim, side, 0, sim_sge(&regions[side], 0, LENGTH));
}

static void close_pair(void)
{
    for (uint32_t side = 0; side < 2; side++)
        sim_region_free(&sim, &regions[side]);
    sim_close(&sim);
}

START_TEST(a_qp_is_destroyed_while_packets_are_under_way)
{
    const struct sim_link link = { .loss = 10, .reorder = 100 };
    struct poster poster = { .side = 0 };

    open_pair(&link);
    for (uint32_t i = 0; i < 10; i++)
        post_next(&poster, i);
    for (int i = 0; i < _i; i++)
        sim_step(&sim);
    ck_assert_int_eq(sim.fake.privileged.qp_destroy(sim.end[1].qp), RI_OK);
    sim.end[1].qp = NULL;
    for (int i = 0; i < 5; i++)
        sim_step(&sim);
    close_pair();
}
END_TEST

START_TEST(R081_a_qp_is_reset_and_connected_anew)
{
    const struct sim_link link = { .loss = 10 };
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_STATE };
    struct rc_attr attr = sim_attr(256, 5);
    struct poster poster = { .side = 0 };
    struct ri_wc wc;

    open_pair(&link);
    for (uint32_t i = 0; i < 10; i++)
        post_next(&poster, i);
    for (int i = 0; i < 4; i++)
        sim_step(&sim);
    for (uint32_t side = 0; side < 2; side++) {
        modify.state = RI_QPS_ERROR;
        ck_assert_int_eq(sim.fake.privileged.qp_modify(sim.end[side].qp, &modify), RI_OK);
        modify.state = RI_QPS_IDLE;
        ck_assert_int_eq(sim.fake.privileged.qp_modify(sim.end[side].qp, &modify), RI_OK);
        while (sim_poll(&sim, sim.end[side].send_cq, &wc))
            ;
        while (sim_poll(&sim, sim.end[side].recv_cq, &wc))
            ;
    }
    sim_connect(&sim, &attr);
    sim_post_recv(&sim, 1, 0, sim_sge(&regions[1], 0, LENGTH));
    post_next(&poster, 1);
    sim_settle(&sim);
    ck_assert(sim_poll(&sim, sim.end[0].send_cq, &wc) && wc.status == RI_WC_SUCCESS);
    ck_assert(sim_poll(&sim, sim.end[1].recv_cq, &wc) && wc.byte_len == LENGTH);
    close_pair();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rc ends");
    TCase *t = tc_case(s, "ends", NULL, NULL);

    tc_add_tests(t, R081_a_qp_is_reset_and_connected_anew);
    tcase_add_loop_test(t, a_qp_is_destroyed_while_packets_are_under_way, 0, 8);
    return tc_main(s);
}
