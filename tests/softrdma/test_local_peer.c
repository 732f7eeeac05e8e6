/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that shares memory with this side and writes there what it likes: the connection ends in a
 * defined way, each request completes once, and no octet outside of what the peer may reach
 * changes. */
#include "local_bed.h"

#include "base/compiler.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define ROOM    65536u
#define FOREVER 7u
#define BROKEN  0x0207

static struct testbed bed;
static struct hand hand;
static struct region open_region, closed_region; /* the peer may reach the first one only */
static struct side *const a = &bed.side[0];

static void setup(void)
{
    local_open(&bed, NULL);
}

static void teardown(void)
{
    hand_close(&hand);
    testbed_close(&bed);
}

/* Each octet of a region that the peer may not reach. */
static void fill(struct region *region)
{
    memset(region->octets, 0xC3, region->length);
}

static void open_shaped(const struct shape *shape)
{
    side_open(&bed, a, shape);
    open_region = region_new(a, ROOM, TESTBED_ALL | RI_ACCESS_REMOTE_ATOMIC);
    closed_region = region_new(a, ROOM, RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE);
    fill(&open_region);
    fill(&closed_region);
    hand_open(&hand, a, NULL);
    testbed_passes(&bed, 2);
}

static void open_pair(void)
{
    open_shaped(NULL);
}

static void close_pair(void)
{
    hand_close(&hand);
    side_close(a);
}

static bool is_untouched(const struct region *region, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++)
        if (region->octets[i] != 0xC3)
            return false;
    return true;
}

/* Requests that the side has posted complete in order, each once, and nothing behind them. */
static void expect_all_flushed(struct ri_cq *cq, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        side_expect(a, cq, first + i, RI_WC_FLUSHED, 0);
    ck_assert(side_idle(a, cq));
}

static void expect_ended(void)
{
    ck_assert_msg(fake_host_until(&bed.fake, side_query(a).state == RI_QPS_ERROR, TESTBED_TIMEOUT),
                  "state %d", side_query(a).state);
}

/* --- records --- */

#define RECORD(...)                        \
    {                                      \
        .fetching = 1, .kind = __VA_ARGS__ \
    }

/* A record, or two, that are no request of a peer that keeps the rules. */
static const struct broken {
    struct ring_header first, second; /* second: kind 0, none */
} broken_records[] = {
    { RECORD(0), { 0 } },
    { RECORD(RING_KINDS), { 0 } },
    { RECORD(UINT8_MAX), { 0 } },
    { RECORD(RING_MORE, .piece = 16, .length = 16), { 0 } },
    { RECORD(RING_MORE), { 0 } },
    { RECORD(RING_REQUEST, .piece = RING_PIECE + 1, .length = RING_PIECE + 1), { 0 } },
    { RECORD(RING_REQUEST, .piece = UINT32_MAX, .length = UINT32_MAX), { 0 } },
    { RECORD(RING_REQUEST, .piece = UINT32_MAX - 47, .length = UINT32_MAX), { 0 } },
    { RECORD(RING_REQUEST, .piece = 17, .length = 16), { 0 } },
    { RECORD(RING_REQUEST, .piece = 0, .length = 16), { 0 } },
    { RECORD(RING_REQUEST, .piece = 1, .length = 0), { 0 } },
    { RECORD(RING_REQUEST, .opcode = RI_WR_RDMA_WRITE, .piece = 0, .length = 16), { 0 } },
    { RECORD(RING_REQUEST, .opcode = RI_WR_RDMA_READ, .piece = 1, .length = 1), { 0 } },
    { RECORD(RING_REQUEST, .opcode = RI_WR_ATOMIC_FETCH_ADD, .piece = 8, .length = 8), { 0 } },
    { RECORD(RING_REQUEST, .opcode = RI_WR_BIND_WINDOW), { 0 } },
    { RECORD(RING_REQUEST, .opcode = RI_WR_LOCAL_INVALIDATE), { 0 } },
    { RECORD(RING_REQUEST, .opcode = RI_WR_FAST_REGISTER), { 0 } },
    { RECORD(RING_REQUEST, .opcode = RI_WR_FAST_REGISTER + 1), { 0 } },
    { RECORD(RING_REQUEST, .opcode = UINT8_MAX), { 0 } },
    /* Behind the first piece of a message. */
    { RECORD(RING_REQUEST, .piece = 16, .length = 32), { .kind = RING_MORE } },
    { RECORD(RING_REQUEST, .piece = 16, .length = 32), { .kind = RING_MORE, .piece = 17 } },
    { RECORD(RING_REQUEST, .piece = 16, .length = 32), { .kind = RING_MORE, .piece = RING_PIECE } },
    { RECORD(RING_REQUEST, .piece = 16, .length = 32), { .kind = RING_MORE, .piece = UINT32_MAX } },
    { RECORD(RING_REQUEST, .piece = 16, .length = 32),
      { .kind = RING_REQUEST, .piece = 16, .length = 16 } },
    { RECORD(RING_REQUEST, .piece = 16, .length = 32), { .kind = RING_KINDS, .piece = 16 } },
};

