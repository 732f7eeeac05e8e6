/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of this program are those of tests/itapi/test_ud_service.c. */
#include "over_memory.h"
