/* SPDX-License-Identifier: BSD-3-Clause
 * rpoll, rselect: rsockets and other descriptors together. */
#include "rsockets.h"

#include <poll.h>
#include <stdlib.h>

/* One descriptor of the caller's list. */
struct watched {
    struct rs_socket *socket; /* NULL: not an rsocket of this process */
    bool is_parents;          /* `events` are its, for ever */
    short events;
    struct rs_sleeper sleeper;
};

/* The kernel's list has one more entry: what wakes this thread. */
struct waiting {
    struct pollfd *fds;
    nfds_t count;
    struct watched *watched;
    struct pollfd *kernel;
};

#define FEW 16u

static bool has_rsocket(const struct pollfd *fds, nfds_t count)
{
    for (nfds_t i = 0; i < count; i++)
        if (rs_is_rsocket(fds[i].fd))
            return true;
    return false;
}

/* In the child of a fork: a connection of the parent's has ended, so that the program does not wait
 * for it. A listener stays silent: no accept would take what it reports. */
static void enter_parents(struct watched *watched, struct pollfd *kernel)
{
    bool ended = errno == ECONNRESET;

    watched->is_parents = true;
    watched->events = ended ? POLLIN | POLLRDNORM | POLLRDHUP | POLLHUP | POLLERR : 0;
    kernel->fd = -1;
}

static void enter_all(struct waiting *waiting)
{
    for (nfds_t i = 0; i < waiting->count; i++) {
        int fd = waiting->fds[i].fd;
        struct watched *watched = &waiting->watched[i];

        *watched = (struct watched){ .socket = NULL };
        waiting->kernel[i] = (struct pollfd){ .fd = fd, .events = waiting->fds[i].events };
        if (!rs_is_rsocket(fd))
            continue;
        watched->socket = rs_enter(fd);
        if (!watched->socket && errno != EBADF)
            enter_parents(watched, &waiting->kernel[i]);
    }
}

static void leave_all(struct waiting *waiting)
{
    for (nfds_t i = 0; i < waiting->count; i++)
        if (waiting->watched[i].socket)
            rs_leave(waiting->fds[i].fd);
}

/* Under the rsocket's lock. */
static short wanted_events(const struct rs_socket *socket, const struct pollfd *fd)
{
    if (socket->closing)
        return POLLNVAL;
    return (short)(rs_events(socket) & (fd->events | POLLERR | POLLHUP));
}

/* Returns the number of rsockets with events. */
static int look(struct waiting *waiting)
{
    int count = 0;

    for (nfds_t i = 0; i < waiting->count; i++) {
        struct rs_socket *socket = waiting->watched[i].socket;

        if (waiting->watched[i].is_parents) {
            waiting->fds[i].revents = (short)(waiting->watched[i].events &
                                              (waiting->fds[i].events | POLLERR | POLLHUP));
        } else if (socket) {
            pthread_mutex_lock(&socket->lock);
            rs_progress(socket);
            waiting->fds[i].revents = wanted_events(socket, &waiting->fds[i]);
            pthread_mutex_unlock(&socket->lock);
        } else {
            continue;
        }
        count += waiting->fds[i].revents != 0;
    }
    return count;
}

/* The kernel's answer for what are no rsockets. */
static int take_others(struct waiting *waiting)
{
    int count = 0;

    for (nfds_t i = 0; i < waiting->count; i++) {
        if (waiting->watched[i].socket || waiting->watched[i].is_parents)
            continue;
        waiting->fds[i].revents = waiting->kernel[i].revents;
        count += waiting->fds[i].revents != 0;
    }
    return count;
}

static void begin_all(struct waiting *waiting, int wake_fd, bool *ready)
{
    for (nfds_t i = 0; i < waiting->count; i++) {
        struct watched *watched = &waiting->watched[i];

        if (!watched->socket)
            continue;
        watched->sleeper.fd = wake_fd;
        waiting->kernel[i].events = POLLIN;
        pthread_mutex_lock(&watched->socket->lock);
        rs_sleep_begin(watched->socket, &watched->sleeper);
        if (wanted_events(watched->socket, &waiting->fds[i]))
            *ready = true;
        pthread_mutex_unlock(&watched->socket->lock);
    }
}

static void end_all(struct waiting *waiting)
{
    for (nfds_t i = 0; i < waiting->count; i++) {
        struct watched *watched = &waiting->watched[i];

        if (!watched->socket)
            continue;
        pthread_mutex_lock(&watched->socket->lock);
        rs_sleep_end(watched->socket, &watched->sleeper, waiting->kernel[i].revents);
        pthread_mutex_unlock(&watched->socket->lock);
    }
}

