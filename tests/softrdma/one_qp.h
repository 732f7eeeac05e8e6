/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of one message type share: a test bed, QP a as the responder of a hand-written
 * peer, the peer's next FPDU with its fields decoded, and the expected Terminate.
 */
#ifndef ITAL_TESTS_ONE_QP_H
#define ITAL_TESTS_ONE_QP_H

#include "bed.h"

#include "base/compiler.h"

#define ATOMIC (TESTBED_ALL | RI_ACCESS_REMOTE_ATOMIC)

/* Side a is a responder that may send. */
void open_raw(const struct shape *shape, const struct ri_llp_handover *handover);
/* The same, with a small socket buffer, so that a large answer stays in progress. */
void open_raw_narrow(const struct shape *shape, const struct ri_llp_handover *handover);
/* The next FPDU is this Terminate, octet by octet, about this segment (NULL: none). FIN follows. */
void expect_terminate(uint16_t value, const uint8_t *ulpdu, uint32_t length);

/* Posts signalled atomics of a side. Words are 8 octets in a region, in host order. */
enum ri_status post_atomic(struct side *side, enum ri_wr_opcode opcode, uint64_t cookie,
                           const struct ri_sge *sges, uint32_t count, uint64_t remote,
                           uint32_t rkey, uint64_t value, uint64_t compare);
void fetch_add(struct side *side, uint64_t cookie, struct ri_sge sink, const struct region *target,
               uint64_t offset, uint64_t add);
void compare_swap(struct side *side, uint64_t cookie, struct ri_sge sink,
                  const struct region *target, uint64_t offset, uint64_t compare, uint64_t swap);
uint64_t word(const struct region *region, uint32_t index);
void set_word(struct region *region, uint32_t index, uint64_t value);
/* The next FPDU is a well-formed Atomic Request. */
struct rdmap_atomic_req expect_request(uint32_t msn);

#endif
