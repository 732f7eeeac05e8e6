/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_queue.h - a work queue in memory, for providers (librnicpi.a): requests that were posted,
 * in their order, until their completions are polled. It makes the completions for a CQ of
 * rnicpi_cq.h: one per request that wants or has to have one, in order {signaled}; frees slots by
 * the rule of {post-slot}; and flushes.
 *
 * The life of a request:
 *
 *     ri_queue_put       posted: `tail`
 *     (send queue)       on its way: the provider advances `sent`
 *     ri_queue_finish    its outcome is known: `done`
 *     (the library)      its completion is in the CQ; it was polled: the slot is free
 *
 * Locks: all calls with one queue come under one lock of the provider's, but for ri_queue_open and
 * _close, which nothing runs beside. ri_cq_collect(&queue->source) moves completions to the CQ,
 * under that lock or not. None of these calls allocates but ri_queue_open.
 */
#ifndef RNICPI_QUEUE_H
#define RNICPI_QUEUE_H

#ifdef __cplusplus
#error "rnicpi_queue.h is C only (atomic members): from C++ include rnicpi.h, call this from C."
#endif

#include "rnicpi.h"
#include "rnicpi_cq.h"
#include "rnicpi_ring.h"

struct ri_request {
    uint64_t cookie;
    uint64_t remote_addr;   /* of RDMA Writes and Reads */
    struct ri_sge *sges;    /* num_sge; the queue's memory */
    const struct ri_ah *ah; /* of datagrams */
    uint32_t num_sge;
    uint32_t rkey;       /* of Writes and Reads; of datagrams the Q_Key */
    uint32_t remote_qpn; /* of datagrams: the destination; received: the source */
    uint32_t length;     /* octets of all elements */
    uint32_t moved;      /* octets that were sent, received, or answered: the provider counts */
    uint16_t opcode;     /* enum ri_wr_opcode; 0 of receives */
    uint16_t flags;      /* OR of enum ri_wr_flags */
    uint16_t status;     /* enum ri_wc_status; set by ri_queue_finish */
    bool finished;       /* the provider's: done, but not all before it are */
    bool solicited;      /* a receive: the Send asked for it */
};

struct ri_queue {
    struct ri_cq_source source; /* first; the library's, as all but `sent`, `fill` */
    const struct ri_qp *qp;     /* its context is that of the completions */
    bool receive;
    struct ri_ring ring; /* posted and not polled */
    atomic_uint done;    /* before this position the outcome is known */
    uint32_t told;       /* before this one the completion is in the CQ; under the CQ's lock */
    uint32_t sent;       /* done <= sent <= tail; before this one requests are on their way */
    uint32_t max_sge;
    struct ri_request *requests;
    struct ri_sge *sges;
    /* May be NULL. Adds to each completion, also a failed one, what the library does not know: the
     * opcode and the source of a datagram. Called under the CQ's lock. */
    void (*fill)(const struct ri_queue *queue, const struct ri_request *request, struct ri_wc *wc);
};

/* An empty queue of `depth` requests (1 .. 2^31) of at most max_sge elements, whose completions go
 * to `cq`. RI_ERR_NO_RESOURCES. close: no completion of the queue is polled afterwards; also for
 * one that is all zero, or was closed. */
enum ri_status ri_queue_open(struct ri_queue *queue, const struct ri_qp *qp, struct ri_mem_cq *cq,
                             uint32_t depth, uint32_t max_sge, bool receive);
void ri_queue_close(struct ri_queue *queue);

/* The request at a position. It stays there until its slot is free. */
static inline struct ri_request *ri_queue_at(const struct ri_queue *queue, uint32_t at)
{
    return &queue->requests[at & queue->ring.mask];
}

/* The oldest request whose outcome is not known: a receive queue's next buffer. NULL: none. */
static inline struct ri_request *ri_queue_oldest(const struct ri_queue *queue)
{
    uint32_t done = atomic_load_explicit(&queue->done, memory_order_relaxed);

    return done != ri_ring_tail(&queue->ring) ? ri_queue_at(queue, done) : NULL;
}

/* Post: a copy of *request with these elements, of at most max_length octets together.
 * RI_ERR_INVALID_ARGUMENT (too many elements), RI_ERR_LIMIT, RI_ERR_QUEUE_FULL. */
enum ri_status ri_queue_put(struct ri_queue *queue, const struct ri_request *request,
                            const struct ri_sge *sges, uint32_t count, uint64_t max_length);

/* The oldest request has this outcome. There is one: see ri_queue_oldest. */
void ri_queue_finish(struct ri_queue *queue, enum ri_wc_status status);
/* Those that are on their way and `finished`, up to the first one that is not, have succeeded. */
void ri_queue_finish_ready(struct ri_queue *queue);
/* All whose outcome is not known are flushed, in order, each once {end-flush}. */
void ri_queue_flush(struct ri_queue *queue);
/* For a QP that goes to IDLE: slots of unsignalled requests that no completion will cover. */
void ri_queue_free_uncovered(struct ri_queue *queue);

#endif
