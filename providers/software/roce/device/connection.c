/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connection verbs (set A): the calls. An event follows in the lane (connection_event.c).
 */
#include "connection.h"

#include "base/entropy.h"

/* Of messages, where the consumer has chosen nothing: what Linux says. */
#define RESPONSE_TIMEOUT 20u
#define CM_RETRIES       15u
#define ACK_TIMEOUT      19u
#define ACK_DELAY        15u
#define RETRIES          7u

#define EPHEMERAL_FIRST 32768u
#define EPHEMERAL_COUNT 28232u

/* --- life --- */

enum ri_status roce_connection_create(struct ri_rnic *base, void *context,
                                      struct ri_connection **out)
{
    struct roce_rnic *device = roce_of(base);
    struct roce_connection *c;

    pthread_mutex_lock(&device->cm.lock);
    c = roce_connection_new(device);
    pthread_mutex_unlock(&device->cm.lock);
    if (!c)
        return RI_ERR_NO_RESOURCES;
    c->base.context = context;
    *out = &c->base;
    return RI_OK;
}

/* What the peer has to hear goes on without the object's consumer. */
enum ri_status roce_connection_destroy(struct ri_connection *base)
{
    struct roce_connection *c = roce_connection_of(base);
    struct roce_cm *cm = &c->device->cm;

    pthread_mutex_lock(&cm->lock);
    roce_silence_connection(c);
    roce_detach(c);
    roce_connection_release(c);
    pthread_mutex_unlock(&cm->lock);
    return RI_OK;
}

/* --- parameters --- */

static enum ri_status check(const struct roce_rnic *device, const struct ri_connect_param *param,
                            uint32_t private_data)
{
    const struct ri_rnic_attr *attr = &device->core.attr;

    if (param->private_data_length && !param->private_data)
        return RI_ERR_INVALID_ARGUMENT;
    return param->private_data_length <= private_data && param->ird <= attr->max_ird &&
                   param->ord <= attr->max_ord
               ? RI_OK
               : RI_ERR_LIMIT;
}

static uint8_t retries(const struct ri_connect_param *param, uint8_t given)
{
    return (param->tuned || param->retries_given) && given < RETRIES ? given : RETRIES;
}

static void take_param(struct roce_connection *c, const struct ri_connect_param *param)
{
    c->ird = param->ird;
    c->ord = param->ord;
    c->three_way = param->three_way;
    c->outlives_qp = param->outlives_qp;
    c->retry = retries(param, param->retry_count);
    c->rnr_retry = retries(param, param->rnr_retry_count);
    c->own_ack_timeout = param->tuned || param->ack_timeout_given ? param->local_ack_timeout & 31u
                                                                  : 0;
}

static enum ri_qp_type type_of(const struct roce_qp *qp, const struct ri_connect_param *param)
{
    if (qp)
        return qp->core.type;
    return param->qp_type ? (enum ri_qp_type)param->qp_type : RI_QP_RC;
}

/* Is it one that a connection can have? */
static bool is_for_connections(const struct roce_qp *qp, const struct ri_connect_param *param)
{
    enum ri_qp_type type = type_of(qp, param);

    return (type == RI_QP_RC || type == RI_QP_UC) && (qp || param->qpn > 1);
}

static struct roce_qp *qp_of(struct ri_qp *base)
{
    return base ? roce_qp_of(base) : NULL;
}

/* --- active --- */

static uint16_t some_port(void)
{
    uint16_t random = 0;

    entropy_draw(&random, sizeof(random));
    return (uint16_t)(EPHEMERAL_FIRST + random % EPHEMERAL_COUNT);
}

static bool is_unused(struct roce_connection *c)
{
    bool unused;

    pthread_mutex_lock(&c->device->cm.lock);
    unused = !c->used && c->cm.state == CM_IDLE && !c->cm.passive;
    pthread_mutex_unlock(&c->device->cm.lock);
    return unused;
}

