/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wire.h - what the two ends of an rsocket say to each other. Pure functions: the octets come from
 * a peer that is not trusted.
 *
 * Each end has a ring in its memory. The other end writes the octets of the stream there by RDMA
 * Write and tells how many by a Send, a *message*. Few octets travel inside the message. Behind the
 * ring, under the same STag, is an octet that its end never changes: the other end reads it when it
 * closes, while the ring's octets may still be written. An end may
 * send only as many octets and messages as the other has room for: each message carries how much
 * its sender has taken so far. All numbers are big-endian; counts are modulo 2^32.
 *
 * The hello is the private data of connect and accept:
 *
 *   magic (4) | version (1) | 0 (1) | mappings (2) | messages (4) | ring octets (4) |
 *   ring STag (4) | 0 (4) | ring address (8)
 *
 * A message is a header; behind it are the octets of RS_SMALL, or the mapping of RS_MAP:
 *
 *   kind (1) | 0 (1) | index (2) | length (4) | messages taken (4) | octets taken (4)
 *   offset (8) | address (8) | length (8) | STag (4)
 *
 * The protocol is ital's own. A peer with the rsockets of rdma-core has another magic and is
 * refused.
 */
#ifndef ITAL_VERBS_RSOCKETS_WIRE_H
#define ITAL_VERBS_RSOCKETS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RS_HELLO_OCTETS  32u
#define RS_HEADER_OCTETS 16u
#define RS_MAP_OCTETS    28u
/* Size of a receive buffer for messages. */
#define RS_SLOT_OCTETS 128u
#define RS_SMALL_MOST  (RS_SLOT_OCTETS - RS_HEADER_OCTETS)

/* Limits of what an end may offer. */
#define RS_MESSAGES_LEAST 16u
#define RS_MESSAGES_MOST  65536u
#define RS_RING_LEAST     4096u
#define RS_RING_MOST      (UINT32_C(1) << 30)

struct rs_hello {
    uint16_t maps;     /* number of mappings that this end keeps for the other's memory */
    uint32_t messages; /* number of messages that it has receives for */
    uint32_t ring_size, ring_stag;
    uint64_t ring_address;
};

enum rs_kind {
    RS_DATA = 1, /* `length` octets are in the ring */
    RS_SMALL,    /* `length` octets follow; the receiver copies them to the ring */
    RS_CREDIT,   /* only the counts */
    RS_FIN,      /* the sender sends no more data */
    RS_CLOSE,    /* the same, and it reads no more */
    RS_END,      /* the sender sends no more messages: both have sent FIN or CLOSE */
    RS_MAP,      /* memory that the receiver may write to */
    RS_UNMAP     /* and no longer may */
};

struct rs_map {
    uint64_t offset, address, length; /* address and length 0: unused */
    uint32_t stag;
};

struct rs_message {
    enum rs_kind kind;
    uint16_t index; /* of MAP and UNMAP */
    uint32_t length;
    uint32_t taken_messages, taken_octets;
    const uint8_t *octets; /* of SMALL: inside the decoded message */
    struct rs_map map;
};

void rs_hello_encode(const struct rs_hello *hello, uint8_t octets[RS_HELLO_OCTETS]);
/* False: not such a hello, another version, or beyond the limits; *hello is unchanged. Octets
 * behind it are ignored, because some connection managers pad. octets may be NULL with length 0. */
bool rs_hello_decode(const void *octets, size_t length, struct rs_hello *hello);

/* Returns the number of octets written. message->octets is copied; length at most
 * RS_SMALL_MOST for RS_SMALL. */
uint32_t rs_message_encode(const struct rs_message *message, uint8_t octets[RS_SLOT_OCTETS]);
/* False: malformed; *message is unchanged. Counts and index are for the caller to check. */
bool rs_message_decode(const uint8_t *octets, size_t length, struct rs_message *message);

#endif
