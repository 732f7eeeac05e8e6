/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: RNICs whose provider has connection verbs of its own
 * (RI_FEATURE_CONNECTION_SET_A). Calls pass through; a provider's connection has the kal_connection
 * as its context. As for set B, kal has the policy, the accounts and the listener's bound on
 * undecided requests. A migration reports the request, which is kept here, once more.
 */
#include "cm.h"

#include "rnicpi_util.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct foreign {
    struct kal_connection connection;
    /* The provider's object. NULL: not created, or destroyed */
    struct ri_connection *ri;
    /* Of a request: the listener's port; is it one for a datagram service? */
    uint32_t port;
    bool datagram;
    uint8_t qp_type;
    /* Of a request: with size 0 it has none. */
    struct ri_connection_numbers numbers;
    /* Under cm->lock. Destroyed, or refused, inside the provider's upcall: the next run ends it */
    bool orphan;
};

static struct foreign *foreign(struct kal_connection *connection)
{
    contract(connection->kind == &cm_set_a);
    return (struct foreign *)connection;
}

struct foreign_listener {
    struct kal_listener listener;
    /* The provider's object. NULL: it does not listen */
    struct ri_listener *ri;
};

static struct foreign_listener *foreign_listener(struct kal_listener *listener)
{
    contract(listener->rnic->cm->kind == &cm_set_a);
    return (struct foreign_listener *)listener;
}

/* ---- connections that end in the next run ---- */

/* The provider's upcall is still running here, and its object is not destroyed inside it. */
static void make_orphan(struct kal_connection *c)
{
    struct kal_cm *cm = c->rnic->cm;

    cm_assert_locked(&c->lifetime);
    contract(c->state == CM_ENDED);
    pthread_mutex_lock(&cm->lock);
    foreign(c)->orphan = true;
    pthread_mutex_unlock(&cm->lock);
    cm_schedule(c);
}

/* Takes the right to end an orphan. */
static bool adopt(struct kal_connection *c)
{
    struct kal_cm *cm = c->rnic->cm;
    bool ours;

    pthread_mutex_lock(&cm->lock);
    ours = foreign(c)->orphan;
    foreign(c)->orphan = false;
    pthread_mutex_unlock(&cm->lock);
    return ours;
}

void cm_end_orphans(struct kal_cm *cm)
{
    struct kal_connection *c;

    pthread_mutex_lock(&cm->lock);
again:
    DL_FOREACH (cm->connections, c) {
        if (c->kind != &cm_set_a || !foreign(c)->orphan)
            continue;
        foreign(c)->orphan = false;
        pthread_mutex_unlock(&cm->lock);
        cm_connection_end(c);
        pthread_mutex_lock(&cm->lock);
        goto again;
    }
    pthread_mutex_unlock(&cm->lock);
}

/* An orphan ends in a run; a run also reports a request. */
static void run(struct kal_connection *c)
{
    if (c->state != CM_ENDED) {
        cm_passive_run(c);
    } else if (adopt(c)) {
        pthread_mutex_unlock(&c->lifetime.lock);
        cm_connection_end(c);
        pthread_mutex_lock(&c->lifetime.lock);
    }
}

static const struct cm_role set_a_role = { .run = run, .expired = cm_passive_expired };

/* The provider knows which addresses it has. */
static enum ri_status check(const struct sockaddr *address, bool datagram)
{
    (void)address;
    (void)datagram;
    return RI_OK;
}

static enum ri_status create(struct kal_connection *connection)
{
    struct kal_rnic *rnic = connection->rnic;
    struct ri_connection *ri;
    enum ri_status status = rnic->ops.connection_create(rnic->ri, connection, &ri);

    if (status)
        return kal_rnic_answer(status);
    pthread_mutex_lock(&connection->lifetime.lock);
    foreign(connection)->ri = ri;
    connection->role = &set_a_role;
    connection->state = CM_FOREIGN;
    pthread_mutex_unlock(&connection->lifetime.lock);
    return RI_OK;
}

/* Without the feature the provider is given a QP always. */
static bool takes(const struct kal_rnic *rnic, const struct ri_qp *qp)
{
    return qp || rnic->attr.features & RI_FEATURE_EXTERNAL_QP;
}

