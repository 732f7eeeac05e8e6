/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets to QP 1: addresses, ICRC, BTH, DETH; no connection is needed. */
#include "judges.h"

#include <string.h>

#include "base/be.h"
#include "providers/software/roce/codec/icrc.h"

#define DETH_AT BTH_LEN
#define MAD_AT  (BTH_LEN + BTH_DETH_LEN)
/* From the BTH to the ICRC. */
#define MAD_PACKET (MAD_AT + MAD_LEN + BTH_ICRC_LEN)

/* A REQ for nobody's service, made and not sent; returns its ID. */
static uint32_t make_question(struct roce_trial *trial)
{
    struct cm_message message;
    uint32_t id = roce_question(trial, &message);

    roce_make_message(trial, &message);
    return id;
}

static void ask_nobody(struct roce_trial *trial, enum raw_fault fault)
{
    uint32_t id = make_question(trial);

    roce_send(trial, fault);
    roce_expect_message(trial, id, CM_REJ);
}

/* ---- the way ---- */

void packet_port(struct roce_trial *trial)
{
    ask_nobody(trial, RAW_OTHER_PORT);
}

void packet_length(struct roce_trial *trial)
{
    ask_nobody(trial, RAW_RIGHT);
    JUDGE(trial, trial->heard.len == MAD_PACKET, "%zu octets of UDP payload; %u are due",
          trial->heard.len, MAD_PACKET);
}

void packet_no_fragment(struct roce_trial *trial)
{
    ask_nobody(trial, RAW_RIGHT);
    JUDGE(trial, trial->heard.answer.df, "sent without DF");
    if (trial->heard.answer.icrc == ANSWER_IDENTIFIED)
        note(&trial->base, "identification %u", trial->heard.answer.identification);
}

void packet_source(struct roce_trial *trial)
{
    ask_nobody(trial, RAW_RIGHT);
    if (trial->heard.way.source_port < 0xC000 && trial->heard.way.source_port != GID_UDP_PORT)
        note(&trial->base, "source port %u; C000 to FFFF is usual", trial->heard.way.source_port);
}

/* ---- the ICRC ---- */

void packet_icrc(struct roce_trial *trial)
{
    uint32_t id = make_question(trial);

    roce_send(trial, RAW_WRONG_ICRC);
    roce_expect_silence(trial, id);
}

/* The octet that is covered as ones may be anything. */
void packet_icrc_masked(struct roce_trial *trial)
{
    uint32_t id = make_question(trial);

    trial->out[BTH_MASKED_OCTET] = 0xFF;
    roce_send(trial, RAW_RIGHT);
    roce_expect_message(trial, id, CM_REJ);
}

/* hear_any() has let pass what is right only. */
void packet_own_icrc(struct roce_trial *trial)
{
    uint32_t id = make_question(trial);

    roce_send(trial, RAW_RIGHT);
    JUDGE(trial, roce_hear_message(trial, id, roce_patience_ms()),
          "no answer whose ICRC is right comes");
}

/* ---- the BTH ---- */

static void silent_with(struct roce_trial *trial, size_t at, uint8_t octet)
{
    uint32_t id = make_question(trial);

    trial->out[at] = octet;
    roce_send(trial, RAW_RIGHT);
    roce_expect_silence(trial, id);
}

void bth_version(struct roce_trial *trial)
{
    for (uint8_t version = 1; version < 16; version++)
        silent_with(trial, 1, BTH_M | version);
}

void bth_mig_req(struct roce_trial *trial)
{
    uint32_t id = make_question(trial);

    trial->out[1] = 0;
    roce_send(trial, RAW_RIGHT);
    roce_expect_message(trial, id, CM_REJ);
}

void bth_reserved(struct roce_trial *trial)
{
    uint32_t id = make_question(trial);

    trial->out[8] |= 0x7F;
    roce_send(trial, RAW_RIGHT);
    roce_expect_message(trial, id, CM_REJ);
}

