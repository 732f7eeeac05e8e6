/* SPDX-License-Identifier: BSD-3-Clause
 *
 * UCX as a peer, over its TCP transport: tag send and receive, put, get.
 *
 * Settings: one thread per worker, so that no lock is taken. Only the TCP transport is enabled, on
 * the interface of the out-of-band connection. Segments have 256 KiB instead of 8 (sent) and 64
 * (received), because a message in many system calls takes twice the time (in one trial 34 us
 * instead of 18 at 64 KiB, with no change at 64 B). Everything else has UCX's defaults, with
 * TCP_NODELAY on and the kernel's socket buffers. Environment variables (UCX_...) override these
 * sizes.
 */
#include "congestion.h"
#include "transport.h"

#include <errno.h>
#include <ifaddrs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#define TAG 1

/* A posted receive. Those that are still posted at the end must be cancelled. */
struct slot {
    struct ucx *ucx;
    ucs_status_ptr_t request; /* NULL: free */
};

struct ucx {
    struct transport transport; /* first */
    struct slot slots[PEER_MAX_WINDOW + 1], *free[PEER_MAX_WINDOW + 1];
    size_t free_count;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    ucp_mem_h memory;
    ucp_rkey_h key;
    uint64_t remote; /* address of the other end's region */
    int fd;          /* of the worker's events; -1: polled */
    bool closed;
};

struct hello {
    uint64_t worker_octets, key_octets, region;
};

static void must(ucs_status_t status, const char *what)
{
    if (status != UCS_OK)
        peer_die("%s: %s", what, ucs_status_string(status));
}

/* ---- posts ---- */

static struct ucx *ucx_of(struct transport *transport)
{
    return (struct ucx *)transport;
}

static void sent(void *request, ucs_status_t status, void *data)
{
    must(status, "completion");
    ((struct transport *)data)->sent++;
    ucp_request_free(request);
}

static void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                     void *data)
{
    struct slot *slot = data;
    struct ucx *u = slot->ucx;

    slot->request = NULL;
    u->free[u->free_count++] = slot;
    ucp_request_free(request);
    if (u->closed && status == UCS_ERR_CANCELED)
        return;
    must(status, "receive");
    if (info->length != u->transport.peer->plan.size)
        peer_die("a message of %zu octets", info->length);
    u->transport.received++;
}

static ucp_request_param_t parameters(struct transport *t, bool region)
{
    ucp_request_param_t p = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                              UCP_OP_ATTR_FIELD_USER_DATA,
                              .cb.send = sent,
                              .user_data = t };

    if (region) {
        p.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        p.memh = ucx_of(t)->memory;
    }
    return p;
}

/* Handles the result of a post: complete already, an error, or a request whose callback counts. */
static bool posted(struct transport *t, ucs_status_ptr_t request, const char *what)
{
    if (UCS_PTR_IS_ERR(request))
        must(UCS_PTR_STATUS(request), what);
    if (!request)
        t->sent++;
    return true;
}

static uint64_t remote_of(struct transport *t, const volatile void *here)
{
    return ucx_of(t)->remote + (uint64_t)((const volatile char *)here - t->region);
}

static bool post_send(struct transport *t)
{
    ucp_request_param_t p = parameters(t, true);

    return posted(t, ucp_tag_send_nbx(ucx_of(t)->ep, t->out, t->peer->plan.size, TAG, &p),
                  "tag send");
}

static bool post_receive(struct transport *t)
{
    ucp_request_param_t p = parameters(t, true);
    struct ucx *u = ucx_of(t);
    ucs_status_ptr_t request;
    struct slot *slot;

    if (!u->free_count)
        return false;
    slot = u->free[u->free_count - 1];
    p.cb.recv = received;
    p.user_data = slot;
    request = ucp_tag_recv_nbx(u->worker, t->in, t->peer->plan.size, TAG, UINT64_MAX, &p);
    if (UCS_PTR_IS_ERR(request))
        must(UCS_PTR_STATUS(request), "tag receive");
    if (request) {
        slot->request = request;
        u->free_count--;
    } else {
        t->received++;
    }
    return true;
}

