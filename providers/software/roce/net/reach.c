/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is anybody there? An ICMP error for a packet of a port comes to one of the address's sockets,
 * which the kernel picks by hash: mostly another process's. So the question has a socket of its
 * own, which is connected and hears its own errors.
 */
#include "port.h"
#include "sockets.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Empty: no packet of RoCE, which any receiver drops. */
int net_reach_open(const struct net_port *port, const struct net_path *path)
{
    const socklen_t to_len = port->ipv6 ? sizeof(path->to.ipv6) : sizeof(path->to.ipv4);
    union socket_address own;
    socklen_t own_len = socket_address_set(&own, &port->key, 0);
    int fd = socket(own.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

    if (fd < 0)
        return -1;
    if (!bind(fd, &own.any, own_len) && !connect(fd, &path->to.any, to_len) &&
        send(fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

int net_reach_error(int fd)
{
    int error = 0;
    socklen_t size = sizeof(error);

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) ? 0 : error;
}
