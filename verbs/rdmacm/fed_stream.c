/* SPDX-License-Identifier: BSD-3-Clause
 * The sockets that a program has accepted and gives to a listener: what is asked of them here. */
#include "listen.h"

#include <errno.h>

int rcm_fed_stream_local(int fd, union address *local)
{
    union address bound = { .any.sa_family = AF_UNSPEC };
    socklen_t length = sizeof(bound);

    if (getsockname(fd, &bound.any, &length))
        return errno;
    if (bound.any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&bound.six.sin6_addr)) {
        struct sockaddr_in four = { .sin_family = AF_INET };

        memcpy(&four.sin_addr, &bound.six.sin6_addr.s6_addr[12], sizeof(four.sin_addr));
        bound.four = four;
    }
    *local = bound;
    return 0;
}

void rcm_fed_stream_end(int fd)
{
    shutdown(fd, SHUT_RDWR);
}
