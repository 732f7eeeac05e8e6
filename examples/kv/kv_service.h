/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kv: the service of both servers. They differ only in how they wait for events. */
#ifndef KV_SERVICE_H
#define KV_SERVICE_H

#define ITAPI_ENABLE_V21_BINDINGS /* the arguments of version 2.1 of the standard */
#include <it_api.h>
#include <itx_api.h> /* statuses as sentences */

/* The three event queues of the service, each for all clients. */
enum { KV_REQUESTS, KV_CONNECTIONS, KV_TRANSFERS, KV_QUEUES };

/* Ends the program with a message if the call failed. */
void kv_check(it_status_t status, const char *what);

/* Opens the first usable interface. */
it_ia_handle_t kv_open(void);

/*
 * Makes the table and the three queues and listens; argument: the port as text, or NULL. flags and
 * aevd go to it_evd_create of each queue; fds receives the descriptors with IT_EVD_CREATE_FD.
 */
void kv_start(it_ia_handle_t ia, const char *argument, it_evd_flags_t flags, it_evd_handle_t aevd,
              it_evd_handle_t queues[KV_QUEUES], int fds[KV_QUEUES]);

/* Handles one event of any of the queues. */
void kv_handle(const it_event_t *event);

#endif
