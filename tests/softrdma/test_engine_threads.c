/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine with several threads. One runs the lane; others post, poll and deregister memory, and
 * end the connections in every way and make them again. Each request completes once and in order,
 * each connection ends once.
 */
#include "bed.h"

#include <pthread.h>

#include "providers/software/iwarp/wire_iwarp.h"

#define POSTERS 2u
#define WINDOW  32u

static atomic_bool stop;

/* ---- posting and polling ---- */

struct poster {
    struct side *side;
    struct tc_rng rng;
    struct region source, target; /* source is read; only the lane's thread writes target */
    uint32_t id;
    atomic_uint posted, completed, successes;
};

static struct poster posters[2 * POSTERS];

/* Requests of all types, with memory that stays or memory that is revoked at once. */
static void post_one(struct poster *poster)
{
    static const enum ri_wr_opcode opcodes[] = { RI_WR_SEND, RI_WR_RDMA_WRITE, RI_WR_RDMA_READ };
    const struct poster *peer = &posters[(poster->id + POSTERS) % (2 * POSTERS)];
    uint32_t length = (uint32_t)tc_below(&poster->rng, tc_below(&poster->rng, 8) ? 600 : 60000);
    bool passing = tc_below(&poster->rng, 64) == 0;
    uint16_t flags = RI_WR_SIGNALED | (tc_below(&poster->rng, 4) ? 0 : RI_WR_COALESCE);
    struct region region = passing ? region_new(poster->side, 65536, TESTBED_ALL) : poster->source;
    uint64_t cookie = (uint64_t)poster->id << 32 | atomic_load(&poster->posted);
    enum ri_wr_opcode opcode = opcodes[tc_below(&poster->rng, 3)];
    const struct region *remote = opcode == RI_WR_RDMA_READ ? &peer->source : &peer->target;
    struct ri_sge sge = region_sge(opcode == RI_WR_RDMA_READ ? &poster->target : &region, 0,
                                   length);

    if (side_post(poster->side, opcode, cookie, flags, &sge, 1, (uintptr_t)remote->octets,
                  remote->keys.rkey) == RI_OK)
        atomic_fetch_add(&poster->posted, 1);
    if (passing)
        region_free(poster->side, &region);
}

static void *run_poster(void *arg)
{
    struct poster *poster = arg;

    while (!atomic_load(&stop)) {
        if (atomic_load(&poster->posted) - atomic_load(&poster->completed) < WINDOW)
            post_one(poster);
        else
            sched_yield();
    }
    return NULL;
}

static uint32_t expected_receive[2], receives[2];

static void take_send(const struct ri_wc *wc)
{
    struct poster *poster = &posters[wc->cookie >> 32];

    ck_assert_uint_eq((uint32_t)wc->cookie, atomic_load(&poster->completed));
    atomic_fetch_add(&poster->successes, wc->status == RI_WC_SUCCESS);
    atomic_fetch_add(&poster->completed, 1);
}

/* One thread polls the CQs of a side and keeps its receives posted. */
static void poll_side(int who)
{
    struct side *side = &bed.side[who];
    struct ri_wc wc;

    for (int i = 0; i < 32 && bed.fake.user.poll(side->send_cq, 1, &wc) == 1; i++)
        take_send(&wc);
    for (int i = 0; i < 32 && bed.fake.user.poll(side->recv_cq, 1, &wc) == 1; i++)
        ck_assert_uint_eq(wc.cookie, expected_receive[who]++);
    while (receives[who] - expected_receive[who] < 48) {
        struct ri_sge sge = region_sge(&posters[(unsigned int)who * POSTERS].target, 0, 65536);

        ck_assert_int_eq(side_post_receive(side, receives[who]++, &sge, 1), RI_OK);
    }
}

static void *run_poller(void *arg)
{
    int who = (int)(intptr_t)arg;

    while (!atomic_load(&stop)) {
        poll_side(who);
        sched_yield();
    }
    return NULL;
}

/* ---- connections ---- */

static uint32_t successes(void)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < 2 * POSTERS; i++)
        sum += atomic_load(&posters[i].successes);
    return sum;
}

static void expect_one_end(struct side *side)
{
    ck_assert_msg(tc_until(atomic_load(&side->events.count) == 1, TESTBED_TIMEOUT),
                  "%u events, not 1", atomic_load(&side->events.count));
}

static void end_connection(struct tc_rng *rng)
{
    static const enum ri_qp_state ways[] = { RI_QPS_CLOSING, RI_QPS_TERMINATE, RI_QPS_ERROR };
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_STATE };

    for (int i = 0; i < 2; i++) {
        modify.state = ways[tc_below(rng, 3)];
        /* it may have ended already */
        bed.fake.privileged.qp_modify(bed.side[tc_below(rng, 2)].qp, &modify);
    }
}

static void one_connection(struct tc_rng *rng)
{
    uint32_t before = successes(), enough = (uint32_t)tc_below(rng, 400);
    int fds[2];

    testbed_tcp(fds, 0);
    for (int i = 0; i < 2; i++) {
        atomic_store(&bed.side[i].events.count, 0);
        side_start(&bed.side[i], fds[i], i == 0, &plain);
    }
    /* Or it ends by itself: memory was revoked before it was sent. */
    ck_assert(tc_until(successes() - before >= enough || atomic_load(&bed.side[0].events.count) ||
                           atomic_load(&bed.side[1].events.count),
                       TESTBED_TIMEOUT));
    end_connection(rng);
    for (int i = 0; i < 2; i++) {
        expect_one_end(&bed.side[i]);
        ck_assert(tc_until(side_query(&bed.side[i]).state == RI_QPS_ERROR, TESTBED_TIMEOUT));
    }
    for (int i = 0; i < 2; i++) {
        side_modify(&bed.side[i], RI_QPS_IDLE);
        ck_assert_uint_eq(atomic_load(&bed.side[i].events.count), 1);
    }
}

