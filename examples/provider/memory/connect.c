/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection verbs, set A. The active side makes the rings and sends them with its REQUEST; the
 * other answers ACCEPT or REJECT; the active side says READY, and both are established. Whoever
 * closes its socket ends the connection: the other reads what its ring still has, and hears of it.
 *
 *   active   NEW > CONNECTING > CONNECTED > ENDED
 *   passive  GREETING > UNDECIDED > ACCEPTED > CONNECTED > ENDED
 */
#include "memory.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE UINT64_C(30000000000) /* ns; unless the user gives a deadline */

static uint64_t deadline_of(const struct ri_connect_param *param)
{
    return param && param->deadline != RI_NO_DEADLINE ? param->deadline : now_ns() + PATIENCE;
}

/* ---- life ---- */

static bool connection_tell(struct ri_teller *teller);

static struct connection *connection_new(struct rnic *rnic, void *context)
{
    struct connection *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->base = (struct ri_connection){ rnic->mem.base.ops, context };
    c->rnic = rnic;
    c->teller.tell = connection_tell;
    c->watched.fd = -1;
    c->deadline = RI_NO_DEADLINE;
    return c;
}

static void connection_free(struct connection *c)
{
    shared_close(c);
    free(c);
}

/* No thread is in ready(). */
static void connection_gone(struct ri_watched *watched)
{
    struct connection *c = (struct connection *)((char *)watched -
                                                 offsetof(struct connection, watched));
    bool last;

    close(watched->fd);
    pthread_mutex_lock(&c->rnic->mem.lock);
    TAILQ_REMOVE(&c->rnic->connections, c, link);
    c->open = false;
    last = c->destroyed;
    if (last)
        ri_tell_forget(&c->rnic->mem.tellers, &c->teller, NULL);
    pthread_mutex_unlock(&c->rnic->mem.lock);
    if (last)
        connection_free(c);
}

/* The peer sees the end at once; the descriptor is closed in the lane's next pass. */
static void close_socket(struct connection *c)
{
    if (!c->open || atomic_load(&c->watched.leaving))
        return;
    shutdown(c->watched.fd, SHUT_RDWR);
    ri_unwatch_later(&c->rnic->mem.leaving, &c->watched);
}

/* ---- what is told ---- */

static void tell(struct connection *c, uint32_t what)
{
    if (c->destroyed && what != TELL_REQUEST)
        return; /* nobody has heard of it */
    c->tells |= what;
    ri_tell_later(&c->rnic->mem.tellers, &c->teller);
}

static void tell_request(struct connection *c)
{
    struct rnic *rnic = c->rnic;
    struct listener *listener = c->listener;
    const struct ri_connect_request request = { .size = sizeof(request),
                                                .local = c->local,
                                                .peer = c->peer,
                                                .private_data = c->data_length ? c->data : NULL,
                                                .private_data_length = c->data_length,
                                                .ird = c->ird,
                                                .ord = c->ord,
                                                .depths_valid = c->negotiate,
                                                .datagram = c->datagram };
    void *context = NULL;

    rnic->mem.count[RI_MEM_OTHERS]++;
    c->destroyed = false;
    rnic->mem.tellers.about = listener;
    pthread_mutex_unlock(&rnic->mem.lock);
    rnic->mem.host->connection_request(rnic->mem.host, listener->base.context, &c->base, &request,
                                       &context);
    pthread_mutex_lock(&rnic->mem.lock);
    c->base.context = context;
    if (context)
        return;
    rnic->mem.count[RI_MEM_OTHERS]--; /* the host keeps nothing of it */
    c->destroyed = true;
    c->state = ENDED;
    close_socket(c);
}

static void tell_event(struct connection *c, const struct ri_connection_event *event)
{
    struct ri_connection_event full = *event;
    struct rnic *rnic = c->rnic;

    full.size = sizeof(full);
    full.local = c->local;
    full.peer = c->peer;
    full.private_data = full.private_data_length ? c->data : NULL;
    pthread_mutex_unlock(&rnic->mem.lock);
    rnic->mem.host->connection_event(rnic->mem.host, c->base.context, &full);
    pthread_mutex_lock(&rnic->mem.lock);
}

