/* SPDX-License-Identifier: BSD-3-Clause
 * The peer of a fuzzed QP: puts ULPDUs into FPDUs with markers and CRC, right or wrong on purpose,
 * and delivers them. */
#ifndef ITAL_TESTS_FUZZ_PEER_H
#define ITAL_TESTS_FUZZ_PEER_H

#include "tests/fuzz/testbed.h"

uint32_t peer_length(uint8_t octet);

enum peer_fault { PEER_GOOD, PEER_BAD_CRC, PEER_BAD_MARKER, PEER_BAD_PAD };

/* One FPDU behind what `out` holds, at most `room`; returns its octets, 0 when it does
 * not fit. Moves wire->position. */
size_t peer_fpdu(struct wire *wire, const uint8_t *ulpdu, uint32_t length, enum peer_fault fault,
                 uint8_t *out, size_t room);
/* The same, delivered; the oracle knows of it. */
void peer_send(struct testbed *bed, struct wire *wire, const uint8_t *ulpdu, uint32_t length,
               enum peer_fault fault, size_t piece);
/* Payload begins anew. */
void peer_begin(void);
/* Compose a segment as the reader says and deliver it. */
void peer_segment(struct testbed *bed, struct wire *wire, struct reader *reader, size_t piece);
/* Answer the oldest Read or atomic of the QP, rightly or wrongly. */
void peer_answer(struct testbed *bed, struct wire *wire, struct reader *reader, size_t piece);

#endif
