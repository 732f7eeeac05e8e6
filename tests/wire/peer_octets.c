/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer in Full Operation that works on raw octets: builds and parses FPDUs, see peer.h. Nothing
 * here uses the provider. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PEER        (&wire.peer)
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

/* CRC32C as RFC 5044 has it: reflected 0x1EDC6F41; continued from an earlier result. */
uint32_t peer_crc(uint32_t crc, const void *octets, size_t length)
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

/* ---- building an FPDU ---- */

struct making {
    uint8_t *out;
    size_t used;
    size_t start; /* position of ULPDU_Length */
    int markers;  /* so far */
    bool begun;   /* ULPDU_Length has been written */
};

/* Writes a marker if one is due. Called before each unit of four octets. */
static void make_marker(struct making *making)
{
    uint32_t position = PEER->sent + (uint32_t)making->used;
    uint32_t pointer = making->begun ? (uint32_t)(making->used - making->start) : 0;
    bool damaged = PEER->marker_only < 0 || PEER->marker_only == making->markers;

    if (!PEER->markers_in || position % MARK_PERIOD)
        return;
    put16(making->out + making->used, damaged ? PEER->marker_reserved : 0);
    put16(making->out + making->used + 2, damaged ? pointer ^ PEER->marker_xor : pointer);
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

size_t peer_frame(uint8_t *out, const void *ulpdu, uint32_t length)
{
    static uint8_t clean[FPDU_ROOM];
    struct making making = { .out = out };
    uint32_t units = (2 + length + 3) / 4, crc;

    put16(clean, length);
    if (length)
        memcpy(clean + 2, ulpdu, length);
    memset(clean + 2 + length, PEER->pad, 4);
    for (uint32_t i = 0; i < units; i++)
        make_unit(&making, clean + 4u * i);
    make_marker(&making);
    crc = PEER->crc ? peer_crc(0, out, making.used) : 0;
    crc ^= PEER->crc_xor;
    for (int i = 0; i < 4; i++)
        out[making.used++] = (uint8_t)(crc >> 8 * i);
    PEER->sent += (uint32_t)making.used;
    return making.used;
}

/* ---- sending ---- */

void peer_octets(const void *octets, size_t length)
{
    const uint8_t *at = octets;
    uint64_t end = tc_deadline(TESTBED_TIMEOUT);

    while (length) {
        ssize_t sent = send(PEER->fd, at, length, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent < 0) {
            ck_assert_int_eq(errno, EAGAIN);
            ck_assert(!tc_expired(end));
            wire_pass(1);
            continue;
        }
        at += sent;
        length -= (size_t)sent;
    }
}

void peer_single(const void *octets, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        peer_octets((const uint8_t *)octets + i, 1);
        wire_pass(2);
    }
}

void peer_ulpdu(const void *ulpdu, uint32_t length)
{
    static uint8_t frame[FPDU_ROOM];

    peer_octets(frame, peer_frame(frame, ulpdu, length));
}

void peer_fin(void)
{
    ck_assert_int_eq(shutdown(PEER->fd, SHUT_WR), 0);
}

