/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two QPs over a link that loses, reorders, doubles and has no room: every operation with every
 * MTU, at PSNs that wrap. Property: octets arrive equal, each request completes once and in order,
 * each receive is taken once, each atomic is executed once.
 */
#include "tc.h"

#include "sim.h"

#define OPERATIONS 24u
#define SLOT       (64u * 4096u)
#define ADD        7u

struct link_case {
    const char *name;
    struct sim_link link;
};

static const struct link_case links[] = {
    { "clean", { 0 } },
    { "loss 1 %", { .loss = 10 } },
    { "loss 5 %", { .loss = 50 } },
    { "reordering", { .reorder = 100 } },
    { "duplication", { .duplicate = 100 } },
    { "no room", { .refuse = 200 } },
    { "all", { .loss = 20, .reorder = 50, .duplicate = 50, .refuse = 100 } },
};
#define LINKS (sizeof(links) / sizeof(links[0]))
static const uint32_t psns[] = { 0, 0xFFFFF0, 0x7FFFF0 };

/* What one side asks of the other. Operation i has slot i of each region. */
struct asker {
    struct sim_region source, target, sink; /* of this side; sink: of its own Reads */
    uint64_t added;                         /* of the peer's word, by this side */
    uint32_t opcode[OPERATIONS], length[OPERATIONS];
    uint32_t posted, completed, received;
    uint64_t originals[OPERATIONS];
};

static struct sim sim;
static struct asker askers[2];
static struct tc_rng rng;

static const uint32_t opcodes[] = {
    RI_WR_SEND,      RI_WR_SEND_IMMEDIATE,   RI_WR_RDMA_WRITE,          RI_WR_RDMA_WRITE_IMMEDIATE,
    RI_WR_RDMA_READ, RI_WR_ATOMIC_FETCH_ADD, RI_WR_ATOMIC_COMPARE_SWAP,
};

static bool takes_receive(uint32_t opcode)
{
    return opcode == RI_WR_SEND || opcode == RI_WR_SEND_IMMEDIATE ||
           opcode == RI_WR_RDMA_WRITE_IMMEDIATE;
}

static uint32_t some_length(uint32_t mtu)
{
    const uint32_t lengths[] = { 0, 1, 8, mtu - 1, mtu, mtu + 1, 3 * mtu + 5, 40 * mtu + 3 };

    return lengths[tc_below(&rng, sizeof(lengths) / sizeof(lengths[0]))];
}

/* Words of the atomics are behind the slots of the target. */
static uint64_t word_at(const struct asker *asker)
{
    return (uintptr_t)asker->target.octets + OPERATIONS * SLOT;
}

static void open_sides(uint32_t mtu)
{
    const uint32_t all = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ |
                         RI_ACCESS_REMOTE_WRITE | RI_ACCESS_REMOTE_ATOMIC;

    for (uint32_t side = 0; side < 2; side++) {
        struct asker *asker = &askers[side];

        memset(asker, 0, sizeof(*asker));
        asker->source = sim_region(&sim, side, OPERATIONS * SLOT + 16, all);
        asker->target = sim_region(&sim, side, OPERATIONS * SLOT + 16, all);
        asker->sink = sim_region(&sim, side, OPERATIONS * SLOT, all);
        for (uint32_t i = 0; i < OPERATIONS; i++) {
            asker->opcode[i] = opcodes[tc_below(&rng, sizeof(opcodes) / sizeof(opcodes[0]))];
            asker->length[i] = some_length(mtu);
            tc_fill(&rng, asker->source.octets + i * SLOT, 40 * mtu + 3);
        }
    }
}

/* Receives for all that the peer sends, each with the slot of its operation. */
static void post_receives(uint32_t side)
{
    const struct asker *peer = &askers[!side];

    for (uint32_t i = 0; i < OPERATIONS; i++)
        if (takes_receive(peer->opcode[i]))
            ck_assert_int_eq(
                sim_post_recv(&sim, side, i, sim_sge(&askers[side].target, i * SLOT, SLOT)), RI_OK);
}

static void post_one(uint32_t side, uint32_t i)
{
    struct asker *asker = &askers[side], *peer = &askers[!side];
    bool read = asker->opcode[i] == RI_WR_RDMA_READ;
    struct ri_sge sge = sim_sge(&asker->source, i * SLOT, asker->length[i]);
    struct ri_send_wr wr = { .cookie = i,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = (uint16_t)asker->opcode[i],
                             .flags = RI_WR_SIGNALED,
                             .immediate = 0xA0000000u + i };

    wr.rdma.remote_addr = (uintptr_t)(read ? peer->source.octets : peer->target.octets) + i * SLOT;
    wr.rdma.rkey = read ? peer->source.keys.rkey : peer->target.keys.rkey;
    if (read)
        sge = sim_sge(&asker->sink, i * SLOT, asker->length[i]);
    if (asker->opcode[i] == RI_WR_ATOMIC_FETCH_ADD ||
        asker->opcode[i] == RI_WR_ATOMIC_COMPARE_SWAP) {
        sge = sim_sge(&asker->sink, i * SLOT, 8);
        wr.atomic.remote_addr = word_at(peer);
        wr.atomic.rkey = peer->target.keys.rkey;
        wr.atomic.compare = asker->added;
        wr.atomic.swap_or_add = wr.opcode == RI_WR_ATOMIC_FETCH_ADD ? ADD : asker->added + ADD;
        asker->originals[i] = asker->added;
        asker->added += ADD;
    }
    ck_assert_int_eq(sim_post(&sim, side, &wr), RI_OK);
    asker->posted++;
}

