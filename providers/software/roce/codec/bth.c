/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RoCEv2 packets: opcode table, headers, checks without state.
 */
#include "bth.h"

#include <stddef.h>

#include "octets.h"

#define EXTENSION_LEN(h)                                                                         \
    (((h)&BTH_HAS_DETH ? BTH_DETH_LEN : 0u) + ((h)&BTH_HAS_RETH ? BTH_RETH_LEN : 0u) +           \
     ((h)&BTH_HAS_ATOMIC ? BTH_ATOMIC_LEN : 0u) + ((h)&BTH_HAS_AETH ? BTH_AETH_LEN : 0u) +       \
     ((h)&BTH_HAS_ATOMIC_ACK ? BTH_ATOMIC_ACK_LEN : 0u) + ((h)&BTH_HAS_IMM ? BTH_IMM_LEN : 0u) + \
     ((h)&BTH_HAS_IETH ? BTH_IETH_LEN : 0u) + ((h)&BTH_HAS_CNP ? BTH_CNP_LEN : 0u))

#define ROW(SERVICE, TEXT, KIND, PLACE, HEADERS, PAYLOAD)                                \
    {                                                                                    \
        .name = TEXT, .service = SERVICE, .kind = BTH_KIND_##KIND, .place = BTH_##PLACE, \
        .headers = HEADERS, .header_len = BTH_LEN + EXTENSION_LEN(HEADERS),              \
        .payload = BTH_PAYLOAD_##PAYLOAD                                                 \
    }
#define RC(OPERATION, TEXT, ...) [BTH_RC | (OPERATION)] = ROW(BTH_RC, "RC " TEXT, __VA_ARGS__)
#define UC(OPERATION, TEXT, ...) [BTH_UC | (OPERATION)] = ROW(BTH_UC, "UC " TEXT, __VA_ARGS__)
#define UD(OPERATION, TEXT, ...) [BTH_UD | (OPERATION)] = ROW(BTH_UD, "UD " TEXT, __VA_ARGS__)
#define BOTH(...)                RC(__VA_ARGS__), UC(__VA_ARGS__)

#define RETH       BTH_HAS_RETH
#define ATOMIC_ETH BTH_HAS_ATOMIC
#define AETH       BTH_HAS_AETH
#define DETH       BTH_HAS_DETH
#define IMM        BTH_HAS_IMM
#define IETH       BTH_HAS_IETH

