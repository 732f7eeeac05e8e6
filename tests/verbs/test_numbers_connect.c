/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections by QP numbers over softrdma, as a verbs program sees them: two QPs of one process
 * that know each other's number and GID. Peers whose frames the test writes: test_numbers_peers.c.
 */
#include "numbers_ends.h"

#include "base/compiler.h"
#include "verbs/verbs_objects.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

START_TEST(posts_before_the_connection_arrive_in_order)
{
    struct end *sender = this_end(_i), *receiver = other_end(_i);

    connect_to(sender, receiver->qp->qp_num);
    for (unsigned int i = 0; i < DEPTH; i++)
        post_send(sender, i);
    ck_assert_int_eq(try_send(sender, 0, 0), ENOMEM);
    to_init(receiver);
    for (unsigned int i = 0; i < DEPTH; i++)
        post_recv(receiver, i);
    to_rtr(receiver, sender->qp->qp_num);
    for (unsigned int i = 0; i < DEPTH; i++)
        expect_message(receiver, i, i);
    for (unsigned int i = 0; i < DEPTH; i++)
        expect(sender, i, IBV_WC_SUCCESS);
}
END_TEST

/* Its memory belongs to the program again when the post returns. */
START_TEST(inline_data_is_copied_before_the_connection)
{
    struct end *sender = this_end(_i), *receiver = other_end(_i);

    connect_to(sender, receiver->qp->qp_num);
    ck_assert_int_eq(try_send(sender, 3, IBV_SEND_INLINE), 0);
    ck_assert_int_eq(try_send(sender, 4, IBV_SEND_INLINE), 0);
    memset(sender->memory, 0xee, sizeof(sender->memory));
    to_init(receiver);
    post_recv(receiver, 0);
    post_recv(receiver, 1);
    to_rtr(receiver, sender->qp->qp_num);
    expect_message(receiver, 0, 3);
    expect_message(receiver, 1, 4);
    expect(sender, 3, IBV_WC_SUCCESS);
    expect(sender, 4, IBV_WC_SUCCESS);
}
END_TEST

/* --- binds of windows before the connection --- */

static unsigned char windowed[2 * OCTETS];

static struct ibv_mw *window(enum ibv_mw_type type)
{
    struct ibv_mw *mw = ibv_alloc_mw(protection_domain, type);

    if (!mw)
        tc_skip("the device has no windows");
    return mw;
}

static struct ibv_mr *windowed_region(void)
{
    struct ibv_mr *mr = ibv_reg_mr(protection_domain, windowed, sizeof(windowed),
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);

    ck_assert_ptr_nonnull(mr);
    memset(windowed, 0x51, OCTETS);
    memset(windowed + OCTETS, 0x52, OCTETS);
    return mr;
}

static struct ibv_mw_bind_info half(struct ibv_mr *mr, unsigned int number)
{
    return (struct ibv_mw_bind_info){ .mr = mr,
                                      .addr = (uintptr_t)windowed + number * OCTETS,
                                      .length = OCTETS,
                                      .mw_access_flags = IBV_ACCESS_REMOTE_READ };
}

static void bind_first(struct end *end, struct ibv_mw *mw, struct ibv_mw_bind_info info)
{
    struct ibv_mw_bind bind = { .wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .bind_info = info };
    uint32_t before = mw->rkey;

    ck_assert_int_eq(ibv_bind_mw(end->qp, mw, &bind), 0);
    ck_assert_uint_ne(mw->rkey, before);
}

static uint32_t bind_second(struct end *end, struct ibv_mw *mw, struct ibv_mw_bind_info info)
{
    struct ibv_send_wr wr = { .wr_id = 2, .opcode = IBV_WR_BIND_MW }, *bad;

    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = info;
    ck_assert_int_eq(ibv_post_send(end->qp, &wr, &bad), 0);
    return wr.bind_mw.rkey;
}

static void expect_half(struct end *reader, unsigned int number, uint32_t rkey)
{
    struct ibv_sge sge = { (uintptr_t)reader->memory, OCTETS, reader->mr->lkey };
    struct ibv_send_wr wr = { .wr_id = 7,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .opcode = IBV_WR_RDMA_READ,
                              .wr.rdma = { .remote_addr = (uintptr_t)windowed + number * OCTETS,
                                           .rkey = rkey } },
                       *bad;

    ck_assert_int_eq(ibv_post_send(reader->qp, &wr, &bad), 0);
    expect(reader, 7, IBV_WC_SUCCESS);
    ck_assert_mem_eq(reader->memory, windowed + number * OCTETS, OCTETS);
}

