/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of kald, in both directions, and the text of a policy: any octets are read without a
 * step outside them, and what is read is what was written. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "formats/kald_message.h"

/* Every message has one form. */
static void read_message(const uint8_t *octets, size_t length, bool from_kald)
{
    static struct kald_message message;
    uint8_t again[KALD_MESSAGE_MAX];

    if (!kald_decode(octets, length, from_kald, &message))
        return;
    FUZZ_CHECK(message.type >= KALD_HELLO && message.type < KALD_TYPES);
    FUZZ_CHECK(message.type != KALD_GIVE || message.used <= message.total);
    FUZZ_CHECK(message.type != KALD_TAKE || message.answer ||
               (message.used <= message.least && message.least <= message.total));
    FUZZ_CHECK(message.count <= KALD_ENTRIES);
    FUZZ_CHECK(kald_encode(&message, again) == length && !memcmp(octets, again, length));
}

static void read_policy(const uint8_t *octets, size_t length)
{
    const char *name, *text;
    size_t at = 0, before = 0, text_length;
    uint8_t *again;
    bool wrong;

    while (kald_policy_next(octets, length, &at, &name, &text, &text_length, &wrong)) {
        FUZZ_CHECK(at > before && at <= length && *name);
        again = malloc(at - before);
        FUZZ_CHECK(again);
        FUZZ_CHECK(kald_policy_file(again, at - before, name, text, text_length) == at - before);
        FUZZ_CHECK(!memcmp(again, octets + before, at - before));
        free(again);
        before = at;
    }
    FUZZ_CHECK(wrong == (at < length));
}

/* The first octet: what the rest is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *exact;

    if (!size)
        return 0;
    exact = malloc(size > 1 ? size - 1 : 1);
    FUZZ_CHECK(exact);
    memcpy(exact, data + 1, size - 1);
    if (data[0] % 3 == 2)
        read_policy(exact, size - 1);
    else
        read_message(exact, size - 1, data[0] % 3);
    free(exact);
    return 0;
}
