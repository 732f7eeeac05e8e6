/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The receive path with raw octets: behind the settings of scenario.h the input is the peer's
 * stream. The target's own mutator keeps lengths, CRC and markers correct most of the time, so that
 * its changes get past MPA.
 */
#include "tests/fuzz/scenario.h"

#include <string.h>

#define PERIOD 512u

static size_t as_they_are(struct testbed *w, struct fuzz_wire *wire, const uint8_t *data,
                          size_t size, uint8_t *out, size_t room)
{
    (void)w, (void)wire;
    if (size > room)
        size = room;
    memcpy(out, data, size);
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scenario_run(data, size, as_they_are, true);
    return 0;
}

/* ---- the mutator ---- */

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

/* Position in the stream of octet `n`, markers not counted, of an FPDU that begins at `start`. */
static size_t stands(size_t start, size_t n, bool markers)
{
    size_t gap = (PERIOD - start % PERIOD) % PERIOD; /* octets before the first marker */

    if (!markers || n < gap)
        return start + n;
    return start + n + 4 * ((n - gap) / (PERIOD - 4) + 1);
}

/* Corrects markers and CRC of the FPDU at `start`, of which `room` octets are there. Returns its
 * octets; 0: it is incomplete. */
static size_t repair(uint8_t *stream, size_t start, size_t room, bool crc, bool markers)
{
    size_t first = stands(start, 0, markers), length, end, field, at;
    uint32_t state, sum;

    if (stands(start, 1, markers) >= start + room)
        return 0;
    length = (size_t)stream[first] << 8 | stream[stands(start, 1, markers)];
    end = (2 + length + 3) & ~(size_t)3;
    if (stands(start, end + 3, markers) >= start + room)
        return 0;
    field = stands(start, end, markers);
    for (at = (start + PERIOD - 1) / PERIOD * PERIOD; markers && at < field; at += PERIOD) {
        size_t back = at < first ? 0 : at - first;

        memset(stream + at, 0, 4);
        stream[at + 2] = (uint8_t)(back >> 8);
        stream[at + 3] = (uint8_t)back;
    }
    for (size_t n = 2 + length; n < end; n++)
        stream[stands(start, n, markers)] = 0;
    state = checker_crc(~0u, stream + start, field - start);
    sum = crc ? ~state : 0;
    for (int i = 0; i < 4; i++)
        stream[field + (size_t)i] = (uint8_t)(sum >> 8 * i);
    return field + 4 - start;
}

/* Changes the last length so that it fits the remaining octets. */
static void repair_all(uint8_t *data, size_t size)
{
    uint8_t *stream = data + SCENARIO_SETTINGS;
    size_t left = size - SCENARIO_SETTINGS, at = 0, octets;
    bool crc = scenario_crc(data), markers = scenario_markers(data);

    while ((octets = repair(stream, at, left, crc, markers))) {
        at += octets;
        left -= octets;
    }
    if (left < 10 || left > 4096 || markers)
        return;
    stream[at] = (uint8_t)((left - 6) >> 8);
    stream[at + 1] = (uint8_t)(left - 6);
    repair(stream, at, left, crc, markers);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    size = LLVMFuzzerMutate(data, size, max_size);
    if (size > SCENARIO_SETTINGS + 6 && seed % 8)
        repair_all(data, size);
    return size;
}
