/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections: kal's connection or listener, and the upcalls that report its events.
 *
 * UPCALLS may change at any time (ual_conn_migrate). So upcalls and context are read under the
 * lock, and running upcalls are counted: migrate waits until no earlier one runs.
 *
 * A BOUND ADDRESS is reserved by a listener that defers every request. A listen takes over that
 * listener with what waits there, so a peer that asks between bind and listen is not refused. A
 * connect ends it.
 */
#include "mechanism_private.h"

#include "base/address.h"
#include "base/clock.h"

#include <sched.h>
#include <stdlib.h>

#define HOLDER_BACKLOG 128u

struct resolution {
    struct ri_timer timer;
    struct ual_conn *conn;
    enum ri_status status;
    struct sockaddr_storage source;
};

struct ual_conn {
    struct ual_device *device;
    struct kal_connection *connection;
    struct kal_listener *listener;
    atomic_bool holds_address;              /* the listener only reserves the address */
    union address *bound;                   /* NULL if not bound */
    struct resolution *resolving;           /* lock */
    const struct ual_conn_upcalls *upcalls; /* lock, as is what follows */
    void *context;
    struct spinlock lock; /* a leaf */
    unsigned int running; /* running upcalls, to `upcalls` or to earlier ones */
};

/* --- upcalls --- */

static void begin_upcall(struct ual_conn *conn, const struct ual_conn_upcalls **upcalls,
                         void **context)
{
    spinlock_lock(&conn->lock);
    *upcalls = conn->upcalls;
    *context = conn->context;
    conn->running++;
    spinlock_unlock(&conn->lock);
}

static void end_upcall(struct ual_conn *conn)
{
    spinlock_lock(&conn->lock);
    conn->running--;
    spinlock_unlock(&conn->lock);
}

void ual_conn_event(void *connection_context, const struct ri_connection_event *event)
{
    struct ual_conn *conn = connection_context;
    const struct ual_conn_upcalls *upcalls;
    void *context;

    begin_upcall(conn, &upcalls, &context);
    if (upcalls && upcalls->event)
        upcalls->event(context, event);
    end_upcall(conn);
}

static struct ual_conn *new_conn(struct ual_device *device, const struct ual_conn_upcalls *upcalls,
                                 void *context)
{
    struct ual_conn *conn = calloc(1, sizeof(*conn));

    if (!conn)
        return NULL;
    spinlock_init(&conn->lock);
    conn->device = device;
    conn->upcalls = upcalls;
    conn->context = context;
    atomic_fetch_add(&device_inside(device)->users, 1);
    return conn;
}

/* A request that was taken may have been freed when the upcall returns. */
static void show(struct ual_conn *listener, struct ual_conn *request,
                 const struct ri_connect_request *asked, void **connection_context)
{
    struct kal_connection *connection = request->connection;
    const struct ual_conn_upcalls *upcalls;
    enum ual_hearing hearing;
    void *context;

    begin_upcall(listener, &upcalls, &context);
    *connection_context = request;
    hearing = upcalls->request(context, request, asked);
    end_upcall(listener);
    if (hearing == UAL_REQUEST_TAKEN)
        return;
    *connection_context = NULL;
    request->connection = NULL;
    ual_conn_free(request);
    if (hearing == UAL_REQUEST_DEFERRED)
        kal_defer(connection);
    else
        kal_connection_destroy(connection);
}

void ual_conn_request(void *listener_context, struct kal_connection *connection,
                      const struct ri_connect_request *asked, void **connection_context)
{
    struct ual_conn *listener = listener_context, *request;

    if (listener->holds_address) {
        kal_defer(connection);
        return;
    }
    request = new_conn(listener->device, NULL, NULL);
    if (request) {
        request->connection = connection;
        show(listener, request, asked, connection_context);
        return;
    }
    kal_log(RI_LOG_ERROR, "%s: a connection request is dropped: out of memory",
            ual_device_name(listener->device));
    kal_connection_destroy(connection); /* without an object the request cannot be kept */
}

/* Under the lock. Upcalls do not block. */
static void wait_for_upcalls(struct ual_conn *conn)
{
    while (conn->running) {
        spinlock_unlock(&conn->lock);
        sched_yield();
        spinlock_lock(&conn->lock);
    }
}

void ual_conn_migrate(struct ual_conn *conn, const struct ual_conn_upcalls *upcalls, void *context)
{
    spinlock_lock(&conn->lock);
    conn->upcalls = upcalls;
    conn->context = context;
    wait_for_upcalls(conn);
    spinlock_unlock(&conn->lock);
}

