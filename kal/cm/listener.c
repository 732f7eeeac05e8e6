/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: creating and destroying listeners. accept.c has what they accept.
 *
 * IPv6: a listener on [::] accepts IPv4 peers too (option v6only=auto), unless this process has an
 * IPv4 listener on the same port, which then gets them. An IPv4 listener of another process makes
 * the port busy: its program would get the IPv4 peers. A listener on a specific IPv6 address
 * accepts IPv6 peers only. IPv4 peers appear with IPv4 addresses.
 */
#include "cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <utlist.h>

#define HALF_OPEN_LEAST 16

/* Listeners of this process that take IPv4 peers, by port in host order. */
static _Atomic uint16_t takers_of_ipv4[UINT16_MAX + 1];

static void count_taker(struct kal_listener *l, const struct sockaddr_storage *bound)
{
    union address on = address_keep(bound);

    if (on.any.sa_family != AF_INET)
        return;
    l->ipv4_port = ntohs(on.four.sin_port);
    atomic_fetch_add(&takers_of_ipv4[l->ipv4_port], 1);
}

static void uncount_taker(struct kal_listener *l)
{
    if (l->ipv4_port)
        atomic_fetch_sub(&takers_of_ipv4[l->ipv4_port], 1);
    l->ipv4_port = 0;
}

static bool is_beside_own(const struct sockaddr *address)
{
    union address at;

    address_set(&at, address);
    return at.any.sa_family == AF_INET6 && atomic_load(&takers_of_ipv4[ntohs(at.six.sin6_port)]);
}

/* The program asked for an address, and the socket may have another one. 0, or why it is not
 * used. */
static int check_inherited(const struct kal_listener *l, struct sockaddr_storage *bound)
{
    union address on;

    if (l->rnic->cm->stream_ops->unlike(l->fd, &on)) /* replaced since it was chosen */
        return EBADF;
    if (kal_rnic_policy(l->rnic, RI_POLICY_LISTEN, &on.any, NULL))
        return EPERM;
    *bound = address_storage(&on);
    return 0;
}

/* True: the process was started with a socket for it; *error is 0 or why that cannot be used. */
static bool inherit(struct kal_listener *l, const struct sockaddr *address,
                    struct sockaddr_storage *bound, int *error)
{
    const struct cm_stream_ops *ops = l->rnic->cm->stream_ops;

    l->passed = cm_passed_take(l->rnic, ops, address);
    if (!l->passed)
        return false;
    *error = ops->inherit(cm_passed_fd(l->passed), &l->rnic->cm->options.stream, &l->fd);
    if (!*error)
        *error = check_inherited(l, bound);
    if (*error)
        return true;
    kal_rnic_log(l->rnic, RI_LOG_INFO, "a listener uses descriptor %d (%s) of the service manager",
                 cm_passed_fd(l->passed), cm_passed_name(l->passed));
    return true;
}

/* The process may not bind the port; kald(8) may do it. */
static int ask_host(struct kal_listener *l, const struct sockaddr *address, bool v6only,
                    struct sockaddr_storage *bound)
{
    const struct cm_options *options = &l->rnic->cm->options;
    const struct cm_stream_ops *ops = l->rnic->cm->stream_ops;
    int error, fd = -1;
    union address on;

    error = kal_rnic_listen(l->rnic, address, v6only, options->stream.share_port, &fd);
    if (error)
        return error;
    if (ops->unlike(fd, &on))
        error = EACCES;
    else
        error = ops->inherit(fd, &options->stream, &l->fd);
    ops->close(fd);
    if (!error)
        *bound = address_storage(&on);
    return error;
}

static int open_new(struct kal_listener *l, const struct sockaddr *address, bool v6only,
                    struct sockaddr_storage *bound)
{
    const struct kal_cm *cm = l->rnic->cm;
    int error = cm->stream_ops->listen(address, v6only, &cm->options.stream, &l->fd, bound);

    return error == EACCES ? ask_host(l, address, v6only, bound) : error;
}

static int open_listener(struct kal_listener *l, const struct sockaddr *address,
                         struct sockaddr_storage *bound)
{
    const struct cm_options *options = &l->rnic->cm->options;
    char text[120];
    int error;

