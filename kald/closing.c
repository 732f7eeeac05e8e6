/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kald: closes what clients sent. Before Linux 6.16 a socket cannot refuse descriptors. Whoever
 * receives a message, or closes the socket that it waits in, closes its descriptors, too; and the
 * close of a connected TCP socket with SO_LINGER takes as long as the sender has set.
 *
 * So there kald looks at a message before it receives it. One with a descriptor stays in the queue
 * of the client, which ends. Its socket is closed by a child that does nothing but end: the kernel
 * does not let the end of a process linger (it tests PF_EXITING).
 *
 *   nothing in the queue        closed here
 *   a descriptor in the queue   handed to a child: fork, closed here, then the child ends
 *   CHILDREN_MOST children      held, until one of them has ended
 *
 * A child has copies of all of kald's descriptors for the time between its two system calls.
 */
#include "kald.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unix_socket.h"

/* Other kinds of sockets may linger at the end of a process, too (SMC). */
#define CHILDREN_MOST 32u
/* Messages without a descriptor that are taken out of a queue before a child is chosen. */
#define LOOKS_MOST 64u

enum queue { QUEUE_EMPTY, QUEUE_MESSAGE, QUEUE_DESCRIPTOR };

bool kald_closing_prepare(struct kald *kald)
{
    int fd = kald->listener.fd;

    kald->refuses = unix_refuse_descriptors(fd);
    /* Those that it accepts inherit it. */
    return kald->refuses || !setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int));
}

/*
 * The first message. The credentials that come with each tell one without octets from the end of
 * the queue. A descriptor has no room: the kernel says so, and does not close it, as the message
 * keeps it.
 */
static enum queue look(int socket)
{
    union {
        char octets[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control;
    struct msghdr header = { .msg_control = &control, .msg_controllen = sizeof(control) };
    ssize_t got;

    do
        got = recvmsg(socket, &header, MSG_PEEK | MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return QUEUE_EMPTY;
    if (header.msg_flags & MSG_CTRUNC)
        return QUEUE_DESCRIPTOR;
    return CMSG_FIRSTHDR(&header) ? QUEUE_MESSAGE : QUEUE_EMPTY;
}

bool kald_brings_descriptor(const struct kald *kald, int socket)
{
    return !kald->refuses && look(socket) == QUEUE_DESCRIPTOR;
}

/* Nothing more can come in. Whether there is a descriptor, as far as it looks. */
static bool may_block(int socket)
{
    enum queue queue = QUEUE_MESSAGE;

    shutdown(socket, SHUT_RDWR);
    for (unsigned i = 0; i < LOOKS_MOST && queue == QUEUE_MESSAGE; i++) {
        queue = look(socket);
        if (queue == QUEUE_MESSAGE)
            recv(socket, NULL, 0, MSG_DONTWAIT);
    }
    return queue != QUEUE_EMPTY;
}

/* Closes all that are held, if there is a child for it. */
static void close_held(struct kald *kald)
{
    int ends[2];
    pid_t child;
    char octet;

    if (kald->children >= CHILDREN_MOST || pipe2(ends, O_CLOEXEC))
        return;
    child = fork();
    if (!child) {
        close(ends[1]);
        while (read(ends[0], &octet, 1) < 0 && errno == EINTR)
            ;
        _exit(0);
    }
    if (child > 0) {
        while (kald->held_count)
            close(kald->held[--kald->held_count]);
        kald->children++;
    }
    close(ends[0]);
    close(ends[1]);
}

void kald_close(struct kald *kald, int socket)
{
    if (kald->refuses || !may_block(socket)) {
        close(socket);
        return;
    }
    if (kald->held_count == KALD_HELD_MOST) {
        kald_say(4, "%u sockets with descriptors that clients sent wait to be closed; kald waits",
                 kald->held_count);
        close(socket);
        return;
    }
    kald->held[kald->held_count++] = socket;
    close_held(kald);
}

void kald_children_ended(struct kald *kald)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        kald->children--;
    if (kald->held_count)
        close_held(kald);
}
