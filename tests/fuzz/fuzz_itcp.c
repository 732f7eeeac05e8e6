/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that an itcp gets from its peer. The first octet selects the message type of the
 * following octets. Accepted messages must be within their limits, and encode to the same octets.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "tools/itcp/itcp.h"

static void as_message(const uint8_t *data, size_t size)
{
    static struct copy_message message;
    static uint8_t again[COPY_MESSAGE];
    size_t rest = 0;

    if (size >= COPY_HEAD && copy_head(data, &rest))
        FUZZ_CHECK(rest <= COPY_MESSAGE - COPY_HEAD);
    if (!copy_decode(data, size, &message))
        return;
    FUZZ_CHECK(size <= COPY_MESSAGE && rest == size - COPY_HEAD);
    FUZZ_CHECK(memchr(message.text, '\0', COPY_PATH) != NULL);
    FUZZ_CHECK(message.size <= INT64_MAX && message.mtime_ns < 1000000000u);
    FUZZ_CHECK(copy_encode(&message, again) == size);
    /* Octets 2 and 3 are ignored. */
    FUZZ_CHECK(!memcmp(again, data, 2) && !memcmp(again + 4, data + 4, size - 4));
}

static void as_hello(const uint8_t *data, size_t size)
{
    uint8_t again[COPY_PRIVATE];
    struct copy_hello hello;

    if (!copy_get_hello(data, size, &hello))
        return;
    FUZZ_CHECK(copy_put_hello(again, &hello) == COPY_HELLO && size >= COPY_HELLO);
    FUZZ_CHECK(!memcmp(again, data, COPY_HELLO));
}

static void as_welcome(const uint8_t *data, size_t size)
{
    uint8_t again[COPY_PRIVATE];
    struct copy_welcome welcome;

    if (!copy_get_welcome(data, size, &welcome))
        return;
    FUZZ_CHECK(copy_put_welcome(again, &welcome) == COPY_WELCOME && size >= COPY_WELCOME);
    FUZZ_CHECK(!memcmp(again, data, COPY_WELCOME));
    FUZZ_CHECK((uint64_t)welcome.chunk * welcome.slots <= 256u << 20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    switch (data[0] % 4) {
    case 0: as_message(data + 1, size - 1); break;
    case 1: as_hello(data + 1, size - 1); break;
    case 2: as_welcome(data + 1, size - 1); break;
    default: FUZZ_CHECK(copy_get_refusal(data + 1, size - 1) <= UINT16_MAX); break;
    }
    return 0;
}
