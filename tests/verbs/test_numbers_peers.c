/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A QP that waits for its peer, and peers whose MPA frames the test writes: strangers, the other
 * personality, too many, one that asks again, one that vanishes.
 */
#include "log_lines.h"
#include "numbers_ends.h"
#include "numbers_peer.h"

#include <netinet/in.h>
#include <poll.h>

static void expect_closed(int fd)
{
    uint8_t octets[256];

    ck_assert_uint_eq(answer(fd, octets, sizeof(octets)), 0);
    close(fd);
}

/* A rejecting Reply of revision 1 without private data. */
static void expect_rejected(int fd)
{
    uint8_t octets[256];

    ck_assert_uint_eq(answer(fd, octets, sizeof(octets)), MPA_HEAD);
    ck_assert_mem_eq(octets, "MPA ID Rep Frame", 16);
    ck_assert(octets[16] & 0x20);
    close(fd);
}

static void expect_refused(int fd, enum hello_reason reason)
{
    uint8_t octets[256];
    struct hello hello;
    size_t length = answer(fd, octets, sizeof(octets));

    ck_assert_uint_eq(length, MPA_HEAD + HELLO_OCTETS);
    ck_assert_mem_eq(octets, "MPA ID Rep Frame", 16);
    ck_assert(octets[16] & 0x20);
    ck_assert(hello_decode(octets + MPA_HEAD, length - MPA_HEAD, &hello));
    ck_assert_uint_eq(hello.reason, reason);
    close(fd);
}

START_TEST(a_stranger_is_closed_without_an_answer)
{
    struct hello unknown = hello_for((small->qp->qp_num & 0xffff00) | 1, 0x500002);
    struct hello elsewhere = hello_for(small->qp->qp_num, 0x500002);

    need_ipv4();
    elsewhere.own_gid[15] ^= 1;
    expect_closed(ask(small->qp->qp_num, &unknown));
    expect_closed(ask(small->qp->qp_num, &elsewhere));
    connect_to(small, large->qp->qp_num);
    connect_to(large, small->qp->qp_num);
    exchange(small, large);
}
END_TEST

START_TEST(the_other_personality_is_refused_with_its_reason)
{
    struct hello hello = hello_for(small->qp->qp_num, 0x500002);

    need_ipv4();
    hello.flags = HELLO_ROCE;
    expect_refused(ask(small->qp->qp_num, &hello), HELLO_PERSONALITY);
}
END_TEST

/* The index of a socket that has data. */
static int first_answered(const int *fds, int count)
{
    struct pollfd polled[8];

    for (int i = 0; i < count; i++)
        polled[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    ck_assert_int_gt(poll(polled, (nfds_t)count, (int)tc_timeout_ms(DEADLINE)), 0);
    for (int i = 0; i < count; i++)
        if (polled[i].revents)
            return i;
    return -1;
}

/* Five peers ask; afterwards four requests wait. Returns the index of the one that is refused. */
static int ask_five_times(int fds[5])
{
    int crowded;

    for (uint32_t i = 0; i < 5; i++) {
        struct hello hello = hello_for(small->qp->qp_num, 0x500002 + i);

        fds[i] = ask(small->qp->qp_num, &hello);
    }
    crowded = first_answered(fds, 5);
    expect_refused(fds[crowded], HELLO_CROWDED);
    return crowded;
}

START_TEST(four_requests_wait_a_fifth_is_refused_and_in_rtr_all_that_do_not_fit)
{
    int fds[5], crowded;

    need_ipv4();
    crowded = ask_five_times(fds);
    connect_to(small, large->qp->qp_num);
    for (int i = 0; i < 5; i++)
        if (i != crowded)
            expect_refused(fds[i], HELLO_OTHER_PEER);
    connect_to(large, small->qp->qp_num);
    exchange(small, large);
}
END_TEST

/* _i: the QP is in INIT. */
START_TEST(requests_that_wait_are_rejected_when_their_qp_is_destroyed)
{
    int fds[5], crowded;

    need_ipv4();
    if (_i)
        to_init(small);
    crowded = ask_five_times(fds);
    ck_assert_int_eq(ibv_destroy_qp(small->qp), 0);
    small->qp = NULL;
    for (int i = 0; i < 5; i++)
        if (i != crowded)
            expect_rejected(fds[i]);
}
END_TEST

START_TEST(a_peer_that_asks_again_takes_the_place_of_its_earlier_request)
{
    struct hello hello = hello_for(small->qp->qp_num, 0x500002);
    int first, second;

    need_ipv4();
    first = ask(small->qp->qp_num, &hello);
    second = ask(small->qp->qp_num, &hello);
    if (first_answered((const int[]){ first, second }, 2) == 0) {
        expect_refused(first, HELLO_OTHER_PEER);
        close(second);
    } else {
        expect_refused(second, HELLO_OTHER_PEER);
        close(first);
    }
}
END_TEST

/* Before its request, within it, after it; each time the true peer connects afterwards. */
START_TEST(a_peer_that_vanishes_leaves_room_for_the_true_one)
{
    struct hello hello = hello_for(small->qp->qp_num, large->qp->qp_num);
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)(small->qp->qp_num >> 8)) };
    int fd;

    need_ipv4();
    memcpy(&to.sin_addr, gid.raw + 12, 4);
    for (size_t length = 0; length <= 16; length += 16) {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
        ck_assert_int_eq(send(fd, "MPA ID Req Frame", length, MSG_NOSIGNAL), (ssize_t)length);
        close(fd);
    }
    for (int i = 0; i < 3; i++)
        close(ask(small->qp->qp_num, &hello));
    connect_to(large, small->qp->qp_num);
    connect_to(small, large->qp->qp_num);
    exchange(large, small);
    exchange(small, large);
}
END_TEST

