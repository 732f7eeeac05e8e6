/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lower layer that records what is written, and takes as much of it as it is told to. What
 * arrives is what the test has put there; the peer of a stream that closes hangs up.
 */
#ifndef ITAL_TESTS_RECORDING_LLP_H
#define ITAL_TESTS_RECORDING_LLP_H

#include "testbed.h"

#include "providers/softrdma/softrdma.h"

#define RECORDING_ROOM    (2u << 20)
#define RECORDING_WRITES  64u
#define RECORDING_ANSWERS 256u

/* Of two streams, in the order in which they began; zeroed by the test. */
struct wire {
    struct stream *stream;
    uint8_t octets[RECORDING_ROOM];
    size_t used, ends[RECORDING_WRITES]; /* where the first of the writes end */
    uint32_t writes, alone;              /* alone: of tx_single.c */
    const uint8_t *arriving;             /* what the next read gets ... */
    size_t arriving_octets;              /* ... all of it at once */
    struct {
        size_t at; /* octets written before */
        uint32_t emss;
    } answers[RECORDING_ANSWERS]; /* what was said when the EMSS was asked for */
    uint32_t answer_count;
};
extern struct wire wires[2];
extern size_t recording_takes; /* octets of one write; 0: it is full */
extern uint32_t recording_emss;
extern void (*recording_meanwhile)(void); /* if any, called inside the next write, once */
extern const struct llp_ops recording_llp;

/* The side's QP is an initiator's in operation, over `recording_llp`; its first message waits for
 * tx. Returns the far end of the stream. */
int recording_start(struct side *side, bool crc, uint16_t ird, uint16_t ord);

/* The EMSS that was known when the octet at `at` was written. */
uint32_t recording_emss_at(const struct wire *wire, size_t at);

#endif
