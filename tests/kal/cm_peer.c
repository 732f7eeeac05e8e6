/* SPDX-License-Identifier: BSD-3-Clause */
/* The peers of the connection manager's tests: plain sockets, frames assembled by hand,
 * addresses. */
#include "cm_fake.h"

#include "base/be.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <utlist.h>

int peer_connect(const struct sockaddr_storage *address)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), error;

    ck_assert_int_ge(fd, 0);
    if (connect(fd, (const struct sockaddr *)address,
                kal_address_length((const struct sockaddr *)address))) {
        error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

int peer_listen(int family, struct sockaddr_storage *bound)
{
    struct sockaddr_storage any = address_of(family == AF_INET ? "127.0.0.1" : "::1", 0);
    socklen_t length = sizeof(*bound);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&any, kal_address_length((struct sockaddr *)&any)),
                     0);
    ck_assert_int_eq(listen(fd, 64), 0);
    memset(bound, 0, sizeof(*bound));
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)bound, &length), 0);
    return fd;
}

static void await(int fd, short events)
{
    uint64_t deadline = tc_deadline(10000);
    struct pollfd p = { .fd = fd, .events = events };

    while (poll(&p, 1, 0) == 0) {
        ck_assert_msg(!tc_expired(deadline), "no sign of life\nlog:\n%s", fake_log_text());
        fake_pump(fd, events, deadline);
    }
}

int peer_accept(int fd)
{
    int peer;

    await(fd, POLLIN);
    peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(peer, 0);
    return peer;
}

void peer_send(int fd, const void *octets, size_t length)
{
    ck_assert_int_eq(send(fd, octets, length, MSG_NOSIGNAL), (ssize_t)length);
}

void peer_read(int fd, void *octets, size_t length)
{
    uint8_t *to = octets;
    ssize_t n;

    while (length) {
        await(fd, POLLIN);
        n = recv(fd, to, length, MSG_DONTWAIT);
        ck_assert_msg(n > 0, "read %zd, errno %d, %zu missing\nlog:\n%s", n, errno, length,
                      fake_log_text());
        to += n;
        length -= (size_t)n;
    }
}

char peer_end(int fd)
{
    char octet;
    ssize_t n;

    await(fd, POLLIN);
    n = recv(fd, &octet, 1, MSG_DONTWAIT);
    if (n < 0) {
        ck_assert_int_eq(errno, ECONNRESET);
        return 'R';
    }
    return n ? 'D' : 'F';
}

bool peer_quiet(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN | POLLRDHUP };

    return poll(&p, 1, 0) == 0;
}

static size_t frame(uint8_t *out, const char *key, uint8_t flags, uint8_t rev, uint16_t ird,
                    uint16_t ord, const void *pd, size_t length)
{
    size_t word = flags & F_S ? 4 : 0;

    memcpy(out, key, 16);
    out[16] = flags;
    out[17] = rev;
    be_put16(out + 18, (uint16_t)(length + word));
    if (word) {
        be_put16(out + 20, ird);
        be_put16(out + 22, ord);
    }
    if (length)
        memcpy(out + 20 + word, pd, length);
    return 20 + word + length;
}

size_t frame_request(uint8_t *out, uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord,
                     const void *pd, size_t length)
{
    return frame(out, "MPA ID Req Frame", flags, rev, ird, ord, pd, length);
}

size_t frame_reply(uint8_t *out, uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord,
                   const void *pd, size_t length)
{
    return frame(out, "MPA ID Rep Frame", flags, rev, ird, ord, pd, length);
}

struct sockaddr_storage address_of(const char *text, uint16_t port)
{
    struct sockaddr_storage address = { 0 };
    struct sockaddr_in *four = (struct sockaddr_in *)&address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address;
    char plain[100];
    char *scope;

    snprintf(plain, sizeof(plain), "%s", text);
    scope = strchr(plain, '%');
    if (scope)
        *scope++ = '\0';
    if (inet_pton(AF_INET, plain, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        return address;
    }
    ck_assert_int_eq(inet_pton(AF_INET6, plain, &six->sin6_addr), 1);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    six->sin6_scope_id = scope ? if_nametoindex(scope) : 0;
    return address;
}

uint16_t port_of(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port
                                               : ((const struct sockaddr_in6 *)address)->sin6_port);
}
