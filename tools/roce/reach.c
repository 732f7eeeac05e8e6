/* SPDX-License-Identifier: BSD-3-Clause */
#include "reach.h"

#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* Before the next: the kernel's header needs struct timespec. */
#include <time.h>

#include <linux/errqueue.h>

#include "providers/software/roce/codec/icrc.h"
#include "tools/common/tool.h"

/* Of traceroute: mostly closed. */
#define CLOSED_FIRST 33434u
#define CLOSED_PORTS 64u

/* ---- the error queue ------------------------------------------------------------------------- */

static enum reach meaning(const struct sock_extended_err *error)
{
    bool icmp = error->ee_origin == SO_EE_ORIGIN_ICMP;

    switch (error->ee_errno) {
    case EMSGSIZE: return REACH_TOO_LONG;
    case ECONNREFUSED: return REACH_CLOSED;
    case EACCES: return REACH_REFUSED;
    default: break;
    }
    if (icmp && error->ee_type == ICMP_DEST_UNREACH &&
        (error->ee_code == ICMP_PKT_FILTERED || error->ee_code == ICMP_HOST_ANO ||
         error->ee_code == ICMP_NET_ANO))
        return REACH_REFUSED;
    return error->ee_origin == SO_EE_ORIGIN_LOCAL && error->ee_errno == EPERM ? REACH_NOT_ASKED
                                                                              : REACH_NO_HOST;
}

/* The address behind the error: of who sent the ICMP message. */
static void read_offender(const uint8_t *data, size_t len, uint8_t from[static GID_LEN])
{
    struct sockaddr_in6 ipv6;
    struct sockaddr_in ipv4;
    sa_family_t family;
    uint8_t address[4];

    memset(from, 0, GID_LEN);
    if (len < sizeof(family))
        return;
    memcpy(&family, data, sizeof(family));
    if (family == AF_INET && len >= sizeof(ipv4)) {
        memcpy(&ipv4, data, sizeof(ipv4));
        memcpy(address, &ipv4.sin_addr, sizeof(address));
        gid_put_ipv4(from, address);
    } else if (family == AF_INET6 && len >= sizeof(ipv6)) {
        memcpy(&ipv6, data, sizeof(ipv6));
        memcpy(from, &ipv6.sin6_addr, GID_LEN);
    }
}

bool reach_read(const void *control, size_t len, const struct raw_way *way,
                struct reach_answer *answer)
{
    const uint8_t *octets = control;
    struct cmsghdr head;

    for (size_t at = 0; at <= len && len - at >= sizeof(head); at += CMSG_ALIGN(head.cmsg_len)) {
        const uint8_t *data = octets + at + CMSG_LEN(0);
        struct sock_extended_err error;

        memcpy(&head, octets + at, sizeof(head));
        if (head.cmsg_len < CMSG_LEN(0) || head.cmsg_len > len - at)
            return false;
        if (!(head.cmsg_level == IPPROTO_IP && head.cmsg_type == IP_RECVERR) &&
            !(head.cmsg_level == IPPROTO_IPV6 && head.cmsg_type == IPV6_RECVERR))
            continue;
        if (head.cmsg_len < CMSG_LEN(sizeof(error)))
            return false;
        memcpy(&error, data, sizeof(error));
        answer->what = meaning(&error);
        answer->error = error.ee_errno > 4095 ? 0 : (int)error.ee_errno;
        answer->mtu = answer->what == REACH_TOO_LONG ? error.ee_info : 0;
        read_offender(data + sizeof(error), head.cmsg_len - CMSG_LEN(sizeof(error)), answer->from);
        if (answer->what == REACH_CLOSED && memcmp(answer->from, way->peer, GID_LEN))
            answer->what = REACH_REFUSED;
        return true;
    }
    return false;
}

/* ---- a question ------------------------------------------------------------------------------ */

static bool set(int fd, int level, int name, int value)
{
    return !setsockopt(fd, level, name, &value, sizeof(value));
}

