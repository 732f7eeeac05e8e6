/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners and messages: UNIX sockets with message boundaries, in the abstract name space. */
#include "memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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
    if (address->sa_family == AF_INET6) {
        here = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) || IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
        *port = ntohs(v6->sin6_port);
    } else {
        here = !v4->sin_addr.s_addr || ntohl(v4->sin_addr.s_addr) >> 24 == 127;
        *port = ntohs(v4->sin_port);
    }
    if (service_id)
        *port = (uint16_t)service_id;
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

    socket_send(c->watched.fd, &message, -1);
}

/* ---- listeners ---- */

static void listener_ready(void *arg, uint32_t events)
{
    struct listener *listener = arg;
    struct rnic *rnic = listener->rnic;

    (void)events;
    pthread_mutex_lock(&rnic->mem.lock);
    for (int i = 0; i < 16 && !atomic_load(&listener->watched.leaving); i++) {
        int fd = accept4(listener->watched.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0)
            break;
        connection_accepted(listener, fd);
    }
    pthread_mutex_unlock(&rnic->mem.lock);
}

static void listener_gone(struct ri_watched *watched)
{
    close(watched->fd);
    free((char *)watched - offsetof(struct listener, watched));
}

/* Port 0: one that is free. */
static enum ri_status bind_port(int fd, uint16_t *port, bool datagram)
{
    struct sockaddr_un name;
    socklen_t length;
    bool any = !*port;

    for (int i = 0; i < (any ? 100 : 1); i++) {
        if (any && getrandom(port, sizeof(*port), 0) != sizeof(*port))
            break;
        *port |= any ? 0x8000 : 0;
        length = socket_name(&name, *port, datagram);
        if (!bind(fd, (struct sockaddr *)&name, length))
            return RI_OK;
        if (errno != EADDRINUSE)
            return RI_ERR_NO_RESOURCES;
    }
    return RI_ERR_ADDRESS_IN_USE;
}

/* The address that was asked for, with the port. */
static void set_bound(struct sockaddr_storage *bound, const struct sockaddr *address, uint16_t port)
{
    bool v6 = address->sa_family == AF_INET6;

    memset(bound, 0, sizeof(*bound));
    memcpy(bound, address, v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    if (v6)
        ((struct sockaddr_in6 *)(void *)bound)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)(void *)bound)->sin_port = htons(port);
}

enum ri_status vp_listen(struct ri_rnic *base, const struct ri_listen_param *param, void *context,
                         struct sockaddr_storage *bound, struct ri_listener **out)
{
    struct rnic *rnic = (struct rnic *)base;
    struct listener *listener;
    uint16_t port;
    enum ri_status status = port_of(param->address, param->service_id, param->datagram, &port);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    listener = calloc(1, sizeof(*listener));
    if (status == RI_OK && (!listener || fd < 0))
        status = RI_ERR_NO_RESOURCES;
    if (status == RI_OK)
        status = bind_port(fd, &port, param->datagram);
    if (status == RI_OK && listen(fd, 128))
        status = RI_ERR_NO_RESOURCES;
    if (status != RI_OK)
        goto free_listener;
    *listener = (struct listener){ .mem = { .base = { base->ops, context },
                                            .backlog = param->backlog,
                                            .datagram = param->datagram },
                                   .watched = { .fd = fd, .gone = listener_gone },
                                   .rnic = rnic };
    pthread_mutex_lock(&rnic->mem.lock);
    status = ri_watched_add(&rnic->mem.leaving, &listener->watched, EPOLLIN, listener_ready,
                            listener);
    if (status == RI_OK)
        ri_set_a_listens(&rnic->set, &listener->mem);
    pthread_mutex_unlock(&rnic->mem.lock);
    if (status != RI_OK)
        goto free_listener;
    set_bound(bound, param->address, port);
    *out = &listener->mem.base;
    return RI_OK;

free_listener:
    if (fd >= 0)
        close(fd);
    free(listener);
    return status;
}

/* Nobody is heard any more; the name is free when no thread is in `ready`. */
enum ri_status vp_listen_destroy(struct ri_listener *base)
{
    struct listener *listener = (struct listener *)base;
    struct rnic *rnic = listener->rnic;

    pthread_mutex_lock(&rnic->mem.lock);
    ri_set_a_forget(&rnic->set, &listener->mem);
    shutdown(listener->watched.fd, SHUT_RDWR); /* connect(2) is refused from now on */
    ri_unwatch_later(&rnic->mem.leaving, &listener->watched);
    pthread_mutex_unlock(&rnic->mem.lock);
    return RI_OK;
}
