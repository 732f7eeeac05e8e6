/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of cm_fake.h share: the fixture, the lane with its upcalls, the provider. */
#ifndef ITAL_TESTS_KAL_CM_FAKE_PRIVATE_H
#define ITAL_TESTS_KAL_CM_FAKE_PRIVATE_H

#include "cm_fake.h"

#define FAKE_QPS         256
#define FAKE_CONNECTIONS 512
#define FAKE_QUOTA       1000000

/* All that the test has made; the teardown frees it. */
extern struct fake_qp *qps[FAKE_QPS];
extern unsigned qp_count;
extern struct fake_connection *connections[FAKE_CONNECTIONS];
extern unsigned connection_count;

/* cm_fake_lane.c */
void fake_on_request(void *listener_context, struct kal_connection *connection,
                     const struct ri_connect_request *request, void **connection_context);
void fake_on_event(void *connection_context, const struct ri_connection_event *event);
void fake_provider_ops(struct ri_privileged_ops *ops); /* cm_fake_provider.c */

#endif
