/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's side of a start-up: an interface with the test's options, driven through IT-API,
 * and the other end of its connection, which the test operates by hand (script.h). All helpers fail
 * the test on an error.
 */
#ifndef ITAL_TESTS_WIRE_STARTUP_FIXTURE_H
#define ITAL_TESTS_WIRE_STARTUP_FIXTURE_H

#include "tests/itapi/fixture.h"

#include "script.h"

struct fixture {
    struct node node;
    int fd;         /* the peer's end of the connection, -1: none */
    int listener;   /* where the peer listens; -1: it does not */
    in_port_t port; /* its port, in network order */
    it_event_t asked;
    struct buffer memory; /* registered; receives land at its start, Sends leave from its middle */
};

#define MIDDLE 2048u
#define DEPTH  8 /* IRD and ORD of an endpoint that names none */

/*
 * Opens the interface. `options` are lines of its section ("crc = off
 * "), or "". The whole process has one configuration: one call in a test. fixture_close and
 * fixture_open_again in between are allowed.
 */
void fixture_passive(struct fixture *fixture, const char *options); /* listens */
void fixture_active(struct fixture *fixture, const char *options);  /* the peer listens */
void fixture_close(struct fixture *fixture);

/* Replaces the endpoint by one with these depths. Posts a Receive, cookie 1. */
void fixture_endpoint(struct fixture *fixture, unsigned ird, unsigned ord);
/* Ends the connection and clears the queues, so that the next one may begin. */
void fixture_next(struct fixture *fixture);

/* ---- passive ---- */

/* Connects and sends the Request; the request event is in fixture->asked. */
void ask(struct fixture *fixture, struct octets request);
/* Waits for the request event. */
void expect_asked(struct fixture *fixture);
/* Accepts with an endpoint of these depths (0, 0: DEPTH); receives nothing. */
void accept_depths(struct fixture *fixture, unsigned ird, unsigned ord, const char *text);
#define accept_it(fixture, text) accept_depths(fixture, DEPTH, DEPTH, text)
/* The listener still serves a connection, and no request event came before it. */
void expect_untouched(struct fixture *fixture);

/* ---- active ---- */

/* Connects to the peer, which accepts. Does not read the Request. */
void connect_flags(struct fixture *fixture, unsigned ird, unsigned ord, const char *text,
                   it_cn_est_flags_t more);
#define connect_depths(fixture, ird, ord, text) \
    connect_flags(fixture, ird, ord, text, IT_CONNECT_FLAG_TWO_WAY)
/* ... with DEPTH, and reads the default Request. */
void connect_it(struct fixture *fixture, const char *text);
/* The Request that connect_it expects with default options. */
struct octets usual_request(const char *text);

/* ---- both ---- */

it_event_t expect_established(struct fixture *fixture);
void expect_established_with(struct fixture *fixture, const char *private_data);
/* Expects IT_CM_MSG_CONN_NONPEER_REJECT with that reason. */
void expect_failed(struct fixture *fixture, it_conn_reject_code_t reason);
void expect_private_data(const it_event_cm_any_t *event, const char *text);
void expect_no_event(it_evd_handle_t evd); /* at this moment */
/* Waits until the Receive completes with these octets. */
void expect_received(struct fixture *fixture, it_dto_cookie_t cookie, const char *text);
void post_receive(struct fixture *fixture, it_dto_cookie_t cookie);
void post_send(struct fixture *fixture, it_dto_cookie_t cookie, const char *text);
/* The depths that the endpoint has after the start-up. */
void expect_depths(struct fixture *fixture, unsigned ird, unsigned ord);

#endif
