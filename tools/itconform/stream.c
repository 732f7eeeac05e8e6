/* SPDX-License-Identifier: BSD-3-Clause */
/* A trial in Full Operation: FPDUs to the peer, and what has to come from it. */
#include "link.h"

#include "tools/common/tool.h"

#include <string.h>

#define SILENCE_MS 60 /* a longer wait proves no more */

/* ---- to the peer ---- */

void send_ulpdu(struct trial *trial, const void *ulpdu, uint32_t length)
{
    static uint8_t fpdu[FPDU_ROOM];

    if (!trial->over)
        send_fpdu(trial, fpdu, fpdu_make(&trial->link.out, fpdu, ulpdu, length));
}

/* ---- from the peer ---- */

/* What each segment has to be, whatever it is. */
static void check_segment(struct trial *trial)
{
    const struct segment *segment = &trial->segment;

    if (!segment_read(trial->fpdu.ulpdu, trial->fpdu.length, &trial->segment)) {
        fail(trial, "a ULPDU of %u octets is shorter than its header", trial->fpdu.length);
        return;
    }
    REQUIRE(trial, (segment->ddp & 0x3f) == C_DV,
            "DDP control octet %02x: version or reserved bits", segment->ddp);
    REQUIRE(trial, (segment->rdmap & 0xf0) == C_RV,
            "RDMAP control octet %02x: version or reserved bits", segment->rdmap);
    REQUIRE(trial, segment->op < 0xc, "opcode %x is not assigned", segment->op);
    REQUIRE(trial, segment->tagged == (segment->op == OP_WRITE || segment->op == OP_RESPONSE),
            "the T bit does not fit opcode %x", segment->op);
    REQUIRE(trial, segment->tagged || segment->qn == queue_of(segment->op), "opcode %x on queue %u",
            segment->op, segment->qn);
}

/* False: more octets are needed. */
static bool parse(struct trial *trial)
{
    struct fpdu *fpdu = &trial->fpdu;
    struct link *link = &trial->link;

    switch (fpdu_take(&link->in, link->octets, link->used, fpdu)) {
    case FPDU_PARTIAL: return false;
    case FPDU_BAD_MARKER:
        fail(trial, "marker %08x where it ought to be %08x", fpdu->wrong, fpdu->wanted);
        return false;
    case FPDU_BAD_CRC:
        fail(trial, "CRC %08x where it ought to be %08x", fpdu->field, fpdu->crc);
        return false;
    case FPDU_BAD_PAD: fail(trial, "a PAD octet is not zero"); return false;
    default: break;
    }
    link->in.position += fpdu->octets;
    link_take(link, fpdu->octets);
    check_segment(trial);
    return !trial->over;
}

static bool hear_until(struct trial *trial, uint64_t deadline)
{
    struct link *link = &trial->link;

    while (!trial->over) {
        if (link->used && parse(trial))
            return true;
        if (trial->over)
            return false;
        if (link->ended) {
            REQUIRE(trial, link->reset || !link->used, "the stream ends inside an FPDU");
            return false;
        }
        if (!link_read(trial, deadline))
            fail(trial, "neither an FPDU nor the end of the stream within %u ms",
                 target.patience_ms);
    }
    return false;
}

bool hear_fpdu(struct trial *trial)
{
    return hear_until(trial, deadline_in(target.patience_ms));
}

void hear_nothing(struct trial *trial)
{
    uint64_t deadline = deadline_in(SILENCE_MS);
    struct link *link = &trial->link;

    while (!trial->over && !link->used && !link->ended && link_read(trial, deadline))
        ;
    REQUIRE(trial, !link->used, "octets come where none may come");
    REQUIRE(trial, !link->ended, "the peer ends the stream (%s)", link->reset ? "RST" : "FIN");
}

/* ---- ends ---- */

void hear_end(struct trial *trial, unsigned int ms)
{
    uint64_t deadline = deadline_in(ms);
    struct link *link = &trial->link;

    while (!trial->over && !link->ended) {
        while (link->used && parse(trial))
            REQUIRE(trial, trial->segment.op != OP_TERMINATE, "a Terminate comes before the end");
        if (!trial->over && !link->ended && !link_read(trial, deadline))
            fail(trial, "the peer does not end the stream within %u ms", ms);
    }
}

