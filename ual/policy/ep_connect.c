/* SPDX-License-Identifier: BSD-3-Clause
 * Connections of endpoints: the consumer's calls. */
#include "connect.h"

#include "base/clock.h"

/* The end of a connection needs no memory: it has inside->end, unless an earlier end is still
 * queued there. */
enum ri_status ual_ep_provide_first(struct ual_ep *ep)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct node *node, *surplus;

    if (!ep->connect_evd)
        return RI_OK;
    node = ual_evd_node(ep->connect_evd, NULL);
    if (!node || ual_evd_own_is_queued(ep->connect_evd, &inside->end)) {
        ual_evd_drop_node(node);
        return RI_ERR_NO_RESOURCES;
    }
    spinlock_lock(&inside->lock);
    surplus = inside->first;
    inside->first = node;
    spinlock_unlock(&inside->lock);
    ual_evd_drop_node(surplus);
    return RI_OK;
}

/* --- connect --- */

static struct ri_connect_param connect_param(const struct ual_ep *ep,
                                             const struct ual_connect *connect)
{
    struct ri_connect_param param = {
        .size = sizeof(param),
        .source = connect->source,
        .destination = connect->destination,
        .service_id = connect->service_id,
        .deadline = RI_NO_DEADLINE,
        .private_data = connect->private_data,
        .private_data_length = connect->private_data_length,
        .ird = ual_ep_depth(ep->attr.ird),
        .ord = ual_ep_depth(ep->attr.ord),
        .negotiate_depths = connect->negotiate_depths,
        .three_way = connect->three_way,
        .retry_count = connect->retry_count,
        .rnr_retry_count = connect->rnr_retry_count,
        .max_cm_retries = connect->max_cm_retries,
        .local_ack_timeout = connect->local_ack_timeout,
        .local_cm_timeout = connect->local_cm_timeout,
        .remote_cm_timeout = connect->remote_cm_timeout,
        .tuned = connect->tuned,
    };

    if (connect->timeout_us < UINT64_MAX / CLOCK_NS_PER_US)
        param.deadline = clock_after(clock_now(), connect->timeout_us * CLOCK_NS_PER_US);
    return param;
}

static enum ri_status check_connect(const struct ual_ep *ep, const struct ual_connect *connect)
{
    const struct ri_rnic_attr *attr = ual_device_attr(ual_ep_device(ep));

    if (!connect->destination || (connect->private_data_length && !connect->private_data))
        return RI_ERR_INVALID_ARGUMENT;
    if (connect->private_data_length > attr->connect_private_data)
        return RI_ERR_LIMIT;
    if (connect->three_way && !(attr->features & RI_FEATURE_THREE_WAY))
        return RI_ERR_NOT_SUPPORTED;
    return ual_device_alive(ual_ep_device(ep));
}

enum ri_status ual_ep_not_started(struct ual_ep *ep, enum ri_status status)
{
    if (!ual_ep_feed(ep, EP_NOT_STARTED, NULL, NULL))
        return RI_OK;
    ual_ep_drop_connection(ep);
    return status;
}

enum ri_status ual_ep_begin(struct ual_ep *ep, const struct sockaddr *local,
                            const struct sockaddr *peer)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct ual_conn *connection;
    enum ri_status status;

    spinlock_lock(&inside->lock);
    inside->accepted_id = 0;
    address_set(&inside->local, local);
    address_set(&inside->peer, peer);
    spinlock_unlock(&inside->lock);
    status = ual_ep_provide_first(ep);
    if (status == RI_OK)
        status = ual_conn_create(ual_ep_device(ep), &ual_ep_upcalls, ep, &connection);
    if (status == RI_OK)
        ual_ep_set_connection(ep, connection);
    return status;
}

static enum ri_status start_connect(struct ual_ep *ep, const struct ual_connect *connect)
{
    struct ri_connect_param param = connect_param(ep, connect);
    enum ri_status status = ual_ep_begin(ep, connect->source, connect->destination);

    if (status == RI_OK)
        status = ual_conn_connect(ual_ep_inside(ep)->connection, &ep->qp, &param);
    return status == RI_OK ? RI_OK : ual_ep_not_started(ep, status);
}

