/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An independent checker of what a QP sends: it shares no code with the provider, walks the octets
 * with its markers, and ends the program at the first one that no conforming sender would send. It
 * also remembers which Reads and atomics were asked for, so that a peer can answer them.
 */
#ifndef ITAL_TESTS_FUZZ_CHECKER_H
#define ITAL_TESTS_FUZZ_CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHECKER_REQUESTS 256u

/* A request of the QP that waits for its answer. */
struct checker_request {
    bool atomic;
    uint32_t sink_stag, size, id;
    uint64_t sink_to;
    uint32_t answered; /* octets, kept by whoever answers */
};

struct checker {
    /* each segment of a Read Response; may be NULL */
    void (*on_response)(void *arg, uint32_t stag, uint64_t to, uint32_t length, bool last);
    void *arg;
    bool crc, markers;
    /* octets of the last streaming message or MPA Reply in front of the first FPDU */
    size_t preamble;
    uint64_t position;  /* stream position behind it */
    uint64_t octets;    /* all that were sent */
    uint32_t used;      /* octets of the FPDU under way, markers not counted */
    uint32_t crc_state; /* over all octets before the CRC field, markers among them */
    uint64_t start;     /* position of the FPDU under way */
    uint32_t in_marker; /* octets of a marker that were seen */
    uint8_t marker[4];
    uint8_t body[65544];
    bool fin, terminated;
    unsigned int fpdus;
    uint16_t terminate; /* its value */
    uint64_t digest;    /* of all headers, for comparisons */
    /* the message under way; open: no other may come between */
    bool open;
    uint8_t opcode;
    uint32_t stag, offset;
    uint64_t to;
    uint32_t msn[4]; /* next of each queue */
    struct checker_request asked[CHECKER_REQUESTS];
    uint32_t asked_in, asked_out;
};

void checker_init(struct checker *checker, bool crc, bool markers, size_t preamble);
void checker_octets(struct checker *checker, const uint8_t *octets, size_t length);
/* The sender ended its side in order. */
void checker_fin(struct checker *checker);

/* CRC32C, once more and by another way than base/crc32c: `state` begins as
 * ~0, the field is its complement. */
uint32_t checker_crc(uint32_t state, const uint8_t *octets, size_t length);

#endif
