/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that shares memory with this side and says of its progress what it likes: positions, what
 * messages tell, ends, and records that change behind their judgement. */
#include "hostile_bed.h"

/* --- positions --- */

START_TEST(progress_that_cannot_be_ends_the_connection)
{
    static const struct {
        uint32_t executed;
        uint64_t answered;
    } said[] = { { 3, 0 },           { UINT32_MAX, 0 },
                 { 0x80000000u, 0 }, { 0, LOCAL_ANSWERS + 1 },
                 { 0, UINT64_MAX },  { 2, 0 /* the Read's octets are missing */ } };

    hostile_open(NULL);
    side_send(a, 0, region_sge(&closed_region, 0, 64));
    side_read(a, 1, region_sge(&closed_region, ROOM / 2, 64), 4096, 77);
    testbed_passes(&bed, 2);
    atomic_store(&hand.own->answered, said[_i].answered);
    hand_execute(&hand, said[_i].executed);
    side_expect_event(a, RI_EVENT_RESPONSE_ERROR, BROKEN);
    if (said[_i].executed == 2)
        side_expect(a, a->send_cq, 0, RI_WC_SUCCESS, 64);
    expect_all_flushed(a->send_cq, said[_i].executed == 2, 2 - (said[_i].executed == 2));
    ck_assert_uint_eq(hand_ended(&hand), LOCAL_TERMINATED);
    ck_assert(is_untouched(&closed_region, 0, ROOM));
}
END_TEST

START_TEST(progress_does_not_go_backwards)
{
    hostile_open(NULL);
    side_send(a, 0, region_sge(&closed_region, 0, 64));
    side_send(a, 1, region_sge(&closed_region, 0, 64));
    hand_execute(&hand, 2);
    side_expect(a, a->send_cq, 0, RI_WC_SUCCESS, 64);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 64);
    atomic_store(&hand.own->executed, 1);
    hand_ring(&hand);
    side_send(a, 2, region_sge(&closed_region, 0, 64));
    side_expect_event(a, RI_EVENT_RESPONSE_ERROR, BROKEN);
    expect_all_flushed(a->send_cq, 2, 1);
}
END_TEST

/* --- progress that messages tell --- */

static void put_telling(uint32_t executed)
{
    static const uint8_t octets[8];
    struct ring_header header = RECORD(RING_REQUEST, .opcode = RI_WR_SEND, .flags = RING_TELLS,
                                       .piece = 8, .length = 8);

    header.executed = executed;
    hand.published++;
    hand_put(&hand, &header, octets, 8);
}

START_TEST(a_message_tells_what_is_executed)
{
    hostile_open(NULL);
    side_receive(a, 7, region_sge(&closed_region, 0, 64));
    side_send(a, 0, region_sge(&closed_region, 0, 64));
    side_send(a, 1, region_sge(&closed_region, 0, 64));
    put_telling(2);
    side_expect(a, a->recv_cq, 7, RI_WC_SUCCESS, 8);
    side_expect(a, a->send_cq, 0, RI_WC_SUCCESS, 64);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 64);
}
END_TEST

/* It waits for a receive, which the consumer posts when its own request is complete. */
START_TEST(a_message_that_waits_tells_what_is_executed)
{
    static const struct ri_qp_modify agreed = { .size = sizeof(agreed),
                                                .mask = RI_QPM_RNR,
                                                .rnr_retry = FOREVER };

    hostile_open(NULL);
    OK(bed.fake.privileged.qp_modify(a->qp, &agreed));
    side_send(a, 0, region_sge(&closed_region, 0, 64));
    put_telling(1);
    side_expect(a, a->send_cq, 0, RI_WC_SUCCESS, 64);
    side_receive(a, 7, region_sge(&closed_region, 0, 64));
    side_expect(a, a->recv_cq, 7, RI_WC_SUCCESS, 8);
}
END_TEST

