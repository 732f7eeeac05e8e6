/* SPDX-License-Identifier: BSD-3-Clause
 * epoll sets with rsockets: their watches, and waiting. */
#include "epoll_set.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <utlist.h>

struct rs_set *rs_set_new(int fd)
{
    struct rs_set *set = calloc(1, sizeof(*set));

    if (!set)
        return NULL;
    set->fd = fd;
    set->changed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (set->changed_fd >= 0)
        return set;
    free(set);
    return NULL;
}

static void take_out(struct rs_set *set, struct rs_watch *watch, const struct rs_set_calls *calls)
{
    DL_DELETE(set->watches, watch);
    set->count--;
    calls->forget(watch);
}

static void free_set(struct rs_set *set, const struct rs_set_calls *calls)
{
    while (set->watches)
        take_out(set, set->watches, calls);
    calls->close(set->changed_fd);
    free(set);
}

void rs_set_close(struct rs_set *set, const struct rs_set_calls *calls)
{
    set->closed = true;
    if (!set->waits)
        free_set(set, calls);
    else
        eventfd_write(set->changed_fd, 1);
}

void rs_set_add(struct rs_set *set, struct rs_watch *watch)
{
    DL_APPEND(set->watches, watch);
    set->count++;
    eventfd_write(set->changed_fd, 1);
}

void rs_set_modify(struct rs_set *set, struct rs_watch *watch, const struct epoll_event *event)
{
    watch->event = *event;
    watch->reported = 0;
    watch->disabled = false;
    eventfd_write(set->changed_fd, 1);
}

void rs_set_remove(struct rs_set *set, struct rs_watch *watch, const struct rs_set_calls *calls)
{
    take_out(set, watch, calls);
    eventfd_write(set->changed_fd, 1);
}

/* ---- waiting ---- */

#define ALWAYS ((uint32_t)(EPOLLERR | EPOLLHUP))
#define FLAGS  ((uint32_t)(EPOLLET | EPOLLONESHOT | EPOLLWAKEUP) | EPOLLEXCLUSIVE)

/* The events that the watch waits for. 0: for none. */
static uint32_t wanted(struct rs_watch *watch, const struct rs_set_calls *calls)
{
    bool edge = watch->event.events & (uint32_t)EPOLLET;

    if (watch->disabled)
        return 0;
    if (edge && calls->refresh)
        calls->refresh(watch);
    return ((watch->event.events & ~FLAGS) | ALWAYS) & ~(edge ? watch->reported : 0);
}

/* Behind the two of the set's own. poll(2) reports errors whether asked or not, so a watch that has
 * had them is left out. Under the lock. */
static nfds_t list_watches(struct rs_set *set, const struct rs_set_calls *calls, struct pollfd *fds)
{
    struct rs_watch *watch;
    nfds_t count = 2;

    fds[0] = (struct pollfd){ .fd = set->fd, .events = POLLIN };
    fds[1] = (struct pollfd){ .fd = set->changed_fd, .events = POLLIN };
    DL_FOREACH (set->watches, watch) {
        uint32_t events = wanted(watch, calls);
        bool is_watched = (events & ALWAYS) == ALWAYS;

        fds[count++] = (struct pollfd){ .fd = is_watched ? watch->fd : -1,
                                        .events = (short)(events & 0xffff) };
    }
    return count;
}

static void take(struct rs_watch *watch, uint32_t ready, struct epoll_event *event)
{
    *event = (struct epoll_event){ .events = ready, .data = watch->event.data };
    watch->reported |= ready;
    watch->disabled = watch->event.events & (uint32_t)EPOLLONESHOT;
}

/* A watch that was added or removed meanwhile shifts the list: it is found by its number. */
static int take_watches(struct rs_set *set, const struct rs_set_calls *calls,
                        const struct pollfd *fds, nfds_t count, struct epoll_event *events,
                        int most)
{
    int taken = 0;

    for (nfds_t i = 2; i < count && taken < most; i++) {
        struct rs_watch *watch;
        uint32_t ready;

        if (fds[i].fd < 0 || !fds[i].revents || (fds[i].revents & POLLNVAL))
            continue;
        DL_SEARCH_SCALAR(set->watches, watch, fd, fds[i].fd);
        ready = watch ? (uint32_t)(uint16_t)fds[i].revents & wanted(watch, calls) : 0;
        if (ready)
            take(watch, ready, &events[taken++]);
    }
    return taken;
}

/* Those that were reported go to the end, so that all have their turn. */
static void rotate(struct rs_set *set, int taken)
{
    for (; taken > 0 && set->watches; taken--) {
        struct rs_watch *first = set->watches;

        DL_DELETE(set->watches, first);
        DL_APPEND(set->watches, first);
    }
}

/* One sleep. Returns the number of events; *again: none, and no time has passed. */
static int wait_once(struct rs_set *set, const struct rs_set_calls *calls, pthread_mutex_t *lock,
                     struct epoll_event *events, int most, uint64_t deadline, const sigset_t *mask,
                     bool *again)
{
    struct pollfd *fds = malloc((set->count + 2) * sizeof(*fds));
    nfds_t count = fds ? list_watches(set, calls, fds) : 0;
    eventfd_t changes;
    int result = 0, error;

    *again = false;
    if (!fds) {
        errno = ENOMEM;
        return -1;
    }
    pthread_mutex_unlock(lock);
    result = calls->poll(fds, count, deadline, mask);
    pthread_mutex_lock(lock);
    if (result > 0) {
        *again = true;
        if (fds[1].revents)
            (void)eventfd_read(set->changed_fd, &changes);
        result = take_watches(set, calls, fds, count, events, most);
        rotate(set, result);
    }
    if (result >= 0 && result < most && fds[0].revents) {
        int more = calls->epoll_wait(set->fd, events + result, most - result, 0);

        result = more > 0 ? result + more : result;
    }
    error = errno;
    free(fds);
    errno = error;
    return result;
}

int rs_set_wait(struct rs_set *set, const struct rs_set_calls *calls, pthread_mutex_t *lock,
                struct epoll_event *events, int most, uint64_t deadline, const sigset_t *mask)
{
    bool again;
    int result, error;

    set->waits++;
    do {
        calls->tidy(set);
        result = wait_once(set, calls, lock, events, most, deadline, mask, &again);
    } while (!result && again && !set->closed);
    error = errno;
    if (--set->waits == 0 && set->closed)
        free_set(set, calls);
    errno = error;
    return result;
}
