/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What itconform reads from a peer: start-up frames, FPDUs with markers and CRC, segments,
 * Terminates. The first octet selects; a whole FPDU must be the one that its ULPDU makes again.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "tools/itconform/octets.h"

static void as_terminate(const uint8_t *data, uint32_t size)
{
    struct terminate terminate;

    if (!terminate_read(data, size, &terminate)) {
        FUZZ_CHECK(size < 4);
        return;
    }
    FUZZ_CHECK(terminate.ddp_length <= UNTAGGED_LEN && terminate.rdma_length <= READ_LEN);
    FUZZ_CHECK(!terminate.ddp || terminate.ddp + terminate.ddp_length <= data + size);
    FUZZ_CHECK(!terminate.rdma || terminate.rdma + terminate.rdma_length <= data + size);
}

static void as_segment(const uint8_t *data, uint32_t size)
{
    struct segment segment;

    if (!segment_read(data, size, &segment)) {
        FUZZ_CHECK(size < UNTAGGED_LEN);
        return;
    }
    FUZZ_CHECK(segment.payload + segment.payload_length == data + size);
    FUZZ_CHECK(queue_of(segment.op) <= 3);
    as_terminate(segment.payload, segment.payload_length);
}

static void as_stream(const uint8_t *data, size_t size, bool crc, bool markers)
{
    static uint8_t again[FPDU_ROOM];
    static struct fpdu fpdu;
    struct framing framing = { .crc = crc, .markers = markers, .marker_only = -1 };
    enum fpdu_result result;

    while ((result = fpdu_take(&framing, data, size, &fpdu)) != FPDU_PARTIAL) {
        FUZZ_CHECK(fpdu.octets <= size && fpdu.octets <= FPDU_ROOM && fpdu.length <= ULPDU_MAX);
        as_segment(fpdu.ulpdu, fpdu.length);
        if (result == FPDU_WHOLE && crc) {
            struct framing same = framing;

            FUZZ_CHECK(fpdu_make(&same, again, fpdu.ulpdu, fpdu.length) == fpdu.octets);
            FUZZ_CHECK(!memcmp(again, data, fpdu.octets));
        }
        framing.position += fpdu.octets;
        data += fpdu.octets;
        size -= fpdu.octets;
    }
}

static void as_startup(const uint8_t *data, size_t size, bool reply)
{
    uint8_t again[STARTUP_MAX];
    struct startup startup;
    size_t whole = 0;

    if (startup_read(data, size, reply, &startup, &whole) != STARTUP_WHOLE)
        return;
    FUZZ_CHECK(whole <= size && whole <= STARTUP_MAX);
    FUZZ_CHECK(startup.pd + startup.pd_octets == data + whole);
    FUZZ_CHECK(startup_make(again, reply, startup.flags, startup.rev, data + STARTUP_LEN,
                            startup.pd_length) == whole);
    FUZZ_CHECK(!memcmp(again, data, whole));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    switch (data[0] & 7) {
    case 0:
    case 1: as_startup(data + 1, size - 1, data[0] & 1); break;
    case 2: as_terminate(data + 1, (uint32_t)(size - 1)); break;
    case 3: as_segment(data + 1, (uint32_t)(size - 1)); break;
    default: as_stream(data + 1, size - 1, data[0] & 1, data[0] & 2); break;
    }
    return 0;
}
