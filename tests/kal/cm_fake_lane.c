/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection manager's tests: runs their lanes, and records the upcalls about connections. */
#include "cm_fake_private.h"

#include "base/clock.h"

#include <poll.h>

void fake_pump(int fd, short events, uint64_t deadline)
{
    struct fake_lane *lanes[2] = { fake.lane, fake.lane2 };
    struct pollfd p[3] = { { .fd = fd, .events = events } };
    uint64_t until = deadline;

    for (int i = 0; i < 2; i++) {
        uint64_t next = lanes[i]->threaded ? CLOCK_NEVER : fake_lane_next_timer(lanes[i]);

        p[i + 1].fd = lanes[i]->threaded ? -1 : lanes[i]->epoll;
        p[i + 1].events = POLLIN;
        if (next < until)
            until = next;
    }
    if ((lanes[0]->threaded || lanes[1]->threaded) &&
        until > clock_after(clock_now(), CLOCK_NS_PER_MS))
        until = clock_after(clock_now(), CLOCK_NS_PER_MS); /* poll does not see it */
    poll(p, 3, clock_poll_ms(clock_now(), until));
    for (int i = 0; i < 2; i++)
        if (!lanes[i]->threaded)
            fake_lane_run(lanes[i]);
}

void fake_on_request(void *listener_context, struct kal_connection *connection,
                     const struct ri_connect_request *request, void **connection_context)
{
    struct fake_request *r;
    struct fake_connection *c;

    pthread_mutex_lock(&fake.lock);
    r = &fake.requests[fake.request_count % FAKE_REQUESTS];
    c = &fake.pool[fake.request_count % FAKE_REQUESTS];
    memset(r, 0, sizeof(*r));
    memset(c, 0, sizeof(*c));
    c->connection = connection;
    r->context = c;
    r->listener = listener_context;
    r->request = *request;
    ck_assert(!request->private_data_length == !request->private_data);
    if (request->private_data_length)
        memcpy(r->private_data, request->private_data, request->private_data_length);
    *connection_context = c;
    fake.request_count++;
    pthread_mutex_unlock(&fake.lock);
    if (fake.on_request)
        fake.on_request(r);
}

void fake_on_event(void *connection_context, const struct ri_connection_event *event)
{
    struct fake_connection *c = connection_context;
    struct kal_connection *destroy = NULL, *other;

    pthread_mutex_lock(&fake.lock);
    c->events++;
    c->last = *event;
    ck_assert(!event->private_data_length == !event->private_data);
    if (event->private_data_length)
        memcpy(c->private_data, event->private_data, event->private_data_length);
    if (c->destroy_in_upcall) {
        destroy = c->connection;
        c->connection = NULL;
    }
    other = c->destroy_other;
    c->destroy_other = NULL;
    pthread_mutex_unlock(&fake.lock);
    if (destroy)
        kal_connection_destroy(destroy);
    if (other)
        kal_connection_destroy(other);
}
