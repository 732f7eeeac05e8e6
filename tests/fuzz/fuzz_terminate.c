/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Terminate payloads of peers, in both bit orders, and ital's own about arbitrary segments. First
 * octet: 1 the peer is siw; 2 received on a live connection, in this case 4 by a responder, 8
 * without L, 16 another MSN, 32 no CRC, 64 in parts.
 */
#include "tests/fuzz/peer.h"

#include <string.h>

#include "providers/software/iwarp/codec/terminate.h"

/* ---- the codec ---- */

static void inside(const uint8_t *p, size_t n, const uint8_t *data, size_t size)
{
    FUZZ_CHECK((p == NULL) == (n == 0));
    if (p)
        FUZZ_CHECK(p >= data && n <= size && (size_t)(p - data) <= size - n);
}

/* The form of Linux siw: nibbles swapped, flags mirrored. With a flag set the form is
 * unambiguous. */
static void swapped(const uint8_t *payload, size_t n, const struct terminate_info *straight)
{
    uint8_t out[TERMINATE_PAYLOAD_MAX];
    struct terminate_info info;
    uint8_t flags = payload[2];

    memcpy(out, payload, n);
    out[0] = (uint8_t)(payload[0] << 4 | payload[0] >> 4);
    out[2] = (uint8_t)((flags & 0x80 ? 1 : 0) | (flags & 0x40 ? 2 : 0) | (flags & 0x20 ? 4 : 0));
    for (int siw = 0; siw < 2; siw++) {
        FUZZ_CHECK(terminate_parse(out, n, siw, &info) == TERMINATE_OK);
        FUZZ_CHECK(info.swapped && !info.uncertain && info.value == straight->value);
        FUZZ_CHECK(info.ddp_hdr_len == straight->ddp_hdr_len);
        FUZZ_CHECK(info.rdma_hdr_len == straight->rdma_hdr_len);
        FUZZ_CHECK(info.ddp_segment_len == straight->ddp_segment_len);
    }
}

static void build(uint16_t value, const uint8_t *data, size_t size)
{
    struct terminate_cause cause = { .ulpdu = data, .have = size, .ulpdu_len = (uint32_t)size };
    uint8_t out[TERMINATE_PAYLOAD_MAX];
    struct terminate_info info;
    size_t n = terminate_build(out, value, &cause);

    FUZZ_CHECK(n >= 4 && n <= sizeof(out));
    FUZZ_CHECK(terminate_parse(out, n, false, &info) == TERMINATE_OK && !info.truncated);
    FUZZ_CHECK(n == 4 || (info.value == value && !info.swapped));
    if (info.ddp_hdr)
        FUZZ_CHECK(!memcmp(info.ddp_hdr, data, info.ddp_hdr_len));
    if (n > 4)
        swapped(out, n, &info);
}

static void parse(bool siw, const uint8_t *data, size_t size)
{
    struct terminate_info info;

    if (terminate_parse(data, size, siw, &info) != TERMINATE_OK) {
        FUZZ_CHECK(size < TERMINATE_CTRL_LEN);
        return;
    }
    inside(info.ddp_hdr, info.ddp_hdr_len, data, size);
    inside(info.rdma_hdr, info.rdma_hdr_len, data, size);
    FUZZ_CHECK((info.value & 0xFF) == data[1]);
    FUZZ_CHECK(*terminate_text(info.value) && *terminate_layer_text(info.value));
}

/* ---- on a live connection ---- */

/* Two Reads and a receive that will not complete with success. */
static void post_work(struct testbed *w)
{
    struct ri_sge sge = testbed_sge(w, REGION_LOCAL, 0, 100);
    struct ri_send_wr wr = { .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = RI_WR_RDMA_READ,
                             .flags = RI_WR_SIGNALED,
                             .rdma = { .remote_addr = 4096, .rkey = 0x77000001 } };

    testbed_post_receive(w, 0, &sge, 1, 0);
    testbed_post(w, 0, &wr);
    testbed_post(w, 0, &wr);
}

/* The stream has ended, whatever the payload contains, and no Terminate came back. */
static void checker(struct testbed *w, const uint8_t *payload, uint32_t length)
{
    const struct fuzz_wire *wire = w->qps[0].wire;
    struct ri_qp_info info = { .size = sizeof(info) };
    struct terminate_info said = { .value = 0x01FF };

    FUZZ_CHECK(core_qp_query(w->qps[0].qp, &info) == RI_OK);
    FUZZ_CHECK(info.state == RI_QPS_ERROR && wire->ended == 1 && !wire->checker.terminated);
    terminate_parse(payload, length, false, &said);
    FUZZ_CHECK(info.terminate_received == said.value && !info.terminate_sent);
    FUZZ_CHECK(info.terminate_length <= length);
    FUZZ_CHECK(!memcmp(info.terminate, payload, info.terminate_length));
}

static void live(uint8_t how, const uint8_t *payload, size_t size)
{
    const struct testbed_shape shape = { .emss = 1448,
                                         .cqe = 64,
                                         .depth = 8,
                                         .sge = 4,
                                         .flags = RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE };
    const struct testbed_start start = {
        .initiator = !(how & 4), .crc = !(how & 32), .rtr = RI_RTR_WRITE, .ird = 8, .ord = 8
    };
    uint8_t ulpdu[18 + 256] = { 0x41, 0x47, [9] = 2, [13] = 1 };
    uint32_t length = size < 256 ? (uint32_t)size : 256;
    struct testbed *w = testbed_open(&shape);

    ulpdu[0] ^= how & 8 ? 0x40 : 0;
    ulpdu[13] ^= how & 16 ? 3 : 0;
    memcpy(ulpdu + 18, payload, length);
    testbed_start(w, 0, &start);
    post_work(w);
    peer_send(w, w->qps[0].wire, ulpdu, 18 + length, PEER_GOOD, how & 64 ? 7 : 0);
    checker(w, payload, length);
    testbed_close(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t how;

    if (size < 1)
        return 0;
    how = data[0];
    data++;
    size--;
    if (how & 2) {
        live(how, data, size);
        return 0;
    }
    if (size >= 2)
        build((uint16_t)(data[0] << 8 | data[1]), data + 2, size - 2);
    parse(how & 1, data, size);
    return 0;
}
