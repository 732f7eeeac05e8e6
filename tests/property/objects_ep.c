/* SPDX-License-Identifier: BSD-3-Clause */
/* Random calls against a model of the objects: endpoints, listen points, connections. */
#include "objects.h"

static const it_ep_state_rc_t UNCONNECTED = IT_EP_STATE_UNCONNECTED;
static const it_ep_state_rc_t CONNECTED = IT_EP_STATE_CONNECTED;
static const it_ep_state_rc_t NONOPERATIONAL = IT_EP_STATE_NONOPERATIONAL;

static bool is_stream(const struct object *evd, it_event_type_t stream)
{
    return evd->evd.stream == stream;
}

/* --- endpoints --- */

static it_ep_attributes_t attributes(const struct object *srq)
{
    it_ep_attributes_t attributes;

    memset(&attributes, 0, sizeof(attributes));
    attributes.max_dto_payload_size = 4096;
    attributes.max_request_dtos = 4;
    attributes.max_recv_dtos = 4;
    attributes.max_send_segments = attributes.max_recv_segments = 1;
    attributes.srv.rc.max_rdma_read_segments = attributes.srv.rc.max_rdma_write_segments = 1;
    attributes.srv.rc.rdma_read_ird = attributes.srv.rc.rdma_read_ord = 1;
    attributes.srv.rc.srq = handle_of(srq);
    attributes.srv.rc.hard_hi_watermark = IT_HARD_HI_WATERMARK_DISABLE;
    return attributes;
}

/* The arguments are checked in their order. */
static it_status_t ep_expected(const struct object *pz, const struct object *requests,
                               const struct object *receives, const struct object *connections,
                               const struct object *srq)
{
    if (!alive(pz))
        return IT_ERR_INVALID_PZ;
    if (!alive(requests))
        return IT_ERR_INVALID_REQ_EVD;
    if (!is_stream(requests, IT_DTO_EVENT_STREAM))
        return IT_ERR_INVALID_EVD_TYPE;
    if (!alive(receives))
        return IT_ERR_INVALID_RECV_EVD;
    if (!is_stream(receives, IT_DTO_EVENT_STREAM))
        return IT_ERR_INVALID_EVD_TYPE;
    if (!alive(connections))
        return IT_ERR_INVALID_CONN_EVD;
    if (!is_stream(connections, IT_CM_MSG_EVENT_STREAM))
        return IT_ERR_INVALID_EVD_TYPE;
    return srq && (!alive(srq) || srq->pz != pz) ? IT_ERR_INVALID_SRQ : IT_SUCCESS;
}

void call_ep_create(struct model *model)
{
    struct object *pz = model_pick(model, PZ);
    struct object *ia = alive(pz) ? pz->ia : NULL;
    struct object *requests = model_pick_stream(model, ia, IT_DTO_EVENT_STREAM);
    struct object *receives = model_pick_stream(model, ia, IT_DTO_EVENT_STREAM);
    struct object *connections = model_pick_stream(model, ia, IT_CM_MSG_EVENT_STREAM);
    struct object *srq = tc_below(&model->rng, 2) ? model_pick_in(model, SRQ, ia) : NULL;
    it_ep_attributes_t wanted = attributes(srq);
    it_status_t expected = ep_expected(pz, requests, receives, connections, srq);
    struct object *ep;
    it_ep_handle_t handle;

    model_check(model, "it_ep_rc_create",
                it_ep_rc_create(handle_of(pz), handle_of(requests), handle_of(receives),
                                handle_of(connections), srq ? IT_EP_SRQ : IT_EP_NO_FLAG, &wanted,
                                &handle),
                expected);
    if (expected != IT_SUCCESS)
        return;
    ep = model_add(model, EP, handle, ia, pz);
    ep->ep.requests = requests;
    ep->ep.receives = receives;
    ep->ep.connections = connections;
    ep->ep.state = UNCONNECTED;
    ep->ep.srq = srq;
    if (srq)
        srq->users++;
    requests->users++;
    receives->users++;
    connections->users++;
}

static struct object *by_handle(struct model *model, it_ep_handle_t ep)
{
    for (struct object *it = model->objects; it < model->objects + OBJECTS; it++)
        if (it->alive && it->kind == EP && it->handle == (it_handle_t)ep)
            return it;
    ck_abort_msg("a completion of an endpoint that does not exist");
    return NULL;
}

