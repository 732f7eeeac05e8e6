/* SPDX-License-Identifier: BSD-3-Clause */
/* librnicpi: the completion queue in memory, what fires it, completions that wait for room;
 * descriptors that are removed later. */
#include "fake_host.h"
#include "tc.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "sdk/rnicpi_cq.h"
#include "rnicpi_util.h"
#include "sdk/rnicpi_watch.h"

/* ---- the host, and sources of numbered completions ---- */

static struct fake_host fake;
static struct fake_record record; /* of the CQ */
static const struct ri_user_ops ops = { .size = sizeof(ops) };

/* Its completions have cookies base, base + 1, ...; `ready` is the limit of available ones. */
struct numbered {
    struct ri_cq_source source;
    uint64_t base;
    atomic_uint ready;
    uint32_t told, polled;
    uint16_t status;
    uint8_t flags;
};

static bool next_number(struct ri_cq_source *source, struct ri_wc *wc)
{
    struct numbered *numbered = (struct numbered *)source;

    if (numbered->told == atomic_load(&numbered->ready))
        return false;
    if (wc)
        *wc = (struct ri_wc){ .cookie = numbered->base + numbered->told++,
                              .status = numbered->status,
                              .flags = numbered->flags };
    return true;
}

static void number_polled(struct ri_cq_source *source, const struct ri_wc *wc)
{
    struct numbered *numbered = (struct numbered *)source;

    ck_assert_uint_eq(wc->cookie, numbered->base + numbered->polled++);
}

static struct ri_mem_cq cq;

static void open_cq(uint32_t depth)
{
    const struct ri_cq_attr attr = { .size = sizeof(attr), .depth = depth, .context = &record };

    fake_host_init(&fake, NULL, false);
    memset(&record, 0, sizeof(record));
    ck_assert_int_eq(ri_mem_cq_open(&cq, &fake.host, &ops, &attr), RI_OK);
    ck_assert_ptr_eq(cq.base.ops, &ops);
    ck_assert_ptr_eq(cq.base.context, &record);
}

static void add(struct numbered *numbered, uint64_t base)
{
    *numbered = (struct numbered){ .base = base };
    numbered->source.next = next_number;
    numbered->source.polled = number_polled;
    ri_cq_source_add(&numbered->source, &cq);
}

/* Makes more completions available. True: all of them fit. */
static bool bring(struct numbered *numbered, uint32_t more)
{
    bool all;

    atomic_fetch_add(&numbered->ready, more);
    all = ri_cq_collect(&numbered->source);
    ri_cq_deliver(&cq);
    return all;
}

static void expect(uint64_t cookie)
{
    struct ri_wc wc;

    ck_assert_uint_eq(ri_mem_cq_poll(&cq.base, 1, &wc), 1);
    ck_assert_uint_eq(wc.cookie, cookie);
}

static void expect_empty(void)
{
    struct ri_wc wc;

    ck_assert_uint_eq(ri_mem_cq_poll(&cq.base, 1, &wc), 0);
}

static void expect_count(uint32_t total, uint32_t marked)
{
    uint32_t there, of_them;

    ck_assert_int_eq(ri_mem_cq_peek(&cq.base, &there, &of_them), RI_OK);
    ck_assert_uint_eq(there, total);
    ck_assert_uint_eq(of_them, marked);
}

/* ---- arming ---- */

static const struct {
    enum ri_arm kind;
    uint8_t flags;
    uint16_t status;
    bool fires;
} arm_cases[] = {
    { RI_ARM_NEXT, 0, RI_WC_SUCCESS, true },
    { RI_ARM_SOLICITED, 0, RI_WC_SUCCESS, false },
    { RI_ARM_SOLICITED, RI_WC_NOTIFY, RI_WC_SUCCESS, false },
    { RI_ARM_SOLICITED, RI_WC_SOLICITED, RI_WC_SUCCESS, true },
    { RI_ARM_SOLICITED, 0, RI_WC_FLUSHED, true },
    { RI_ARM_NOTIFY_MARKED, 0, RI_WC_SUCCESS, false },
    { RI_ARM_NOTIFY_MARKED, RI_WC_NOTIFY, RI_WC_SUCCESS, true },
    { RI_ARM_NOTIFY_MARKED, RI_WC_SOLICITED, RI_WC_SUCCESS, true },
    { RI_ARM_NOTIFY_MARKED, 0, RI_WC_FLUSHED, true },
};

