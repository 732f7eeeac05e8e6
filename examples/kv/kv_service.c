/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kv: the service of both servers, driven by events.
 *
 *   connection request   an Endpoint with a posted Receive; the acceptance says where the table is
 *   Receive completed    the entry enters the table; a Send answers; the Receive is posted again
 *   connection ended     the Endpoint is freed
 *
 * A get makes no event: the client reads the table by RDMA Read, and this program does not notice.
 */
#include "kv.h"
#include "kv_service.h"

#include <arpa/inet.h>
#include <stdlib.h>

#define CLIENTS 64

/* Puts of one client that are under way at most, hence Receives. One answer more: the completion of
 * an answer may be dequeued after the put that the client sent when it had the answer. */
#define RECEIVES 1
#define REQUESTS (RECEIVES + 1)

static struct kv_slot table[KV_SLOTS + KV_PROBES - 1];

static struct client {
    it_ep_handle_t ep;
    int used;
    int established;
    int owes; /* the answer to a put that came before ESTABLISHED */
} clients[CLIENTS];

/* Messages of each client. A client waits for the reply before its next put, so one is enough. */
static struct {
    struct kv_put received;
    struct kv_reply sent;
} messages[CLIENTS];

static it_pz_handle_t pz;
static it_lmr_handle_t message_lmr;
static it_evd_handle_t transfers, connections;
static struct kv_offer offer;

void kv_check(it_status_t status, const char *what)
{
    if (status == IT_SUCCESS)
        return;
    fprintf(stderr, "kv_server: %s: %s\n", what, itx_status_text(status));
    exit(1); /* the library closes what is open */
}

/* ---- the table ---- */

static enum kv_result store(const struct kv_put *put)
{
    struct kv_slot *slot = NULL, *end;

    if (!put->key[0] || !memchr(put->key, 0, KV_KEY) || ntohl(put->length) > KV_VALUE)
        return KV_MALFORMED;
    slot = &table[kv_first_slot(put->key)];
    for (end = slot + KV_PROBES; slot < end; slot++) {
        if (slot->entry.key[0] && strcmp(slot->entry.key, put->key))
            continue;
        slot->entry = *put;
        slot->sum = it_hton64(kv_sum(put));
        return KV_STORED;
    }
    return KV_FULL;
}

/* ---- messages ---- */

static void expect_put(size_t index)
{
    it_lmr_triplet_t inbox = { .lmr = message_lmr,
                               .addr.abs = &messages[index].received,
                               .length = sizeof(struct kv_put) };

    /* The completion returns the cookie, which identifies the client. */
    kv_check(it_post_recv((it_handle_t)clients[index].ep, &inbox, 1, index,
                          IT_COMPLETION_FLAG | IT_NOTIFY_FLAG),
             "posting a receive");
}

static void answer(size_t index)
{
    it_lmr_triplet_t outbox = { .lmr = message_lmr,
                                .addr.abs = &messages[index].sent,
                                .length = sizeof(struct kv_reply) };
    it_status_t status;

    clients[index].owes = 0;
    /* With a completion, which frees its place in the queue when it is dequeued; without
     * IT_NOTIFY_FLAG, because nothing waits for it. The peer may have disconnected meanwhile. */
    status = it_post_send(clients[index].ep, &outbox, 1, index, IT_COMPLETION_FLAG);
    if (status != IT_ERR_INVALID_EP_STATE)
        kv_check(status, "posting a send");
}

static void on_transfer(const it_event_t *event)
{
    size_t index = (size_t)event->dto_cmpl.cookie;
    enum kv_result result = KV_MALFORMED;

    /* When a connection ends, its outstanding Receive completes with IT_DTO_ERR_FLUSHED. An
     * interface may still return completions of an Endpoint that was freed. */
    if (event->dto_cmpl.dto_status != IT_DTO_SUCCESS || !clients[index].used ||
        event->dto_cmpl.ep != clients[index].ep)
        return;
    if (event->dto_cmpl.transferred_length == sizeof(struct kv_put))
        result = store(&messages[index].received);
    messages[index].sent.result = htonl(result);
    expect_put(index); /* first: the answer makes the client send again */
    if (clients[index].established)
        answer(index);
    else
        clients[index].owes = 1;
}

/* ---- connections ---- */

static void on_request(const it_event_t *event)
{
    it_cn_est_identifier_t id = event->conn_req.cn_est_id;
    it_ep_attributes_t attributes = {
        .max_dto_payload_size = sizeof(struct kv_put),
        .max_request_dtos = REQUESTS,
        .max_recv_dtos = RECEIVES,
        .max_send_segments = 1,
        .max_recv_segments = 1,
        .srv.rc = {
            .rdma_read_enable = IT_TRUE, /* the client may read; at most 4 Reads at once */
            .rdma_read_ird = 4,
            .max_rdma_read_segments = 1,
            .max_rdma_write_segments = 1,
            .hard_hi_watermark = IT_HARD_HI_WATERMARK_DISABLE,
        },
    };
    size_t index = 0;

    while (index < CLIENTS && clients[index].used)
        index++;
    if (index == CLIENTS) {
        it_reject(id, NULL, 0);
        return;
    }
    kv_check(it_ep_rc_create(pz, transfers, transfers, connections, IT_EP_NO_FLAG, &attributes,
                             &clients[index].ep),
             "making an endpoint");
    clients[index].used = 1;
    clients[index].established = clients[index].owes = 0;
    expect_put(index); /* before the client can send */
    if (it_ep_accept(clients[index].ep, id, (unsigned char *)&offer, sizeof(offer)) == IT_SUCCESS)
        return;
    it_ep_free(clients[index].ep); /* the client has given up meanwhile */
    clients[index].used = 0;
}