void bth_p_key_wrong(struct roce_trial *trial)
{
    uint32_t id = make_question(trial);

    be_put16(trial->out + 2, 0x9234);
    roce_send(trial, RAW_RIGHT);
    roce_expect_silence(trial, id);
}

void bth_p_key_limited(struct roce_trial *trial)
{
    uint32_t id = make_question(trial);

    be_put16(trial->out + 2, 0x7FFF);
    roce_send(trial, RAW_RIGHT);
    roce_expect_message(trial, id, CM_REJ);
}

void bth_qpn_0(struct roce_trial *trial)
{
    silent_with(trial, 7, 0);
}

void bth_qpn_unknown(struct roce_trial *trial)
{
    uint32_t id = make_question(trial);

    be_put32(trial->out + 4, 0x00FEDCBA);
    roce_send(trial, RAW_RIGHT);
    roce_expect_silence(trial, id);
}

/* A request of RC to a QP that there is not: nobody is told. */
void bth_qpn_unknown_rc(struct roce_trial *trial)
{
    const struct bth_packet packet = { .opcode = BTH_RC | BTH_WRITE_ONLY,
                                       .p_key = BTH_P_KEY,
                                       .dest_qpn = 0x00FEDCBA,
                                       .ack_req = true };

    trial->out_len = raw_make(trial->out, &packet, NULL, 0);
    roce_send(trial, RAW_RIGHT);
    roce_expect_silence(trial, 0);
}

void bth_opcode_unknown(struct roce_trial *trial)
{
    silent_with(trial, 0, BTH_UD | 0x1F);
}

void bth_opcode_of_rc(struct roce_trial *trial)
{
    silent_with(trial, 0, BTH_RC | BTH_SEND_ONLY);
}

/* ---- datagrams ---- */

void datagram_headers(struct roce_trial *trial)
{
    const struct bth_packet *bth = &trial->heard.answer.bth;

    ask_nobody(trial, RAW_RIGHT);
    JUDGE(trial, bth->opcode == (BTH_UD | BTH_SEND_ONLY), "opcode %02x; 64 is due", bth->opcode);
    JUDGE(trial, !bth->pad, "pad count %u; 0 is due", bth->pad);
    JUDGE(trial, bth->p_key == BTH_P_KEY, "P_Key %04x; FFFF is due", bth->p_key);
    JUDGE(trial, bth->dest_qpn == BTH_QPN_GSI, "to QP %u; 1 is due", bth->dest_qpn);
}

void datagram_source(struct roce_trial *trial)
{
    ask_nobody(trial, RAW_RIGHT);
    JUDGE(trial, trial->heard.octets[DETH_AT + 4] == 0, "octet 4 of DETH is %02x; 0 is due",
          trial->heard.octets[DETH_AT + 4]);
    JUDGE(trial, trial->heard.answer.bth.src_qpn == BTH_QPN_GSI, "source QP %u; 1 is due",
          trial->heard.answer.bth.src_qpn);
}

void datagram_own_q_key(struct roce_trial *trial)
{
    ask_nobody(trial, RAW_RIGHT);
    JUDGE(trial, trial->heard.answer.bth.q_key == MAD_Q_KEY, "Q_Key %08x; %08x is due",
          trial->heard.answer.bth.q_key, MAD_Q_KEY);
}

void datagram_q_key(struct roce_trial *trial)
{
    uint32_t id = make_question(trial);

    be_put32(trial->out + DETH_AT, 0x11111111);
    roce_send(trial, RAW_RIGHT);
    roce_expect_silence(trial, id);
}

/* PSNs of datagrams are not looked at. */
void datagram_psn(struct roce_trial *trial)
{
    uint32_t id = make_question(trial);

    roce_set_psn(trial, 0x800000);
    roce_send(trial, RAW_RIGHT);
    roce_expect_message(trial, id, CM_REJ);
    id = make_question(trial);
    roce_set_psn(trial, 3);
    roce_send(trial, RAW_RIGHT);
    roce_expect_message(trial, id, CM_REJ);
}
