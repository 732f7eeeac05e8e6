/* SPDX-License-Identifier: BSD-3-Clause */
/* The program kald, and peers of it that do what no library would. */
#include "kald_fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/compiler.h"
#include "base/unix_socket.h"

/* False: errno. */
static bool try_raw(int fd, const void *octets, size_t length, int with, int copies)
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
            memcpy(CMSG_DATA(control) + i * (int)sizeof(with), &with, sizeof(with));
        header.msg_control = room;
        header.msg_controllen = CMSG_SPACE((size_t)copies * sizeof(int));
    }
    return sendmsg(fd, &header, MSG_NOSIGNAL) == (ssize_t)length;
}

static void send_raw(int fd, const void *octets, size_t length)
{
    ck_assert(try_raw(fd, octets, length, -1, 0));
}

/* ---- what is no message ends the client, and only it ---- */

static size_t hello(uint8_t octets[KALD_MESSAGE_MAX])
{
    return kald_encode(&(struct kald_message){ .type = KALD_HELLO, .id = 1 }, octets);
}

static void other_is_served(int other)
{
    ck_assert_uint_eq(kald_take_up(other, 5, 5, 0, NULL), 5);
    ck_assert_uint_eq(kald_total(POLICY_ENDPOINTS, NULL), 5);
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
    case 2: length = sizeof(octets); break;
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
    send_raw(fd, octets, length);
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
    ck_assert_uint_eq(kald_total(POLICY_ENDPOINTS, NULL), 0);
}
END_TEST

/* The kernel lets a socket refuse descriptors. */
static bool may_refuse(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), value;
    socklen_t length = sizeof(value);
    bool may;

    ck_assert_int_ge(fd, 0);
    may = !getsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &value, &length);
    close(fd);
    return may;
}

/* Where the kernel passes it the client ends, and nobody has the pipe's end any more but kald, if
 * it kept one. Of one whose close takes long: test_kald_descriptors.c. */
START_TEST(descriptors_that_come_with_a_message_are_refused_or_closed)
{
    struct kald_message message;
    uint8_t octets[KALD_MESSAGE_MAX];
    size_t length = hello(octets);
    int fd, other, ends[2];
    bool passed;

    kald_start(NULL);
    other = kald_greeted(SELF, 0);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    fd = kald_peer(SELF);
    passed = try_raw(fd, octets, length, ends[1], _i);
    ck_assert(passed || errno == EPERM);
    ck_assert_int_eq(passed, !may_refuse());
    close(ends[1]);
    if (passed) {
        kald_expect_end(fd);
    } else {
        send_raw(fd, octets, length);
        kald_expect(fd, KALD_HELLO, true, &message, NULL);
        kald_expect(fd, KALD_POLICY, false, &message, NULL);
        close(fd);
    }
    ck_assert_int_ne(tc_wait_fd(ends[0], POLLIN, tc_deadline(10000)) & POLLHUP, 0);
    close(ends[0]);
    other_is_served(other);
}
END_TEST

/* ---- many, and rude ones ---- */

START_TEST(a_thousand_clients_are_served_and_not_one_more)
{
    static int fds[1000];
    struct rlimit limit = { 4096, 4096 };
    unsigned clients;
    int before, fd;

    kald_needs_root();
    setrlimit(RLIMIT_NOFILE, &limit);
    kald_start("1000");
    ck_assert(tc_until(kald_total(POLICY_ENDPOINTS, &clients) == 0 && !clients, 10000));
    before = kald_fds();
    for (int i = 0; i < 1000; i++)
        fds[i] = kald_greeted(USER, 0);
    for (int i = 0; i < 1000; i++)
        ck_assert_uint_eq(kald_take_up(fds[i], 3, 3, 0, NULL), 3);
    ck_assert_uint_eq(kald_total(POLICY_ENDPOINTS, &clients), 3000);
    ck_assert_uint_eq(clients, 1000);
    kald_expect_end(kald_peer(USER));
    fd = kald_greeted(OTHER, 1); /* another user is not kept out */
    close(fd);
    for (int i = 0; i < 1000; i++)
        close(fds[i]);
    ck_assert(tc_until(kald_total(POLICY_ENDPOINTS, &clients) == 0 && !clients, 10000));
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
    ck_assert(tc_until(kald_total(POLICY_ENDPOINTS, NULL) == 0, 10000));
}
END_TEST

