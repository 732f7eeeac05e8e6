/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection verbs, traced. Private data is not written, only its length. */
#include "trace.h"

#define BEGIN(line, connection_, verb)                                                \
    trace_begin(&(line), trace_rnic_of(PASS_OF(connection, connection_)->rnic), verb, \
                PASS_KIND_CONNECTION, PASS_OF(connection, connection_)->number)

static void param_of(struct trace_line *line, const struct ri_connect_param *param)
{
    trace_address(line, "source", param->source);
    trace_address(line, "destination", param->destination);
    if (param->service_id)
        trace_hex(line, "service_id", param->service_id);
    trace_number(line, "private_data", param->private_data_length);
    if (param->negotiate_depths) {
        trace_number(line, "ird", param->ird);
        trace_number(line, "ord", param->ord);
    }
    if (param->three_way)
        trace_number(line, "three_way", 1);
    if (param->qpn)
        trace_hex(line, "qpn", param->qpn);
    if (param->traffic_class)
        trace_number(line, "traffic_class", param->traffic_class);
}

enum ri_status trace_connection_create(struct ri_rnic *ri, void *context,
                                       struct ri_connection **connection)
{
    struct trace_rnic *rnic = trace_rnic_of(PASS_OF(rnic, ri));
    struct trace_line line;
    enum ri_status status;

    trace_begin(&line, rnic, "connection_create", PASS_KIND_RNIC, 0);
    status = pass_connection_create(ri, context, connection);
    if (status == RI_OK) {
        uint64_t number = PASS_OF(connection, *connection)->number;

        trace_remember(rnic, PASS_KIND_CONNECTION, context, number);
        trace_object(&line, PASS_KIND_CONNECTION, number);
    }
    return trace_end(&line, status);
}

enum ri_status trace_connection_destroy(struct ri_connection *connection)
{
    struct trace_rnic *rnic = trace_rnic_of(PASS_OF(connection, connection)->rnic);
    const void *context = connection->context;
    struct trace_line line;
    enum ri_status status;

    BEGIN(line, connection, "connection_destroy");
    status = pass_connection_destroy(connection);
    if (status == RI_OK)
        trace_forget(rnic, PASS_KIND_CONNECTION, context, line.number);
    return trace_end(&line, status);
}

enum ri_status trace_resolve(struct ri_connection *connection, const struct ri_connect_param *param)
{
    struct trace_line line;

    BEGIN(line, connection, "resolve");
    param_of(&line, param);
    return trace_end(&line, pass_resolve(connection, param));
}

enum ri_status trace_listen(struct ri_rnic *ri, const struct ri_listen_param *param, void *context,
                            struct sockaddr_storage *bound, struct ri_listener **listener)
{
    struct trace_rnic *rnic = trace_rnic_of(PASS_OF(rnic, ri));
    struct trace_line line;
    enum ri_status status;

    trace_begin(&line, rnic, "listen", PASS_KIND_RNIC, 0);
    trace_address(&line, "address", param->address);
    if (param->service_id)
        trace_hex(&line, "service_id", param->service_id);
    trace_number(&line, "backlog", param->backlog);
    if (param->datagram)
        trace_number(&line, "datagram", 1);
    status = pass_listen(ri, param, context, bound, listener);
    if (status == RI_OK) {
        uint64_t number = PASS_OF(listener, *listener)->number;

        trace_remember(rnic, PASS_KIND_LISTENER, context, number);
        trace_address(&line, "bound", (const struct sockaddr *)bound);
        trace_object(&line, PASS_KIND_LISTENER, number);
    }
    return trace_end(&line, status);
}

enum ri_status trace_listen_destroy(struct ri_listener *listener)
{
    struct trace_rnic *rnic = trace_rnic_of(PASS_OF(listener, listener)->rnic);
    const void *context = listener->context;
    struct trace_line line;
    enum ri_status status;

    trace_begin(&line, rnic, "listen_destroy", PASS_KIND_LISTENER,
                PASS_OF(listener, listener)->number);
    status = pass_listen_destroy(listener);
    if (status == RI_OK)
        trace_forget(rnic, PASS_KIND_LISTENER, context, line.number);
    return trace_end(&line, status);
}

enum ri_status trace_connect(struct ri_connection *connection, struct ri_qp *qp,
                             const struct ri_connect_param *param)
{
    struct trace_line line;

    BEGIN(line, connection, "connect");
    if (qp)
        trace_object(&line, PASS_KIND_QP, PASS_OF(qp, qp)->number);
    param_of(&line, param);
    return trace_end(&line, pass_connect(connection, qp, param));
}

enum ri_status trace_accept(struct ri_connection *connection, struct ri_qp *qp,
                            const struct ri_connect_param *param)
{
    struct trace_line line;

    BEGIN(line, connection, "accept");
    if (qp)
        trace_object(&line, PASS_KIND_QP, PASS_OF(qp, qp)->number);
    param_of(&line, param);
    return trace_end(&line, pass_accept(connection, qp, param));
}

enum ri_status trace_confirm(struct ri_connection *connection, const struct ri_connect_param *param)
{
    struct trace_line line;

    BEGIN(line, connection, "confirm");
    param_of(&line, param);
    return trace_end(&line, pass_confirm(connection, param));
}

enum ri_status trace_reject(struct ri_connection *connection, const void *private_data,
                            uint16_t private_data_length)
{
    struct trace_line line;

    BEGIN(line, connection, "reject");
    trace_number(&line, "private_data", private_data_length);
    return trace_end(&line, pass_reject(connection, private_data, private_data_length));
}

enum ri_status trace_disconnect(struct ri_connection *connection, const void *private_data,
                                uint16_t private_data_length)
{
    struct trace_line line;

    BEGIN(line, connection, "disconnect");
    trace_number(&line, "private_data", private_data_length);
    return trace_end(&line, pass_disconnect(connection, private_data, private_data_length));
}

enum ri_status trace_service_request(struct ri_connection *connection,
                                     const struct ri_connect_param *param)
{
    struct trace_line line;

    BEGIN(line, connection, "service_request");
    param_of(&line, param);
    return trace_end(&line, pass_service_request(connection, param));
}

enum ri_status trace_service_reply(struct ri_connection *connection,
                                   const struct ri_service_reply *reply)
{
    struct trace_line line;

    BEGIN(line, connection, "service_reply");
    trace_number(&line, "status", reply->status);
    if (reply->qp)
        trace_object(&line, PASS_KIND_QP, PASS_OF(qp, reply->qp)->number);
    trace_number(&line, "private_data", reply->private_data_length);
    return trace_end(&line, pass_service_reply(connection, reply));
}
