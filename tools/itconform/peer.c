/* SPDX-License-Identifier: BSD-3-Clause */
/* itconform-peer: connections, memory, events; see peer.h. */
#include "peer.h"

#include "tools/common/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS 64
#define STEP_MS  2000 /* of rdma_resolve_ */

/* ---- memory ---- */

static bool add_region(struct peer *peer, int number, char name, uint32_t bytes, int access)
{
    struct region *region = &peer->regions[number];

    region->name = name;
    region->bytes = bytes;
    region->octets = aligned_alloc(4096, bytes);
    if (!region->octets)
        return false;
    memset(region->octets, REGION_FILL, bytes);
    region->mr = ibv_reg_mr(name == 'O' ? peer->other_pd : peer->pd, region->octets, bytes,
                            access | IBV_ACCESS_LOCAL_WRITE);
    return region->mr;
}

/* Once, when the device of the first connection is known. */
static bool open_device(struct peer *peer, struct ibv_context *verbs)
{
    const int both = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

    if (peer->verbs)
        return peer->verbs == verbs;
    peer->verbs = verbs;
    peer->pd = ibv_alloc_pd(verbs);
    peer->other_pd = ibv_alloc_pd(verbs);
    return peer->pd && peer->other_pd &&
           add_region(peer, 0, 'W', REGION_BYTES, IBV_ACCESS_REMOTE_WRITE) &&
           add_region(peer, 1, 'R', REGION_BYTES, IBV_ACCESS_REMOTE_READ) &&
           add_region(peer, 2, 'A', REGION_BYTES, both) &&
           add_region(peer, 3, 'L', REGION_BYTES, 0) &&
           add_region(peer, 4, 'O', REGION_BYTES, both) &&
           add_region(peer, 5, 'B', LARGE_BYTES, both);
}

struct region *peer_region(struct peer *peer, char name)
{
    for (int i = 0; i < REGIONS; i++)
        if (peer->regions[i].mr && peer->regions[i].name == name)
            return &peer->regions[i];
    return NULL;
}

/* ---- a connection ---- */

static void connection_free(struct peer *peer, struct connection *connection)
{
    struct connection **at = &peer->connections;

    while (*at && *at != connection)
        at = &(*at)->next;
    if (*at)
        *at = connection->next;
    if (connection->id->qp)
        rdma_destroy_qp(connection->id);
    rdma_destroy_id(connection->id);
    if (connection->cq)
        ibv_destroy_cq(connection->cq);
    if (connection->channel)
        ibv_destroy_comp_channel(connection->channel);
    if (connection->buffer_mr)
        ibv_dereg_mr(connection->buffer_mr);
    free(connection->buffer);
    free(connection);
}

static bool post_receives(struct connection *connection)
{
    for (unsigned int i = 0; i < connection->receives; i++) {
        struct ibv_sge sge = { .addr = (uintptr_t)(connection->buffer + i * connection->length),
                               .length = connection->length,
                               .lkey = connection->buffer_mr->lkey };
        struct ibv_recv_wr wr = { .wr_id = i + 1, .sg_list = &sge, .num_sge = 1 }, *bad;

        if (ibv_post_recv(connection->id->qp, &wr, &bad))
            return false;
    }
    return true;
}

static bool make_queues(struct peer *peer, struct connection *connection)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = REQUESTS,
                 .max_recv_wr = RECEIVES_MAX,
                 .max_send_sge = 1,
                 .max_recv_sge = 1 },
    };

    connection->channel = ibv_create_comp_channel(peer->verbs);
    if (!connection->channel)
        return false;
    fcntl(connection->channel->fd, F_SETFL, O_NONBLOCK);
    connection->cq = ibv_create_cq(peer->verbs, REQUESTS + RECEIVES_MAX, NULL, connection->channel,
                                   0);
    if (!connection->cq || ibv_req_notify_cq(connection->cq, 0))
        return false;
    attr.send_cq = attr.recv_cq = connection->cq;
    return !rdma_create_qp(connection->id, peer->pd, &attr);
}

/* Queues, buffers and receives for an id. NULL: they cannot be made, and the id is destroyed. */
static struct connection *connection_new(struct peer *peer, struct rdma_cm_id *id)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    size_t bytes = (size_t)peer->receives * peer->length + LARGE_BYTES;

    if (!connection) {
        rdma_destroy_id(id);
        return NULL;
    }
    *connection = (struct connection){
        .id = id, .receives = peer->receives, .length = peer->length, .next = peer->connections
    };
    peer->connections = connection;
    if (id->verbs && open_device(peer, id->verbs) && make_queues(peer, connection)) {
        connection->buffer = calloc(1, bytes);
        if (connection->buffer)
            connection->buffer_mr = ibv_reg_mr(peer->pd, connection->buffer, bytes,
                                               IBV_ACCESS_LOCAL_WRITE);
    }
    for (size_t i = 0; connection->buffer && i < LARGE_BYTES; i++)
        connection->buffer[(size_t)peer->receives * peer->length + i] = (uint8_t)(i * 7 + 1);
    if (connection->buffer_mr && post_receives(connection))
        return connection;
    tool_error("cannot make a connection: %s", strerror(errno));
    connection_free(peer, connection);
    return NULL;
}

struct connection *peer_connection(struct peer *peer)
{
    return peer->connections;
}

void peer_forget(struct peer *peer)
{
    while (peer->connections) {
        if (!peer->connections->ended)
            rdma_disconnect(peer->connections->id);
        connection_free(peer, peer->connections);
    }
    peer->event_count = 0;
    for (int i = 0; i < REGIONS; i++)
        if (peer->regions[i].octets)
            memset(peer->regions[i].octets, REGION_FILL, peer->regions[i].bytes);
}

