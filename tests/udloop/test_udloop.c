/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of this program are those of tests/itapi/test_ud.c. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "where.h"
