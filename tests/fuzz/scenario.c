/* SPDX-License-Identifier: BSD-3-Clause */
/* The same stream, split in different ways: see scenario.h. */
#include "tests/fuzz/scenario.h"

#include <string.h>

struct result {
    uint64_t memory, told;
    /* The end overtook requests of the peer: its atomics may or may not have executed. */
    bool unanswered;
    bool revoked; /* the peer invalidated the memory of an earlier request of its own */
    struct ri_qp_info info;
};

/*
 * Octet 0: initiator, no CRC, markers to the peer, markers from the peer, RTR awaited, SRQ, FIN at
 * the end, first octets come with the hand-over. 1: receives, Reads, an atomic, their size. 2:
 * enables, EMSS, as InfiniBand. 3, 4: split. 5: IRD.
 */
static struct testbed_shape shape(const uint8_t *s)
{
    static const uint32_t emss[] = { 1448, 536, 128, 9000 };

    return (struct testbed_shape){
        .srq = s[0] & 32,
        .emss = emss[s[2] >> 5 & 3],
        .cqe = 200,
        .depth = 48,
        .sge = 4,
        .flags = ~(uint32_t)s[2] & (RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE | RI_QP_ATOMIC_ENABLE |
                                    RI_QP_BIND_ENABLE | RI_QP_INVALIDATE_ENABLE),
        .as_infiniband = s[2] & 128,
    };
}

static void post_receives(struct testbed *w, uint8_t how)
{
    for (uint32_t i = 0; i < (how & 7u); i++) {
        struct ri_sge sges[2];

        sges[0] = testbed_sge(w, REGION_LOCAL, 256 * i, how & 0x40 ? 64 : 256);
        sges[1] = testbed_sge(w, REGION_LOCAL, 2048 + 512 * i, 300);
        testbed_post_receive(w, 0, sges, how & 0x80 ? 2 : 1, 0);
    }
}

/* As in the vectors: sixteen octets each. */
static void post_reads(struct testbed *w, uint8_t how)
{
    struct ri_sge sge = testbed_sge(w, REGION_LOCAL, 7000, 16);
    struct ri_send_wr wr = { .sg_list = &sge, .num_sge = 1, .flags = RI_WR_SIGNALED };

    for (uint32_t i = 0; i < (how >> 3 & 3u); i++) {
        sge = testbed_sge(w, REGION_LOCAL, 7000 + 64 * i, 16);
        wr.opcode = RI_WR_RDMA_READ;
        wr.rdma.remote_addr = 0x1000;
        wr.rdma.rkey = 0x77000001;
        testbed_post(w, 0, &wr);
    }
    if (!(how & 0x20))
        return;
    sge = testbed_sge(w, REGION_LOCAL, 6400, 8);
    wr.opcode = RI_WR_ATOMIC_FETCH_ADD;
    wr.atomic.remote_addr = 0x1000;
    wr.atomic.swap_or_add = 1;
    wr.atomic.compare = 0;
    wr.atomic.rkey = 0x77000001;
    testbed_post(w, 0, &wr);
}

/* A window for QP 1 or for no QP needs the feature; without it the STag is unknown. */
static void start(struct testbed *w, const uint8_t *s, const uint8_t *read, size_t length)
{
    const struct testbed_start how = {
        .initiator = s[0] & 1,
        .crc = scenario_crc(s),
        .markers_transmit = s[0] & 4,
        .markers_receive = s[0] & 8,
        .rtr_await = s[0] & 16,
        .rtr = RI_RTR_WRITE,
        .ird = s[5] ? s[5] & 15u : w->attr.max_ird,
        .ord = 8,
        .read = read,
        .read_length = length,
    };

    FUZZ_CHECK(testbed_start(w, 0, &how) == RI_OK);
    if (how.initiator && !(s[0] & 128)) /* octets of the hand-over cannot answer them */
        post_reads(w, s[1]);
}

static void deliver(struct testbed *w, struct fuzz_wire *wire, const uint8_t *s,
                    const uint8_t *octets, size_t length, bool whole)
{
    size_t most = length / 256 + 1; /* at most some hundred parts */

    for (int turn = 0; length; turn ^= 1) {
        size_t piece = whole ? length : (turn ? s[4] : s[3]) + most;

        if (piece > length)
            piece = length;
        testbed_deliver(w, wire, octets, piece, 0);
        octets += piece;
        length -= piece;
    }
    if (s[0] & 64) {
        wire->fin = true;
        testbed_run(w);
    }
}

static void run(const uint8_t *data, size_t size, scenario_stream stream, bool raw, bool whole,
                struct result *result)
{
    static uint8_t octets[SCENARIO_STREAM];
    const struct testbed_shape form = shape(data);
    struct testbed *w;
    struct fuzz_wire *wire;
    size_t length, glued = 0;
    struct iwarp_qp *qp;

    peer_begin();
    w = testbed_open(&form);
    post_receives(w, data[1]);
    if (!(data[0] & 128)) {
        start(w, data, NULL, 0);
        wire = w->qps[0].wire;
        wire->raw |= raw;
        length = stream(w, wire, data + SCENARIO_SETTINGS, size - SCENARIO_SETTINGS, octets,
                        sizeof(octets));
    } else { /* the stream is built before the connection exists: as if no markers had come yet */
        static struct fuzz_wire before;

        memset(&before, 0, offsetof(struct fuzz_wire, input));
        before.bed = w;
        before.crc = scenario_crc(data);
        before.markers = scenario_markers(data);
        before.position = 0;
        length = stream(w, &before, data + SCENARIO_SETTINGS, size - SCENARIO_SETTINGS, octets,
                        sizeof(octets));
        glued = whole ? length : data[3] < length ? data[3] : length;
        start(w, data, octets, glued);
        wire = w->qps[0].wire;
        wire->raw = true;
    }
    deliver(w, wire, data, octets + glued, length - glued, whole);
    w->permit_count = 0;
    result->info.size = sizeof(result->info);
    FUZZ_CHECK(core_qp_query(w->qps[0].qp, &result->info) == RI_OK);
    testbed_poll(w, UINT32_MAX);
    qp = container_of(w->qps[0].qp, struct iwarp_qp, core.base);
    result->unanswered = atomic_load(&qp->reads.ird_in) != atomic_load(&qp->reads.ird_out);
    result->memory = testbed_memory_digest(w);
    result->told = w->digest;
    result->revoked = w->revoked;
    testbed_close(w);
}

void scenario_run(const uint8_t *data, size_t size, scenario_stream stream, bool raw)
{
    struct result whole = { 0 }, cut = { 0 };

    if (size < SCENARIO_SETTINGS)
        return;
    run(data, size, stream, raw, true, &whole);
    run(data, size, stream, raw, false, &cut);
    if (data[5] || size > 4096)
        return; /* with a small IRD the progress of the responses depends on time, and may differ */
    if (whole.revoked || cut.revoked)
        return; /* they have no order with a later Send with Invalidate either (RFC 5040, 5.5) */
    FUZZ_CHECK(whole.info.state == cut.info.state);
    FUZZ_CHECK(whole.info.terminate_sent == cut.info.terminate_sent);
    FUZZ_CHECK(whole.info.terminate_received == cut.info.terminate_received);
    FUZZ_CHECK(whole.info.terminate_length == cut.info.terminate_length);
    FUZZ_CHECK(!memcmp(whole.info.terminate, cut.info.terminate, whole.info.terminate_length));
    FUZZ_CHECK(whole.told == cut.told);
    FUZZ_CHECK(whole.memory == cut.memory || whole.unanswered || cut.unanswered);
}
