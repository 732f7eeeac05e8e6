/* SPDX-License-Identifier: BSD-3-Clause */
/* The peer of a fuzzed QP: see peer.h. */
#include "tests/fuzz/peer.h"

#include <string.h>

#include "tests/fuzz/octets.h"

#define MARKER_PERIOD 512u
#define ULPDU_MAX     65535u
#define IMMEDIATE     0x494D4D21u

/* ---- FPDUs ---- */

struct output {
    struct fuzz_wire *wire;
    uint8_t *out;
    size_t used, room;
    uint32_t crc;
    uint64_t start;    /* position of the length field; UINT64_MAX: not yet */
    uint64_t position; /* wire->position, updated if all octets fit */
    bool bad_marker;
};

static void add(struct output *o, uint8_t octet)
{
    if (o->used < o->room)
        o->out[o->used] = octet;
    o->used++;
    o->position++;
    o->crc = checker_crc(o->crc, &octet, 1);
}

static void add_octets(struct output *o, const uint8_t *octets, size_t length)
{
    while (length) {
        if (o->wire->markers && o->position % MARKER_PERIOD == 0) {
            uint64_t at = o->position;
            uint32_t back = o->start == UINT64_MAX ? 0 : (uint32_t)(at - o->start);

            if (o->bad_marker)
                back ^= 8;
            add(o, 0);
            add(o, 0);
            add(o, (uint8_t)(back >> 8));
            add(o, (uint8_t)back);
        }
        if (o->start == UINT64_MAX)
            o->start = o->position;
        add(o, *octets++);
        length--;
    }
}

/* Records for the oracle an FPDU that is valid at the MPA level. */
static void note(struct fuzz_wire *wire, const uint8_t *p, uint32_t length)
{
    struct testbed *w = wire->bed;
    uint8_t opcode = length >= 14 ? p[1] & 0xF : 0xF, *memory;
    bool write = w->shape.flags & RI_QP_WRITE_ENABLE;

    if (opcode == 0 && (p[0] & 0x80) && write &&
        testbed_allows(w, get32(p + 2), get64(p + 6), length - 14, RI_ACCESS_REMOTE_WRITE,
                       &memory) &&
        memory)
        testbed_permit(wire, memory, p + 14, length - 14);
    if (opcode == 1 && length == 46 && !(p[0] & 0x80)) {
        struct wanted *wanted = &wire->wanted[wire->wanted_in % TESTBED_WANTED];

        if (wire->wanted_in - wire->wanted_out == TESTBED_WANTED)
            return;
        *wanted = (struct wanted){ .sink_stag = get32(p + 18),
                                   .sink_to = get64(p + 22),
                                   .size = get32(p + 30) };
        wanted->allowed = !wanted->size ||
                          testbed_allows(w, get32(p + 34), get64(p + 38), wanted->size,
                                         RI_ACCESS_REMOTE_READ, &memory);
        wire->wanted_in++;
    }
    if (opcode == 0xA && length == 70 && !(p[0] & 0x80) &&
        testbed_allows(w, get32(p + 26), get64(p + 30), 8, RI_ACCESS_REMOTE_ATOMIC, &memory) &&
        memory)
        testbed_permit(wire, memory, NULL, 8);
}

size_t peer_fpdu(struct fuzz_wire *wire, const uint8_t *ulpdu, uint32_t length,
                 enum peer_fault fault, uint8_t *out, size_t room)
{
    struct output o = { .wire = wire,
                        .out = out,
                        .room = room,
                        .crc = ~0u,
                        .start = UINT64_MAX,
                        .position = wire->position,
                        .bad_marker = fault == PEER_BAD_MARKER };
    const uint8_t pad[3] = { fault == PEER_BAD_PAD ? 0x5A : 0 };
    uint8_t head[2], tail[4];
    uint32_t crc;

