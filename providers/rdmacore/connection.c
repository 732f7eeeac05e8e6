/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connection verbs (set A) over librdmacm: the calls. connection_event.c handles the events.
 *
 * The identifier has no QP of librdmacm: the QP is ours, on our own context, and this provider
 * makes its transitions, with the attributes that the connection manager gives. So on InfiniBand
 * the peer's acceptance is an event before the third leg, which the three-way model needs; in the
 * two-way model the third leg is sent at once. iWARP drivers move the QP themselves. Read depths:
 * IRD is `responder_resources`, ORD is `initiator_depth`; in events the two are exchanged.
 */
#include "connection.h"
#include "verbs.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define RETRIES 7 /* by the transport; without limit if the receiver is not ready */
#define GRACE   (1000 * CLOCK_NS_PER_MS)

static struct connection *connection_of(struct ri_connection *base)
{
    return container_of(base, struct connection, base);
}

/* ---- life ---- */

struct connection *connection_new(struct rnic *rnic)
{
    struct connection *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->base.ops = rnic->base.ops;
    c->rnic = rnic;
    c->deadline.expired = rnic->timers->expired;
    c->wake.expired = rnic->timers->wake;
    pthread_mutex_init(&c->lock, NULL);
    atomic_fetch_add(&rnic->connections, 1);
    return c;
}