/* ---- events ---- */

static struct rdma_conn_param parameters(const struct peer *peer)
{
    return (struct rdma_conn_param){
        .private_data = peer->data_length ? peer->data : NULL,
        .private_data_len = (uint8_t)(peer->data_length < 255 ? peer->data_length : 255),
        .responder_resources = (uint8_t)peer->ird,
        .initiator_depth = (uint8_t)peer->ord,
        .retry_count = 7,
        .rnr_retry_count = 7,
    };
}

static void note_event(struct peer *peer, const char *name, const struct rdma_conn_param *param)
{
    struct happened *event;

    if (peer->event_count == EVENTS) {
        memmove(peer->events, peer->events + 1, (EVENTS - 1) * sizeof(peer->events[0]));
        peer->event_count--;
    }
    event = &peer->events[peer->event_count++];
    *event = (struct happened){ .name = name,
                                .ird = param->responder_resources,
                                .ord = param->initiator_depth };
    if (param->private_data) {
        event->length = param->private_data_len;
        memcpy(event->data, param->private_data, event->length);
    }
}

/* Connections that ended before make room when the next one comes. */
static void drop_ended(struct peer *peer)
{
    struct connection *next;

    for (struct connection *at = peer->connections; at; at = next) {
        next = at->next;
        if (at->ended)
            connection_free(peer, at);
    }
}

static void take_request(struct peer *peer, struct rdma_cm_id *id)
{
    struct rdma_conn_param param = parameters(peer);
    struct connection *connection;

    drop_ended(peer);
    if (peer->reject) {
        rdma_reject(id, param.private_data, param.private_data_len);
        rdma_destroy_id(id);
        return;
    }
    connection = connection_new(peer, id);
    if (connection && rdma_accept(id, &param)) {
        tool_error("cannot accept a connection: %s", strerror(errno));
        connection_free(peer, connection);
    }
}

static void mark_ended(struct peer *peer, const struct rdma_cm_id *id)
{
    for (struct connection *at = peer->connections; at; at = at->next)
        if (at->id == id && !at->ended) {
            at->ended = true;
            rdma_disconnect(at->id);
        }
}

void peer_run(struct peer *peer)
{
    struct rdma_cm_event *event;

    while (!rdma_get_cm_event(peer->channel, &event)) {
        enum rdma_cm_event_type type = event->event;
        struct rdma_cm_id *id = event->id;

        /* "RDMA_CM_EVENT_" stands before each name. */
        note_event(peer, rdma_event_str(type) + 14, &event->param.conn);
        rdma_ack_cm_event(event);
        if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
            take_request(peer, id);
        else if (type != RDMA_CM_EVENT_ESTABLISHED && id != peer->listener)
            mark_ended(peer, id);
    }
}

/* ---- listening and connecting ---- */

bool peer_listen(struct peer *peer, const char *address, uint16_t *port)
{
    const struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found;
    char service[8];
    int error;

    snprintf(service, sizeof(service), "%u", *port);
    error = getaddrinfo(address, service, &hints, &found);
    if (error) {
        tool_error("%s: %s", address, gai_strerror(error));
        return false;
    }
    peer->channel = rdma_create_event_channel();
    if (!peer->channel || fcntl(peer->channel->fd, F_SETFL, O_NONBLOCK) ||
        rdma_create_id(peer->channel, &peer->listener, NULL, RDMA_PS_TCP) ||
        rdma_bind_addr(peer->listener, found->ai_addr) || rdma_listen(peer->listener, 64)) {
        tool_error("cannot listen at %s port %u: %s; is there an RDMA device with that address?",
                   address, *port, strerror(errno));
        freeaddrinfo(found);
        return false;
    }
    freeaddrinfo(found);
    *port = ntohs(rdma_get_src_port(peer->listener));
    return true;
}

/* The blocking steps before rdma_connect, on a channel of their own. */
static const char *resolve(struct rdma_cm_id *id, const struct addrinfo *to)
{
    struct rdma_cm_event *event;

    for (int step = 0; step < 2; step++) {
        enum rdma_cm_event_type wanted = step ? RDMA_CM_EVENT_ROUTE_RESOLVED
                                              : RDMA_CM_EVENT_ADDR_RESOLVED;
        bool right;

        if ((step ? rdma_resolve_route(id, STEP_MS)
                  : rdma_resolve_addr(id, NULL, to->ai_addr, STEP_MS)) ||
            rdma_get_cm_event(id->channel, &event))
            return strerror(errno);
        right = event->event == wanted;
        rdma_ack_cm_event(event);
        if (!right)
            return "the address cannot be resolved";
    }
    return NULL;
}

const char *peer_connect(struct peer *peer, const char *host, const char *port)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_conn_param param = parameters(peer);
    const char *why = "out of memory";
    struct connection *connection;
    struct rdma_cm_id *id = NULL;
    struct addrinfo *to;

    if (getaddrinfo(host, port, &hints, &to)) {
        rdma_destroy_event_channel(channel);
        return "no such address";
    }
    if (channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
        why = resolve(id, to);
    freeaddrinfo(to);
    if (!why && rdma_migrate_id(id, peer->channel))
        why = strerror(errno);
    if (why) {
        if (id)
            rdma_destroy_id(id);
        if (channel)
            rdma_destroy_event_channel(channel);
        return why;
    }
    rdma_destroy_event_channel(channel);
    connection = connection_new(peer, id);
    if (!connection)
        return "no queues";
    if (!rdma_connect(id, &param))
        return NULL;
    why = strerror(errno);
    connection_free(peer, connection);
    return why;
}
