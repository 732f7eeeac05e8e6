/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's side of a start-up: an interface with options of the test's own, driven through
 * IT-API, and the far end of its connection, which the test speaks by hand (script.h). All helpers
 * end the test when something fails.
 */
#ifndef ITAL_TESTS_WIRE_STARTUP_FIXTURE_H
#define ITAL_TESTS_WIRE_STARTUP_FIXTURE_H

#include "tests/itapi/fixture.h"

#include "script.h"

struct fixture {
    struct node node;
    int fd;         /* the peer's end of the connection, -1: none */
    int listener;   /* where the peer waits; -1: it does not */
    in_port_t port; /* of that; network order */
    it_event_t asked;
    struct buffer memory; /* registered; receives land at its start, Sends leave from its middle */
};

#define MIDDLE 2048u
#define DEPTH  8 /* IRD and ORD of an endpoint that names none */

/*
 * Opens the interface, options being lines of its section ("crc = off\n"), or "". The whole process
 * has one
 * configuration: one call in a test; fixture_close and fixture_open_again in between are allowed.
 */
void fixture_passive(struct fixture *fixture, const char *options); /* listens */
void fixture_active(struct fixture *fixture, const char *options);  /* the peer waits */
void fixture_close(struct fixture *fixture);

/* An endpoint with these depths, in place of the one before. A Receive is posted, cookie 1. */
void fixture_endpoint(struct fixture *fixture, unsigned ird, unsigned ord);
/* The connection goes, and what it left in the queues; the next one may begin. */
void fixture_next(struct fixture *fixture);

/* ---- passive ---- */

/* Calls and says it; the request event is in fixture->asked. */
void ask(struct fixture *fixture, struct octets request);
/* The request event, waited for. */
void expect_asked(struct fixture *fixture);
/* Accepts with an endpoint of these depths (0, 0: DEPTH); hears nothing. */
void accept_depths(struct fixture *fixture, unsigned ird, unsigned ord, const char *text);
#define accept_it(fixture, text) accept_depths(fixture, DEPTH, DEPTH, text)
/* The listener serves a connection as if nothing had been; no request was shown before it. */
void expect_untouched(struct fixture *fixture);

/* ---- active ---- */

/* Connects to the peer, which takes the call. The Request is not read yet. */
void connect_flags(struct fixture *fixture, unsigned ird, unsigned ord, const char *text,
                   it_cn_est_flags_t more);
#define connect_depths(fixture, ird, ord, text) \
    connect_flags(fixture, ird, ord, text, IT_CONNECT_FLAG_TWO_WAY)
/* ... with DEPTH and hears the default Request. */
void connect_it(struct fixture *fixture, const char *text);
/* What connect_it hears with options at their defaults. */
struct octets usual_request(const char *text);

/* ---- both ---- */

it_event_t expect_established(struct fixture *fixture);
void expect_established_with(struct fixture *fixture, const char *private_data);
/* IT_CM_MSG_CONN_NONPEER_REJECT with that reason. */
void expect_failed(struct fixture *fixture, it_conn_reject_code_t reason);
void expect_private_data(const it_event_cm_any_t *event, const char *text);
void expect_no_event(it_evd_handle_t evd); /* right now */
/* The Receive completes with these octets. */
void expect_received(struct fixture *fixture, it_dto_cookie_t cookie, const char *text);
void post_receive(struct fixture *fixture, it_dto_cookie_t cookie);
void post_send(struct fixture *fixture, it_dto_cookie_t cookie, const char *text);
/* What the endpoint ended up with. */
void expect_depths(struct fixture *fixture, unsigned ird, unsigned ord);

#endif