void hear_fin(struct trial *trial, unsigned int ms)
{
    hear_end(trial, ms);
    REQUIRE(trial, !trial->link.reset, "RST instead of FIN");
}

/* ---- a Read of zero length ---- */

void expect_zero_read(struct trial *trial, uint32_t stag, uint64_t to, uint32_t source_stag,
                      uint64_t source_to)
{
    const struct segment *segment = &trial->segment;
    struct link *link = &trial->link;
    uint8_t ulpdu[64];
    bool heard;

    if (!trial->over && link->enhanced && link->peer_ird == 0)
        skip(trial, "the peer's IRD is 0: no Read can tell whether it goes on");
    send_ulpdu(trial, ulpdu,
               put_read(ulpdu, link->read_msn++, stag, to, 0, source_stag, source_to));
    while ((heard = hear_fpdu(trial)) && segment->op != OP_RESPONSE && segment->op != OP_TERMINATE)
        ;
    REQUIRE(trial, heard, "%s instead of the answer to a Read of zero length",
            link->reset ? "RST" : "FIN");
    REQUIRE(trial, segment->op == OP_RESPONSE,
            "a Terminate instead of the answer to a Read of zero length");
    REQUIRE(trial, segment->last && segment->payload_length == 0,
            "the answer to a Read of zero length has L=%d and %u octets", segment->last,
            segment->payload_length);
    REQUIRE(trial, segment->stag == stag && segment->to == to,
            "the answer is for STag %08x, TO %llx; asked was %08x, %llx", segment->stag,
            (unsigned long long)segment->to, stag, (unsigned long long)to);
}

void expect_alive(struct trial *trial)
{
    expect_zero_read(trial, 0x51ca0000u + trial->link.read_msn, 0x1122334455667788u, 0, 0);
}

/* ---- Terminates ---- */

/* Stacks write errors of the LLP with type 3 or 0. */
static uint16_t canonical(uint16_t value)
{
    return (value & 0xff00) == 0x2300 ? (uint16_t)(0x2000 | (value & 0xff)) : value;
}

/* Where the value stands in the list; `count` if it does not. */
static size_t place_of(uint16_t value, const uint16_t *values, size_t count)
{
    size_t at = 0;

    while (at < count && canonical(values[at]) != canonical(value))
        at++;
    return at;
}

static void check_value(struct trial *trial, const uint16_t *values, size_t count)
{
    uint16_t value = trial->terminate.value;
    /* Some values without flags can be read both ways. The order is judged by S-058. */
    uint16_t turned = (uint16_t)((value << 4 & 0xf000) | (value >> 4 & 0x0f00) | (value & 0xff));
    size_t at = place_of(value, values, count);
    bool swapped = trial->terminate.swapped;

    if (at == count && !swapped && !trial->terminate.has_ddp) {
        at = place_of(turned, values, count);
        swapped = at < count;
        value = swapped ? turned : value;
    }
    if (at == 0)
        note(trial, "Terminate %04x%s", value, swapped ? " in the other bit order" : "");
    else if (at < count)
        note(trial, "Terminate %04x; %04x is right", value, values[0]);
    if (at < count)
        return;
    fail(trial, "Terminate %04x; %04x is right%s", trial->terminate.value, values[0],
         trial->terminate.swapped ? " (read with its bits in the other order)" : "");
}

void hear_terminate(struct trial *trial, const uint16_t *values, size_t count)
{
    const struct segment *segment = &trial->segment;
    bool heard;

    while ((heard = hear_fpdu(trial)) && segment->op != OP_TERMINATE)
        ;
    REQUIRE(trial, heard, "the peer closes (%s) without a Terminate; %04x is right",
            trial->link.reset ? "RST" : "FIN", values[0]);
    REQUIRE(trial, terminate_read(segment->payload, segment->payload_length, &trial->terminate),
            "a Terminate of %u octets", segment->payload_length);
    if (!trial->over)
        check_value(trial, values, count);
}
