/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The whole receive path with live STags. Behind the settings of scenario.h the input is a run of
 * FPDUs like those of the wire vectors, whose STags are placeholders: 0x0001nnkk is object nn with
 * key kk, and its tagged offsets lie around nn * 0x10000000. The object becomes a live region or
 * window: valid, with another key, freed, in another PD or without the right. 0x66000001 with
 * offset 0x100 is the sink of the oldest Read. CRC and markers are generated; a CRC field of all
 * ones becomes a wrong CRC.
 */
#include "tests/fuzz/scenario.h"

#include <string.h>

#include "tests/fuzz/octets.h"

#define OBJECTS 12u

/* In the order of the vectors' regions: W R OPD OQP A INV LOC; then additional ones. */
static const uint8_t objects[OBJECTS] = {
    REGION_WRITE, REGION_READ,     REGION_OTHER,        TESTBED_REGIONS + 1,
    REGION_BOTH,  REGION_FREED,    REGION_LOCAL,        REGION_ZERO,
    REGION_BIND,  TESTBED_REGIONS, TESTBED_REGIONS + 2, REGION_LOCAL_READ,
};

/* The placeholder's object, or -1. */
static int object_of(uint32_t stag)
{
    uint32_t index = (stag >> 8 & 0xFF) - 1;

    return stag >> 16 == 1 && index < OBJECTS ? (int)index : -1;
}

/* Replaces both fields together; `to` may be NULL. */
static void patch(struct testbed *w, uint8_t *stag, uint8_t *to)
{
    int object = object_of(get32(stag));
    uint64_t base, offset;
    uint32_t length;

    if (object < 0)
        return;
    put32(stag,
          testbed_stag(w, objects[object], 0) ^ ((stag[3] ^ (0x41u + (uint32_t)object)) & 0xFF));
    if (!to)
        return;
    base = ((uint64_t)object + 1) << 28;
    offset = get64(to);
    if (offset - base + 0x1000 < 0x4000)
        put64(to, testbed_base(w, objects[object], &length) + (offset - base));
}

static void patch_sink(struct fuzz_wire *wire, uint8_t *stag, uint8_t *to)
{
    const struct checker *checker = &wire->checker;
    const struct checker_request *asked = &checker->asked[checker->asked_out % CHECKER_REQUESTS];

    if (get32(stag) != 0x66000001 || checker->asked_in == checker->asked_out)
        return;
    put32(stag, asked->sink_stag);
    put64(to, asked->sink_to + get64(to) - 0x100);
}

/* When a Read has been answered, the following segments are for the next Read. */
static void patch_segment(struct testbed *w, struct fuzz_wire *wire, uint8_t *p, uint32_t length)
{
    uint8_t opcode = length > 1 ? p[1] & 0xF : 0xF;
    bool tagged = length && p[0] & 0x80;

    if (tagged && length >= 14) {
        patch(w, p + 2, p + 6);
        if (opcode == 2) {
            patch_sink(wire, p + 2, p + 6);
            wire->checker.asked_out += (p[0] & 0x40) &&
                                       wire->checker.asked_in != wire->checker.asked_out;
        }
    } else if (!tagged && length >= 18) {
        if (opcode == 4 || opcode == 6)
            patch(w, p + 2, NULL);
        if (opcode == 1 && length >= 46)
            patch(w, p + 34, p + 38);
        if (opcode == 0xA && length >= 38)
            patch(w, p + 26, p + 30);
    }
}

/* An incomplete FPDU ends the stream unchanged. */
static size_t live_stream(struct testbed *w, struct fuzz_wire *wire, const uint8_t *data,
                          size_t size, uint8_t *out, size_t room)
{
    static uint8_t ulpdu[65536];
    size_t used = 0;

    while (size >= 2) {
        uint32_t length = (uint32_t)data[0] << 8 | data[1], end = (2 + length + 3) & ~3u;
        enum peer_fault fault = PEER_GOOD;
        size_t octets;

        if (size < end) {
            if (used + size > room)
                break;
            wire->raw = true;
            memcpy(out + used, data, size);
            return used + size;
        }
        memcpy(ulpdu, data + 2, length);
        patch_segment(w, wire, ulpdu, length);
        if (size >= end + 4 && get32(data + end) == UINT32_MAX)
            fault = PEER_BAD_CRC;
        else if (size >= end + 4 && get32(data + end) == 0xFEFEFEFE)
            fault = PEER_BAD_MARKER;
        octets = peer_fpdu(wire, ulpdu, length, fault, out + used, room - used);
        if (!octets)
            break;
        used += octets;
        data += size < end + 4 ? size : end + 4;
        size -= size < end + 4 ? size : end + 4;
    }
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scenario_run(data, size, live_stream, false);
    return 0;
}
