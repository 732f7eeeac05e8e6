/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a datagram of a RoCEv2 peer says, and whether the way has changed it. Pure functions: the
 * octets are a stranger's.
 */
#ifndef ITAL_TOOLS_ROCE_ANSWER_H
#define ITAL_TOOLS_ROCE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "providers/software/roce/codec/bth.h"
#include "providers/software/roce/codec/cm.h"
#include "providers/software/roce/codec/gid.h"

/* How the datagram arrived: its addresses are of one family. */
struct answer_way {
    uint8_t source[GID_LEN];
    uint8_t destination[GID_LEN];
    uint16_t source_port;
};

enum answer_icrc {
    ANSWER_WHOLE,
    /* IPv4: right for an identification other than 0 or without DF, as senders count them. */
    ANSWER_IDENTIFIED,
    /* Right if the source port had been another: something has translated it. */
    ANSWER_OTHER_PORT,
    ANSWER_DAMAGED,
};

struct answer {
    enum answer_icrc icrc;
    uint16_t identification; /* of ANSWER_IDENTIFIED */
    bool df;                 /* of ANSWER_WHOLE and ANSWER_IDENTIFIED */
    uint16_t sent_from;      /* of ANSWER_OTHER_PORT: the port */
    /*
     * Of ANSWER_DAMAGED over IPv4: with this address in the place of the source's, or of the
     * destination's, and identification 0, the ICRC would be right. There are always such
     * addresses; those of two answers being the same shows that one of the two was translated.
     */
    bool has_addresses;
    uint8_t source_if[4], destination_if[4];

    enum bth_result parsed;
    struct bth_packet bth; /* if BTH_OK; its payload is in the datagram */
    bool is_message;       /* of communication management, from QP 1 to QP 1 */
    struct cm_message message;
};

/* `len` octets of a datagram from the BTH on, of any length. */
void answer_read(const struct answer_way *way, const void *octets, size_t len,
                 struct answer *answer);

/* "Acknowledge", "NAK 61 (invalid request)", "REJ 8 (invalid service ID)" ...: for people. `text`
 * has ANSWER_TEXT octets; it is returned. */
#define ANSWER_TEXT 160u
const char *answer_text(const struct answer *answer, char text[static ANSWER_TEXT]);
/* "REQ", "SIDR_REP" ...; "?" for one that there is not. */
const char *answer_attribute(uint16_t attribute_id);
/* "invalid service ID" ...; "unknown reason". */
const char *answer_reason(uint16_t reason);

#endif
