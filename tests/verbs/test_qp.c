/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs: queue pairs: what they are given, their states, what is refused. */
#include "verbs_pair.h"

static struct ibv_context *context;
static struct ibv_pd *pd;

static void set_up(void)
{
    context = pair_open_context();
    pd = ibv_alloc_pd(context);
    ck_assert_ptr_nonnull(pd);
}

static void tear_down(void)
{
    ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
    ck_assert_int_eq(ibv_close_device(context), 0);
}

static struct ibv_qp_init_attr qp_attr(struct ibv_cq *both)
{
    return (struct ibv_qp_init_attr){
        .send_cq = both,
        .recv_cq = both,
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2 },
    };
}

/* A QP in RESET, with a CQ of its own. */
static struct ibv_cq *cq;
static struct ibv_qp_init_attr init;
static struct ibv_qp *qp;

static void set_up_qp(void)
{
    set_up();
    cq = ibv_create_cq(context, 32, NULL, NULL, 0);
    init = qp_attr(cq);
    qp = ibv_create_qp(pd, &init);
    ck_assert_ptr_nonnull(qp);
}

static void tear_down_qp(void)
{
    ck_assert_int_eq(ibv_destroy_qp(qp), 0);
    ck_assert_int_eq(ibv_destroy_cq(cq), 0);
    tear_down();
}

START_TEST(a_qp_gives_what_it_was_asked_for)
{
    struct ibv_cq *queue = ibv_create_cq(context, 32, NULL, NULL, 0);
    struct ibv_qp_init_attr wanted = qp_attr(queue), other = qp_attr(queue), got;
    struct ibv_qp_attr attr;
    struct ibv_qp *first, *second;

    wanted.cap.max_inline_data = 100;
    wanted.sq_sig_all = 1;
    first = ibv_create_qp(pd, &wanted);
    second = ibv_create_qp(pd, &other);
    ck_assert(first && second);
    ck_assert_uint_ge(wanted.cap.max_send_wr, 8);
    ck_assert_uint_ge(wanted.cap.max_inline_data, 100);
    ck_assert_uint_ne(first->qp_num, second->qp_num);
    ck_assert_uint_ge(first->qp_num, 2);
    ck_assert_uint_lt(first->qp_num, 1u << 24);
    ck_assert_ptr_eq(&vb_qp_by_number(vb_context_of(context), first->qp_num)->ibv.qp_base, first);
    ck_assert_int_eq(ibv_query_qp(first, &attr, IBV_QP_STATE | IBV_QP_CAP, &got), 0);
    ck_assert_int_eq(attr.qp_state, IBV_QPS_INIT); /* an RNIC has no RESET */
    ck_assert_mem_eq(&attr.cap, &wanted.cap, sizeof(attr.cap));
    ck_assert_int_eq(got.sq_sig_all, 1);
    ck_assert_ptr_eq(got.send_cq, queue);
    ck_assert_int_eq(ibv_destroy_cq(queue), EBUSY);
    ck_assert_int_eq(ibv_destroy_qp(first), 0);
    ck_assert_int_eq(ibv_destroy_qp(second), 0);
    ck_assert_int_eq(ibv_destroy_cq(queue), 0);
}
END_TEST

START_TEST(a_qp_beyond_the_device_is_refused)
{
    struct ibv_cq *queue = ibv_create_cq(context, 32, NULL, NULL, 0);
    struct ibv_qp_init_attr wanted = qp_attr(queue);

    wanted.cap.max_send_wr = 1u << 30;
    refused(ibv_create_qp(pd, &wanted), EINVAL);
    wanted = qp_attr(queue);
    wanted.cap.max_recv_sge = 1u << 20;
    refused(ibv_create_qp(pd, &wanted), EINVAL);
    wanted = qp_attr(queue);
    wanted.cap.max_inline_data = 1u << 20;
    refused(ibv_create_qp(pd, &wanted), EINVAL);
    wanted = qp_attr(queue);
    wanted.recv_cq = NULL;
    refused(ibv_create_qp(pd, &wanted), EINVAL);
    wanted = qp_attr(queue);
    wanted.qp_type = IBV_QPT_RAW_PACKET;
    refused(ibv_create_qp(pd, &wanted), EOPNOTSUPP);
    ck_assert_int_eq(ibv_destroy_cq(queue), 0);
}
END_TEST

