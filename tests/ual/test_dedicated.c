/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options progress and progress_cpus: what is refused, and what the background thread does that
 * polls all the time. The end of its polling is seen by its state, not by time.
 */
#include "lane_one.h"

#include "ual/progress/lane_private.h"
#include "ual/progress/processors.h"

#include "base/cpus.h"
#include "base/futex.h"

/* --- what is asked for, held against what there is --- */

static struct ual_processors chosen;

static enum ri_status choose(const char *cpus, bool dedicated, uint32_t lanes, const int *allowed,
                             unsigned int quota)
{
    const struct ual_progress progress = { .dedicated = dedicated, .cpus = cpus };
    cpu_set_t set;

    CPU_ZERO(&set);
    for (; *allowed >= 0; allowed++)
        CPU_SET((size_t)*allowed, &set);
    *lf_last_line = '\0';
    return ual_processors_choose(&progress, lanes, &set, quota, &chosen);
}

#define CPUS(...) ((const int[]){ __VA_ARGS__, -1 })

START_TEST(numbers_of_allowed_processors_are_taken_in_their_order)
{
    ok(choose("5 0", true, 1, CPUS(0, 1, 5), CPUS_UNLIMITED));
    ck_assert(chosen.dedicated);
    ck_assert_uint_eq(chosen.count, 2);
    ck_assert_uint_eq(chosen.cpu[0], 5);
    ck_assert_uint_eq(chosen.cpu[1], 0);
    ok(choose("", false, 1, CPUS(0), 1));
    ck_assert(!chosen.dedicated);
    ck_assert_uint_eq(chosen.count, 0);
    ok(choose(NULL, true, 1, CPUS(0, 1), CPUS_UNLIMITED));
    ck_assert(chosen.dedicated);
    ck_assert_str_eq(lf_last_line, "");
}
END_TEST

START_TEST(others_are_refused_with_those_that_are_allowed)
{
    static const char *const wrong[] = {
        "4", "0 4", "-1", "x", "0x", "0-1", "1024", "99999999999"
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        chosen.count = 17;
        fails(choose(wrong[i], false, 1, CPUS(0, 1, 2, 3, 7, 1023), CPUS_UNLIMITED),
              ITAL_ERR_CONFIGURATION);
        ck_assert_uint_eq(chosen.count, 17);
        ck_assert_ptr_nonnull(strstr(lf_last_line, "progress_cpus"));
        ck_assert_ptr_nonnull(strstr(lf_last_line, " 0-3,7,1023 "));
        ck_assert_int_eq(*lf_last_line, '0' + RI_LOG_ERROR);
    }
    ck_assert_ptr_nonnull(strstr(lf_last_line, "\"99999999999\""));
}
END_TEST

START_TEST(a_long_list_of_allowed_ones_ends_with_dots)
{
    int some[201];

    for (int i = 0; i < 200; i++)
        some[i] = 2 * i;
    some[200] = -1;
    fails(choose("1", false, 1, some, CPUS_UNLIMITED), ITAL_ERR_CONFIGURATION);
    ck_assert_ptr_nonnull(strstr(lf_last_line, " 0,2,4,"));
    ck_assert_ptr_nonnull(strstr(lf_last_line, ",... "));
}
END_TEST

