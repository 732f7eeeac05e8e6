/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An independent checker of everything that a QP sends. It shares no code with the provider, walks
 * the octets with their markers, and aborts at the first one that no conforming sender would send.
 * It also records the outstanding Reads and atomics, so that a peer can answer them.
 */
#ifndef ITAL_TESTS_FUZZ_CHECKER_H
#define ITAL_TESTS_FUZZ_CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHECKER_REQUESTS 256u

/* A request of the QP that waits for its response. */
struct checker_request {
    bool atomic;
    uint32_t sink_stag, size, id;
    uint64_t sink_to;
    uint32_t answered; /* octets; the peer that answers keeps the count */
};

struct checker {
    /* Called for each segment of a Read Response; may be NULL. */
    void (*on_response)(void *arg, uint32_t stag, uint64_t to, uint32_t length, bool last);
    /* Called for each sum that is wrong: may it be? NULL: never. */
    bool (*source_changed)(void *arg);
    void *arg;
    bool crc, markers;
    bool fused; /* immediate data may come with a Send: opcodes 0xC and 0xE */
    /* Octets of the last streaming message or MPA Reply in front of the first FPDU. */
    size_t preamble;
    uint64_t position;  /* stream position behind it */
    uint64_t octets;    /* octets sent in all */
    uint32_t used;      /* octets of the current FPDU, without markers */
    uint32_t crc_state; /* over all octets before the CRC field, markers included */
    uint64_t start;     /* position of the current FPDU */
    uint32_t in_marker; /* octets of a marker so far */
    uint8_t marker[4];
    uint8_t body[65544];
    bool fin, terminated;
    unsigned int fpdus;
    uint16_t terminate; /* its value */
    uint64_t digest;    /* of all headers, for comparisons */
    /* The current message; while open, no other may come between. */
    bool open;
    uint8_t opcode;
    uint32_t stag, offset;
    uint64_t to;
    uint32_t msn[4]; /* the next of each queue */
    struct checker_request asked[CHECKER_REQUESTS];
    uint32_t asked_in, asked_out;
};

void checker_init(struct checker *checker, bool crc, bool markers, size_t preamble);
void checker_octets(struct checker *checker, const uint8_t *octets, size_t length);
/* The sender has closed its side in order. */
void checker_fin(struct checker *checker);

/* CRC32C, implemented differently from base/crc32c: `state` begins as ~0, the field is its
 * complement. */
uint32_t checker_crc(uint32_t state, const uint8_t *octets, size_t length);

#endif
