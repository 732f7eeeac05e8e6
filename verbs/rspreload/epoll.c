/* SPDX-License-Identifier: BSD-3-Clause
 *
 * epoll sets with carried sockets. Such a set has a list of watches beside the kernel's set; a wait
 * polls both. The list is as long as the number of watched rsockets, and so is each wait.
 *
 * Edge-triggered: an event is reported again after a call that found nothing to read, or no room,
 * or less than it asked for. The kernel reports at each arrival.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "rspreload.h"

#include "base/clock.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <utlist.h>

struct watch {
    int fd;
    struct rp_socket *socket;
    struct epoll_event event;
    uint32_t reported;                /* edge-triggered */
    unsigned drained_in, drained_out; /* of the socket, when that was reported */
    bool disabled;                    /* one-shot */
    struct watch *prev, *next;
};

struct set {
    int fd, changed_fd; /* changed_fd: readable, if a watch was added or changed */
    unsigned waits;     /* threads in a wait */
    bool closed;
    size_t count;
    struct watch *watches;
    struct set *prev, *next;
};

/* Guards all sets: waits leave it while they sleep. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct set *sets;
static atomic_uint set_count;

static struct set *find_set(int fd)
{
    struct set *set;

    DL_FOREACH (sets, set)
        if (set->fd == fd)
            return set;
    return NULL;
}

static struct set *make_set(int fd)
{
    struct set *set = find_set(fd);

    if (set)
        return set;
    set = calloc(1, sizeof *set);
    if (!set)
        return NULL;
    set->fd = fd;
    set->changed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (set->changed_fd < 0) {
        free(set);
        return NULL;
    }
    DL_APPEND(sets, set);
    atomic_fetch_add(&set_count, 1);
    return set;
}

static void remove_watch(struct set *set, struct watch *watch)
{
    DL_DELETE(set->watches, watch);
    set->count--;
    rp_put(watch->socket);
    free(watch);
}

static void free_set(struct set *set)
{
    while (set->watches)
        remove_watch(set, set->watches);
    rp_next()->close(set->changed_fd);
    free(set);
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
    struct set *set;

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
    struct set *set;

    if (!atomic_load(&set_count))
        return;
    pthread_mutex_lock(&lock);
    set = find_set(fd);
    if (set) {
        DL_DELETE(sets, set);
        atomic_fetch_sub(&set_count, 1);
        set->closed = true;
        if (!set->waits)
            free_set(set);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- epoll_ctl ---- */

/* A watch of that socket; others of its number belong to one that was closed. */
static struct watch *find_watch(struct set *set, int fd, const struct rp_socket *socket)
{
    struct watch *watch;

    DL_FOREACH (set->watches, watch)
        if (watch->fd == fd && watch->socket == socket)
            return watch;
    return NULL;
}

/* The socket's user passes to the watch. */
static int add_watch(struct set *set, int fd, struct rp_socket *socket,
                     const struct epoll_event *event)
{
    struct watch *watch = calloc(1, sizeof *watch);

    if (!watch)
        return ENOMEM;
    atomic_fetch_add(&socket->users, 1);
    *watch = (struct watch){ .fd = fd, .socket = socket, .event = *event };
    DL_APPEND(set->watches, watch);
    set->count++;
    return 0;
}

