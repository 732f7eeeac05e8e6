/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librspreload.so: a program of the socket API, whose calls reach the library because it comes
 * before libc. Both ends are in this process; what has to be a socket of the kernel's is opened by
 * system call number.
 */
#include "tc.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define WAIT_MS 20000u
#define fails(call, error)              \
    do {                                \
        ck_assert_int_eq((call), -1);   \
        ck_assert_int_eq(errno, error); \
    } while (0)

static int listener, client, server;
static struct sockaddr_in place; /* the listener's */

static struct sockaddr *address(void)
{
    return (struct sockaddr *)&place;
}

static bool is_carried(int fd)
{
    socklen_t length = sizeof(int);
    int value;

    return getsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &value, &length) == 0;
}

static int new_listener(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    socklen_t length = sizeof(place);

    ck_assert_int_ge(fd, 0);
    place = (struct sockaddr_in){ .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    ck_assert_int_eq(bind(fd, address(), sizeof(place)), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    ck_assert_int_eq(getsockname(fd, address(), &length), 0);
    ck_assert_uint_ne(place.sin_port, 0);
    ck_assert(!is_carried(fd)); /* what it accepts is */
    return fd;
}

static short await(int fd, short events)
{
    struct pollfd one = { .fd = fd, .events = events };

    ck_assert_int_eq(poll(&one, 1, (int)tc_timeout_ms(WAIT_MS)), 1);
    return one.revents;
}

static int error_of(int fd)
{
    socklen_t length = sizeof(int);
    int error = -1;

    ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    return error;
}

static int begin_connect(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    ck_assert_int_ge(fd, 0);
    fails(connect(fd, address(), sizeof(place)), EINPROGRESS);
    return fd;
}

static void join(void)
{
    client = begin_connect();
    server = accept(listener, NULL, NULL);
    ck_assert_int_ge(server, 0);
    ck_assert_int_eq(await(client, POLLOUT), POLLOUT);
    ck_assert_int_eq(error_of(client), 0);
    ck_assert_int_eq(fcntl(client, F_SETFL, 0), 0);
    ck_assert(is_carried(client) && is_carried(server));
}

/* A wait that is a call of rsockets runs inside ThreadSanitizer's own definition of the call, which
 * takes it for one of the kernel's: it sees no locks there. */
static void skip_if_blind(void)
{
#ifdef __SANITIZE_THREAD__
    tc_skip("ThreadSanitizer defines the same calls, and would report races that are none");
#endif
}

static void set_up(void)
{
    skip_if_blind();
    listener = new_listener();
    join();
}

static void tear_down(void)
{
    close(client);
    close(server);
    ck_assert_int_eq(close(listener), 0);
}

static void give(int fd, const char *text)
{
    ck_assert_int_eq(send(fd, text, strlen(text), 0), (ssize_t)strlen(text));
}

static void expect(int fd, const char *text)
{
    char got[64] = "";

    ck_assert_uint_lt(strlen(text), sizeof(got));
    ck_assert_int_eq(recv(fd, got, strlen(text), MSG_WAITALL), (ssize_t)strlen(text));
    ck_assert_str_eq(got, text);
}

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

static int epoll_of(int fd, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.fd = fd };
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    ck_assert_int_ge(epoll, 0);
    ck_assert_int_eq(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
    fails(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), EEXIST);
    return epoll;
}

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

/* ---- numbers ---- */

START_TEST(duplicates_are_the_same_socket)
{
    struct rlimit limit;
    int other = dup(client), high;

    ck_assert(other >= 0 && is_carried(other));
    ck_assert_int_eq(close(client), 0);
    give(other, "dup");
    expect(server, "dup");
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max > 5000) { /* another part of the table */
        high = fcntl(other, F_DUPFD_CLOEXEC, 4500);
        ck_assert(high >= 4500 && is_carried(high));
        ck_assert_int_eq(close(other), 0);
        give(high, "high");
        expect(server, "high");
        other = high;
    }
    client = dup2(other, client);
    ck_assert(client >= 0 && is_carried(client));
    ck_assert_int_eq(close_range((unsigned)other, (unsigned)other, 0), 0);
    give(client, "range");
    expect(server, "range");
    ck_assert_int_eq(dup2(0, client), client); /* its last number */
    ck_assert(!is_carried(client));
    ck_assert_int_eq(recv(server, &limit, 1, 0), 0);
}
END_TEST

