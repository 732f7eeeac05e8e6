/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long-lived threads: a history runs its tasks in them one after the other. So a thread's own
 * memory in the library outlives endpoints and adapters.
 */
#ifndef ITAL_TESTS_PROPERTY_WORKERS_H
#define ITAL_TESTS_PROPERTY_WORKERS_H

struct worker;
/* A worker that runs task(argument); workers_join waits until it has returned. One thread calls
 * both. */
struct worker *workers_run(void *(*task)(void *argument), void *argument);
void workers_join(struct worker *worker);

#endif
