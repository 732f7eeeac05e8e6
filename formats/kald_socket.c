/* SPDX-License-Identifier: BSD-3-Clause */
/* The Unix socket between kald and its clients. */
#include "formats/kald_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

union control {
    char octets[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

static bool is_believed(int fd, bool *is_roots)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length))
        return false;
    if (is_roots)
        *is_roots = peer.uid == 0;
    return peer.uid == 0 || peer.uid == geteuid();
}

int kald_connect(const char *path, bool *is_roots)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd, error = 0;

    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)))
        error = errno;
    else if (!is_believed(fd, is_roots))
        error = EPERM;
    if (!error)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

bool kald_send_octets(int socket, const uint8_t *octets, size_t length, int fd)
{
    struct iovec part = { (void *)octets, length };
    union control control = { { 0 } };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
    ssize_t sent;

    if (fd >= 0) {
        header.msg_control = &control;
        header.msg_controllen = sizeof(control);
        control.align = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
                                          .cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
    }
    do
        sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent >= 0;
}

bool kald_send(int socket, const struct kald_message *message, int fd)
{
    uint8_t octets[KALD_MESSAGE_MAX];

    return kald_send_octets(socket, octets, kald_encode(message, octets), fd);
}

enum kald_received kald_receive(int socket, bool from_kald, struct kald_message *message, int *fd)
{
    uint8_t octets[KALD_MESSAGE_MAX];
    struct iovec part = { octets, sizeof(octets) };
    union control control;
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
    const struct cmsghdr *extra;
    ssize_t got;

    if (fd) {
        *fd = -1;
        header.msg_control = &control;
        header.msg_controllen = CMSG_LEN(sizeof(int)); /* not of CMSG_SPACE, where two fit */
    }
    do
        got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN ? KALD_NOTHING : KALD_ENDED;
    extra = fd ? CMSG_FIRSTHDR(&header) : NULL;
    if (extra && extra->cmsg_level == SOL_SOCKET && extra->cmsg_type == SCM_RIGHTS &&
        extra->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(fd, CMSG_DATA(extra), sizeof(*fd));
    if (got && !(header.msg_flags & MSG_TRUNC) &&
        kald_decode(octets, (size_t)got, from_kald, message))
        return KALD_GOT;
    if (fd && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return got ? KALD_WRONG : KALD_ENDED; /* no message has no octets */
}
