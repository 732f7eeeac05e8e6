/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's end of kald: leases, the pushed policy, ports and the limit of locked memory. The
 * "other process" of a test is a peer written by hand, or a child. A kald that fails:
 * test_kald_link.c. */
#include "kald_client.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void become_a_user(void)
{
    char log[4300];

    snprintf(log, sizeof(log), "%s/log", fixture_folder());
    ck_assert_int_eq(chmod(fixture_folder(), 0755), 0);
    ck_assert_int_eq(chmod(fixture_conf_path(), 0644), 0);
    ck_assert_int_eq(chmod(log, 0666), 0);
    ck_assert_int_eq(seteuid(61001), 0);
}

/* Threads of this process whose name is ital-kald. */
static int threads_of_ours(void)
{
    DIR *tasks = opendir("/proc/self/task");
    char path[300], name[20];
    struct dirent *task;
    int count = 0;
    FILE *file;

    ck_assert_ptr_nonnull(tasks);
    while ((task = readdir(tasks))) {
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
        file = fopen(path, "re");
        count += file && fgets(name, sizeof(name), file) && !strcmp(name, "ital-kald\n");
        if (file)
            fclose(file);
    }
    closedir(tasks);
    return count;
}

/* ---- without kald ---- */

START_TEST(where_no_kald_has_been_there_is_no_thread)
{
    open_all();
    ck_assert_int_eq(threads_of_ours(), 0);
    ck_assert_int_eq(take(1000000), RI_OK);
    give(1000000);
    close_all();
}
END_TEST

START_TEST(an_empty_option_does_without)
{
    fixture_conf("[ital]\nkald =\n");
    kald_start(NULL);
    open_all();
    ck_assert_int_eq(take(5), RI_OK);
    ck_assert_uint_eq(kald_total(POLICY_ENDPOINTS, NULL), 0);
    give(5);
    close_all();
}
END_TEST

/* A socket of another user who is not root says what that user wants. */
START_TEST(only_roots_and_the_own_users_kald_is_believed)
{
    if (geteuid())
        tc_skip("needs root: another user's id");
    kald_start(NULL);
    ck_assert_int_eq(seteuid(61001), 0); /* kald's is root: believed */
    ck_assert_int_ge(kald_peer(SELF), 0);
    ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

/* ---- leases ---- */

START_TEST(kald_counts_what_the_process_takes)
{
    kald_start(NULL);
    open_all();
    ck_assert_int_eq(threads_of_ours(), 1);
    ck_assert_uint_eq(fixture_log_count("keeps the accounts of this process"), 1);
    ck_assert_int_eq(take(1), RI_OK);
    ck_assert_uint_ge(kald_total(POLICY_ENDPOINTS, NULL), 1);
    ck_assert_int_eq(take(1000), RI_OK);
    ck_assert_uint_ge(kald_total(POLICY_ENDPOINTS, NULL), 1001);
    ck_assert_uint_le(kald_total(POLICY_ENDPOINTS, NULL), 1001 + 32);
    give(1001);
    close_all();
    ck_assert(tc_until(threads_of_ours() == 0, 10000)); /* proc(5) may list a joined one still */
    ck_assert(tc_until(kald_total(POLICY_ENDPOINTS, NULL) == 0, 10000));
}
END_TEST

START_TEST(the_quota_of_the_process_holds_besides)
{
    char text[300];

    snprintf(text, sizeof(text), "[ital]\nkald = %s\n[quota]\nmax_qp = 20\n", kald_path());
    fixture_conf(text);
    kald_start(NULL);
    open_all();
    ck_assert_int_eq(take(20), RI_OK);
    ck_assert_int_eq(take(1), ITAL_ERR_QUOTA);
    ck_assert_uint_eq(fixture_log_count("the quota of 20 endpoints is used up"), 1);
    ck_assert_uint_le(kald_total(POLICY_ENDPOINTS, NULL), 20);
    give(20);
    close_all();
}
END_TEST

/* What a child does with a kal of its own. */
static pid_t child_takes(uint64_t amount, enum ri_status expected, int ready, int go)
{
    pid_t child = fork();
    char octet;

    if (child)
        return child;
    open_all();
    if (take(amount) != expected)
        _exit(1);
    if (write(ready, "r", 1) != 1 || read(go, &octet, 1) != 1)
        _exit(2);
    if (expected == RI_OK)
        give(amount);
    kal_rnic_close(rnic, false);
    kal_put(kal);
    _exit(0);
}

/* Two processes of one user: together not more than the limit; what one does not use it lends. */
START_TEST(two_processes_of_a_user_share_a_quota)
{
    int ready[2], go[2], status;
    pid_t child;
    char octet;

    kald_policy("1.conf", "limit endpoints 100\n");
    kald_start(NULL);
    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_eq(pipe(go), 0);
    child = child_takes(60, RI_OK, ready[1], go[0]);
    ck_assert_int_eq(read(ready[0], &octet, 1), 1);
    open_all();
    ck_assert_int_eq(take(41), ITAL_ERR_QUOTA);
    ck_assert_uint_eq(fixture_log_count("41 more endpoints would pass the limit of 100 by "), 1);
    ck_assert_uint_eq(fixture_log_count("1.conf:1, the host's policy, for all processes of the "
                                        "user"),
                      1);
    /* The other one holds up to 6 more than it uses: they are asked back. */
    ck_assert_int_eq(take(40), RI_OK);
    ck_assert_uint_eq(kald_total(POLICY_ENDPOINTS, NULL), 100);
    ck_assert_int_eq(take(1), ITAL_ERR_QUOTA);
    ck_assert_int_eq(write(go[1], "g", 1), 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && !WEXITSTATUS(status));
    ck_assert(tc_until(take(60) == RI_OK, 10000));
    give(100);
    close_all();
    ck_assert(tc_until(kald_total(POLICY_ENDPOINTS, NULL) == 0, 10000));
}
END_TEST

/* Two that need the same last ones at the same time: neither waits for ever. */
static void *takes_and_gives(void *arg)
{
    unsigned *done = arg;

    for (unsigned i = 0; i < 2000; i++) {
        uint64_t amount = 1 + i % 4;

        if (take(amount) == RI_OK) {
            give(amount);
            ++*done;
        }
    }
    return NULL;
}

START_TEST(threads_and_processes_take_from_one_limit)
{
    unsigned done[3] = { 0, 0, 0 };
    pthread_t threads[3];
    int status;
    pid_t child;

    kald_policy("1.conf", "limit endpoints 9\n");
    kald_start(NULL);
    child = fork();
    open_all();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, takes_and_gives, &done[i]), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    if (!child) {
        kal_rnic_close(rnic, false);
        kal_put(kal);
        _exit(!(done[0] + done[1] + done[2]));
    }
    ck_assert_uint_gt(done[0] + done[1] + done[2], 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && !WEXITSTATUS(status));
    ck_assert_int_eq(take(9), RI_OK);
    ck_assert_int_eq(take(1), ITAL_ERR_QUOTA);
    give(9);
    close_all();
    ck_assert_uint_eq(kald_lines("is not served any more"), 0);
    ck_assert_uint_eq(fixture_log_count("is gone"), 0); /* and no answer was missed */
}
END_TEST

