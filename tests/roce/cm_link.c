/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define DELAY (2 * LINK_MS)

#define MUST(what)                                                                    \
    do {                                                                              \
        if (!(what)) {                                                                \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what); \
            abort();                                                                  \
        }                                                                             \
    } while (0)

static uint32_t below(struct link *link, uint32_t limit)
{
    link->rng = link->rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(link->rng >> 33) % limit;
}

/* --- the link --- */

static struct link_end *end_of(struct cm_manager *manager)
{
    return container_of(manager, struct link_end, manager);
}

struct cm_address link_address(const struct link *link, uint32_t side)
{
    struct cm_address address;

    memcpy(address.own, link->end[side].gid, GID_LEN);
    memcpy(address.peer, link->end[!side].gid, GID_LEN);
    return address;
}

static void enqueue(struct link *link, uint32_t to, const uint8_t mad[MAD_LEN], uint64_t at)
{
    struct link_datagram *datagram = malloc(sizeof(*datagram)), **place = &link->queue;

    MUST(datagram);
    datagram->at = at;
    datagram->to = to;
    memcpy(datagram->mad, mad, MAD_LEN);
    while (*place && (*place)->at <= at)
        place = &(*place)->next;
    datagram->next = *place;
    *place = datagram;
}

/* Nothing is under way for longer than the packet life time that REQs tell: about a second. */
static uint64_t arrival(struct link *link)
{
    uint64_t late = below(link, 1000) < link->faults.reorder ? below(link, 1000) * LINK_MS : 0;

    return link->now + DELAY + late;
}

static void on_send(struct cm_manager *manager, const struct cm_address *to,
                    const uint8_t mad[static MAD_LEN])
{
    struct link_end *end = end_of(manager);
    struct link *link = end->link;
    struct link_sent *sent = &link->log[link->logged % LINK_LOG];

    link->logged++;
    *sent = (struct link_sent){ .at = link->now, .side = end->side, .to = *to };
    memcpy(sent->mad, mad, MAD_LEN);
    sent->lost = (link->lose && link->lose(link, sent)) || below(link, 1000) < link->faults.loss ||
                 link->alone;
    if (sent->lost)
        return;
    enqueue(link, !end->side, mad, arrival(link));
    if (below(link, 1000) < link->faults.duplicate)
        enqueue(link, !end->side, mad, arrival(link));
}

static void on_arm(struct cm_manager *manager, uint64_t at)
{
    end_of(manager)->timer = at;
}

static uint32_t on_new_id(struct cm_manager *manager)
{
    struct link_end *end = end_of(manager);

    return ++end->ids * 2 + 0x10000 * (end->side + 1);
}

/* --- connections --- */

struct link_conn *link_new(struct link *link, uint32_t side)
{
    struct link_end *end = &link->end[side];

    for (uint32_t i = 0; i < LINK_CONNS; i++) {
        struct link_conn *conn = &end->conns[i];

        if (conn->used)
            continue;
        memset(conn, 0, sizeof(*conn));
        conn->used = true;
        conn->side = side;
        conn->qpn = LINK_QPN + i;
        MUST(cm_conn_init(&end->manager, &conn->cm));
        return conn;
    }
    return NULL;
}

static struct cm_conn *on_make(struct cm_manager *manager, struct cm_service *service)
{
    struct link_end *end = end_of(manager);
    struct link_conn *conn = end->makes ? link_new(end->link, end->side) : NULL;

    (void)service;
    end->makes -= conn != NULL;
    return conn ? &conn->cm : NULL;
}

static void note(struct link_conn *conn, const struct cm_message *message)
{
    if (message->attribute_id == CM_REQ) {
        conn->peer_qpn = message->req.local_qpn;
        conn->psn = message->req.starting_psn;
    }
    if (message->attribute_id == CM_REP) {
        conn->peer_qpn = message->rep.local_qpn;
        conn->psn = message->rep.starting_psn;
    }
    if (message->attribute_id == CM_REJ)
        conn->reason = message->rej.reason;
    if (message->attribute_id == CM_SIDR_REP)
        conn->reason = message->sidr_rep.status;
    memcpy(conn->private_data, message->private_data, message->private_len);
}

