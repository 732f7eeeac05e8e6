/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections by QP numbers: what the program posts before the connection is there, and what it has
 * posted when its peer goes. Everything that was taken completes, once and in order.
 */
#include "log_lines.h"
#include "numbers_ends.h"

#include "base/compiler.h"
#include "verbs/verbs_objects.h"

/* --- what a provider refuses is refused at the post --- */

static struct ibv_sge piece(const struct end *end, uint32_t length)
{
    return (struct ibv_sge){ (uintptr_t)end->memory, length, end->mr->lkey };
}

struct refusal {
    enum ibv_wr_opcode opcode;
    int sges;
    uint32_t length;
    int error;
};

static const struct refusal refusals[] = {
    { IBV_WR_SEND, 2, 8, EINVAL },
    { IBV_WR_RDMA_WRITE, 2, 8, EINVAL },
    { IBV_WR_RDMA_READ, 2, 8, EINVAL },
    { IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, EINVAL },
    { IBV_WR_ATOMIC_CMP_AND_SWP, 1, 4, EINVAL },
    { IBV_WR_LOCAL_INV, 1, 8, EINVAL },
    { IBV_WR_TSO, 1, 8, EINVAL },
};

static int refused(const struct end *end, const struct refusal *refusal)
{
    struct ibv_sge sges[2] = { piece(end, refusal->length), piece(end, refusal->length) };
    struct ibv_send_wr wr = { .opcode = refusal->opcode,
                              .sg_list = sges,
                              .num_sge = refusal->sges },
                       *bad = NULL;
    int error = ibv_post_send(end->qp, &wr, &bad);

    ck_assert_ptr_eq(bad, &wr);
    return error;
}

START_TEST(a_request_is_refused_alike_before_the_connection_and_over_it)
{
    connect_to(large, small->qp->qp_num);
    for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
        ck_assert_int_eq(refused(large, &refusals[i]), refusals[i].error);
    post_send(large, 0);
    to_init(small);
    post_recv(small, 0);
    to_rtr(small, large->qp->qp_num);
    expect_message(small, 0, 0);
    expect(large, 0, IBV_WC_SUCCESS);
    for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
        ck_assert_int_eq(refused(large, &refusals[i]), refusals[i].error);
}
END_TEST

/* The clock of the connection runs for the first, although the list as a whole was refused. */
START_TEST(the_first_of_a_list_completes_although_a_later_one_is_refused)
{
    struct ibv_sge sges[2] = { piece(large, 8), piece(large, 8) };
    struct ibv_send_wr second = {
        .wr_id = 2, .sg_list = sges, .num_sge = 2, .opcode = IBV_WR_SEND
    };
    struct ibv_send_wr first = { .wr_id = 1,
                                 .next = &second,
                                 .sg_list = sges,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_SEND },
                       *bad;

    log_capture();
    connect_to(large, small->qp->qp_num & 0xffff00);
    ck_assert_int_eq(ibv_post_send(large->qp, &first, &bad), EINVAL);
    ck_assert_ptr_eq(bad, &second);
    expect(large, 1, IBV_WC_RETRY_EXC_ERR);
    log_await("in time: the peer ended the attempt; it is given up");
}
END_TEST

/* --- what is refused later completes in its turn --- */

static unsigned char windowed[OCTETS];

static void post_immediate(struct end *end, uint64_t cookie)
{
    struct ibv_sge sge = piece(end, 8);
    struct ibv_send_wr wr = { .wr_id = cookie,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .opcode = IBV_WR_SEND_WITH_IMM },
                       *bad;

    ck_assert_int_eq(ibv_post_send(end->qp, &wr, &bad), 0);
}

