/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Plain TCP beside the RDMA connection, for comparisons in one run (--tcp). The server opens a port
 * for one client only and sends port and token in the private data of its accept.
 */
#ifndef ITAL_TOOLS_PLAIN_TCP_H
#define ITAL_TOOLS_PLAIN_TCP_H

#define ITAPI_ENABLE_V21_BINDINGS
#include <it_api.h>
#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plain_offer {
    uint16_t port;
    uint64_t token; /* a client sends it first */
};

/* A listening socket on any free port, of one address if there is one; -1: printed. */
int plain_listen(const it_net_addr_t *address, struct plain_offer *offer);
/* The client's connection; others are dropped. -1: none within the time, or stopped; printed. */
int plain_accept(int listener, uint64_t token, uint64_t timeout_us);
/* host: as resolved by the caller. -1: printed. */
int plain_connect(const char *host, const struct plain_offer *offer, uint64_t timeout_us);

/* 1: there is something to read; 0: nothing within the time; -1: stopped by a signal. */
int plain_wait(int socket, uint64_t timeout_us);

/*
 * Reads or writes everything: 1; 0: end of stream before the first byte; -1: failed, timed out or
 * stopped (errno: ETIMEDOUT, ECANCELED ...). busy: polls without sleeping for the first second.
 */
int plain_read(int socket, void *data, size_t length, bool busy, uint64_t timeout_us);
int plain_write(int socket, const void *data, size_t length, bool busy, uint64_t timeout_us);

#endif /* ITAL_TOOLS_PLAIN_TCP_H */
