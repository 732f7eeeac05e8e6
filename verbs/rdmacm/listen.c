/* SPDX-License-Identifier: BSD-3-Clause
 * Listeners and their connect requests. */
#include "cm.h"
#include "listen.h"

#include <stdlib.h>
#include <sys/socket.h>

/* <rdma/rdma_cma.h>: on the passive side responder_resources is the number of Reads that the peer
 * wants to have outstanding. */
static void report_depths(struct rcm_id *id, struct rcm_event *event,
                          const struct ri_connect_request *asked)
{
    const struct ri_rnic_attr *attr = ual_device_attr(id->context->device);
    uint32_t ird = asked->depths_valid ? asked->ird : attr->max_ird;
    uint32_t ord = asked->depths_valid ? asked->ord : attr->max_ord;

    id->peer_ird = ird < UINT8_MAX ? (uint8_t)ird : UINT8_MAX;
    id->peer_ord = ord < UINT8_MAX ? (uint8_t)ord : UINT8_MAX;
    id->ird = id->peer_ord;
    id->ord = id->peer_ird;
    event->ibv.param.conn.responder_resources = id->peer_ord;
    event->ibv.param.conn.initiator_depth = id->peer_ird;
}

/* Creates the id of a connect request. Its events go to the listener's channel until the program
 * migrates it. */
static struct rcm_id *new_request(struct rcm_listening *listening, struct ual_conn *conn,
                                  const struct ri_connect_request *asked)
{
    struct rcm_id *listener = listening->id;
    struct rcm_id *id = rcm_id_new(listener->ibv.channel, listener->ibv.context, listener->ibv.ps);

    if (!id)
        return NULL;
    id->state = RCM_REQUESTED;
    id->conn = conn;
    rcm_id_set_context(id, listening->context);
    rcm_id_set_local(id, (const struct sockaddr *)&asked->local);
    rcm_id_set_peer(id, (const struct sockaddr *)&asked->peer);
    return id;
}

/* Of a fed stream comes no request. Upcall. */
static void report_no_request(struct rcm_listening *listening)
{
    struct rcm_event *event = rcm_event_new();

    if (event)
        rcm_event_post(listening->id, event, listening->id, RDMA_CM_EVENT_CONNECT_ERROR,
                       -ECONNABORTED);
}

/* What the event tells of the request. */
static void describe(struct rcm_id *id, struct rcm_event *event,
                     const struct ri_connect_request *asked, const void *data, uint16_t length)
{
    if (rcm_is_datagram(id)) {
        rcm_event_padded(event, data, length, RCM_ROOM_QUESTION);
        return;
    }
    report_depths(id, event, asked);
    if (!rcm_is_managed(id)) {
        rcm_event_data(event, data, length);
        return;
    }
    rcm_event_padded(event, data, length, RCM_ROOM_REQUEST);
    rcm_managed_take(id, asked->numbers, &event->ibv.param.conn);
}

