/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Structures that begin with their size (rnicpi.h, ABI rules): the reader may have been compiled
 * with an older or a newer one.
 */
#ifndef ITAL_BASE_SIZED_H
#define ITAL_BASE_SIZED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Copy into *to, whose first member says how many octets it has room for, as much of *from as there
 * is; the size stays. False: *to is too small to have a size, and untouched. */
static inline bool sized_copy(void *to, const void *from, uint32_t from_size)
{
    uint32_t size;

    memcpy(&size, to, sizeof(size));
    if (size < sizeof(size))
        return false;
    memcpy(to, from, size < from_size ? size : from_size);
    memcpy(to, &size, sizeof(size));
    return true;
}

#endif