/* CLIENTS: no client; its Endpoint is freed already. */
static size_t client_of(const it_event_t *event)
{
    size_t index = 0;

    while (index < CLIENTS && (!clients[index].used || clients[index].ep != event->conn.ep))
        index++;
    return index;
}

/* Events of one queue come in order; those of two queues do not. So the first put may be dequeued
 * before this event, and until this event the Endpoint cannot send. */
static void on_established(const it_event_t *event)
{
    size_t index = client_of(event);

    if (index == CLIENTS)
        return;
    clients[index].established = 1;
    if (clients[index].owes)
        answer(index);
}

static void on_end(const it_event_t *event)
{
    size_t index = client_of(event);

    if (index == CLIENTS)
        return;
    kv_check(it_ep_free(clients[index].ep), "freeing an endpoint");
    clients[index].used = 0;
}

void kv_handle(const it_event_t *event)
{
    switch (event->event_number) {
    case IT_CM_REQ_CONN_REQUEST_EVENT: on_request(event); break;
    case IT_CM_MSG_CONN_ESTABLISHED_EVENT: on_established(event); break;
    case IT_CM_MSG_CONN_DISCONNECT_EVENT:
    case IT_CM_MSG_CONN_BROKEN_EVENT:
    case IT_CM_MSG_CONN_NONPEER_REJECT_EVENT: on_end(event); break;
    case IT_DTO_RC_RECV_CMPL_EVENT: on_transfer(event); break;
    default: break; /* a Send is complete, or failed: then the connection's end follows */
    }
}

/* ---- start ---- */

it_ia_handle_t kv_open(void)
{
    size_t room = 1, total = 0;
    it_interface_t interface;
    it_ia_handle_t ia;

    it_interface_list(&interface, &room, &total);
    if (room == 0) {
        fprintf(stderr, "kv_server: no usable interface; see 'itinfo --why'\n");
        exit(1);
    }
    kv_check(it_ia_create(interface.name, 2, 1, &ia), "opening the interface");
    return ia;
}

static it_lmr_handle_t register_memory(void *memory, size_t length, it_mem_priv_t privileges,
                                       it_rmr_context_t *context)
{
    it_lmr_handle_t lmr;

    kv_check(it_lmr_create(pz, memory, NULL, length, IT_ADDR_MODE_ABSOLUTE, privileges,
                           IT_LMR_FLAG_NONE, 0, &lmr, context),
             "registering memory");
    return lmr;
}

static uint16_t port_of(const char *argument)
{
    char *end;
    unsigned long port = strtoul(argument, &end, 10);

    if (*argument < '0' || *argument > '9' || *end || port > UINT16_MAX) {
        fprintf(stderr, "kv_server: '%s' is no port; give 0 (any) to 65535\n", argument);
        exit(2);
    }
    return (uint16_t)port;
}

void kv_start(it_ia_handle_t ia, const char *argument, it_evd_flags_t flags, it_evd_handle_t aevd,
              it_evd_handle_t queues[KV_QUEUES], int fds[KV_QUEUES])
{
    static const it_event_type_t streams[KV_QUEUES] = {
        [KV_REQUESTS] = IT_CM_REQ_EVENT_STREAM,
        [KV_CONNECTIONS] = IT_CM_MSG_EVENT_STREAM,
        [KV_TRANSFERS] = IT_DTO_EVENT_STREAM,
    };
    /* Room for everything that all clients can have outstanding: a queue must not overflow. */
    static const size_t sizes[KV_QUEUES] = {
        [KV_REQUESTS] = CLIENTS,
        [KV_CONNECTIONS] = 2 * CLIENTS,
        [KV_TRANSFERS] = CLIENTS * (REQUESTS + RECEIVES),
    };
    uint16_t port = argument ? port_of(argument) : KV_PORT;
    it_conn_qual_t where = { .type = IT_IANA_PORT, .conn_qual.port = htons(port) };
    it_rmr_context_t context;
    it_listen_handle_t listening;

    kv_check(it_pz_create(ia, &pz), "making a protection zone");
    register_memory(table, sizeof(table), IT_PRIV_LOCAL | IT_PRIV_REMOTE_READ, &context);
    message_lmr = register_memory(messages, sizeof(messages), IT_PRIV_LOCAL, NULL);
    offer.address = it_hton64(it_make_rdma_addr_absolute(table));
    offer.context = it_hton64(context);
    offer.slots = htonl(KV_SLOTS);
    offer.slot_size = htonl(sizeof(struct kv_slot));
    for (int i = 0; i < KV_QUEUES; i++)
        kv_check(it_evd_create(ia, streams[i], IT_EVD_OVERFLOW_DEFAULT | flags, sizes[i],
                               IT_THRESHOLD_DISABLE, aevd, &queues[i], fds ? &fds[i] : NULL),
                 "making an event queue");
    connections = queues[KV_CONNECTIONS];
    transfers = queues[KV_TRANSFERS];
    kv_check(it_listen_create(ia, 0, queues[KV_REQUESTS],
                              port ? IT_LISTEN_CONN_QUAL_INPUT : IT_LISTEN_NO_FLAG, &where,
                              &listening),
             "listening");
    printf("listening on port %u\n", ntohs(where.conn_qual.port));
    fflush(stdout);
}
