/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPA start-up frames (RFC 5044 section 7.1, RFC 6581): encode, decode, negotiate. Pure functions;
 * the connection manager has sockets, timers and policy.
 *
 *   key (16) | M C R S Res4 | Rev | PD_Length (2) | [enhanced word (4)] | private data
 *
 * Revisions 1 and 2. Our frames request no markers unless configured.
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

/* IRD or ORD value "not negotiated here"; real values are 0..0x3FFE. */
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
    MPA_STARTUP_ERR_KEY,      /* C-003, C-023: not an MPA key */
    MPA_STARTUP_ERR_ROLE,     /* C-024: the key of the other role: two initiators or responders */
    MPA_STARTUP_ERR_REV,      /* C-004, C-026: revision not supported */
    MPA_STARTUP_ERR_PD_LEN,   /* C-007, C-027: PD_Length over 512 */
    MPA_STARTUP_ERR_ENHANCED, /* C-008, C-029: enhanced word missing */
    MPA_STARTUP_ERR_S_ABSENT, /* C-030: unenhanced Reply to an enhanced Request */
    MPA_STARTUP_ERR_S_EXTRA,  /* C-031: enhanced Reply to an unenhanced Request */
    MPA_STARTUP_ERR_IRD,      /* C-034: peer wants more Reads than this side can take */
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
    bool markers;      /* M: the sender of this frame requests markers in what it receives */
    bool crc;          /* C */
    bool reject;       /* R; not tested in a Request, never sent in one */
    bool enhanced;     /* S of revision 2: the fields of the next block are valid */
    bool peer_to_peer; /* A */
    uint8_t rtr;       /* B, C, D as MPA_STARTUP_RTR_ bits, as on the wire even if A is 0 */
    uint16_t ird;      /* 0..0x3FFF */
    uint16_t ord;
    /* the ULP's private data, behind the enhanced word; points into the buffer */
    const uint8_t *pd;
    uint16_t pd_len; /* 0..512, enhanced 0..508 */
};

/*
 * Parses the first `len` octets of a stream as one frame. The result does not depend on how the
 * octets arrive; an error is found with the first octet that proves it.
 *   MPA_STARTUP_OK         *frame is filled, *n octets belong to the frame; more may follow it.
 *   MPA_STARTUP_NEED_MORE  at least *n more octets are needed.
 *   others                 close the TCP connection, answer nothing; outputs unchanged.
 */
enum mpa_startup_result mpa_startup_parse(const void *buf, size_t len, enum mpa_startup_kind want,
                                          struct mpa_startup_frame *frame, size_t *n);

/* Writes a frame; *n is its length. ERR_SPACE, ERR_PD_LEN, ERR_REV, ERR_VALUE: *n is unchanged. */
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
    uint8_t rtr;           /* MPA_STARTUP_RTR_ bits: initiator can send, responder can accept */
    uint16_t ird;          /* requested, 0..0x3FFE */
    uint16_t ord;          /* requested, 0..0x3FFE */
    uint16_t ird_max;      /* limit to which IRD may be raised for the peer's ORD; >= ird */
};

/* The values that both sides use. */
struct mpa_startup_agreed {
    uint8_t rev;
    bool enhanced;
    bool crc;        /* both directions */
    bool markers_tx; /* the peer requests markers */
    bool markers_rx;
    bool peer_to_peer;
    uint8_t rtr;  /* one bit: initiator: send it; responder: the one answered. 0: none */
    uint16_t ird; /* this side's, 0..0x3FFE */
    uint16_t ord;
    /* as announced by the peer, for the ULP; MPA_STARTUP_NO_DEPTH: not announced */
    uint16_t peer_ird;
    uint16_t peer_ord;
};

/* Initiator: encodes the Request. pd remains the caller's. ERR_VALUE if `local` is
 * contradictory. */
enum mpa_startup_result mpa_startup_request(const struct mpa_startup_local *local, const void *pd,
                                            size_t pd_len, struct mpa_startup_frame *request);

/*
 * Responder: encodes the accepting Reply to a parsed Request (C-006, C-011..C-018). ERR_REV: a
 * revision 2 Request, but this side is limited to revision 1; close without Reply. If no offered
 * ready-to-receive message fits, the Reply names one of ours and the initiator decides (C-015).
 */
enum mpa_startup_result mpa_startup_accept(const struct mpa_startup_local *local,
                                           const struct mpa_startup_frame *request, const void *pd,
                                           size_t pd_len, struct mpa_startup_frame *reply,
                                           struct mpa_startup_agreed *agreed);

/* Responder: encodes a rejecting Reply, enhanced if the Request was (S-018). */
enum mpa_startup_result mpa_startup_reject(const struct mpa_startup_local *local,
                                           const struct mpa_startup_frame *request, const void *pd,
                                           size_t pd_len, struct mpa_startup_frame *reply);

/* The initiator's next action. */
enum mpa_startup_action {
    MPA_STARTUP_ACCEPTED,  /* agreed is filled: start Full Operation, send agreed.rtr first */
    MPA_STARTUP_REJECTED,  /* deliver the Reply's private data; agreed has peer_ird, peer_ord */
    MPA_STARTUP_CLOSE,     /* connect error: close TCP, send nothing more */
    MPA_STARTUP_TERMINATE, /* send `terminate` as the only FPDU, by agreed.crc and markers; close */
    MPA_STARTUP_FALLBACK,  /* may try again, revision 1, on a new TCP connection */
};

struct mpa_startup_outcome {
    enum mpa_startup_action action;
    enum mpa_startup_result reason; /* for the log; MPA_STARTUP_OK when accepted or rejected */
    uint16_t terminate;             /* 0x2006 or 0x2007 with MPA_STARTUP_TERMINATE, else 0 */
    struct mpa_startup_agreed agreed;
};

/* Initiator: checks a parsed Reply to its Request (C-026, C-028, C-030..C-038). */
void mpa_startup_evaluate(const struct mpa_startup_local *local,
                          const struct mpa_startup_frame *request,
                          const struct mpa_startup_frame *reply,
                          struct mpa_startup_outcome *outcome);

/* Initiator: TCP ended before the Reply was complete. Returns FALLBACK or CLOSE (C-022, S-020). */
enum mpa_startup_action mpa_startup_no_reply(const struct mpa_startup_local *local,
                                             const struct mpa_startup_frame *request);

#endif