    if (length > ULPDU_MAX)
        return 0;
    if (wire->bed->permit_count == TESTBED_PERMITS)
        wire->raw = true; /* more than the oracle can record */
    put16(head, length);
    add_octets(&o, head, 2);
    add_octets(&o, ulpdu, length);
    add_octets(&o, pad, (0u - (2 + length)) & 3u);
    /* A marker that is due in front of the CRC field is covered by it. */
    crc = o.crc;
    if (wire->markers && o.position % MARKER_PERIOD == 0) {
        uint32_t back = (uint32_t)(o.position - o.start) ^ (o.bad_marker ? 8 : 0);

        add(&o, 0);
        add(&o, 0);
        add(&o, (uint8_t)(back >> 8));
        add(&o, (uint8_t)back);
        crc = o.crc;
    }
    crc = (wire->crc ? ~crc : 0) ^ (fault == PEER_BAD_CRC ? 0x10 : 0);
    for (int i = 0; i < 4; i++)
        tail[i] = (uint8_t)(crc >> 8 * i);
    add_octets(&o, tail, 4);
    if (o.used > room)
        return 0;
    wire->position = o.position;
    if (fault != PEER_BAD_CRC || !wire->crc)
        note(wire, ulpdu, length);
    return o.used;
}

/* Nothing is read behind Sends that wait if they are many, or if the peer's stream has ended. */
static bool holds_input(const struct live_qp *live)
{
    const struct stream *stream = container_of(live->qp, struct iwarp_qp, core.base)->stream;

    return stream && atomic_load(&stream->attention) & ATTEND_HELD;
}

/* A lone Write that was read and caused no error has placed its payload. */
static void look_at_write(struct testbed *w, const struct fuzz_wire *wire)
{
    const struct permit *permit = &w->permits[0];

    if (w->permit_count != 1 || permit->wire != wire || !permit->from)
        return;
    if (wire->closed || wire->ended || wire->raw)
        return;
    for (uint32_t i = 0; i < TESTBED_QPS; i++) {
        const struct live_qp *live = &w->qps[i];

        if (live->wire == wire && live->qp && testbed_state(w, i) == RI_QPS_RTS &&
            !holds_input(live))
            FUZZ_CHECK(!memcmp(permit->memory, permit->from, permit->length));
    }
}

/* Once nothing is late the permits have been used, or their wires are closed. */
static void settle(struct testbed *w, const struct fuzz_wire *wire)
{
    if (testbed_is_late(w))
        return;
    look_at_write(w, wire);
    w->permit_count = 0;
}

/* The octets of what came before stand no more where they stood. */
static void forget_octets(struct testbed *w)
{
    for (uint32_t i = 0; i < w->permit_count; i++)
        w->permits[i].from = NULL;
}

void peer_send(struct testbed *w, struct fuzz_wire *wire, const uint8_t *ulpdu, uint32_t length,
               enum peer_fault fault, size_t piece)
{
    static uint8_t fpdu[ULPDU_MAX + 1024];
    size_t octets;

    if (!testbed_is_late(w))
        w->permit_count = 0; /* its wire was closed meanwhile */
    forget_octets(w);
    octets = peer_fpdu(wire, ulpdu, length, fault, fpdu, sizeof(fpdu));
    testbed_deliver(w, wire, fpdu, octets, piece);
    settle(w, wire);
}

void peer_send_late(struct testbed *w, struct fuzz_wire *wire)
{
    testbed_deliver_late(w, wire);
    settle(w, wire);
}

/* ---- segments ---- */

static const uint32_t lengths[] = { 0,    1,    2,    3,    4,    5,    7,     8,
                                    16,   17,   52,   100,  128,  255,  256,   257,
                                    500,  508,  512,  777,  1000, 1001, 1024,  1448,
                                    2048, 2049, 4096, 5000, 8192, 8193, 20000, 65535 };

uint32_t peer_length(uint8_t octet)
{
    return octet < 0x80 ? octet & 0x3F : lengths[octet & 31];
}

/* Mostly inside; the limits and values beyond them on request. */
static uint64_t pick_to(const struct testbed *w, uint8_t which, uint8_t octet, uint32_t length)
{
    uint32_t size;
    uint64_t base = testbed_base(w, which, &size);

    switch (octet) {
    case 0xF0: return base - 1;
    case 0xF1: return base + size - length;
    case 0xF2: return base + size - length + 1;
    case 0xF3: return base + size;
    case 0xF4: return UINT64_MAX;
    case 0xF5: return 0u - (uint64_t)length;
    case 0xF6: return 1u - (uint64_t)length;
    case 0xF7: return 0;
    default: return base + 8u * octet;
    }
}