static enum ri_status connect_qp(struct kal_connection *connection, struct ri_qp *qp,
                                 const struct ri_connect_param *param)
{
    if (!takes(connection->rnic, qp))
        return RI_ERR_NOT_SUPPORTED;
    return kal_rnic_answer(connection->rnic->ops.connect(foreign(connection)->ri, qp, param));
}

static enum ri_status attach(struct kal_connection *connection, struct ri_qp *qp,
                             void *lane_context)
{
    (void)connection;
    (void)qp;
    (void)lane_context;
    return RI_ERR_NOT_SUPPORTED;
}

/* Decides a request; it stays undecided if the provider refuses the call. */
static enum ri_status decide(struct kal_connection *c)
{
    enum ri_status status = RI_ERR_INVALID_STATE;

    pthread_mutex_lock(&c->lifetime.lock);
    if (c->state == CM_PENDING && !c->lifetime.dead) {
        c->state = CM_FOREIGN;
        status = RI_OK;
    }
    pthread_mutex_unlock(&c->lifetime.lock);
    return status;
}

static enum ri_status decided(struct kal_connection *c, enum ri_status status)
{
    pthread_mutex_lock(&c->lifetime.lock);
    if (status) {
        c->state = CM_PENDING;
    } else {
        cm_listener_leave(c, true);
        cm_uncount(c);
    }
    pthread_mutex_unlock(&c->lifetime.lock);
    return kal_rnic_answer(status);
}

static enum ri_status accept_request(struct kal_connection *connection, struct ri_qp *qp,
                                     const struct ri_connect_param *param)
{
    enum ri_status status = takes(connection->rnic, qp) ? decide(connection) : RI_ERR_NOT_SUPPORTED;

    if (status)
        return status;
    return decided(connection, connection->rnic->ops.accept(foreign(connection)->ri, qp, param));
}

static enum ri_status confirm(struct kal_connection *connection,
                              const struct ri_connect_param *param)
{
    return kal_rnic_answer(connection->rnic->ops.confirm(foreign(connection)->ri, param));
}

/* Rejects a request, or the peer's acceptance in the three-way model. */
static enum ri_status reject(struct kal_connection *connection, const void *private_data,
                             uint16_t private_data_length)
{
    struct kal_rnic *rnic = connection->rnic;
    enum ri_status status;
    bool request = !decide(connection);

    status = rnic->ops.reject(foreign(connection)->ri, private_data, private_data_length);
    return request ? decided(connection, status) : kal_rnic_answer(status);
}

static enum ri_status disconnect(struct kal_connection *connection, struct ri_qp *qp,
                                 const void *private_data, uint16_t private_data_length)
{
    struct kal_rnic *rnic = connection->rnic;

    (void)qp; /* the provider knows it */
    return kal_rnic_answer(
        rnic->ops.disconnect(foreign(connection)->ri, private_data, private_data_length));
}

/* ---- datagram service ---- */

static enum ri_status service_request(struct kal_connection *connection,
                                      const struct ri_connect_param *param)
{
    if (!cm_count(connection)) /* the account is released with the connection */
        return ITAL_ERR_QUOTA;
    return kal_rnic_answer(connection->rnic->ops.service_request(foreign(connection)->ri, param));
}

static enum ri_status service_reply(struct kal_connection *connection,
                                    const struct ri_service_reply *reply)
{
    enum ri_status status = foreign(connection)->datagram ? decide(connection)
                                                          : RI_ERR_INVALID_ARGUMENT;

    if (status)
        return status;
    return decided(connection, connection->rnic->ops.service_reply(foreign(connection)->ri, reply));
}

/* No reason for a warning: connections or datagrams are not for this qualifier, and ual asks for
 * both; or the provider has no IPv6, and whoever wants every address asks for those of IPv4
 * next. */
static bool is_expected(enum ri_status status, const struct ri_listen_param *param)
{
    return status == RI_ERR_NOT_SUPPORTED ||
           (status == RI_ERR_UNREACHABLE && param->address->sa_family == AF_INET6 &&
            IN6_IS_ADDR_UNSPECIFIED(
                &((const struct sockaddr_in6 *)(const void *)param->address)->sin6_addr));
}

static enum ri_status listen_on(struct kal_listener *listener, const struct ri_listen_param *param,
                                struct sockaddr_storage *bound)
{
    struct kal_rnic *rnic = listener->rnic;
    struct ri_listen_param own = *param;
    struct ri_listener *ri;
    enum ri_status status;

