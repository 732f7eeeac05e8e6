/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connection requests, as the consumer sees them.
 *
 * A request lives from the upcall that shows it until it is accepted (then its connection is the
 * endpoint's), rejected, or withdrawn by its peer. Its handle is the consumer's identifier and
 * works once. A peer may withdraw while a thread of the consumer decides. So, unlike other objects,
 * a request may go although the consumer does not free it. Everything happens under one lock; a
 * decision takes it only to claim the request. A connection cannot be freed inside an upcall about
 * it, so a withdrawn request is marked, and the reaper destroys it: a timer that the lane runs
 * right afterwards.
 */
#include "connect.h"

#include "base/clock.h"
#include "base/compiler.h"

#include <stdlib.h>
#include <utlist.h>

/* Guards the list of every IA and the changing fields of every request. Taken in upcalls, with no
 * other lock held; above the queues of EVDs, the timers and the handle table; never held across a
 * call of kal. */
static pthread_mutex_t requests_lock = PTHREAD_MUTEX_INITIALIZER;

void ual_request_fork_lock(void)
{
    pthread_mutex_lock(&requests_lock);
}

void ual_request_fork_unlock(void)
{
    pthread_mutex_unlock(&requests_lock);
}

/* --- life --- */

static void destroy_request(struct ual_request *request)
{
    if (request->connection)
        ual_conn_free(request->connection);
    free(request);
}

/* Ends the handle; the reaper destroys the request. Under requests_lock. */
static void withdraw(struct ual_request *request)
{
    struct ual_ia *ia = ual_ia_of(request->object.device);

    if (request->withdrawn)
        return;
    request->withdrawn = true;
    ual_handle_drop(&request->object);
    if (request->claimed || ia->reaper_set)
        return;
    ia->reaper_set = true;
    ia->reaper.deadline = clock_now();
    ual_lane_timer_set(ual_ia_lane(ia), &ia->reaper);
}

void ual_request_reap(struct ri_timer *timer)
{
    struct ual_ia *ia = container_of(timer, struct ual_ia, reaper);
    struct ual_request *request, *next, *dead = NULL;

    pthread_mutex_lock(&requests_lock);
    ia->reaper_set = false;
    DL_FOREACH_SAFE (ia->requests, request, next) {
        if (!request->withdrawn || request->claimed)
            continue;
        DL_DELETE(ia->requests, request);
        DL_APPEND(dead, request);
    }
    pthread_mutex_unlock(&requests_lock);
    DL_FOREACH_SAFE (dead, request, next)
        destroy_request(request);
}

void ual_request_destroy_all(struct ual_ia *ia)
{
    struct ual_request *request;

    do {
        pthread_mutex_lock(&requests_lock);
        request = ia->requests;
        if (request) {
            DL_DELETE(ia->requests, request);
            if (!request->withdrawn)
                ual_handle_drop(&request->object);
        }
        pthread_mutex_unlock(&requests_lock);
        if (request)
            destroy_request(request);
    } while (request);
}

/* The peer gave up before a decision. */
static void request_event(void *context, const struct ri_connection_event *event)
{
    (void)event;
    pthread_mutex_lock(&requests_lock);
    withdraw(context);
    pthread_mutex_unlock(&requests_lock);
}

static const struct ual_conn_upcalls request_upcalls = { .event = request_event };

struct ual_request *ual_request_new(struct ual_conn *connection,
                                    const struct ri_connect_request *asked)
{
    struct ual_request *request = calloc(1, sizeof(*request));

    if (!request)
        return NULL;
    request->connection = connection;
    request->datagram = asked->datagram;
    request->ends = (struct ual_ends){ address_keep(&asked->local), address_keep(&asked->peer) };
    return request;
}

bool ual_request_show(struct ual_request *request, struct ual_evd *evd, struct node *event)
{
    struct ual_ia *ia = ual_ia_of(request->object.device);
    bool shown;

    ual_conn_migrate(request->connection, &request_upcalls, request);
    pthread_mutex_lock(&requests_lock);
    DL_APPEND(ia->requests, request);
    shown = ual_evd_push_node(evd, event); /* the consumer may decide from here on */
    if (!shown) {
        DL_DELETE(ia->requests, request);
        ual_handle_drop(&request->object);
    }
    pthread_mutex_unlock(&requests_lock);
    return shown;
}

/* --- decisions --- */

struct ual_request *ual_request_claim(ual_handle handle)
{
    struct ual_request *request;

    pthread_mutex_lock(&requests_lock);
    request = ual_lookup(handle, UAL_REQUEST);
    if (request && request->claimed)
        request = NULL;
    if (request)
        request->claimed = true;
    pthread_mutex_unlock(&requests_lock);
    return request;
}

void ual_request_unclaim(struct ual_request *request, bool gone)
{
    bool dead;

    pthread_mutex_lock(&requests_lock);
    if (gone)
        withdraw(request);
    dead = request->withdrawn;
    request->claimed = false;
    if (dead && !request->arrival)
        DL_DELETE(ual_ia_of(request->object.device)->requests, request);
    pthread_mutex_unlock(&requests_lock);
    if (dead)
        destroy_request(request);
}

bool ual_request_hand_over(struct ual_request *request, const struct ual_conn_upcalls *upcalls,
                           struct ual_ep *ep)
{
    bool valid;

    ual_conn_migrate(request->connection, upcalls, ep);
    pthread_mutex_lock(&requests_lock);
    valid = !request->withdrawn;
    pthread_mutex_unlock(&requests_lock);
    return valid;
}

void ual_request_take_back(struct ual_request *request)
{
    ual_conn_migrate(request->connection, &request_upcalls, request);
}

static void consume(struct ual_request *request)
{
    pthread_mutex_lock(&requests_lock);
    if (!request->withdrawn)
        ual_handle_drop(&request->object);
    if (!request->arrival)
        DL_DELETE(ual_ia_of(request->object.device)->requests, request);
    pthread_mutex_unlock(&requests_lock);
}

void ual_request_consume_accepted(struct ual_request *request)
{
    consume(request);
    free(request);
}

void ual_request_consume_rejected(struct ual_request *request)
{
    consume(request);
    destroy_request(request);
}

void ual_request_consume_arrival(struct ual_request *request)
{
    consume(request);
    free(request);
}

/* --- the peer's accept (three-way) --- */

struct ual_request *ual_request_arrival(struct ual_ep *ep)
{
    struct ual_request *request = calloc(1, sizeof(*request));

    if (!request)
        return NULL;
    request->arrival = true;
    request->negotiate = true;
    request->ep = ep;
    if (ual_handle_take(&request->object, UAL_REQUEST, ual_ep_device(ep)) == RI_OK)
        return request;
    free(request);
    return NULL;
}

/* If a thread has claimed it that thread frees it. */
void ual_request_forget_arrival(struct ual_request *request)
{
    bool claimed;

    if (!request)
        return;
    pthread_mutex_lock(&requests_lock);
    request->withdrawn = true;
    ual_handle_drop(&request->object);
    claimed = request->claimed;
    pthread_mutex_unlock(&requests_lock);
    if (!claimed)
        free(request);
}

static struct ual_device *ia_of_request(ual_handle handle, bool datagram)
{
    struct ual_request *request;
    struct ual_device *device;

    pthread_mutex_lock(&requests_lock);
    request = ual_lookup(handle, UAL_REQUEST);
    device = request && request->datagram == datagram ? request->object.device : NULL;
    pthread_mutex_unlock(&requests_lock);
    return device;
}

struct ual_device *ual_request_ia(ual_handle handle)
{
    return ia_of_request(handle, false);
}

struct ual_device *ual_service_request_ia(ual_handle handle)
{
    return ia_of_request(handle, true);
}