START_TEST(a_record_that_is_no_request_ends_the_connection)
{
    const struct broken *broken = &broken_records[_i];
    static const uint8_t octets[64];

    open_pair();
    for (uint64_t i = 0; i < 3; i++)
        side_receive(a, i, region_sge(&closed_region, i * 4096, 4096));
    for (uint64_t i = 0; i < 3; i++)
        side_send(a, 10 + i, region_sge(&closed_region, 0, 64));
    hand_put(&hand, &broken->first, octets,
             broken->second.kind ? broken->first.piece : sizeof(octets));
    if (broken->second.kind)
        hand_put(&hand, &broken->second, octets, sizeof(octets));
    side_expect_event(a, RI_EVENT_REMOTE_OPERATION, BROKEN);
    expect_all_flushed(a->recv_cq, 0, 3);
    expect_all_flushed(a->send_cq, 10, 3);
    expect_ended();
    ck_assert_uint_eq(hand_ended(&hand), LOCAL_REFUSED);
    ck_assert_uint_eq(atomic_load(&hand.peer->number), 0);
    ck_assert_uint_eq(atomic_load(&hand.peer->code), BROKEN);
    ck_assert(is_untouched(&closed_region, 32, ROOM));
    ck_assert(is_untouched(&open_region, 0, ROOM));
}
END_TEST

/* With which each octet of memory is named that is not the peer's. */
static uint64_t addr(const struct region *region, int64_t offset)
{
    return (uint64_t)((int64_t)(uintptr_t)region->octets + offset);
}

START_TEST(a_write_or_read_beyond_its_right_changes_nothing)
{
    static const uint32_t opcodes[] = { RI_WR_RDMA_WRITE,       RI_WR_RDMA_WRITE_IMMEDIATE,
                                        RI_WR_RDMA_READ,        RI_WR_RDMA_READ_INVALIDATE,
                                        RI_WR_ATOMIC_FETCH_ADD, RI_WR_ATOMIC_COMPARE_SWAP };
    static const struct {
        int64_t offset;
        uint32_t length;
        bool closed, other_key;
    } places[] = { { 0, 8, true, false },           { 0, 8, false, true },
                   { -1, 8, false, false },         { ROOM - 7, 8, false, false },
                   { ROOM, 8, false, false },       { 0, ROOM + 1, false, false },
                   { 0, UINT32_MAX, false, false }, { -8, ROOM + 8, false, false },
                   { INT64_MIN, 8, false, false } };
    const uint32_t opcode = opcodes[_i % ARRAY_SIZE(opcodes)];
    const size_t place = (size_t)_i / ARRAY_SIZE(opcodes);
    const bool writes = opcode == RI_WR_RDMA_WRITE || opcode == RI_WR_RDMA_WRITE_IMMEDIATE;
    uint8_t octets[64] = { 1 };
    struct ring_header header = { .kind = RING_REQUEST, .opcode = (uint8_t)opcode, .fetching = 1 };

    if (place >= ARRAY_SIZE(places) ||
        (opcode >= RI_WR_ATOMIC_FETCH_ADD && places[place].length > 8))
        return; /* an atomic has a length of its own */
    open_shaped(&(struct shape){ .atomics = true });
    header.length = places[place].length;
    header.piece = writes ? (header.length < 64 ? header.length : 64) : 0;
    header.rkey = (places[place].closed ? &closed_region : &open_region)->keys.rkey +
                  places[place].other_key;
    header.remote_addr = addr(places[place].closed ? &closed_region : &open_region,
                              places[place].offset);
    hand_put(&hand, &header, octets, 64);
    ck_assert(fake_host_until(&bed.fake, atomic_load(&a->events.count), TESTBED_TIMEOUT));
    ck_assert_int_eq(a->events.type[0], writes ? RI_EVENT_WRITE_ACCESS : RI_EVENT_READ_ACCESS);
    expect_ended();
    ck_assert_uint_eq(hand_ended(&hand), LOCAL_REFUSED);
    ck_assert_uint_eq(atomic_load(&hand.peer->status), RI_WC_REMOTE_ACCESS);
    ck_assert_uint_eq(atomic_load(&hand.peer->answered), 0);
    ck_assert(is_untouched(&closed_region, 0, ROOM));
    ck_assert(is_untouched(&open_region, 0, ROOM));
}
END_TEST

