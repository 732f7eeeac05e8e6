/* SPDX-License-Identifier: BSD-3-Clause */
/* States of a QP: what each call answers in each of them. */
#include "bed.h"

#include <unistd.h>

#define ANY RI_STATUS_COUNT /* not said in rnicpi.h */

static const char *const state_names[] = { "IDLE",  "RTS",  "TERMINATE", "CLOSING",
                                           "ERROR", "INIT", "RTR" };

/* What qp_modify answers from a state to a state; RTS without a handover. */
static const struct row {
    enum ri_qp_state from, to;
    enum ri_status set_b, set_a;
} matrix[] = {
    { RI_QPS_IDLE, RI_QPS_IDLE, RI_OK, RI_OK },
    { RI_QPS_IDLE, RI_QPS_CLOSING, RI_ERR_INVALID_STATE, RI_ERR_NOT_SUPPORTED },
    { RI_QPS_IDLE, RI_QPS_TERMINATE, RI_ERR_INVALID_STATE, RI_ERR_NOT_SUPPORTED },
    { RI_QPS_IDLE, RI_QPS_ERROR, RI_OK, RI_OK },
    { RI_QPS_IDLE, RI_QPS_RTS, ANY, RI_ERR_NOT_SUPPORTED },
    { RI_QPS_RTS, RI_QPS_IDLE, RI_ERR_INVALID_STATE, RI_ERR_INVALID_STATE },
    { RI_QPS_RTS, RI_QPS_CLOSING, RI_OK, RI_ERR_NOT_SUPPORTED },
    { RI_QPS_RTS, RI_QPS_TERMINATE, RI_OK, RI_ERR_NOT_SUPPORTED },
    { RI_QPS_RTS, RI_QPS_ERROR, RI_OK, RI_OK },
    { RI_QPS_ERROR, RI_QPS_IDLE, RI_OK, RI_OK },
    { RI_QPS_ERROR, RI_QPS_CLOSING, RI_ERR_INVALID_STATE, RI_ERR_NOT_SUPPORTED },
    { RI_QPS_ERROR, RI_QPS_TERMINATE, RI_ERR_INVALID_STATE, RI_ERR_NOT_SUPPORTED },
    { RI_QPS_ERROR, RI_QPS_ERROR, RI_OK, RI_OK },
    { RI_QPS_ERROR, RI_QPS_RTS, ANY, RI_ERR_NOT_SUPPORTED },
};

static void bring_to(struct node *node, enum ri_qp_state state)
{
    static struct node peer;

    node_create(node, NULL);
    if (state == RI_QPS_RTS) {
        node_create(&peer, NULL);
        pair_connect(node, &peer);
    } else if (state == RI_QPS_ERROR) {
        EXPECT_STATUS(node_modify(node, RI_QPS_ERROR), RI_OK);
    }
    EXPECT(node_state(node) == state, "the QP is in state %s instead of %s",
           state_names[node_state(node)], state_names[state]);
}

static void moves(enum ri_qp_state from)
{
    struct node node;

    bed_open();
    if (bed.by_numbers)
        check_skip("QPs are connected by numbers alone");
    for (size_t i = 0; i < sizeof(matrix) / sizeof(matrix[0]); i++) {
        const struct row *row = &matrix[i];
        enum ri_status wanted = bed.set_a ? row->set_a : row->set_b, got;

        if (row->from != from || wanted == ANY)
            continue;
        bring_to(&node, from);
        got = node_modify(&node, row->to);
        EXPECT(got == wanted, "qp_modify from %s to %s answers %s instead of %s", state_names[from],
               state_names[row->to], ri_status_name(got), ri_status_name(wanted));
        if (wanted != RI_OK)
            EXPECT(node_state(&node) == from, "a refused qp_modify from %s to %s leaves state %s",
                   state_names[from], state_names[row->to], state_names[node_state(&node)]);
        else if (row->to == RI_QPS_IDLE || row->to == RI_QPS_ERROR)
            EXPECT(node_state(&node) == row->to, "qp_modify from %s to %s leaves state %s",
                   state_names[from], state_names[row->to], state_names[node_state(&node)]);
    }
}

static void from_idle(void)
{
    moves(RI_QPS_IDLE);
}

static void from_rts(void)
{
    moves(RI_QPS_RTS);
}

static void from_error(void)
{
    moves(RI_QPS_ERROR);
}