static enum ual_hearing on_request(void *context, struct ual_conn *conn,
                                   const struct ri_connect_request *asked)
{
    struct rcm_listening *listening = context;
    const void *data = asked->private_data;
    uint16_t length = asked->private_data_length;
    struct rcm_terms terms;
    struct rcm_event *event;
    struct rcm_id *id;

    if (!rcm_terms_take(listening->context, &data, &length, &terms)) {
        if (listening->fed)
            report_no_request(listening);
        ual_conn_reject(conn, NULL, 0); /* for good: it need not try again */
        return UAL_REQUEST_DROPPED;
    }
    event = rcm_event_new();
    id = event ? new_request(listening, conn, asked) : NULL;
    if (!id) {
        free(event);
        ual_log(RI_LOG_ERROR, "rdma_cm: a connection request is dropped: no memory");
        return UAL_REQUEST_DROPPED;
    }
    ual_conn_migrate(conn, &rcm_conn_upcalls, id);
    rcm_request_enter(id);
    describe(id, event, asked, data, length);
    id->peer_terms = terms;
    event->ibv.listen_id = &listening->id->ibv;
    rcm_event_post(listening->id, event, id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    return UAL_REQUEST_TAKEN;
}

static const struct ual_conn_upcalls listen_upcalls = { .request = on_request };

/* Listens on one more device. If the id's connection object reserves an address of that device, it
 * becomes the listener. */
static int listen_on(struct rcm_id *id, struct vb_context *context, const struct sockaddr *address,
                     uint32_t backlog)
{
    struct rcm_listening *listening = &id->listening[id->listenings];
    struct ri_listen_param param = { .size = sizeof(param),
                                     .address = address,
                                     .backlog = backlog,
                                     .datagram = rcm_is_datagram(id),
                                     .family_only = id->family_only,
                                     .reuse_address = id->reuse_address };
    struct sockaddr_storage bound;
    struct ual_conn *conn = NULL;
    int error = 0;

    *listening = (struct rcm_listening){ .id = id, .context = context };
    if (id->conn && id->context == context) {
        conn = id->conn;
        param.address = NULL;
        ual_conn_migrate(conn, &listen_upcalls, listening);
        id->conn = NULL;
    } else {
        error = vb_errno(ual_conn_create(context->device, &listen_upcalls, listening, &conn));
    }
    if (!error)
        error = vb_errno(ual_conn_listen(conn, &param, &bound));
    if (error) {
        if (conn)
            ual_conn_free(conn);
        return error;
    }
    listening->conn = conn;
    id->listenings++;
    rcm_id_set_local(id, (const struct sockaddr *)&bound);
    return 0;
}

/* A wildcard listens on every device. Two devices on the host's TCP cannot both have the port; one
 * is enough, because it receives requests to all addresses. */
static int listen_on_all(struct rcm_id *id, uint32_t backlog)
{
    struct sockaddr *address = &id->ibv.route.addr.src_addr;
    struct vb_context **contexts;
    uint32_t count = rcm_contexts(&contexts);
    bool any = rcm_address_any(address);
    int error = ENODEV, first = 0;

    id->listening = calloc(count ? count : 1, sizeof(*id->listening));
    if (!id->listening)
        return ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        if ((!any && contexts[i] != id->context) ||
            !rcm_context_serves(contexts[i], rcm_is_datagram(id)))
            continue;
        error = listen_on(id, contexts[i], address, backlog);
        if (error && !first)
            first = error;
    }
    return id->listenings ? 0 : first ? first : error;
}

/* ---- streams of the caller's ---- */

/* Only of a fed listener. Upcall. */
static void on_fed_event(void *context, const struct ri_connection_event *event)
{
    if (event->type == RI_CONNECTION_FAILED)
        report_no_request(context);
}

static const struct ual_conn_upcalls fed_upcalls = { .request = on_request, .event = on_fed_event };

static bool manages_connections(const struct vb_context *context)
{
    return ual_device_attr(context->device)->features & RI_FEATURE_CONNECTION_SET_A;
}

static bool has_address(struct vb_context *context, const struct sockaddr *address)
{
    return rcm_address_any(address) || rcm_context_has(context, address);
}

bool rcm_can_be_fed(const struct sockaddr *address)
{
    struct vb_context **contexts;
    uint32_t count = rcm_contexts(&contexts), found = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (!has_address(contexts[i], address))
            continue;
        if (manages_connections(contexts[i]))
            return false;
        found++;
    }
    return found;
}

static int listen_fed_on(struct rcm_id *id, struct vb_context *context,
                         const struct sockaddr *address, uint32_t backlog)
{
    struct rcm_listening *listening = &id->listening[id->listenings];
    struct ual_conn *conn = NULL;
    int error;

    *listening = (struct rcm_listening){ .id = id, .context = context, .fed = true };
    error = vb_errno(ual_conn_create(context->device, &fed_upcalls, listening, &conn));
    if (!error)
        error = vb_errno(ual_conn_listen_fed(conn, address, backlog));
    if (error) {
        if (conn)
            ual_conn_free(conn);
        return error;
    }
    listening->conn = conn;
    id->listenings++;
    return 0;
}