void peer_rst(void)
{
    const struct linger linger = { .l_onoff = 1 };

    setsockopt(PEER->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(PEER->fd);
    PEER->fd = -1;
}

/* ---- receiving ---- */

/* Makes room for one large read behind the octets that are not parsed. */
static void make_room(void)
{
    const size_t wanted = 1u << 17;

    if (PEER->first + PEER->used + wanted <= PEER->room)
        return;
    memmove(PEER->octets, PEER->octets + PEER->first, PEER->used);
    PEER->first = 0;
    if (PEER->used + wanted <= PEER->room)
        return;
    PEER->room *= 2;
    PEER->octets = realloc(PEER->octets, PEER->room);
    ck_assert_ptr_nonnull(PEER->octets);
}

/* Reads everything that has come. */
static void drain(void)
{
    while (!PEER->ended) {
        size_t end;
        ssize_t got;

        make_room();
        end = PEER->first + PEER->used;
        got = recv(PEER->fd, PEER->octets + end, PEER->room - end, MSG_DONTWAIT);
        if (got > 0) {
            PEER->used += (size_t)got;
        } else if (got == 0 || errno == ECONNRESET) {
            PEER->ended = true;
            PEER->reset = got != 0;
        } else {
            ck_assert_int_eq(errno, EAGAIN);
            return;
        }
    }
}

struct taking {
    size_t used, start;
    uint32_t markers;
    bool begun, complete;
};

/* S-029: where a marker is due there is a valid one. */
static void take_marker(struct taking *taking)
{
    uint32_t position = PEER->seen + (uint32_t)taking->used;
    const uint8_t *at = PEER->octets + PEER->first + taking->used;
    uint32_t pointer = taking->begun ? (uint32_t)(taking->used - taking->start) : 0;

    if (!PEER->markers_out || position % MARK_PERIOD || taking->used + 4 > PEER->used)
        return;
    ck_assert_msg(get16(at) == 0 && get16(at + 2) == pointer,
                  "marker at %u: %04x %04x, expected 0000 %04x", position, get16(at), get16(at + 2),
                  pointer);
    taking->used += 4;
    taking->markers++;
}

/* The next four octets that are not a marker; NULL: they have not come. */
static const uint8_t *take_unit(struct taking *taking)
{
    take_marker(taking);
    if (taking->used + 4 > PEER->used)
        return NULL;
    if (!taking->begun)
        taking->start = taking->used;
    taking->begun = true;
    taking->used += 4;
    return PEER->octets + PEER->first + taking->used - 4;
}

/* Parses one FPDU from the front: clean octets without CRC, and its length. False: it has not come
 * completely. */
static bool take(uint8_t clean[static FPDU_ROOM], struct taking *taking)
{
    uint32_t units = 1, length = 0, field, crc;
    const uint8_t *four;

    for (uint32_t i = 0; i < units; i++) {
        four = take_unit(taking);
        if (!four)
            return false;
        memcpy(clean + 4u * i, four, 4);
        if (i == 0) {
            length = get16(clean);
            units = (2 + length + 3) / 4;
        }
    }
    take_marker(taking);
    if (taking->used + 4 > PEER->used)
        return false;
    four = PEER->octets + PEER->first + taking->used;
    field = (uint32_t)four[3] << 24 | (uint32_t)four[2] << 16 | (uint32_t)four[1] << 8 | four[0];
    crc = PEER->crc ? peer_crc(0, PEER->octets + PEER->first, taking->used) : field;
    ck_assert_msg(field == crc, "CRC %08x, expected %08x", field, crc); /* S-027, S-028 */
    for (uint32_t i = 2 + length; i < 4 * units; i++)
        ck_assert_msg(clean[i] == 0, "PAD octet %02x", clean[i]); /* S-026 */
    taking->used += 4;
    return true;
}

static void dissect_untagged(struct seen *seen)
{
    static const uint32_t queues[] = {
        [OP_READ] = 1, [OP_TERMINATE] = 2, [0xa] = 1, [0xb] = 3, [15] = 0
    };
    const uint8_t *at = seen->ulpdu;

    ck_assert_uint_ge(seen->length, UNTAGGED_LEN);
    seen->stag = get32(at + 2);
    seen->qn = get32(at + 6);
    seen->msn = get32(at + 10);
    seen->mo = get32(at + 14);
    seen->payload = at + UNTAGGED_LEN;
    seen->payload_length = seen->length - UNTAGGED_LEN;
    ck_assert_uint_eq(seen->qn, queues[seen->op]); /* S-048, S-054, S-058 */
    if (seen->op != OP_SEND_INV && seen->op != OP_SEND_SE_INV)
        ck_assert_uint_eq(seen->stag, 0); /* S-044 */
}

/* Checks the rules that hold for each FPDU: S-023, S-032, S-043. */
static void dissect(struct seen *seen)
{
    const uint8_t *at = seen->ulpdu;

    ck_assert_uint_ge(seen->length, TAGGED_LEN);
    ck_assert_uint_le(seen->length, 64768);
    ck_assert_uint_eq(at[0] & 0x3f, C_DV);
    ck_assert_uint_eq(at[1] & 0xf0, C_RV);
    seen->tagged = at[0] & C_TAGGED;
    seen->last = at[0] & C_LAST;
    seen->op = at[1] & 0xf;
    ck_assert_int_eq(seen->tagged, seen->op == OP_WRITE || seen->op == OP_RESPONSE);
    ck_assert_uint_lt(seen->op, 0xc);
    if (!seen->tagged) {
        dissect_untagged(seen);
        return;
    }
    seen->stag = get32(at + 2);
    seen->to = get64(at + 6);
    seen->payload = at + TAGGED_LEN;
    seen->payload_length = seen->length - TAGGED_LEN;
}

/* True: an FPDU was parsed, or the stream has ended. */
static bool look(bool *have)
{
    static uint8_t clean[FPDU_ROOM];
    struct taking taking = { 0 };
    struct seen *seen = &wire.seen;

    drain();
    *have = take(clean, &taking);
    if (!*have)
        return PEER->ended;
    seen->position = PEER->seen;
    seen->length = get16(clean);
    seen->octets = (uint32_t)taking.used;
    seen->markers = taking.markers;
    memcpy(seen->ulpdu, clean + 2, seen->length);
    PEER->seen += (uint32_t)taking.used;
    PEER->used -= taking.used;
    PEER->first += taking.used;
    return true;
}

bool wire_next(void)
{
    bool have = false;

    ck_assert_msg(fake_host_until(&wire.bed.fake, look(&have), TESTBED_TIMEOUT),
                  "neither FPDU nor end of the stream");
    if (have)
        dissect(&wire.seen);
    else
        ck_assert_msg(PEER->reset || !PEER->used, "the stream ends inside an FPDU");
    return have;
}

bool wire_silent(void)
{
    wire_pass(10);
    drain();
    return PEER->used == 0 && !PEER->ended;
}
