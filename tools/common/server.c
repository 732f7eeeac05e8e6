/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Accept loop of the tools' servers.
 */
#include "tools/common/server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tool.h"

#define SLICE_US 200000u

/* The clients. The main thread creates the entries, each client's thread marks its own as done. */
struct client {
    const struct server *server;
    it_conn_request_event_t request;
    pthread_t thread;
    bool used;
    atomic_bool done;
    int result;
};

struct listening {
    it_evd_handle_t evd;
    int fd; /* of evd, -1: none */
    it_listen_handle_t *points;
    size_t count;
};

static void stop_listening(struct listening *listening)
{
    for (size_t i = 0; i < listening->count; i++)
        it_listen_free(listening->points[i]);
    free(listening->points);
    if (listening->evd)
        it_evd_free(listening->evd);
}

/* The first Spigot chooses a free port, the others follow. */
static it_status_t listen_on(const struct server *server, size_t spigot,
                             struct listening *listening, it_conn_qual_t *where)
{
    it_listen_flags_t flags = where->conn_qual.port ? IT_LISTEN_CONN_QUAL_INPUT : IT_LISTEN_NO_FLAG;
    it_listen_handle_t *point = &listening->points[listening->count];
    it_status_t status;

    if (server->address)
        status = itx_listen_create(server->adapter->ia, spigot, listening->evd, flags,
                                   server->address, where, point);
    else
        status = it_listen_create(server->adapter->ia, spigot, listening->evd, flags, where, point);
    if (status == IT_SUCCESS)
        listening->count++;
    return status;
}

static bool start_listening(const struct server *server, struct listening *listening,
                            uint16_t *port)
{
    const it_ia_info_t *info = server->adapter->info;
    it_conn_qual_t where = { .type = IT_IANA_PORT };
    it_evd_flags_t flags = IT_EVD_OVERFLOW_DEFAULT;
    it_status_t status;

    memset(listening, 0, sizeof(*listening));
    listening->points = calloc(info->num_spigots ? info->num_spigots : 1,
                               sizeof(*listening->points));
    if (!listening->points) {
        tool_error("out of memory");
        return false;
    }
    listening->fd = -1;
    if (server->outside)
        flags = (it_evd_flags_t)(flags | IT_EVD_CREATE_FD);
    status = it_evd_create(server->adapter->ia, IT_CM_REQ_EVENT_STREAM, flags, 64,
                           IT_THRESHOLD_DISABLE, NULL, &listening->evd,
                           server->outside ? &listening->fd : NULL);
    where.conn_qual.port = htons(server->port);
    for (size_t i = 0; status == IT_SUCCESS && i < info->num_spigots; i++) {
        if (server->address && !address_of_spigot(&info->spigot_info[i], server->address))
            continue;
        status = listen_on(server, info->spigot_info[i].spigot_id, listening, &where);
    }
    if (status == IT_SUCCESS && listening->count) {
        *port = ntohs(where.conn_qual.port);
        return true;
    }
    if (status == IT_ERR_CONN_QUAL_BUSY)
        tool_error(
            "cannot listen on port %u: another program has it; give another with -p, or -p 0 for "
            "any free one",
            ntohs(where.conn_qual.port));
    else if (status == IT_SUCCESS && server->address)
        tool_error(
            "cannot listen: interface %s does not have that address; 'itinfo' shows which it has",
            server->adapter->name);
    else if (status == IT_SUCCESS)
        tool_error("cannot listen: interface %s has no spigot", server->adapter->name);
    else
        adapter_error(status, "cannot listen on port %u of %s", ntohs(where.conn_qual.port),
                      server->adapter->name);
    stop_listening(listening);
    return false;
}

static void *client_main(void *arg)
{
    struct client *client = arg;
    char host[ADDRESS_TEXT];

    address_net_text(&client->request.source_addr, host);
    client->result = client->server->serve(client->server->arg, &client->request, host);
    atomic_store(&client->done, true);
    return NULL;
}

/* A host has an IPv6 network of 64 bits, and may use any address in it. */
static bool same_source(const it_net_addr_t *one, const it_net_addr_t *other)
{
    if (one->addr_type != other->addr_type)
        return false;
    if (one->addr_type == IT_IPV4)
        return one->addr.ipv4.s_addr == other->addr.ipv4.s_addr;
    return one->addr_type == IT_IPV6 && !memcmp(&one->addr.ipv6, &other->addr.ipv6,
                                                IN6_IS_ADDR_V4MAPPED(&one->addr.ipv6) ? 16 : 8);
}