static void on_event(struct cm_manager *manager, struct cm_conn *cm, const struct cm_event *event)
{
    struct link_conn *conn = container_of(cm, struct link_conn, cm);

    (void)manager;
    MUST(conn->used && !conn->done && !cm->released);
    conn->events[event->type]++;
    conn->told |= 1u << event->type;
    conn->by_silence = !event->message;
    if (event->message)
        note(conn, event->message);
}

static void on_done(struct cm_manager *manager, struct cm_conn *cm)
{
    struct link_conn *conn = container_of(cm, struct link_conn, cm);

    (void)manager;
    MUST(conn->used && !conn->done && cm->released);
    conn->done = true;
    conn->used = false;
}

static const struct cm_ops ops = {
    .send = on_send,
    .arm = on_arm,
    .make = on_make,
    .event = on_event,
    .done = on_done,
    .new_id = on_new_id,
};

/* --- open, close --- */

static void open_end(struct link *link, uint32_t side)
{
    struct link_end *end = &link->end[side];
    const uint8_t ipv4[] = { 10, 0, 0, (uint8_t)(1 + side) };

    end->link = link;
    end->side = side;
    end->timer = CM_NEVER;
    end->accepts = end->confirms = end->answers = true;
    end->makes = UINT32_MAX;
    gid_put_ipv4(end->gid, ipv4);
    cm_manager_init(&end->manager, &ops, LINK_MTU);
}

void link_open(struct link *link, uint64_t seed, const struct link_faults *faults)
{
    static const struct link_faults none;
    struct link_end *server = &link->end[1];

    memset(link, 0, sizeof(*link));
    link->rng = seed;
    link->now = LINK_S;
    link->faults = faults ? *faults : none;
    open_end(link, 0);
    open_end(link, 1);
    server->service = (struct cm_service){ .service_id = cma_service_id(CMA_PS_TCP, LINK_PORT),
                                           .ipv4 = true,
                                           .backlog = 16 };
    server->datagrams = (struct cm_service){ .service_id = cma_service_id(CMA_PS_UDP, LINK_PORT),
                                             .ipv4 = true,
                                             .datagram = true,
                                             .backlog = 16 };
    MUST(cm_service_listen(&server->manager, &server->service));
    MUST(cm_service_listen(&server->manager, &server->datagrams));
}

void link_release(struct link *link, struct link_conn *conn)
{
    MUST(conn->used && !conn->cm.released);
    cm_conn_release(&conn->cm, link->now);
}

void link_close(struct link *link)
{
    cm_service_end(&link->end[1].manager, &link->end[1].service);
    cm_service_end(&link->end[1].manager, &link->end[1].datagrams);
    for (uint32_t side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < LINK_CONNS; i++) {
            struct link_conn *conn = &link->end[side].conns[i];

            if (conn->used && !conn->cm.released)
                link_release(link, conn);
        }
        cm_manager_clear(&link->end[side].manager);
    }
    while (link->queue) {
        struct link_datagram *next = link->queue->next;

        free(link->queue);
        link->queue = next;
    }
}

/* --- consumers --- */

bool link_accept(struct link *link, struct link_conn *conn)
{
    struct cm_message rep = { .rep = { .local_qpn = conn->qpn,
                                       .starting_psn = 0x500 + conn->qpn,
                                       .responder_resources = 4,
                                       .initiator_depth = 4,
                                       .target_ack_delay = 15,
                                       .rnr_retry_count = 7,
                                       .local_ca_guid = LINK_GUID + conn->side },
                              .private_data = (const uint8_t *)"accepted",
                              .private_len = 8 };

    return cm_conn_accept(&conn->cm, &rep, link->now);
}

