/* SPDX-License-Identifier: BSD-3-Clause
 *
 * poll, ppoll, select, pselect over both kinds of sockets.
 *
 * rpoll sleeps in poll(2), which comes here, too, and goes to the kernel with the signal mask of
 * the thread's ppoll or pselect: so no signal is lost between the mask and the sleep.
 */
#include "rspreload.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

static __thread const sigset_t *sleep_mask __attribute__((tls_model("initial-exec")));

int rp_poll_rsockets(struct pollfd *fds, nfds_t count, int ms, const sigset_t *mask)
{
    int result;

    rp_inside++;
    sleep_mask = mask;
    result = rpoll(fds, count, ms);
    sleep_mask = NULL;
    rp_inside--;
    return result;
}

/* ---- a list with carried sockets ---- */

struct list {
    struct pollfd *fds, *kernel; /* the program's; with the numbers of rsockets */
    struct rp_socket **sockets;  /* NULL: not carried */
    nfds_t count;
};

#define FEW 32u

/* Returns the number of carried sockets. */
static nfds_t enter(struct list *list)
{
    nfds_t carried = 0;

    for (nfds_t i = 0; i < list->count; i++) {
        struct rp_socket *socket = rp_get(list->fds[i].fd);

        list->kernel[i] = list->fds[i];
        list->sockets[i] = socket;
        if (!socket)
            continue;
        list->kernel[i].fd = atomic_load(&socket->rs);
        carried++;
    }
    return carried;
}

static void leave(struct list *list)
{
    for (nfds_t i = 0; i < list->count; i++)
        if (list->sockets[i])
            rp_put(list->sockets[i]);
}

/* Connects that failed try the kernel's socket. Returns the number of those that do. */
static int settle(const struct list *list)
{
    int count = 0;

    for (nfds_t i = 0; i < list->count; i++)
        if (list->sockets[i] && (list->kernel[i].revents & POLLERR))
            count += rp_retry_plain(list->sockets[i], list->fds[i].fd);
    return count;
}

static int poll_kernel(struct pollfd *fds, nfds_t count, uint64_t deadline, const sigset_t *mask)
{
    struct timespec left = clock_left(clock_now(), deadline);

    return rp_next()->ppoll(fds, count, deadline == CLOCK_NEVER ? NULL : &left, mask);
}

static int poll_list(struct list *list, uint64_t deadline, const sigset_t *mask)
{
    int result;

    for (;;) {
        if (!enter(list)) {
            leave(list);
            return poll_kernel(list->fds, list->count, deadline, mask);
        }
        result = rp_poll_rsockets(list->kernel, list->count, clock_poll_ms(clock_now(), deadline),
                                  mask);
        if (result <= 0 || !settle(list))
            break;
        leave(list);
    }
    for (nfds_t i = 0; result >= 0 && i < list->count; i++)
        list->fds[i].revents = list->kernel[i].revents;
    leave(list);
    return result;
}

int rp_poll(struct pollfd *fds, nfds_t count, uint64_t deadline, const sigset_t *mask)
{
    struct rp_socket *few_sockets[FEW];
    struct pollfd few[FEW];
    struct list list = { .fds = fds, .count = count, .kernel = few, .sockets = few_sockets };
    void *memory = NULL;
    int result;

    if (count > FEW) {
        memory = count > UINT32_MAX ? NULL : calloc(count, sizeof(*few) + sizeof(*few_sockets));
        if (!memory)
            return rp_fail(ENOMEM);
        list.sockets = memory;
        list.kernel = (struct pollfd *)(list.sockets + count);
    }
    result = poll_list(&list, deadline, mask);
    free(memory);
    return result;
}

static bool has_carried(struct pollfd *fds, nfds_t count)
{
    for (nfds_t i = 0; !rp_inside && i < count; i++) {
        struct rp_socket *socket = rp_get(fds[i].fd);

        if (!socket)
            continue;
        rp_put(socket);
        return true;
    }
    return false;
}

/* ---- poll, ppoll ---- */

static uint64_t deadline_ms(int timeout)
{
    return timeout < 0 ? CLOCK_NEVER
                       : clock_after(clock_now(), (uint64_t)timeout * CLOCK_NS_PER_MS);
}

RP_PUBLIC int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    if (rp_inside && sleep_mask)
        return poll_kernel(fds, count, deadline_ms(timeout), sleep_mask);
    if (!has_carried(fds, count))
        return rp_next()->poll(fds, count, timeout);
    return rp_poll(fds, count, timeout ? deadline_ms(timeout) : 0, NULL);
}

/* False: wrong. */
static bool deadline_of(const struct timespec *timeout, uint64_t *deadline)
{
    *deadline = CLOCK_NEVER;
    if (!timeout)
        return true;
    if (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= 1000000000)
        return false;
    if ((uint64_t)timeout->tv_sec < CLOCK_NEVER / CLOCK_NS_PER_S - 1)
        *deadline = clock_after(clock_now(), (uint64_t)timeout->tv_sec * CLOCK_NS_PER_S +
                                                 (uint64_t)timeout->tv_nsec);
    return true;
}

