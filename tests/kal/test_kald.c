/* SPDX-License-Identifier: BSD-3-Clause */
/* The program kald, and peers of it that do what no library would. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "kald_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SELF ((uid_t)-1)
/* Users of no name. */
enum { USER = 61001, OTHER = 61002, NOBODY = 61003 };

static void setup(void)
{
    kald_folder();
}

/* A kald that a test has left is this process's child. */
static void teardown(void)
{
    if (kald_pid())
        kald_stop();
}

static void need_root(void)
{
    if (geteuid())
        tc_skip("needs root: other users' ids");
}

static void send_raw(int fd, const void *octets, size_t length, int with, int copies)
{
    struct iovec part = { (void *)octets, length };
    char room[CMSG_SPACE(16 * sizeof(int))] __attribute__((aligned(8))) = { 0 };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };

    if (with >= 0) {
        struct cmsghdr *control = (struct cmsghdr *)room;

        *control = (struct cmsghdr){ .cmsg_len = CMSG_LEN((size_t)copies * sizeof(int)),
                                     .cmsg_level = SOL_SOCKET,
                                     .cmsg_type = SCM_RIGHTS };
        for (int i = 0; i < copies; i++)
            memcpy(CMSG_DATA(control) + i * (int)sizeof with, &with, sizeof with);
        header.msg_control = room;
        header.msg_controllen = CMSG_SPACE((size_t)copies * sizeof(int));
    }
    ck_assert_int_eq(sendmsg(fd, &header, MSG_NOSIGNAL), (ssize_t)length);
}

/* ---- what is no message ends the client, and only it ---- */

static size_t hello(uint8_t octets[KALD_MESSAGE_MAX])
{
    return kald_encode(&(struct kald_message){ .type = KALD_HELLO, .id = 1 }, octets);
}

static void other_is_served(int other)
{
    ck_assert_uint_eq(kald_take_up(other, 5, 5, 0, NULL), 5);
    ck_assert_uint_eq(kald_total(KALD_ENDPOINTS, NULL), 5);
    close(other);
}

START_TEST(truncated_and_wrong_messages_end_the_client)
{
    static uint8_t octets[2 * KALD_MESSAGE_MAX];
    size_t length = hello(octets);
    int fd, other;

    kald_start(NULL);
    other = kald_greeted(SELF, 0);
    switch (_i) {
    case 0: length -= 1; break;
    case 1: length += 1; break;
    case 2: length = sizeof octets; break;
    case 3: length = KALD_MESSAGE_MAX + 1; break;
    case 4: octets[0]++; break;
    case 5: octets[4]++; break;
    case 6: octets[5] = KALD_TYPES; break;
    case 7: octets[5] = 0; break;
    case 8: octets[15]++; break;
    case 9: octets[6] = 1; break;
    case 10: octets[23] = 1; break;
    case 11: length = 0; break;
    }
    fd = kald_peer(SELF);
    send_raw(fd, octets, length, -1, 0);
    kald_expect_end(fd);
    other_is_served(other);
}
END_TEST

START_TEST(a_client_that_does_not_greet_first_or_twice_ends)
{
    int fd;

    kald_start(NULL);
    fd = kald_peer(SELF);
    kald_ask(fd, &(struct kald_message){ .type = KALD_STATS });
    kald_expect_end(fd);
    fd = kald_greeted(SELF, 0);
    kald_ask(fd, &(struct kald_message){ .type = KALD_HELLO });
    kald_expect_end(fd);
    /* One that says it only looks may not hold anything. */
    fd = kald_peer(SELF);
    kald_ask(fd, &(struct kald_message){ .type = KALD_HELLO, .flags = KALD_OBSERVER });
    kald_ask(fd, &(struct kald_message){ .type = KALD_TAKE, .total = 1, .least = 1 });
    kald_expect_end(fd);
    ck_assert_uint_eq(kald_total(KALD_ENDPOINTS, NULL), 0);
}
END_TEST

/* Nobody has the pipe's end any more but kald, if it kept one. */
START_TEST(descriptors_that_come_with_a_message_are_closed)
{
    struct kald_message message;
    uint8_t octets[KALD_MESSAGE_MAX];
    size_t length = hello(octets);
    int fd, ends[2];

    kald_start(NULL);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    fd = kald_peer(SELF);
    send_raw(fd, octets, length, ends[1], _i);
    close(ends[1]);
    kald_expect(fd, KALD_HELLO, true, &message, NULL);
    kald_expect(fd, KALD_POLICY, false, &message, NULL);
    ck_assert_int_ne(tc_wait_fd(ends[0], POLLIN, tc_deadline(10000)) & POLLHUP, 0);
    close(ends[0]);
    other_is_served(fd);
}
END_TEST

