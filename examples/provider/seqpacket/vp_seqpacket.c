/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A verbs provider to copy, for a network that is not TCP and has no connection manager: Sends,
 * RDMA Writes and RDMA Reads with connection set A. Its carrier is a UNIX socket with message
 * boundaries (SOCK_SEQPACKET) per connection, so both ends are processes of one host. "YOURS"
 * marks what a vendor replaces.
 *
 * librnicpi.a has the rest: objects and posts (rnicpi_mem.h), what requests become (rnicpi_rc.h),
 * connection verbs (rnicpi_set_a.h), upcalls and unwatches that come later. They want of a carrier:
 * whole packets, in order, without loss, and to hear when the peer has gone.
 *
 * A packet is a message of set A until the connection is CONNECTED, and a piece of a request from
 * then on: READY is the last message of the active side, ACCEPT that of the passive one, so both
 * sides agree which packet is the first piece.
 *
 * Locks: the RNIC's lock guards everything but the CQs. No upcall and no unwatch is made under it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4 */
#endif

#include <rnicpi.h>
#include <rnicpi_mem.h>
#include <rnicpi_rc.h>
#include <rnicpi_set_a.h>
#include <rnicpi_util.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_MESSAGE (UINT32_C(1) << 30)
#define TURN        64 /* packets that a QP sends or takes before others have their turn */

/* ---- objects: each begins with the library's, which begins with that of rnicpi.h ---- */

struct packet {
    struct ri_piece piece;
    uint8_t octets[RI_RC_PAYLOAD];
};

struct rnic {
    struct ri_mem_rnic mem;
    struct ri_set_a set;
    /* Under the lock one packet is on its way in and one out, whoever's they are. */
    union {
        struct packet packet;
        struct ri_cm_message message;
    } in;
    struct packet out;
};

struct connection {
    struct ri_mem_connection mem;
    struct ri_watched watched; /* YOURS: the channel */
    uint32_t out_length;       /* octets of rnic.out that are its own; 0: none */
    bool waits_for_room;
};

struct listener {
    struct ri_mem_listener mem;
    struct ri_watched watched;
    struct rnic *rnic;
};

static struct rnic *rnic_of(const struct connection *c)
{
    return (struct rnic *)c->mem.set->rnic;
}

/* ---- YOURS: packets on the channel. Under the lock ---- */

/* A device with a ring of descriptors looks here whether one is free. */
static bool channel_has_room(const struct connection *c)
{
    struct pollfd room = { .fd = c->watched.fd, .events = POLLOUT };

    return poll(&room, 1, 0) == 1 && (room.revents & POLLOUT);
}

/* ready() is called when there is room. A device that cannot tell is looked at in progress. */
static void channel_await_room(struct connection *c, bool wait)
{
    const struct ri_host *host = rnic_of(c)->mem.host;

    if (wait == c->waits_for_room || atomic_load(&c->watched.leaving))
        return;
    c->waits_for_room = wait;
    host->rewatch(host, c->watched.watch, EPOLLIN | (wait ? EPOLLOUT : 0));
}