/* ---- policy ---- */

static enum ri_status ask(const char *address)
{
    struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(7471) };

    ck_assert_int_eq(inet_pton(AF_INET, address, &peer.sin_addr), 1);
    return kal_rnic_policy(rnic, RI_POLICY_CONNECT, NULL, (struct sockaddr *)&peer);
}

START_TEST(the_pushed_policy_decides_and_is_replaced_by_the_next)
{
    kald_policy("1.conf", "deny connect to 192.0.2.0/24\n");
    kald_start(NULL);
    open_all();
    /* It is there before the first question. */
    ck_assert_int_eq(ask("192.0.2.1"), RI_ERR_PERMISSION);
    ck_assert_uint_eq(fixture_log_count("/policy.d/1.conf:1, the host's policy"), 1);
    kald_policy("1.conf", "deny connect to 192.0.3.0/24\n");
    ck_assert(tc_until(ask("192.0.3.1") == RI_ERR_PERMISSION, 10000));
    ck_assert_int_eq(ask("192.0.2.1"), RI_OK);
    kald_policy("1.conf", NULL);
    ck_assert(tc_until(ask("192.0.3.1") == RI_OK, 10000));
    kald_policy("1.conf", "deny any\n");
    ck_assert(tc_until(ask("192.0.4.1") == RI_ERR_PERMISSION, 10000));
    kald_kill();
    ck_assert(tc_until(fixture_log_count("is gone; connections go on") == 1, 10000));
    ck_assert_uint_eq(fixture_log_count("warning: kald at"), 0); /* it may only be restarted */
    ck_assert_int_eq(ask("192.0.4.1"), RI_ERR_PERMISSION);       /* the last one holds */
    ck_assert(tc_until(fixture_log_count("does not come back") == 1, 60000));
    ck_assert_uint_eq(fixture_log_count("warning: kald at"), 1);
    close_all();
}
END_TEST

