/* SPDX-License-Identifier: BSD-3-Clause
 * Hello and messages of rsockets: what is decoded is inside the limits and encodes to the same. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "verbs/rsockets/wire.h"

static void read_hello(const uint8_t *data, size_t size)
{
    uint8_t octets[RS_HELLO_OCTETS];
    struct rs_hello hello, again;

    if (!rs_hello_decode(data, size, &hello))
        return;
    FUZZ_CHECK(size >= RS_HELLO_OCTETS && hello.messages >= RS_MESSAGES_LEAST);
    FUZZ_CHECK(hello.ring_size >= RS_RING_LEAST && hello.ring_size <= RS_RING_MOST);
    FUZZ_CHECK(hello.ring_address + (hello.ring_size - 1) >= hello.ring_address);
    rs_hello_encode(&hello, octets);
    FUZZ_CHECK(rs_hello_decode(octets, sizeof(octets), &again));
    FUZZ_CHECK(again.ring_address == hello.ring_address && again.ring_stag == hello.ring_stag &&
               again.ring_size == hello.ring_size && again.messages == hello.messages &&
               again.maps == hello.maps);
}

static void read_message(const uint8_t *data, size_t size)
{
    uint8_t octets[RS_SLOT_OCTETS];
    struct rs_message message;
    uint32_t length;

    if (size > RS_SLOT_OCTETS || !rs_message_decode(data, size, &message))
        return;
    length = rs_message_encode(&message, octets);
    FUZZ_CHECK(length <= size);
    FUZZ_CHECK(octets[0] == data[0] && !memcmp(octets + 2, data + 2, length - 2));
    if (message.kind == RS_SMALL)
        FUZZ_CHECK(message.octets + message.length <= data + size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_hello(data, size);
    read_message(data, size);
    return 0;
}
