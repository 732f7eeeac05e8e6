/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A RoCEv2 packet, from the BTH to the ICRC: parse, check, encode again, ICRC in portions. First
 * octet: MTU, address family, where portions are cut.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "providers/software/roce/codec/bth.h"
#include "providers/software/roce/codec/icrc.h"

/* What is ignored on receipt is 0 when it is sent. */
static void clear_reserved(uint8_t *headers, const struct bth_packet *packet)
{
    headers[4] &= BTH_FECN | BTH_BECN;
    headers[8] &= BTH_ACK_REQ;
    if (packet->op->headers & BTH_HAS_DETH)
        headers[BTH_LEN + 4] = 0;
    if (packet->op->headers & BTH_HAS_CNP)
        memset(headers + BTH_LEN, 0, BTH_CNP_LEN);
}

static void encode_again(const uint8_t *data, size_t size, const struct bth_packet *packet)
{
    uint8_t out[BTH_HEADERS_MAX], want[BTH_HEADERS_MAX];
    uint32_t len = bth_put(out, packet);

    FUZZ_CHECK(len == packet->op->header_len);
    FUZZ_CHECK(packet->payload == data + len);
    FUZZ_CHECK(bth_packet_len(packet->op, packet->payload_len) == size);
    memcpy(want, data, len);
    clear_reserved(want, packet);
    FUZZ_CHECK(!memcmp(out, want, len));
}

static void check(const struct bth_packet *packet, uint32_t mtu)
{
    enum bth_result result = bth_check(packet, mtu);

    FUZZ_CHECK(result == BTH_OK || result > BTH_ERR_SYNDROME);
    FUZZ_CHECK(*bth_result_text(result));
    if (result != BTH_OK)
        return;
    FUZZ_CHECK(packet->payload_len <= mtu);
    if (packet->op->headers & BTH_HAS_RETH)
        FUZZ_CHECK(packet->dma_length <= BTH_MESSAGE_MAX);
}

static void sum(const uint8_t *data, size_t size, uint8_t settings)
{
    uint8_t source[GID_LEN] = { 0xFD }, destination[GID_LEN] = { 0xFD, 1 };
    const uint8_t *behind = data + BTH_LEN;
    size_t n = size - BTH_LEN - BTH_ICRC_LEN, cut = n * (settings >> 4) / 16;
    struct iovec iov[2] = { { (void *)(uintptr_t)behind, cut },
                            { (void *)(uintptr_t)(behind + cut), n - cut } };
    struct icrc_path path;
    uint32_t begun, whole;

    if (settings & 8) {
        gid_put_ipv4(source, destination);
        gid_put_ipv4(destination, destination + 4);
    }
    icrc_path_init(&path, source, destination, 0xC000);
    whole = icrc_of_packet(&path, ICRC_DF, data, size);
    begun = icrc_begin(&path, ICRC_DF, (uint32_t)size + ICRC_UDP_LEN, data);
    FUZZ_CHECK(icrc_add_iov(begun, iov, 2) == whole);
    FUZZ_CHECK(crc32_add_by_table(begun, behind, n) == whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bth_packet packet;
    enum bth_result result;
    uint8_t settings;

    if (size < 1)
        return 0;
    settings = *data++;
    size--;
    result = bth_parse(data, size, &packet);
    FUZZ_CHECK(*bth_result_text(result));
    if (result != BTH_OK) {
        FUZZ_CHECK(*bth_result_requirement(result));
        return 0;
    }
    encode_again(data, size, &packet);
    check(&packet, BTH_MTU_MIN << (settings & 7u) % 5u);
    sum(data, size, settings);
    return 0;
}