static bool post_write(struct transport *t)
{
    ucp_request_param_t p = parameters(t, true);

    return posted(t,
                  ucp_put_nbx(ucx_of(t)->ep, t->out, t->peer->plan.size, remote_of(t, t->in),
                              ucx_of(t)->key, &p),
                  "put");
}

static bool post_read(struct transport *t)
{
    ucp_request_param_t p = parameters(t, true);

    return posted(t,
                  ucp_get_nbx(ucx_of(t)->ep, t->in, t->peer->plan.size, remote_of(t, t->out),
                              ucx_of(t)->key, &p),
                  "get");
}

/* The completion of a put is local. The flush behind it completes when all data is at the
 * target. */
static bool post_count(struct transport *t)
{
    ucp_request_param_t put = { 0 }, flush = parameters(t, false);
    ucs_status_ptr_t request = ucp_put_nbx(ucx_of(t)->ep, t->count_out, sizeof(*t->count_out),
                                           remote_of(t, t->count_in), ucx_of(t)->key, &put);

    if (UCS_PTR_IS_ERR(request))
        must(UCS_PTR_STATUS(request), "put");
    if (request)
        ucp_request_free(request);
    return posted(t, ucp_ep_flush_nbx(ucx_of(t)->ep, &flush), "flush");
}

/* ---- completions ---- */

static void poll_once(struct transport *t)
{
    ucp_worker_progress(ucx_of(t)->worker);
}

static bool wait_once(struct transport *t)
{
    struct ucx *u = ucx_of(t);
    struct pollfd wait = { .fd = u->fd, .events = POLLIN };
    ucs_status_t status = ucp_worker_arm(u->worker);

    if (status == UCS_ERR_BUSY)
        return true;
    must(status, "ucp_worker_arm");
    if (poll(&wait, 1, TRANSPORT_WAIT_MS) < 0 && errno != EINTR)
        peer_die_errno("poll");
    return wait.revents != 0;
}

/* ---- set-up ---- */

static bool same_address(const struct sockaddr *a, const struct sockaddr_storage *b)
{
    if (!a || a->sa_family != b->ss_family)
        return false;
    if (a->sa_family == AF_INET)
        return memcmp(&((const struct sockaddr_in *)a)->sin_addr,
                      &((const struct sockaddr_in *)b)->sin_addr, sizeof(struct in_addr)) == 0;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

/* Name of the interface that has this end's address. */
static void interface_name(const struct peer *peer, char *name, size_t room)
{
    struct ifaddrs *all, *at;

    if (getifaddrs(&all))
        peer_die_errno("getifaddrs");
    for (at = all; at && !same_address(at->ifa_addr, &peer->here); at = at->ifa_next)
        ;
    snprintf(name, room, "%s", at ? at->ifa_name : "all");
    freeifaddrs(all);
}

static void open_worker(struct ucx *u, struct peer *peer)
{
    ucp_params_t context = { .field_mask = UCP_PARAM_FIELD_FEATURES,
                             .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA };
    ucp_worker_params_t worker = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                   .thread_mode = UCS_THREAD_MODE_SINGLE };
    char interface[64];
    ucp_config_t *config;

    for (size_t i = 0; i <= PEER_MAX_WINDOW; i++) {
        u->slots[i].ucx = u;
        u->free[u->free_count++] = &u->slots[i];
    }
    interface_name(peer, interface, sizeof(interface));
    setenv("UCX_TCP_TX_SEG_SIZE", "256k", 0);
    setenv("UCX_TCP_RX_SEG_SIZE", "256k", 0);
    must(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
    must(ucp_config_modify(config, "TLS", "tcp"), "TLS=tcp");
    must(ucp_config_modify(config, "NET_DEVICES", interface), "NET_DEVICES");
    if (peer->plan.event)
        context.features |= UCP_FEATURE_WAKEUP;
    must(ucp_init(&context, config, &u->context), "ucp_init");
    ucp_config_release(config);
    must(ucp_worker_create(u->context, &worker, &u->worker), "ucp_worker_create");
    u->fd = -1;
    if (peer->plan.event)
        must(ucp_worker_get_efd(u->worker, &u->fd), "ucp_worker_get_efd");
}

static void map_region(struct ucx *u)
{
    ucp_mem_map_params_t map = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                               UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                 .address = u->transport.region,
                                 .length = u->transport.region_octets };

    must(ucp_mem_map(u->context, &map, &u->memory), "ucp_mem_map");
}