/* Binds a window to a region, and frees one of the two. False: the device has no windows. */
static void bind_and_free(struct end *end, uint64_t cookie, bool window)
{
    struct ibv_mr *mr = ibv_reg_mr(protection_domain, windowed, sizeof(windowed),
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    struct ibv_mw *mw = ibv_alloc_mw(protection_domain, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = { .wr_id = cookie,
                                .send_flags = IBV_SEND_SIGNALED,
                                .bind_info = { .mr = mr,
                                               .addr = (uintptr_t)windowed,
                                               .length = sizeof(windowed),
                                               .mw_access_flags = IBV_ACCESS_REMOTE_READ } };

    if (!mw)
        tc_skip("the device has no windows");
    ck_assert_int_eq(ibv_bind_mw(end->qp, mw, &bind), 0);
    ck_assert_int_eq(window ? ibv_dealloc_mw(mw) : ibv_dereg_mr(mr), 0);
    ck_assert_int_eq(window ? ibv_dereg_mr(mr) : ibv_dealloc_mw(mw), 0);
}

static enum ibv_qp_state state_of(const struct end *end)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    ck_assert_int_eq(ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}

/* Immediate data was not agreed on, since there was no connection; the region of a bind is gone. */
START_TEST(without_a_connection_all_that_was_taken_is_flushed_in_order)
{
    struct end *end = this_end(_i);

    connect_to(end, other_end(_i)->qp->qp_num);
    for (unsigned int i = 0; i < DEPTH; i++) {
        if (i == 2)
            post_immediate(end, i);
        else if (i == 0 || i == 4)
            bind_and_free(end, i, i);
        else
            post_send(end, i);
    }
    to_state(end, IBV_QPS_ERR);
    for (unsigned int i = 0; i < DEPTH; i++)
        expect(end, i, IBV_WC_WR_FLUSH_ERR);
}
END_TEST

/* _i, bit 0: which side; bit 1: the window or the region is freed. What is before it arrives. */
START_TEST(a_bind_whose_object_was_freed_fails_in_its_turn)
{
    struct end *owner = this_end(_i & 1), *peer = other_end(_i & 1);

    to_init(owner);
    post_recv(owner, 0);
    to_rtr(owner, peer->qp->qp_num);
    to_rts(owner);
    post_send(owner, 1);
    bind_and_free(owner, 2, _i & 2);
    post_send(owner, 3);
    post_send(owner, 4);
    to_init(peer);
    post_recv(peer, 0);
    to_rtr(peer, owner->qp->qp_num);
    expect_message(peer, 0, 1);
    expect(owner, 1, IBV_WC_SUCCESS);
    expect(owner, 2, IBV_WC_LOC_PROT_ERR);
    for (unsigned int left = 3, next = 3; left; left--) {
        struct ibv_wc wc = next_completion(owner);

        ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
        if (wc.wr_id != 100)
            ck_assert_uint_eq(wc.wr_id, next++);
    }
    ck_assert(tc_until(state_of(owner) == IBV_QPS_ERR, DEADLINE));
}
END_TEST

/* --- the peer goes --- */

/* Until the provider knows that the peer has gone. */
static void await_provider(const struct end *end)
{
    /* the provider has told of it: from now on posts are held */
    ck_assert(tc_until(atomic_load(&vb_qp_of(end->qp)->gate) == VB_GATE_HELD, DEADLINE));
}

static void leave(struct end *leaves)
{
    ck_assert_int_eq(ibv_destroy_qp(leaves->qp), 0);
    leaves->qp = NULL;
}

static struct end *left_with_receives(int i)
{
    struct end *stays = this_end(i), *leaves = other_end(i);

    log_capture();
    connect_both();
    exchange(leaves, stays);
    exchange(stays, leaves);
    post_recv(stays, 1);
    post_recv(stays, 2);
    leave(leaves);
    await_provider(stays);
    return stays;
}

/* As with InfiniBand, where a QP does not notice until something is sent. */
START_TEST(a_peer_that_leaves_first_leaves_posted_receives_alone)
{
    struct end *stays = left_with_receives(_i);
    unsigned int flushed = 0;
    struct ibv_wc wc;

    ck_assert_int_eq(ibv_poll_cq(stays->cq, 1, &wc), 0);
    ck_assert_int_eq(state_of(stays), IBV_QPS_RTS);
    ck_assert_ptr_null(strstr(log_so_far(), "warning"));
    post_send(stays, 3);
    for (int i = 0; i < 3; i++) {
        wc = next_completion(stays);
        if (wc.wr_id == 3) {
            ck_assert_int_eq(wc.status, IBV_WC_RETRY_EXC_ERR);
            continue;
        }
        ck_assert_uint_eq(wc.wr_id, 101 + flushed++);
        ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
    }
    ck_assert_uint_eq(flushed, 2);
    log_await("and a request was posted since");
    ck_assert(tc_until(state_of(stays) == IBV_QPS_ERR, DEADLINE));
}
END_TEST

START_TEST(err_flushes_the_receives_that_a_peer_left)
{
    struct end *stays = left_with_receives(_i);

    to_state(stays, IBV_QPS_ERR);
    expect(stays, 101, IBV_WC_WR_FLUSH_ERR);
    expect(stays, 102, IBV_WC_WR_FLUSH_ERR);
}
END_TEST

/* A program that only receives hears of it, after the time for which an adapter would repeat a
 * request: 5 s. A QP in ERR has flushed its receives, so the completions are there then. */
START_TEST(a_peer_that_has_gone_is_told_to_who_only_receives)
{
    struct end *stays = left_with_receives(_i);
    struct ibv_wc wc[3];

    await_end(stays);
    log_await("and nothing was posted since");
    ck_assert_int_eq(ibv_poll_cq(stays->cq, 3, wc), 2);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(wc[i].wr_id, 101 + (uint64_t)i);
        ck_assert_int_eq(wc[i].status, IBV_WC_WR_FLUSH_ERR);
    }
    post_send(stays, 3);
    expect(stays, 3, IBV_WC_RETRY_EXC_ERR);
}
END_TEST

/* The time belongs to the connection that has ended. */
START_TEST(a_qp_that_was_left_connects_anew)
{
    struct end *stays = left_with_receives(_i), *next = other_end(_i);

    close_end(next);
    open_end(next);
    to_state(stays, IBV_QPS_RESET);
    connect_to(stays, next->qp->qp_num);
    connect_to(next, stays->qp->qp_num);
    exchange(stays, next);
    exchange(next, stays);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connections by numbers, posts without a peer");
    TCase *tc = tc_case(suite, "two ends", open_ends, close_ends);

    tcase_set_timeout(tc, 60);
    tc_add_tests(tc, a_request_is_refused_alike_before_the_connection_and_over_it,
                 the_first_of_a_list_completes_although_a_later_one_is_refused);
    tcase_add_loop_test(tc, without_a_connection_all_that_was_taken_is_flushed_in_order, 0, 2);
    tcase_add_loop_test(tc, a_bind_whose_object_was_freed_fails_in_its_turn, 0, 4);
    tc_add_loops(tc, 0, 2, a_peer_that_leaves_first_leaves_posted_receives_alone,
                 err_flushes_the_receives_that_a_peer_left,
                 a_peer_that_has_gone_is_told_to_who_only_receives,
                 a_qp_that_was_left_connects_anew);
    return tc_main(suite);
}
