/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of the engine share: a test bed for each test, side a against a hand-written peer,
 * and the peer's next FPDU with its fields decoded.
 */
#ifndef ITAL_TESTS_ENGINE_H
#define ITAL_TESTS_ENGINE_H

#include "bed.h"

#include "providers/software/iwarp/wire_iwarp.h"

/* Connects side a with the hand-written peer. As initiator, its ready-to-receive Write is
 * consumed. */
void connect_raw(bool initiator, const struct ri_llp_handover *handover);
/* The last FPDU is a Terminate of this value; others before it are skipped. */
void expect_terminate(uint16_t value);
void read_request(uint32_t msn, uint32_t size, const struct region *source, uint64_t sink);

#endif