/* One processor for each lane and one for the program, by mask and by quota. */
START_TEST(with_too_few_processors_it_is_shared_and_a_warning_says_why)
{
    const struct {
        uint32_t lanes;
        const int *allowed;
        unsigned int quota;
        const char *why; /* NULL: there are enough */
    } cases[] = {
        { 1, CPUS(3), CPUS_UNLIMITED, "affinity mask allows 1" },
        { 1, CPUS(3, 4), 1, "CPU quota allows 1" },
        { 1, CPUS(3, 4), 0, "CPU quota allows 0" },
        { 1, CPUS(3, 4), 2, NULL },
        { 2, CPUS(3, 4), CPUS_UNLIMITED, "affinity mask allows 2" },
        { 2, CPUS(3, 4, 5), 2, "CPU quota allows 2" },
        { 2, CPUS(3, 4, 5), 3, NULL },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        ok(choose("3", true, cases[i].lanes, cases[i].allowed, cases[i].quota));
        ck_assert_int_eq(chosen.dedicated, !cases[i].why);
        ck_assert_uint_eq(chosen.count, 1);
        if (cases[i].why) {
            ck_assert_ptr_nonnull(strstr(lf_last_line, cases[i].why));
            ck_assert_int_eq(*lf_last_line, '0' + RI_LOG_WARNING);
        } else {
            ck_assert_str_eq(lf_last_line, "");
        }
        ok(choose("3", false, cases[i].lanes, cases[i].allowed, cases[i].quota));
        ck_assert_str_eq(lf_last_line, "");
    }
}
END_TEST

START_TEST(a_refused_number_opens_no_lane)
{
    struct ual_ia *ia = lf_make_ia();
    struct ual_lanes *lanes = ual_device_lanes(ia->device);
    int threads = tc_thread_count(), fds = tc_fd_count();

    fails(ual_lanes_open(lanes, &(struct ual_progress){ .cpus = "1023" }), ITAL_ERR_CONFIGURATION);
    ck_assert_uint_eq(lanes->count, 0);
    ck_assert_int_eq(tc_thread_count(), threads);
    ck_assert_int_eq(tc_fd_count(), fds);
    lf_free_ia(ia);
}
END_TEST

START_TEST(the_thread_is_pinned)
{
    cpu_set_t allowed, set;
    char cpus[12];
    int last = 0;

    cpus_mask(&allowed);
    for (int i = 0; i < CPU_SETSIZE; i++)
        last = CPU_ISSET((size_t)i, &allowed) ? i : last;
    snprintf(cpus, sizeof(cpus), "%d", last);
    lf_cpus = cpus;
    lf_open(0);
    ck_assert_int_eq(pthread_getaffinity_np(lf_lane->thread, sizeof(set), &set), 0);
    ck_assert_int_eq(CPU_COUNT(&set), 1);
    ck_assert(CPU_ISSET((size_t)last, &set));
    lf_close();
}
END_TEST

/* --- the thread --- */

static uint64_t enough; /* the time for it */

/* Where other programs fill the processors a round takes whole time slices, so few must do. */
static bool once_more(uint64_t round, unsigned long count)
{
    return round < tc_count(count) && (round < 20 || clock_now() < enough);
}

static void setup_dedicated(void)
{
    enough = clock_now() + 2 * CLOCK_NS_PER_S;
    lf_dedicated = true;
    setup();
    if (!lf_lane->dedicated)
        tc_skip("one processor, or a CPU quota below two");
}

static bool polls_all_the_time(void)
{
    return atomic_load(&lf_lane->busy);
}

static bool has_the_place(void)
{
    return ual_lane_is_sleeper(lf_lane, &lf_lane->background);
}

/* In epoll_wait, as without the option; so it takes no processor time. */
static bool sleeps(void)
{
    bool asleep;

    spinlock_lock(&lf_lane->sleep_lock);
    asleep = lf_lane->background.sleep_until != 0;
    spinlock_unlock(&lf_lane->sleep_lock);
    return asleep && !polls_all_the_time();
}

/* Without a deadline, because a consumer sleeps in epoll. */
static bool is_deep(void)
{
    bool deep;

    spinlock_lock(&lf_lane->sleep_lock);
    deep = lf_lane->deep;
    spinlock_unlock(&lf_lane->sleep_lock);
    return deep && ual_lane_has_waiter(lf_lane);
}

static bool is_read_by_it(void)
{
    return pthread_equal((pthread_t)atomic_load(&lf_reader), lf_lane->thread);
}

