/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's policy in kal: read whatever ITAL_CONF says, before the configuration's rules, and not
 * taken for none when it cannot be used. */
#include "kal/host/host.h"
#include "kal_fixture.h"

#include "formats/monitor.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static char policy[4300];

static void setup(void)
{
    fixture_setup();
    fixture_module("vp_test", NULL);
    fixture_folder_made("policy.d");
    snprintf(policy, sizeof(policy), "%s/policy.d", fixture_folder());
    ck_assert_int_eq(chmod(policy, 0755), 0);
    kal_policy_folder = policy;
    kal_policy_owner = geteuid();
}

static void file(const char *name, const char *text)
{
    char path[4400];

    fixture_file(name, text, strlen(text));
    snprintf(path, sizeof(path), "%s/%s", fixture_folder(), name);
    ck_assert_int_eq(chmod(path, 0644), 0);
}

static enum ri_status ask(struct kal_rnic *rnic, const char *address)
{
    struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(7471) };

    ck_assert_int_eq(inet_pton(AF_INET, address, &peer.sin_addr), 1);
    return kal_rnic_policy(rnic, RI_POLICY_CONNECT, NULL, (struct sockaddr *)&peer);
}

START_TEST(another_configuration_does_not_replace_it)
{
    struct kal_rnic *rnic;

    file("policy.d/10.conf", "# of root\ndeny connect to 192.0.2.0/24\n");
    fixture_conf("[policy]\nrule1 = allow any\nrule2 = deny any\n");
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "test", NULL, &rnic), RI_OK);
    ck_assert_int_eq(ask(rnic, "192.0.2.9"), RI_ERR_PERMISSION);
    ck_assert_uint_eq(fixture_log_count("connecting to 192.0.2.9:7471 is denied by "), 1);
    ck_assert_uint_eq(fixture_log_count("/policy.d/10.conf:2, the host's policy"), 1);
    ck_assert_int_eq(ask(rnic, "192.0.3.9"), RI_OK);
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
}
END_TEST

/* The configuration may refuse what the host allows. */
START_TEST(both_must_allow)
{
    struct kal_rnic *rnic;

    file("policy.d/10.conf", "allow any interface test\ndeny any\n");
    fixture_conf("[policy]\nrule1 = deny connect to 192.0.2.0/24\n");
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "test", NULL, &rnic), RI_OK);
    ck_assert_int_eq(ask(rnic, "192.0.2.9"), RI_ERR_PERMISSION);
    ck_assert_uint_eq(fixture_log_count("denied by rule1 in section [policy]"), 1);
    ck_assert_int_eq(ask(rnic, "192.0.3.9"), RI_OK);
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
}
END_TEST

START_TEST(what_cannot_be_used_allows_nothing)
{
    file("policy.d/10.conf", "deny conect\n");
    ck_assert_int_eq(kal_get(&fake_upper, &kal), ITAL_ERR_CONFIGURATION);
    ck_assert_uint_eq(fixture_log_count("/10.conf:1: connect, listen, convert, request or any is "
                                        "expected, not \"conect\" (did you mean connect?)"),
                      1);
    file("policy.d/10.conf", "deny connect\n");
    kal_policy_owner = geteuid() + 1;
    ck_assert_int_eq(kal_get(&fake_upper, &kal), ITAL_ERR_CONFIGURATION);
    ck_assert_uint_eq(fixture_log_count("is not believed, because others than"), 1);
    ck_assert_ptr_null(kal);
}
END_TEST

