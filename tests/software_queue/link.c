/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Links, and the sockets that they come from. The two ends of a connection find each other by its
 * addresses, in a table of the process.
 */
#include "queue.h"

#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct link *table;

/* --- addresses --- */

/* An IPv4 address as IPv6 writes it, so that both ends of a connection agree. */
static void normalise(struct sockaddr_storage *address)
{
    const struct sockaddr_in from = *(const struct sockaddr_in *)(const void *)address;
    struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = from.sin_port };

    if (address->ss_family != AF_INET)
        return;
    to.sin6_addr.s6_addr[10] = to.sin6_addr.s6_addr[11] = 0xff;
    memcpy(&to.sin6_addr.s6_addr[12], &from.sin_addr, sizeof(from.sin_addr));
    memset(address, 0, sizeof(*address));
    memcpy(address, &to, sizeof(to));
}

static bool are_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in6 *x = (const void *)a, *y = (const void *)b;

    return x->sin6_family == AF_INET6 && y->sin6_family == AF_INET6 &&
           x->sin6_port == y->sin6_port &&
           !memcmp(&x->sin6_addr, &y->sin6_addr, sizeof(x->sin6_addr));
}

static bool addresses_of(int fd, struct sockaddr_storage *own, struct sockaddr_storage *peer)
{
    socklen_t own_length = sizeof(*own), peer_length = sizeof(*peer);

    memset(own, 0, sizeof(*own));
    memset(peer, 0, sizeof(*peer));
    if (getsockname(fd, (struct sockaddr *)own, &own_length) ||
        getpeername(fd, (struct sockaddr *)peer, &peer_length))
        return false;
    normalise(own);
    normalise(peer);
    return true;
}

/* Has this process the socket at the other end? */
static bool has_other_end(const struct sockaddr_storage *own, const struct sockaddr_storage *peer)
{
    struct sockaddr_storage its_own, its_peer;
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    bool found = false;

    if (!folder)
        return false;
    while (!found && (entry = readdir(folder)))
        found = addresses_of(atoi(entry->d_name), &its_own, &its_peer) &&
                are_equal(&its_own, peer) && are_equal(&its_peer, own);
    closedir(folder);
    return found;
}

/* The other end was here, and has ended the connection already. */
static bool has_ended(int fd)
{
    struct pollfd look = { .fd = fd, .events = POLLRDHUP };

    return poll(&look, 1, 0) == 1;
}

/* --- the table --- */

/* Under the lock. */
static struct link *waiting_for(const struct sockaddr_storage *own,
                                const struct sockaddr_storage *peer)
{
    for (struct link *link = table; link; link = link->next)
        if (!link->complete && are_equal(&link->own, peer) && are_equal(&link->peer, own))
            return link;
    return NULL;
}

/* Under the lock. */
static enum ri_status add(int fd, const struct sockaddr_storage *own,
                          const struct sockaddr_storage *peer, struct link **out)
{
    struct link *link;

    if (!has_other_end(own, peer) && !has_ended(fd))
        return RI_ERR_NOT_SUPPORTED;
    link = calloc(1, sizeof(*link));
    if (!link)
        return RI_ERR_NO_RESOURCES;
    link->own = *own;
    link->peer = *peer;
    spinlock_init(&link->end[0].rx);
    spinlock_init(&link->end[1].rx);
    link->next = table;
    table = link;
    *out = link;
    return RI_OK;
}

enum ri_status link_join(int fd, struct link **out, uint32_t *side)
{
    struct sockaddr_storage own, peer;
    enum ri_status status = RI_OK;
    struct link *link;

    if (!addresses_of(fd, &own, &peer))
        return RI_ERR_NOT_SUPPORTED;
    pthread_mutex_lock(&table_lock);
    link = waiting_for(&own, &peer);
    *side = link != NULL;
    if (link)
        link->complete = true;
    else
        status = add(fd, &own, &peer, &link);
    if (status == RI_OK) {
        link->holders++;
        *out = link;
    }
    pthread_mutex_unlock(&table_lock);
    return status;
}

void link_leave(struct link *link)
{
    struct link **at = &table;

    pthread_mutex_lock(&table_lock);
    if (!--link->holders) {
        while (*at != link)
            at = &(*at)->next;
        *at = link->next;
        free(link);
    }
    pthread_mutex_unlock(&table_lock);
}

/* --- the socket --- */

bool link_say(int fd, const void *octets, size_t length)
{
    return !length || send(fd, octets, length, MSG_NOSIGNAL) == (ssize_t)length;
}

unsigned int link_look(int fd, uint32_t events)
{
    int error = 0;
    socklen_t length = sizeof(error);

    if (!(events & EPOLLERR))
        return events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP) ? SEEN_FIN : 0;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    return SEEN_RESET;
}

void link_finish(int fd)
{
    shutdown(fd, SHUT_WR);
}

void link_close(int fd)
{
    shutdown(fd, SHUT_RDWR);
    close(fd);
}
