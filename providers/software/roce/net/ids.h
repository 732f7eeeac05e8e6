/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is remembered of the addresses that packets come from: the IP header's part of the ICRC, and
 * the identifications of IPv4, which a socket does not show. P-042, P-060 to P-062.
 *
 * Own senders send identification 0, or 0, 1, 2 ... in a batch; adapters and rxe count up. The next
 * one is guessed. If the ICRC is not right for the guess, the one for which it is right is found
 * (icrc_find_fragment_word), and accepted if it is one of an own sender's, or near the last of this
 * peer. A damaged packet passes this with 2^-25. The first of a peer is accepted as it is. One that
 * is far away is not, until it is the third that counts up: then the peer counts from there.
 *
 * Pure functions; bounded memory: a new address takes the place of an older one.
 */
#ifndef ITAL_SOFTROCE_IDS_H
#define ITAL_SOFTROCE_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "providers/software/roce/codec/icrc.h"

#define IDS_PEERS 256u
/* Identifications of own senders: those of the segments of one call. */
#define IDS_OWN 128u
/* How far on and, if the network reorders or doubles, how far back. */
#define IDS_AHEAD  1024u
#define IDS_BEHIND 64u
/* So many far ones in a row, each near the one before. */
#define IDS_RESYNCHRONISE 3u

struct ids_peer {
    uint8_t gid[GID_LEN]; /* zeros: nobody's */
    uint16_t source_port;
    uint16_t last;  /* of those that count up; valid if `counts` */
    uint16_t seen;  /* the last of all */
    uint16_t guess; /* the next */
    uint16_t far;   /* valid if far_count */
    uint8_t far_count;
    bool counts;
    struct icrc_path path; /* to the port's address */
};

struct ids {
    struct ids_peer peer[IDS_PEERS];
};

/* The entry of an address, with the path from this source port. */
struct ids_peer *ids_find(struct ids *ids, const uint8_t source[static GID_LEN],
                          uint16_t source_port, const uint8_t destination[static GID_LEN]);

/* The packet's ICRC is right for this identification. False: far away, drop it. */
bool ids_accept(struct ids_peer *peer, uint16_t id);

enum ids_verdict {
    IDS_RIGHT,
    IDS_SOLVED,  /* right for an identification that was not guessed */
    IDS_OUTSIDE, /* the same, far away: drop */
    IDS_WRONG,   /* drop */
};
/* A packet of `len` octets, 16 to 65,507 and a multiple of 4, from the BTH to the ICRC. */
enum ids_verdict ids_check(struct ids_peer *peer, const void *packet, uint32_t len);

#endif
