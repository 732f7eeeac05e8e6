/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer in Full Operation that works on raw octets: sends and receives FPDUs, see peer.h.
 * Nothing here uses the provider. */
#include "peer.h"

#include <sys/socket.h>

#define PEER (&wire.peer)

/* ---- sending ---- */

/* What holds for the peer's own FPDUs. */
size_t peer_frame(uint8_t *out, const void *ulpdu, uint32_t length)
{
    struct framing framing = {
        .crc = PEER->crc,
        .markers = PEER->markers_in,
        .position = PEER->sent,
        .pad = PEER->pad,
        .marker_reserved = PEER->marker_reserved,
        .marker_xor = PEER->marker_xor,
        .marker_only = PEER->marker_only,
        .crc_xor = PEER->crc_xor,
    };
    size_t size = fpdu_make(&framing, out, ulpdu, length);

    PEER->sent = framing.position;
    return size;
}

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

/* Makes room for one large read behind the octets that are not parsed: each of those is moved once
 * at most, or the buffer grows. */
static void make_room(void)
{
    const size_t wanted = 1u << 17;

    if (PEER->first + PEER->used + wanted <= PEER->room)
        return;
    if (PEER->first >= PEER->used) {
        memcpy(PEER->octets, PEER->octets + PEER->first, PEER->used);
        PEER->first = 0;
    }
    if (PEER->first + PEER->used + wanted <= PEER->room)
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

/* Takes one FPDU from the front: S-026 to S-029. False: it has not come completely. */
static bool take(struct fpdu *fpdu)
{
    const struct framing framing = { .crc = PEER->crc,
                                     .markers = PEER->markers_out,
                                     .position = PEER->seen };
    enum fpdu_result result = fpdu_take(&framing, PEER->octets + PEER->first, PEER->used, fpdu);

    if (result == FPDU_PARTIAL)
        return false;
    ck_assert_msg(result != FPDU_BAD_MARKER, "marker %08x, expected %08x", fpdu->wrong,
                  fpdu->wanted);
    ck_assert_msg(result != FPDU_BAD_CRC, "CRC %08x, expected %08x", fpdu->field, fpdu->crc);
    ck_assert_msg(result != FPDU_BAD_PAD, "a PAD octet is not 0");
    return true;
}

/* Checks the rules that hold for each FPDU: S-023, S-032, S-043, S-044, S-048, S-054, S-058. */
static void dissect(struct seen *seen)
{
    struct segment segment;

    ck_assert(segment_read(seen->ulpdu, seen->length, &segment));
    ck_assert_uint_le(seen->length, 64768);
    ck_assert_uint_eq(segment.ddp & 0x3f, C_DV);
    ck_assert_uint_eq(segment.rdmap & 0xf0, C_RV);
    ck_assert_int_eq(segment.tagged, segment.op == OP_WRITE || segment.op == OP_RESPONSE);
    ck_assert_uint_lt(segment.op, 0xc);
    if (!segment.tagged) {
        ck_assert_uint_eq(segment.qn, queue_of(segment.op));
        if (segment.op != OP_SEND_INV && segment.op != OP_SEND_SE_INV)
            ck_assert_uint_eq(segment.stag, 0);
    }
    seen->tagged = segment.tagged;
    seen->last = segment.last;
    seen->op = segment.op;
    seen->stag = segment.stag;
    seen->to = segment.to;
    seen->qn = segment.qn;
    seen->msn = segment.msn;
    seen->mo = segment.mo;
    seen->payload = segment.payload;
    seen->payload_length = segment.payload_length;
}

/* True: an FPDU was parsed, or the stream has ended. */
static bool look(bool *have)
{
    static struct fpdu fpdu;
    struct seen *seen = &wire.seen;

    drain();
    *have = take(&fpdu);
    if (!*have)
        return PEER->ended;
    seen->position = PEER->seen;
    seen->length = fpdu.length;
    seen->octets = fpdu.octets;
    seen->markers = fpdu.markers;
    memcpy(seen->ulpdu, fpdu.ulpdu, fpdu.length);
    PEER->seen += fpdu.octets;
    PEER->used -= fpdu.octets;
    PEER->first += fpdu.octets;
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
