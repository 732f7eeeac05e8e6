/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Races: rights of a region are taken and given while a peer writes to it, or reads from it,
 * without a pause. The region keeps its keys (RI_ACCESS_KEEP_KEYS).
 */
#include "bed.h"

#include <pthread.h>

#define SIZE 200000u
#define STEP 512u /* of the octets that the owner changes: a few, so that it is quick */

/* Whose memory an octet is. */
#define MINE   0x5a /* the peer's, or what the owner lets it read */
#define SECRET 0xa5 /* the owner's, when the peer has no right */

static struct side home; /* keeps the region's PD; is not connected */
static struct region region;

static void setup(void)
{
    testbed_open(&bed, NULL);
    testbed_lane_start(&bed);
    side_open(&bed, &home, NULL);
    region = region_new(&home, SIZE, TESTBED_ALL);
}

static void teardown(void)
{
    side_close(&home);
    testbed_lane_stop(&bed);
    bed_close();
}

/* ---- the peer: a thread that asks until its connection ends ---- */

struct peer {
    struct side sides[2]; /* the peer, and the QP of the region's owner */
    enum ri_wr_opcode opcode;
    struct region own;
    atomic_uint done, failed;
    atomic_bool stops;
    pthread_t thread;
};

static struct peer peer;

static bool is_over(const struct side *side)
{
    return atomic_load(&side->events.count) > 0;
}

static void *ask(void *arg)
{
    struct side *side = &peer.sides[0];
    const struct ri_sge sge = region_sge(&peer.own, 0, SIZE);
    struct ri_wc wc;

    (void)arg;
    while (!atomic_load(&peer.stops) && !is_over(side)) {
        enum ri_status status = side_post(side, peer.opcode, 1, RI_WR_SIGNALED, &sge, 1,
                                          (uintptr_t)region.octets, region.keys.rkey);

        if (status != RI_OK)
            sched_yield();
        while (bed.fake.user.poll(side->send_cq, 1, &wc))
            atomic_fetch_add(wc.status == RI_WC_SUCCESS ? &peer.done : &peer.failed, 1);
    }
    return NULL;
}

/* Writes, or Reads, of the whole region; with CRC or without: without it, output names memory. */
static void start_peer(int variant)
{
    const struct ri_llp_handover handover = {
        .mpa_revision = 2, .crc = variant < 2, .ird = 8, .ord = 8
    };
    struct shape shape = { 0 };

    memset(&peer, 0, sizeof(peer));
    peer.opcode = variant % 2 ? RI_WR_RDMA_READ : RI_WR_RDMA_WRITE;
    for (int i = 0; i < 2; i++) {
        side_open(&bed, &peer.sides[i], &shape);
        shape.pd = home.pd;
    }
    sides_connect(&peer.sides[0], &peer.sides[1], &handover);
    peer.own = region_new(&peer.sides[0], SIZE, TESTBED_ALL);
    memset(peer.own.octets, MINE, SIZE);
    ck_assert_int_eq(pthread_create(&peer.thread, NULL, ask, NULL), 0);
}

static void await(unsigned int done)
{
    ck_assert(
        tc_until(atomic_load(&peer.done) >= done || is_over(&peer.sides[0]), TESTBED_TIMEOUT));
    ck_assert(!is_over(&peer.sides[0]));
}

static void stop_peer(void)
{
    atomic_store(&peer.stops, true);
    ck_assert_int_eq(pthread_join(peer.thread, NULL), 0);
}

/* Afterwards nothing is placed in its memory. */
static void destroy_peer(void)
{
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(bed.fake.privileged.qp_destroy(peer.sides[i].qp), RI_OK);
        peer.sides[i].qp = NULL;
    }
}

static void close_peer(void)
{
    region_free(&peer.sides[0], &peer.own);
    for (int i = 0; i < 2; i++)
        side_close(&peer.sides[i]);
}

/* ---- the owner ---- */

static void set_rights(uint32_t access)
{
    const struct ri_mr_attr attr = { .size = sizeof(attr), .access = access | RI_ACCESS_KEEP_KEYS };
    bool remote = access & (RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE);
    struct ri_mr_keys keys;

    ck_assert_int_eq(bed.fake.privileged.mr_reregister(region.mr, NULL, &attr, &keys), RI_OK);
    ck_assert_uint_eq(keys.lkey, region.keys.lkey);
    ck_assert_uint_eq(keys.rkey, remote ? region.keys.rkey : 0);
}

/* From the end, towards what is placed or read at this moment. */
static void hide(uint8_t *octets)
{
    for (uint32_t i = SIZE / STEP; i > 0; i--)
        octets[i * STEP - 1] = SECRET;
}

static bool are_all(const uint8_t *octets, uint8_t value)
{
    for (uint32_t i = SIZE / STEP; i > 0; i--)
        if (octets[i * STEP - 1] != value)
            return false;
    return true;
}

/* The right goes at any moment of a transfer. What the owner puts there afterwards stays, and the
 * peer does not get it; its connection ends. Then the next peer has the right again, by the same
 * key. */
START_TEST(nothing_passes_after_the_right_has_gone)
{
    const unsigned long rounds = tc_count(40);
    const uint32_t right = _i % 2 ? RI_ACCESS_REMOTE_READ : RI_ACCESS_REMOTE_WRITE;
    const uint16_t told = _i % 2 ? RI_EVENT_READ_ACCESS : RI_EVENT_WRITE_ACCESS;
    struct tc_rng rng = tc_rng((uint64_t)_i);

    for (unsigned long i = 0; i < rounds; i++) {
        memset(region.octets, MINE, SIZE);
        set_rights(TESTBED_ALL);
        start_peer(_i);
        await((unsigned int)tc_below(&rng, 8));
        /* with the other remote right, or without any */
        set_rights(i % 2 ? TESTBED_ALL & ~right : RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE);
        hide(region.octets);
        ck_assert(tc_until(is_over(&peer.sides[0]) && is_over(&peer.sides[1]), TESTBED_TIMEOUT));
        ck_assert_int_eq(peer.sides[1].events.type[0], told);
        stop_peer();
        destroy_peer();
        ck_assert(are_all(region.octets, SECRET));
        ck_assert(are_all(peer.own.octets, MINE));
        close_peer();
    }
}
END_TEST

/* Rights that the peer does not use go and come. Each of its requests succeeds. */
START_TEST(other_rights_disturb_nobody)
{
    const unsigned long rounds = tc_count(400);
    const uint32_t right = _i % 2 ? RI_ACCESS_REMOTE_WRITE : RI_ACCESS_REMOTE_READ;

    start_peer(_i);
    await(1);
    for (unsigned long i = 0; i < rounds; i++) {
        set_rights(TESTBED_ALL & ~right);
        set_rights(TESTBED_ALL);
        if (i % 8 == 0) /* between changes traffic has gone on */
            await(atomic_load(&peer.done) + 1);
    }
    await(atomic_load(&peer.done) + 1);
    stop_peer();
    ck_assert_uint_eq(atomic_load(&peer.failed), 0);
    ck_assert_uint_eq(atomic_load(&peer.sides[1].events.count), 0);
    destroy_peer();
    close_peer();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma rights that change in traffic");
    TCase *tc = tc_case(suite, "rights", setup, teardown);

    tcase_set_timeout(tc, 0.001 * tc_timeout_ms(120000));
    tc_add_loops(tc, 0, 4, nothing_passes_after_the_right_has_gone, other_rights_disturb_nobody);
    return tc_main(suite);
}
