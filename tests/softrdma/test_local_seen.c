/* SPDX-License-Identifier: BSD-3-Clause */
/* What people see of a connection over shared memory: its way, and the counters of both ends. */
#include "local_bed.h"

#include "base/compiler.h"

#include <sys/socket.h>

#define ROOM     (64u << 10)
#define COUNTERS 32u

static struct testbed bed;
static struct side *const a = &bed.side[0], *const b = &bed.side[1];
static struct region from, to;
static const struct ri_llp_handover plain = { .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8 };

static void setup(void)
{
    static const char *const options[] = { "local_access", "ring", NULL };

    local_open(&bed, options); /* the other ways: test_local_direct */
}

static void teardown(void)
{
    testbed_close(&bed);
}

/* -1: the QP has no such counter. */
static int64_t counter(struct side *side, const char *name)
{
    const char *names[COUNTERS];
    uint64_t values[COUNTERS];
    size_t count = COUNTERS;

    OK(bed.fake.privileged.qp_counters(side->qp, names, values, &count));
    ck_assert_uint_le(count, COUNTERS);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(names[i], name))
            return (int64_t)values[i];
    return -1;
}

#define EXPECT(side, name, value) ck_assert_int_eq(counter(side, name), (int64_t)(value))

static void open_both(uint32_t access)
{
    const struct shape shape = { .atomics = true };

    side_open(&bed, a, &shape);
    side_open(&bed, b, &shape);
    from = region_new(a, ROOM, access);
    to = region_new(b, ROOM, access);
}

static void start_over_tcp(void)
{
    int fds[2];

    testbed_tcp(fds, 0);
    side_start(a, fds[0], true, &plain);
    side_start(b, fds[1], false, &plain);
}

static void send_one(uint64_t cookie, uint32_t octets)
{
    side_receive(b, cookie, region_sge(&to, 0, octets));
    side_send(a, cookie, region_sge(&from, 0, octets));
    side_expect(b, b->recv_cq, cookie, RI_WC_SUCCESS, octets);
    side_expect(a, a->send_cq, cookie, RI_WC_SUCCESS, octets);
}

static void end_and_reset(void)
{
    side_modify(a, RI_QPS_CLOSING);
    for (int i = 0; i < 2; i++)
        ck_assert(fake_host_until(&bed.fake, side_query(&bed.side[i]).state == RI_QPS_ERROR,
                                  TESTBED_TIMEOUT));
    side_modify(a, RI_QPS_IDLE);
    side_modify(b, RI_QPS_IDLE);
}

START_TEST(the_way_is_told_while_it_is_local)
{
    open_both(TESTBED_ALL);
    ck_assert_ptr_null(side_query(a).way);
    sides_connect(a, b, &plain);
    ck_assert_str_eq(side_query(a).way, "ring");
    ck_assert_str_eq(side_query(b).way, "ring");
    end_and_reset();
    ck_assert_ptr_null(side_query(a).way);
    start_over_tcp();
    send_one(0, 64);
    ck_assert_ptr_null(side_query(a).way);
    ck_assert_ptr_null(side_query(b).way);
}
END_TEST

/* One of each kind; a long message has several records, and is one request. */
START_TEST(who_has_executed_how_much)
{
    struct ri_send_wr add = { .cookie = 3,
                              .opcode = RI_WR_ATOMIC_FETCH_ADD,
                              .flags = RI_WR_SIGNALED,
                              .num_sge = 1 },
                      *bad;
    struct ri_sge sge;

    open_both(TESTBED_ALL | RI_ACCESS_REMOTE_ATOMIC);
    sides_connect(a, b, &plain);
    EXPECT(a, "requests executed by the peer", 0);
    send_one(0, 40000);
    side_write(a, 1, region_sge(&from, 0, 1000), (uintptr_t)to.octets, to.keys.rkey);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 1000);
    side_read(a, 2, region_sge(&from, 0, 300), (uintptr_t)to.octets, to.keys.rkey);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 300);
    sge = region_sge(&from, 0, 8);
    add.sg_list = &sge;
    add.atomic.remote_addr = (uintptr_t)to.octets;
    add.atomic.rkey = to.keys.rkey;
    add.atomic.swap_or_add = 1;
    OK(bed.fake.user.post_send(a->qp, &add, &bad));
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, 8);
    for (int i = 0; i < 2; i++) {
        struct side *by = i ? b : a, *of = i ? a : b;

        EXPECT(by, "requests executed by the peer", i ? 0 : 4);
        EXPECT(by, "octets moved by the peer", i ? 0 : 40000 + 1000 + 300 + 8);
        EXPECT(of, "requests executed for the peer", i ? 0 : 4);
        EXPECT(of, "octets moved for the peer", i ? 0 : 40000 + 1000 + 300 + 8);
        EXPECT(by, "requests executed directly", 0);
        EXPECT(by, "octets moved directly", 0);
    }
}
END_TEST

