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

/* What a QP reaches of the peer's memory: one for its own requests, inside tx; one for those of the
 * peer, under rx. */
struct local_reach {
    struct local_target *target; /* NULL: no way leads there */
    const char *why;             /* there is none: static text */
    struct directory_hint hint;
    struct local_mapped *mapped[LOCAL_MAPPED_KEPT]; /* by number; NULL: none */
};

/* Where octets of the peer are here. NULL: they are in no file, or it cannot be mapped. They stay
 * there while the caller is inside tx, or holds rx. With a claim. */
uint8_t *local_mapped_at(struct local_qp *qp, struct local_reach *reach,
                         const struct directory_memory *memory, uint32_t octets);
/* None is used any more. */
void local_mapped_leave(struct local_qp *qp, struct local_reach *reach);
/* Nobody uses the target any more. */
void local_mapped_close(struct local_target *target);

#endif
