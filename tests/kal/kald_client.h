/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the library's end of kald share: a kal of this process, whose kald the test
 * starts (kald_fixture.h), and an RNIC whose queue pairs are counted. */
#ifndef ITAL_TESTS_KALD_CLIENT_H
#define ITAL_TESTS_KALD_CLIENT_H

#include "kal/host/host.h"
#include "kal_fixture.h"
#include "kald_fixture.h"

extern struct kal_rnic *rnic;

/* Checked fixture. No kald is there yet, and kal is not open. */
void client_setup(void);
void client_teardown(void);

void open_all(void);
void close_all(void); /* nothing may be taken */

/* Queue pairs, of the RNIC. */
enum ri_status take(uint64_t amount);
void give(uint64_t amount);

#endif