START_TEST(windows_bound_before_the_connection_are_open_behind_it)
{
    struct end *owner = this_end(_i), *reader = other_end(_i);
    struct ibv_mr *mr = windowed_region();
    struct ibv_mw *first = window(IBV_MW_TYPE_1), *second = window(IBV_MW_TYPE_2);
    uint32_t rkey;

    connect_to(owner, reader->qp->qp_num);
    bind_first(owner, first, half(mr, 1));
    /* replaces the bind before it, with another key */
    bind_first(owner, first, half(mr, 0));
    rkey = bind_second(owner, second, half(mr, 1));
    post_send(owner, 3);
    to_init(reader);
    post_recv(reader, 0);
    to_rtr(reader, owner->qp->qp_num);
    to_rts(reader);
    expect(owner, 1, IBV_WC_SUCCESS);
    expect(owner, 1, IBV_WC_SUCCESS);
    expect(owner, 2, IBV_WC_SUCCESS);
    expect(owner, 3, IBV_WC_SUCCESS);
    expect_message(reader, 0, 3);
    expect_half(reader, 0, first->rkey);
    expect_half(reader, 1, rkey);
    ck_assert_int_eq(ibv_dealloc_mw(first), 0);
    ck_assert_int_eq(ibv_dealloc_mw(second), 0);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
}
END_TEST

START_TEST(posts_are_refused_before_rts)
{
    ck_assert_int_eq(try_send(small, 0, 0), EINVAL);
    to_init(small);
    ck_assert_int_eq(try_send(small, 0, 0), EINVAL);
    to_rtr(small, large->qp->qp_num);
    ck_assert_int_eq(try_send(small, 0, 0), EINVAL);
}
END_TEST

START_TEST(a_lid_of_no_port_fails_and_nothing_has_changed)
{
    to_init(small);
    dlid = 1;
    ck_assert_int_eq(try_rtr(small, large->qp->qp_num, false), EINVAL);
    dlid = 0;
    ck_assert_int_eq(small->qp->state, IBV_QPS_INIT);
    to_rtr(small, large->qp->qp_num);
}
END_TEST

/* The program gives its peer's LID, which is 0, and no GID: the peer is at the same port. */
START_TEST(without_a_gid_the_peer_is_here)
{
    struct end *const ends[] = { small, large };

    dlid = 0;
    for (int i = 0; i < 2; i++) {
        to_init(ends[i]);
        ck_assert_int_eq(try_rtr(ends[i], ends[1 - i]->qp->qp_num, false), 0);
        to_rts(ends[i]);
    }
    exchange(small, large);
    exchange(large, small);
}
END_TEST

START_TEST(a_qp_is_its_own_peer)
{
    struct end *end = small;

    to_init(end);
    post_recv(end, 0);
    to_rtr(end, end->qp->qp_num);
    to_rts(end);
    post_send(end, 5);
    for (int left = 2; left; left--) {
        struct ibv_wc wc = next_completion(end);

        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
        ck_assert_uint_eq(wc.wr_id, wc.opcode == IBV_WC_RECV ? 100 : 5);
    }
    ck_assert_uint_eq(end->memory[OCTETS - 1], 6);
}
END_TEST

/* --- what InfiniBand has and iWARP lacks --- */

/* A Send over TCP completes when TCP has it; by memory when the peer has executed it, as over an
 * adapter. tests/verbs/tcp.tap runs this program over TCP. */
static bool is_over_tcp(void)
{
    const char *conf = getenv("ITAL_CONF");

    return conf && strstr(conf, "/tcp.conf");
}

/* A Send behind one that waits keeps its place. */
START_TEST(a_send_waits_for_its_receive)
{
    for (int i = 0; i < 2; i++) {
        struct end *from = this_end(i), *to = other_end(i);
        struct ibv_wc wc;

        if (!i)
            connect_both();
        post_send(from, 0);
        post_send(from, 1);
        for (unsigned int n = 0; is_over_tcp() && n < 2; n++)
            expect(from, n, IBV_WC_SUCCESS);
        ck_assert_int_eq(ibv_poll_cq(to->cq, 1, &wc), 0);
        ck_assert_int_eq(ibv_poll_cq(from->cq, 1, &wc), 0);
        for (unsigned int n = 0; n < 2; n++) {
            post_recv(to, n);
            expect_message(to, n, n);
            if (!is_over_tcp())
                expect(from, n, IBV_WC_SUCCESS);
        }
    }
}
END_TEST

