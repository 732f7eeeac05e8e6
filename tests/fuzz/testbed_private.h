/* SPDX-License-Identifier: BSD-3-Clause
 * What the rooms of the test bed share: testbed.c (objects, connections), testbed_host.c (host,
 * lower layer), oracle.c (the oracle). */
#ifndef ITAL_TESTS_FUZZ_TESTBED_PRIVATE_H
#define ITAL_TESTS_FUZZ_TESTBED_PRIVATE_H

#include "tests/fuzz/testbed.h"

#include "fake_host.h"

extern struct fake_host the_host;
extern const struct llp_ops testbed_llp; /* a stream's fd is the number of its wire */
extern struct testbed the_bed;
extern struct wire the_wires[TESTBED_WIRES];

const struct ri_user_ops *testbed_user(void);

/* Chance begins anew. */
void host_begin(void);
void host_open(void);
/* Each timer that is set now expires, once; its deadline is made to have passed. */
void host_expire(void);
bool wire_is_watched(const struct wire *wire);
/* As epoll would, level-triggered: false when there is nothing to tell. */
bool wire_report(struct wire *wire);

/* Regions get their place and their first contents. */
void memory_fill(struct testbed *bed);
/* Under AddressSanitizer nobody may look at what is not usable. */
void memory_mark(const struct region *region, bool usable);
size_t memory_in_use(void);

/* A QP is gone with what it had not told. */
void work_forget(struct testbed *bed, uint32_t which);
/* All that was posted has completed, but for successes that nobody asked about. */
void work_all_done(struct testbed *bed, uint32_t which);

#endif
