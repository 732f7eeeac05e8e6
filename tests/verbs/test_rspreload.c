/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librspreload.so: a program of the socket API, whose calls reach the library because it comes
 * before libc. Both ends are in this process; what has to be a socket of the kernel's is opened by
 * system call number.
 */
#include "rspreload_pair.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

/* ---- octets ---- */

START_TEST(each_call_that_moves_octets_uses_the_rsocket)
{
    char first[4] = "", second[8] = "";
    struct iovec out[] = { { "one ", 4 }, { "two", 3 } }, in[] = { { first, 3 }, { second, 4 } };
    struct msghdr send_it = { .msg_iov = out, .msg_iovlen = 2 };
    struct msghdr get_it = { .msg_iov = in, .msg_iovlen = 2 };
    int count = -1;

    ck_assert_int_eq(write(client, "write", 5), 5);
    await(server, POLLIN);
    ck_assert_int_eq(ioctl(server, FIONREAD, &count), 0);
    ck_assert_int_eq(count, 5);
    expect(server, "write");
    ck_assert_int_eq(writev(client, out, 2), 7);
    await(server, POLLIN);
    ck_assert_int_eq(readv(server, in, 2), 7);
    ck_assert(!strcmp(first, "one") && !strcmp(second, " two"));
    ck_assert_int_eq(sendmsg(client, &send_it, 0), 7);
    ck_assert_int_eq(recvmsg(server, &get_it, MSG_WAITALL), 7);
    ck_assert(!strcmp(first, "one") && !strcmp(second, " two"));
    ck_assert_int_eq(sendto(server, "back", 4, 0, NULL, 0), 4);
    ck_assert_int_eq(recvfrom(client, second, 4, MSG_PEEK, NULL, NULL), 4);
    ck_assert_int_eq(read(client, second, 4), 4);
    ck_assert_int_eq(memcmp(second, "back", 4), 0);
    ck_assert_int_eq(ioctl(server, FIONREAD, &count), 0);
    ck_assert_int_eq(count, 0);
}
END_TEST

static void *read_all(void *arg)
{
    size_t *sum = arg;
    uint8_t octets[30000];
    ssize_t got;

    while ((got = recv(server, octets, sizeof(octets), 0)) > 0)
        for (ssize_t i = 0; i < got; i++)
            *sum += octets[i];
    ck_assert_int_eq(got, 0);
    return NULL;
}

START_TEST(a_file_is_sent_from_its_place_on)
{
    static uint8_t octets[300000];
    char path[] = "/tmp/rspreload-XXXXXX";
    int file = mkstemp(path);
    size_t sum = 0, wanted = 0;
    off_t from = 100000;
    pthread_t reader;

    ck_assert_int_ge(file, 0);
    unlink(path);
    for (size_t i = 0; i < sizeof(octets); i++)
        octets[i] = (uint8_t)(i / 251);
    for (size_t i = 0; i < sizeof(octets); i++)
        wanted += i < 100000 || i >= 250000 ? octets[i] : 2u * octets[i];
    ck_assert_int_eq(write(file, octets, sizeof(octets)), sizeof(octets));
    ck_assert_int_eq(lseek(file, 0, SEEK_SET), 0);
    pthread_create(&reader, NULL, read_all, &sum);
    ck_assert_int_eq(sendfile(client, file, &from, 150000), 150000);
    ck_assert_int_eq(from, 250000);
    ck_assert_int_eq(lseek(file, 0, SEEK_CUR), 0);
    ck_assert_int_eq(sendfile(client, file, NULL, 400000), 300000);
    ck_assert_int_eq(lseek(file, 0, SEEK_CUR), 300000);
    ck_assert_int_eq(shutdown(client, SHUT_WR), 0);
    pthread_join(reader, NULL);
    ck_assert_uint_eq(sum, wanted);
    close(file);
}
END_TEST

/* ---- waiting ---- */