void connection_free(struct connection *c)
{
    atomic_fetch_sub(&c->rnic->connections, 1);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

enum ri_status rdmacore_connection_create(struct ri_rnic *base, void *context,
                                          struct ri_connection **out)
{
    struct connection *c = connection_new(rnic_of(base));
    int error;

    if (!c)
        return RI_ERR_NO_RESOURCES;
    c->base.context = context;
    error = rdmacore_errno(rdmacore->create_id(c->rnic->cm, &c->id, c, RDMA_PS_TCP));
    if (error) {
        connection_free(c);
        return rdmacore_status(error);
    }
    *out = &c->base;
    return RI_OK;
}

void connection_detach(struct connection *c)
{
    pthread_mutex_lock(&c->rnic->lock);
    if (c->qp)
        c->qp->connection = NULL;
    c->qp = NULL;
    pthread_mutex_unlock(&c->rnic->lock);
}

static bool attach(struct connection *c, struct qp *qp)
{
    bool free;

    pthread_mutex_lock(&c->rnic->lock);
    free = !qp->connection;
    if (free) {
        qp->connection = c;
        c->qp = qp;
        atomic_store(&qp->failing, false);
        atomic_store(&qp->ended, false);
    }
    pthread_mutex_unlock(&c->rnic->lock);
    if (free) {
        cq_watch_errors(qp->send_cq);
        cq_watch_errors(qp->recv_cq);
    }
    return free;
}

struct rdma_cm_id *connection_take_id(struct connection *c)
{
    struct rdma_cm_id *id;

    pthread_mutex_lock(&c->lock);
    pthread_mutex_lock(&c->rnic->lock);
    id = c->id;
    c->id = NULL;
    pthread_mutex_unlock(&c->rnic->lock);
    pthread_mutex_unlock(&c->lock);
    return id;
}

/* Destroying the identifier waits for upcalls about it, which use the QP, and closes an open
 * connection. */
enum ri_status rdmacore_connection_destroy(struct ri_connection *base)
{
    struct connection *c = connection_of(base);
    struct rnic *rnic = c->rnic;
    struct rdma_cm_id *id;

    rnic->host->timer_cancel(rnic->host, rnic->lane.base.context, &c->deadline);
    id = connection_take_id(c);
    if (id)
        rdmacore->destroy_id(id);
    rnic->host->timer_cancel(rnic->host, rnic->lane.base.context, &c->wake); /* events set it */
    pthread_mutex_lock(&c->lock);
    connection_detach(c);
    pthread_mutex_unlock(&c->lock);
    connection_free(c);
    return RI_OK;
}

/* ---- what both sides share ---- */

static bool is_for_connections(const struct rnic *rnic, const struct ri_qp *qp)
{
    return qp ? !container_of(qp, struct qp, base)->datagram : !rnic->iwarp;
}

/* The connection has that QP; NULL: it is the consumer's. */
static bool take_qp(struct connection *c, struct ri_qp *qp)
{
    c->external = !qp;
    return c->external || attach(c, container_of(qp, struct qp, base));
}

bool connection_on_device(const struct rnic *rnic, const struct rdma_cm_id *id)
{
    return id->verbs && !strcmp(id->verbs->device->name, rnic->device);
}

static struct rdma_conn_param conn_param(const struct connection *c)
{
    return (struct rdma_conn_param){
        .private_data = c->private_length ? c->private_data : NULL,
        .private_data_len = c->private_length,
        .responder_resources = (uint8_t)c->ird,
        .initiator_depth = (uint8_t)c->ord,
        .flow_control = c->flow_control,
        .retry_count = c->retry,
        .rnr_retry_count = c->rnr_retry,
        .srq = c->external ? c->srq : c->qp->srq != NULL,
        .qp_num = c->external ? c->qpn : c->qp->number,
    };
}

static bool is_within(const struct rnic *rnic, const struct ri_connect_param *param,
                      uint32_t private_data)
{
    const struct ri_rnic_attr *attr = &rnic->attr;

    return param->private_data_length <= private_data && param->ird <= attr->max_ird &&
           param->ord <= attr->max_ord;
}

static void take_infiniband(struct connection *c, const struct ri_connect_param *param)
{
    bool given = param->tuned || param->retries_given;

    c->retry = given && param->retry_count < RETRIES ? param->retry_count : RETRIES;
    c->rnr_retry = given && param->rnr_retry_count < RETRIES ? param->rnr_retry_count : RETRIES;
    c->flow_control = param->flow_control || !param->retries_given;
    c->qpn = param->qpn;
    c->srq = param->srq;
    c->traffic_class = param->traffic_class;
    c->ack_timeout_given = param->ack_timeout_given;
    c->ack_timeout = param->local_ack_timeout;
    pthread_mutex_lock(&c->rnic->lock);
    c->outlives = param->outlives_qp;
    pthread_mutex_unlock(&c->rnic->lock);
}

static void take_param(struct connection *c, const struct ri_connect_param *param)
{
    c->ird = param->ird;
    c->ord = param->ord;
    take_infiniband(c, param);
    c->private_length = (uint8_t)param->private_data_length;
    if (c->private_length)
        memcpy(c->private_data, param->private_data, c->private_length);
    c->three_way = param->three_way;
    c->deadline.deadline = param->deadline == RI_NO_DEADLINE
                               ? clock_after(clock_now(), c->rnic->connect_timeout)
                               : param->deadline;
}

static int to_state(struct connection *c, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = { .qp_state = state };
    int mask, error = rdmacore_errno(rdmacore->init_qp_attr(c->id, &attr, &mask));

    if (error)
        return error;
    if (mask & IBV_QP_ACCESS_FLAGS)
        attr.qp_access_flags = (unsigned int)qp_access(c->qp);
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
        attr.max_dest_rd_atomic = (uint8_t)c->ird;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
        attr.max_rd_atomic = (uint8_t)c->ord;
    return rdmacore_errno(rdmacore->modify_qp(c->qp->ibv, &attr, mask));
}

/* If the peer has withdrawn its request and that event has not arrived, the kernel refuses the call
 * with one of several errors. */
enum ri_status connection_of_decision(int error)
{
    enum ri_status status = rdmacore_status(error);

    return status == RI_ERR_INVALID_ARGUMENT || status == RI_ERR_DEVICE ? RI_ERR_INVALID_STATE
                                                                        : status;
}

/* InfiniBand's messages have private data of fixed length, padded with zeros: all zeros means
 * none. */
uint16_t connection_data_length(const struct connection *c, const void *octets, uint16_t length)
{
    const uint8_t *at = octets;
    uint8_t any = 0;

    for (uint16_t i = 0; at && i < length; i++)
        any |= at[i];
    return at && (any || c->rnic->iwarp) ? length : 0;
}

/* Moves the QP to ready to receive and to send. */
static int open_qp(struct connection *c)
{
    int error = to_state(c, IBV_QPS_RTR);

    return error ? error : to_state(c, IBV_QPS_RTS);
}

/* ---- active ---- */

int connection_patience(const struct connection *c)
{
    uint64_t now = clock_now(), deadline = clock_after(c->deadline.deadline, GRACE);
    uint64_t left = deadline > now ? (deadline - now) / CLOCK_NS_PER_MS : 0;

    return left < INT_MAX ? (int)left + 1 : INT_MAX;
}

static enum ri_status check_active(const struct connection *c, const struct ri_connect_param *param)
{
    if (!param->destination || (param->private_data_length && !param->private_data))
        return RI_ERR_INVALID_ARGUMENT;
    if (!is_within(c->rnic, param, c->rnic->attr.connect_private_data))
        return RI_ERR_LIMIT;
    if (param->three_way && c->rnic->iwarp)
        return RI_ERR_NOT_SUPPORTED;
    return c->state == CONNECTION_IDLE || c->state == CONNECTION_RESOLVED ? RI_OK
                                                                          : RI_ERR_INVALID_STATE;
}

/* No lock may be held: the host may wait for a handler that runs. */
void connection_set_timer(struct connection *c)
{
    struct rnic *rnic = c->rnic;

    rnic->host->timer_set(rnic->host, rnic->lane.base.context, &c->deadline);
}

/* An identifier is created for one port space: connections over IP. If another is needed it is
 * replaced. */
static int take_port_space(struct connection *c, enum rdma_port_space ps)
{
    struct rdma_cm_id *old = c->id, *fresh;
    int error;

    if (old->ps == ps)
        return 0;
    error = rdmacore_errno(rdmacore->create_id(c->rnic->cm, &fresh, c, ps));
    if (error)
        return error;
    pthread_mutex_lock(&c->rnic->lock);
    c->id = fresh;
    pthread_mutex_unlock(&c->rnic->lock);
    rdmacore->destroy_id(old);
    return 0;
}

static int resolve(struct connection *c, struct service *service)
{
    struct sockaddr *source = service->source.ss_family == AF_UNSPEC
                                  ? NULL
                                  : (struct sockaddr *)&service->source;
    int error = take_port_space(c, service->ps);

    if (!error && !c->rnic->iwarp)
        error = connection_set_options(c);
    if (error)
        return error;
    return rdmacore_errno(rdmacore->resolve_addr(
        c->id, source, (struct sockaddr *)&service->destination, connection_patience(c)));
}

enum ri_status connection_start(struct connection *c, const struct ri_connect_param *param)
{
    struct rnic *rnic = c->rnic;
    struct service service;
    enum ri_status status = service_of(rnic, param, c->datagram, &service);
    int error;

    if (status != RI_OK)
        return status;
    take_param(c, param);
    c->state = CONNECTION_ADDRESS;
    error = resolve(c, &service);
    if (!error)
        return RI_OK;
    c->state = CONNECTION_IDLE;
    ri_log(rnic->host, RI_LOG_WARNING,
           "no way to that address over an RDMA device: %s; check the address, and that the "
           "network interface of %s has one in its network",
           strerror(error), rnic->device);
    return rdmacore_status(error);
}

/* Continues after resolve. */
static enum ri_status go_on(struct connection *c, const struct ri_connect_param *param)
{
    int error;

    take_param(c, param);
    error = connection_request(c);
    if (!error)
        c->state = CONNECTION_CONNECTING;
    return connection_of_decision(error);
}

enum ri_status rdmacore_connect(struct ri_connection *base, struct ri_qp *qp_base,
                                const struct ri_connect_param *param)
{
    struct connection *c = connection_of(base);
    enum ri_status status;

    if (!is_for_connections(c->rnic, qp_base))
        return RI_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&c->lock);
    status = check_active(c, param);
    if (status == RI_OK && !take_qp(c, qp_base))
        status = RI_ERR_INVALID_STATE;
    if (status == RI_OK) {
        status = c->state == CONNECTION_RESOLVED ? go_on(c, param) : connection_start(c, param);
        if (status != RI_OK)
            connection_detach(c);
    }
    pthread_mutex_unlock(&c->lock);
    if (status == RI_OK) /* an attempt that has ended cannot be found */
        connection_set_timer(c);
    return status;
}

