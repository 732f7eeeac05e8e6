/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One connection on which receives and Reads wait, a stream of octets that arrives whole or in
 * pieces, and what came out of it: the same, however the stream was cut.
 */
#ifndef ITAL_TESTS_FUZZ_SCENARIO_H
#define ITAL_TESTS_FUZZ_SCENARIO_H

#include "tests/fuzz/peer.h"

#define SCENARIO_SETTINGS 6u /* octets in front of an input */
#define SCENARIO_STREAM   65536u

/* Writes what the peer sends into out, at most room; returns the
 * octets. The test bed and its STags live. */
typedef size_t (*scenario_stream)(struct testbed *bed, struct wire *wire, const uint8_t *data,
                                  size_t size, uint8_t *out, size_t room);

/* Runs the input twice, whole and in pieces, and compares. raw: the
 * oracle does not know the segments. */
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
