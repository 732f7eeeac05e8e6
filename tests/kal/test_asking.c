/* SPDX-License-Identifier: BSD-3-Clause */
/* A bad provider file affects only those who ask for it: it aborts or hangs in a helper process,
 * invisibly, and no file that is added replaces another provider. */
#include "kal_fixture.h"
#include "kal/registry/load.h"

#include "base/clock.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ASK_MS 3000u /* for the provider that hangs; others need a hundredth */

struct seen {
    char names[16][64], providers[16][64], reason[600];
    bool usable[16];
    unsigned count;
    const char *path; /* the file whose reason is wanted */
    bool path_usable;
};

static void on_interface(const struct kal_interface_info *info, void *arg)
{
    struct seen *seen = arg;

    ck_assert_uint_lt(seen->count, 16);
    snprintf(seen->names[seen->count], 64, "%s", info->name);
    snprintf(seen->providers[seen->count], 64, "%s", info->provider ? info->provider : "");
    seen->usable[seen->count++] = info->usable;
}

static void on_provider(const struct kal_provider_info *info, void *arg)
{
    struct seen *seen = arg;

    if (!strstr(info->path, seen->path))
        return;
    snprintf(seen->reason, sizeof(seen->reason), "%s", info->reason ? info->reason : "");
    seen->path_usable = info->usable;
}

static struct seen list(struct kal *own)
{
    struct seen seen = { .count = 0 };

    ck_assert_int_eq(kal_interface_list(own, on_interface, &seen), RI_OK);
    return seen;
}

/* Index of an interface in the list; fails if it is missing. */
static unsigned place_of(const struct seen *seen, const char *name)
{
    for (unsigned i = 0; i < seen->count; i++)
        if (!strcmp(seen->names[i], name))
            return i;
    ck_abort_msg("there is no interface %s", name);
}

static bool is_mapped(const char *file)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4400];
    bool found = false;

    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps))
        found = found || strstr(line, file);
    fclose(maps);
    return found;
}

static void open_and_close(struct kal *own, const char *name)
{
    struct kal_rnic *rnic;

    ck_assert_int_eq(kal_rnic_open(own, name, NULL, &rnic), RI_OK);
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
}

static void short_bound(void)
{
    char conf[64];

    snprintf(conf, sizeof(conf), "[ital]\nask_timeout = %u\n", ASK_MS);
    fixture_conf(conf);
}

/* ---- bad providers ---- */

static const struct {
    const char *module, *file, *reason;
} bad[] = {
    { "broken/vp_aborts", "vp_aborts.so", "by signal 6 (Aborted) while it listed its devices" },
    { "broken/vp_bursts", "vp_bursts.so", "by signal 6 (Aborted) while it was loaded" },
    { "broken/vp_quits", "vp_quits.so", "ended the process that asked it (status 0)" },
    { "broken/vp_hangs", "vp_hangs.so", "did not list its devices within 3000 ms" },
};

START_TEST(bad_provider_harms_nobody)
{
    int before = tc_fd_count();
    struct seen seen;

    short_bound();
    fixture_module("vp_test", NULL);
    fixture_module(bad[_i].module, NULL);
    fixture_get();
    open_and_close(kal, "test");
    seen = list(kal);
    ck_assert(seen.usable[place_of(&seen, "test")]);
    ck_assert_uint_eq(seen.count, 1);
    seen.path = bad[_i].file;
    ck_assert_int_eq(kal_provider_list(kal, on_provider, &seen), RI_OK);
    ck_assert(!seen.path_usable);
    ck_assert_msg(strstr(seen.reason, bad[_i].reason) != NULL, "%s", seen.reason);
    ck_assert_msg(!is_mapped(bad[_i].file), "%s was loaded here", bad[_i].file);
    ck_assert_uint_eq(fixture_log_count(bad[_i].file), 1); /* reported once */
    open_and_close(kal, "test");
    fixture_put();
    ck_assert_int_eq(tc_fd_count(), before);
}
END_TEST

/* The name differs from the file's: the helpers find it, and only that file is loaded. */
START_TEST(only_the_one_named_is_loaded)
{
    fixture_module("vp_test", "vp_b");
    fixture_module("broken/vp_oldminor", NULL);
    fixture_module("broken/vp_bursts", NULL);
    fixture_conf("[interface a]\nprovider = test\n[interface b]\nprovider = oldminor\n");
    fixture_get();
    open_and_close(kal, "b");
    ck_assert(is_mapped("vp_oldminor.so") && !is_mapped("vp_b.so"));
    open_and_close(kal, "a");
    ck_assert(is_mapped("vp_b.so") && !is_mapped("vp_bursts.so"));
}
END_TEST

/* A provider that gave no answer is not waited for at every list. */
START_TEST(silence_is_waited_for_once)
{
    uint64_t quickest = UINT64_MAX;

    short_bound();
    fixture_module("vp_test", NULL);
    fixture_module("broken/vp_hangs", NULL);
    fixture_get();
    list(kal);
    for (int i = 0; i < 5; i++) {
        uint64_t begin = clock_now(), took;

        list(kal);
        took = clock_now() - begin;
        quickest = took < quickest ? took : quickest;
    }
    ck_assert_uint_lt(quickest, ASK_MS * CLOCK_NS_PER_MS); /* each would wait as long */
}
END_TEST