START_TEST(what_arrives_is_read_while_nobody_calls)
{
    ck_assert(tc_until(polls_all_the_time(), 10000));
    for (uint64_t i = 0; once_more(i, 4000); i++) {
        lf_send(feed, i);
        while (atomic_load(&lf_records) != i + 1) /* looks, and makes no call */
            ;
        ck_assert(is_read_by_it());
        ck_assert_uint_eq(lf_take(evd), i);
    }
    ck_assert(polls_all_the_time());
}
END_TEST

START_TEST(it_sleeps_without_qps_and_polls_again_with_one)
{
    struct lf_pipe *watched;

    for (uint64_t i = 0; i < 20; i++) {
        ck_assert(tc_until(polls_all_the_time(), 10000));
        ual_lane_drop_qp(lf_lane);
        ck_assert(tc_until(sleeps(), 10000));
        ual_lane_add_qp(lf_lane);
    }
    /* A listen point is no QP. */
    ual_lane_drop_qp(lf_lane);
    watched = lf_pipe(evd);
    ual_lane_drop_qp(lf_lane);
    ck_assert(tc_until(sleeps(), 10000));
    lf_send(watched, 1);
    ck_assert(tc_until(atomic_load(&lf_records) == 1, 10000));
    ck_assert(tc_until(sleeps(), 10000));
    ual_lane_add_qp(lf_lane);
    ual_lane_add_qp(lf_lane);
    lf_pipe_close(watched);
    ck_assert(tc_until(polls_all_the_time(), 10000));
}
END_TEST

START_TEST(it_polls_when_a_qp_comes_while_a_consumer_sleeps_in_epoll)
{
    struct lf_waiter waiter;

    ual_lane_drop_qp(lf_lane);
    ck_assert(tc_until(sleeps(), 10000));
    lf_wait_start(&waiter, evd, FOR_EVER);
    ck_assert(tc_until(is_deep(), 10000));
    ual_lane_add_qp(lf_lane);
    ck_assert(tc_until(polls_all_the_time(), 10000));
    lf_send(feed, 7);
    lf_wait_join(&waiter, RI_OK);
    ck_assert_uint_eq(waiter.cookie, 7);
    ck_assert(has_the_place());
}
END_TEST

static unsigned int waiting_on_words(void)
{
    struct kal_lane_seen seen;

    ual_lane_snapshot(lf_lane, &seen);
    return has_the_place() ? seen.waiters : 0;
}

START_TEST(a_waiter_sleeps_on_its_word_and_is_woken)
{
    ck_assert(tc_until(polls_all_the_time(), 10000));
    for (uint64_t i = 0; once_more(i, 500); i++) {
        struct lf_waiter waiter;

        lf_wait_start(&waiter, evd, FOR_EVER);
        ck_assert(tc_until(waiting_on_words() == 1, 10000));
        lf_send(feed, i);
        lf_wait_join(&waiter, RI_OK);
        ck_assert_uint_eq(waiter.cookie, i);
        ck_assert(is_read_by_it());
        ck_assert(has_the_place());
    }
}
END_TEST

/* The last QP leaves while a consumer waits: it sleeps in epoll from then on, and what a descriptor
 * brings wakes it. */
START_TEST(a_waiter_takes_over_when_it_ends)
{
    struct lf_waiter waiter;

    ck_assert(tc_until(polls_all_the_time(), 10000));
    lf_wait_start(&waiter, evd, FOR_EVER);
    ck_assert(tc_until(waiting_on_words() == 1, 10000));
    ual_lane_drop_qp(lf_lane);
    ck_assert(tc_until(is_deep(), 10000));
    lf_send(feed, 3);
    lf_wait_join(&waiter, RI_OK);
    ck_assert_uint_eq(waiter.cookie, 3);
    ck_assert(!is_read_by_it());
    ual_lane_add_qp(lf_lane);
}
END_TEST

