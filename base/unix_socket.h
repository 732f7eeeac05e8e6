/* SPDX-License-Identifier: BSD-3-Clause */
/* Unix sockets whose other end may be another user's. */
#ifndef BASE_UNIX_SOCKET_H
#define BASE_UNIX_SOCKET_H

#include <stdbool.h>
#include <sys/socket.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

/*
 * Nobody can send this socket, or those that it accepts, a descriptor: the sender gets EPERM. One
 * that is not taken is closed by whoever receives, or closes the socket; and to close a connected
 * TCP socket with SO_LINGER takes as long as its owner has set. Since Linux 6.16; before, no effect
 * and false.
 */
static inline bool unix_refuse_descriptors(int fd)
{
    return !setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &(int){ 0 }, sizeof(int));
}

#endif
