/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the fake rdma-core: fake.c (host, table), fake_device.c, fake_verbs.c,
 * fake_cm.c. */
#ifndef ITAL_TESTS_RDMACORE_FAKE_PRIVATE_H
#define ITAL_TESTS_RDMACORE_FAKE_PRIVATE_H

#include "fake.h"

#define FAKE_QUEUED 64 /* events that wait, of each kind */

extern struct ibv_context fake_context;      /* of the one open device */
extern struct ibv_comp_channel fake_channel; /* its completion channel */
extern atomic_uint fake_unacknowledged_events;
extern bool fake_device_lost;

/* Allocates an object of rdma-core, which counts as alive until it is destroyed. */
void *fake_made(size_t size);
int fake_gone(void *object);
void fake_count(int more); /* counts objects that are not allocated */
int fake_nothing(int fd);  /* no event: -1 and errno */
/* No event of this kind waits to be taken. */
bool fake_async_taken(void);
bool fake_cq_taken(void);
bool fake_cm_taken(void);
int fake_refused(void); /* fake_fail_call: an error number, also in errno; else 0 */
struct fake_id *fake_of(struct rdma_cm_id *id);
void fake_forget_ids(void);

/* Each fills its part of the table. */
void fake_device_calls(struct rdmacore_calls *calls);
void fake_verbs_calls(struct rdmacore_calls *calls);
void fake_cm_calls(struct rdmacore_calls *calls);

#endif
