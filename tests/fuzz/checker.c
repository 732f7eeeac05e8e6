/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules for everything that a QP sends: see checker.h. */
#include "tests/fuzz/checker.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/octets.h"

#define MARKER_PERIOD 512u

uint32_t checker_crc(uint32_t state, const uint8_t *octets, size_t length)
{
    static uint32_t table[256];

    if (!table[1]) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t word = i;

            for (int bit = 0; bit < 8; bit++)
                word = word >> 1 ^ (word & 1 ? 0x82F63B78u : 0);
            table[i] = word;
        }
    }
    while (length--)
        state = state >> 8 ^ table[(state ^ *octets++) & 0xFF];
    return state;
}

void checker_init(struct checker *checker, bool crc, bool markers, size_t preamble)
{
    memset(checker, 0, offsetof(struct checker, body));
    memset(&checker->fin, 0, sizeof(*checker) - offsetof(struct checker, fin));
    checker->crc = crc;
    checker->markers = markers;
    checker->preamble = preamble;
    checker->crc_state = ~0u;
    for (int i = 0; i < 4; i++)
        checker->msn[i] = 1;
}

/* ---- messages ---- */

/* T bit and queue of each opcode; -1: never sent. */
static const struct {
    int tagged, qn;
    uint32_t fixed; /* ULPDU of this length, 0: any */
} opcodes[16] = {
    [0x0] = { 1, 0, 0 },  [0x1] = { 0, 1, 46 }, [0x2] = { 1, 0, 0 },  [0x3] = { 0, 0, 0 },
    [0x4] = { 0, 0, 0 },  [0x5] = { 0, 0, 0 },  [0x6] = { 0, 0, 0 },  [0x7] = { 0, 2, 0 },
    [0x8] = { 0, 0, 26 }, [0x9] = { 0, 0, 26 }, [0xA] = { 0, 1, 70 }, [0xB] = { 0, 3, 30 },
    [0xC] = { 0, 0, 0 },  [0xD] = { -1, 0, 0 }, [0xE] = { 0, 0, 0 },  [0xF] = { -1, 0, 0 },
};

static bool is_fused(uint8_t opcode)
{
    return opcode == 0xC || opcode == 0xE;
}

static void on_tagged(struct checker *j, uint8_t opcode, bool last, const uint8_t *p,
                      uint32_t length)
{
    uint32_t stag, octets;
    uint64_t to;

    FUZZ_CHECK(length >= 14);
    stag = get32(p + 2);
    to = get64(p + 6);
    octets = length - 14;
    if (j->open) {
        FUZZ_CHECK(opcode == j->opcode && stag == j->stag && to == j->to);
        FUZZ_CHECK(octets != 0); /* only a zero-length message has an empty segment */
    } else {
        FUZZ_CHECK(octets != 0 || last);
    }
    j->stag = stag;
    j->to = to + octets;
    if (opcode == 2 && j->on_response)
        j->on_response(j->arg, stag, to, octets, last);
}

static void ask(struct checker *j, const struct checker_request *asked)
{
    if (j->asked_in - j->asked_out == CHECKER_REQUESTS)
        j->asked_out++; /* answered by octets that the fuzzer did not compose */
    j->asked[j->asked_in++ % CHECKER_REQUESTS] = *asked;
}

static void on_untagged(struct checker *j, uint8_t opcode, bool last, const uint8_t *p,
                        uint32_t length)
{
    uint32_t word, qn, msn, mo;

    FUZZ_CHECK(length >= 18);
    word = get32(p + 2);
    qn = get32(p + 6);
    msn = get32(p + 10);
    mo = get32(p + 14);
    FUZZ_CHECK(qn == (uint32_t)opcodes[opcode].qn && msn == j->msn[qn]);
    FUZZ_CHECK(!word || opcode == 4 || opcode == 6 || is_fused(opcode));
    FUZZ_CHECK(mo == (j->open ? j->offset : 0));
    FUZZ_CHECK(!j->open || length > 18);
    j->offset = mo + (length - 18);
    j->msn[qn] += last;
    p += 18;
    if (opcode == 0x1)
        ask(j, &(struct checker_request){
                   .sink_stag = get32(p), .sink_to = get64(p + 4), .size = get32(p + 12) });
    if (opcode == 0xA) {
        FUZZ_CHECK(get32(p) == 0 || get32(p) == 2);
        ask(j, &(struct checker_request){ .atomic = true, .id = get32(p + 4) });
    }
}