    if (inherit(l, address, bound, &error))
        return error;
    error = open_new(l, address, options->v6only == CM_V6ONLY_YES, bound);
    if (error == EADDRINUSE)
        cm_passed_report_to_others(l->rnic, l->rnic->cm->stream_ops, address);
    if (error != EADDRINUSE || options->v6only != CM_V6ONLY_AUTO || !is_beside_own(address))
        return error;
    error = open_new(l, address, true, bound);
    if (!error) {
        kal_address_text(address, text, sizeof(text));
        kal_rnic_log(l->rnic, RI_LOG_INFO,
                     "listener %s takes IPv6 only: another listener of this process has that port "
                     "for IPv4",
                     text);
    }
    return error;
}

static enum ri_status listen_error(struct kal_rnic *rnic, const struct sockaddr *address, int error)
{
    const struct cm_error means = cm_error_of(error);
    char text[120];

    kal_address_text(address, text, sizeof(text));
    /* A program that looks for a free port asks for the next one; its status says the same. */
    kal_rnic_log(rnic, error == EADDRINUSE ? RI_LOG_INFO : RI_LOG_WARNING,
                 "cannot listen on %s: %s; %s", text, strerror(error),
                 means.listening ? means.listening : means.advice);
    return means.error ? means.status : RI_ERR_NO_RESOURCES;
}

/* Unknown peers may use at most a quarter of the process's descriptors, but always a few. */
static uint32_t half_open_most(const struct kal_rnic *rnic)
{
    uint32_t most = rnic->cm->options.half_open;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || most <= limit.rlim_cur / 4)
        return most;
    return limit.rlim_cur / 4 < HALF_OPEN_LEAST ? HALF_OPEN_LEAST : (uint32_t)(limit.rlim_cur / 4);
}

enum ri_status cm_listener_open(struct kal_listener *listener, const struct ri_listen_param *param,
                                struct sockaddr_storage *bound)
{
    struct kal_listener *l = listener;
    int error = open_listener(l, param->address, bound);
    enum ri_status status;

    if (error)
        return listen_error(l->rnic, param->address, error);
    count_taker(l, bound);
    cm_open_spare(l->rnic->cm);
    /* Under the lock: the first run may come before the watch is stored, and the listener is seen
     * already (kal_cm_listeners). */
    pthread_mutex_lock(&l->lifetime.lock);
    kal_address_text((const struct sockaddr *)bound, l->name, sizeof(l->name));
    status = l->rnic->upper->watch(l->lane, l->fd, EPOLLIN, cm_accept_ready, l, &l->watch);
    pthread_mutex_unlock(&l->lifetime.lock);
    return status;
}

void cm_listener_close(struct kal_listener *listener)
{
    struct kal_listener *l = listener;
    const struct cm_stream_ops *ops = l->rnic->cm->stream_ops;

    contract(l->lifetime.dead);
    if (l->watch)
        l->rnic->upper->unwatch(l->watch);
    uncount_taker(l);
    if (l->fd >= 0) {
        /* A forked child may have a copy of the descriptor, so closing alone would keep the port in
         * use. A passed socket goes on listening, for others. */
        if (!l->passed)
            ops->shut(l->fd);
        ops->close(l->fd);
    }
    if (l->passed)
        cm_passed_release(l->passed);
}

/* A listener that hears nothing yet; it can be seen from now on. */
static enum ri_status new_listener(struct kal_rnic *rnic, void *lane_context,
                                   const struct sockaddr *address, uint32_t backlog, void *context,
                                   struct kal_listener **listener)
{
    struct kal_listener *l;
    enum ri_status status;

    if (kal_rnic_policy(rnic, RI_POLICY_LISTEN, address, NULL))
        return RI_ERR_PERMISSION;
    status = kal_rnic_take_now(rnic, KAL_ACCOUNT_LISTENER, 1, NULL);
    if (status)
        return status;
    l = calloc(1, rnic->cm->kind->listener_size);
    if (!l) {
        kal_rnic_give(rnic, KAL_ACCOUNT_LISTENER, 1);
        return RI_ERR_NO_RESOURCES;
    }
    cm_lifetime_init(&l->lifetime);
    l->rnic = rnic;
    l->lane = lane_context;
    l->context = context;
    l->fd = -1;
    l->resume.expired = cm_accept_resumed;
    l->room.expired = cm_room_made;
    l->backlog = backlog > rnic->cm->options.backlog ? backlog : rnic->cm->options.backlog;
    l->half_open_max = half_open_most(rnic);
    pthread_mutex_lock(&rnic->cm->lock);
    DL_APPEND(rnic->cm->listeners, l);
    pthread_mutex_unlock(&rnic->cm->lock);
    *listener = l;
    return RI_OK;
}

