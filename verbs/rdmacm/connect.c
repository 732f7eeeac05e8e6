/* SPDX-License-Identifier: BSD-3-Clause
 * Connections of ids: connect, accept, reject, disconnect, and their events. */
#include "cm.h"
#include "base/minmax.h"

#include <string.h>

/* ---- as InfiniBand: devices of that transport, among them software devices as RoCE ---- */

/* Its reasons of a rejection. */
enum { REASON_NO_SERVICE = 8, REASON_STALE = 10, REASON_CONSUMER = 28 };

static bool is_infiniband(const struct rcm_id *id)
{
    return id->ibv.verbs && id->ibv.verbs->device->transport_type == IBV_TRANSPORT_IB;
}

static bool fits(const struct rcm_id *id, size_t length, size_t most)
{
    return length <= most || !is_infiniband(id);
}

/* The status of RDMA_CM_EVENT_REJECTED: the peer's own number, where one came. reason 0: it is none
 * of InfiniBand's. */
static int refusal(const struct rcm_id *id, const struct ri_connection_event *event, int reason,
                   int error)
{
    if (event->reject_code && is_infiniband(id))
        return event->reject_code;
    return reason && is_infiniband(id) ? reason : -error;
}

/* ---- what is told ---- */

/* Must `known` become `address`? A program reads those of an accepted id without a lock, and they
 * are known from the request on. */
static bool differs(const struct sockaddr *known, const struct sockaddr *address)
{
    socklen_t length = rcm_address_length(address);

    return length && memcmp(known, address, length);
}

static void set_addresses(struct rcm_id *id, const struct ri_connection_event *info)
{
    const struct rdma_addr *addr = &id->ibv.route.addr;

    if (differs(&addr->src_addr, (const struct sockaddr *)&info->local))
        rcm_id_set_local(id, (const struct sockaddr *)&info->local);
    if (differs(&addr->dst_addr, (const struct sockaddr *)&info->peer))
        rcm_id_set_peer(id, (const struct sockaddr *)&info->peer);
}

static uint8_t octet(uint32_t value)
{
    return value < UINT8_MAX ? (uint8_t)value : UINT8_MAX;
}

/* The private data of a peer's answer, without what is not the program's. room: of that message of
 * InfiniBand. */
static void take_data(struct rcm_id *id, const struct ri_connection_event *event, size_t room)
{
    const void *data = event->private_data;
    uint16_t length = event->private_data_length;

    if (rcm_is_managed(id)) {
        rcm_event_padded(&id->outcome, data, length, room);
        return;
    }
    rcm_terms_skip(&data, &length);
    rcm_event_data(&id->outcome, data, length);
}

/* The active side takes the peer's terms. Nothing is received before the upcall returns. False: the
 * connection is refused. */
static bool take_terms(struct rcm_id *id, const struct ri_connection_event *event)
{
    const void *data = event ? event->private_data : NULL;
    uint16_t length = event ? event->private_data_length : 0;

    if (!id->connects || !event || !id->qp)
        return true;
    if (!rcm_terms_take(id->context, &data, &length, &id->peer_terms))
        return false;
    rcm_terms_agree(id);
    return true;
}

/* Fills the event of an established connection, or of the peer's response. */
static void describe(struct rcm_id *id, const struct ri_connection_event *event)
{
    struct ri_connection_event info = { .size = sizeof(info) };
    struct rdma_conn_param *conn = &id->outcome.ibv.param.conn;
    bool known = ual_conn_query(id->conn, &info) == RI_OK;

    if (!known && event)
        info = *event;
    if (known || event) {
        set_addresses(id, &info);
        conn->responder_resources = octet(info.ird);
        conn->initiator_depth = octet(info.ord);
    }
    id->ird = conn->responder_resources;
    id->ord = conn->initiator_depth;
    if (event && (id->connects || !rcm_is_managed(id)))
        take_data(id, event, RCM_ROOM_ANSWER);
    if (id->qp)
        conn->qp_num = id->qp->ibv.qp_base.qp_num;
    if (event)
        rcm_managed_take(id, event->numbers, conn);
}

static void over(struct rcm_id *id, enum rcm_input input, enum rdma_cm_event_type type, int status,
                 const struct ri_connection_event *event);