/* ---- accounts ---- */

START_TEST(counts_are_absolute_so_a_replay_changes_nothing)
{
    int fd;

    kald_policy("1.conf", "limit endpoints 100\n");
    kald_start(NULL);
    fd = kald_greeted(SELF, 3);
    ck_assert_uint_eq(kald_total(KALD_ENDPOINTS, NULL), 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(kald_take_up(fd, 40, 40, 0, NULL), 40);
        ck_assert_uint_eq(kald_total(KALD_ENDPOINTS, NULL), 40);
    }
    for (int i = 0; i < 3; i++) {
        kald_give_back(fd, 10);
        ck_assert_uint_eq(kald_total(KALD_ENDPOINTS, NULL), 10);
    }
    /* An older TAKE takes nothing away. */
    ck_assert_uint_eq(kald_take_up(fd, 4, 4, 0, NULL), 10);
    kald_give_back(fd, 11);
    kald_expect_end(fd); /* more than it has */
    ck_assert_uint_eq(kald_total(KALD_ENDPOINTS, NULL), 0);
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
    ck_assert(tc_until(kald_total(KALD_ENDPOINTS, NULL) == 4, 10000));
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

    need_root();
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

/* A limit that is tight: the one who has more than it uses is asked, and the other one waits. */
START_TEST(what_is_free_is_asked_back)
{
    struct kald_message message;
    int one, two;

    kald_policy("1.conf", "limit endpoints 10\n");
    kald_start(NULL);
    one = kald_greeted(SELF, 0);
    two = kald_greeted(SELF, 0);
    ck_assert_uint_eq(kald_take_up(one, 10, 10, 0, NULL), 10);
    kald_ask(two, &(struct kald_message){ .type = KALD_TAKE, .id = 9, .total = 4, .least = 4 });
    kald_expect(one, KALD_GIVE, false, &message, NULL);
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
    struct kald_message message;
    int one, two;

    kald_policy("1.conf", "limit endpoints 10\n");
    kald_start(NULL);
    one = kald_greeted(SELF, 0);
    two = kald_greeted(SELF, 0);
    ck_assert_uint_eq(kald_take_up(one, 10, 10, 0, NULL), 10);
    kald_ask(two, &(struct kald_message){ .type = KALD_TAKE, .id = 9, .total = 4, .least = 4 });
    kald_expect(one, KALD_GIVE, false, &message, NULL);
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
    kald_give_back(two, 1);
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
            write(ends[1], &grandchild, sizeof grandchild);
        pause();
        _exit(fd < 0);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &grandchild, sizeof grandchild), sizeof grandchild);
    ck_assert_uint_eq(kald_total(KALD_ENDPOINTS, NULL), 12);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(tc_until(kald_total(KALD_ENDPOINTS, NULL) == 0, 10000));
    kill(grandchild, SIGKILL);
    ck_assert_int_eq(read(ends[0], &octet, 1), 0); /* it is gone, too */
}
END_TEST

/* ---- many, and rude ones ---- */

START_TEST(a_thousand_clients_are_served_and_not_one_more)
{
    static int fds[1000];
    struct rlimit limit = { 4096, 4096 };
    unsigned clients;
    int before, fd;

    need_root();
    setrlimit(RLIMIT_NOFILE, &limit);
    kald_start("1000");
    ck_assert(tc_until(kald_total(KALD_ENDPOINTS, &clients) == 0 && !clients, 10000));
    before = kald_fds();
    for (int i = 0; i < 1000; i++)
        fds[i] = kald_greeted(USER, 0);
    for (int i = 0; i < 1000; i++)
        ck_assert_uint_eq(kald_take_up(fds[i], 3, 3, 0, NULL), 3);
    ck_assert_uint_eq(kald_total(KALD_ENDPOINTS, &clients), 3000);
    ck_assert_uint_eq(clients, 1000);
    kald_expect_end(kald_peer(USER));
    fd = kald_greeted(OTHER, 1); /* another user is not kept out */
    close(fd);
    for (int i = 0; i < 1000; i++)
        close(fds[i]);
    ck_assert(tc_until(kald_total(KALD_ENDPOINTS, &clients) == 0 && !clients, 10000));
    /* The client that asked for the total may still have been there before. */
    ck_assert(tc_until(kald_fds() <= before, 10000));
}
END_TEST