/* A connection of the parent's is one that was reset. New sockets are the child's own. */
START_TEST(the_child_of_a_fork_has_no_connection_of_its_parents)
{
    int status, made;
    pid_t child;

    tc_await_quiet_for_fork();
    child = fork();
    if (!child) {
        struct pollfd one = { .fd = server, .events = POLLIN };
        bool good = send(client, "x", 1, 0) < 0 && errno == ECONNRESET && close(client) == 0;

        good = good && poll(&one, 1, -1) == 1 && (one.revents & POLLHUP);
        good = good && recv(server, &made, 1, 0) < 0 && errno == ECONNRESET;
        made = socket(AF_INET, SOCK_STREAM, 0);
        _exit(!(good && made >= 0 && is_carried(made) && close(made) == 0 && close(server) == 0));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    give(client, "parent");
    expect(server, "parent");
}
END_TEST

/* ---- servers that fork ---- */

enum waiting { BY_ACCEPT, BY_POLL, BY_EPOLL, WAYS };

/* Awaits one connection. */
static void await_peer(enum waiting way)
{
    struct epoll_event event = { .events = EPOLLIN };
    struct pollfd one = { .fd = listener, .events = POLLIN };
    int set;

    if (way == BY_POLL && poll(&one, 1, -1) != 1)
        _exit(2);
    if (way != BY_EPOLL)
        return;
    set = epoll_create1(0);
    if (epoll_ctl(set, EPOLL_CTL_ADD, listener, &event) || epoll_wait(set, &event, 1, -1) != 1)
        _exit(3);
}

/* A worker: for each octet of `orders` it serves one connection, which hears its name. */
static pid_t worker(enum waiting way, char name, int orders[2])
{
    pid_t child;
    char octet;

    ck_assert_int_eq(pipe(orders), 0);
    tc_await_quiet_for_fork();
    child = fork();
    if (child)
        return child;
    close(orders[1]);
    while (read(orders[0], &octet, 1) == 1) {
        int fd;

        await_peer(way);
        fd = accept(listener, NULL, NULL);
        if (fd < 0 || !is_carried(fd) || recv(fd, &octet, 1, 0) != 1 ||
            send(fd, &name, 1, 0) != 1 || close(fd))
            _exit(4);
    }
    _exit(0);
}

static void order(const int orders[2])
{
    ck_assert_int_eq(write(orders[1], "1", 1), 1);
}

static void end(pid_t child, const int orders[2])
{
    int status;

    close(orders[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    close(orders[0]);
}

/* The client of a worker that is told to serve one. */
static void expect_name(int fd, char name)
{
    char got = 0;

    ck_assert_int_eq(await(fd, POLLOUT), POLLOUT);
    ck_assert_int_eq(error_of(fd), 0);
    ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
    give(fd, "?");
    await(fd, POLLIN); /* nobody may answer */
    ck_assert_int_eq(recv(fd, &got, 1, 0), 1);
    ck_assert_int_eq(got, name);
    close(fd);
}

/* Two workers listen, each with devices of its own, and their master never accepts. A connection
 * goes to who accepts it; it is not lost with a process that ends, nor taken by one that waits for
 * nothing. */
START_TEST(a_listener_survives_the_fork)
{
    int first[2], second[2], early = begin_connect(), late; /* before there is a worker */
    pid_t one = worker((enum waiting)_i, 'a', first), two = worker((enum waiting)_i, 'b', second);

    order(second);
    expect_name(early, 'b');
    early = begin_connect();
    order(first);
    expect_name(early, 'a');
    early = begin_connect();
    order(second);
    expect_name(early, 'b');
    early = begin_connect();
    end(two, second); /* it has listened there, and waits for nothing now */
    late = begin_connect();
    order(first);
    order(first);
    expect_name(early, 'a');
    expect_name(late, 'a');
    end(one, first);
}
END_TEST

/* A connection that is accepted before the fork stays the parent's, and ends for the child. */
/* What the child says of a connection of its parent, which it tries twice. */
static int use_what_the_parent_accepted(int accepted)
{
    char octet;

    for (int i = 0; i < 2; i++)
        if (recv(accepted, &octet, 1, 0) >= 0 || errno != ECONNRESET)
            return 1;
    return close(listener) || close(accepted);
}

static unsigned int count_lines(int fd, const char *text)
{
    unsigned int lines = 0;
    FILE *from = fdopen(fd, "r");
    char *line = NULL;
    size_t room = 0;

    ck_assert_ptr_nonnull(from);
    while (getline(&line, &room, from) >= 0)
        lines += strstr(line, text) != NULL;
    free(line);
    fclose(from);
    return lines;
}

START_TEST(a_child_for_each_connection_is_told)
{
    int fd = begin_connect(), accepted, status, said[2];
    pid_t child;
    char octet;

    accepted = accept(listener, NULL, NULL);
    ck_assert_int_ge(accepted, 0);
    ck_assert_int_eq(pipe(said), 0);
    tc_await_quiet_for_fork();
    child = fork();
    if (!child) {
        dup2(said[1], STDERR_FILENO);
        _exit(use_what_the_parent_accepted(accepted));
    }
    close(said[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(count_lines(said[0], "this process was forked"), 1);
    ck_assert_int_eq(await(fd, POLLOUT), POLLOUT);
    ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
    give(fd, "x");
    ck_assert_int_eq(recv(accepted, &octet, 1, 0), 1);
    close(accepted);
    ck_assert_int_eq(recv(fd, &octet, 1, 0), 0);
    close(fd);
}
END_TEST

/* A peer that speaks something else is passed over, and so is one that says nothing whole. */
START_TEST(a_peer_of_another_protocol_is_passed_over)
{
    static const char *const words[] = { "GET / HTTP/1.0\r\n\r\n", "MPA ID" };
    int plain = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0), flags;
    char octet;

    ck_assert_int_eq(syscall(SYS_connect, plain, address(), sizeof(place)), 0);
    ck_assert_int_gt(syscall(SYS_write, plain, words[_i], strlen(words[_i])), 0);
    ck_assert_int_eq(await(listener, POLLIN), POLLIN);
    flags = fcntl(listener, F_GETFL);
    ck_assert_int_eq(fcntl(listener, F_SETFL, flags | O_NONBLOCK), 0);
    fails(accept(listener, NULL, NULL), EAGAIN);
    ck_assert_int_le(syscall(SYS_read, plain, &octet, 1), 0);
    syscall(SYS_close, plain);
    ck_assert_int_eq(fcntl(listener, F_SETFL, flags), 0);
    close(client);
    close(server);
    join();
}
END_TEST

START_TEST(a_port_is_shared_where_the_program_wants_it)
{
    int fds[2], on = 1;
    socklen_t length = sizeof(place);

    place = (struct sockaddr_in){ .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    for (int i = 0; i < 2; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        ck_assert_int_eq(setsockopt(fds[i], SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
        ck_assert_int_eq(bind(fds[i], address(), sizeof(place)), 0);
        ck_assert_int_eq(getsockname(fds[i], address(), &length), 0);
        ck_assert_int_eq(listen(fds[i], 4), 0);
    }
    fails(bind(socket(AF_INET, SOCK_STREAM, 0), address(), sizeof(place)), EADDRINUSE);
    close(fds[1]);
    close(client);
    close(server);
    close(listener);
    listener = fds[0];
    join();
}
END_TEST

#ifndef ITAL_SANITIZERS
START_TEST(the_child_of_a_vfork_closes_nothing_of_its_parents)
{
    pid_t child = vfork();
    int status;

    if (!child) {
        close(client);
        dup2(0, server);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(is_carried(client) && is_carried(server));
    give(client, "parent");
    expect(server, "parent");
}
END_TEST
#endif

/* ---- peers without an rsocket ---- */

/* A server of the kernel's: its first connection meets a program that speaks first and closes. */
static void *serve_plainly(void *arg)
{
    int fd = *(int *)arg;

    for (int i = 0; i < 2; i++) {
        int one = (int)syscall(SYS_accept4, fd, NULL, NULL, 0);

        ck_assert_int_ge(one, 0);
        ck_assert_int_eq(syscall(SYS_sendto, one, "220 hello from a plain server\r\n", 31,
                                 MSG_NOSIGNAL, NULL, 0),
                         31);
        syscall(SYS_shutdown, one, SHUT_WR);
        while (syscall(SYS_read, one, &(char){ 0 }, 1) > 0)
            ;
        syscall(SYS_close, one);
    }
    return NULL;
}

static int plain_listener(void)
{
    int fd = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
    socklen_t length = sizeof(place);

    place = (struct sockaddr_in){ .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    ck_assert_int_eq(syscall(SYS_bind, fd, &place, sizeof(place)), 0);
    ck_assert_int_eq(syscall(SYS_listen, fd, 4), 0);
    ck_assert_int_eq(syscall(SYS_getsockname, fd, &place, &length), 0);
    return fd;
}

/* 0: connect waits; 1: poll does, 2: epoll does. */
START_TEST(a_peer_without_an_rsocket_is_reached_by_tcp)
{
    int plain = plain_listener(), fd = socket(AF_INET, SOCK_STREAM, 0), epoll;
    struct epoll_event got;
    pthread_t thread;

    pthread_create(&thread, NULL, serve_plainly, &plain);
    if (_i == 0) {
        ck_assert_int_eq(connect(fd, address(), sizeof(place)), 0);
    } else {
        close(fd);
        fd = begin_connect();
        epoll = epoll_of(fd, EPOLLOUT);
        if (_i == 1)
            ck_assert_int_eq(await(fd, POLLOUT), POLLOUT);
        else
            ck_assert_int_eq(epoll_wait(epoll, &got, 1, -1), 1);
        ck_assert_int_eq(error_of(fd), 0);
        ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
        close(epoll);
    }
    ck_assert(!is_carried(fd));
    expect(fd, "220 hello from a plain server\r\n");
    close(fd);
    pthread_join(thread, NULL);
    syscall(SYS_close, plain);
}
END_TEST

START_TEST(where_nobody_listens_it_is_refused)
{
    int plain = plain_listener(), fd = socket(AF_INET, SOCK_STREAM, 0);

    syscall(SYS_close, plain); /* its port is free now */
    fails(connect(fd, address(), sizeof(place)), ECONNREFUSED);
    close(fd);
}
END_TEST

/* The file names other programs only, or this one, for IPv4 only. */
START_TEST(a_file_limits_what_is_carried)
{
    char path[] = "/tmp/rspreload-XXXXXX";
    FILE *file = fdopen(mkstemp(path), "w");
    int fd;

    ck_assert_ptr_nonnull(file);
    fprintf(file, "# a comment\nother AF_INET6 SOCK_STREAM *\n%s AF_INET %d IPPROTO_TCP # v4\n",
            program_invocation_short_name, SOCK_STREAM);
    fclose(file);
    setenv("ITAL_RSOCKETS_CONFIG", path, 1);
    fd = socket(AF_INET6, SOCK_STREAM, 0);
    ck_assert(fd >= 0 && !is_carried(fd));
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert(fd >= 0 && is_carried(fd));
    close(fd);
    unlink(path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rspreload");
    TCase *pair = tc_case(suite, "pair", set_up, tear_down);
    TCase *alone = tc_case(suite, "alone", skip_if_blind, NULL);

    tc_add_tests(pair, each_call_that_moves_octets_uses_the_rsocket,
                 a_file_is_sent_from_its_place_on, poll_and_select_watch_both_kinds,
                 epoll_watches_both_kinds, an_edge_is_reported_once,
                 a_socket_that_is_added_wakes_a_wait, a_thread_that_sleeps_in_recv_is_woken,
                 who_must_not_wait_gets_EAGAIN, a_write_behind_the_end_raises_SIGPIPE,
                 a_signal_ends_a_wait_with_EINTR, want_of_descriptors_is_reported,
                 other_sockets_are_the_kernels, duplicates_are_the_same_socket,
                 the_child_of_a_fork_has_no_connection_of_its_parents,
                 a_child_for_each_connection_is_told, a_port_is_shared_where_the_program_wants_it);
    tcase_add_loop_test(pair, a_listener_survives_the_fork, 0, WAYS);
    tcase_add_loop_test(pair, a_peer_of_another_protocol_is_passed_over, 0, 2);
#ifndef ITAL_SANITIZERS
    tcase_add_test(pair, the_child_of_a_vfork_closes_nothing_of_its_parents);
#endif
    tcase_add_loop_test(alone, a_peer_without_an_rsocket_is_reached_by_tcp, 0, 3);
    tc_add_tests(alone, where_nobody_listens_it_is_refused, a_file_limits_what_is_carried);
    return tc_main(suite);
}