START_TEST(limits_refuse_and_name_the_rule)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *area = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ri_mr_attr attr = { .size = sizeof(attr), .addr = area, .length = page };
    struct ri_qp_attr qp_attr = { .size = sizeof(qp_attr) };
    struct kal_region *regions[3], *more = NULL;
    char text[200];
    struct kal_rnic *rnic;
    struct ri_qp *qp;
    struct ri_pd *pd;

    ck_assert_ptr_ne(area, MAP_FAILED);
    snprintf(text, sizeof(text),
             "limit regions 0 group 4294967294\nlimit endpoints 0\nlimit regions 3\n"
             "limit pinned %zu\n",
             2 * page);
    file("policy.d/10.conf", text);
    setenv("ITAL_TEST_VP", "dma", 1);
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "test", NULL, &rnic), RI_OK);
    ck_assert_int_eq(kal_pd_create(rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(kal_qp_create(rnic, pd, &qp_attr, &qp), ITAL_ERR_QUOTA);
    ck_assert_uint_eq(fixture_log_count("1 more endpoints would pass the limit of 0 by "), 1);
    ck_assert_uint_eq(fixture_log_count("/10.conf:2, the host's policy"), 1);
    for (int i = 0; i < 2; i++, attr.addr = area + (size_t)i * page)
        ck_assert_int_eq(kal_region_create(rnic, pd, &attr, &regions[i]), RI_OK);
    ck_assert_int_eq(kal_region_create(rnic, pd, &attr, &more), RI_ERR_NO_RESOURCES);
    ck_assert_uint_eq(fixture_log_count("/10.conf:4, the host's policy"), 1);
    attr.addr = area; /* pinned already, and so free of charge */
    ck_assert_int_eq(kal_region_create(rnic, pd, &attr, &regions[2]), RI_OK);
    ck_assert_int_eq(kal_region_create(rnic, pd, &attr, &more), ITAL_ERR_QUOTA);
    ck_assert_uint_eq(fixture_log_count("1 more memory regions would pass the limit of 3 by "), 1);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(kal_region_destroy(rnic, regions[i]), RI_OK);
    ck_assert_uint_eq(kal_rnic_holds(rnic, KAL_ACCOUNT_MR), 0);
    ck_assert_int_eq(kal_pd_destroy(rnic, pd), RI_OK);
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
    fixture_put();
    munmap(area, 4 * page);
}
END_TEST

/* ---- changes ---- */

static void replace_file(const char *name, const char *text)
{
    char from[4400], to[4400];

    snprintf(from, sizeof(from), "%s/new", fixture_folder());
    snprintf(to, sizeof(to), "%s/%s", policy, name);
    file("new", text);
    ck_assert_int_eq(rename(from, to), 0);
}

/* Rules change while an interface is open, which stays open; also without option monitor. */
START_TEST(changes_are_noticed)
{
    struct kal_rnic *rnic;
    char path[4400];

    fixture_conf(_i ? "[ital]\nmonitor = no\n" : "[ital]\nmonitor = yes\n");
    unsetenv("ITAL_MONITOR");
    setenv("XDG_RUNTIME_DIR", fixture_folder(), 1);
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "test", NULL, &rnic), RI_OK);
    ck_assert_int_eq(ask(rnic, "192.0.2.9"), RI_OK);
    file("policy.d/10.conf", "deny connect to 192.0.2.0/24\n");
    ck_assert(tc_until(ask(rnic, "192.0.2.9") == RI_ERR_PERMISSION, 10000));
    ck_assert_int_eq(ask(rnic, "192.0.3.9"), RI_OK);
    replace_file("10.conf", "deny connect to 192.0.3.0/24\n");
    ck_assert(tc_until(ask(rnic, "192.0.3.9") == RI_ERR_PERMISSION, 10000));
    ck_assert_int_eq(ask(rnic, "192.0.2.9"), RI_OK);
    replace_file("20.conf", "alow any\n");
    ck_assert(tc_until(fixture_log_count("20.conf:1: ") > 0, 10000));
    ck_assert_uint_ge(fixture_log_count("until then the earlier rules hold in this process"), 1);
    ck_assert_int_eq(ask(rnic, "192.0.3.9"), RI_ERR_PERMISSION);
    snprintf(path, sizeof(path), "%s/20.conf", policy);
    ck_assert_int_eq(unlink(path), 0);
    snprintf(path, sizeof(path), "%s/10.conf", policy);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert(tc_until(ask(rnic, "192.0.3.9") == RI_OK, 10000));
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
}
END_TEST

