/* SPDX-License-Identifier: BSD-3-Clause
 * Aggregate EVDs: what the life of EVDs needs of them. The rules: aevd.c. */
#ifndef ITAL_UAL_AEVD_H
#define ITAL_UAL_AEVD_H

#include "evd_private.h"

/* Make an EVD that is in no list yet an aggregate. notifications: it yields which members are
 * ready, not their events. RI_ERR_NO_RESOURCES. */
enum ri_status aevd_open(struct ual_evd *evd, bool notifications);
void aevd_close(struct ual_evd *evd); /* without members; of any EVD */

/* The EVD, of any kind, leaves its aggregate. When it returns no thread takes from the EVD for the
 * aggregate. Not with ia->lock held. */
void aevd_detach(struct ual_evd *evd);
uint64_t aevd_polls(const struct ual_evd *evd); /* checks of members so far, for tests */

#endif
