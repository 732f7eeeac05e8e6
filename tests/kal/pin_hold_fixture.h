/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of held pages share: pin_fixture.h, and io_uring's calls and allocations, which a
 * test can fail or count. Where it does neither they reach the kernel, and VmPin is looked at.
 * Needs liburing; programs are linked with the --wrap options of pin_hold_ldflags.
 */
#ifndef ITAL_TESTS_PIN_HOLD_FIXTURE_H
#define ITAL_TESTS_PIN_HOLD_FIXTURE_H

#include "pin_fixture.h"

#include <stdatomic.h>

struct io_uring_params;

/* How many more calls and allocations succeed before one fails; -1: all do. */
extern long calls_left;
/* As many calls that pin fail with this error. */
extern atomic_int update_error, update_failures;
extern atomic_uint updates; /* calls that pin */

/* The kernel's, neither failed nor counted. */
int __real_io_uring_setup(unsigned entries, struct io_uring_params *params);
int __real_io_uring_register(unsigned fd, unsigned opcode, const void *arg, unsigned count);

/* Checked fixture, with pin_teardown(): the host holds pages, and has a ring without any. Skips the
 * test where the system does not. */
void hold_setup(void);

enum ri_status pin_at(const void *at, size_t length); /* in a lane: it does not wait */
bool why_says(const char *text);                      /* the last refusal */
/* Neither by the table, nor by the host's account, nor by the kernel. */
void check_nothing_is_pinned(void);

#endif
