/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports and messages: UNIX sockets with message boundaries, in the abstract name space. */
#include "memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* InfiniBand's service IDs of the ports of rdma_cm. */
#define SERVICE_TCP UINT64_C(0x1060000)
#define SERVICE_UDP UINT64_C(0x1110000)

socklen_t socket_name(struct sockaddr_un *name, uint16_t port, bool datagram)
{
    *name = (struct sockaddr_un){ .sun_family = AF_UNIX };
    return (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 +
           (socklen_t)sprintf(name->sun_path + 1, "ital-memory/%s/%u",
                              datagram ? "datagram" : "port", port);
}

enum ri_status port_of(const struct sockaddr *address, uint64_t service_id, bool datagram,
                       uint16_t *port)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
    uint64_t base = datagram ? SERVICE_UDP : SERVICE_TCP;
    bool here;

    if (service_id && (service_id & ~UINT64_C(0xffff)) != base)
        return RI_ERR_NOT_SUPPORTED;
    if (address->sa_family == AF_INET6)
        here = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) || IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
    else
        here = !v4->sin_addr.s_addr || ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    *port = service_id ? (uint16_t)service_id : ri_address_port(address);
    return here ? RI_OK : RI_ERR_UNREACHABLE;
}

/* ---- messages ---- */

bool socket_send(int fd, const struct message *message, int memory)
{
    size_t length = message->bell ? sizeof(message->bell) : sizeof(*message);
    struct iovec part = { (void *)message, length };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { .room = { 0 } };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };

    if (memory >= 0) {
        header.msg_control = &control;
        header.msg_controllen = sizeof(control.room);
        control.head = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.head), &memory, sizeof(memory));
    }
    return sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length;
}

int socket_receive(int fd, struct message *message, int *memory)
{
    struct iovec part = { message, sizeof(*message) };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr header = { .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_LEN(sizeof(int)) }; /* CMSG_SPACE has two */
    ssize_t got;

    *memory = -1;
    memset(message, 0, sizeof(*message));
    /* ECONNRESET: the peer has closed without reading all; what it sent is still there. */
    do
        got = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && (errno == EINTR || errno == ECONNRESET));
    if (got <= 0)
        return got < 0 && errno == EAGAIN ? -1 : 0;
    if (CMSG_FIRSTHDR(&header) && control.head.cmsg_type == SCM_RIGHTS)
        memcpy(memory, CMSG_DATA(&control.head), sizeof(*memory));
    if (!message->bell && got != sizeof(*message))
        message->cm.type = 0;
    return 1;
}

/* If the socket is full the peer has messages to read: it is awake. */
void bell(struct connection *c)
{
    const struct message message = { .bell = 1 };

    socket_send(c->channel.watched.fd, &message, -1);
}

/* ---- ports ---- */

static enum ri_status bind_name(int fd, uint16_t port, bool datagram)
{
    struct sockaddr_un name;

    if (!bind(fd, (struct sockaddr *)&name, socket_name(&name, port, datagram)))
        return RI_OK;
    return errno == EADDRINUSE ? RI_ERR_ADDRESS_IN_USE : RI_ERR_NO_RESOURCES;
}

enum ri_status socket_open(uint16_t *port, bool datagram, int *out)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    enum ri_status status = RI_ERR_ADDRESS_IN_USE;
    int tries = *port ? 1 : 100;
    uint16_t random;

    if (fd < 0)
        return RI_ERR_NO_RESOURCES;
    for (int i = 0; i < tries && status == RI_ERR_ADDRESS_IN_USE; i++) {
        if (tries > 1 && getrandom(&random, sizeof(random), 0) == sizeof(random))
            *port = random | 0x8000;
        status = *port ? bind_name(fd, *port, datagram) : RI_ERR_NO_RESOURCES;
    }
    if (status == RI_OK)
        *out = fd;
    else
        close(fd);
    return status;
}

enum ri_status socket_listen(struct ri_mem_listener *listener, uint16_t *port)
{
    int fd = -1;
    enum ri_status status = socket_open(port, listener->datagram, &fd);

    if (status != RI_OK)
        return status;
    status = listen(fd, 128)
                 ? RI_ERR_NO_RESOURCES
                 : ri_channel_listen(listener, fd, EPOLLIN | EPOLLRDHUP, connection_ready);
    if (status != RI_OK)
        close(fd);
    return status;
}
