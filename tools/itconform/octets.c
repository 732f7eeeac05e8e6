/* SPDX-License-Identifier: BSD-3-Clause */
/* The octets of MPA, DDP and RDMAP; see octets.h. */
#include "octets.h"

#include <string.h>

#define MARK_PERIOD 512u

/* ---- numbers ---- */

void put16(uint8_t *out, uint32_t value)
{
    out[0] = (uint8_t)(value >> 8);
    out[1] = (uint8_t)value;
}

void put32(uint8_t *out, uint32_t value)
{
    put16(out, value >> 16);
    put16(out + 2, value);
}

void put64(uint8_t *out, uint64_t value)
{
    put32(out, (uint32_t)(value >> 32));
    put32(out + 4, (uint32_t)value);
}

uint16_t get16(const uint8_t *in)
{
    return (uint16_t)(in[0] << 8 | in[1]);
}

uint32_t get32(const uint8_t *in)
{
    return (uint32_t)get16(in) << 16 | get16(in + 2);
}

uint64_t get64(const uint8_t *in)
{
    return (uint64_t)get32(in) << 32 | get32(in + 4);
}

/* Reflected 0x1EDC6F41. */
uint32_t octets_crc(uint32_t crc, const void *octets, size_t length)
{
    static uint32_t table[256];
    const uint8_t *at = octets;

    if (!table[1]) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t sum = i;

            for (int bit = 0; bit < 8; bit++)
                sum = sum & 1 ? sum >> 1 ^ 0x82f63b78u : sum >> 1;
            table[i] = sum;
        }
    }
    crc = ~crc;
    while (length--)
        crc = crc >> 8 ^ table[(crc ^ *at++) & 0xff];
    return ~crc;
}

/* ---- ULPDUs ---- */

static uint32_t put_payload(uint8_t *out, uint32_t header, const void *payload, uint32_t length)
{
    if (length && payload)
        memcpy(out + header, payload, length);
    return header + length;
}

uint32_t put_untagged(uint8_t *out, uint8_t ddp, uint8_t rdmap, uint32_t inv, uint32_t qn,
                      uint32_t msn, uint32_t mo, const void *payload, uint32_t length)
{
    out[0] = ddp;
    out[1] = rdmap;
    put32(out + 2, inv);
    put32(out + 6, qn);
    put32(out + 10, msn);
    put32(out + 14, mo);
    return put_payload(out, UNTAGGED_LEN, payload, length);
}

uint32_t put_tagged(uint8_t *out, uint8_t ddp, uint8_t rdmap, uint32_t stag, uint64_t to,
                    const void *payload, uint32_t length)
{
    out[0] = ddp;
    out[1] = rdmap;
    put32(out + 2, stag);
    put64(out + 6, to);
    return put_payload(out, TAGGED_LEN, payload, length);
}

uint32_t put_send(uint8_t *out, bool last, uint32_t msn, uint32_t mo, const void *payload,
                  uint32_t length)
{
    return put_untagged(out, last ? C_LAST | C_DV : C_DV, C_RV | OP_SEND, 0, 0, msn, mo, payload,
                        length);
}

static uint32_t put_data(uint8_t *out, bool last, uint8_t op, uint32_t stag, uint64_t to,
                         const void *payload, uint32_t length)
{
    return put_tagged(out, last ? C_TAGGED | C_LAST | C_DV : C_TAGGED | C_DV, (uint8_t)(C_RV | op),
                      stag, to, payload, length);
}

uint32_t put_write(uint8_t *out, bool last, uint32_t stag, uint64_t to, const void *payload,
                   uint32_t length)
{
    return put_data(out, last, OP_WRITE, stag, to, payload, length);
}

uint32_t put_response(uint8_t *out, bool last, uint32_t stag, uint64_t to, const void *payload,
                      uint32_t length)
{
    return put_data(out, last, OP_RESPONSE, stag, to, payload, length);
}

