/* SPDX-License-Identifier: BSD-3-Clause
 *
 * --congestion for libraries without such an option. This program's socket() precedes the C
 * library's and sets the algorithm of every TCP socket, those of libraries included. An accepted
 * socket inherits it from its listener.
 */
#ifndef ITAL_BENCH_CONGESTION_H
#define ITAL_BENCH_CONGESTION_H

/* Applies to sockets opened from now on; an empty name stands for the system's default. Keeps the
 * pointer. */
void congestion_use(const char *name);

#endif