/* The first of what there is to tell. */
static bool connection_tell(struct ri_teller *teller)
{
    struct connection *c = (struct connection *)((char *)teller -
                                                 offsetof(struct connection, teller));
    uint32_t what = c->tells & -c->tells;

    c->tells &= ~what;
    switch (what) {
    case TELL_RESOLVED:
        tell_event(c, &(struct ri_connection_event){ .type = RI_CONNECTION_RESOLVED });
        break;
    case TELL_REQUEST: tell_request(c); break;
    case TELL_ESTABLISHED:
        tell_event(c, &(struct ri_connection_event){ .type = RI_CONNECTION_ESTABLISHED,
                                                     .private_data_length = c->data_length,
                                                     .ird = c->ird,
                                                     .ord = c->ord,
                                                     .depths_valid = c->negotiate });
        break;
    case TELL_END: tell_event(c, &c->end); break;
    default: break;
    }
    return c->tells;
}

/* ---- the end ---- */

static void undecided_no_more(struct connection *c)
{
    if (c->listener && c->state == UNDECIDED)
        c->listener->undecided--;
    c->listener = NULL;
}

/* Without an event: the QP, if it was in use, the socket, the state. */
static void end_silently(struct connection *c, enum ri_event_type cause, uint16_t code,
                         bool explained)
{
    struct qp *qp = c->qp;

    undecided_no_more(c);
    c->tells &= ~(uint32_t)TELL_REQUEST;
    c->state = ENDED;
    c->deadline = RI_NO_DEADLINE;
    c->qp = NULL;
    close_socket(c);
    if (!qp)
        return;
    qp->connection = NULL;
    if (qp->rc.qp.state == RI_QPS_RTS)
        ri_mem_qp_end(&qp->rc.qp, cause, code, explained);
}

static void end_with(struct connection *c, enum ri_connection_event_type type,
                     enum ri_connection_reason reason)
{
    end_silently(c, 0, 0, false);
    c->end = (struct ri_connection_event){ .type = type,
                                           .reason = reason,
                                           .private_data_length = c->data_length };
    tell(c, TELL_END);
}

void connection_end(struct connection *c, enum ri_event_type cause, uint16_t code, bool explained)
{
    bool was = c->state == CONNECTED;

    if (c->state == ENDED)
        return;
    end_silently(c, cause, code, explained);
    c->data_length = 0;
    c->end = (struct ri_connection_event){ .type = was ? RI_CONNECTION_DISCONNECTED
                                                       : RI_CONNECTION_FAILED };
    tell(c, TELL_END);
}

/* The peer has closed its socket, or does not exist any more. */
static void peer_left(struct connection *c)
{
    c->data_length = 0;
    switch (c->state) {
    case GREETING: end_silently(c, 0, 0, false); break;
    case CONNECTING: end_with(c, RI_CONNECTION_FAILED, RI_REASON_REFUSED); break;
    case CONNECTED: /* what it wrote before */
        while (c->state == CONNECTED && c->qp && ring_in(&c->in))
            serve_qp(c->qp);
        connection_end(c, 0, 0, false);
        break;
    default: connection_end(c, 0, 0, false);
    }
}

uint64_t connections_expire(struct rnic *rnic)
{
    uint64_t next = RI_NO_DEADLINE;
    struct connection *c;

    TAILQ_FOREACH(c, &rnic->connections, link)
    {
        if (c->deadline == RI_NO_DEADLINE)
            continue;
        if (c->deadline > now_ns())
            next = c->deadline < next ? c->deadline : next;
        else if (c->state == GREETING)
            end_silently(c, 0, 0, false);
        else
            end_with(c, RI_CONNECTION_FAILED, RI_REASON_TIMEOUT);
    }
    return next;
}

/* ---- messages ---- */

static struct message message_of(const struct connection *c, uint32_t type, const void *data,
                                 uint16_t length)
{
    struct message message = { .type = type,
                               .length = length,
                               .ird = c->ird,
                               .ord = c->ord,
                               .negotiate = c->negotiate,
                               .source = c->local,
                               .destination = c->peer };

    if (length)
        memcpy(message.data, data, length);
    return message;
}

static uint16_t smaller(uint16_t a, uint16_t b)
{
    return a < b ? a : b;
}

static void keep_data(struct connection *c, const struct message *message)
{
    c->data_length = (uint16_t)message->length;
    memcpy(c->data, message->data, message->length);
}

static void on_request(struct connection *c, const struct message *message, int *memory)
{
    struct listener *listener = c->listener;

    if (!listener || listener->undecided >= listener->backlog ||
        (!c->datagram && !shared_open(c, memory))) {
        c->listener = NULL;
        end_silently(c, 0, 0, false);
        return;
    }
    listener->undecided++;
    keep_data(c, message);
    c->state = UNDECIDED;
    c->deadline = RI_NO_DEADLINE;
    c->ird = message->ird;
    c->ord = message->ord;
    c->negotiate = message->negotiate;
    c->local = message->destination;
    c->peer = message->source;
    tell(c, TELL_REQUEST);
}

