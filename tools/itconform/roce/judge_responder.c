/* SPDX-License-Identifier: BSD-3-Clause */
/* A responder of RC: requests that need no memory over there. */
#include "judges.h"

#include <string.h>

#include "base/be.h"

static const uint8_t few[4] = { 'i', 't', 'a', 'l' };
/* No region has it. */
#define NO_KEY 0x7FFFFF01u

static void connect_whole(struct roce_trial *trial)
{
    roce_connect(trial);
    roce_expect_going_on(trial);
}

/* The packet that was made, which must not be noticed. */
static void dropped(struct roce_trial *trial, enum raw_fault fault)
{
    roce_send(trial, fault);
    roce_expect_silence(trial, 0);
    roce_expect_going_on(trial);
}

static void make_write(struct roce_trial *trial)
{
    roce_make(trial, BTH_WRITE_ONLY, NULL, NULL, 0);
}

/* ---- packets to the QP ---- */

void rc_icrc(struct roce_trial *trial)
{
    connect_whole(trial);
    make_write(trial);
    dropped(trial, RAW_WRONG_ICRC);
}

void rc_source_port(struct roce_trial *trial)
{
    connect_whole(trial);
    make_write(trial);
    roce_send(trial, RAW_OTHER_PORT);
    roce_expect_ack(trial, trial->psn);
    trial->psn = bth_psn_add(trial->psn, 1);
    trial->msn++;
    roce_expect_going_on(trial);
}

void rc_version(struct roce_trial *trial)
{
    connect_whole(trial);
    make_write(trial);
    trial->out[1] |= 1;
    dropped(trial, RAW_RIGHT);
}

void rc_p_key(struct roce_trial *trial)
{
    connect_whole(trial);
    make_write(trial);
    be_put16(trial->out + 2, 0x9234);
    dropped(trial, RAW_RIGHT);
}

void rc_opcode(struct roce_trial *trial)
{
    connect_whole(trial);
    make_write(trial);
    trial->out[0] = BTH_RC | 0x1F;
    dropped(trial, RAW_RIGHT);
}

void rc_transport(struct roce_trial *trial)
{
    connect_whole(trial);
    make_write(trial);
    trial->out[0] = BTH_UC | BTH_WRITE_ONLY;
    dropped(trial, RAW_RIGHT);
}

void rc_flags(struct roce_trial *trial)
{
    connect_whole(trial);
    make_write(trial);
    trial->out[1] &= (uint8_t)~BTH_M;
    trial->out[BTH_MASKED_OCTET] = BTH_FECN | BTH_BECN;
    roce_send(trial, RAW_RIGHT);
    roce_expect_ack(trial, trial->psn);
}

/* ---- answers ---- */

void ack_fields(struct roce_trial *trial)
{
    const struct bth_packet *bth = &trial->heard.answer.bth;

    roce_connect(trial);
    for (int i = 0; i < 3; i++)
        roce_expect_going_on(trial);
    JUDGE(trial, !bth->ack_req && !bth->solicited, "AckReq or SE is set in an acknowledge");
    JUDGE(trial, bth->p_key == BTH_P_KEY, "P_Key %04x; FFFF is due", bth->p_key);
    if (!trial->base.over)
        note(&trial->base, "credits %02x", bth->syndrome);
}

void ack_merged(struct roce_trial *trial)
{
    uint32_t last = 0;

    connect_whole(trial);
    for (int i = 0; i < 3; i++) {
        make_write(trial);
        if (i < 2)
            trial->out[8] &= (uint8_t)~BTH_ACK_REQ;
        roce_send(trial, RAW_RIGHT);
        last = trial->psn;
        trial->psn = bth_psn_add(trial->psn, 1);
    }
    /* One for a packet that did not ask for it is of no harm. */
    do {
        JUDGE(trial, roce_hear(trial, roce_patience_ms()), "no acknowledge of the last of three");
    } while (!trial->base.over && trial->heard.answer.bth.psn != last);
    JUDGE(trial, trial->heard.answer.bth.msn == ((trial->msn + 2) & BTH_MASK24),
          "MSN %u; %u is due", trial->heard.answer.bth.msn, (trial->msn + 2) & BTH_MASK24);
    trial->msn += 3;
    roce_expect_going_on(trial);
}

void write_nothing(struct roce_trial *trial)
{
    const struct bth_packet packet = { .va = 0x123456789, .r_key = NO_KEY };

    connect_whole(trial);
    roce_make(trial, BTH_WRITE_ONLY, &packet, NULL, 0);
    roce_send(trial, RAW_RIGHT);
    roce_expect_ack(trial, trial->psn);
}

