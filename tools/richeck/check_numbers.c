/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs that are connected by numbers: their states, what is refused, what is told again. */
#include "bed.h"

#include <string.h>

static struct node a, b;

static void begin(void)
{
    bed_open();
    bed_need(RI_FEATURE_QP_NUMBERS, "RI_FEATURE_QP_NUMBERS");
    node_create(&a, NULL);
    node_create(&b, NULL);
}

static void is_in(enum ri_qp_state state, const char *after)
{
    EXPECT(node_state(&a) == state, "after %s the QP is in state %d instead of %d", after,
           (int)node_state(&a), (int)state);
}

/* A Send arrives. */
static void carries(uint64_t cookie)
{
    const struct send_want want = {
        .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED, .cookie = cookie, .length = 100
    };

    do_recv(&b, cookie, 0, 100);
    do_send(&a, &want);
    expect_wc(a.send_cq, &a, cookie, RI_WC_SEND, RI_WC_SUCCESS);
    expect_wc(b.recv_cq, &b, cookie, RI_WC_RECV, RI_WC_SUCCESS);
}

static void goes_through_states(void)
{
    begin();
    numbers_to(&a, &b, RI_QPS_INIT);
    is_in(RI_QPS_INIT, "INIT");
    numbers_to(&a, &b, RI_QPS_INIT);
    is_in(RI_QPS_INIT, "INIT twice");
    numbers_to(&b, &a, RI_QPS_INIT);
    numbers_to(&b, &a, RI_QPS_RTR);
    numbers_to(&a, &b, RI_QPS_RTR);
    is_in(RI_QPS_RTR, "RTR");
    numbers_to(&a, &b, RI_QPS_RTS);
    is_in(RI_QPS_RTS, "RTS");
    carries(1); /* to one in RTR */
}

static void refuses_transitions(void)
{
    static const struct {
        enum ri_qp_state to;
        const char *name;
    } wrong[] = { { RI_QPS_RTR, "IDLE to RTR" }, { RI_QPS_RTS, "IDLE to RTS" } };
    struct numbers_step step;
    enum ri_status status;

    begin();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        numbers_step(&a, &b, wrong[i].to, &step);
        status = bed.control.qp_modify(a.qp, &step.modify);
        EXPECT(status == RI_ERR_INVALID_STATE, "qp_modify from %s answers %s", wrong[i].name,
               ri_status_name(status));
        is_in(RI_QPS_IDLE, wrong[i].name);
    }
    numbers_connect(&a, &b);
    EXPECT_STATUS(node_modify(&a, RI_QPS_INIT), RI_ERR_INVALID_STATE);
    EXPECT_STATUS(node_modify(&a, RI_QPS_CLOSING), RI_ERR_INVALID_STATE);
    is_in(RI_QPS_RTS, "RTS to CLOSING");
}

/* One attribute less, and one of another transition. */
static void refuses_attributes(void)
{
    static const enum ri_qp_state states[] = { RI_QPS_INIT, RI_QPS_RTR, RI_QPS_RTS };
    static const enum ri_qp_state before[] = { RI_QPS_IDLE, RI_QPS_INIT, RI_QPS_RTR };
    struct numbers_step step;
    enum ri_status status;

    begin();
    for (size_t i = 0; i < 3; i++) {
        numbers_step(&a, &b, states[i], &step);
        for (uint32_t bit = 1; bit; bit <<= 1) {
            if (!(step.modify.mask & bit & ~(uint32_t)RI_QPM_STATE))
                continue;
            step.modify.mask &= ~bit;
            status = bed.control.qp_modify(a.qp, &step.modify);
            EXPECT(status == RI_ERR_INVALID_ARGUMENT,
                   "qp_modify to state %d without bit %#x of the mask answers %s", (int)states[i],
                   bit, ri_status_name(status));
            is_in(before[i], "a mask with less");
            step.modify.mask |= bit;
        }
        step.modify.mask |= states[i] == RI_QPS_RTR ? RI_QPM_SEND_PSN : RI_QPM_RECEIVE_PSN;
        status = bed.control.qp_modify(a.qp, &step.modify);
        EXPECT(status == RI_ERR_INVALID_ARGUMENT, "a PSN too many for state %d: %s", (int)states[i],
               ri_status_name(status));
        is_in(before[i], "a mask with more");
        numbers_to(&a, &b, states[i]);
    }
}

