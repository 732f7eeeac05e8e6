/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA in Full Operation: FPDUs that are cut, damaged or unusual, and the form of the peer's own. */
#include "judges.h"

#include <string.h>

static const struct start without_crc = { .flags = F_S, .rev = 2, .first = 8, .second = 8 };

static uint32_t zero_write(uint8_t *ulpdu)
{
    return put_write(ulpdu, true, 0x01020304, 0, NULL, 0);
}

/* ---- what is taken ---- */

/* Each octet of a Read of zero length alone, then two of them in one. */
void fpdu_split(struct trial *trial)
{
    uint8_t ulpdu[64], fpdu[256];
    struct link *link = &trial->link;
    size_t size, more;

    begin(trial, &usual);
    if (trial->over)
        return;
    size = fpdu_make(&link->out, fpdu, ulpdu, put_read(ulpdu, link->read_msn++, 7, 8, 0, 0, 0));
    for (size_t i = 0; i < size; i++)
        send_fpdu(trial, fpdu + i, 1);
    while (hear_fpdu(trial) && trial->segment.op != OP_RESPONSE)
        ;
    REQUIRE(trial, trial->segment.op == OP_RESPONSE, "no answer to a Read octet by octet");
    if (trial->over)
        return;
    size = fpdu_make(&link->out, fpdu, ulpdu, put_read(ulpdu, link->read_msn++, 7, 8, 0, 0, 0));
    more = fpdu_make(&link->out, fpdu + size, ulpdu,
                     put_read(ulpdu, link->read_msn++, 7, 8, 0, 0, 0));
    send_fpdu(trial, fpdu, size + more);
    for (int i = 0; i < 2; i++) {
        while (hear_fpdu(trial) && trial->segment.op != OP_RESPONSE)
            ;
        REQUIRE(trial, trial->segment.op == OP_RESPONSE, "no answer to Reads in one segment");
    }
}

/* The largest ULPDU is read as one: what is wrong with it is its STag. */
void fpdu_longest(struct trial *trial)
{
    static uint8_t ulpdu[ULPDU_MAX];

    begin(trial, &usual);
    send_ulpdu(trial, ulpdu, put_write(ulpdu, true, 0, 0, NULL, ULPDU_MAX - TAGGED_LEN));
    expect_terminate(trial, 0x1100, 0x1102);
}

void fpdu_no_crc(struct trial *trial)
{
    uint8_t ulpdu[64];

    begin(trial, &without_crc);
    if (!trial->over && trial->link.out.crc)
        skip(trial, "the peer wants CRC always");
    for (int i = 0; i < 2; i++) {
        trial->link.out.crc_xor = i ? 0xbadc0de5u : 0xffffffffu;
        send_ulpdu(trial, ulpdu, zero_write(ulpdu));
        expect_alive(trial);
    }
}

/* A Send without another fault would need a buffer. One on a queue that does not exist has PAD of
 * two octets, and is refused for its queue. */
void fpdu_pad(struct trial *trial)
{
    uint8_t ulpdu[64];

    begin(trial, &usual);
    trial->link.out.pad = 0xff;
    send_ulpdu(trial, ulpdu,
               put_untagged(ulpdu, C_LAST | C_DV, C_RV | OP_SEND, 0, 9, 1, 0, "pad", 2));
    expect_terminate(trial, 0x1201, 0x0206);
}

/* ---- what is refused ---- */

void fpdu_crc(struct trial *trial)
{
    static const uint32_t damage[] = { 1, 0x80000000u, 0xffffffffu };
    uint8_t ulpdu[64];

    for (int i = 0; i < 3; i++) {
        begin(trial, &usual);
        trial->link.out.crc_xor = damage[i];
        send_ulpdu(trial, ulpdu, zero_write(ulpdu));
        expect_terminate(trial, 0x2002, 0x0202);
    }
}

