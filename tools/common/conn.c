/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One reliable connection of a tool.
 */
#include "tools/common/conn.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/common/tool.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* of newer headers */
#endif

/* Waits are divided into slices, so a signal just before a wait is noticed too. */
#define SLICE_US 200000u

enum conn_result conn_event(it_evd_handle_t evd, bool busy, uint64_t timeout_us, it_event_t *event)
{
    uint64_t limit = 0, now;
    unsigned turns = 0;
    it_status_t status;

    for (;;) {
        status = it_evd_dequeue(evd, event);
        if (status == IT_SUCCESS)
            return CONN_OK;
        /* A busy loop checks the clock and the stop flag at intervals. */
        if (status == IT_ERR_QUEUE_EMPTY && busy && ++turns % 256 && limit)
            continue;
        if (status != IT_ERR_QUEUE_EMPTY)
            break;
        if (atomic_load_explicit(&tool_stop, memory_order_relaxed))
            return CONN_STOPPED;
        now = tool_now();
        if (!limit)
            limit = timeout_us > (UINT64_MAX - now) / 1000 ? UINT64_MAX : now + timeout_us * 1000;
        if (now >= limit)
            return CONN_TIMEOUT;
        if (busy)
            continue;
        now = (limit - now) / 1000 + 1;
        status = it_evd_wait(evd, now < SLICE_US ? now : SLICE_US, event, NULL);
        if (status == IT_SUCCESS)
            return CONN_OK;
        if (status != IT_ERR_TIMEOUT_EXPIRED && status != IT_ERR_INTERRUPT)
            break;
    }
    adapter_error(status, "cannot wait for events");
    return CONN_FAILED;
}

it_status_t conn_endpoint(const struct conn *conn, const struct conn_needs *needs,
                          it_ep_handle_t *ep)
{
    it_ep_attributes_t attr;

    memset(&attr, 0, sizeof(attr));
    attr.max_dto_payload_size = needs->send_length ? needs->send_length : 1;
    attr.max_request_dtos = needs->requests;
    attr.max_recv_dtos = needs->receives;
    attr.max_send_segments = 1;
    attr.max_recv_segments = 1;
    attr.srv.rc.max_rdma_read_segments = 1;
    attr.srv.rc.max_rdma_write_segments = 1;
    attr.srv.rc.rdma_read_ird = needs->reads;
    attr.srv.rc.rdma_read_ord = needs->reads;
    attr.srv.rc.rdma_read_enable = needs->remote_read ? IT_TRUE : IT_FALSE;
    attr.srv.rc.rdma_write_enable = needs->remote_write ? IT_TRUE : IT_FALSE;
    attr.srv.rc.hard_hi_watermark = IT_HARD_HI_WATERMARK_DISABLE;
    return it_ep_rc_create(conn->pz, conn->dto_evd, conn->dto_evd, conn->conn_evd, IT_EP_NO_FLAG,
                           &attr, ep);
}

bool conn_create(const struct adapter *adapter, const struct conn_needs *needs, struct conn *conn)
{
    size_t events = needs->requests + needs->receives;
    const char *what = "protection zone";
    it_status_t status;

    memset(conn, 0, sizeof(*conn));
    conn->adapter = adapter;
    status = it_pz_create(adapter->ia, &conn->pz);
    if (status == IT_SUCCESS) {
        what = "event dispatcher for completions";
        status = it_evd_create(adapter->ia, IT_DTO_EVENT_STREAM, IT_EVD_OVERFLOW_DEFAULT, events,
                               IT_THRESHOLD_DISABLE, NULL, &conn->dto_evd, NULL);
    }
    if (status == IT_SUCCESS) {
        what = "event dispatcher for connections";
        status = it_evd_create(adapter->ia, IT_CM_MSG_EVENT_STREAM, IT_EVD_OVERFLOW_DEFAULT, 8,
                               IT_THRESHOLD_DISABLE, NULL, &conn->conn_evd, NULL);
    }
    if (status == IT_SUCCESS) {
        what = "endpoint";
        status = conn_endpoint(conn, needs, &conn->ep);
    }
    if (status == IT_SUCCESS)
        return true;
    adapter_error(status, "cannot make the %s on %s", what, adapter->name);
    conn_destroy(conn);
    return false;
}

void conn_destroy(struct conn *conn)
{
    if (conn->ep)
        it_ep_free(conn->ep);
    if (conn->conn_evd)
        it_evd_free(conn->conn_evd);
    if (conn->dto_evd)
        it_evd_free(conn->dto_evd);
    if (conn->pz)
        it_pz_free(conn->pz);
    conn->ep = NULL;
    conn->conn_evd = conn->dto_evd = NULL;
    conn->pz = NULL;
}

/* The error of one address, kept until it is known whether another one works. */
struct complaint {
    char text[512];
};

