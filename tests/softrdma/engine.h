/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of the engine share: a test bed for each test, side a against a hand-written peer,
 * and the peer's next FPDU with its fields decoded.
 */
#ifndef ITAL_TESTS_ENGINE_H
#define ITAL_TESTS_ENGINE_H

#include "testbed.h"

#include "providers/software/iwarp/codec/ddp.h"
#include "providers/software/iwarp/codec/rdmap.h"
#include "providers/software/iwarp/wire_iwarp.h"
#include "providers/software/iwarp/codec/terminate.h"

struct frame {
    uint8_t octets[70000];
    struct rdmap_segment segment;
};

extern struct testbed bed;
extern struct tc_rng rng; /* seeded again for each test */
extern struct raw raw;
extern struct frame frame; /* the last that next_frame() took */
extern const struct ri_llp_handover plain;
static struct side *const a = &bed.side[0], *const b = &bed.side[1];

TCase *new_case(Suite *suite, const char *name); /* with a test bed of its own for each test */

/* Connects side a with the hand-written peer. As initiator, its ready-to-receive Write is
 * consumed. */
void connect_raw(bool initiator, const struct ri_llp_handover *handover);
/* False: the stream has ended. */
bool next_frame(void);
/* The last FPDU is a Terminate of this value; others before it are skipped. */
void expect_terminate(uint16_t value);
void read_request(uint32_t msn, uint32_t size, const struct region *source, uint64_t sink);

#endif