/* A request is under way as the peer leaves: who polls its failure finds the QP in ERR, with its
 * receives flushed, and waits for nothing. */
START_TEST(a_qp_is_in_err_when_the_end_of_its_peer_fails_a_request)
{
    const uint32_t peer = 0xfffff2;
    struct hello hello = hello_for(small->qp->qp_num, peer);
    uint8_t reply[MPA_HEAD + HELLO_OCTETS];
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct ibv_wc wc[3];
    int fd;

    need_ipv4();
    log_capture();
    fd = ask(small->qp->qp_num, &hello);
    connect_to(small, peer);
    ck_assert(tc_wait_fd(fd, POLLIN, tc_deadline(DEADLINE)));
    ck_assert_int_eq(recv(fd, reply, sizeof(reply), MSG_WAITALL), sizeof(reply));
    post_recv(small, 1);
    post_recv(small, 2);
    post_send(small, 3); /* it waits for the peer's first message, which never comes */
    if (_i)              /* by a reset */
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger));
    close(fd);
    wc[0] = next_completion(small);
    ck_assert_int_eq(ibv_query_qp(small->qp, &attr, IBV_QP_STATE, &init), 0);
    ck_assert_int_eq(attr.qp_state, IBV_QPS_ERR);
    ck_assert_uint_eq(wc[0].wr_id, 3);
    ck_assert_int_eq(wc[0].status, IBV_WC_RETRY_EXC_ERR);
    expect(small, 101, IBV_WC_WR_FLUSH_ERR);
    expect(small, 102, IBV_WC_WR_FLUSH_ERR);
    ck_assert_ptr_nonnull(
        strstr(log_await(" has ended the connection ("), "requests were under way"));
    ck_assert_ptr_null(strstr(log_so_far(), "outstanding, Terminate")); /* one line for one cause */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connections by numbers, other peers");
    TCase *tc = tc_case(suite, "peers", open_ends, close_ends);

    tcase_set_timeout(tc, 60);
    tc_add_tests(tc, a_stranger_is_closed_without_an_answer,
                 the_other_personality_is_refused_with_its_reason,
                 four_requests_wait_a_fifth_is_refused_and_in_rtr_all_that_do_not_fit,
                 a_peer_that_asks_again_takes_the_place_of_its_earlier_request,
                 a_peer_that_vanishes_leaves_room_for_the_true_one);
    tcase_add_loop_test(tc, requests_that_wait_are_rejected_when_their_qp_is_destroyed, 0, 2);
    tcase_add_loop_test(tc, a_qp_is_in_err_when_the_end_of_its_peer_fails_a_request, 0, 2);
    return tc_main(suite);
}