    memset(bound, 0, sizeof(*bound));
    own.backlog = listener->backlog;
    status = rnic->ops.listen(rnic->ri, &own, listener, bound, &ri);
    if (status) {
        kal_rnic_log(rnic, is_expected(status, param) ? RI_LOG_DEBUG : RI_LOG_WARNING,
                     "the provider cannot listen: %s", ri_status_name(status));
        return kal_rnic_answer(status);
    }
    pthread_mutex_lock(&listener->lifetime.lock); /* it can be seen already: kal_cm_listeners */
    kal_address_text((const struct sockaddr *)bound, listener->name, sizeof(listener->name));
    pthread_mutex_unlock(&listener->lifetime.lock);
    foreign_listener(listener)->ri = ri;
    return RI_OK;
}

static void unlisten(struct kal_listener *listener)
{
    struct foreign_listener *l = foreign_listener(listener);

    contract(listener->lifetime.dead);
    if (l->ri)
        listener->rnic->ops.listen_destroy(l->ri);
    l->ri = NULL;
}

/* ---- requests that are not decided ---- */

/* As keep_request has kept it. */
static void describe(struct kal_connection *c, struct ri_connect_request *request)
{
    request->private_data = c->stream.octets;
    request->private_data_length = (uint16_t)c->stream.length;
    request->ird = c->agreed.peer_ird;
    request->ord = c->agreed.peer_ord;
    request->depths_valid = c->agreed.enhanced;
    request->datagram = foreign(c)->datagram;
    request->port = foreign(c)->port;
    request->qp_type = foreign(c)->qp_type;
    request->numbers = foreign(c)->numbers.size ? &foreign(c)->numbers : NULL;
}

/* The provider says so itself: kal_cm_host_event. */
static const char *withdrawn(const struct kal_connection *c)
{
    (void)c;
    return NULL;
}

/* Refuses a request that is not reported. Lane, locked. */
static void refuse_unreported(struct kal_connection *c)
{
    struct ri_service_reply reply = { .size = sizeof(reply), .status = RI_SERVICE_REJECTED };
    const struct ri_privileged_ops *ops = &c->rnic->ops;

    if (foreign(c)->datagram)
        ops->service_reply(foreign(c)->ri, &reply);
    else
        ops->reject(foreign(c)->ri, NULL, 0);
}

static void refuse(struct kal_connection *c)
{
    cm_assert_run(&c->lifetime);
    contract(c->claimed);
    cm_listener_leave(c, false);
    if (c->state != CM_ENDED)
        refuse_unreported(c);
    c->state = CM_ENDED;
    make_orphan(c);
}

