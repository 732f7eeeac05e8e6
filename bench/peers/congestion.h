/* SPDX-License-Identifier: BSD-3-Clause
 *
 * --congestion for libraries that have no such option: this program's socket() stands before the C
 * library's and gives every TCP socket the algorithm, those that a library opens too (an accepted
 * one has its listener's).
 */
#ifndef ITAL_BENCH_CONGESTION_H
#define ITAL_BENCH_CONGESTION_H

/* Of sockets opened from now on; empty: the system's. Keeps the pointer. */
void congestion_use(const char *name);

#endif
