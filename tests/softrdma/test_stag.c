/* SPDX-License-Identifier: BSD-3-Clause */
/* The STag table: every result of the check, whether a peer can guess STags, and revocation during
 * use. */
#include "tc.h"

#include <pthread.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/entropy.h"
#include "providers/software/iwarp/wire_iwarp.h"

#define ALL \
    (RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE)

static struct stag_table *table;
static bool no_random;

/* The provider's own calls come here, so that they can fail. */
ssize_t getrandom(void *octets, size_t length, unsigned int flags)
{
    return no_random ? -1 : syscall(SYS_getrandom, octets, length, flags);
}

static struct pd own_pd, other_pd;
static uint8_t memory[4096];

static void setup(void)
{
    table = calloc(1, sizeof(*table));
    ck_assert_ptr_nonnull(table);
    ck_assert(stag_table_open(table));
}

static void teardown(void)
{
    stag_table_close(table);
    free(table);
}

static struct stag_entry *add(uint32_t access, uint64_t base, uint64_t length, uint32_t *stag)
{
    struct stag_entry *entry = stag_allocate(table, &own_pd, STAG_REGION, stag);

    ck_assert_ptr_nonnull(entry);
    entry->access = access;
    entry->base = base;
    entry->length = length;
    entry->memory = memory;
    stag_publish(entry, *stag);
    return entry;
}

static enum stag_result check(uint32_t stag, const struct pd *pd, uint32_t access, uint64_t to,
                              uint64_t length)
{
    uint8_t *found = NULL;
    enum stag_result result = stag_check(table, stag, pd, access, to, length, &found);

    if (result == STAG_OK)
        ck_assert_ptr_nonnull(found);
    return result;
}

/* C-083, C-084, C-085: index, key, state. */
START_TEST(C083_unknown_stag)
{
    uint32_t stag, unpublished;
    struct stag_entry *entry = add(ALL, 0, 100, &stag);

    ck_assert_int_eq(check(stag, &own_pd, ALL, 0, 100), STAG_OK);
    ck_assert_int_eq(check(0, &own_pd, 0, 0, 1), STAG_INVALID); /* C-082 */
    ck_assert_int_eq(check(stag ^ 1, &own_pd, ALL, 0, 1), STAG_INVALID);
    ck_assert_int_eq(check(stag ^ 0x80, &own_pd, ALL, 0, 1), STAG_INVALID);
    ck_assert_int_eq(check(stag ^ 0x100, &own_pd, ALL, 0, 1), STAG_INVALID);
    ck_assert_int_eq(check(stag ^ 0x80000000, &own_pd, ALL, 0, 1), STAG_INVALID);
    ck_assert_ptr_nonnull(stag_allocate(table, &own_pd, STAG_REGION, &unpublished));
    ck_assert_int_eq(check(unpublished, &own_pd, 0, 0, 1), STAG_INVALID);
    stag_revoke(entry);
    ck_assert_int_eq(check(stag, &own_pd, ALL, 0, 1), STAG_INVALID);
}
END_TEST

/* One argument after another becomes valid: each result shows only if all earlier checks pass. */
START_TEST(C086_order_of_answers)
{
    const uint64_t base = UINT64_MAX - 999; /* ends at 2^64 exactly */
    uint32_t stag;

    add(RI_ACCESS_REMOTE_READ, base, 1000, &stag);
    ck_assert_int_eq(check(stag ^ 1, &other_pd, RI_ACCESS_REMOTE_WRITE, UINT64_MAX, 2),
                     STAG_INVALID);
    ck_assert_int_eq(check(stag, &other_pd, RI_ACCESS_REMOTE_WRITE, UINT64_MAX, 2), STAG_PD);
    ck_assert_int_eq(check(stag, &own_pd, RI_ACCESS_REMOTE_WRITE, UINT64_MAX, 2), STAG_ACCESS);
    ck_assert_int_eq(check(stag, &own_pd, RI_ACCESS_REMOTE_READ, UINT64_MAX, 2), STAG_WRAP);
    ck_assert_int_eq(check(stag, &own_pd, RI_ACCESS_REMOTE_READ, base - 1, 1001), STAG_BOUNDS);
    ck_assert_int_eq(check(stag, &own_pd, RI_ACCESS_REMOTE_READ, base, 1000), STAG_OK);
}
END_TEST

