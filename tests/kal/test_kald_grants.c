/* SPDX-License-Identifier: BSD-3-Clause */
/* What the program kald grants: leases, ports, locked memory; and the policy that it goes by. */
#include "kald_fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- accounts ---- */

START_TEST(counts_are_absolute_so_a_replay_changes_nothing)
{
    int fd;

    kald_policy("1.conf", "limit endpoints 100\n");
    kald_start(NULL);
    fd = kald_greeted(SELF, 3);
    ck_assert_uint_eq(kald_total(POLICY_ENDPOINTS, NULL), 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(kald_take_up(fd, 40, 40, 0, NULL), 40);
        ck_assert_uint_eq(kald_total(POLICY_ENDPOINTS, NULL), 40);
    }
    for (int i = 0; i < 3; i++) {
        kald_release(fd, 10);
        ck_assert_uint_eq(kald_total(POLICY_ENDPOINTS, NULL), 10);
    }
    /* An older TAKE takes nothing away. */
    ck_assert_uint_eq(kald_take_up(fd, 4, 4, 0, NULL), 10);
    kald_release(fd, 11);
    kald_expect_end(fd); /* more than it has */
    ck_assert_uint_eq(kald_total(POLICY_ENDPOINTS, NULL), 0);
}
END_TEST

START_TEST(two_clients_of_a_user_share_the_limit)
{
    enum kald_status status;
    int one, two;

    kald_policy("1.conf", "limit endpoints 10\n");
    kald_start(NULL);
    one = kald_greeted(SELF, 0);
    two = kald_greeted(SELF, 0);
    ck_assert_uint_eq(kald_take_up(one, 6, 6, 0, NULL), 6);
    ck_assert_uint_eq(kald_take_up(two, 5, 5, KALD_ALONE, &status), 0);
    ck_assert_int_eq(status, KALD_LIMIT);
    ck_assert_uint_eq(kald_take_up(two, 5, 4, KALD_ALONE, &status), 4);
    ck_assert_int_eq(status, KALD_OK);
    close(one);
    ck_assert(tc_until(kald_total(POLICY_ENDPOINTS, NULL) == 4, 10000));
    ck_assert_uint_eq(kald_take_up(two, 10, 10, KALD_ALONE, &status), 10);
    /* More than the limit is never waited for. */
    ck_assert_uint_eq(kald_take_up(two, 11, 11, 0, &status), 10);
    ck_assert_int_eq(status, KALD_LIMIT);
    close(two);
}
END_TEST

START_TEST(users_do_not_share_a_limit)
{
    int one, two;

    kald_needs_root();
    kald_policy("1.conf", "limit endpoints 20 user 61001\nlimit endpoints 10\n");
    kald_start(NULL);
    one = kald_greeted(USER, 0);
    two = kald_greeted(OTHER, 0);
    ck_assert_uint_eq(kald_take_up(one, 20, 20, 0, NULL), 20);
    ck_assert_uint_eq(kald_take_up(two, 10, 10, 0, NULL), 10);
    ck_assert_uint_eq(kald_take_up(two, 11, 11, 0, NULL), 10);
    close(one);
    close(two);
}
END_TEST

/* A limit of 10 of which one holds all; the other waits for 4, with a question of id 9. What kald
 * asks the first one then. */
static struct kald_message wait_for_the_rest(int *one, int *two)
{
    struct kald_message message;

    kald_policy("1.conf", "limit endpoints 10\n");
    kald_start(NULL);
    *one = kald_greeted(SELF, 0);
    *two = kald_greeted(SELF, 0);
    ck_assert_uint_eq(kald_take_up(*one, 10, 10, 0, NULL), 10);
    kald_ask(*two, &(struct kald_message){ .type = KALD_TAKE, .id = 9, .total = 4, .least = 4 });
    kald_expect(*one, KALD_GIVE, false, &message, NULL);
    return message;
}

