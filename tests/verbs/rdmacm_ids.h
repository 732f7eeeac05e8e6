/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fixture of the tests of librdmacm's calls: an id that listens on the loopback address, one of
 * a client, and their channels, whose descriptors do not block. Both ends are in this process.
 */
#ifndef ITAL_TESTS_VERBS_RDMACM_IDS_H
#define ITAL_TESTS_VERBS_RDMACM_IDS_H

#include "tc.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define WAIT_MS 20000u

extern struct rdma_event_channel *channels[2]; /* the listener's, the client's */
extern struct rdma_cm_id *listener, *client;   /* a test that destroys one sets it to NULL */

#define fails(call, number)                \
    do {                                   \
        errno = 0;                         \
        ck_assert_int_eq((call), -1);      \
        ck_assert_int_eq(errno, (number)); \
    } while (0)

/* Checked fixture. */
void set_up(void);
void tear_down(void);

struct rdma_event_channel *new_channel(void);
/* Takes the next event, which must be of that type. */
struct rdma_cm_event *take(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
void expect_nothing(struct rdma_event_channel *channel);
struct sockaddr_in loopback(__be16 port);
struct rdma_cm_id *new_id(struct rdma_event_channel *channel, void *context);
void make_qp(struct rdma_cm_id *id);
void resolve(struct rdma_cm_id *id);
/* To another port than the listener's. */
void resolve_to(struct rdma_cm_id *id, __be16 port);
/* The client connects; returns the event of the request. */
struct rdma_cm_event *ask(const char *text);
/* The listener's request is accepted, and both sides are told. Returns the server's id. */
struct rdma_cm_id *take_request(void);
/* Makes a connection; returns the server's id. */
struct rdma_cm_id *join(void);
void forget(struct rdma_cm_id *id);

#endif