/* --- life --- */

enum ri_status ual_conn_create(struct ual_device *device, const struct ual_conn_upcalls *upcalls,
                               void *context, struct ual_conn **out)
{
    enum ri_status status = ual_device_alive(device);
    struct ual_conn *conn;

    if (status != RI_OK)
        return status;
    conn = new_conn(device, upcalls, context);
    if (!conn)
        return RI_ERR_NO_RESOURCES;
    *out = conn;
    return RI_OK;
}

static void stop_resolving(struct ual_conn *conn)
{
    struct resolution *resolution;

    spinlock_lock(&conn->lock);
    resolution = conn->resolving;
    conn->resolving = NULL;
    wait_for_upcalls(conn);
    spinlock_unlock(&conn->lock);
    if (!resolution)
        return;
    ual_lane_timer_cancel(ual_lanes_first(ual_device_lanes(conn->device)), &resolution->timer);
    free(resolution);
}

/* After a failed listen or connect the object is as new. */
static void forget_address(struct ual_conn *conn)
{
    free(conn->bound);
    conn->bound = NULL;
}

static void release_address(struct ual_conn *conn)
{
    if (conn->listener)
        kal_listen_destroy(conn->listener);
    conn->listener = NULL;
    conn->holds_address = false;
}

void ual_conn_free(struct ual_conn *conn)
{
    stop_resolving(conn);
    release_address(conn);
    if (conn->connection)
        kal_connection_destroy(conn->connection);
    atomic_fetch_sub(&device_inside(conn->device)->users, 1);
    free(conn->bound);
    free(conn);
}

/* --- addresses --- */

enum ri_status ual_conn_bind(struct ual_conn *conn, const struct sockaddr *address,
                             struct sockaddr_storage *bound)
{
    const struct ri_listen_param param = { .size = sizeof(param), .address = address };

    return ual_conn_bind_as(conn, &param, bound);
}

enum ri_status ual_conn_bind_as(struct ual_conn *conn, const struct ri_listen_param *asked,
                                struct sockaddr_storage *bound)
{
    struct ri_listen_param param = *asked;
    struct sockaddr_storage got;
    enum ri_status status = ual_device_alive(conn->device);
    union address *kept;

    if (status != RI_OK)
        return status;
    param.backlog = HOLDER_BACKLOG;
    if (!param.address)
        return RI_ERR_INVALID_ARGUMENT;
    if (conn->bound || conn->connection || conn->listener)
        return RI_ERR_INVALID_STATE;
    kept = malloc(sizeof(*kept));
    if (!kept)
        return RI_ERR_NO_RESOURCES;
    conn->holds_address = true;
    status = kal_listen(rnic_of(conn->device), ual_lanes_first(ual_device_lanes(conn->device)),
                        &param, conn, &got, &conn->listener);
    if (status != RI_OK) {
        conn->holds_address = false;
        free(kept);
        return status;
    }
    *kept = address_keep(&got);
    conn->bound = kept;
    if (bound)
        *bound = got;
    return RI_OK;
}

/* The listener of the bound address reports what it deferred, and every request from now on. */
static void take_over_holder(struct ual_conn *conn, struct sockaddr_storage *bound)
{
    conn->holds_address = false;
    kal_listen_room(conn->listener);
    if (bound)
        *bound = address_storage(conn->bound);
}

enum ri_status ual_conn_listen(struct ual_conn *conn, const struct ri_listen_param *param,
                               struct sockaddr_storage *bound)
{
    struct ri_listen_param asked = *param;
    enum ri_status status = ual_device_alive(conn->device);
    struct sockaddr_storage got;

    if (status != RI_OK)
        return status;
    if (conn->connection || (conn->listener && !conn->holds_address))
        return RI_ERR_INVALID_STATE;
    if (!asked.address && conn->bound)
        asked.address = &conn->bound->any;
    if (!asked.address || !conn->upcalls || !conn->upcalls->request)
        return RI_ERR_INVALID_ARGUMENT;
    if (conn->listener && !param->address && param->backlog <= HOLDER_BACKLOG) {
        take_over_holder(conn, bound);
        return RI_OK;
    }
    release_address(conn);
    status = kal_listen(rnic_of(conn->device), ual_lanes_first(ual_device_lanes(conn->device)),
                        &asked, conn, &got, &conn->listener);
    if (status != RI_OK)
        forget_address(conn);
    else if (bound)
        *bound = got;
    return status;
}