START_TEST(C088_X007_all_rights_are_needed)
{
    uint32_t stag;

    add(RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE, 0, 10, &stag);
    ck_assert_int_eq(check(stag, &own_pd, RI_ACCESS_LOCAL_READ, 0, 10), STAG_OK);
    ck_assert_int_eq(check(stag, &own_pd, RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE, 0, 10),
                     STAG_OK);
    ck_assert_int_eq(check(stag, &own_pd, RI_ACCESS_REMOTE_READ, 0, 10), STAG_ACCESS);
    ck_assert_int_eq(check(stag, &own_pd, RI_ACCESS_REMOTE_WRITE, 0, 10), STAG_ACCESS);
    ck_assert_int_eq(check(stag, &own_pd, RI_ACCESS_LOCAL_READ | RI_ACCESS_REMOTE_READ, 0, 10),
                     STAG_ACCESS);
}
END_TEST

/* C-090: a range that ends at 2^64 does not wrap, one octet more does. */
START_TEST(C090_wrap)
{
    uint32_t stag;

    add(ALL, UINT64_MAX - 9, 10, &stag);
    ck_assert_int_eq(check(stag, &own_pd, ALL, UINT64_MAX, 1), STAG_OK);
    ck_assert_int_eq(check(stag, &own_pd, ALL, UINT64_MAX - 9, 10), STAG_OK);
    ck_assert_int_eq(check(stag, &own_pd, ALL, UINT64_MAX, 2), STAG_WRAP);
    ck_assert_int_eq(check(stag, &own_pd, ALL, UINT64_MAX - 9, 11), STAG_WRAP);
    ck_assert_int_eq(check(stag, &own_pd, ALL, 1, UINT64_MAX), STAG_BOUNDS);
    ck_assert_int_eq(check(stag, &own_pd, ALL, 2, UINT64_MAX), STAG_WRAP);
}
END_TEST

/* C-091, C-092: checks have octet granularity, and the pointer is that of the offset. */
START_TEST(C091_X005_bounds)
{
    uint8_t *at;
    uint32_t stag;

    add(ALL, 1000, 24, &stag);
    ck_assert_int_eq(check(stag, &own_pd, ALL, 999, 1), STAG_BOUNDS);
    ck_assert_int_eq(check(stag, &own_pd, ALL, 999, 2), STAG_BOUNDS);
    ck_assert_int_eq(check(stag, &own_pd, ALL, 1024, 1), STAG_BOUNDS);
    ck_assert_int_eq(check(stag, &own_pd, ALL, 1023, 2), STAG_BOUNDS);
    ck_assert_int_eq(check(stag, &own_pd, ALL, 1000, 25), STAG_BOUNDS);
    ck_assert_int_eq(check(stag, &own_pd, ALL, 1000, 24), STAG_OK);
    ck_assert_int_eq(stag_check(table, stag, &own_pd, ALL, 1023, 1, &at), STAG_OK);
    ck_assert_ptr_eq(at, memory + 23);
}
END_TEST

/* RFC 5042 6.1.1. This does not prove randomness, but finds a counter or constant keys. */
START_TEST(stags_cannot_be_counted_up)
{
    enum { COUNT = 2000 };
    uint32_t stags[COUNT], near = 0, same_key = 0;

    for (int i = 0; i < COUNT; i++) {
        add(ALL, 0, 1, &stags[i]);
        ck_assert_uint_ne(stags[i], 0);
    }
    for (int i = 1; i < COUNT; i++) {
        int32_t step = (int32_t)((stags[i] >> 8) - (stags[i - 1] >> 8));

        near += step > -64 && step < 64;
        same_key += (stags[i] & 0xff) == (stags[i - 1] & 0xff);
    }
    ck_assert_uint_lt(near, 20);     /* expected 0.02 */
    ck_assert_uint_lt(same_key, 60); /* expected 8 */
    for (int i = 0; i < COUNT; i++)  /* every one still finds its own entry */
        if (check(stags[i], &own_pd, ALL, 0, 1) != STAG_OK)
            ck_abort_msg("STag %d is lost", i);
}
END_TEST