static void refuse(const struct server *server, const it_conn_request_event_t *request, bool share)
{
    unsigned char data[IT_MAX_PRIV_DATA];
    size_t length = server->refuse(data, sizeof(data), share);
    char host[ADDRESS_TEXT];

    address_net_text(&request->source_addr, host);
    tool_error("%s refused: more than %u clients at once%s", host,
               share ? SERVER_SHARE : SERVER_CLIENTS, share ? " from its address" : "");
    it_reject(request->cn_est_id, data, length);
}

static void admit(const struct server *server, struct client *clients,
                  const it_conn_request_event_t *request)
{
    struct client *client = NULL;
    unsigned same = 0;

    for (unsigned i = 0; i < SERVER_CLIENTS; i++) {
        if (!clients[i].used)
            client = &clients[i];
        else if (!atomic_load(&clients[i].done) &&
                 same_source(&clients[i].request.source_addr, &request->source_addr))
            same++;
    }
    if (!client || same >= SERVER_SHARE) {
        refuse(server, request, client != NULL);
        return;
    }
    client->server = server;
    client->request = *request;
    client->result = SERVER_NOT_SERVED;
    atomic_store(&client->done, false);
    client->used = pthread_create(&client->thread, NULL, client_main, client) == 0;
    if (!client->used)
        refuse(server, request, false);
}

static void receive(const struct server *server, struct client *clients,
                    const it_conn_request_event_t *request)
{
    if (!server->route || !server->route(server->arg, request))
        admit(server, clients, request);
}

/* Joins the threads that are done (all: waits for every one). Returns the last result to report. */
static int collect(struct client *clients, bool all, int result)
{
    for (unsigned i = 0; i < SERVER_CLIENTS; i++) {
        if (!clients[i].used || (!all && !atomic_load(&clients[i].done)))
            continue;
        pthread_join(clients[i].thread, NULL);
        clients[i].used = false;
        if (clients[i].result != SERVER_NOT_SERVED)
            result = clients[i].result;
    }
    return result;
}

/* IT_ERR_TIMEOUT_EXPIRED: none within a slice. */
static it_status_t next_request(const struct listening *listening, it_event_t *event)
{
    struct pollfd item = { .fd = listening->fd, .events = POLLIN };
    it_status_t status;

    if (listening->fd < 0)
        return it_evd_wait(listening->evd, SLICE_US, event, NULL);
    status = it_evd_dequeue(listening->evd, event);
    if (status == IT_ERR_QUEUE_EMPTY && poll(&item, 1, SLICE_US / 1000) > 0)
        status = it_evd_dequeue(listening->evd, event);
    return status == IT_ERR_QUEUE_EMPTY ? IT_ERR_TIMEOUT_EXPIRED : status;
}

static int accept_loop(const struct server *server, const struct listening *listening,
                       struct client *clients)
{
    int result = SERVER_NOT_SERVED;
    it_status_t status;
    it_event_t event;

    while (!atomic_load(&tool_stop)) {
        status = next_request(listening, &event);
        if (status == IT_SUCCESS && event.event_number == IT_CM_REQ_CONN_REQUEST_EVENT)
            receive(server, clients, &event.conn_req);
        else if (status != IT_SUCCESS && status != IT_ERR_TIMEOUT_EXPIRED &&
                 status != IT_ERR_INTERRUPT)
            return adapter_error(status, "cannot wait for clients");
        /*
         * With once, clients come one after the other: the thread is joined before the next. Not if
         * a client has further requests, which have to be routed meanwhile.
         */
        result = collect(clients, server->once && !server->route, result);
        tool_flush_errors(false);
        if (server->once && result != SERVER_NOT_SERVED)
            return result;
    }
    return TOOL_OK;
}

int server_run(const struct server *server)
{
    struct client *clients = calloc(SERVER_CLIENTS, sizeof(*clients));
    struct listening listening;
    uint16_t port;
    int result;

    if (!clients || !start_listening(server, &listening, &port)) {
        free(clients);
        return TOOL_FAILED;
    }
    printf("listening on port %u\n", port);
    fflush(stdout);
    tool_limit_errors();
    result = accept_loop(server, &listening, clients);
    collect(clients, true, result);
    tool_flush_errors(true);
    stop_listening(&listening);
    free(clients);
    return result;
}
