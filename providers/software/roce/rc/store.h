/* SPDX-License-Identifier: BSD-3-Clause */
/* Octets of a peer into the consumer's memory: of QPs of every service. */
#ifndef ITAL_SOFTROCE_STORE_H
#define ITAL_SOFTROCE_STORE_H

#include "providers/software/core/core.h"
#include "providers/software/core/guard.h"

/* Octets into the consumer's memory; `last`: those that a consumer polls are stored last.
 * False: the memory is not usable (option guard). In a pass. */
bool roce_store(const struct qp *qp, uint32_t stag, uint8_t *to, const uint8_t *from,
                uint32_t octets, enum memory_use use, bool last);
/* Octets of a message from `offset` on, into elements of `pd`. False: an element is not usable, or
 * there are too few. */
bool roce_scatter(const struct qp *qp, struct stag_hint *hint, const struct pd *pd,
                  const struct ri_sge *sges, uint32_t count, uint64_t offset, const uint8_t *from,
                  uint32_t octets, enum memory_use use, bool last);

#endif