/* The folder itself goes, comes, and is replaced by another one. */
START_TEST(the_folder_may_be_another)
{
    struct kal_rnic *rnic;
    char aside[4400], path[4400];

    snprintf(aside, sizeof(aside), "%s/aside", fixture_folder());
    fixture_conf("[ital]\nmonitor = yes\n");
    unsetenv("ITAL_MONITOR");
    setenv("XDG_RUNTIME_DIR", fixture_folder(), 1);
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "test", NULL, &rnic), RI_OK);
    fixture_folder_made("other");
    snprintf(path, sizeof(path), "%s/other", fixture_folder());
    ck_assert_int_eq(chmod(path, 0755), 0);
    file("other/10.conf", "deny connect to 192.0.2.0/24\n");
    ck_assert_int_eq(rmdir(policy), 0);
    ck_assert_int_eq(rename(path, policy), 0);
    ck_assert(tc_until(ask(rnic, "192.0.2.9") == RI_ERR_PERMISSION, 10000));
    ck_assert_int_eq(rename(policy, aside), 0);
    ck_assert(tc_until(ask(rnic, "192.0.2.9") == RI_OK, 10000));
    fixture_folder_made("policy.d");
    ck_assert_int_eq(chmod(policy, 0755), 0);
    file("policy.d/10.conf", "deny connect to 192.0.3.0/24\n");
    ck_assert(tc_until(ask(rnic, "192.0.3.9") == RI_ERR_PERMISSION, 10000));
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
}
END_TEST

/* ---- changes while watches are laid ---- */

/* What changes before or after the nth watch that is laid from now on, once. */
static struct {
    void (*change)(void);
    _Atomic int left; /* 0: its time has come */
    bool before;
    _Atomic bool done;
} between;

static void watch_is_laid(bool before)
{
    int left = atomic_load(&between.left);

    if (!left || between.before != before)
        return;
    while (left && !atomic_compare_exchange_weak(&between.left, &left, left - 1))
        ;
    if (left != 1)
        return;
    between.change();
    atomic_store(&between.done, true);
}

/* In the place of the C library's. */
int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    int wd, errno_kept;

    watch_is_laid(true);
    wd = (int)syscall(SYS_inotify_add_watch, fd, path, mask);
    errno_kept = errno;
    watch_is_laid(false);
    errno = errno_kept;
    return wd;
}

static void begin_between(int nth, bool before, void (*change)(void))
{
    between.before = before;
    between.change = change;
    atomic_store(&between.left, nth);
}

/* Perhaps so many watches were not laid. */
static void end_between(void)
{
    if (atomic_exchange(&between.left, 0))
        between.change();
    else
        ck_assert(tc_until(atomic_load(&between.done), 10000));
}

static void folder_comes(void)
{
    ck_assert(!mkdir(policy, 0755) && !chmod(policy, 0755));
}

static void folder_above_comes(void)
{
    char above[4300];

    snprintf(above, sizeof(above), "%s/above", fixture_folder());
    ck_assert(!mkdir(above, 0755) && !chmod(above, 0755));
}

static void folder_is_replaced(void)
{
    char aside[4400];

    snprintf(aside, sizeof(aside), "%s/aside2", fixture_folder());
    ck_assert_int_eq(rename(policy, aside), 0);
    folder_comes();
}

static void nothing_is_missed_between(int nth, bool before, void (*change)(void), const char *goes)
{
    char from[4400], aside[4400];
    struct kal_rnic *rnic;
    struct kal *own;

    snprintf(from, sizeof(from), "%s/%s", fixture_folder(), goes);
    snprintf(aside, sizeof(aside), "%s/aside", fixture_folder());
    fixture_conf("[ital]\nmonitor = no\n");
    ck_assert_int_eq(kal_get(&fake_upper, &own), RI_OK);
    ck_assert_int_eq(kal_rnic_open(own, "test", NULL, &rnic), RI_OK);
    ck_assert_int_eq(ask(rnic, "192.0.2.9"), RI_ERR_PERMISSION);
    begin_between(nth, before, change);
    ck_assert_int_eq(rename(from, aside), 0);
    ck_assert(tc_until(ask(rnic, "192.0.2.9") == RI_OK, 10000));
    end_between();
    if (change == folder_above_comes)
        folder_comes();
    snprintf(from, sizeof(from), "%s/20.conf", policy + strlen(fixture_folder()) + 1);
    file(from, "deny connect to 192.0.3.0/24\n");
    ck_assert(tc_until(ask(rnic, "192.0.3.9") == RI_ERR_PERMISSION, 10000));
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
    kal_put(own);
}