uint32_t put_read(uint8_t *out, uint32_t msn, uint32_t sink_stag, uint64_t sink_to, uint32_t size,
                  uint32_t source_stag, uint64_t source_to)
{
    uint8_t payload[READ_LEN];

    put32(payload, sink_stag);
    put64(payload + 4, sink_to);
    put32(payload + 12, size);
    put32(payload + 16, source_stag);
    put64(payload + 20, source_to);
    return put_untagged(out, C_LAST | C_DV, C_RV | OP_READ, 0, 1, msn, 0, payload, READ_LEN);
}

/* ---- making an FPDU ---- */

struct making {
    const struct framing *framing;
    uint8_t *out;
    size_t used;
    size_t start; /* where ULPDU_Length is */
    int markers;  /* so far */
    bool begun;   /* ULPDU_Length has been written */
};

/* Writes a marker if one is due. Called before each unit of four octets. */
static void make_marker(struct making *making)
{
    const struct framing *framing = making->framing;
    uint32_t position = framing->position + (uint32_t)making->used;
    uint32_t pointer = making->begun ? (uint32_t)(making->used - making->start) : 0;
    bool damaged = framing->marker_only < 0 || framing->marker_only == making->markers;

    if (!framing->markers || position % MARK_PERIOD)
        return;
    put16(making->out + making->used, damaged ? framing->marker_reserved : 0);
    put16(making->out + making->used + 2, damaged ? pointer ^ framing->marker_xor : pointer);
    making->used += 4;
    making->markers++;
}

static void make_unit(struct making *making, const uint8_t *four)
{
    make_marker(making);
    if (!making->begun)
        making->start = making->used;
    making->begun = true;
    memcpy(making->out + making->used, four, 4);
    making->used += 4;
}

/* A unit of the FPDU without markers: four octets from `at` on of length, ULPDU and PAD. */
static void plain_unit(const struct framing *framing, const uint8_t *ulpdu, uint32_t length,
                       uint32_t at, uint8_t four[static 4])
{
    for (uint32_t i = at; i < at + 4; i++) {
        if (i < 2)
            four[i - at] = (uint8_t)(i ? length : length >> 8);
        else
            four[i - at] = i - 2 < length ? ulpdu[i - 2] : framing->pad;
    }
}

size_t fpdu_make(struct framing *framing, uint8_t *out, const void *ulpdu, uint32_t length)
{
    struct making making = { .framing = framing, .out = out };
    uint32_t units = (2 + length + 3) / 4, crc;
    uint8_t four[4];

    for (uint32_t i = 0; i < units; i++) {
        plain_unit(framing, ulpdu, length, 4 * i, four);
        make_unit(&making, four);
    }
    make_marker(&making);
    crc = framing->crc ? octets_crc(0, out, making.used) : 0;
    crc ^= framing->crc_xor;
    for (int i = 0; i < 4; i++)
        out[making.used++] = (uint8_t)(crc >> 8 * i);
    framing->position += (uint32_t)making.used;
    return making.used;
}

/* ---- taking an FPDU ---- */

struct taking {
    const struct framing *framing;
    const uint8_t *octets;
    size_t have, used, start;
    bool begun;
    struct fpdu *fpdu;
};

static void take_marker(struct taking *taking)
{
    uint32_t position = taking->framing->position + (uint32_t)taking->used;
    uint32_t pointer = taking->begun ? (uint32_t)(taking->used - taking->start) : 0, found;

    if (!taking->framing->markers || position % MARK_PERIOD || taking->used + 4 > taking->have)
        return;
    found = get32(taking->octets + taking->used);
    if (found != pointer && taking->fpdu->wrong == taking->fpdu->wanted) {
        taking->fpdu->wrong = found;
        taking->fpdu->wanted = pointer;
    }
    taking->used += 4;
    taking->fpdu->markers++;
}