START_TEST(two_tables_differ)
{
    struct stag_table *other = calloc(1, sizeof(*other));
    uint32_t equal = 0;

    ck_assert_ptr_nonnull(other);
    ck_assert(stag_table_open(other));
    for (int i = 0; i < 64; i++) {
        uint32_t a, b;

        ck_assert_ptr_nonnull(stag_allocate(table, &own_pd, STAG_REGION, &a));
        ck_assert_ptr_nonnull(stag_allocate(other, &own_pd, STAG_REGION, &b));
        equal += a >> 8 == b >> 8;
    }
    ck_assert_uint_lt(equal, 3);
    stag_table_close(other);
    free(other);
}
END_TEST

/*
 * a freed index is reused after STAG_AGE others at the earliest, with another key than
 * before; its old STag stays invalid. One region is registered again and again.
 */
START_TEST(X002_a_freed_index_comes_back_late)
{
    const uint32_t rounds = 4 * STAG_AGE;
    uint32_t *freed = calloc(1 << 24, sizeof(*freed)); /* by index: round of its release, from 1 */
    uint32_t *last = calloc(1 << 24, sizeof(*last)), reused = 0, soonest = UINT32_MAX;
    uint64_t sum = 0;

    for (uint32_t round = 1; round <= rounds; round++) {
        uint32_t stag, index;
        struct stag_entry *entry = add(ALL, 0, 10, &stag);

        index = stag >> 8;
        ck_assert_int_eq(check(stag, &own_pd, ALL, 0, 1), STAG_OK);
        if (freed[index]) {
            uint32_t after = round - freed[index] - 1;

            ck_assert_uint_ne(stag, last[index]);
            ck_assert_int_eq(check(last[index], &own_pd, ALL, 0, 1), STAG_INVALID);
            soonest = after < soonest ? after : soonest;
            sum += after;
            reused++;
        }
        freed[index] = round;
        last[index] = stag;
        stag_revoke(entry);
        stag_release(table, entry);
    }
    printf("# %u registrations, %u of an index used before: %u others in between at least, %.0f on "
           "average; %u places in use\n",
           rounds, reused, soonest, (double)sum / reused, table->used);
    ck_assert_uint_gt(reused, 0);
    ck_assert_uint_ge(soonest, STAG_AGE);
    ck_assert_uint_le(table->used, STAG_AGE + STAG_RESERVE + 2);
    ck_assert_uint_eq(table->count, 0);
    free(freed);
    free(last);
}
END_TEST

/* Chi-square with 255 degrees of freedom: expected 255, standard deviation 22.6. A correct table
 * exceeds these limits once in some million runs. */
static void expect_even(const char *what, const uint32_t found[256], uint32_t count)
{
    double expected = count / 256.0, chi = 0;

    for (int i = 0; i < 256; i++)
        chi += (found[i] - expected) * (found[i] - expected) / expected;
    printf("# %s: chi-square %.1f of %u, expected 255\n", what, chi, count);
    ck_assert(chi > 140 && chi < 400);
}

/* keys, steps between keys, and the octets of indices are distributed evenly. */
START_TEST(X001_keys_and_indices_are_spread_evenly)
{
    const uint32_t rounds = 256 * 200;
    uint32_t keys[256] = { 0 }, steps[256] = { 0 }, high[256] = { 0 }, low[256] = { 0 };
    uint32_t before = 0, ones[24] = { 0 };

    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t stag;
        struct stag_entry *entry = add(ALL, 0, 10, &stag);

        keys[stag & 0xff]++;
        steps[(stag - before) & 0xff]++;
        if (round < STAG_AGE) { /* each index once */
            high[stag >> 24]++;
            low[stag >> 8 & 0xff]++;
            for (int bit = 0; bit < 24; bit++)
                ones[bit] += stag >> (8 + bit) & 1;
        }
        before = stag;
        stag_revoke(entry);
        stag_release(table, entry);
    }
    expect_even("keys", keys, rounds);
    expect_even("steps between keys", steps, rounds);
    expect_even("upper octets of indices", high, STAG_AGE);
    expect_even("lower octets of indices", low, STAG_AGE);
    for (int bit = 0; bit < 24; bit++) /* half of them, within six standard deviations */
        ck_assert(ones[bit] > STAG_AGE / 2 - 272 && ones[bit] < STAG_AGE / 2 + 272);
}
END_TEST