START_TEST(a_folder_that_comes_between_is_watched)
{
    file("policy.d/10.conf", "deny connect to 192.0.2.0/24\n");
    nothing_is_missed_between(1 + _i / 2, _i % 2, folder_comes, "policy.d");
}
END_TEST

START_TEST(a_folder_above_that_comes_between_is_watched)
{
    fixture_folder_made("above");
    fixture_folder_made("above/policy.d");
    snprintf(policy, sizeof(policy), "%s/above/policy.d", fixture_folder());
    ck_assert_int_eq(chmod(policy, 0755), 0);
    file("above/policy.d/10.conf", "deny connect to 192.0.2.0/24\n");
    nothing_is_missed_between(1 + _i / 2, _i % 2, folder_above_comes, "above");
}
END_TEST

START_TEST(a_folder_that_is_replaced_between_is_watched)
{
    file("policy.d/10.conf", "deny connect to 192.0.2.0/24\n");
    nothing_is_missed_between(1 + _i / 2, _i % 2, folder_is_replaced, "policy.d/10.conf");
}
END_TEST

/* ---- the descriptor ---- */

static void await_an_answer(void)
{
    char path[MONITOR_PATH_ROOM], name[MONITOR_NAME_MAX], octet;
    int place = monitor_folder(0, false, path), fd;

    ck_assert_int_ge(place, 0);
    monitor_name(getpid(), name);
    fd = monitor_connect(place, name);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(send(fd, "\n", 1, MSG_NOSIGNAL), 1);
    ck_assert_int_gt(tc_wait_fd(fd, POLLIN, tc_deadline(10000)), 0);
    ck_assert_int_eq(recv(fd, &octet, 1, 0), 1);
    close(fd);
    close(place);
}

/* A daemon closes all descriptors, and an inotify of its own gets the number: nothing is taken from
 * it. */
START_TEST(descriptors_of_the_program_are_not_read)
{
    struct kal_rnic *rnic;
    int own[64], wd;
    char event[4096] __attribute__((aligned(8)));

    fixture_conf("[ital]\nmonitor = yes\n");
    unsetenv("ITAL_MONITOR");
    setenv("XDG_RUNTIME_DIR", fixture_folder(), 1);
    fixture_get();
    for (int fd = 3; fd < 256; fd++) {
        char path[64], target[64] = "";

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, "inotify"))
            close(fd);
    }
    for (unsigned i = 0; i < 64; i++) {
        own[i] = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        ck_assert_int_ge(own[i], 0);
        wd = inotify_add_watch(own[i], fixture_folder(), IN_CREATE);
        ck_assert_int_ge(wd, 0);
    }
    ck_assert_int_eq(kal_rnic_open(kal, "test", NULL, &rnic), RI_OK);
    file("made", "");
    await_an_answer(); /* so the thread has looked at all its descriptors */
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
    for (unsigned i = 0; i < 64; i++)
        ck_assert_int_gt(read(own[i], event, sizeof(event)), 0);
    fixture_put();
    for (unsigned i = 0; i < 64; i++)
        close(own[i]);
}
END_TEST

/* A user has few inotify instances. */
START_TEST(without_a_folder_nothing_is_watched)
{
    struct tc_fds before;

    ck_assert_int_eq(rmdir(policy), 0);
    fixture_get();
    fixture_put();
    before = tc_fds();
    fixture_get();
    for (int fd = 3; fd < 256; fd++) {
        char path[64], target[64] = "";

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ck_assert(readlink(path, target, sizeof(target) - 1) < 0 || !strstr(target, "inotify"));
    }
    fixture_put();
    ck_assert_ptr_null(tc_fds_differ(&before));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("governing");
    TCase *tc = tc_case(suite, "governing", setup, fixture_put);

    tc_add_tests(tc, another_configuration_does_not_replace_it, both_must_allow,
                 what_cannot_be_used_allows_nothing, limits_refuse_and_name_the_rule,
                 the_folder_may_be_another, descriptors_of_the_program_are_not_read,
                 without_a_folder_nothing_is_watched);
    tcase_add_loop_test(tc, changes_are_noticed, 0, 2);
    tc_add_loops(tc, 0, 10, a_folder_that_comes_between_is_watched,
                 a_folder_above_that_comes_between_is_watched,
                 a_folder_that_is_replaced_between_is_watched);
    return tc_main(suite);
}
