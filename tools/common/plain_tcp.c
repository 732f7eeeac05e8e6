/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Plain TCP for comparisons. Sockets do not block; waiting is poll() in slices, so that a signal is
 * noticed in time.
 */
#include "tools/common/plain_tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/common/adapter.h"
#include "tools/common/tool.h"
#include "tools/common/wire.h"

#define SLICE_MS 200
#define BUSY_US  1000000u /* time of polling without sleep for a peer that moves nothing */

/* 1 ready, -1 with errno. limit: in tool_now() time. */
static int await(int socket, short events, uint64_t limit)
{
    struct pollfd item = { .fd = socket, .events = events };

    for (;;) {
        uint64_t now = tool_now();
        uint64_t left = limit > now ? (limit - now) / 1000000 + 1 : 0;
        int ready;

        if (atomic_load(&tool_stop))
            errno = ECANCELED;
        else if (limit <= now)
            errno = ETIMEDOUT;
        else {
            ready = poll(&item, 1, left < SLICE_MS ? (int)left : SLICE_MS);
            if (ready > 0)
                return 1;
            if (ready == 0 || errno == EINTR)
                continue;
        }
        return -1;
    }
}

static uint64_t limit_of(uint64_t timeout_us)
{
    uint64_t now = tool_now();

    return timeout_us > (UINT64_MAX - now) / 1000 ? UINT64_MAX : now + timeout_us * 1000;
}

int plain_listen(const it_net_addr_t *address, struct plain_offer *offer)
{
    struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT };
    struct sockaddr_in any4 = { .sin_family = AF_INET };
    socklen_t length = sizeof(any);
    bool four = address && address->addr_type == IT_IPV4;
    int off = 0, listener = -1;

    if (four)
        any4.sin_addr = address->addr.ipv4;
    else if (address)
        any.sin6_addr = address->addr.ipv6;
    if (!four)
        listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener >= 0) {
        setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
        if (bind(listener, (struct sockaddr *)&any, sizeof(any)))
            goto failed;
    } else {
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (listener < 0 || bind(listener, (struct sockaddr *)&any4, sizeof(any4)))
            goto failed;
    }
    if (listen(listener, 4) || getsockname(listener, (struct sockaddr *)&any, &length) ||
        getrandom(&offer->token, sizeof(offer->token), 0) != sizeof(offer->token))
        goto failed;
    offer->port = ntohs(any.sin6_port); /* same place as sin_port */
    return listener;
failed:
    tool_error("cannot open a TCP port for the comparison: %s", strerror(errno));
    if (listener >= 0)
        close(listener);
    return -1;
}

static void no_delay(int socket)
{
    int on = 1;

    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

int plain_accept(int listener, uint64_t token, uint64_t timeout_us)
{
    uint64_t limit = limit_of(timeout_us);
    uint8_t shown[8];
    int client;

    while (await(listener, POLLIN, limit) > 0) {
        struct wire wire = wire_over(shown, sizeof(shown));

        client = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (client < 0)
            continue;
        /* A peer that sends nothing delays others for one second only. */
        if (plain_read(client, shown, sizeof(shown), false, 1000000) == 1 &&
            wire_get(&wire, 8) == token) {
            no_delay(client);
            return client;
        }
        close(client);
    }
    if (errno != ECANCELED)
        tool_error("no TCP connection for the comparison: %s", strerror(errno));
    return -1;
}

int plain_connect(const char *host, const struct plain_offer *offer, uint64_t timeout_us)
{
    struct addrinfo *list = address_resolve(host, offer->port);
    int client = -1, error = 0;
    uint8_t shown[8];
    struct wire wire = wire_over(shown, sizeof(shown));

    if (!list)
        return -1;
    for (struct addrinfo *at = list; at && client < 0; at = at->ai_next) {
        socklen_t length = sizeof(error);

        client = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (client < 0) {
            error = errno;
            continue;
        }
        error = connect(client, at->ai_addr, at->ai_addrlen) ? errno : 0;
        if (error == EINPROGRESS) {
            error = await(client, POLLOUT, limit_of(timeout_us)) > 0 ? 0 : errno;
            if (!error && getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length))
                error = errno;
        }
        if (error) {
            close(client);
            client = -1;
        }
    }
    freeaddrinfo(list);
    if (client >= 0) {
        no_delay(client);
        wire_put(&wire, offer->token, 8);
        if (plain_write(client, shown, sizeof(shown), false, timeout_us) == 1)
            return client;
        error = errno;
        close(client);
    }
    tool_error("cannot connect to %s port %u by TCP for the comparison: %s", host, offer->port,
               strerror(error));
    return -1;
}

int plain_wait(int socket, uint64_t timeout_us)
{
    struct pollfd item = { .fd = socket, .events = POLLIN };

    if (!timeout_us)
        return poll(&item, 1, 0) > 0;
    if (await(socket, POLLIN, limit_of(timeout_us)) > 0)
        return 1;
    return errno == ETIMEDOUT ? 0 : -1;
}

/* No octets could be moved: waits. false: time is over or a signal came; errno has the reason. */
static bool look_again(int socket, short events, bool busy, uint64_t limit)
{
    if (!busy)
        return await(socket, events, limit) > 0;
    errno = atomic_load(&tool_stop) ? ECANCELED : ETIMEDOUT;
    return !atomic_load(&tool_stop) && tool_now() < limit;
}

int plain_read(int socket, void *data, size_t length, bool busy, uint64_t timeout_us)
{
    uint64_t limit = 0, doze = 0;
    unsigned turns = 0;
    size_t done = 0;

    while (done < length) {
        ssize_t got = recv(socket, (char *)data + done, length - done, 0);

        if (got > 0) {
            done += (size_t)got;
            continue;
        }
        if (got == 0) {
            errno = ECONNRESET;
            return done ? -1 : 0;
        }
        if (errno != EAGAIN && errno != EINTR)
            return -1;
        if (busy && ++turns % 256)
            continue;
        if (!limit) {
            limit = limit_of(timeout_us);
            doze = limit_of(BUSY_US);
        }
        if (!look_again(socket, POLLIN, busy && tool_now() < doze, limit))
            return -1;
    }
    return 1;
}

int plain_write(int socket, const void *data, size_t length, bool busy, uint64_t timeout_us)
{
    uint64_t limit = 0, doze = 0;
    size_t done = 0;

    while (done < length) {
        ssize_t put = send(socket, (const char *)data + done, length - done, MSG_NOSIGNAL);

        if (put >= 0) {
            done += (size_t)put;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR)
            return -1;
        if (!limit) {
            limit = limit_of(timeout_us);
            doze = limit_of(BUSY_US);
        }
        if (!look_again(socket, POLLOUT, busy && tool_now() < doze, limit))
            return -1;
    }
    return 1;
}