static void complain(struct complaint *complaint, const struct conn *conn, const char *what,
                     const char *advice)
{
    snprintf(complaint->text, sizeof(complaint->text), "cannot connect to %s over %s: %s; %s",
             conn->peer, conn->adapter->name, what, advice);
}

static void explain_refusal(const struct conn *conn, const it_connection_event_t *event,
                            struct complaint *complaint)
{
    static const struct {
        const char *what, *advice;
    } table[] = {
        [IT_CN_REJ_OTHER] = { "refused", "is the server running there, on that port, over the same "
                                         "transport?" },
        [IT_CN_REJ_TIMEOUT] = { "no answer in time",
                                "is the host up, and does a firewall let the port through?" },
        [IT_CN_REJ_BAD_PATH] = { "no way there", "check address and network" },
        [IT_CN_REJ_STALE_CONN] = { "the peer takes an old connection for open", "try again" },
        [IT_CN_REJ_BAD_ORD] = { "read depths do not fit", "are both sides of the same version?" },
        [IT_CN_REJ_RESOURCES] = { "the peer is out of resources", "try again later" },
        [IT_CN_REJ_BAD_CONN_PARMS] = { "the peer refuses the parameters",
                                       "compare the configurations of both sides" },
    };
    unsigned code = event->reject_reason_code;
    char what[128];

    if (code >= sizeof(table) / sizeof(*table))
        code = IT_CN_REJ_OTHER;
    snprintf(what, sizeof(what), "%s (%s)", table[code].what,
             itx_reject_name(event->reject_reason_code));
    complain(complaint, conn, what, table[code].advice);
}

static it_status_t begin_connect(struct conn *conn, const struct sockaddr *address,
                                 uint64_t timeout_us, const void *data, size_t length)
{
    it_conn_qual_t where = { .type = IT_IANA_PORT };
    it_status_t status;
    it_path_t path;

    address_text(address, conn->peer);
    where.conn_qual.port = address->sa_family == AF_INET
                               ? ((const struct sockaddr_in *)address)->sin_port
                               : ((const struct sockaddr_in6 *)address)->sin6_port;
    status = address_path(conn->adapter, address, &path);
    if (status != IT_SUCCESS)
        return status;
    path.timeout = timeout_us;
    return it_ep_connect(conn->ep, &path, NULL, &where, IT_CONNECT_FLAG_TWO_WAY, data, length);
}

static enum conn_result connect_one(struct conn *conn, const struct sockaddr *address,
                                    uint64_t timeout_us, const void *data, size_t length,
                                    bool *rejected, struct complaint *complaint)
{
    it_status_t status = begin_connect(conn, address, timeout_us, data, length);
    enum conn_result result;
    it_event_t event;

    if (status != IT_SUCCESS) {
        complain(complaint, conn, itx_status_text(status), itx_status_name(status));
        return CONN_FAILED;
    }
    /* The path's timeout ends the attempt. The later one here is for providers that ignore it. */
    result = conn_event(conn->conn_evd, false, timeout_us + 2000000, &event);
    if (result == CONN_TIMEOUT)
        complain(complaint, conn, "no answer", "the interface did not even report a time-out");
    if (result != CONN_OK)
        return result;
    conn->established = event.conn;
    if (event.event_number == IT_CM_MSG_CONN_ESTABLISHED_EVENT)
        return CONN_OK;
    *rejected = event.event_number == IT_CM_MSG_CONN_PEER_REJECT_EVENT;
    if (event.event_number == IT_CM_MSG_CONN_NONPEER_REJECT_EVENT)
        explain_refusal(conn, &event.conn, complaint);
    else
        complain(complaint, conn, itx_event_name(event.event_number), "try again");
    return CONN_FAILED;
}

/* Makes the Endpoint of a failed attempt usable again; its Receives are gone. */
static bool start_over(struct conn *conn)
{
    it_status_t status = it_ep_reset(conn->ep);
    it_event_t event;

    while (it_evd_dequeue(conn->dto_evd, &event) == IT_SUCCESS)
        ;
    if (status != IT_SUCCESS)
        adapter_error(status, "cannot reset the endpoint");
    return status == IT_SUCCESS;
}

bool conn_connect(struct conn *conn, const struct addrinfo *addresses, uint64_t timeout_us,
                  const void *data, size_t length, bool (*prepare)(struct conn *, void *),
                  void *arg, bool *rejected)
{
    enum conn_result result = CONN_FAILED;
    struct complaint complaints[8];
    unsigned tried = 0;

    *rejected = false;
    for (const struct addrinfo *at = addresses; at && tried < 8; at = at->ai_next) {
        if (tried && !start_over(conn))
            return false;
        if (!prepare(conn, arg))
            return false;
        result = connect_one(conn, at->ai_addr, timeout_us, data, length, rejected,
                             &complaints[tried++]);
        if (result == CONN_OK || result == CONN_STOPPED || *rejected)
            break;
    }
    for (unsigned i = 0; i < tried && !*rejected && result != CONN_OK && result != CONN_STOPPED;
         i++)
        tool_error("%s", complaints[i].text);
    return result == CONN_OK;
}