static void on_terminate(struct checker *j, bool last, const uint8_t *p, uint32_t length)
{
    FUZZ_CHECK(length >= 22 && length <= 18 + 4 + 2 + 18 + 52);
    FUZZ_CHECK(last && get32(p + 6) == 2 && get32(p + 10) == 1 && get32(p + 14) == 0);
    FUZZ_CHECK(!(p[20] & 0x1F) && !p[21]); /* reserved */
    FUZZ_CHECK(p[20] & 0x80 || !(p[20] & 0x60) || length > 22);
    j->terminate = (uint16_t)(p[18] << 8 | p[19]);
    j->terminated = true;
}

static void on_ulpdu(struct checker *j, const uint8_t *p, uint32_t length)
{
    uint8_t opcode;
    bool last;

    FUZZ_CHECK(length >= 14);
    opcode = p[1] & 0xF;
    last = p[0] & 0x40;
    FUZZ_CHECK((p[0] & 0x3F) == 1 && (p[1] & 0xF0) == 0x40); /* versions; reserved bits are zero */
    FUZZ_CHECK(opcodes[opcode].tagged == p[0] >> 7);
    FUZZ_CHECK(j->fused || !is_fused(opcode));
    for (uint32_t i = 0; i < 14; i++)
        j->digest = (j->digest ^ p[i]) * 0x100000001B3u;
    if (opcode == 7) {
        on_terminate(j, last, p, length);
        return;
    }
    FUZZ_CHECK(!opcodes[opcode].fixed || (last && length == opcodes[opcode].fixed));
    FUZZ_CHECK(!j->open || opcode == j->opcode); /* no message interrupts another one */
    if (opcodes[opcode].tagged)
        on_tagged(j, opcode, last, p, length);
    else
        on_untagged(j, opcode, last, p, length);
    j->opcode = opcode;
    j->open = !last;
}

/* ---- FPDUs and markers ---- */

/* Octets of the FPDU before its CRC field, if its length is known. */
static uint32_t covered(const struct checker *j)
{
    uint32_t length;

    if (j->used < 2)
        return 2;
    length = (uint32_t)j->body[0] << 8 | j->body[1];
    return (2 + length + 3) & ~3u;
}

static void end_fpdu(struct checker *j)
{
    uint32_t length = (uint32_t)j->body[0] << 8 | j->body[1], end = covered(j);
    const uint8_t *field = j->body + end;
    uint32_t crc = (uint32_t)field[0] | (uint32_t)field[1] << 8 | (uint32_t)field[2] << 16 |
                   (uint32_t)field[3] << 24;

    for (uint32_t i = 2 + length; i < end; i++)
        FUZZ_CHECK(j->body[i] == 0);
    FUZZ_CHECK(crc == (j->crc ? ~j->crc_state : 0) ||
               (j->crc && j->source_changed && j->source_changed(j->arg)));
    FUZZ_CHECK(!j->terminated); /* nothing follows a Terminate */
    j->fpdus++;
    on_ulpdu(j, j->body + 2, length);
    j->used = 0;
    j->crc_state = ~0u;
}

/* A marker points to its FPDU's length field; right in front of that field it is 0. */
static void end_marker(struct checker *j)
{
    uint64_t at = j->position - 4;
    uint32_t distance = j->used ? (uint32_t)(at - j->start) : 0;

    j->in_marker = 0;
    FUZZ_CHECK(!j->marker[0] && !j->marker[1]);
    FUZZ_CHECK(((uint32_t)j->marker[2] << 8 | j->marker[3]) == distance);
}

static void on_octet(struct checker *j, uint8_t octet)
{
    bool marker = j->in_marker || (j->markers && j->position % MARKER_PERIOD == 0);

    FUZZ_CHECK(!j->terminated);
    if (marker) {
        j->marker[j->in_marker++] = octet;
    } else {
        if (!j->used)
            j->start = j->position;
        j->body[j->used++] = octet;
    }
    if (marker || j->used <= covered(j))
        j->crc_state = checker_crc(j->crc_state, &octet, 1);
    j->position++;
    if (j->in_marker == 4)
        end_marker(j);
    else if (!marker && j->used == covered(j) + 4)
        end_fpdu(j);
}

void checker_octets(struct checker *checker, const uint8_t *octets, size_t length)
{
    FUZZ_CHECK(!checker->fin || !length);
    checker->octets += length;
    for (; length && checker->preamble; length--, octets++)
        checker->preamble--;
    while (length--)
        on_octet(checker, *octets++);
}

void checker_fin(struct checker *checker)
{
    FUZZ_CHECK(!checker->used && !checker->in_marker);
    checker->fin = true;
}
