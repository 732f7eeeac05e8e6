/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device softroce with option local: two QPs of one host leave UDP for memory that both share,
 * or stay there both; what programs see of it is RoCE's.
 */
#include "device_bed.h"

#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define A    (&bed[0])
#define B    (&bed[1])
#define HALF (BED_MEMORY / 2)

static const char *const accesses[] = { "auto", "ring" };
#define ACCESSES 2

static const char *options[] = { "local", "auto", "local_access", "auto", NULL };

static void open_both(int access)
{
    options[3] = accesses[access];
    bed_open(1, options);
}

static struct ri_send_wr request(enum ri_wr_opcode opcode, uint64_t cookie)
{
    struct ri_send_wr wr = { .opcode = (uint16_t)opcode,
                             .cookie = cookie,
                             .flags = RI_WR_SIGNALED,
                             .immediate = 0x01020304 };

    if (opcode == RI_WR_ATOMIC_FETCH_ADD || opcode == RI_WR_ATOMIC_COMPARE_SWAP) {
        wr.atomic.remote_addr = (uintptr_t)B->memory + HALF;
        wr.atomic.rkey = B->keys.rkey;
    } else {
        wr.rdma.remote_addr = (uintptr_t)B->memory + HALF;
        wr.rdma.rkey = B->keys.rkey;
    }
    return wr;
}

/* --- which wire --- */

static const char *way_of(const struct end *end)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    OK(end->fake.privileged.qp_query(end->qp, &info));
    return info.way;
}

static bool are_local(const void *arg)
{
    (void)arg;
    return way_of(A) && way_of(B);
}

static void to_RTS(struct end *end)
{
    OK(bed_to(end, RI_QPS_INIT));
    OK(bed_to(end, RI_QPS_RTR));
    OK(bed_to(end, RI_QPS_RTS));
}

static void connect_locally(void)
{
    bed_connect();
    ck_assert_msg(bed_wait(are_local, NULL, BED_TIMEOUT), "the QPs stay on UDP");
}

static void exchange(struct end *from, struct end *to, uint32_t length)
{
    bed_receive(to, 20, bed_sge(to, 0, 4096));
    OK(bed_post(from, request(RI_WR_SEND, 10), bed_sge(from, 0, length)));
    bed_take(from, from->send_cq, 10, RI_WC_SUCCESS);
    ck_assert_uint_eq(bed_take(to, to->recv_cq, 20, RI_WC_SUCCESS).byte_len, length);
}

static void is_by_udp(void)
{
    exchange(A, B, 100);
    exchange(B, A, 100);
    ck_assert_ptr_null(way_of(A));
    ck_assert_ptr_null(way_of(B));
    ck_assert_uint_gt(bed_qp_counter(A, "packets sent"), 0);
}

/* --- operations --- */

static void send_one(uint32_t length, bool immediate)
{
    struct ri_wc wc;

    bed_receive(B, 2, bed_sge(B, 0, length ? length : 1));
    OK(bed_post(A, request(immediate ? RI_WR_SEND_IMMEDIATE : RI_WR_SEND, 1),
                bed_sge(A, 8, length)));
    bed_take(A, A->send_cq, 1, RI_WC_SUCCESS);
    wc = bed_take(B, B->recv_cq, 2, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.byte_len, length);
    ck_assert_int_eq(!!(wc.flags & RI_WC_WITH_IMMEDIATE), immediate);
    if (immediate)
        ck_assert_uint_eq(wc.immediate, 0x01020304);
    ck_assert_mem_eq(A->memory + 8, B->memory, length);
}

static void write_one(uint32_t length, bool immediate)
{
    struct ri_wc wc;

    if (immediate)
        bed_receive(B, 4, bed_sge(B, 0, 1));
    OK(bed_post(A, request(immediate ? RI_WR_RDMA_WRITE_IMMEDIATE : RI_WR_RDMA_WRITE, 3),
                bed_sge(A, 16, length)));
    bed_take(A, A->send_cq, 3, RI_WC_SUCCESS);
    if (immediate) {
        wc = bed_take(B, B->recv_cq, 4, RI_WC_SUCCESS);
        ck_assert_uint_eq(wc.immediate, 0x01020304);
        ck_assert_uint_eq(wc.byte_len, length);
    }
    ck_assert_mem_eq(A->memory + 16, B->memory + HALF, length);
}