static void flood(int fd, bool until_full)
{
    struct kald_message message = { .type = KALD_STATS };

    while (kald_send(fd, &message, -1) || (errno == EAGAIN && !until_full))
        ;
}

/* One that asks without end and reads nothing: others have their turns. */
START_TEST(a_client_that_floods_keeps_nobody_waiting)
{
    pid_t child;
    int status, other;

    kald_start(NULL);
    other = kald_greeted(SELF, 0);
    child = fork();
    if (!child) {
        flood(kald_greeted(SELF, 0), false);
        _exit(0);
    }
    for (unsigned i = 0; i < tc_count(200); i++)
        ck_assert_uint_eq(kald_take_up(other, i, i, 0, NULL), i);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    close(other);
    ck_assert(tc_until(kald_total(KALD_ENDPOINTS, NULL) == 0, 10000));
}
END_TEST

/* It sleeps, a hundred times that one looks. */
static bool rests(void)
{
    for (int i = 0; i < 100; i++) {
        if (tc_thread_state(kald_pid(), kald_pid()) != 'S')
            return false;
        sched_yield();
    }
    return true;
}

/* Its own questions wait; what kald has to tell it does not: it ends. */
START_TEST(a_client_that_never_reads_ends)
{
    char text[60];
    int fd, other;

    kald_start(NULL);
    fd = kald_greeted(SELF, 9);
    other = kald_greeted(SELF, 0);
    flood(fd, true);
    ck_assert_uint_eq(kald_total(KALD_ENDPOINTS, NULL), 9);
    ck_assert_msg(tc_until(rests(), 10000), "kald does not rest while it has nothing to do");
    for (unsigned i = 0; kald_total(KALD_ENDPOINTS, NULL) == 9; i++) {
        struct kald_message message;

        ck_assert_uint_lt(i, 200);
        snprintf(text, sizeof text, "limit endpoints %u\n", 100 + i);
        kald_policy("1.conf", text);
        kald_expect(other, KALD_POLICY, false, &message, NULL);
    }
    ck_assert_uint_eq(kald_lines("does not read what it is sent"), 1);
    close(fd);
    close(other);
}
END_TEST