/* A limit that is tight: the one who has more than it uses is asked, and the other one waits. */
START_TEST(what_is_free_is_asked_back)
{
    int one, two;
    struct kald_message message = wait_for_the_rest(&one, &two);

    message.answer = true;
    message.total = 5;
    kald_ask(one, &message);
    kald_expect(two, KALD_TAKE, true, &message, NULL);
    ck_assert_uint_eq(message.id, 9);
    ck_assert_uint_eq(message.total, 4);
    ck_assert_int_eq(message.status, KALD_OK);
    close(one);
    close(two);
}
END_TEST

/* One that is asked and is stopped, gives nothing back, or ends. */
START_TEST(who_waits_for_others_is_answered_whatever_they_do)
{
    int one, two;
    struct kald_message message = wait_for_the_rest(&one, &two);

    message.answer = true;
    message.total = 10;
    if (_i == 1)
        kald_ask(one, &message);
    else if (_i == 2)
        close(one);
    kald_expect(two, KALD_TAKE, true, &message, NULL);
    ck_assert_int_eq(message.status, _i == 2 ? KALD_OK : KALD_LIMIT);
    ck_assert_uint_eq(message.total, _i == 2 ? 4 : 0);
    close(two);
}
END_TEST

/* A GIVE makes an open TAKE void: the client hears no more of it. */
START_TEST(a_give_makes_an_open_take_void)
{
    struct kald_message message;
    int one, two;

    kald_policy("1.conf", "limit endpoints 10\n");
    kald_start(NULL);
    one = kald_greeted(SELF, 0);
    two = kald_greeted(SELF, 2);
    ck_assert_uint_eq(kald_take_up(one, 8, 8, 0, NULL), 8);
    kald_ask(two, &(struct kald_message){ .type = KALD_TAKE, .id = 9, .total = 4, .least = 4 });
    kald_expect(one, KALD_GIVE, false, &message, NULL);
    kald_release(two, 1);
    ck_assert_uint_eq(kald_take_up(two, 2, 2, 0, NULL), 2); /* in order: 9 is not answered */
    close(one);
    close(two);
}
END_TEST

START_TEST(no_client_hoards_a_limit)
{
    int fd;

    kald_policy("1.conf", "limit endpoints 160\n");
    kald_start(NULL);
    fd = kald_greeted(SELF, 0);
    ck_assert_uint_eq(kald_take_up(fd, 100, 20, 0, NULL), 30);
    close(fd);
}
END_TEST