static void refuses_values(void)
{
    struct numbers_step step;

    begin();
    numbers_to(&a, &b, RI_QPS_INIT);
    numbers_step(&a, &b, RI_QPS_RTR, &step);
    step.modify.path_mtu = 1500;
    EXPECT_STATUS(bed.control.qp_modify(a.qp, &step.modify), RI_ERR_INVALID_ARGUMENT);
    numbers_step(&a, &b, RI_QPS_RTR, &step);
    step.modify.destination_qpn = 1u << 24;
    EXPECT_STATUS(bed.control.qp_modify(a.qp, &step.modify), RI_ERR_INVALID_ARGUMENT);
    numbers_step(&a, &b, RI_QPS_RTR, &step);
    step.modify.rnr_timer = 32;
    EXPECT_STATUS(bed.control.qp_modify(a.qp, &step.modify), RI_ERR_INVALID_ARGUMENT);
    is_in(RI_QPS_INIT, "a value out of range");
}

static void tells_attributes(void)
{
    struct ri_qp_info info = { .size = sizeof(info) };
    struct numbers_step rtr, rts;
    const uint32_t path = RI_QPM_PATH | RI_QPM_PATH_MTU | RI_QPM_DESTINATION_QPN;

    begin();
    EXPECT_STATUS(bed.control.qp_query(a.qp, &info), RI_OK);
    EXPECT(!info.known, "an idle QP knows %#x", info.known);
    numbers_connect(&a, &b);
    numbers_step(&a, &b, RI_QPS_RTR, &rtr);
    numbers_step(&a, &b, RI_QPS_RTS, &rts);
    EXPECT_STATUS(bed.control.qp_query(a.qp, &info), RI_OK);
    EXPECT((info.known & path) == path, "known is %#x: path, MTU or number are missing",
           info.known);
    EXPECT(info.path_mtu == rtr.modify.path_mtu, "path_mtu is %u instead of %u", info.path_mtu,
           rtr.modify.path_mtu);
    EXPECT(info.destination_qpn == rtr.modify.destination_qpn, "destination_qpn is %u, not %u",
           info.destination_qpn, rtr.modify.destination_qpn);
    EXPECT(!memcmp(info.path.destination_gid, rtr.path.destination_gid, 16) || !rtr.path.global,
           "path.destination_gid is another one");
    if (info.known & RI_QPM_SEND_PSN)
        EXPECT(info.send_psn == rts.modify.send_psn, "send_psn is %#x, not %#x, before a request",
               info.send_psn, rts.modify.send_psn);
    if (info.known & RI_QPM_TIMEOUT)
        EXPECT(info.timeout == 14, "timeout is %u instead of 14", info.timeout);
    if (info.known & RI_QPM_RETRY_COUNT)
        EXPECT(info.retry_count == 7, "retry_count is %u instead of 7", info.retry_count);
}

static void posts_by_state(void)
{
    const struct send_want want = { .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED, .length = 8 };
    static const enum ri_qp_state states[] = { RI_QPS_INIT, RI_QPS_RTR };

    begin();
    for (size_t i = 0; i < 2; i++) {
        numbers_to(&a, &b, states[i]);
        EXPECT_STATUS(try_send(&a, &want), RI_ERR_INVALID_STATE);
        EXPECT_STATUS(try_recv(&a, i, 0, 8, 0), RI_OK);
    }
    expect_none(a.recv_cq, "nothing has come");
}

/* What was posted in INIT takes the first message. */
static void receives_from_init_on(void)
{
    const struct send_want want = {
        .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED, .cookie = 5, .length = 8
    };

    begin();
    numbers_to(&b, &a, RI_QPS_INIT);
    do_recv(&b, 6, 0, 8);
    numbers_connect(&a, &b);
    do_send(&a, &want);
    expect_wc(b.recv_cq, &b, 6, RI_WC_RECV, RI_WC_SUCCESS);
    expect_wc(a.send_cq, &a, 5, RI_WC_SEND, RI_WC_SUCCESS);
}

