/* SPDX-License-Identifier: BSD-3-Clause */
#include "sockets.h"

#include "steer.h"

#include "base/compiler.h"
#include "providers/software/roce/net/net.h"

#include <errno.h>
#include <linux/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#ifndef IPV6_FLOWINFO_SEND
#define IPV6_FLOWINFO_SEND 33
#endif

/* Packets that are dropped at most when a slot is claimed: as many as fit its buffer. */
#define STALE_MAX 100000

/* ---- addresses ------------------------------------------------------------------------------- */

socklen_t socket_address_set(union socket_address *address, const struct share_key *key,
                             uint16_t udp_port)
{
    memset(address, 0, sizeof(*address));
    if (gid_is_ipv4(key->gid)) {
        address->ipv4.sin_family = AF_INET;
        address->ipv4.sin_port = htons(udp_port);
        memcpy(&address->ipv4.sin_addr, key->gid + GID_IPV4, 4);
        return sizeof(address->ipv4);
    }
    address->ipv6.sin6_family = AF_INET6;
    address->ipv6.sin6_port = htons(udp_port);
    address->ipv6.sin6_scope_id = key->scope;
    memcpy(&address->ipv6.sin6_addr, key->gid, GID_LEN);
    return sizeof(address->ipv6);
}

bool socket_address_gid(const union socket_address *address, socklen_t len,
                        uint8_t gid[static GID_LEN])
{
    if (len >= sizeof(address->ipv4) && address->any.sa_family == AF_INET) {
        uint8_t octets[4];

        memcpy(octets, &address->ipv4.sin_addr, sizeof(octets));
        gid_put_ipv4(gid, octets);
        return true;
    }
    if (len < sizeof(address->ipv6) || address->any.sa_family != AF_INET6)
        return false;
    memcpy(gid, &address->ipv6.sin6_addr, GID_LEN);
    return true;
}

/* ---- options --------------------------------------------------------------------------------- */

static bool set(int fd, int level, int name, int value)
{
    return !setsockopt(fd, level, name, &value, sizeof(value));
}

static int open_socket(const struct share_key *key)
{
    bool ipv4 = gid_is_ipv4(key->gid);
    int fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd >= 0 && !ipv4)
        set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    return fd;
}

/* Those without which nothing works, then those that are missed only where they matter. */
static bool set_ipv4(int fd)
{
    /* P-060: the identification is 0 and DF set */
    if (!set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO))
        return false;
    set(fd, IPPROTO_IP, IP_RECVTOS, 1);
    set(fd, IPPROTO_IP, IP_RECVTTL, 0);
    set(fd, IPPROTO_IP, IP_TOS, NET_TRAFFIC_CLASS_DEFAULT);
    set(fd, IPPROTO_IP, IP_TTL, NET_HOP_LIMIT_DEFAULT);
    set(fd, IPPROTO_IP, IP_MULTICAST_TTL, NET_HOP_LIMIT_DEFAULT);
    return true;
}

static bool set_ipv6(int fd)
{
    set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    /* P-051: adapters and rxe send without a checksum */
    set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
    set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 0);
    set(fd, IPPROTO_IPV6, IPV6_TCLASS, NET_TRAFFIC_CLASS_DEFAULT);
    set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, NET_HOP_LIMIT_DEFAULT);
    set(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, NET_HOP_LIMIT_DEFAULT);
    set(fd, IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1);
    return true;
}

static uint32_t buffer_of(int fd)
{
    int octets = 0;
    socklen_t size = sizeof(octets);

    return getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &octets, &size) || octets < 0 ? 0
                                                                               : (uint32_t)octets;
}

static void drop_stale(int fd)
{
    uint8_t octet;

    for (int i = 0; i < STALE_MAX; i++)
        if (recv(fd, &octet, sizeof(octet), MSG_DONTWAIT) < 0 && errno == EAGAIN)
            return;
}

