/* SPDX-License-Identifier: BSD-3-Clause */
/* Two connected rsockets in this process. */
#include "rsockets_pair.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

int listener, client, server;
struct sockaddr_in place;

int new_listener(int backlog)
{
    socklen_t length = sizeof(place);
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);

    ck_assert_int_ge(fd, 0);
    place = (struct sockaddr_in){ .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    ck_assert_int_eq(rbind(fd, (struct sockaddr *)&place, sizeof(place)), 0);
    ck_assert_int_eq(rlisten(fd, backlog), 0);
    ck_assert_int_eq(rgetsockname(fd, (struct sockaddr *)&place, &length), 0);
    ck_assert_uint_ne(place.sin_port, 0);
    return fd;
}

short await(int fd, short events)
{
    struct pollfd one = { .fd = fd, .events = events };

    ck_assert_int_eq(rpoll(&one, 1, (int)tc_timeout_ms(WAIT_MS)), 1);
    return one.revents;
}

int begin_connect(void)
{
    int fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    ck_assert_int_ge(fd, 0);
    fails(rconnect(fd, (struct sockaddr *)&place, sizeof(place)), EINPROGRESS);
    return fd;
}

int error_of(int fd)
{
    socklen_t length = sizeof(int);
    int error = -1;

    ck_assert_int_eq(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    return error;
}

void join(void)
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

void close_both(void)
{
    pthread_t other;

    ck_assert_int_eq(pthread_create(&other, NULL, close_one, &client), 0);
    ck_assert_int_eq(rclose(server), 0);
    pthread_join(other, NULL);
}

void set_up(void)
{
    listener = new_listener(4);
    join();
}

void tear_down(void)
{
    close_both();
    ck_assert_int_eq(rclose(listener), 0);
}

void give(int fd, const void *octets, size_t length)
{
    ck_assert_int_eq(rsend(fd, octets, length, 0), (ssize_t)length);
}

void expect(int fd, const void *octets, size_t length)
{
    uint8_t *got = malloc(length);

    ck_assert_ptr_nonnull(got);
    ck_assert_int_eq(rrecv(fd, got, length, MSG_WAITALL), (ssize_t)length);
    ck_assert_mem_eq(got, octets, length);
    free(got);
}

void expect_end(int fd)
{
    char octet;

    ck_assert_int_eq(rrecv(fd, &octet, 1, 0), 0);
}

/* ---- octets ---- */

#define PART 100000u

static uint8_t octet_at(const struct flow *flow, size_t index)
{
    return (uint8_t)((index * 31 + flow->salt) ^ (index >> 8));
}

void *write_flow(void *arg)
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

void *read_flow(void *arg)
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
