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

extern struct fixture fixture;

#define MIDDLE 2048u
#define DEPTH  8 /* IRD and ORD of an endpoint that names none */

/*
 * Opens the interface. `options` are lines of its section ("crc = off
 * "), or "". The whole process has one configuration: one call in a test. fixture_close and
 * fixture_open_again in between are allowed.
 */
void fixture_passive(const char *options); /* listens */
void fixture_active(const char *options);  /* the peer listens */
void fixture_close(void);                  /* if it is open; the teardown of a case */

/* Replaces the endpoint by one with these depths. Posts a Receive, cookie 1. */
void fixture_endpoint(unsigned ird, unsigned ord);
/* Ends the connection and clears the queues, so that the next one may begin. */
void fixture_next(void);

/* ---- passive ---- */

/* Connects and sends the Request; the request event is in fixture.asked. */
void ask(struct octets request);
/* Waits for the request event. */
void expect_asked(void);
/* Accepts with an endpoint of these depths (0, 0: DEPTH); receives nothing. */
void accept_depths(unsigned ird, unsigned ord, const char *text);
#define accept_it(text) accept_depths(DEPTH, DEPTH, text)
/* The listener still serves a connection, and no request event came before it. */
void expect_untouched(void);

/* ---- active ---- */

/* Connects to the peer, which accepts. Does not read the Request. */
void connect_flags(unsigned ird, unsigned ord, const char *text, it_cn_est_flags_t more);
#define connect_depths(ird, ord, text) connect_flags(ird, ord, text, IT_CONNECT_FLAG_TWO_WAY)
/* ... with DEPTH, and reads the default Request. */
void connect_it(const char *text);
/* The Request that connect_it expects with default options. */
struct octets usual_request(const char *text);

/* ---- both ---- */

it_event_t expect_established(void);
void expect_established_with(const char *private_data);
/* Expects IT_CM_MSG_CONN_NONPEER_REJECT with that reason. */
void expect_failed(it_conn_reject_code_t reason);
void expect_private_data(const it_event_cm_any_t *event, const char *text);
void expect_no_event(it_evd_handle_t evd); /* at this moment */
/* Waits until the Receive completes with these octets. */
void expect_received(it_dto_cookie_t cookie, const char *text);
void post_receive(it_dto_cookie_t cookie);
void post_send(it_dto_cookie_t cookie, const char *text);
/* The depths that the endpoint has after the start-up. */
void expect_depths(unsigned ird, unsigned ord);

#endif