int connection_request(struct connection *c)
{
    struct rdma_conn_param param = conn_param(c);
    int error = c->external ? 0 : qp_to_init(c->qp, c->id->port_num);

    if (!error)
        error = rdmacore_errno(rdmacore->connect(c->id, &param));
    return error;
}

int connection_establish(struct connection *c)
{
    int error = c->external ? 0 : open_qp(c);

    if (!error)
        error = rdmacore_errno(rdmacore->establish(c->id));
    if (!error && !c->external)
        qp_connected(c->qp);
    return error;
}

/* rdma_cm cannot carry private data in the third leg: it is dropped. The deadline's timer, which
 * expires at once, sends the third leg. An event reports ESTABLISHED, or the failure. Passive side:
 * the connection manager reports ESTABLISHED itself. */
enum ri_status rdmacore_confirm(struct ri_connection *base, const struct ri_connect_param *param)
{
    struct connection *c = connection_of(base);
    enum ri_status status = RI_ERR_INVALID_STATE;
    bool third;

    (void)param;
    pthread_mutex_lock(&c->lock);
    third = c->state == CONNECTION_ANSWERED && connection_has_qp(c);
    if (third) {
        c->state = CONNECTION_CONFIRMED;
        c->deadline.deadline = clock_now();
        status = RI_OK;
    } else if (c->passive) {
        status = connection_heard(c);
    }
    pthread_mutex_unlock(&c->lock);
    if (third)
        connection_set_timer(c);
    return status;
}

