/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of pins share: a host, an area of pages, what the kernel reports. */
#ifndef ITAL_TESTS_PIN_FIXTURE_H
#define ITAL_TESTS_PIN_FIXTURE_H

#include "kal/host/host_private.h"
#include "kal_fixture.h"

#include <sys/resource.h>

#define PIN_PAGES 32u

extern struct kal_host *host;
/* The table under test; pin_use sets it */
extern struct kal_pins *pins;
extern struct kal_pin_refusal refusal; /* of the last pin that failed */
extern char *area;
extern size_t page;
/* The host's quota; the octets for which it was asked to raise the limit, and whether it does */
extern uint64_t quota, asked_for;
extern bool raises;
/* How often it was asked to, and whether the table's lock was held at a question that may wait */
extern unsigned asked_times;
extern bool lock_was_held;

void pin_setup(void);
void pin_teardown(void);
/* A new host with that quota. Its rings are made by the effective user of then. */
void pin_host_again(uint64_t limit);
/* Skips the test if the system does not hold pages. */
void pin_use(enum kal_pin_way way);
/* The test is no longer privileged: limits hold for it. Skips where that cannot be. */
void pin_as_user(size_t limit);
void pin_as_root(void);

enum ri_status pin(size_t first, size_t count); /* pages of the area */
void unpin(size_t first, size_t count);

/* Octets that the kernel reports: VmLck, VmPin. */
uint64_t pin_locked(void);
uint64_t pin_held(void);
/* The kernel may release later than the call (before Linux 6.4 up to a second). */
void pin_await_held(uint64_t octets);
/* Rings of io_uring that the process has open. */
unsigned pin_rings(void);
/* The page frame behind an address; 0: the kernel does not say. */
uint64_t pin_frame(const void *address);

#endif
