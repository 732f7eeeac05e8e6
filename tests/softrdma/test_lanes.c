/* SPDX-License-Identifier: BSD-3-Clause */
/* An RNIC with several lanes: what they share, and how revoked memory waits for all of them. The
 * other suites run with two lanes too: lanes.tap. */
#include "bed.h"

#include "providers/software/iwarp/wire_iwarp.h"
#include "yields.h"

static const char *const two_lanes[] = { "lanes", "2", NULL };

static struct rnic *rnic(void)
{
    return container_of(bed.fake.rnic, struct rnic, base);
}

static struct lane *lane_of(const struct side *side)
{
    return qp_of(side)->core.lane;
}

static void setup(void)
{
    testbed_open(&bed, two_lanes);
}

/* A connection with both sides on one lane. */
struct link {
    struct side side[2];
    struct region region[2];
};

static void link_open(struct link *link, uint32_t lane)
{
    for (int i = 0; i < 2; i++) {
        bed.placed = lane;
        side_open(&bed, &link->side[i], NULL);
        link->region[i] = region_new(&link->side[i], 4096, TESTBED_ALL);
    }
    sides_connect(&link->side[0], &link->side[1], NULL);
}

static void link_close(struct link *link)
{
    for (int i = 0; i < 2; i++) {
        side_close(&link->side[i]);
    }
}

/* A Send, a Write and a Read. */
static void link_use(struct link *link, uint8_t octet)
{
    struct side *from = &link->side[0], *to = &link->side[1];
    const struct region *far = &link->region[1];

    memset(link->region[0].octets, octet, 100);
    side_receive(to, 7, region_sge(far, 1000, 100));
    side_write(from, 1, region_sge(&link->region[0], 0, 100), (uintptr_t)far->octets,
               far->keys.rkey);
    side_send(from, 2, region_sge(&link->region[0], 0, 100));
    side_expect(from, from->send_cq, 1, RI_WC_SUCCESS, 100);
    side_expect(from, from->send_cq, 2, RI_WC_SUCCESS, 100);
    side_expect(to, to->recv_cq, 7, RI_WC_SUCCESS, 100);
    ck_assert_mem_eq(far->octets, link->region[0].octets, 100);
    ck_assert_mem_eq(far->octets + 1000, link->region[0].octets, 100);
    side_read(from, 3, region_sge(&link->region[0], 2000, 100), (uintptr_t)far->octets,
              far->keys.rkey);
    side_expect(from, from->send_cq, 3, RI_WC_SUCCESS, 100);
    ck_assert_mem_eq(link->region[0].octets + 2000, far->octets, 100);
}

/* ---- shared state ---- */

static void hold(struct link *link, void (*by)(struct spinlock *lock))
{
    by(&rnic()->lanes[0]->lock);
    for (int i = 0; i < 2; i++) {
        struct iwarp_qp *qp = qp_of(&link->side[i]);

        by(&qp->stream->rx);
        by(&qp->core.life.lock);
        by(&qp->core.sq.posting);
        by(&qp->core.rq.posting);
        by(&qp->core.send_cq->lock);
        by(&qp->core.recv_cq->lock);
    }
    by(&rnic()->stags.lock);
}

static void take(struct spinlock *lock)
{
    spinlock_lock(lock);
}

static void drop(struct spinlock *lock)
{
    spinlock_unlock(lock);
}

/* Takes all locks of one connection, of its lane and of the STag table: the data path of the other
 * lane needs none of them. */
START_TEST(no_lock_is_shared)
{
    struct link held, used;

    link_open(&held, 0);
    link_open(&used, 1);
    ck_assert_ptr_ne(lane_of(&held.side[0]), lane_of(&used.side[0]));
    link_use(&held, 1);
    link_use(&used, 2);
    fake_host_sleep(&bed.fake, 1, 0);
    bed.fake.lanes[0] = bed.fake.lanes[1]; /* the other one does not run meanwhile */
    hold(&held, take);
    for (uint8_t i = 0; i < 20; i++)
        link_use(&used, i);
    hold(&held, drop);
    bed.fake.lanes[0] = bed.fake.lane;
    link_use(&held, 3);
    link_close(&used);
    link_close(&held);
}
END_TEST

