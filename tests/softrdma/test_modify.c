/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of a QP that change while it is connected. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "two_qps.h"

#include <string.h>

static void setup(void)
{
    open_fixture(4096, TESTBED_ALL);
}

static void teardown(void)
{
    region_free(a, &region);
    close_fixture();
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

/* From none to some. */
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
    modify.flags = RI_QP_PRIVILEGED;
    ck_assert_int_eq(bed.fake.privileged.qp_modify(a->qp, &modify), RI_ERR_NOT_SUPPORTED);
}
END_TEST

/* Names that the contract has for what is built later: nobody may take
 * them for something that works. */
START_TEST(what_has_room_only_is_refused)
{
    const enum ri_qp_state states[] = { RI_QPS_INIT, RI_QPS_RTR };
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_RNR, .rnr_retry = 7 };
    struct ri_rnic_attr attr = { .size = sizeof(attr) };

    OK(bed.fake.privileged.query(bed.fake.rnic, &attr));
    ck_assert(
        !(attr.features & (RI_FEATURE_RNR | RI_FEATURE_FUSED_IMMEDIATE | RI_FEATURE_QP_INIT_RTR)));
    ck_assert_int_eq(bed.fake.privileged.qp_modify(a->qp, &modify), RI_ERR_NOT_SUPPORTED);
    modify.mask = RI_QPM_STATE;
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

    tcase_add_test(tc, ord_rises);
    tcase_add_test(tc, ird_rises);
    tcase_add_test(tc, access_changes);
    tcase_add_test(tc, what_has_room_only_is_refused);
    return tc_main(suite);
}
