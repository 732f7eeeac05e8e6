/* SPDX-License-Identifier: BSD-3-Clause */
/* The host table that the provider below a filter calls. */
#include "pass.h"

#include <stdlib.h>

static struct pass_rnic *of_host(const struct ri_host *host)
{
    return host->context;
}

static const struct ri_host *upper_of(const struct ri_host *host)
{
    return of_host(host)->upper;
}

static enum ri_status pass_option(const struct ri_host *host, const char *name,
                                  enum ri_option_kind kind, union ri_option_value *value)
{
    const struct ri_host *upper = upper_of(host);

    return upper->option(upper, name, kind, value);
}

static void pass_log(const struct ri_host *host, enum ri_log_level level, const char *format,
                     va_list args)
{
    const struct ri_host *upper = upper_of(host);

    upper->log(upper, level, format, args);
}

static enum ri_status pass_pin(const struct ri_host *host, void *addr, uint64_t length,
                               bool writable)
{
    const struct ri_host *upper = upper_of(host);

    return upper->pin(upper, addr, length, writable);
}

static void pass_unpin(const struct ri_host *host, void *addr, uint64_t length)
{
    const struct ri_host *upper = upper_of(host);

    upper->unpin(upper, addr, length);
}

static enum ri_status pass_policy(const struct ri_host *host,
                                  const struct ri_policy_question *question)
{
    const struct ri_host *upper = upper_of(host);

    return upper->policy(upper, question);
}

static enum ri_status pass_watch(const struct ri_host *host, void *lane_context, int fd,
                                 uint32_t events, ri_ready_fn ready, void *arg,
                                 struct ri_watch **watch)
{
    const struct ri_host *upper = upper_of(host);

    return upper->watch(upper, lane_context, fd, events, ready, arg, watch);
}

static enum ri_status pass_rewatch(const struct ri_host *host, struct ri_watch *watch,
                                   uint32_t events)
{
    const struct ri_host *upper = upper_of(host);

    return upper->rewatch(upper, watch, events);
}

static void pass_unwatch(const struct ri_host *host, struct ri_watch *watch)
{
    const struct ri_host *upper = upper_of(host);

    upper->unwatch(upper, watch);
}

static void pass_timer_set(const struct ri_host *host, void *lane_context, struct ri_timer *timer)
{
    const struct ri_host *upper = upper_of(host);

    upper->timer_set(upper, lane_context, timer);
}

static void pass_timer_cancel(const struct ri_host *host, void *lane_context,
                              struct ri_timer *timer)
{
    const struct ri_host *upper = upper_of(host);

    upper->timer_cancel(upper, lane_context, timer);
}

static void pass_wake(const struct ri_host *host, void *lane_context)
{
    const struct ri_host *upper = upper_of(host);

    upper->wake(upper, lane_context);
}

static void pass_capture(const struct ri_host *host, uint64_t token, enum ri_direction direction,
                         const struct iovec *iov, int iov_count)
{
    const struct ri_host *upper = upper_of(host);

    upper->capture(upper, token, direction, iov, iov_count);
}

static void pass_cq_event(const struct ri_host *host, void *cq_context)
{
    const struct pass_rnic *rnic = of_host(host);
    struct pass_cq *cq = cq_context;

    if (rnic->filter->cq_event)
        rnic->filter->cq_event(cq);
    else
        rnic->upper->cq_event(rnic->upper, cq->base.context);
}

static void pass_cq_error(const struct ri_host *host, void *cq_context,
                          const struct ri_event *event)
{
    const struct ri_host *upper = upper_of(host);
    const struct pass_cq *cq = cq_context;

    upper->cq_error(upper, cq->base.context, event);
}

static void pass_qp_event(const struct ri_host *host, void *qp_context,
                          const struct ri_event *event)
{
    const struct ri_host *upper = upper_of(host);

    upper->qp_event(upper, qp_context, event);
}

static void pass_srq_event(const struct ri_host *host, void *srq_context,
                           const struct ri_event *event)
{
    const struct ri_host *upper = upper_of(host);

    upper->srq_event(upper, srq_context, event);
}

static void pass_rnic_event(const struct ri_host *host, void *rnic_context,
                            const struct ri_event *event)
{
    const struct ri_host *upper = upper_of(host);

    upper->rnic_event(upper, rnic_context, event);
}

/* The connection of a request has no context yet, and gets its wrapper here. */
static void pass_connection_request(const struct ri_host *host, void *listener_context,
                                    struct ri_connection *connection,
                                    const struct ri_connect_request *request,
                                    void **connection_context)
{
    struct pass_rnic *rnic = of_host(host);
    struct pass_connection *made = calloc(1, sizeof(*made));

    *connection_context = NULL;
    if (!made)
        return;
    made->rnic = rnic;
    made->below = connection;
    made->base.ops = rnic->base.ops;
    made->number = pass_number(rnic, PASS_KIND_CONNECTION);
    rnic->upper->connection_request(rnic->upper, listener_context, &made->base, request,
                                    connection_context);
    if (!*connection_context) {
        free(made);
        return;
    }
    made->base.context = *connection_context;
    if (rnic->filter->requested)
        rnic->filter->requested(made, listener_context, request);
}

static void pass_connection_event(const struct ri_host *host, void *connection_context,
                                  const struct ri_connection_event *event)
{
    const struct ri_host *upper = upper_of(host);

    upper->connection_event(upper, connection_context, event);
}

void pass_host_init(struct pass_rnic *rnic)
{
    rnic->host = (struct ri_host){
        .size = sizeof(rnic->host),
        .abi_major = RI_ABI_MAJOR,
        .abi_minor = RI_ABI_MINOR,
        .context = rnic,
        .option = pass_option,
        .log = pass_log,
        .pin = pass_pin,
        .unpin = pass_unpin,
        .policy = pass_policy,
        .watch = pass_watch,
        .rewatch = pass_rewatch,
        .unwatch = pass_unwatch,
        .timer_set = pass_timer_set,
        .timer_cancel = pass_timer_cancel,
        .wake = pass_wake,
        .capture = rnic->upper->capture ? pass_capture : NULL,
        .cq_event = pass_cq_event,
        .cq_error = pass_cq_error,
        .qp_event = pass_qp_event,
        .srq_event = pass_srq_event,
        .rnic_event = pass_rnic_event,
        .connection_request = pass_connection_request,
        .connection_event = pass_connection_event,
    };
}