/* the next index is not the following one, fresh or freed. Knowing the permutation is not
 * enough to predict it. */
START_TEST(X001_places_are_chosen_at_random)
{
    uint32_t stag, near = 0, before = 0;

    for (int i = 0; i < 1000; i++) {
        struct stag_entry *entry = add(ALL, 0, 10, &stag);

        near += entry->place - before + 1 <= 2;
        before = entry->place;
        if (i % 2)
            continue;
        stag_revoke(entry);
        stag_release(table, entry);
    }
    printf("# %u of 1000 places next to the one before, expected 8\n", near);
    ck_assert_uint_lt(near, 40);
}
END_TEST

/* STags of a child after fork do not predict those of its parent. */
START_TEST(X001_a_child_draws_for_itself)
{
    enum { COUNT = 64 };
    uint32_t mine[COUNT], childs[COUNT], equal = 0, stag;
    int fds[2], status;
    pid_t child;

    add(ALL, 0, 10, &stag);
    ck_assert_int_eq(pipe(fds), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    for (int i = 0; i < COUNT; i++)
        if (!stag_allocate(table, &own_pd, STAG_REGION, &mine[i]))
            abort();
    if (child == 0)
        _exit(write(fds[1], mine, sizeof(mine)) != sizeof(mine));
    ck_assert_int_eq(read(fds[0], childs, sizeof(childs)), sizeof(childs));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    for (int i = 0; i < COUNT; i++)
        equal += mine[i] == childs[i];
    ck_assert_uint_lt(equal, 4); /* by chance each equals once in 65536 */
    close(fds[0]);
    close(fds[1]);
}
END_TEST

/* More entries than one chunk holds. */
START_TEST(many_entries)
{
    uint32_t count = 2 * STAG_CHUNK_ENTRIES + 10, *stags = calloc(count, sizeof(*stags));

    ck_assert_ptr_nonnull(stags);
    for (uint32_t i = 0; i < count; i++)
        add(ALL, i, 1, &stags[i]);
    for (uint32_t i = 0; i < count; i++)
        if (check(stags[i], &own_pd, ALL, i, 1) != STAG_OK)
            ck_abort_msg("entry %u", i);
    ck_assert_uint_eq(table->count, count);
    free(stags);
}
END_TEST

/* ---- threads ---- */

static struct stag_entry *held;
static atomic_bool revoked;

static void *revoke_it(void *arg)
{
    (void)arg;
    stag_revoke(held);
    atomic_store(&revoked, true);
    return NULL;
}

START_TEST(revoke_waits_for_users)
{
    struct stag_entry *entry = NULL;
    uint8_t *at;
    uint32_t stag;
    pthread_t thread;

    held = add(ALL, 0, 10, &stag);
    ck_assert_int_eq(stag_enter(table, stag, &own_pd, ALL, 0, 10, &at, &entry), STAG_OK);
    ck_assert_ptr_eq(entry, held);
    ck_assert_int_eq(pthread_create(&thread, NULL, revoke_it, NULL), 0);
    ck_assert(tc_until(check(stag, &own_pd, ALL, 0, 1) == STAG_INVALID, 10000));
    for (int i = 0; i < 1000; i++)
        sched_yield();
    ck_assert(!atomic_load(&revoked));
    ck_assert_int_eq(stag_enter(table, stag, &own_pd, ALL, 0, 10, &at, &entry), STAG_INVALID);
    stag_leave(held);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(atomic_load(&revoked));
}
END_TEST

/*
 * Readers use the region by stag_enter while the owner revokes it, marks the memory as gone,
 * releases it and allocates it anew. A reader that is admitted never sees marked memory;
 * ThreadSanitizer checks the accesses.
 */
static _Atomic uint32_t current;
static atomic_bool stop;
static atomic_uint entered;
static int region; /* not atomic on purpose */

static void *use(void *arg)
{
    unsigned long wrong = 0;

    (void)arg;
    while (!atomic_load(&stop)) {
        struct stag_entry *entry = NULL;
        uint8_t *at;

        if (stag_enter(table, atomic_load(&current), &own_pd, ALL, 0, 1, &at, &entry) != STAG_OK)
            continue;
        wrong += region != 1;
        stag_leave(entry);
        atomic_fetch_add(&entered, 1);
    }
    return (void *)wrong;
}

START_TEST(X006_revocation_under_use)
{
    unsigned long rounds = tc_count(2000);
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use, NULL), 0);
    for (unsigned long i = 0; i < rounds; i++) {
        struct stag_entry *entry;
        unsigned int before = atomic_load(&entered);
        uint32_t stag;

        region = 1;
        entry = add(ALL, 0, 1, &stag);
        atomic_store(&current, stag);
        if (i % 50 == 0)
            ck_assert(tc_until(atomic_load(&entered) != before, 10000));
        stag_revoke(entry);
        region = 0;
        stag_release(table, entry);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) {
        void *wrong;

        ck_assert_int_eq(pthread_join(threads[i], &wrong), 0);
        ck_assert_ptr_null(wrong);
    }
    ck_assert_uint_gt(atomic_load(&entered), 0);
}
END_TEST

