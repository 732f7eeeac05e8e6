/* SPDX-License-Identifier: BSD-3-Clause */
/* A process forks: its handles are dead in the child, and the child can open anew, whatever the
 * parent's threads were doing. */
#include "fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

/* A child that waits for a lock without an owner ends by SIGALRM, before its test does. */
#define CHILD_MS 18000u

/* Skips where a forked child cannot make threads: it makes some when it opens an interface. */
static void needs_threads_in_child(void)
{
#ifdef ITAL_TSAN
    tc_skip("ThreadSanitizer does not follow the threads of a forked child (\"dup thread with used "
            "id\")");
#endif
}

static void child_clock(void)
{
    signal(SIGALRM, SIG_DFL);
    alarm(tc_timeout_ms(CHILD_MS) / 1000);
}

#define CHECK_CHILD(number, condition)                                              \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "# in the child, line %d: %s\n", __LINE__, #condition); \
            _exit(number);                                                          \
        }                                                                           \
    } while (0)

/* Lists interfaces, opens one, makes and frees an object of each kind with locks of its own,
 * closes. Does not return. */
static void child_life(const char *interface)
{
    it_interface_t list[8];
    size_t count = 8;
    it_evd_handle_t evd;
    it_ia_handle_t ia;
    it_pz_handle_t pz;
    it_event_t event;

    child_clock();
    it_interface_list(list, &count, NULL);
    CHECK_CHILD(1, count > 0);
    CHECK_CHILD(2, it_ia_create(interface, 2, 1, &ia) == IT_SUCCESS);
    CHECK_CHILD(3, it_pz_create(ia, &pz) == IT_SUCCESS);
    CHECK_CHILD(4, it_evd_create(ia, IT_DTO_EVENT_STREAM, (it_evd_flags_t)0, 4, 0, NULL, &evd,
                                 NULL) == IT_SUCCESS);
    CHECK_CHILD(5, it_evd_wait(evd, 0, &event, NULL) == IT_ERR_TIMEOUT_EXPIRED);
    CHECK_CHILD(6, it_evd_free(evd) == IT_SUCCESS);
    CHECK_CHILD(7, it_evd_free(evd) == IT_ERR_INVALID_EVD); /* freed by this process */
    CHECK_CHILD(8, it_pz_free(pz) == IT_SUCCESS);
    CHECK_CHILD(9, it_ia_free(ia) == IT_SUCCESS);
    _exit(0);
}

static void expect_good_end(pid_t child)
{
    int status = -1;

    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %x", status);
}

/* What daemon(3) needs. */
START_TEST(list_fork_open)
{
    it_interface_t list[8];
    size_t count = 8;
    pid_t child;

    needs_threads_in_child();
    it_interface_list(list, &count, NULL);
    ck_assert_uint_gt(count, 0);
    tc_await_quiet_for_fork();
    child = fork();
    if (child == 0)
        child_life(IFACE);
    expect_good_end(child);
}
END_TEST

START_TEST(old_handles_stay_dead_beside_new_ones)
{
    it_ia_handle_t ia, new_ia;
    it_pz_handle_t pz, new_pz;
    it_ia_info_t *info;
    pid_t child;

    needs_threads_in_child();
    ok(it_ia_create(IFACE, 2, 1, &ia));
    ok(it_pz_create(ia, &pz));
    tc_await_quiet_for_fork();
    child = fork();
    if (child == 0) {
        child_clock();
        CHECK_CHILD(1, it_ia_query(ia, &info) == IT_ERR_IA_CATASTROPHE);
        CHECK_CHILD(2, it_ia_create(IFACE, 2, 1, &new_ia) == IT_SUCCESS);
        CHECK_CHILD(3, it_pz_create(new_ia, &new_pz) == IT_SUCCESS);
        CHECK_CHILD(4, new_ia != ia && new_pz != pz);
        CHECK_CHILD(5, it_ia_query(ia, &info) == IT_ERR_IA_CATASTROPHE);
        CHECK_CHILD(6, it_pz_free(pz) == IT_ERR_IA_CATASTROPHE);
        CHECK_CHILD(7, it_pz_free(new_pz) == IT_SUCCESS);
        CHECK_CHILD(8, it_pz_free(new_pz) == IT_ERR_INVALID_PZ);
        CHECK_CHILD(9, it_pz_free(NULL) == IT_ERR_INVALID_PZ);
        CHECK_CHILD(10, it_ia_free(ia) == IT_ERR_IA_CATASTROPHE);
        CHECK_CHILD(11, it_ia_free(new_ia) == IT_SUCCESS);
        _exit(0);
    }
    expect_good_end(child);
    ok(it_ia_query(ia, &info)); /* the parent's handles are alive */
    it_ia_info_free(info);
    ok(it_pz_free(pz));
    ok(it_ia_free(ia));
}
END_TEST

