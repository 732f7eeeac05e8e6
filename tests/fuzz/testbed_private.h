/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared by the files of the test bed: testbed.c (objects, connections), testbed_host.c (host,
 * lower layer), oracle.c (the oracle).
 */
#ifndef ITAL_TESTS_FUZZ_TESTBED_PRIVATE_H
#define ITAL_TESTS_FUZZ_TESTBED_PRIVATE_H

#include "tests/fuzz/testbed.h"

#include "fake_host.h"

extern struct fake_host the_host;
extern const struct llp_ops testbed_llp; /* a stream's fd is the index of its wire */
extern struct testbed the_bed;
extern struct fuzz_wire the_wires[TESTBED_WIRES];

const struct ri_user_ops *testbed_user(void);

/* Restarts the random numbers. */
void host_begin(void);
void host_open(void);
/* Expires each timer that is set now, once, by moving its deadline into the past. */
void host_expire(void);
bool wire_is_watched(const struct fuzz_wire *wire);
/* Reports events as level-triggered epoll would; false: none. */
bool wire_report(struct fuzz_wire *wire);

/* Sets the regions' places and first contents. */
void memory_fill(struct testbed *bed);
/* Under AddressSanitizer unusable memory is poisoned. */
void memory_mark(const struct region *region, bool usable);
size_t memory_in_use(void);

/* Drops the requests of a destroyed QP that have not completed. */
void work_forget(struct testbed *bed, uint32_t which);
/* All posted requests have completed, except for unsignalled successes. */
void work_all_done(struct testbed *bed, uint32_t which);

#endif
