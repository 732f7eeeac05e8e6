/* SPDX-License-Identifier: BSD-3-Clause
 *
 * repoll_create, repoll_ctl, repoll_wait: epoll sets for rsockets and other descriptors. The set's
 * number is the kernel's set, which has the other descriptors.
 */
#include "epoll_set.h"
#include "repoll.h"
#include "rsockets.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

/* Guards all sets: waits leave it while they sleep. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rs_set *sets;
static atomic_uint set_count;

static int poll_all(struct pollfd *fds, nfds_t count, uint64_t deadline, const sigset_t *mask)
{
    (void)mask; /* none */
    return rpoll(fds, count, clock_poll_ms(clock_now(), deadline));
}

static void forget(struct rs_watch *watch)
{
    free(watch);
}

static void tidy(struct rs_set *set);

static const struct rs_set_calls calls = {
    .poll = poll_all, .epoll_wait = epoll_wait, .close = close, .tidy = tidy, .forget = forget
};

static void tidy(struct rs_set *set)
{
    struct rs_watch *watch, *next;

    DL_FOREACH_SAFE (set->watches, watch, next)
        if (!rs_is_rsocket(watch->fd))
            rs_set_remove(set, watch, &calls);
}

static struct rs_set *find_set(int fd)
{
    struct rs_set *set;

    DL_SEARCH_SCALAR(sets, set, fd, fd);
    return set;
}

static bool close_set(int fd)
{
    struct rs_set *set = find_set(fd);

    if (!set)
        return false;
    DL_DELETE(sets, set);
    atomic_fetch_sub(&set_count, 1);
    rs_set_close(set, &calls);
    return true;
}

/* The parent's sets are none of the child's: a thread that is not there may have held the lock. */
static void in_child(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    sets = NULL;
    atomic_store(&set_count, 0);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

VB_PUBLIC int repoll_create(int flags)
{
    VB_CALL;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct rs_set *set;
    int fd;

    if (flags & ~(EPOLL_CLOEXEC | O_NONBLOCK))
        return rs_fail(EINVAL);
    pthread_once(&once, watch_forks);
    fd = epoll_create1(flags & EPOLL_CLOEXEC);
    if (fd < 0)
        return -1;
    set = rs_set_new(fd);
    if (!set) {
        int error = errno;

        close(fd);
        return rs_fail(error);
    }
    pthread_mutex_lock(&lock);
    close_set(fd); /* one that was closed by close(2) */
    DL_APPEND(sets, set);
    atomic_fetch_add(&set_count, 1);
    pthread_mutex_unlock(&lock);
    return fd;
}

/* ---- repoll_ctl ---- */

static int add_watch(struct rs_set *set, int fd, const struct epoll_event *event)
{
    struct rs_watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return ENOMEM;
    *watch = (struct rs_watch){ .fd = fd, .event = *event };
    rs_set_add(set, watch);
    return 0;
}

/* Returns 0 or an error number. */
static int change(struct rs_set *set, int op, int fd, const struct epoll_event *event)
{
    struct rs_watch *watch;

    DL_SEARCH_SCALAR(set->watches, watch, fd, fd);
    switch (op) {
    case EPOLL_CTL_ADD: return watch ? EEXIST : add_watch(set, fd, event);
    case EPOLL_CTL_MOD:
        if (watch)
            rs_set_modify(set, watch, event);
        return watch ? 0 : ENOENT;
    case EPOLL_CTL_DEL:
        if (watch)
            rs_set_remove(set, watch, &calls);
        return watch ? 0 : ENOENT;
    default: return EINVAL;
    }
}

VB_PUBLIC int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    VB_CALL;
    struct epoll_event level = { .events = 0 };
    struct rs_set *set;
    int error;

    if (fd < 0)
        return rs_fail(EBADF);
    if (!event && op != EPOLL_CTL_DEL)
        return rs_fail(EINVAL);
    if (event)
        level = *event;
    level.events &= ~(uint32_t)EPOLLET; /* of rsockets: nobody tells the set what was read */
    pthread_mutex_lock(&lock);
    set = find_set(epfd);
    if (!set || find_set(fd))
        error = EINVAL;
    else if (rs_is_rsocket(fd))
        error = change(set, op, fd, &level);
    else
        error = epoll_ctl(epfd, op, fd, event) ? errno : 0;
    pthread_mutex_unlock(&lock);
    return error ? rs_fail(error) : 0;
}

/* ---- repoll_wait ---- */

VB_PUBLIC int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
    VB_CALL;
    uint64_t deadline = CLOCK_NEVER;
    struct rs_set *set;
    int result = -1;

    if (!events || maxevents <= 0)
        return rs_fail(EINVAL);
    if (timeout >= 0)
        deadline = timeout ? clock_after(clock_now(), (uint64_t)timeout * CLOCK_NS_PER_MS) : 0;
    errno = EINVAL;
    pthread_mutex_lock(&lock);
    set = find_set(epfd);
    if (set)
        result = rs_set_wait(set, &calls, &lock, events, maxevents, deadline, NULL);
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- closing ---- */

bool rs_repoll_close(int fd)
{
    bool closed;

    if (!atomic_load(&set_count))
        return false;
    pthread_mutex_lock(&lock);
    closed = close_set(fd);
    if (closed)
        close(fd);
    pthread_mutex_unlock(&lock);
    return closed;
}

void rs_repoll_forget(int fd)
{
    struct rs_set *set;

    if (!atomic_load(&set_count))
        return;
    pthread_mutex_lock(&lock);
    DL_FOREACH (sets, set)
        (void)change(set, EPOLL_CTL_DEL, fd, NULL);
    pthread_mutex_unlock(&lock);
}