/* The child of a child: a daemon forks twice. */
START_TEST(fork_twice)
{
    it_ia_handle_t ia, second;
    pid_t child;

    needs_threads_in_child();
    ok(it_ia_create(IFACE, 2, 1, &ia));
    tc_await_quiet_for_fork();
    child = fork();
    if (child == 0) {
        pid_t grandchild;
        int status;

        child_clock();
        CHECK_CHILD(20, it_ia_create(IFACE, 2, 1, &second) == IT_SUCCESS);
        tc_await_quiet_for_fork();
        grandchild = fork();
        if (grandchild == 0) {
            CHECK_CHILD(21, it_ia_free(ia) == IT_ERR_IA_CATASTROPHE);
            CHECK_CHILD(22, it_ia_free(second) == IT_ERR_IA_CATASTROPHE);
            child_life(IFACE);
        }
        CHECK_CHILD(23, waitpid(grandchild, &status, 0) == grandchild && status == 0);
        _exit(it_ia_free(second) == IT_SUCCESS ? 0 : 24);
    }
    expect_good_end(child);
    ok(it_ia_free(ia));
}
END_TEST

/* --- many threads at work --- */

#define WORKERS 8

static struct {
    const char *interface;
    atomic_bool stop;
    atomic_ulong done[WORKERS];
    it_evd_handle_t evd;
} work;

static void open_and_close(void)
{
    it_ia_handle_t ia;

    ok(it_ia_create(work.interface, 2, 1, &ia));
    ok(it_ia_free(ia));
}

static void list_all(void)
{
    size_t count = 0, total = 0;

    it_interface_list(NULL, &count, &total);
    ck_assert_uint_gt(total, 0);
}

/* Asking for an interface that does not exist logs a line. */
static void log_a_line(void)
{
    it_ia_handle_t ia;

    ck_assert_int_eq(it_ia_create("nobody-has-this", 2, 1, &ia), IT_ERR_INVALID_NAME);
}

static void begin_a_wait(void)
{
    it_event_t event;

    ck_assert_int_eq(it_evd_wait(work.evd, 0, &event, NULL), IT_ERR_TIMEOUT_EXPIRED);
}

static void *worker(void *arg)
{
    static void (*const kinds[WORKERS])(void) = { open_and_close, list_all,       log_a_line,
                                                  begin_a_wait,   open_and_close, list_all,
                                                  log_a_line,     open_and_close };
    size_t which = (size_t)(uintptr_t)arg;

    while (!atomic_load(&work.stop)) {
        kinds[which]();
        atomic_fetch_add(&work.done[which], 1);
    }
    return NULL;
}

static bool all_did(const unsigned long *before)
{
    for (int i = 0; i < WORKERS; i++)
        if (atomic_load(&work.done[i]) == before[i])
            return false;
    return true;
}

START_TEST(fork_while_threads_open_list_and_log)
{
    unsigned long rounds = tc_count(40), before[WORKERS];
    pthread_t threads[WORKERS];
    it_ia_handle_t ia;
    char log[4200];

    needs_threads_in_child();
    if (strchr(IFACE, ':'))
        tc_skip("the libraries below %s do not hold their locks still over a fork", IFACE);
#ifdef ITAL_SANITIZERS
    tc_skip("a sanitizer's allocator does not hold its locks still over a fork");
#endif
    snprintf(log, sizeof(log), "debug:%s/log", tc_tempdir());
    setenv("ITAL_LOG", log, 1);
    work.interface = IFACE;
    ok(it_ia_create(IFACE, 2, 1, &ia));
    ok(it_evd_create(ia, IT_DTO_EVENT_STREAM, (it_evd_flags_t)0, 4, 0, NULL, &work.evd, NULL));
    for (int i = 0; i < WORKERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, worker, (void *)(uintptr_t)i), 0);
    for (unsigned long round = 0; round < rounds; round++) {
        pid_t child = fork();

        if (child == 0)
            child_life(IFACE);
        expect_good_end(child);
    }
    for (int i = 0; i < WORKERS; i++) /* no lock of the parent remains taken */
        before[i] = atomic_load(&work.done[i]);
    ck_assert(tc_until(all_did(before), PATIENCE));
    atomic_store(&work.stop, true);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    ok(it_ia_free(ia));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_fork");
    TCase *tc = tc_case(suite, "fork", NULL, NULL);

    tcase_set_timeout(tc, 120);
    add_each(tc, list_fork_open, old_handles_stay_dead_beside_new_ones, fork_twice,
             fork_while_threads_open_list_and_log);
    return tc_main(suite);
}
