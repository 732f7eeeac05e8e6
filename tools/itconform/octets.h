/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The octets of MPA, DDP and RDMAP, made and read by arithmetic of their own: start-up frames,
 * FPDUs with CRC and markers, segment headers, Terminates. Pure functions; nothing here uses
 * the library's codecs, because both itconform and tests/wire judge those. What is read may come
 * from anyone: no function reads beyond the length that it is given.
 */
#ifndef ITAL_TOOLS_ITCONFORM_OCTETS_H
#define ITAL_TOOLS_ITCONFORM_OCTETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ULPDU_MAX    65535u
#define FPDU_ROOM    66800u /* the largest FPDU with PAD, CRC and markers */
#define TAGGED_LEN   14u
#define UNTAGGED_LEN 18u
#define READ_LEN     28u

/* First two octets of a ULPDU: L, T, version 1 and the opcode. */
enum {
    C_TAGGED = 0x80,
    C_LAST = 0x40,
    C_DV = 0x01,
    C_RV = 0x40,
    OP_WRITE = 0,
    OP_READ = 1,
    OP_RESPONSE = 2,
    OP_SEND = 3,
    OP_SEND_INV = 4,
    OP_SEND_SE = 5,
    OP_SEND_SE_INV = 6,
    OP_TERMINATE = 7,
};

/* ---- numbers ---- */

void put16(uint8_t *out, uint32_t value);
void put32(uint8_t *out, uint32_t value);
void put64(uint8_t *out, uint64_t value);
uint16_t get16(const uint8_t *in);
uint32_t get32(const uint8_t *in);
uint64_t get64(const uint8_t *in);
/* CRC32C (RFC 5044 4.4), continued from an earlier result; 0 to begin. */
uint32_t octets_crc(uint32_t crc, const void *octets, size_t length);

/* ---- ULPDUs: written to out; the functions return their length ---- */

uint32_t put_untagged(uint8_t *out, uint8_t ddp, uint8_t rdmap, uint32_t inv, uint32_t qn,
                      uint32_t msn, uint32_t mo, const void *payload, uint32_t length);
uint32_t put_tagged(uint8_t *out, uint8_t ddp, uint8_t rdmap, uint32_t stag, uint64_t to,
                    const void *payload, uint32_t length);
/* With the usual field values. */
uint32_t put_send(uint8_t *out, bool last, uint32_t msn, uint32_t mo, const void *payload,
                  uint32_t length);
uint32_t put_write(uint8_t *out, bool last, uint32_t stag, uint64_t to, const void *payload,
                   uint32_t length);
uint32_t put_response(uint8_t *out, bool last, uint32_t stag, uint64_t to, const void *payload,
                      uint32_t length);
uint32_t put_read(uint8_t *out, uint32_t msn, uint32_t sink_stag, uint64_t sink_to, uint32_t size,
                  uint32_t source_stag, uint64_t source_to);

/* ---- FPDUs ---- */

/* One direction of a stream in Full Operation. */
struct framing {
    bool crc, markers;
    uint32_t position; /* octets since the first one, modulo 2^32 */
    /* Faults in what fpdu_make makes; all 0 (marker_only -1): none. */
    uint8_t pad;                          /* every PAD octet */
    uint16_t marker_reserved, marker_xor; /* RESERVED, and a mask for FPDUPTR */
    int marker_only; /* the number of the faulty marker in the FPDU; -1: each */
    uint32_t crc_xor;
};

/* The FPDU of a ULPDU at framing->position, which advances. `out` has FPDU_ROOM octets. Returns
 * its octets. */
size_t fpdu_make(struct framing *framing, uint8_t *out, const void *ulpdu, uint32_t length);

enum fpdu_result {
    FPDU_WHOLE,
    FPDU_PARTIAL, /* not all of it has come */
    FPDU_BAD_MARKER,
    FPDU_BAD_CRC,
    FPDU_BAD_PAD, /* a PAD octet is not zero; the rest is right */
};

struct fpdu {
    uint8_t ulpdu[ULPDU_MAX];
    uint32_t length;
    uint32_t octets; /* in the stream: markers, PAD and CRC included */
    uint32_t markers;
    uint32_t field, crc;    /* the CRC field, and what it ought to be */
    uint32_t wrong, wanted; /* the first marker that is not right, as one number */
};

/* Reads the FPDU with which `octets` begins, at framing->position, which the caller advances by
 * fpdu->octets. After FPDU_BAD_ the fields are filled, too. */
enum fpdu_result fpdu_take(const struct framing *framing, const uint8_t *octets, size_t used,
                           struct fpdu *fpdu);

/* ---- segments ---- */

struct segment {
    bool tagged, last;
    uint8_t ddp, rdmap; /* the control octets */
    uint8_t op;
    uint32_t stag; /* or octets 2-5 of an untagged header */
    uint64_t to;
    uint32_t qn, msn, mo;
    const uint8_t *payload;
    uint32_t payload_length;
};

/* False: shorter than the header that its T bit announces. */
bool segment_read(const uint8_t *ulpdu, uint32_t length, struct segment *segment);
/* The untagged queue of an opcode (RFC 5040 figure 4, RFC 7306 figure 2). */
uint32_t queue_of(uint8_t op);

/* ---- start-up frames ---- */

#define STARTUP_LEN 20u
#define STARTUP_MAX (STARTUP_LEN + 512u)

/* Flags of start-up frames, and bits of the enhanced word's halves. */
enum {
    F_M = 0x80,   /* markers wanted */
    F_C = 0x40,   /* CRC wanted */
    F_R = 0x20,   /* rejected */
    F_S = 0x10,   /* enhanced */
    W_A = 0x8000, /* first half: peer to peer */
    W_B = 0x4000, /* first half: ready to receive by Send */
    W_C = 0x8000, /* second half: by Write */
    W_D = 0x4000, /* second half: by Read */
    W_DEPTH = 0x3fff,
};

struct startup {
    uint8_t flags, rev;
    uint16_t pd_length; /* the field */
    bool enhanced;      /* revision 2 or later with S, and four octets are there */
    uint16_t first, second;
    const uint8_t *pd; /* the program's; pd_octets of them */
    uint32_t pd_octets;
};

/* Writes a frame of STARTUP_LEN + length octets, PD_Length `length`, and returns its size. */
size_t startup_make(uint8_t *out, bool reply, unsigned int flags, unsigned int rev, const void *pd,
                    size_t length);

enum startup_result {
    STARTUP_WHOLE,
    STARTUP_PARTIAL,
    STARTUP_BAD_KEY,
    STARTUP_BAD_LENGTH, /* PD_Length over 512 */
};

/* Reads the frame with which `octets` begins; *size is its length. */
enum startup_result startup_read(const uint8_t *octets, size_t used, bool reply,
                                 struct startup *startup, size_t *size);

/* ---- Terminates ---- */

struct terminate {
    uint16_t value; /* 0xLECC, in the order of RFC 5040 whatever form the peer used */
    bool swapped;   /* nibbles and bits are in the other order, as of a little-endian bit-field */
    bool has_length, has_ddp, has_rdma, truncated;
    uint16_t segment_length;
    const uint8_t *ddp, *rdma; /* as many octets as there are of the headers announced */
    uint32_t ddp_length, rdma_length;
    uint16_t reserved; /* the 13 bits that are 0 */
};

/* False: fewer than the four octets of the control field. */
bool terminate_read(const uint8_t *payload, uint32_t length, struct terminate *terminate);

#endif
