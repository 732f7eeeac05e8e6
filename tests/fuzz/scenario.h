/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One connection with pending receives and Reads, and a stream of octets that arrives whole or in
 * parts. The outcome must be the same, however the stream was split.
 */
#ifndef ITAL_TESTS_FUZZ_SCENARIO_H
#define ITAL_TESTS_FUZZ_SCENARIO_H

#include "tests/fuzz/peer.h"

#define SCENARIO_SETTINGS 6u /* octets in front of an input */
#define SCENARIO_STREAM   65536u

/* Writes the peer's stream into out, at most `room` octets; returns its octets. The test bed and
 * its STags are live. */
typedef size_t (*scenario_stream)(struct testbed *bed, struct fuzz_wire *wire, const uint8_t *data,
                                  size_t size, uint8_t *out, size_t room);

/* Runs the input twice, whole and in parts, and compares. raw: the oracle does not know the
 * segments. */
void scenario_run(const uint8_t *data, size_t size, scenario_stream stream, bool raw);

static inline bool scenario_crc(const uint8_t *data)
{
    return !(data[0] & 2);
}
static inline bool scenario_markers(const uint8_t *data)
{
    return data[0] & 8;
}

#endif
