/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that processes share by a memfd: nobody can truncate it under another, whose access would
 * end its process.
 */
#ifndef ITAL_BASE_SEALED_H
#define ITAL_BASE_SEALED_H

#include <stdbool.h>
#include <stddef.h>

/* What an error of memfd_create(2), ftruncate(2), fcntl(2) or mmap(2) means. A static text. */
const char *sealed_shortage(int error);
/* Its size is fixed from now on, with these seals besides. False: errno. */
bool sealed_fix(int fd, int more);
/* Nobody makes it shorter. */
bool sealed_never_shrinks(int fd);
/* Is it of that size, and fixed? */
bool sealed_is(int fd, size_t octets);

#endif