START_TEST(poll_and_select_watch_both_kinds)
{
    struct pollfd fds[] = { { .fd = server, .events = POLLIN }, { .events = POLLIN } };
    struct timeval time = { .tv_sec = 20 };
    struct timespec none = { 0 };
    int ends[2];
    fd_set in;

    ck_assert_int_eq(pipe(ends), 0);
    fds[1].fd = ends[0];
    ck_assert_int_eq(poll(fds, 2, 1), 0);
    give(client, "a");
    ck_assert_int_eq(ppoll(fds, 2, NULL, NULL), 1);
    ck_assert(fds[0].revents == POLLIN && !fds[1].revents);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    FD_ZERO(&in);
    FD_SET(server, &in);
    FD_SET(ends[0], &in);
    ck_assert_int_eq(select(FD_SETSIZE, &in, NULL, NULL, &time), 2);
    ck_assert_int_le(time.tv_sec, 20);
    ck_assert(FD_ISSET(server, &in) && FD_ISSET(ends[0], &in));
    expect(server, "a");
    ck_assert_int_eq(pselect(FD_SETSIZE, &in, NULL, NULL, &none, NULL), 1);
    ck_assert(!FD_ISSET(server, &in) && FD_ISSET(ends[0], &in));
    close(ends[0]);
    close(ends[1]);
}
END_TEST

START_TEST(epoll_watches_both_kinds)
{
    int epoll = epoll_of(server, EPOLLIN), ends[2];
    struct epoll_event event = { .events = EPOLLIN, .data.fd = 77 }, got[2];

    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event), 0);
    ck_assert_int_eq(epoll_wait(epoll, got, 2, 1), 0);
    give(client, "a");
    ck_assert_int_eq(epoll_wait(epoll, got, 2, -1), 1);
    ck_assert(got[0].data.fd == server && got[0].events == EPOLLIN);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert_int_eq(epoll_wait(epoll, got, 2, -1), 2);
    expect(server, "a");
    ck_assert_int_eq(epoll_wait(epoll, got, 2, -1), 1);
    ck_assert_int_eq(got[0].data.fd, 77);
    event.events = EPOLLOUT;
    ck_assert_int_eq(epoll_ctl(epoll, EPOLL_CTL_MOD, server, &event), 0);
    ck_assert_int_eq(epoll_wait(epoll, got, 2, -1), 2);
    ck_assert_int_eq(epoll_ctl(epoll, EPOLL_CTL_DEL, server, NULL), 0);
    fails(epoll_ctl(epoll, EPOLL_CTL_DEL, server, NULL), ENOENT);
    ck_assert_int_eq(epoll_wait(epoll, got, 2, -1), 1);
    close(epoll);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

START_TEST(an_edge_is_reported_once)
{
    int epoll = epoll_of(server, EPOLLIN | EPOLLET);
    struct epoll_event got, event = { .events = EPOLLIN | EPOLLONESHOT };
    char octets[8];

    ck_assert_int_eq(fcntl(server, F_SETFL, O_NONBLOCK), 0);
    give(client, "ab");
    ck_assert_int_eq(epoll_wait(epoll, &got, 1, -1), 1);
    ck_assert_int_eq(epoll_wait(epoll, &got, 1, 1), 0);
    ck_assert_int_eq(read(server, octets, sizeof(octets)), 2);
    fails(read(server, octets, sizeof(octets)), EAGAIN);
    ck_assert_int_eq(epoll_wait(epoll, &got, 1, 1), 0);
    give(client, "c");
    ck_assert_int_eq(epoll_wait(epoll, &got, 1, -1), 1);
    ck_assert_int_eq(epoll_ctl(epoll, EPOLL_CTL_MOD, server, &event), 0);
    ck_assert_int_eq(epoll_wait(epoll, &got, 1, -1), 1);
    ck_assert_int_eq(epoll_wait(epoll, &got, 1, 1), 0); /* one-shot, though not read */
    close(epoll);
}
END_TEST

static void *add_later(void *epoll)
{
    struct epoll_event event = { .events = EPOLLOUT, .data.fd = client };

    ck_assert_int_eq(epoll_ctl(*(int *)epoll, EPOLL_CTL_ADD, client, &event), 0);
    return NULL;
}

START_TEST(a_socket_that_is_added_wakes_a_wait)
{
    int epoll = epoll_of(server, EPOLLIN);
    struct epoll_event got;
    pthread_t adder;

    pthread_create(&adder, NULL, add_later, &epoll);
    ck_assert_int_eq(epoll_wait(epoll, &got, 1, -1), 1);
    ck_assert_int_eq(got.data.fd, client);
    pthread_join(adder, NULL);
    close(epoll);
}
END_TEST

static void *send_later(void *fd)
{
    give(*(int *)fd, "end");
    return NULL;
}

START_TEST(a_thread_that_sleeps_in_recv_is_woken)
{
    pthread_t sender;

    pthread_create(&sender, NULL, send_later, &client);
    expect(server, "end");
    pthread_join(sender, NULL);
}
END_TEST

/* ---- errors ---- */

