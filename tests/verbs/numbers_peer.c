/* SPDX-License-Identifier: BSD-3-Clause */
/* See numbers_peer.h. */
#include "numbers_peer.h"

#include "numbers_ends.h"

#include <netinet/in.h>
#include <poll.h>

void need_ipv4(void)
{
    static const uint8_t prefix[12] = { [10] = 0xff, 0xff };

    if (memcmp(gid.raw, prefix, sizeof(prefix)) != 0)
        tc_skip("GID 0 is not of IPv4");
}

int try_ask(uint32_t qpn, const struct hello *hello)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)(qpn >> 8)) };
    uint8_t frame[MPA_HEAD + HELLO_OCTETS] = "MPA ID Req Frame";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), error;

    memcpy(&to.sin_addr, gid.raw + 12, 4);
    frame[16] = 0x40;
    frame[17] = 1;
    frame[18] = 0;
    frame[19] = HELLO_OCTETS;
    hello_encode(hello, frame + MPA_HEAD);
    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0 &&
        send(fd, frame, sizeof(frame), MSG_NOSIGNAL) == sizeof(frame))
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

int ask(uint32_t qpn, const struct hello *hello)
{
    int fd = try_ask(qpn, hello);

    ck_assert_int_ge(fd, 0);
    return fd;
}

struct hello hello_for(uint32_t qpn, uint32_t own)
{
    struct hello hello = { .own_qpn = own, .wanted_qpn = qpn };

    memcpy(hello.own_gid, gid.raw, sizeof(hello.own_gid));
    return hello;
}

size_t answer(int fd, uint8_t *octets, size_t room)
{
    uint64_t deadline = tc_deadline(DEADLINE);
    size_t got = 0;

    for (;;) {
        ssize_t more;

        ck_assert_msg(tc_wait_fd(fd, POLLIN, deadline), "neither an answer nor an end");
        more = recv(fd, octets + got, room - got, 0);
        if (more > 0) {
            got += (size_t)more;
            continue;
        }
        errno = more ? errno : 0;
        return got;
    }
}