enum ri_status ual_ep_connect(struct ual_ep *ep, const struct ual_connect *connect)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ri_status status = check_connect(ep, connect);

    if (status != RI_OK)
        return status;
    pthread_mutex_lock(&inside->control);
    status = ual_ep_feed(ep, EP_CONNECT, NULL, NULL) ? start_connect(ep, connect)
                                                     : RI_ERR_INVALID_STATE;
    pthread_mutex_unlock(&inside->control);
    return status;
}

/* --- accept, reject --- */

static struct ri_connect_param accept_param(const struct ual_ep *ep, bool negotiate,
                                            const void *private_data, uint16_t length)
{
    return (struct ri_connect_param){
        .size = sizeof(struct ri_connect_param),
        .deadline = RI_NO_DEADLINE,
        .private_data = private_data,
        .private_data_length = length,
        .ird = ual_ep_depth(ep->attr.ird),
        .ord = ual_ep_depth(ep->attr.ord),
        .negotiate_depths = negotiate,
    };
}

/* The third leg. Success uses the identifier up. ESTABLISHED, or the failure of the leg, follows as
 * an event. */
static enum ri_status confirm(struct ual_ep *ep, struct ual_request *request,
                              const struct ri_connect_param *param)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ri_status status;

    if (request->ep != ep) {
        ual_request_unclaim(request, false);
        return ITAL_ERR_INVALID_HANDLE;
    }
    if (!ual_ep_feed(ep, EP_CONFIRM, NULL, NULL)) {
        ual_request_unclaim(request, false);
        return RI_ERR_INVALID_STATE;
    }
    status = ual_ep_provide_first(ep);
    if (status == RI_OK)
        status = ual_conn_confirm(inside->connection, param);
    if (status != RI_OK) {
        ual_request_unclaim(request, false);
        return status;
    }
    spinlock_lock(&inside->lock);
    if (inside->arrival == request)
        inside->arrival = NULL;
    spinlock_unlock(&inside->lock);
    ual_request_consume_arrival(request);
    return RI_OK;
}

static enum ri_status start_accept(struct ual_ep *ep, struct ual_request *request,
                                   const struct ri_connect_param *param)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ri_status status;

    spinlock_lock(&inside->lock);
    inside->accepted_id = request->object.handle;
    inside->local = request->ends.local;
    inside->peer = request->ends.peer;
    inside->connection = request->connection;
    spinlock_unlock(&inside->lock);
    status = ual_ep_provide_first(ep);
    if (status == RI_OK && !ual_request_hand_over(request, &ual_ep_upcalls, ep))
        status = ITAL_ERR_INVALID_HANDLE;
    if (status == RI_OK)
        status = ual_conn_accept(request->connection, &ep->qp, param);
    if (status != RI_OK && ual_ep_feed(ep, EP_NOT_STARTED, NULL, NULL)) {
        ual_ep_take_connection(ep);
        ual_request_take_back(request);
        ual_request_unclaim(request, status == ITAL_ERR_INVALID_HANDLE);
        return status;
    }
    ual_request_consume_accepted(request);
    return RI_OK;
}

static enum ri_status accept_claimed(struct ual_ep *ep, struct ual_request *request, bool negotiate,
                                     const void *private_data, uint16_t length)
{
    struct ri_connect_param param = accept_param(ep, negotiate && request->negotiate, private_data,
                                                 length);
    enum ri_status status = RI_OK;

    if (request->arrival)
        return confirm(ep, request, &param);
    if (request->object.device != ual_ep_device(ep) || request->datagram)
        status = ITAL_ERR_INVALID_HANDLE;
    else if (!ual_ep_feed(ep, EP_ACCEPT, NULL, NULL))
        status = RI_ERR_INVALID_STATE;
    if (status == RI_OK)
        return start_accept(ep, request, &param);
    ual_request_unclaim(request, false);
    return status;
}