START_TEST(without_the_helper_program)
{
    struct seen seen;

    kal_asker_is = "/nonexistent/ital-ask";
    fixture_module("vp_test", NULL);
    fixture_get();
    seen = list(kal);
    ck_assert_uint_eq(seen.count, 0);
    seen.path = "vp_test.so";
    ck_assert_int_eq(kal_provider_list(kal, on_provider, &seen), RI_OK);
    ck_assert_msg(strstr(seen.reason,
                         "/nonexistent/ital-ask, which asks it for its devices, cannot be run: No "
                         "such file") != NULL,
                  "%s", seen.reason);
    open_and_close(kal, "test");
}
END_TEST

/* A sandbox that allows no new process, or a limit on their number: interfaces known by name work,
 * and the reason is reported. */
static const struct {
    int error;
    enum ri_status status;
} forbidden[] = { { EPERM, RI_OK }, { EAGAIN, RI_ERR_NO_RESOURCES } };

START_TEST(without_a_new_process)
{
    struct sock_filter rules[] = {
        { .code = BPF_LD | BPF_W | BPF_ABS, .k = offsetof(struct seccomp_data, nr) },
        { .code = BPF_JMP | BPF_JEQ | BPF_K, .k = SYS_clone, .jf = 3 },
        { .code = BPF_LD | BPF_W | BPF_ABS, .k = offsetof(struct seccomp_data, args) },
        { .code = BPF_JMP | BPF_JSET | BPF_K, .k = CLONE_VFORK, .jf = 1 },
        { .code = BPF_RET | BPF_K, .k = SECCOMP_RET_ERRNO | (uint32_t)forbidden[_i].error },
        { .code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW },
    };
    struct sock_fprog filter = { .len = sizeof(rules) / sizeof(rules[0]), .filter = rules };
    struct seen seen = { .path = "vp_test.so" };

    fixture_module("vp_test", NULL);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        tc_skip("no seccomp here");
    fixture_get();
    ck_assert_int_eq(kal_provider_list(kal, on_provider, &seen), forbidden[_i].status);
    ck_assert_uint_eq(fixture_log_count(strerror(forbidden[_i].error)), 1);
    if (forbidden[_i].status == RI_OK)
        ck_assert_msg(strstr(seen.reason, "no process can be created that asks it for its devices: "
                                          "Operation not permitted") != NULL,
                      "%s", seen.reason);
    open_and_close(kal, "test");
}
END_TEST

/* LeakSanitizer looks at a process from a child without a signal, too. */
static bool leaks_unchecked;
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return leaks_unchecked;
}

/* QEMU's user emulation: a child needs a signal. */
START_TEST(without_a_child_without_a_signal)
{
    struct sock_filter rules[] = {
        { .code = BPF_LD | BPF_W | BPF_ABS, .k = offsetof(struct seccomp_data, nr) },
        { .code = BPF_JMP | BPF_JEQ | BPF_K, .k = SYS_clone, .jf = 3 },
        { .code = BPF_LD | BPF_W | BPF_ABS, .k = offsetof(struct seccomp_data, args) },
        { .code = BPF_JMP | BPF_JSET | BPF_K, .k = CSIGNAL, .jt = 1 },
        { .code = BPF_RET | BPF_K, .k = SECCOMP_RET_ERRNO | EINVAL },
        { .code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW },
    };
    struct sock_fprog filter = { .len = sizeof(rules) / sizeof(rules[0]), .filter = rules };
    struct seen seen;

    fixture_module("vp_test", NULL);
    fixture_module("broken/vp_aborts", NULL);
    if (_i)
        kal_asker_is = "/nonexistent/ital-ask";
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        tc_skip("no seccomp here");
    leaks_unchecked = true;
    fixture_get();
    seen = list(kal);
    ck_assert_uint_eq(seen.count, _i ? 0 : 1);
    seen.path = "vp_aborts.so";
    ck_assert_int_eq(kal_provider_list(kal, on_provider, &seen), RI_OK);
    ck_assert_msg(strstr(seen.reason, _i ? "cannot be run: No such file" : "signal 6") != NULL,
                  "%s", seen.reason);
    fixture_put();
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1);
}
END_TEST

/* ---- what the consumer sees ---- */

static atomic_int signals;
static atomic_bool stop;

