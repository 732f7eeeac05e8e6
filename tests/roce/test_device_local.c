/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device softroce with option local: two QPs of one host leave UDP for memory that both share,
 * or stay there both; what programs see of it is RoCE's.
 */
#include "device_bed.h"

#include "base/clock.h"

#include <string.h>
#include <sys/resource.h>
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
    return bed_info(end).way;
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

static void exchange(struct end *from, struct end *to, uint32_t length)
{
    bed_receive(to, 20, bed_sge(to, 0, 4096));
    OK(bed_post(from, request(RI_WR_SEND, 10), bed_sge(from, 0, length)));
    bed_take(from, from->send_cq, 10, RI_WC_SUCCESS);
    ck_assert_uint_eq(bed_take(to, to->recv_cq, 20, RI_WC_SUCCESS).byte_len, length);
}

/* `why` is what the end says of it that has been asked by none. */
static void is_by_udp(const struct end *end, const char *why)
{
    exchange(A, B, 100);
    exchange(B, A, 100);
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_null(bed_info(&bed[i]).way);
        ck_assert_str_eq(bed_info(&bed[i]).wire, "udp");
        ck_assert_ptr_nonnull(bed_info(&bed[i]).local_why);
    }
    ck_assert_str_eq(bed_info(end).local_why, why);
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
    bed_connect_locally();
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
    ck_assert_str_eq(bed_info(A).wire, "local");
    ck_assert_ptr_null(bed_info(A).local_why);
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
    struct end *end;

    open_both(0);
    end = first_of(_i);
    reopen(end, no);
    bed_connect();
    is_by_udp(end, "option local is no");
    bed_close();
}
END_TEST

START_TEST(option_guard_keeps_both_on_UDP)
{
    static const char *const guard[] = { "local", "auto", "guard", "yes", NULL };
    struct end *end;

    open_both(0);
    end = first_of(_i);
    reopen(end, guard);
    bed_connect();
    is_by_udp(end, "each access is watched (option guard)");
    bed_close();
}
END_TEST

/* A connection over UDP has none. */
START_TEST(a_quarter_of_the_descriptors_stays_for_the_program)
{
    struct rlimit limit;
    int next;

    open_both(0);
    bed_connect_locally(); /* opens the address */
    for (int i = 0; i < 2; i++)
        OK(bed_to(&bed[i], RI_QPS_IDLE));
    next = dup(STDERR_FILENO);
    close(next);
    OK(getrlimit(RLIMIT_NOFILE, &limit) ? RI_ERR_LIMIT : RI_OK);
    limit.rlim_cur = (rlim_t)(next + next / 3);
    OK(setrlimit(RLIMIT_NOFILE, &limit) ? RI_ERR_LIMIT : RI_OK);
    bed_connect();
    is_by_udp(A, "three quarters of the descriptors are in use (ulimit -n)");
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
        bed_connect_locally();
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
    bed_connect_locally();
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
    bed_connect_locally();
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
    bed_connect_locally();
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
    bed_connect_locally();
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
    bed_connect_locally();
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
    bed_connect_locally();
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

static bool never(const void *arg)
{
    (void)arg;
    return false;
}

/* The time of requests that are held for the peer does not run in SQD, where none begins. */
START_TEST(SQD_does_not_use_up_the_time_for_a_peer_that_comes_late)
{
    uint64_t over;

    open_both(0);
    A->timeout = 8; /* 1 ms: 5 s are the least */
    A->retry_count = 0;
    to_RTS(A);
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 64)));
    OK(bed_to(A, RI_QPS_SQD));
    over = clock_now() + 5200 * CLOCK_NS_PER_MS;
    while (clock_now() < over)
        bed_wait(never, NULL, 10);
    ck_assert_int_eq(bed_state(A), RI_QPS_SQD);
    OK(bed_to(A, RI_QPS_RTS));
    OK(bed_to(B, RI_QPS_INIT));
    bed_receive(B, 2, bed_sge(B, 0, 64));
    OK(bed_to(B, RI_QPS_RTR));
    bed_take(A, A->send_cq, 1, RI_WC_SUCCESS);
    bed_take(B, B->recv_cq, 2, RI_WC_SUCCESS);
    bed_close();
}
END_TEST

#define RNR_20_MS 22u /* the code of 20.48 ms */