static void established(struct connection *c)
{
    c->state = CONNECTED;
    c->deadline = RI_NO_DEADLINE;
    tell(c, TELL_ESTABLISHED);
}

static void on_accept(struct connection *c, const struct message *message)
{
    struct message ready = message_of(c, READY, NULL, 0);
    struct qp *qp = c->qp;

    if (!qp || qp->rc.qp.state != RI_QPS_IDLE || !socket_send(c->watched.fd, &ready, -1)) {
        end_with(c, RI_CONNECTION_FAILED, RI_REASON_OTHER);
        return;
    }
    keep_data(c, message);
    if (c->negotiate) {
        c->ird = smaller(c->ird, message->ord);
        c->ord = smaller(c->ord, message->ird);
    }
    qp->rc.qp.ird = c->ird;
    qp->rc.qp.ord = c->ord;
    qp->rc.qp.state = RI_QPS_RTS;
    established(c);
}

static void on_reply(struct connection *c, const struct message *message)
{
    static struct ri_ah_attr path = { .size = sizeof(path), .global = 1, .hop_limit = 1 };

    memcpy(path.destination_gid, own_gid, sizeof(own_gid));
    keep_data(c, message);
    end_silently(c, 0, 0, false);
    c->end = (struct ri_connection_event){ .type = RI_CONNECTION_SERVICE_REPLY,
                                           .private_data_length = c->data_length,
                                           .service_status = message->status,
                                           .remote_qpn = message->qpn,
                                           .remote_qkey = message->qkey,
                                           .path = &path };
    tell(c, TELL_END);
}

static void on_message(struct connection *c, const struct message *message, int *memory)
{
    if (message->type == BELL)
        return;
    if (message->type == REQUEST && c->state == GREETING)
        on_request(c, message, memory);
    else if (message->type == READY && c->state == ACCEPTED)
        established(c);
    else if (message->type == ACCEPT && c->state == CONNECTING && !c->datagram)
        on_accept(c, message);
    else if (message->type == REPLY && c->state == CONNECTING && c->datagram)
        on_reply(c, message);
    else if (message->type == REJECT && c->state == CONNECTING) {
        keep_data(c, message);
        end_with(c, RI_CONNECTION_REJECTED, RI_REASON_OTHER);
    } else if (c->state != ENDED)
        peer_left(c); /* no peer of ours sends that */
}

static void ready(void *arg, uint32_t events)
{
    struct connection *c = arg;
    struct rnic *rnic = c->rnic;
    struct message message;
    int memory, got;

    (void)events;
    pthread_mutex_lock(&rnic->mem.lock);
    while (!atomic_load(&c->watched.leaving)) {
        got = socket_receive(c->watched.fd, &message, &memory);
        if (got < 0)
            break;
        if (got)
            on_message(c, &message, &memory);
        else
            peer_left(c);
        if (memory >= 0)
            close(memory);
    }
    pthread_mutex_unlock(&rnic->mem.lock);
}

/* Watches the socket, which is the connection's from then on. Under the lock. */
static enum ri_status open_socket(struct connection *c, int fd)
{
    enum ri_status status;

    c->watched.fd = fd;
    c->watched.gone = connection_gone;
    status = ri_watched_add(&c->rnic->mem.leaving, &c->watched, EPOLLIN | EPOLLRDHUP, ready, c);
    if (status != RI_OK)
        return status;
    c->open = true;
    TAILQ_INSERT_TAIL(&c->rnic->connections, c, link);
    return RI_OK;
}

void connection_accepted(struct listener *listener, int fd)
{
    struct connection *c = connection_new(listener->rnic, NULL);

    if (!c || open_socket(c, fd) != RI_OK) {
        close(fd);
        free(c);
        return;
    }
    c->destroyed = true; /* nobody has heard of it */
    c->listener = listener;
    c->datagram = listener->datagram;
    c->state = GREETING;
    c->deadline = deadline_of(NULL);
}

void connections_forget(struct listener *listener)
{
    struct connection *c;

    TAILQ_FOREACH(c, &listener->rnic->connections, link)
    {
        if (c->listener != listener)
            continue;
        if (c->state != GREETING && !c->destroyed) {
            c->listener = NULL;
            continue; /* the user decides */
        }
        ri_tell_forget(&c->rnic->mem.tellers, &c->teller, NULL);
        end_silently(c, 0, 0, false);
    }
}

/* ---- verbs ---- */

enum ri_status vp_connection_create(struct ri_rnic *base, void *context, struct ri_connection **out)
{
    struct rnic *rnic = (struct rnic *)base;
    struct connection *c = connection_new(rnic, context);

