/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a call must answer, shown by name, of the floors from a provider up to the front ends.
 */
#ifndef ITAL_TESTS_COMMON_TC_STATUS_H
#define ITAL_TESTS_COMMON_TC_STATUS_H

#include "tc.h"

#include "rnicpi_status.h"

#define ok(call)            ck_assert_str_eq(ital_status_name(call), "RI_OK")
#define fails(call, status) ck_assert_str_eq(ital_status_name(call), ital_status_name(status))

#endif