static void read_one(uint32_t length)
{
    OK(bed_post(A, request(RI_WR_RDMA_READ, 5), bed_sge(A, 32, length)));
    bed_take(A, A->send_cq, 5, RI_WC_SUCCESS);
    ck_assert_mem_eq(A->memory + 32, B->memory + HALF, length);
}

static void add_one(void)
{
    struct ri_send_wr add = request(RI_WR_ATOMIC_FETCH_ADD, 6);
    uint64_t *at = (uint64_t *)(void *)(B->memory + HALF), *got = (uint64_t *)(void *)A->memory;

    *at = 1000;
    add.atomic.swap_or_add = 23;
    OK(bed_post(A, add, bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 6, RI_WC_SUCCESS);
    ck_assert_uint_eq(*got, 1000);
    ck_assert_uint_eq(*at, 1023);
}

START_TEST(every_operation_carries_without_a_packet)
{
    static const uint32_t lengths[] = { 0, 1, 255, 4097, 100003 };
    struct tc_rng rng = tc_rng(1);

    open_both(_i);
    connect_locally();
    tc_fill(&rng, A->memory, BED_MEMORY);
    tc_fill(&rng, B->memory, BED_MEMORY);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        send_one(lengths[i], false);
        send_one(lengths[i], true);
        write_one(lengths[i], false);
        write_one(lengths[i], true);
        read_one(lengths[i]);
    }
    add_one();
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(bed_qp_counter(&bed[i], "packets sent"), 0);
        ck_assert_uint_eq(bed_qp_counter(&bed[i], "packets received"), 0);
    }
    bed_close();
}
END_TEST

/* --- who comes when --- */

/* Either may have the lower number. */
static struct end *first_of(int which)
{
    return (A->qpn > B->qpn) == !which ? A : B;
}

static struct end *other_of(const struct end *end)
{
    return end == A ? B : A;
}

/* One posts in RTS long before the other has left RESET. */
START_TEST(requests_wait_for_a_peer_that_comes_late)
{
    struct end *early, *late;

    open_both(0);
    early = first_of(_i);
    late = other_of(early);
    to_RTS(early);
    OK(bed_post(early, request(RI_WR_SEND, 1), bed_sge(early, 0, 64)));
    bed_take_none(early, early->send_cq);
    OK(bed_to(late, RI_QPS_INIT));
    bed_receive(late, 2, bed_sge(late, 0, 64));
    bed_take_none(early, early->send_cq);
    OK(bed_to(late, RI_QPS_RTR));
    bed_take(early, early->send_cq, 1, RI_WC_SUCCESS);
    bed_take(late, late->recv_cq, 2, RI_WC_SUCCESS);
    bed_await_event(late, RI_EVENT_COMMUNICATION_ESTABLISHED);
    ck_assert_int_eq(bed_post(late, request(RI_WR_SEND, 9), bed_sge(late, 0, 8)),
                     RI_ERR_INVALID_STATE);
    OK(bed_to(late, RI_QPS_RTS));
    exchange(late, early, 64);
    ck_assert_uint_eq(bed_events(late, RI_EVENT_COMMUNICATION_ESTABLISHED), 1);
    ck_assert(are_local(NULL));
    bed_close();
}
END_TEST

/* Passes of one end alone: it does all that it can. */
static void run_alone(struct end *end)
{
    for (int pass = 0; pass < 50; pass++) {
        fake_lane_pass(&end->fake.events, 0);
        fake_host_run(&end->fake, NULL);
    }
}

/* More than one look takes: the end that comes to the wire local later finds all of them there. */
#define MANY 200u

