/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Private data of the MPA Request and Reply between two QPs that are connected by numbers. Pure
 * functions.
 *
 *   magic (4) | version (1) | flags (1) | reason (2) | own QPN (4) | wanted QPN (4) |
 *   own GID (16) | expected PSN (4)
 *
 * All numbers are big-endian. Version 1 has these 36 octets. Octets behind them are ignored,
 * because some connection managers pad. Unknown flags are ignored.
 */
#ifndef ITAL_VERBS_NUMBERS_PRIVATE_DATA_H
#define ITAL_VERBS_NUMBERS_PRIVATE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HELLO_OCTETS 36u

enum hello_flags {
    HELLO_ROCE = 1u << 0, /* devices of the program appear as RoCE, not iWARP */
    HELLO_RNR = 1u << 1,  /* Sends may wait for receives; in force if both ends have it */
    /* immediate data comes with a Send, or with the length of a Write; likewise */
    HELLO_FUSED = 1u << 2,
    /* requests complete when the peer has taken them; likewise, and with HELLO_ROCE only */
    HELLO_ACKNOWLEDGED = 1u << 3,
};

/* The reason of a rejecting Reply; 0 otherwise. */
enum hello_reason {
    HELLO_NO_REASON = 0,
    HELLO_OTHER_PEER,  /* the QP is connected to another peer, or will be */
    HELLO_PERSONALITY, /* one side is RoCE, the other iWARP */
    HELLO_CROWDED,     /* too many requests wait for that QP */
};

struct hello {
    uint8_t flags;   /* enum hello_flags */
    uint16_t reason; /* enum hello_reason */
    uint32_t own_qpn, wanted_qpn;
    uint8_t own_gid[16];
    uint32_t expected_psn; /* first PSN that this side expects from the other, from rq_psn */
};

void hello_encode(const struct hello *hello, uint8_t octets[HELLO_OCTETS]);
/* False: not such a message, or another version; *hello is unchanged. octets may be NULL with
 * length 0. */
bool hello_decode(const void *octets, size_t length, struct hello *hello);
/* For logs. Never NULL. */
const char *hello_reason_text(uint16_t reason);

#endif
