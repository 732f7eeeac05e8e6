/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lower layer that records writes, and accepts as many octets of each as the test allows. A read
 * returns what the test has put there. The peer of a stream that closes closes too.
 */
#ifndef ITAL_TESTS_RECORDING_LLP_H
#define ITAL_TESTS_RECORDING_LLP_H

#include "testbed.h"

#include "providers/software/iwarp/wire_iwarp.h"

#define RECORDING_ROOM    (10u << 20)
#define RECORDING_WRITES  64u
#define RECORDING_ANSWERS 256u

/* One per stream, in the order in which the streams began. The test zeroes them. */
struct recorded_wire {
    struct stream *stream;
    uint8_t octets[RECORDING_ROOM];
    size_t used, ends[RECORDING_WRITES]; /* where the first of the writes end */
    uint32_t writes, alone;              /* alone: written by tx_single.c */
    const uint8_t *arriving;             /* the next read returns this ... */
    size_t arriving_octets;              /* ... all of it at once */
    struct {
        size_t at; /* octets written before the call */
        uint32_t emss;
    } answers[RECORDING_ANSWERS]; /* answers to the calls that ask for the EMSS */
    uint32_t answer_count;
    size_t compared; /* of its octets, by recording_expect_same() */
};
extern struct recorded_wire wires[2];
extern size_t recording_takes; /* octets accepted of one write; 0: the socket is full */
extern uint32_t recording_emss;
extern void (*recording_meanwhile)(void); /* Called once inside the next write, unless NULL. */
extern const struct llp_ops recording_llp;

/* The side's QP is an initiator's in operation, over `recording_llp`. Its first message waits for
 * tx. Returns the far end of the stream. */
int recording_start(struct side *side, bool crc, uint16_t ird, uint16_t ord);

/* Both streams carried the same octets: those since the last call are compared. */
void recording_expect_same(void);

/* The EMSS that the QP knew when it wrote the octet at `at`. */
uint32_t recording_emss_at(const struct recorded_wire *wire, size_t at);

#endif
