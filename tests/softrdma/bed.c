/* SPDX-License-Identifier: BSD-3-Clause */
/* The test bed of a program, and its hand-written peer: see bed.h. */
#include "bed.h"

struct testbed bed;
struct tc_rng bed_rng;
struct raw raw = { .fd = -1 };
struct frame frame;
const struct ri_llp_handover plain = { .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8 };

void bed_open(void)
{
    bed_rng = tc_rng(11);
    testbed_open(&bed, NULL);
}

void bed_close(void)
{
    raw_close(&raw);
    testbed_close(&bed);
}

void bed_open_running(void)
{
    bed_open();
    testbed_lane_start(&bed);
}

void bed_close_running(void)
{
    testbed_lane_stop(&bed);
    bed_close();
}

TCase *new_case(Suite *suite, const char *name, SFun setup, SFun teardown)
{
    TCase *tc = tc_case(suite, name, setup, teardown);

    tcase_set_timeout(tc, 0.001 * tc_timeout_ms(120000));
    return tc;
}

bool next_frame(void)
{
    frame.length = raw_next(&raw, frame.ulpdu, sizeof(frame.ulpdu));
    if (!frame.length)
        return false;
    ck_assert_int_eq(rdmap_check(frame.ulpdu, frame.length,
                                 RDMAP_FEATURE_IMM | RDMAP_FEATURE_ATOMIC, &frame.segment),
                     RDMAP_OK);
    return true;
}
