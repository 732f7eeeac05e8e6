/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets to a live QP of RoCEv2 that answers nothing: an unreliable connection, or a QP for
 * datagrams. No request completes twice. Nothing leaves but what is posted. Each datagram is
 * counted once, and what a receive says of it is so; nothing is written outside of the receives.
 *
 * Input: an octet of settings; then a packet after another, each with two octets of head (length in
 * words, how it is aimed), and octets from the BTH on.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/roce_input.h"
#include "tests/roce/sim.h"

#include "base/be.h"

#include <string.h>

#define REGION   8192u
#define BUFFER   300u /* of a receive; all are at the begin of the region */
#define PACKETS  64u
#define REQUESTS (2 + 2 * PACKETS)
#define MTU      256u
#define KEY      0x11223344u

enum setting {
    CARRIER_IS_BUSY = 1, /* it takes some of a batch */
    DATAGRAMS = 2,
    IPV6 = 4,
};

/* Of a packet; above them is how far its PSN is from the expected one. */
enum aim {
    AIM_PSN_OR_KEY = 2, /* UC: the PSN; UD: the Q_Key */
    AIM_REGION = 4,     /* of a Write: address and R_Key */
    AIM_POST = 8,       /* a receive and a send are posted before */
};

static struct sim sim;
static struct sim_region region;
static bool completed[REQUESTS];
static uint32_t posted;
static struct ud_ah handle;

static void set_origin(bool ipv6)
{
    static const uint8_t mapped[GID_IPV4] = { [10] = 0xFF, [11] = 0xFF };

    memset(&sim.origin, 0x20, sizeof(sim.origin));
    if (ipv6)
        return;
    memcpy(sim.origin.source, mapped, sizeof(mapped));
    memcpy(sim.origin.destination, mapped, sizeof(mapped));
}

static void open_all(uint8_t settings)
{
    const struct sim_link link = { .refuse = settings & CARRIER_IS_BUSY ? 300 : 0 };
    const struct sim_shape shape = { .depth = REQUESTS,
                                     .cqe = 2 * REQUESTS,
                                     .datagrams = settings & DATAGRAMS };
    struct rc_attr attr = sim_attr(MTU, 0xFFFFF8);

    memset(completed, 0, sizeof(completed));
    posted = 0;
    sim_open(&sim, &link, 1, &shape);
    sim.fake.quiet = true;
    set_origin(settings & IPV6);
    region = sim_region(&sim, 0, REGION,
                        RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_WRITE);
    handle.pd = container_of(sim.end[0].pd, struct pd, base);
    if (sim.datagrams) {
        sim_begin_alone(&sim, KEY);
        return;
    }
    attr.unreliable = true;
    attr.ird = attr.ord = 0;
    sim_connect_alone(&sim, &attr);
}

/* A receive and a send; of a QP that has ended they are flushed. */
static void post_both(void)
{
    struct ri_sge sge = sim_sge(&region, 0, 600);
    struct ri_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED
    };

    if (posted + 2 > REQUESTS)
        return;
    FUZZ_CHECK(sim_post_recv(&sim, 0, posted++, sim_sge(&region, 0, BUFFER)) == RI_OK);
    wr.cookie = posted++;
    if (sim.datagrams) {
        wr.ud.ah = &handle.base;
        wr.ud.remote_qpn = SIM_QPN + 1;
        wr.ud.remote_qkey = KEY;
    }
    FUZZ_CHECK(sim_post(&sim, 0, &wr) == RI_OK);
}

/* --- what must hold --- */

static uint64_t datagrams_counted(void)
{
    const struct ud_counters *counters = &sim_ud_qp(&sim, 0)->counters;

    return counters->received + counters->wrong_key + counters->no_receive + counters->too_long +
           counters->malformed;
}

