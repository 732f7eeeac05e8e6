/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Listen points and connection requests.
 *
 * A request lives from the upcall that shows it until it is accepted (then it is the endpoint's, as the context of its
 * connection's events), rejected, or withdrawn by its peer. Its handle is the consumer's identifier and
 * works once. A peer may withdraw while a thread of the consumer decides, so requests, unlike other objects, are not
 * safe to use just because the consumer does not free them: everything happens under one lock, of which a decision needs
 * only the moment to claim the request. A connection cannot be destroyed from inside an upcall about it, so a
 * request that is withdrawn is marked and destroyed by the reaper, a timer that the lane runs right afterwards.
 *
 * A request for which the EVD has no room goes back to kal, which shows it again when one was dequeued: a burst larger than the
 * EVD is not lost.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "connect.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct ual_listen {
    struct ual_object object;
    struct ual_evd *evd;
    struct kal_listener *listener, *datagrams; /* either may be NULL */
    struct sockaddr_storage bound;
    uint64_t service_id; /* 0: by port */
    uint32_t port;
    bool negotiate;
    struct ual_listen *prev, *next; /* of the IA */
};

/* Guards the list of every IA and the changing fields of every request. Taken in upcalls, with no other lock held; above
 * the queues of EVDs, the timers and the handle table; never held across a call of kal. */
static pthread_mutex_t requests_lock = PTHREAD_MUTEX_INITIALIZER;

void ual_request_fork_lock(void)
{
    pthread_mutex_lock(&requests_lock);
}

void ual_request_fork_unlock(void)
{
    pthread_mutex_unlock(&requests_lock);
}

/* --- requests: life --- */

static void free_request(struct ual_request *request)
{
    if (request)
        free(request->ends);
    free(request);
}

static struct ual_request *new_request(const struct ri_connect_request *asked)
{
    struct ual_request *request = calloc(1, sizeof(*request));

    if (request)
        request->ends = malloc(sizeof(*request->ends));
    if (!request || !request->ends) {
        free(request);
        return NULL;
    }
    request->datagram = asked->datagram;
    *request->ends = (struct ual_ends){ address_keep(&asked->local), address_keep(&asked->peer) };
    return request;
}

static void destroy_request(struct ual_request *request)
{
    if (request->connection)
        kal_connection_destroy(request->connection);
    free_request(request);
}

/* The handle is dead; the reaper does the rest. Under requests_lock. */
static void withdraw(struct ual_request *request)
{
    struct ual_device *device = request->object.device;

    if (request->withdrawn)
        return;
    request->withdrawn = true;
    ual_handle_drop(&request->object);
    if (request->claimed || device->reaper_set)
        return;
    device->reaper_set = true;
    device->reaper.deadline = clock_now();
    ual_lane_timer_set(device->lane, &device->reaper);
}

void ual_request_reap(struct ri_timer *timer)
{
    struct ual_device *device = (struct ual_device *)((char *)timer - offsetof(struct ual_device, reaper));
    struct ual_request *request, *next, *dead = NULL;

    pthread_mutex_lock(&requests_lock);
    device->reaper_set = false;
    DL_FOREACH_SAFE (device->requests, request, next) {
        if (!request->withdrawn || request->claimed)
            continue;
        DL_DELETE(device->requests, request);
        DL_APPEND(dead, request);
    }
    pthread_mutex_unlock(&requests_lock);
    DL_FOREACH_SAFE (dead, request, next)
        destroy_request(request);
}

void ual_request_destroy_all(struct ual_device *device)
{
    struct ual_request *request;

    do {
        pthread_mutex_lock(&requests_lock);
        request = device->requests;
        if (request) {
            DL_DELETE(device->requests, request);
            if (!request->withdrawn)
                ual_handle_drop(&request->object);
        }
        pthread_mutex_unlock(&requests_lock);
        if (request)
            destroy_request(request);
    } while (request);
}

/* --- requests: decisions --- */

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
        DL_DELETE(request->object.device->requests, request);
    pthread_mutex_unlock(&requests_lock);
    if (dead)
        destroy_request(request);
}

bool ual_request_attach(struct ual_request *request, struct ual_ep *ep)
{
    bool valid;

    pthread_mutex_lock(&requests_lock);
    valid = !request->withdrawn;
    request->ep = valid ? ep : NULL;
    pthread_mutex_unlock(&requests_lock);
    return valid;
}

struct ual_ep *ual_request_route(struct ual_request *request)
{
    struct ual_ep *ep;

    pthread_mutex_lock(&requests_lock);
    ep = request->ep;
    if (!ep)
        withdraw(request);
    pthread_mutex_unlock(&requests_lock);
    return ep;
}

static void consume(struct ual_request *request)
{
    pthread_mutex_lock(&requests_lock);
    if (!request->withdrawn)
        ual_handle_drop(&request->object);
    if (!request->arrival)
        DL_DELETE(request->object.device->requests, request);
    pthread_mutex_unlock(&requests_lock);
}

