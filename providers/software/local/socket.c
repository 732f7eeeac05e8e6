/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The sockets of a connection: the TCP socket that made it, whose end is its end, and the Unix
 * socket by which one end wakes the other. No other file of the wire calls a socket.
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
                              { .fd = qp->bell, .events = POLLRDHUP } };

    return syscall(SYS_ppoll, both, 2L, &at_once, NULL, 0L) == 0;
}

void local_wake_peer(struct local_qp *qp)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (likely(!atomic_load_explicit(&qp->peer->asleep, memory_order_relaxed)) ||
        !atomic_exchange(&qp->peer->asleep, LOCAL_AWAKE))
        return;
    atomic_fetch_add_explicit(&qp->counters.wakes_sent, 1, memory_order_relaxed);
    /* Full: it has octets to read. Closed: it is ending. */
    while (syscall(SYS_sendto, qp->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) < 0 &&
           errno == EINTR)
        ;
}

void local_hear_bell(struct local_qp *qp)
{
    uint8_t octets[64];
    ssize_t got;

    do {
        got = syscall(SYS_recvfrom, qp->bell, octets, sizeof(octets), MSG_DONTWAIT, NULL, NULL);
        if (got > 0)
            count_up(&qp->counters.wakes_received, (uint64_t)got);
    } while (got == sizeof(octets) || (got < 0 && errno == EINTR));
    if (!got || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
        atomic_fetch_or(&qp->witnessed, WITNESSED_FIN);
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
    shutdown(qp->tcp, SHUT_WR);
}

void local_close_sockets(struct local_qp *qp)
{
    shutdown(qp->tcp, SHUT_RDWR); /* others may have the descriptor, too */
    shutdown(qp->bell, SHUT_RDWR);
    close(qp->tcp);
    close(qp->bell);
    qp->tcp = qp->bell = -1;
}