START_TEST(a_cq_knows_its_lane)
{
    struct link first, second;
    struct cq *cq;

    link_open(&first, 1);
    cq = container_of(first.side[0].send_cq, struct cq, base);
    ck_assert_ptr_eq(atomic_load(&cq->lane), rnic()->lanes[1]);
    cq_attach(cq, rnic()->lanes[1]);
    ck_assert_ptr_eq(atomic_load(&cq->lane), rnic()->lanes[1]);
    cq_attach(cq, rnic()->lanes[0]);
    ck_assert_ptr_null(atomic_load(&cq->lane)); /* there are several lanes */
    ck_assert_ptr_eq(atomic_load(&cq->home), rnic()->lanes[1]);
    cq_detach(cq);
    cq_attach(cq, rnic()->lanes[1]);
    ck_assert_ptr_null(atomic_load(&cq->lane)); /* a QP of the other lane may still exist */
    cq_detach(cq);
    cq_detach(cq);
    link_open(&second, 0);
    link_use(&first, 1);
    link_use(&second, 2);
    link_close(&first);
    link_close(&second);
}
END_TEST

/* Batched posts leave when their consumer polls a CQ that several lanes feed. */
START_TEST(a_look_is_seen_by_every_lane)
{
    unsigned int before[2];
    struct link link;
    struct cq *cq;

    link_open(&link, 0);
    cq = container_of(link.side[0].send_cq, struct cq, base);
    cq_attach(cq, rnic()->lanes[1]);
    for (int i = 0; i < 2; i++)
        before[i] = atomic_load(&rnic()->lanes[i]->coalesce.polls);
    ck_assert_int_eq(bed.fake.user.arm(&cq->base, RI_ARM_NEXT, 0), RI_OK);
    for (int i = 0; i < 2; i++)
        ck_assert_uint_ne(atomic_load(&rnic()->lanes[i]->coalesce.polls), before[i]);
    cq_detach(cq);
    link_close(&link);
}
END_TEST

/* ---- several consumers of one lane ---- */

static unsigned int gathering(void)
{
    return atomic_load(&rnic()->lanes[0]->coalesce.count);
}

static void post_one(struct link *link, uint64_t cookie, uint32_t flags)
{
    struct ri_sge sge = region_sge(&link->region[0], 0, 100);

    ck_assert_int_eq(side_post(&link->side[0], RI_WR_RDMA_WRITE, cookie, flags, &sge, 1,
                               (uintptr_t)link->region[1].octets, link->region[1].keys.rkey),
                     RI_OK);
}

/* Its consumer polls and has posted two requests since its last poll: the second one is batched. */
static void gather_one(struct link *link)
{
    struct side *from = &link->side[0];

    for (int i = 0; i < 3; i++)
        fake_host_run_lane(&bed.fake, 0, from->send_cq);
    for (int i = 0; i < 3; i++)
        fake_host_run_lane(&bed.fake, 0, from->recv_cq);
    post_one(link, 1, 0);
    post_one(link, 2, RI_WR_SIGNALED);
    ck_assert_uint_eq(gathering(), 1);
}

static void gathered_has_left(struct link *link)
{
    ck_assert_uint_eq(gathering(), 0);
    side_expect(&link->side[0], link->side[0].send_cq, 2, RI_WC_SUCCESS, 100);
}

/* Polls of another consumer do not send the batch in parts, but do not leave it for ever either. */
START_TEST(what_gathers_is_left_to_who_polls_for_it)
{
    struct link link, other;

    link_open(&link, 0);
    link_open(&other, 0);
    link_use(&link, 1);
    link_use(&other, 2);
    gather_one(&link);
    fake_host_run_lane(&bed.fake, 0, other.side[0].recv_cq);
    ck_assert_uint_eq(gathering(), 1);
    if (_i == 0)
        fake_host_run_lane(&bed.fake, 0, link.side[0].send_cq);
    else if (_i == 1)
        fake_host_run_lane(&bed.fake, 0, NULL);
    else if (_i == 2) /* another thread runs the pass */
        ck_assert_uint_eq(bed.fake.user.poll(link.side[0].send_cq, 0, NULL), 0);
    else
        for (int i = 0; i < 4; i++)
            fake_host_run_lane(&bed.fake, 0, other.side[0].recv_cq);
    gathered_has_left(&link);
    link_close(&link);
    link_close(&other);
}
END_TEST

