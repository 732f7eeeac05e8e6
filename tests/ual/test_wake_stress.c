/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No wake-up is lost. Producers with random delays, through the lane and outside it; consumers that
 * wait with random time-outs, poll for a while and stop without a last poll, are interrupted by
 * signals. A guard ends the test when an event is not taken in time or, while no thread calls in,
 * not read.
 */
#include "lane_fake.h"

#include <signal.h>

#define CYCLES        40000
#define CONSUMERS_MAX 3
#define WINDOW        8 /* records under way */

static struct side {
    struct ual_evd *evd;
    struct lf_pipe *feeds[2]; /* on lanes of their own; none: completions by post */
    unsigned int lanes;
    unsigned long cycles;
    unsigned int consumers;
    atomic_ulong sent, taken;
    atomic_bool done;
} sides[3];

static void spend(struct tc_rng *rng)
{
    uint64_t kind = tc_below(rng, 100);

    if (kind < 60)
        for (uint64_t i = tc_below(rng, 500); i; i--)
            __asm__ volatile("");
    else if (kind < 90)
        sched_yield();
    else
        lf_pass((unsigned int)tc_below(rng, kind < 99 ? 100 : 1500));
}

static void *produce(void *arg)
{
    struct side *side = arg;
    struct tc_rng rng = tc_rng((uint64_t)(side - sides));

    for (unsigned long i = 0; i < side->cycles; i++) {
        uint64_t guard = tc_deadline(20000);
        /* Mostly one at a time, so that the consumer is entering the wait. */
        unsigned long ahead = tc_below(&rng, 4) ? 1 : WINDOW;

        while (atomic_load(&side->sent) - atomic_load(&side->taken) >= ahead) {
            if (tc_expired(guard))
                ck_abort_msg("side %d: event %lu was not taken, %lu sent; seed 0x%llx",
                             (int)(side - sides), atomic_load(&side->taken),
                             atomic_load(&side->sent), (unsigned long long)tc_seed());
            sched_yield();
        }
        spend(&rng);
        atomic_fetch_add(&side->sent, 1);
        if (side->feeds[0])
            lf_send(side->feeds[tc_below(&rng, side->lanes)], i);
        else
            lf_complete(side->evd, i);
    }
    return NULL;
}

/* Polls, stops without a last poll, and leaves the lane: another thread reads what comes. */
static bool poll_a_while(struct side *side, struct tc_rng *rng, struct ual_event *event)
{
    for (uint64_t i = tc_below(rng, 200); i; i--)
        if (ual_evd_dequeue(side->evd, event) == RI_OK)
            return true;
    if (tc_below(rng, 8) == 0)
        lf_pass((unsigned int)tc_below(rng, 300));
    return false;
}

static void *consume(void *arg)
{
    struct side *side = arg;
    struct tc_rng rng = tc_rng(100 + (uint64_t)(side - sides));
    struct ual_event event;
    enum ri_status status;

    while (!atomic_load(&side->done)) {
        if (tc_below(&rng, 3) == 0) {
            status = poll_a_while(side, &rng, &event) ? RI_OK : ITAL_ERR_EMPTY;
        } else {
            uint64_t timeout = tc_below(&rng, 3) ? FOR_EVER : tc_below(&rng, 200);

            status = ual_evd_wait(side->evd, timeout, &event, NULL);
        }
        if (status == RI_OK) {
            if (side->consumers == 1 && side->lanes == 1)
                ck_assert_uint_eq(event.wc.cookie, atomic_load(&side->taken));
            atomic_fetch_add(&side->taken, 1);
        } else if (status != ITAL_ERR_EMPTY && status != RI_ERR_TIMED_OUT &&
                   status != ITAL_ERR_INTERRUPTED && status != ITAL_ERR_ABORTED) {
            ck_abort_msg("%s", ital_status_name(status));
        }
        if (tc_below(&rng, 4) == 0)
            spend(&rng);
    }
    return NULL;
}