enum ri_status ual_conn_listen_fed(struct ual_conn *conn, const struct sockaddr *address,
                                   uint32_t backlog)
{
    enum ri_status status = ual_device_alive(conn->device);

    if (status != RI_OK)
        return status;
    if (conn->connection || conn->listener || conn->bound)
        return RI_ERR_INVALID_STATE;
    if (!address || !conn->upcalls || !conn->upcalls->request)
        return RI_ERR_INVALID_ARGUMENT;
    return kal_listen_fed(rnic_of(conn->device), ual_lanes_first(ual_device_lanes(conn->device)),
                          address, backlog, conn, &conn->listener);
}

enum ri_status ual_conn_feed(struct ual_conn *listener, int fd)
{
    if (!listener->listener)
        return RI_ERR_INVALID_STATE;
    return kal_listen_feed(listener->listener, fd);
}

void ual_conn_advise(struct ual_conn *listener, const char *advice)
{
    if (listener->listener)
        kal_listen_advise(listener->listener, advice);
}

void ual_conn_room(struct ual_conn *listener)
{
    if (listener->listener)
        kal_listen_room(listener->listener);
}

/* In the lane. */
static void resolved(struct ri_timer *timer)
{
    struct resolution *resolution = container_of(timer, struct resolution, timer);
    struct ual_conn *conn = resolution->conn;
    const struct ual_conn_upcalls *upcalls;
    void *context;
    bool wanted;

    spinlock_lock(&conn->lock);
    wanted = conn->resolving == resolution;
    if (wanted) {
        conn->resolving = NULL;
        conn->running++;
    }
    upcalls = conn->upcalls;
    context = conn->context;
    spinlock_unlock(&conn->lock);
    if (!wanted) /* the thread that stopped it waits for this function and frees it */
        return;
    if (upcalls && upcalls->resolved)
        upcalls->resolved(context, resolution->status,
                          resolution->status == RI_OK ? &resolution->source : NULL);
    end_upcall(conn);
    free(resolution);
}

enum ri_status ual_conn_resolve(struct ual_conn *conn, const struct sockaddr *destination)
{
    enum ri_status status = ual_device_alive(conn->device);
    struct resolution *resolution;
    bool first;

    if (status != RI_OK)
        return status;
    if (!destination)
        return RI_ERR_INVALID_ARGUMENT;
    resolution = calloc(1, sizeof(*resolution));
    if (!resolution)
        return RI_ERR_NO_RESOURCES;
    resolution->conn = conn;
    resolution->timer.expired = resolved;
    resolution->timer.deadline = clock_now();
    resolution->status = kal_route(rnic_of(conn->device), 0, destination, &resolution->source);
    spinlock_lock(&conn->lock);
    first = !conn->resolving;
    if (first)
        conn->resolving = resolution;
    spinlock_unlock(&conn->lock);
    if (!first) {
        free(resolution);
        return RI_ERR_INVALID_STATE;
    }
    ual_lane_timer_set(ual_lanes_first(ual_device_lanes(conn->device)), &resolution->timer);
    return RI_OK;
}

/* --- the active side --- */

static struct ual_lane *lane_for(const struct ual_device *device, const struct ual_qp *qp)
{
    struct ual_lanes *lanes = ual_device_lanes(device);

    return qp ? lanes->lane[qp->lane] : ual_lanes_first(lanes);
}

static struct ri_qp *qp_of(const struct ual_qp *qp)
{
    return qp ? qp->qp : NULL;
}

/* A connection of kal's for an attempt that begins. */
static enum ri_status begin(struct ual_conn *conn, const struct ual_qp *qp)
{
    enum ri_status status = ual_device_alive(conn->device);

    if (status != RI_OK)
        return status;
    if (conn->connection || (conn->listener && !conn->holds_address))
        return RI_ERR_INVALID_STATE;
    release_address(conn);
    return kal_connection_create(rnic_of(conn->device), lane_for(conn->device, qp), conn,
                                 &conn->connection);
}

/* Undo `begin`: nothing has started. */
static void undo_begin(struct ual_conn *conn)
{
    kal_connection_destroy(conn->connection);
    conn->connection = NULL;
    forget_address(conn);
}

enum ri_status ual_conn_connect(struct ual_conn *conn, struct ual_qp *qp,
                                const struct ri_connect_param *param)
{
    struct ri_connect_param asked = *param;
    enum ri_status status = begin(conn, qp);

    if (status != RI_OK)
        return status;
    if (!asked.source && conn->bound)
        asked.source = &conn->bound->any;
    status = kal_connect(conn->connection, qp_of(qp), &asked);
    if (status != RI_OK)
        undo_begin(conn);
    return status;
}