START_TEST(counters_outlive_connections)
{
    open_both(TESTBED_ALL);
    EXPECT(a, "requests executed by the peer", 0); /* never connected */
    for (uint32_t round = 0; round < 4; round++) {
        if (round & 1)
            start_over_tcp();
        else
            sides_connect(a, b, &plain);
        send_one(round, 64);
        end_and_reset();
        EXPECT(a, "messages sent", round + 1);
        EXPECT(a, "requests executed by the peer", round / 2 + 1);
        EXPECT(b, "requests executed for the peer", round / 2 + 1);
        EXPECT(b, "octets moved for the peer", (round / 2 + 1) * 64);
    }
}
END_TEST

/* The hand sleeps, and is woken once; it wakes the side twice. */
START_TEST(wake_ups_of_both_directions)
{
    struct hand hand;
    uint8_t octets[16];
    int64_t before;

    side_open(&bed, a, NULL);
    hand_open(&hand, a, NULL);
    from = region_new(a, ROOM, TESTBED_ALL);
    testbed_passes(&bed, 2);
    while (recv(hand.bell, octets, sizeof(octets), MSG_DONTWAIT) > 0)
        ;
    before = counter(a, "wake-ups sent");
    side_send(a, 0, region_sge(&from, 0, 64)); /* the hand looks by itself */
    EXPECT(a, "wake-ups sent", before);
    atomic_store(&hand.own->asleep, 1);
    side_send(a, 1, region_sge(&from, 0, 64));
    EXPECT(a, "wake-ups sent", before + 1);
    ck_assert_int_eq(recv(hand.bell, octets, sizeof(octets), MSG_DONTWAIT), 1);
    before = counter(a, "wake-ups received");
    hand_ring(&hand);
    hand_ring(&hand);
    ck_assert(
        fake_host_until(&bed.fake, counter(a, "wake-ups received") == before + 2, TESTBED_TIMEOUT));
    region_free(a, &from);
    hand_close(&hand);
}
END_TEST

/* Room for some: those are filled in, and how many there are is told. */
START_TEST(less_room_than_counters)
{
    const char *names[COUNTERS] = { NULL };
    uint64_t values[COUNTERS];
    size_t all = COUNTERS, count;

    side_open(&bed, a, NULL);
    OK(bed.fake.privileged.qp_counters(a->qp, names, values, &all));
    for (size_t room = 0; room <= all; room++) {
        memset(names, 0, sizeof(names));
        count = room;
        OK(bed.fake.privileged.qp_counters(a->qp, names, values, &count));
        ck_assert_uint_eq(count, all);
        for (size_t i = 0; i < COUNTERS; i++)
            ck_assert((names[i] != NULL) == (i < room));
    }
}
END_TEST

START_TEST(a_device_without_the_wire_has_no_counter_of_it)
{
    testbed_close(&bed);
    testbed_open(&bed, (const char *const[]){ "local", "no", NULL });
    side_open(&bed, a, NULL);
    EXPECT(a, "messages sent", 0);
    EXPECT(a, "requests executed by the peer", -1);
    EXPECT(a, "wake-ups sent", -1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("local wire, what is seen");
    TCase *t = tc_case(s, "seen", setup, teardown);

    tc_add_tests(t, the_way_is_told_while_it_is_local, who_has_executed_how_much,
                 counters_outlive_connections, wake_ups_of_both_directions, less_room_than_counters,
                 a_device_without_the_wire_has_no_counter_of_it);
    return tc_main(s);
}
