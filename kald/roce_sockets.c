/* SPDX-License-Identifier: BSD-3-Clause */
/* kald: the sockets of an address of RoCE over UDP. */
#include "roce.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "providers/software/roce/net/steer.h"

#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* Of the socket for QP 1, octets of its buffer. */
#define GSI_ROOM (1 << 20)
/* Datagrams that are dropped at most when a slot is left. */
#define STALE_MAX 100000

static bool set(int fd, int level, int name, int value)
{
    return !setsockopt(fd, level, name, &value, sizeof(value));
}

static socklen_t name_of(const struct roce_address *address, struct sockaddr_storage *name)
{
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(GID_UDP_PORT) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6,
                                .sin6_port = htons(GID_UDP_PORT),
                                .sin6_scope_id = address->scope };

    memset(name, 0, sizeof(*name));
    if (gid_is_ipv4(address->gid)) {
        memcpy(&four.sin_addr, address->gid + GID_IPV4, sizeof(four.sin_addr));
        memcpy(name, &four, sizeof(four));
        return sizeof(four);
    }
    memcpy(&six.sin6_addr, address->gid, sizeof(six.sin6_addr));
    memcpy(name, &six, sizeof(six));
    return sizeof(six);
}

/* The first is bound alone, which the kernel refuses if anybody has the port. -1: errno. */
static int bind_one(const struct roce_address *address, bool first)
{
    const bool ipv4 = gid_is_ipv4(address->gid);
    struct sockaddr_storage name;
    socklen_t length = name_of(address, &name);
    int fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

    if (fd < 0)
        return -1;
    set(fd, SOL_SOCKET, SO_RCVBUF, 1);
    if ((ipv4 || set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1)) &&
        (first || set(fd, SOL_SOCKET, SO_REUSEPORT, 1)) &&
        !bind(fd, (const struct sockaddr *)&name, length) &&
        (!first || set(fd, SOL_SOCKET, SO_REUSEPORT, 1)))
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool attach_choice(int fd)
{
    struct sock_filter filter[STEER_PROGRAM_MAX];
    struct sock_fprog program = { .filter = filter };

    program.len = (unsigned short)steer_program(filter, KALD_SLOTS);
    return !setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
}

static bool lock_to_slot(int fd, uint32_t slot)
{
    struct sock_filter filter[STEER_PROGRAM_MAX];
    struct sock_fprog program = { .filter = filter };

    program.len = (unsigned short)steer_filter(filter, KALD_SLOTS, slot);
    return !setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) &&
           set(fd, SOL_SOCKET, SO_LOCK_FILTER, 1);
}

static bool bind_all(struct roce_address *address)
{
    for (uint32_t i = 0; i < KALD_SLOTS; i++) {
        address->fds[i] = bind_one(address, !i);
        if (address->fds[i] < 0)
            return false;
        /* The group is there since the second; a lock keeps its program from changes, too */
        if (i == 1 && !attach_choice(address->fds[0]))
            return false;
    }
    for (uint32_t i = 0; i < KALD_SLOTS; i++)
        if (!lock_to_slot(address->fds[i], i))
            return false;
    address->gsi.fd = bind_one(address, false);
    return address->gsi.fd >= 0;
}

int kald_roce_bind(struct roce_address *address)
{
    int error;

    address->gsi.fd = -1;
    for (uint32_t i = 0; i < KALD_SLOTS; i++)
        address->fds[i] = -1;
    if (bind_all(address)) {
        set(address->gsi.fd, SOL_SOCKET, SO_RCVBUF, GSI_ROOM);
        set(address->gsi.fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
        return 0;
    }
    error = errno;
    kald_roce_unbind(address);
    return error;
}

void kald_roce_unbind(struct roce_address *address)
{
    for (uint32_t i = 0; i < KALD_SLOTS; i++)
        if (address->fds[i] >= 0)
            close(address->fds[i]);
    if (address->gsi.fd >= 0)
        close(address->gsi.fd);
}

void kald_roce_mend(const struct roce_address *address)
{
    attach_choice(address->gsi.fd);
}

void kald_roce_idle(int fd)
{
    const struct sockaddr none = { .sa_family = AF_UNSPEC };
    uint8_t octet;

    connect(fd, &none, sizeof(none));
    set(fd, IPPROTO_UDP, UDP_GRO, 0);
    set(fd, SOL_SOCKET, SO_RCVBUF, 1);
    for (int i = 0; i < STALE_MAX; i++)
        if (recv(fd, &octet, sizeof(octet), MSG_DONTWAIT) < 0 && errno == EAGAIN)
            return;
}
