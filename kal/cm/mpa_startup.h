/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPA start-up frames (RFC 5044 section 7.1, RFC 6581): encode, decode, negotiate. Pure
 * functions; sockets, timers and policy are the connection manager's.
 *
 *   key (16) | M C R S Res4 | Rev | PD_Length (2) | [enhanced word (4)] | private data
 *
 * Revisions 1 and 2 are spoken. Our frames ask for no markers unless told to.
 */
#ifndef ITAL_KAL_MPA_STARTUP_H
#define ITAL_KAL_MPA_STARTUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPA_STARTUP_HDR_LEN      20u
#define MPA_STARTUP_PD_MAX       512u /* private data with the enhanced word */
#define MPA_STARTUP_ENHANCED_LEN 4u   /* the enhanced word; leaves the ULP 508 octets */
#define MPA_STARTUP_FRAME_MAX    (MPA_STARTUP_HDR_LEN + MPA_STARTUP_PD_MAX)

/* IRD or ORD value that means "not negotiated here"; real values are 0..0x3FFE. */
#define MPA_STARTUP_NO_DEPTH 0x3FFFu

/* Ready-to-receive messages. */
#define MPA_STARTUP_RTR_SEND  0x1u /* B: zero-length Send */
#define MPA_STARTUP_RTR_WRITE 0x2u /* C: zero-length RDMA Write */
#define MPA_STARTUP_RTR_READ  0x4u /* D: zero-length RDMA Read */
#define MPA_STARTUP_RTR_ALL   0x7u

enum mpa_startup_kind {
    MPA_STARTUP_REQUEST,
    MPA_STARTUP_REPLY,
};

enum mpa_startup_result {
    MPA_STARTUP_OK,
    MPA_STARTUP_NEED_MORE,    /* not an error: the frame is not complete yet */
    MPA_STARTUP_ERR_KEY,      /* C-003, C-023: the peer speaks no MPA */
    MPA_STARTUP_ERR_ROLE,     /* C-024: the key of the other frame; two initiators or responders */
    MPA_STARTUP_ERR_REV,      /* C-004, C-026: revision not supported */
    MPA_STARTUP_ERR_PD_LEN,   /* C-007, C-027: PD_Length over 512 */
    MPA_STARTUP_ERR_ENHANCED, /* C-008, C-029: enhanced word missing */
    MPA_STARTUP_ERR_S_ABSENT, /* C-030: unenhanced answer to an enhanced Request */
    MPA_STARTUP_ERR_S_EXTRA,  /* C-031: enhanced answer to an unenhanced Request */
    MPA_STARTUP_ERR_IRD,      /* C-034: peer wants more Reads than we can take */
    MPA_STARTUP_ERR_RTR,      /* C-037, C-038: no common ready-to-receive message */
    MPA_STARTUP_ERR_SPACE,    /* encode: the buffer is too small */
    MPA_STARTUP_ERR_VALUE,    /* encode, negotiate: the caller's values cannot be expressed */
    MPA_STARTUP_RESULTS,
};

/* Short English text for logs, never NULL. */
const char *mpa_startup_text(enum mpa_startup_result result);

/* One Request or Reply. */
struct mpa_startup_frame {
    uint8_t rev;       /* 1 or 2 */
    bool markers;      /* M: the sender of this frame wants markers in what it receives */
    bool crc;          /* C */
    bool reject;       /* R; not tested in a Request, never sent in one */
    bool enhanced;     /* S of revision 2: the fields of the next block count */
    bool peer_to_peer; /* A */
    uint8_t rtr;       /* B, C, D as MPA_STARTUP_RTR_ bits, as on the wire even if A is 0 */
    uint16_t ird;      /* 0..0x3FFF */
    uint16_t ord;
    const uint8_t *pd; /* the ULP's private data, behind the enhanced word; into the buffer */
    uint16_t pd_len;   /* 0..512, enhanced 0..508 */
};

/*
 * Looks at the first `len` octets of a stream for one frame. Any way of splitting the octets
 * gives the same answer, and an error shows with the first octet that proves it.
 *   MPA_STARTUP_OK         *frame is filled, *n octets belong to the frame; the rest is not its.
 *   MPA_STARTUP_NEED_MORE  *n more octets are needed at least.
 *   others                 close the TCP connection, answer nothing; outputs untouched.
 */
enum mpa_startup_result mpa_startup_parse(const void *buf, size_t len, enum mpa_startup_kind want,
                                          struct mpa_startup_frame *frame, size_t *n);