/* The provider's connection stays in its RNIC; the provider has no lane for it. */
static enum ri_status migrate(struct kal_connection *c, struct kal_rnic *rnic)
{
    cm_assert_locked(&c->lifetime);
    contract(c->state == CM_MOVING);
    return rnic == c->rnic ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

static void await(struct kal_connection *c)
{
    cm_assert_locked(&c->lifetime);
}

static enum ri_status place(struct kal_connection *connection, struct kal_rnic *rnic,
                            void *lane_context)
{
    (void)lane_context;
    return rnic == connection->rnic ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

/* ---- the end ---- */

static void destroy(struct kal_connection *c)
{
    bool later;

    pthread_mutex_lock(&c->lifetime.lock);
    later = cm_inside(&c->lifetime);
    if (later) {
        if (c->listener)
            cm_listener_leave(c, c->state == CM_PENDING);
        c->state = CM_ENDED;
        make_orphan(c);
    }
    pthread_mutex_unlock(&c->lifetime.lock);
    if (!later)
        cm_connection_end(c);
}

/* Waits for upcalls of the provider. Later ones find the connection dead and return. */
static void end(struct kal_connection *c)
{
    struct ri_connection *ri = foreign(c)->ri;

    contract(c->lifetime.dead);
    foreign(c)->ri = NULL;
    if (ri)
        c->rnic->ops.connection_destroy(ri);
}

/* ---- upcalls of the provider ---- */

/* Keeps the data that the upcall lends, to report the request now and, if it migrates, again. */
static void keep_request(struct kal_connection *c, const struct ri_connect_request *request)
{
    uint16_t length = request->private_data_length;

    if (length > sizeof(c->startup->in))
        length = sizeof(c->startup->in);
    if (length)
        memcpy(c->stream.octets, request->private_data, length);
    c->stream.length = length;
    c->stream.local = address_keep(&request->local);
    c->stream.peer = address_keep(&request->peer);
    c->agreed.enhanced = request->depths_valid;
    c->agreed.peer_ird = request->ird;
    c->agreed.peer_ord = request->ord;
    foreign(c)->port = request->port;
    foreign(c)->qp_type = request->qp_type;
    if (request->numbers)
        foreign(c)->numbers = *request->numbers;
}

/* Adds the request to the listener. False: policy or quota refuse it. */
static bool take_in(struct kal_listener *l, struct kal_connection *c,
                    const struct ri_connect_request *request)
{
    if (kal_rnic_policy(l->rnic, RI_POLICY_REQUEST, (const struct sockaddr *)&request->local,
                        (const struct sockaddr *)&request->peer) ||
        !cm_count(c))
        return false;
    keep_request(c, request);
    cm_hold(&l->lifetime);
    c->listener = l;
    c->state = CM_SHOWING;
    pthread_mutex_lock(&l->lifetime.lock);
    DL_APPEND2(l->starting, c, listed_prev, listed_next);
    c->listed = true;
    l->half_open++;
    pthread_mutex_unlock(&l->lifetime.lock);
    return true;
}

/* Without memory there is no context, and the provider refuses the request itself. */
void kal_cm_host_request(const struct ri_host *host, void *listener_context,
                         struct ri_connection *connection, const struct ri_connect_request *request,
                         void **connection_context)
{
    struct kal_rnic *rnic = kal_rnic_of_host(host);
    struct kal_listener *l = listener_context;
    struct kal_connection *c = cm_connection_new(rnic, l->lane, NULL);
    char name[CM_NAME_ROOM];
    struct cm_run run;

    *connection_context = c;
    if (!c) {
        kal_rnic_log(rnic, RI_LOG_ERROR, "listener %s: a request is dropped: out of memory",
                     cm_listener_name(l, name));
        return;
    }
    if (!cm_enter(&c->lifetime, &run)) /* a connection that has just begun reports nothing */
        return;
    foreign(c)->ri = connection;
    foreign(c)->datagram = request->datagram;
    c->role = &set_a_role;
    if (take_in(l, c, request)) {
        cm_passive_run(c);
    } else {
        c->state = CM_ENDED;
        refuse_unreported(c);
        make_orphan(c);
    }
    if (cm_leave(&c->lifetime, &run))
        cm_connection_free(c);
}

void kal_cm_host_event(const struct ri_host *host, void *connection_context,
                       const struct ri_connection_event *event)
{
    struct kal_rnic *rnic = kal_rnic_of_host(host);
    struct kal_connection *c = connection_context;
    struct cm_run run;
    void *context;

    if (!c || !cm_enter(&c->lifetime, &run))
        return;
    if (event->type == RI_CONNECTION_ESTABLISHED) {
        c->stream.local = address_keep(&event->local);
        c->stream.peer = address_keep(&event->peer);
        c->handed = true;
        c->agreed.ird = event->ird;
        c->agreed.ord = event->ord;
        c->agreed.enhanced = event->depths_valid;
    }
    context = c->context;
    if (c->state == CM_SHOWING || c->state == CM_QUEUED) {
        cm_passive_gone(c);
        /* otherwise an upcall has destroyed it, and it is being freed */
    } else if (c->state != CM_ENDED) {
        pthread_mutex_unlock(&c->lifetime.lock);
        rnic->upper->connection_event(context, event);
        pthread_mutex_lock(&c->lifetime.lock);
    }
    if (cm_leave(&c->lifetime, &run))
        cm_connection_free(c);
}

const struct cm_kind cm_set_a = {
    .connection_size = sizeof(struct foreign),
    .listener_size = sizeof(struct foreign_listener),
    .check = check,
    .create = create,
    .connect = connect_qp,
    .attach = attach,
    .accept = accept_request,
    .confirm = confirm,
    .reject = reject,
    .disconnect = disconnect,
    .service_request = service_request,
    .service_reply = service_reply,
    .describe = describe,
    .withdrawn = withdrawn,
    .refuse = refuse,
    .migrate = migrate,
    .await = await,
    .place = place,
    .destroy = destroy,
    .end = end,
    .listen = listen_on,
    .unlisten = unlisten,
};