bool conn_accept(struct conn *conn, it_cn_est_identifier_t request, const void *data, size_t length,
                 uint64_t timeout_us)
{
    it_status_t status = it_ep_accept(conn->ep, request, data, length);
    it_event_t event;

    if (status != IT_SUCCESS) {
        adapter_error(status, "cannot accept %s", conn->peer);
        return false;
    }
    if (conn_event(conn->conn_evd, false, timeout_us, &event) != CONN_OK) {
        if (!atomic_load(&tool_stop))
            tool_error("%s did not finish connecting; check that it is still running", conn->peer);
        return false;
    }
    if (event.event_number == IT_CM_MSG_CONN_ESTABLISHED_EVENT)
        return true;
    tool_error("%s went away while connecting (%s)", conn->peer,
               itx_event_name(event.event_number));
    return false;
}

void conn_disconnect(struct conn *conn, uint64_t timeout_us)
{
    uint64_t limit = tool_now() + timeout_us * 1000;
    it_event_t event;

    if (conn->end || it_ep_disconnect(conn->ep, NULL, 0) != IT_SUCCESS)
        return;
    /* A signal does not end this: the last message has still to arrive. */
    while (tool_now() < limit) {
        if (it_evd_wait(conn->conn_evd, SLICE_US, &event, NULL) == IT_SUCCESS) {
            conn->end = event.event_number;
            return;
        }
    }
}

enum conn_result conn_next(struct conn *conn, bool busy, uint64_t timeout_us, it_event_t *event)
{
    enum conn_result result = conn_event(conn->dto_evd, busy, timeout_us, event);

    if (result != CONN_OK || event->dto_cmpl.dto_status == IT_DTO_SUCCESS)
        return result;
    if (event->dto_cmpl.dto_status == IT_DTO_ERR_FLUSHED)
        return CONN_ENDED;
    tool_error("connection with %s failed: %s in %s", conn->peer,
               itx_dto_status_name(event->dto_cmpl.dto_status),
               itx_event_name(event->event_number));
    return CONN_FAILED;
}

const char *conn_why(struct conn *conn)
{
    it_event_t event;

    /* The event of the end and the flushed requests arrive on different EVDs: wait a moment. */
    if (!conn->end && conn_event(conn->conn_evd, false, 1000000, &event) == CONN_OK)
        conn->end = event.event_number;
    if (conn->end == IT_CM_MSG_CONN_DISCONNECT_EVENT)
        return "the peer closed the connection";
    if (conn->end == IT_CM_MSG_CONN_BROKEN_EVENT)
        return "the connection broke (peer died, network failed, or a protocol error)";
    return "the connection is gone";
}

unsigned region_sink_privs(const struct adapter *adapter)
{
    return adapter->info->rdma_read_requires_remote_write ? IT_PRIV_LOCAL | IT_PRIV_REMOTE_WRITE
                                                          : IT_PRIV_LOCAL;
}

bool region_reserve(struct conn *conn, size_t size, unsigned privs, struct region *region)
{
    it_status_t status;

    memset(region, 0, sizeof(*region));
    if (itx_memory_create(size, &region->memory) != IT_SUCCESS) {
        tool_error("out of memory: %zu bytes of buffers", size);
        return false;
    }
    region->size = size;
    status = it_lmr_create(conn->pz, region->memory, NULL, size, IT_ADDR_MODE_ABSOLUTE,
                           (it_mem_priv_t)privs, IT_LMR_FLAG_NONE, 0, &region->lmr,
                           &region->context);
    if (status == IT_SUCCESS)
        return true;
    adapter_error(status, "cannot register %zu bytes of memory", size);
    region_destroy(region);
    return false;
}

void region_populate(const struct region *region)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (!region->memory || madvise(region->memory, region->size, MADV_POPULATE_WRITE) == 0)
        return;
    /* A kernel before 5.14. The peer may be writing already, so nothing is changed. */
    for (size_t at = 0; at < region->size; at += page)
        __atomic_fetch_or((char *)region->memory + at, 0, __ATOMIC_RELAXED);
}

bool region_create(struct conn *conn, size_t size, unsigned privs, struct region *region)
{
    if (!region_reserve(conn, size, privs, region))
        return false;
    region_populate(region);
    return true;
}

void region_destroy(struct region *region)
{
    if (region->lmr)
        it_lmr_free(region->lmr);
    itx_memory_free(region->memory);
    memset(region, 0, sizeof(*region));
}
