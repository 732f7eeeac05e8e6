/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Accesses to the consumer's memory that are looked at, one after the other. With option guard the
 * kernel makes them: if a range was unmapped or protected after its registration, or its file
 * truncated, the connection ends and not the process. A sanitizer of the program is told of them
 * (sanitizer.h). options.guard: one of the two is the case.
 */
#ifndef ITAL_SOFTRDMA_GUARD_H
#define ITAL_SOFTRDMA_GUARD_H

#include "sanitizer.h"

/* Does the kernel support it for this process? */
bool guard_works(void);
/* Copy all octets in one direction. False: not all could be copied; the log names `stag` and the
 * place. */
bool guard_write(const struct qp *qp, uint32_t stag, uint8_t *to, const void *from, uint32_t octets,
                 enum memory_use use);
bool guard_read(const struct qp *qp, uint32_t stag, void *to, const uint8_t *from, uint32_t octets,
                enum memory_use use);
/* Can the word be changed at this moment? As for the others. */
bool guard_word(const struct qp *qp, uint32_t stag, uint8_t *word);

#endif
