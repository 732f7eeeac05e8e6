/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory that rests goes back to the system, and is used again as if it had not. */
#include "local_bed.h"

#include <sys/mman.h>
#include <sys/socket.h>

#define ROOM (64u << 10)
#define PAGE 4096u

static struct testbed bed;
static struct side *const a = &bed.side[0], *const b = &bed.side[1];
static struct region from, to;

static void setup(void)
{
    static const char *const options[] = { "local_access", "ring", NULL };

    local_open(&bed, options);
}

static void teardown(void)
{
    testbed_close(&bed);
}

/* Octets of the segment's file that take memory, whoever has mapped them. */
static size_t present(const uint8_t *memory, size_t octets)
{
    unsigned char pages[LOCAL_REQUESTS / PAGE];
    size_t count = 0;

    ck_assert_uint_le(octets / PAGE, sizeof(pages));
    ck_assert_int_eq(mincore((void *)(uintptr_t)memory, octets, pages), 0);
    for (size_t i = 0; i < octets / PAGE; i++)
        count += pages[i] & 1;
    return count * PAGE;
}

static size_t of_requests(const struct ri_local *local, unsigned int side)
{
    return present(local_requests(local, side), LOCAL_REQUESTS);
}

static size_t of_answers(const struct ri_local *local, unsigned int side)
{
    return present(local_answers(local, side), LOCAL_ANSWERS);
}

static const struct ri_local *memory_of(const struct side *side)
{
    return local_qp((const struct qp *)(const void *)side->qp)->memory;
}

static size_t of_rings(const struct ri_local *local)
{
    return of_requests(local, 0) + of_requests(local, 1) + of_answers(local, 0) +
           of_answers(local, 1);
}

static bool rests(const struct ri_local *local)
{
    fake_host_expire_timers(&bed.fake);
    return !of_rings(local);
}

static void move(struct side *by, struct side *at, struct region *own, struct region *other)
{
    side_receive(at, 1, region_sge(other, 0, ROOM / 2));
    side_send(by, 2, region_sge(own, 0, ROOM / 2));
    side_expect(at, at->recv_cq, 1, RI_WC_SUCCESS, ROOM / 2);
    side_expect(by, by->send_cq, 2, RI_WC_SUCCESS, ROOM / 2);
    ck_assert_int_eq(memcmp(own->octets, other->octets, ROOM / 2), 0);
    memset(own->octets, 0, ROOM / 2);
    side_read(by, 3, region_sge(own, 0, ROOM / 2), (uintptr_t)other->octets, other->keys.rkey);
    side_expect(by, by->send_cq, 3, RI_WC_SUCCESS, ROOM / 2);
    ck_assert_int_eq(memcmp(own->octets, other->octets, ROOM / 2), 0);
}

/* All four rings. After it they work from the place where they were, more than once round. */
START_TEST(rings_that_rest_take_no_memory)
{
    const struct ri_local *local;

    testbed_connect(&bed, NULL, NULL);
    from = region_new(a, ROOM, TESTBED_ALL);
    to = region_new(b, ROOM, TESTBED_ALL);
    region_fill(&from);
    local = memory_of(a);
    for (int round = 0; round < 6; round++) {
        move(a, b, &from, &to);
        move(b, a, &to, &from);
        ck_assert_uint_ge(of_requests(local, 0), ROOM / 2);
        ck_assert_uint_ge(of_requests(local, 1), ROOM / 2);
        ck_assert_uint_ge(of_answers(local, 0), ROOM / 2);
        ck_assert_uint_ge(of_answers(local, 1), ROOM / 2);
        ck_assert_msg(fake_host_until(&bed.fake, rests(local), TESTBED_TIMEOUT / 4),
                      "round %d: %zu octets stay", round, of_rings(local));
    }
}
END_TEST

/* Of a connection without any message: nobody looks in a ring. With the first one the sender's ring
 * alone takes memory. */
START_TEST(rings_that_were_never_used_take_no_memory)
{
    const struct ri_local *local;

    testbed_connect(&bed, NULL, NULL);
    local = memory_of(b);
    testbed_passes(&bed, SETTLED);
    ck_assert_uint_eq(of_rings(local), 0);
    from = region_new(a, ROOM, TESTBED_ALL);
    to = region_new(b, ROOM, TESTBED_ALL);
    side_receive(b, 1, region_sge(&to, 0, 64));
    side_send(a, 2, region_sge(&from, 0, 64));
    side_expect(b, b->recv_cq, 1, RI_WC_SUCCESS, 64);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 64);
    testbed_passes(&bed, SETTLED);
    ck_assert_uint_gt(of_requests(local, memory_of(a)->side), 0);
    ck_assert_uint_eq(of_rings(local), of_requests(local, memory_of(a)->side));
    ck_assert_msg(fake_host_until(&bed.fake, rests(local), TESTBED_TIMEOUT / 4), "%zu octets stay",
                  of_rings(local));
}
END_TEST

/* Many passes and times later it is there, and behind it what was published next. */
START_TEST(what_the_peer_has_not_taken_stays)
{
    struct ring_header header;
    const uint8_t *octets;
    struct hand hand;

    side_open(&bed, a, NULL);
    hand_open(&hand, a, NULL);
    from = region_new(a, ROOM, TESTBED_ALL);
    region_fill(&from);
    for (uint32_t i = 0; i < 3; i++)
        side_send(a, i, region_sge(&from, i * PAGE, PAGE));
    hand_take(&hand, &octets);
    hand_execute(&hand, 1);
    side_expect(a, a->send_cq, 0, RI_WC_SUCCESS, PAGE);
    for (int i = 0; i < 10; i++) {
        atomic_store(&hand.own->asleep, LOCAL_COOL);
        fake_host_expire_timers(&bed.fake);
        fake_host_sleep(&bed.fake, 0, 0);
        testbed_passes(&bed, SETTLED);
    }
    ck_assert_uint_gt(of_requests(hand.local, 0), 0);
    for (uint32_t i = 1; i < 3; i++) {
        header = hand_take(&hand, &octets);
        ck_assert_uint_eq(header.length, PAGE);
        ck_assert_int_eq(memcmp(octets, from.octets + i * PAGE, PAGE), 0);
    }
    hand_execute(&hand, 2);
    atomic_store(&hand.own->asleep, LOCAL_COOL); /* it does not look there any more */
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, PAGE);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, PAGE);
    ck_assert(fake_host_until(&bed.fake,
                              (fake_host_expire_timers(&bed.fake), !of_requests(hand.local, 0)),
                              TESTBED_TIMEOUT));
    region_free(a, &from);
    hand_close(&hand);
}
END_TEST

/* The time that has begun ends with the connection: nothing is left that runs behind it. */
START_TEST(an_end_ends_the_rest)
{
    for (int round = 0; round < 3; round++) {
        testbed_connect(&bed, NULL, NULL);
        from = region_new(a, ROOM, TESTBED_ALL);
        to = region_new(b, ROOM, TESTBED_ALL);
        region_fill(&from);
        move(a, b, &from, &to);
        if (round)
            fake_host_expire_timers(&bed.fake);
        if (round == 2)
            fake_host_sleep(&bed.fake, 0, 0);
        side_close(a);
        side_close(b);
        fake_host_expire_timers(&bed.fake);
        testbed_passes(&bed, SETTLED);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_idle");
    TCase *tc = tc_case(suite, "idle", setup, teardown);

    tc_add_tests(tc, rings_that_rest_take_no_memory, rings_that_were_never_used_take_no_memory,
                 what_the_peer_has_not_taken_stays, an_end_ends_the_rest);
    return tc_main(suite);
}