RP_PUBLIC int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                    const sigset_t *mask)
{
    uint64_t deadline;

    if (!has_carried(fds, count))
        return rp_next()->ppoll(fds, count, timeout, mask);
    return deadline_of(timeout, &deadline) ? rp_poll(fds, count, deadline, mask) : rp_fail(EINVAL);
}

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                const sigset_t *mask, size_t size);
void __chk_fail(void) __attribute__((noreturn));

RP_PUBLIC int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size)
{
    if (size / sizeof(*fds) < count)
        __chk_fail();
    return poll(fds, count, timeout);
}

RP_PUBLIC int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                          const sigset_t *mask, size_t size)
{
    if (size / sizeof(*fds) < count)
        __chk_fail();
    return ppoll(fds, count, timeout, mask);
}

/* ---- select, pselect ---- */

/* Programs have sets of more than FD_SETSIZE numbers, too: so bits are counted by hand. */
static bool is_in(const fd_set *set, int fd)
{
    return set && (((const unsigned long *)set)[(unsigned)fd / __NFDBITS] &
                   (1ul << ((unsigned)fd % __NFDBITS)));
}

static void put_in(fd_set *set, int fd)
{
    ((unsigned long *)set)[(unsigned)fd / __NFDBITS] |= 1ul << ((unsigned)fd % __NFDBITS);
}

static void clear(fd_set *set, int count)
{
    if (set)
        memset(set, 0, ((unsigned)count + __NFDBITS - 1) / __NFDBITS * sizeof(unsigned long));
}

/* The three sets of a select. */
struct sets {
    fd_set *in, *out, *except;
    int count;
};

static bool select_has_carried(const struct sets *sets)
{
    struct pollfd one = { .fd = 0 };

    for (; !rp_inside && one.fd < sets->count; one.fd++)
        if ((is_in(sets->in, one.fd) || is_in(sets->out, one.fd) || is_in(sets->except, one.fd)) &&
            has_carried(&one, 1))
            return true;
    return false;
}

static nfds_t to_list(const struct sets *sets, struct pollfd *fds)
{
    nfds_t used = 0;

    for (int fd = 0; fd < sets->count; fd++) {
        int events = (is_in(sets->in, fd) ? POLLIN : 0) | (is_in(sets->out, fd) ? POLLOUT : 0) |
                     (is_in(sets->except, fd) ? POLLPRI : 0);

        if (events)
            fds[used++] = (struct pollfd){ .fd = fd, .events = (short)events };
    }
    return used;
}

static int report(const struct pollfd *fd, int asked, int bits, fd_set *set)
{
    if (!(fd->events & asked) || !(fd->revents & bits))
        return 0;
    put_in(set, fd->fd);
    return 1;
}

/* As select(2) names the events of poll(2). */
static int from_list(const struct sets *sets, const struct pollfd *fds, nfds_t used)
{
    int reported = 0;

    for (nfds_t i = 0; i < used; i++)
        if (fds[i].revents & POLLNVAL)
            return rp_fail(EBADF);
    clear(sets->in, sets->count);
    clear(sets->out, sets->count);
    clear(sets->except, sets->count);
    for (nfds_t i = 0; i < used; i++)
        reported += report(&fds[i], POLLIN, POLLIN | POLLHUP | POLLERR, sets->in) +
                    report(&fds[i], POLLOUT, POLLOUT | POLLERR, sets->out) +
                    report(&fds[i], POLLPRI, POLLPRI, sets->except);
    return reported;
}

static int select_carried(const struct sets *sets, uint64_t deadline, const sigset_t *mask)
{
    struct pollfd *fds = calloc((size_t)sets->count, sizeof(*fds));
    nfds_t used;
    int result;

    if (!fds)
        return rp_fail(ENOMEM);
    used = to_list(sets, fds);
    result = rp_poll(fds, used, deadline, mask);
    if (result >= 0)
        result = from_list(sets, fds, used);
    free(fds);
    return result;
}

/* As Linux does, the time that is left is stored. */
RP_PUBLIC int select(int count, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
    const struct sets sets = { .in = in, .out = out, .except = except, .count = count };
    struct timespec time = { 0 };
    uint64_t deadline;
    int result;

    if (!select_has_carried(&sets))
        return rp_next()->select(count, in, out, except, timeout);
    if (timeout) {
        time.tv_sec = timeout->tv_sec + timeout->tv_usec / 1000000;
        time.tv_nsec = timeout->tv_usec % 1000000 * 1000;
    }
    if (!deadline_of(timeout ? &time : NULL, &deadline))
        return rp_fail(EINVAL);
    result = select_carried(&sets, deadline, NULL);
    if (timeout) {
        time = clock_left(clock_now(), deadline);
        *timeout = (struct timeval){ .tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / 1000 };
    }
    return result;
}

RP_PUBLIC int pselect(int count, fd_set *in, fd_set *out, fd_set *except,
                      const struct timespec *timeout, const sigset_t *mask)
{
    const struct sets sets = { .in = in, .out = out, .except = except, .count = count };
    uint64_t deadline;

    if (!select_has_carried(&sets))
        return rp_next()->pselect(count, in, out, except, timeout, mask);
    if (!deadline_of(timeout, &deadline))
        return rp_fail(EINVAL);
    return select_carried(&sets, deadline, mask);
}
