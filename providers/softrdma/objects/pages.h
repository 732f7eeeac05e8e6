/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the CPU may do with the process's memory, page by page.
 */
#ifndef ITAL_SOFTRDMA_PAGES_H
#define ITAL_SOFTRDMA_PAGES_H

#include "rnicpi.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * May all of [addr, addr + length) be read, and written, as asked? RI_OK; RI_ERR_ADDRESS: not all
 * of it is mapped; RI_ERR_ACCESS. length > 0, and the range does not pass the end of the address
 * space. It looks at mappings: it reads, writes and populates nothing, and its cost does not grow
 * with the length. What the answer is good for ends when another thread maps anew. A file that ends
 * before its mapping, and guards within one (MADV_GUARD_INSTALL), it does not see.
 */
enum ri_status pages_check(const void *addr, uint64_t length, bool read, bool write);
/* The kernel changes nothing in the word (aligned to 4 octets), atomically, and says whether it
 * could. */
bool pages_try_word(void *word);

#endif
