/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that stay: a history runs in them one task after the other. So a thread's own memory in
 * the library outlives endpoints and adapters.
 */
#ifndef ITAL_TESTS_PROPERTY_WORKERS_H
#define ITAL_TESTS_PROPERTY_WORKERS_H

struct worker;
/* A worker that runs task(argument); workers_join waits until it has returned. One caller. */
struct worker *workers_run(void *(*task)(void *argument), void *argument);
void workers_join(struct worker *worker);

#endif