/* Its Receives complete as flushed, in the order of posting, mixed with those of its peer, which
 * may share the EVD and ends too. */
static void expect_flushed(struct model *model, struct object *ep)
{
    while (ep->ep.posted) {
        it_dto_cmpl_event_t done =
            model_expect(ep->ep.receives, IT_DTO_RC_RECV_CMPL_EVENT).dto_cmpl;
        struct object *whose = by_handle(model, done.ep);

        ck_assert_int_eq(done.dto_status, IT_DTO_ERR_FLUSHED);
        ck_assert_uint_eq(done.cookie, whose->ep.cookie - whose->ep.posted);
        whose->ep.posted--;
    }
}

/* The connection has ended: one event for it, all requests flushed. Events of others that end too,
 * and share the EVD, may come first. */
static void expect_the_end(struct model *model, struct object *ep)
{
    while (ep->ep.state == CONNECTED) {
        it_event_t event = model_next(ep->ep.connections);
        struct object *whose = by_handle(model, event.conn.ep);

        ck_assert(event.event_number == IT_CM_MSG_CONN_DISCONNECT_EVENT ||
                  event.event_number == IT_CM_MSG_CONN_BROKEN_EVENT);
        ck_assert(whose->ep.ends && whose->ep.state == CONNECTED);
        whose->ep.state = NONOPERATIONAL;
    }
    ep->ep.ends = false;
    expect_flushed(model, ep);
}

/* An endpoint of a connection is freed: the other one gets an event. */
static void ends(struct object *peer)
{
    peer->ep.ends = true;
    peer->ep.peer = NULL;
}

void peers_lose(struct model *model, struct object *ia)
{
    for (struct object *it = model->objects; it < model->objects + OBJECTS; it++)
        if (it->alive && it->kind == EP && it->ia == ia && it->ep.peer)
            ends(it->ep.peer);
    for (struct object *it = model->objects; it < model->objects + OBJECTS; it++)
        if (it->alive && it->kind == EP && it->ia != ia && it->ep.ends)
            expect_the_end(model, it);
}

static void unuse(struct object *ep)
{
    ep->ep.requests->users--;
    ep->ep.receives->users--;
    ep->ep.connections->users--;
    if (ep->ep.srq)
        ep->ep.srq->users--;
}

void call_ep_free(struct model *model)
{
    struct object *ep = model_pick(model, EP);
    it_status_t expected = alive(ep) ? IT_SUCCESS : IT_ERR_INVALID_EP;

    model_check(model, "it_ep_free", it_ep_free(handle_of(ep)), expected);
    if (expected != IT_SUCCESS)
        return;
    unuse(ep);
    model_remove(model, ep);
    if (ep->ep.peer) {
        ends(ep->ep.peer);
        expect_the_end(model, ep->ep.peer);
    }
}

void call_ep_reset(struct model *model)
{
    struct object *ep = model_pick(model, EP);
    it_status_t expected = !alive(ep)                  ? IT_ERR_INVALID_EP
                           : ep->ep.state == CONNECTED ? IT_ERR_CANNOT_RESET
                                                       : IT_SUCCESS;

    model_check(model, "it_ep_reset", it_ep_reset(handle_of(ep)), expected);
    if (expected != IT_SUCCESS)
        return;
    ep->ep.state = UNCONNECTED;
    expect_flushed(model, ep);
}

void call_disconnect(struct model *model)
{
    struct object *ep = model_pick(model, EP), *peer;
    it_status_t expected = !alive(ep)                  ? IT_ERR_INVALID_EP
                           : ep->ep.state == CONNECTED ? IT_SUCCESS
                                                       : IT_ERR_INVALID_EP_STATE;

    model_check(model, "it_ep_disconnect", it_ep_disconnect(handle_of(ep), NULL, 0), expected);
    if (expected != IT_SUCCESS)
        return;
    peer = ep->ep.peer;
    ends(ep);
    ends(peer);
    expect_the_end(model, ep);
    expect_the_end(model, peer);
}

/* --- work --- */