static bool all_completed(void)
{
    bool all = true;

    for (uint32_t i = 0; i < 2 * POSTERS; i++)
        all = all && atomic_load(&posters[i].completed) == atomic_load(&posters[i].posted);
    return all;
}

START_TEST(ends_and_beginnings)
{
    const struct shape shape = { .depth = 128, .cqe = 512 };
    pthread_t threads[2 * POSTERS + 2];
    struct tc_rng rng = tc_rng(3);

    testbed_open(&bed, NULL);
    for (uint32_t i = 0; i < 2 * POSTERS; i++) {
        struct poster *poster = &posters[i];

        if (i % POSTERS == 0)
            side_open(&bed, &bed.side[i / POSTERS], &shape);
        *poster =
            (struct poster){ .side = &bed.side[i / POSTERS], .rng = tc_rng(100 + i), .id = i };
        poster->source = region_new(poster->side, 65536, TESTBED_ALL);
        poster->target = region_new(poster->side, 65536, TESTBED_ALL);
    }
    testbed_lane_start(&bed);
    for (uint32_t i = 0; i < 2 * POSTERS; i++)
        pthread_create(&threads[i], NULL, run_poster, &posters[i]);
    for (intptr_t i = 0; i < 2; i++)
        pthread_create(&threads[2 * POSTERS + (unsigned int)i], NULL, run_poller, (void *)i);
    for (unsigned long i = tc_count(100); i; i--)
        one_connection(&rng);
    atomic_store(&stop, true);
    testbed_lane_stop(&bed);
    for (uint32_t i = 0; i < 2 * POSTERS + 2; i++)
        pthread_join(threads[i], NULL);
    ck_assert(tc_until((poll_side(0), poll_side(1), all_completed()), TESTBED_TIMEOUT));
    ck_assert_uint_gt(successes(), 0);
    printf("# %u requests went well\n", successes());
    for (uint32_t i = 0; i < 2 * POSTERS; i++) {
        region_free(posters[i].side, &posters[i].source);
        region_free(posters[i].side, &posters[i].target);
    }
    bed_close();
}
END_TEST

/* ---- the end of a connection during an invalidation ---- */

static struct region lent; /* a Write sends it by reference and the peer invalidates it */
static atomic_bool is_sending;
static bool told_too_early;

static uint32_t receives_done(void)
{
    uint32_t total = 0, notify;

    ck_assert_int_eq(bed.fake.user.cq_peek(a->recv_cq, &total, &notify), RI_OK);
    return total;
}

static bool is_revoked(void)
{
    uint8_t *memory;
    struct iwarp_qp *qp = qp_of(a);

    return stag_check(&qp->core.rnic->stags, lent.keys.rkey, qp->core.pd, RI_ACCESS_REMOTE_READ,
                      (uintptr_t)lent.octets, 1, &memory) != STAG_OK;
}

/* The lower layer is slow: the peer's invalidation is in progress when the consumer ends the
 * connection. */
static ssize_t send_slowly(struct stream *stream, const struct iovec *iov, int count)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE,
                                   .state = RI_QPS_ERROR };

    atomic_store(&is_sending, true);
    ck_assert(tc_until(is_revoked(), TESTBED_TIMEOUT));
    ck_assert_int_eq(bed.fake.privileged.qp_modify(a->qp, &modify), RI_OK);
    told_too_early = tc_until(receives_done(), 100); /* the memory is still read here */
    return llp_tcp.send(stream, iov, count);
}

static void *write_lent(void *arg)
{
    (void)arg;
    side_write(a, 1, region_sge(&lent, 0, 4096), 0, 1);
    return NULL;
}

/* the invalidation is not reported while output still reads the memory, even if it is the
 * connection's last message. */
START_TEST(X006_C123_invalidate_at_the_end)
{
    const struct shape shape = { .flags = RI_QP_INVALIDATE_ENABLE };
    uint8_t ulpdu[DDP_UNTAGGED_LEN];
    struct llp_ops slow = llp_tcp;
    struct region receive;
    pthread_t writer;

    testbed_open(&bed, NULL);
    raw_open_speaking(&raw, &bed, a, &shape, &plain);
    lent = region_new(a, 4096, TESTBED_ALL);
    receive = region_new(a, 64, TESTBED_ALL);
    side_receive(a, 2, region_sge(&receive, 0, 64));
    slow.send = send_slowly;
    qp_of(a)->stream->sender = &slow;
    pthread_create(&writer, NULL, write_lent, NULL);
    ck_assert(tc_until(atomic_load(&is_sending), TESTBED_TIMEOUT));
    ddp_put_untagged(ulpdu, true, rdmap_ctrl(RDMAP_SEND_INV), lent.keys.rkey, DDP_QN_SEND, 1, 0);
    raw_send(&raw, ulpdu, sizeof(ulpdu));
    ck_assert(fake_host_until(&bed.fake, receives_done(), TESTBED_TIMEOUT));
    pthread_join(writer, NULL);
    side_expect(a, a->recv_cq, 2, RI_WC_SUCCESS, 0);
    ck_assert(!told_too_early);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 4096);
    bed_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma threads");
    TCase *tc = tc_case(suite, "threads", NULL, NULL);

    tc_add_tests(tc, ends_and_beginnings, X006_C123_invalidate_at_the_end);
    tcase_set_timeout(tc, 0.001 * tc_timeout_ms(120000));
    return tc_main(suite);
}