/* The next four octets that are not a marker; NULL: they have not come. */
static const uint8_t *take_unit(struct taking *taking)
{
    take_marker(taking);
    if (taking->used + 4 > taking->have)
        return NULL;
    if (!taking->begun)
        taking->start = taking->used;
    taking->begun = true;
    taking->used += 4;
    return taking->octets + taking->used - 4;
}

/* Copies length, ULPDU and PAD without the markers. False: not all of it has come. *padded: PAD is
 * zero. */
static bool take_units(struct taking *taking, bool *padded)
{
    struct fpdu *fpdu = taking->fpdu;
    uint32_t units = 1;

    for (uint32_t i = 0; i < units; i++) {
        const uint8_t *four = take_unit(taking);

        if (!four)
            return false;
        if (i == 0) {
            fpdu->length = get16(four);
            units = (2 + fpdu->length + 3) / 4;
        }
        for (uint32_t k = i ? 0 : 2; k < 4; k++) {
            uint32_t at = 4 * i + k - 2;

            if (at < fpdu->length)
                fpdu->ulpdu[at] = four[k];
            else if (four[k])
                *padded = false;
        }
    }
    return true;
}

enum fpdu_result fpdu_take(const struct framing *framing, const uint8_t *octets, size_t used,
                           struct fpdu *fpdu)
{
    struct taking taking = { .framing = framing, .octets = octets, .have = used, .fpdu = fpdu };
    const uint8_t *four;
    bool padded = true;

    fpdu->markers = fpdu->wrong = fpdu->wanted = 0;
    if (!take_units(&taking, &padded))
        return FPDU_PARTIAL;
    take_marker(&taking);
    if (taking.used + 4 > used)
        return FPDU_PARTIAL;
    four = octets + taking.used;
    fpdu->field = (uint32_t)four[3] << 24 | (uint32_t)four[2] << 16 | (uint32_t)four[1] << 8 |
                  four[0];
    fpdu->crc = octets_crc(0, octets, taking.used);
    fpdu->octets = (uint32_t)taking.used + 4;
    if (fpdu->wrong != fpdu->wanted)
        return FPDU_BAD_MARKER;
    if (framing->crc && fpdu->field != fpdu->crc)
        return FPDU_BAD_CRC;
    return padded ? FPDU_WHOLE : FPDU_BAD_PAD;
}

/* ---- segments ---- */

uint32_t queue_of(uint8_t op)
{
    switch (op) {
    case OP_READ:
    case 0xa: return 1;
    case OP_TERMINATE: return 2;
    case 0xb: return 3;
    default: return 0;
    }
}

bool segment_read(const uint8_t *ulpdu, uint32_t length, struct segment *segment)
{
    uint32_t header;

    if (length < 2)
        return false;
    *segment = (struct segment){
        .tagged = ulpdu[0] & C_TAGGED,
        .last = ulpdu[0] & C_LAST,
        .ddp = ulpdu[0],
        .rdmap = ulpdu[1],
        .op = ulpdu[1] & 0xf,
    };
    header = segment->tagged ? TAGGED_LEN : UNTAGGED_LEN;
    if (length < header)
        return false;
    segment->stag = get32(ulpdu + 2);
    if (segment->tagged) {
        segment->to = get64(ulpdu + 6);
    } else {
        segment->qn = get32(ulpdu + 6);
        segment->msn = get32(ulpdu + 10);
        segment->mo = get32(ulpdu + 14);
    }
    segment->payload = ulpdu + header;
    segment->payload_length = length - header;
    return true;
}

/* ---- start-up frames ---- */

size_t startup_make(uint8_t *out, bool reply, unsigned int flags, unsigned int rev, const void *pd,
                    size_t length)
{
    memcpy(out, reply ? "MPA ID Rep Frame" : "MPA ID Req Frame", 16);
    out[16] = (uint8_t)flags;
    out[17] = (uint8_t)rev;
    put16(out + 18, (uint32_t)length);
    if (length)
        memcpy(out + STARTUP_LEN, pd, length);
    return STARTUP_LEN + length;
}

