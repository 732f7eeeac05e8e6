/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The sockets of a connection: the TCP socket that made it, whose end is its end, and the Unix
 * socket by which one end wakes the other (bell.c). No other file of the wire calls a socket.
 *
 * System calls that libc makes cancellation points are made directly: a consumer's thread is not
 * cancelled in the middle of a post or a pass.
 */
#include "local.h"
#include "process.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

bool local_sees_peer(const struct local_qp *qp)
{
    const struct timespec at_once = { 0, 0 };
    struct pollfd both[2] = { { .fd = qp->memory->process->pidfd, .events = POLLIN },
                              { .fd = qp->bell_fd, .events = POLLRDHUP } };

    return syscall(SYS_ppoll, both, 2L, &at_once, NULL, 0L) == 0;
}

void local_wake_peer(struct local_qp *qp)
{
    uint32_t call;

    atomic_thread_fence(memory_order_seq_cst);
    if (likely(!atomic_load_explicit(&qp->peer->asleep, memory_order_relaxed)) ||
        !atomic_exchange(&qp->peer->asleep, LOCAL_AWAKE))
        return;
    atomic_fetch_add_explicit(&qp->counters.wakes_sent, 1, memory_order_relaxed);
    /* Full: it has octets to read. Closed: it is ending. */
    call = atomic_load_explicit(&qp->peer->call, memory_order_relaxed);
    while (syscall(SYS_sendto, qp->bell_fd, &call, qp->calls ? sizeof(call) : 1,
                   MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) < 0 &&
           errno == EINTR)
        ;
}

bool local_hear(int fd, void *room, size_t size, size_t *octets)
{
    ssize_t got;

    do
        got = syscall(SYS_recvfrom, fd, room, size, MSG_DONTWAIT, NULL, NULL);
    while (got < 0 && errno == EINTR);
    *octets = got > 0 ? (size_t)got : 0;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
}

pid_t local_process_behind(int socket)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);

    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) ? 0 : peer.pid;
}

bool local_say_last(struct local_qp *qp, const void *octets, size_t length)
{
    return !length || send(qp->tcp, octets, length, MSG_NOSIGNAL) == (ssize_t)length;
}

void local_finish_tcp(struct local_qp *qp)
{
    if (qp->tcp >= 0)
        shutdown(qp->tcp, SHUT_WR);
}

/* The kernel counts less than 1 KiB for a short one. */
bool local_has_room(int fd, uint32_t messages)
{
    socklen_t length = sizeof(int);
    int octets;

    return !getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &octets, &length) && octets > 0 &&
           (uint32_t)octets / 2048 >= messages;
}

void local_close_tcp(struct local_qp *qp)
{
    const struct ri_host *host = qp->core->rnic->host;

    tx_assert_inside(qp->core);
    if (qp->tcp < 0)
        return;
    if (qp->tcp_watch)
        host->unwatch(host, qp->tcp_watch);
    qp->tcp_watch = NULL;
    local_close_socket(qp->tcp);
    qp->tcp = -1;
}

void local_close_socket(int fd)
{
    shutdown(fd, SHUT_RDWR); /* others may have the descriptor, too */
    close(fd);
}