    if (!c)
        return RI_ERR_NO_RESOURCES;
    pthread_mutex_lock(&rnic->mem.lock);
    rnic->mem.count[RI_MEM_OTHERS]++;
    pthread_mutex_unlock(&rnic->mem.lock);
    *out = &c->base;
    return RI_OK;
}

enum ri_status vp_connection_destroy(struct ri_connection *base)
{
    struct connection *c = (struct connection *)base;
    struct rnic *rnic = c->rnic;
    bool last;

    pthread_mutex_lock(&rnic->mem.lock);
    end_silently(c, 0, 0, false);
    ri_tell_forget(&rnic->mem.tellers, &c->teller, NULL);
    c->destroyed = true;
    last = !c->open;
    rnic->mem.count[RI_MEM_OTHERS]--;
    pthread_mutex_unlock(&rnic->mem.lock);
    if (last)
        connection_free(c);
    return RI_OK;
}

enum ri_status vp_resolve(struct ri_connection *base, const struct ri_connect_param *param)
{
    struct connection *c = (struct connection *)base;
    uint16_t port;
    enum ri_status status = port_of(param->destination, param->service_id, false, &port);

    if (status != RI_OK)
        return status;
    pthread_mutex_lock(&c->rnic->mem.lock);
    tell(c, TELL_RESOLVED);
    pthread_mutex_unlock(&c->rnic->mem.lock);
    return RI_OK;
}

static void set_addresses(struct connection *c, const struct ri_connect_param *param)
{
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const void *source = param->source ? param->source : (const void *)&any;
    bool v6 = param->destination->sa_family == AF_INET6;

    memcpy(&c->peer, param->destination,
           v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    v6 = ((const struct sockaddr *)source)->sa_family == AF_INET6;
    memcpy(&c->local, source, v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
}

/* Under the lock. A peer that is not there is reported later, as a network would. */
static enum ri_status start(struct connection *c, const struct ri_connect_param *param,
                            uint16_t port)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), memory = -1;
    struct message message;
    struct sockaddr_un name;
    enum ri_status status = RI_ERR_NO_RESOURCES;
    socklen_t length;
    bool sent = false;

    set_addresses(c, param);
    c->ird = param->ird;
    c->ord = param->ord;
    c->negotiate = param->negotiate_depths;
    message = message_of(c, REQUEST, param->private_data, param->private_data_length);
    if (fd < 0)
        return status;
    length = socket_name(&name, port, c->datagram);
    if (connect(fd, (struct sockaddr *)&name, length)) {
        if (errno == ECONNREFUSED && c->datagram)
            on_reply(c, &(struct message){ .status = RI_SERVICE_NOT_SUPPORTED });
        else
            end_with(c, RI_CONNECTION_FAILED,
                     errno == ECONNREFUSED ? RI_REASON_REFUSED : RI_REASON_RESOURCES);
        close(fd);
        return RI_OK;
    }
    if (c->datagram || shared_open(c, &memory)) {
        sent = socket_send(fd, &message, memory);
        status = sent ? open_socket(c, fd) : RI_OK;
    }
    if (memory >= 0)
        close(memory);
    if (status != RI_OK || !sent) {
        close(fd);
        shared_close(c);
        if (status == RI_OK) /* the listener went between the two calls */
            end_with(c, RI_CONNECTION_FAILED, RI_REASON_REFUSED);
        return status;
    }
    c->state = CONNECTING;
    c->deadline = deadline_of(param);
    return RI_OK;
}

static bool is_free(const struct qp *qp)
{
    return qp->rc.qp.type == RI_QP_RC && qp->rc.qp.state == RI_QPS_IDLE && !qp->connection;
}

static void join(struct connection *c, struct qp *qp)
{
    c->qp = qp;
    qp->connection = c;
}

enum ri_status vp_connect(struct ri_connection *base, struct ri_qp *ri_qp,
                          const struct ri_connect_param *param)
{
    struct connection *c = (struct connection *)base;
    struct qp *qp = (struct qp *)ri_qp;
    uint16_t port;
    enum ri_status status = port_of(param->destination, param->service_id, false, &port);

    if (status != RI_OK)
        return status;
    if (param->three_way)
        return RI_ERR_NOT_SUPPORTED;
    if (param->private_data_length > RI_MAX_PRIVATE_DATA || param->ird > MAX_DEPTH ||
        param->ord > MAX_DEPTH)
        return RI_ERR_LIMIT;
    pthread_mutex_lock(&c->rnic->mem.lock);
    status = c->state == NEW && is_free(qp) ? start(c, param, port) : RI_ERR_INVALID_STATE;
    if (status == RI_OK && c->state == CONNECTING)
        join(c, qp);
    pthread_mutex_unlock(&c->rnic->mem.lock);
    return status;
}