/* A consumer that always finds completions makes no pass; taking the last completion counts as a
 * poll. */
START_TEST(who_takes_the_last_completion_has_looked)
{
    struct link link, other;
    struct cq *cq;
    struct ri_wc wc;

    link_open(&link, 0);
    link_open(&other, 0);
    link_use(&link, 1);
    link_use(&other, 2);
    cq = container_of(link.side[0].send_cq, struct cq, base);
    gather_one(&link);
    fake_host_run_lane(&bed.fake, 0, &cq->base);
    for (uint64_t last = 2; last <= 6; last += 2) { /* one is there, or one more comes at once */
        post_one(&link, last + 1, RI_WR_SIGNALED);
        post_one(&link, last + 2, RI_WR_SIGNALED);
        ck_assert_uint_eq(gathering(), 1);
        for (int i = 0; i < 3; i++)
            fake_host_run_lane(&bed.fake, 0, other.side[0].recv_cq);
        ck_assert_uint_eq(gathering(), 1);
        for (uint64_t cookie = last; cookie <= last + 1; cookie++) {
            ck_assert_uint_eq(bed.fake.user.poll(&cq->base, 1, &wc), 1);
            ck_assert_uint_eq(wc.cookie, cookie);
        }
        ck_assert_uint_eq(gathering(), 0);
    }
    side_expect(&link.side[0], &cq->base, 8, RI_WC_SUCCESS, 100);
    link_close(&link);
    link_close(&other);
}
END_TEST

/* The same holds for received data: a consumer that polls another CQ of the lane reads a connection
 * only if its own consumer has not polled for some passes. */
START_TEST(what_arrives_is_left_to_who_polls_for_it)
{
    struct link link, other;
    struct side *to = &link.side[1];
    uint64_t end = tc_deadline(TESTBED_TIMEOUT);
    unsigned int passes = 0;
    struct ri_wc wc;

    link_open(&link, 0);
    link_open(&other, 0);
    link_use(&link, 1);
    link_use(&other, 2);
    side_receive(to, 7, region_sge(&link.region[1], 0, 100));
    for (int i = 0; i < 20; i++) { /* no octets in flight, no connection ready */
        fake_host_run(&bed.fake, NULL);
        fake_host_sleep(&bed.fake, 1, 0);
    }
    for (int i = 0; i < 3; i++)
        fake_host_run_lane(&bed.fake, 0, to->send_cq);
    for (int i = 0; i < 3; i++)
        fake_host_run_lane(&bed.fake, 0, to->recv_cq);
    side_send(&link.side[0], 1, region_sge(&link.region[0], 0, 100));
    for (; !bed.fake.user.poll(to->recv_cq, 1, &wc); passes++) {
        fake_host_run_lane(&bed.fake, 0, _i ? to->recv_cq : other.side[0].recv_cq);
        ck_assert(!tc_expired(end));
    }
    ck_assert_uint_eq(wc.cookie, 7);
    if (_i == 0)
        ck_assert_uint_ge(passes, 4);
    side_expect(&link.side[0], link.side[0].send_cq, 1, RI_WC_SUCCESS, 100);
    link_close(&link);
    link_close(&other);
}
END_TEST

/* ---- revoked memory ---- */

static const struct memory_range nothing;
static atomic_bool left;

static void *leave_memory(void *arg)
{
    (void)arg;
    yields_count();
    lanes_leave(rnic(), NULL, LEAVE_MEMORY, &nothing);
    atomic_store(&left, true);
    return NULL;
}