/* Its number stays, and of the earlier life nothing is polled. */
static void idle_drops(void)
{
    struct ri_qp_info info = { .size = sizeof(info) };
    uint32_t number;

    begin();
    EXPECT_STATUS(bed.control.qp_query(a.qp, &info), RI_OK);
    number = info.qpn;
    for (uint64_t life = 0; life < 3; life++) {
        numbers_connect(&a, &b);
        carries(life);
        do_recv(&a, 30, 0, 8);
        do_recv(&b, 31, 0, 8);
        if (life == 1)
            EXPECT_STATUS(node_modify(&a, RI_QPS_ERROR), RI_OK);
        EXPECT_STATUS(node_modify(&a, RI_QPS_IDLE), RI_OK);
        EXPECT_STATUS(node_modify(&b, RI_QPS_IDLE), RI_OK);
        expect_none(a.recv_cq, "the QP was moved to IDLE");
        expect_none(b.recv_cq, "the QP was moved to IDLE");
        EXPECT_STATUS(bed.control.qp_query(a.qp, &info), RI_OK);
        EXPECT(info.qpn == number, "the number changes from %u to %u", number, info.qpn);
        EXPECT(info.state == RI_QPS_IDLE, "the state is %d, not IDLE", (int)info.state);
    }
    EXPECT(!node_ends(&a), "a modify is told as an end");
}

static void drains(void)
{
    begin();
    bed_need(RI_FEATURE_SQD, "RI_FEATURE_SQD");
    numbers_connect(&a, &b);
    EXPECT_STATUS(node_modify(&a, RI_QPS_SQD), RI_OK);
    EXPECT(UNTIL(a.events > 0, 5000), "no RI_EVENT_SEND_QUEUE_DRAINED within 5 s");
    EXPECT(a.type[0] == RI_EVENT_SEND_QUEUE_DRAINED, "event %d comes instead", (int)a.type[0]);
    is_in(RI_QPS_SQD, "SQD");
    EXPECT_STATUS(node_modify(&a, RI_QPS_RTS), RI_OK);
    carries(1);
}

static void has_gids(void)
{
    static struct ri_gid gids[2][256];
    uint32_t counts[2] = { 0, 256 };
    static const uint8_t none[16];

    bed_open();
    bed_need(RI_FEATURE_QP_NUMBERS, "RI_FEATURE_QP_NUMBERS");
    memset(gids, 0xa5, sizeof(gids));
    EXPECT_STATUS(bed.control.query_gids(bed.rnic, 0, gids[0], &counts[0]), RI_OK);
    EXPECT(counts[0] && gids[0][0].type == 0xa5a5a5a5, "a table of %u places, with room for none",
           counts[0]);
    EXPECT_STATUS(bed.control.query_gids(bed.rnic, 0, gids[1], &counts[1]), RI_OK);
    EXPECT(counts[1] == counts[0], "the table has %u places, and %u", counts[0], counts[1]);
    for (uint32_t i = 0; i < counts[1] && i < 256; i++)
        EXPECT((gids[1][i].type == RI_GID_NONE) == !memcmp(gids[1][i].gid, none, sizeof(none)),
               "place %u has type %u, and a GID that does not fit", i, gids[1][i].type);
    EXPECT_STATUS(bed.control.query_gids(bed.rnic, bed.attr.ports, gids[1], &counts[1]),
                  RI_ERR_INVALID_ARGUMENT);
}

const struct check numbers_checks[] = {
    { "gid-table", "gid-table", "the GID table is whole, whatever the room", has_gids, 0, NULL },
    { "numbers-states", "numbers", "a QP goes from IDLE to RTS by numbers, and carries",
      goes_through_states, 0, "gid-table" },
    { "numbers-transitions", "numbers", "other transitions are refused", refuses_transitions, 0,
      "numbers-states" },
    { "numbers-mask", "numbers-needed", "a mask with less or more is refused", refuses_attributes,
      0, "numbers-states" },
    { "numbers-values", "numbers-attributes", "values out of range are refused", refuses_values, 0,
      "numbers-states" },
    { "numbers-query", "numbers-query", "qp_query has the attributes", tells_attributes, 0,
      "numbers-states" },
    { "numbers-posts", "numbers-posts", "INIT and RTR take receives only", posts_by_state, 0,
      "numbers-states" },
    { "numbers-early", "numbers-posts", "a receive of INIT takes the first message",
      receives_from_init_on, 0, "numbers-states" },
    { "numbers-idle", "numbers", "IDLE drops everything and keeps the number", idle_drops, 30,
      "numbers-states" },
    { "numbers-drain", "numbers", "SQD ends in RI_EVENT_SEND_QUEUE_DRAINED", drains, 0,
      "numbers-states" },
    { .name = NULL },
};