const struct bth_op bth_ops[BTH_OPCODES] = {
    BOTH(BTH_SEND_FIRST, "Send First", SEND, FIRST, 0, MTU),
    BOTH(BTH_SEND_MIDDLE, "Send Middle", SEND, MIDDLE, 0, MTU),
    BOTH(BTH_SEND_LAST, "Send Last", SEND, LAST, 0, SOME),
    BOTH(BTH_SEND_LAST_IMM, "Send Last with Immediate", SEND, LAST, IMM, SOME),
    BOTH(BTH_SEND_ONLY, "Send Only", SEND, ONLY, 0, ANY),
    BOTH(BTH_SEND_ONLY_IMM, "Send Only with Immediate", SEND, ONLY, IMM, ANY),
    BOTH(BTH_WRITE_FIRST, "Write First", WRITE, FIRST, RETH, MTU),
    BOTH(BTH_WRITE_MIDDLE, "Write Middle", WRITE, MIDDLE, 0, MTU),
    BOTH(BTH_WRITE_LAST, "Write Last", WRITE, LAST, 0, SOME),
    BOTH(BTH_WRITE_LAST_IMM, "Write Last with Immediate", WRITE, LAST, IMM, SOME),
    BOTH(BTH_WRITE_ONLY, "Write Only", WRITE, ONLY, RETH, ANY),
    BOTH(BTH_WRITE_ONLY_IMM, "Write Only with Immediate", WRITE, ONLY, RETH | IMM, ANY),
    RC(BTH_READ_REQUEST, "Read Request", READ, ONLY, RETH, NONE),
    RC(BTH_READ_RESPONSE_FIRST, "Read Response First", READ_RESPONSE, FIRST, AETH, MTU),
    RC(BTH_READ_RESPONSE_MIDDLE, "Read Response Middle", READ_RESPONSE, MIDDLE, 0, MTU),
    RC(BTH_READ_RESPONSE_LAST, "Read Response Last", READ_RESPONSE, LAST, AETH, SOME),
    RC(BTH_READ_RESPONSE_ONLY, "Read Response Only", READ_RESPONSE, ONLY, AETH, ANY),
    RC(BTH_ACKNOWLEDGE, "Acknowledge", ACKNOWLEDGE, ONLY, AETH, NONE),
    RC(BTH_ATOMIC_ACKNOWLEDGE, "Atomic Acknowledge", ATOMIC_ACKNOWLEDGE, ONLY,
       AETH | BTH_HAS_ATOMIC_ACK, NONE),
    RC(BTH_COMPARE_SWAP, "Compare and Swap", ATOMIC, ONLY, ATOMIC_ETH, NONE),
    RC(BTH_FETCH_ADD, "Fetch and Add", ATOMIC, ONLY, ATOMIC_ETH, NONE),
    RC(BTH_SEND_LAST_INV, "Send Last with Invalidate", SEND, LAST, IETH, SOME),
    RC(BTH_SEND_ONLY_INV, "Send Only with Invalidate", SEND, ONLY, IETH, ANY),
    UD(BTH_SEND_ONLY, "Send Only", SEND, ONLY, DETH, ANY),
    UD(BTH_SEND_ONLY_IMM, "Send Only with Immediate", SEND, ONLY, DETH | IMM, ANY),
    [BTH_CNP] = ROW(BTH_CONGESTION, "CNP", CNP, ONLY, BTH_HAS_CNP, NONE),
};

static const struct {
    const char *requirement, *text;
} results[BTH_RESULTS] = {
    [BTH_OK] = { "", "ok" },
    [BTH_ERR_SHORT] = { "P-002", "too short for BTH and ICRC" },
    [BTH_ERR_LONG] = { "P-002", "longer than a datagram" },
    [BTH_ERR_UNALIGNED] = { "P-003", "length not a multiple of 4" },
    [BTH_ERR_VERSION] = { "R-060", "transport version not 0" },
    [BTH_ERR_OPCODE] = { "R-060", "unknown opcode" },
    [BTH_ERR_QPN] = { "P-020", "destination QPN 0" },
    [BTH_ERR_P_KEY] = { "P-025", "P_Key" },
    [BTH_ERR_HEADERS] = { "P-002", "too short for the extension headers" },
    [BTH_ERR_PAD] = { "P-002", "pad count beyond the payload" },
    [BTH_ERR_SYNDROME] = { "R-017", "AETH syndrome unknown or not of this opcode" },
    [BTH_ERR_PAYLOAD] = { "R-053", "payload does not fit opcode and MTU" },
    [BTH_ERR_MESSAGE] = { "P-032", "message longer than 2^31 octets" },
    [BTH_ERR_DMA_LENGTH] = { "R-053", "DMA length does not fit the packet" },
    [BTH_ERR_ADDRESS] = { "R-055", "address of an atomic not a multiple of 8" },
};

const char *bth_result_requirement(enum bth_result result)
{
    return (unsigned)result < BTH_RESULTS ? results[result].requirement : "";
}

const char *bth_result_text(enum bth_result result)
{
    return (unsigned)result < BTH_RESULTS ? results[result].text : "unknown result";
}

static void get_base(const uint8_t *p, struct bth_packet *packet)
{
    packet->opcode = p[0];
    packet->solicited = p[1] & BTH_SE;
    packet->mig_req = p[1] & BTH_M;
    packet->pad = (p[1] & BTH_PAD) >> 4;
    packet->p_key = be_get16(p + 2);
    packet->fecn = p[4] & BTH_FECN;
    packet->becn = p[4] & BTH_BECN;
    packet->dest_qpn = get24(p + 5);
    packet->ack_req = p[8] & BTH_ACK_REQ;
    packet->psn = get24(p + 9);
}