START_TEST(all_requests_that_waited_are_executed)
{
    struct end *early, *late;

    open_both(0);
    early = first_of(_i);
    late = other_of(early);
    to_RTS(early);
    OK(bed_to(late, RI_QPS_INIT));
    for (uint64_t i = 0; i < MANY; i++) {
        bed_receive(late, i, bed_sge(late, 0, HALF));
        OK(bed_post(early, request(RI_WR_SEND, i), bed_sge(early, 0, HALF)));
    }
    OK(bed_to(late, RI_QPS_RTR));
    while (!way_of(early)) {
        run_alone(early);
        fake_lane_pass(&late->fake.events, 0);
    }
    run_alone(early);
    for (uint64_t i = 0; i < MANY; i++) {
        bed_take(early, early->send_cq, i, RI_WC_SUCCESS);
        bed_take(late, late->recv_cq, i, RI_WC_SUCCESS);
    }
    ck_assert(are_local(NULL));
    bed_close();
}
END_TEST

/* It would not acknowledge packets either. */
START_TEST(a_peer_that_does_not_come_uses_up_the_retries)
{
    open_both(0);
    A->timeout = 8; /* 1 ms */
    A->retry_count = 2;
    to_RTS(A);
    if (_i)
        OK(bed_to(B, RI_QPS_INIT));
    bed_receive(A, 3, bed_sge(A, 0, 8));
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 64)));
    OK(bed_post(A, request(RI_WR_SEND, 2), bed_sge(A, 0, 64)));
    bed_take(A, A->send_cq, 1, RI_WC_TRANSPORT);
    bed_take(A, A->send_cq, 2, RI_WC_FLUSHED);
    bed_take(A, A->recv_cq, 3, RI_WC_FLUSHED);
    bed_await_event(A, RI_EVENT_LLP_LOST);
    bed_close();
}
END_TEST

static void reopen(struct end *end, const char *const *other)
{
    bed_close_end(end);
    bed_open_end(end, 1, other);
}

START_TEST(an_end_without_the_option_keeps_both_on_UDP)
{
    static const char *const no[] = { "local", "no", NULL };

    open_both(0);
    reopen(first_of(_i), no);
    bed_connect();
    is_by_udp();
    bed_close();
}
END_TEST

START_TEST(option_guard_keeps_both_on_UDP)
{
    static const char *const guard[] = { "local", "auto", "guard", "yes", NULL };

    open_both(0);
    reopen(first_of(_i), guard);
    bed_connect();
    is_by_udp();
    bed_close();
}
END_TEST

START_TEST(option_only_refuses_a_peer_without_the_wire)
{
    static const char *const no[] = { "local", "no", NULL }, *const only[] = { "local", "only",
                                                                               NULL };

    open_both(0);
    reopen(A, only);
    reopen(B, no);
    OK(bed_to(A, RI_QPS_INIT));
    OK(bed_to(A, RI_QPS_RTR));
    bed_await_event(A, RI_EVENT_LLP_LOST);
    ck_assert_int_eq(bed_state(A), RI_QPS_ERROR);
    bed_close();
}
END_TEST

START_TEST(a_QP_that_names_itself_stays_on_UDP)
{
    uint32_t other;

    open_both(0);
    other = B->qpn;
    B->qpn = A->qpn;
    B->psn = A->psn;
    to_RTS(A);
    bed_receive(A, 2, bed_sge(A, 128, 64));
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 64)));
    bed_take(A, A->send_cq, 1, RI_WC_SUCCESS);
    bed_take(A, A->recv_cq, 2, RI_WC_SUCCESS);
    B->qpn = other;
    bed_close();
}
END_TEST

/* B is connected with nobody that A is. */
START_TEST(a_peer_of_another_one_is_no_peer)
{
    open_both(0);
    A->timeout = 8; /* 1 ms */
    A->retry_count = 2;
    OK(bed_to(B, RI_QPS_INIT));
    A->qpn ^= 0x800000;
    OK(bed_to(B, RI_QPS_RTR));
    A->qpn ^= 0x800000;
    to_RTS(A);
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 64)));
    bed_take(A, A->send_cq, 1, RI_WC_TRANSPORT);
    bed_close();
}
END_TEST

/* --- reset --- */

