/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Option guard: the consumer's memory is read and written by the kernel. Where a range was unmapped
 * or protected, or its file truncated, after it was registered, the connection ends and not the
 * process.
 */
#ifndef ITAL_SOFTRDMA_GUARD_H
#define ITAL_SOFTRDMA_GUARD_H

#include "qp.h"

/* Does the kernel do it for this process? */
bool guard_works(void);
/* All of the octets, one direction each; false: not all could be moved, the log names `stag` and
 * where. */
bool guard_write(const struct qp *qp, uint32_t stag, uint8_t *to, const void *from,
                 uint32_t octets);
bool guard_read(const struct qp *qp, uint32_t stag, void *to, const uint8_t *from, uint32_t octets);
/* May the word be changed, at this moment? As the others. */
bool guard_word(const struct qp *qp, uint32_t stag, uint8_t *word);

#endif
