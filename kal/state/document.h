/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of the process as one JSON document. */
#ifndef ITAL_KAL_STATE_DOCUMENT_H
#define ITAL_KAL_STATE_DOCUMENT_H

#include "kal/registry/registry.h"

#include "request.h"

/* One line, of *length octets; the caller frees it. NULL: no memory, or longer than an answer may
 * be. `opened`: clock_wall() when the first interface was opened. Takes the lock of the list of
 * RNICs. */
char *kal_state_document(struct kal *kal, const struct kal_state_request *request, uint64_t opened,
                         size_t *length);
/* The answer to a request that cannot be read. */
char *kal_state_refusal(const char *why, size_t *length);

#endif