void call_post_recv(struct model *model)
{
    struct object *ep = model_pick(model, EP);
    it_status_t expected = !alive(ep)           ? IT_ERR_INVALID_HANDLE
                           : ep->ep.srq         ? IT_ERR_INVALID_EP
                           : ep->ep.posted == 4 ? IT_ERR_TOO_MANY_POSTS
                                                : IT_SUCCESS;
    uint64_t cookie = alive(ep) ? ep->ep.cookie : 0;

    model_check(model, "it_post_recv", it_post_recv(handle_of(ep), NULL, 0, cookie, BOTH),
                expected);
    if (expected != IT_SUCCESS)
        return;
    ep->ep.cookie++;
    ep->ep.posted++;
    if (ep->ep.state == NONOPERATIONAL)
        expect_flushed(model, ep);
}

void call_post_srq(struct model *model)
{
    struct object *srq = model_pick(model, SRQ);
    it_status_t expected = !alive(srq)                        ? IT_ERR_INVALID_HANDLE
                           : srq->srq.posted == srq->srq.size ? IT_ERR_TOO_MANY_POSTS
                                                              : IT_SUCCESS;
    uint64_t cookie = alive(srq) ? srq->srq.cookie : 0;

    model_check(model, "it_post_recv", it_post_recv(handle_of(srq), NULL, 0, cookie, BOTH),
                expected);
    if (expected != IT_SUCCESS)
        return;
    srq->srq.cookie++;
    srq->srq.posted++;
}

/* The counter of its Receives: those of its own queue or of the shared one. */
static size_t *posted_of(struct object *ep)
{
    return ep->ep.srq ? &ep->ep.srq->srq.posted : &ep->ep.posted;
}

static uint64_t oldest_of(struct object *ep)
{
    return (ep->ep.srq ? ep->ep.srq->srq.cookie : ep->ep.cookie) - *posted_of(ep);
}

static void is_done(const it_event_t *event, it_event_type_t number, uint64_t cookie,
                    it_dto_status_t status)
{
    ck_assert_int_eq(event->event_number, number);
    ck_assert_uint_eq(event->dto_cmpl.cookie, cookie);
    ck_assert_int_eq(event->dto_cmpl.dto_status, status);
}

static void expect_sent(struct object *ep, it_dto_status_t status)
{
    it_event_t event = model_next(ep->ep.requests);

    is_done(&event, IT_DTO_SEND_CMPL_EVENT, 77, status);
}

static void expect_received(struct object *ep)
{
    it_event_t event = model_next(ep->ep.receives);

    is_done(&event, IT_DTO_RC_RECV_CMPL_EVENT, oldest_of(ep), IT_DTO_SUCCESS);
    ck_assert_ptr_eq(event.dto_cmpl.ep, ep->handle);
    --*posted_of(ep);
}

/* Of length 0, and only if the peer has a Receive for it. */
void call_post_send(struct model *model)
{
    struct object *ep = model_pick_sender(model), *peer = alive(ep) ? ep->ep.peer : NULL;
    it_status_t expected = !alive(ep)                    ? IT_ERR_INVALID_EP
                           : ep->ep.state == UNCONNECTED ? IT_ERR_INVALID_EP_STATE
                                                         : IT_SUCCESS;

    if (peer && !*posted_of(peer))
        return;
    model_check(model, "it_post_send", it_post_send(handle_of(ep), NULL, 0, 77, BOTH), expected);
    if (expected != IT_SUCCESS)
        return;
    if (!peer) {
        expect_sent(ep, IT_DTO_ERR_FLUSHED);
    } else if (peer->ep.receives == ep->ep.requests) { /* in either order */
        model_next(ep->ep.requests);
        model_next(ep->ep.requests);
        --*posted_of(peer);
    } else {
        expect_sent(ep, IT_DTO_SUCCESS);
        expect_received(peer);
    }
}

/* --- listen points --- */

void call_listen_create(struct model *model)
{
    struct object *ia = model_pick(model, IA);
    struct object *evd = model_pick_stream(model, ia, IT_CM_REQ_EVENT_STREAM), *listen;
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT };
    it_status_t expected = !alive(ia)                               ? IT_ERR_INVALID_IA
                           : !alive(evd)                            ? IT_ERR_INVALID_CONN_EVD
                           : is_stream(evd, IT_CM_REQ_EVENT_STREAM) ? IT_SUCCESS
                                                                    : IT_ERR_INVALID_EVD_TYPE;
    it_ia_info_t *info = NULL;
    it_listen_handle_t handle;
    size_t spigot = 0;

    if (alive(ia)) {
        ok(it_ia_query(ia->handle, &info));
        spigot = info->spigot_info[0].spigot_id;
        it_ia_info_free(info);
    }
    model_check(model, "it_listen_create",
                it_listen_create(handle_of(ia), spigot, handle_of(evd), IT_LISTEN_NO_FLAG,
                                 &qualifier, &handle),
                expected);
    if (expected != IT_SUCCESS)
        return;
    listen = model_add(model, LISTEN, handle, ia, NULL);
    listen->listen.evd = evd;
    listen->listen.qualifier = qualifier;
    evd->users++;
}

