/* SPDX-License-Identifier: BSD-3-Clause
 * A TCP socket that is its own peer. */
#include "own_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

static socklen_t length_of(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

int own_socket(const struct sockaddr_storage *own)
{
    struct sockaddr_storage address = *own;
    socklen_t length = length_of(&address);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP), error;

    if (fd < 0)
        return -1;
    if (bind(fd, (const struct sockaddr *)&address, length) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &length) == 0 &&
        connect(fd, (const struct sockaddr *)&address, length) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}