bool socket_claim(int fd, bool ipv6, bool gro, uint32_t *receive_octets, bool *counts_overflow)
{
    set(fd, SOL_SOCKET, SO_RCVBUF, (int)*receive_octets);
    set(fd, SOL_SOCKET, SO_SNDBUF, (int)*receive_octets);
    *receive_octets = buffer_of(fd);
    *counts_overflow = set(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    set(fd, IPPROTO_UDP, UDP_GRO, gro);
    if (ipv6)
        set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
    else
        set(fd, IPPROTO_IP, IP_RECVERR, 1);
    if (!(ipv6 ? set_ipv6(fd) : set_ipv4(fd)))
        return false;
    drop_stale(fd);
    return true;
}

bool socket_share_group(int fd, bool ipv6)
{
    set(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_MULTICAST_ALL : IP_MULTICAST_ALL, 0);
    if (ipv6)
        set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    return set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
}

void socket_send_to_groups_by(int fd, bool ipv6, uint32_t interface)
{
    const struct ip_mreqn way = { .imr_ifindex = (int)interface };

    if (ipv6)
        set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)interface);
    else
        setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &way, sizeof(way));
}

void socket_release(int fd)
{
    set(fd, SOL_SOCKET, SO_RCVBUF, 1);
    drop_stale(fd);
}

/* ---- a group --------------------------------------------------------------------------------- */

static enum ri_status refusal(int error, const char *what, struct net_why *why)
{
    switch (error) {
    case EADDRINUSE: return RI_ERR_ADDRESS_IN_USE;
    case EADDRNOTAVAIL: net_say(why, "this host has no such address"); return RI_ERR_UNREACHABLE;
    case EMFILE:
    case ENFILE:
        net_say(why, "descriptors are short (ulimit -n): an address takes one for each slot");
        return RI_ERR_NO_RESOURCES;
    case EACCES:
    case EPERM: net_say(why, "%s is not allowed here", what); return RI_ERR_PERMISSION;
    case ENOPROTOOPT:
    case EOPNOTSUPP: net_say(why, "the kernel does not have %s", what); return RI_ERR_NOT_SUPPORTED;
    default: net_say(why, "%s: %s", what, strerror(error)); return RI_ERR_NO_RESOURCES;
    }
}

static bool attach_program(int fd, uint32_t slots)
{
    struct sock_filter filter[STEER_PROGRAM_MAX];
    struct sock_fprog program = { .filter = filter };

    program.len = (unsigned short)steer_program(filter, slots);
    return !setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
}

/* An unclaimed slot keeps almost nothing of what is sent to it. */
static const char *bind_one(const struct share_key *key, uint16_t udp_port, bool first, int *fd)
{
    union socket_address address;
    socklen_t len = socket_address_set(&address, key, udp_port);

    *fd = open_socket(key);
    if (*fd < 0)
        return "a UDP socket";
    set(*fd, SOL_SOCKET, SO_RCVBUF, 1);
    if (!first && !set(*fd, SOL_SOCKET, SO_REUSEPORT, 1))
        return "SO_REUSEPORT";
    if (bind(*fd, &address.any, len))
        return "to bind a UDP port";
    if (first && !set(*fd, SOL_SOCKET, SO_REUSEPORT, 1))
        return "SO_REUSEPORT";
    return NULL;
}

static const char *bind_all(const struct share_key *key, uint16_t udp_port, uint32_t slots,
                            int *fds, uint32_t *made)
{
    const char *failed;

    for (*made = 0; *made <= slots; ++*made) {
        int *fd = &fds[*made];

        failed = bind_one(key, udp_port, !*made, fd);
        if (failed) {
            *made += *fd >= 0;
            return failed;
        }
        /* The group is there since the second socket */
        if (*made == 1 && !attach_program(fds[0], slots)) {
            ++*made;
            return "SO_ATTACH_REUSEPORT_CBPF";
        }
    }
    return NULL;
}

/* The one that all read: its options stay as they are set here. */
static bool set_gsi(int fd, bool ipv6)
{
    set(fd, SOL_SOCKET, SO_RCVBUF, 1 << 20);
    return ipv6 ? set_ipv6(fd) : set_ipv4(fd);
}

enum ri_status group_make(const struct share_key *key, uint16_t udp_port, uint32_t slots, int *fds,
                          struct net_why *why)
{
    uint32_t made;
    const char *failed = bind_all(key, udp_port, slots, fds, &made);
    int error = errno;