static bool equal(const struct sim_region *a, const struct sim_region *b, uint32_t i,
                  uint32_t length)
{
    return !memcmp(a->octets + i * SLOT, b->octets + i * SLOT, length);
}

static void check_completion(uint32_t side, const struct ri_wc *wc)
{
    struct asker *asker = &askers[side], *peer = &askers[!side];
    uint32_t i = asker->completed++;
    uint64_t original;

    ck_assert_msg(wc->cookie == i && wc->status == RI_WC_SUCCESS,
                  "completion %u: cookie %llu, status %u", i, (unsigned long long)wc->cookie,
                  wc->status);
    if (asker->opcode[i] == RI_WR_RDMA_READ)
        ck_assert(equal(&asker->sink, &peer->source, i, asker->length[i]));
    if (asker->opcode[i] == RI_WR_RDMA_WRITE || asker->opcode[i] == RI_WR_SEND)
        ck_assert(equal(&asker->source, &peer->target, i, asker->length[i]));
    if (asker->opcode[i] == RI_WR_ATOMIC_FETCH_ADD ||
        asker->opcode[i] == RI_WR_ATOMIC_COMPARE_SWAP) {
        memcpy(&original, asker->sink.octets + i * SLOT, sizeof(original));
        ck_assert_uint_eq(original, asker->originals[i]);
    }
}

/* All Writes before it are there when a receive completes. */
static void check_receive(uint32_t side, const struct ri_wc *wc)
{
    struct asker *asker = &askers[side], *peer = &askers[!side];
    uint32_t i = asker->received;

    while (!takes_receive(peer->opcode[i])) {
        if (peer->opcode[i] == RI_WR_RDMA_WRITE)
            ck_assert(equal(&asker->target, &peer->source, i, peer->length[i]));
        i++;
    }
    ck_assert_uint_eq(wc->cookie, i);
    ck_assert_int_eq(wc->status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc->byte_len, peer->length[i]);
    ck_assert(equal(&asker->target, &peer->source, i, peer->length[i]));
    if (peer->opcode[i] != RI_WR_SEND)
        ck_assert_uint_eq(wc->immediate, 0xA0000000u + i);
    asker->received = i + 1;
}

static void poll_all(void)
{
    struct ri_wc wc;

    for (uint32_t side = 0; side < 2; side++) {
        while (sim_poll(&sim, sim.end[side].send_cq, &wc))
            check_completion(side, &wc);
        while (sim_poll(&sim, sim.end[side].recv_cq, &wc))
            check_receive(side, &wc);
    }
}

static void close_sides(void)
{
    for (uint32_t side = 0; side < 2; side++) {
        sim_region_free(&sim, &askers[side].source);
        sim_region_free(&sim, &askers[side].target);
        sim_region_free(&sim, &askers[side].sink);
    }
    sim_close(&sim);
}

static void check_end(void)
{
    struct ri_wc wc;

    sim_settle(&sim);
    poll_all();
    for (uint32_t side = 0; side < 2; side++) {
        const struct asker *asker = &askers[side];
        uint64_t word;

        memcpy(&word, (void *)word_at(&askers[!side]), sizeof(word));
        ck_assert_uint_eq(word, asker->added);
        ck_assert(!sim_poll(&sim, sim.end[side].recv_cq, &wc));
        for (uint32_t i = asker->received; i < OPERATIONS; i++)
            ck_assert(!takes_receive(askers[!side].opcode[i]));
    }
}

static void exchange(uint32_t mtu, const struct link_case *link, uint32_t psn, uint64_t seed)
{
    struct rc_attr attr = sim_attr(mtu, psn);
    uint32_t steps = 400000;

    rng = tc_rng(seed);
    sim_open(&sim, &link->link, tc_rand(&rng), NULL);
    open_sides(mtu);
    sim_connect(&sim, &attr);
    for (uint32_t side = 0; side < 2; side++)
        post_receives(side);
    while (askers[0].completed < OPERATIONS || askers[1].completed < OPERATIONS) {
        for (uint32_t side = 0; side < 2; side++)
            if (askers[side].posted < OPERATIONS && tc_below(&rng, 2))
                post_one(side, askers[side].posted);
        ck_assert_msg(steps--, "%s, MTU %u, PSN %x: no end", link->name, mtu, psn);
        sim_step(&sim);
        poll_all();
    }
    check_end();
    close_sides();
}

START_TEST(R001_R022_R046_R101_every_operation_arrives_once_and_equal)
{
    uint32_t mtu = 256u << _i % 5;
    const struct link_case *link = &links[_i / 5];

    for (uint32_t p = 0; p < sizeof(psns) / sizeof(psns[0]); p++)
        for (unsigned long round = 0; round < tc_count(1); round++)
            exchange(mtu, link, psns[p], (uint64_t)_i << 32 | p << 16 | round);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rc exchange");
    TCase *t = tc_case(s, "links", NULL, NULL);

    tcase_add_loop_test(t, R001_R022_R046_R101_every_operation_arrives_once_and_equal, 0,
                        (int)(5 * LINKS));
    return tc_main(s);
}
