/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Datagram service: a question for an endpoint by its service, and the answer.
 *
 * The asking side has an object of its own, whose connection lives for one question: asking again
 * abandons the question before. On the other side a question is a request, as those for connections
 * are (request.c). The reply decides it.
 */
#include "connect.h"

#include "base/clock.h"
#include "base/compiler.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* --- the asking side --- */

struct ual_ud_record {
    pthread_mutex_t control; /* one send at a time; upcalls do not take it */
    struct ual_conn *connection;
    union address source, destination;
    bool has_source;
    uint64_t service_id, timeout_us;
    struct ual_ud_record *prev, *next; /* of the IA */
    struct ual_ud_request request;     /* last, because the front end's octets stand behind it */
};

static struct ual_ud_record *record_of(struct ual_ud_request *request)
{
    return container_of(request, struct ual_ud_record, request);
}

static enum ri_status check(struct ual_evd *evd, const struct ual_connect *ask)
{
    struct ual_device *device = ((struct ual_object *)evd)->device;
    const struct ri_rnic_attr *rnic = ual_device_attr(device);

    if (ual_evd_stream(evd) != UAL_STREAM_CONNECTION || !ask->destination ||
        (ask->private_data_length && !ask->private_data))
        return RI_ERR_INVALID_ARGUMENT;
    if (!(rnic->features & RI_FEATURE_UD))
        return RI_ERR_NOT_SUPPORTED;
    if (ask->private_data_length > rnic->service_request_private_data ||
        ask->private_data_length > UAL_PRIVATE_DATA_MAX)
        return RI_ERR_LIMIT;
    return ual_device_alive(device);
}

static void copy_question(struct ual_ud_record *record, const struct ual_connect *ask)
{
    record->has_source = ask->source != NULL;
    address_set(&record->source, ask->source);
    address_set(&record->destination, ask->destination);
    record->service_id = ask->service_id;
    record->timeout_us = ask->timeout_us;
    record->request.private_data_length = ask->private_data_length;
    if (ask->private_data_length)
        memcpy(record->request.private_data, ask->private_data, ask->private_data_length);
}

enum ri_status ual_ud_request_create(struct ual_evd *evd, const struct ual_connect *ask,
                                     size_t own_octets, struct ual_ud_request **out)
{
    struct ual_device *device = ((struct ual_object *)evd)->device;
    enum ri_status status = check(evd, ask);
    struct ual_ia *ia = ual_ia_of(device);
    struct ual_ud_record *record;

    if (status != RI_OK)
        return status;
    record = calloc(1, sizeof(*record) + own_octets);
    if (!record)
        return RI_ERR_NO_RESOURCES;
    status = ual_handle_take(&record->request.object, UAL_UD_REQUEST, device);
    if (status != RI_OK) {
        free(record);
        return status;
    }
    pthread_mutex_init(&record->control, NULL);
    record->request.evd = evd;
    copy_question(record, ask);
    ual_evd_bind(evd, 0);
    pthread_mutex_lock(&ia->lock);
    DL_APPEND(ia->ud_requests, record);
    pthread_mutex_unlock(&ia->lock);
    *out = &record->request;
    return RI_OK;
}

static void fill_reply(struct ual_connection_event *to, const struct ri_connection_event *from)
{
    to->message = UAL_SERVICE_REPLY;
    to->local = from->local;
    to->peer = from->peer;
    to->service.status = from->service_status;
    if (from->service_status == RI_SERVICE_VALID) {
        to->service.qpn = from->remote_qpn;
        to->service.qkey = from->remote_qkey;
    }
    to->service.path_known = from->path != NULL;
    if (from->path)
        to->service.path = *from->path;
    if (!from->private_data)
        return;
    to->private_data_length = from->private_data_length < UAL_PRIVATE_DATA_MAX
                                  ? from->private_data_length
                                  : UAL_PRIVATE_DATA_MAX;
    memcpy(to->private_data, from->private_data, to->private_data_length);
}

/* An attempt without an answer gives no event; the function that found the reason has logged it. */
static void answered(void *context, const struct ri_connection_event *event)
{
    const struct ual_ud_request *request = &((struct ual_ud_record *)context)->request;
    struct ual_event report = { .stream = UAL_STREAM_CONNECTION };

    if (event->type != RI_CONNECTION_SERVICE_REPLY)
        return;
    fill_reply(&report.connection, event);
    report.connection.ep = request->object.handle;
    if (ual_evd_push(request->evd, &report) != RI_OK)
        kal_log(RI_LOG_ERROR,
                "%s: no room for a service reply: its EVD of %u events is full; make it larger",
                ual_device_name(request->object.device), ual_evd_size(request->evd));
}

static const struct ual_conn_upcalls question_upcalls = { .event = answered };

/* When it returns no upcall about it comes any more. */
static void abandon(struct ual_ud_record *record)
{
    if (record->connection)
        ual_conn_free(record->connection);
    record->connection = NULL;
}

