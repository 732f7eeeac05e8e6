/* SPDX-License-Identifier: BSD-3-Clause */
/* Upcalls, traced: the host table of the provider below is that of pass_host.c with these in
 * front. A line is written before the upcall goes on. */
#include "trace.h"

static struct trace_rnic *of_host(const struct ri_host *host)
{
    return trace_rnic_of(host->context);
}

static void write_event(struct trace_rnic *rnic, const char *what, enum pass_kind kind,
                        uint64_t number, const struct ri_event *event)
{
    struct trace_line line;

    trace_begin(&line, rnic, what, kind, number);
    if (event->terminate_code)
        trace_hex(&line, "terminate", event->terminate_code);
    if (event->type == RI_EVENT_PORT_UP || event->type == RI_EVENT_PORT_DOWN ||
        event->type == RI_EVENT_GID_CHANGE || event->type == RI_EVENT_ADDRESS_CHANGE)
        trace_number(&line, "port", event->port);
    trace_text(&line, "detail", event->detail);
    trace_end_event(&line, word_of_event(event->type));
}

static void hear_cq_error(const struct ri_host *host, void *context, const struct ri_event *event)
{
    const struct pass_cq *cq = context;

    write_event(of_host(host), "cq_error", PASS_KIND_CQ, cq->number, event);
    of_host(host)->passed.cq_error(host, context, event);
}

static void hear_qp_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    struct trace_rnic *rnic = of_host(host);

    write_event(rnic, "qp_event", PASS_KIND_QP, trace_number_of(rnic, PASS_KIND_QP, context),
                event);
    rnic->passed.qp_event(host, context, event);
}

static void hear_srq_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    struct trace_rnic *rnic = of_host(host);

    write_event(rnic, "srq_event", PASS_KIND_SRQ, trace_number_of(rnic, PASS_KIND_SRQ, context),
                event);
    rnic->passed.srq_event(host, context, event);
}

static void hear_rnic_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    struct trace_rnic *rnic = of_host(host);

    write_event(rnic, "rnic_event", PASS_KIND_RNIC, 0, event);
    rnic->passed.rnic_event(host, context, event);
}

static void numbers_of(struct trace_line *line, const struct ri_connection_numbers *numbers)
{
    if (!numbers)
        return;
    trace_hex(line, "destination_qpn", numbers->destination_qpn);
    trace_hex(line, "receive_psn", numbers->receive_psn);
    trace_hex(line, "send_psn", numbers->send_psn);
    trace_number(line, "path_mtu", numbers->path_mtu);
}

static void hear_connection_event(const struct ri_host *host, void *context,
                                  const struct ri_connection_event *event)
{
    struct trace_rnic *rnic = of_host(host);
    struct trace_line line;

    trace_begin(&line, rnic, "connection_event", PASS_KIND_CONNECTION,
                trace_number_of(rnic, PASS_KIND_CONNECTION, context));
    if (event->type == RI_CONNECTION_REJECTED || event->type == RI_CONNECTION_FAILED)
        trace_text(&line, "reason", word_of_reason(event->reason));
    if (event->reject_code)
        trace_number(&line, "reject_code", event->reject_code);
    trace_number(&line, "private_data", event->private_data_length);
    if (event->depths_valid) {
        trace_number(&line, "ird", event->ird);
        trace_number(&line, "ord", event->ord);
    }
    numbers_of(&line, event->numbers);
    trace_end_event(&line, word_of_connection_event(event->type));
    rnic->passed.connection_event(host, context, event);
}

void trace_cq_event(struct pass_cq *cq)
{
    const struct ri_host *upper = cq->rnic->upper;
    struct trace_line line;

    trace_begin(&line, trace_rnic_of(cq->rnic), "cq_event", PASS_KIND_CQ, cq->number);
    trace_end_event(&line, "fired");
    upper->cq_event(upper, cq->base.context);
}

void trace_requested(struct pass_connection *connection, void *listener_context,
                     const struct ri_connect_request *request)
{
    struct trace_rnic *rnic = trace_rnic_of(connection->rnic);
    struct trace_line line;

    trace_remember(rnic, PASS_KIND_CONNECTION, connection->base.context, connection->number);
    trace_begin(&line, rnic, "connection_request", PASS_KIND_CONNECTION, connection->number);
    trace_object(&line, PASS_KIND_LISTENER,
                 trace_number_of(rnic, PASS_KIND_LISTENER, listener_context));
    trace_address(&line, "local", (const struct sockaddr *)&request->local);
    trace_address(&line, "peer", (const struct sockaddr *)&request->peer);
    trace_number(&line, "private_data", request->private_data_length);
    if (request->depths_valid) {
        trace_number(&line, "ird", request->ird);
        trace_number(&line, "ord", request->ord);
    }
    numbers_of(&line, request->numbers);
    trace_end_event(&line, request->datagram ? "datagram" : "connection");
}

void trace_hear(struct trace_rnic *rnic)
{
    struct ri_host *host = &rnic->pass.host;

    rnic->passed = *host;
    host->cq_error = hear_cq_error;
    host->qp_event = hear_qp_event;
    host->srq_event = hear_srq_event;
    host->rnic_event = hear_rnic_event;
    host->connection_event = hear_connection_event;
}
