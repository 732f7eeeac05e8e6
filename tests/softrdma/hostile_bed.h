/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A side, and a peer that shares memory with it and is the test's hand. The peer may reach one of
 * two regions. All helpers fail the test on an error.
 */
#ifndef ITAL_TESTS_HOSTILE_BED_H
#define ITAL_TESTS_HOSTILE_BED_H

#include "local_bed.h"

#include "base/compiler.h"

#define ROOM    65536u
#define FOREVER 7u     /* RNR retries */
#define BROKEN  0x0207 /* the event's code where the peer breaks the rules */

#define RECORD(...)                        \
    {                                      \
        .fetching = 1, .kind = __VA_ARGS__ \
    }

extern struct testbed bed;
extern struct hand hand;
extern struct region open_region, closed_region;
extern struct side *const a;

/* Fixture of a test case: the bed without a QP. */
void hostile_setup(void);
void hostile_teardown(void);

/* The side is connected to the hand; NULL: of the usual shape. */
void hostile_open(const struct shape *shape);
void hostile_close(void);

/* The regions begin with equal octets; are those between the offsets as they were? */
bool is_untouched(const struct region *region, uint64_t from, uint64_t to);
/* The remote address of an octet of the region. */
uint64_t hostile_addr(const struct region *region, int64_t offset);

/* Requests that the side has posted complete in order, each once, and nothing behind them. */
void expect_all_flushed(struct ri_cq *cq, uint64_t first, uint64_t count);
void expect_ended(void);

#endif