static void pass_begins(struct lane *lane)
{
    atomic_store(&lane->runner, (unsigned long)pthread_self());
    atomic_fetch_add(&lane->passes, 1);
}

static void pass_ends(struct lane *lane)
{
    atomic_store(&lane->runner, 0);
    atomic_fetch_add(&lane->passes, 1);
}

START_TEST(passes_of_every_lane_are_waited_for)
{
    struct lane *lane = rnic()->lanes[_i];
    pthread_t thread;

    atomic_store(&left, false);
    pass_begins(lane);
    ck_assert_int_eq(pthread_create(&thread, NULL, leave_memory, NULL), 0);
    ck_assert(yields_wait(&left));
    pass_ends(lane);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(atomic_load(&left));
}
END_TEST

START_TEST(a_pass_that_places_nothing_is_not_waited_for)
{
    struct lane *lane = rnic()->lanes[1];
    pthread_t thread;

    atomic_store(&left, false);
    pass_begins(lane);
    if (_i == 0)
        atomic_fetch_add(&lane->quiets, 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, leave_memory, NULL), 0);
    if (_i == 1) { /* the pass becomes quiet meanwhile */
        ck_assert(yields_wait(&left));
        atomic_fetch_add(&lane->quiets, 2);
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    pass_ends(lane);
    atomic_store(&lane->quiets, 0);
}
END_TEST

static void *passes_that_invalidate(void *arg)
{
    struct lane *lane = arg;

    for (unsigned long i = 0; i < tc_count(20000); i++) {
        pass_begins(lane);
        lanes_leave(rnic(), NULL, LEAVE_MEMORY, &nothing);
        pass_ends(lane);
    }
    return NULL;
}

START_TEST(two_passes_do_not_wait_for_each_other)
{
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, passes_that_invalidate, rnic()->lanes[i]), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}
END_TEST

/* Ending a connection needs rx, which the pass of its lane may hold while it waits for this
 * thread. */
START_TEST(who_ends_a_connection_is_not_waited_for)
{
    struct memory_range range = { NULL, 0 };
    struct link link;
    struct iwarp_qp *qp;

    link_open(&link, 1);
    link_use(&link, 1);
    qp = qp_of(&link.side[0]);
    tx_enter(&qp->core);
    atomic_store(&qp->core.tx.stopped, true);
    tx_detach_in_pass(qp, &range); /* returns */
    atomic_store(&qp->core.tx.stopped, false);
    tx_leave(&qp->core);
    link_use(&link, 2);
    link_close(&link);
}
END_TEST

START_TEST(deregistration_visits_every_lane)
{
    struct link links[2];

    for (uint32_t i = 0; i < 2; i++) {
        link_open(&links[i], i);
        link_use(&links[i], 1);
    }
    testbed_lane_start(&bed);
    for (unsigned long round = 0; round < tc_count(200); round++) {
        struct region region = region_new(&links[round % 2].side[1], 4096, TESTBED_ALL);

        region_free(&links[round % 2].side[1], &region);
    }
    testbed_lane_stop(&bed);
    for (uint32_t i = 0; i < 2; i++)
        link_close(&links[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma lanes");
    TCase *tc = tc_case(suite, "shared", setup, bed_close);

    tc_add_tests(tc, no_lock_is_shared, a_cq_knows_its_lane, a_look_is_seen_by_every_lane);
    tcase_add_loop_test(tc, what_gathers_is_left_to_who_polls_for_it, 0, 4);
    tcase_add_test(tc, who_takes_the_last_completion_has_looked);
    tcase_add_loop_test(tc, what_arrives_is_left_to_who_polls_for_it, 0, 2);
    tc = tc_case(suite, "memory", setup, bed_close);
    tc_add_loops(tc, 0, 2, passes_of_every_lane_are_waited_for,
                 a_pass_that_places_nothing_is_not_waited_for);
    tc_add_tests(tc, two_passes_do_not_wait_for_each_other, who_ends_a_connection_is_not_waited_for,
                 deregistration_visits_every_lane);
    return tc_main(suite);
}