/* The way there; its source is the connection's. */
static enum ri_status find_way(struct roce_connection *c, const struct ri_connect_param *param,
                               uint16_t *source_port, uint16_t *port)
{
    struct ri_ah_attr *path = &c->numbers.path, wanted = { .size = sizeof(wanted),
                                                           .global = 1,
                                                           .hop_limit = NET_HOP_LIMIT_DEFAULT,
                                                           .traffic_class = param->traffic_class,
                                                           .flow_label = param->flow_label };
    static const uint8_t any_ipv4[GID_LEN] = { [10] = 0xFF, [11] = 0xFF };
    struct roce_port *open;
    struct net_path unused;
    enum ri_status status;

    *source_port = 0;
    if (!param->destination || !roce_address_gid(param->destination, wanted.destination_gid, port))
        return RI_ERR_INVALID_ARGUMENT;
    if (param->source && !roce_address_gid(param->source, wanted.source_gid, source_port))
        return RI_ERR_INVALID_ARGUMENT;
    if (!memcmp(wanted.source_gid, any_ipv4, GID_LEN))
        memset(wanted.source_gid, 0, GID_LEN);
    status = roce_find_path(c->device, &wanted, &open, &unused, path);
    if (status != RI_OK)
        return status;
    if (!*source_port)
        *source_port = some_port();
    roce_gid_address(path->source_gid, *source_port, &c->local);
    roce_gid_address(path->destination_gid, *port, &c->peer);
    return RI_OK;
}

enum ri_status roce_prepare(struct roce_connection *c, const struct ri_connect_param *param,
                            bool datagram, struct roce_question *question)
{
    struct cma_header header;
    enum cma_port_space space;
    uint16_t port;
    enum ri_status status = RI_ERR_INVALID_STATE;

    if (is_unused(c))
        status = find_way(c, param, &header.source_port, &port);
    if (status != RI_OK)
        return status;
    memset(question, 0, sizeof(*question));
    question->service_id = param->service_id
                               ? param->service_id
                               : cma_service_id(datagram ? CMA_PS_UDP : CMA_PS_TCP, port);
    question->port = port;
    question->give_up = param->deadline == RI_NO_DEADLINE
                            ? clock_after(clock_now(), c->device->options.connect_timeout)
                            : param->deadline;
    memcpy(question->address.own, c->numbers.path.source_gid, GID_LEN);
    memcpy(question->address.peer, c->numbers.path.destination_gid, GID_LEN);
    if (cma_split_service_id(question->service_id, &space, &port)) {
        memcpy(header.source, question->address.own, GID_LEN);
        memcpy(header.destination, question->address.peer, GID_LEN);
        cma_put(question->data, &header);
        question->length = CMA_HEADER_LEN;
    }
    if (param->private_data_length)
        memcpy(question->data + question->length, param->private_data, param->private_data_length);
    question->length += param->private_data_length;
    return RI_OK;
}