    if (!failed && !set_gsi(fds[slots], !gid_is_ipv4(key->gid))) {
        failed = "IP_MTU_DISCOVER";
        error = errno;
    }
    if (!failed)
        return RI_OK;
    while (made)
        close(fds[--made]);
    return refusal(error, failed, why);
}

bool group_check(const struct share_key *key, uint16_t udp_port, const int *fds, uint32_t count)
{
    union socket_address want, have;
    socklen_t len = socket_address_set(&want, key, udp_port);

    for (uint32_t i = 0; i < count; i++) {
        socklen_t size = sizeof(have);

        memset(&have, 0, sizeof(have));
        if (getsockname(fds[i], &have.any, &size) || size != len || memcmp(&have, &want, len))
            return false;
    }
    return true;
}

/* ---- probes ---------------------------------------------------------------------------------- */

#define PROBE_SEGMENT 64u
#define PROBE_TAIL    20u

/* Bound to the address, any port. -1: no. */
static int probe_socket(const struct share_key *key, union socket_address *address, socklen_t *len)
{
    int fd = open_socket(key);

    *len = socket_address_set(address, key, 0);
    if (fd >= 0 && !bind(fd, &address->any, *len) && !getsockname(fd, &address->any, len))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool send_segments(int fd, const union socket_address *to, socklen_t len)
{
    uint8_t octets[2 * PROBE_SEGMENT + PROBE_TAIL] = { 0 };
    struct iovec iov = { octets, sizeof(octets) };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(uint16_t))];
    } control = { .head = { .cmsg_len = CMSG_LEN(sizeof(uint16_t)),
                            .cmsg_level = IPPROTO_UDP,
                            .cmsg_type = UDP_SEGMENT } };
    const uint16_t segment = PROBE_SEGMENT;
    struct msghdr message = { .msg_name = (void *)(uintptr_t)to,
                              .msg_namelen = len,
                              .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = &control,
                              .msg_controllen = sizeof(control) };

    memcpy(CMSG_DATA(&control.head), &segment, sizeof(segment));
    return sendmsg(fd, &message, MSG_DONTWAIT) == sizeof(octets);
}

/* The loopback delivers within the call that sends. */
static bool receives_cut(int fd)
{
    uint8_t octets[256];

    return recv(fd, octets, sizeof(octets), MSG_DONTWAIT) == PROBE_SEGMENT &&
           recv(fd, octets, sizeof(octets), MSG_DONTWAIT) == PROBE_SEGMENT &&
           recv(fd, octets, sizeof(octets), MSG_DONTWAIT) == PROBE_TAIL;
}

static bool receives_merged(int fd)
{
    uint8_t octets[256];
    struct iovec iov = { octets, sizeof(octets) };
    union {
        struct cmsghdr head;
        char room[64];
    } control;
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
    };
    struct cmsghdr *at;
    int segment;

    if (recvmsg(fd, &message, MSG_DONTWAIT) != 2 * PROBE_SEGMENT + PROBE_TAIL)
        return false;
    at = CMSG_FIRSTHDR(&message);
    if (!at || at->cmsg_level != IPPROTO_UDP || at->cmsg_type != UDP_GRO ||
        at->cmsg_len < CMSG_LEN(sizeof(segment)))
        return false;
    memcpy(&segment, CMSG_DATA(at), sizeof(segment));
    return segment == PROBE_SEGMENT;
}

/* GRO is tried with what was sent in segments: where these do not work, it is left off. */
void socket_probe(const struct share_key *key, struct socket_abilities *abilities)
{
    union socket_address address;
    socklen_t len;
    int fd = probe_socket(key, &address, &len);

    *abilities = (struct socket_abilities){ 0 };
    if (fd < 0)
        return;
    abilities->segments = send_segments(fd, &address, len) && receives_cut(fd);
    if (abilities->segments && set(fd, IPPROTO_UDP, UDP_GRO, 1))
        abilities->gro = send_segments(fd, &address, len) && receives_merged(fd);
    close(fd);
}
