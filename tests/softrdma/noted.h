/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lower layer that notes what is written, and takes as much of it as it is told to. Nothing arrives; the peer of a stream that
 * closes hangs up.
 */
#ifndef ITAL_TESTS_NOTED_H
#define ITAL_TESTS_NOTED_H

#include "rig.h"

#include "providers/softrdma/softrdma.h"

#define NOTED_ROOM (2u << 20)

/* Of two streams, in the order of their first writes; zeroed by the test. */
struct wire {
    struct stream *stream;
    uint8_t octets[NOTED_ROOM];
    size_t used, first;     /* of them in the first of the writes */
    uint32_t writes, alone; /* alone: of tx_alone.c */
};
extern struct wire wires[2];
extern size_t noted_takes; /* octets of one write; 0: it is full */
extern uint32_t noted_emss;
extern const struct llp_ops noted;

#endif