START_TEST(a_message_that_tells_too_much_ends_the_connection)
{
    static const uint32_t said[] = { 3, 1000, INT32_MAX };

    hostile_open(NULL);
    side_receive(a, 7, region_sge(&closed_region, 0, 64));
    side_send(a, 0, region_sge(&closed_region, 0, 64));
    side_send(a, 1, region_sge(&closed_region, 0, 64));
    put_telling(said[_i]);
    side_expect_event(a, RI_EVENT_RESPONSE_ERROR, BROKEN);
    expect_all_flushed(a->send_cq, 0, 2);
    expect_all_flushed(a->recv_cq, 7, 1);
}
END_TEST

/* The page may have told more before. */
START_TEST(a_message_that_tells_less_says_nothing_new)
{
    static const uint32_t said[] = { 0, 1, 2, INT32_MIN + 3u };

    hostile_open(NULL);
    side_receive(a, 7, region_sge(&closed_region, 0, 64));
    side_send(a, 0, region_sge(&closed_region, 0, 64));
    side_send(a, 1, region_sge(&closed_region, 0, 64));
    hand_execute(&hand, 2);
    side_expect(a, a->send_cq, 0, RI_WC_SUCCESS, 64);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 64);
    put_telling(said[_i]);
    side_expect(a, a->recv_cq, 7, RI_WC_SUCCESS, 8);
    side_send(a, 2, region_sge(&closed_region, 0, 64));
    put_telling(3);
    side_receive(a, 8, region_sge(&closed_region, 0, 64));
    side_expect(a, a->recv_cq, 8, RI_WC_SUCCESS, 8);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 64);
}
END_TEST

/* A message comes, and a consumer takes it who looks at the CQ of receives. */
static void take_by_look(uint64_t cookie)
{
    const uint8_t octets[8] = { 1 };
    struct ri_wc wc;
    uint32_t got = 0;

    side_receive(a, cookie, region_sge(&closed_region, 0, 64));
    testbed_passes(&bed, 1);
    hand_request(&hand, RI_WR_SEND, octets, sizeof(octets), 0, 0);
    for (int look = 0; look < 1000 && !got; look++) {
        fake_lane_pass(&bed.fake.events, 0);
        fake_host_run(&bed.fake, a->recv_cq);
        got = bed.fake.user.poll(a->recv_cq, 1, &wc);
    }
    ck_assert_uint_eq(got, 1);
    ck_assert_uint_eq(wc.cookie, cookie);
}

static uint32_t told(void)
{
    return atomic_load(&hand.peer->executed);
}

START_TEST(progress_is_told_by_the_answer_or_by_the_next_look)
{
    const uint8_t *octets;
    struct ring_header header;

    hostile_open(NULL);
    take_by_look(1);
    ck_assert_uint_eq(told(), 0);
    fake_host_run(&bed.fake, a->recv_cq);
    ck_assert_uint_eq(told(), 1);
    take_by_look(2);
    ck_assert_uint_eq(told(), 1);
    side_send(a, 0, region_sge(&closed_region, 0, 64));
    header = hand_take(&hand, &octets);
    ck_assert_uint_eq(header.flags & RING_TELLS, RING_TELLS);
    ck_assert_uint_eq(header.executed, 2);
}
END_TEST

START_TEST(progress_is_told_before_the_lane_sleeps)
{
    struct ri_lane *lane = bed.fake.lanes[0];

    hostile_open(NULL);
    take_by_look(1);
    ck_assert_uint_eq(told(), 0);
    lane->ops->lane_arm(lane);
    ck_assert_uint_eq(told(), 1);
}
END_TEST

START_TEST(progress_is_told_before_the_end)
{
    hostile_open(NULL);
    take_by_look(1);
    ck_assert_uint_eq(told(), 0);
    side_modify(a, RI_QPS_ERROR);
    ck_assert_uint_ne(hand_ended(&hand), LOCAL_OPEN);
    ck_assert_uint_eq(told(), 1);
}
END_TEST

