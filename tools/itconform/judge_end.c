/* SPDX-License-Identifier: BSD-3-Clause */
/* Terminates, the peer's and ours, and the end of the stream. */
#include "judges.h"

#include "tools/common/tool.h"

#include <string.h>

static const uint8_t eight[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

/* What comes until the stream ends, without a look at it. */
void drain(struct trial *trial)
{
    uint64_t deadline = deadline_in(target.patience_ms);

    while (!trial->over && !trial->link.ended && link_read(trial, deadline))
        trial->link.used = 0;
}

/* The peer still accepts and answers: what was done before has not harmed it. */
void serves(struct trial *trial)
{
    struct startup reply;

    if (trial->over)
        return;
    ask(trial, &usual);
    if (trial->unreachable)
        trial->verdict = FAILED;
    hear_reply(trial, &reply);
}

/* ---- a Terminate that the peer receives ---- */

static void send_terminate(struct trial *trial, uint32_t qn, uint32_t msn, const uint8_t *payload,
                           uint32_t length)
{
    uint8_t ulpdu[128];

    send_ulpdu(
        trial, ulpdu,
        put_untagged(ulpdu, C_LAST | C_DV, C_RV | OP_TERMINATE, 0, qn, msn, 0, payload, length));
}

/* It ends the stream, and is not answered by another one: hear_end holds that. */
static void ends_stream(struct trial *trial, uint32_t qn, uint32_t msn, const uint8_t *payload,
                        uint32_t length)
{
    begin(trial, &usual);
    expect_alive(trial);
    send_terminate(trial, qn, msn, payload, length);
    hear_end(trial, target.timer_ms);
}

void terminate_malformed(struct trial *trial)
{
    static const uint8_t control[4] = { 0x02, 0x07 };

    ends_stream(trial, 2, 1, control, 2);
    ends_stream(trial, 2, 1, control, 0);
    serves(trial);
}

/* M, D and R are set, and what they announce is not there, or only in part. */
void terminate_headers(struct trial *trial)
{
    static const uint8_t control[16] = { 0x01, 0x00, 0xe0, 0x00, 0xff, 0xff, 0xc1, 0x40 };

    ends_stream(trial, 2, 1, control, 4);
    ends_stream(trial, 2, 1, control, 5);
    ends_stream(trial, 2, 1, control, 6);
    ends_stream(trial, 2, 1, control, 16);
    serves(trial);
}

void terminate_swapped(struct trial *trial)
{
    static const uint8_t control[4] = { 0x21, 0x03, 0x03, 0x00 };

    ends_stream(trial, 2, 1, control, 4);
    serves(trial);
}

/* A Read that follows is not answered. */
void terminate_second(struct trial *trial)
{
    static const uint8_t control[4] = { 0x02, 0x07 };
    uint8_t ulpdu[96], octets[256];
    size_t size;

    begin(trial, &usual);
    expect_alive(trial);
    if (trial->over)
        return;
    size = fpdu_make(
        &trial->link.out, octets, ulpdu,
        put_untagged(ulpdu, C_LAST | C_DV, C_RV | OP_TERMINATE, 0, 2, 1, 0, control, 4));
    size += fpdu_make(&trial->link.out, octets + size, ulpdu, put_read(ulpdu, 2, 7, 8, 0, 0, 0));
    send_fpdu(trial, octets, size);
    while (hear_fpdu(trial))
        REQUIRE(trial, trial->segment.op == OP_SEND, "opcode %x comes after a Terminate",
                trial->segment.op);
}

void terminate_closes(struct trial *trial)
{
    static const uint8_t control[4] = { 0x02, 0x07 };

    ends_stream(trial, 2, 1, control, 4);
    serves(trial);
}

/* ---- the peer's Terminate ---- */

/* A Write to an STag that nobody has; its Terminate has the length and the DDP header. */
static uint32_t wrong_write(uint8_t *ulpdu)
{
    return put_write(ulpdu, true, 0x7f3b5a77, 0x1122334455667788u, eight, 8);
}

static void refused_write(struct trial *trial, uint8_t *ulpdu, uint32_t *length)
{
    begin(trial, &usual);
    *length = wrong_write(ulpdu);
    send_ulpdu(trial, ulpdu, *length);
    expect_terminate(trial, 0x1100, 0x1102, 0x1000);
}

static void check_form(struct trial *trial, bool ddp, bool rdma, const uint8_t *cause,
                       uint32_t header)
{
    const struct terminate *terminate = &trial->terminate;
    const struct segment *segment = &trial->segment;

    REQUIRE(trial, segment->qn == 2 && segment->msn == 1 && segment->mo == 0 && segment->last,
            "the Terminate has QN %u, MSN %u, MO %u, L=%d", segment->qn, segment->msn, segment->mo,
            segment->last);
    REQUIRE(trial, !terminate->swapped,
            "the control field %08x has layer and type, or M, D and R, in the other order",
            get32(segment->payload));
    REQUIRE(trial, !terminate->reserved, "reserved bits of the control field %08x are not 0",
            get32(segment->payload));
    REQUIRE(trial,
            terminate->has_length == ddp && terminate->has_ddp == ddp &&
                terminate->has_rdma == rdma && !terminate->truncated,
            "M=%d D=%d R=%d; right is M=%d D=%d R=%d", terminate->has_length, terminate->has_ddp,
            terminate->has_rdma, ddp, ddp, rdma);
    if (ddp)
        REQUIRE(trial, terminate->ddp_length == header && !memcmp(terminate->ddp, cause, header),
                "the DDP header in the Terminate is not the one received");
    if (rdma)
        REQUIRE(trial,
                terminate->rdma_length == READ_LEN &&
                    !memcmp(terminate->rdma, cause + UNTAGGED_LEN, READ_LEN),
                "the Read Request in the Terminate is not the one received");
}

void own_terminate(struct trial *trial)
{
    uint8_t ulpdu[96];
    uint32_t length;

    refused_write(trial, ulpdu, &length);
    check_form(trial, true, false, ulpdu, TAGGED_LEN);
    begin(trial, &usual);
    send_ulpdu(trial, ulpdu, put_read(ulpdu, 1, 7, 8, 16, 0x7f3b5a77, 0x1000));
    expect_terminate(trial, 0x0100);
    check_form(trial, true, true, ulpdu, UNTAGGED_LEN);
    begin(trial, &usual);
    trial->link.out.crc_xor = 1;
    send_ulpdu(trial, ulpdu, wrong_write(ulpdu));
    expect_terminate(trial, 0x2002, 0x0202);
    check_form(trial, false, false, NULL, 0);
}

void own_terminate_each(struct trial *trial)
{
    uint8_t ulpdu[96];
    uint32_t length;

    refused_write(trial, ulpdu, &length);
    begin(trial, &usual);
    send_ulpdu(trial, ulpdu, put_read(ulpdu, 2, 7, 8, 0, 0, 0));
    expect_terminate(trial, 0x1203, 0x1202);
    begin(trial, &usual);
    send_ulpdu(trial, ulpdu, put_untagged(ulpdu, C_LAST | C_DV, C_RV | 0xf, 0, 0, 1, 0, eight, 8));
    expect_terminate(trial, 0x0206);
}

/* The end, and nothing before it, however many further faults the peer received. */
void own_terminate_last(struct trial *trial)
{
    uint8_t ulpdu[96], octets[512];
    size_t size;

    begin(trial, &usual);
    if (trial->over)
        return;
    size = fpdu_make(&trial->link.out, octets, ulpdu, wrong_write(ulpdu));
    size += fpdu_make(&trial->link.out, octets + size, ulpdu, wrong_write(ulpdu));
    size += fpdu_make(&trial->link.out, octets + size, ulpdu, put_read(ulpdu, 1, 7, 8, 0, 0, 0));
    send_fpdu(trial, octets, size);
    expect_terminate(trial, 0x1100, 0x1102);
    while (hear_fpdu(trial))
        REQUIRE(trial, false, "opcode %x comes after the Terminate", trial->segment.op);
}

void own_terminate_length(struct trial *trial)
{
    uint8_t ulpdu[96];
    uint32_t length;

    refused_write(trial, ulpdu, &length);
    REQUIRE(trial, trial->terminate.has_length && trial->terminate.segment_length == length,
            "DDP Segment Length is %u; the ULPDU had %u octets", trial->terminate.segment_length,
            length);
}

/* A wrong STag, then a wrong version: the first is reported. */
void own_terminate_first(struct trial *trial)
{
    uint8_t ulpdu[96], octets[512];
    uint32_t length;
    size_t size;

    begin(trial, &usual);
    if (trial->over)
        return;
    size = fpdu_make(&trial->link.out, octets, ulpdu, wrong_write(ulpdu));
    length = wrong_write(ulpdu);
    ulpdu[1] = OP_WRITE;
    size += fpdu_make(&trial->link.out, octets + size, ulpdu, length);
    send_fpdu(trial, octets, size);
    expect_terminate(trial, 0x1100, 0x1102);
}

/* FIN; an RST could destroy the Terminate. Input that has not been read is the peer's to drain. */
void own_terminate_fin(struct trial *trial)
{
    static uint8_t more[16384];
    uint8_t ulpdu[96];

    begin(trial, &usual);
    send_ulpdu(trial, ulpdu, wrong_write(ulpdu));
    send_fpdu(trial, more, sizeof(more));
    expect_terminate(trial, 0x1100, 0x1102);
    hear_fin(trial, target.timer_ms);
}

/* ---- ends ---- */

void fin_clean(struct trial *trial)
{
    begin(trial, &usual);
    expect_alive(trial);
    finish(trial);
    hear_fin(trial, target.timer_ms);
    serves(trial);
}

void reset_stream(struct trial *trial)
{
    begin(trial, &usual);
    expect_alive(trial);
    reset(trial);
    for (int i = 0; i < 4; i++) /* it may take a while to be harmed */
        serves(trial);
}

/* What comes behind a fault is not answered; hear_terminate passes over what is the program's. */
void after_terminate(struct trial *trial)
{
    uint8_t ulpdu[96];

    begin(trial, &usual);
    send_ulpdu(trial, ulpdu, wrong_write(ulpdu));
    expect_terminate(trial, 0x1100, 0x1102);
    send_ulpdu(trial, ulpdu, put_read(ulpdu, 1, 7, 8, 0, 0, 0));
    while (hear_fpdu(trial))
        REQUIRE(trial, false, "opcode %x comes after the Terminate", trial->segment.op);
}
