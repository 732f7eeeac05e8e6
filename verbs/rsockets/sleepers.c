/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Threads that wait for rsockets. One of them takes the event of a completion channel; the others
 * would sleep on. So whoever changes an rsocket wakes all its sleepers, each by an eventfd of the
 * thread's own.
 */
#include "rsockets.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static pthread_key_t key;
static bool have_key;

static void close_own(void *value)
{
    close((int)(intptr_t)value - 1);
}

static void create_key(void)
{
    have_key = pthread_key_create(&key, close_own) == 0;
}

/* The key's value is the descriptor plus 1: 0 means none. */
int rs_sleeper_fd(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int fd;

    pthread_once(&once, create_key);
    if (!have_key)
        return rs_fail(ENOMEM);
    fd = (int)(intptr_t)pthread_getspecific(key) - 1;
    if (fd >= 0)
        return fd;
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd >= 0 && pthread_setspecific(key, (void *)(intptr_t)(fd + 1))) {
        close(fd);
        return rs_fail(ENOMEM);
    }
    return fd;
}

/* The parent's thread has the same descriptor. */
void rs_sleepers_forked(void)
{
    int fd = have_key ? (int)(intptr_t)pthread_getspecific(key) - 1 : -1;

    if (fd < 0)
        return;
    close(fd);
    pthread_setspecific(key, NULL);
}

void rs_sleeper_clear(void)
{
    eventfd_t count;

    (void)eventfd_read(rs_sleeper_fd(), &count);
}

static void wake_in_lane(struct rs_socket *socket)
{
    if (socket->woken)
        return;
    socket->woken = true;
    vb_cq_wait_end(socket->stream.channel, &socket->wake_item);
}

void rs_wake(struct rs_socket *socket)
{
    for (struct rs_sleeper *sleeper = socket->sleepers; sleeper; sleeper = sleeper->next) {
        if (sleeper->fd < 0)
            wake_in_lane(socket);
        else
            (void)eventfd_write(sleeper->fd, 1);
    }
}
