/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMAP messages (RFC 5040, RFC 7306): opcode table, message headers, stateless checks.
 */
#include "rdmap.h"

const struct rdmap_op rdmap_ops[RDMAP_OPCODES] = {
    [RDMAP_WRITE] = { .name = "RDMA Write", .tagged = true, .payload = RDMAP_PAYLOAD_DATA },
    [RDMAP_READ_REQ] = { .name = "RDMA Read Request",
                         .single = true,
                         .qn = DDP_QN_READ,
                         .payload = RDMAP_PAYLOAD_READ_REQ },
    [RDMAP_READ_RESP] = { .name = "RDMA Read Response",
                          .tagged = true,
                          .payload = RDMAP_PAYLOAD_DATA },
    [RDMAP_SEND] = { .name = "Send", .qn = DDP_QN_SEND, .payload = RDMAP_PAYLOAD_DATA },
    [RDMAP_SEND_INV] = { .name = "Send with Invalidate",
                         .invalidates = true,
                         .qn = DDP_QN_SEND,
                         .payload = RDMAP_PAYLOAD_DATA },
    [RDMAP_SEND_SE] = { .name = "Send with Solicited Event",
                        .solicited = true,
                        .qn = DDP_QN_SEND,
                        .payload = RDMAP_PAYLOAD_DATA },
    [RDMAP_SEND_SE_INV] = { .name = "Send with Solicited Event and Invalidate",
                            .invalidates = true,
                            .solicited = true,
                            .qn = DDP_QN_SEND,
                            .payload = RDMAP_PAYLOAD_DATA },
    [RDMAP_TERMINATE] = { .name = "Terminate",
                          .single = true,
                          .qn = DDP_QN_TERMINATE,
                          .payload = RDMAP_PAYLOAD_TERMINATE },
    [RDMAP_IMM] = { .name = "Immediate Data",
                    .single = true,
                    .qn = DDP_QN_SEND,
                    .payload = RDMAP_PAYLOAD_IMM,
                    .features = RDMAP_FEATURE_IMM },
    [RDMAP_IMM_SE] = { .name = "Immediate Data with Solicited Event",
                       .single = true,
                       .solicited = true,
                       .qn = DDP_QN_SEND,
                       .payload = RDMAP_PAYLOAD_IMM,
                       .features = RDMAP_FEATURE_IMM },
    [RDMAP_ATOMIC_REQ] = { .name = "Atomic Request",
                           .single = true,
                           .qn = DDP_QN_READ,
                           .payload = RDMAP_PAYLOAD_ATOMIC_REQ,
                           .features = RDMAP_FEATURE_ATOMIC },
    [RDMAP_ATOMIC_RESP] = { .name = "Atomic Response",
                            .single = true,
                            .qn = DDP_QN_ATOMIC,
                            .payload = RDMAP_PAYLOAD_ATOMIC_RESP,
                            .features = RDMAP_FEATURE_ATOMIC },
    [RDMAP_SEND_IMM] = { .name = "Send with Immediate",
                         .immediate = true,
                         .qn = DDP_QN_SEND,
                         .payload = RDMAP_PAYLOAD_DATA,
                         .features = RDMAP_FEATURE_FUSED },
    [RDMAP_SEND_SE_IMM] = { .name = "Send with Solicited Event and Immediate",
                            .immediate = true,
                            .solicited = true,
                            .qn = DDP_QN_SEND,
                            .payload = RDMAP_PAYLOAD_DATA,
                            .features = RDMAP_FEATURE_FUSED },
};

static const struct {
    uint16_t terminate;
    const char *text;
} results[RDMAP_RESULTS] = {
    [RDMAP_OK] = { 0xFFFF, "ok" },
    [RDMAP_ERR_MIN] = { 0x1000, "segment without control octets" },
    [RDMAP_ERR_DV_TAGGED] = { 0x1104, "DDP version of a tagged segment" },
    [RDMAP_ERR_DV_UNTAGGED] = { 0x1206, "DDP version of an untagged segment" },
    [RDMAP_ERR_RV] = { 0x0205, "RDMAP version" },
    [RDMAP_ERR_OPCODE] = { 0x0206, "opcode unassigned or not supported" },
    [RDMAP_ERR_T] = { 0x0206, "T bit does not fit the opcode" },
    [RDMAP_ERR_HDR_TAGGED] = { 0x1000, "segment shorter than a tagged header" },
    [RDMAP_ERR_HDR_UNTAGGED] = { 0x1000, "segment shorter than an untagged header" },
    [RDMAP_ERR_L] = { 0x0207, "L bit missing on a single-segment message" },
    [RDMAP_ERR_QN] = { 0x1201, "queue number" },
    [RDMAP_ERR_OPCODE_QN] = { 0x1201, "queue number does not fit the opcode" },
    [RDMAP_ERR_READ_SHORT] = { 0x1000, "Read Request shorter than 28 octets" },
    [RDMAP_ERR_READ_LONG] = { 0x1205, "Read Request longer than 28 octets" },
    [RDMAP_ERR_READ_MO] = { 0x1204, "Read Request with a message offset" },
    [RDMAP_ERR_IMM] = { 0x0207, "Immediate Data of wrong length or offset" },
    [RDMAP_ERR_ATOMIC_SHORT] = { 0x1000, "Atomic Request shorter than 52 octets" },
    [RDMAP_ERR_ATOMIC_LONG] = { 0x1205, "Atomic Request longer than 52 octets or with an offset" },
    [RDMAP_ERR_ATOMIC_OP] = { 0x0206, "atomic operation code" },
    [RDMAP_ERR_ATOMIC_RESP_LEN] = { 0x1205, "Atomic Response not of 12 octets" },
};