/* RFC 5042 6.1.1: without random numbers there is no table and no STag. */
START_TEST(X001_no_random_numbers)
{
    struct stag_table *other = calloc(1, sizeof(*other));
    uint32_t stag;

    no_random = true;
    ck_assert(!stag_table_open(other));
    entropy_forget(table->chance);
    ck_assert_ptr_null(stag_allocate(table, &own_pd, STAG_REGION, &stag));
    no_random = false;
    ck_assert_ptr_nonnull(stag_allocate(table, &own_pd, STAG_REGION, &stag));
    free(other);
}
END_TEST

START_TEST(full_table)
{
    struct stag_entry *last;
    uint32_t stag, again;

    /* Two entries are left, one of which may be that of index 0. */
    table->used = STAG_CHUNKS * STAG_CHUNK_ENTRIES - 3;
    last = stag_allocate(table, &own_pd, STAG_REGION, &stag);
    ck_assert_ptr_nonnull(last);
    while (stag_allocate(table, &own_pd, STAG_WIDE, &again))
        ck_assert_uint_lt(table->used, STAG_CHUNKS * STAG_CHUNK_ENTRIES);
    stag_release(table, last); /* a released entry is available again */
    ck_assert_ptr_nonnull(stag_allocate(table, &own_pd, STAG_REGION, &again));
    ck_assert_uint_eq(stag >> 8, again >> 8);
}
END_TEST

/* STag 0 is never allocated, whatever key the consumer chooses: the entry of index 0 stays
 * unused. */
START_TEST(C082_X008_index_0_is_never_given_out)
{
    struct stag_entry *unused;
    uint32_t stag;

    ck_assert_ptr_nonnull(stag_allocate(table, &own_pd, STAG_REGION, &stag));
    for (uint32_t i = 0; !(unused = stag_find(table, 1));
         i++) { /* until its place is in the chunk that exists */
        table->rounds[STAG_ROUNDS - 1][0] = (uint16_t)i;
        for (uint32_t at = 0; !(i & 0xfff) && at < 1 << 12; at++)
            table->rounds[0][at]++;
    }
    table->used = table->reserved = 0;
    for (unsigned int i = 1; i < STAG_CHUNK_ENTRIES - 1; i++) {
        struct stag_entry *entry = stag_allocate(table, &own_pd, STAG_REGION, &stag);

        ck_assert_ptr_ne(entry, unused);
        ck_assert_uint_ne(stag >> 8, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma STags");
    TCase *tc = tc_case(suite, "check", setup, teardown);

    tc_add_tests(tc, C083_unknown_stag, C086_order_of_answers, C088_X007_all_rights_are_needed,
                 C090_wrap, C091_X005_bounds);
    tc = tc_case(suite, "table", setup, teardown);
    tc_add_tests(tc, stags_cannot_be_counted_up, two_tables_differ,
                 X002_a_freed_index_comes_back_late, many_entries,
                 X001_keys_and_indices_are_spread_evenly, X001_places_are_chosen_at_random,
                 X001_a_child_draws_for_itself, X001_no_random_numbers, full_table,
                 C082_X008_index_0_is_never_given_out);
    tc = tc_case(suite, "threads", setup, teardown);
    tc_add_tests(tc, revoke_waits_for_users, X006_revocation_under_use);
    return tc_main(suite);
}