/* On the first processor that the test may use. */
static void bind_to_one_processor(pid_t process)
{
    cpu_set_t may, one;
    int cpu = 0;

    ck_assert_int_eq(sched_getaffinity(0, sizeof(may), &may), 0);
    while (!CPU_ISSET(cpu, &may))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ck_assert_int_eq(sched_setaffinity(process, sizeof(one), &one), 0);
}

/* By many clients, with what kald has no answer for. */
static void flood_without_answer(void)
{
    struct kald_message message = { .type = KALD_POLICY, .answer = true };
    uint8_t octets[KALD_MESSAGE_MAX];
    size_t length = kald_encode(&message, octets);
    int fds[200];

    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        fds[i] = kald_greeted(SELF, 0);
    bind_to_one_processor(0);
    for (size_t i = 0; kald_send_octets(fds[i], octets, length, -1) || errno == EAGAIN;
         i = (i + 1) % ARRAY_SIZE(fds))
        ;
}

/* Meanwhile what waits for others is refused in time. kald gets so little of its processor that it
 * never finds nothing to read. */
START_TEST(clients_that_flood_delay_no_refusal)
{
    struct kald_message message;
    int status, stopped, other;
    pid_t child;

    kald_policy("1.conf", "limit endpoints 10\n");
    kald_start(NULL);
    stopped = kald_greeted(SELF, 10);
    other = kald_greeted(SELF, 0);
    bind_to_one_processor(kald_pid());
    ck_assert_int_eq(setpriority(PRIO_PROCESS, (id_t)kald_pid(), 19), 0);
    child = fork();
    if (!child) {
        flood_without_answer();
        _exit(0);
    }
    ck_assert(tc_until(kald_fds() > 400, 10000));
    kald_ask(other, &(struct kald_message){ .type = KALD_TAKE, .total = 4, .least = 4 });
    kald_expect(other, KALD_TAKE, true, &message, NULL);
    ck_assert_int_eq(message.status, KALD_LIMIT);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    close(stopped);
    close(other);
}
END_TEST

/* One that says what is not for it to say. */
static int rude(void)
{
    int fd = kald_peer(SELF);

    kald_ask(fd, &(struct kald_message){ .type = KALD_STATS });
    return fd;
}

START_TEST(clients_do_not_fill_the_log)
{
    const char *line = "it sends what is not for it to send";
    int fds[200];

    kald_start(NULL);
    ck_assert_int_eq(kill(kald_pid(), SIGSTOP), 0);
    for (int i = 0; i < 200; i++)
        fds[i] = rude();
    ck_assert_int_eq(kill(kald_pid(), SIGCONT), 0);
    for (int i = 0; i < 200; i++)
        kald_expect_end(fds[i]);
    ck_assert_uint_ge(kald_lines(line), 20);
    ck_assert_uint_lt(kald_lines(line), 200); /* twenty in each second */
    while (!kald_lines("more lines about clients were left out"))
        kald_expect_end(rude());
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
    ck_assert_uint_eq(kald_total(POLICY_ENDPOINTS, NULL), 9);
    ck_assert_msg(tc_until(rests(), 10000), "kald does not rest while it has nothing to do");
    for (unsigned i = 0; kald_total(POLICY_ENDPOINTS, NULL) == 9; i++) {
        struct kald_message message;

        ck_assert_uint_lt(i, 200);
        snprintf(text, sizeof(text), "limit endpoints %u\n", 100 + i);
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

    kald_needs_root();
    kald_start(NULL);
    one = kald_greeted(USER, 5);
    two = kald_greeted(OTHER, 7);
    kald_ask(one, &(struct kald_message){ .type = KALD_STATS });
    kald_expect(one, KALD_STATS, true, &message, NULL);
    ck_assert_uint_eq(message.count, 1);
    ck_assert_uint_eq(message.clients, 1);
    ck_assert_uint_eq(message.entries[0].user, USER);
    ck_assert_uint_eq(message.entries[0].process, (uint32_t)getpid());
    ck_assert_uint_eq(message.entries[0].counts[POLICY_ENDPOINTS].total, 5);
    ck_assert_uint_eq(message.entries[0].limits[POLICY_ENDPOINTS], KALD_NO_LIMIT);
    ck_assert_uint_eq(kald_total(POLICY_ENDPOINTS, NULL), 12);
    close(one);
    close(two);
}
END_TEST

/* The first number that kald has no descriptor of. */
static rlim_t first_free(void)
{
    char name[60];
    rlim_t number = 0;

    do
        snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)kald_pid(), (int)number++);
    while (!faccessat(AT_FDCWD, name, F_OK, AT_SYMLINK_NOFOLLOW));
    return number - 1;
}

