/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librspreload.so by the calls of the socket API, in the programs of this source: numbers of
 * descriptors, servers that fork, peers without rsockets.
 */
#include "rspreload_pair.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>

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
    Suite *suite = suite_create("rspreload: forks");
    TCase *pair = tc_case(suite, "pair", set_up, tear_down);
    TCase *alone = tc_case(suite, "alone", skip_if_blind, NULL);

    tc_add_tests(pair, duplicates_are_the_same_socket,
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
