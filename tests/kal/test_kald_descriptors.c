/* SPDX-License-Identifier: BSD-3-Clause */
/* kald on a kernel that cannot refuse descriptors: nothing that a client sends makes it wait. */
#include "kald_fixture.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/compiler.h"

#define LINGER_S 3600 /* no test waits for its end */

/* A connected TCP socket whose close lingers: its peer has room for nothing more, and does not
 * read. */
static int lingering(int *peer)
{
    const struct linger linger = { .l_onoff = 1, .l_linger = LINGER_S };
    static const char data[1 << 16];
    int fds[2];

    ck_assert_int_eq(tc_tcp_pair(AF_INET, fds), 0);
    while (send(fds[0], data, sizeof(data), MSG_DONTWAIT) > 0)
        ;
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    *peer = fds[1];
    return fds[0];
}

/* Nobody has the other end any more: what was sent ends. */
static void expect_closed(int peer)
{
    static char data[1 << 16];
    ssize_t got;

    do {
        ck_assert_msg(tc_wait_fd(peer, POLLIN, tc_deadline(60000)) > 0, "it was not closed");
        got = recv(peer, data, sizeof(data), MSG_DONTWAIT);
    } while (got > 0);
    ck_assert_msg(got == 0 || errno == ECONNRESET, "%s", strerror(errno));
    close(peer);
}

static void pass(int fd, const void *octets, size_t length, const int *with, size_t count)
{
    struct iovec part = { (void *)octets, length };
    char room[CMSG_SPACE(16 * sizeof(int))] __attribute__((aligned(8))) = { 0 };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };

    if (count) {
        struct cmsghdr *control = (struct cmsghdr *)room;

        *control = (struct cmsghdr){ .cmsg_len = CMSG_LEN(count * sizeof(int)),
                                     .cmsg_level = SOL_SOCKET,
                                     .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(control), with, count * sizeof(int));
        header.msg_control = room;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
    }
    ck_assert_int_eq(sendmsg(fd, &header, MSG_NOSIGNAL), (ssize_t)length);
}

/* kald waits until SIGCONT: so the test's own close is not the last, and all that is sent is there
 * when kald reads the first of it. */
static void halt(void)
{
    ck_assert_int_eq(kill(kald_pid(), SIGSTOP), 0);
    ck_assert(tc_until(tc_thread_state(kald_pid(), kald_pid()) == 'T', 60000));
}

static size_t hello(uint8_t octets[KALD_MESSAGE_MAX])
{
    return kald_encode(&(struct kald_message){ .type = KALD_HELLO, .id = 1 }, octets);
}

/* kald answers, and those that come. */
static void serves(int other)
{
    ck_assert_uint_eq(kald_take_up(other, 5, 5, 0, NULL), 5);
    ck_assert_uint_eq(kald_total(POLICY_ENDPOINTS, NULL), 5);
}

/* The socket is handed on within the queue of another one. */
static void wrap(int *fd)
{
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    pass(pair[0], "", 1, fd, 1);
    close(pair[0]);
    close(*fd);
    *fd = pair[1];
}

enum way {
    FIRST,
    WITHOUT_OCTETS,
    BEHIND_ONE_WITHOUT_OCTETS,
    BEHIND_A_WRONG_ONE,
    BEHIND_A_GREETING,
    SIXTEEN,
    WITHIN_ANOTHER,
    WAYS
};

START_TEST(one_whose_close_lingers_keeps_nobody_waiting)
{
    uint8_t octets[KALD_MESSAGE_MAX];
    size_t length = hello(octets);
    int fd, other, socket, peer, many[16];

    kald_lacks(KALD_LACKS_REFUSAL);
    kald_start(NULL);
    other = kald_greeted(SELF, 0);
    socket = lingering(&peer);
    fd = kald_peer(SELF);
    halt();
    switch ((enum way)_i) {
    case FIRST: pass(fd, octets, length, &socket, 1); break;
    case WITHOUT_OCTETS: pass(fd, "", 0, &socket, 1); break;
    case BEHIND_ONE_WITHOUT_OCTETS:
        pass(fd, "", 0, NULL, 0);
        pass(fd, octets, length, &socket, 1);
        break;
    case BEHIND_A_WRONG_ONE:
        pass(fd, octets, length - 1, NULL, 0);
        pass(fd, octets, length, &socket, 1);
        break;
    case BEHIND_A_GREETING:
        pass(fd, octets, length, NULL, 0);
        pass(fd, octets, length, &socket, 1);
        break;
    case SIXTEEN:
        for (size_t i = 0; i < ARRAY_SIZE(many); i++)
            many[i] = socket;
        pass(fd, octets, length, many, ARRAY_SIZE(many));
        break;
    case WITHIN_ANOTHER:
        wrap(&socket);
        pass(fd, octets, length, &socket, 1);
        break;
    case WAYS: break;
    }
    close(socket);
    close(fd);
    kill(kald_pid(), SIGCONT);
    serves(other);
    expect_closed(peer);
    close(other);
}
END_TEST

