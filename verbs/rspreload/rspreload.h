/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rspreload.h - librspreload.so: the socket calls of an unmodified program become rsockets.
 *
 * A descriptor of the program is always a socket of the kernel: its number, flags and duplicates
 * are the kernel's. A stream socket that is *carried* also has an rsocket, which the calls on the
 * descriptor go to. The kernel's socket stays unconnected, until the program connects to a peer
 * that has no rsocket: then the rsocket is closed and the kernel's socket is used.
 *
 * The kernel's socket listens, and so do its copies in the children of a fork: poll(2) and epoll(7)
 * on it are the kernel's, and what no process has accepted waits there. A connection that is
 * accepted is given to an rsocket.
 *
 * ital opens sockets itself. They are not carried: `rp_inside` is set while a call of rsockets runs
 * in this thread, and rp_wanted looks which library asks for the socket.
 */
#ifndef ITAL_VERBS_RSPRELOAD_H
#define ITAL_VERBS_RSPRELOAD_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define RP_PUBLIC __attribute__((visibility("default")))

/* ---- next.c: the definitions behind ours, usually those of libc ---- */

/* clang-format off */
#define RP_NEXT_CALLS(X)                                                                        \
    X(socket) X(bind) X(listen) X(accept) X(accept4) X(connect) X(shutdown) X(close) X(dup)     \
    X(dup2) X(dup3) X(close_range) X(closefrom) X(getsockname) X(getpeername) X(getsockopt)     \
    X(setsockopt) X(fcntl) X(fcntl64) X(ioctl) X(recv) X(recvfrom) X(recvmsg) X(read) X(readv)  \
    X(send) X(sendto) X(sendmsg) X(write) X(writev) X(sendfile) X(sendfile64) X(poll) X(ppoll)  \
    X(select) X(pselect) X(epoll_ctl) X(epoll_wait) X(epoll_pwait)
/* clang-format on */

struct rp_next {
#define X(name) __typeof__(&(name)) name;
    RP_NEXT_CALLS(X)
#undef X
};
/* Any thread; signal handlers, too, once the library is loaded. */
const struct rp_next *rp_next(void);

/* ---- table.c: descriptors to what is carried ---- */

struct rp_socket {
    atomic_uint users;       /* descriptors, calls and watches */
    atomic_uint descriptors; /* 0: the program has closed the last one */
    atomic_int rs;           /* the rsocket's number; -1: the kernel's socket is used */
    /* The kernel's socket listens, and what is accepted of it is carried (listen.c): the rsocket
     * that takes it, and the process whose that is. -1: no such listener */
    atomic_int listener, listener_process;
    /* calls that found nothing to read, or no room: a new event is due after them */
    atomic_uint drained_in, drained_out;
    /* to be used if the kernel's socket is */
    pthread_mutex_t lock;
    struct sockaddr_storage bound, peer;
    socklen_t bound_length, peer_length; /* 0: not bound; no connect is under way */
    int error;                           /* for SO_ERROR */
};

/* Thread-local: this thread is in a call of rsockets, whose calls are not for us. */
extern __thread unsigned rp_inside __attribute__((tls_model("initial-exec")));

/* The program's socket `fd` becomes a carried one. 0 or an error number; after an error the caller
 * still has `rs`. */
int rp_add(int fd, int rs);
/* NULL: not carried. The caller calls rp_put. */
struct rp_socket *rp_get(int fd);
/* The same, also if the kernel's socket is used meanwhile. */
struct rp_socket *rp_get_any(int fd);
void rp_put(struct rp_socket *socket);
/* Another number of the same socket. 0 or an error number. */
int rp_share(int fd, struct rp_socket *socket);
/* The number stands for no carried socket any more. Closes the rsocket with its last number, which
 * may wait for the peer. */
void rp_remove(int fd);
void rp_remove_range(unsigned first, unsigned last);
/* False in the child of a vfork: the memory is its parent's. */
bool rp_is_own(void);
/* This process has the table from now on. */
void rp_own(void);
/* For forks. */
void rp_table_lock(bool locked);
/* In the child: of what no other thread can hold any more, locks are new. */
void rp_table_forked(void);

/* ---- listen.c: sockets of the kernel's whose connections are carried ---- */

/* Before any rsocket has the address: a program that shares the port by SO_REUSEPORT. False: the
 * rsocket is bound. *result: as bind(2). */
bool rp_bind_shared(int fd, const struct sockaddr *address, socklen_t length, int *result);
/* As getsockname(2): of a socket that the kernel bound, its name. */
int rp_name(int rs, int fd, struct sockaddr *own, socklen_t *length);
/* False: not possible with that address; the rsocket listens. *result: as listen(2). */
bool rp_listen(struct rp_socket *socket, int fd, int backlog, int *result);
/* True: the descriptor is such a listener. *result: the number of the rsocket that was accepted, or
 * -1 with errno. */
bool rp_accept(int fd, int *result);

/* ---- forks.c ---- */

/* Before the first socket is carried. */
void rp_watch_forks(void);

/* ---- carry.c: which sockets are carried; the way back ---- */

/* from: where the call of socket(2) came from. */
bool rp_wanted(int domain, int type, int protocol, const void *from);
/* The peer of a connect may be there without an rsocket. */
bool rp_peer_may_be_plain(int error);
/* Uses the kernel's socket `fd` from now on, and connects it to socket->peer. 0, EINPROGRESS or
 * another error number, as connect(2). */
int rp_fall_back(struct rp_socket *socket, int fd);
/* A connect that was under way has failed (poll reports POLLERR). True: the kernel's socket is
 * connecting or connected. False: getsockopt gives the error. */
bool rp_retry_plain(struct rp_socket *socket, int fd);

/* ---- a call that goes to an rsocket ---- */

struct rp_call {
    struct rp_socket *socket;
    int rs;
};

/* False: not carried; the caller passes the call on. */
static inline bool rp_begin(struct rp_call *call, int fd)
{
    if (rp_inside)
        return false;
    call->socket = rp_get(fd);
    if (!call->socket)
        return false;
    call->rs = atomic_load(&call->socket->rs);
    rp_inside++;
    return true;
}

/* Returns the result; errno is the rsocket's. */
static inline ssize_t rp_end(struct rp_call *call, ssize_t result)
{
    int error = errno;

    rp_inside--;
    rp_put(call->socket);
    errno = error;
    return result;
}

static inline int rp_fail(int error)
{
    errno = error;
    return -1;
}

/* ---- poll.c ---- */

/* poll(2) of a list that may have carried sockets. deadline: of base/clock.h. mask: as ppoll(2). */
int rp_poll(struct pollfd *fds, nfds_t count, uint64_t deadline, const sigset_t *mask);
/* rpoll, with the signal mask in its sleep. */
int rp_poll_rsockets(struct pollfd *fds, nfds_t count, int ms, const sigset_t *mask);

/* ---- epoll.c ---- */

/* The descriptor may be that of an epoll set with carried sockets, which is closed. */
void rp_epoll_closed(int fd);
/* For forks: taken before the lock of the table. */
void rp_epoll_lock(bool locked);
/* In the child, under the lock. */
void rp_epoll_forked(void);

#endif
