/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fixture of the tests of option local: cm_fake.h, with an RNIC whose provider shares memory,
 * and the parts of one connection: a listener of kal or a plain socket, an initiator of kal or a
 * plain socket, and the Unix socket of a peer that the test plays.
 */
#ifndef ITAL_TESTS_KAL_CM_LOCAL_H
#define ITAL_TESTS_KAL_CM_LOCAL_H

#include "cm_fake.h"
#include "kal/cm/rendezvous_wire.h"

#include <sys/un.h>

extern struct sockaddr_storage at;        /* where the listener is */
extern struct kal_listener *listener;     /* kal's; NULL: none */
extern struct fake_connection *initiator; /* kal's */
extern struct fake_qp *connecting, *accepting;
extern struct fake_request *request; /* the acceptor's */
extern int server, tcp, meeting;     /* plain sockets of the test; -1: none */

/* Checked fixture. */
void setup(void);
void teardown(void);
/* A new RNIC: option local, and one more option unless it is NULL. */
void with(const char *local, const char *option, const char *value);
void hang_up(int *fd);

/* ---- both ends are kal's ---- */
void listen_at(const char *address);
/* From this address, and this port unless it is 0; NULL: any. */
void dial_from(const char *source, uint16_t port);
void dial(void);
enum ri_status accept_it(void);
void establish(void);
void expect_local(void);
/* What itstat is shown: a part of the reason, or NULL. */
void expect_seen(const struct fake_connection *c, const char *wire, const char *why);
/* Everything is released, and the log has the reason of each end; NULL: it says nothing. */
void expect_tcp(const char *initiators, const char *acceptors);

/* ---- a peer that the test plays ---- */
void name_of(int fd, bool fd_initiates, struct sockaddr_un *name, socklen_t *length);
/* True: a socket has this name. */
bool is_bound(const struct sockaddr_un *name, socklen_t length);
/* -1: nobody listens. */
int unix_connect(const struct sockaddr_un *name, socklen_t length);
int unix_listen(const struct sockaddr_un *name, socklen_t length);
void send_descriptors(int fd, const void *octets, size_t length, const int *fds, unsigned count);
struct rendezvous_offer good_offer(void);
/* Reads an answer of kal's. */
void expect_answer(int fd, enum rendezvous_kind kind, enum rendezvous_reason reason);
void send_answer(int fd, enum rendezvous_kind kind, enum rendezvous_reason reason);

#endif
