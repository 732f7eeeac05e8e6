/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The peer of a fuzzed QP: packs ULPDUs into FPDUs with markers and CRC, valid or faulty on
 * purpose, and delivers them.
 */
#ifndef ITAL_TESTS_FUZZ_PEER_H
#define ITAL_TESTS_FUZZ_PEER_H

#include "tests/fuzz/testbed.h"

uint32_t peer_length(uint8_t octet);

enum peer_fault { PEER_GOOD, PEER_BAD_CRC, PEER_BAD_MARKER, PEER_BAD_PAD };

/* Appends one FPDU to `out`, which has room for `room` octets; returns its octets, 0 if it does not
 * fit. Advances wire->position. */
size_t peer_fpdu(struct fuzz_wire *wire, const uint8_t *ulpdu, uint32_t length,
                 enum peer_fault fault, uint8_t *out, size_t room);
/* The same, delivered and recorded for the oracle. */
void peer_send(struct testbed *bed, struct fuzz_wire *wire, const uint8_t *ulpdu, uint32_t length,
               enum peer_fault fault, size_t piece);
/* What is late comes. */
void peer_send_late(struct testbed *bed, struct fuzz_wire *wire);
/* Restarts the sequence of payload octets. */
void peer_begin(void);
/* Composes a segment from the reader's choices and delivers it. */
void peer_segment(struct testbed *bed, struct fuzz_wire *wire, struct reader *reader, size_t piece);
/* Answers the oldest Read or atomic of the QP, validly or not. */
void peer_answer(struct testbed *bed, struct fuzz_wire *wire, struct reader *reader, size_t piece);

#endif