/* rnr_retry 0: a Send without a receive ends the connection. */
START_TEST(spent_retries_end_the_connection)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .timeout = 14, .sq_psn = 1 };
    unsigned int seen = 0;

    to_init(small);
    to_rtr(small, large->qp->qp_num);
    ck_assert_int_eq(ibv_modify_qp(small->qp, &attr,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
    connect_to(large, small->qp->qp_num);
    post_send(large, 0);
    /* Over TCP no request is left that could tell the sender. */
    for (int left = is_over_tcp() ? 2 : 1; left; left--) {
        struct ibv_async_event event;

        ck_assert_msg(tc_wait_fd(device_context->async_fd, POLLIN, tc_deadline(20000)) == POLLIN,
                      "no asynchronous event came");
        ck_assert_int_eq(ibv_get_async_event(device_context, &event), 0);
        ck_assert_int_eq(event.event_type,
                         event.element.qp == small->qp ? IBV_EVENT_QP_REQ_ERR : IBV_EVENT_QP_FATAL);
        seen |= event.element.qp == small->qp ? 1 : 2;
        ibv_ack_async_event(&event);
    }
    ck_assert_uint_eq(seen, is_over_tcp() ? 3 : 1);
    if (is_over_tcp()) {
        expect(large, 0, IBV_WC_SUCCESS);
        post_send(large, 1);
    }
    expect(large, is_over_tcp(), is_over_tcp() ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_REM_OP_ERR);
    post_send(large, 2);
    expect(large, 2, IBV_WC_WR_FLUSH_ERR);
}
END_TEST

static void post_immediate(struct end *end, enum ibv_wr_opcode opcode, uint32_t immediate,
                           const struct end *peer)
{
    struct ibv_sge sge = { (uintptr_t)end->memory + DEPTH * OCTETS, OCTETS, end->mr->lkey };
    struct ibv_send_wr wr = { .wr_id = immediate,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .opcode = opcode,
                              .imm_data = htonl(immediate) },
                       *bad;

    memset(end->memory + DEPTH * OCTETS, (int)immediate, OCTETS);
    if (opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        wr.wr.rdma.remote_addr = (uintptr_t)peer->memory + OCTETS;
        wr.wr.rdma.rkey = peer->mr->rkey;
    }
    ck_assert_int_eq(ibv_post_send(end->qp, &wr, &bad), 0);
    expect(end, immediate, IBV_WC_SUCCESS);
}

/* One receive and one completion each; that of a Write tells the Write's length. */
START_TEST(immediate_data_comes_with_the_message)
{
    static const struct {
        enum ibv_wr_opcode post;
        enum ibv_wc_opcode got;
        unsigned int placed; /* index in the receiver's memory */
    } kinds[] = { { IBV_WR_SEND_WITH_IMM, IBV_WC_RECV, 0 },
                  { IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RECV_RDMA_WITH_IMM, 1 } };

    connect_both();
    for (uint32_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        struct ibv_wc wc;

        post_recv(large, 0);
        post_immediate(small, kinds[i].post, i + 5, large);
        wc = next_completion(large);
        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
        ck_assert_int_eq(wc.opcode, kinds[i].got);
        ck_assert_uint_eq(wc.byte_len, OCTETS);
        ck_assert(wc.wc_flags & IBV_WC_WITH_IMM);
        ck_assert_uint_eq(ntohl(wc.imm_data), i + 5);
        ck_assert_uint_eq(large->memory[kinds[i].placed * OCTETS], i + 5);
    }
}
END_TEST

START_TEST(err_flushes_what_was_held_and_what_was_received)
{
    struct end *end = this_end(_i);
    unsigned int seen = 0;

    connect_to(end, other_end(_i)->qp->qp_num);
    post_recv(end, 0);
    post_send(end, 1);
    post_send(end, 2);
    to_state(end, IBV_QPS_ERR);
    for (int left = 3; left; left--) {
        struct ibv_wc wc = next_completion(end);

        ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
        seen |= 1u << (wc.wr_id == 100 ? 0 : wc.wr_id);
    }
    ck_assert_uint_eq(seen, 7);
}
END_TEST

START_TEST(after_reset_nothing_is_held_and_the_same_two_connect)
{
    connect_to(this_end(_i), other_end(_i)->qp->qp_num);
    post_send(this_end(_i), 4);
    to_state(this_end(_i), IBV_QPS_RESET);
    for (int round = 0; round < 3; round++) {
        connect_to(this_end(_i), other_end(_i)->qp->qp_num);
        connect_to(other_end(_i), this_end(_i)->qp->qp_num);
        exchange(this_end(_i), other_end(_i));
        exchange(other_end(_i), this_end(_i));
        to_state(this_end(_i), IBV_QPS_RESET);
        to_state(other_end(_i), IBV_QPS_RESET);
    }
}
END_TEST

/* The end is still to be handled when the QP gets its next peer. */
START_TEST(the_end_of_an_earlier_connection_does_not_touch_the_next)
{
    const struct ri_event end = { .size = sizeof(end), .type = RI_EVENT_LLP_CLOSED };
    struct vb_qp *qp = vb_qp_of(this_end(_i)->qp);
    const struct vb_connector *connector;

    connect_to(this_end(_i), other_end(_i)->qp->qp_num);
    connector = atomic_load(&qp->connector);
    for (int round = 0; round < 20; round++) {
        to_state(this_end(_i), IBV_QPS_RESET);
        to_state(other_end(_i), IBV_QPS_RESET);
        to_init(this_end(_i));
        connector->event(vb_context_of(device_context), qp, &end);
        to_rtr(this_end(_i), other_end(_i)->qp->qp_num);
        to_rts(this_end(_i));
        connect_to(other_end(_i), this_end(_i)->qp->qp_num);
        exchange(this_end(_i), other_end(_i));
    }
    to_state(this_end(_i), IBV_QPS_ERR);
    post_send(this_end(_i), 0);
    expect(this_end(_i), 0, IBV_WC_WR_FLUSH_ERR);
}
END_TEST

/* No peer answers the first; the second names a QP that has another peer. Both run at once, because
 * each takes the 5 s that a connection attempt lasts at least. */
START_TEST(what_finds_no_peer_fails_once_and_flushes)
{
    struct end nobody, late;

    open_end(&nobody);
    open_end(&late);
    connect_to(small, large->qp->qp_num);
    connect_to(large, small->qp->qp_num);
    connect_to(&nobody, 1024 << 8 | 7);
    connect_to(&late, small->qp->qp_num);
    for (unsigned int i = 0; i < 3; i++) {
        post_send(&nobody, i);
        post_send(&late, i);
    }
    exchange(small, large);
    for (unsigned int i = 0; i < 3; i++) {
        expect(&nobody, i, i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
        expect(&late, i, i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
    }
    ck_assert_int_eq(nobody.qp->state, IBV_QPS_ERR);
    exchange(large, small);
    close_end(&nobody);
    close_end(&late);
}
END_TEST

/* --- numbers --- */

START_TEST(numbers_are_not_used_again_soon_and_have_a_port_for_254_of_them)
{
    enum { MANY = 300 };
    static struct end many[MANY];
    uint32_t freed;

    for (int i = 0; i < MANY; i++) {
        open_end(&many[i]);
        ck_assert_uint_ge(many[i].qp->qp_num >> 8, 1024);
        ck_assert_uint_ge(many[i].qp->qp_num & 0xff, 2);
        for (int j = 0; j < i; j++)
            ck_assert_uint_ne(many[i].qp->qp_num, many[j].qp->qp_num);
    }
    freed = many[0].qp->qp_num;
    close_end(&many[0]);
    open_end(&many[0]);
    ck_assert_uint_ne(many[0].qp->qp_num, freed);
    for (int i = 0; i < MANY; i++)
        close_end(&many[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connections by numbers");
    TCase *tc = tc_case(suite, "two ends", open_ends, close_ends);

    tcase_set_timeout(tc, 60);
    tc_add_loops(tc, 0, 2, posts_before_the_connection_arrive_in_order,
                 inline_data_is_copied_before_the_connection,
                 windows_bound_before_the_connection_are_open_behind_it,
                 err_flushes_what_was_held_and_what_was_received,
                 after_reset_nothing_is_held_and_the_same_two_connect,
                 the_end_of_an_earlier_connection_does_not_touch_the_next);
    tc_add_tests(tc, posts_are_refused_before_rts, a_lid_of_no_port_fails_and_nothing_has_changed,
                 without_a_gid_the_peer_is_here, a_send_waits_for_its_receive,
                 spent_retries_end_the_connection, immediate_data_comes_with_the_message,
                 a_qp_is_its_own_peer, what_finds_no_peer_fails_once_and_flushes);
    tc = tc_case(suite, "numbers", open_context, close_context);
    tcase_add_test(tc, numbers_are_not_used_again_soon_and_have_a_port_for_254_of_them);
    return tc_main(suite);
}
