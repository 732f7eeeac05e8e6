/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMAP Terminate (RFC 5040 section 4.8): builds ours, reads the peer's, names the errors.
 */
#include "terminate.h"

/* Third octet of the control word. */
#define CTRL_M   0x80u
#define CTRL_D   0x40u
#define CTRL_R   0x20u
#define CTRL_MDR 0xE0u
/* The same flags as Linux siw writes them. */
#define SIW_M   0x01u
#define SIW_D   0x02u
#define SIW_R   0x04u
#define SIW_MDR 0x07u

#define LEN_LEN 2u /* DDP Segment Length */

static inline unsigned layer_of(uint16_t value)
{
    return value >> 12;
}

static inline unsigned etype_of(uint16_t value)
{
    return value >> 8 & 0xFu;
}

/* Which headers the kind of error wants (RFC 5040 figure 10). */
static bool wants_ddp_hdr(uint16_t value)
{
    if (layer_of(value) == 0)
        return etype_of(value) == 1 || etype_of(value) == 2;
    return layer_of(value) == 1;
}

static bool wants_rdma_hdr(uint16_t value, const struct ddp_hdr *hdr)
{
    return layer_of(value) == 0 && etype_of(value) == 1 && !hdr->tagged &&
           (hdr->ulp_ctrl & RDMAP_CTRL_OP) == RDMAP_READ_REQ;
}

size_t terminate_build(uint8_t out[static TERMINATE_PAYLOAD_MAX], uint16_t value,
                       const struct terminate_cause *cause)
{
    size_t n = TERMINATE_CTRL_LEN;
    struct ddp_hdr hdr;
    const uint8_t *p;

    be_put16(out, value);
    be_put16(out + 2, 0);
    if (!cause || !wants_ddp_hdr(value) || ddp_get(cause->ulpdu, cause->have, &hdr) != DDP_OK)
        return n;

    p = cause->ulpdu;
    out[2] = CTRL_M | CTRL_D;
    be_put16(out + n, (uint16_t)cause->ulpdu_len);
    n += LEN_LEN;
    memcpy(out + n, p, hdr.len);
    n += hdr.len;
    if (!wants_rdma_hdr(value, &hdr))
        return n;

    if (cause->advanced)
        rdmap_put_read_req(out + n, cause->advanced);
    else if (cause->have >= hdr.len + RDMAP_READ_REQ_LEN)
        memcpy(out + n, p + hdr.len, RDMAP_READ_REQ_LEN);
    else
        return n;
    out[2] |= CTRL_R;
    return n + RDMAP_READ_REQ_LEN;
}

size_t terminate_build_ulpdu(uint8_t out[static TERMINATE_ULPDU_MAX], uint16_t value,
                             const struct terminate_cause *cause)
{
    ddp_put_untagged(out, true, rdmap_ctrl(RDMAP_TERMINATE), 0, DDP_QN_TERMINATE, 1, 0);
    return DDP_UNTAGGED_LEN + terminate_build(out + DDP_UNTAGGED_LEN, value, cause);
}

/* The bit order of the control word: that of the RFC, that of siw, or one that depends on the
 * sender. */
enum form {
    FORM_RFC,
    FORM_SIW,
    FORM_BY_PEER,
};

/*
 * Linux siw exchanges the nibbles of the first octet and mirrors the flags. The flags show which
 * form it is. Without flags, codes that exist in one reading only do.
 */
static enum form form_of(const uint8_t ctrl[static TERMINATE_CTRL_LEN])
{
    bool llp_code = ctrl[1] >= 0x01 && ctrl[1] <= 0x04;    /* MPA only */
    bool either_code = ctrl[1] >= 0x05 && ctrl[1] <= 0x07; /* MPA and remote operation */
    bool op_code = ctrl[1] == 0x08 || ctrl[1] == 0x09 || ctrl[1] == 0xFF;

    if (ctrl[2] & CTRL_MDR)
        return FORM_RFC;
    if (ctrl[2] & SIW_MDR)
        return FORM_SIW;
    switch (ctrl[0]) {
    case 0x02: /* remote operation, or siw's LLP error */
        return llp_code ? FORM_SIW : either_code ? FORM_BY_PEER : FORM_RFC;
    case 0x20: /* LLP error, or siw's remote operation */
        return op_code ? FORM_SIW : either_code ? FORM_BY_PEER : FORM_RFC;
    case 0x01:
    case 0x10:
    case 0x12:
    case 0x21: return FORM_BY_PEER;
    default: return FORM_RFC;
    }
}

/* Takes up to `want` octets at *p, as far as they go (C-144). NULL if none is there. */
static const uint8_t *take(const uint8_t **p, size_t *left, size_t want, uint8_t *got,
                           bool *truncated)
{
    const uint8_t *at = *p;
    size_t n = want < *left ? want : *left;

    if (n < want)
        *truncated = true;
    *got = (uint8_t)n;
    *p += n;
    *left -= n;
    return n ? at : NULL;
}

