/* SPDX-License-Identifier: BSD-3-Clause */
#include "meet.h"

#include "process.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* --- names --- */

static socklen_t set_name(struct sockaddr_un *address, const struct net *net, uint32_t slot)
{
    uint8_t name[MEET_NAME_MAX];
    size_t len = meet_put_name(name, geteuid(), net->process->udp_port, slot);

    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(address->sun_path, name, len);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Who listens, or has connected. */
static bool is_same_user(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.uid == geteuid();
}

static int fail(int fd, int error)
{
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

bool net_meet_leaves_room(int fd)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) || (rlim_t)fd < limit.rlim_cur / 4 * 3;
}

/* --- connections --- */

static bool open_listener(struct net *net)
{
    struct sockaddr_un address;
    socklen_t size = set_name(&address, net, net_slot(net));

    net->meet = new_socket();
    net->meet_spare = new_socket();
    return net->meet >= 0 && net->meet_spare >= 0 &&
           !bind(net->meet, (const struct sockaddr *)&address, size) &&
           !listen(net->meet, SOMAXCONN);
}

int net_meet_listen(struct net *net)
{
    int fd, error = EPERM;

    net_lock();
    if (!net->process->dead && !open_listener(net)) {
        error = errno;
        net_close_meet(net);
    }
    fd = net->meet;
    net_unlock();
    return fd >= 0 ? fd : fail(-1, error);
}

void net_meet_end(struct net *net)
{
    net_lock();
    net_close_meet(net);
    net_unlock();
}

int net_meet_connect(const struct net *net, uint32_t slot)
{
    struct sockaddr_un address;
    socklen_t size = set_name(&address, net, slot);
    int fd = new_socket();

    if (fd < 0)
        return -1;
    if (!net_meet_leaves_room(fd))
        return fail(fd, EMFILE);
    if (connect(fd, (const struct sockaddr *)&address, size))
        return fail(fd, errno);
    return is_same_user(fd) ? fd : fail(fd, EPERM);
}

/* Out of descriptors: who asks is turned away, so that the listener does not stay readable. */
static void turn_away(struct net *net)
{
    int fd;

    if (net->meet_spare < 0)
        return;
    close(net->meet_spare);
    fd = accept4(net->meet, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    net->meet_spare = new_socket();
}

int net_meet_accept(struct net *net)
{
    int fd;

    for (;;) {
        fd = accept4(net->meet, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0 && is_same_user(fd))
            return fd;
        if (fd >= 0)
            close(fd);
        else if (errno == EMFILE || errno == ENFILE)
            turn_away(net);
        if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
            return -1;
    }
}

/* --- messages --- */

bool net_meet_send(int fd, const struct meet_message *message, int passed)
{
    union {
        struct cmsghdr align;
        char octets[CMSG_SPACE(sizeof(int))];
    } control = { .octets = { 0 } };
    uint8_t octets[MEET_LEN];
    struct iovec iov = { octets, sizeof(octets) };
    struct msghdr out = { .msg_iov = &iov, .msg_iovlen = 1 };
    ssize_t sent;

    meet_put(octets, message);
    if (passed >= 0) {
        out.msg_control = &control;
        out.msg_controllen = sizeof(control);
        control.align = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(passed)),
                                          .cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.align), &passed, sizeof(passed));
    }
    do
        sent = sendmsg(fd, &out, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof(octets);
}

/* Keeps the descriptor if it is one and complete; closes all others. */
static int take_passed(struct msghdr *in)
{
    bool whole = !(in->msg_flags & MSG_CTRUNC);
    int kept = -1, fd;

    for (struct cmsghdr *at = CMSG_FIRSTHDR(in); at; at = CMSG_NXTHDR(in, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = CMSG_LEN(0); i + sizeof(fd) <= at->cmsg_len; i += sizeof(fd)) {
            memcpy(&fd, (const char *)at + i, sizeof(fd));
            whole &= kept < 0;
            if (kept >= 0)
                close(fd);
            else
                kept = fd;
        }
    }
    if (!whole && kept >= 0) {
        close(kept);
        kept = -1;
    }
    return kept;
}

enum net_meet_found net_meet_receive(int fd, struct meet_message *message, int *passed)
{
    union {
        struct cmsghdr align;
        char octets[CMSG_SPACE(sizeof(int))];
    } control;
    uint8_t octets[MEET_LEN];
    struct iovec iov = { octets, sizeof(octets) };
    struct msghdr in = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
    };
    ssize_t got;

    do
        got = recvmsg(fd, &in, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return NET_MEET_NOTHING;
    *passed = got < 0 ? -1 : take_passed(&in);
    if (got > 0 && meet_get(octets, (size_t)got, message))
        return NET_MEET_MESSAGE;
    if (*passed >= 0)
        close(*passed);
    *passed = -1;
    return NET_MEET_ENDED;
}
