/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of a QP that change while it is connected. */
#include "two_qps.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

static void setup(void)
{
    open_fixture(4096, TESTBED_ALL);
}

static void teardown(void)
{
    bed_close();
}

START_TEST(ord_rises)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_ORD, .ord = 3 };
    uint8_t ulpdu[64];

    for (uint64_t i = 0; i < 12; i++)
        side_read(a, i, region_sge(&region, i, 1), 0, 1);
    for (int i = 0; i < 8; i++) /* ORD of the hand-over */
        ck_assert_uint_gt(raw_next(&raw, ulpdu, sizeof(ulpdu)), 0);
    ck_assert(raw_silent(&raw));
    modify.ord = 10;
    OK(bed.fake.privileged.qp_modify(a->qp, &modify));
    for (int i = 0; i < 2; i++)
        ck_assert_uint_gt(raw_next(&raw, ulpdu, sizeof(ulpdu)), 0);
    ck_assert(raw_silent(&raw));
    ck_assert_uint_eq(side_query(a).ord, 10);
    modify.ord = 100000;
    ck_assert_int_eq(bed.fake.privileged.qp_modify(a->qp, &modify), RI_ERR_LIMIT);
}
END_TEST

/* From zero. */
START_TEST(ird_rises)
{
    const struct ri_llp_handover none = { .mpa_revision = 2, .crc = true };
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_IRD, .ird = 2 };
    struct shape shape = willing;
    uint8_t ulpdu[4096];

    shape.pd = a->pd;
    raw_open_speaking(&second, &bed, &other, &shape, &none);
    OK(bed.fake.privileged.qp_modify(other.qp, &modify));
    memset(region.octets, 'i', 2000);
    read_request(&second, 1, region.keys.rkey, (uintptr_t)region.octets, 2000);
    ck_assert_uint_eq(raw_next(&second, ulpdu, sizeof(ulpdu)), DDP_TAGGED_LEN + 2000);
    ck_assert_uint_eq(ulpdu[DDP_TAGGED_LEN + 1999], 'i');
    side_modify(&other, RI_QPS_ERROR);
    ck_assert_int_eq(bed.fake.privileged.qp_modify(other.qp, &modify), RI_ERR_INVALID_STATE);
    close_other();
}
END_TEST

START_TEST(access_changes)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_FLAGS,
                                   .flags = RI_QP_READ_ENABLE };

    raw_tagged(&raw, RDMAP_WRITE, true, region.keys.rkey, (uintptr_t)region.octets, "yes", 3);
    ck_assert(raw_silent(&raw));
    OK(bed.fake.privileged.qp_modify(a->qp, &modify));
    raw_tagged(&raw, RDMAP_WRITE, true, region.keys.rkey, (uintptr_t)region.octets, "not", 3);
    raw_expect_terminate(&raw, TERMINATE_T_STREAM);
    ck_assert_mem_eq(region.octets, "yes", 3);
    modify.mask = RI_QPM_QKEY;
    ck_assert_int_eq(bed.fake.privileged.qp_modify(a->qp, &modify), RI_ERR_NOT_SUPPORTED);
}
END_TEST

/* --- query --- */

struct watcher {
    atomic_bool stop;
    atomic_uint looks;
    uint32_t mixed;
};

/* Of the other QP: in IDLE the depths are the former ones, then those of the hand-over. */
static void *watch_depths(void *argument)
{
    struct watcher *watcher = argument;

    while (!atomic_load(&watcher->stop)) {
        struct ri_qp_info info = side_query(&other);
        uint32_t depth = info.state == RI_QPS_IDLE ? 2 : 8;

        watcher->mixed += info.ird != depth || info.ord != depth;
        atomic_fetch_add(&watcher->looks, 1);
    }
    return NULL;
}

START_TEST(a_query_sees_a_hand_over_whole)
{
    const struct shape shape = { .ird = 2, .ord = 2 };

    for (int round = 0; round < 50; round++) {
        struct watcher watcher = { .mixed = 0 };
        pthread_t thread;
        int fds[2];

        side_open(&bed, &other, &shape);
        testbed_tcp(fds, 0);
        ck_assert_int_eq(pthread_create(&thread, NULL, watch_depths, &watcher), 0);
        while (atomic_load(&watcher.looks) < 10)
            sched_yield();
        side_start(&other, fds[0], true, &(struct ri_llp_handover){ .ird = 8, .ord = 8 });
        atomic_store(&watcher.stop, true);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_uint_eq(watcher.mixed, 0);
        side_modify(&other, RI_QPS_ERROR);
        side_close(&other);
        close(fds[1]);
    }
}
END_TEST

/* A host of an earlier version has a shorter structure, one of a later version a longer one. */
START_TEST(a_query_fills_what_the_caller_has)
{
    const uint32_t older = offsetof(struct ri_qp_info, ird);
    union {
        struct ri_qp_info info;
        uint8_t octets[sizeof(struct ri_qp_info) + 16];
    } room;

    memset(&room, 0xab, sizeof(room));
    room.info.size = older;
    OK(bed.fake.privileged.qp_query(a->qp, &room.info));
    ck_assert_uint_eq(room.info.size, older);
    ck_assert_int_eq(room.info.state, RI_QPS_RTS);
    for (uint32_t i = older; i < sizeof(room); i++)
        ck_assert_uint_eq(room.octets[i], 0xab);
    room.info.size = sizeof(room);
    OK(bed.fake.privileged.qp_query(a->qp, &room.info));
    ck_assert_uint_eq(room.info.size, sizeof(room));
    ck_assert_uint_eq(room.info.ird, 8);
    for (uint32_t i = sizeof(struct ri_qp_info); i < sizeof(room); i++)
        ck_assert_uint_eq(room.octets[i], 0xab);
    room.info.size = 2;
    ck_assert_int_eq(bed.fake.privileged.qp_query(a->qp, &room.info), RI_ERR_INVALID_ARGUMENT);
    ck_assert_uint_eq(room.info.ird, 8);
}
END_TEST

/* The contract defines features that softrdma does not have: they are refused. */
START_TEST(what_has_room_only_is_refused)
{
    const enum ri_qp_state states[] = { RI_QPS_INIT, RI_QPS_RTR };
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_STATE };
    struct ri_rnic_attr attr = { .size = sizeof(attr) };

    OK(bed.fake.privileged.query(bed.fake.rnic, &attr));
    ck_assert(!(attr.features & RI_FEATURE_QP_NUMBERS));
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        modify.state = states[i];
        ck_assert_int_eq(bed.fake.privileged.qp_modify(a->qp, &modify), RI_ERR_NOT_SUPPORTED);
    }
    ck_assert_int_eq(side_query(a).state, RI_QPS_RTS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attributes while connected");
    TCase *tc = new_case(suite, "attributes", setup, teardown);

    tc_add_tests(tc, ord_rises, ird_rises, access_changes, a_query_sees_a_hand_over_whole,
                 a_query_fills_what_the_caller_has, what_has_room_only_is_refused);
    return tc_main(suite);
}