START_TEST(a_user_sees_only_its_own_and_root_all)
{
    struct kald_message message;
    int one, two;

    need_root();
    kald_start(NULL);
    one = kald_greeted(USER, 5);
    two = kald_greeted(OTHER, 7);
    kald_ask(one, &(struct kald_message){ .type = KALD_STATS });
    kald_expect(one, KALD_STATS, true, &message, NULL);
    ck_assert_uint_eq(message.count, 1);
    ck_assert_uint_eq(message.clients, 1);
    ck_assert_uint_eq(message.entries[0].user, USER);
    ck_assert_uint_eq(message.entries[0].process, (uint32_t)getpid());
    ck_assert_uint_eq(message.entries[0].counts[KALD_ENDPOINTS].total, 5);
    ck_assert_uint_eq(message.entries[0].limits[KALD_ENDPOINTS], KALD_NO_LIMIT);
    ck_assert_uint_eq(kald_total(KALD_ENDPOINTS, NULL), 12);
    close(one);
    close(two);
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
    ck_assert_uint_le(message.length, sizeof octets);
    ck_assert_int_eq(pread(passed, octets, sizeof octets, 0), (ssize_t)message.length);
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
    ck_assert_uint_eq(message.limits[KALD_ENDPOINTS], 3);
    expect_policy(fd, "limit endpoints 3\n", &generation);
    kald_policy("0.conf", "limit endpoints 2\n");
    expect_policy(fd, "limit endpoints 2\nlimit endpoints 3\n", &generation);
    ck_assert_uint_eq(kald_take_up(fd, 3, 2, 0, NULL), 2);
    kald_policy("0.conf", NULL);
    expect_policy(fd, "limit endpoints 3\n", &generation);
    ck_assert_uint_eq(kald_take_up(fd, 3, 3, 0, NULL), 3);
    /* One that cannot be used changes nothing, and is said. */
    kald_policy("0.conf", "limit endpoinds 2\n");
    ck_assert(tc_until(kald_lines("0.conf:1: ") == 1, 10000));
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
    snprintf(program, sizeof program, "%s/kal/daemon/kald", tc_builddir());
    snprintf(policy, sizeof policy, "%s", kald_path());
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

static enum kald_status ask_port(int fd, uint16_t port, uint16_t family, int *passed,
                                 uint32_t *error)
{
    struct kald_message message = {
        .type = KALD_LISTEN, .id = 3, .family = family, .port = port, .flags = KALD_SHARE_PORT
    };

    if (family == 4)
        memcpy(message.address, (const uint8_t[4]){ 127, 0, 0, 1 }, 4);
    kald_ask(fd, &message);
    kald_expect(fd, KALD_LISTEN, true, &message, passed);
    *error = message.error;
    return message.status;
}

/* A port below 1024 that nobody has. */
static uint16_t free_port(int family)
{
    for (uint16_t port = 1000; port > 600; port--) {
        struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
        struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };
        int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool free;

        if (fd < 0)
            return 0;
        free = !bind(fd, family == AF_INET ? (struct sockaddr *)&four : (struct sockaddr *)&six,
                     family == AF_INET ? sizeof four : sizeof six);
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
    socklen_t length = sizeof bound;
    struct stat about;
    int fd, passed, other, taken;
    uint32_t error;
    char text[200];

    need_root();
    if (!port)
        tc_skip("no port below 1024 can be bound");
    /* A rule for everybody or for every port does not open privileged ones. */
    snprintf(text, sizeof text,
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

    need_root();
    kald_policy("1.conf", "deny listen port 700-800\nallow listen port 600-999 user 61001\n");
    kald_start(NULL);
    fd = kald_greeted(USER, 0);
    ck_assert_int_eq(ask_port(fd, 750, 4, &passed, &error), KALD_DENIED);
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

    need_root();
    snprintf(text, sizeof text, "allow listen port %u group 0\n", port);
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

/* ---- memory ---- */

static uint64_t soft_limit(pid_t process)
{
    struct rlimit limit;

    ck_assert_int_eq(prlimit(process, RLIMIT_MEMLOCK, NULL, &limit), 0);
    return limit.rlim_cur;
}

/* The soft limit only: not every kald may raise a hard one. */
static void lower_limit(void)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    if (limit.rlim_max < 1 << 21)
        tc_skip("the hard limit of locked memory is below 2 MiB");
    limit.rlim_cur = 1 << 16;
    ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
}

static enum kald_status take_pinned(int fd, uint64_t total, uint32_t flags)
{
    struct kald_message message = { .type = KALD_TAKE,
                                    .kind = KALD_PINNED,
                                    .total = total,
                                    .least = total,
                                    .flags = flags | KALD_ALONE };

    kald_ask(fd, &message);
    kald_expect(fd, KALD_TAKE, true, &message, NULL);
    return message.status;
}

START_TEST(memlock_is_raised_within_the_limit_and_lowered_again)
{
    struct kald_message hello = { .type = KALD_HELLO };
    int fd;

    kald_policy("1.conf", "limit pinned 1m\n");
    kald_start(NULL);
    lower_limit();
    fd = kald_greeted(SELF, 0);
    ck_assert_int_eq(take_pinned(fd, 1 << 19, 0), KALD_OK);
    ck_assert_uint_eq(soft_limit(0), 1 << 16);
    ck_assert_int_eq(take_pinned(fd, 1 << 19, KALD_RAISE), KALD_OK);
    ck_assert_uint_eq(soft_limit(0), (1 << 16) + (1 << 19));
    ck_assert_int_eq(take_pinned(fd, (1 << 20) + 1, KALD_RAISE), KALD_LIMIT);
    ck_assert_uint_eq(soft_limit(0), (1 << 16) + (1 << 19));
    kald_ask(fd, &(struct kald_message){ .type = KALD_GIVE, .kind = KALD_PINNED, .total = 4096 });
    ck_assert_int_eq(take_pinned(fd, 4096, 0), KALD_OK);
    ck_assert_uint_eq(soft_limit(0), (1 << 16) + 4096);
    close(fd);
    /* What a client says it holds already raises nothing. */
    fd = kald_peer(SELF);
    hello.counts[KALD_PINNED].total = 3 << 19; /* more than the limit, less than the hard one */
    kald_ask(fd, &hello);
    kald_expect(fd, KALD_HELLO, true, &hello, NULL);
    kald_expect(fd, KALD_POLICY, false, &hello, NULL);
    ck_assert_int_eq(take_pinned(fd, 3 << 19, KALD_RAISE), KALD_DENIED);
    ck_assert_uint_eq(soft_limit(0), (1 << 16) + 4096);
    close(fd);
}
END_TEST

START_TEST(without_a_limit_nothing_is_raised)
{
    int fd;

    kald_start(NULL);
    lower_limit();
    fd = kald_greeted(SELF, 0);
    ck_assert_int_eq(take_pinned(fd, 1 << 19, KALD_RAISE), KALD_DENIED);
    ck_assert_uint_eq(soft_limit(0), 1 << 16);
    close(fd);
}
END_TEST

/* ---- the program ---- */

START_TEST(only_one_serves_at_a_path_and_the_next_takes_over)
{
    char program[4200];
    int status, fd;
    pid_t child;

    kald_start(NULL);
    snprintf(program, sizeof program, "%s/kal/daemon/kald", tc_builddir());
    child = fork();
    if (!child) {
        execl(program, program, "-s", kald_path(), "-p", "/nonexistent/policy.d", NULL);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    kald_kill();
    ck_assert_int_eq(access(kald_path(), F_OK), 0); /* the name stays */
    kald_start(NULL);
    kald_stop();
    kald_start(NULL);
    fd = kald_greeted(SELF, 0);
    close(fd);
}
END_TEST

static unsigned long long status_value(const char *name, int base)
{
    char path[60], line[300];
    unsigned long long value = 0;
    size_t length = strlen(name);
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/status", kald_pid());
    file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, length) && line[length] == ':')
            value = strtoull(line + length + 1, NULL, base);
    fclose(file);
    return value;
}

START_TEST(it_keeps_only_what_it_needs)
{
    kald_start(NULL);
    kald_total(KALD_ENDPOINTS, NULL); /* it has begun */
    ck_assert_uint_eq(status_value("NoNewPrivs", 10), 1);
#ifdef HAVE_LIBCAPNG
    ck_assert_uint_eq(status_value("CapEff", 16) & ~0x1000401ull, 0);
    ck_assert_uint_eq(status_value("CapPrm", 16) & ~0x1000401ull, 0);
#endif
#if defined(HAVE_LIBSECCOMP) && !defined(ITAL_SANITIZERS)
    ck_assert_uint_eq(status_value("Seccomp", 10), 2);
#endif
    ck_assert_uint_eq(status_value("Threads", 10), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kald");
    TCase *messages = tc_case(suite, "messages", setup, teardown);
    TCase *accounts = tc_case(suite, "accounts", setup, teardown);
    TCase *many = tc_case(suite, "many", setup, teardown);
    TCase *rules = tc_case(suite, "rules", setup, teardown);

    tcase_add_loop_test(messages, truncated_and_wrong_messages_end_the_client, 0, 12);
    tcase_add_loop_test(messages, descriptors_that_come_with_a_message_are_closed, 1, 6);
    tc_add_tests(messages, a_client_that_does_not_greet_first_or_twice_ends);
    tc_add_tests(accounts, counts_are_absolute_so_a_replay_changes_nothing,
                 two_clients_of_a_user_share_the_limit, users_do_not_share_a_limit,
                 what_is_free_is_asked_back, a_give_makes_an_open_take_void,
                 no_client_hoards_a_limit, what_a_process_held_ends_with_it);
    tcase_add_loop_test(accounts, who_waits_for_others_is_answered_whatever_they_do, 0, 3);
    tc_add_tests(many, a_thousand_clients_are_served_and_not_one_more,
                 a_client_that_floods_keeps_nobody_waiting, a_client_that_never_reads_ends,
                 a_user_sees_only_its_own_and_root_all);
    tc_add_tests(
        rules, a_changed_policy_is_pushed_with_a_new_generation,
        a_policy_that_cannot_be_used_keeps_kald_from_starting,
        a_privileged_port_is_bound_for_whom_a_rule_names,
        a_deny_rule_stands_before_a_later_permission, another_network_namespace_gets_no_port,
        memlock_is_raised_within_the_limit_and_lowered_again, without_a_limit_nothing_is_raised,
        only_one_serves_at_a_path_and_the_next_takes_over, it_keeps_only_what_it_needs);
    return tc_main(suite);
}