START_TEST(a_reset_pair_begins_anew)
{
    open_both(_i);
    for (uint32_t life = 0; life < 20; life++) {
        connect_locally();
        send_one(3000, false);
        write_one(700, false);
        for (uint64_t i = 0; i < 200; i++)
            bed_receive(A, i, bed_sge(A, 0, 8));
        OK(bed_post(A, request(RI_WR_SEND, 77), bed_sge(A, 0, 100)));
        bed_take_none(A, A->send_cq);
        OK(bed_to(first_of(life & 1), RI_QPS_IDLE));
        OK(bed_to(other_of(first_of(life & 1)), RI_QPS_IDLE));
        bed_take_none(A, A->send_cq);
        bed_take_none(A, A->recv_cq);
    }
    ck_assert_uint_eq(atomic_load(&A->events.count), 0);
    bed_close();
}
END_TEST

static enum ri_status step(struct end *end, struct tc_rng *rng)
{
    static const enum ri_qp_state next[] = {
        [RI_QPS_IDLE] = RI_QPS_INIT, [RI_QPS_INIT] = RI_QPS_RTR, [RI_QPS_RTR] = RI_QPS_RTS
    };
    enum ri_qp_state state = bed_state(end);

    if (state == RI_QPS_RTS || state == RI_QPS_ERROR || !tc_below(rng, 6))
        return tc_below(rng, 3) ? RI_OK : bed_to(end, RI_QPS_IDLE);
    return bed_to(end, next[state]);
}

/* States and passes in any order: never does one go by the wire local and the other by UDP. */
START_TEST(both_or_neither)
{
    struct tc_rng rng = tc_rng(_i);

    open_both(0);
    A->timeout = B->timeout = 14;
    for (int round = 0; round < 300; round++) {
        for (uint32_t i = tc_below(&rng, 12); i > 0; i--) {
            struct end *end = &bed[tc_below(&rng, 2)];

            OK(step(end, &rng));
            if (tc_below(&rng, 2))
                fake_host_run(&bed[tc_below(&rng, 2)].fake, NULL);
            if (tc_below(&rng, 2))
                fake_lane_pass(&bed[tc_below(&rng, 2)].fake.events, 0);
        }
        OK(bed_to(A, RI_QPS_IDLE));
        OK(bed_to(B, RI_QPS_IDLE));
        if (round % 10)
            continue;
        bed_connect();
        exchange(A, B, 64);
        exchange(B, A, 64);
        ck_assert_int_eq(!way_of(A), !way_of(B));
        OK(bed_to(A, RI_QPS_IDLE));
        OK(bed_to(B, RI_QPS_IDLE));
    }
    bed_close();
}
END_TEST

/* --- errors, as over UDP --- */

START_TEST(a_wrong_key_ends_both)
{
    struct ri_send_wr wr;

    open_both(_i / 2);
    wr = request(_i % 2 ? RI_WR_RDMA_READ : RI_WR_RDMA_WRITE, 1);
    wr.rdma.rkey ^= 0x5a5a5a00;
    connect_locally();
    bed_receive(B, 2, bed_sge(B, 0, 8));
    OK(bed_post(A, wr, bed_sge(A, 0, 3000)));
    OK(bed_post(A, request(RI_WR_SEND, 3), bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 1, RI_WC_REMOTE_ACCESS);
    bed_take(A, A->send_cq, 3, RI_WC_FLUSHED);
    bed_take(B, B->recv_cq, 2, RI_WC_FLUSHED);
    bed_await_event(B, _i % 2 ? RI_EVENT_READ_ACCESS : RI_EVENT_WRITE_ACCESS);
    ck_assert_int_eq(bed_state(A), RI_QPS_ERROR);
    ck_assert_int_eq(bed_state(B), RI_QPS_ERROR);
    ck_assert_uint_eq(bed_counter(B, "access errors of peers"), 1);
    bed_close();
}
END_TEST

START_TEST(a_message_longer_than_the_receive_ends_both)
{
    open_both(0);
    connect_locally();
    bed_receive(B, 2, bed_sge(B, 0, 8));
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 9)));
    bed_take(A, A->send_cq, 1, RI_WC_REMOTE_INVALID_REQUEST);
    bed_take(B, B->recv_cq, 2, RI_WC_LOCAL_LENGTH);
    bed_await_event(B, RI_EVENT_RECV_LENGTH);
    bed_close();
}
END_TEST

