/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The core of the software devices: the verbs on objects that every wire has. A wire is reached by
 * its table alone (wire.h). Beside the core stand the wires, in folders of their own; on top of
 * both the devices' descriptors.
 *
 * Locks, in the order in which they may be held together: rx (of a connection, a wire's; the lane
 * takes it by try), state, posting (one per work queue), lane, CQ; STag table, entries (a window's
 * before its region's), under any of these and with none of them inside. A CQ's guards the
 * retirement of its work queues, too. tx, before all of them, is no lock that the data path waits
 * for (tx.c); control verbs enter it alone. The mutex srq.qps_lock comes before tx. The mutex
 * pd.windows_lock comes behind it: the end of a QP takes it inside tx, where nothing can bind a
 * window any more; under it are locks of entries only.
 * Two exceptions: a pass of the lane may wait for tx with one rx held (wire.leave), and enters it
 * by try (tx_try_enter).
 * Upcalls are made with none of them held: what has to be reported is recorded (CQ fired, QP
 * event), and qp_deliver() reports it at the end of whatever the thread was doing.
 *
 * Memory: a QP that a pass of the lane may still hold is freed at the start of a later pass, or by
 * close (lane->freed).
 */
#ifndef ITAL_SOFTWARE_CORE_H
#define ITAL_SOFTWARE_CORE_H

#include "coalesced.h"
#include "lane.h"
#include "own_requests.h"
#include "qp.h"
#include "quiescence.h"
#include "regions.h"
#include "tx.h"

enum ri_status core_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out);
enum ri_status core_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify);
enum ri_status core_qp_query(struct ri_qp *base, struct ri_qp_info *info);
enum ri_status core_qp_destroy(struct ri_qp *base);
enum ri_status core_qp_counters(struct ri_qp *base, const char **names, uint64_t *values,
                                size_t *count);
enum ri_status core_post_recv(struct ri_qp *base, struct ri_recv_wr *wr, struct ri_recv_wr **bad);
enum ri_status core_post_srq_recv(struct ri_srq *base, struct ri_recv_wr *wr,
                                  struct ri_recv_wr **bad);
/* Retry blocked queues as long as the ring has room (poll.c). No lock held. */
void cq_retry_blocked(struct cq *cq);
uint32_t core_poll(struct ri_cq *base, uint32_t count, struct ri_wc *wc);
/* The same; it tells the sanitizer what was taken. */
uint32_t core_poll_slowly(struct ri_cq *base, uint32_t count, struct ri_wc *wc);
enum ri_status core_arm(struct ri_cq *base, enum ri_arm kind, uint32_t count);
enum ri_status core_cq_resize(struct ri_cq *base, uint32_t *depth);
enum ri_status core_srq_modify(struct ri_srq *base, uint32_t mask, const struct ri_srq_attr *attr);
/* Of a QP that no wire has connected, or that a sanitizer watches: as its wire says. */
enum ri_status core_post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad);
/* Before the lanes are made, behind the options and core_watch(). `part` is the wire's of the
 * RNIC, and stays its own. */
void rnic_add_wire(struct rnic *rnic, const struct wire *wire, void *part);
enum ri_status core_pd_create(struct ri_rnic *base, void *context, struct ri_pd **out);
enum ri_status core_pd_destroy(struct ri_pd *base);
/* watched.c: operations that tell a sanitizer, in front of those that the RNIC has. */
void core_watch(struct rnic *rnic);

/* Of a device's tables: the verbs that are the core's alone. A device adds its own (enumerate,
 * open, close, query, query_port), and `progress`: core_progress, or that of its only wire. */
#define CORE_PRIVILEGED_OPS                                                                \
    .lane_open = core_lane_open, .qp_create = core_qp_create, .qp_modify = core_qp_modify, \
    .qp_query = core_qp_query, .qp_destroy = core_qp_destroy, CORE_OBJECT_OPS
/* Of one that adds something to lanes and QPs. */
#define CORE_OBJECT_OPS                                                                          \
    .pd_create = core_pd_create, .pd_destroy = core_pd_destroy, .cq_create = core_cq_create,     \
    .cq_resize = core_cq_resize, .cq_destroy = core_cq_destroy, .qp_counters = core_qp_counters, \
    .mr_register = core_mr_register, .mr_reregister = core_mr_reregister,                        \
    .mr_deregister = core_mr_deregister, .srq_create = core_srq_create,                          \
    .srq_modify = core_srq_modify, .srq_query = core_srq_query, .srq_destroy = core_srq_destroy, \
    .mw_allocate = core_mw_allocate, .mw_free = core_mw_free
#define CORE_USER_OPS                                                                              \
    .post_send = core_post_send, .post_recv = core_post_recv, .post_srq_recv = core_post_srq_recv, \
    .poll = core_poll, .arm = core_arm, .cq_peek = core_cq_peek, .lane_arm = core_lane_arm

/* Of a device's attributes: the limits of the core's objects. A device adds max_qp, the depths and
 * the lengths of private data. */
#define CORE_LIMITS                                                                                \
    .max_mr_length = UINT64_C(1) << 47, .max_message = UINT32_MAX, .max_send = UINT32_MAX,         \
    .max_pd = MAX_OBJECTS, .max_cq = MAX_OBJECTS, .max_srq = MAX_OBJECTS,                          \
    .max_mr = STAG_CHUNKS * STAG_CHUNK_ENTRIES - 2,                                                \
    .max_mw = STAG_CHUNKS * STAG_CHUNK_ENTRIES - 2, .max_cqe = MAX_CQE, .max_send_wr = MAX_WR,     \
    .max_recv_wr = MAX_WR, .max_srq_wr = MAX_WR, .max_send_sge = MAX_SGE, .max_recv_sge = MAX_SGE, \
    .max_srq_sge = MAX_SGE, .max_read_sge = MAX_SGE, .max_write_sge = MAX_SGE,                     \
    .max_fast_register_pages = MAX_FAST_REGISTER_PAGES, .ports = 1, .alignment_hint = 64

#endif