/* The socket stays the caller's. */
static void refuses_second_handover(void)
{
    static const enum ri_qp_state states[] = { RI_QPS_RTS, RI_QPS_ERROR };
    struct node node;
    int fds[2];

    bed_open();
    bed_need(RI_FEATURE_CONNECTION_SET_B, "RI_FEATURE_CONNECTION_SET_B");
    for (int i = 0; i < 2; i++) {
        bring_to(&node, states[i]);
        tcp_pair(fds);
        EXPECT_STATUS(hand_over(&node, fds[0], true), RI_ERR_INVALID_STATE);
        EXPECT(write(fds[0], "x", 1) == 1, "a refused handover closes the caller's socket");
    }
}

static void refuses_room(void)
{
    struct node node;

    bed_open();
    if (bed.attr.features & RI_FEATURE_QP_NUMBERS)
        check_skip("the provider has RI_FEATURE_QP_NUMBERS");
    node_create(&node, NULL);
    EXPECT_STATUS(node_modify(&node, RI_QPS_INIT), RI_ERR_NOT_SUPPORTED);
    EXPECT_STATUS(node_modify(&node, RI_QPS_RTR), RI_ERR_NOT_SUPPORTED);
}

static void refuses_masks(void)
{
    static const struct {
        uint32_t mask;
        uint64_t feature;
        const char *name;
    } changes[] = {
        { RI_QPM_IRD, RI_FEATURE_IRD_MODIFY, "RI_QPM_IRD" },
        { RI_QPM_FLAGS, RI_FEATURE_ACCESS_MODIFY, "RI_QPM_FLAGS" },
        { RI_QPM_MAX_SEND_WR, RI_FEATURE_QP_RESIZE, "RI_QPM_MAX_SEND_WR" },
        { RI_QPM_MAX_RECV_WR, RI_FEATURE_QP_RESIZE, "RI_QPM_MAX_RECV_WR" },
        { RI_QPM_RQ_LIMITS, RI_FEATURE_QP_RQ_LIMITS, "RI_QPM_RQ_LIMITS" },
        { 1u << 30, 0, "an unknown bit" },
    };
    struct ri_qp_modify modify = { .size = sizeof(modify) };
    struct node node;

    bed_open();
    node_create(&node, NULL);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        enum ri_status status;

        if (changes[i].feature & bed.attr.features)
            continue;
        modify.mask = changes[i].mask;
        modify.max_send_wr = modify.max_recv_wr = 8;
        status = bed.control.qp_modify(node.qp, &modify);
        EXPECT(status == RI_ERR_NOT_SUPPORTED, "qp_modify with %s answers %s", changes[i].name,
               ri_status_name(status));
    }
}

/* ---- posts by state ---- */

static void posts_in_idle(void)
{
    const struct send_want want = { .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED, .length = 8 };
    struct node node;

    bed_open();
    node_create(&node, NULL);
    EXPECT_STATUS(try_send(&node, &want), RI_ERR_INVALID_STATE);
    EXPECT_STATUS(try_recv(&node, 1, 0, 8, 0), RI_OK);
    expect_none(node.recv_cq, "the QP is idle");
}

static void posts_in_error(void)
{
    struct send_want want = { .opcode = RI_WR_SEND, .length = 8 };
    struct node node;

    bed_open();
    bring_to(&node, RI_QPS_ERROR);
    for (want.cookie = 0; want.cookie < 6; want.cookie++) {
        want.flags = want.cookie % 2 ? RI_WR_SIGNALED : 0;
        EXPECT_STATUS(try_send(&node, &want), RI_OK);
        EXPECT_STATUS(try_recv(&node, want.cookie, 0, 8, 0), RI_OK);
    }
    for (uint64_t i = 0; i < 6; i++) {
        expect_wc(node.send_cq, &node, i, RI_WC_SEND, RI_WC_FLUSHED);
        expect_wc(node.recv_cq, &node, i, RI_WC_RECV, RI_WC_FLUSHED);
    }
    expect_none(node.send_cq, "all were flushed");
    expect_none(node.recv_cq, "all were flushed");
}

static void lives_again(void)
{
    const struct send_want want = {
        .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED, .cookie = 7, .length = 100
    };
    struct node a, b;

    bed_open();
    pair(&a, &b, NULL);
    for (unsigned int i = 1; i <= 3; i++) {
        do_recv(&b, 9, 0, 100);
        do_send(&a, &want);
        expect_wc(a.send_cq, &a, 7, RI_WC_SEND, RI_WC_SUCCESS);
        expect_wc(b.recv_cq, &b, 9, RI_WC_RECV, RI_WC_SUCCESS);
        EXPECT_STATUS(node_modify(&a, RI_QPS_ERROR), RI_OK);
        EXPECT(bed.by_numbers || UNTIL(node_ends(&a) == i && node_ends(&b) == i, 5000),
               "the peer of a reset connection gets no end");
        node_leave(&a);
        node_leave(&b);
        EXPECT_STATUS(node_modify(&a, RI_QPS_IDLE), RI_OK);
        EXPECT_STATUS(node_modify(&b, RI_QPS_IDLE), RI_OK);
        EXPECT(bed.set_a || bed.by_numbers || UNTIL(!fake_lane_watches(&bed.lane), 5000),
               "descriptors of an ended connection stay watched");
        pair_connect(&a, &b);
    }
}