START_TEST(an_operation_that_is_not_enabled_is_no_valid_request)
{
    static const enum ri_wr_opcode opcodes[] = { RI_WR_RDMA_WRITE, RI_WR_RDMA_READ,
                                                 RI_WR_ATOMIC_FETCH_ADD };
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE | RI_QPM_FLAGS,
                                   .state = RI_QPS_RTS };

    open_both(0);
    connect_locally();
    OK(B->fake.privileged.qp_modify(B->qp, &modify));
    OK(bed_post(A, request(opcodes[_i], 1), bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 1, RI_WC_REMOTE_INVALID_REQUEST);
    bed_await_event(B, RI_EVENT_BAD_OPCODE);
    bed_close();
}
END_TEST

START_TEST(a_receiver_that_is_not_ready_hears_of_nothing)
{
    open_both(0);
    A->rnr_retry = (uint8_t)(_i ? 2 : 0);
    connect_locally();
    send_one(64, false);
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 8)));
    OK(bed_post(A, request(RI_WR_SEND, 2), bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 1, RI_WC_RNR);
    bed_take(A, A->send_cq, 2, RI_WC_FLUSHED);
    bed_await_event(A, RI_EVENT_NO_RECEIVE);
    bed_receive(B, 3, bed_sge(B, 0, 8));
    bed_take_none(B, B->recv_cq);
    ck_assert_int_eq(bed_state(B), RI_QPS_RTS);
    ck_assert_uint_eq(atomic_load(&B->events.count), 0);
    bed_close();
}
END_TEST

START_TEST(a_Send_waits_for_its_receive_without_end)
{
    open_both(0);
    connect_locally();
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 8)));
    bed_take_none(A, A->send_cq);
    bed_receive(B, 2, bed_sge(B, 0, 8));
    bed_take(A, A->send_cq, 1, RI_WC_SUCCESS);
    bed_take(B, B->recv_cq, 2, RI_WC_SUCCESS);
    bed_close();
}
END_TEST

static bool is_draining(const struct end *end)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    OK(end->fake.privileged.qp_query(end->qp, &info));
    ck_assert_int_eq(info.state, RI_QPS_SQD);
    return info.draining;
}

START_TEST(SQD_ends_what_was_begun_and_holds_the_rest)
{
    open_both(0);
    connect_locally();
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 5000)));
    OK(bed_to(A, RI_QPS_SQD));
    OK(bed_post(A, request(RI_WR_SEND, 2), bed_sge(A, 0, 64)));
    bed_take_none(A, A->send_cq);
    ck_assert_uint_eq(bed_events(A, RI_EVENT_SEND_QUEUE_DRAINED), 0);
    ck_assert(is_draining(A));
    bed_receive(B, 3, bed_sge(B, 0, 5000));
    bed_receive(B, 4, bed_sge(B, 0, 5000));
    bed_take(A, A->send_cq, 1, RI_WC_SUCCESS);
    bed_take(B, B->recv_cq, 3, RI_WC_SUCCESS);
    bed_await_event(A, RI_EVENT_SEND_QUEUE_DRAINED);
    ck_assert(!is_draining(A));
    bed_take_none(B, B->recv_cq);
    OK(bed_to(A, RI_QPS_RTS));
    bed_take(A, A->send_cq, 2, RI_WC_SUCCESS);
    bed_take(B, B->recv_cq, 4, RI_WC_SUCCESS);
    ck_assert_uint_eq(bed_events(A, RI_EVENT_SEND_QUEUE_DRAINED), 1);
    bed_close();
}
END_TEST

/* --- a peer that leaves --- */

static void connect_impatiently(int access)
{
    open_both(access);
    A->timeout = 8; /* 1 ms */
    A->retry_count = 2;
    connect_locally();
    send_one(100, false);
    write_one(100, false);
}

