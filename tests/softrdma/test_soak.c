/* SPDX-License-Identifier: BSD-3-Clause */
/* Two QPs over loopback: random requests in both directions, all data compared. */
#include "loop.h"

#include <poll.h>

/* ---- soak ---- */

/*
 * Random Sends, Writes and Reads of random sizes in both directions, several at a time; all data is
 * compared. A slot holds one request at a time. It is free again when the request has completed
 * and, for a Send, its receive has completed too, or, for a Write, its octets have been placed.
 */
#define SOAK_SLOTS 8u
#define SOAK_INBOX 16u
#define SOAK_ROOM  (256u << 10)

struct soak_slot {
    struct region local, remote; /* remote: in the peer's memory */
    enum ri_wr_opcode opcode;
    uint32_t length;
    bool busy, completed, arrived;
};

static struct soak {
    struct soak_slot slot[SOAK_SLOTS];
    struct region inbox[SOAK_INBOX];
    uint32_t order[SOAK_INBOX]; /* slots of Sends, oldest first */
    uint32_t sends, arrivals;
} soak[2];

static void soak_open(int who)
{
    struct side *own = &bed.side[who], *peer = &bed.side[!who];

    for (uint32_t i = 0; i < SOAK_SLOTS; i++) {
        soak[who].slot[i].local = region_new(own, SOAK_ROOM, TESTBED_ALL);
        soak[who].slot[i].remote = region_new(peer, SOAK_ROOM, TESTBED_ALL);
    }
    for (uint32_t i = 0; i < SOAK_INBOX; i++) {
        soak[who].inbox[i] = region_new(own, SOAK_ROOM, RI_ACCESS_LOCAL_WRITE);
        side_receive(own, i, region_sge(&soak[who].inbox[i], 0, SOAK_ROOM));
    }
}

static void soak_close(int who)
{
    for (uint32_t i = 0; i < SOAK_SLOTS; i++) {
        region_free(&bed.side[who], &soak[who].slot[i].local);
        region_free(&bed.side[!who], &soak[who].slot[i].remote);
    }
    for (uint32_t i = 0; i < SOAK_INBOX; i++)
        region_free(&bed.side[who], &soak[who].inbox[i]);
}

/* False: no slot is free. */
static bool soak_post(int who)
{
    static const enum ri_wr_opcode opcodes[] = { RI_WR_SEND, RI_WR_RDMA_WRITE, RI_WR_RDMA_READ };
    uint32_t at = (uint32_t)tc_below(&bed_rng, SOAK_SLOTS);
    struct soak_slot *slot = &soak[who].slot[at];
    struct ri_sge sge;

    if (slot->busy)
        return false;
    slot->opcode = opcodes[tc_below(&bed_rng, 3)];
    slot->length = (uint32_t)tc_below(&bed_rng, tc_below(&bed_rng, 4) ? 3000 : SOAK_ROOM + 1);
    slot->busy = true;
    slot->completed = slot->arrived = false;
    if (slot->opcode == RI_WR_SEND)
        soak[who].order[soak[who].sends++ % SOAK_INBOX] = at;
    tc_fill(&bed_rng, slot->opcode == RI_WR_RDMA_READ ? slot->remote.octets : slot->local.octets,
            slot->length);
    sge = region_sge(&slot->local, 0, slot->length);
    ck_assert_int_eq(side_post(&bed.side[who], slot->opcode, at, RI_WR_SIGNALED, &sge, 1,
                               (uintptr_t)slot->remote.octets, slot->remote.keys.rkey),
                     RI_OK);
    return true;
}

static void soak_poll(int who)
{
    struct side *side = &bed.side[who];
    struct soak *own = &soak[who], *peer = &soak[!who];
    struct ri_wc wc;

    while (bed.fake.user.poll(side->send_cq, 1, &wc) == 1) {
        ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
        ck_assert_uint_eq(wc.byte_len, own->slot[wc.cookie].length);
        own->slot[wc.cookie].completed = true;
    }
    while (bed.fake.user.poll(side->recv_cq, 1, &wc) == 1) {
        struct soak_slot *slot = &peer->slot[peer->order[peer->arrivals++ % SOAK_INBOX]];
        struct region *inbox = &own->inbox[wc.cookie];

        ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
        ck_assert_uint_eq(wc.byte_len, slot->length);
        ck_assert(!memcmp(slot->local.octets, inbox->octets, slot->length));
        slot->arrived = true;
        side_receive(side, wc.cookie, region_sge(inbox, 0, SOAK_ROOM));
    }
}

/* Number of requests that have ended since the last call. */
static uint32_t soak_ended(int who)
{
    uint32_t ended = 0;

    for (uint32_t i = 0; i < SOAK_SLOTS; i++) {
        struct soak_slot *slot = &soak[who].slot[i];
        bool equal;

        if (!slot->busy || !slot->completed || (slot->opcode == RI_WR_SEND && !slot->arrived))
            continue;
        equal = slot->opcode == RI_WR_SEND ||
                !memcmp(slot->local.octets, slot->remote.octets, slot->length);
        ck_assert(equal || slot->opcode == RI_WR_RDMA_WRITE); /* a Write may still be in flight */
        slot->busy = !equal;
        ended += equal;
    }
    return ended;
}

static uint32_t soak_round(void)
{
    uint32_t ended = 0;

    for (int who = 0; who < 2; who++) {
        soak_poll(who);
        ended += soak_ended(who);
    }
    return ended;
}

START_TEST(soak_random)
{
    unsigned long want = tc_count(4000), posted = 0, done = 0;
    uint64_t end = tc_deadline(60000);

    memset(soak, 0, sizeof(soak));
    testbed_connect(&bed, NULL, _i ? &no_crc : &plain);
    for (int who = 0; who < 2; who++)
        soak_open(who);
    while (done < want) {
        uint32_t pieces, ended;

        while (posted < want && soak_post((int)tc_below(&bed_rng, 2)))
            posted++;
        pieces = fake_host_run(&bed.fake, NULL);
        ended = soak_round();
        done += ended;
        if (!ended)
            fake_host_sleep(&bed.fake, pieces, tc_remaining_ms(end));
        ck_assert_msg(!tc_expired(end), "%lu of %lu requests ended in time", done, want);
    }
    ck_assert_uint_eq(atomic_load(&a->events.count) + atomic_load(&b->events.count), 0);
    for (int who = 0; who < 2; who++)
        soak_close(who);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma soak");
    TCase *tc = new_case(suite, "soak", bed_open, bed_close);

    tcase_add_loop_test(tc, soak_random, 0, 2);
    return tc_main(suite);
}
