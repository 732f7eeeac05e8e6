/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fixture of most tests of ual: an open IA over the fake kal with a zone, EVDs, and an
 * endpoint.
 */
#ifndef ITAL_TESTS_UAL_IA_FIXTURE_H
#define ITAL_TESTS_UAL_IA_FIXTURE_H

#include "fake_kal.h"
#include "tc_status.h"

#include "ual/policy/connect.h"

#include <arpa/inet.h>

static struct ual_device *ia;
static struct ual_pd *pz;
static struct ual_evd *dto_evd, *connect_evd, *request_evd, *affiliated_evd;
static struct ual_ep *ep;
static struct ual_listen *listen_point;

static inline struct ual_evd *make_evd(enum ual_stream stream, uint32_t size)
{
    struct ual_evd_attr attr = { .stream = stream, .size = size };
    struct ual_evd *evd = NULL;

    ok(ual_evd_create(ia, &attr, &evd));
    return evd;
}

static inline struct ual_ep *make_ep(void)
{
    struct ual_ep_attr attr = {
        .max_send_wr = 8,
        .max_recv_wr = 8,
        .max_send_sge = 2,
        .max_recv_sge = 2,
        .ird = 3,
        .ord = 4,
        .max_payload = 1000,
    };
    struct ual_ep *made = NULL;

    ok(ual_ep_create(pz, dto_evd, dto_evd, connect_evd, &attr, &made));
    return made;
}

static inline struct sockaddr_in address(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
}

/* All but the endpoint; the test sets fk.attr before. */
static inline void open_adapter(void)
{
    struct sockaddr_in any = address(0);

    ok(ual_ia_open("fake0", &ia));
    ok(ual_pd_create(ia, &pz));
    dto_evd = make_evd(UAL_STREAM_DTO, 64);
    connect_evd = make_evd(UAL_STREAM_CONNECTION, 8);
    request_evd = make_evd(UAL_STREAM_REQUEST, 4);
    affiliated_evd = make_evd(UAL_STREAM_AFFILIATED, 8);
    ok(ual_listen_create(ia, 0, request_evd, (struct sockaddr *)&any, true, NULL, &listen_point));
}

static inline void open_ia(void)
{
    fk_reset();
    open_adapter();
    ep = make_ep();
}

/* Closes what remains and checks that nothing is left. */
static inline void close_ia(void)
{
    ok(ual_ia_close(ia));
    ck_assert_uint_eq(fk.violations, 0);
    ck_assert_uint_eq(fk.kals, 0);
    ck_assert_uint_eq(fk.rnics, 0);
    ck_assert_uint_eq(fk.pds + fk.cqs + fk.qps + fk.regions + fk.mws + fk.srqs + fk.ahs, 0);
    ck_assert_uint_eq(fk.connections + fk.listeners, 0);
}

static inline struct ual_event next_event(struct ual_evd *evd)
{
    struct ual_event event;

    ok(ual_evd_wait(evd, tc_timeout_ms(10000) * 1000ull, &event, NULL));
    return event;
}

static inline struct ual_connection_event expect(struct ual_evd *evd,
                                                 enum ual_connection_message message)
{
    struct ual_event event = next_event(evd);

    ck_assert_int_eq(event.stream, UAL_STREAM_CONNECTION);
    ck_assert_int_eq(event.connection.message, message);
    return event.connection;
}

static inline void expect_nothing(struct ual_evd *evd)
{
    struct ual_event event;

    fk_drain();
    fails(ual_evd_dequeue(evd, &event), ITAL_ERR_EMPTY);
}

static inline void expect_state(struct ual_ep *which, enum ual_ep_state state)
{
    ck_assert_int_eq(atomic_load(&which->state), state);
}

static inline enum ri_status connect_to(struct ual_ep *which, bool three_way)
{
    struct sockaddr_in to = address(4791);
    struct ual_connect connect = {
        .destination = (struct sockaddr *)&to,
        .timeout_us = UINT64_MAX,
        .negotiate_depths = true,
        .three_way = three_way,
        .private_data = "hello",
        .private_data_length = 5,
    };

    return ual_ep_connect(which, &connect);
}

/* Connects an endpoint as the active side and takes the ESTABLISHED event. */
static inline void establish(struct ual_ep *which)
{
    ok(connect_to(which, false));
    fk_establish(fk.connection);
    expect(connect_evd, UAL_ESTABLISHED);
    expect_state(which, UAL_EP_CONNECTED);
}

/* A peer's connection request; returns its event. */
static inline struct ual_request_event ask(void)
{
    struct sockaddr_in local = address(7), peer = address(8);
    struct ri_connect_request request = {
        .size = sizeof(request),
        .private_data = "please",
        .private_data_length = 6,
        .ird = 11,
        .ord = 12,
        .depths_valid = true,
    };
    struct ual_event event;

    memcpy(&request.local, &local, sizeof(local));
    memcpy(&request.peer, &peer, sizeof(peer));
    fk_request(fk.listener, &request);
    event = next_event(request_evd);
    ck_assert_int_eq(event.stream, UAL_STREAM_REQUEST);
    return event.request;
}

/* --- outcomes of connections --- */

static inline struct ri_connection_event news(enum ri_connection_event_type type)
{
    return (struct ri_connection_event){ .size = sizeof(struct ri_connection_event), .type = type };
}

/* An event of the provider on the last connection. */
static inline void tell(enum ri_connection_event_type type)
{
    struct ri_connection_event event = news(type);

    fk_connection_event(fk.connection, &event);
}

static inline enum ri_status accept_it(struct ual_ep *which, ual_handle request)
{
    return ual_ep_accept(which, request, true, "yes", 3);
}

/* A three-way connection whose Reply has arrived; returns the handle that decides it. */
static inline ual_handle arrive(void)
{
    struct ual_connection_event got;

    ok(connect_to(ep, true));
    ck_assert(fk.connection->param.three_way);
    tell(RI_CONNECTION_ACCEPTED);
    got = expect(connect_evd, UAL_ACCEPT_ARRIVED);
    expect_state(ep, UAL_EP_ACTIVE2);
    ck_assert_uint_ne(got.request, 0);
    ck_assert_ptr_eq(ual_request_ia(got.request), ia);
    return got.request;
}

#endif
