/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fixture of the tests of the connection manager's passive side: cm_fake.h, with a listener on
 * 127.0.0.1 and one peer that is a plain socket. Peers, listeners and undecided requests are freed
 * with the fixture.
 */
#ifndef ITAL_TESTS_KAL_CM_PASSIVE_H
#define ITAL_TESTS_KAL_CM_PASSIVE_H

#include "cm_fake.h"

extern struct kal_listener *listener;
extern struct sockaddr_storage at; /* where it listens */
extern int peer;                   /* -1: none */
extern int label, label2;          /* listener contexts */

/* Checked fixture. */
void setup(void);
void teardown(void);
void with(const char *const *options); /* the listener on a new RNIC with the options */

void dial(void); /* peer connects */
void hang_up(void);
void abort_on_close(int fd);
void send_request(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord, const char *data);
/* The request that the peer's frame leads to. */
struct fake_request *request(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord,
                             const char *data);
struct fake_request *usual(void); /* revision 2, CRC, "hello" */

struct ri_connect_param param_of(const char *data, uint16_t ird, uint16_t ord);
enum ri_status accept_it(struct fake_request *r, struct fake_qp *qp, const char *data, uint16_t ird,
                         uint16_t ord);
void expect_reply(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord, const char *data);
/* Refused before any upcall, this line logged once (NULL: any line); nothing of it is left. */
void expect_dropped(const char *line);

#endif
