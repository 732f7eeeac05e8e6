/* SPDX-License-Identifier: BSD-3-Clause
 * What rsockets use of librdmacm's listeners beyond the calls of <rdma/rdma_cma.h>. */
#ifndef ITAL_VERBS_RDMACM_LISTEN_H
#define ITAL_VERBS_RDMACM_LISTEN_H

#include "base/address.h"

#include <rdma/rdma_cma.h>
#include <stdbool.h>

/* What the log advises where a client speaks another protocol. Behind rdma_listen, by the thread
 * that owns the id. advice: a string that stays. */
void rcm_listen_advise(struct rdma_cm_id *id, const char *advice);

/* Can all devices that have the address be given streams (rcm_listen_fed)? False: none has it, or
 * one hears connections by itself. */
bool rcm_can_be_fed(const struct sockaddr *address);
/* A new id listens without a socket of its own: the caller accepts streams from a socket at that
 * address, port included, and gives them to the id. Returns 0 or an error number. */
int rcm_listen_fed(struct rdma_cm_id *id, const struct sockaddr *address, int backlog);
/* The connected TCP socket, which is duplicated, is a peer of the id. RDMA_CM_EVENT_CONNECT_REQUEST
 * follows, or, if it comes to none, RDMA_CM_EVENT_CONNECT_ERROR of the listener, once; without
 * memory, nothing. Returns 0 or an error number, such as ECONNABORTED: the peer has left. */
int rcm_listen_feed(struct rdma_cm_id *id, int fd);

/* fed_stream.c. The own address of such a socket; IPv4 that is mapped into IPv6 is told as IPv4.
 * Returns 0 or an error number. */
int rcm_fed_stream_local(int fd, union address *local);
/* Both directions end: the peer and the id see it. The caller closes the socket. */
void rcm_fed_stream_end(int fd);

#endif