START_TEST(a_peer_that_is_destroyed_answers_nothing)
{
    connect_impatiently(_i);
    OK(B->fake.privileged.qp_destroy(B->qp));
    B->qp = NULL;
    bed_receive(A, 9, bed_sge(A, 0, 8));
    bed_take_none(A, A->recv_cq);
    ck_assert_int_eq(bed_state(A), RI_QPS_RTS);
    OK(bed_post(A, request(RI_WR_RDMA_WRITE, 1), bed_sge(A, 0, 8)));
    OK(bed_post(A, request(RI_WR_SEND, 2), bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 1, RI_WC_TRANSPORT);
    bed_take(A, A->send_cq, 2, RI_WC_FLUSHED);
    bed_take(A, A->recv_cq, 9, RI_WC_FLUSHED);
    bed_await_event(A, RI_EVENT_LLP_LOST);
    bed_close();
}
END_TEST

/* The receiver has copied it, which the sender has not seen when the peer's end is. */
START_TEST(a_long_Send_that_was_executed_completes_behind_the_end)
{
    struct ri_wc wc = { 0 };

    connect_impatiently(0);
    bed_receive(B, 2, bed_sge(B, 0, BED_MEMORY / 2));
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, BED_MEMORY / 2)));
    while (B->fake.user.poll(B->recv_cq, 1, &wc) != 1)
        fake_host_run(&B->fake, NULL);
    ck_assert_int_eq(wc.status, RI_WC_SUCCESS);
    OK(B->fake.privileged.qp_destroy(B->qp));
    B->qp = NULL;
    bed_take(A, A->send_cq, 1, RI_WC_SUCCESS);
    ck_assert_int_eq(bed_state(A), RI_QPS_RTS);
    bed_close();
}
END_TEST

START_TEST(a_QP_in_ERROR_tells_its_peer_nothing)
{
    connect_impatiently(0);
    OK(bed_to(B, RI_QPS_ERROR));
    bed_take_none(A, A->send_cq);
    ck_assert_int_eq(bed_state(A), RI_QPS_RTS);
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 1, RI_WC_TRANSPORT);
    bed_close();
}
END_TEST

/* What was taken before is successful. */
START_TEST(a_request_that_waits_fails_when_its_peer_leaves)
{
    connect_impatiently(0);
    bed_receive(B, 2, bed_sge(B, 0, 64));
    for (uint64_t i = 1; i < 4; i++)
        OK(bed_post(A, request(RI_WR_SEND, i), bed_sge(A, 0, 8)));
    bed_take(B, B->recv_cq, 2, RI_WC_SUCCESS);
    OK(bed_to(B, RI_QPS_IDLE));
    bed_take(A, A->send_cq, 1, RI_WC_SUCCESS);
    bed_take(A, A->send_cq, 2, RI_WC_TRANSPORT);
    bed_take(A, A->send_cq, 3, RI_WC_FLUSHED);
    bed_close();
}
END_TEST

/* --- two processes --- */

static void tell(int fd, const void *octets, size_t length)
{
    ck_assert_int_eq(write(fd, octets, length), (ssize_t)length);
}

static void hear(int fd, void *octets, size_t length)
{
    ck_assert_int_eq(read(fd, octets, length), (ssize_t)length);
}

static void has_come(void *arg, uint32_t events)
{
    (void)events;
    *(bool *)arg = true;
}

static bool is_true(const void *arg)
{
    return *(const bool *)arg;
}

/* This process answers the other one meanwhile, which wants the sockets. */
static void await_octets(int fd)
{
    const struct ri_host *host = &A->fake.host;
    struct ri_watch *watch;
    bool come = false;

    OK(host->watch(host, &A->fake.events, fd, EPOLLIN, has_come, &come, &watch));
    ck_assert(bed_wait(is_true, &come, BED_TIMEOUT));
    host->unwatch(host, watch);
}

static bool never(const void *arg)
{
    (void)arg;
    return false;
}