/* {M-010} The PSN is that of the receiver's send queue: what this side expects first. */
static struct cm_message request(struct roce_connection *c, const struct roce_qp *qp,
                                 const struct ri_connect_param *param,
                                 const struct roce_question *question)
{
    const struct ri_ah_attr *path = &c->numbers.path;
    const struct cm_path primary = {
        .local_lid = 0xFFFF,
        .remote_lid = 0xFFFF,
        .flow_label = path->flow_label ? path->flow_label
                                       : cma_flow_label(some_port(), question->port),
        .traffic_class = path->traffic_class,
        .hop_limit = NET_HOP_LIMIT_DEFAULT,
        .local_ack_timeout = c->own_ack_timeout ? c->own_ack_timeout : ACK_TIMEOUT,
    };
    struct cm_message message = { .private_data = question->data, .private_len = question->length };

    message.req = (struct cm_req){
        .service_id = question->service_id,
        .local_ca_guid = roce_ca_guid(path->source_gid),
        .local_qpn = qp ? qp->core.qpn : param->qpn,
        .responder_resources = (uint8_t)c->ird,
        .initiator_depth = (uint8_t)c->ord,
        .remote_cm_response_timeout = param->tuned ? param->remote_cm_timeout : RESPONSE_TIMEOUT,
        .transport_service_type = type_of(qp, param) == RI_QP_UC ? CM_TRANSPORT_UC
                                                                 : CM_TRANSPORT_RC,
        .end_to_end_flow_control = param->flow_control,
        .starting_psn = c->numbers.receive_psn,
        .local_cm_response_timeout = param->tuned ? param->local_cm_timeout : RESPONSE_TIMEOUT,
        .retry_count = c->retry,
        .p_key = BTH_P_KEY,
        .path_mtu = roce_mtu_code(c->device),
        .rnr_retry_count = c->rnr_retry,
        .max_cm_retries = param->tuned ? param->max_cm_retries : CM_RETRIES,
        .srq = qp ? qp->core.srq != NULL : param->srq,
        .primary = primary,
    };
    memcpy(message.req.primary.local_gid, path->source_gid, GID_LEN);
    memcpy(message.req.primary.remote_gid, path->destination_gid, GID_LEN);
    return message;
}

/* Under cm.lock. */
static enum ri_status begin(struct roce_connection *c, struct roce_qp *qp,
                            struct cm_message *message, const struct roce_question *question)
{
    if (c->used || c->cm.state != CM_IDLE || c->cm.passive)
        return RI_ERR_INVALID_STATE;
    if (qp && !roce_attach(c, qp))
        return RI_ERR_INVALID_STATE;
    c->used = true;
    c->external = !qp;
    cm_conn_connect(&c->cm, &question->address, message, question->give_up, clock_now());
    return RI_OK;
}

enum ri_status roce_connect(struct ri_connection *base, struct ri_qp *qp_base,
                            const struct ri_connect_param *param)
{
    struct roce_connection *c = roce_connection_of(base);
    struct roce_qp *qp = qp_of(qp_base);
    struct roce_question question;
    struct cm_message message;
    enum ri_status status;

    if (!is_for_connections(qp, param))
        return RI_ERR_INVALID_ARGUMENT;
    if (qp && roce_qp_state(qp) != RI_QPS_IDLE && roce_qp_state(qp) != RI_QPS_INIT)
        return RI_ERR_INVALID_STATE;
    status = check(c->device, param, c->device->core.attr.connect_private_data);
    if (status == RI_OK)
        status = roce_prepare(c, param, false, &question);
    if (status != RI_OK)
        return status;
    take_param(c, param);
    c->numbers.size = sizeof(c->numbers);
    c->numbers.receive_psn = roce_random_psn();
    c->numbers.retry_count = c->retry;
    c->numbers.timeout = c->own_ack_timeout;
    message = request(c, qp, param, &question);
    pthread_mutex_lock(&c->device->cm.lock);
    status = begin(c, qp, &message, &question);
    pthread_mutex_unlock(&c->device->cm.lock);
    return status;
}

/* {external-qp} active: the third leg. Of a passive one: its QP has heard the peer. */
static enum ri_status confirm_external(struct roce_connection *c,
                                       const struct ri_connect_param *param)
{
    enum ri_status status = RI_ERR_INVALID_STATE;

    pthread_mutex_lock(&c->device->cm.lock);
    if (c->cm.passive && (c->cm.state == CM_REP_SENT || c->cm.state == CM_MRA_REP_RCVD)) {
        cm_conn_heard(&c->cm, clock_now());
        status = RI_OK;
    } else if (!c->cm.passive &&
               cm_conn_confirm(&c->cm, param ? param->private_data : NULL,
                               param ? param->private_data_length : 0, clock_now())) {
        c->opening_length = 0;
        roce_add_report(c, REPORT_ESTABLISHED);
        status = RI_OK;
    }
    pthread_mutex_unlock(&c->device->cm.lock);
    if (status == RI_OK)
        roce_wake_lane(c->device);
    return status;
}