#define FAULT_L    0x01
#define FAULT_DV   0x02
#define FAULT_RV   0x04
#define FAULT_T    0x08
#define FAULT_RSVD 0x10 /* receivers ignore it */
#define FAULT_MSN  0x20
#define FAULT_MO   0x40
#define FAULT_CUT  0x80

static uint8_t pattern;

void peer_begin(void)
{
    pattern = 1;
}

static void fill(uint8_t *to, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        to[i] = pattern++;
}

static uint32_t put_tagged(struct testbed *w, struct fuzz_wire *wire, uint8_t *p, uint8_t opcode,
                           struct reader *reader)
{
    uint8_t which = read8(reader), where = read8(reader);
    uint32_t length = peer_length(read8(reader));

    if (length > ULPDU_MAX - 14)
        length = ULPDU_MAX - 14;
    put32(p + 2, testbed_stag(w, which & 0xF, which >> 4));
    if (where == 0xFF) /* continues where the last one ended */
        put64(p + 6, wire->tagged_to);
    else
        put64(p + 6, pick_to(w, which & 0xF, where, length));
    wire->tagged_to = get64(p + 6) + length;
    fill(p + 14, length);
    (void)opcode;
    return 14 + length;
}

static uint32_t put_request(struct testbed *w, struct fuzz_wire *wire, uint8_t *p, bool atomic,
                            struct reader *reader)
{
    uint8_t which = read8(reader), where = read8(reader);
    uint32_t length = atomic ? 8 : peer_length(read8(reader)), stag, head = atomic ? 12 : 0;
    uint64_t to = pick_to(w, which & 0xF, where, length);

    stag = testbed_stag(w, which & 0xF, which >> 4);
    put32(p + 6, 1);
    put32(p + 10, wire->request_msn++);
    p += 18;
    if (atomic) {
        uint8_t op = read8(reader);

        put32(p, op & 0x10 ? op : (op & 1) * 2);
        put32(p + 4, wire->request_msn);
        put32(p + 8, stag);
        put64(p + head, to);
        for (int i = 20; i < 52; i++)
            p[i] = op & 0x20 ? pattern++ : op & 0x40 ? 0xFF : (uint8_t)(i % 8 == 7);
        return 70;
    }
    put32(p, 0x66000000u + wire->request_msn);
    put64(p + 4, 0x1000);
    put32(p + 12, which == 0xFF ? UINT32_MAX : length);
    put32(p + 16, stag);
    put64(p + 20, to);
    return 46;
}

static uint32_t put_send(struct testbed *w, struct fuzz_wire *wire, uint8_t *p, uint8_t opcode,
                         struct reader *reader)
{
    bool immediate = opcode == 8 || opcode == 9;
    uint32_t length = immediate ? 8 : peer_length(read8(reader));

    if (length > ULPDU_MAX - 18)
        length = ULPDU_MAX - 18;
    if (opcode == 4 || opcode == 6) {
        uint8_t which = read8(reader);

        put32(p + 2, testbed_stag(w, which & 0xF, which >> 4));
    }
    if (opcode == 0xC || opcode == 0xE)
        put32(p + 2, IMMEDIATE);
    put32(p + 10, wire->send_msn);
    put32(p + 14, wire->send_offset);
    fill(p + 18, length);
    if (p[0] & 0x40) {
        wire->send_msn++;
        wire->send_offset = 0;
    } else {
        wire->send_offset += length;
    }
    return 18 + length;
}

static uint32_t put_terminate(uint8_t *p, struct reader *reader)
{
    uint32_t length = read8(reader) & 63;

    put32(p + 6, 2);
    put32(p + 10, 1);
    for (uint32_t i = 0; i < length; i++)
        p[18 + i] = read8(reader);
    return 18 + length;
}

static uint32_t compose(struct testbed *w, struct fuzz_wire *wire, uint8_t *p, uint8_t opcode,
                        struct reader *reader)
{
    switch (opcode) {
    case 0x0:
    case 0x2: return put_tagged(w, wire, p, opcode, reader);
    case 0x1:
    case 0xA: return put_request(w, wire, p, opcode == 0xA, reader);
    case 0x7: return put_terminate(p, reader);
    case 0xB:
        put32(p + 6, 3);
        put32(p + 10, wire->response_msn++);
        put32(p + 18, read8(reader));
        return 30;
    default: return put_send(w, wire, p, opcode, reader);
    }
}