/* The client by which the fixture saw that kald serves may be there still. */
static int the_only_one(void)
{
    struct kald_message message;
    int fd = -1;

    do {
        if (fd >= 0)
            close(fd);
        fd = kald_peer(SELF);
        kald_send(fd, &(struct kald_message){ .type = KALD_HELLO, .id = 1 }, -1);
        ck_assert_int_gt(tc_wait_fd(fd, POLLIN, tc_deadline(60000)), 0);
    } while (kald_receive(fd, true, &message, NULL) != KALD_GOT);
    kald_expect(fd, KALD_POLICY, false, &message, NULL);
    return fd;
}

START_TEST(a_client_that_is_refused_keeps_nobody_waiting_by_it)
{
    uint8_t octets[KALD_MESSAGE_MAX];
    size_t length = hello(octets);
    int fd, other, socket, peer;

    kald_lacks(KALD_LACKS_REFUSAL);
    kald_start("1");
    other = the_only_one();
    socket = lingering(&peer);
    halt();
    fd = kald_peer(SELF);
    pass(fd, octets, length, &socket, 1);
    close(socket);
    kill(kald_pid(), SIGCONT);
    kald_expect_end(fd);
    ck_assert_uint_eq(kald_take_up(other, 5, 5, 0, NULL), 5);
    expect_closed(peer);
    close(other);
}
END_TEST

/* A client ends with messages that kald has not read. */
START_TEST(a_process_that_is_killed_leaves_none_that_lingers)
{
    uint8_t octets[KALD_MESSAGE_MAX];
    size_t length = hello(octets);
    int other, socket, peer, fd, status;
    pid_t child;

    kald_lacks(KALD_LACKS_REFUSAL);
    kald_start(NULL);
    other = kald_greeted(SELF, 0);
    socket = lingering(&peer);
    child = fork();
    if (!child) {
        fd = kald_greeted(SELF, 0);
        halt();
        pass(fd, octets, length, NULL, 0);
        pass(fd, octets, length, &socket, 1);
        raise(SIGKILL);
    }
    close(socket);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    kill(kald_pid(), SIGCONT);
    serves(other);
    expect_closed(peer);
    close(other);
}
END_TEST

static bool has_children(void)
{
    char path[80], text[8] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)kald_pid(), (int)kald_pid());
    file = fopen(path, "re");
    if (file && !fgets(text, sizeof(text), file))
        text[0] = '\0';
    if (file)
        fclose(file);
    return text[0] != '\0';
}

/* More at a time than kald has children for. */
START_TEST(of_many_at_once_none_stays)
{
    uint8_t octets[KALD_MESSAGE_MAX];
    size_t length = hello(octets);
    int fds[100], peers[ARRAY_SIZE(fds)], other, socket, before;

    kald_lacks(KALD_LACKS_REFUSAL);
    kald_start(NULL);
    other = kald_greeted(SELF, 0);
    serves(other);
    before = kald_fds();
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        fds[i] = kald_peer(SELF);
    halt();
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        socket = lingering(&peers[i]);
        pass(fds[i], octets, length, &socket, 1);
        close(socket);
        close(fds[i]);
    }
    kill(kald_pid(), SIGCONT);
    serves(other);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        expect_closed(peers[i]);
    ck_assert(tc_until(!has_children(), 60000));
    ck_assert(tc_until(kald_fds() <= before, 60000));
    ck_assert_uint_ge(kald_lines("it sent a descriptor"), 1);
    close(other);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kald_descriptors");
    TCase *tc = kald_case(s, "a kernel that cannot refuse them");

    tcase_add_loop_test(tc, one_whose_close_lingers_keeps_nobody_waiting, 0, WAYS);
    tc_add_tests(tc, a_client_that_is_refused_keeps_nobody_waiting_by_it,
                 a_process_that_is_killed_leaves_none_that_lingers, of_many_at_once_none_stays);
    return tc_main(s);
}
