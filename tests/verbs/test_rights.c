/* SPDX-License-Identifier: BSD-3-Clause
 * libibverbs: ibv_rereg_mr takes and gives rights while a peer writes and reads by the rkey. */
#include "verbs_pair.h"

#include <pthread.h>

#define STEP 512u
#define ALL  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

#define MINE   0x5a /* the peer's, or what it may read */
#define SECRET 0xa5 /* written when the peer has no right */

/* --- the peer: a thread that asks until its connection ends, or it is told to stop --- */

static struct {
    pthread_t thread;
    enum ibv_wr_opcode opcode;
    uint32_t rkey;
    atomic_uint done;
    atomic_bool stops;
    atomic_int failure; /* the first status that is no success */
} peer;

static void *ask(void *arg)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = pair_request(a, peer.opcode, &sge, 0, PAIR_OCTETS), *bad;
    struct ibv_wc wc;

    (void)arg;
    wr.wr.rdma.remote_addr = (uintptr_t)b->memory;
    wr.wr.rdma.rkey = peer.rkey;
    while (!atomic_load(&peer.stops) && !atomic_load(&peer.failure)) {
        if (ibv_post_send(a->qp, &wr, &bad))
            sched_yield();
        while (ibv_poll_cq(a->cq, 1, &wc) == 1) {
            int none = 0;

            if (wc.status == IBV_WC_SUCCESS)
                atomic_fetch_add(&peer.done, 1);
            else
                atomic_compare_exchange_strong(&peer.failure, &none, (int)wc.status);
        }
    }
    return NULL;
}

static void start_peer(enum ibv_wr_opcode opcode)
{
    atomic_store(&peer.done, 0);
    atomic_store(&peer.stops, false);
    atomic_store(&peer.failure, 0);
    peer.opcode = opcode;
    memset(a->memory, MINE, PAIR_OCTETS);
    ck_assert_int_eq(pthread_create(&peer.thread, NULL, ask, NULL), 0);
}

static void join_peer(void)
{
    ck_assert_int_eq(pthread_join(peer.thread, NULL), 0);
}

static void await(unsigned int done)
{
    ck_assert(tc_until(atomic_load(&peer.done) >= done || atomic_load(&peer.failure), PAIR_MS));
    ck_assert_msg(!atomic_load(&peer.failure), "a request ended with %s",
                  ibv_wc_status_str((enum ibv_wc_status)atomic_load(&peer.failure)));
}

/* --- the owner --- */

static void set_rights(int access)
{
    const uint32_t lkey = b->mr->lkey;

    ck_assert_int_eq(ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access), 0);
    ck_assert_uint_eq(b->mr->lkey, lkey);
    ck_assert_uint_eq(b->mr->rkey, peer.rkey);
}

static void hide(void)
{
    for (uint32_t i = PAIR_OCTETS; i > 0; i -= STEP)
        b->memory[i - 1] = SECRET;
}

static bool are_all(const uint8_t *octets, uint8_t value)
{
    for (uint32_t i = PAIR_OCTETS; i > 0; i -= STEP)
        if (octets[i - 1] != value)
            return false;
    return true;
}

static const struct {
    enum ibv_wr_opcode opcode;
    int right, other;
    enum ri_event_type told;
} kinds[] = {
    { IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ, RI_EVENT_WRITE_ACCESS },
    { IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, RI_EVENT_READ_ACCESS },
};

/* The right goes at any moment of a transfer. What the owner puts there afterwards stays, and the
 * peer does not get it. Then the right is back, and the key that the peer was told once is good. */
START_TEST(nothing_passes_after_the_right_has_gone)
{
    const unsigned long rounds = tc_count(30);
    struct tc_rng rng = tc_rng((uint64_t)_i);

    peer.rkey = b->mr->rkey;
    for (unsigned long i = 0; i < rounds; i++) {
        memset(b->memory, MINE, PAIR_OCTETS);
        set_rights(ALL);
        start_peer(kinds[_i].opcode);
        await((unsigned int)tc_below(&rng, 8));
        set_rights(i % 2 ? ALL & ~kinds[_i].right : IBV_ACCESS_LOCAL_WRITE);
        hide();
        join_peer();
        ck_assert(tc_until(atomic_load(&b->ended), PAIR_MS));
        ck_assert_int_eq(atomic_load(&b->ended), (int)kinds[_i].told);
        pair_renew();
        ck_assert(are_all(b->memory, SECRET));
        ck_assert(are_all(a->memory, MINE));
    }
}
END_TEST

START_TEST(other_rights_disturb_nobody)
{
    const unsigned long rounds = tc_count(300);

    peer.rkey = b->mr->rkey;
    start_peer(kinds[_i].opcode);
    for (unsigned long i = 0; i < rounds; i++) {
        if (i % 8 == 0) /* between changes traffic has gone on */
            await(atomic_load(&peer.done) + 1);
        set_rights(ALL & ~kinds[_i].other);
        set_rights(ALL);
    }
    await(atomic_load(&peer.done) + 1);
    atomic_store(&peer.stops, true);
    join_peer();
    ck_assert_int_eq(atomic_load(&peer.failure), 0);
    ck_assert_int_eq(atomic_load(&b->ended), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verbs: rights that change in traffic");
    TCase *tc = tc_case(suite, "rights", pair_set_up, pair_close);

    tcase_set_timeout(tc, 0.001 * tc_timeout_ms(120000));
    tc_add_loops(tc, 0, ARRAY_SIZE(kinds), nothing_passes_after_the_right_has_gone,
                 other_rights_disturb_nobody);
    return tc_main(suite);
}