enum ri_status kal_listen(struct kal_rnic *rnic, void *lane_context,
                          const struct ri_listen_param *param, void *context,
                          struct sockaddr_storage *bound, struct kal_listener **listener)
{
    enum ri_status status = rnic->cm->kind->check(param->address, param->datagram);
    struct sockaddr_storage where;
    struct kal_listener *l;

    if (status)
        return status;
    status = new_listener(rnic, lane_context, param->address, param->backlog, context, &l);
    if (status)
        return status;
    /* Outputs first: a request may be reported before this call returns. */
    status = rnic->cm->kind->listen(l, param, &where);
    if (status) {
        kal_listen_destroy(l);
        return status;
    }
    if (bound)
        *bound = where;
    *listener = l;
    return RI_OK;
}

enum ri_status kal_listen_fed(struct kal_rnic *rnic, void *lane_context,
                              const struct sockaddr *address, uint32_t backlog, void *context,
                              struct kal_listener **listener)
{
    const struct cm_kind *kind = rnic->cm->kind;
    enum ri_status status = kind->takes_sockets ? kind->check(address, false)
                                                : RI_ERR_NOT_SUPPORTED;
    struct kal_listener *l;

    if (status)
        return status;
    status = new_listener(rnic, lane_context, address, backlog, context, &l);
    if (status)
        return status;
    pthread_mutex_lock(&l->lifetime.lock);
    kal_address_text(address, l->name, sizeof(l->name));
    pthread_mutex_unlock(&l->lifetime.lock);
    l->fed = true;
    *listener = l;
    return RI_OK;
}

static struct kal_connection *unclaimed(struct kal_connection *list)
{
    struct kal_connection *c;

    DL_FOREACH2 (list, c, listed_next)
        if (!c->claimed)
            break;
    return c;
}

/* Requests that were not reported to ual end with the listener: here, or in a run that is ending
 * them already. */
static void end_listed(struct kal_listener *l)
{
    struct kal_connection *c;

    pthread_mutex_lock(&l->lifetime.lock);
    while (l->starting || l->queue) {
        c = unclaimed(l->starting);
        if (!c)
            c = unclaimed(l->queue);
        if (!c) {
            cm_lifetime_wait(&l->lifetime);
            continue;
        }
        cm_unlist(l, c);
        pthread_mutex_unlock(&l->lifetime.lock);
        kal_connection_destroy(c);
        pthread_mutex_lock(&l->lifetime.lock);
    }
    pthread_mutex_unlock(&l->lifetime.lock);
}

/* What a run has accepted it reports before the listener is dead. */
static void stop(struct kal_listener *l)
{
    pthread_mutex_lock(&l->lifetime.lock);
    l->stopped = true;
    cm_lifetime_wait_others(&l->lifetime);
    pthread_mutex_unlock(&l->lifetime.lock);
}

void kal_listen_destroy(struct kal_listener *listener)
{
    struct kal_listener *l = listener;
    struct kal_rnic *rnic = l->rnic;

    if (l->passed)
        stop(l);
    cm_kill(&l->lifetime);
    rnic->upper->timer_cancel(l->lane, &l->resume);
    rnic->upper->timer_cancel(l->lane, &l->room);
    rnic->cm->kind->unlisten(l);
    end_listed(l);
    pthread_mutex_lock(&rnic->cm->lock);
    DL_DELETE(rnic->cm->listeners, l);
    pthread_mutex_unlock(&rnic->cm->lock);
    kal_rnic_give(rnic, KAL_ACCOUNT_LISTENER, 1);
    if (cm_drop(&l->lifetime))
        cm_listener_free(l);
}
