/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's link to kald, which ends, hangs, begins again or says what it should not (then it
 * is written by hand here); and a program that closes the socket, or forks. */
#include "kald_client.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

static bool is_connected(void)
{
    unsigned clients;

    kald_total(POLICY_ENDPOINTS, &clients);
    return clients == 1;
}

/* ---- a kald that ends, hangs, begins again ---- */

START_TEST(a_kald_that_ends_and_begins_again_gets_a_full_report)
{
    kald_start(NULL);
    open_all();
    ck_assert_int_eq(take(70), RI_OK);
    for (int i = 0; i < 3; i++) {
        kald_kill();
        ck_assert_int_eq(take(10), RI_OK); /* without it, too */
        kald_start(NULL);
        ck_assert(tc_until(is_connected(), 20000));
        ck_assert_uint_ge(kald_total(POLICY_ENDPOINTS, NULL), 70 + 10 * ((uint64_t)i + 1));
    }
    ck_assert_uint_le(kald_total(POLICY_ENDPOINTS, NULL), 100 + 16);
    give(100);
    close_all();
    ck_assert(tc_until(kald_total(POLICY_ENDPOINTS, NULL) == 0, 10000));
}
END_TEST

START_TEST(one_that_was_stopped_before_the_process_began_is_found_later)
{
    kald_start(NULL);
    kald_stop();
    open_all();
    ck_assert_int_eq(take(7), RI_OK);
    kald_start(NULL);
    ck_assert(tc_until(is_connected(), 20000));
    ck_assert_uint_ge(kald_total(POLICY_ENDPOINTS, NULL), 7);
    give(7);
    close_all();
}
END_TEST

/* A lane never waits; a create waits a second at most, once, though the thread connects again and
 * again meanwhile. */
START_TEST(a_kald_that_hangs_keeps_no_lane_and_no_create_waiting)
{
    uint64_t began, last, longest = 0, taken = 2001;

    kald_start(NULL);
    open_all();
    ck_assert_int_eq(take(1), RI_OK);
    ck_assert_int_eq(kill(kald_pid(), SIGSTOP), 0);
    began = tc_now_ns();
    for (int i = 0; i < 100; i++)
        if (kal_rnic_take_now(rnic, KAL_ACCOUNT_QP, 1, NULL) == RI_OK)
            give(1);
    ck_assert_int_eq(kal_rnic_take_now(rnic, KAL_ACCOUNT_QP, 1000, NULL), ITAL_ERR_QUOTA);
    ck_assert_uint_lt(tc_now_ns() - began, 1000000000ull * tc_timeout_ms(1));
    ck_assert_int_eq(take(1000), RI_OK);
    last = tc_now_ns();
    ck_assert_uint_lt(last - began, 8000000000ull * tc_timeout_ms(1));
    ck_assert_int_eq(take(1000), RI_OK);
    ck_assert(tc_until(fixture_log_count("is gone; connections go on") == 1, 10000));
    /* Each time more than is leased, through some attempts to connect. */
    for (int i = 0; i < 40; i++) {
        last = tc_now_ns();
        ck_assert_int_eq(take(taken), RI_OK);
        taken *= 2;
        if (tc_now_ns() - last > longest)
            longest = tc_now_ns() - last;
        poll(NULL, 0, 100);
    }
    ck_assert_uint_lt(longest, 500000000ull * tc_timeout_ms(1));
    ck_assert_int_eq(kill(kald_pid(), SIGCONT), 0);
    ck_assert(tc_until(fixture_log_count("is back") == 1, 20000));
    ck_assert_uint_ge(kald_total(POLICY_ENDPOINTS, NULL), taken);
    give(taken);
    close_all();
}
END_TEST

/* Daemons close what they do not know, and open other files under the same numbers. */
START_TEST(a_program_that_closes_all_descriptors_loses_nothing_of_its_own)
{
    int ends[2], last;

    kald_start(NULL);
    open_all();
    ck_assert_int_eq(take(1), RI_OK);
    last = 2;
    for (int fd = 3; fd < 200; fd++) {
        struct stat about;

        if (!fstat(fd, &about) && S_ISSOCK(about.st_mode)) {
            close(fd);
            last = fd;
        }
    }
    ck_assert_int_gt(last, 2);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
    ck_assert_int_eq(take(1000), RI_OK);
    ck_assert_int_eq(recv(ends[0], (char[8]){ 0 }, 8, MSG_DONTWAIT), -1);
    ck_assert_int_eq(recv(ends[1], (char[8]){ 0 }, 8, MSG_DONTWAIT), -1);
    ck_assert_int_eq(errno, EAGAIN);
    give(1001);
}
END_TEST

