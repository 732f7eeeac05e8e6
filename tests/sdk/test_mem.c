/* SPDX-License-Identifier: BSD-3-Clause */
/* librnicpi: regions by key, and what is told later. */
#include "fake_host.h"
#include "tc.h"

#include <pthread.h>

#include "sdk/rnicpi_region.h"
#include "sdk/rnicpi_upcalls.h"

#define REMOTE \
    (RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE)

/* ---- regions ---- */

START_TEST(keys_are_unique_and_unguessable)
{
    enum { MOST = 100 };
    static struct ri_region many[MOST + 1];
    struct ri_regions regions;
    unsigned int in_order = 0;

    ck_assert_int_eq(ri_regions_open(&regions, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(ri_regions_open(&regions, MOST), RI_OK);
    for (int i = 0; i < MOST; i++) {
        many[i] = (struct ri_region){ .domain = &regions, .length = 1, .access = REMOTE };
        ck_assert_int_eq(ri_region_add(&regions, &many[i]), RI_OK);
        ck_assert_uint_ne(many[i].key >> 8, 0);
        for (int j = 0; j < i; j++)
            ck_assert_uint_ne(many[i].key >> 8, many[j].key >> 8);
        in_order += i && many[i].key > many[i - 1].key;
    }
    ck_assert_uint_gt(in_order, 10);
    ck_assert_uint_lt(in_order, 90);
    ck_assert_int_eq(ri_region_add(&regions, &many[MOST]), RI_ERR_LIMIT);
    ri_region_remove(&regions, &many[3]);
    ck_assert_ptr_null(ri_region_at(&regions, &regions, many[3].key, 0, 1, 0));
    ck_assert_int_eq(ri_region_add(&regions, &many[MOST]), RI_OK);
    ri_regions_close(&regions);
}
END_TEST

START_TEST(bounds_rights_domain_and_key_are_checked)
{
    uint8_t octets[64];
    int domain = 0, other = 0;
    uint64_t at = (uintptr_t)octets;
    struct ri_region region = {
        .domain = &domain, .addr = at, .length = 64, .access = RI_ACCESS_LOCAL_READ
    };
    struct ri_regions regions;

    ck_assert_int_eq(ri_regions_open(&regions, 4), RI_OK);
    ck_assert_int_eq(ri_region_add(&regions, &region), RI_OK);
#define AT(domain, key, address, length, access) \
    ri_region_at(&regions, domain, key, address, length, access)
    ck_assert_ptr_eq(AT(&domain, region.key, at, 64, RI_ACCESS_LOCAL_READ), octets);
    ck_assert_ptr_eq(AT(&domain, region.key, at + 64, 0, 0), octets + 64);
    ck_assert_ptr_null(AT(&domain, region.key, at, 65, 0));
    ck_assert_ptr_null(AT(&domain, region.key, at + 1, 64, 0));
    ck_assert_ptr_null(AT(&domain, region.key, at + 1, UINT64_MAX, 0));
    ck_assert_ptr_null(AT(&domain, region.key, at - 1, 1, 0));
    ck_assert_ptr_null(AT(&domain, region.key, at, 1, RI_ACCESS_LOCAL_WRITE));
    ck_assert_ptr_null(AT(&other, region.key, at, 1, 0));
    ck_assert_ptr_null(AT(&domain, region.key ^ 1, at, 1, 0));
    ck_assert_ptr_null(AT(&domain, region.key ^ UINT32_C(1) << 31, at, 1, 0));
    ck_assert_uint_eq(ri_region_keys(&region).rkey, 0);
    ck_assert_uint_eq(ri_region_keys(&region).lkey, region.key);
    ri_regions_close(&regions);
}
END_TEST

START_TEST(copies_begin_and_end_inside_elements)
{
    char memory[16] = "abcdefghijklmno", out[16] = "";
    struct ri_region region = { .addr = (uintptr_t)memory, .length = 15, .access = REMOTE };
    struct ri_sge sges[4];
    struct ri_regions regions;

    ck_assert_int_eq(ri_regions_open(&regions, 4), RI_OK);
    ck_assert_int_eq(ri_region_add(&regions, &region), RI_OK);
    sges[0] = (struct ri_sge){ (uintptr_t)memory, 3, region.key };
    sges[1] = (struct ri_sge){ 1, 0, ~region.key }; /* not looked at */
    sges[2] = (struct ri_sge){ (uintptr_t)memory + 10, 5, region.key };
    sges[3] = (struct ri_sge){ (uintptr_t)memory, 16, region.key }; /* too long */
    ck_assert(ri_sges_are_good(&regions, NULL, sges, 3, RI_ACCESS_LOCAL_READ));
    ck_assert(!ri_sges_are_good(&regions, NULL, sges, 4, RI_ACCESS_LOCAL_READ));
    ck_assert(ri_sges_copy(&regions, NULL, sges, 3, 2, 4, (uint8_t *)out, RI_ACCESS_LOCAL_READ));
    ck_assert_str_eq(out, "cklm");
    ck_assert(ri_sges_copy(&regions, NULL, sges, 3, 1, 3, (uint8_t *)"XYZ", RI_ACCESS_LOCAL_WRITE));
    ck_assert_str_eq(memory, "aXYdefghijZlmno");
    ck_assert(!ri_sges_copy(&regions, NULL, sges, 4, 7, 2, (uint8_t *)out, RI_ACCESS_LOCAL_READ));
    ri_regions_close(&regions);
}
END_TEST

static const struct {
    uint32_t access;
    uint64_t addr, length;
    enum ri_status status;
} region_cases[] = {
    { REMOTE, 4096, 64, RI_OK },
    { REMOTE, 4096, 65, RI_ERR_LIMIT },
    { REMOTE, 4096, 0, RI_ERR_INVALID_ARGUMENT },
    { REMOTE, 4096, UINT64_MAX, RI_ERR_INVALID_ARGUMENT },
    { RI_ACCESS_REMOTE_WRITE, 4096, 1, RI_ERR_INVALID_ARGUMENT },
    { RI_ACCESS_REMOTE_READ, 4096, 1, RI_ERR_INVALID_ARGUMENT },
    { RI_ACCESS_BIND, 4096, 1, RI_ERR_NOT_SUPPORTED },
    { REMOTE, 0, 1, RI_ERR_NOT_SUPPORTED },
};

START_TEST(attributes_of_regions)
{
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .access = region_cases[_i].access,
                               .addr = (void *)(uintptr_t)region_cases[_i].addr,
                               .length = region_cases[_i].length };

    ck_assert_int_eq(ri_region_check(&attr, 64), region_cases[_i].status);
}
END_TEST

/* ---- what is told later ---- */

struct talker {
    struct ri_deferred deferred;
    int id, left;
};

static struct fake_host fake;
static struct ri_upcalls upcalls;
static pthread_mutex_t tell_lock = PTHREAD_MUTEX_INITIALIZER;
static int told[8], told_count;
static atomic_bool inside, let_go, forgot;
static atomic_int forgetter;

static bool talk(struct ri_deferred *deferred)
{
    struct talker *talker = (struct talker *)deferred;

    told[told_count++] = talker->id;
    return --talker->left > 0;
}

START_TEST(tellers_take_turns)
{
    struct talker talkers[3] = { { { .make = talk }, 0, 2 },
                                 { { .make = talk }, 1, 1 },
                                 { { .make = talk }, 2, 1 } };
    const int turns[] = { 0, 2, 0 };

    fake_host_init(&fake, NULL, false);
    ri_upcalls_open(&upcalls, &fake.host, &tell_lock);
    upcalls.lane_context = &fake.events;
    told_count = 0;
    pthread_mutex_lock(&tell_lock);
    for (int i = 0; i < 3; i++)
        ri_upcall_defer(&upcalls, &talkers[i].deferred);
    ri_upcall_defer(&upcalls, &talkers[0].deferred);
    ck_assert(ri_upcalls_pending(&upcalls));
    ck_assert_uint_ge(atomic_load(&fake.events.wakes), 1);
    ri_upcall_cancel(&upcalls, &talkers[1].deferred, NULL);
    ck_assert_uint_eq(ri_upcalls_run(&upcalls), 3);
    ck_assert(!ri_upcalls_pending(&upcalls));
    pthread_mutex_unlock(&tell_lock);
    ck_assert_int_eq(told_count, 3);
    ck_assert_mem_eq(told, turns, sizeof(turns));
    ri_upcalls_close(&upcalls);
}
END_TEST

static bool talk_long(struct ri_deferred *deferred)
{
    (void)deferred;
    upcalls.about = &told_count;
    pthread_mutex_unlock(&tell_lock);
    atomic_store(&inside, true);
    while (!atomic_load(&let_go))
        sched_yield();
    pthread_mutex_lock(&tell_lock);
    atomic_store(&inside, false);
    return false;
}

static void *tell_thread(void *arg)
{
    pthread_mutex_lock(&tell_lock);
    ri_upcalls_run(&upcalls);
    pthread_mutex_unlock(&tell_lock);
    return arg;
}

static void *forget_thread(void *arg)
{
    atomic_store(&forgetter, gettid());
    pthread_mutex_lock(&tell_lock);
    if (arg)
        ri_upcall_cancel(&upcalls, arg, NULL);
    else
        ri_upcall_cancel(&upcalls, NULL, &told_count);
    atomic_store(&forgot, true);
    pthread_mutex_unlock(&tell_lock);
    return arg;
}

/* 0: about the deferred, 1: about the second object. */
START_TEST(forget_waits_for_the_upcall)
{
    struct talker talker = { { .make = talk_long }, 0, 1 };
    uint64_t deadline = tc_deadline(10000);
    pthread_t threads[2];

    fake_host_init(&fake, NULL, false);
    ri_upcalls_open(&upcalls, &fake.host, &tell_lock);
    upcalls.lane_context = &fake.events;
    atomic_store(&let_go, false);
    atomic_store(&forgot, false);
    atomic_store(&forgetter, 0);
    pthread_mutex_lock(&tell_lock);
    ri_upcall_defer(&upcalls, &talker.deferred);
    pthread_mutex_unlock(&tell_lock);
    ck_assert_int_eq(pthread_create(&threads[0], NULL, tell_thread, NULL), 0);
    while (!atomic_load(&inside)) {
        ck_assert(!tc_expired(deadline));
        sched_yield();
    }
    ck_assert_int_eq(pthread_create(&threads[1], NULL, forget_thread, _i ? NULL : &talker.deferred),
                     0);
    while (!atomic_load(&forgot) &&
           !(atomic_load(&forgetter) && tc_asleep(atomic_load(&forgetter)))) {
        ck_assert(!tc_expired(deadline));
        sched_yield();
    }
    ck_assert(!atomic_load(&forgot));
    atomic_store(&let_go, true);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    ck_assert(atomic_load(&forgot));
    ri_upcalls_close(&upcalls);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("librnicpi: objects in memory");
    TCase *tc = tc_case(suite, "regions", NULL, NULL);

    tc_add_tests(tc, keys_are_unique_and_unguessable, bounds_rights_domain_and_key_are_checked,
                 copies_begin_and_end_inside_elements);
    tc_add_rows(tc, attributes_of_regions, region_cases);
    tc = tc_case(suite, "upcalls", NULL, NULL);
    tcase_add_test(tc, tellers_take_turns);
    tcase_add_loop_test(tc, forget_waits_for_the_upcall, 0, 2);
    return tc_main(suite);
}