static void *swap(struct peer *peer, const void *mine, size_t mine_length, size_t length)
{
    void *theirs = malloc(length);

    if (!theirs)
        peer_die("no memory");
    peer_exchange(peer, mine, mine_length, theirs, length);
    return theirs;
}

static void endpoint_failed(void *argument, ucp_ep_h ep, ucs_status_t status)
{
    struct ucx *u = argument;

    (void)ep;
    if (!u->closed)
        peer_die("the connection failed: %s", ucs_status_string(status));
}

static void meet(struct ucx *u, struct peer *peer)
{
    ucp_ep_params_t ep = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                         UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                         UCP_EP_PARAM_FIELD_ERR_HANDLER,
                           .err_mode = UCP_ERR_HANDLING_MODE_NONE,
                           .err_handler = { endpoint_failed, u } };
    struct hello mine = { .region = (uintptr_t)u->transport.region }, theirs;
    ucp_address_t *address;
    size_t address_octets, key_octets;
    void *key, *their_address, *their_key;

    must(ucp_worker_get_address(u->worker, &address, &address_octets), "ucp_worker_get_address");
    must(ucp_rkey_pack(u->context, u->memory, &key, &key_octets), "ucp_rkey_pack");
    mine.worker_octets = address_octets;
    mine.key_octets = key_octets;
    peer_exchange(peer, &mine, sizeof(mine), &theirs, sizeof(theirs));
    if (theirs.worker_octets > 65536 || theirs.key_octets > 65536)
        peer_die("the other end's address is too long");
    their_address = swap(peer, address, address_octets, theirs.worker_octets);
    their_key = swap(peer, key, key_octets, theirs.key_octets);
    ep.address = their_address;
    must(ucp_ep_create(u->worker, &ep, &u->ep), "ucp_ep_create");
    must(ucp_ep_rkey_unpack(u->ep, their_key, &u->key), "ucp_ep_rkey_unpack");
    u->remote = theirs.region;
    free(their_address);
    free(their_key);
    ucp_rkey_buffer_release(key);
    ucp_worker_release_address(u->worker, address);
}

static void leave(struct ucx *u)
{
    ucs_status_ptr_t closing;

    u->closed = true;
    for (size_t i = 0; i <= PEER_MAX_WINDOW; i++) {
        if (u->slots[i].request)
            ucp_request_cancel(u->worker, u->slots[i].request);
    }
    ucp_rkey_destroy(u->key);
    closing = ucp_ep_close_nb(u->ep, UCP_EP_CLOSE_MODE_FORCE);
    if (UCS_PTR_IS_PTR(closing)) {
        while (ucp_request_check_status(closing) == UCS_INPROGRESS)
            ucp_worker_progress(u->worker);
        ucp_request_free(closing);
    }
    ucp_mem_unmap(u->context, u->memory);
    ucp_worker_destroy(u->worker);
    ucp_cleanup(u->context);
}

static void run(struct peer *peer)
{
    static struct ucx u = { .transport = { .send = post_send,
                                           .receive = post_receive,
                                           .write = post_write,
                                           .read = post_read,
                                           .send_count = post_count,
                                           .poll = poll_once,
                                           .wait = wait_once } };

    congestion_use(peer->plan.congestion);
    snprintf(peer->library, sizeof(peer->library), "UCX %s tcp", ucp_get_version_string());
    transport_init(&u.transport, peer);
    open_worker(&u, peer);
    map_region(&u);
    meet(&u, peer);
    transport_run(&u.transport);
    leave(&u);
}

int main(int argc, char **argv)
{
    static const struct peer_program program = {
        .name = "ucx_peer",
        .ops = PEER_OP(PEER_SEND) | PEER_OP(PEER_WRITE) | PEER_OP(PEER_READ),
        .run = run,
    };

    return peer_main(argc, argv, &program);
}