/* A message that says more than it brings is waited for, and ends with the connection. */
START_TEST(a_message_that_never_ends_is_no_message)
{
    static const uint8_t octets[64];

    open_pair();
    side_receive(a, 1, region_sge(&closed_region, 0, 4096));
    side_receive(a, 2, region_sge(&closed_region, 4096, 4096));
    hand_put(&hand, &(struct ring_header)RECORD(RING_REQUEST, .piece = 64, .length = 4096), octets,
             64);
    ck_assert(side_idle(a, a->recv_cq));
    ck_assert_uint_eq(atomic_load(&hand.peer->executed), 0);
    hand_end(&hand, LOCAL_CLOSED, 0, 0, 0);
    expect_ended();
    expect_all_flushed(a->recv_cq, 1, 2);
    ck_assert(is_untouched(&closed_region, 64, ROOM));
}
END_TEST

/* Records of nothing, round after round: each pass takes some and ends. */
START_TEST(skips_for_ever_do_not_hold_a_pass)
{
    uint8_t *ring;

    open_pair();
    ring = local_requests(hand.local, 1);
    for (uint64_t round = 0; round < 1000; round++) {
        struct ring_header skip = {
            .stamp = (uint32_t)(round * LOCAL_REQUESTS / RING_LINE) | 1u << 31, .kind = RING_SKIP
        };

        memcpy(ring, &skip, sizeof(skip));
        hand_ring(&hand);
        testbed_passes(&bed, 1);
    }
    ck_assert_uint_ge(bed.fake.runs, 1000);
    hand_end(&hand, LOCAL_CLOSED, 0, 0, 0);
    expect_ended();
}
END_TEST

static struct ring_header random_header(struct tc_rng *rng)
{
    static const uint32_t lengths[] = {
        0, 1, 8, 16, 64, 65, 4096, RING_PIECE, RING_PIECE + 1, ROOM, UINT32_MAX
    };
    struct ring_header header;

    tc_fill(rng, &header, sizeof(header));
    if (tc_below(rng, 8))
        header.kind = (uint8_t)(RING_REQUEST + tc_below(rng, 2));
    if (tc_below(rng, 8))
        header.opcode = (uint8_t)tc_below(rng, RI_WR_BIND_WINDOW);
    if (tc_below(rng, 4))
        header.length = lengths[tc_below(rng, ARRAY_SIZE(lengths))];
    if (tc_below(rng, 4))
        header.piece = header.length < 64 ? header.length : (uint32_t)tc_below(rng, 65);
    if (tc_below(rng, 4))
        header.rkey = (tc_below(rng, 2) ? &open_region : &closed_region)->keys.rkey;
    if (tc_below(rng, 4))
        header.remote_addr = addr(&open_region, (int64_t)tc_below(rng, ROOM + 64) - 32);
    if (tc_below(rng, 4))
        header.fetching = (uint32_t)tc_below(rng, 10);
    return header;
}

/* The side's own requests and receives, each of which completes once. */
struct owed {
    uint32_t sends, receives, sends_done, receives_done;
};

static void post_some(struct owed *owed)
{
    const uint64_t own = ROOM / 2; /* what a receive or a Read of this side may change */

    side_receive(a, owed->receives++, region_sge(&closed_region, own, 4096));
    side_send(a, owed->sends++, region_sge(&closed_region, 0, 64));
    side_read(a, owed->sends++, region_sge(&closed_region, own + 4096, 64), 4096, 77);
}