static void on_child(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

/* A consumer's own wait for any child. */
static void *reaper(void *arg)
{
    int *found = arg;

    while (!atomic_load(&stop))
        if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
            ++*found;
    return NULL;
}

START_TEST(helpers_are_not_noticed)
{
    static const struct {
        void (*handler)(int);
    } dispositions[] = { { on_child }, { SIG_IGN } };
    struct sigaction action = { .sa_handler = dispositions[_i].handler }, after;
    sigset_t before, now;
    struct seen seen;
    pthread_t thread;
    int found = 0;

    sigaction(SIGCHLD, &action, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    fixture_module("vp_test", NULL);
    fixture_module("broken/vp_aborts", NULL);
    fixture_get();
    ck_assert_int_eq(pthread_create(&thread, NULL, reaper, &found), 0);
    for (int i = 0; i < 20; i++)
        seen = list(kal);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(seen.count, 1);
    seen.path = "vp_aborts.so";
    ck_assert_int_eq(kal_provider_list(kal, on_provider, &seen), RI_OK);
    ck_assert_msg(strstr(seen.reason, "signal 6") != NULL, "%s", seen.reason);
    fixture_put();
    ck_assert_int_eq(found, 0);
    ck_assert_int_eq(atomic_load(&signals), 0);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1); /* no child of any kind is left */
    sigaction(SIGCHLD, NULL, &after);
    ck_assert(after.sa_handler == dispositions[_i].handler);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int i = 1; i < 32; i++)
        ck_assert_int_eq(sigismember(&before, i), sigismember(&now, i));
}
END_TEST

/* A process without descriptors 0 to 2, and at its limit. */
START_TEST(descriptors_are_not_needed)
{
    struct seen seen;

    fixture_module("vp_test", NULL);
    fixture_get();
    list(kal); /* the folder was read */
    close(0);
    seen = list(kal);
    ck_assert_uint_eq(seen.count, 1);
    ck_assert_int_eq(open("/dev/null", O_RDONLY), 0); /* and none stayed open */
}
END_TEST

/* ---- which is the first ---- */

START_TEST(dropped_in_changes_nothing)
{
    struct seen seen;
    struct kal_rnic *rnic;

    fixture_module("vp_test", NULL);
    fixture_module("broken/vp_own", NULL);
    fixture_module("broken/vp_aaa", NULL);
    fixture_get();
    seen = list(kal);
    ck_assert_str_eq(seen.names[0], "softrdma"); /* the tree's own first, then by name */
    ck_assert_str_eq(seen.providers[place_of(&seen, "test")], "test");
    ck_assert_str_eq(seen.providers[place_of(&seen, "aaa/test")], "aaa");
    ck_assert_int_eq(kal_rnic_open(kal, "test", NULL, &rnic), RI_OK);
    ck_assert_str_eq(kal_rnic_provider(rnic), "test");
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
    ck_assert_int_eq(kal_rnic_open(kal, "aaa/test", NULL, &rnic), RI_OK);
    ck_assert_str_eq(kal_rnic_provider(rnic), "aaa");
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
}
END_TEST

static const struct {
    const char *conf, *environment, *first;
} defaults[] = {
    { "", NULL, "oldminor" },
    { "[ital]\ndefault = test\n", NULL, "test" },
    { "[ital]\ndefault = test\n", "oldminor", "oldminor" },
    { "[interface z]\nprovider = test\n", NULL, "z" },
    { "[ital]\ndefault = test\n[interface z]\nprovider = test\n", NULL, "test" },
    { "[interface z]\nprovider = test\n", "test", "test" },
};

START_TEST(default_interface)
{
    struct seen seen;

    fixture_module("vp_test", NULL);
    fixture_module("broken/vp_oldminor", NULL);
    fixture_conf(defaults[_i].conf);
    if (defaults[_i].environment)
        setenv("ITAL_INTERFACE", defaults[_i].environment, 1);
    fixture_get();
    seen = list(kal);
    ck_assert_str_eq(seen.names[0], defaults[_i].first);
    ck_assert_uint_eq(fixture_log_count("default interface"), 0);
}
END_TEST

START_TEST(default_that_is_not_there)
{
    struct seen seen;

    fixture_module("vp_test", NULL);
    setenv("ITAL_INTERFACE", "nowhere", 1);
    fixture_get();
    seen = list(kal);
    list(kal);
    ck_assert_str_eq(seen.names[0], "test");
    ck_assert_uint_eq(
        fixture_log_count("the default interface \"nowhere\" (ITAL_INTERFACE) does not exist"), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("asking");
    TCase *tc = tc_case(suite, "bad providers", fixture_setup, fixture_put);

    tcase_set_timeout(tc, 30);
    tc_add_rows(tc, bad_provider_harms_nobody, bad);
    tc_add_tests(tc, only_the_one_named_is_loaded, silence_is_waited_for_once,
                 without_the_helper_program);
    tc_add_rows(tc, without_a_new_process, forbidden);
    tcase_add_loop_test(tc, without_a_child_without_a_signal, 0, 2);

    tc = tc_case(suite, "the process", fixture_setup, fixture_put);
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, helpers_are_not_noticed, 0, 2);
    tcase_add_test(tc, descriptors_are_not_needed);

    tc = tc_case(suite, "the first", fixture_setup, fixture_put);
    tcase_add_test(tc, dropped_in_changes_nothing);
    tc_add_rows(tc, default_interface, defaults);
    tcase_add_test(tc, default_that_is_not_there);
    return tc_main(suite);
}
