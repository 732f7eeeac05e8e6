/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Files that regions stand on, so that peers on this host can map them: memfds whose size is
 * sealed. Each has a number that is never used again, and a descriptor of this RNIC's own as long
 * as a region needs it; the entry of the region tells both (directory.h).
 */
#ifndef ITAL_SOFTWARE_MEMORY_FILE_H
#define ITAL_SOFTWARE_MEMORY_FILE_H

#include "stag.h"

struct ri_pages_file;

/* Where the memory at `address` stands. A file that nobody else could map, or one that somebody
 * could truncate under a peer, and a shortage of descriptors: none (`number` 0), which is no error.
 * Any thread; it looks up descriptors by system calls. */
struct stag_file memory_file_take(struct stag_table *table, const struct ri_pages_file *found,
                                  const void *address);
void memory_file_put(struct stag_table *table, const struct stag_file *file);

/* Is it a sealed memfd? *octets: its length. */
bool memory_file_is_fixed(int fd, uint64_t *octets);

#endif
