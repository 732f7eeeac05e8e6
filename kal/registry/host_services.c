/* SPDX-License-Identifier: BSD-3-Clause */
/* The host table for a provider: services of kal and of ual, called with ual's contexts. */
#include "registry.h"
#include "kal/cm/manager.h"

static enum ri_status host_option(const struct ri_host *host, const char *name,
                                  enum ri_option_kind kind, union ri_option_value *value)
{
    const struct kal_rnic *rnic = kal_rnic_of_host(host);
    const char *wrong;
    enum ri_status status = kal_values_read(rnic->options, name, kind, value, &wrong);

    if (wrong)
        kal_rnic_log(rnic, RI_LOG_ERROR,
                     "provider %s asks for option %s%s: install a version of it that fits",
                     rnic->provider->name, name, wrong);
    return status;
}

static void host_log(const struct ri_host *host, enum ri_log_level level, const char *format,
                     va_list args)
{
    const struct kal_rnic *rnic = kal_rnic_of_host(host);

    kal_vlog(level, rnic->interface ? rnic->interface : rnic->provider_name, format, args);
}

static enum ri_status host_pin(const struct ri_host *host, void *addr, uint64_t length,
                               bool writable)
{
    (void)writable;
    return kal_rnic_pin_own(kal_rnic_of_host(host), addr, length);
}

static void host_unpin(const struct ri_host *host, void *addr, uint64_t length)
{
    kal_rnic_unpin_own(kal_rnic_of_host(host), addr, length);
}

static enum ri_status host_policy(const struct ri_host *host,
                                  const struct ri_policy_question *question)
{
    return kal_rnic_ask_policy(kal_rnic_of_host(host), question->direction, question->local,
                               question->peer);
}

static enum ri_status host_watch(const struct ri_host *host, void *lane_context, int fd,
                                 uint32_t events, ri_ready_fn ready, void *arg,
                                 struct ri_watch **watch)
{
    return kal_rnic_of_host(host)->upper->watch(lane_context, fd, events, ready, arg, watch);
}

static enum ri_status host_rewatch(const struct ri_host *host, struct ri_watch *watch,
                                   uint32_t events)
{
    return kal_rnic_of_host(host)->upper->rewatch(watch, events);
}

static void host_unwatch(const struct ri_host *host, struct ri_watch *watch)
{
    kal_rnic_of_host(host)->upper->unwatch(watch);
}

static void host_timer_set(const struct ri_host *host, void *lane_context, struct ri_timer *timer)
{
    kal_rnic_of_host(host)->upper->timer_set(lane_context, timer);
}

static void host_timer_cancel(const struct ri_host *host, void *lane_context,
                              struct ri_timer *timer)
{
    kal_rnic_of_host(host)->upper->timer_cancel(lane_context, timer);
}

static void host_wake(const struct ri_host *host, void *lane_context)
{
    kal_rnic_of_host(host)->upper->wake(lane_context);
}

static void host_cq_event(const struct ri_host *host, void *cq_context)
{
    kal_rnic_of_host(host)->upper->cq_event(cq_context);
}

static void host_cq_error(const struct ri_host *host, void *cq_context,
                          const struct ri_event *event)
{
    kal_rnic_of_host(host)->upper->cq_error(cq_context, event);
}

static void host_qp_event(const struct ri_host *host, void *qp_context,
                          const struct ri_event *event)
{
    struct kal_rnic *rnic = kal_rnic_of_host(host);

    if (kal_cm_qp_event(rnic, qp_context, event) || rnic->upper->qp_event(qp_context, event))
        return;
    if (!atomic_exchange(&rnic->none_reported, true))
        kal_rnic_log(rnic, RI_LOG_ERROR,
                     "provider %s tells event %d of a queue pair that is not there: it is dropped",
                     rnic->provider->name, (int)event->type);
}

static void host_srq_event(const struct ri_host *host, void *srq_context,
                           const struct ri_event *event)
{
    kal_rnic_of_host(host)->upper->srq_event(srq_context, event);
}

static void host_rnic_event(const struct ri_host *host, void *rnic_context,
                            const struct ri_event *event)
{
    kal_rnic_of_host(host)->upper->rnic_event(rnic_context, event);
}

void kal_rnic_host_init(struct kal_rnic *rnic)
{
    rnic->provider_name = rnic->provider->name;
    rnic->ops = rnic->provider->ops;
    rnic->user_ops = rnic->provider->user_ops;
    rnic->host = (struct ri_host){
        .size = sizeof(rnic->host),
        .abi_major = RI_ABI_MAJOR,
        .abi_minor = RI_ABI_MINOR,
        .context = rnic,
        .option = host_option,
        .log = host_log,
        .pin = host_pin,
        .unpin = host_unpin,
        .policy = host_policy,
        .watch = host_watch,
        .rewatch = host_rewatch,
        .unwatch = host_unwatch,
        .timer_set = host_timer_set,
        .timer_cancel = host_timer_cancel,
        .wake = host_wake,
        .capture = NULL,
        .cq_event = host_cq_event,
        .cq_error = host_cq_error,
        .qp_event = host_qp_event,
        .srq_event = host_srq_event,
        .rnic_event = host_rnic_event,
        .connection_request = kal_cm_host_request,
        .connection_event = kal_cm_host_event,
    };
}