static void read_nothing_at(struct roce_trial *trial, uint32_t psn)
{
    const struct bth_packet *bth = &trial->heard.answer.bth;
    char text[ANSWER_TEXT];

    roce_make(trial, BTH_READ_REQUEST, NULL, NULL, 0);
    roce_send(trial, RAW_RIGHT);
    JUDGE(trial, roce_hear(trial, roce_patience_ms()), "no answer; a Read Response Only is due");
    if (!trial->base.over && bth->op->kind == BTH_KIND_ACKNOWLEDGE &&
        bth->syndrome == AETH_NAK_INVALID_REQUEST)
        skip(&trial->base, "the connection has no Reads: NAK 61");
    JUDGE(trial, bth->opcode == BTH_READ_RESPONSE_ONLY, "%s; a Read Response Only is due",
          answer_text(&trial->heard.answer, text));
    JUDGE(trial, bth->psn == psn, "PSN %06x; %06x is due", bth->psn, psn);
    JUDGE(trial, !bth->payload_len, "%u octets of payload; 0 are due", bth->payload_len);
    JUDGE(trial, bth->msn == (trial->msn & BTH_MASK24), "MSN %u; %u is due", bth->msn,
          trial->msn & BTH_MASK24);
}

void read_nothing(struct roce_trial *trial)
{
    connect_whole(trial);
    read_nothing_at(trial, trial->psn);
    trial->psn = bth_psn_add(trial->psn, 1);
    trial->msn++;
    roce_expect_going_on(trial);
}

void read_duplicate(struct roce_trial *trial)
{
    connect_whole(trial);
    read_nothing_at(trial, trial->psn);
    read_nothing_at(trial, trial->psn);
    trial->psn = bth_psn_add(trial->psn, 1);
    trial->msn++;
    roce_expect_going_on(trial);
}

/* ---- PSNs ---- */

static void write_at(struct roce_trial *trial, uint32_t psn)
{
    make_write(trial);
    roce_set_psn(trial, psn);
    roce_send(trial, RAW_RIGHT);
}

/* Acknowledges the last one again: what was taken is not taken again. */
static void expect_old_ack(struct roce_trial *trial)
{
    trial->msn--;
    roce_expect_ack(trial, bth_psn_add(trial->psn, BTH_MASK24));
    trial->msn++;
}

void psn_gap(struct roce_trial *trial)
{
    connect_whole(trial);
    write_at(trial, bth_psn_add(trial->psn, 5));
    roce_expect_nak(trial, AETH_NAK_SEQUENCE, 0, trial->psn);
    roce_expect_going_on(trial);
}

void psn_gap_once(struct roce_trial *trial)
{
    connect_whole(trial);
    write_at(trial, bth_psn_add(trial->psn, 5));
    roce_expect_nak(trial, AETH_NAK_SEQUENCE, 0, trial->psn);
    write_at(trial, bth_psn_add(trial->psn, 6));
    roce_expect_silence(trial, 0);
    roce_expect_going_on(trial);
    write_at(trial, bth_psn_add(trial->psn, 9));
    roce_expect_nak(trial, AETH_NAK_SEQUENCE, 0, trial->psn);
    roce_expect_going_on(trial);
}

void psn_duplicate(struct roce_trial *trial)
{
    connect_whole(trial);
    roce_expect_going_on(trial);
    write_at(trial, bth_psn_add(trial->psn, BTH_MASK24));
    expect_old_ack(trial);
    write_at(trial, bth_psn_add(trial->psn, BTH_MASK24 - 1));
    expect_old_ack(trial);
    roce_expect_going_on(trial);
}

void psn_duplicate_in_gap(struct roce_trial *trial)
{
    connect_whole(trial);
    write_at(trial, bth_psn_add(trial->psn, 5));
    roce_expect_nak(trial, AETH_NAK_SEQUENCE, 0, trial->psn);
    write_at(trial, bth_psn_add(trial->psn, BTH_MASK24));
    expect_old_ack(trial);
    write_at(trial, bth_psn_add(trial->psn, 6));
    roce_expect_silence(trial, 0);
    roce_expect_going_on(trial);
}

void psn_half(struct roce_trial *trial)
{
    connect_whole(trial);
    write_at(trial, bth_psn_add(trial->psn, 0x800000));
    expect_old_ack(trial);
    write_at(trial, bth_psn_add(trial->psn, 0x7FFFFF));
    roce_expect_nak(trial, AETH_NAK_SEQUENCE, 0, trial->psn);
    roce_expect_going_on(trial);
}

void psn_before_all(struct roce_trial *trial)
{
    roce_connect(trial);
    write_at(trial, bth_psn_add(trial->psn, BTH_MASK24));
    expect_old_ack(trial);
    roce_expect_going_on(trial);
}

/* ---- errors ---- */

static void nak(struct roce_trial *trial, uint8_t syndrome, uint8_t tolerated)
{
    roce_send(trial, RAW_RIGHT);
    roce_expect_nak(trial, syndrome, tolerated, trial->psn);
}

void order_middle(struct roce_trial *trial)
{
    static const uint8_t octets[ROCE_MTU];

    connect_whole(trial);
    roce_make(trial, BTH_SEND_MIDDLE, NULL, octets, sizeof(octets));
    nak(trial, AETH_NAK_INVALID_REQUEST, 0);
}

