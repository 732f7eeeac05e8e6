/* SPDX-License-Identifier: BSD-3-Clause
 * Terms of rdma_cm in private data, of a request, an answer or a rejection: what is decoded is
 * inside the limits and encodes to the same. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "verbs/rdmacm/terms_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rcm_terms terms = { .flags = 0xA5, .rnr_retry = 0xA5 }, again;
    uint8_t octets[RCM_TERMS_OCTETS];

    if (!rcm_terms_decode(size ? data : NULL, size, &terms)) {
        FUZZ_CHECK(terms.flags == 0xA5 && terms.rnr_retry == 0xA5);
        return 0;
    }
    FUZZ_CHECK(size >= RCM_TERMS_OCTETS && terms.rnr_retry <= RCM_TERMS_RETRY_MAX);
    rcm_terms_encode(&terms, octets);
    FUZZ_CHECK(!memcmp(octets, data, 6) && octets[6] <= data[6]);
    FUZZ_CHECK(rcm_terms_decode(octets, sizeof(octets), &again));
    FUZZ_CHECK(again.flags == terms.flags && again.rnr_retry == terms.rnr_retry);
    return 0;
}