static bool is_served(int fd)
{
    struct kald_message message = { .type = KALD_HELLO, .id = 1, .flags = KALD_OBSERVER };

    kald_send(fd, &message, -1); /* it may have ended */
    ck_assert_int_gt(tc_wait_fd(fd, POLLIN, tc_deadline(10000)), 0);
    return kald_receive(fd, true, &message, NULL) == KALD_GOT;
}

/* A client that cannot be served is ended, and the listener does not stay ready for ever. */
START_TEST(without_descriptors_a_client_is_refused_and_later_ones_are_not)
{
    struct rlimit limit, none;
    int fds[20], count = 0;

    kald_start(NULL);
    ck_assert(tc_until(kald_lines("serves at"), 10000)); /* it has read its policy */
    ck_assert_int_eq(prlimit(kald_pid(), RLIMIT_NOFILE, NULL, &limit), 0);
    none = (struct rlimit){ first_free(), limit.rlim_max };
    ck_assert_int_eq(prlimit(kald_pid(), RLIMIT_NOFILE, &none, NULL), 0);
    /* Some are served by numbers of clients that have just ended. */
    do {
        ck_assert_int_lt(count, ARRAY_SIZE(fds));
        fds[count] = kald_peer(SELF);
    } while (is_served(fds[count++]));
    while (count)
        close(fds[--count]);
    ck_assert_int_eq(prlimit(kald_pid(), RLIMIT_NOFILE, &limit, NULL), 0);
    close(kald_greeted(SELF, 0));
}
END_TEST

/* Whoever takes all places keeps root out of nothing. */
START_TEST(root_has_places_of_its_own)
{
    struct rlimit limit = { 100, 100 }; /* for less than 40 clients */
    int fds[40];

    kald_needs_root();
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    kald_start(NULL);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        fds[i] = kald_peer(USER);
    kald_total(POLICY_ENDPOINTS, NULL);
    kald_expect_end(fds[ARRAY_SIZE(fds) - 1]);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        close(fds[i]);
}
END_TEST

/* ---- the program ---- */

START_TEST(only_one_serves_at_a_path_and_the_next_takes_over)
{
    char program[4200];
    int status, fd;
    pid_t child;

    kald_start(NULL);
    snprintf(program, sizeof(program), "%s/kald/kald", tc_builddir());
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

    snprintf(path, sizeof(path), "/proc/%d/status", kald_pid());
    file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file))
        if (!strncmp(line, name, length) && line[length] == ':')
            value = strtoull(line + length + 1, NULL, base);
    fclose(file);
    return value;
}

START_TEST(it_keeps_only_what_it_needs)
{
    kald_start(NULL);
    kald_total(POLICY_ENDPOINTS, NULL); /* it has begun */
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
    TCase *messages = kald_case(suite, "messages"), *many = kald_case(suite, "many"),
          *program = kald_case(suite, "program");

    tcase_add_loop_test(messages, truncated_and_wrong_messages_end_the_client, 0, 12);
    tcase_add_loop_test(messages, descriptors_that_come_with_a_message_are_refused_or_closed, 1, 6);
    tc_add_tests(messages, a_client_that_does_not_greet_first_or_twice_ends);
    tc_add_tests(many, a_thousand_clients_are_served_and_not_one_more,
                 a_client_that_floods_keeps_nobody_waiting, clients_that_flood_delay_no_refusal,
                 clients_do_not_fill_the_log, a_client_that_never_reads_ends,
                 a_user_sees_only_its_own_and_root_all,
                 without_descriptors_a_client_is_refused_and_later_ones_are_not,
                 root_has_places_of_its_own);
    tc_add_tests(program, only_one_serves_at_a_path_and_the_next_takes_over,
                 it_keeps_only_what_it_needs);
    return tc_main(suite);
}