uint16_t rdmap_terminate_value(enum rdmap_result result)
{
    return (unsigned)result < RDMAP_RESULTS ? results[result].terminate : 0xFFFF;
}

const char *rdmap_result_text(enum rdmap_result result)
{
    return (unsigned)result < RDMAP_RESULTS ? results[result].text : "unknown result";
}

enum rdmap_result rdmap_check(const void *ulpdu, size_t len, unsigned features,
                              struct rdmap_segment *seg)
{
    const uint8_t *p = ulpdu;
    const struct rdmap_op *op;
    bool tagged;

    if (len < 2)
        return RDMAP_ERR_MIN;
    tagged = p[0] & DDP_CTRL_T;
    if ((p[0] & DDP_CTRL_DV) != DDP_VERSION)
        return tagged ? RDMAP_ERR_DV_TAGGED : RDMAP_ERR_DV_UNTAGGED;
    if ((p[1] & RDMAP_CTRL_RV) != RDMAP_VERSION << 6)
        return RDMAP_ERR_RV;
    op = &rdmap_ops[p[1] & RDMAP_CTRL_OP];
    if (!op->name || (op->features & ~features))
        return RDMAP_ERR_OPCODE;
    if (op->tagged != tagged)
        return RDMAP_ERR_T;
    if (len < ddp_hdr_len(tagged))
        return tagged ? RDMAP_ERR_HDR_TAGGED : RDMAP_ERR_HDR_UNTAGGED;
    if (op->single && !(p[0] & DDP_CTRL_L))
        return RDMAP_ERR_L;

    ddp_get_whole(p, tagged, &seg->hdr);
    seg->opcode = (enum rdmap_opcode)(p[1] & RDMAP_CTRL_OP);
    seg->op = op;
    seg->payload = p + seg->hdr.len;
    seg->payload_len = (uint32_t)(len - seg->hdr.len);
    return RDMAP_OK;
}

enum rdmap_result rdmap_check_queue(const struct rdmap_segment *seg, unsigned features)
{
    uint32_t last = features & RDMAP_FEATURE_ATOMIC ? DDP_QN_ATOMIC : DDP_QN_TERMINATE;

    if (seg->hdr.tagged)
        return RDMAP_OK;
    if (seg->hdr.qn > last)
        return RDMAP_ERR_QN;
    return seg->hdr.qn == seg->op->qn ? RDMAP_OK : RDMAP_ERR_OPCODE_QN;
}

enum rdmap_result rdmap_check_payload(const struct rdmap_segment *seg)
{
    uint32_t n = seg->payload_len;

    switch ((enum rdmap_payload)seg->op->payload) {
    case RDMAP_PAYLOAD_READ_REQ:
        if (rdmap_read_request_ok(&seg->hdr, n))
            return RDMAP_OK;
        if (n == RDMAP_READ_REQ_LEN)
            return RDMAP_ERR_READ_MO;
        return n < RDMAP_READ_REQ_LEN ? RDMAP_ERR_READ_SHORT : RDMAP_ERR_READ_LONG;
    case RDMAP_PAYLOAD_IMM: return n != RDMAP_IMM_LEN || seg->hdr.mo ? RDMAP_ERR_IMM : RDMAP_OK;
    case RDMAP_PAYLOAD_ATOMIC_REQ:
        if (n < RDMAP_ATOMIC_REQ_LEN)
            return RDMAP_ERR_ATOMIC_SHORT;
        return n > RDMAP_ATOMIC_REQ_LEN || seg->hdr.mo ? RDMAP_ERR_ATOMIC_LONG : RDMAP_OK;
    case RDMAP_PAYLOAD_ATOMIC_RESP:
        return n != RDMAP_ATOMIC_RESP_LEN ? RDMAP_ERR_ATOMIC_RESP_LEN : RDMAP_OK;
    case RDMAP_PAYLOAD_NONE:
    case RDMAP_PAYLOAD_DATA:
    case RDMAP_PAYLOAD_TERMINATE: break;
    }
    return RDMAP_OK;
}

void rdmap_put_atomic_req(uint8_t out[static RDMAP_ATOMIC_REQ_LEN],
                          const struct rdmap_atomic_req *req)
{
    be_put32(out, req->op & 0xFu);
    be_put32(out + 4, req->id);
    be_put32(out + 8, req->stag);
    be_put64(out + 12, req->to);
    be_put64(out + 20, req->data);
    be_put64(out + 28, req->mask);
    be_put64(out + 36, req->compare);
    be_put64(out + 44, req->compare_mask);
}

void rdmap_get_atomic_req(const uint8_t in[static RDMAP_ATOMIC_REQ_LEN],
                          struct rdmap_atomic_req *req)
{
    req->op = in[3] & 0xFu;
    req->id = be_get32(in + 4);
    req->stag = be_get32(in + 8);
    req->to = be_get64(in + 12);
    req->data = be_get64(in + 20);
    req->mask = be_get64(in + 28);
    req->compare = be_get64(in + 36);
    req->compare_mask = be_get64(in + 44);
}

enum rdmap_result rdmap_check_atomic_op(uint8_t op)
{
    return op == RDMAP_FETCH_ADD || op == RDMAP_CMP_SWAP ? RDMAP_OK : RDMAP_ERR_ATOMIC_OP;
}

void rdmap_put_atomic_resp(uint8_t out[static RDMAP_ATOMIC_RESP_LEN],
                           const struct rdmap_atomic_resp *resp)
{
    be_put32(out, resp->id);
    be_put64(out + 4, resp->value);
}

void rdmap_get_atomic_resp(const uint8_t in[static RDMAP_ATOMIC_RESP_LEN],
                           struct rdmap_atomic_resp *resp)
{
    resp->id = be_get32(in);
    resp->value = be_get64(in + 4);
}
