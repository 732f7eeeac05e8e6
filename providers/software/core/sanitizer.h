/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The sanitizer of the program sees the wire: accesses to the consumer's memory on behalf of its
 * peer are reported to it as accesses of threads of their own. Only with a sanitizer in the program
 * and none in ital (base/sanitizer.h). Then an RNIC goes the ways of option guard, on which every
 * access passes guard.c, and has other operations (watched.c): nothing is added to the data path.
 *
 * THREADS. ThreadSanitizer finds races between threads that nothing orders. A QP has two fibers:
 * what arrives (under rx), and what is sent (inside tx). An access is made by the fiber, whichever
 * thread runs it.
 *   posted request -> fiber: the post releases, the fiber acquires before it uses the request.
 *   fiber -> completion: the fiber releases to the request's slot behind each access; the thread
 *       that polls the completion acquires that slot, and those of the unsignalled ones before it.
 *   fiber -> end: deregistering, and what ends a QP or resets it, acquires all that was accessed.
 * The peer's Writes, Reads and atomics are ordered by messages that programs agree on, perhaps over
 * a socket of their own, which nobody sees here. Their races are reported only with option
 * sanitizers = all, and then a post, a poll or a registration before the access counts as order.
 *
 * FIBERS_MOST fibers exist at once, because ThreadSanitizer has room for a few thousand threads.
 * Accesses of further QPs are not seen; one line of the log says so.
 */
#ifndef ITAL_SOFTRDMA_SANITIZER_H
#define ITAL_SOFTRDMA_SANITIZER_H

#include "qp.h"

#define FIBERS_MOST 512u

/* Whose the memory is that is accessed. */
enum memory_use {
    USE_RECEIVE,      /* of a posted receive */
    USE_SINK,         /* of a Read or an atomic of this side */
    USE_REMOTE_WRITE, /* the target of a Write or an atomic of the peer */
    USE_PAYLOAD,      /* of a Send or a Write of this side */
    USE_REMOTE_READ,  /* the source of a Read of the peer */
};

/* Option sanitizers. */
enum sanitizer_scope { SANITIZER_OFF, SANITIZER_POSTED, SANITIZER_ALL };

/* Has the program a sanitizer that can be told? */
bool sanitizer_present(void);
/* The fibers of a QP, and what posts release. NULL: there are no fibers left, no memory, or no
 * ThreadSanitizer. */
struct qp_watch *sanitizer_open(const struct rnic *rnic, uint32_t qpn);
void sanitizer_close(struct qp_watch *watch);

/* Before and behind an access to memory of this STag. Under rx, or inside tx (the last two). */
void sanitizer_before(const struct qp *qp, uint32_t stag, const uint8_t *at, uint32_t octets,
                      enum memory_use use);
void sanitizer_behind(const struct qp *qp, const uint8_t *at, uint32_t octets, enum memory_use use);
/* Behind sanitizer_before: copies to the consumer's memory. */
void sanitizer_place(const struct qp *qp, uint8_t *to, const void *from, uint32_t octets,
                     enum memory_use use);

/* In the consumer's thread. The payload of a Send or a Write is about to be posted. */
void sanitizer_check_payload(const struct qp *qp, const struct ri_send_wr *wr);
/* What this thread did comes before what the peer of the request causes. */
void sanitizer_posted_send(const struct qp *qp);
void sanitizer_posted_receive(const struct qp *qp);
void sanitizer_posted_shared(const struct srq *srq);
/* Completions of up to `count` requests are taken from the ring. Under the lock of the CQ. */
void sanitizer_taken(const struct cq *cq, uint32_t count);
/* A poll, a registration: order for accesses that nothing was posted for. */
void sanitizer_seen(struct rnic *rnic);
/* Memory is no longer accessed: what was comes before what this thread does. */
void sanitizer_left(struct rnic *rnic);

#endif
