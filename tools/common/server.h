/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The listening half of a tool: Listen points on every Spigot, a thread per client, a clean end.
 */
#ifndef ITAL_TOOLS_SERVER_H
#define ITAL_TOOLS_SERVER_H

#include "tools/common/adapter.h"

/* Clients served at once; more are refused with the answer that server.refuse writes. */
#define SERVER_CLIENTS 16
/* Limit for one IPv4 address, or one IPv6 network of 64 bits, whose addresses belong to one
 * host. */
#define SERVER_SHARE 8

struct server {
    const struct adapter *adapter;
    uint16_t port;                /* 0: any */
    const it_net_addr_t *address; /* listens on this one only; NULL: on all */
    bool once;                    /* end after the first client that was served */
    /*
     * Sleep in poll(2) between requests. A thread that waits in the library works for all, and
     * would affect another thread's measurement.
     */
    bool outside;
    void *arg;
    /*
     * Serves one client, in a thread of its own. peer: address as text. Returns an exit code, or
     * SERVER_NOT_SERVED if the request was refused or the peer was not a client at all.
     */
    int (*serve)(void *arg, const it_conn_request_event_t *request, const char *peer);
    /*
     * Called first, in the thread that accepts. true: the request was taken, and serve is not
     * called. NULL: none is taken.
     */
    bool (*route)(void *arg, const it_conn_request_event_t *request);
    /*
     * Private data for "too many clients", share: from that address alone. Writes at most size
     * bytes, returns how many.
     */
    size_t (*refuse)(unsigned char *data, size_t size, bool share);
};

#define SERVER_NOT_SERVED (-1)

/* Prints "listening on port N", serves until a signal or, with once, one client; returns an exit
 * code. */
int server_run(const struct server *server);

#endif /* ITAL_TOOLS_SERVER_H */
