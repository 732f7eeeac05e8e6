/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_tables.h - how an operation table is laid out: a head, then slots. For the files of this
 * folder; not installed.
 */
#ifndef RNICPI_TABLES_H
#define RNICPI_TABLES_H

#include <stddef.h>

#include "rnicpi.h"

#define SLOT sizeof(void (*)(void))

/* Where the operations begin. What precedes them has the same place in every minor version. */
#define PRIVILEGED_HEAD offsetof(struct ri_privileged_ops, enumerate)
#define USER_HEAD       offsetof(struct ri_user_ops, post_send)

#endif