enum ri_status vp_service_request(struct ri_connection *base, const struct ri_connect_param *param)
{
    struct connection *c = (struct connection *)base;
    uint16_t port;
    enum ri_status status = port_of(param->destination, param->service_id, true, &port);

    if (status != RI_OK)
        return status;
    if (param->private_data_length > RI_MAX_PRIVATE_DATA)
        return RI_ERR_LIMIT;
    pthread_mutex_lock(&c->rnic->mem.lock);
    c->datagram = true;
    status = c->state == NEW ? start(c, param, port) : RI_ERR_INVALID_STATE;
    pthread_mutex_unlock(&c->rnic->mem.lock);
    return status;
}

/* The depths are decided here: none is larger than what the other side has. */
enum ri_status vp_accept(struct ri_connection *base, struct ri_qp *ri_qp,
                         const struct ri_connect_param *param)
{
    struct connection *c = (struct connection *)base;
    struct qp *qp = (struct qp *)ri_qp;
    enum ri_status status = RI_ERR_INVALID_STATE;
    struct message message;
    uint16_t peers;
    bool agree;

    if (param->private_data_length > RI_MAX_PRIVATE_DATA || param->ird > MAX_DEPTH ||
        param->ord > MAX_DEPTH)
        return RI_ERR_LIMIT;
    pthread_mutex_lock(&c->rnic->mem.lock);
    agree = c->negotiate && param->negotiate_depths;
    if (c->state == UNDECIDED && !c->datagram && is_free(qp)) {
        peers = c->ird;
        c->ird = agree ? smaller(param->ird, c->ord) : param->ird;
        c->ord = agree ? smaller(param->ord, peers) : param->ord;
        message = message_of(c, ACCEPT, param->private_data, param->private_data_length);
        status = socket_send(c->watched.fd, &message, -1) ? RI_OK : RI_ERR_INVALID_STATE;
    }
    if (status == RI_OK) {
        undecided_no_more(c);
        c->state = ACCEPTED;
        c->deadline = deadline_of(param);
        c->data_length = 0;
        join(c, qp);
        qp->rc.qp.ird = c->ird;
        qp->rc.qp.ord = c->ord;
        qp->rc.qp.state = RI_QPS_RTS;
    }
    pthread_mutex_unlock(&c->rnic->mem.lock);
    return status;
}

/* The last message of an undecided request. */
static enum ri_status answer(struct connection *c, const struct message *message, bool datagram)
{
    enum ri_status status = RI_ERR_INVALID_STATE;

    pthread_mutex_lock(&c->rnic->mem.lock);
    if (c->state == UNDECIDED && c->datagram == datagram) {
        socket_send(c->watched.fd, message, -1);
        end_silently(c, 0, 0, false);
        status = RI_OK;
    }
    pthread_mutex_unlock(&c->rnic->mem.lock);
    return status;
}

enum ri_status vp_reject(struct ri_connection *base, const void *data, uint16_t length)
{
    struct connection *c = (struct connection *)base;
    struct message message;

    if (length > RI_MAX_PRIVATE_DATA)
        return RI_ERR_LIMIT;
    message = message_of(c, REJECT, data, length);
    return answer(c, &message, false);
}

enum ri_status vp_service_reply(struct ri_connection *base, const struct ri_service_reply *reply)
{
    struct connection *c = (struct connection *)base;
    struct message message;

    if (reply->private_data_length > RI_MAX_PRIVATE_DATA)
        return RI_ERR_LIMIT;
    message = message_of(c, REPLY, reply->private_data, reply->private_data_length);
    message.status = reply->status;
    if (reply->status == RI_SERVICE_VALID) {
        message.qpn = ((struct qp *)reply->qp)->rc.qp.number;
        message.qkey = reply->qkey;
    }
    return answer(c, &message, true);
}

enum ri_status vp_disconnect(struct ri_connection *base, const void *data, uint16_t length)
{
    struct connection *c = (struct connection *)base;
    enum ri_status status = RI_OK;

    (void)data;
    if (length)
        return RI_ERR_LIMIT;
    pthread_mutex_lock(&c->rnic->mem.lock);
    if (c->state == CONNECTED)
        connection_end(c, 0, 0, false);
    else if (c->state == CONNECTING || c->state == ACCEPTED)
        end_silently(c, 0, 0, false);
    else
        status = RI_ERR_INVALID_STATE;
    pthread_mutex_unlock(&c->rnic->mem.lock);
    return status;
}