static const uint8_t *get_deth(const uint8_t *p, struct bth_packet *packet)
{
    packet->q_key = be_get32(p);
    packet->src_qpn = get24(p + 5);
    return p + BTH_DETH_LEN;
}

static const uint8_t *get_reth(const uint8_t *p, struct bth_packet *packet)
{
    packet->va = be_get64(p);
    packet->r_key = be_get32(p + 8);
    packet->dma_length = be_get32(p + 12);
    return p + BTH_RETH_LEN;
}

static void get_atomic(const uint8_t *p, struct bth_packet *packet)
{
    packet->va = be_get64(p);
    packet->r_key = be_get32(p + 8);
    packet->swap_add = be_get64(p + 12);
    packet->compare = be_get64(p + 20);
}

static const uint8_t *get_aeth(const uint8_t *p, struct bth_packet *packet)
{
    packet->syndrome = p[0];
    packet->msn = get24(p + 1);
    return p + BTH_AETH_LEN;
}

/* The combinations of the table; one jump for each packet. */
static void get_extensions(const uint8_t *p, unsigned headers, struct bth_packet *packet)
{
    switch (headers) {
    case DETH: get_deth(p, packet); break;
    case DETH | IMM: packet->imm = be_get32(get_deth(p, packet)); break;
    case RETH: get_reth(p, packet); break;
    case RETH | IMM: packet->imm = be_get32(get_reth(p, packet)); break;
    case ATOMIC_ETH: get_atomic(p, packet); break;
    case AETH: get_aeth(p, packet); break;
    case AETH | BTH_HAS_ATOMIC_ACK: packet->original = be_get64(get_aeth(p, packet)); break;
    case IMM: packet->imm = be_get32(p); break;
    case IETH: packet->invalidate_key = be_get32(p); break;
    default: break; /* none, or the reserved octets of a CNP */
    }
}

/* Only an Acknowledge may refuse something. */
static bool syndrome_ok(const struct bth_op *op, uint8_t syndrome)
{
    return op->kind == BTH_KIND_ACKNOWLEDGE ? aeth_is_known(syndrome) : aeth_is_ack(syndrome);
}

enum bth_result bth_parse(const void *packet_octets, size_t len, struct bth_packet *packet)
{
    const uint8_t *p = packet_octets;
    const struct bth_op *op;
    uint32_t behind, pad;

    if (len < BTH_PACKET_MIN)
        return BTH_ERR_SHORT;
    if (len > BTH_PACKET_MAX)
        return BTH_ERR_LONG;
    if (len % 4u)
        return BTH_ERR_UNALIGNED;
    if (p[1] & BTH_TVER)
        return BTH_ERR_VERSION;
    op = &bth_ops[p[0]];
    if (!op->name)
        return BTH_ERR_OPCODE;
    if (get24(p + 5) == BTH_QPN_SMI)
        return BTH_ERR_QPN;
    if (!bth_p_key_match(be_get16(p + 2), BTH_P_KEY))
        return BTH_ERR_P_KEY;
    if (len < op->header_len + BTH_ICRC_LEN)
        return BTH_ERR_HEADERS;
    behind = (uint32_t)len - op->header_len - BTH_ICRC_LEN;
    pad = (p[1] & BTH_PAD) >> 4;
    if (pad > behind)
        return BTH_ERR_PAD;
    if (op->headers & AETH && !syndrome_ok(op, p[BTH_LEN]))
        return BTH_ERR_SYNDROME;

    get_base(p, packet);
    get_extensions(p + BTH_LEN, op->headers, packet);
    packet->op = op;
    packet->payload = p + op->header_len;
    packet->payload_len = behind - pad;
    return BTH_OK;
}