static bool qps_come_and_go; /* those of sides 0 and 1 */

static void handler(int number)
{
    (void)number;
}

static void disturb(pthread_t *threads, size_t count, atomic_bool *until, struct tc_rng *rng)
{
    while (!atomic_load(until)) {
        pthread_kill(threads[tc_below(rng, count)], SIGUSR1);
        ual_lane_wake(lf_lanes->lane[tc_below(rng, lf_lanes->count)]);
        if (qps_come_and_go) {
            ual_lane_drop_qp(lf_lane);
            ual_lane_drop_qp(lf_lane);
            lf_pass((unsigned int)tc_below(rng, 2000));
            ual_lane_add_qp(lf_lane);
            ual_lane_add_qp(lf_lane);
        }
        lf_pass((unsigned int)tc_below(rng, 2000));
    }
}

struct disturber {
    pthread_t *threads;
    size_t count;
    atomic_bool done;
};

static void *disturb_thread(void *arg)
{
    struct disturber *disturber = arg;
    struct tc_rng rng = tc_rng(1000);

    disturb(disturber->threads, disturber->count, &disturber->done, &rng);
    return NULL;
}

/* consumers: their number on each side. Sides 0 and 1 are fed through all lanes, 2 by posts. */
static void stress(uint32_t lanes, const unsigned int consumers[3], bool signals, uint64_t spin_ns,
                   unsigned int lazy)
{
    pthread_t producers[3], threads[3 * CONSUMERS_MAX], disturber_thread;
    struct disturber disturber = { .threads = threads };
    struct sigaction action = { .sa_handler = handler };
    uint64_t from = clock_now();
    unsigned long cycles = 0;

    sigaction(SIGUSR1, &action, NULL);
    lf_open_lanes(lanes, spin_ns);
    atomic_store(&lf_lazy, lazy);
    for (int s = 0; s < 3; s++) {
        struct side *side = &sides[s];

        if (!consumers[s])
            continue;
        *side = (struct side){ .consumers = consumers[s],
                               .lanes = lanes,
                               .cycles = tc_count(CYCLES) / 4 };
        side->evd = lf_evd(UAL_STREAM_DTO, 4096, 0);
        for (uint32_t lane = 0; s < 2 && lane < lanes; lane++)
            side->feeds[lane] = lf_pipe_on(side->evd, lane);
        cycles += side->cycles;
        for (unsigned int i = 0; i < consumers[s]; i++)
            pthread_create(&threads[disturber.count++], NULL, consume, side);
    }
    for (int s = 0; s < 3; s++)
        if (consumers[s])
            pthread_create(&producers[s], NULL, produce, &sides[s]);
    if (signals)
        pthread_create(&disturber_thread, NULL, disturb_thread, &disturber);
    for (int s = 0; s < 3; s++) {
        if (!consumers[s])
            continue;
        pthread_join(producers[s], NULL);
        ck_assert_msg(tc_until(atomic_load(&sides[s].taken) == sides[s].cycles, 20000),
                      "side %d: event %lu of %lu was not taken", s, atomic_load(&sides[s].taken),
                      sides[s].cycles);
    }
    atomic_store(&disturber.done, true);
    if (signals)
        pthread_join(disturber_thread, NULL);
    for (int s = 0; s < 3; s++) {
        atomic_store(&sides[s].done, true);
        if (consumers[s])
            ual_evd_abort(sides[s].evd);
    }
    for (size_t i = 0; i < disturber.count; i++)
        pthread_join(threads[i], NULL);
    fprintf(stderr, "# %lu cycles in %.1f s, %u runs\n", cycles, (double)(clock_now() - from) / 1e9,
            atomic_load(&lf_runs));
    for (int s = 0; s < 2; s++)
        for (uint32_t lane = 0; consumers[s] && lane < lanes; lane++)
            lf_pipe_close(sides[s].feeds[lane]);
    lf_close();
}