static void answer(struct link *link, struct link_conn *conn)
{
    struct cm_message rep = { .sidr_rep = { .qpn = conn->qpn, .q_key = 0x01234567 } };

    cm_conn_answer(&conn->cm, &rep, link->now);
}

static void consume(struct link *link, struct link_conn *conn)
{
    struct link_end *end = &link->end[conn->side];
    uint32_t told = conn->told;

    conn->told = 0;
    if (told & 1u << CM_EVENT_REQUEST) {
        if (conn->cm.state >= CM_SIDR_REQ_SENT && end->answers)
            answer(link, conn);
        else if (conn->cm.state < CM_SIDR_REQ_SENT && end->accepts)
            link_accept(link, conn);
    }
    if (told & 1u << CM_EVENT_REP && end->confirms)
        cm_conn_confirm(&conn->cm, NULL, 0, link->now);
    if (told & 1u << CM_EVENT_ESTABLISHED && end->disconnects)
        cm_conn_disconnect(&conn->cm, NULL, 0, CM_NEVER, link->now);
}

void link_consume(struct link *link)
{
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t i = 0; i < LINK_CONNS; i++)
            if (link->end[side].conns[i].used && link->end[side].conns[i].told)
                consume(link, &link->end[side].conns[i]);
}

/* --- time --- */

static uint64_t next_time(const struct link *link)
{
    uint64_t at = link->queue ? link->queue->at : CM_NEVER;

    for (uint32_t side = 0; side < 2; side++)
        if (link->end[side].timer < at)
            at = link->end[side].timer;
    return at;
}

static void deliver(struct link *link)
{
    struct link_datagram *datagram = link->queue;
    struct cm_address address = link_address(link, datagram->to);

    link->queue = datagram->next;
    cm_manager_receive(&link->end[datagram->to].manager, &address, datagram->mad, MAD_LEN,
                       link->now);
    free(datagram);
}

static void expire(struct link *link)
{
    for (uint32_t side = 0; side < 2; side++) {
        struct link_end *end = &link->end[side];

        if (end->timer > link->now)
            continue;
        end->timer = CM_NEVER;
        cm_manager_expired(&end->manager, link->now);
    }
}

bool link_step(struct link *link)
{
    uint64_t at = next_time(link);

    if (at == CM_NEVER)
        return false;
    if (at > link->now)
        link->now = at;
    if (link->queue && link->queue->at <= link->now) {
        deliver(link);
    } else {
        expire(link);
    }
    link_consume(link);
    return true;
}

void link_run(struct link *link, uint64_t until)
{
    while (next_time(link) <= until && link_step(link))
        ;
    if (until != CM_NEVER && link->now < until)
        link->now = until;
}

/* --- requests --- */

void link_fill_req(const struct link *link, uint32_t qpn, struct cm_message *message,
                   uint8_t private_data[static CM_REQ_PRIVATE])
{
    struct cma_header header = { .source_port = 40000 };
    struct cm_req *req = &message->req;

    memset(message, 0, sizeof(*message));
    memset(private_data, 0, CM_REQ_PRIVATE);
    memcpy(header.source, link->end[0].gid, GID_LEN);
    memcpy(header.destination, link->end[1].gid, GID_LEN);
    cma_put(private_data, &header);
    memcpy(private_data + CMA_HEADER_LEN, "hello", 5);
    message->attribute_id = CM_REQ;
    message->private_data = private_data;
    message->private_len = CM_REQ_PRIVATE;
    *req = (struct cm_req){ .local_comm_id = 0x77,
                            .service_id = cma_service_id(CMA_PS_TCP, LINK_PORT),
                            .local_ca_guid = LINK_GUID,
                            .local_qpn = qpn,
                            .responder_resources = 4,
                            .initiator_depth = 4,
                            .remote_cm_response_timeout = 20,
                            .local_cm_response_timeout = 20,
                            .starting_psn = 0x300 + qpn,
                            .retry_count = 7,
                            .rnr_retry_count = 7,
                            .p_key = 0xFFFF,
                            .path_mtu = LINK_MTU,
                            .max_cm_retries = 15 };
    req->primary.local_ack_timeout = 19;
    memcpy(req->primary.local_gid, link->end[0].gid, GID_LEN);
    memcpy(req->primary.remote_gid, link->end[1].gid, GID_LEN);
}

