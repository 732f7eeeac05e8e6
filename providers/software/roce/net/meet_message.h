/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What two processes of one host say to each other to connect two queue pairs by memory that they
 * share, and the name at which one listens for it. Pure functions over octets.
 *
 * The name is text: protocol, release, user, UDP port, slot. So whoever finds it speaks the same.
 * All messages have 64 octets; what a kind does not have is zeros:
 *
 *   0: "italRmet"; 8: version; 10: kind; 12: reason (NO); 16: GID of who asks (ASK, as all that
 *   follows); 32: GID that is asked; 48: QPN of who asks; 52: QPN that is asked
 */
#ifndef ITAL_SOFTROCE_MEET_MESSAGE_H
#define ITAL_SOFTROCE_MEET_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "providers/software/roce/codec/gid.h"

#define MEET_VERSION  1u
#define MEET_NAME_MAX 104u
#define MEET_LEN      64u

enum meet_kind {
    MEET_ASK = 1,
    MEET_OFFER, /* with the descriptor of the memory */
    MEET_TAKEN,
    MEET_COMMIT,
    MEET_NO,
};

/* Why two queue pairs stay on UDP. The values are on the wire. */
enum meet_reason {
    MEET_NO_REASON,
    MEET_UNKNOWN,  /* there is no such queue pair of a reliable connection */
    MEET_STRANGER, /* it has another peer */
    MEET_OVER,     /* it has had its connection */
    MEET_STAYS,    /* its own side could not, for a reason that it knows */
    MEET_MEMORY,   /* the memory could not be taken */
    MEET_REASONS,
};

/* The two of a connection. */
struct meet_pair {
    uint8_t asking_gid[GID_LEN], asked_gid[GID_LEN];
    uint32_t asking_qpn, asked_qpn;
};

struct meet_message {
    enum meet_kind kind;
    enum meet_reason reason; /* MEET_NO */
    struct meet_pair pair;   /* MEET_ASK */
};

/* sun_path of a listener, with a leading 0 and no end. Returns its octets. */
size_t meet_put_name(uint8_t out[static MEET_NAME_MAX], uint32_t user, uint16_t udp_port,
                     uint32_t slot);

void meet_put(uint8_t out[static MEET_LEN], const struct meet_message *message);
/* False: it is none. *message is set if true. */
bool meet_get(const void *octets, size_t len, struct meet_message *message);

#endif