/* Under the lock. Returns 0 or an error number. */
static int change(int epoll, int op, int fd, struct rp_socket *socket,
                  const struct epoll_event *event)
{
    struct set *set = op == EPOLL_CTL_ADD ? make_set(epoll) : find_set(epoll);
    struct watch *watch = set ? find_watch(set, fd, socket) : NULL;

    if (!set)
        return op == EPOLL_CTL_ADD ? ENOMEM : ENOENT;
    if (op == EPOLL_CTL_ADD ? watch != NULL : !watch)
        return watch ? EEXIST : ENOENT;
    if (op == EPOLL_CTL_ADD) {
        if (add_watch(set, fd, socket, event))
            return ENOMEM;
    } else if (op == EPOLL_CTL_MOD) {
        watch->event = *event;
        watch->reported = 0;
        watch->disabled = false;
    } else {
        remove_watch(set, watch);
    }
    eventfd_write(set->changed_fd, 1);
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

#define ALWAYS ((uint32_t)(EPOLLERR | EPOLLHUP))
#define FLAGS  ((uint32_t)(EPOLLET | EPOLLONESHOT | EPOLLWAKEUP) | EPOLLEXCLUSIVE)

/* What is not to be reported again yet. */
static uint32_t hidden(struct watch *watch)
{
    unsigned in = atomic_load(&watch->socket->drained_in);
    unsigned out = atomic_load(&watch->socket->drained_out);

    if (!(watch->event.events & (uint32_t)EPOLLET))
        return 0;
    if (in != watch->drained_in)
        watch->reported &= ~(uint32_t)(EPOLLIN | EPOLLRDNORM);
    if (out != watch->drained_out)
        watch->reported &= ~(uint32_t)(EPOLLOUT | EPOLLWRNORM);
    watch->drained_in = in;
    watch->drained_out = out;
    return watch->reported;
}

/* The events that the watch waits for. 0: for none. */
static uint32_t wanted(struct watch *watch)
{
    return watch->disabled ? 0 : ((watch->event.events & ~FLAGS) | ALWAYS) & ~hidden(watch);
}

/* A socket that the program has closed is no longer watched; one that has become the kernel's is
 * watched by the kernel. */
static void tidy(struct set *set)
{
    struct watch *watch, *next;

    DL_FOREACH_SAFE (set->watches, watch, next) {
        if (atomic_load(&watch->socket->rs) >= 0)
            continue;
        if (atomic_load(&watch->socket->descriptors))
            rp_next()->epoll_ctl(set->fd, EPOLL_CTL_ADD, watch->fd, &watch->event);
        remove_watch(set, watch);
    }
}

/* Behind the two of the set's own. poll(2) reports errors whether asked or not, so a watch that has
 * had them is left out. Under the lock. */
static nfds_t list_watches(struct set *set, struct pollfd *fds)
{
    struct watch *watch;
    nfds_t count = 2;

    fds[0] = (struct pollfd){ .fd = set->fd, .events = POLLIN };
    fds[1] = (struct pollfd){ .fd = set->changed_fd, .events = POLLIN };
    DL_FOREACH (set->watches, watch) {
        uint32_t events = wanted(watch);
        bool is_watched = (events & ALWAYS) == ALWAYS;

        fds[count++] = (struct pollfd){ .fd = is_watched ? watch->fd : -1,
                                        .events = (short)(events & 0xffff) };
    }
    return count;
}

static void take(struct watch *watch, uint32_t ready, struct epoll_event *event)
{
    *event = (struct epoll_event){ .events = ready, .data = watch->event.data };
    watch->reported |= ready;
    watch->disabled = watch->event.events & (uint32_t)EPOLLONESHOT;
}

/* A watch that was added or removed meanwhile shifts the list: it is found by its number. */
static int take_watches(struct set *set, const struct pollfd *fds, nfds_t count,
                        struct epoll_event *events, int most)
{
    int taken = 0;

    for (nfds_t i = 2; i < count && taken < most; i++) {
        struct watch *watch;
        uint32_t ready;

        if (fds[i].fd < 0 || !fds[i].revents || (fds[i].revents & POLLNVAL))
            continue;
        DL_SEARCH_SCALAR(set->watches, watch, fd, fds[i].fd);
        ready = watch ? (uint32_t)(uint16_t)fds[i].revents & wanted(watch) : 0;
        if (ready)
            take(watch, ready, &events[taken++]);
    }
    return taken;
}

/* Those that were reported go to the end, so that all have their turn. */
static void rotate(struct set *set, int taken)
{
    for (; taken > 0 && set->watches; taken--) {
        struct watch *first = set->watches;

        DL_DELETE(set->watches, first);
        DL_APPEND(set->watches, first);
    }
}

/* One sleep. Returns the number of events; *again: none, and no time has passed. */
static int wait_once(struct set *set, struct epoll_event *events, int most, uint64_t deadline,
                     const sigset_t *mask, bool *again)
{
    struct pollfd *fds = malloc((set->count + 2) * sizeof *fds);
    nfds_t count = fds ? list_watches(set, fds) : 0;
    eventfd_t changes;
    int result = 0;

    *again = false;
    if (!fds)
        return rp_fail(ENOMEM);
    pthread_mutex_unlock(&lock);
    result = rp_poll(fds, count, deadline, mask);
    pthread_mutex_lock(&lock);
    if (result > 0) {
        *again = true;
        if (fds[1].revents)
            (void)eventfd_read(set->changed_fd, &changes);
        result = take_watches(set, fds, count, events, most);
        rotate(set, result);
    }
    if (result >= 0 && result < most && fds[0].revents) {
        int more = rp_next()->epoll_wait(set->fd, events + result, most - result, 0);

        result = more > 0 ? result + more : result;
    }
    free(fds);
    return result;
}

/* Under the lock, which is left for the sleeps. */
static int wait_locked(struct set *set, struct epoll_event *events, int most, uint64_t deadline,
                       const sigset_t *mask)
{
    bool again;
    int result;

    do {
        tidy(set);
        result = wait_once(set, events, most, deadline, mask, &again);
    } while (!result && again && !set->closed);
    return result;
}

/* False: the set has no carried socket, and the kernel's call is enough. */
static bool wait_carried(int fd, struct epoll_event *events, int most, uint64_t deadline,
                         const sigset_t *mask, int *result)
{
    struct set *set;
    int error;

    if (rp_inside || !atomic_load(&set_count) || most <= 0)
        return false;
    pthread_mutex_lock(&lock);
    set = find_set(fd);
    if (set && !set->watches)
        set = NULL;
    if (set) {
        set->waits++;
        *result = wait_locked(set, events, most, deadline, mask);
        error = errno;
        if (--set->waits == 0 && set->closed)
            free_set(set);
        errno = error;
    }
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