START_TEST(a_state_is_reached_by_its_transitions_only)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .port_num = 1 };
    const int full = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
    attr.qp_state = IBV_QPS_INIT;
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
    attr.port_num = 2;
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, full), EINVAL);
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, full), 0);
    ck_assert_int_eq(qp->state, IBV_QPS_INIT);
    ck_assert_int_eq(ibv_query_qp(qp, &attr, full, &init), 0);
    ck_assert_int_eq(attr.qp_state, IBV_QPS_INIT);
    ck_assert(attr.qp_access_flags & IBV_ACCESS_REMOTE_READ);
    ck_assert(!(attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE));
    attr.qp_state = IBV_QPS_RTS;
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
    attr.qp_state = IBV_QPS_SQD;
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EOPNOTSUPP);
    attr.qp_state = IBV_QPS_RESET;
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    ck_assert_int_eq(qp->state, IBV_QPS_RESET);
}
END_TEST

/* An attribute that InfiniBand does not allow there, such as an address vector in RTS. */
START_TEST(an_attribute_out_of_place_is_refused)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
    const int full = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

    ck_assert_int_eq(ibv_modify_qp(qp, &attr, full | IBV_QP_AV), EINVAL);
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS), EINVAL); /* RESET */
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, full), 0);
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_TIMEOUT), EINVAL);
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    vb_qp_enter(vb_qp_of(qp), IBV_QPS_RTS, VB_GATE_SHUT);
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_AV), EINVAL);
    attr.qp_state = IBV_QPS_RTS;
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV), EINVAL);
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS), 0);
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER), 0);
    attr.qp_state = IBV_QPS_ERR;
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV), EINVAL);
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}
END_TEST

/* As with mlx5, where the receive queue is the program's in each state. */
START_TEST(a_receive_in_reset_is_kept_until_the_next_reset)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
    struct ibv_recv_wr wr = { .wr_id = 4 }, *bad;
    struct ibv_wc wc;

    ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), 0);
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    wr.wr_id = 5;
    ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), 0);
    attr.qp_state = IBV_QPS_ERR;
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    wc = pair_completion(cq);
    ck_assert_uint_eq(wc.wr_id, 5);
    ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
}
END_TEST

START_TEST(what_is_no_state_is_refused)
{
    struct ibv_qp_attr attr = { .port_num = 1 };
    const int full = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

    for (unsigned int state = IBV_QPS_UNKNOWN; state < 70; state++) {
        attr.qp_state = (enum ibv_qp_state)state;
        ck_assert_int_eq(ibv_modify_qp(qp, &attr, full), EINVAL);
    }
    ck_assert_int_eq(qp->state, IBV_QPS_RESET);
}
END_TEST