START_TEST(a_child_holds_no_copy_of_the_socket)
{
    int ends[2], status;
    pid_t child;
    char octet;

    kald_start(NULL);
    open_all();
    ck_assert_int_eq(take(1), RI_OK);
    ck_assert_int_eq(pipe(ends), 0);
    kal_fork_prepare();
    child = fork();
    if (!child) {
        struct stat about;
        int sockets = 0;

        kal_fork_child();
        for (int fd = 3; fd < 200; fd++)
            sockets += !fstat(fd, &about) && S_ISSOCK(about.st_mode);
        octet = (char)sockets;
        write(ends[1], &octet, 1);
        _exit(0);
    }
    kal_fork_parent();
    ck_assert_int_eq(read(ends[0], &octet, 1), 1);
    ck_assert_int_eq(octet, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    give(1);
    close_all();
}
END_TEST

/* ---- a kald that is written by hand ---- */

static int hand, hand_listener;
static uint32_t hand_ids[8], hand_flags[8];
static unsigned hand_takes;

static void hand_send(const struct kald_message *message, int fd)
{
    ck_assert(kald_send(hand, message, fd));
}

static void hand_read(enum kald_type type, bool answer, struct kald_message *message)
{
    ck_assert_int_gt(tc_wait_fd(hand, POLLIN, tc_deadline(10000)), 0);
    ck_assert_int_eq(kald_receive(hand, false, message, NULL), KALD_GOT);
    ck_assert_int_eq(message->type, type);
    ck_assert_int_eq(message->answer, answer);
    if (type == KALD_TAKE) {
        hand_ids[hand_takes] = message->id;
        hand_flags[hand_takes++] = message->flags;
    }
}

/* Greets; the policy's text is that one, sealed or not. */
static void hand_greet(bool sealed, const char *text)
{
    struct kald_message message;
    int fd = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    hand = accept4(hand_listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert(hand >= 0 && fd >= 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    hand_read(KALD_HELLO, false, &message);
    message = (struct kald_message){ .type = KALD_HELLO, .answer = true, .id = message.id };
    hand_send(&message, -1);
    if (sealed)
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
    hand_send(
        &(struct kald_message){ .type = KALD_POLICY, .generation = 5, .length = strlen(text) }, fd);
    close(fd);
    if (sealed && !*text)
        hand_read(KALD_POLICY, true, &message);
}

static void hand_answer(const struct kald_message *take, uint64_t total)
{
    hand_send(&(struct kald_message){ .type = KALD_TAKE,
                                      .answer = true,
                                      .id = take->id,
                                      .kind = take->kind,
                                      .total = total,
                                      .limit = 100 },
              -1);
}

static void hand_begin(pthread_t *thread, void *(*routine)(void *))
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    strncpy(address.sun_path, kald_path(), sizeof(address.sun_path) - 1);
    hand_listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(hand_listener, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(hand_listener, 5), 0);
    ck_assert_int_eq(pthread_create(thread, NULL, routine, NULL), 0);
}

/* It asks back while a TAKE is open: that TAKE is void, its answer means nothing, and the next one
 * asks nobody else. */
static void *asks_back_in_between(void *arg)
{
    struct kald_message take, give;

    hand_greet(true, "");
    hand_read(KALD_TAKE, false, &take);
    hand_send(&(struct kald_message){ .type = KALD_GIVE, .id = 77, .kind = take.kind }, -1);
    hand_answer(&take, 50); /* too late */
    hand_read(KALD_GIVE, true, &give);
    ck_assert_uint_eq(give.id, 77);
    ck_assert_uint_eq(give.total, 0);
    hand_read(KALD_TAKE, false, &take);
    ck_assert_uint_eq(take.least, 5); /* it holds nothing: the 50 were not believed */
    hand_answer(&take, 7);
    return arg;
}

START_TEST(a_take_that_is_asked_back_is_sent_again)
{
    pthread_t thread;

    hand_begin(&thread, asks_back_in_between);
    open_all();
    ck_assert_int_eq(take(5), RI_OK);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(hand_takes, 2);
    ck_assert_uint_ne(hand_ids[0], hand_ids[1]);
    ck_assert_uint_eq(hand_flags[0], 0);
    ck_assert_uint_eq(hand_flags[1], KALD_ALONE);
    give(5);
    close_all();
    ck_assert_uint_eq(fixture_log_count("is gone"), 0);
}
END_TEST

/* A policy that somebody could still change is none, and its sender is no kald. */
static void *sends_a_policy_that_is_not_sealed(void *arg)
{
    struct kald_message message;

    hand_greet(false, "");
    ck_assert_int_gt(tc_wait_fd(hand, POLLIN, tc_deadline(10000)), 0);
    ck_assert_int_eq(kald_receive(hand, false, &message, NULL), KALD_ENDED);
    close(hand_listener);
    return arg;
}

START_TEST(a_policy_that_is_not_sealed_is_not_believed)
{
    pthread_t thread;

    hand_begin(&thread, sends_a_policy_that_is_not_sealed);
    open_all();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(take(5), RI_OK); /* without it */
    give(5);
    close_all();
}
END_TEST

/* What cannot be used has come all the same: nobody waits for another one, and kald counts. */
static void *sends_a_policy_that_means_nothing(void *arg)
{
    struct kald_message take;

    hand_greet(true, "nonsense\n");
    hand_read(KALD_TAKE, false, &take);
    hand_answer(&take, take.total);
    return arg;
}

START_TEST(a_policy_that_cannot_be_used_is_not_waited_for)
{
    pthread_t thread;

    if (geteuid())
        tc_skip("needs root: nobody else's policy is looked at");
    hand_begin(&thread, sends_a_policy_that_means_nothing);
    open_all();
    ck_assert_int_eq(take(5), RI_OK);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(hand_takes, 1);
    give(5);
    close_all();
    ck_assert_uint_eq(fixture_log_count("is gone"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kald_link");
    TCase *tc = tc_case(suite, "link", client_setup, client_teardown);

    tc_add_tests(
        tc, a_kald_that_ends_and_begins_again_gets_a_full_report,
        one_that_was_stopped_before_the_process_began_is_found_later,
        a_kald_that_hangs_keeps_no_lane_and_no_create_waiting,
        a_program_that_closes_all_descriptors_loses_nothing_of_its_own,
        a_take_that_is_asked_back_is_sent_again, a_policy_that_is_not_sealed_is_not_believed,
        a_policy_that_cannot_be_used_is_not_waited_for, a_child_holds_no_copy_of_the_socket);
    return tc_main(suite);
}
