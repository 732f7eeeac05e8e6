/* SPDX-License-Identifier: BSD-3-Clause
 *
 * epoll sets with carried sockets: those of ../rsockets/epoll_set.h. A watch has the program's
 * number.
 *
 * Edge-triggered: an event is reported again after a call that found nothing to read, or no room,
 * or less than it asked for. The kernel reports at each arrival.
 */
#include "rspreload.h"

#include "verbs/rsockets/epoll_set.h"

#include "base/clock.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <utlist.h>

struct watch {
    struct rs_watch rs; /* first */
    struct rp_socket *socket;
    unsigned drained_in, drained_out; /* of the socket, when its events were reported */
};

/* Guards all sets: waits leave it while they sleep. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rs_set *sets;
static atomic_uint set_count;

static struct rs_set *find_set(int fd)
{
    struct rs_set *set;

    DL_FOREACH (sets, set)
        if (set->fd == fd)
            return set;
    return NULL;
}

static struct rs_set *make_set(int fd)
{
    struct rs_set *set = find_set(fd);

    if (set)
        return set;
    set = rs_set_new(fd);
    if (!set)
        return NULL;
    DL_APPEND(sets, set);
    atomic_fetch_add(&set_count, 1);
    return set;
}

static void forget(struct rs_watch *watch)
{
    rp_put(((struct watch *)watch)->socket);
    free(watch);
}

/* Edge-triggered: after a call that found nothing more, what comes is new. */
static void refresh(struct rs_watch *rs)
{
    struct watch *watch = (struct watch *)rs;
    unsigned in = atomic_load(&watch->socket->drained_in);
    unsigned out = atomic_load(&watch->socket->drained_out);

    if (in != watch->drained_in)
        rs->reported &= ~(uint32_t)(EPOLLIN | EPOLLRDNORM);
    if (out != watch->drained_out)
        rs->reported &= ~(uint32_t)(EPOLLOUT | EPOLLWRNORM);
    watch->drained_in = in;
    watch->drained_out = out;
}

static void tidy(struct rs_set *set);
static int wait_kernel(int epoll, struct epoll_event *events, int most, int timeout);
static int close_kernel(int fd);

static const struct rs_set_calls calls = { .poll = rp_poll,
                                           .epoll_wait = wait_kernel,
                                           .close = close_kernel,
                                           .tidy = tidy,
                                           .refresh = refresh,
                                           .forget = forget };

static int wait_kernel(int epoll, struct epoll_event *events, int most, int timeout)
{
    return rp_next()->epoll_wait(epoll, events, most, timeout);
}

static int close_kernel(int fd)
{
    return rp_next()->close(fd);
}

/* A socket that the program has closed is no longer watched; one that has become the kernel's is
 * watched by the kernel. */
static void tidy(struct rs_set *set)
{
    struct rs_watch *rs, *next;

    DL_FOREACH_SAFE (set->watches, rs, next) {
        struct rp_socket *socket = ((struct watch *)rs)->socket;

        if (atomic_load(&socket->rs) >= 0)
            continue;
        if (atomic_load(&socket->descriptors))
            rp_next()->epoll_ctl(set->fd, EPOLL_CTL_ADD, rs->fd, &rs->event);
        rs_set_remove(set, rs, &calls);
    }
}

void rp_epoll_lock(bool locked)
{
    if (locked)
        pthread_mutex_lock(&lock);
    else
        pthread_mutex_unlock(&lock);
}

/* The parent's set has the same eventfd. A number is kept where it cannot be replaced: then the two
 * processes wake each other. */
void rp_epoll_forked(void)
{
    struct rs_set *set;

    DL_FOREACH (sets, set) {
        int fresh = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

        set->waits = 0;
        if (fresh < 0)
            continue;
        rp_next()->dup3(fresh, set->changed_fd, O_CLOEXEC);
        rp_next()->close(fresh);
    }
}

