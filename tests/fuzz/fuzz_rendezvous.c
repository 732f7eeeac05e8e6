/* SPDX-License-Identifier: BSD-3-Clause */
/* What the other end of a rendezvous says (option local): offers and answers. The octets are the
 * message. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "kal/cm/rendezvous_wire.h"

/* An exact copy on the heap: a read behind its end is seen. */
static uint8_t *copy_of(const uint8_t *data, size_t size)
{
    uint8_t *copy = calloc(1, size ? size : 1);

    FUZZ_CHECK(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    return copy;
}

static void offer(const uint8_t *data, size_t size)
{
    uint8_t again[RENDEZVOUS_OFFER_LENGTH];
    struct rendezvous_offer parsed;

    if (rendezvous_offer_parse(data, size, &parsed) != RENDEZVOUS_FITS)
        return;
    FUZZ_CHECK(size == sizeof(again));
    FUZZ_CHECK(memchr(parsed.build, 0, sizeof(parsed.build)) != NULL);
    FUZZ_CHECK(memchr(parsed.provider, 0, sizeof(parsed.provider)) != NULL);
    FUZZ_CHECK(rendezvous_offer_compare(&parsed, &parsed) == RENDEZVOUS_FITS);
    rendezvous_offer_encode(&parsed, again);
    FUZZ_CHECK(!memcmp(again, data, size)); /* there is one form of each offer */
}

static void answer(const uint8_t *data, size_t size)
{
    uint8_t again[RENDEZVOUS_ANSWER_LENGTH];
    enum rendezvous_reason reason;
    enum rendezvous_kind kind;

    if (!rendezvous_answer_parse(data, size, &kind, &reason))
        return;
    FUZZ_CHECK(size == sizeof(again) && reason < RENDEZVOUS_REASONS);
    FUZZ_CHECK((kind == RENDEZVOUS_NO) == (reason != RENDEZVOUS_FITS));
    rendezvous_answer_encode(kind, reason, again);
    FUZZ_CHECK(!memcmp(again, data, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = copy_of(data, size);

    offer(copy, size);
    answer(copy, size);
    free(copy);
    return 0;
}