/* Octet 0: opcode, L, CRC fault; octet 1: other faults, mostly 0. */
void peer_segment(struct testbed *w, struct fuzz_wire *wire, struct reader *reader, size_t piece)
{
    static uint8_t ulpdu[ULPDU_MAX + 1];
    uint8_t first = read8(reader), faults = first & 0x80 ? read8(reader) : 0;
    uint8_t opcode = first & 0xF;
    uint32_t length;

    memset(ulpdu, 0, 80);
    ulpdu[0] = (uint8_t)((opcode == 0 || opcode == 2 ? 0x80 : 0) | (first & 0x10 ? 0 : 0x40) | 1);
    ulpdu[1] = (uint8_t)(0x40 | opcode);
    length = compose(w, wire, ulpdu, opcode, reader);
    if (faults & FAULT_L)
        ulpdu[0] ^= 0x40;
    if (faults & FAULT_DV)
        ulpdu[0] ^= 2;
    if (faults & FAULT_RV)
        ulpdu[1] ^= 0x80;
    if (faults & FAULT_T)
        ulpdu[0] ^= 0x80;
    if (faults & FAULT_RSVD) {
        ulpdu[0] |= 0x3C;
        ulpdu[1] |= 0x30;
    }
    if ((faults & FAULT_MSN) && !(ulpdu[0] & 0x80))
        ulpdu[13] = (uint8_t)(ulpdu[13] + read8(reader));
    if ((faults & FAULT_MO) && !(ulpdu[0] & 0x80))
        put32(ulpdu + 14, (uint32_t)(int32_t)(int16_t)read16(reader));
    if (faults & FAULT_CUT)
        length = read8(reader) < length ? length - read8(reader) % (length + 1) : length;
    peer_send(w, wire, ulpdu, length, (enum peer_fault)(first >> 5 & 3), piece);
}

/* ---- answers ---- */

static void answer_atomic(struct testbed *w, struct fuzz_wire *wire, struct checker_request *asked,
                          struct reader *reader, size_t piece)
{
    uint8_t ulpdu[30] = { 0x41, 0x4B }, fault = read8(reader);

    put32(ulpdu + 6, fault == 1 ? 1 : 3);
    put32(ulpdu + 10, wire->response_msn + (fault == 2));
    put32(ulpdu + 14, fault == 3);
    put32(ulpdu + 18, asked->id + (fault == 4));
    put64(ulpdu + 22, 0x0102030405060708u);
    wire->response_msn++;
    wire->checker.asked_out++;
    peer_send(w, wire, ulpdu, sizeof(ulpdu) - (fault == 5), PEER_GOOD, piece);
}

/* Octet 0: length (0: all), octet 1: faults. */
void peer_answer(struct testbed *w, struct fuzz_wire *wire, struct reader *reader, size_t piece)
{
    static uint8_t ulpdu[ULPDU_MAX + 1];
    struct checker *checker = &wire->checker;
    struct checker_request *asked = &checker->asked[checker->asked_out % CHECKER_REQUESTS];
    uint32_t left, length;
    uint8_t much, fault;
    bool last;

    if (checker->asked_in == checker->asked_out)
        return;
    if (asked->atomic) {
        answer_atomic(w, wire, asked, reader, piece);
        return;
    }
    much = read8(reader);
    fault = read8(reader);
    left = asked->size - asked->answered;
    length = much && peer_length(much) < left ? peer_length(much) : left;
    last = length == left;
    if (fault == 1)
        length += 4;
    if (length > ULPDU_MAX - 14)
        length = ULPDU_MAX - 14;
    if (fault == 2)
        last = !last;
    ulpdu[0] = (uint8_t)(0x81 | (last ? 0x40 : 0));
    ulpdu[1] = 0x42;
    put32(ulpdu + 2, fault == 3 ? testbed_stag(w, read8(reader), 0) : asked->sink_stag);
    put64(ulpdu + 6, asked->sink_to + asked->answered + (fault == 4));
    fill(ulpdu + 14, length);
    asked->answered += length;
    checker->asked_out += last;
    peer_send(w, wire, ulpdu, 14 + length, PEER_GOOD, piece);
}
