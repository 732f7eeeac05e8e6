/* SPDX-License-Identifier: BSD-3-Clause */
#include "mailbox.h"

#include "base/entropy.h"
#include "base/unix_socket.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

/* A room for credentials alone: the kernel does not install descriptors that do not fit. */
union credentials {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(struct ucred))];
};

static socklen_t set_name(struct sockaddr_un *address, const uint64_t name[static 2])
{
    int len;

    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    len = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
                   "ital-roce-gsi-%016" PRIx64 "%016" PRIx64, name[0], name[1]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1u + (size_t)len);
}

static int open_socket(void)
{
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int mailbox_open(uint64_t name[static 2])
{
    int fd = open_socket(), error = EAGAIN;
    struct sockaddr_un address;

    if (fd < 0)
        return -1;
    unix_refuse_descriptors(fd);
    if (entropy_draw(name, 2 * sizeof(*name)) && (name[0] || name[1])) {
        socklen_t size = set_name(&address, name);

        if (!setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int)) &&
            !bind(fd, (struct sockaddr *)&address, size))
            return fd;
        error = errno;
    }
    close(fd);
    errno = error;
    return -1;
}

bool mailbox_is_bound(const uint64_t name[static 2])
{
    struct sockaddr_un address;
    socklen_t size = set_name(&address, name);
    int fd = open_socket();
    bool bound = fd >= 0 && !connect(fd, (struct sockaddr *)&address, size);

    if (fd >= 0)
        close(fd);
    return bound;
}

/* By the effective user, as names and connections between processes go. */
static void set_credentials(union credentials *control)
{
    const struct ucred own = { .pid = getpid(), .uid = geteuid(), .gid = getegid() };

    memset(control, 0, sizeof(*control));
    control->head.cmsg_level = SOL_SOCKET;
    control->head.cmsg_type = SCM_CREDENTIALS;
    control->head.cmsg_len = CMSG_LEN(sizeof(own));
    memcpy(CMSG_DATA(&control->head), &own, sizeof(own));
}

bool mailbox_send(const uint64_t name[static 2], const void *octets, size_t len)
{
    struct sockaddr_un address;
    struct iovec iov = { (void *)(uintptr_t)octets, len };
    union credentials control;
    struct msghdr message = { .msg_name = &address,
                              .msg_namelen = set_name(&address, name),
                              .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = &control,
                              .msg_controllen = sizeof(control) };
    int fd = open_socket();
    bool sent;

    if (fd < 0)
        return false;
    set_credentials(&control);
    sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len;
    close(fd);
    return sent;
}

static bool is_same_user(const struct msghdr *message)
{
    const struct cmsghdr *head = CMSG_FIRSTHDR(message);
    struct ucred sender;

    if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_CREDENTIALS ||
        head->cmsg_len < CMSG_LEN(sizeof(sender)))
        return false;
    memcpy(&sender, CMSG_DATA(head), sizeof(sender));
    return sender.uid == geteuid();
}

enum mailbox_result mailbox_receive(int fd, void *octets, size_t room, size_t *len)
{
    struct iovec iov = { octets, room };
    union credentials control;
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
    };
    ssize_t got;

    do {
        got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return MAILBOX_EMPTY;
    if (message.msg_flags & MSG_TRUNC || !is_same_user(&message))
        return MAILBOX_FORGED;
    *len = (size_t)got;
    return MAILBOX_TAKEN;
}

enum mailbox_result mailbox_take(int fd, void *octets, size_t room, size_t *len)
{
    ssize_t got;

    do {
        got = recv(fd, octets, room, MSG_DONTWAIT | MSG_TRUNC);
    } while (got < 0 && errno == EINTR);
    if (got <= 0)
        return MAILBOX_EMPTY;
    if ((size_t)got > room)
        return MAILBOX_FORGED;
    *len = (size_t)got;
    return MAILBOX_TAKEN;
}