enum terminate_result terminate_parse(const void *payload, size_t len, bool peer_is_siw,
                                      struct terminate_info *info)
{
    struct terminate_info t = { 0 };
    const uint8_t *p = payload;
    enum form form;
    uint8_t flags, got, first;
    const uint8_t *field;

    if (len < TERMINATE_CTRL_LEN)
        return TERMINATE_ERR_SHORT;

    form = form_of(p);
    t.uncertain = form == FORM_BY_PEER;
    t.swapped = form == FORM_SIW || (form == FORM_BY_PEER && peer_is_siw);
    first = p[0];
    flags = p[2];
    if (t.swapped) {
        first = (uint8_t)(first << 4 | first >> 4);
        flags = (uint8_t)((flags & SIW_M ? CTRL_M : 0) | (flags & SIW_D ? CTRL_D : 0) |
                          (flags & SIW_R ? CTRL_R : 0));
    }
    t.value = (uint16_t)(first << 8 | p[1]);
    p += TERMINATE_CTRL_LEN;
    len -= TERMINATE_CTRL_LEN;

    if (flags & CTRL_M) {
        field = take(&p, &len, LEN_LEN, &got, &t.truncated);
        t.has_len = got == LEN_LEN;
        t.ddp_segment_len = t.has_len ? be_get16(field) : 0;
    }
    if (flags & CTRL_D) {
        bool tagged = len && (*p & DDP_CTRL_T);

        t.ddp_hdr = take(&p, &len, ddp_hdr_len(tagged), &t.ddp_hdr_len, &t.truncated);
    }
    if (flags & CTRL_R)
        t.rdma_hdr = take(&p, &len, RDMAP_READ_REQ_LEN, &t.rdma_hdr_len, &t.truncated);

    *info = t;
    return TERMINATE_OK;
}

bool terminate_well_formed(const struct rdmap_segment *seg)
{
    const struct ddp_hdr *hdr = &seg->hdr;

    return !hdr->tagged && hdr->last && hdr->qn == DDP_QN_TERMINATE && hdr->msn == 1 &&
           hdr->mo == 0 && seg->payload_len >= TERMINATE_CTRL_LEN;
}

uint16_t terminate_canonical(uint16_t value)
{
    if ((value & 0xFF00u) == 0x2300u)
        return value & 0x20FFu;
    if (value == 0x0202u || value == 0x0203u)
        return (uint16_t)(0x2000u | (value & 0xFFu));
    return value;
}

static const struct {
    uint16_t value;
    const char *text;
} texts[] = {
    { 0x0100, "invalid STag" },
    { 0x0101, "base or bounds violation" },
    { 0x0102, "access rights violation" },
    { 0x0103, "STag of another stream or protection domain" },
    { 0x0104, "tagged offset wraps around" },
    { 0x0109, "STag cannot be invalidated" },
    { 0x01FF, "unspecified protection error" },
    { 0x0200, "invalid STag for invalidation" },
    { 0x0205, "invalid RDMAP version" },
    { 0x0206, "unexpected opcode" },
    { 0x0207, "fatal error of this stream" },
    { 0x0208, "fatal error of the whole RNIC" },
    { 0x0209, "STag cannot be invalidated" },
    { 0x02FF, "unspecified operation error" },
    { 0x1100, "invalid STag" },
    { 0x1101, "base or bounds violation" },
    { 0x1102, "STag of another stream, or without the right" },
    { 0x1103, "tagged offset wraps around" },
    { 0x1104, "invalid DDP version" },
    { 0x1201, "invalid queue number" },
    { 0x1202, "no receive buffer posted" },
    { 0x1203, "message sequence number out of range, or too many Reads" },
    { 0x1204, "invalid message offset" },
    { 0x1205, "message longer than the receive buffer" },
    { 0x1206, "invalid DDP version" },
    { 0x2001, "TCP connection closed or lost" },
    { 0x2002, "MPA CRC error" },
    { 0x2003, "MPA marker and length disagree" },
    { 0x2004, "invalid MPA Request or Reply" },
    { 0x2005, "local fatal error during MPA start-up" },
    { 0x2006, "not enough IRD for the peer's ORD" },
    { 0x2007, "no common ready-to-receive message" },
};

const char *terminate_text(uint16_t value)
{
    value = terminate_canonical(value);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].value == value)
            return texts[i].text;
    }
    if ((value & 0xFF00u) == 0x0000u)
        return "local fatal error of RDMAP"; /* the code is free */
    if ((value & 0xFF00u) == 0x1000u)
        return "local fatal error of DDP, or a malformed segment";
    return "unknown error";
}

const char *terminate_layer_text(uint16_t value)
{
    static const char *const names[] = { "RDMAP", "DDP", "MPA" };
    unsigned layer = layer_of(terminate_canonical(value));

    return layer < sizeof(names) / sizeof(names[0]) ? names[layer] : "unknown layer";
}
