/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Octets on the wire, written out, and a peer that sends and receives them on a TCP socket. Nothing
 * here uses the library under test: this folder alone builds frames, FPDUs, markers and CRC. All
 * helpers fail the test on an error.
 */
#ifndef ITAL_TESTS_WIRE_SCRIPT_H
#define ITAL_TESTS_WIRE_SCRIPT_H

#include "tc.h"

#include <netinet/in.h>

/* ---- octets ---- */

#define OCTETS_MAX 2400

struct octets {
    size_t length;
    uint8_t at[OCTETS_MAX];
};

struct octets octets(const void *data, size_t length);
struct octets join(struct octets first, struct octets second);
struct octets part(struct octets whole, size_t from, size_t length);
#define nothing() octets(NULL, 0)

/* Flags of start-up frames. */
#define F_M 0x80u /* markers wanted */
#define F_C 0x40u /* CRC wanted */
#define F_R 0x20u /* rejected */
#define F_S 0x10u /* enhanced */

enum key { REQUEST, REPLY };

/* A frame with private data `data`; PD_Length is set accordingly. */
struct octets frame(enum key key, unsigned flags, unsigned rev, const void *data, size_t length);
/* Revision 2 with S and the enhanced word; private data behind it. */
struct octets enhanced(enum key key, unsigned flags, unsigned first, unsigned second,
                       const char *text);
#define request(flags, rev, text) frame(REQUEST, flags, rev, text, strlen(text))
#define reply(flags, rev, text)   frame(REPLY, flags, rev, text, strlen(text))

/* Bits of the enhanced word, first and second half. */
#define W_A 0x8000u /* peer to peer; ready-to-receive message by */
#define W_B 0x4000u /* Send */
#define W_C 0x8000u /* Write */
#define W_D 0x4000u /* Read */

/* ---- FPDUs ---- */

uint32_t script_crc(const uint8_t *data, size_t length); /* CRC32C, a bit at a time */

/* CRC field of FPDUs without CRC: any four octets. */
#define NO_CRC 0xbadc0de5u

struct octets fpdu(const void *ulpdu, size_t length);
struct octets fpdu_without_crc(const void *ulpdu, size_t length, uint32_t field);
/* The FPDU as it appears in a stream with markers, *position octets after the stream's start.
 * Advances *position. */
struct octets fpdu_marked(const void *ulpdu, size_t length, uint32_t *position);

/* ULPDUs. */
struct octets untagged(unsigned opcode, uint32_t qn, uint32_t msn, uint32_t mo, const void *data,
                       size_t length); /* L=1 */
struct octets tagged(unsigned opcode, uint32_t stag, uint64_t to, const void *data, size_t length);
struct octets read_request(uint32_t msn, uint32_t sink, uint64_t sink_to, uint32_t size,
                           uint32_t source, uint64_t source_to);
#define OP_WRITE     0u
#define OP_READ      1u
#define OP_RESPONSE  2u
#define OP_SEND      3u
#define OP_TERMINATE 7u

/* FPDUs with CRC. */
struct octets send_fpdu(uint32_t msn, const char *text);
struct octets write0_fpdu(void);             /* zero-length Write, STag and TO 0 */
struct octets read0_fpdu(uint32_t msn);      /* zero-length Read, all fields 0 */
struct octets response0_fpdu(void);          /* its answer */
struct octets terminate_fpdu(uint16_t code); /* without headers */

/* ---- the peer's socket ---- */

int dial(in_port_t port); /* network order; loopback; TCP_NODELAY */
int dial_from(in_port_t port, struct in_addr source);
int wait_for_call(int listener);                 /* accepts; the test fails without a call */
int open_listener(in_port_t *port, int backlog); /* loopback, any port */

void say(int fd, struct octets what); /* the other side may have closed already */
/* ... in two parts. The second part leaves when the library has read the first or closed. */
void say_split(int fd, struct octets what, size_t cut);
void say_each(int fd, struct octets what); /* each octet alone, in the same way */
void say_last(int fd, struct octets what); /* and FIN */
void hang_up(int *fd);                     /* FIN both ways: closes */
void reset(int *fd);                       /* RST: closes */

void hear(int fd, struct octets what); /* these octets must come next */
struct octets listen_for(int fd, size_t length);
struct octets hear_frame(int fd, enum key key); /* a whole start-up frame */
struct octets hear_fpdu(int fd);                /* its ULPDU; checks the CRC */
/* ... with or without CRC; *field is the CRC field. */
struct octets hear_fpdu_field(int fd, uint32_t *field);
/* No octet comes, but the end of the stream: FIN, or either FIN or RST, or RST. */
void hear_fin(int fd);
void hear_end(int fd);
void hear_rst(int fd);
/* For a short while neither octets nor the end come. */
void hear_nothing(int fd);
bool ended(int fd); /* FIN or RST is there, right now; octets before it are kept */

/*
 * The library's descriptor of the connection whose peer is fd; the library runs in this process.
 * -1: none (not accepted yet, or closed).
 */
int their_socket(int fd);
/* Number of TCP data segments received: 1 after one frame if it left in one write. */
unsigned data_segments(int fd);
/* Waits until the library has read all sent octets, or has closed. */
void until_read(int fd);

#endif