/* The QP, which is not destroyed until release_qp(). */
static struct roce_qp *acquire_qp(struct roce_connection *c)
{
    struct roce_qp *qp;

    pthread_mutex_lock(&c->device->cm.lock);
    qp = c->qp;
    if (qp)
        atomic_fetch_add(&qp->core.upcalls, 1);
    pthread_mutex_unlock(&c->device->cm.lock);
    return qp;
}

static void release_qp(struct roce_qp *qp)
{
    if (qp)
        atomic_fetch_sub(&qp->core.upcalls, 1);
}

static bool is_answered(const struct roce_connection *c)
{
    return !c->cm.passive && (c->cm.state == CM_REP_RCVD || c->cm.state == CM_MRA_REP_SENT);
}

enum ri_status roce_confirm(struct ri_connection *base, const struct ri_connect_param *param)
{
    struct roce_connection *c = roce_connection_of(base);
    struct roce_qp *qp;
    enum ri_status status = RI_ERR_INVALID_STATE;
    bool answered;

    if (param && param->private_data_length && !param->private_data)
        return RI_ERR_INVALID_ARGUMENT;
    if (param && param->private_data_length > CM_RTU_PRIVATE)
        return RI_ERR_LIMIT;
    pthread_mutex_lock(&c->device->cm.lock);
    answered = is_answered(c);
    pthread_mutex_unlock(&c->device->cm.lock);
    if (c->external || c->cm.passive)
        return confirm_external(c, param);
    qp = answered ? acquire_qp(c) : NULL;
    if (qp)
        status = roce_open_qp(c, qp);
    release_qp(qp);
    return status == RI_OK ? confirm_external(c, param) : status;
}

/* The way is known at once; the event follows all the same. */
enum ri_status roce_resolve(struct ri_connection *base, const struct ri_connect_param *param)
{
    struct roce_connection *c = roce_connection_of(base);
    uint16_t source_port, port;
    enum ri_status status = RI_ERR_INVALID_STATE;

    if (is_unused(c))
        status = find_way(c, param, &source_port, &port);
    if (status != RI_OK)
        return status;
    pthread_mutex_lock(&c->device->cm.lock);
    roce_add_report(c, REPORT_RESOLVED);
    pthread_mutex_unlock(&c->device->cm.lock);
    roce_wake_lane(c->device);
    return RI_OK;
}

/* --- passive --- */

static bool is_undecided(const struct roce_connection *c)
{
    return c->cm.state == CM_REQ_RCVD || c->cm.state == CM_MRA_REQ_SENT;
}

/* The peer's limits (M-011). */
static void take_answer(struct roce_connection *c, const struct ri_connect_param *param)
{
    take_param(c, param);
    if (c->ird > c->peer_ord)
        c->ird = c->peer_ord;
    if (c->ord > c->peer_ird)
        c->ord = c->peer_ird;
    if (c->own_ack_timeout)
        c->numbers.timeout = c->own_ack_timeout;
}

static struct cm_message reply(const struct roce_connection *c, const struct roce_qp *qp,
                               const struct ri_connect_param *param)
{
    struct cm_message message = { .private_data = param->private_data,
                                  .private_len = param->private_data_length };

    message.rep = (struct cm_rep){
        .local_qpn = qp ? qp->core.qpn : param->qpn,
        .starting_psn = c->numbers.receive_psn,
        .responder_resources = (uint8_t)c->ird,
        .initiator_depth = (uint8_t)c->ord,
        .target_ack_delay = ACK_DELAY,
        .failover_accepted = 1,
        .end_to_end_flow_control = param->flow_control,
        .rnr_retry_count = c->rnr_retry,
        .srq = qp ? qp->core.srq != NULL : param->srq,
        .local_ca_guid = roce_ca_guid(c->cm.address.own),
    };
    return message;
}

