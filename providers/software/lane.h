/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lanes: the streams that a pass serves (lane.c), and all lanes of an RNIC (lanes.c).
 */
#ifndef ITAL_SOFTRDMA_LANES_H
#define ITAL_SOFTRDMA_LANES_H

#include "providers/software/core/lane.h"

enum ri_status lane_create(struct rnic *rnic, struct lane **lane);
/* Nothing runs any more. Open streams are reset. */
void lane_destroy(struct lane *lane);
enum ri_status softrdma_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                                  struct ri_lane **out);
uint32_t softrdma_progress(struct ri_lane *base, struct ri_cq *first, uint32_t budget,
                           uint64_t *next_deadline);
bool softrdma_lane_arm(struct ri_lane *base);

/* --- lanes.c --- */

enum ri_status lanes_create(struct rnic *rnic);
void lanes_destroy(struct rnic *rnic);
void lanes_count(struct rnic *rnic, uint32_t *streams, uint32_t *closing);
uint64_t lanes_empty_writes(const struct rnic *rnic);

#endif
