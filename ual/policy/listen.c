/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Listen points.
 *
 * kal keeps a request for which the EVD has no room, and shows it again after a dequeue: a burst
 * that is larger than the EVD is not lost.
 */
#include "connect.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct ual_listen {
    struct ual_object object;
    struct ual_evd *evd;
    struct ual_conn *listener, *datagrams; /* either may be NULL */
    struct sockaddr_storage bound;
    uint64_t service_id; /* 0: by port */
    uint32_t port;
    bool negotiate;
    unsigned int users;             /* threads that hand a request to it; under the IA's lock */
    struct ual_listen *prev, *next; /* of the IA */
};

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

/* Gives the request its handle, and makes its event. RI_ERR_NO_RESOURCES: no handle or memory;
 * ITAL_ERR_ABORTED: the IA is being closed. */
static enum ri_status make_event(struct ual_listen *listen, const struct ri_connect_request *asked,
                                 struct ual_request *request, struct node **node)
{
    struct ual_event event;
    enum ri_status status = ual_handle_take(&request->object, UAL_REQUEST, listen->object.device);

    if (status != RI_OK)
        return status;
    fill_event(&event, listen, asked, request->object.handle);
    *node = ual_evd_node(listen->evd, &event);
    if (*node)
        return RI_OK;
    ual_handle_drop(&request->object);
    return RI_ERR_NO_RESOURCES;
}

static enum ual_hearing hear(void *context, struct ual_conn *connection,
                             const struct ri_connect_request *asked)
{
    struct ual_listen *listen = context;
    struct ual_request *request = ual_request_new(connection, asked);
    struct node *event;
    enum ri_status status = request ? make_event(listen, asked, request, &event)
                                    : RI_ERR_NO_RESOURCES;

    if (status != RI_OK) {
        /* Without memory it cannot be kept for later. */
        if (status != ITAL_ERR_ABORTED)
            kal_log(RI_LOG_ERROR,
                    "%s: a connection request is dropped: out of memory or handles; free some",
                    ual_device_name(listen->object.device));
        free(request);
        return UAL_REQUEST_DROPPED;
    }
    request->negotiate = listen->negotiate;
    if (ual_request_show(request, listen->evd, event))
        return UAL_REQUEST_TAKEN;
    free(request);
    return UAL_REQUEST_DEFERRED;
}

static const struct ual_conn_upcalls listen_upcalls = { .request = hear };

static void make_room(struct ual_listen *listen)
{
    if (listen->listener)
        ual_conn_room(listen->listener);
    if (listen->datagrams)
        ual_conn_room(listen->datagrams);
}

/* Under the IA's lock, because a listen point leaves the list before its listeners are freed. */
static void report_room(struct ual_evd *evd)
{
    struct ual_ia *ia = ual_ia_of(((struct ual_object *)evd)->device);
    struct ual_listen *listen;

    pthread_mutex_lock(&ia->lock);
    DL_FOREACH (ia->listens, listen)
        if (listen->evd == evd)
            make_room(listen);
    pthread_mutex_unlock(&ia->lock);
}

/* --- listen points --- */

static enum ri_status check_listen(const struct ual_device *device, uint32_t port,
                                   struct ual_evd *evd, const struct sockaddr *address)
{
    if (!address || port >= ual_device_attr(device)->ports ||
        ual_evd_stream(evd) != UAL_STREAM_REQUEST || ((struct ual_object *)evd)->device != device)
        return RI_ERR_INVALID_ARGUMENT;
    return ual_device_alive(device);
}

static enum ri_status listen_for(struct ual_listen *listen, const struct sockaddr *address,
                                 bool datagram, struct sockaddr_storage *bound,
                                 struct ual_conn **listener)
{
    struct ri_listen_param param = {
        .size = sizeof(param),
        .address = address,
        .service_id = listen->service_id,
        .port = listen->port,
        .backlog = ual_evd_size(listen->evd),
        .datagram = datagram,
    };
    struct ual_conn *made;
    enum ri_status status = ual_conn_create(listen->object.device, &listen_upcalls, listen, &made);

    if (status != RI_OK)
        return status;
    status = ual_conn_listen(made, &param, bound);
    if (status == RI_OK)
        *listener = made;
    else
        ual_conn_free(made);
    return status;
}

static uint16_t port_of(const struct sockaddr_storage *bound)
{
    const union address where = address_keep(bound);

    return where.any.sa_family == AF_INET6 ? where.six.sin6_port : where.four.sin_port;
}

static union address on_port_of(const struct sockaddr *address,
                                const struct sockaddr_storage *bound)
{
    union address where;

    address_set(&where, address);
    if (where.any.sa_family == AF_INET6)
        where.six.sin6_port = port_of(bound);
    else
        where.four.sin_port = port_of(bound);
    return where;
}

/* Connections and datagrams have port numbers of their own; both use the same number here. A
 * service ID may exist for one of them only. */
static enum ri_status start_listen(struct ual_listen *listen, const struct sockaddr *address)
{
    struct ual_device *device = listen->object.device;
    bool both = ual_device_attr(device)->features & RI_FEATURE_UD;
    enum ri_status status = listen_for(listen, address, false, &listen->bound, &listen->listener);
    enum ri_status datagrams;
    struct sockaddr_storage other;
    union address where;

