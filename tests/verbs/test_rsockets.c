/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rsockets: the calls of <rdma/rsocket.h>, with both ends in this process: octets, waiting, mapped
 * memory, options.
 */
#include "rsockets_pair.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>

/* ---- the stream ---- */

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
    static const uint8_t block[4096] = { 1, 2, 3 };
    int messages = 16, octets = 4096;

    tear_down();
    listener = new_listener(1);
    ck_assert_int_eq(rsetsockopt(listener, SOL_RDMA, RDMA_RQSIZE, &messages, sizeof(messages)), 0);
    ck_assert_int_eq(rsetsockopt(listener, SOL_RDMA, RDMA_SQSIZE, &messages, sizeof(messages)), 0);
    ck_assert_int_eq(rsetsockopt(listener, SOL_SOCKET, SO_RCVBUF, &octets, sizeof(octets)), 0);
    ck_assert_int_eq(rsetsockopt(listener, SOL_SOCKET, SO_SNDBUF, &octets, sizeof(octets)), 0);
    join();
    /* the answer says that all was read: then 4096 octets have room, of which 3096 are in a row */
    give(client, block, 1000);
    expect(server, block, 1000);
    give(server, block, 1);
    expect(client, block, 1);
    give(client, block, sizeof(block));
    expect(server, block, sizeof(block));
    run_flows(tc_count(10) * 20000);
}
END_TEST

START_TEST(lists_of_buffers_peeks_and_whole_reads)
{
    struct iovec out[] = { { "one", 3 }, { "", 0 }, { " and two", 8 } };
    char first[5], second[16] = "", seen[4] = "";
    struct iovec in[] = { { first, sizeof(first) }, { second, 6 } };
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
    while ((done = rsend(client, octets, sizeof(octets), 0)) > 0)
        written += (size_t)done;
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_uint_gt(written, 100000);
    while (read < written) {
        done = rrecv(server, octets, sizeof(octets), 0);
        ck_assert_int_gt(done, 0);
        read += (size_t)done;
    }
    ck_assert_int_eq(await(client, POLLOUT), POLLOUT); /* a CREDIT has come */
    ck_assert_int_gt(rsend(client, octets, sizeof(octets), 0), 0);
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
        give(*(int *)fd, octets, sizeof(octets));
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
        ck_assert_int_eq(rrecv(server, octets, sizeof(octets), MSG_WAITALL), sizeof(octets));
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

/* ---- mapped memory ---- */

START_TEST(mapped_memory_is_written_before_what_follows)
{
    static volatile uint8_t memory[100000];
    static uint8_t octets[100000];
    struct tc_rng rng = tc_rng(9);
    int maps = 1;

    fails(riomap(server, (void *)memory, sizeof(memory), PROT_WRITE, 0, 0), ENOMEM);
    tear_down();
    listener = new_listener(1);
    ck_assert_int_eq(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &maps, sizeof(maps)), 0);
    join();
    tc_fill(&rng, octets, sizeof(octets));
    /* the server keeps a mapping of the client's memory */
    ck_assert_int_eq(riomap(client, (void *)memory, sizeof(memory), PROT_WRITE, 0, 1000), 1000);
    fails(riomap(client, (void *)memory, 10, PROT_WRITE, 0, 5), ENOMEM);
    give(client, "m", 1);
    expect(server, "m", 1);
    ck_assert_uint_eq(riowrite(server, octets, sizeof(octets), 1000, 0), sizeof(octets));
    give(server, "n", 1);
    expect(client, "n", 1);
    ck_assert_mem_eq((void *)memory, octets, sizeof(octets));
    fails((ssize_t)riowrite(server, octets, 1, 999, 0), EINVAL);
    ck_assert_int_eq(riounmap(client, (void *)memory, sizeof(memory)), 0);
    fails(riounmap(client, (void *)memory, sizeof(memory)), EINVAL);
    give(client, "u", 1);
    expect(server, "u", 1);
    fails((ssize_t)riowrite(server, octets, 1, 1000, 0), EINVAL);
}
END_TEST

/* ---- options ---- */

START_TEST(options_are_kept_and_inherited)
{
    int value = 70000, on = 1, got = 0;
    socklen_t length = sizeof(got);
    struct sockaddr_in peer;
    socklen_t size = sizeof(peer);

    ck_assert_int_eq(rsetsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
    ck_assert_int_eq(rgetsockopt(client, IPPROTO_TCP, TCP_NODELAY, &got, &length), 0);
    ck_assert_int_eq(got, 1);
    ck_assert_int_eq(rsetsockopt(listener, SOL_SOCKET, SO_RCVBUF, &value, sizeof(value)), 0);
    close_both();
    join();
    ck_assert_int_eq(rgetsockopt(server, SOL_SOCKET, SO_RCVBUF, &got, &length), 0);
    ck_assert_int_eq(got, value);
    fails(rsetsockopt(server, SOL_RDMA, RDMA_RQSIZE, &value, sizeof(value)), EINVAL);
    fails(rsetsockopt(server, SOL_RDMA, RDMA_ROUTE, &value, sizeof(value)), EOPNOTSUPP);
    fails(rsetsockopt(server, SOL_SOCKET, SO_MARK, &value, sizeof(value)), ENOPROTOOPT);
    ck_assert_int_eq(rgetpeername(client, (struct sockaddr *)&peer, &size), 0);
    ck_assert(peer.sin_port == place.sin_port && peer.sin_addr.s_addr == place.sin_addr.s_addr);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rsockets");
    TCase *pair = tc_case(suite, "pair", set_up, tear_down);

    tc_add_tests(pair, both_ends_read_and_write_at_the_same_time,
                 few_messages_and_small_rings_are_enough, lists_of_buffers_peeks_and_whole_reads,
                 who_must_not_wait_is_told, poll_watches_rsockets_and_others, select_waits_for_ages,
                 select_watches_rsockets_and_others, two_threads_wait_for_one_rsocket,
                 mapped_memory_is_written_before_what_follows, options_are_kept_and_inherited);
    return tc_main(suite);
}
