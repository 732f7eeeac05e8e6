/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGKILL to busy clients and to kald at random points: the others go on, and at the end nothing is
 * left. A point is a number of steps that the victim has made meanwhile, and a few turns more. The
 * table of docs/kald.md is printed by the run with TC_LONG.
 */
#include "kal/host/host.h"
#include "kal_fixture.h"
#include "kald_fixture.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { WORKERS = 4, KINDS = 3, MOST_STEPS = 400 };

static const enum kal_account_kind kinds[KINDS] = { KAL_ACCOUNT_QP, KAL_ACCOUNT_MR,
                                                    KAL_ACCOUNT_PINNED };
static const uint64_t units[KINDS] = { 1, 1, 4096 };

/* What the workers tell, in shared memory. */
static struct shared {
    atomic_bool stop;
    struct {
        _Atomic uint64_t steps, taken, refused;
    } workers[WORKERS];
} * shared;
static pid_t workers[WORKERS];

static void setup(void)
{
    char text[300];

    fixture_setup();
    fixture_module("vp_test", NULL);
    kald_folder();
    snprintf(text, sizeof(text), "[ital]\nkald = %s\nlog = error:%s/worker.log\n", kald_path(),
             fixture_folder());
    fixture_conf(text);
    unsetenv("ITAL_LOG");
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    kald_policy("1.conf", "limit endpoints 120\nlimit regions 400\nlimit pinned 4m\n");
}

static void teardown(void)
{
    for (int i = 0; i < WORKERS; i++)
        if (workers[i])
            kill(workers[i], SIGKILL);
    if (kald_pid())
        kald_stop();
}

/* ---- a worker ---- */

/* A process opens, takes and gives at random, and closes: then it has nothing. */
static void one_life(struct tc_rng *rng, int worker)
{
    uint64_t held[KINDS] = { 0, 0, 0 }, steps = 50 + tc_below(rng, 400);
    struct kal *own = fixture_another();
    struct kal_rnic *rnic;

    if (kal_rnic_open(own, "test", NULL, &rnic) != RI_OK)
        _exit(3);
    for (uint64_t i = 0; i < steps && !atomic_load(&shared->stop); i++) {
        size_t k = (size_t)tc_below(rng, KINDS);
        uint64_t amount = (1 + tc_below(rng, 40)) * units[k];

        if (held[k] && tc_below(rng, 2)) {
            kal_rnic_give(rnic, kinds[k], held[k]);
            held[k] = 0;
        } else if (kal_rnic_take(rnic, kinds[k], amount) == RI_OK) {
            held[k] += amount;
            atomic_fetch_add(&shared->workers[worker].taken, 1);
        } else {
            atomic_fetch_add(&shared->workers[worker].refused, 1);
        }
        atomic_fetch_add(&shared->workers[worker].steps, 1);
    }
    for (int k = 0; k < KINDS; k++) {
        kal_rnic_give(rnic, kinds[k], held[k]);
        if (kal_rnic_holds(rnic, kinds[k]))
            _exit(4);
    }
    if (kal_rnic_close(rnic, false) != RI_OK)
        _exit(5);
    kal_put(own);
}

static void start_worker(int worker, uint64_t salt)
{
    struct tc_rng rng = tc_rng(salt);
    pid_t parent = getpid();

    workers[worker] = fork();
    ck_assert_int_ge(workers[worker], 0);
    if (workers[worker])
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    while (!atomic_load(&shared->stop))
        one_life(&rng, worker);
    _exit(0);
}

static uint64_t steps_of(int worker)
{
    return atomic_load(&shared->workers[worker].steps);
}

/* A worker that has ended by itself has found something wrong: its status says what. */
static bool advances(int worker, uint64_t from)
{
    int status = 0;

    ck_assert_msg(waitpid(workers[worker], &status, WNOHANG) == 0, "worker %d ended with %x",
                  worker, status);
    return steps_of(worker) > from;
}

static void all_go_on(void)
{
    for (int i = 0; i < WORKERS; i++) {
        uint64_t from = steps_of(i);

        ck_assert_msg(tc_until(advances(i, from), 20000), "worker %d stands still", i);
    }
}

static void await_point(struct tc_rng *rng, int worker)
{
    uint64_t from = steps_of(worker) + tc_below(rng, MOST_STEPS), turns = tc_below(rng, 20000);

    ck_assert(tc_until(advances(worker, from), 20000));
    for (volatile uint64_t i = 0; i < turns; i++)
        ;
}

static void kill_worker(int worker)
{
    int status;

    ck_assert_int_eq(kill(workers[worker], SIGKILL), 0);
    ck_assert_int_eq(waitpid(workers[worker], &status, 0), workers[worker]);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void end_all(void)
{
    int status;

    atomic_store(&shared->stop, true);
    for (int i = 0; i < WORKERS; i++) {
        ck_assert_int_eq(waitpid(workers[i], &status, 0), workers[i]);
        ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "worker %d: %x", i, status);
        workers[i] = 0;
    }
}

static bool nothing_is_left(int fds)
{
    unsigned clients;
    uint64_t total = 0;

    for (int kind = 0; kind < POLICY_KINDS; kind++)
        total += kald_total((enum policy_kind)kind, &clients);
    return !total && !clients && kald_fds() <= fds;
}

START_TEST(kill_9_of_clients_and_of_kald_at_random_points)
{
    unsigned long rounds = tc_count(100), killed[2] = { 0, 0 };
    struct tc_rng rng = tc_rng(1);
    uint64_t steps = 0, taken = 0, refused = 0;
    int fds, worker;

    kald_start(NULL);
    ck_assert(tc_until(nothing_is_left(1000), 10000));
    fds = kald_fds();
    for (int i = 0; i < WORKERS; i++)
        start_worker(i, 100 + (uint64_t)i);
    for (unsigned long round = 0; round < rounds; round++) {
        bool of_kald = tc_below(&rng, 3) == 0;

        worker = (int)tc_below(&rng, WORKERS);
        await_point(&rng, worker);
        killed[of_kald]++;
        if (of_kald) {
            kald_kill();
            all_go_on(); /* without it */
            kald_start(NULL);
        } else {
            kill_worker(worker);
            start_worker(worker, 1000 + round);
        }
        all_go_on();
    }
    end_all();
    ck_assert(tc_until(nothing_is_left(fds), 20000));
    ck_assert_uint_eq(kald_lines("is not served any more"), 0);
    for (int i = 0; i < WORKERS; i++) {
        steps += atomic_load(&shared->workers[i].steps);
        taken += atomic_load(&shared->workers[i].taken);
        refused += atomic_load(&shared->workers[i].refused);
    }
    ck_assert_uint_gt(taken, 0);
    fprintf(stderr,
            "# killed: %lu clients, kald %lu times; steps of the others %llu (taken %llu, refused "
            "%llu); left: 0 accounts, 0 descriptors, 0 octets\n",
            killed[0], killed[1], (unsigned long long)steps, (unsigned long long)taken,
            (unsigned long long)refused);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kald_kill");
    TCase *tc = tc_case(suite, "kill", setup, teardown);

    tcase_set_timeout(tc, tc_timeout_ms(600000) / 1000);
    tc_add_tests(tc, kill_9_of_clients_and_of_kald_at_random_points);
    return tc_main(suite);
}