enum ri_status ual_ep_accept(struct ual_ep *ep, ual_handle handle, bool negotiate,
                             const void *private_data, uint16_t length)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ri_status status = ual_device_alive(ual_ep_device(ep));
    struct ual_request *request;

    if (status != RI_OK)
        return status;
    if (length && !private_data)
        return RI_ERR_INVALID_ARGUMENT;
    if (length > ual_device_attr(ual_ep_device(ep))->accept_private_data)
        return RI_ERR_LIMIT;
    pthread_mutex_lock(&inside->control);
    request = ual_request_claim(handle);
    status = request ? accept_claimed(ep, request, negotiate, private_data, length)
                     : ual_lookup_failed();
    pthread_mutex_unlock(&inside->control);
    return status;
}

static enum ri_status reject_arrival(struct ual_request *request, const void *private_data,
                                     uint16_t length)
{
    struct ual_ep *ep = request->ep;
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ri_status status = ITAL_ERR_INVALID_HANDLE;

    pthread_mutex_lock(&inside->control);
    if (ual_ep_takes(ep, EP_REJECT))
        status = ual_conn_reject(inside->connection, private_data, length);
    if (status == ITAL_ERR_INVALID_HANDLE && ual_ep_takes(ep, EP_REJECT))
        status = RI_ERR_INVALID_STATE; /* it has ended, and its end was not handled yet */
    if (status == RI_OK) {
        ual_qp_set_state(&ep->qp, RI_QPS_ERROR);
        spinlock_lock(&inside->lock);
        inside->arrival = NULL;
        spinlock_unlock(&inside->lock);
        ual_ep_feed(ep, EP_REJECT, NULL, NULL);
        ual_request_consume_arrival(request);
    } else {
        ual_request_unclaim(request, false);
    }
    pthread_mutex_unlock(&inside->control);
    return status;
}

static enum ri_status reject_claimed(struct ual_request *request, const void *private_data,
                                     uint16_t length)
{
    enum ri_status status = ual_device_alive(request->object.device);

    if (status == RI_OK && request->datagram)
        status = ITAL_ERR_INVALID_HANDLE;
    if (status == RI_OK && length > ual_device_attr(request->object.device)->reject_private_data)
        status = RI_ERR_LIMIT;
    if (status != RI_OK) {
        ual_request_unclaim(request, false);
        return status;
    }
    if (request->arrival)
        return reject_arrival(request, private_data, length);
    status = ual_conn_reject(request->connection, private_data, length);
    if (status == RI_OK)
        ual_request_consume_rejected(request);
    else
        ual_request_unclaim(request, status == ITAL_ERR_INVALID_HANDLE);
    return status;
}

enum ri_status ual_reject(ual_handle handle, const void *private_data, uint16_t length)
{
    struct ual_request *request;

    if (length && !private_data)
        return RI_ERR_INVALID_ARGUMENT;
    request = ual_request_claim(handle);
    return request ? reject_claimed(request, private_data, length) : ual_lookup_failed();
}

/* --- disconnect --- */

static void abort_attempt(struct ual_ep *ep)
{
    ual_ep_drop_connection(ep);
    ual_qp_set_state(&ep->qp, RI_QPS_ERROR);
    ual_ep_feed(ep, EP_ABORTED, NULL, NULL);
}

/* The end follows as an upcall. If the close cannot be started the connection is reset, and this is
 * its end. */
static void start_close(struct ual_ep *ep, const void *private_data, uint16_t length)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);

    if (length > ual_device_attr(ual_ep_device(ep))->disconnect_private_data)
        length = 0; /* delivery is not promised, and this transport has no place for it */
    if (ual_conn_disconnect(inside->connection, &ep->qp, length ? private_data : NULL, length) ==
        RI_OK)
        return;
    ual_qp_set_state(&ep->qp, RI_QPS_ERROR);
    ual_ep_feed(ep, EP_ENDED, NULL, NULL);
}

enum ri_status ual_ep_disconnect(struct ual_ep *ep, const void *private_data, uint16_t length)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ri_status status = ual_device_alive(ual_ep_device(ep));
    const struct ep_row *row;

    if (status != RI_OK)
        return status;
    if (length && !private_data)
        return RI_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&inside->control);
    if (!ual_ep_feed(ep, EP_DISCONNECT, NULL, &row))
        status = RI_ERR_INVALID_STATE;
    else if (row->work & EP_CLOSE)
        start_close(ep, private_data, length);
    else
        abort_attempt(ep);
    pthread_mutex_unlock(&inside->control);
    return status;
}
