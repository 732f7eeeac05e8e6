/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of completion queues share. RNIC, CQs and work queues are real. The tests complete
 * the requests by hand, so no connection is needed.
 */
#ifndef ITAL_TESTS_CQ_FIXTURE_H
#define ITAL_TESTS_CQ_FIXTURE_H

#include "fake_host.h"
#include "tc.h"

#include "providers/software/iwarp/wire_iwarp.h"

extern struct rnic rnic;
/* The upcalls of all CQs. */
extern struct fake_record record;

void cq_setup(void);
struct cq *new_cq(uint32_t depth);
void end_cq(struct cq *cq);
/* Send and receive queue have `depth` slots each. */
void new_qp(struct qp *qp, struct cq *send, struct cq *receive, uint32_t depth);
void end_qp(struct qp *qp);
enum ri_status resize_to(struct cq *cq, uint32_t depth);

struct wqe *post(struct wq *wq, uint64_t cookie, uint16_t flags);
/* Marks all posted requests as sent: tx does not read them any more. */
void mark_sent(struct qp *qp, const struct wq *wq);
void finish(struct qp *qp, struct wq *wq, struct wqe *wqe, enum ri_wc_status status);
/* Posts and completes one request: flags of the request, then flags of the completion. */
void complete(struct qp *qp, struct wq *wq, uint64_t cookie, uint16_t flags, uint8_t wc_flags,
              enum ri_wc_status status);
void complete_send(struct qp *qp, uint64_t cookie);
void complete_receive(struct qp *qp, uint64_t cookie);

/* Polls: the next completion has this cookie; in the second form there is none. */
void expect(struct cq *cq, uint64_t cookie);
void expect_nothing(struct cq *cq);
/* What peek reports: completions in the ring, and how many of them are marked. */
void expect_count(struct cq *cq, uint32_t total, uint32_t marked);

#endif
