/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of this program are those of tests/itapi/test_ud.c. */
#include "over_memory.h"