/* Writes a frame; *n is its length. ERR_SPACE, ERR_PD_LEN, ERR_REV, ERR_VALUE leave *n alone. */
enum mpa_startup_result mpa_startup_encode(const struct mpa_startup_frame *frame,
                                           enum mpa_startup_kind kind, uint8_t *out, size_t cap,
                                           size_t *n);

/* What this side wants and can do. */
struct mpa_startup_local {
    uint8_t rev;           /* highest revision: 1 or 2; revision 2 is always enhanced */
    bool crc;              /* want CRC; off only by the administrator */
    bool markers;          /* require markers in what we receive; normally false (S-008) */
    bool peer_to_peer;     /* initiator: set A */
    bool allow_unenhanced; /* initiator: revision 2 may end up unenhanced (C-026, C-030, C-022) */
    bool own_depths;       /* initiator: the ULP negotiates IRD and ORD itself; send 0x3FFF */
    uint8_t rtr;           /* MPA_STARTUP_RTR_ bits: initiator can send, responder can take */
    uint16_t ird;          /* 0..0x3FFE wanted */
    uint16_t ord;          /* 0..0x3FFE wanted */
    uint16_t ird_max;      /* what IRD may be raised to for the peer's ORD; >= ird */
};

/* What both sides run. */
struct mpa_startup_agreed {
    uint8_t rev;
    bool enhanced;
    bool crc;        /* both directions */
    bool markers_tx; /* the peer wants markers */
    bool markers_rx;
    bool peer_to_peer;
    uint8_t rtr;  /* one bit: initiator: send it; responder: the one answered. 0: none */
    uint16_t ird; /* this side's, 0..0x3FFE */
    uint16_t ord;
    uint16_t peer_ird; /* as the peer said, for the ULP; MPA_STARTUP_NO_DEPTH if it did not */
    uint16_t peer_ord;
};

/* Initiator: the Request. pd stays the caller's. ERR_VALUE if `local` makes no sense. */
enum mpa_startup_result mpa_startup_request(const struct mpa_startup_local *local, const void *pd,
                                            size_t pd_len, struct mpa_startup_frame *request);

/*
 * Responder: accepting Reply to a parsed Request (C-006, C-011..C-018). ERR_REV: a revision 2
 * Request met a side limited to revision 1; close without Reply. If no offered ready-to-receive
 * message fits, the Reply names one of ours and the initiator decides (C-015).
 */
enum mpa_startup_result mpa_startup_accept(const struct mpa_startup_local *local,
                                           const struct mpa_startup_frame *request, const void *pd,
                                           size_t pd_len, struct mpa_startup_frame *reply,
                                           struct mpa_startup_agreed *agreed);

/* Responder: Reply that refuses; stays enhanced when the Request was (S-018). */
enum mpa_startup_result mpa_startup_reject(const struct mpa_startup_local *local,
                                           const struct mpa_startup_frame *request, const void *pd,
                                           size_t pd_len, struct mpa_startup_frame *reply);

/* What an initiator does next. */
enum mpa_startup_action {
    MPA_STARTUP_ACCEPTED,  /* agreed is filled: start Full Operation, send agreed.rtr first */
    MPA_STARTUP_REJECTED,  /* deliver the Reply's private data; agreed has peer_ird, peer_ord */
    MPA_STARTUP_CLOSE,     /* connect error: close TCP, nothing more is sent */
    MPA_STARTUP_TERMINATE, /* send `terminate` as the only FPDU, by agreed.crc and markers; close */
    MPA_STARTUP_FALLBACK,  /* may try again, revision 1, on a new TCP connection */
};

struct mpa_startup_outcome {
    enum mpa_startup_action action;
    enum mpa_startup_result reason; /* for the log; MPA_STARTUP_OK when accepted or rejected */
    uint16_t terminate;             /* 0x2006 or 0x2007 with MPA_STARTUP_TERMINATE, else 0 */
    struct mpa_startup_agreed agreed;
};

/* Initiator: judges a parsed Reply to the Request it sent (C-026, C-028, C-030..C-038). */
void mpa_startup_evaluate(const struct mpa_startup_local *local,
                          const struct mpa_startup_frame *request,
                          const struct mpa_startup_frame *reply,
                          struct mpa_startup_outcome *outcome);

/* Initiator: TCP ended before the Reply was complete: FALLBACK or CLOSE (C-022, S-020). */
enum mpa_startup_action mpa_startup_no_reply(const struct mpa_startup_local *local,
                                             const struct mpa_startup_frame *request);

#endif