/* ---- passive ---- */

static int answer(struct connection *c)
{
    struct rdma_conn_param param = conn_param(c);
    int error = c->external ? 0 : qp_to_init(c->qp, c->id->port_num);

    if (!error && !c->external && !c->rnic->iwarp)
        error = open_qp(c);
    if (!error)
        error = rdmacore_errno(rdmacore->accept(c->id, &param));
    return error;
}

enum ri_status rdmacore_accept(struct ri_connection *base, struct ri_qp *qp_base,
                               const struct ri_connect_param *param)
{
    struct connection *c = connection_of(base);
    enum ri_status status = RI_OK;
    int error;

    if (!is_for_connections(c->rnic, qp_base) ||
        (param->private_data_length && !param->private_data))
        return RI_ERR_INVALID_ARGUMENT;
    if (!is_within(c->rnic, param, c->rnic->attr.accept_private_data))
        return RI_ERR_LIMIT;
    pthread_mutex_lock(&c->lock);
    if (c->state != CONNECTION_REQUEST || c->datagram || !take_qp(c, qp_base))
        status = RI_ERR_INVALID_STATE;
    if (status == RI_OK) {
        take_param(c, param);
        if (c->ord > c->peer_ird) /* is of no use */
            c->ord = c->peer_ird;
        c->state = CONNECTION_ACCEPTING;
        error = answer(c);
        if (error) {
            ri_log(c->rnic->host, RI_LOG_WARNING, "a request cannot be accepted: %s",
                   strerror(error));
            c->state = CONNECTION_REQUEST;
            connection_detach(c);
            status = connection_of_decision(error);
        }
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* Rejects a request, or the peer's acceptance. */
enum ri_status rdmacore_reject(struct ri_connection *base, const void *private_data,
                               uint16_t length)
{
    struct connection *c = connection_of(base);
    enum ri_status status = RI_ERR_INVALID_STATE;

    if (length && !private_data)
        return RI_ERR_INVALID_ARGUMENT;
    if (length > c->rnic->attr.reject_private_data)
        return RI_ERR_LIMIT;
    pthread_mutex_lock(&c->lock);
    if ((c->state == CONNECTION_REQUEST || c->state == CONNECTION_ANSWERED) && !c->datagram) {
        status = connection_of_decision(
            rdmacore_errno(rdmacore->reject(c->id, private_data, (uint8_t)length)));
        if (status == RI_OK)
            c->state = CONNECTION_ENDED;
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* rdma_cm cannot carry private data here. Outstanding work continues until the peer has answered,
 * or close_timeout has expired: the connection manager would try for a minute to reach a peer that
 * no longer exists. */
enum ri_status rdmacore_disconnect(struct ri_connection *base, const void *private_data,
                                   uint16_t length)
{
    struct connection *c = connection_of(base);
    enum ri_status status = RI_ERR_INVALID_STATE;

    (void)private_data;
    if (length > c->rnic->attr.disconnect_private_data)
        return RI_ERR_LIMIT; /* rdma_cm has no room for any */
    pthread_mutex_lock(&c->lock);
    if (c->state == CONNECTION_OPEN) {
        status = rdmacore_status(rdmacore_errno(rdmacore->disconnect(c->id)));
        if (status == RI_OK) {
            c->state = CONNECTION_CLOSING;
            c->deadline.deadline = clock_after(clock_now(), c->rnic->close_timeout);
        }
    }
    pthread_mutex_unlock(&c->lock);
    if (status == RI_OK)
        connection_set_timer(c);
    return status;
}
