/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fixture of the tests of the connection manager's active side: cm_fake.h, with one connection
 * and one QP, and a server that is a plain socket.
 */
#ifndef ITAL_TESTS_KAL_CM_ACTIVE_H
#define ITAL_TESTS_KAL_CM_ACTIVE_H

#include "cm_fake.h"

extern int server, peer; /* the server's sockets; peer -1: none */
extern struct sockaddr_storage at;
extern struct fake_connection *c;
extern struct fake_qp *qp;

/* Checked fixture. */
void setup(void);
void teardown(void);
void with(const char *const *options); /* the connection on a new RNIC with the options */
void hang_up(void);                    /* the peer closes */

struct ri_connect_param param_of(const char *data, uint16_t ird, uint16_t ord);
enum ri_status start(const char *data, uint16_t ird, uint16_t ord);
/* The server accepts the connection and reads exactly this Request. */
void expect_request(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord, const char *data);
void reply(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord, const char *data);
void ask(void); /* Request "hello" with IRD 4, ORD 8, everything default */
/* One upcall, one line in the log, nothing left behind. */
void expect_failure(enum ri_connection_reason reason);
void expect_established(void);

#endif
