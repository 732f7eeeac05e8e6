/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Private data of connections by numbers, and option port_range: parsed input encodes to the same.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "verbs/numbers/port_range.h"
#include "verbs/numbers/private_data.h"

static void read_range(const uint8_t *data, size_t size)
{
    char text[16] = { 0 };
    uint16_t low, high;

    memcpy(text, data, size < sizeof(text) ? size : sizeof(text) - 1);
    if (ports_parse_range(text, &low, &high))
        FUZZ_CHECK(low >= 1024 && low <= high);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t octets[HELLO_OCTETS];
    struct hello hello;

    read_range(data, size);
    if (!hello_decode(data, size, &hello))
        return 0;
    FUZZ_CHECK(size >= HELLO_OCTETS && hello.own_qpn < 1u << 24 && hello.wanted_qpn < 1u << 24);
    FUZZ_CHECK(*hello_reason_text(hello.reason));
    hello_encode(&hello, octets);
    FUZZ_CHECK(!memcmp(octets, data, HELLO_OCTETS));
    return 0;
}