static bool channel_send(int fd, const void *packet, size_t length)
{
    return send(fd, packet, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length;
}

/* Octets of a packet; 0: the peer's end; -1: nothing now. After ECONNRESET (the peer has closed
 * without reading all) what it sent is still there. */
static ssize_t channel_receive(struct connection *c)
{
    struct rnic *rnic = rnic_of(c);
    ssize_t got;

    do
        got = recv(c->watched.fd, &rnic->in, sizeof(rnic->in), MSG_DONTWAIT);
    while (got < 0 && (errno == EINTR || errno == ECONNRESET));
    return got < 0 && errno != EAGAIN ? 0 : got;
}

/* ---- what rnicpi_rc.h asks for. Under the lock ---- */

/* The last piece may go where another would wait. */
static uint8_t *rc_put(struct ri_rc *rc, const struct ri_piece *piece)
{
    struct connection *c = (struct connection *)rc->qp.connection;
    struct packet *out = &rnic_of(c)->out;

    if (piece->type != RI_PIECE_END && !channel_has_room(c)) {
        channel_await_room(c, true);
        return NULL;
    }
    out->piece = *piece;
    c->out_length = (uint32_t)sizeof(*piece) + piece->length;
    return out->octets;
}

/* The packet that rc_put() began is whole. False: it is lost, not because the peer has gone, which
 * receive() finds out when it has taken what the peer sent before. */
static bool flush(struct connection *c)
{
    uint32_t length = c->out_length;

    c->out_length = 0;
    return !length || channel_send(c->watched.fd, &rnic_of(c)->out, length) || errno == EPIPE ||
           errno == ECONNRESET;
}

static void rc_end(struct ri_rc *rc, enum ri_event_type type, uint16_t code, bool explained)
{
    struct connection *c = (struct connection *)rc->qp.connection;

    flush(c); /* why, if there is room */
    ri_set_a_end(&c->mem, type, code, explained);
}

/* Everything that can be done for a QP without the peer; ri_mem_report() follows. */
static void serve(struct ri_mem_qp *qp)
{
    struct connection *c = (struct connection *)qp->connection;

    for (int i = 0; qp->connection && c->mem.state == RI_CM_CONNECTED; i++) {
        if (i == TURN)
            channel_await_room(c, true); /* comes back at once, or when there is room */
        if (i == TURN || !ri_rc_send((struct ri_rc *)qp))
            break;
        if (!flush(c))
            ri_set_a_end(&c->mem, RI_EVENT_LLP_LOST, 0, false);
    }
}

/* ---- receiving. Under the lock ---- */

/* Nothing of a packet is believed: its length has to be the one that it states. */
static void take_piece(struct connection *c, size_t length)
{
    struct packet *packet = &rnic_of(c)->in.packet;

    if (length < sizeof(packet->piece) || packet->piece.length != length - sizeof(packet->piece))
        packet->piece.length = UINT32_MAX; /* which ends the connection */
    ri_rc_take((struct ri_rc *)c->mem.qp, &packet->piece, packet->octets);
}

static void take_message(struct connection *c, size_t length)
{
    struct ri_cm_message *message = &rnic_of(c)->in.message;

    if (length != sizeof(*message))
        message->type = 0; /* likewise */
    ri_set_a_message(&c->mem, message);
}

static void receive(struct connection *c)
{
    for (int i = 0; i < TURN && !atomic_load(&c->watched.leaving); i++) {
        ssize_t got = channel_receive(c);

        if (got < 0)
            return;
        if (!got)
            ri_set_a_left(&c->mem);
        else if (c->mem.state == RI_CM_CONNECTED)
            take_piece(c, (size_t)got);
        else
            take_message(c, (size_t)got);
    }
}

/* The host calls this in a run of the lane, again while the socket has more. YOURS: an interrupt's
 * descriptor; or a thread of your own that ends with ri_mem_report_later() and the unlock, because
 * upcalls come in runs of the lane only. */
static void ready(void *arg, uint32_t events)
{
    struct connection *c = arg;
    struct rnic *rnic = rnic_of(c);
    struct ri_mem_qp *qp;

    pthread_mutex_lock(&rnic->mem.lock);
    qp = c->mem.qp; /* stays while the lock is held, though the connection may let go of it */
    if (events & EPOLLOUT)
        channel_await_room(c, false);
    receive(c);
    if (!qp) {
        pthread_mutex_unlock(&rnic->mem.lock);
        return;
    }
    serve(qp);
    ri_mem_report(qp);
}

/* ---- what rnicpi_set_a.h asks for ---- */

/* No lock held, nobody is in ready(): see rnicpi_watch.h. */
static void channel_gone(struct ri_watched *watched)
{
    close(watched->fd);
    ri_set_a_closed((void *)((char *)watched - offsetof(struct connection, watched)));
}

/* The channel is the connection's from then on, unless an error is returned. Under the lock. */
static enum ri_status channel_open(struct connection *c, int fd)
{
    enum ri_status status;

    c->watched.fd = fd;
    c->watched.gone = channel_gone;
    status = ri_watched_add(&rnic_of(c)->mem.leaving, &c->watched, EPOLLIN, ready, c);
    if (status == RI_OK)
        ri_set_a_opened(&c->mem);
    return status;
}

/* YOURS: what a port is called in your network. Here: a name of a socket, beside no file. */
static socklen_t name_of_port(struct sockaddr_un *name, uint16_t port)
{
    *name = (struct sockaddr_un){ .sun_family = AF_UNIX };
    return (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 +
           (socklen_t)sprintf(name->sun_path + 1, "ital-seqpacket/%u", port);
}

/* YOURS: which addresses are reached. Ports alone, no service IDs, no datagrams, IPv4 alone. */
static enum ri_status port_of(const struct sockaddr *address, uint64_t service_id, bool datagram,
                              uint16_t *port)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;

    if (service_id || datagram)
        return RI_ERR_NOT_SUPPORTED;
    if (address->sa_family != AF_INET ||
        (v4->sin_addr.s_addr && ntohl(v4->sin_addr.s_addr) >> 24 != 127))
        return RI_ERR_UNREACHABLE;
    *port = ntohs(v4->sin_port);
    return RI_OK;
}

/* YOURS: a channel to that port. A network that needs time for it answers RI_OK at once, sends the
 * request when the channel is there, and calls ri_set_a_left() if it does not come to be. */
static enum ri_status carrier_start(struct ri_mem_connection *base, uint16_t port,
                                    const struct ri_cm_message *request,
                                    enum ri_connection_reason *reason)
{
    struct connection *c = (struct connection *)base;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un name;
    socklen_t length = name_of_port(&name, port);
    enum ri_status status = RI_OK;

    if (fd < 0)
        return RI_ERR_NO_RESOURCES;
    if (connect(fd, (struct sockaddr *)&name, length))
        *reason = errno == ECONNREFUSED ? RI_REASON_REFUSED : RI_REASON_RESOURCES;
    else if (!channel_send(fd, request, sizeof(*request)))
        *reason = RI_REASON_REFUSED; /* the listener went meanwhile */
    else
        status = channel_open(c, fd);
    if (!base->open)
        close(fd);
    return status;
}

/* The few messages of a connection come before its pieces: there is room for them. */
static bool carrier_send(struct ri_mem_connection *c, const struct ri_cm_message *message)
{
    return channel_send(((struct connection *)c)->watched.fd, message, sizeof(*message));
}

/* YOURS: what was sent still arrives, then the peer hears of the end; so does it when this process
 * dies. The descriptor is closed in the lane's next pass. */
static void carrier_close(struct ri_mem_connection *base)
{
    struct connection *c = (struct connection *)base;

    shutdown(c->watched.fd, SHUT_RDWR);
    ri_unwatch_later(&base->set->rnic->leaving, &c->watched);
}

static const struct sockaddr loopback = { .sa_family = AF_INET, .sa_data = { 0, 0, 127, 0, 0, 1 } };

static const struct ri_carrier carrier = {
    .connection_size = sizeof(struct connection),
    .now = ri_now,
    .source = &loopback,
    .port_of = port_of,
    .start = carrier_start,
    .send = carrier_send,
    .close = carrier_close,
};

/* ---- YOURS: listeners ---- */

static void listener_ready(void *arg, uint32_t events)
{
    struct listener *listener = arg;
    struct rnic *rnic = listener->rnic;

    (void)events;
    pthread_mutex_lock(&rnic->mem.lock);
    for (int i = 0; i < TURN && !atomic_load(&listener->watched.leaving); i++) {
        int fd = accept4(listener->watched.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct ri_mem_connection *c;

        if (fd < 0)
            break;
        c = ri_set_a_incoming(&rnic->set, &listener->mem);
        if (c && channel_open((struct connection *)c, fd) == RI_OK)
            continue;
        close(fd);
        if (c)
            ri_set_a_drop(c);
    }
    pthread_mutex_unlock(&rnic->mem.lock);
}

static void listener_gone(struct ri_watched *watched)
{
    close(watched->fd);
    free((char *)watched - offsetof(struct listener, watched));
}

/* Port 0: one that is free. */
static enum ri_status bind_port(int fd, uint16_t *port)
{
    bool any = !*port;
    struct sockaddr_un name;

    for (int i = 0; i < (any ? 100 : 1); i++) {
        if (any && getrandom(port, sizeof(*port), 0) != sizeof(*port))
            return RI_ERR_NO_RESOURCES;
        *port |= any ? 0x8000 : 0;
        if (!bind(fd, (struct sockaddr *)&name, name_of_port(&name, *port)))
            return listen(fd, 128) ? RI_ERR_NO_RESOURCES : RI_OK;
        if (errno != EADDRINUSE)
            return RI_ERR_NO_RESOURCES;
    }
    return RI_ERR_ADDRESS_IN_USE;
}

static enum ri_status vp_listen(struct ri_rnic *base, const struct ri_listen_param *param,
                                void *context, struct sockaddr_storage *bound,
                                struct ri_listener **out)
{
    struct rnic *rnic = (struct rnic *)base;
    struct listener *listener;
    uint16_t port;
    enum ri_status status = port_of(param->address, param->service_id, param->datagram, &port);
    int fd;

    if (status != RI_OK)
        return status;
    listener = calloc(1, sizeof(*listener));
    if (!listener)
        return RI_ERR_NO_RESOURCES;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    status = fd < 0 ? RI_ERR_NO_RESOURCES : bind_port(fd, &port);
    if (status != RI_OK)
        goto close_socket;
    listener->mem.base = (struct ri_listener){ base->ops, context };
    listener->mem.backlog = param->backlog;
    listener->watched.fd = fd;
    listener->watched.gone = listener_gone;
    listener->rnic = rnic;
    pthread_mutex_lock(&rnic->mem.lock);
    status = ri_watched_add(&rnic->mem.leaving, &listener->watched, EPOLLIN, listener_ready,
                            listener);
    if (status == RI_OK)
        ri_set_a_listens(&rnic->set, &listener->mem);
    pthread_mutex_unlock(&rnic->mem.lock);
    if (status != RI_OK)
        goto close_socket;
    memset(bound, 0, sizeof(*bound));
    memcpy(bound, param->address, sizeof(struct sockaddr_in));
    ((struct sockaddr_in *)(void *)bound)->sin_port = htons(port);
    *out = &listener->mem.base;
    return RI_OK;

close_socket:
    if (fd >= 0)
        close(fd);
    free(listener);
    return status;
}

static enum ri_status vp_listen_destroy(struct ri_listener *base)
{
    struct listener *listener = (struct listener *)base;
    struct rnic *rnic = listener->rnic;

    pthread_mutex_lock(&rnic->mem.lock);
    ri_set_a_forget(&rnic->set, &listener->mem);
    shutdown(listener->watched.fd, SHUT_RDWR); /* connect(2) is refused from now on */
    ri_unwatch_later(&rnic->mem.leaving, &listener->watched);
    pthread_mutex_unlock(&rnic->mem.lock);
    return RI_OK;
}

/* ---- QPs: the connection verbs bring them to RTS and end their connections ---- */

static enum ri_status vp_qp_create(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **out)
{
    struct ri_rc *rc = calloc(1, sizeof(*rc));
    enum ri_status status;

    if (!rc)
        return RI_ERR_NO_RESOURCES;
    rc->put = rc_put;
    rc->end = rc_end;
    status = ri_mem_qp_open(&rc->qp, (struct ri_mem_pd *)pd, attr);
    if (status != RI_OK) {
        free(rc);
        return status;
    }
    *out = &rc->qp.base;
    return RI_OK;
}

static enum ri_status change_state(struct ri_mem_qp *qp, enum ri_qp_state state)
{
    switch (state) {
    case RI_QPS_ERROR:
        if (qp->connection && qp->state == RI_QPS_RTS)
            ri_set_a_end(qp->connection, 0, 0, false);
        ri_mem_qp_end(qp, 0, 0, false);
        return RI_OK;
    case RI_QPS_IDLE: ri_rc_reset((struct ri_rc *)qp); return ri_mem_qp_idle(qp);
    default: return RI_ERR_NOT_SUPPORTED;
    }
}

static enum ri_status vp_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify)
{
    struct ri_mem_qp *qp = (struct ri_mem_qp *)base;
    enum ri_status status = RI_OK;

    if (modify->mask & ~(uint32_t)RI_QPM_STATE)
        return RI_ERR_NOT_SUPPORTED;
    pthread_mutex_lock(&qp->rnic->lock);
    if (modify->mask & RI_QPM_STATE)
        status = change_state(qp, modify->state);
    ri_mem_report(qp);
    return status;
}

static enum ri_status vp_qp_destroy(struct ri_qp *base)
{
    struct ri_mem_qp *qp = (struct ri_mem_qp *)base;
    pthread_mutex_t *lock = &qp->rnic->lock;

    pthread_mutex_lock(lock);
    ri_set_a_part(qp);
    pthread_mutex_unlock(lock);
    ri_mem_qp_close(qp);
    free(qp);
    return RI_OK;
}

/* ---- the RNIC ---- */

static enum ri_status vp_enumerate(const struct ri_host *host, ri_found_fn found, void *arg)
{
    const struct ri_device device = {
        .size = sizeof(device), .name = "seqpacket", .transport = RI_TRANSPORT_IWARP, .usable = true
    };

    (void)host;
    found(arg, &device);
    return RI_OK;
}

/* YOURS: what you can do, and no more. The transport says whose rules hold for programs. */
static const struct ri_rnic_attr attributes = {
    .transport = RI_TRANSPORT_IWARP,
    .wire = "UNIX sockets of this host",
    .features = RI_FEATURE_CONNECTION_SET_A | RI_FEATURE_CQ_PEEK | RI_FEATURE_CQ_ARM_NOTIFY |
                RI_FEATURE_CQ_ARM_NTH | RI_FEATURE_CQ_HOLDS_OVERFLOW | RI_FEATURE_CQ_RESIZE,
    .max_mr_length = UINT64_C(1) << 47,
    .max_message = MAX_MESSAGE,
    .max_send = MAX_MESSAGE,
    .max_pd = 65536,
    .max_cq = 65536,
    .max_qp = 65536,
    .max_mr = 4096,
    .max_cqe = 1u << 20,
    .max_send_wr = 4096,
    .max_recv_wr = 4096,
    .max_send_sge = 4,
    .max_recv_sge = 4,
    .max_read_sge = 1,
    .max_write_sge = 4,
    .max_ird = RI_RC_DEPTH,
    .max_ord = RI_RC_DEPTH,
    .ports = 1,
    .lanes = 1,
    .alignment_hint = 64,
    .connect_private_data = RI_MAX_PRIVATE_DATA,
    .accept_private_data = RI_MAX_PRIVATE_DATA,
    .reject_private_data = RI_MAX_PRIVATE_DATA,
};

static enum ri_status vp_open(const struct ri_open *open, struct ri_rnic **out)
{
    struct rnic *rnic;

    if (open->device && strcmp(open->device, "seqpacket"))
        return RI_ERR_INVALID_ARGUMENT;
    rnic = calloc(1, sizeof(*rnic));
    if (!rnic || ri_mem_rnic_open(&rnic->mem, open, &attributes, serve) != RI_OK) {
        free(rnic);
        return RI_ERR_NO_RESOURCES;
    }
    ri_set_a_open(&rnic->set, &rnic->mem, &carrier);
    *out = &rnic->mem.base;
    return RI_OK;
}

static enum ri_status vp_close(struct ri_rnic *rnic, bool force)
{
    enum ri_status status = ri_mem_rnic_close((struct ri_mem_rnic *)rnic);

    (void)force;
    if (status == RI_OK)
        free(rnic);
    return status;
}

/* YOURS: your addresses. */
static enum ri_status vp_query_port(struct ri_rnic *base, struct ri_port_attr *attr)
{
    (void)base;
    if (attr->port)
        return RI_ERR_INVALID_ARGUMENT;
    attr->online = true;
    attr->link_ethernet = true;
    attr->mtu = 1500;
    attr->address_count = 0;
    snprintf(attr->name, sizeof(attr->name), "lo");
    ri_port_add_address(attr, &loopback, 8);
    return RI_OK;
}

/* YOURS: a device without an interrupt is looked at here, and vp_lane_arm asks it once more. */
static uint32_t vp_progress(struct ri_lane *lane, struct ri_cq *first, uint32_t budget,
                            uint64_t *next_deadline)
{
    struct rnic *rnic = (struct rnic *)ri_mem_rnic_of_lane(lane);
    uint32_t work;

    (void)first, (void)budget;
    pthread_mutex_lock(&rnic->mem.lock);
    *next_deadline = ri_set_a_expire(&rnic->set);
    work = ri_tell_now(&rnic->mem.tellers);
    pthread_mutex_unlock(&rnic->mem.lock);
    return work + ri_unwatch_now(&rnic->mem.leaving);
}

static bool vp_lane_arm(struct ri_lane *lane)
{
    struct ri_mem_rnic *rnic = ri_mem_rnic_of_lane(lane);
    bool quiet;

    pthread_mutex_lock(&rnic->lock);
    quiet = !ri_unwatch_pending(&rnic->leaving) && !ri_tell_pending(&rnic->tellers);
    pthread_mutex_unlock(&rnic->lock);
    return quiet;
}

/* ---- the tables and the descriptor ---- */

static const struct ri_privileged_ops privileged = {
    .size = sizeof(privileged),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .enumerate = vp_enumerate,
    .open = vp_open,
    .close = vp_close,
    .query = ri_mem_query,
    .query_port = vp_query_port,
    .lane_open = ri_mem_lane_open,
    .pd_create = ri_mem_pd_create,
    .pd_destroy = ri_mem_pd_destroy,
    .cq_create = ri_mem_cq_create,
    .cq_resize = ri_mem_cq_set_depth,
    .cq_destroy = ri_mem_cq_destroy,
    .qp_create = vp_qp_create,
    .qp_modify = vp_qp_modify,
    .qp_query = ri_mem_qp_query,
    .qp_destroy = vp_qp_destroy,
    .mr_register = ri_mem_mr_register,
    .mr_deregister = ri_mem_mr_deregister,
    .connection_create = ri_mem_connection_create,
    .connection_destroy = ri_mem_connection_destroy,
    .resolve = ri_mem_resolve,
    .listen = vp_listen,
    .listen_destroy = vp_listen_destroy,
    .connect = ri_mem_connect,
    .accept = ri_mem_accept,
    .reject = ri_mem_reject,
    .disconnect = ri_mem_disconnect,
};

static const struct ri_user_ops user = {
    .size = sizeof(user),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .post_send = ri_mem_post_send,
    .post_recv = ri_mem_post_recv,
    .poll = ri_mem_cq_poll,
    .arm = ri_mem_cq_arm,
    .cq_peek = ri_mem_cq_peek,
    .progress = vp_progress,
    .lane_arm = vp_lane_arm,
};

RI_PROVIDER(vp_seqpacket) = {
    .size = sizeof(struct ri_provider),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .name = "seqpacket",
    .description = "Set A over a carrier of packets, for networks without TCP: to be copied",
    .version = "1",
    .privileged = &privileged,
    .user = &user,
};
