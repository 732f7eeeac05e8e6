/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Random octets from the kernel's generator; all of ital uses this file for them. A pool hands out
 * small amounts without a system call for each. In a forked child the pool is empty, so the child
 * never gets the parent's octets.
 */
#ifndef ITAL_BASE_ENTROPY_H
#define ITAL_BASE_ENTROPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Straight from the kernel. false: it gives none. Any thread. */
bool entropy_draw(void *octets, size_t length);

#define ENTROPY_POOL 256u /* octets, which no signal interrupts: getrandom(2) */

struct entropy;
/* An empty pool; NULL: no memory. */
struct entropy *entropy_open(void);
void entropy_close(struct entropy *pool); /* may be NULL */
/* Takes up to ENTROPY_POOL octets, which the pool forgets. false: the kernel gives none. One thread
 * at a time. */
bool entropy_take(struct entropy *pool, void *octets, uint32_t length);
/* Discards the octets that are left in the pool. */
void entropy_forget(struct entropy *pool);

#endif