/* It may have been withdrawn meanwhile. */
static enum ri_status send_reply(struct roce_connection *c, struct roce_qp *qp,
                                 const struct ri_connect_param *param)
{
    struct cm_message message = reply(c, qp, param);
    bool sent;

    pthread_mutex_lock(&c->device->cm.lock);
    sent = cm_conn_accept(&c->cm, &message, clock_now());
    if (sent)
        roce_decided(c);
    else
        roce_detach(c);
    pthread_mutex_unlock(&c->device->cm.lock);
    if (!sent && qp)
        roce_break_qp(qp);
    return sent ? RI_OK : RI_ERR_INVALID_STATE;
}

/* The QP takes packets before the peer knows its number (M-039). */
enum ri_status roce_accept(struct ri_connection *base, struct ri_qp *qp_base,
                           const struct ri_connect_param *param)
{
    struct roce_connection *c = roce_connection_of(base);
    struct roce_qp *qp = qp_of(qp_base);
    enum ri_status status;

    if (!is_for_connections(qp, param))
        return RI_ERR_INVALID_ARGUMENT;
    status = check(c->device, param, c->device->core.attr.accept_private_data);
    if (status != RI_OK)
        return status;
    pthread_mutex_lock(&c->device->cm.lock);
    if (!is_undecided(c))
        status = RI_ERR_INVALID_STATE;
    else if (type_of(qp, param) != (enum ri_qp_type)c->qp_type)
        status = RI_ERR_INVALID_ARGUMENT;
    else if (qp && !roce_attach(c, qp))
        status = RI_ERR_INVALID_STATE;
    pthread_mutex_unlock(&c->device->cm.lock);
    if (status != RI_OK)
        return status;
    take_answer(c, param);
    c->external = !qp;
    if (qp) {
        atomic_store(&qp->unheard, true);
        status = roce_open_qp(c, qp);
    }
    if (status == RI_OK)
        return send_reply(c, qp, param);
    pthread_mutex_lock(&c->device->cm.lock);
    roce_detach(c);
    pthread_mutex_unlock(&c->device->cm.lock);
    return status;
}

/* --- both --- */

/* Of a request, or of the peer's acceptance. */
enum ri_status roce_reject(struct ri_connection *base, const void *private_data, uint16_t length)
{
    struct roce_connection *c = roce_connection_of(base);
    bool done = false;

    if (length && !private_data)
        return RI_ERR_INVALID_ARGUMENT;
    if (length > CM_REJ_PRIVATE)
        return RI_ERR_LIMIT;
    pthread_mutex_lock(&c->device->cm.lock);
    if (!c->datagram)
        done = cm_conn_reject(&c->cm, CM_REJ_CONSUMER_DEFINED, NULL, 0, private_data, length,
                              clock_now());
    if (done)
        roce_decided(c);
    pthread_mutex_unlock(&c->device->cm.lock);
    return done ? RI_OK : RI_ERR_INVALID_STATE;
}

/* {set-a} Before establishment it ends silently. */
enum ri_status roce_disconnect(struct ri_connection *base, const void *private_data,
                               uint16_t length)
{
    struct roce_connection *c = roce_connection_of(base);
    uint64_t now = clock_now();
    struct roce_qp *qp = NULL;
    bool done;

    if (length && !private_data)
        return RI_ERR_INVALID_ARGUMENT;
    if (length > c->device->core.attr.disconnect_private_data)
        return RI_ERR_LIMIT;
    pthread_mutex_lock(&c->device->cm.lock);
    done = cm_conn_disconnect(&c->cm, private_data, length,
                              clock_after(now, c->device->options.close_timeout), now);
    pthread_mutex_unlock(&c->device->cm.lock);
    if (done)
        qp = acquire_qp(c);
    if (qp)
        roce_break_qp(qp);
    release_qp(qp);
    return done ? RI_OK : RI_ERR_INVALID_STATE;
}
