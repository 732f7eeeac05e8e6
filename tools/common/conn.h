/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One reliable connection of a tool: PZ, EVDs, Endpoint, set-up from both sides, waiting.
 *
 * One thread at a time uses a connection. All waits return when tool_stop is set.
 */
#ifndef ITAL_TOOLS_CONN_H
#define ITAL_TOOLS_CONN_H

#include "tools/common/adapter.h"

enum conn_result {
    CONN_OK,
    CONN_TIMEOUT,
    CONN_STOPPED, /* SIGINT or SIGTERM */
    CONN_ENDED,   /* the connection has ended; conn_why() returns how */
    CONN_FAILED   /* printed already */
};

struct conn {
    const struct adapter *adapter;
    it_pz_handle_t pz;
    it_evd_handle_t dto_evd, conn_evd;
    it_ep_handle_t ep;
    it_connection_event_t established; /* private data of the acceptor, on the active side */
    it_event_type_t end;               /* how it ended; 0: not known yet */
    char peer[ADDRESS_TEXT];
};

struct conn_needs {
    size_t requests, receives;      /* work requests outstanding at once */
    size_t send_length;             /* longest message, bytes */
    uint32_t reads;                 /* RDMA Reads in flight, either direction */
    bool remote_write, remote_read; /* what the peer may do */
};

/* On failure prints the reason and frees everything. */
bool conn_create(const struct adapter *adapter, const struct conn_needs *needs, struct conn *conn);
/* In any state. Regions on the PZ must have been freed. */
void conn_destroy(struct conn *conn);

/*
 * Active side: tries each address in turn; prepare(conn, arg) posts the Receives before each
 * attempt. Prints the errors if none answers. A refusal by the peer's program ends the search:
 * false, with *rejected set and the peer's private data in conn->established, nothing printed.
 */
bool conn_connect(struct conn *conn, const struct addrinfo *addresses, uint64_t timeout_us,
                  const void *data, size_t length, bool (*prepare)(struct conn *, void *),
                  void *arg, bool *rejected);
/* Passive side. request: from the request event. */
bool conn_accept(struct conn *conn, it_cn_est_identifier_t request, const void *data, size_t length,
                 uint64_t timeout_us);
/* Ends the connection in order and waits, at most timeout_us, until the peer has done so too. */
void conn_disconnect(struct conn *conn, uint64_t timeout_us);

/*
 * Next completion. busy: poll instead of sleeping. CONN_ENDED also for a flushed request; a request
 * that failed otherwise is printed: CONN_FAILED.
 */
enum conn_result conn_next(struct conn *conn, bool busy, uint64_t timeout_us, it_event_t *event);
/* The same for any EVD, without checking the event; never CONN_ENDED. */
enum conn_result conn_event(it_evd_handle_t evd, bool busy, uint64_t timeout_us, it_event_t *event);
/* One more Endpoint on the PZ and the EVDs of conn; the caller frees it. */
it_status_t conn_endpoint(const struct conn *conn, const struct conn_needs *needs,
                          it_ep_handle_t *ep);
/* How the connection ended, as a clause: "the peer closed the connection". */
const char *conn_why(struct conn *conn);

struct region {
    it_lmr_handle_t lmr;
    it_rmr_context_t context; /* for the peer; with remote privileges only */
    void *memory;             /* page-aligned, zero; a peer on this host can map it */
    size_t size;
};
/* Reserves and registers memory; privs as for it_lmr_create. Prints the reason of a failure. */
bool region_reserve(struct conn *conn, size_t size, unsigned privs, struct region *region);
/*
 * Gives it pages of its own at once: reads of memory that was never written would all use the page
 * of zeros. May be called while it is in use. No effect on a region without memory.
 */
void region_populate(const struct region *region);
/* Reserves, registers and populates. */
bool region_create(struct conn *conn, size_t size, unsigned privs, struct region *region);
void region_destroy(struct region *region);
static inline it_lmr_triplet_t region_part(const struct region *region, size_t offset,
                                           size_t length)
{
    return (it_lmr_triplet_t){ .lmr = region->lmr,
                               .addr.abs = (char *)region->memory + offset,
                               .length = length };
}
/* The privileges that the sink of an RDMA Read needs on this adapter. */
unsigned region_sink_privs(const struct adapter *adapter);

#endif /* ITAL_TOOLS_CONN_H */
