/* SPDX-License-Identifier: BSD-3-Clause */
/* What the loop tests share: a test bed for each test, side a alone with a hand-written peer or
 * connected to b, and how the connection ends. */
#ifndef ITAL_TESTS_LOOP_H
#define ITAL_TESTS_LOOP_H

#include "bed.h"

extern const struct ri_llp_handover no_crc;

/* Side a is a responder that has received the peer's first FPDU. */
void open_speaking(struct raw *peer, const struct shape *shape,
                   const struct ri_llp_handover *handover);
/* The next FPDU is a Terminate of this value; only FIN follows (S-059, S-063). */
struct terminate_info expect_terminate(struct raw *peer, uint16_t value, uint8_t ulpdu[128]);
void expect_state(struct side *side, enum ri_qp_state state); /* waits for it */

#endif