    if (!both || (status != RI_OK && status != RI_ERR_NOT_SUPPORTED))
        return status;
    if (status == RI_OK)
        where = on_port_of(address, &listen->bound);
    else
        address_set(&where, address);
    datagrams = listen_for(listen, &where.any, true, &other, &listen->datagrams);
    if (datagrams == RI_ERR_NOT_SUPPORTED)
        return status;
    if (datagrams == RI_OK && status != RI_OK)
        listen->bound = other;
    return datagrams;
}

static void stop_listen(struct ual_listen *listen)
{
    if (listen->listener)
        ual_conn_free(listen->listener);
    if (listen->datagrams)
        ual_conn_free(listen->datagrams);
}

static enum ri_status create(struct ual_device *device, uint32_t port, struct ual_evd *evd,
                             const struct sockaddr *address, uint64_t service_id,
                             bool negotiate_depths, struct ual_listen **out)
{
    enum ri_status status = check_listen(device, port, evd, address);
    struct ual_ia *ia = ual_ia_of(device);
    struct ual_listen *listen;

    if (status != RI_OK)
        return status;
    listen = calloc(1, sizeof(*listen));
    if (!listen)
        return RI_ERR_NO_RESOURCES;
    listen->evd = evd;
    listen->port = port;
    listen->service_id = service_id;
    listen->negotiate = negotiate_depths;
    status = ual_handle_take(&listen->object, UAL_LISTEN, device);
    if (status != RI_OK)
        goto free_listen;
    ual_evd_bind(evd, 0);
    ual_evd_report_room(evd, report_room);
    status = start_listen(listen, address);
    if (status != RI_OK)
        goto unbind;
    pthread_mutex_lock(&ia->lock);
    DL_APPEND(ia->listens, listen);
    make_room(listen); /* room may have been made before it was in the list */
    pthread_mutex_unlock(&ia->lock);
    *out = listen;
    return RI_OK;
unbind:
    stop_listen(listen); /* one of its two listeners may exist */
    ual_evd_unbind(evd, 0);
    ual_handle_drop(&listen->object);
free_listen:
    free(listen);
    return status;
}

enum ri_status ual_listen_create(struct ual_device *device, uint32_t port, struct ual_evd *evd,
                                 const struct sockaddr *address, bool negotiate_depths,
                                 struct sockaddr_storage *bound, struct ual_listen **out)
{
    enum ri_status status = create(device, port, evd, address, 0, negotiate_depths, out);

    if (status == RI_OK && bound)
        *bound = (*out)->bound;
    return status;
}

enum ri_status ual_listen_create_service(struct ual_device *device, uint32_t port,
                                         struct ual_evd *evd, uint64_t service_id,
                                         bool negotiate_depths, struct ual_listen **out)
{
    struct sockaddr_in6 any = { .sin6_family = AF_INET6 };

    if (!service_id)
        return RI_ERR_INVALID_ARGUMENT;
    return create(device, port, evd, (const struct sockaddr *)&any, service_id, negotiate_depths,
                  out);
}

uint64_t ual_listen_service_id(const struct ual_listen *listen)
{
    return listen->service_id;
}

static bool is_at(const struct ual_listen *listen, uint16_t port, uint64_t service_id)
{
    return service_id ? listen->service_id == service_id
                      : !listen->service_id && port_of(&listen->bound) == port;
}

struct ual_listen *ual_listen_find(struct ual_ia *ia, uint32_t spigot, uint16_t port,
                                   uint64_t service_id)
{
    struct ual_listen *listen;

    pthread_mutex_lock(&ia->lock);
    DL_FOREACH (ia->listens, listen)
        if (listen->port == spigot && listen->listener && is_at(listen, port, service_id))
            break;
    if (listen)
        listen->users++;
    pthread_mutex_unlock(&ia->lock);
    return listen;
}

void ual_listen_put(struct ual_listen *listen)
{
    struct ual_ia *ia = ual_ia_of(listen->object.device);

    pthread_mutex_lock(&ia->lock);
    listen->users--;
    pthread_mutex_unlock(&ia->lock);
}

struct ual_conn *ual_listen_listener(const struct ual_listen *listen)
{
    return listen->listener;
}

/* Returns when each request that a thread hands to it has arrived or was refused. */
static void wait_for_users(struct ual_ia *ia, const struct ual_listen *listen)
{
    while (listen->users) {
        pthread_mutex_unlock(&ia->lock);
        sched_yield();
        pthread_mutex_lock(&ia->lock);
    }
}

/* Undecided requests, and their events, outlive the listen point. */
enum ri_status ual_listen_free(struct ual_listen *listen)
{
    struct ual_ia *ia = ual_ia_of(listen->object.device);

    pthread_mutex_lock(&ia->lock);
    DL_DELETE(ia->listens, listen);
    wait_for_users(ia, listen);
    pthread_mutex_unlock(&ia->lock);
    stop_listen(listen);
    ual_handle_drop(&listen->object);
    ual_evd_unbind(listen->evd, 0);
    free(listen);
    return RI_OK;
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