void rp_epoll_closed(int fd)
{
    struct rs_set *set;

    if (!atomic_load(&set_count))
        return;
    pthread_mutex_lock(&lock);
    set = find_set(fd);
    if (set) {
        DL_DELETE(sets, set);
        atomic_fetch_sub(&set_count, 1);
        rs_set_close(set, &calls);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- epoll_ctl ---- */

/* A watch of that socket; others of its number belong to one that was closed. */
static struct rs_watch *find_watch(struct rs_set *set, int fd, const struct rp_socket *socket)
{
    struct rs_watch *watch;

    DL_FOREACH (set->watches, watch)
        if (watch->fd == fd && ((struct watch *)watch)->socket == socket)
            return watch;
    return NULL;
}

/* The socket has one user more. */
static int add_watch(struct rs_set *set, int fd, struct rp_socket *socket,
                     const struct epoll_event *event)
{
    struct watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return ENOMEM;
    atomic_fetch_add(&socket->users, 1);
    *watch = (struct watch){ .rs = { .fd = fd, .event = *event }, .socket = socket };
    rs_set_add(set, &watch->rs);
    return 0;
}

/* Under the lock. Returns 0 or an error number. */
static int change(int epoll, int op, int fd, struct rp_socket *socket,
                  const struct epoll_event *event)
{
    struct rs_set *set = op == EPOLL_CTL_ADD ? make_set(epoll) : find_set(epoll);
    struct rs_watch *watch = set ? find_watch(set, fd, socket) : NULL;

    if (!set)
        return op == EPOLL_CTL_ADD ? ENOMEM : ENOENT;
    if (op == EPOLL_CTL_ADD ? watch != NULL : !watch)
        return watch ? EEXIST : ENOENT;
    if (op == EPOLL_CTL_ADD)
        return add_watch(set, fd, socket, event);
    if (op == EPOLL_CTL_MOD)
        rs_set_modify(set, watch, event);
    else
        rs_set_remove(set, watch, &calls);
    return 0;
}

RP_PUBLIC int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    struct rp_call call;
    int error;

    if (!rp_begin(&call, fd))
        return rp_next()->epoll_ctl(epoll, op, fd, event);
    if (rp_next()->fcntl(epoll, F_GETFD) < 0)
        error = EBADF;
    else if ((op != EPOLL_CTL_ADD && op != EPOLL_CTL_MOD && op != EPOLL_CTL_DEL) ||
             (op != EPOLL_CTL_DEL && !event))
        error = EINVAL;
    else {
        pthread_mutex_lock(&lock);
        error = change(epoll, op, fd, call.socket, event);
        pthread_mutex_unlock(&lock);
    }
    return (int)rp_end(&call, error ? rp_fail(error) : 0);
}

/* ---- epoll_wait ---- */

/* False: the set has no carried socket, and the kernel's call is enough. */
static bool wait_carried(int fd, struct epoll_event *events, int most, uint64_t deadline,
                         const sigset_t *mask, int *result)
{
    struct rs_set *set;

    if (rp_inside || !atomic_load(&set_count) || most <= 0)
        return false;
    pthread_mutex_lock(&lock);
    set = find_set(fd);
    if (set && !set->watches)
        set = NULL;
    if (set)
        *result = rs_set_wait(set, &calls, &lock, events, most, deadline, mask);
    pthread_mutex_unlock(&lock);
    return set != NULL;
}

static uint64_t deadline_of(int timeout)
{
    return timeout < 0 ? CLOCK_NEVER
           : timeout   ? clock_after(clock_now(), (uint64_t)timeout * CLOCK_NS_PER_MS)
                       : 0;
}

RP_PUBLIC int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    int result;

    if (wait_carried(epoll, events, most, deadline_of(timeout), NULL, &result))
        return result;
    return rp_next()->epoll_wait(epoll, events, most, timeout);
}

RP_PUBLIC int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout,
                          const sigset_t *mask)
{
    int result;

    if (wait_carried(epoll, events, most, deadline_of(timeout), mask, &result))
        return result;
    return rp_next()->epoll_pwait(epoll, events, most, timeout, mask);
}
