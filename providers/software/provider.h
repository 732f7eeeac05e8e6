/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared by provider, options and port.
 */
#ifndef ITAL_SOFTRDMA_PROVIDER_H
#define ITAL_SOFTRDMA_PROVIDER_H

#include "providers/software/core/sanitizer.h"
#include "providers/software/iwarp/wire_iwarp.h"
#include "providers/software/local/wire_local.h"

/* The device: an RNIC of the core, and what its wires keep of it. */
struct softrdma {
    struct rnic core;
    struct iwarp_rnic iwarp;
    struct local_rnic local;
    bool has_local;          /* it has the wire local (option local) */
    struct ri_user_ops both; /* then of lanes: a pass serves both wires */
    /* Counters that are summed when they are asked for. */
    struct {
        atomic_ullong regions, connections, closing, empty_writes;
    } summed;
};

static inline struct softrdma *softrdma_of(struct rnic *rnic)
{
    return container_of(rnic, struct softrdma, core);
}

/* --- options.c --- */

/* Reads the options that the core and the wire use, and the limits of attr that are options.
 * RI_ERR_INVALID_ARGUMENT: a name or a kind is not in the table. */
enum ri_status softrdma_read_options(struct softrdma *device);

#endif