/* A ULPDU of these octets is too short for its header, or for the control octets. */
static void short_ulpdu(struct trial *trial, const uint8_t *ulpdu, uint32_t length)
{
    begin(trial, &usual);
    send_ulpdu(trial, ulpdu, length);
}

void fpdu_shortest(struct trial *trial)
{
    static const uint8_t octets[2] = { C_TAGGED | C_LAST | C_DV, C_RV };

    for (uint32_t length = 0; length < 2; length++) {
        short_ulpdu(trial, octets, length);
        expect_terminate(trial, 0x1000, 0x2003, 0x0203, 0x1104, 0x1206);
    }
}

/* Behind the FPDU with the wrong CRC comes a Read that is right: it is not answered. */
void fpdu_after_error(struct trial *trial)
{
    uint8_t ulpdu[64], octets[256];
    size_t size;

    begin(trial, &usual);
    if (trial->over)
        return;
    trial->link.out.crc_xor = 1;
    size = fpdu_make(&trial->link.out, octets, ulpdu, zero_write(ulpdu));
    trial->link.out.crc_xor = 0;
    size += fpdu_make(&trial->link.out, octets + size, ulpdu, put_read(ulpdu, 1, 7, 8, 0, 0, 0));
    send_fpdu(trial, octets, size);
    while (hear_fpdu(trial))
        REQUIRE(trial, trial->segment.op == OP_TERMINATE || trial->segment.op == OP_SEND,
                "opcode %x comes after an FPDU with a wrong CRC", trial->segment.op);
}

void fpdu_fin_inside(struct trial *trial)
{
    uint8_t ulpdu[64], fpdu[256];

    begin(trial, &usual);
    expect_alive(trial);
    if (trial->over)
        return;
    fpdu_make(&trial->link.out, fpdu, ulpdu, put_read(ulpdu, 2, 7, 8, 0, 0, 0));
    send_fpdu(trial, fpdu, 23);
    finish(trial);
    hear_end(trial, target.patience_ms);
}

/* ---- markers towards the peer ---- */

static bool wants_markers(struct trial *trial)
{
    begin(trial, &usual);
    if (!trial->over && !trial->link.out.markers)
        skip(trial, "the peer asks for no markers (M=0 in the Reply)");
    return !trial->over;
}

void marker_strip(struct trial *trial)
{
    if (wants_markers(trial))
        for (int i = 0; i < 25; i++)
            expect_alive(trial);
}

void marker_reserved(struct trial *trial)
{
    if (!wants_markers(trial))
        return;
    trial->link.out.marker_reserved = 0xffff;
    trial->link.out.marker_xor = 3;
    for (int i = 0; i < 25; i++)
        expect_alive(trial);
}

/* The 11th Read has a marker inside. */
void marker_pointer(struct trial *trial)
{
    uint8_t ulpdu[64];

    if (!wants_markers(trial))
        return;
    for (int i = 0; i < 9; i++)
        expect_alive(trial);
    trial->link.out.marker_xor = 4;
    for (uint32_t i = 0; i < 3; i++)
        send_ulpdu(trial, ulpdu, put_read(ulpdu, 10 + i, 7, 8, 0, 0, 0));
    expect_terminate(trial, 0x2003, 0x0203);
}

/* ---- the peer's own FPDUs: hear_fpdu looks at each ---- */

/* They have more than 512 octets: a marker is inside one. */
static void thirty_answers(struct trial *trial, const struct start *start)
{
    begin(trial, start);
    for (int i = 0; i < 30; i++)
        expect_alive(trial);
}

void own_crc(struct trial *trial)
{
    thirty_answers(trial, &usual);
}

/* Without CRC the field is there all the same: the next FPDU begins behind it. */
void own_crc_field(struct trial *trial)
{
    thirty_answers(trial, &without_crc);
}

void own_markers(struct trial *trial)
{
    struct start start = usual;

    thirty_answers(trial, &usual); /* M=0: there are none */
    start.flags |= F_M;
    thirty_answers(trial, &start);
}