int rcm_listen_fed(struct rdma_cm_id *id, const struct sockaddr *address, int backlog)
{
    VB_CALL;
    struct rcm_id *own = rcm_id_of(id);
    struct vb_context **contexts;
    uint32_t count = rcm_contexts(&contexts);
    int error = ENODEV;

    if (!rcm_step(own, RCM_DO_LISTEN, NULL))
        return EINVAL;
    rcm_id_set_local(own, address);
    own->listening = calloc(count ? count : 1, sizeof(*own->listening));
    if (!own->listening)
        return ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        if (has_address(contexts[i], address))
            error = listen_fed_on(own, contexts[i], address, backlog > 0 ? (uint32_t)backlog : 0);
    return own->listenings ? 0 : error;
}

/* The listener of the device with the stream's own address; of another device, if none has it. */
static struct rcm_listening *listening_for(struct rcm_id *id, int fd)
{
    union address local;

    if (rcm_fed_stream_local(fd, &local))
        return NULL;
    for (uint32_t i = 0; i < id->listenings; i++)
        if (rcm_context_has(id->listening[i].context, &local.any))
            return &id->listening[i];
    return id->listenings ? &id->listening[0] : NULL;
}

int rcm_listen_feed(struct rdma_cm_id *id, int fd)
{
    VB_CALL;
    struct rcm_listening *listening = listening_for(rcm_id_of(id), fd);
    enum ri_status status = listening ? ual_conn_feed(listening->conn, fd)
                                      : RI_ERR_INVALID_ARGUMENT;

    return status == RI_ERR_INVALID_ARGUMENT ? ECONNABORTED : vb_errno(status);
}

void rcm_listen_advise(struct rdma_cm_id *id, const char *advice)
{
    struct rcm_id *own = rcm_id_of(id);

    for (uint32_t i = 0; i < own->listenings; i++)
        ual_conn_advise(own->listening[i].conn, advice);
}

VB_PUBLIC int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    VB_CALL;
    RCM_OWN(id, -1);
    SANITIZER_OUTPUT(id);
    struct rcm_id *own = rcm_id_of(id);
    enum rcm_state was;
    int error;

    if (!rcm_step(own, RCM_DO_LISTEN, &was))
        return rcm_fail(EINVAL);
    if (was == RCM_IDLE)
        id->route.addr.src_addr.sa_family = AF_INET;
    error = listen_on_all(own, backlog > 0 ? (uint32_t)backlog : 0);
    if (!error)
        return 0;
    free(own->listening);
    own->listening = NULL;
    rcm_step_back(own, was);
    return rcm_fail(error);
}

/* Gives the request's id to the caller: as a synchronous id, with a QP if the listener has
 * attributes for one. */
static int hand_out(struct rcm_id *listener, struct rdma_cm_event *event)
{
    struct ibv_qp_init_attr init = listener->init;

    if (rdma_migrate_id(event->id, NULL))
        return -1;
    if (listener->has_init && rdma_create_qp(event->id, listener->ibv.pd, &init))
        return -1;
    event->id->event = event;
    return 0;
}

VB_PUBLIC int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
    RCM_OWN(listen, -1);
    SANITIZER_OUTPUT(id);
    struct rcm_id *own = rcm_id_of(listen);
    struct rdma_cm_event *event;

    if (!own->synchronous || rcm_state(own) != RCM_LISTENING || !id)
        return rcm_fail(EINVAL);
    for (;;) {
        if (rdma_get_cm_event(listen->channel, &event))
            return -1;
        if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST && event->listen_id == listen)
            break;
        rdma_ack_cm_event(event); /* of a request that another thread has got */
    }
    if (hand_out(own, event)) {
        int error = errno;

        rdma_reject(event->id, NULL, 0);
        rdma_destroy_ep(event->id);
        rdma_ack_cm_event(event);
        return rcm_fail(error);
    }
    *id = event->id;
    sanitizer_defined(*id, sizeof(**id));
    return 0;
}
