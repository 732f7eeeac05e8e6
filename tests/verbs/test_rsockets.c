/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rsockets: the calls of <rdma/rsocket.h>, with both ends in this process, and peers that do not
 * keep to the protocol.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "tc.h"
#include "verbs/rsockets/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 20000u
#define fails(call, error)              \
    do {                                \
        ck_assert_int_eq((call), -1);   \
        ck_assert_int_eq(errno, error); \
    } while (0)

static int listener, client, server;
static struct sockaddr_in place; /* the listener's */

static int new_listener(int backlog)
{
    socklen_t length = sizeof place;
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);

    ck_assert_int_ge(fd, 0);
    place = (struct sockaddr_in){ .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    ck_assert_int_eq(rbind(fd, (struct sockaddr *)&place, sizeof place), 0);
    ck_assert_int_eq(rlisten(fd, backlog), 0);
    ck_assert_int_eq(rgetsockname(fd, (struct sockaddr *)&place, &length), 0);
    ck_assert_uint_ne(place.sin_port, 0);
    return fd;
}

static short await(int fd, short events)
{
    struct pollfd one = { .fd = fd, .events = events };

    ck_assert_int_eq(rpoll(&one, 1, (int)tc_timeout_ms(WAIT_MS)), 1);
    return one.revents;
}

static int begin_connect(void)
{
    int fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    ck_assert_int_ge(fd, 0);
    fails(rconnect(fd, (struct sockaddr *)&place, sizeof place), EINPROGRESS);
    return fd;
}

