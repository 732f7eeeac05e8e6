/* SPDX-License-Identifier: BSD-3-Clause */
#include "steer.h"

#include "base/be.h"
#include "base/compiler.h"
#include "providers/software/roce/codec/bth.h"
#include "providers/software/roce/codec/cm.h"
#include "providers/software/roce/codec/mad.h"

#include <string.h>

#define QPN_WORD  4u /* the octet that the ICRC masks, and the destination QPN */
#define MAD_AT    (BTH_LEN + BTH_DETH_LEN)
#define ATTRIBUTE (MAD_AT + 16u)
#define BODY      (MAD_AT + MAD_HEADER_LEN)
#define FIRST_ID  BODY        /* SIDR_REP: the request ID */
#define REMOTE_ID (BODY + 4u) /* the receiver's communication ID */

#define UDP_HEADER 8u

/* Jumps count from the next instruction; the numbers at the left are those of the targets. */
uint32_t steer_program(struct sock_filter out[static STEER_PROGRAM_MAX], uint32_t slots)
{
    const struct sock_filter program[] = {
        /*  0 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, QPN_WORD),
        /*  1 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, BTH_MASK24),
        /*  2 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, BTH_QPN_GSI, 0, 12),
        /*  3 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, ATTRIBUTE),
        /*  4 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CM_SIDR_REP, 0, 2),
        /*  5 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ID),
        /*  6 */ BPF_JUMP(BPF_JMP | BPF_JA, 6, 0, 0),
        /*  7 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CM_DREQ, 6, 0),
        /*  8 */ BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, CM_APR, 5, 0),
        /*  9 */ BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, CM_LAP, 2, 0),
        /* 10 */ BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, CM_DREP, 3, 0),
        /* 11 */ BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, CM_MRA, 0, 2),
        /* 12 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, REMOTE_ID),
        /* 13 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        /* 14 */ BPF_STMT(BPF_RET | BPF_K, slots),
        /* 15 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, slots - 1),
        /* 16 */ BPF_STMT(BPF_RET | BPF_A, 0),
    };

    memcpy(out, program, sizeof(program));
    return ARRAY_SIZE(program);
}

/* Whole datagrams: of their length. */
#define TAKE 0xFFFFFFFFu

/* The same program: it reads behind the UDP header, and compares what it picks. */
uint32_t steer_filter(struct sock_filter out[static STEER_PROGRAM_MAX], uint32_t slots,
                      uint32_t slot)
{
    uint32_t n = steer_program(out, slots) - 1u;

    for (uint32_t i = 0; i < n; i++) {
        if (BPF_CLASS(out[i].code) == BPF_LD)
            out[i].k += UDP_HEADER;
        if (BPF_CLASS(out[i].code) == BPF_RET)
            out[i].k = 0; /* QP 1 of nobody's slot */
    }
    out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, slot, 0, 1);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, TAKE);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    return n;
}

static uint32_t by_id(const uint8_t *datagram, size_t len, size_t at, uint32_t slots)
{
    uint32_t id;

    if (len < at + 4u)
        return 0;
    id = be_get32(datagram + at);
    return id ? id & (slots - 1u) : slots;
}

static uint32_t by_attribute(const uint8_t *datagram, size_t len, uint32_t slots)
{
    switch (be_get16(datagram + ATTRIBUTE)) {
    case CM_SIDR_REP: return by_id(datagram, len, FIRST_ID, slots);
    case CM_MRA:
    case CM_REJ:
    case CM_REP:
    case CM_RTU:
    case CM_DREP:
    case CM_LAP:
    case CM_APR: return by_id(datagram, len, REMOTE_ID, slots);
    default: return slots;
    }
}

uint32_t steer_pick(const void *datagram, size_t len, uint32_t slots)
{
    uint32_t qpn;

    if (len < QPN_WORD + 4u)
        return 0;
    qpn = be_get32((const uint8_t *)datagram + QPN_WORD) & BTH_MASK24;
    if (qpn != BTH_QPN_GSI)
        return qpn & (slots - 1u);
    return len < ATTRIBUTE + 2u ? 0 : by_attribute(datagram, len, slots);
}