void order_last(struct roce_trial *trial)
{
    connect_whole(trial);
    roce_make(trial, BTH_WRITE_LAST, NULL, few, sizeof(few));
    nak(trial, AETH_NAK_INVALID_REQUEST, 0);
}

void key_unknown_write(struct roce_trial *trial)
{
    const struct bth_packet packet = { .va = 0x1000, .r_key = NO_KEY, .dma_length = sizeof(few) };

    connect_whole(trial);
    roce_make(trial, BTH_WRITE_ONLY, &packet, few, sizeof(few));
    nak(trial, AETH_NAK_REMOTE_ACCESS, 0);
}

void key_unknown_read(struct roce_trial *trial)
{
    const struct bth_packet packet = { .va = 0x1000, .r_key = NO_KEY, .dma_length = sizeof(few) };

    connect_whole(trial);
    roce_make(trial, BTH_READ_REQUEST, &packet, NULL, 0);
    nak(trial, AETH_NAK_REMOTE_ACCESS, AETH_NAK_INVALID_REQUEST);
}

void atomic_misaligned(struct roce_trial *trial)
{
    const struct bth_packet packet = { .va = 0x1004, .r_key = NO_KEY, .swap_add = 1 };

    connect_whole(trial);
    roce_make(trial, BTH_FETCH_ADD, &packet, NULL, 0);
    nak(trial, AETH_NAK_INVALID_REQUEST, AETH_NAK_REMOTE_ACCESS);
}

void length_of_dma(struct roce_trial *trial)
{
    const struct bth_packet packet = { .va = 0x1000, .r_key = NO_KEY, .dma_length = 8 };

    connect_whole(trial);
    roce_make(trial, BTH_WRITE_ONLY, &packet, few, sizeof(few));
    nak(trial, AETH_NAK_INVALID_REQUEST, AETH_NAK_REMOTE_ACCESS);
}

void after_nak(struct roce_trial *trial)
{
    connect_whole(trial);
    roce_make(trial, BTH_WRITE_LAST, NULL, few, sizeof(few));
    nak(trial, AETH_NAK_INVALID_REQUEST, 0);
    make_write(trial);
    roce_send(trial, RAW_RIGHT);
    roce_expect_silence(trial, 0);
    roce_make(trial, BTH_READ_REQUEST, NULL, NULL, 0);
    roce_send(trial, RAW_RIGHT);
    roce_expect_silence(trial, 0);
}

/* ---- Sends ---- */

/* One Send of no octets. True: it was refused for want of a receive. */
static bool send_nothing(struct roce_trial *trial)
{
    roce_make(trial, BTH_SEND_ONLY, NULL, NULL, 0);
    roce_send(trial, RAW_RIGHT);
    JUDGE(trial, roce_hear(trial, roce_patience_ms()), "a Send is not answered");
    return !trial->base.over && trial->heard.answer.bth.op->kind == BTH_KIND_ACKNOWLEDGE &&
           aeth_is_rnr_nak(trial->heard.answer.bth.syndrome);
}

void send_zero(struct roce_trial *trial)
{
    connect_whole(trial);
    if (send_nothing(trial))
        skip(&trial->base, "its program has no receive posted: RNR NAK");
    JUDGE(trial, trial->heard.answer.bth.psn == trial->psn, "PSN %06x; %06x is due",
          trial->heard.answer.bth.psn, trial->psn);
    JUDGE(trial,
          aeth_is_ack(trial->heard.answer.bth.syndrome) &&
              trial->heard.answer.bth.msn == (trial->msn & BTH_MASK24),
          "no acknowledge with MSN %u", trial->msn & BTH_MASK24);
}

#define SENDS_MOST 300

void send_not_ready(struct roce_trial *trial)
{
    const struct bth_packet *bth = &trial->heard.answer.bth;
    bool refused = false;

    connect_whole(trial);
    for (int i = 0; i < SENDS_MOST && !refused && !trial->base.over; i++) {
        refused = send_nothing(trial);
        if (!refused && !trial->base.over) {
            trial->psn = bth_psn_add(trial->psn, 1);
            trial->msn++;
        }
    }
    if (!refused)
        skip(&trial->base, "its program posts receives again: no Send is refused");
    JUDGE(trial, bth->psn == trial->psn, "RNR NAK with PSN %06x; %06x is due", bth->psn,
          trial->psn);
    JUDGE(trial, bth->msn == ((trial->msn - 1) & BTH_MASK24), "RNR NAK with MSN %u; %u is due",
          bth->msn, (trial->msn - 1) & BTH_MASK24);
    if (!trial->base.over)
        note(&trial->base, "timer %u: %u us", bth->syndrome & AETH_VALUE,
             aeth_rnr_timer_us(bth->syndrome));
    /* A Write needs no receive, and takes the PSN that was refused. */
    roce_expect_going_on(trial);
}
