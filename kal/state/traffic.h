/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the document about an RNIC's endpoints, their counters, and its lanes. */
#ifndef ITAL_KAL_STATE_TRAFFIC_H
#define ITAL_KAL_STATE_TRAFFIC_H

#include "kal/registry/registry.h"

#include "base/json.h"

/* Under rnics_lock, as long as the RNIC is listed. endpoints: each of them, too; else the sums. */
void kal_state_put_traffic(struct json *json, struct kal_rnic *rnic, bool endpoints);
/* The provider's own counters; it is asked, unless it is being closed. */
void kal_state_put_counters(struct json *json, struct kal_rnic *rnic);
void kal_state_put_lanes(struct json *json, struct kal_rnic *rnic);
/* With the port; null if there is none. */
void kal_state_put_end(struct json *json, const char *name, const union address *address);

#endif