START_TEST(who_must_not_wait_gets_EAGAIN)
{
    static char octets[100000];
    int on = 1;

    fails(recv(server, octets, 1, MSG_DONTWAIT), EAGAIN);
    ck_assert_int_eq(ioctl(server, FIONBIO, &on), 0);
    ck_assert_int_eq(fcntl(server, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    fails(read(server, octets, 1), EAGAIN);
    while (write(server, octets, sizeof(octets)) > 0)
        ;
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
    fails(accept(listener, NULL, NULL), EAGAIN);
    fails(accept4(listener, NULL, NULL, 1 << 20), EINVAL);
}
END_TEST

static volatile sig_atomic_t pipes;

static void count_pipe(int signal)
{
    (void)signal;
    pipes++;
}

START_TEST(a_write_behind_the_end_raises_SIGPIPE)
{
    struct sigaction action = { .sa_handler = count_pipe };

    sigaction(SIGPIPE, &action, NULL);
    ck_assert_int_eq(shutdown(client, SHUT_WR), 0);
    fails(send(client, "x", 1, MSG_NOSIGNAL), EPIPE);
    ck_assert_int_eq(pipes, 0);
    fails(write(client, "x", 1), EPIPE);
    ck_assert_int_eq(pipes, 1);
    fails(send(client, "x", 1, 0), EPIPE);
    ck_assert_int_eq(pipes, 2);
}
END_TEST

static void *signal_until(void *target)
{
    while (!pipes) { /* before the sleep a signal has no effect: again */
        pthread_kill(*(pthread_t *)target, SIGUSR1);
        sched_yield();
    }
    return NULL;
}

static void nothing(int signal)
{
    (void)signal;
}

START_TEST(a_signal_ends_a_wait_with_EINTR)
{
    struct sigaction action = { .sa_handler = nothing };
    struct pollfd one = { .fd = server, .events = POLLIN };
    pthread_t self = pthread_self(), sender;
    sigset_t blocked, before;
    char octet;

    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&sender, NULL, signal_until, &self);
    fails(recv(server, &octet, 1, 0), EINTR);
    fails(poll(&one, 1, -1), EINTR);
    fails(accept(listener, NULL, NULL), EINTR);
    pipes = 1;
    pthread_join(sender, NULL);
    /* one that is pending is not lost: the mask is that of the sleep */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    pthread_kill(self, SIGUSR1);
    fails(ppoll(&one, 1, NULL, &before), EINTR);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
END_TEST

START_TEST(want_of_descriptors_is_reported)
{
    struct rlimit limit, before;
    int fds[64], count = 0, fd;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)dup(0) + 20;
    close((int)limit.rlim_cur - 20);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (count < 64 && (fd = socket(AF_INET, SOCK_STREAM, 0)) >= 0)
        fds[count++] = fd;
    ck_assert_int_eq(errno, EMFILE);
    ck_assert_int_gt(count, 0);
    while (count)
        ck_assert_int_eq(close(fds[--count]), 0);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert(is_carried(fd));
    close(fd);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    give(client, "left");
    expect(server, "left");
}
END_TEST

START_TEST(other_sockets_are_the_kernels)
{
    int unix_ends[2], fd = socket(AF_INET, SOCK_DGRAM, 0);
    char octet;

    ck_assert(fd >= 0 && !is_carried(fd));
    close(fd);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, unix_ends), 0);
    ck_assert_int_eq(write(unix_ends[0], "u", 1), 1);
    ck_assert_int_eq(read(unix_ends[1], &octet, 1), 1);
    close(unix_ends[0]);
    close(unix_ends[1]);
    fails(recv(fd, &octet, 1, 0), EBADF);
    fails(close(fd), EBADF);
    fails(dup2(fd, server), EBADF);
    give(client, "still");
    expect(server, "still");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rspreload");
    TCase *pair = tc_case(suite, "pair", set_up, tear_down);

    tc_add_tests(pair, each_call_that_moves_octets_uses_the_rsocket,
                 a_file_is_sent_from_its_place_on, poll_and_select_watch_both_kinds,
                 epoll_watches_both_kinds, an_edge_is_reported_once,
                 a_socket_that_is_added_wakes_a_wait, a_thread_that_sleeps_in_recv_is_woken,
                 who_must_not_wait_gets_EAGAIN, a_write_behind_the_end_raises_SIGPIPE,
                 a_signal_ends_a_wait_with_EINTR, want_of_descriptors_is_reported,
                 other_sockets_are_the_kernels);
    return tc_main(suite);
}