static int error_of(int fd)
{
    socklen_t length = sizeof(int);
    int error = -1;

    ck_assert_int_eq(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    return error;
}

/* Connects `client` to `server`; both block. */
static void join(void)
{
    client = begin_connect();
    server = raccept(listener, NULL, NULL);
    ck_assert_int_ge(server, 0);
    ck_assert_int_eq(await(client, POLLOUT), POLLOUT);
    ck_assert_int_eq(error_of(client), 0);
    ck_assert_int_eq(rfcntl(client, F_SETFL, 0), 0);
}

static void *close_one(void *fd)
{
    rclose(*(int *)fd);
    return NULL;
}

/* Closes both at once: an end that closes waits for the answer of the other. */
static void close_both(void)
{
    pthread_t other;

    ck_assert_int_eq(pthread_create(&other, NULL, close_one, &client), 0);
    ck_assert_int_eq(rclose(server), 0);
    pthread_join(other, NULL);
}

static void set_up(void)
{
    listener = new_listener(4);
    join();
}

static void tear_down(void)
{
    close_both();
    ck_assert_int_eq(rclose(listener), 0);
}

static void give(int fd, const void *octets, size_t length)
{
    ck_assert_int_eq(rsend(fd, octets, length, 0), (ssize_t)length);
}

static void expect(int fd, const void *octets, size_t length)
{
    uint8_t *got = malloc(length);

    ck_assert_ptr_nonnull(got);
    ck_assert_int_eq(rrecv(fd, got, length, MSG_WAITALL), (ssize_t)length);
    ck_assert_mem_eq(got, octets, length);
    free(got);
}

static void expect_end(int fd)
{
    char octet;

    ck_assert_int_eq(rrecv(fd, &octet, 1, 0), 0);
}

/* ---- the stream ---- */

/* Octets of a stream, in parts of random sizes: a function of their place and of a salt. */
struct flow {
    int fd;
    size_t length;
    uint64_t salt;
};

#define PART 100000u

static uint8_t octet_at(const struct flow *flow, size_t index)
{
    return (uint8_t)((index * 31 + flow->salt) ^ (index >> 8));
}

static void *write_flow(void *arg)
{
    const struct flow *flow = arg;
    struct tc_rng rng = tc_rng(flow->salt);
    uint8_t *part = malloc(PART);

    for (size_t done = 0, length; done < flow->length; done += length) {
        length = 1 + tc_below(&rng, tc_below(&rng, 2) ? PART : 100);
        length = length < flow->length - done ? length : flow->length - done;
        for (size_t i = 0; i < length; i++)
            part[i] = octet_at(flow, done + i);
        give(flow->fd, part, length);
    }
    free(part);
    return NULL;
}

static void *read_flow(void *arg)
{
    const struct flow *flow = arg;
    struct tc_rng rng = tc_rng(flow->salt + 1);
    uint8_t *part = malloc(PART);
    size_t wrong = 0;
    ssize_t got;

    for (size_t done = 0; done < flow->length; done += (size_t)got) {
        got = rrecv(flow->fd, part, 1 + tc_below(&rng, PART), 0);
        ck_assert_int_gt(got, 0);
        for (ssize_t i = 0; i < got; i++)
            wrong += part[i] != octet_at(flow, done + (size_t)i);
    }
    ck_assert_uint_eq(wrong, 0);
    free(part);
    return NULL;
}

static void run_flows(size_t length)
{
    struct flow there = { .fd = client, .length = length, .salt = 11 };
    struct flow back = { .fd = server, .length = length, .salt = 77 };
    struct flow there_read = there, back_read = back;
    pthread_t threads[4];

    there_read.fd = server;
    back_read.fd = client;
    pthread_create(&threads[0], NULL, write_flow, &there);
    pthread_create(&threads[1], NULL, write_flow, &back);
    pthread_create(&threads[2], NULL, read_flow, &there_read);
    pthread_create(&threads[3], NULL, read_flow, &back_read);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

START_TEST(both_ends_read_and_write_at_the_same_time)
{
    run_flows(tc_count(40) * 100000);
}
END_TEST

START_TEST(few_messages_and_small_rings_are_enough)
{
    int messages = 16, octets = 4096;

    tear_down();
    listener = new_listener(1);
    ck_assert_int_eq(rsetsockopt(listener, SOL_RDMA, RDMA_RQSIZE, &messages, sizeof messages), 0);
    ck_assert_int_eq(rsetsockopt(listener, SOL_RDMA, RDMA_SQSIZE, &messages, sizeof messages), 0);
    ck_assert_int_eq(rsetsockopt(listener, SOL_SOCKET, SO_RCVBUF, &octets, sizeof octets), 0);
    ck_assert_int_eq(rsetsockopt(listener, SOL_SOCKET, SO_SNDBUF, &octets, sizeof octets), 0);
    join();
    run_flows(tc_count(10) * 20000);
}
END_TEST

START_TEST(lists_of_buffers_peeks_and_whole_reads)
{
    struct iovec out[] = { { "one", 3 }, { "", 0 }, { " and two", 8 } };
    char first[5], second[16] = "", seen[4] = "";
    struct iovec in[] = { { first, sizeof first }, { second, 6 } };
    struct msghdr message = { .msg_iov = in, .msg_iovlen = 2 };

    ck_assert_int_eq(rwritev(client, out, 3), 11);
    ck_assert_int_eq(rrecv(server, seen, 3, MSG_PEEK), 3);
    ck_assert_str_eq(seen, "one");
    ck_assert_int_eq(rrecvmsg(server, &message, MSG_WAITALL), 11);
    ck_assert(!memcmp(first, "one a", 5) && !strcmp(second, "nd two"));
    ck_assert_int_eq(rrecv(server, seen, 0, 0), 0);
    fails(rsend(client, "x", 1, MSG_OOB), EOPNOTSUPP);
}
END_TEST

START_TEST(who_must_not_wait_is_told)
{
    static uint8_t octets[50000];
    size_t written = 0, read = 0;
    ssize_t done;

    fails(rrecv(server, octets, 1, MSG_DONTWAIT), EAGAIN);
    ck_assert_int_eq(rfcntl(client, F_SETFL, O_NONBLOCK), 0);
    ck_assert_int_eq(rfcntl(client, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    while ((done = rsend(client, octets, sizeof octets, 0)) > 0)
        written += (size_t)done;
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_uint_gt(written, 100000);
    while (read < written) {
        done = rrecv(server, octets, sizeof octets, 0);
        ck_assert_int_gt(done, 0);
        read += (size_t)done;
    }
    ck_assert_int_eq(await(client, POLLOUT), POLLOUT); /* a CREDIT has come */
    ck_assert_int_gt(rsend(client, octets, sizeof octets, 0), 0);
}
END_TEST

/* ---- poll, select ---- */

START_TEST(poll_watches_rsockets_and_others)
{
    int ends[2];
    char octet;
    struct pollfd fds[3] = { { .events = POLLIN }, { .events = POLLIN }, { .fd = -1 } };

    ck_assert_int_eq(pipe(ends), 0);
    fds[0].fd = server;
    fds[1].fd = ends[0];
    ck_assert_int_eq(rpoll(fds, 3, 0), 0);
    ck_assert_int_eq(rpoll(fds, 3, 1), 0);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert_int_eq(rpoll(fds, 3, -1), 1);
    ck_assert(!fds[0].revents && fds[1].revents == POLLIN);
    ck_assert_int_eq(read(ends[0], &octet, 1), 1);
    give(client, "y", 1);
    ck_assert_int_eq(rpoll(fds, 3, -1), 1);
    ck_assert(fds[0].revents == POLLIN && !fds[1].revents);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

static void *give_to_a_sleeper(void *thread)
{
    ck_assert(tc_until(tc_asleep(*(pid_t *)thread), WAIT_MS));
    give(client, "z", 1);
    return NULL;
}

/* In milliseconds it is 0 modulo 2^64. */
START_TEST(select_waits_for_ages)
{
    struct timeval ages = { .tv_sec = INT64_C(1) << 61 };
    pid_t self = (pid_t)syscall(SYS_gettid);
    pthread_t giver;
    fd_set in;

    FD_ZERO(&in);
    FD_SET(server, &in);
    ck_assert_int_eq(pthread_create(&giver, NULL, give_to_a_sleeper, &self), 0);
    ck_assert_int_eq(rselect(FD_SETSIZE, &in, NULL, NULL, &ages), 1);
    pthread_join(giver, NULL);
}
END_TEST

START_TEST(select_watches_rsockets_and_others)
{
    struct timeval none = { 0 };
    fd_set in, out;
    int ends[2];

    ck_assert_int_eq(pipe(ends), 0);
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(server, &in);
    FD_SET(ends[0], &in);
    FD_SET(server, &out);
    ck_assert_int_eq(rselect(FD_SETSIZE, &in, NULL, NULL, &none), 0);
    ck_assert(!FD_ISSET(server, &in));
    FD_SET(server, &in);
    FD_SET(ends[0], &in);
    give(client, "y", 1);
    await(server, POLLIN);
    ck_assert_int_eq(rselect(FD_SETSIZE, &in, &out, NULL, NULL), 2);
    ck_assert(FD_ISSET(server, &in) && FD_ISSET(server, &out) && !FD_ISSET(ends[0], &in));
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* Two threads wait for the same rsocket: one reads, the other polls for room. */
static void *fill(void *fd)
{
    static uint8_t octets[4096];

    for (int i = 0; i < 500; i++) {
        struct pollfd one = { .fd = *(int *)fd, .events = POLLOUT };

        ck_assert_int_eq(rpoll(&one, 1, -1), 1);
        give(*(int *)fd, octets, sizeof octets);
    }
    return NULL;
}

START_TEST(two_threads_wait_for_one_rsocket)
{
    struct flow back = { .fd = server, .length = 500000, .salt = 5 };
    struct flow back_read = { .fd = client, .length = 500000, .salt = 5 };
    uint8_t octets[4096];
    pthread_t threads[3];

    pthread_create(&threads[0], NULL, fill, &client);
    pthread_create(&threads[1], NULL, read_flow, &back_read);
    pthread_create(&threads[2], NULL, write_flow, &back);
    for (int i = 0; i < 500; i++)
        ck_assert_int_eq(rrecv(server, octets, sizeof octets, MSG_WAITALL), sizeof octets);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

/* ---- ends ---- */

START_TEST(half_of_a_connection_ends)
{
    give(client, "last", 4);
    ck_assert_int_eq(rshutdown(client, SHUT_WR), 0);
    fails(rsend(client, "x", 1, 0), EPIPE);
    expect(server, "last", 4);
    expect_end(server);
    give(server, "answer", 6);
    expect(client, "answer", 6);
    ck_assert_int_eq(rshutdown(server, SHUT_WR), 0);
    expect_end(client);
    ck_assert_int_ne(await(client, POLLIN) & POLLHUP, 0);
}
END_TEST

static void *close_client(void *arg)
{
    ck_assert_int_eq(rclose(client), 0);
    return arg;
}

START_TEST(no_hang_up_is_reported_before_all_is_read)
{
    pthread_t closer;

    give(client, "left", 4);
    pthread_create(&closer, NULL, close_client, NULL);
    while (!(await(server, POLLIN | POLLRDHUP) & POLLRDHUP))
        ;
    ck_assert_int_eq(await(server, POLLIN), POLLIN);
    pthread_join(closer, NULL);
    ck_assert_int_eq(await(server, POLLIN), POLLIN);
    expect(server, "left", 4);
    ck_assert_int_eq(await(server, POLLIN), POLLIN | POLLHUP);
    ck_assert_int_eq(rclose(server), 0);
    join();
}
END_TEST

/* The server reads while the client closes, and gets all. */
START_TEST(what_was_sent_before_a_close_arrives)
{
    struct flow flow = { .fd = client, .length = 300000, .salt = 3 };
    struct flow flow_read = { .fd = server, .length = 300000, .salt = 3 };
    pthread_t reader;

    pthread_create(&reader, NULL, read_flow, &flow_read);
    write_flow(&flow);
    ck_assert_int_eq(rclose(client), 0);
    pthread_join(reader, NULL);
    expect_end(server);
    fails(rsend(server, "x", 1, 0), EPIPE);
    ck_assert_int_eq(rclose(server), 0);
    join();
}
END_TEST

/* The server's program makes no call meanwhile, and has all octets afterwards. */
START_TEST(a_close_does_not_wait_for_calls_of_the_peer)
{
    static uint8_t octets[200000], got[sizeof octets];
    struct linger hour = { .l_onoff = 1, .l_linger = 3600 };
    struct tc_rng rng = tc_rng(21);

    tc_fill(&rng, octets, sizeof octets);
    ck_assert_int_eq(rsetsockopt(client, SOL_SOCKET, SO_LINGER, &hour, sizeof hour), 0);
    give(client, octets, sizeof octets);
    ck_assert_int_eq(rclose(client), 0);
    ck_assert_int_eq(rrecv(server, got, sizeof got, MSG_WAITALL), sizeof got);
    ck_assert_mem_eq(got, octets, sizeof got);
    expect_end(server);
    fails(rsend(server, "x", 1, 0), EPIPE);
    ck_assert_int_eq(rclose(server), 0);
    join();
}
END_TEST

START_TEST(a_close_without_linger_resets)
{
    struct linger linger = { .l_onoff = 1 };
    char octet;

    ck_assert_int_eq(rsetsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    ck_assert_int_eq(rclose(client), 0);
    fails(rrecv(server, &octet, 1, 0), ECONNRESET);
    expect_end(server); /* an error is reported once */
    ck_assert_int_eq(rclose(server), 0);
    join();
}
END_TEST

static void *read_in_vain(void *error)
{
    char octet;

    *(int *)error = rrecv(server, &octet, 1, 0) < 0 ? errno : 0;
    return NULL;
}

START_TEST(a_close_wakes_a_reader)
{
    struct linger linger = { .l_onoff = 1 };
    pthread_t reader;
    int error = -1;

    ck_assert_int_eq(rsetsockopt(server, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    pthread_create(&reader, NULL, read_in_vain, &error);
    ck_assert_int_eq(rclose(server), 0);
    pthread_join(reader, NULL);
    ck_assert_int_eq(error, EBADF);
    ck_assert_int_eq(rclose(client), 0);
    join();
}
END_TEST

/* ---- mapped memory ---- */

START_TEST(mapped_memory_is_written_before_what_follows)
{
    static volatile uint8_t memory[100000];
    static uint8_t octets[100000];
    struct tc_rng rng = tc_rng(9);
    int maps = 1;

    fails(riomap(server, (void *)memory, sizeof memory, PROT_WRITE, 0, 0), ENOMEM);
    tear_down();
    listener = new_listener(1);
    ck_assert_int_eq(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &maps, sizeof maps), 0);
    join();
    tc_fill(&rng, octets, sizeof octets);
    /* the server keeps a mapping of the client's memory */
    ck_assert_int_eq(riomap(client, (void *)memory, sizeof memory, PROT_WRITE, 0, 1000), 1000);
    fails(riomap(client, (void *)memory, 10, PROT_WRITE, 0, 5), ENOMEM);
    give(client, "m", 1);
    expect(server, "m", 1);
    ck_assert_uint_eq(riowrite(server, octets, sizeof octets, 1000, 0), sizeof octets);
    give(server, "n", 1);
    expect(client, "n", 1);
    ck_assert_mem_eq((void *)memory, octets, sizeof octets);
    fails((ssize_t)riowrite(server, octets, 1, 999, 0), EINVAL);
    ck_assert_int_eq(riounmap(client, (void *)memory, sizeof memory), 0);
    fails(riounmap(client, (void *)memory, sizeof memory), EINVAL);
    give(client, "u", 1);
    expect(server, "u", 1);
    fails((ssize_t)riowrite(server, octets, 1, 1000, 0), EINVAL);
}
END_TEST

/* ---- options, refusals ---- */

START_TEST(options_are_kept_and_inherited)
{
    int value = 70000, on = 1, got = 0;
    socklen_t length = sizeof got;
    struct sockaddr_in peer;
    socklen_t size = sizeof peer;

    ck_assert_int_eq(rsetsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    ck_assert_int_eq(rgetsockopt(client, IPPROTO_TCP, TCP_NODELAY, &got, &length), 0);
    ck_assert_int_eq(got, 1);
    ck_assert_int_eq(rsetsockopt(listener, SOL_SOCKET, SO_RCVBUF, &value, sizeof value), 0);
    close_both();
    join();
    ck_assert_int_eq(rgetsockopt(server, SOL_SOCKET, SO_RCVBUF, &got, &length), 0);
    ck_assert_int_eq(got, value);
    fails(rsetsockopt(server, SOL_RDMA, RDMA_RQSIZE, &value, sizeof value), EINVAL);
    fails(rsetsockopt(server, SOL_RDMA, RDMA_ROUTE, &value, sizeof value), EOPNOTSUPP);
    fails(rsetsockopt(server, SOL_SOCKET, SO_MARK, &value, sizeof value), ENOPROTOOPT);
    ck_assert_int_eq(rgetpeername(client, (struct sockaddr *)&peer, &size), 0);
    ck_assert(peer.sin_port == place.sin_port && peer.sin_addr.s_addr == place.sin_addr.s_addr);
}
END_TEST

START_TEST(what_is_not_there_is_refused)
{
    char octet;
    int fd;

    fails(rsocket(AF_INET, SOCK_DGRAM, 0), EOPNOTSUPP);
    fails(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
    fails(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
    fails(rrecv(0, &octet, 1, 0), EBADF);
    fails(rclose(1 << 30), EBADF);
    fd = rsocket(AF_INET, SOCK_STREAM, 0);
    fails(rrecv(fd, &octet, 1, 0), ENOTCONN);
    fails(raccept(fd, NULL, NULL), EINVAL);
    place.sin_port = htons(1);
    fails(rconnect(fd, (struct sockaddr *)&place, sizeof place), ECONNREFUSED);
    ck_assert_int_eq(rclose(fd), 0);
    fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(rconnect(fd, (struct sockaddr *)&place, sizeof place), -1);
    if (errno == EINPROGRESS) { /* or the refusal was faster */
        ck_assert_int_ne(await(fd, POLLOUT) & POLLERR, 0);
        ck_assert_int_eq(error_of(fd), ECONNREFUSED);
    }
    ck_assert_int_eq(rclose(fd), 0);
}
END_TEST

START_TEST(the_child_of_a_fork_is_refused)
{
    pid_t child = fork();
    int status;

    if (!child) {
        bool refused = rsend(client, "x", 1, 0) < 0 && errno == EOPNOTSUPP &&
                       rsocket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EOPNOTSUPP &&
                       rclose(client) == 0;
        _exit(!refused);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    give(client, "parent", 6);
    expect(server, "parent", 6);
}
END_TEST

/* Calls it for each event descriptor. */
static bool each_event(bool (*one)(int fd))
{
    char path[40], what[40];
    bool good = true;

    for (int fd = 0; fd < 256; fd++) {
        ssize_t length;

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        length = readlink(path, what, sizeof what - 1);
        what[length > 0 ? length : 0] = '\0';
        if (!strcmp(what, "anon_inode:[eventfd]"))
            good = one(fd) && good;
    }
    return good;
}

static bool write_event(int fd)
{
    return eventfd_write(fd, 1) == 0;
}

static bool event_is_left(int fd)
{
    eventfd_t value;

    return eventfd_read(fd, &value) == 0;
}

/* The descriptor that wakes a thread is the parent's, too. */
START_TEST(a_poll_in_the_child_takes_no_wake_up_of_the_parent)
{
    struct pollfd one = { .fd = server, .events = POLLIN };
    int ends[2], status;
    pid_t child;

    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(rpoll(&one, 1, 0), 0);
    child = fork();
    if (!child) {
        one.fd = ends[0];
        if (!each_event(write_event) || rpoll(&one, 1, 0) != 0)
            _exit(2);
        _exit(!each_event(event_is_left));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* ---- want of descriptors ---- */

static _Thread_local bool watches_fail;

/* Found before that of libc. An rsocket's watches have no data. */
__attribute__((visibility("default"))) int epoll_ctl(int set, int operation, int fd,
                                                     struct epoll_event *event)
{
    if (watches_fail && operation == EPOLL_CTL_ADD && !event->data.ptr) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, set, operation, fd, event);
}

START_TEST(an_accept_that_fails_rejects_its_request)
{
    int other = begin_connect();

    await(listener, POLLIN);
    watches_fail = true;
    fails(raccept(listener, NULL, NULL), ENOSPC);
    watches_fail = false;
    ck_assert_int_ne(await(other, POLLOUT) & POLLERR, 0);
    ck_assert_int_eq(error_of(other), ECONNREFUSED);
    ck_assert_int_eq(rclose(other), 0);
}
END_TEST

/* ---- peers that are none ---- */

static struct rdma_cm_id *stranger(const void *hello, size_t length)
{
    struct rdma_conn_param param = { .private_data = hello, .private_data_len = (uint8_t)length };
    struct ibv_qp_init_attr attr = {
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
        .qp_type = IBV_QPT_RC
    };
    struct rdma_cm_id *id;

    ck_assert_int_eq(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    ck_assert_int_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)&place, 1000), 0);
    ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
    ck_assert_int_eq(rdma_create_qp(id, NULL, &attr), 0);
    if (rdma_connect(id, &param) == 0)
        return id;
    ck_assert_int_eq(errno, ECONNREFUSED);
    rdma_destroy_ep(id);
    return NULL;
}

/* The listener takes a request only in a call of its program. */
static void *serve_listener(void *stop)
{
    struct pollfd fds[] = { { .fd = listener, .events = POLLIN },
                            { .fd = *(int *)stop, .events = POLLIN } };

    while (rpoll(fds, 2, -1) >= 0 && !fds[0].revents && !fds[1].revents)
        ;
    return NULL;
}

START_TEST(a_stranger_is_rejected)
{
    uint8_t wrong[RS_HELLO_OCTETS] = "not a hello";
    pthread_t thread;
    int stop[2];

    ck_assert_int_eq(pipe(stop), 0);
    pthread_create(&thread, NULL, serve_listener, &stop[0]);
    ck_assert_ptr_null(stranger(wrong, sizeof wrong));
    ck_assert_ptr_null(stranger(NULL, 0));
    ck_assert_int_eq(write(stop[1], "x", 1), 1);
    pthread_join(thread, NULL);
    ck_assert_int_eq(rfcntl(listener, F_SETFL, O_NONBLOCK), 0);
    fails(raccept(listener, NULL, NULL), EAGAIN);
    close(stop[0]);
    close(stop[1]);
}
END_TEST

static void *accept_one(void *fd)
{
    *(int *)fd = raccept(listener, NULL, NULL);
    return NULL;
}

/* Sends a message to an rsocket; returns the error that its reader gets. */
static int error_of_message(const struct rs_message *message, uint32_t cut)
{
    const struct rs_hello hello = { .messages = 64, .ring_size = 65536, .ring_address = 4096 };
    uint8_t octets[RS_HELLO_OCTETS], sent[RS_SLOT_OCTETS];
    struct rdma_cm_id *id;
    struct ibv_mr *mr;
    pthread_t thread;
    int fd, error;
    char octet;

    rs_hello_encode(&hello, octets);
    pthread_create(&thread, NULL, accept_one, &fd);
    id = stranger(octets, sizeof octets);
    pthread_join(thread, NULL);
    ck_assert(id && fd >= 0);
    mr = rdma_reg_msgs(id, sent, sizeof sent);
    ck_assert_ptr_nonnull(mr);
    ck_assert_int_eq(rdma_post_send(id, NULL, sent, rs_message_encode(message, sent) - cut, mr, 0),
                     0);
    error = rrecv(fd, &octet, 1, 0) < 0 ? errno : 0;
    ck_assert_int_eq(rclose(fd), 0);
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);
    return error;
}

START_TEST(a_peer_that_breaks_the_protocol_is_cut_off)
{
    const struct rs_message good = { .kind = RS_SMALL,
                                     .length = 1,
                                     .octets = (const uint8_t *)"g" };
    const struct rs_message too_long = { .kind = RS_DATA, .length = UINT32_MAX };
    const struct rs_message took_more = { .kind = RS_CREDIT, .taken_octets = 1 };
    const struct rs_message early_end = { .kind = RS_END };
    const struct rs_message map = { .kind = RS_MAP, .index = 7, .map = { .length = 1 } };

    ck_assert_int_eq(error_of_message(&good, 0), 0);
    ck_assert_int_eq(error_of_message(&too_long, 0), EPROTO);
    ck_assert_int_eq(error_of_message(&took_more, 0), EPROTO);
    ck_assert_int_eq(error_of_message(&early_end, 0), EPROTO);
    ck_assert_int_eq(error_of_message(&map, 0), EPROTO);
    ck_assert_int_eq(error_of_message(&good, 1), EPROTO);
}
END_TEST

/* ---- a peer that vanishes ---- */

static void connect_and_stay(int port_from)
{
    place = (struct sockaddr_in){ .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (read(port_from, &place.sin_port, 2) == 2) {
        int fd = rsocket(AF_INET, SOCK_STREAM, 0);

        if (!rconnect(fd, (struct sockaddr *)&place, sizeof place) && rsend(fd, "here", 4, 0) == 4)
            pause();
    }
    _exit(1);
}

START_TEST(a_peer_that_is_killed_is_noticed)
{
    int port[2];
    pid_t peer;
    char octet;

    ck_assert_int_eq(pipe(port), 0);
    peer = fork(); /* before this process has an rsocket */
    if (!peer)
        connect_and_stay(port[0]);
    listener = new_listener(1);
    ck_assert_int_eq(write(port[1], &place.sin_port, 2), 2);
    server = raccept(listener, NULL, NULL);
    ck_assert_int_ge(server, 0);
    expect(server, "here", 4);
    ck_assert_int_eq(kill(peer, SIGKILL), 0);
    fails(rrecv(server, &octet, 1, 0), ECONNRESET);
    ck_assert_int_eq(waitpid(peer, NULL, 0), peer);
    ck_assert_int_eq(rclose(server), 0);
    ck_assert_int_eq(rclose(listener), 0);
    close(port[0]);
    close(port[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rsockets");
    TCase *pair = tc_case(suite, "pair", set_up, tear_down);
    TCase *alone = tc_case(suite, "processes", NULL, NULL);

    tc_add_tests(pair, both_ends_read_and_write_at_the_same_time,
                 few_messages_and_small_rings_are_enough, lists_of_buffers_peeks_and_whole_reads,
                 who_must_not_wait_is_told, poll_watches_rsockets_and_others,
                 select_watches_rsockets_and_others, select_waits_for_ages,
                 two_threads_wait_for_one_rsocket, half_of_a_connection_ends,
                 no_hang_up_is_reported_before_all_is_read, what_was_sent_before_a_close_arrives,
                 a_close_does_not_wait_for_calls_of_the_peer, a_close_without_linger_resets,
                 a_close_wakes_a_reader, mapped_memory_is_written_before_what_follows,
                 options_are_kept_and_inherited, what_is_not_there_is_refused,
                 the_child_of_a_fork_is_refused, a_poll_in_the_child_takes_no_wake_up_of_the_parent,
                 an_accept_that_fails_rejects_its_request, a_stranger_is_rejected,
                 a_peer_that_breaks_the_protocol_is_cut_off);
    tc_add_tests(alone, a_peer_that_is_killed_is_noticed);
    return tc_main(suite);
}