static bool payload_ok(const struct bth_op *op, uint32_t len, uint32_t mtu)
{
    switch ((enum bth_payload)op->payload) {
    case BTH_PAYLOAD_NONE: return !len;
    case BTH_PAYLOAD_MTU: return len == mtu;
    case BTH_PAYLOAD_SOME: return len && len <= mtu;
    case BTH_PAYLOAD_ANY: break;
    }
    return len <= mtu;
}

/* A Write First has more to follow, a Write Only has all. */
static bool dma_length_ok(const struct bth_packet *packet, uint32_t mtu)
{
    if (packet->op->kind != BTH_KIND_WRITE)
        return true;
    if (packet->op->place == BTH_FIRST)
        return packet->dma_length > mtu;
    return packet->dma_length == packet->payload_len;
}

enum bth_result bth_check(const struct bth_packet *packet, uint32_t mtu)
{
    const struct bth_op *op = packet->op;

    if (!payload_ok(op, packet->payload_len, mtu))
        return BTH_ERR_PAYLOAD;
    if (op->headers & RETH) {
        if (packet->dma_length > BTH_MESSAGE_MAX)
            return BTH_ERR_MESSAGE;
        if (!dma_length_ok(packet, mtu))
            return BTH_ERR_DMA_LENGTH;
    }
    if (op->headers & ATOMIC_ETH && packet->va % 8u)
        return BTH_ERR_ADDRESS;
    return BTH_OK;
}

static uint8_t *put_deth(uint8_t *p, const struct bth_packet *packet)
{
    bth_put_deth(p, packet->q_key, packet->src_qpn);
    return p + BTH_DETH_LEN;
}

static uint8_t *put_reth(uint8_t *p, const struct bth_packet *packet)
{
    bth_put_reth(p, packet->va, packet->r_key, packet->dma_length);
    return p + BTH_RETH_LEN;
}

static uint8_t *put_aeth(uint8_t *p, const struct bth_packet *packet)
{
    bth_put_aeth(p, packet->syndrome, packet->msn);
    return p + BTH_AETH_LEN;
}

static void put_extensions(uint8_t *p, unsigned headers, const struct bth_packet *packet)
{
    switch (headers) {
    case DETH: put_deth(p, packet); break;
    case DETH | IMM: be_put32(put_deth(p, packet), packet->imm); break;
    case RETH: put_reth(p, packet); break;
    case RETH | IMM: be_put32(put_reth(p, packet), packet->imm); break;
    case ATOMIC_ETH:
        bth_put_atomic(p, packet->va, packet->r_key, packet->swap_add, packet->compare);
        break;
    case AETH: put_aeth(p, packet); break;
    case AETH | BTH_HAS_ATOMIC_ACK: be_put64(put_aeth(p, packet), packet->original); break;
    case IMM: be_put32(p, packet->imm); break;
    case IETH: be_put32(p, packet->invalidate_key); break;
    case BTH_HAS_CNP: memset(p, 0, BTH_CNP_LEN); break;
    default: break;
    }
}

uint32_t bth_put(uint8_t out[static BTH_HEADERS_MAX], const struct bth_packet *packet)
{
    const struct bth_op *op = &bth_ops[packet->opcode];
    uint32_t flags = (packet->solicited ? BTH_SE : 0u) | (packet->mig_req ? BTH_M : 0u) |
                     bth_pad(packet->payload_len) << 4;

    if (!op->name)
        return 0;
    bth_put_base(out, packet->opcode, flags, packet->dest_qpn,
                 (packet->psn & BTH_MASK24) | (packet->ack_req ? BTH_WORD_ACK : 0u));
    be_put16(out + 2, packet->p_key);
    out[BTH_MASKED_OCTET] = (uint8_t)((packet->fecn ? BTH_FECN : 0u) |
                                      (packet->becn ? BTH_BECN : 0u));
    put_extensions(out + BTH_LEN, op->headers, packet);
    return op->header_len;
}

uint32_t aeth_rnr_timer_us(uint8_t code)
{
    static const uint32_t us[32] = {
        655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,    320,
        480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240,  15360,
        20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
    };

    return us[code & AETH_VALUE];
}
