/* SPDX-License-Identifier: BSD-3-Clause */
/* kal's upper side for tests: see fake_upper.h. */
#include "fake_upper.h"

struct fake_upper_seen fake_upper_seen;

static enum ri_status upper_watch(void *lane_context, int fd, uint32_t events, ri_ready_fn ready,
                                  void *arg, struct ri_watch **watch)
{
    return fake_lane_watch(lane_context, fd, events, ready, arg, watch);
}

static void upper_timer_set(void *lane_context, struct ri_timer *timer)
{
    fake_lane_timer_set(lane_context, timer);
}

static void upper_timer_cancel(void *lane_context, struct ri_timer *timer)
{
    fake_lane_timer_cancel(lane_context, timer);
}

static void upper_wake(void *lane_context)
{
    fake_lane_wake(lane_context);
}

static void upper_cq_event(void *context)
{
    fake_upper_seen.cq = context;
    fake_upper_seen.cq_count++;
}

static void upper_cq_error(void *context, const struct ri_event *event)
{
    (void)event;
    fake_upper_seen.cq_error = context;
    fake_upper_seen.cq_error_count++;
}

static bool upper_qp_event(void *context, const struct ri_event *event)
{
    (void)event;
    fake_upper_seen.qp = context;
    fake_upper_seen.qp_count++;
    return true;
}

static void upper_srq_event(void *context, const struct ri_event *event)
{
    (void)event;
    fake_upper_seen.srq = context;
    fake_upper_seen.srq_count++;
}

static void upper_rnic_event(void *context, const struct ri_event *event)
{
    fake_upper_seen.rnic = context;
    fake_upper_seen.rnic_port = event->port;
    if (event->type == RI_EVENT_ADDRESS_CHANGE) {
        fake_upper_seen.address_count++;
        return;
    }
    fake_upper_seen.rnic_count++;
    fake_upper_seen.rnic_type = event->type;
}

static void upper_request(void *listener_context, struct kal_connection *connection,
                          const struct ri_connect_request *request, void **connection_context)
{
    FAKE_CHECK(fake_upper_seen.request);
    fake_upper_seen.request(listener_context, connection, request, connection_context);
}

static void upper_event(void *connection_context, const struct ri_connection_event *event)
{
    FAKE_CHECK(fake_upper_seen.event);
    fake_upper_seen.event(connection_context, event);
}

const struct kal_upper fake_upper = {
    .watch = upper_watch,
    .rewatch = fake_lane_rewatch,
    .unwatch = fake_lane_unwatch,
    .timer_set = upper_timer_set,
    .timer_cancel = upper_timer_cancel,
    .wake = upper_wake,
    .cq_event = upper_cq_event,
    .cq_error = upper_cq_error,
    .qp_event = upper_qp_event,
    .srq_event = upper_srq_event,
    .rnic_event = upper_rnic_event,
    .connection_request = upper_request,
    .connection_event = upper_event,
};
