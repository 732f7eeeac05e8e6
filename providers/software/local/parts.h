/* SPDX-License-Identifier: BSD-3-Clause
 *
 * In which parts the kernel is asked to write a peer's memory (way `vm`), so that a consumer that
 * polls for the last octets of a Write sees all others before. Pure.
 *
 * The kernel copies one part behind the other, and takes and gives back the pages of each with
 * atomic operations of full order. Within a part and a page it begins at the first octet. That is
 * the order in which others see it on x86; elsewhere the last octets are a part of their own.
 */
#ifndef ITAL_SOFTWARE_LOCAL_PARTS_H
#define ITAL_SOFTWARE_LOCAL_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* Are the stores of a thread seen in its order? */
#if defined(__x86_64__) || defined(__i386__)
#define LOCAL_STORES_IN_ORDER true
#else
#define LOCAL_STORES_IN_ORDER false
#endif

/* `ends_write`: the last of the `octets` (not 0) at `address` is the last one of the Write. Returns
 * how many parts: 1 or 2, none of them empty. */
static inline int local_parts(uint64_t address, uint32_t octets, bool ends_write, bool in_order,
                              struct iovec parts[2])
{
    const uint32_t page = 4096, to_boundary = (uint32_t)((address + octets - 1) & 7) + 1;
    const bool ends_word = to_boundary == 8 && octets >= 8;
    /* A word that is written as one, or the last octet, behind those of its word. */
    const uint32_t last = in_order ? to_boundary : ends_word ? 8 : 1;
    const bool whole = !ends_write || octets <= last ||
                       (in_order && (address & (page - 1)) + octets <= page);
    const uint32_t head = whole ? octets : octets - last;

    parts[0] = (struct iovec){ (void *)(uintptr_t)address, head };
    parts[1] = (struct iovec){ (void *)(uintptr_t)(address + head), octets - head };
    return whole ? 1 : 2;
}

#endif
