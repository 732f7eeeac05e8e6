/* SPDX-License-Identifier: BSD-3-Clause
 * The rest of this program is tests/itapi/test_ud_service.c. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "where.h"
