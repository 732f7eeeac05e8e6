/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which sockets are carried, and the way back to the kernel's.
 *
 * The file of rdma-core's preload library may limit what is carried. Each line has the name of a
 * program, an address family, a type and a protocol, each of which may be "*"; "#" begins a
 * comment. If there is the file, only what one of its lines names is carried.
 */
#include "rspreload.h"

#include "ual_mechanism.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMITS "/etc/rdma/rsocket/preload_config"

/* ---- the file ---- */

static struct {
    bool is_there;
    bool inet, inet6; /* families that lines for this program name */
} limits;

/* Is `word` the wildcard, or one of the two names of the constant, or its number? */
static bool names(const char *word, const char *first, const char *second, int value)
{
    char *end;
    long number = strtol(word, &end, 0);

    return !strcmp(word, "*") || !strcmp(word, first) || !strcmp(word, second) ||
           (*word && !*end && number == value);
}

static void read_line(char *line)
{
    char program[64], domain[16], type[16], protocol[16] = "*";

    line[strcspn(line, "#\n")] = '\0';
    if (sscanf(line, "%63s%15s%15s%15s", program, domain, type, protocol) < 3)
        return;
    if ((strcmp(program, "*") && strcmp(program, program_invocation_short_name)) ||
        !names(type, "SOCK_STREAM", "stream", SOCK_STREAM) ||
        (!names(protocol, "IPPROTO_TCP", "tcp", IPPROTO_TCP) && strcmp(protocol, "0")))
        return;
    limits.inet |= names(domain, "AF_INET", "PF_INET", AF_INET);
    limits.inet6 |= names(domain, "AF_INET6", "PF_INET6", AF_INET6);
}

static void read_limits(void)
{
    const char *path = getenv("ITAL_RSOCKETS_CONFIG");
    char line[256];
    FILE *file;

    rp_inside++;
    file = fopen(path ? path : LIMITS, "re");
    if (!file && path)
        ual_log(RI_LOG_WARNING, "librspreload: %s: %s: every stream socket becomes an rsocket",
                path, strerrordesc_np(errno));
    limits.is_there = file != NULL;
    while (file && fgets(line, sizeof(line), file))
        read_line(line);
    if (file)
        fclose(file);
    rp_inside--;
}

/* ---- who asks ---- */

/* By the name of the library: ital's call sockets of their own, in threads of their own, too. */
static bool is_ours(const void *from)
{
    static const char *const libraries[] = { "libital.so", "libibverbs.so", "librdmacm.so", "vp_",
                                             "vf_" };
    const char *name;
    Dl_info info;

    if (!dladdr(from, &info) || !info.dli_fname)
        return false;
    name = strrchr(info.dli_fname, '/');
    name = name ? name + 1 : info.dli_fname;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++)
        if (!strncmp(name, libraries[i], strlen(libraries[i])))
            return true;
    return false;
}

bool rp_wanted(int domain, int type, int protocol, const void *from)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (rp_inside || (domain != AF_INET && domain != AF_INET6) ||
        (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != SOCK_STREAM ||
        (protocol && protocol != IPPROTO_TCP) || is_ours(from))
        return false;
    pthread_once(&once, read_limits);
    return !limits.is_there || (domain == AF_INET ? limits.inet : limits.inet6);
}

/* ---- the way back ---- */

/* A peer without an rsocket breaks off the start of the connection, or does not answer. One where
 * nobody listens refuses, and so does a listening rsocket whose queue is full. */
bool rp_peer_may_be_plain(int error)
{
    switch (error) {
    case ECONNRESET:
    case ECONNABORTED:
    case EPROTO:
    case ETIMEDOUT:
    case ENODEV:
    case EADDRNOTAVAIL:
    case ENETUNREACH:
    case EHOSTUNREACH: return true;
    default: return false;
    }
}

int rp_fall_back(struct rp_socket *socket, int fd)
{
    const struct rp_next *next = rp_next();
    int rs = atomic_exchange(&socket->rs, -1);

    if (rs < 0)
        return EBADF;
    rp_inside++;
    rclose(rs);
    ual_log(RI_LOG_WARNING,
            "librspreload: descriptor %d: the peer does not answer as an rsocket of ital's: an "
            "ordinary TCP connection is made",
            fd);
    rp_inside--;
    if ((socket->bound_length &&
         next->bind(fd, (struct sockaddr *)&socket->bound, socket->bound_length)) ||
        next->connect(fd, (struct sockaddr *)&socket->peer, socket->peer_length))
        return errno;
    return 0;
}

bool rp_retry_plain(struct rp_socket *socket, int fd)
{
    socklen_t length = sizeof(int);
    int error = 0;
    bool done = false;

    pthread_mutex_lock(&socket->lock);
    if (socket->peer_length && !socket->error) {
        rp_inside++;
        rgetsockopt(atomic_load(&socket->rs), SOL_SOCKET, SO_ERROR, &error, &length);
        rp_inside--;
        if (rp_peer_may_be_plain(error)) {
            error = rp_fall_back(socket, fd);
            done = !error || error == EINPROGRESS;
        }
        socket->error = done ? 0 : error;
        socket->peer_length = 0;
    }
    pthread_mutex_unlock(&socket->lock);
    return done;
}
