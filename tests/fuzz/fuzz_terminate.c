/* SPDX-License-Identifier: BSD-3-Clause */
/* Terminate payloads of peers, and our own about arbitrary segments. First octet: peer is siw. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "providers/softrdma/terminate.h"

static void inside(const uint8_t *p, size_t n, const uint8_t *data, size_t size)
{
    FUZZ_CHECK((p == NULL) == (n == 0));
    if (p)
        FUZZ_CHECK(p >= data && n <= size && (size_t)(p - data) <= size - n);
}

static void build(uint16_t value, const uint8_t *data, size_t size)
{
    struct terminate_cause cause = { .ulpdu = data, .have = size, .ulpdu_len = (uint32_t)size };
    uint8_t out[TERMINATE_PAYLOAD_MAX];
    struct terminate_info info;
    size_t n = terminate_build(out, value, &cause);

    FUZZ_CHECK(n == 4 || n == 20 || n == 24 || n == 52);
    FUZZ_CHECK(terminate_parse(out, n, false, &info) == TERMINATE_OK && !info.truncated);
    FUZZ_CHECK(n == 4 || (info.value == value && !info.swapped));
    if (info.ddp_hdr)
        FUZZ_CHECK(!memcmp(info.ddp_hdr, data, info.ddp_hdr_len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct terminate_info info;
    bool siw;

    if (size < 1)
        return 0;
    siw = data[0] & 1;
    data++;
    size--;
    if (size >= 2)
        build((uint16_t)(data[0] << 8 | data[1]), data + 2, size - 2);
    if (terminate_parse(data, size, siw, &info) != TERMINATE_OK) {
        FUZZ_CHECK(size < TERMINATE_CTRL_LEN);
        return 0;
    }
    inside(info.ddp_hdr, info.ddp_hdr_len, data, size);
    inside(info.rdma_hdr, info.rdma_hdr_len, data, size);
    FUZZ_CHECK((info.value & 0xFF) == data[1]);
    FUZZ_CHECK(*terminate_text(info.value) && *terminate_layer_text(info.value));
    return 0;
}