/* What the peer says it has taken is believed as far as it can be true: the side waits, and
 * nothing that is not taken is overwritten by more than the peer has asked for. */
START_TEST(room_that_cannot_be_is_none)
{
    static const uint64_t said[] = { UINT64_MAX, LOCAL_REQUESTS * 4, 1ull << 63 };

    hostile_open(NULL);
    for (uint64_t i = 0; i < 20; i++)
        side_send(a, i, region_sge(&closed_region, 0, 8000));
    testbed_passes(&bed, 4);
    atomic_store(&hand.own->consumed, said[_i]);
    hand_ring(&hand);
    testbed_passes(&bed, 4);
    for (int i = 0; i < 7; i++) {
        const uint8_t *octets;
        struct ring_header header;

        ck_assert_int_eq(ring_look(&hand.take, &header, &octets), RING_RECORD_FOUND);
        ck_assert_uint_eq(header.piece, 8000);
        ck_assert_uint_eq(octets[7999], 0xC3);
        ring_pass(&hand.take, &header);
    }
    hand_die(&hand);
    expect_ended();
    expect_all_flushed(a->send_cq, 0, 20);
}
END_TEST

/* A Read of the peer is answered as far as there is room by what the peer says. */
START_TEST(answers_wait_for_room_that_can_be)
{
    static const uint64_t said[] = { 1000, 1ull << 63, LOCAL_ANSWERS + 8 };

    hostile_open(NULL);
    atomic_store(&hand.own->taken, said[_i]);
    hand_request(&hand, RI_WR_RDMA_READ, NULL, 0, hostile_addr(&open_region, 0),
                 open_region.keys.rkey);
    testbed_passes(&bed, 2);
    hand.published++;
    hand_put(&hand,
             &(struct ring_header)RECORD(RING_REQUEST, .opcode = RI_WR_RDMA_READ, .length = 64,
                                         .remote_addr = hostile_addr(&open_region, 0),
                                         .rkey = open_region.keys.rkey),
             NULL, 0);
    testbed_passes(&bed, 4);
    ck_assert_uint_eq(atomic_load(&hand.peer->answered), 0);
    ck_assert_uint_eq(atomic_load(&hand.peer->executed), 1);
    atomic_store(&hand.own->taken, 0);
    hand_ring(&hand);
    ck_assert(fake_host_until(&bed.fake, atomic_load(&hand.peer->executed) == 2, TESTBED_TIMEOUT));
    ck_assert_uint_eq(atomic_load(&hand.peer->answered), 64);
}
END_TEST

/* --- ends --- */

START_TEST(an_end_of_any_value_is_an_end)
{
    static const uint32_t values[] = { LOCAL_CLOSED, LOCAL_TERMINATED, LOCAL_REFUSED,
                                       LOCAL_RESET,  LOCAL_RESET + 1,  0x80000000u,
                                       UINT32_MAX };
    static const uint32_t statuses[] = {
        0, RI_WC_REMOTE_ACCESS, RI_WC_RNR, RI_WC_FLUSHED, RI_WC_SUCCESS, 99, UINT32_MAX
    };
    const uint32_t value = values[_i];

    for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
        for (uint32_t number = 0; number < 4; number++) {
            struct ri_wc wc;

            hostile_open(NULL);
            side_receive(a, 9, region_sge(&closed_region, ROOM / 2, 64));
            for (uint64_t j = 0; j < 3; j++)
                side_send(a, j, region_sge(&closed_region, 0, 64));
            hand_execute(&hand, 1);
            side_expect(a, a->send_cq, 0, RI_WC_SUCCESS, 64);
            hand_end(&hand, value, number == 3 ? UINT32_MAX : number, 0xFFFFFFFF, statuses[i]);
            wc = side_next(a, a->send_cq);
            ck_assert_uint_eq(wc.cookie, 1);
            ck_assert_int_ne(wc.status, RI_WC_SUCCESS);
            /* Only the request that is the next one can have been refused. */
            if (value != LOCAL_REFUSED || number != 1)
                ck_assert_int_eq(wc.status, RI_WC_FLUSHED);
            else
                ck_assert_int_ne(wc.status, RI_WC_FLUSHED);
            expect_all_flushed(a->send_cq, 2, 1);
            expect_all_flushed(a->recv_cq, 9, 1);
            expect_ended();
            ck_assert_uint_eq(atomic_load(&a->events.count), 1);
            hostile_close();
        }
    }
}
END_TEST