void ual_request_consume_accepted(struct ual_request *request)
{
    consume(request);
    free(request->ends);
    request->ends = NULL;
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
    if (ual_handle_take(&request->object, UAL_REQUEST, ep->object.device) == UAL_OK)
        return request;
    free(request);
    return NULL;
}

/* A thread that has claimed it frees it instead. */
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

/* --- arrival of a request --- */

static void fill_event(struct ual_event *event, const struct ual_listen *listen,
                       const struct ri_connect_request *asked, ual_handle request)
{
    struct ual_request_event *r = &event->request;

    *event = (struct ual_event){ .stream = UAL_STREAM_REQUEST };
    r->request = request;
    r->listen = listen->object.handle;
    r->datagram = asked->datagram;
    r->peer = asked->peer;
    r->local = asked->local;
    r->port = asked->port;
    r->depths_valid = asked->depths_valid && listen->negotiate;
    if (r->depths_valid) {
        r->ird = asked->ird;
        r->ord = asked->ord;
    }
    if (!asked->private_data)
        return;
    r->private_data_length = asked->private_data_length < UAL_PRIVATE_DATA_MAX
                                 ? asked->private_data_length
                                 : UAL_PRIVATE_DATA_MAX;
    memcpy(r->private_data, asked->private_data, r->private_data_length);
}

/* False: the EVD is full, and nobody has seen the request. */
static bool show(struct ual_listen *listen, struct ual_request *request, struct node *event)
{
    struct ual_device *device = listen->object.device;
    bool shown;

    pthread_mutex_lock(&requests_lock);
    DL_APPEND(device->requests, request);
    shown = ual_evd_push_node(listen->evd, event); /* the consumer may decide from here on */
    if (!shown) {
        DL_DELETE(device->requests, request);
        ual_handle_drop(&request->object);
    }
    pthread_mutex_unlock(&requests_lock);
    return shown;
}

/* The request gets its handle, and the event that will tell of it. NO_RESOURCES: out of either; ABORTED: the IA is being closed. */
static enum ual_status make_event(struct ual_listen *listen, const struct ri_connect_request *asked,
                                  struct ual_request *request, struct node **node)
{
    struct ual_event event;
    enum ual_status status = ual_handle_take(&request->object, UAL_REQUEST, listen->object.device);

    if (status != UAL_OK)
        return status;
    fill_event(&event, listen, asked, request->object.handle);
    *node = ual_evd_node(listen->evd, &event);
    if (*node)
        return UAL_OK;
    ual_handle_drop(&request->object);
    return UAL_ERR_NO_RESOURCES;
}

void ual_listen_connection_request(void *listener_context, struct kal_connection *connection,
                                   const struct ri_connect_request *asked,
                                   void **connection_context)
{
    struct ual_listen *listen = listener_context;
    struct ual_request *request = new_request(asked);
    struct node *event;
    enum ual_status status = request ? make_event(listen, asked, request, &event)
                                     : UAL_ERR_NO_RESOURCES;

    if (status != UAL_OK) {
        /* Nothing to remember it by: the one case where the connection has to go at once. */
        if (status != UAL_ERR_ABORTED)
            kal_log(RI_LOG_ERROR, "%s: a connection request is dropped: out of memory or handles",
                    listen->object.device->name);
        free_request(request);
        kal_connection_destroy(connection);
        return;
    }
    request->connection = connection;
    request->negotiate = listen->negotiate;
    *connection_context = request;
    if (show(listen, request, event))
        return;
    *connection_context = NULL;
    kal_defer(connection);
    free_request(request);
}

static void make_room(struct ual_listen *listen)
{
    if (listen->listener)
        kal_listen_room(listen->listener);
    if (listen->datagrams)
        kal_listen_room(listen->datagrams);
}

/* Under the lock: a listen point leaves the list before its listeners go. */
static void tell_of_room(struct ual_evd *evd)
{
    struct ual_device *device = ((struct ual_object *)evd)->device;
    struct ual_listen *listen;

    pthread_mutex_lock(&device->lock);
    DL_FOREACH (device->listens, listen)
        if (listen->evd == evd)
            make_room(listen);
    pthread_mutex_unlock(&device->lock);
}

/* --- listen points --- */

static enum ual_status check_listen(const struct ual_device *device, uint32_t port, struct ual_evd *evd,
                                    const struct sockaddr *address)
{
    if (!address || port >= ual_device_attr(device)->ports || ual_evd_stream(evd) != UAL_STREAM_REQUEST ||
        ((struct ual_object *)evd)->device != device)
        return UAL_ERR_INVALID_ARGUMENT;
    return ual_device_alive(device);
}

static enum ual_status listen_for(struct ual_listen *listen, const struct sockaddr *address,
                                  bool datagram, struct sockaddr_storage *bound,
                                  struct kal_listener **listener)
{
    struct ual_device *device = listen->object.device;
    struct ri_listen_param param = {
        .size = sizeof(param),
        .address = address,
        .service_id = listen->service_id,
        .port = listen->port,
        .backlog = ual_evd_size(listen->evd),
        .datagram = datagram,
    };

