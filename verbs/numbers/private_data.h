/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What two QPs that are connected by numbers say of themselves: the private data of the MPA Request
 * and Reply. Pure functions.
 *
 *   magic (4) | version (1) | flags (1) | reason (2) | own QPN (4) | wanted QPN (4) |
 *   own GID (16) | expected PSN (4)
 *
 * All numbers are big-endian. Version 1 has these 36 octets; those behind are not looked at, for
 * some connection managers pad. Flags that are not known are ignored.
 */
#ifndef ITAL_VERBS_NUMBERS_PRIVATE_DATA_H
#define ITAL_VERBS_NUMBERS_PRIVATE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HELLO_OCTETS 36u

enum hello_flags {
    HELLO_ROCE = 1u << 0, /* the program sees RoCE devices, not iWARP ones */
};

/* Why a Reply rejects; 0 in what does not. */
enum hello_reason {
    HELLO_NO_REASON = 0,
    HELLO_OTHER_PEER,  /* the QP has, or is told to have, another peer */
    HELLO_PERSONALITY, /* one is RoCE, the other iWARP */
    HELLO_CROWDED,     /* too many wait for that QP */
};

struct hello {
    uint8_t flags;   /* enum hello_flags */
    uint16_t reason; /* enum hello_reason */
    uint32_t own_qpn, wanted_qpn;
    uint8_t own_gid[16];
    uint32_t expected_psn; /* the PSN of the first packet of the other side, as told by rq_psn */
};

void hello_encode(const struct hello *hello, uint8_t octets[HELLO_OCTETS]);
/* False: not ours, or of another version; *hello is untouched. octets may be NULL with length 0. */
bool hello_decode(const void *octets, size_t length, struct hello *hello);
/* For logs, never NULL. */
const char *hello_reason_text(uint16_t reason);

#endif