START_TEST(arm_kinds)
{
    struct numbered numbered;
    const bool marked = arm_cases[_i].flags || arm_cases[_i].status;

    open_cq(8);
    add(&numbered, 1);
    numbered.flags = arm_cases[_i].flags;
    numbered.status = arm_cases[_i].status;
    ck_assert(bring(&numbered, 1)); /* not armed: nothing */
    ck_assert_int_eq(ri_mem_cq_arm(&cq.base, arm_cases[_i].kind, 0), RI_OK);
    ck_assert_uint_eq(atomic_load(&record.count), 0); /* earlier ones do not fire */
    ck_assert(bring(&numbered, 1));
    ck_assert_uint_eq(atomic_load(&record.count), arm_cases[_i].fires);
    ck_assert(bring(&numbered, 1)); /* once */
    ck_assert_uint_eq(atomic_load(&record.count), arm_cases[_i].fires);
    expect_count(3, marked ? 3 : 0);
    expect(1);
    expect_count(2, marked ? 2 : 0);
    ri_cq_source_remove(&numbered.source);
    expect_count(0, 0);
    ck_assert_int_eq(ri_mem_cq_close(&cq), RI_OK);
}
END_TEST

/* Fires at once if that many are there. */
START_TEST(arm_nth)
{
    struct numbered numbered;

    open_cq(4);
    add(&numbered, 1);
    ck_assert_int_eq(ri_mem_cq_arm(&cq.base, RI_ARM_NTH, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(ri_mem_cq_arm(&cq.base, RI_ARM_NTH, 5), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(ri_mem_cq_arm(&cq.base, (enum ri_arm)4, 1), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(ri_mem_cq_arm(&cq.base, RI_ARM_NTH, 3), RI_OK);
    bring(&numbered, 2);
    ck_assert_uint_eq(atomic_load(&record.count), 0);
    bring(&numbered, 1);
    ck_assert_uint_eq(atomic_load(&record.count), 1);
    ck_assert_int_eq(ri_mem_cq_arm(&cq.base, RI_ARM_NTH, 3), RI_OK);
    ck_assert_uint_eq(atomic_load(&record.count), 2);
    ri_cq_source_remove(&numbered.source);
    ck_assert_int_eq(ri_mem_cq_close(&cq), RI_OK);
}
END_TEST

/* A CQ that becomes smaller than the count fires when it is full, at once where it is. */
START_TEST(arm_nth_outlives_resize)
{
    const uint32_t there = _i ? 3 : 2;
    struct numbered numbered;

    open_cq(8);
    add(&numbered, 1);
    bring(&numbered, there);
    ck_assert_int_eq(ri_mem_cq_arm(&cq.base, RI_ARM_NTH, 7), RI_OK);
    ck_assert_int_eq(ri_mem_cq_resize(&cq, 3), RI_OK);
    ck_assert_uint_eq(atomic_load(&record.count), there == 3);
    bring(&numbered, 3 - there);
    ck_assert_uint_eq(atomic_load(&record.count), 1);
    ri_cq_source_remove(&numbered.source);
    ck_assert_int_eq(ri_mem_cq_close(&cq), RI_OK);
}
END_TEST

/* ---- room ---- */

/* Completions that do not fit wait at their source, in order, and one overflow is reported. Later
 * ones do not overtake. */
START_TEST(what_does_not_fit_waits)
{
    struct numbered a, b;
    struct ri_wc wc[8];

    open_cq(3);
    add(&a, 100);
    add(&b, 200);
    ck_assert(!bring(&a, 5));
    ck_assert_uint_eq(atomic_load(&record.cq_errors), 1);
    ck_assert(!bring(&b, 2));
    ck_assert_uint_eq(atomic_load(&record.cq_errors), 1);
    expect_count(3, 0);
    expect(100);
    expect(101);
    expect(102);
    ck_assert(!bring(&a, 1));
    ck_assert_uint_eq(ri_mem_cq_poll(&cq.base, 8, wc), 5);
    ck_assert_uint_eq(wc[0].cookie, 103);
    ck_assert_uint_eq(a.polled + b.polled, 8);
    expect_empty();
    ck_assert(!bring(&b, 4)); /* after it ran empty: a new one */
    ck_assert_uint_eq(atomic_load(&record.cq_errors), 2);
    ri_cq_source_remove(&a.source);
    ri_cq_source_remove(&b.source);
    ck_assert_int_eq(ri_mem_cq_close(&cq), RI_OK);
}
END_TEST

/* However often it runs empty while others wait, a new overflow is reported only after all have had
 * room. */
START_TEST(one_overflow_is_told_once)
{
    struct numbered numbered;

    open_cq(1);
    add(&numbered, 1);
    ck_assert(!bring(&numbered, 5));
    for (uint64_t cookie = 1; cookie <= 5; cookie++) {
        ck_assert_uint_eq(atomic_load(&record.cq_errors), 1);
        expect(cookie);
    }
    ck_assert_uint_eq(atomic_load(&record.cq_errors), 1);
    ck_assert(!bring(&numbered, 2));
    ck_assert_uint_eq(atomic_load(&record.cq_errors), 2);
    ri_cq_source_remove(&numbered.source); /* that makes room as well */
    add(&numbered, 1);
    ck_assert(!bring(&numbered, 2));
    ck_assert_uint_eq(atomic_load(&record.cq_errors), 3);
    ri_cq_source_remove(&numbered.source);
    ck_assert_int_eq(ri_mem_cq_close(&cq), RI_OK);
}
END_TEST

/* A caller that collects still uses the CQ: close waits until the call that drains it has
 * returned. */
START_TEST(close_waits_for_what_is_to_settle)
{
    struct numbered numbered;

    open_cq(4);
    add(&numbered, 1);
    atomic_fetch_add(&numbered.ready, 1);
    ck_assert(ri_cq_collect(&numbered.source));
    ri_cq_source_remove(&numbered.source);
    ck_assert_int_eq(ri_mem_cq_close(&cq), RI_ERR_BUSY);
    ri_cq_deliver(&cq);
    ck_assert_int_eq(ri_mem_cq_close(&cq), RI_OK);
}
END_TEST

/* An armed CQ fires for a completion that had to wait, when it enters the CQ. */
START_TEST(what_waited_fires)
{
    struct numbered numbered;

    open_cq(1);
    add(&numbered, 1);
    bring(&numbered, 2);
    ck_assert_int_eq(ri_mem_cq_arm(&cq.base, RI_ARM_NEXT, 0), RI_OK);
    ck_assert_uint_eq(atomic_load(&record.count), 0);
    expect(1); /* 2 comes in */
    ck_assert_uint_eq(atomic_load(&record.count), 1);
    expect(2);
    ri_cq_source_remove(&numbered.source);
    ck_assert_int_eq(ri_mem_cq_close(&cq), RI_OK);
}
END_TEST

/* Completions of the removed source disappear, waiting ones too. The others keep their order and
 * get the room. */
START_TEST(removed_source_is_silent)
{
    struct numbered a, b;

    open_cq(4);
    add(&a, 100);
    add(&b, 200);
    bring(&a, 1);
    bring(&b, 1);
    bring(&a, 1);
    bring(&b, 4);
    bring(&a, 3);
    ck_assert_int_eq(ri_mem_cq_close(&cq), RI_ERR_BUSY);
    ri_cq_source_remove(&a.source);
    ck_assert(!bring(&a, 1));
    for (uint64_t cookie = 200; cookie < 205; cookie++)
        expect(cookie);
    expect_empty();
    ri_cq_source_remove(&b.source);
    ck_assert_int_eq(ri_mem_cq_close(&cq), RI_OK);
}
END_TEST

START_TEST(resize)
{
    struct numbered numbered;

    open_cq(3);
    add(&numbered, 1);
    bring(&numbered, 3);
    expect(1); /* so that the ring does not begin at 0 */
    bring(&numbered, 3);
    ck_assert_int_eq(ri_mem_cq_resize(&cq, 2), RI_ERR_BUSY);
    ck_assert_int_eq(ri_mem_cq_resize(&cq, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(ri_mem_cq_resize(&cq, 9), RI_OK);
    expect_count(5, 0); /* what waited has come in */
    ck_assert_int_eq(ri_mem_cq_resize(&cq, 5), RI_OK);
    for (uint64_t cookie = 2; cookie < 7; cookie++)
        expect(cookie);
    expect_empty();
    ri_cq_source_remove(&numbered.source);
    ck_assert_int_eq(ri_mem_cq_close(&cq), RI_OK);
}
END_TEST

/* Positions pass 2^32. */
START_TEST(positions_wrap)
{
    struct numbered numbered;

    open_cq(5);
    add(&numbered, 0);
    atomic_store(&cq.ring.head, UINT32_MAX - 6);
    atomic_store(&cq.ring.tail, UINT32_MAX - 6);
    for (uint64_t cookie = 0; cookie < 20; cookie++) {
        bring(&numbered, 3);
        expect(3 * cookie);
        expect(3 * cookie + 1);
        expect(3 * cookie + 2);
    }
    expect_empty();
    ri_cq_source_remove(&numbered.source);
    ck_assert_int_eq(ri_mem_cq_close(&cq), RI_OK);
}
END_TEST

/* ---- several threads ---- */

#define MAKERS 3
#define EACH   20000u

static struct numbered makers[MAKERS];

static void *make(void *arg)
{
    struct numbered *numbered = arg;
    uint32_t total = (uint32_t)tc_count(EACH);

    for (uint32_t i = 0; i < total; i++)
        bring(numbered, 1);
    return NULL;
}

/* A small CQ, producers that never wait, one consumer: no completion is lost, doubled or
 * overtaken. */
START_TEST(nothing_is_lost)
{
    const uint32_t total = MAKERS * (uint32_t)tc_count(EACH);
    pthread_t threads[MAKERS];
    uint32_t taken = 0;

    open_cq(7);
    for (int i = 0; i < MAKERS; i++) {
        add(&makers[i], (uint64_t)i << 32);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, make, &makers[i]), 0);
    }
    while (taken < total) {
        struct ri_wc wc[5];
        uint32_t got = ri_mem_cq_poll(&cq.base, 5, wc);

        taken += got;
        if (!got)
            sched_yield();
    }
    for (int i = 0; i < MAKERS; i++)
        pthread_join(threads[i], NULL);
    expect_empty();
    for (int i = 0; i < MAKERS; i++) {
        ck_assert_uint_eq(makers[i].polled, total / MAKERS);
        ri_cq_source_remove(&makers[i].source);
    }
    ck_assert_int_eq(ri_mem_cq_close(&cq), RI_OK);
}
END_TEST

/* ---- descriptors that are removed later ---- */

static unsigned int gone;
static pthread_mutex_t provider_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ri_unwatch_list leaving;
static struct ri_watched watched;

/* A host waits for `ready`: removing a descriptor with the provider's lock held would hang. */
static void lock_is_free(struct ri_watch *watch)
{
    (void)watch;
    ck_assert_int_eq(pthread_mutex_trylock(&provider_lock), 0);
    pthread_mutex_unlock(&provider_lock);
}

static void ended(void *arg, uint32_t events)
{
    (void)arg, (void)events;
    pthread_mutex_lock(&provider_lock);
    ri_unwatch_later(&leaving, &watched);
    ri_unwatch_later(&leaving, &watched);
    pthread_mutex_unlock(&provider_lock);
}

static void count_gone(struct ri_watched *which)
{
    ck_assert_ptr_eq(which, &watched);
    ck_assert_uint_eq(fake_lane_watches(&fake.events), 0);
    gone++;
}

START_TEST(descriptors_leave_without_locks)
{
    fake_host_init(&fake, NULL, false);
    fake.events.before_unwatch = lock_is_free;
    leaving = (struct ri_unwatch_list){ .host = &fake.host, .lane_context = &fake.events };
    watched = (struct ri_watched){ .fd = 3, .gone = count_gone };
    ck_assert_int_eq(ri_watched_add(&leaving, &watched, 1, ended, NULL), RI_OK);
    ck_assert(!ri_unwatch_pending(&leaving));
    ck_assert(fake_lane_ready(&fake.events, 3, 1));
    ck_assert_uint_eq(fake_lane_watches(&fake.events), 1);
    ck_assert(ri_unwatch_pending(&leaving));
    ck_assert(atomic_load(&watched.leaving));
    ck_assert_uint_eq(atomic_load(&fake.events.wakes), 1);
    ck_assert_uint_eq(ri_unwatch_now(&leaving), 1);
    ck_assert_uint_eq(fake_lane_watches(&fake.events), 0);
    ck_assert_uint_eq(gone, 1);
    ck_assert_uint_eq(ri_unwatch_now(&leaving), 0);
    ck_assert_uint_eq(gone, 1);
}
END_TEST

static atomic_uint ended_early;

/* Its end comes at once. */
static void ended_at_once(void *arg, uint32_t events)
{
    (void)arg, (void)events;
    pthread_mutex_lock(&provider_lock);
    if (!watched.watch)
        atomic_fetch_add(&ended_early, 1);
    ri_unwatch_later(&leaving, &watched);
    pthread_mutex_unlock(&provider_lock);
}

static atomic_uint all_gone;
static atomic_bool stop_lane;

static void one_gone(struct ri_watched *which)
{
    (void)which;
    atomic_fetch_add(&all_gone, 1);
}

static void *run_lane(void *arg)
{
    while (!atomic_load(&stop_lane)) {
        fake_lane_pass(&fake.events, -1);
        ri_unwatch_now(&leaving);
    }
    return arg;
}

/* Outside of a run, with the lock that `ready` takes held, while another thread runs the lane:
 * `ready` still finds the watch. */
START_TEST(watched_outside_of_a_run)
{
    unsigned int rounds = (unsigned int)tc_count(2000);
    int fd = eventfd(1, EFD_NONBLOCK); /* always readable */
    pthread_t thread;

    ck_assert_int_ge(fd, 0);
    fake_host_init(&fake, NULL, true);
    leaving = (struct ri_unwatch_list){ .host = &fake.host, .lane_context = &fake.events };
    ck_assert_int_eq(pthread_create(&thread, NULL, run_lane, NULL), 0);
    for (unsigned int i = 0; i < rounds; i++) {
        uint64_t deadline = tc_deadline(10000);

        watched = (struct ri_watched){ .fd = fd, .gone = one_gone };
        pthread_mutex_lock(&provider_lock);
        ck_assert_int_eq(ri_watched_add(&leaving, &watched, 1, ended_at_once, NULL), RI_OK);
        pthread_mutex_unlock(&provider_lock);
        while (atomic_load(&all_gone) != i + 1) {
            ck_assert(!tc_expired(deadline));
            sched_yield();
        }
        ck_assert_uint_eq(fake_lane_watches(&fake.events), 0);
    }
    ck_assert_uint_eq(atomic_load(&ended_early), 0);
    atomic_store(&stop_lane, true);
    fake_host_wake(&fake);
    pthread_join(thread, NULL);
    fake_host_free(&fake);
    close(fd);
}
END_TEST

/* ---- small things ---- */

START_TEST(clock_is_that_of_deadlines)
{
    uint64_t before = tc_now_ns(), now = ri_now();

    ck_assert_uint_ge(now, before);
    ck_assert_uint_le(now, tc_now_ns());
}
END_TEST

START_TEST(memory_is_looked_at_page_by_page)
{
    char *pages = mmap(NULL, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(pages, MAP_FAILED);
    ck_assert_int_eq(mprotect(pages + 4096, 4096, PROT_READ), 0);
    ck_assert_int_eq(mprotect(pages + 2 * 4096, 4096, PROT_NONE), 0);
    ck_assert_int_eq(munmap(pages + 3 * 4096, 4096), 0);
    ck_assert_int_eq(ri_check_memory(pages, 4096, true), RI_OK);
    ck_assert_int_eq(ri_check_memory(pages, 4097, true), RI_ERR_ACCESS);
    ck_assert_int_eq(ri_check_memory(pages, 2 * 4096, false), RI_OK);
    ck_assert_int_eq(ri_check_memory(pages, 2 * 4096 + 1, false), RI_ERR_ACCESS);
    ck_assert_int_eq(ri_check_memory(pages + 3 * 4096, 1, false), RI_ERR_ADDRESS);
    ck_assert_int_eq(ri_check_memory(pages + 3 * 4096 - 1, 2, false), RI_ERR_ACCESS);
    ck_assert_int_eq(ri_check_memory(pages + 4 * 4096, 4096, true), RI_OK);
    ck_assert_int_eq(ri_check_memory(pages, UINT64_MAX, false), RI_ERR_ADDRESS);
    munmap(pages, 5 * 4096);
}
END_TEST

START_TEST(copies_stay_inside)
{
    struct {
        struct ri_qp_info info;
        uint64_t fence;
    } longer = { .info.size = sizeof(longer), .fence = 7 };
    const struct ri_qp_info from = { .state = RI_QPS_RTS, .qpn = 9 };
    uint32_t shorter[4] = { 8, 0, 0xabababab, 0xabababab };

    ck_assert(ri_sized_copy(&longer.info, &from, sizeof(from)));
    ck_assert_uint_eq(longer.info.size, sizeof(longer));
    ck_assert_uint_eq(longer.info.qpn, 9);
    ck_assert(longer.fence == 7);
    ck_assert(ri_sized_copy(shorter, &from, sizeof(from)));
    ck_assert_uint_eq(shorter[1], RI_QPS_RTS);
    ck_assert_uint_eq(shorter[2], 0xabababab);
    shorter[0] = 3;
    ck_assert(!ri_sized_copy(shorter, &from, sizeof(from)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("librnicpi");
    TCase *tc = tc_case(suite, "arm", NULL, NULL);

    tc_add_rows(tc, arm_kinds, arm_cases);
    tcase_add_test(tc, arm_nth);
    tcase_add_loop_test(tc, arm_nth_outlives_resize, 0, 2);
    tc = tc_case(suite, "room", NULL, NULL);
    tc_add_tests(tc, what_does_not_fit_waits, one_overflow_is_told_once,
                 close_waits_for_what_is_to_settle, what_waited_fires, removed_source_is_silent,
                 resize, positions_wrap, nothing_is_lost);
    tc = tc_case(suite, "watch", NULL, NULL);
    tc_add_tests(tc, descriptors_leave_without_locks, watched_outside_of_a_run);
    tc = tc_case(suite, "util", NULL, NULL);
    tc_add_tests(tc, copies_stay_inside, memory_is_looked_at_page_by_page,
                 clock_is_that_of_deadlines);
    return tc_main(suite);
}
