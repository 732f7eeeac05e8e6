/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C as where the processor has no lanes: the same tests, over another base/crc32c_lanes.c. */
#include "test_crc32c.c"
