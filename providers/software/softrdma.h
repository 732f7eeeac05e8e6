/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files on top share: queue pairs' lives. The folders, from the bottom up; none calls or
 * includes one behind it:
 *
 *   codec     headers and Terminate, pure functions
 *   objects   RNIC, STags, regions, windows; rings of requests and completions; QPs' states; lanes
 *   llp       sockets, connections and their ends, who is to be served
 *   tx        work -> FPDUs -> socket
 *   rx        socket -> FPDUs -> memory, completions
 *
 * Locks, in the order in which they may be held together: rx (spinlock; the lane takes it by try),
 * state, posting (one per work queue), lane, CQ; STag table, entries (a window's before its
 * region's), under any of these and with none of them inside. A CQ's guards the retirement of its
 * work queues, too. tx, before all of them, is no lock that the data path waits for (see tx.c);
 * control verbs enter it alone. The mutex srq.qps_lock comes before tx. The mutex pd.windows_lock
 * comes behind it: the end of a QP takes it inside tx, where nothing can bind a window any more;
 * under it are locks of entries only.
 * Two exceptions: a pass of the lane may wait for tx with one rx held (rx_invalidate.c), and enters
 * it by try to answer a Read (tx_single.c) or to find the Write that a Terminate is about (rx.c).
 * Upcalls are made with none of them held: what has to be reported is recorded (CQ fired, QP
 * event), and qp_deliver() reports it at the end of whatever the thread was doing.
 *
 * Memory: a stream or QP that a pass of the lane may still hold is freed at the start of a later
 * pass, or by close (lane->freed_streams, freed_qps).
 */
#ifndef ITAL_SOFTRDMA_H
#define ITAL_SOFTRDMA_H

#include "lane.h"
#include "providers/software/iwarp/llp/connection.h"
#include "providers/software/core/qp.h"
#include "providers/software/core/queues.h"
#include "providers/software/core/regions.h"
#include "providers/software/iwarp/rx/receive.h"
#include "providers/software/iwarp/tx/transmit.h"

enum ri_status softrdma_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out);
enum ri_status softrdma_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify);
enum ri_status softrdma_qp_query(struct ri_qp *base, struct ri_qp_info *info);
enum ri_status softrdma_qp_destroy(struct ri_qp *base);
enum ri_status softrdma_qp_counters(struct ri_qp *base, const char **names, uint64_t *values,
                                    size_t *count);
enum ri_status softrdma_post_send(struct ri_qp *base, struct ri_send_wr *wr,
                                  struct ri_send_wr **bad);
enum ri_status softrdma_post_recv(struct ri_qp *base, struct ri_recv_wr *wr,
                                  struct ri_recv_wr **bad);
enum ri_status softrdma_post_srq_recv(struct ri_srq *base, struct ri_recv_wr *wr,
                                      struct ri_recv_wr **bad);
/* Retry blocked queues as long as the ring has room (poll.c). No lock held. */
void cq_retry_blocked(struct cq *cq);
uint32_t softrdma_poll(struct ri_cq *base, uint32_t count, struct ri_wc *wc);
/* The same; it tells the sanitizer what was taken. */
uint32_t softrdma_poll_slowly(struct ri_cq *base, uint32_t count, struct ri_wc *wc);
enum ri_status softrdma_arm(struct ri_cq *base, enum ri_arm kind, uint32_t count);
enum ri_status softrdma_cq_resize(struct ri_cq *base, uint32_t *depth);
enum ri_status softrdma_srq_modify(struct ri_srq *base, uint32_t mask,
                                   const struct ri_srq_attr *attr);
/* Nothing names the QP any more, and it is on no list. */
void qp_free(struct qp *qp);
/* Rings for so many unanswered requests of the peer and of this side; their contents stay. Held
 * (qp_hold), or no other thread uses them. */
enum ri_status qp_open_reads(struct qp *qp, uint32_t ird, uint32_t ord);
/* The stream continues without the QP. Inside tx. */
void qp_release_stream(struct qp *qp);
/* Hand-over of a stream over `llp`: softrdma_qp_modify passes llp_tcp, tests and benchmarks
 * other layers. */
enum ri_status qp_start(struct qp *qp, const struct ri_llp_handover *handover,
                        const struct llp_ops *llp);
/* Enter tx alone and take rx, if there is a stream. It never waits for rx inside tx: a pass that
 * holds rx may wait for tx. */
void qp_hold(struct qp *qp);
void qp_unhold(struct qp *qp);
/* timers.c */
extern const struct stream_timers qp_stream_timers;

#endif
