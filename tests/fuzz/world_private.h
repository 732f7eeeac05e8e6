/* SPDX-License-Identifier: BSD-3-Clause
 * What the two rooms of the world share: world.c (host, lower layer, objects), world_work.c (the oracle). */
#ifndef ITAL_TESTS_FUZZ_WORLD_PRIVATE_H
#define ITAL_TESTS_FUZZ_WORLD_PRIVATE_H

#include "tests/fuzz/world.h"

const struct ri_user_ops *world_user(void);

/* Regions get their place and their first contents. */
void memory_fill(struct world *world);
/* Under AddressSanitizer nobody may look at what is not usable. */
void memory_mark(const struct region *region, bool usable);
size_t memory_in_use(void);

/* A QP is gone with what it had not told. */
void work_forget(struct world *world, uint32_t which);
/* All that was posted has completed, but for successes that nobody asked about. */
void work_all_done(struct world *world, uint32_t which);

#endif
