/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sets the congestion control of every TCP socket of the process: see congestion.h.
 */
#include "congestion.h"
#include "peer.h"

#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *chosen = "";

void congestion_use(const char *name)
{
    chosen = name;
}

__attribute__((visibility("default"))) int socket(int domain, int type, int protocol)
{
    int fd = (int)syscall(SYS_socket, domain, type, protocol);
    bool tcp = (domain == AF_INET || domain == AF_INET6) &&
               (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM;

    if (fd >= 0 && tcp && *chosen &&
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, chosen, (socklen_t)strlen(chosen)))
        peer_die_errno(chosen);
    return fd;
}