/* A receive of a datagram; `octets` was the packet. */
static void check_datagram(const struct ri_wc *wc, const uint8_t *octets, uint32_t len)
{
    struct bth_packet packet;
    bool ipv6 = region.octets[0] >> 4 == 6;

    FUZZ_CHECK(bth_parse(octets, len, &packet) == BTH_OK);
    FUZZ_CHECK(packet.opcode >> 5 == 3 && packet.q_key == KEY);
    FUZZ_CHECK(wc->opcode == RI_WC_RECV_DATAGRAM && wc->flags & RI_WC_GRH);
    FUZZ_CHECK(wc->byte_len == UD_GRH + packet.payload_len && wc->byte_len <= BUFFER);
    FUZZ_CHECK(wc->source.qpn == packet.src_qpn);
    FUZZ_CHECK(!memcmp(wc->source_gid, sim.origin.source, GID_LEN));
    FUZZ_CHECK(ipv6 ? be_get16(region.octets + 4) == 8 + len
                    : region.octets[20] == 0x45 && be_get16(region.octets + 22) == 28 + len);
    FUZZ_CHECK(!memcmp(region.octets + UD_GRH, packet.payload, packet.payload_len));
}

static void poll_all(const uint8_t *octets, uint32_t len)
{
    struct ri_wc wc;

    while (sim_poll(&sim, sim.end[0].send_cq, &wc) || sim_poll(&sim, sim.end[0].recv_cq, &wc)) {
        FUZZ_CHECK(wc.cookie < posted && !completed[wc.cookie]);
        completed[wc.cookie] = true;
        if (sim.datagrams && wc.status == RI_WC_SUCCESS && !(wc.cookie & 1))
            check_datagram(&wc, octets, len);
    }
}

static void check_memory(void)
{
    for (uint32_t i = BUFFER; sim.datagrams && i < REGION; i++)
        FUZZ_CHECK(!region.octets[i]);
}

/* --- packets --- */

static void aim(uint8_t *packet, uint32_t len, uint8_t how)
{
    be_put16(packet + 2, BTH_P_KEY);
    be_put32(packet + 4, SIM_QPN);
    packet[1] &= 0xF0;
    if (sim.datagrams) {
        if (how & AIM_PSN_OR_KEY && len >= BTH_LEN + BTH_DETH_LEN + BTH_ICRC_LEN)
            be_put32(packet + BTH_LEN, KEY);
        return;
    }
    if (how & AIM_PSN_OR_KEY)
        be_put32(packet + 8, bth_psn_add(sim_qp(&sim, 0)->rsp.epsn, (how >> 4) - 4u));
    if (how & AIM_REGION && len >= BTH_LEN + BTH_RETH_LEN + BTH_ICRC_LEN) {
        be_put64(packet + 12,
                 (uintptr_t)region.octets + (packet[18] << 8 | packet[19]) % (REGION + 64));
        be_put32(packet + 20, region.keys.rkey);
    }
}

static void give(uint8_t *packet, uint32_t len, uint8_t how)
{
    uint64_t counted = sim.datagrams ? datagrams_counted() : 0;
    uint32_t sent;
    struct bth_packet parsed;

    aim(packet, len, how);
    if (how & AIM_POST)
        post_both();
    sim_run(&sim, sim.now + SIM_MS, 1000);
    poll_all(NULL, 0);
    sent = sim.logged;
    sim_inject(&sim, 0, packet, len);
    FUZZ_CHECK(sim.logged == sent && !sim.queued);
    if (sim.datagrams)
        FUZZ_CHECK(datagrams_counted() == counted + (bth_parse(packet, len, &parsed) == BTH_OK));
    poll_all(packet, len);
    check_memory();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t packet[ROCE_INPUT_MAX], how;
    uint32_t len;

    if (!size)
        return 0;
    open_all(*data++);
    size--;
    for (uint32_t i = 0; i < PACKETS && roce_input_next(&data, &size, packet, &len, &how); i++)
        give(packet, len, how);
    sim_region_free(&sim, &region);
    sim_close(&sim);
    return 0;
}
