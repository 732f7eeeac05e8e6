/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection of the fake device as its active side: what the tests of connections do with it. */
#ifndef ITAL_TESTS_RDMACORE_ATTEMPT_H
#define ITAL_TESTS_RDMACORE_ATTEMPT_H

#include "work.h"

#include <netinet/in.h>
#include <stdbool.h>

extern struct ri_connection *connection; /* NULL: the test has destroyed it */
extern struct fake_id *id;               /* of rdma_cm, behind it */
extern const struct sockaddr_in there;   /* its destination */
extern const struct rdma_conn_param reply;

/* A fixture: the set is open, and the connection made. */
void attempt_setup(void);
void attempt_teardown(void);

const struct ri_privileged_ops *ops(void);
enum ri_status connect_with(bool three_way);
/* rdma_cm reports it, and the lane runs. */
void tell(enum rdma_cm_event_type type, int status, const struct rdma_conn_param *param);
/* Runs the start-up until the request has left. */
void request(bool three_way);
/* The last of so many events of the connection. */
const struct ri_connection_event *news(unsigned int number);
/* Runs all of the start-up, with `reply`. */
void establish(void);

#endif
