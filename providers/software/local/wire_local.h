/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The wire local, for the device: its table, and what it keeps of the RNIC.
 */
#ifndef ITAL_SOFTWARE_WIRE_LOCAL_H
#define ITAL_SOFTWARE_WIRE_LOCAL_H

#include "providers/software/core/core.h"
#include "segment.h"

/* Its part of the RNIC. */
struct local_rnic {
    uint64_t close_timeout_ns;
};

static inline const struct local_rnic *local_rnic(const struct rnic *rnic)
{
    return rnic->parts[WIRE_LOCAL];
}

extern const struct wire local_wire;

#endif
