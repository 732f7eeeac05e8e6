/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets to a live QP of RoCEv2: a reliable connection with requests outstanding in each
 * direction gets what the input says. Nothing may be read or written outside of the region, no
 * request completes twice, and what the QP sends for it is bounded.
 *
 * Input: a packet after another; two octets of head (length in words, what to do with the PSN),
 * then octets from the BTH on. The PSN is made near to what the QP expects, as an input would not
 * hit it.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/roce_input.h"
#include "tests/roce/sim.h"

#include "base/be.h"

#include <string.h>

#define REGION   8192u
#define REQUESTS 6u
#define PACKETS  64u

static struct sim sim;
static struct sim_region region;
static uint32_t completed[2 * REQUESTS];

static void post(uint32_t i, enum ri_wr_opcode opcode, uint32_t length)
{
    struct ri_sge sge = sim_sge(&region, 0, length);
    struct ri_send_wr wr = { .cookie = i,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = (uint16_t)opcode,
                             .flags = RI_WR_SIGNALED,
                             .rdma = { .remote_addr = 0x10000, .rkey = 0x77 } };

    FUZZ_CHECK(sim_post(&sim, 0, &wr) == RI_OK);
}

static void open_all(void)
{
    static const struct sim_link clean;
    static const enum ri_wr_opcode opcodes[REQUESTS] = { RI_WR_SEND,       RI_WR_RDMA_READ,
                                                         RI_WR_RDMA_WRITE, RI_WR_RDMA_READ,
                                                         RI_WR_SEND,       RI_WR_RDMA_WRITE };
    const struct rc_attr attr = sim_attr(256, 0xFFFFF8);

    memset(completed, 0, sizeof(completed));
    sim_open(&sim, &clean, 1, NULL);
    sim.fake.quiet = true;
    region = sim_region(&sim, 0, REGION,
                        RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ |
                            RI_ACCESS_REMOTE_WRITE | RI_ACCESS_REMOTE_ATOMIC);
    sim_connect_alone(&sim, &attr);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        post(i, opcodes[i], 700 * (i % 3));
        FUZZ_CHECK(sim_post_recv(&sim, 0, REQUESTS + i, sim_sge(&region, 0, 1000)) == RI_OK);
    }
}

static void poll_all(void)
{
    struct ri_wc wc;

    while (sim_poll(&sim, sim.end[0].send_cq, &wc) || sim_poll(&sim, sim.end[0].recv_cq, &wc)) {
        FUZZ_CHECK(wc.cookie < 2 * REQUESTS);
        FUZZ_CHECK(!completed[wc.cookie]++);
    }
}

/* Near to what each side expects; keys and addresses of the region for every second one. */
static void aim(uint8_t *packet, uint32_t len, uint8_t how)
{
    struct rc_qp *qp = sim_qp(&sim, 0);
    uint32_t near = how & 1 ? qp->req.una : qp->rsp.epsn;

    packet[1] &= 0xF0;
    be_put16(packet + 2, BTH_P_KEY);
    be_put32(packet + 4, SIM_QPN);
    if (how & 2)
        be_put32(packet + 8, (uint32_t)packet[8] << 24 | bth_psn_add(near, (how >> 4) - 4u));
    if (how & 4 && len >= BTH_LEN + BTH_RETH_LEN + BTH_ICRC_LEN) {
        be_put64(packet + 12,
                 (uintptr_t)region.octets + (packet[18] << 8 | packet[19]) % (REGION + 64));
        be_put32(packet + 20, region.keys.rkey);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t packets = 0, queued, len;
    uint8_t packet[ROCE_INPUT_MAX], how;

    open_all();
    for (; packets < PACKETS && roce_input_next(&data, &size, packet, &len, &how); packets++) {
        aim(packet, len, how);
        sim_inject(&sim, 0, packet, len);
        if (how & 8)
            sim_run(&sim, sim.now + SIM_MS, 100000);
        poll_all();
        queued = sim.queued;
        FUZZ_CHECK(!queued);
    }
    FUZZ_CHECK(sim.logged < 256 + packets * (64u + 256u));
    sim_region_free(&sim, &region);
    sim_close(&sim);
    return 0;
}
