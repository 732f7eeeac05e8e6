/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of test_memory_* are those of files of tests/itapi. */
#include "over_memory.h"