/* The socket's copies in children do not outlive the process. */
START_TEST(what_a_process_held_ends_with_it)
{
    int fd, ends[2], status;
    pid_t child, grandchild;
    char octet;

    kald_start(NULL);
    ck_assert_int_eq(pipe(ends), 0);
    child = fork();
    if (!child) {
        fd = kald_greeted(SELF, 12);
        grandchild = fork();
        if (grandchild)
            write(ends[1], &grandchild, sizeof(grandchild));
        pause();
        _exit(fd < 0);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
    ck_assert_uint_eq(kald_total(POLICY_ENDPOINTS, NULL), 12);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(tc_until(kald_total(POLICY_ENDPOINTS, NULL) == 0, 10000));
    kill(grandchild, SIGKILL);
    ck_assert_int_eq(read(ends[0], &octet, 1), 0); /* it is gone, too */
}
END_TEST

/* ---- policy ---- */

static void expect_policy(int fd, const char *text, uint64_t *generation)
{
    struct kald_message message;
    char all[300] = "";
    const char *name, *file;
    uint8_t octets[400];
    size_t length, at = 0;
    bool wrong;
    int passed;

    kald_expect(fd, KALD_POLICY, false, &message, &passed);
    ck_assert_uint_ne(message.generation, *generation);
    *generation = message.generation;
    ck_assert_int_ge(passed, 0);
    ck_assert_uint_le(message.length, sizeof(octets));
    ck_assert_int_eq(pread(passed, octets, sizeof(octets), 0), (ssize_t)message.length);
    /* Nobody can change it for the others. */
    ck_assert_int_eq(pwrite(passed, "x", 1, 0), -1);
    ck_assert_int_eq(ftruncate(passed, 0), -1);
    close(passed);
    while (kald_policy_next(octets, message.length, &at, &name, &file, &length, &wrong))
        strncat(all, file, length);
    ck_assert(!wrong);
    ck_assert_str_eq(all, text);
    kald_ask(fd, &(struct kald_message){ .type = KALD_POLICY,
                                         .answer = true,
                                         .id = message.id,
                                         .generation = message.generation });
}

START_TEST(a_changed_policy_is_pushed_with_a_new_generation)
{
    struct kald_message message = { .type = KALD_HELLO };
    uint64_t generation = 0;
    int fd;

    kald_policy("1.conf", "limit endpoints 3\n");
    kald_start(NULL);
    fd = kald_peer(SELF);
    kald_ask(fd, &message);
    kald_expect(fd, KALD_HELLO, true, &message, NULL);
    ck_assert_uint_eq(message.limits[POLICY_ENDPOINTS], 3);
    expect_policy(fd, "limit endpoints 3\n", &generation);
    kald_policy("0.conf", "limit endpoints 2\n");
    expect_policy(fd, "limit endpoints 2\nlimit endpoints 3\n", &generation);
    ck_assert_uint_eq(kald_take_up(fd, 3, 2, 0, NULL), 2);
    kald_policy("0.conf", NULL);
    expect_policy(fd, "limit endpoints 3\n", &generation);
    ck_assert_uint_eq(kald_take_up(fd, 3, 3, 0, NULL), 3);
    /* One that cannot be used changes nothing, and is said. */
    kald_policy("0.conf", "limit endpoinds 2\n");
    ck_assert(tc_until(kald_lines("0.conf:1: ") >= 1, 10000)); /* a rename is two events */
    ck_assert_uint_eq(kald_take_up(fd, 4, 4, 0, NULL), 3);
    kald_policy("0.conf", "limit endpoints 4\n");
    expect_policy(fd, "limit endpoints 4\nlimit endpoints 3\n", &generation);
    /* The client has said that it uses it. */
    kald_ask(fd, &(struct kald_message){ .type = KALD_STATS });
    kald_expect(fd, KALD_STATS, true, &message, NULL);
    ck_assert_uint_eq(message.entries[0].generation, generation);
    ck_assert_uint_eq(message.generation, generation);
    close(fd);
}
END_TEST

START_TEST(a_policy_that_cannot_be_used_keeps_kald_from_starting)
{
    char program[4200], policy[200];
    int status;
    pid_t child;

    kald_policy("1.conf", "limit\n");
    snprintf(program, sizeof(program), "%s/kald/kald", tc_builddir());
    snprintf(policy, sizeof(policy), "%s", kald_path());
    strcpy(strrchr(policy, '/'), "/policy.d");
    child = fork();
    if (!child) {
        execl(program, program, "-s", kald_path(), "-p", policy, NULL);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}
END_TEST

/* ---- ports ---- */

static enum kald_status ask_port_with(int fd, uint16_t port, uint16_t family, uint32_t flags,
                                      int *passed, uint32_t *error)
{
    struct kald_message message = {
        .type = KALD_LISTEN, .id = 3, .family = family, .port = port, .flags = flags
    };

    if (family == 4)
        memcpy(message.address, (const uint8_t[4]){ 127, 0, 0, 1 }, 4);
    kald_ask(fd, &message);
    kald_expect(fd, KALD_LISTEN, true, &message, passed);
    *error = message.error;
    return message.status;
}

static enum kald_status ask_port(int fd, uint16_t port, uint16_t family, int *passed,
                                 uint32_t *error)
{
    return ask_port_with(fd, port, family, KALD_SHARE_PORT, passed, error);
}

/* A port below 1024 that nobody has, nor another test takes; 0: there is none. */
static uint16_t free_port(int family)
{
    kald_privileged_ports();
    for (uint16_t port = 1000; port > 600; port--) {
        struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
        struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };
        int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool free;

        if (fd < 0)
            return 0;
        free = !bind(fd, family == AF_INET ? (struct sockaddr *)&four : (struct sockaddr *)&six,
                     family == AF_INET ? sizeof(four) : sizeof(six));
        close(fd);
        if (free)
            return port;
    }
    return 0;
}

START_TEST(a_privileged_port_is_bound_for_whom_a_rule_names)
{
    uint16_t port = free_port(AF_INET);
    struct sockaddr_in bound;
    socklen_t length = sizeof(bound);
    struct stat about;
    int fd, passed, other, taken;
    uint32_t error;
    char text[200];

    kald_needs_root();
    if (!port)
        tc_skip("no port below 1024 can be bound");
    /* A rule for everybody or for every port does not open privileged ones. */
    snprintf(text, sizeof(text),
             "allow any to 127.0.0.0/8\nallow listen port %u\n"
             "allow listen on 127.0.0.1 port %u-%u user 61001\n",
             port, port - 1, port);
    kald_policy("1.conf", text);
    kald_start(NULL);
    fd = kald_greeted(USER, 0);
    other = kald_greeted(OTHER, 0);
    ck_assert_int_eq(ask_port(other, port, 4, &passed, &error), KALD_DENIED);
    ck_assert_int_eq(ask_port(fd, (uint16_t)(port - 2), 4, &passed, &error), KALD_DENIED);
    ck_assert_int_eq(ask_port(fd, 0, 4, &passed, &error), KALD_DENIED);
    ck_assert_int_eq(passed, -1);
    ck_assert_int_eq(ask_port(fd, port, 4, &passed, &error), KALD_OK);
    ck_assert_int_ge(passed, 0);
    ck_assert_int_eq(getsockname(passed, (struct sockaddr *)&bound, &length), 0);
    ck_assert_uint_eq(ntohs(bound.sin_port), port);
    ck_assert_int_eq(fstat(passed, &about), 0);
    ck_assert_uint_eq(about.st_uid, USER); /* nobody else's SO_REUSEPORT */
    taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(taken, (struct sockaddr *)&bound, length), 0);
    close(taken);
    close(passed);
    /* Taken by another: said as bind(2) does. */
    taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bound.sin_port = htons((uint16_t)(port - 1));
    if (!bind(taken, (struct sockaddr *)&bound, length) && !listen(taken, 1)) {
        ck_assert_int_eq(ask_port(fd, (uint16_t)(port - 1), 4, &passed, &error), KALD_FAILED);
        ck_assert_int_eq(error, EADDRINUSE);
    }
    close(taken);
    close(fd);
    close(other);
}
END_TEST

