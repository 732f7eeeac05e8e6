/* SPDX-License-Identifier: BSD-3-Clause
 * Two sides without a peer, over a lower layer that records each write. */
#ifndef ITAL_TESTS_SHORT_BED_H
#define ITAL_TESTS_SHORT_BED_H

#include "bed.h"
#include "recording_llp.h"

extern struct region region[2]; /* 4096 octets of each side */

/* A fixture: the bed alone, segments of 1460 octets; its end closes what was started. */
void setup(void);
void teardown(void);

/* Opens and starts one side; its first message has left. */
void start(struct side *side, bool crc);

/* One request of its region's octets. */
void post(struct side *side, enum ri_wr_opcode opcode, uint16_t flags, uint64_t cookie,
          uint32_t offset, uint32_t length);
/* Requests of these cookies complete in order, each with so many octets. */
void take_all(struct side *side, uint64_t from, uint64_t count, uint32_t length);

#endif