struct link_conn *link_connect(struct link *link, uint64_t give_up)
{
    struct link_conn *conn = link_new(link, 0);
    struct cm_address address = link_address(link, 0);
    uint8_t private_data[CM_REQ_PRIVATE];
    struct cm_message message;

    MUST(conn);
    link_fill_req(link, conn->qpn, &message, private_data);
    MUST(cm_conn_connect(&conn->cm, &address, &message, give_up, link->now));
    return conn;
}

struct link_conn *link_ask(struct link *link)
{
    struct link_conn *conn = link_new(link, 0);
    struct cm_address address = link_address(link, 0);
    uint8_t private_data[CM_REQ_PRIVATE];
    struct cm_message req, message = { .sidr_req = { .p_key = 0xFFFF } };

    MUST(conn);
    link_fill_req(link, 0, &req, private_data);
    message.sidr_req.service_id = cma_service_id(CMA_PS_UDP, LINK_PORT);
    message.private_data = private_data;
    message.private_len = CM_REQ_PRIVATE;
    MUST(cm_conn_ask(&conn->cm, &address, &message, 20, 15, CM_NEVER, link->now));
    return conn;
}

struct link_conn *link_peer(struct link *link, const struct link_conn *conn)
{
    struct link_end *other = &link->end[!conn->side];

    for (uint32_t i = 0; i < LINK_CONNS; i++)
        if (other->conns[i].used && other->conns[i].cm.peer_id == conn->cm.own_id &&
            other->conns[i].cm.passive == !conn->cm.passive)
            return &other->conns[i];
    return NULL;
}

/* --- messages by hand --- */

void link_inject(struct link *link, uint32_t side, const struct cm_message *message)
{
    struct cm_address address = link_address(link, side);
    uint8_t mad[MAD_LEN];

    MUST(cm_put(mad, message) == MAD_OK);
    cm_manager_receive(&link->end[side].manager, &address, mad, MAD_LEN, link->now);
    link_consume(link);
}

static uint16_t attribute_of(const struct link_sent *sent)
{
    struct mad_header header;

    mad_get_header(sent->mad, &header);
    return header.attribute_id;
}

uint32_t link_count(const struct link *link, uint32_t side, uint16_t attribute)
{
    uint32_t count = 0;

    MUST(link->logged <= LINK_LOG);
    for (uint32_t i = 0; i < link->logged; i++)
        count += link->log[i].side == side && attribute_of(&link->log[i]) == attribute;
    return count;
}

const struct link_sent *link_last(const struct link *link, uint32_t side, uint16_t attribute,
                                  struct cm_message *message)
{
    MUST(link->logged <= LINK_LOG);
    for (uint32_t i = link->logged; i--;) {
        const struct link_sent *sent = &link->log[i];

        if (sent->side != side || attribute_of(sent) != attribute)
            continue;
        MUST(cm_parse(sent->mad, MAD_LEN, message) == MAD_OK);
        return sent;
    }
    return NULL;
}

struct link_conn *link_ask_by_hand(struct link *link,
                                   void (*change)(struct cm_message *message, uint8_t *data))
{
    uint8_t data[CM_REQ_PRIVATE];
    struct cm_message message;

    link->alone = true;
    link_fill_req(link, 0x99, &message, data);
    message.transaction_id = 0x1234;
    if (change)
        change(&message, data);
    link_inject(link, 1, &message);
    for (uint32_t i = 0; i < LINK_CONNS; i++)
        if (link->end[1].conns[i].used)
            return &link->end[1].conns[i];
    return NULL;
}