START_TEST(one_consumer)
{
    stress(1, (const unsigned int[]){ 1, 0, 0 }, true, 0, 0);
}
END_TEST

START_TEST(three_evds)
{
    stress(1, (const unsigned int[]){ 1, 1, 1 }, true, 0, 1);
}
END_TEST

START_TEST(several_waiters_per_evd)
{
    stress(1, (const unsigned int[]){ 3, 2, 2 }, true, 0, 0);
}
END_TEST

START_TEST(waiters_that_spin)
{
    stress(1, (const unsigned int[]){ 2, 0, 1 }, false, 20000, 1);
}
END_TEST

/* Each EVD is fed by two lanes. */
START_TEST(one_consumer_two_lanes)
{
    stress(2, (const unsigned int[]){ 1, 0, 0 }, true, 0, 0);
}
END_TEST

START_TEST(three_evds_two_lanes)
{
    stress(2, (const unsigned int[]){ 1, 1, 1 }, true, 0, 1);
}
END_TEST

START_TEST(several_waiters_per_evd_two_lanes)
{
    stress(2, (const unsigned int[]){ 3, 2, 2 }, true, 0, 0);
}
END_TEST

/* The background thread polls all the time: it finds most completions, and no consumer sleeps in
 * epoll. */
static void stress_dedicated(const unsigned int consumers[3], uint64_t spin_ns, unsigned int lazy)
{
    lf_dedicated = true;
    stress(1, consumers, true, spin_ns, lazy);
}

START_TEST(one_consumer_dedicated)
{
    stress_dedicated((const unsigned int[]){ 1, 0, 0 }, 0, 0);
}
END_TEST

START_TEST(three_evds_dedicated)
{
    stress_dedicated((const unsigned int[]){ 1, 1, 1 }, 0, 1);
}
END_TEST

START_TEST(several_waiters_per_evd_dedicated)
{
    stress_dedicated((const unsigned int[]){ 3, 2, 2 }, 20000, 0);
}
END_TEST

/* Consumers that sleep meet the thread at its beginning and at its end, again and again. */
START_TEST(three_evds_whose_qps_come_and_go)
{
    qps_come_and_go = true;
    stress_dedicated((const unsigned int[]){ 1, 2, 1 }, 0, 1);
}
END_TEST

/* Only the background thread reads: the consumer takes queued events and never runs the lane. */
START_TEST(nobody_calls_in)
{
    struct tc_rng rng = tc_rng(7);
    struct lf_pipe *feed;
    struct ual_evd *evd;
    uint64_t cookies = 0;

    lf_open(0);
    evd = lf_evd(UAL_STREAM_DTO, 4096, 0);
    feed = lf_pipe(evd);
    for (unsigned long i = 0; i < tc_count(CYCLES) / 10; i++) {
        struct ual_event event;

        if (tc_below(&rng, 2))
            (void)ual_evd_wait(evd, tc_below(&rng, 3), &event,
                               NULL); /* empty: displaces, and leaves */
        else
            for (uint64_t polls = tc_below(&rng, 100); polls; polls--)
                (void)ual_evd_dequeue(evd, &event);
        lf_send(feed, i);
        ck_assert_msg(tc_until(atomic_load(&lf_records) == i + 1, 20000), "record %lu was not read",
                      i);
        ck_assert_uint_eq(lf_take(evd), cookies++);
    }
    lf_pipe_close(feed);
    lf_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("no wake-up is lost");
    TCase *tc = tc_case(suite, "stress", NULL, NULL);

    tcase_set_timeout(tc, 300);
    tc_add_tests(tc, one_consumer, three_evds, several_waiters_per_evd, waiters_that_spin,
                 one_consumer_two_lanes, three_evds_two_lanes, several_waiters_per_evd_two_lanes,
                 one_consumer_dedicated, three_evds_dedicated, several_waiters_per_evd_dedicated,
                 three_evds_whose_qps_come_and_go, nobody_calls_in);
    return tc_main(suite);
}
