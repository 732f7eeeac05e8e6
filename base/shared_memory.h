/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that another process can map: a memfd whose size nobody changes. A library that is given
 * an address of it finds the descriptor by the name of the mapping.
 */
#ifndef ITAL_BASE_SHARED_MEMORY_H
#define ITAL_BASE_SHARED_MEMORY_H

#include <stddef.h>

/* Name of the memfd, as printf(3) fills it in: with its descriptor. */
#define SHARED_MEMORY_NAME "ital memory at %d"

/* Whole pages, zeroed, page-aligned; no child of fork has them. Where the system gives no sealed
 * memfd, or half of the process's descriptors are in use, it is memory of this process alone. NULL:
 * errno (EINVAL: no octet, or more than there are addresses). */
void *shared_memory_new(size_t octets);
/* What shared_memory_new() has returned; NULL: nothing happens. The pages are the system's again at
 * once, whoever has mapped them. */
void shared_memory_free(void *memory);

#endif