void call_listen_free(struct model *model)
{
    struct object *listen = model_pick(model, LISTEN);
    it_status_t expected = alive(listen) ? IT_SUCCESS : IT_ERR_INVALID_LISTEN;

    model_check(model, "it_listen_free", it_listen_free(handle_of(listen)), expected);
    if (expected != IT_SUCCESS)
        return;
    listen->listen.evd->users--;
    model_remove(model, listen);
}

/* --- connections --- */

static it_path_t path_of(const struct object *from, const struct object *to)
{
    struct node a = { .ia = from->ia->handle }, b = { .ia = to->ia->handle };
    it_net_addr_t address;
    it_path_t path;

    ok(it_ia_query(a.ia, &a.info));
    ok(it_ia_query(b.ia, &b.info));
    address = node_address(&b, IT_IPV4);
    path = path_to(&a, &address);
    it_ia_info_free(a.info);
    it_ia_info_free(b.info);
    return path;
}

static void established(struct object *ep, struct object *peer)
{
    ep->ep.state = peer->ep.state = CONNECTED;
    ep->ep.peer = peer;
    peer->ep.peer = ep;
    if (ep->ep.connections == peer->ep.connections) {
        ck_assert_ptr_ne(
            model_expect(ep->ep.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT).conn.ep,
            model_expect(ep->ep.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT).conn.ep);
        return;
    }
    model_expect(ep->ep.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    model_expect(peer->ep.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
}

static void rejected(struct model *model, struct object *ep, it_cn_est_identifier_t id)
{
    model_check(model, "it_reject", it_reject(id, NULL, 0), IT_SUCCESS);
    model_expect(ep->ep.connections, IT_CM_MSG_CONN_PEER_REJECT_EVENT);
    ep->ep.state = NONOPERATIONAL;
    expect_flushed(model, ep);
}

/* Accepted with any suitable endpoint of the listen point's adapter; else rejected. Either consumes
 * the identifier. */
static void answer(struct model *model, struct object *ep, const struct object *listen)
{
    it_event_t asked = model_expect(listen->listen.evd, IT_CM_REQ_CONN_REQUEST_EVENT);
    it_cn_est_identifier_t id = asked.conn_req.cn_est_id;
    struct object *peer = model_pick_in(model, EP, listen->ia);
    it_status_t expected = !alive(peer)                                  ? IT_ERR_INVALID_EP
                           : peer->ep.state == UNCONNECTED && peer != ep ? IT_SUCCESS
                                                                         : IT_ERR_INVALID_EP_STATE;

    model_check(model, "it_ep_accept", it_ep_accept(handle_of(peer), id, NULL, 0), expected);
    if (expected == IT_SUCCESS)
        established(ep, peer);
    else
        rejected(model, ep, id);
    model_check(model, "it_reject", it_reject(id, NULL, 0), IT_ERR_INVALID_CN_EST_ID);
}

void call_connect(struct model *model)
{
    struct object *ep = model_pick(model, EP), *listen = model_pick(model, LISTEN);
    it_status_t expected;
    it_conn_qual_t qualifier;
    it_path_t path;

    if (!alive(listen) || !ep)
        return;
    qualifier = towards(&listen->listen.qualifier);
    path = path_of(alive(ep) ? ep : listen, listen);
    expected = !alive(ep)                    ? IT_ERR_INVALID_EP
               : ep->ep.state == UNCONNECTED ? IT_SUCCESS
                                             : IT_ERR_INVALID_EP_STATE;
    model_check(
        model, "it_ep_connect",
        it_ep_connect(handle_of(ep), &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0),
        expected);
    if (expected == IT_SUCCESS)
        answer(model, ep, listen);
}