/* B of a process of its own: it tells its number, answers one Send, and lives on. */
static void be_peer(int from, int to)
{
    uint32_t qpn;

    bed_open_end(A, 1, options);
    bed_open_end(B, 1, options);
    tell(to, &B->qpn, sizeof(B->qpn));
    hear(from, &qpn, sizeof(qpn));
    A->qpn = qpn;
    OK(bed_to(B, RI_QPS_INIT));
    bed_receive(B, 2, bed_sge(B, 0, 64));
    OK(bed_to(B, RI_QPS_RTR));
    OK(bed_to(B, RI_QPS_RTS));
    bed_take(B, B->recv_cq, 2, RI_WC_SUCCESS);
    OK(bed_post(B, request(RI_WR_SEND, 1), bed_sge(B, 0, 64)));
    bed_take(B, B->send_cq, 1, RI_WC_SUCCESS);
    bed_wait(never, NULL, BED_TIMEOUT);
}

static pid_t start_peer(int *to)
{
    int down[2], up[2];
    pid_t child;

    ck_assert_int_eq(pipe(down) | pipe(up), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        be_peer(down[0], up[1]);
        _exit(0);
    }
    await_octets(up[0]);
    hear(up[0], &B->qpn, sizeof(B->qpn));
    *to = down[1];
    return child;
}

START_TEST(a_peer_that_is_killed_answers_nothing)
{
    struct ri_qp_info info = { .size = sizeof(info) };
    pid_t child;
    int to;

    open_both(_i);
    A->timeout = 14; /* 67 ms */
    child = start_peer(&to);
    to_RTS(A);
    bed_receive(A, 2, bed_sge(A, 0, 64));
    tell(to, &A->qpn, sizeof(A->qpn));
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 64)));
    bed_take(A, A->send_cq, 1, RI_WC_SUCCESS);
    bed_take(A, A->recv_cq, 2, RI_WC_SUCCESS);
    OK(A->fake.privileged.qp_query(A->qp, &info));
    ck_assert_ptr_nonnull(info.way);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    OK(bed_post(A, request(RI_WR_SEND, 3), bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 3, RI_WC_TRANSPORT);
    bed_await_event(A, RI_EVENT_LLP_LOST);
    bed_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_local");
    TCase *carries = tc_case(suite, "carries", NULL, NULL),
          *meets = tc_case(suite, "meets", NULL, NULL),
          *errors = tc_case(suite, "errors", NULL, NULL),
          *ends = tc_case(suite, "ends", NULL, NULL);

    tcase_add_loop_test(carries, every_operation_carries_without_a_packet, 0, ACCESSES);
    tcase_add_loop_test(meets, requests_wait_for_a_peer_that_comes_late, 0, 2);
    tcase_add_loop_test(meets, all_requests_that_waited_are_executed, 0, 2);
    tcase_add_loop_test(meets, a_peer_that_does_not_come_uses_up_the_retries, 0, 2);
    tcase_add_loop_test(meets, an_end_without_the_option_keeps_both_on_UDP, 0, 2);
    tcase_add_loop_test(meets, option_guard_keeps_both_on_UDP, 0, 2);
    tc_add_tests(meets, option_only_refuses_a_peer_without_the_wire,
                 a_QP_that_names_itself_stays_on_UDP, a_peer_of_another_one_is_no_peer);
    tcase_add_loop_test(meets, a_reset_pair_begins_anew, 0, ACCESSES);
    tcase_add_loop_test(meets, both_or_neither, 0, 4);
    tcase_add_loop_test(errors, a_wrong_key_ends_both, 0, 4);
    tc_add_tests(errors, a_message_longer_than_the_receive_ends_both,
                 a_Send_waits_for_its_receive_without_end,
                 SQD_ends_what_was_begun_and_holds_the_rest);
    tcase_add_loop_test(errors, an_operation_that_is_not_enabled_is_no_valid_request, 0, 3);
    tcase_add_loop_test(errors, a_receiver_that_is_not_ready_hears_of_nothing, 0, 2);
    tcase_add_loop_test(ends, a_peer_that_is_destroyed_answers_nothing, 0, ACCESSES);
    tc_add_tests(ends, a_long_Send_that_was_executed_completes_behind_the_end,
                 a_QP_in_ERROR_tells_its_peer_nothing,
                 a_request_that_waits_fails_when_its_peer_leaves);
    tcase_add_loop_test(ends, a_peer_that_is_killed_answers_nothing, 0, ACCESSES);
    return tc_main(suite);
}
