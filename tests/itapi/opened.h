/* SPDX-License-Identifier: BSD-3-Clause */
/* The node and the pair of a program. A test opens one of them, and its fixture closes it. */
#ifndef ITAL_TESTS_ITAPI_OPENED_H
#define ITAL_TESTS_ITAPI_OPENED_H

#include "fixture.h"

extern struct node node;
extern struct pair pair;

/* The teardown of a case: closes what the test has left open. */
void fx_close(void);

#endif