static void has_depths(struct node *node, uint32_t ird, uint32_t ord, unsigned int connection)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    if (bed.set_a && !node->told.depths_valid)
        check_skip("depths_valid is not set: the device does not tell");
    EXPECT_STATUS(bed.control.qp_query(node->qp, &info), RI_OK);
    EXPECT(info.ird == ird && info.ord == ord,
           "IRD and ORD are %u and %u on connection %u, which agreed on %u and %u", info.ird,
           info.ord, connection, ird, ord);
}

static void post_reads(struct node *from, struct node *to, uint64_t first, uint64_t behind,
                       uint32_t length)
{
    struct send_want read = { .opcode = RI_WR_RDMA_READ,
                              .flags = RI_WR_SIGNALED,
                              .length = length,
                              .remote_addr = (uintptr_t)to->memory + MEMORY / 2,
                              .rkey = to->keys.rkey };

    for (read.cookie = first; read.cookie < behind; read.cookie++)
        do_send(from, &read);
}

/* One connection, which ends while Reads are under way, and what it leaves. */
static void connects_with(struct node *a, struct node *b, uint32_t depth, unsigned int connection)
{
    a->attr.ird = a->attr.ord = b->attr.ird = b->attr.ord = depth;
    pair_connect(a, b);
    has_depths(a, depth, depth, connection);
    has_depths(b, depth, depth, connection);
    post_reads(a, b, 0, 8, 64);
    for (uint64_t i = 0; i < 8; i++)
        expect_wc(a->send_cq, a, i, RI_WC_RDMA_READ, RI_WC_SUCCESS);
    post_reads(a, b, 8, 12, MEMORY / 2);
    EXPECT_STATUS(node_modify(a, RI_QPS_ERROR), RI_OK);
    for (uint64_t i = 8; i < 12; i++) {
        struct ri_wc wc = take(a->send_cq, a, "a Read");

        EXPECT(wc.cookie == i, "a completion has cookie %llu; %llu is the next",
               (unsigned long long)wc.cookie, (unsigned long long)i);
    }
    EXPECT(bed.by_numbers || UNTIL(node_ends(a) == connection && node_ends(b) == connection, 5000),
           "the end of connection %u is not told within 5 s", connection);
    node_leave(a);
    node_leave(b);
    EXPECT_STATUS(node_modify(a, RI_QPS_IDLE), RI_OK);
    EXPECT_STATUS(node_modify(b, RI_QPS_IDLE), RI_OK);
}

/* The depths are those that this connection agreed on, and Reads that a reset has ended count no
 * more: more Reads than ORD complete. */
static void has_new_depths(void)
{
    static const uint32_t depths[] = { 4, 1, 3, 2 };
    struct node a, b;

    bed_open();
    if (bed.attr.max_ord < 4 || bed.attr.max_ird < 4)
        check_skip("max_ird or max_ord is less than 4");
    node_create(&a, NULL);
    node_create(&b, NULL);
    for (unsigned int i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
        connects_with(&a, &b, depths[i], i + 1);
}

const struct check state_checks[] = {
    { "state-idle", "qp-transitions", "qp_modify from IDLE", from_idle, 0, NULL },
    { "state-rts", "qp-transitions", "qp_modify from RTS", from_rts, 0, "connected" },
    { "state-error", "qp-transitions", "qp_modify from ERROR", from_error, 0, NULL },
    { "state-handover", "handover", "a handover in RTS and ERROR is refused and keeps the socket",
      refuses_second_handover, 0, "connected" },
    { "state-room", "qp-states", "INIT and RTR are not supported", refuses_room, 0, NULL },
    { "modify-mask", "qp-modify", "changes without their feature are not supported", refuses_masks,
      0, NULL },
    { "post-idle", "post", "an idle QP takes receives only", posts_in_idle, 0, NULL },
    { "post-error", "post", "requests to a QP in error are flushed, each once, in order",
      posts_in_error, 0, NULL },
    { "state-again", "qp-transitions", "a QP has one connection after the other", lives_again, 30,
      "send" },
    { "depths-again", "depths", "each connection has its own depths, whatever the last one left",
      has_new_depths, 30, "connected" },
    { .name = NULL },
};
