/* SPDX-License-Identifier: BSD-3-Clause */
/* What the loop tests share: a test bed for each test, side a alone with a hand-written peer or
 * connected to b, and how the connection ends. */
#ifndef ITAL_TESTS_LOOP_H
#define ITAL_TESTS_LOOP_H

#include "testbed.h"

#include "providers/software/iwarp/codec/ddp.h"
#include "providers/software/iwarp/codec/rdmap.h"
#include "providers/software/iwarp/codec/terminate.h"

extern struct testbed bed;
extern struct tc_rng rng; /* seeded again for each test */
extern const struct ri_llp_handover plain, no_crc;
static struct side *const a = &bed.side[0], *const b = &bed.side[1];

TCase *new_case(Suite *suite, const char *name); /* with a test bed of its own for each test */

/* Side a is a responder that has received the peer's first FPDU. */
void open_speaking(struct raw *raw, const struct shape *shape,
                   const struct ri_llp_handover *handover);
/* The next FPDU is a Terminate of this value; only FIN follows (S-059, S-063). */
struct terminate_info expect_terminate(struct raw *raw, uint16_t value, uint8_t ulpdu[128]);
void expect_state(struct side *side, enum ri_qp_state state); /* waits for it */

#endif