static int open_socket(const struct raw_way *way, uint16_t port)
{
    if (gid_is_ipv4(way->peer)) {
        struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        memcpy(&to.sin_addr, way->peer + GID_IPV4, 4);
        set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
        set(fd, IPPROTO_IP, IP_RECVERR, 1);
        if (fd < 0 || !connect(fd, (struct sockaddr *)&to, sizeof(to)))
            return fd;
        close(fd);
    } else {
        struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
        int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        memcpy(&to.sin6_addr, way->peer, GID_LEN);
        to.sin6_scope_id = way->scope;
        set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
        set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
        if (fd < 0 || !connect(fd, (struct sockaddr *)&to, sizeof(to)))
            return fd;
        close(fd);
    }
    return -1;
}

static bool read_queue(int fd, const struct raw_way *way, struct reach_answer *answer)
{
    uint8_t control[512] __attribute__((aligned(8))), octets[64];
    struct iovec iov = { octets, sizeof(octets) };
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
    };

    return recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0 &&
           reach_read(control, message.msg_controllen, way, answer);
}

static void refused_here(int fd, const struct raw_way *way, struct reach_answer *answer)
{
    answer->error = errno;
    answer->what = answer->error == EMSGSIZE ? REACH_TOO_LONG : REACH_NOT_ASKED;
    if (fd >= 0)
        read_queue(fd, way, answer);
}

static void await(int fd, const struct raw_way *way, uint32_t ms, struct reach_answer *answer)
{
    uint64_t begun = tool_now(), deadline = begun + (uint64_t)ms * 1000000u;

    while (!atomic_load(&tool_stop)) {
        struct pollfd poll_fd = { .fd = fd, .events = 0 };
        uint64_t now = tool_now(), left = now < deadline ? (deadline - now + 999999) / 1000000 : 0;

        if (poll(&poll_fd, 1, (int)left) <= 0 || read_queue(fd, way, answer))
            break;
        /* It polls as an error until it is taken. */
        (void)send(fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (tool_now() >= deadline)
            break;
    }
    answer->nanoseconds = tool_now() - begun;
}

void reach_ask(const struct raw_way *way, uint16_t port, uint32_t octets, uint32_t ms,
               struct reach_answer *answer)
{
    static const uint8_t zeros[RAW_PACKET_MAX];
    int fd = open_socket(way, port);

    *answer = (struct reach_answer){ .what = REACH_SILENT };
    if (fd < 0 || send(fd, zeros, octets < sizeof(zeros) ? octets : sizeof(zeros),
                       MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        refused_here(fd, way, answer);
    else
        await(fd, way, ms, answer);
    if (fd >= 0)
        close(fd);
}

/* ---- the path MTU ---------------------------------------------------------------------------- */

uint32_t reach_packet_len(bool ipv4, uint32_t mtu)
{
    return (ipv4 ? ICRC_IPV4_LEN : ICRC_IPV6_LEN) + ICRC_UDP_LEN + BTH_LEN + BTH_RETH_LEN +
           BTH_IMM_LEN + mtu + BTH_ICRC_LEN;
}

/* Twice: a host limits its ICMP, and packets get lost. */
static bool arrives(const struct raw_way *way, uint16_t port, uint32_t mtu, uint32_t ms,
                    struct reach_answer *answer)
{
    bool ipv4 = gid_is_ipv4(way->peer);
    uint32_t headers = (ipv4 ? ICRC_IPV4_LEN : ICRC_IPV6_LEN) + ICRC_UDP_LEN;

    for (int i = 0; i < 2; i++) {
        reach_ask(way, port, reach_packet_len(ipv4, mtu) - headers, ms, answer);
        if (answer->what != REACH_SILENT)
            break;
    }
    return answer->what == REACH_CLOSED;
}

void reach_mtu(const struct raw_way *way, uint32_t ms, struct reach_mtu *result)
{
    uint16_t port = (uint16_t)(CLOSED_FIRST + raw_random() % CLOSED_PORTS);
    struct reach_answer answer;

    *result = (struct reach_mtu){ .mtu = 0 };
    if (!arrives(way, port, BTH_MTU_MIN, ms, &answer))
        return;
    for (uint32_t mtu = BTH_MTU_MAX; mtu > BTH_MTU_MIN && !atomic_load(&tool_stop); mtu /= 2) {
        if (arrives(way, port, mtu, ms, &answer)) {
            result->mtu = mtu;
            return;
        }
        result->next = mtu;
        result->hole = answer.what == REACH_SILENT;
        result->ip = answer.mtu;
    }
    result->mtu = BTH_MTU_MIN;
}