static enum ri_status ask(struct ual_ud_record *record)
{
    struct ri_connect_param param = {
        .size = sizeof(param),
        .source = record->has_source ? &record->source.any : NULL,
        .destination = &record->destination.any,
        .service_id = record->service_id,
        .deadline = RI_NO_DEADLINE,
        .private_data = record->request.private_data,
        .private_data_length = record->request.private_data_length,
    };
    enum ri_status status = ual_conn_create(record->request.object.device, &question_upcalls,
                                            record, &record->connection);

    if (status != RI_OK)
        return status;
    if (record->timeout_us < UINT64_MAX / CLOCK_NS_PER_US)
        param.deadline = clock_after(clock_now(), record->timeout_us * CLOCK_NS_PER_US);
    status = ual_conn_ask(record->connection, &param);
    if (status != RI_OK)
        abandon(record);
    return status;
}

enum ri_status ual_ud_request_send(struct ual_ud_request *request)
{
    struct ual_ud_record *record = record_of(request);
    enum ri_status status = ual_device_alive(request->object.device);

    if (status != RI_OK)
        return status;
    pthread_mutex_lock(&record->control);
    abandon(record);
    status = ask(record);
    pthread_mutex_unlock(&record->control);
    return status;
}

enum ri_status ual_ud_request_free(struct ual_ud_request *request)
{
    struct ual_ud_record *record = record_of(request);
    struct ual_ia *ia = ual_ia_of(request->object.device);
    ual_handle handle = request->object.handle;

    abandon(record);
    ual_handle_drop(&request->object);
    ual_evd_purge(request->evd, handle);
    ual_evd_unbind(request->evd, 0);
    pthread_mutex_lock(&ia->lock);
    DL_DELETE(ia->ud_requests, record);
    pthread_mutex_unlock(&ia->lock);
    pthread_mutex_destroy(&record->control);
    free(record);
    return RI_OK;
}

struct ual_ud_request *ual_ud_first(struct ual_ia *ia)
{
    return &ia->ud_requests->request;
}

/* --- the answering side --- */

/* The endpoint, if it can be named in a reply; NULL: no. It is not freed until the caller has
 * decremented `answers`. */
static struct ual_ep_private *hold_ep(struct ual_ia *ia, uint32_t qpn)
{
    struct ual_ep_private *inside;

    pthread_mutex_lock(&ia->lock);
    DL_FOREACH (ia->eps, inside)
        if (ual_ep_is_ud(&inside->ep) && inside->ep.qpn == qpn)
            break;
    if (inside)
        atomic_fetch_add(&inside->answers, 1);
    pthread_mutex_unlock(&ia->lock);
    return inside;
}

static enum ri_status check_answer(struct ual_device *device, const struct ual_service_reply *reply)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(device);

    if (reply->private_data_length > rnic->service_reply_private_data)
        return RI_ERR_LIMIT;
    if (reply->status == RI_SERVICE_VALID && rnic->service_qkey &&
        rnic->service_qkey != reply->qkey)
        return RI_ERR_ACCESS;
    return ual_device_alive(device);
}

/* Answers with the endpoint that the reply names, if any. */
static enum ri_status answer(struct ual_request *request, const struct ual_service_reply *reply,
                             struct ri_service_reply *told)
{
    struct ual_device *device = request->object.device;
    struct ual_ep_private *inside = NULL;
    enum ri_status status;

    if (reply->status == RI_SERVICE_VALID) {
        inside = hold_ep(ual_ia_of(device), reply->qpn);
        if (!inside)
            return RI_ERR_INVALID_ARGUMENT;
        told->qp = inside->ep.qp.qp;
        told->qkey = reply->qkey;
    }
    status = check_answer(device, reply);
    if (status == RI_OK)
        status = ual_conn_answer(request->connection, told);
    if (inside)
        atomic_fetch_sub(&inside->answers, 1);
    return status;
}

enum ri_status ual_service_reply(ual_handle handle, const struct ual_service_reply *reply)
{
    struct ri_service_reply told = {
        .size = sizeof(told),
        .status = reply->status,
        .private_data = reply->private_data,
        .private_data_length = reply->private_data_length,
    };
    struct ual_request *request;
    enum ri_status status;

    if (reply->private_data_length && !reply->private_data)
        return RI_ERR_INVALID_ARGUMENT;
    request = ual_request_claim(handle);
    if (!request)
        return ual_lookup_failed();
    if (!request->datagram) {
        ual_request_unclaim(request, false);
        return ITAL_ERR_INVALID_HANDLE;
    }
    status = answer(request, reply, &told);
    if (status == RI_OK)
        ual_request_consume_rejected(request); /* decided, and its connection has no further use */
    else
        ual_request_unclaim(request, status == ITAL_ERR_INVALID_HANDLE);
    return status;
}
