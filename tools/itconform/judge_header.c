/* SPDX-License-Identifier: BSD-3-Clause */
/* DDP and RDMAP headers: versions, reserved bits, opcodes, lengths, queues, numbers. */
#include "judges.h"

#include <string.h>

/* Opens a connection and sends this ULPDU as its first FPDU. */
static void first(struct trial *trial, const uint8_t *ulpdu, uint32_t length)
{
    begin(trial, &usual);
    send_ulpdu(trial, ulpdu, length);
}

static const uint8_t eight[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

/* ---- control octets ---- */

void ddp_version(struct trial *trial)
{
    static const uint8_t versions[] = { 0, 2, 3 };
    uint8_t ulpdu[64];

    for (int i = 0; i < 3; i++) {
        uint32_t length = put_send(ulpdu, true, 1, 0, eight, 8);

        ulpdu[0] = C_LAST | versions[i];
        first(trial, ulpdu, length);
        expect_terminate(trial, 0x1206, 0x1104);
        length = put_write(ulpdu, true, 1, 0, eight, 8);
        ulpdu[0] = C_TAGGED | C_LAST | versions[i];
        first(trial, ulpdu, length);
        expect_terminate(trial, 0x1104, 0x1206);
    }
}

void ddp_reserved(struct trial *trial)
{
    uint8_t ulpdu[64];
    uint32_t length = put_write(ulpdu, true, 1, 0, NULL, 0);

    ulpdu[0] |= 0x3c;
    first(trial, ulpdu, length);
    expect_alive(trial);
}

void rdmap_version(struct trial *trial)
{
    static const uint8_t versions[] = { 0x00, 0x80, 0xc0 };
    uint8_t ulpdu[64];

    for (int i = 0; i < 3; i++) {
        uint32_t length = put_write(ulpdu, true, 1, 0, NULL, 0);

        ulpdu[1] = versions[i];
        first(trial, ulpdu, length);
        expect_terminate(trial, 0x0205);
    }
}

void rdmap_reserved(struct trial *trial)
{
    uint8_t ulpdu[64];
    uint32_t length = put_write(ulpdu, true, 1, 0, NULL, 0);

    ulpdu[1] |= 0x30;
    first(trial, ulpdu, length);
    expect_alive(trial);
}

void rdmap_opcode(struct trial *trial)
{
    uint8_t ulpdu[64];

    for (uint8_t op = 0xc; op <= 0xf; op++) {
        first(trial, ulpdu, put_untagged(ulpdu, C_LAST | C_DV, C_RV | op, 0, 0, 1, 0, eight, 8));
        expect_terminate(trial, 0x0206);
    }
}

void rdmap_t(struct trial *trial)
{
    uint8_t ulpdu[64];

    first(trial, ulpdu, put_untagged(ulpdu, C_LAST | C_DV, C_RV | OP_WRITE, 0, 0, 1, 0, eight, 8));
    expect_terminate(trial, 0x0206, 0x1000, 0x1201, 0x1100, 0x1206);
    first(trial, ulpdu,
          put_tagged(ulpdu, C_TAGGED | C_LAST | C_DV, C_RV | OP_SEND, 1, 0, eight, 8));
    expect_terminate(trial, 0x0206, 0x1000, 0x1201, 0x1100, 0x1206);
}

/* Every length below the header's, from that of the control octets on. */
static void too_short(struct trial *trial, uint8_t ddp, uint8_t op, uint32_t header)
{
    uint8_t ulpdu[UNTAGGED_LEN] = { ddp, (uint8_t)(C_RV | op) };
    const uint32_t lengths[] = { 2, 3, header / 2, header - 2, header - 1 };

    for (int i = 0; i < 5; i++) {
        first(trial, ulpdu, lengths[i]);
        expect_terminate(trial, 0x1000, 0x2003, 0x0203);
    }
}

void tagged_short(struct trial *trial)
{
    too_short(trial, C_TAGGED | C_LAST | C_DV, OP_WRITE, TAGGED_LEN);
}

void untagged_short(struct trial *trial)
{
    too_short(trial, C_LAST | C_DV, OP_SEND, UNTAGGED_LEN);
}

/* The class of what crashed receivers that subtract before they compare: every opcode with every
 * length below its headers, with and without CRC, in one segment of TCP with what follows. */
void all_short(struct trial *trial)
{
    static const struct start no_crc = { .flags = F_S, .rev = 2, .first = 8, .second = 8 };
    uint8_t ulpdu[64] = { 0 };

    for (uint8_t op = 0; op < 12; op++) {
        bool tagged = op == OP_WRITE || op == OP_RESPONSE;
        uint32_t header = tagged ? TAGGED_LEN : UNTAGGED_LEN;

        for (uint32_t length = 0; length < header; length++) {
            ulpdu[0] = tagged ? C_TAGGED | C_LAST | C_DV : C_LAST | C_DV;
            ulpdu[1] = (uint8_t)(C_RV | op);
            begin(trial, length & 1 ? &usual : &no_crc);
            send_ulpdu(trial, ulpdu, length);
            send_ulpdu(trial, ulpdu, length);
            drain(trial);
        }
    }
    serves(trial);
}

void single_segment(struct trial *trial)
{
    uint8_t ulpdu[96];
    uint32_t length = put_read(ulpdu, 1, 7, 8, 0, 0, 0);

    ulpdu[0] &= (uint8_t)~C_LAST;
    first(trial, ulpdu, length);
    expect_terminate(trial, 0x0207, 0x1000, 0x1205, 0x1201);
}

/* ---- untagged segments ---- */

void queue_number(struct trial *trial)
{
    static const uint32_t queues[] = { 4, 255, 0x80000000u };
    uint8_t ulpdu[64];

    for (int i = 0; i < 3; i++) {
        first(trial, ulpdu,
              put_untagged(ulpdu, C_LAST | C_DV, C_RV | OP_SEND, 0, queues[i], 1, 0, eight, 8));
        expect_terminate(trial, 0x1201, 0x0206);
    }
}

void queue_of_opcode(struct trial *trial)
{
    static const struct {
        uint8_t op;
        uint32_t queue;
    } wrong[] = { { OP_SEND, 1 }, { OP_SEND, 2 }, { OP_READ, 0 }, { OP_READ, 2 } };
    uint8_t ulpdu[96];

    for (int i = 0; i < 4; i++) {
        uint32_t length = wrong[i].op == OP_READ ? put_read(ulpdu, 1, 7, 8, 0, 0, 0)
                                                 : put_send(ulpdu, true, 1, 0, eight, 8);

        put32(ulpdu + 6, wrong[i].queue);
        first(trial, ulpdu, length);
        expect_terminate(trial, 0x1201, 0x0206);
    }
}

/* Octets 2 to 5 of a Read Request. */
void invalidate_ignored(struct trial *trial)
{
    uint8_t ulpdu[96];
    uint32_t length = put_read(ulpdu, 1, 7, 8, 0, 0, 0);

    put32(ulpdu + 2, 0xdeadbeef);
    first(trial, ulpdu, length);
    trial->link.read_msn = 2;
    while (hear_fpdu(trial) && trial->segment.op != OP_RESPONSE)
        ;
    expect_alive(trial);
}

/* Without a buffer the peer may say so instead. */
void msn_old(struct trial *trial)
{
    uint8_t ulpdu[64];

    first(trial, ulpdu, put_send(ulpdu, true, 0, 0, eight, 8));
    expect_terminate(trial, 0x1203, 0x1202);
    begin(trial, &usual);
    expect_alive(trial);
    expect_alive(trial);
    send_ulpdu(trial, ulpdu, put_read(ulpdu, 1, 7, 8, 0, 0, 0)); /* 3 is next */
    expect_terminate(trial, 0x1203, 0x1202);
}

void msn_gap(struct trial *trial)
{
    uint8_t ulpdu[64];

    first(trial, ulpdu, put_send(ulpdu, true, 2, 0, eight, 8));
    expect_terminate(trial, 0x1203, 0x1202);
}

void send_offset(struct trial *trial)
{
    uint8_t ulpdu[64];

    first(trial, ulpdu, put_send(ulpdu, true, 1, 4, eight, 8));
    expect_terminate(trial, 0x1204, 0x1202);
}

/* ---- tagged segments ---- */

static void refused_write(struct trial *trial, uint32_t stag, uint64_t to)
{
    uint8_t ulpdu[64];

    first(trial, ulpdu, put_write(ulpdu, true, stag, to, eight, 8));
}

/* STag, TO and rights of a Write without payload are not looked at. */
void write_zero(struct trial *trial)
{
    static const uint64_t offsets[] = { 0, 1, UINT64_MAX };
    uint8_t ulpdu[64];

    begin(trial, &usual);
    for (uint32_t i = 0; i < 3; i++) {
        send_ulpdu(trial, ulpdu, put_write(ulpdu, true, 0x12345600 * i, offsets[i], NULL, 0));
        expect_alive(trial);
    }
}

void write_stag_0(struct trial *trial)
{
    refused_write(trial, 0, 0);
    expect_terminate(trial, 0x1100, 0x1102);
}

/* No peer has these three; a number that it happens to have would be a piece of luck. */
void write_stag(struct trial *trial)
{
    static const uint32_t stags[] = { 0xfffffe01, 0x7f3b5a77, 0xffffffff };

    for (int i = 0; i < 3; i++) {
        refused_write(trial, stags[i], 0x1000);
        expect_terminate(trial, 0x1100);
    }
}

void response_unasked(struct trial *trial)
{
    uint8_t ulpdu[64];

    first(trial, ulpdu, put_response(ulpdu, true, 0x7f3b5a77, 0, eight, 8));
    expect_terminate(trial, 0x0206, 0x1000, 0x1100, 0x0207);
}

/* ---- Read Requests ---- */

static void refused_read(struct trial *trial, uint32_t msn, uint32_t size, uint32_t stag)
{
    uint8_t ulpdu[96];

    first(trial, ulpdu, put_read(ulpdu, msn, 7, 8, size, stag, 0x1000));
}

void read_length(struct trial *trial)
{
    static const uint32_t cut[] = { 1, 4, 28 };
    uint8_t ulpdu[128];
    uint32_t length = put_read(ulpdu, 1, 7, 8, 0, 0, 0);

    for (int i = 0; i < 3; i++) {
        first(trial, ulpdu, length - cut[i]);
        expect_terminate(trial, 0x1000, 0x1205, 0x0207, 0x2003, 0x0203);
    }
    memset(ulpdu + length, 0, 4);
    first(trial, ulpdu, length + 4);
    expect_terminate(trial, 0x1205, 0x1000, 0x0207, 0x2003, 0x0203);
}

void read_offset(struct trial *trial)
{
    uint8_t ulpdu[96];
    uint32_t length = put_read(ulpdu, 1, 7, 8, 0, 0, 0);

    put32(ulpdu + 14, 4);
    first(trial, ulpdu, length);
    expect_terminate(trial, 0x1204, 0x0207);
}

void read_msn(struct trial *trial)
{
    refused_read(trial, 2, 0, 0);
    expect_terminate(trial, 0x1203, 0x1202);
    refused_read(trial, 0, 0, 0);
    expect_terminate(trial, 0x1203, 0x1202);
}

void read_zero(struct trial *trial)
{
    begin(trial, &usual);
    expect_zero_read(trial, 1, 2, 0, 0);
    expect_zero_read(trial, 3, 4, 0x7f3b5a77, UINT64_MAX);
}

void read_stag(struct trial *trial)
{
    static const uint32_t stags[] = { 0, 0xfffffe01, 0x7f3b5a77 };

    for (int i = 0; i < 3; i++) {
        refused_read(trial, 1, 8, stags[i]);
        expect_terminate(trial, 0x0100);
    }
}

/* The sink's fields are the peer's to copy, whatever they are. */
void read_sink(struct trial *trial)
{
    begin(trial, &usual);
    expect_zero_read(trial, 0, 0, 0, 0);
    expect_zero_read(trial, 0xffffffff, UINT64_MAX, 0, 0);
    expect_zero_read(trial, 0xdeadbeef, 0x0123456789abcdefu, 0, 0);
}

/* Several at once are answered in the order of the requests. */
void read_order(struct trial *trial)
{
    uint8_t ulpdu[96], octets[512];
    size_t size = 0;

    begin(trial, &usual);
    if (!trial->over && trial->link.peer_ird < 4)
        skip(trial, "the peer's IRD is %u", trial->link.peer_ird);
    if (trial->over)
        return;
    for (uint32_t i = 0; i < 4; i++)
        size += fpdu_make(&trial->link.out, octets + size, ulpdu,
                          put_read(ulpdu, 1 + i, 0x1000 + i, i, 0, 0, 0));
    send_fpdu(trial, octets, size);
    for (uint32_t i = 0; i < 4; i++) {
        while (hear_fpdu(trial) && trial->segment.op != OP_RESPONSE)
            ;
        REQUIRE(trial, trial->segment.op == OP_RESPONSE && trial->segment.stag == 0x1000 + i,
                "answer %u is for sink STag %08x", i, trial->segment.stag);
    }
}
