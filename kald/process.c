/* SPDX-License-Identifier: BSD-3-Clause */
/* kald: the process behind a client, as the kernel knows it. A number alone may be another process
 * by now: the pidfd of the socket (Linux 6.5), or the time of its start, tells. */
#include "kald.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

/* In ticks since the system started; 0: unknown, or gone. */
static uint64_t start_of(pid_t process)
{
    unsigned long long start = 0;
    char path[40], text[1024];
    const char *at;
    ssize_t got;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/stat", process);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (got <= 0)
        return 0;
    text[got] = '\0';
    at = strrchr(text, ')'); /* the end of its name, which may hold anything */
    /* Field 22; the one behind the name is the third. */
    if (!at || sscanf(at + 1,
                      " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                      "%*s %llu",
                      &start) != 1)
        return 0;
    return start;
}

static bool read_groups(struct kald_client *client)
{
    socklen_t length = 0;

    if (!getsockopt(client->socket.fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &length) || !length)
        return true;
    if (errno != ERANGE)
        return false;
    client->groups = malloc(length);
    if (!client->groups ||
        getsockopt(client->socket.fd, SOL_SOCKET, SO_PEERGROUPS, client->groups, &length))
        return false;
    client->group_count = length / sizeof(*client->groups);
    return true;
}

static bool is_alive(const struct kald_client *client)
{
    struct pollfd entry = { .fd = client->process.fd, .events = POLLIN };

    if (client->process.fd >= 0)
        return poll(&entry, 1, 0) == 0;
    return client->started && start_of(client->who.pid) == client->started;
}

bool kald_process_open(struct kald_client *client)
{
    socklen_t length = sizeof(client->who);
    int fd = -1;

    if (getsockopt(client->socket.fd, SOL_SOCKET, SO_PEERCRED, &client->who, &length) ||
        !read_groups(client))
        return false;
    length = sizeof(client->network);
    if (getsockopt(client->socket.fd, SOL_SOCKET, SO_NETNS_COOKIE, &client->network, &length))
        client->network = 0;
    client->started = start_of(client->who.pid);
    length = sizeof(fd);
    if (getsockopt(client->socket.fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &length)) {
        if (errno == ESRCH || errno == EINVAL)
            return false; /* it has ended */
        fd = (int)syscall(SYS_pidfd_open, client->who.pid, 0);
    }
    client->process.fd = fd;
    return client->who.pid > 0 && is_alive(client);
}

bool kald_process_memlock(struct kald_client *client, uint64_t octets)
{
    struct kald_user *user = client->user;
    struct rlimit limit;
    uint64_t wanted;

    if (!is_alive(client) || prlimit(client->who.pid, RLIMIT_MEMLOCK, NULL, &limit))
        return false;
    if (limit.rlim_cur == RLIM_INFINITY)
        return true;
    if (!client->raised)
        client->memlock = limit.rlim_cur;
    if (client->memlock < user->memlock)
        user->memlock = client->memlock;
    if (!checked_add(user->memlock, octets, &wanted) || wanted > INT64_MAX)
        return false;
    if (wanted < client->memlock)
        wanted = client->memlock;
    limit.rlim_cur = wanted;
    if (limit.rlim_max < wanted)
        limit.rlim_max = wanted;
    if (!is_alive(client) || prlimit(client->who.pid, RLIMIT_MEMLOCK, &limit, NULL))
        return false;
    client->raised = true;
    return true;
}