static void count_done(struct ri_cq *cq, uint32_t *done)
{
    struct ri_wc wc;

    while (bed.fake.user.poll(cq, 1, &wc) == 1)
        ck_assert_uint_eq(wc.cookie, (*done)++);
}

static void settle(struct owed *owed)
{
    count_done(a->send_cq, &owed->sends_done);
    count_done(a->recv_cq, &owed->receives_done);
}

static void expect_settled(struct owed *owed)
{
    ck_assert_msg(fake_host_until(&bed.fake,
                                  (settle(owed), owed->sends_done == owed->sends &&
                                                     owed->receives_done == owed->receives),
                                  TESTBED_TIMEOUT),
                  "%u of %u requests, %u of %u receives", owed->sends_done, owed->sends,
                  owed->receives_done, owed->receives);
}

/* The peer's page: what it says of the side's requests, and of its end. */
static void say_anything(struct tc_rng *rng)
{
    uint64_t big = tc_rand(rng), small = tc_below(rng, 4);

    switch (tc_below(rng, 8)) {
    case 0: atomic_store(&hand.own->executed, (uint32_t)big); break;
    case 1: atomic_fetch_add(&hand.own->executed, (uint32_t)small); break;
    case 2: atomic_store(&hand.own->answered, big); break;
    case 3: atomic_fetch_add(&hand.own->answered, small * 32); break;
    case 4: atomic_store(&hand.own->consumed, big); break;
    case 5: atomic_store(&hand.own->taken, big); break;
    case 6: atomic_store(&hand.own->asleep, (uint32_t)big); break;
    default:
        if (small)
            break;
        atomic_store(&hand.own->number, (uint32_t)tc_below(rng, 3));
        atomic_store(&hand.own->code, (uint32_t)tc_rand(rng));
        atomic_store(&hand.own->status, (uint32_t)tc_below(rng, 20));
        atomic_store(&hand.own->ended, (uint32_t)(big & 1 ? big >> 32 : tc_below(rng, 6)));
    }
}

/* Whatever it was, the connection ends when the peer's process does. */
START_TEST(anything_ends_in_a_defined_way)
{
    struct tc_rng rng = tc_rng(1000 + (uint64_t)_i);
    uint8_t octets[64];

    for (unsigned long round = 0; round < tc_count(200); round++) {
        struct owed owed = { 0 };

        open_pair();
        for (int step = 0; step < 12; step++) {
            tc_fill(&rng, octets, sizeof(octets));
            if (!tc_below(&rng, 3) && owed.sends < 8)
                post_some(&owed);
            if (tc_below(&rng, 2)) {
                struct ring_header header = random_header(&rng);

                hand_put(&hand, &header, octets, header.piece < 64 ? header.piece : 64);
            } else {
                say_anything(&rng);
            }
            hand_ring(&hand);
            testbed_passes(&bed, 1);
            settle(&owed);
        }
        hand_die(&hand);
        expect_ended();
        expect_settled(&owed);
        testbed_passes(&bed, 3);
        ck_assert_uint_eq(atomic_load(&a->events.count), 1);
        ck_assert(is_untouched(&closed_region, 0, ROOM / 2));
        close_pair();
    }
}
END_TEST

/* --- positions --- */

START_TEST(progress_that_cannot_be_ends_the_connection)
{
    static const struct {
        uint32_t executed;
        uint64_t answered;
    } said[] = { { 3, 0 },           { UINT32_MAX, 0 },
                 { 0x80000000u, 0 }, { 0, LOCAL_ANSWERS + 1 },
                 { 0, UINT64_MAX },  { 2, 0 /* the Read's octets are missing */ } };

    open_pair();
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
    open_pair();
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
    open_pair();
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

    open_pair();
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

    open_pair();
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

    open_pair();
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

    open_pair();
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

    open_pair();
    take_by_look(1);
    ck_assert_uint_eq(told(), 0);
    lane->ops->lane_arm(lane);
    ck_assert_uint_eq(told(), 1);
}
END_TEST

