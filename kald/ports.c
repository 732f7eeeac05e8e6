/* SPDX-License-Identifier: BSD-3-Clause */
/* kald: binds a port below 1024 for a client, and sends it the socket. */
#include "kald.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static socklen_t address_of(const struct kald_message *ask, struct sockaddr_storage *address)
{
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(ask->port) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6,
                                .sin6_port = htons(ask->port),
                                .sin6_scope_id = ask->scope };

    memset(address, 0, sizeof(*address));
    memcpy(&four.sin_addr, ask->address, sizeof(four.sin_addr));
    memcpy(&six.sin6_addr, ask->address, sizeof(six.sin6_addr));
    if (ask->family == 4)
        memcpy(address, &four, sizeof(four));
    else
        memcpy(address, &six, sizeof(six));
    return ask->family == 4 ? sizeof(four) : sizeof(six);
}

static bool set(int fd, int level, int option, int value)
{
    return !setsockopt(fd, level, option, &value, sizeof(value));
}

/* Returns 0 or an errno value. The socket is the client's from the begin: SO_REUSEPORT is for
 * sockets of one user. */
static int listen_on(const struct kald_client *client, const struct kald_message *ask,
                     const struct sockaddr_storage *address, socklen_t length, int *fd)
{
    bool share = ask->flags & KALD_SHARE_PORT, six = ask->family == 6;
    int made = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

    if (made < 0)
        return errno;
    if (!fchown(made, client->who.uid, client->who.gid) && set(made, SOL_SOCKET, SO_REUSEADDR, 1) &&
        (!share || set(made, SOL_SOCKET, SO_REUSEPORT, 1)) &&
        (!six || set(made, IPPROTO_IPV6, IPV6_V6ONLY, !!(ask->flags & KALD_V6ONLY))) &&
        !bind(made, (const struct sockaddr *)address, length) && !listen(made, SOMAXCONN)) {
        *fd = made;
        return 0;
    }
    error = errno;
    close(made);
    return error;
}

/* A port belongs to a network namespace: kald's are not for another's processes, nor for those of
 * whom the kernel does not tell it (before Linux 5.14). */
void kald_port(const struct kald_client *client, const struct kald_message *ask,
               struct kald_message *answer, int *fd)
{
    struct sockaddr_storage address;
    socklen_t length = address_of(ask, &address);
    int error;

    *fd = -1;
    if (!ask->port || !client->network || client->network != client->kald->network ||
        !kald_rules_port(client, (const struct sockaddr *)&address, ask->flags & KALD_V6ONLY)) {
        answer->status = KALD_DENIED;
        return;
    }
    error = listen_on(client, ask, &address, length, fd);
    if (error) {
        answer->status = KALD_FAILED;
        answer->error = (uint32_t)error;
        return;
    }
    kald_say(6, "process %d of user %u listens on port %u", client->who.pid, client->who.uid,
             ask->port);
}