/* Whoever runs a kald of their own cannot replace what root says. */
START_TEST(the_policy_of_a_users_own_kald_is_none)
{
    if (geteuid())
        tc_skip("needs root: another user's id");
    kald_policy("1.conf", "deny any\nlimit endpoints 3\n");
    become_a_user();
    kald_start_as(61001);
    open_all();
    ck_assert_uint_eq(fixture_log_count("keeps the accounts of this process"), 1);
    ck_assert_int_eq(ask("192.0.2.1"), RI_OK);
    ck_assert_int_eq(take(4), ITAL_ERR_QUOTA); /* its limit is */
    close_all();
    ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

/* ---- ports, memory ---- */

START_TEST(a_listener_below_1024_uses_kalds_socket)
{
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct ri_listen_param param = { .size = sizeof(param), .address = (struct sockaddr *)&here };
    struct kal_listener *listener;
    struct sockaddr_storage bound;
    enum ri_status status = RI_ERR_ADDRESS_IN_USE;
    int fd;

    if (geteuid())
        tc_skip("needs root: another user's id");
    kald_privileged_ports();
    kald_policy("1.conf", "allow listen port 600-1023 user 61001\n");
    kald_start(NULL);
    become_a_user();
    open_all();
    for (uint16_t port = 1000; port > 600 && status == RI_ERR_ADDRESS_IN_USE; port--) {
        here.sin_port = htons(port);
        status = kal_listen(rnic, &fixture_lane, &param, NULL, &bound, &listener);
    }
    ck_assert_int_eq(status, RI_OK);
    ck_assert_uint_eq(((struct sockaddr_in *)&bound)->sin_port, here.sin_port);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&here, sizeof(here)), 0);
    kal_listen_destroy(listener);
    close(fd);
    here.sin_port = htons(599);
    ck_assert_int_eq(kal_listen(rnic, &fixture_lane, &param, NULL, &bound, &listener),
                     RI_ERR_PERMISSION);
    close_all();
    ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

/* v6only=auto: this process has the port for IPv4, so kald's second socket takes IPv6 only. */
START_TEST(a_listener_below_1024_takes_ipv6_beside_one_of_ipv4)
{
    struct sockaddr_in four = { .sin_family = AF_INET };
    struct sockaddr_in6 all = { .sin6_family = AF_INET6 };
    struct ri_listen_param param = { .size = sizeof(param), .address = (struct sockaddr *)&four };
    struct kal_listener *first, *second;
    struct sockaddr_storage bound;
    enum ri_status status = RI_ERR_ADDRESS_IN_USE;

    if (geteuid())
        tc_skip("needs root: another user's id");
    if (access("/proc/net/if_inet6", F_OK))
        tc_skip("this host has no IPv6");
    kald_privileged_ports();
    kald_policy("1.conf", "allow listen port 600-1023 user 61001\n");
    kald_start(NULL);
    become_a_user();
    open_all();
    for (uint16_t port = 1000; status == RI_ERR_ADDRESS_IN_USE && port > 600; port--) {
        four.sin_port = htons(port);
        status = kal_listen(rnic, &fixture_lane, &param, NULL, &bound, &first);
    }
    ck_assert_int_eq(status, RI_OK);
    all.sin6_port = four.sin_port;
    param.address = (struct sockaddr *)&all;
    ck_assert_int_eq(kal_listen(rnic, &fixture_lane, &param, NULL, &bound, &second), RI_OK);
    ck_assert_uint_eq(((struct sockaddr_in6 *)&bound)->sin6_port, all.sin6_port);
    kal_listen_destroy(second);
    kal_listen_destroy(first);
    close_all();
    ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

/* With CAP_IPC_LOCK the kernel knows no limit. */
static void drop_ipc_lock(void)
{
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2];

    ck_assert_int_eq((int)syscall(SYS_capget, &header, data), 0);
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    ck_assert_int_eq((int)syscall(SYS_capset, &header, data), 0);
}

START_TEST(a_pin_beyond_the_limit_of_locked_memory_raises_it)
{
    const size_t length = 1 << 20;
    enum kal_pin_way way;
    struct rlimit limit;
    void *area;

    ck_assert_int_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    if (limit.rlim_max < 1 << 22)
        tc_skip("the hard limit of locked memory is below 4 MiB");
    kald_policy("1.conf", "limit pinned 2m\n");
    kald_start(NULL);
    limit.rlim_cur = 1 << 16;
    ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    area = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(area, MAP_FAILED);
    drop_ipc_lock();
    open_all();
    rnic->pin = (struct kal_pin_wish){ .way = KAL_PIN_LOCK, .strict = true };
    ck_assert_int_eq(kal_rnic_pin(rnic, area, length, &way), RI_OK);
    ck_assert_int_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    ck_assert_uint_ge(limit.rlim_cur, length);
    ck_assert_uint_le(limit.rlim_cur, (2 << 20) + (1 << 16));
    kal_rnic_unpin(rnic, area, length, way);
    close_all();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kald_client");
    TCase *tc = tc_case(suite, "client", client_setup, client_teardown);

    tc_add_tests(tc, where_no_kald_has_been_there_is_no_thread, an_empty_option_does_without,
                 only_roots_and_the_own_users_kald_is_believed, kald_counts_what_the_process_takes,
                 the_quota_of_the_process_holds_besides, two_processes_of_a_user_share_a_quota,
                 threads_and_processes_take_from_one_limit,
                 the_pushed_policy_decides_and_is_replaced_by_the_next,
                 the_policy_of_a_users_own_kald_is_none, a_listener_below_1024_uses_kalds_socket,
                 a_listener_below_1024_takes_ipv6_beside_one_of_ipv4,
                 a_pin_beyond_the_limit_of_locked_memory_raises_it);
    return tc_main(suite);
}
