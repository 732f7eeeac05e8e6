/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_pages.h - which accesses the CPU can make to the process's memory, page by page. Not
 * installed: providers of others have ri_check_memory().
 */
#ifndef RNICPI_PAGES_H
#define RNICPI_PAGES_H

#include "rnicpi.h"

/*
 * Can all of [addr, addr + length) be read, and written, as asked? RI_OK; RI_ERR_ADDRESS: not all
 * of it is mapped; RI_ERR_ACCESS. length > 0, and the range does not pass the end of the address
 * space. The check reads mappings: it neither reads, writes nor populates a page, and its cost does
 * not grow with the length. The answer holds until another thread changes the mappings. The check
 * does not see a file that ends before its mapping, nor guards within a mapping
 * (MADV_GUARD_INSTALL).
 */
enum ri_status ri_pages_check(const void *addr, uint64_t length, bool read, bool write);
/* A file that other processes can map, too. */
struct ri_pages_file {
    uint64_t inode; /* 0: none */
    uint64_t device;
    uint64_t offset; /* of addr, in the file */
    char name[64];   /* its path's beginning, as /proc/self/maps has it */
};
/* The same; and of the one mapping that has the whole range, which file it shares (inode 0: several
 * mappings, or memory of this process alone). *file: with RI_OK only. */
enum ri_status ri_pages_check_file(const void *addr, uint64_t length, bool read, bool write,
                                   struct ri_pages_file *file);
/* Can the word, aligned to 4 octets, be changed? The kernel tries it atomically and changes
 * nothing. */
bool ri_pages_try_word(void *word);

#endif