/* Sleeps until something happens. Returns the number of other descriptors with events, or -1. */
static int sleep_all(struct waiting *waiting, uint64_t deadline)
{
    int wake_fd = rs_sleeper_fd(), count, error;
    bool ready = false;

    if (wake_fd < 0)
        return -1;
    waiting->kernel[waiting->count] = (struct pollfd){ .fd = wake_fd, .events = POLLIN };
    begin_all(waiting, wake_fd, &ready);
    count = poll(waiting->kernel, waiting->count + 1,
                 ready ? 0 : clock_poll_ms(clock_now(), deadline));
    error = errno;
    if (count > 0 && waiting->kernel[waiting->count].revents)
        rs_sleeper_clear();
    if (count <= 0)
        for (nfds_t i = 0; i < waiting->count; i++)
            waiting->kernel[i].revents = 0;
    end_all(waiting);
    return count < 0 ? rs_fail(error) : take_others(waiting);
}

static int wait_all(struct waiting *waiting, uint64_t deadline)
{
    uint64_t spin = clock_after(clock_now(), RS_SPIN_NS);
    int others, count;

    while (!(count = look(waiting)) && deadline && clock_now() < spin)
        ;
    for (;;) {
        others = sleep_all(waiting, count ? 0 : deadline);
        if (others < 0)
            return -1;
        count = look(waiting);
        if (count || others || clock_now() >= deadline)
            return count + others;
    }
}

VB_PUBLIC int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
    VB_CALL;
    struct watched few[FEW];
    struct pollfd few_kernel[FEW + 1];
    struct waiting waiting = { .fds = fds, .count = nfds, .watched = few, .kernel = few_kernel };
    uint64_t deadline = CLOCK_NEVER;
    void *memory = NULL;
    int count;

    if (!has_rsocket(fds, nfds))
        return poll(fds, nfds, timeout);
    if (nfds > FEW) {
        if (nfds > UINT32_MAX)
            return rs_fail(EINVAL);
        memory = calloc(nfds + 1, sizeof(*waiting.watched) + sizeof(*waiting.kernel));
        if (!memory)
            return rs_fail(ENOMEM);
        waiting.watched = memory;
        waiting.kernel = (struct pollfd *)(waiting.watched + nfds);
    }
    if (timeout >= 0)
        deadline = timeout ? clock_after(clock_now(), (uint64_t)timeout * CLOCK_NS_PER_MS) : 0;
    enter_all(&waiting);
    count = wait_all(&waiting, deadline);
    leave_all(&waiting);
    free(memory);
    return count;
}

/* ---- rselect ---- */

static bool is_in(int fd, const fd_set *set)
{
    return set && FD_ISSET(fd, set);
}

/* The kernel's translation: see POLLIN_SET and the like in select(2). */
static short asked_events(int fd, const fd_set *in, const fd_set *out, const fd_set *except)
{
    return (short)((is_in(fd, in) ? POLLIN : 0) | (is_in(fd, out) ? POLLOUT : 0) |
                   (is_in(fd, except) ? POLLPRI : 0));
}

static int report(const struct pollfd *fd, short asked, int bits, fd_set *set)
{
    if (!set || !(fd->events & asked) || !(fd->revents & bits))
        return 0;
    FD_SET(fd->fd, set);
    return 1;
}

static int report_all(const struct pollfd *fds, nfds_t count, fd_set *in, fd_set *out,
                      fd_set *except)
{
    int reported = 0;

    for (nfds_t i = 0; i < count; i++)
        if (fds[i].revents & POLLNVAL)
            return rs_fail(EBADF);
    if (in)
        FD_ZERO(in);
    if (out)
        FD_ZERO(out);
    if (except)
        FD_ZERO(except);
    for (nfds_t i = 0; i < count; i++)
        reported += report(&fds[i], POLLIN, POLLIN | POLLHUP | POLLERR, in) +
                    report(&fds[i], POLLOUT, POLLOUT | POLLERR, out) +
                    report(&fds[i], POLLPRI, POLLPRI, except);
    return reported;
}

static int timeout_ms(const struct timeval *timeout)
{
    int64_t ms;

    if (!timeout)
        return -1;
    if (timeout->tv_sec > INT32_MAX / 1000 || timeout->tv_usec > INT32_MAX)
        return INT32_MAX;
    ms = (int64_t)timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000;
    return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

VB_PUBLIC int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
                      struct timeval *timeout)
{
    struct pollfd fds[FD_SETSIZE];
    nfds_t count = 0;

    if (nfds < 0 || nfds > FD_SETSIZE || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
        return rs_fail(EINVAL);
    for (int fd = 0; fd < nfds; fd++) {
        short events = asked_events(fd, readfds, writefds, exceptfds);

        if (events)
            fds[count++] = (struct pollfd){ .fd = fd, .events = events };
    }
    if (rpoll(fds, count, timeout_ms(timeout)) < 0)
        return -1;
    return report_all(fds, count, readfds, writefds, exceptfds);
}