/* What the last pass leaves is passed on to the consumer that takes over, and timers expire. */
START_TEST(work_and_timers_are_served_behind_its_end)
{
    struct ri_timer timer = { .expired = fired };

    for (unsigned int i = 0; once_more(i, 200); i++) {
        struct lf_waiter waiter;

        ck_assert(tc_until(polls_all_the_time(), 10000));
        lf_wait_start(&waiter, evd, FOR_EVER);
        timer.deadline = clock_now() + MS;
        ual_lane_timer_set(lf_lane, &timer);
        lf_complete_in(evd, i, 2000);
        ual_lane_drop_qp(lf_lane);
        lf_wait_join(&waiter, RI_OK);
        ck_assert_uint_eq(waiter.cookie, i);
        ck_assert(tc_until(atomic_load(&fires) == i + 1, 10000));
        ual_lane_add_qp(lf_lane);
    }
    ual_lane_timer_cancel(lf_lane, &timer);
}
END_TEST

/* A consumer slept in epoll before the first QP came, and nothing has woken it since: runs pass
 * nothing on to it while the thread polls, so the thread does when it ends. */
START_TEST(work_left_at_its_end_wakes_a_consumer_in_epoll)
{
    ual_lane_drop_qp(lf_lane);
    for (unsigned int i = 0; i < 10; i++) {
        struct lf_waiter waiter;

        lf_wait_start(&waiter, evd, 3 * (uint64_t)tc_timeout_ms(1000) * 1000);
        ck_assert(tc_until(is_deep(), 10000));
        /* as ual_lane_add_qp, but without the kick, which wakes the consumer, too */
        atomic_fetch_add(&lf_lane->qps, 1);
        atomic_fetch_add(&lf_lane->background_word, 1);
        futex_wake(&lf_lane->background_word, 1);
        ck_assert(tc_until(polls_all_the_time(), 10000));
        ck_assert(ual_lane_has_waiter(lf_lane));
        lf_complete_in(evd, i, 20000);
        ual_lane_drop_qp(lf_lane);
        lf_wait_join(&waiter, RI_OK);
        ck_assert_uint_eq(waiter.cookie, i);
    }
    ual_lane_add_qp(lf_lane);
}
END_TEST

/* It takes the run again and again, but lets others in. */
START_TEST(others_get_the_run)
{
    ck_assert(tc_until(polls_all_the_time(), 10000));
    for (unsigned long i = 0; i < tc_count(20000); i++) {
        ual_lane_pause(lf_lane);
        ck_assert(ual_lane_inside(lf_lane));
        ual_lane_resume(lf_lane);
    }
}
END_TEST

START_TEST(it_stops_when_its_descriptors_are_gone)
{
    ck_assert(tc_until(polls_all_the_time(), 10000));
    close(lf_lane->epoll_fd);
    close(lf_lane->kick_fd);
    close(lf_lane->watch_fd);
    ck_assert(tc_until(atomic_load(&lf_fatals) == 1, 10000));
    ck_assert(tc_until(!polls_all_the_time(), 10000));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("a thread that polls all the time");
    TCase *options = tc_case(suite, "options", NULL, NULL), *thread = tcase_create("thread");

    tc_add_tests(options, numbers_of_allowed_processors_are_taken_in_their_order,
                 others_are_refused_with_those_that_are_allowed,
                 a_long_list_of_allowed_ones_ends_with_dots,
                 with_too_few_processors_it_is_shared_and_a_warning_says_why,
                 a_refused_number_opens_no_lane, the_thread_is_pinned);
    tc_add_tests(thread, what_arrives_is_read_while_nobody_calls,
                 it_sleeps_without_qps_and_polls_again_with_one,
                 it_polls_when_a_qp_comes_while_a_consumer_sleeps_in_epoll,
                 a_waiter_sleeps_on_its_word_and_is_woken, a_waiter_takes_over_when_it_ends,
                 work_and_timers_are_served_behind_its_end,
                 work_left_at_its_end_wakes_a_consumer_in_epoll, others_get_the_run,
                 it_stops_when_its_descriptors_are_gone);
    lf_add_cases(suite, (TCase *const[]){ thread }, 1, setup_dedicated, teardown);
    return tc_main(suite);
}