START_TEST(progress_is_told_before_the_end)
{
    open_pair();
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

    open_pair();
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

    open_pair();
    atomic_store(&hand.own->taken, said[_i]);
    hand_request(&hand, RI_WR_RDMA_READ, NULL, 0, addr(&open_region, 0), open_region.keys.rkey);
    testbed_passes(&bed, 2);
    hand.published++;
    hand_put(&hand,
             &(struct ring_header)RECORD(RING_REQUEST, .opcode = RI_WR_RDMA_READ, .length = 64,
                                         .remote_addr = addr(&open_region, 0),
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

            open_pair();
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
            close_pair();
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

    open_pair();
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

static atomic_bool changing_stops;

/* Writes over the first records and the page as fast as it can. */
static void *change_all_the_time(void *arg)
{
    struct tc_rng rng = tc_rng(5);
    uint8_t *ring = local_requests(hand.local, 1);

    (void)arg;
    while (!atomic_load(&changing_stops)) {
        uint64_t value = tc_rand(&rng);

        for (uint32_t at = 4; at < 16384; at += 4 + (value & 60)) {
            uint32_t word = (uint32_t)(value >> (at & 31));

            if (at % RING_LINE)
                __atomic_store_n((uint32_t *)(void *)(ring + at), word, __ATOMIC_RELAXED);
        }
        sched_yield();
    }
    return NULL;
}

/* Header and octets change while the side looks at them and copies. */
START_TEST(octets_change_while_they_are_copied)
{
    struct tc_rng rng = tc_rng(6);
    uint8_t octets[8000];
    pthread_t thread;

#ifdef __SANITIZE_THREAD__
    tc_skip("ThreadSanitizer would report the races that this test makes");
#endif
    memset(octets, 0x22, sizeof(octets));
    for (unsigned long round = 0; round < tc_count(300); round++) {
        open_pair();
        for (uint64_t i = 0; i < 4; i++)
            side_receive(a, i, region_sge(&closed_region, ROOM / 2, 4096));
        atomic_store(&changing_stops, false);
        ck_assert_int_eq(pthread_create(&thread, NULL, change_all_the_time, NULL), 0);
        for (int i = 0; i < 4; i++) {
            bool send = tc_below(&rng, 2);

            hand_request(&hand, send ? RI_WR_SEND : RI_WR_RDMA_WRITE, octets,
                         send ? 4000 : sizeof(octets), addr(&open_region, 4096),
                         open_region.keys.rkey);
            testbed_passes(&bed, 1);
        }
        atomic_store(&changing_stops, true);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        hand_die(&hand);
        expect_ended();
        ck_assert_uint_eq(atomic_load(&a->events.count), 1);
        ck_assert(is_untouched(&closed_region, 0, ROOM / 2));
        ck_assert(is_untouched(&closed_region, ROOM / 2 + 4096, ROOM));
        close_pair();
    }
}
END_TEST

/* --- the segment --- */

#define SLOT   (2 * (off_t)LOCAL_REQUESTS + 2 * (off_t)LOCAL_ANSWERS)
#define OCTETS (LOCAL_HEAD + LOCAL_SLOTS * SLOT)
#define SEALS  (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int memfd(off_t octets, int seals, const void *head, size_t length)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, octets), 0);
    ck_assert_int_eq(pwrite(fd, head, length, 0), (ssize_t)length);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static enum ri_status take(int fd, struct ri_local **local, const char **why)
{
    enum ri_status status;
    int bells[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bells), 0);
    status = bed.fake.privileged.local_take(bed.fake.rnic, bells[0], fd, local, why);
    close(bells[0]);
    close(bells[1]);
    return status;
}

static bool is_refused(int fd)
{
    struct ri_local *local = NULL;
    const char *why = NULL;
    struct tc_fds before = tc_fds();
    enum ri_status status = take(fd, &local, &why);

    ck_assert_ptr_null(tc_fds_differ(&before));
    if (status == RI_OK) {
        bed.fake.privileged.local_drop(bed.fake.rnic, local);
        return false;
    }
    ck_assert_int_eq(status, RI_ERR_INVALID_ARGUMENT);
    ck_assert_ptr_null(local);
    ck_assert_ptr_nonnull(why);
    return true;
}

static bool is_refused_and_closed(int fd)
{
    bool refused = is_refused(fd);

    close(fd);
    return refused;
}

/* As an offer of its first slot is. */
static void copy_head(int made, uint8_t head[LOCAL_PAGES])
{
    ck_assert_int_eq(pread(made, head, LOCAL_PAGES, 0), LOCAL_PAGES);
    ck_assert_uint_eq(head[LOCAL_WORDS], 3);
    head[LOCAL_WORDS] = 1;
}

START_TEST(memory_of_another_kind_is_refused)
{
    static const int some_seals[] = { 0,
                                      F_SEAL_SHRINK,
                                      F_SEAL_GROW,
                                      F_SEAL_SEAL,
                                      F_SEAL_SHRINK | F_SEAL_GROW,
                                      F_SEAL_SHRINK | F_SEAL_SEAL };
    static const off_t sizes[] = { 0,          1,          4096,          OCTETS - 4096,
                                   OCTETS - 1, OCTETS + 1, OCTETS + 4096, 2 * OCTETS };
    struct ri_local *both[2];
    uint8_t head[LOCAL_PAGES];
    int made = local_segment(&bed, both), fds[2];

    copy_head(made, head);
    ck_assert(is_refused(made)); /* a second time */
    ck_assert(!is_refused_and_closed(memfd(OCTETS, SEALS, head, sizeof(head))));
    for (size_t i = 0; i < ARRAY_SIZE(some_seals); i++)
        ck_assert(is_refused_and_closed(memfd(OCTETS, some_seals[i], head, sizeof(head))));
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        ck_assert(is_refused_and_closed(
            memfd(sizes[i], SEALS, head,
                  (size_t)sizes[i] < sizeof(head) ? (size_t)sizes[i] : sizeof(head))));
    ck_assert(is_refused(-1));
    ck_assert_int_eq(pipe(fds), 0);
    ck_assert(is_refused_and_closed(fds[0]) && is_refused_and_closed(fds[1]));
    ck_assert(is_refused_and_closed(open("/dev/zero", O_RDWR | O_CLOEXEC)));
    ck_assert(is_refused_and_closed(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
    close(made);
    for (int i = 0; i < 2; i++)
        bed.fake.privileged.local_drop(bed.fake.rnic, both[i]);
}
END_TEST

/* Each octet of the layout that the ends compare. */
START_TEST(another_layout_is_refused)
{
    struct ri_local *both[2];
    uint8_t head[LOCAL_PAGES];
    int made = local_segment(&bed, both);

    copy_head(made, head);
    close(made);
    for (size_t i = 0; i < 36; i++) {
        head[i] ^= 1;
        ck_assert_msg(is_refused_and_closed(memfd(OCTETS, SEALS, head, sizeof(head))), "octet %zu",
                      i);
        head[i] ^= 1;
    }
    for (int i = 0; i < 2; i++)
        bed.fake.privileged.local_drop(bed.fake.rnic, both[i]);
}
END_TEST

/* Neither a mapping nor a descriptor. */
START_TEST(a_child_has_nothing_of_it)
{
    struct ri_local *both[2];
    int status, made = local_segment(&bed, both);
    unsigned char present;
    pid_t child;

    ck_assert(fcntl(made, F_GETFD) & FD_CLOEXEC);
    close(made);
    ck_assert_int_eq(mincore(both[0]->rings, 4096, &present), 0);
    tc_await_quiet_for_fork();
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        bool gone = true;

        for (int i = 0; i < 2; i++)
            gone &= mincore(both[i]->rings, (size_t)SLOT, &present) && errno == ENOMEM;
        _exit(gone ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && !WEXITSTATUS(status));
    for (int i = 0; i < 2; i++)
        bed.fake.privileged.local_drop(bed.fake.rnic, both[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_peer");
    TCase *records = tc_case(suite, "records", setup, teardown);
    TCase *positions = tc_case(suite, "positions", setup, teardown);
    TCase *anything = tc_case(suite, "anything", setup, teardown);
    TCase *segment = tc_case(suite, "segment", setup, teardown);

    tcase_add_loop_test(records, a_record_that_is_no_request_ends_the_connection, 0,
                        ARRAY_SIZE(broken_records));
    tcase_add_loop_test(records, a_write_or_read_beyond_its_right_changes_nothing, 0, 54);
    tc_add_tests(records, a_message_that_never_ends_is_no_message,
                 skips_for_ever_do_not_hold_a_pass);
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
    tcase_set_timeout(anything, 0.001 * tc_timeout_ms(90000));
    tcase_add_loop_test(anything, anything_ends_in_a_defined_way, 0, 4);
    tc_add_tests(anything, octets_change_while_they_are_copied);
    tc_add_tests(segment, memory_of_another_kind_is_refused, another_layout_is_refused,
                 a_child_has_nothing_of_it);
    return tc_main(suite);
}
