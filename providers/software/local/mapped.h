/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Files of a peer on which its regions stand, mapped here: a Write is a store, a Read a load, an
 * atomic an instruction of this processor. One mapping for each file of a peer's RNIC, whatever the
 * number of connections. Those that no QP uses stay until others need the room.
 */
#ifndef ITAL_SOFTWARE_LOCAL_MAPPED_H
#define ITAL_SOFTWARE_LOCAL_MAPPED_H

#include "providers/software/core/directory.h"

struct local_mapped;
struct local_qp;
struct local_target;

/* Mappings of one peer's RNIC. */
#define LOCAL_MAPPED_MOST 64u
/* Of them, by one QP at a time. */
#define LOCAL_MAPPED_KEPT 4u

/* Where octets of the peer are here. NULL: they are in no file, or it cannot be mapped. They stay
 * there while the QP is inside tx. Inside tx, with a claim. */
uint8_t *local_mapped_at(struct local_qp *qp, const struct directory_memory *memory,
                         uint32_t octets);
/* The QP uses none any more. Inside tx. */
void local_mapped_leave(struct local_qp *qp);
/* Nobody uses the target any more. */
void local_mapped_close(struct local_target *target);

#endif