/* A program that moves its QP itself hears of the response only, and enters RTS itself. */
static void established(struct rcm_id *id, const struct ri_connection_event *event)
{
    enum rcm_state was;

    if (!take_terms(id, event)) {
        over(id, RCM_ON_REFUSED, RDMA_CM_EVENT_REJECTED, -EPROTO, NULL);
        vb_qp_abort(id->qp);
        return;
    }
    if (!rcm_step(id, RCM_ON_ESTABLISHED, &was))
        return;
    if (was == RCM_ESTABLISHING) {
        if (id->qp)
            vb_qp_enter(id->qp, IBV_QPS_RTS, VB_GATE_OPEN);
        rcm_external_drain(id);
        return;
    }
    describe(id, event);
    if (id->external) {
        rcm_event_post(id, &id->outcome, id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
        return;
    }
    if (id->qp)
        rcm_posts_established(id);
    rcm_event_post(id, &id->outcome, id, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void responded(struct rcm_id *id, const struct ri_connection_event *event)
{
    if (!rcm_step(id, RCM_ON_RESPONSE, NULL))
        return;
    describe(id, event);
    rcm_event_post(id, &id->outcome, id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
}

static void disconnected(struct rcm_id *id)
{
    rcm_event_post(id, &id->end, id, RDMA_CM_EVENT_DISCONNECTED, 0);
}

static bool was_reported(enum rcm_state state)
{
    return state == RCM_CONNECTED || state == RCM_CLOSING || state == RCM_RESPONDED ||
           state == RCM_ESTABLISHING;
}

/* The connection was not established, or it has ended. */
static void over(struct rcm_id *id, enum rcm_input input, enum rdma_cm_event_type type, int status,
                 const struct ri_connection_event *event)
{
    enum rcm_state was;

    if (!rcm_step(id, input, &was))
        return;
    if (was_reported(was)) {
        rcm_external_drain(id);
        disconnected(id);
        return;
    }
    if (was == RCM_ACCEPTING && id->qp)
        rcm_posts_flush(id);
    else if (type == RDMA_CM_EVENT_REJECTED && id->ibv.qp && id->qp && is_infiniband(id))
        vb_qp_enter(id->qp, IBV_QPS_ERR, VB_GATE_OPEN); /* its receives are flushed */
    if (event && (type == RDMA_CM_EVENT_REJECTED || !rcm_is_managed(id)))
        take_data(id, event, RCM_ROOM_REJECTION);
    rcm_event_post(id, &id->outcome, id, type, status);
}

static void not_started(struct rcm_id *id, int error)
{
    over(id, RCM_ON_REFUSED, RDMA_CM_EVENT_CONNECT_ERROR, -error, NULL);
}

static const struct {
    enum rdma_cm_event_type type;
    int error;
    const char *text;
    int reason; /* InfiniBand's */
} failures[] = {
    [RI_REASON_OTHER] = { RDMA_CM_EVENT_CONNECT_ERROR, ECONNABORTED, "the provider gives no reason",
                          0 },
    [RI_REASON_TIMEOUT] = { RDMA_CM_EVENT_UNREACHABLE, ETIMEDOUT, "no answer in time", 0 },
    [RI_REASON_UNREACHABLE] = { RDMA_CM_EVENT_UNREACHABLE, EHOSTUNREACH, "it cannot be reached",
                                0 },
    [RI_REASON_REFUSED] = { RDMA_CM_EVENT_REJECTED, ECONNREFUSED, "nobody listens there",
                            REASON_NO_SERVICE },
    [RI_REASON_STALE] = { RDMA_CM_EVENT_REJECTED, ESTALE, "it still has an earlier connection",
                          REASON_STALE },
    [RI_REASON_READ_DEPTH] = { RDMA_CM_EVENT_CONNECT_ERROR, EINVAL,
                               "the read depths (responder_resources, initiator_depth) do not fit",
                               0 },
    [RI_REASON_RESOURCES] = { RDMA_CM_EVENT_CONNECT_ERROR, ENOMEM, "resources are missing", 0 },
    [RI_REASON_PARAMETERS] = { RDMA_CM_EVENT_CONNECT_ERROR, EPROTONOSUPPORT,
                               "the two sides' parameters do not fit", 0 },
    [RI_REASON_PROTOCOL] = { RDMA_CM_EVENT_CONNECT_ERROR, EPROTO, "it speaks another protocol", 0 },
    [RI_REASON_POLICY] = { RDMA_CM_EVENT_CONNECT_ERROR, EACCES, "a rule refuses it", 0 },
};

/* A provider that manages connections itself tells a reason and no more; of others kal has logged
 * it. */
static void log_reason(struct rcm_id *id, const char *text)
{
    char peer[VB_PEER_TEXT];

    if (!(ual_device_attr(id->context->device)->features & RI_FEATURE_CONNECTION_SET_A))
        return;
    rcm_address_text(&id->ibv.route.addr.dst_addr, peer);
    ual_log(RI_LOG_WARNING, "%s: no connection %s %s: %s", id->context->verbs.context.device->name,
            id->connects ? "to" : "from", peer, text);
}

static void failed(struct rcm_id *id, const struct ri_connection_event *event)
{
    size_t reason = event->reason < ARRAY_SIZE(failures) ? event->reason : RI_REASON_OTHER;

    if (reason == RI_REASON_REFUSED && id->attempt && rcm_attempt_again(id))
        return;
    log_reason(id, failures[reason].text);
    /* a peer's REJ of InfiniBand is told as such, whatever its reason */
    over(id, RCM_ON_REFUSED,
         event->reject_code && is_infiniband(id) ? RDMA_CM_EVENT_REJECTED : failures[reason].type,
         refusal(id, event, failures[reason].reason, failures[reason].error), event);
}

static void on_event(void *context, const struct ri_connection_event *event)
{
    struct rcm_id *id = context;

    switch (event->type) {
    case RI_CONNECTION_ACCEPTED: responded(id, event); break;
    case RI_CONNECTION_ESTABLISHED: established(id, event); break;
    case RI_CONNECTION_REJECTED:
        over(id, RCM_ON_REFUSED, RDMA_CM_EVENT_REJECTED,
             refusal(id, event, REASON_CONSUMER, ECONNREFUSED), event);
        break;
    case RI_CONNECTION_FAILED: failed(id, event); break;
    case RI_CONNECTION_DISCONNECTED:
        over(id, RCM_ON_END, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET, event);
        break;
    case RI_CONNECTION_SERVICE_REPLY: rcm_datagram_answered(id, event); break;
    case RI_CONNECTION_TIME_WAIT_EXIT:
        if (rcm_is_managed(id))
            rcm_event_post(id, &id->waited, id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
        break;
    default: break;
    }
}

const struct ual_conn_upcalls rcm_conn_upcalls = { .event = on_event };

static void on_qp_event(void *context, struct vb_qp *qp, const struct ri_event *event)
{
    struct rcm_id *id = context;

    (void)qp;
    if (event->type == RI_EVENT_ESTABLISHED)
        established(id, NULL);
    else if (rcm_is_managed(id)) /* the connection goes on: see outlives_qp */
        rcm_posts_end(id);
    else
        over(id, RCM_ON_END, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET, NULL);
}

/* The program resets or destroys the QP: the id's connection ends. A request that is not decided is
 * the id's, and stays. */
static void on_release(void *context, struct vb_qp *qp)
{
    struct rcm_id *id = context;
    enum rcm_state was;
    bool ends = rcm_state(id) != RCM_REQUESTED && rcm_step(id, RCM_ON_END, &was);

    (void)qp;
    rcm_attempt_end(id);
    if (ends && id->conn) {
        ual_conn_free(id->conn); /* waits for upcalls, which use the QP */
        id->conn = NULL;
    }
    rcm_posts_drop(id);
    id->qp = NULL;
    id->context = vb_context_of(id->ibv.verbs); /* that of the QP may be closed */
    if (ends && was_reported(was)) {
        rcm_external_drain(id);
        disconnected(id);
    }
}

/* The QP of an id is moved by rdma_cm alone. */
static int on_modify(void *context, struct vb_qp *qp, enum ibv_qp_state to,
                     const struct ibv_qp_attr *attr, int mask)
{
    struct rcm_id *id = context;

    (void)attr;
    (void)mask;
    return id->external ? rcm_external_modify(id, qp, to) : 0;
}

static void name_peer(void *context, struct vb_qp *qp, char text[VB_PEER_TEXT])
{
    const struct rcm_id *id = context;

    (void)qp;
    rcm_address_text(&id->ibv.route.addr.dst_addr, text);
}

const struct vb_connector rcm_connector = { .modify = on_modify,
                                            .hold = rcm_posts_hold,
                                            .hold_bind = rcm_posts_hold_bind,
                                            .event = on_qp_event,
                                            .release = on_release,
                                            .peer = name_peer };

/* ---- calls ---- */

int rcm_id_take_qp(struct rcm_id *id, struct vb_qp *qp)
{
    int error;

    if (qp == id->qp)
        return 0;
    if (id->qp) {
        error = vb_qp_connector(id->qp, NULL, NULL);
        if (error)
            return error;
        id->qp = NULL;
    }
    error = qp ? vb_qp_connector(qp, &rcm_connector, id) : 0;
    if (!error)
        id->qp = qp;
    return error;
}

#define RNR_RETRY_FOREVER 7u

/* The terms come before the program's private data; `to` is used until the call has returned. */
static void put_terms(const struct rcm_id *id, const struct rdma_conn_param *param,
                      struct ri_connect_param *asked, uint8_t to[RCM_DATA_MOST])
{
    asked->private_data_length = rcm_terms_put(
        id->context, param ? param->rnr_retry_count : RNR_RETRY_FOREVER, asked->private_data,
        (uint8_t)asked->private_data_length, to);
    asked->private_data = to;
}

/* Finds the QP of the call: the id's, or one of the program's own, by number. That one may be of
 * another context of the device: the connection, and its timers, are of the QP's context. */
static int take_qp(struct rcm_id *id, const struct rdma_conn_param *param)
{
    struct vb_qp *qp;
    int error;

    if (id->ibv.qp)
        return rcm_id_take_qp(id, vb_qp_of(id->ibv.qp));
    if (!param)
        return EINVAL;
    if (rcm_is_managed(id))
        return 0; /* the messages carry its number */
    qp = vb_qp_by_number(id->context, param->qp_num);
    if (!qp) {
        ual_log(RI_LOG_WARNING,
                "rdma_cm: %s: the device has no queue pair 0x%06x (rdma_conn_param.qp_num)",
                id->context->verbs.context.device->name, param->qp_num);
        return EINVAL;
    }
    error = rcm_id_take_qp(id, qp);
    if (!error)
        id->context = vb_qp_context(qp);
    return error;
}

/* Checks a depth that the program gives. RDMA_MAX_RESP_RES means `most`. */
static bool depth(uint8_t given, uint32_t most, uint16_t *value)
{
    if (given != RDMA_MAX_RESP_RES && given > most)
        return false;
    *value = given == RDMA_MAX_RESP_RES ? (uint16_t)most : given;
    return true;
}

static int set_param(struct rcm_id *id, const struct rdma_conn_param *param, uint32_t most_ird,
                     uint32_t most_ord, struct ri_connect_param *to)
{
    *to = (struct ri_connect_param){ .size = sizeof(*to),
                                     .deadline = RI_NO_DEADLINE,
                                     .negotiate_depths = true };
    if (!depth(param ? param->responder_resources : RDMA_MAX_RESP_RES, most_ird, &to->ird) ||
        !depth(param ? param->initiator_depth : RDMA_MAX_INIT_DEPTH, most_ord, &to->ord))
        return EINVAL;
    to->private_data = param ? param->private_data : NULL;
    to->private_data_length = param && param->private_data ? param->private_data_len : 0;
    if (rcm_is_managed(id))
        rcm_managed_ask(id, param, to);
    if (!to->private_data_length && id->connect_data) {
        to->private_data = id->connect_data;
        to->private_data_length = id->connect_length;
    }
    return 0;
}

static int begin_connect(struct rcm_id *id, const struct rdma_conn_param *param)
{
    const struct ri_rnic_attr *attr = ual_device_attr(id->context->device);
    uint8_t data[RCM_DATA_MOST];
    struct ri_connect_param asked;
    int error;

    if (rcm_is_datagram(id))
        return rcm_datagram_ask(id, param, &rcm_conn_upcalls);
    error = set_param(id, param, attr->max_ird, attr->max_ord, &asked);

    if (!error && !fits(id, asked.private_data_length, RCM_ROOM_REQUEST))
        error = EINVAL;
    if (!error)
        error = take_qp(id, param);
    if (error)
        return error;
    id->connects = true;
    put_terms(id, param, &asked, data);
    if (!id->ibv.qp)
        rcm_external_begin(id, &asked);
    return rcm_attempt_begin(id, &asked, &rcm_conn_upcalls, not_started);
}

VB_PUBLIC int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
    RCM_OWN(id, -1);
    SANITIZER_OUTPUT(id);
    struct rcm_id *own = rcm_id_of(id);
    enum rcm_state was;
    int error;

    if (!rcm_step(own, RCM_DO_CONNECT, &was))
        return rcm_fail(EINVAL);
    {
        VB_CALL;
        error = begin_connect(own, conn_param);
    }
    if (error) {
        rcm_step_back(own, was);
        return rcm_fail(error);
    }
    return rcm_event_wait(own);
}

static int begin_accept(struct rcm_id *id, const struct rdma_conn_param *param)
{
    const struct ri_rnic_attr *attr = ual_device_attr(id->context->device);
    uint8_t data[RCM_DATA_MOST];
    struct ri_connect_param answer;
    int error;

    if (rcm_is_datagram(id))
        return rcm_datagram_accept(id, param);
    /* the ORD is at most what the peer answers; the IRD is what the program asks for */
    if (param)
        error = set_param(id, param, attr->max_ird, attr->max_ord, &answer);
    else
        error = set_param(id, NULL, min_u32(attr->max_ird, id->peer_ord), attr->max_ord, &answer);
    if (!error && !fits(id, answer.private_data_length, RCM_ROOM_ANSWER))
        error = EINVAL;
    if (!error)
        error = take_qp(id, param);
    if (error)
        return error;
    answer.ord = (uint16_t)min_u32(answer.ord, id->peer_ird);
    id->ird = octet(answer.ird);
    id->ord = octet(answer.ord);
    put_terms(id, param, &answer, data);
    rcm_terms_agree(id);
    rcm_posts_begin(id);
    error = vb_errno(ual_conn_accept(id->conn, id->qp ? &id->qp->ual : NULL, &answer));
    if (error)
        rcm_posts_undo(id);
    return error;
}

VB_PUBLIC int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
    RCM_OWN(id, -1);
    SANITIZER_OUTPUT(id);
    struct rcm_id *own = rcm_id_of(id);
    enum rcm_state was;
    int error;

    if (!rcm_step(own, RCM_DO_ACCEPT, &was))
        return rcm_fail(EINVAL);
    {
        VB_CALL;
        error = begin_accept(own, conn_param);
    }
    if (error) {
        rcm_step_back(own, was);
        return rcm_fail(error);
    }
    return rcm_is_datagram(own) ? 0 : rcm_event_wait(own);
}

VB_PUBLIC int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
    VB_CALL;
    RCM_OWN(id, -1);
    struct rcm_id *own = rcm_id_of(id);
    uint8_t data[RCM_DATA_MOST];
    uint16_t length;

    if (!fits(own, private_data_len, rcm_is_datagram(own) ? RCM_ROOM_REPLY : RCM_ROOM_REJECTION) ||
        !rcm_step(own, RCM_DO_REJECT, NULL))
        return rcm_fail(EINVAL);
    if (rcm_is_datagram(own)) {
        int error = rcm_datagram_reject(own, private_data, private_data_len);

        return error ? rcm_fail(error) : 0;
    }
    length = rcm_terms_put(own->context, 0, private_data, private_data_len, data);
    return vb_errno_minus(ual_conn_reject(own->conn, data, length));
}

/* As with librdmacm over InfiniBand: rdma_disconnect moves the id's QP to ERR. */
static void end_qp(struct rcm_id *id)
{
    VB_CALL;

    if (id->qp && rcm_is_managed(id))
        vb_qp_enter(id->qp, IBV_QPS_ERR, VB_GATE_OPEN);
}

/* If this fails the connection has just ended by itself, and its event follows. */
static void close_connection(struct rcm_id *id)
{
    VB_CALL;

    if (id->qp)
        atomic_store(&id->qp->aborts, true);
    if (id->qp || rcm_is_managed(id))
        ual_conn_disconnect(id->conn, id->qp ? &id->qp->ual : NULL, NULL, 0);
    end_qp(id);
}

VB_PUBLIC int rdma_disconnect(struct rdma_cm_id *id)
{
    RCM_OWN(id, -1);
    struct rcm_id *own = rcm_id_of(id);
    enum rcm_state was;

    if (rcm_is_datagram(own) || !rcm_step(own, RCM_DO_DISCONNECT, &was))
        return rcm_fail(EINVAL);
    if (was == RCM_CONNECTED)
        close_connection(own);
    else if (was == RCM_DISCONNECTED)
        end_qp(own);
    if (was == RCM_RESPONDED) {
        VB_CALL;
        ual_conn_free(own->conn);
        own->conn = NULL;
        disconnected(own);
    }
    return own->end_taken ? 0 : rcm_event_wait(own);
}

/* Where kal manages connections, the peer's first message establishes one with or without this
 * call. */
VB_PUBLIC int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
    VB_CALL;
    RCM_OWN(id, -1);
    struct rcm_id *own = rcm_id_of(id);
    const struct ri_connect_param param = { .size = sizeof(param) };
    enum rcm_state state = rcm_state(own);

    if (event != IBV_EVENT_COMM_EST || (state != RCM_ACCEPTING && state != RCM_CONNECTED))
        return rcm_fail(EINVAL);
    if (rcm_is_managed(own) && state == RCM_ACCEPTING)
        ual_conn_confirm(own->conn, &param); /* fails if the third leg has just come */
    return 0;
}