/* The sender counts, by the receiver's timer. */
START_TEST(RNR_waits_by_the_receiver_s_timer_and_the_sender_s_count)
{
    uint64_t begun;

    open_both(_i);
    A->rnr_retry = 5;
    A->rnr_timer = 1; /* 0.01 ms: not the one that counts */
    B->rnr_timer = RNR_20_MS;
    bed_connect_locally();
    begun = clock_now();
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 1, RI_WC_RNR);
    ck_assert_uint_ge(clock_now() - begun, 5 * 20 * CLOCK_NS_PER_MS);
    bed_close();
}
END_TEST

/* A Read has what was there when it was executed, and completes before what was posted behind. */
START_TEST(a_fenced_Send_leaves_behind_the_Read_before_it)
{
    struct ri_send_wr fenced = request(RI_WR_SEND, 2);

    open_both(_i);
    bed_connect_locally();
    fenced.flags |= RI_WR_READ_FENCE;
    bed_receive(B, 4, bed_sge(B, 0, 8));
    for (uint32_t round = 0; round < 50; round++) {
        memset(B->memory + HALF, 1, HALF);
        OK(bed_post(A, request(RI_WR_RDMA_READ, 1), bed_sge(A, 0, 40000)));
        OK(bed_post(A, fenced, bed_sge(A, 50000, 8)));
        OK(bed_post(A, request(RI_WR_RDMA_READ, 3), bed_sge(A, 100000, 40000)));
        bed_take(B, B->recv_cq, 4, RI_WC_SUCCESS);
        for (uint32_t i = 0; i < 40000; i++)
            ck_assert_uint_eq(A->memory[i], 1);
        bed_receive(B, 4, bed_sge(B, 0, 8));
        for (uint64_t i = 1; i < 4; i++)
            bed_take(A, A->send_cq, i, RI_WC_SUCCESS);
    }
    bed_close();
}
END_TEST

/* --- a peer that leaves --- */

static void connect_impatiently(int access)
{
    open_both(access);
    A->timeout = 8; /* 1 ms */
    A->retry_count = 2;
    bed_connect_locally();
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

/* Its peer was reset and begins anew, which it does not know: neither hangs. */
START_TEST(a_peer_that_was_reset_alone_is_none)
{
    connect_impatiently(0);
    B->timeout = 8;
    B->retry_count = 2;
    OK(bed_to(B, RI_QPS_IDLE));
    to_RTS(B);
    bed_receive(A, 2, bed_sge(A, 0, 8));
    OK(bed_post(B, request(RI_WR_SEND, 3), bed_sge(B, 0, 8)));
    bed_take(B, B->send_cq, 3, RI_WC_TRANSPORT);
    bed_take_none(A, A->recv_cq);
    OK(bed_post(A, request(RI_WR_SEND, 4), bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 4, RI_WC_TRANSPORT);
    for (int i = 0; i < 2; i++)
        OK(bed_to(&bed[i], RI_QPS_IDLE));
    bed_connect_locally();
    send_one(100, false);
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
    tc_add_tests(meets, a_quarter_of_the_descriptors_stays_for_the_program,
                 option_only_refuses_a_peer_without_the_wire, a_QP_that_names_itself_stays_on_UDP,
                 a_peer_of_another_one_is_no_peer);
    tcase_add_loop_test(meets, a_reset_pair_begins_anew, 0, ACCESSES);
    tcase_add_loop_test(meets, both_or_neither, 0, 4);
    tcase_add_loop_test(errors, a_wrong_key_ends_both, 0, 4);
    tc_add_tests(errors, a_message_longer_than_the_receive_ends_both,
                 a_Send_waits_for_its_receive_without_end,
                 SQD_ends_what_was_begun_and_holds_the_rest);
    tcase_add_loop_test(errors, an_operation_that_is_not_enabled_is_no_valid_request, 0, 3);
    tcase_add_loop_test(errors, a_receiver_that_is_not_ready_hears_of_nothing, 0, 2);
    tc_add_tests(errors, SQD_does_not_use_up_the_time_for_a_peer_that_comes_late);
    tcase_add_loop_test(errors, RNR_waits_by_the_receiver_s_timer_and_the_sender_s_count, 0,
                        ACCESSES);
    tcase_add_loop_test(errors, a_fenced_Send_leaves_behind_the_Read_before_it, 0, ACCESSES);
    tcase_add_loop_test(ends, a_peer_that_is_destroyed_answers_nothing, 0, ACCESSES);
    tc_add_tests(ends, a_peer_that_was_reset_alone_is_none,
                 a_long_Send_that_was_executed_completes_behind_the_end,
                 a_QP_in_ERROR_tells_its_peer_nothing,
                 a_request_that_waits_fails_when_its_peer_leaves);
    return tc_main(suite);
}
