/* SPDX-License-Identifier: BSD-3-Clause */
/* Everything at once for a while: Sends, Writes and Reads over several connections, both ways. */
#include "bed.h"

#include "base/clock.h"

#include <string.h>

#define PAIRS  4
#define SLOTS  8u
#define SLOT   16384u
#define SECOND UINT64_C(1000000000)

/* One direction of a connection. Slot i of the memory belongs to request i: its data at offset
 * i * SLOT; what the peer's requests do to this memory at TARGET + i * SLOT. */
#define TARGET (MEMORY / 2)

struct flow {
    struct node *from, *to;
    uint32_t length[SLOTS];
    uint16_t opcode[SLOTS];
    bool busy[SLOTS];
    uint64_t sent, received; /* Sends */
    uint64_t done;
};

static struct node nodes[PAIRS][2];
static struct flow flows[PAIRS][2];
static uint64_t octets;

static void post(struct flow *flow, uint32_t slot)
{
    static const uint16_t opcodes[] = { RI_WR_SEND, RI_WR_RDMA_WRITE, RI_WR_RDMA_READ };
    uint16_t opcode = opcodes[pick() % 3];
    uint32_t length = 16 + (uint32_t)(pick() % (pick() % 4 ? 200 : SLOT - 16));
    uint8_t *data = opcode == RI_WR_RDMA_READ ? flow->to->memory + TARGET + slot * SLOT
                                              : flow->from->memory + slot * SLOT;
    const struct send_want want = {
        .opcode = opcode,
        .flags = RI_WR_SIGNALED,
        .cookie = slot,
        .offset = slot * SLOT,
        .length = length,
        .remote_addr = (uintptr_t)flow->to->memory + TARGET + slot * SLOT,
        .rkey = flow->to->keys.rkey,
    };

    for (uint32_t i = 0; i < length; i++)
        data[i] = (uint8_t)(flow->done + i);
    flow->length[slot] = length;
    flow->opcode[slot] = opcode;
    flow->busy[slot] = true;
    do_send(flow->from, &want);
    octets += length;
}

static void check_done(struct flow *flow, const struct ri_wc *wc)
{
    uint32_t slot = (uint32_t)wc->cookie;

    EXPECT(wc->status == RI_WC_SUCCESS, "a request completes with %s under load",
           wc_status_name(wc->status));
    EXPECT(slot < SLOTS && flow->busy[slot], "a request completes twice under load");
    EXPECT(wc->byte_len == flow->length[slot], "byte_len is %u instead of %u under load",
           wc->byte_len, flow->length[slot]);
    if (flow->opcode[slot] == RI_WR_RDMA_READ)
        EXPECT(!memcmp(flow->from->memory + slot * SLOT, flow->to->memory + TARGET + slot * SLOT,
                       flow->length[slot]),
               "a Read of %u octets is wrong under load", flow->length[slot]);
    flow->busy[slot] = false;
    flow->done++;
}

static void serve(struct flow *flow)
{
    struct ri_wc wc[SLOTS];
    uint32_t got = bed.data.poll(flow->from->send_cq, SLOTS, wc);

    for (uint32_t i = 0; i < got; i++)
        check_done(flow, &wc[i]);
    got = bed.data.poll(flow->to->recv_cq, SLOTS, wc);
    for (uint32_t i = 0; i < got; i++) {
        EXPECT(wc[i].status == RI_WC_SUCCESS, "a receive completes with %s under load",
               wc_status_name(wc[i].status));
        EXPECT(wc[i].cookie == flow->received % SLOTS, "receives complete out of order under load");
        flow->received++;
        do_recv(flow->to, wc[i].cookie, TARGET + SLOTS * SLOT + (uint32_t)wc[i].cookie * SLOT,
                SLOT);
    }
}

static bool idle(const struct flow *flow)
{
    for (uint32_t i = 0; i < SLOTS; i++)
        if (flow->busy[i])
            return false;
    return true;
}

/* As many requests at once as receives: no Send finds none. */
static void drive(struct flow *flow)
{
    serve(flow);
    if (idle(flow) && flow->sent == flow->received)
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            post(flow, slot);
            flow->sent += flow->opcode[slot] == RI_WR_SEND;
        }
}

static bool all_idle(void)
{
    for (int i = 0; i < PAIRS * 2; i++) {
        struct flow *flow = &flows[i / 2][i % 2];

        serve(flow);
        if (!idle(flow) || flow->sent != flow->received)
            return false;
    }
    return true;
}

static void connect_all(void)
{
    for (int i = 0; i < PAIRS; i++) {
        pair(&nodes[i][0], &nodes[i][1], NULL);
        for (int k = 0; k < 2; k++) {
            flows[i][k].from = &nodes[i][k];
            flows[i][k].to = &nodes[i][!k];
            for (uint32_t slot = 0; slot < SLOTS; slot++)
                do_recv(&nodes[i][!k], slot, TARGET + (SLOTS + slot) * SLOT, SLOT);
        }
    }
}

static void carries_load(void)
{
    uint64_t begin, requests = 0;

    bed_open();
    if (bed.attr.max_send_wr < SLOTS || bed.attr.max_recv_wr < SLOTS)
        check_skip("queues have fewer than %u requests", SLOTS);
    connect_all();
    begin = clock_now();
    do {
        for (int i = 0; i < PAIRS * 2; i++)
            drive(&flows[i / 2][i % 2]);
        bed_run(0);
    } while (clock_now() - begin < subject.seconds * SECOND);
    EXPECT(UNTIL(all_idle(), 10000), "requests do not complete within 10 s after the load");
    for (int i = 0; i < PAIRS * 2; i++) {
        requests += flows[i / 2][i % 2].done;
        EXPECT(!node_ends(&nodes[i / 2][i % 2]), "a connection ends under load");
    }
    check_note("%llu requests, %llu MiB", (unsigned long long)requests,
               (unsigned long long)octets >> 20);
}

const struct check load_checks[] = {
    { "load", "wc", "all operations at once, both ways, data and order right", carries_load, 3600,
      "send" },
    { .name = NULL },
};