/* --- what changes meanwhile --- */

static void agree_to_wait(void)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_RNR,
                                   .rnr_retry = FOREVER };

    OK(bed.fake.privileged.qp_modify(a->qp, &modify));
}

/* A Send waits in the ring for its receive. What was judged stays as it was, whatever the peer
 * makes of its record. */
START_TEST(a_record_is_judged_once)
{
    static const struct ring_header others[] = {
        RECORD(RING_REQUEST, .piece = 4096, .length = 4096),
        RECORD(RING_REQUEST, .piece = 0, .length = 0),
        RECORD(RING_REQUEST, .opcode = RI_WR_RDMA_WRITE, .piece = 100, .length = 100),
        RECORD(RING_REQUEST, .opcode = RI_WR_SEND_INVALIDATE, .piece = 1, .length = 1),
        RECORD(RING_MORE, .piece = RING_PIECE, .length = 1),
        RECORD(RING_MORE, .piece = RING_PIECE + 1),
        RECORD(RING_KINDS, .piece = UINT32_MAX, .length = UINT32_MAX),
        RECORD(RING_SKIP, .piece = 0),
    };
    uint8_t octets[100], *place;

    hostile_open(NULL);
    agree_to_wait();
    memset(octets, 0x11, sizeof(octets));
    hand_request(&hand, RI_WR_SEND, octets, sizeof(octets), 0, 0);
    testbed_passes(&bed, 4);
    place = local_requests(hand.local, 1);
    memcpy(place + 4, (const uint8_t *)&others[_i] + 4, sizeof(others[_i]) - 4);
    side_receive(a, 1, region_sge(&closed_region, ROOM / 2, 200));
    side_expect(a, a->recv_cq, 1, RI_WC_SUCCESS, sizeof(octets));
    ck_assert_mem_eq(closed_region.octets + ROOM / 2, octets, sizeof(octets));
    /* The next record is where this one was to end. */
    hand_request(&hand, RI_WR_SEND, octets, 10, 0, 0);
    side_receive(a, 2, region_sge(&closed_region, ROOM / 2, 200));
    side_expect(a, a->recv_cq, 2, RI_WC_SUCCESS, 10);
    ck_assert(is_untouched(&closed_region, 0, ROOM / 2));
    ck_assert(is_untouched(&closed_region, ROOM / 2 + sizeof(octets), ROOM));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_positions");
    TCase *positions = tc_case(suite, "positions", hostile_setup, hostile_teardown);

    tcase_add_loop_test(positions, progress_that_cannot_be_ends_the_connection, 0, 6);
    tc_add_tests(positions, progress_does_not_go_backwards);
    tc_add_tests(positions, a_message_tells_what_is_executed,
                 a_message_that_waits_tells_what_is_executed,
                 progress_is_told_by_the_answer_or_by_the_next_look,
                 progress_is_told_before_the_lane_sleeps, progress_is_told_before_the_end);
    tcase_add_loop_test(positions, a_message_that_tells_too_much_ends_the_connection, 0, 3);
    tcase_add_loop_test(positions, a_message_that_tells_less_says_nothing_new, 0, 4);
    tcase_add_loop_test(positions, room_that_cannot_be_is_none, 0, 3);
    tcase_add_loop_test(positions, answers_wait_for_room_that_can_be, 0, 3);
    tcase_add_loop_test(positions, an_end_of_any_value_is_an_end, 0, 7);
    tcase_add_loop_test(positions, a_record_is_judged_once, 0, 8);
    return tc_main(suite);
}
