/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The test bed of a program, one for each test, with sides a and b and a hand-written peer, whose
 * next FPDU is taken with its fields decoded. What one kind of test adds: loop.h, engine.h,
 * one_qp.h, two_qps.h, short_bed.h.
 */
#ifndef ITAL_TESTS_BED_H
#define ITAL_TESTS_BED_H

#include "testbed.h"

#include "providers/software/iwarp/codec/terminate.h"

struct frame {
    uint8_t ulpdu[70000];
    uint32_t length;
    struct rdmap_segment segment;
};

extern struct testbed bed;
extern struct tc_rng bed_rng; /* seeded again for each test */
extern struct raw raw;
extern struct frame frame; /* the last that next_frame() took */
extern const struct ri_llp_handover plain;
static struct side *const a = &bed.side[0], *const b = &bed.side[1];

/* A fixture: a bed without options; its end closes the sides and the peer. */
void bed_open(void);
void bed_close(void);
/* The same with a thread that runs the lane. */
void bed_open_running(void);
void bed_close_running(void);
/* tc_case() with time for many connections. */
TCase *new_case(Suite *suite, const char *name, SFun setup, SFun teardown);

/* False: the stream of raw has ended. */
bool next_frame(void);

#endif
