/* SPDX-License-Identifier: BSD-3-Clause
 * Terms in private data: see terms_wire.h. */
#include "terms_wire.h"

#include "base/be.h"

#include <string.h>

#define MAGIC         UINT32_C(0x6974434d) /* "itCM" */
#define TERMS_VERSION 1u

enum place { AT_MAGIC = 0, AT_VERSION = 4, AT_FLAGS = 5, AT_RNR_RETRY = 6 };

static uint8_t retry(uint8_t wanted)
{
    return wanted < RCM_TERMS_RETRY_MAX ? wanted : RCM_TERMS_RETRY_MAX;
}

void rcm_terms_encode(const struct rcm_terms *terms, uint8_t to[RCM_TERMS_OCTETS])
{
    memset(to, 0, RCM_TERMS_OCTETS);
    be_put32(to + AT_MAGIC, MAGIC);
    to[AT_VERSION] = TERMS_VERSION;
    to[AT_FLAGS] = terms->flags;
    to[AT_RNR_RETRY] = retry(terms->rnr_retry);
}

bool rcm_terms_decode(const void *octets, size_t length, struct rcm_terms *terms)
{
    const uint8_t *from = octets;

    if (length < RCM_TERMS_OCTETS || be_get32(from + AT_MAGIC) != MAGIC ||
        from[AT_VERSION] != TERMS_VERSION)
        return false;
    *terms = (struct rcm_terms){ .flags = from[AT_FLAGS], .rnr_retry = retry(from[AT_RNR_RETRY]) };
    return true;
}