    return ual_status_of_kal(kal_listen(device->rnic, device->lane, &param, listen, bound, listener));
}

static union address on_port_of(const struct sockaddr *address,
                                const struct sockaddr_storage *bound)
{
    const union address got = address_keep(bound);
    union address where;

    address_set(&where, address);
    if (where.any.sa_family == AF_INET6)
        where.six.sin6_port = got.any.sa_family == AF_INET6 ? got.six.sin6_port : got.four.sin_port;
    else
        where.four.sin_port = got.any.sa_family == AF_INET6 ? got.six.sin6_port : got.four.sin_port;
    return where;
}

/* One number for both kinds, which have name spaces of their own. A service ID may be of one kind only. */
static enum ual_status start_listen(struct ual_listen *listen, const struct sockaddr *address)
{
    struct ual_device *device = listen->object.device;
    bool both = ual_device_attr(device)->features & RI_FEATURE_UD;
    enum ual_status status = listen_for(listen, address, false, &listen->bound, &listen->listener);
    enum ual_status datagrams;
    struct sockaddr_storage other;
    union address where;

    if (!both || (status != UAL_OK && status != UAL_ERR_NOT_SUPPORTED))
        return status;
    if (status == UAL_OK)
        where = on_port_of(address, &listen->bound);
    else
        address_set(&where, address);
    datagrams = listen_for(listen, &where.any, true, &other, &listen->datagrams);
    if (datagrams == UAL_ERR_NOT_SUPPORTED)
        return status;
    if (datagrams == UAL_OK && status != UAL_OK)
        listen->bound = other;
    return datagrams;
}

static void stop_listen(struct ual_listen *listen)
{
    if (listen->listener)
        kal_listen_destroy(listen->listener);
    if (listen->datagrams)
        kal_listen_destroy(listen->datagrams);
}

static enum ual_status create(struct ual_device *device, uint32_t port, struct ual_evd *evd,
                              const struct sockaddr *address, uint64_t service_id,
                              bool negotiate_depths, struct ual_listen **out)
{
    enum ual_status status = check_listen(device, port, evd, address);
    struct ual_listen *listen;

    if (status != UAL_OK)
        return status;
    listen = calloc(1, sizeof(*listen));
    if (!listen)
        return UAL_ERR_NO_RESOURCES;
    listen->evd = evd;
    listen->port = port;
    listen->service_id = service_id;
    listen->negotiate = negotiate_depths;
    status = ual_handle_take(&listen->object, UAL_LISTEN, device);
    if (status != UAL_OK)
        goto free_listen;
    ual_evd_bind(evd, 0);
    ual_evd_tell_of_room(evd, tell_of_room);
    status = start_listen(listen, address);
    if (status != UAL_OK)
        goto unbind;
    pthread_mutex_lock(&device->lock);
    DL_APPEND(device->listens, listen);
    make_room(listen); /* made before it was in the list */
    pthread_mutex_unlock(&device->lock);
    *out = listen;
    return UAL_OK;
unbind:
    stop_listen(listen); /* one of the two may run */
    ual_evd_unbind(evd, 0);
    ual_handle_drop(&listen->object);
free_listen:
    free(listen);
    return status;
}

enum ual_status ual_listen_create(struct ual_device *device, uint32_t port, struct ual_evd *evd,
                                  const struct sockaddr *address, bool negotiate_depths,
                                  struct sockaddr_storage *bound, struct ual_listen **out)
{
    enum ual_status status = create(device, port, evd, address, 0, negotiate_depths, out);

    if (status == UAL_OK && bound)
        *bound = (*out)->bound;
    return status;
}

enum ual_status ual_listen_create_service(struct ual_device *device, uint32_t port, struct ual_evd *evd,
                                          uint64_t service_id, bool negotiate_depths,
                                          struct ual_listen **out)
{
    struct sockaddr_in6 any = { .sin6_family = AF_INET6 };

    if (!service_id)
        return UAL_ERR_INVALID_ARGUMENT;
    return create(device, port, evd, (const struct sockaddr *)&any, service_id, negotiate_depths, out);
}

uint64_t ual_listen_service_id(const struct ual_listen *listen)
{
    return listen->service_id;
}

/* Undecided requests, and their events, outlive the listen point. */
enum ual_status ual_listen_free(struct ual_listen *listen)
{
    struct ual_device *device = listen->object.device;

    pthread_mutex_lock(&device->lock);
    DL_DELETE(device->listens, listen);
    pthread_mutex_unlock(&device->lock);
    stop_listen(listen);
    ual_handle_drop(&listen->object);
    ual_evd_unbind(listen->evd, 0);
    free(listen);
    return UAL_OK;
}

void ual_listen_query(const struct ual_listen *listen, struct sockaddr_storage *bound,
                      ual_handle *evd, uint32_t *port)
{
    if (bound)
        *bound = listen->bound;
    if (evd)
        *evd = ual_handle_of(listen->evd);
    if (port)
        *port = listen->port;
}