START_TEST(a_deny_rule_stands_before_a_later_permission)
{
    uint32_t error;
    int fd, passed;

    kald_needs_root();
    kald_policy("1.conf", "deny listen port 700-800\nallow listen port 600-999 user 61001\n");
    kald_start(NULL);
    fd = kald_greeted(USER, 0);
    ck_assert_int_eq(ask_port(fd, 750, 4, &passed, &error), KALD_DENIED);
    close(fd);
}
END_TEST

/* A rule for IPv6 alone does not open the port for IPv4 by the wildcard of IPv6. */
START_TEST(the_ipv6_wildcard_needs_a_permission_for_ipv4)
{
    uint16_t port = free_port(AF_INET6);
    uint32_t error;
    int fd, passed;
    char text[100];

    kald_needs_root();
    if (!port)
        tc_skip("no port below 1024 can be bound");
    snprintf(text, sizeof(text), "allow listen on ::/0 port %u user 61001\n", port);
    kald_policy("1.conf", text);
    kald_start(NULL);
    fd = kald_greeted(USER, 0);
    ck_assert_int_eq(ask_port(fd, port, 6, &passed, &error), KALD_DENIED);
    ck_assert_int_eq(ask_port_with(fd, port, 6, KALD_V6ONLY, &passed, &error), KALD_OK);
    close(passed);
    close(fd);
}
END_TEST