static void to_init(struct ibv_qp *which)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

    ck_assert_int_eq(
        ibv_modify_qp(which, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
}

/* The connection ends at the same moment: its event comes before the reset has waited for it. */
static void end_at_release(void *unused, struct vb_qp *ended)
{
    (void)unused;
    vb_qp_enter(ended, IBV_QPS_ERR, VB_GATE_OPEN);
}

START_TEST(a_reset_holds_against_the_end_of_a_connection)
{
    static const struct vb_connector ends = { .release = end_at_release };
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

    to_init(qp);
    ck_assert_int_eq(vb_qp_connector(vb_qp_of(qp), &ends, NULL), 0);
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    ck_assert_int_eq(qp->state, IBV_QPS_RESET);
    to_init(qp);
}
END_TEST

/* Its number is none of a port. */
START_TEST(a_qp_of_rdma_cm_is_not_connected_by_numbers)
{
    struct ibv_cq *queue = ibv_create_cq(context, 32, NULL, NULL, 0);
    struct ibv_qp_init_attr_ex wanted = { .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd };
    struct ibv_qp_init_attr base = qp_attr(queue);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_1024,
                                .dest_qp_num = 20000 << 8 | 7,
                                .ah_attr = { .is_global = 1, .port_num = 1 } };
    struct ibv_qp *first;

    memcpy(&wanted, &base, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
    first = vb_qp_create(context, &wanted, VB_QP_BY_ADDRESS);
    ck_assert_ptr_nonnull(first);
    ck_assert_int_eq(ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid), 0);
    to_init(first);
    ck_assert_int_eq(ibv_modify_qp(first, &attr,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER),
                     EINVAL);
    ck_assert_int_eq(first->state, IBV_QPS_INIT);
    ck_assert_int_eq(ibv_destroy_qp(first), 0);
    ck_assert_int_eq(ibv_destroy_cq(queue), 0);
}
END_TEST

START_TEST(an_empty_gid_connects_no_qp)
{
    struct ibv_gid_entry entries[64];
    const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_1024,
                                .dest_qp_num = 20000 << 8 | 7,
                                .ah_attr = { .is_global = 1, .port_num = 1 } };

    ck_assert_int_eq(ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid), 0);
    attr.ah_attr.grh.sgid_index = (uint8_t)ibv_query_gid_table(context, entries, 64, 0);
    to_init(qp);
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, mask), EINVAL);
    ck_assert_int_eq(qp->state, IBV_QPS_INIT);
    attr.ah_attr.grh.sgid_index = 0;
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, mask), 0);
}
END_TEST

/* Its QPs have listeners, which stay. */
START_TEST(a_context_that_was_closed_too_early_goes_on)
{
    struct ibv_qp *second;

    ck_assert_int_eq(ibv_close_device(context), 0);
    to_init(qp);
    second = ibv_create_qp(pd, &init);
    ck_assert_ptr_nonnull(second);
    ck_assert_int_eq(ibv_destroy_qp(second), 0);
}
END_TEST

START_TEST(a_post_before_a_connection_is_refused)
{
    struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad = NULL;

    ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), EINVAL);
    ck_assert_ptr_eq(bad, &wr);
}
END_TEST

/* In ERR receives and requests complete flushed, also on a QP that was never connected. */
START_TEST(an_error_state_flushes)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
    struct ibv_recv_wr receive = { .wr_id = 7 }, *bad_receive;
    struct ibv_send_wr request = { .wr_id = 8, .opcode = IBV_WR_SEND }, *bad_request;
    struct ibv_wc wc;

    ck_assert_int_eq(ibv_post_recv(qp, &receive, &bad_receive), 0);
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    wc = pair_completion(cq);
    ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
    ck_assert_uint_eq(wc.wr_id, 7);
    ck_assert_uint_eq(wc.qp_num, qp->qp_num);
    ck_assert_int_eq(ibv_post_send(qp, &request, &bad_request), 0);
    wc = pair_completion(cq);
    ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
    ck_assert_uint_eq(wc.wr_id, 8);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("libibverbs: queue pairs");
    TCase *tc = tc_case(suite, "creation", set_up, tear_down);
    TCase *pairs = tc_case(suite, "states", set_up_qp, tear_down_qp);

    tc_add_tests(tc, a_qp_gives_what_it_was_asked_for, a_qp_beyond_the_device_is_refused,
                 a_qp_of_rdma_cm_is_not_connected_by_numbers);
    tc_add_tests(pairs, a_state_is_reached_by_its_transitions_only,
                 an_attribute_out_of_place_is_refused,
                 a_receive_in_reset_is_kept_until_the_next_reset, what_is_no_state_is_refused,
                 a_reset_holds_against_the_end_of_a_connection, an_empty_gid_connects_no_qp,
                 a_context_that_was_closed_too_early_goes_on, a_post_before_a_connection_is_refused,
                 an_error_state_flushes);
    return tc_main(suite);
}
