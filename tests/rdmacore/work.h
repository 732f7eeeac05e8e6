/* SPDX-License-Identifier: BSD-3-Clause */
/* One queue pair at work on the fake device: what most tests of verbs do. */
#ifndef ITAL_TESTS_RDMACORE_WORK_H
#define ITAL_TESTS_RDMACORE_WORK_H

#include "fake.h"

extern struct fake_set set;
extern char data[256];

/* A fixture: the set is open, its QP connected. */
void work_setup(void);
void work_teardown(void);

struct ri_sge segment(uint32_t octets); /* of data */
enum ri_status post(struct ri_qp *qp, struct ri_send_wr *wr);
void send_to(struct ri_qp *qp, uint64_t cookie, uint16_t flags);
enum ri_status receive(struct ri_qp *qp, uint64_t cookie, uint32_t flags);
/* Each polls: the next completion of set.cq must exist; must not exist; must be flushed. */
struct ri_wc next(void);
void nothing(void);
void flushed(uint64_t cookie, uint8_t opcode);
unsigned int told(const struct fake_record *record); /* how many events */

#endif