/* kald's ports are not for the processes of another network namespace. */
START_TEST(another_network_namespace_gets_no_port)
{
    uint16_t port = free_port(AF_INET);
    struct kald_message message = { .type = KALD_HELLO };
    uint32_t error;
    int status, passed, fd;
    char text[100];
    pid_t child;

    kald_needs_root();
    snprintf(text, sizeof(text), "allow listen port %u group 0\n", port);
    kald_policy("1.conf", text);
    kald_start(NULL);
    fd = kald_greeted(SELF, 0);
    ck_assert_int_eq(ask_port(fd, port, 4, &passed, &error), KALD_OK);
    close(passed);
    close(fd);
    child = fork();
    if (!child) {
        if (unshare(CLONE_NEWNET))
            _exit(77);
        fd = kald_peer(SELF);
        kald_ask(fd, &message);
        kald_expect(fd, KALD_HELLO, true, &message, NULL);
        kald_expect(fd, KALD_POLICY, false, &message, NULL);
        _exit(ask_port(fd, port, 4, &passed, &error) != KALD_DENIED);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        tc_skip("no network namespace can be made");
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

START_TEST(who_is_of_an_unknown_network_namespace_gets_no_port)
{
    uint16_t port = free_port(AF_INET);
    uint32_t error;
    int passed, fd;
    char text[100];

    kald_needs_root();
    snprintf(text, sizeof(text), "allow listen port %u group 0\n", port);
    kald_policy("1.conf", text);
    kald_lacks(KALD_LACKS_NETWORKS);
    kald_start(NULL);
    fd = kald_greeted(SELF, 0);
    ck_assert_int_eq(ask_port(fd, port, 4, &passed, &error), KALD_DENIED);
    ck_assert_int_eq(passed, -1);
    close(fd);
}
END_TEST

/* ---- memory ---- */

START_TEST(memlock_is_raised_within_the_limit_and_lowered_again)
{
    struct kald_message hello = { .type = KALD_HELLO };
    int fd;

    kald_policy("1.conf", "limit pinned 1m\n");
    kald_start(NULL);
    kald_lower_limit();
    fd = kald_greeted(SELF, 0);
    ck_assert_int_eq(kald_take_pinned(fd, 1 << 19, 0), KALD_OK);
    ck_assert_uint_eq(kald_soft_limit(0), 1 << 16);
    ck_assert_int_eq(kald_take_pinned(fd, 1 << 19, KALD_RAISE), KALD_OK);
    ck_assert_uint_eq(kald_soft_limit(0), (1 << 16) + (1 << 19));
    ck_assert_int_eq(kald_take_pinned(fd, (1 << 20) + 1, KALD_RAISE), KALD_LIMIT);
    ck_assert_uint_eq(kald_soft_limit(0), (1 << 16) + (1 << 19));
    kald_ask(fd, &(struct kald_message){ .type = KALD_GIVE, .kind = POLICY_PINNED, .total = 4096 });
    ck_assert_int_eq(kald_take_pinned(fd, 4096, 0), KALD_OK);
    ck_assert_uint_eq(kald_soft_limit(0), (1 << 16) + 4096);
    close(fd);
    /* What a client says it holds already raises nothing. */
    fd = kald_peer(SELF);
    hello.counts[POLICY_PINNED].total = 3 << 19; /* more than the limit, less than the hard one */
    kald_ask(fd, &hello);
    kald_expect(fd, KALD_HELLO, true, &hello, NULL);
    kald_expect(fd, KALD_POLICY, false, &hello, NULL);
    ck_assert_int_eq(kald_take_pinned(fd, 3 << 19, KALD_RAISE), KALD_DENIED);
    ck_assert_uint_eq(kald_soft_limit(0), (1 << 16) + 4096);
    close(fd);
}
END_TEST

/* Not by clients that come again, nor by children, which inherit what was raised. */
START_TEST(memlock_is_raised_once_however_often_it_is_asked_for)
{
    int fd, status;
    pid_t child;

    kald_policy("1.conf", "limit pinned 512k\n");
    kald_start(NULL);
    kald_lower_limit();
    for (int i = 0; i < 3; i++) {
        fd = kald_greeted(SELF, 0);
        ck_assert_int_eq(kald_take_pinned(fd, 1 << 19, KALD_RAISE), KALD_OK);
        ck_assert_uint_eq(kald_soft_limit(0), (1 << 16) + (1 << 19));
        close(fd);
        ck_assert(tc_until(kald_total(POLICY_PINNED, NULL) == 0, 10000));
    }
    child = fork();
    if (!child) {
        fd = kald_greeted(SELF, 0);
        ck_assert_int_eq(kald_take_pinned(fd, 1 << 19, KALD_RAISE), KALD_OK);
        _exit(kald_soft_limit(0) != (1 << 16) + (1 << 19));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

/* Whether the kald that runs may raise a hard limit. */
static bool kald_may_raise(void)
{
    unsigned long long effective = 0;
    char name[40], line[200];
    FILE *file;

    snprintf(name, sizeof(name), "/proc/%d/status", (int)kald_pid());
    file = fopen(name, "re");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "CapEff: %llx", &effective) == 1)
            break;
    fclose(file);
    return effective >> CAP_SYS_RESOURCE & 1;
}

/* In a process of its own, which lowers its hard limit for good. */
static void be_raised(void)
{
    struct rlimit limit = { 1 << 16, 1 << 16 };
    int fd;

    ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    ck_assert_int_eq(setresuid(USER, USER, USER), 0);
    fd = kald_greeted(SELF, 0);
    ck_assert_int_eq(kald_take_pinned(fd, 1 << 19, KALD_RAISE), KALD_OK);
    ck_assert_int_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    ck_assert_uint_eq(limit.rlim_cur, (1 << 16) + (1 << 19));
    ck_assert_uint_eq(limit.rlim_max, (1 << 16) + (1 << 19));
    ck_assert_int_eq(kald_take_pinned(fd, (1 << 20) + 1, KALD_RAISE), KALD_LIMIT);
    ck_assert_uint_eq(kald_soft_limit(0), (1 << 16) + (1 << 19));
    close(fd);
}

START_TEST(the_hard_limit_of_another_user_is_raised)
{
    pid_t child;
    int status;

    kald_needs_root();
    kald_policy("1.conf", "limit pinned 1m\n");
    kald_start(NULL);
    if (!kald_may_raise())
        tc_skip("kald has no CAP_SYS_RESOURCE here");
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        be_raised();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(without_a_limit_nothing_is_raised)
{
    int fd;

    kald_start(NULL);
    kald_lower_limit();
    fd = kald_greeted(SELF, 0);
    ck_assert_int_eq(kald_take_pinned(fd, 1 << 19, KALD_RAISE), KALD_DENIED);
    ck_assert_uint_eq(kald_soft_limit(0), 1 << 16);
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kald/grants");
    TCase *accounts = kald_case(suite, "accounts"), *rules = kald_case(suite, "rules");

    tc_add_tests(accounts, counts_are_absolute_so_a_replay_changes_nothing,
                 two_clients_of_a_user_share_the_limit, users_do_not_share_a_limit,
                 what_is_free_is_asked_back, a_give_makes_an_open_take_void,
                 no_client_hoards_a_limit, what_a_process_held_ends_with_it);
    tcase_add_loop_test(accounts, who_waits_for_others_is_answered_whatever_they_do, 0, 3);
    tc_add_tests(
        rules, a_changed_policy_is_pushed_with_a_new_generation,
        a_policy_that_cannot_be_used_keeps_kald_from_starting,
        a_privileged_port_is_bound_for_whom_a_rule_names,
        a_deny_rule_stands_before_a_later_permission, the_ipv6_wildcard_needs_a_permission_for_ipv4,
        who_is_of_an_unknown_network_namespace_gets_no_port, another_network_namespace_gets_no_port,
        memlock_is_raised_within_the_limit_and_lowered_again,
        memlock_is_raised_once_however_often_it_is_asked_for,
        the_hard_limit_of_another_user_is_raised, without_a_limit_nothing_is_raised);
    return tc_main(suite);
}
