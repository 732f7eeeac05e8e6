/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rdma-core in a namespace of the dynamic linker's own.
 *
 * A program that ital-run starts has ital's libibverbs and librdmacm in front, and this provider is
 * linked to libraries of the same names. Through them it would ask ital for the devices that it is
 * to bring. So in such a process the system's libraries are loaded once more, by dlmopen(3).
 */
#ifndef ITAL_RDMACORE_APART_H
#define ITAL_RDMACORE_APART_H

#include <stdbool.h>
#include <stddef.h>

/* Why rdma-core cannot be used, and what to do. */
struct apart_reason {
    char reason[400], advice[400];
};

/* Makes `rdmacore` the table of the system's libraries, loading them if need be. Call before the
 * first use of the table; later calls return the same. False: `why` has the reason. Any thread. */
bool rdmacore_ready(struct apart_reason *why);

/* errno of the libraries that `rdmacore` calls: those of a namespace have a C library, and an
 * errno, of their own. */
int rdmacore_last_errno(void);

#endif