enum ri_status ual_conn_ask(struct ual_conn *conn, const struct ri_connect_param *param)
{
    struct ri_connect_param asked = *param;
    enum ri_status status = begin(conn, NULL);

    if (status != RI_OK)
        return status;
    if (!asked.source && conn->bound)
        asked.source = &conn->bound->any;
    status = kal_service_request(conn->connection, &asked);
    if (status != RI_OK)
        undo_begin(conn);
    return status;
}

enum ri_status ual_conn_adopt(struct ual_conn *conn, struct ual_qp *qp,
                              const struct ual_adopt_param *param)
{
    struct kal_convert_param asked = {
        .size = sizeof(asked),
        .fd = param->fd,
        .initiator = param->initiator,
        .startup_frames = param->startup_frames,
        .last_message = param->last_message,
        .last_message_length = param->last_message_length,
        .octets_read = param->octets_read,
        .octets_read_length = param->octets_read_length,
        .ird = param->ird,
        .ord = param->ord,
        .deadline = param->deadline,
    };
    enum ri_status status = begin(conn, qp);

    if (status != RI_OK)
        return status;
    status = kal_convert(conn->connection, qp_of(qp), &asked);
    if (status != RI_OK)
        undo_begin(conn);
    return status;
}

enum ri_status ual_conn_attach(struct ual_conn *conn, struct ual_qp *qp)
{
    if (!conn->connection)
        return RI_ERR_INVALID_STATE;
    return kal_attach(conn->connection, qp->qp, lane_for(conn->device, qp));
}

enum ri_status ual_conn_confirm(struct ual_conn *conn, const struct ri_connect_param *param)
{
    if (!conn->connection)
        return RI_ERR_INVALID_STATE;
    return kal_confirm(conn->connection, param);
}

/* --- requests --- */

/* The meaning of a decision's status: kal refuses the call if the peer has withdrawn. */
static enum ri_status decided(enum ri_status status)
{
    return status == RI_ERR_INVALID_STATE ? ITAL_ERR_INVALID_HANDLE : status;
}

/* The QP may be of another device of the process: then the object is that device's from now on. */
static enum ri_status place(struct ual_conn *request, const struct ual_qp *qp)
{
    struct ual_device *device = qp ? qp->object.device : request->device;
    enum ri_status status = kal_place(request->connection, rnic_of(device), lane_for(device, qp));

    if (status != RI_OK || device == request->device)
        return status;
    atomic_fetch_add(&device_inside(device)->users, 1);
    atomic_fetch_sub(&device_inside(request->device)->users, 1);
    request->device = device;
    return RI_OK;
}

enum ri_status ual_conn_accept(struct ual_conn *request, struct ual_qp *qp,
                               const struct ri_connect_param *param)
{
    enum ri_status status;

    if (!request->connection)
        return RI_ERR_INVALID_STATE;
    status = place(request, qp);
    return status == RI_OK ? decided(kal_accept(request->connection, qp_of(qp), param)) : status;
}

enum ri_status ual_conn_reject(struct ual_conn *conn, const void *private_data,
                               uint16_t private_data_length)
{
    if (!conn->connection)
        return RI_ERR_INVALID_STATE;
    return decided(kal_reject(conn->connection, private_data, private_data_length));
}

enum ri_status ual_conn_answer(struct ual_conn *request, const struct ri_service_reply *reply)
{
    if (!request->connection)
        return RI_ERR_INVALID_STATE;
    return decided(kal_service_reply(request->connection, reply));
}

enum ri_status ual_conn_pass_on(struct ual_conn *request, struct ual_conn *listener)
{
    enum ri_status status;

    if (!request->connection || !listener->listener || listener->holds_address)
        return RI_ERR_INVALID_STATE;
    status = decided(kal_migrate(request->connection, listener->listener));
    if (status != RI_OK)
        return status;
    request->connection = NULL; /* another object's, or will be */
    ual_conn_free(request);
    return RI_OK;
}

/* --- established connections --- */

enum ri_status ual_conn_disconnect(struct ual_conn *conn, struct ual_qp *qp,
                                   const void *private_data, uint16_t private_data_length)
{
    if (!conn->connection)
        return RI_ERR_INVALID_STATE;
    return kal_disconnect(conn->connection, qp_of(qp), private_data, private_data_length);
}

enum ri_status ual_conn_query(struct ual_conn *conn, struct ri_connection_event *info)
{
    if (!conn->connection)
        return RI_ERR_INVALID_STATE;
    return kal_connection_info(conn->connection, info);
}
