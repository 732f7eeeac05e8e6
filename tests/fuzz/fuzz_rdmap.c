/* SPDX-License-Identifier: BSD-3-Clause */
/* One ULPDU through every stateless check and decoder. First octet: features. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "providers/software/iwarp/codec/rdmap.h"
#include "providers/software/iwarp/codec/terminate.h"

/* A header that passed the checks is one that ital could send, except for reserved bits. */
static void header_again(const struct rdmap_segment *seg, const uint8_t *data)
{
    const struct ddp_hdr *h = &seg->hdr;
    uint8_t out[DDP_HDR_MAX];

    if (h->tagged)
        ddp_put_tagged(out, h->last, rdmap_ctrl(seg->opcode), h->stag, h->to);
    else
        ddp_put_untagged(out, h->last, rdmap_ctrl(seg->opcode), h->ulp_word, h->qn, h->msn, h->mo);
    FUZZ_CHECK(out[0] == (data[0] & 0xC3) && out[1] == (data[1] & 0xCF));
    FUZZ_CHECK(!memcmp(out + 2, data + 2, h->len - 2u));
}

static void message_again(const struct rdmap_segment *seg)
{
    uint8_t out[RDMAP_ATOMIC_REQ_LEN];
    struct rdmap_atomic_resp resp;
    struct rdmap_atomic_req atomic;
    struct rdmap_read_req read;

    switch ((enum rdmap_payload)seg->op->payload) {
    case RDMAP_PAYLOAD_READ_REQ:
        rdmap_get_read_req(seg->payload, &read);
        rdmap_put_read_req(out, &read);
        FUZZ_CHECK(!memcmp(out, seg->payload, RDMAP_READ_REQ_LEN));
        break;
    case RDMAP_PAYLOAD_ATOMIC_REQ:
        rdmap_get_atomic_req(seg->payload, &atomic);
        rdmap_put_atomic_req(out, &atomic);
        FUZZ_CHECK(!memcmp(out + 4, seg->payload + 4, RDMAP_ATOMIC_REQ_LEN - 4));
        (void)rdmap_check_atomic_op(atomic.op);
        break;
    case RDMAP_PAYLOAD_ATOMIC_RESP:
        rdmap_get_atomic_resp(seg->payload, &resp);
        rdmap_put_atomic_resp(out, &resp);
        FUZZ_CHECK(!memcmp(out, seg->payload, RDMAP_ATOMIC_RESP_LEN));
        break;
    case RDMAP_PAYLOAD_IMM:
        rdmap_put_imm(out, rdmap_get_imm(seg->payload));
        FUZZ_CHECK(!memcmp(out, seg->payload, RDMAP_IMM_LEN));
        break;
    default: break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t out[TERMINATE_ULPDU_MAX];
    struct terminate_cause cause;
    struct rdmap_segment seg;
    enum rdmap_result r;
    unsigned features;

    if (size < 1)
        return 0;
    features = data[0] & 3;
    data++;
    size--;
    r = rdmap_check(data, size, features, &seg);
    if (r == RDMAP_OK) {
        FUZZ_CHECK(seg.payload + seg.payload_len == data + size);
        header_again(&seg, data);
        r = rdmap_check_queue(&seg, features);
    }
    if (r == RDMAP_OK)
        r = rdmap_check_payload(&seg);
    if (r == RDMAP_OK)
        message_again(&seg);
    if (r != RDMAP_OK) { /* the Terminate of a refusal is itself well-formed */
        cause =
            (struct terminate_cause){ .ulpdu = data, .have = size, .ulpdu_len = (uint32_t)size };
        size = terminate_build_ulpdu(out, rdmap_terminate_value(r), &cause);
        FUZZ_CHECK(rdmap_check(out, size, 0, &seg) == RDMAP_OK && terminate_well_formed(&seg));
    }
    return 0;
}