enum startup_result startup_read(const uint8_t *octets, size_t used, bool reply,
                                 struct startup *startup, size_t *size)
{
    const char *key = reply ? "MPA ID Rep Frame" : "MPA ID Req Frame";

    if (memcmp(octets, key, used < 16 ? used : 16))
        return STARTUP_BAD_KEY;
    if (used < STARTUP_LEN)
        return STARTUP_PARTIAL;
    *startup = (struct startup){
        .flags = octets[16],
        .rev = octets[17],
        .pd_length = get16(octets + 18),
    };
    if (startup->pd_length > STARTUP_MAX - STARTUP_LEN)
        return STARTUP_BAD_LENGTH;
    if (used < STARTUP_LEN + startup->pd_length)
        return STARTUP_PARTIAL;
    startup->pd = octets + STARTUP_LEN;
    startup->pd_octets = startup->pd_length;
    if (startup->rev >= 2 && startup->flags & F_S && startup->pd_length >= 4) {
        startup->enhanced = true;
        startup->first = get16(startup->pd);
        startup->second = get16(startup->pd + 2);
        startup->pd += 4;
        startup->pd_octets -= 4;
    }
    *size = STARTUP_LEN + startup->pd_length;
    return STARTUP_WHOLE;
}

/* ---- Terminates ---- */

/*
 * A little-endian bit-field puts layer and type the other way round and the flags into the low bits
 * of octet 2. Without flags some values can be read both ways: 02 and 20 there are told apart by
 * their codes, and read as RFC 5040 has them if those do not help.
 */
static bool is_swapped(const uint8_t *control)
{
    if (control[2] & 0xe0)
        return false;
    if (control[2] & 0x07)
        return true;
    return (control[0] == 0x02 && control[1] >= 1 && control[1] <= 4) ||
           (control[0] == 0x20 && (control[1] == 8 || control[1] == 9 || control[1] == 0xff));
}

/* A header of `wanted` octets at *at, cut at the end. */
static const uint8_t *header_at(const uint8_t *payload, uint32_t length, uint32_t *at,
                                uint32_t wanted, struct terminate *terminate, uint32_t *got)
{
    const uint8_t *header = payload + *at;

    *got = length - *at < wanted ? length - *at : wanted;
    terminate->truncated |= *got < wanted;
    *at += *got;
    return header;
}

bool terminate_read(const uint8_t *payload, uint32_t length, struct terminate *terminate)
{
    uint8_t first, flags;
    uint32_t at = 4;

    if (length < 4)
        return false;
    *terminate = (struct terminate){ .swapped = is_swapped(payload) };
    first = terminate->swapped ? (uint8_t)(payload[0] << 4 | payload[0] >> 4) : payload[0];
    flags = payload[2];
    if (terminate->swapped)
        flags = (uint8_t)((flags & 1) << 7 | (flags & 2) << 5 | (flags & 4) << 3);
    terminate->value = (uint16_t)(first << 8 | payload[1]);
    terminate->has_length = flags & 0x80;
    terminate->has_ddp = flags & 0x40;
    terminate->has_rdma = flags & 0x20;
    terminate->reserved = (uint16_t)((flags & 0x1f) << 8 | payload[3]);
    if (terminate->has_length) {
        uint32_t got;
        const uint8_t *field = header_at(payload, length, &at, 2, terminate, &got);

        if (got == 2)
            terminate->segment_length = get16(field);
    }
    if (terminate->has_ddp && at < length)
        terminate->ddp = header_at(payload, length, &at,
                                   payload[at] & C_TAGGED ? TAGGED_LEN : UNTAGGED_LEN, terminate,
                                   &terminate->ddp_length);
    if (terminate->has_rdma && at < length)
        terminate->rdma = header_at(payload, length, &at, READ_LEN, terminate,
                                    &terminate->rdma_length);
    terminate->truncated |= (terminate->has_ddp && !terminate->ddp) ||
                            (terminate->has_rdma && !terminate->rdma);
    return true;
}
