/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Declarations of the receive files: `fault`, which describes a failed check, and one function for
 * each kind of message. All run under stream->rx. False: `fault` is filled and ends the connection.
 *
 *   rx.c  stream of octets, FPDUs              rx_tagged.c  Write, Read Response
 *   rx_send.c  Send family, Immediate Data     rx_request.c  Read Request
 *   rx_atomic.c  Atomic Request and Response   rx_fast.c  the fast path
 *   rx_stash.c  Sends that find no receive     rx_terminate.c  Terminate
 *   rx_direct.c  payload straight to its place checks.h  checks of both paths
 *   rx_behind.c  what comes behind Reads
 */
#ifndef ITAL_SOFTRDMA_RX_H
#define ITAL_SOFTRDMA_RX_H

#include "providers/software/iwarp/codec/mpa.h"
#include "providers/software/iwarp/codec/rdmap.h"
#include "providers/software/core/guard.h"
#include "providers/software/core/regions.h"
#include "providers/software/iwarp/tx/transmit.h"
#include "receive.h"

#include "base/trace.h"

#include <string.h>

struct fault {
    uint16_t value; /* Terminate to send */
    enum ri_event_type event;
    const char *detail;
    struct wqe *wqe; /* the receive or Read that fails with it, or NULL */
    enum ri_wc_status status;
};

static inline bool fail(struct fault *fault, struct wqe *wqe, enum ri_wc_status status,
                        uint16_t value, enum ri_event_type event, const char *detail)
{
    *fault = (struct fault){ value, event, detail, wqe, status };
    return false;
}
#define FAULT(value, event, detail) fail(fault, NULL, RI_WC_SUCCESS, value, event, detail)

/*
 * Consumers poll memory for the last octets of a Write, and memcpy guarantees no order. So the
 * octets from the last 8-octet boundary on are stored last, each with release order. (A fence would
 * do, but race detectors do not know fences.)
 */
static inline void rx_place(uint8_t *to, const uint8_t *from, uint32_t octets)
{
    uintptr_t end = (uintptr_t)to + octets, boundary = (end - 1) & ~(uintptr_t)7;
    uint32_t head = boundary > (uintptr_t)to ? (uint32_t)(boundary - (uintptr_t)to) : 0;
    uint64_t word;

    copy_short(to, from, head);
    if (octets - head == 8 && boundary >= (uintptr_t)to) {
        memcpy(&word, from + head, sizeof(word));
        __atomic_store_n((uint64_t *)(void *)(to + head), word, __ATOMIC_RELEASE);
        return;
    }
    for (uint32_t i = head; i < octets; i++)
        __atomic_store_n(to + i, from[i], __ATOMIC_RELEASE);
}

/* The same with option guard, for memory of this STag. False: the memory cannot be written any
 * more. */
bool rx_place_guarded(const struct iwarp_qp *qp, uint32_t stag, uint8_t *to, const uint8_t *from,
                      uint32_t octets, enum memory_use use);
static inline bool rx_put(const struct iwarp_qp *qp, uint32_t stag, uint8_t *to,
                          const uint8_t *from, uint32_t octets, enum memory_use use)
{
    if (unlikely(qp->core.rnic->options.guard))
        return rx_place_guarded(qp, stag, to, from, octets, use);
    rx_place(to, from, octets);
    return true;
}

/* rx_fast.c: takes complete FPDUs from the front, while they are of the common kinds and in order.
 * Only if rx.fast is set. */
struct rx_taken {
    const uint8_t *end; /* behind the octets that were taken */
    uint64_t fpdus;     /* number of FPDUs, and these bits if some concern Reads: */
};
#define RX_TAKEN_READS (UINT64_C(1) << 32) /* unspecified: the caller does all that may follow */
/* one request and nothing else, and its response is sent */
#define RX_TAKEN_ANSWERED (UINT64_C(1) << 33)
#define RX_TAKEN_RESPONSE (UINT64_C(1) << 34) /* one response and nothing else */
struct rx_taken rx_fast(struct iwarp_qp *qp, const uint8_t *octets, const uint8_t *end);

bool rx_on_write(struct iwarp_qp *qp, const struct rdmap_segment *segment, struct fault *fault);
bool rx_on_send(struct iwarp_qp *qp, const struct rdmap_segment *segment, struct fault *fault);
bool rx_on_read_request(struct iwarp_qp *qp, const struct rdmap_segment *segment,
                        struct fault *fault);
bool rx_on_read_response(struct iwarp_qp *qp, const struct rdmap_segment *segment,
                         struct fault *fault);
bool rx_on_immediate(struct iwarp_qp *qp, const struct rdmap_segment *segment, struct fault *fault);
bool rx_on_atomic_request(struct iwarp_qp *qp, const struct rdmap_segment *segment,
                          struct fault *fault);
bool rx_on_atomic_response(struct iwarp_qp *qp, const struct rdmap_segment *segment,
                           struct fault *fault);

/* rx_stash.c. May the Send or Immediate Data that `fault` refuses wait for a receive? */
bool rx_may_wait(const struct iwarp_qp *qp, const struct rdmap_segment *segment,
                 const struct fault *fault);
/* It does wait; or, if it is being delivered from the stash, goes on waiting. */
bool rx_stash(struct iwarp_qp *qp, const struct rdmap_segment *segment, struct fault *fault);
/* The oldest entry of the stash may be delivered: a receive is posted, or its message is under way.
 * Otherwise a post will call the lane. */
bool rx_stash_ready(struct iwarp_qp *qp);
/* Before and after an entry is delivered. The first returns it. The second frees it; false: it goes
 * on waiting. */
struct stash_entry *rx_stash_begin(struct iwarp_qp *qp, struct stash *stash);
bool rx_stash_end(struct iwarp_qp *qp, struct stash *stash);
/* After some were delivered. */
void rx_stash_delivered(struct iwarp_qp *qp, struct stream *stream);
/* Is the stash full? Then nothing is read. It depends on the requests of this side, too. */
void rx_stash_hold(struct iwarp_qp *qp, struct stream *stream);
/* The peer has ended its output, and Sends wait. True: they do not any more. */
bool rx_stash_is_over(struct iwarp_qp *qp, struct stream *stream);
static inline bool rx_is_behind_stash(const struct iwarp_qp *qp)
{
    return unlikely(atomic_load_explicit(&qp->rx.behind_stash, memory_order_relaxed));
}

/* rx_request.c. The first checks the form and MSN of a peer's request, and that fewer than `depth`
 * are unanswered. The second queues the request in `ulpdu` for its response, and fills in its
 * MSN. */
bool rx_request_in_turn(const struct iwarp_qp *qp, const struct rdmap_segment *segment,
                        uint32_t depth, struct fault *fault);
void rx_queue_request(struct iwarp_qp *qp, const uint8_t *ulpdu,
                      const struct inbound_read *request);
static inline uint32_t rx_requests_waiting(const struct iwarp_qp *qp)
{
    return atomic_load_explicit(&qp->reads.ird_in, memory_order_relaxed) -
           atomic_load_explicit(&qp->reads.ird_out, memory_order_acquire);
}
/* Revokes and invalidates at once (rx_invalidate.c). Inside a pass of the lane, with rx of this QP
 * held and of no other. False: refused. */
bool invalidate_now(struct iwarp_qp *qp, uint32_t stag, bool remote,
                    enum invalidate_result *result);

/* Checks the sink of a response: a region, or (rx_tagged.c) a window that the peer may write to. */
enum stag_result rx_check_window_sink(struct iwarp_qp *qp, uint32_t stag, uint64_t to,
                                      uint64_t length, uint8_t **memory);
static inline __attribute__((always_inline)) enum stag_result rx_check_sink(
    struct iwarp_qp *qp, uint32_t stag, uint64_t to, uint64_t length, uint8_t **memory)
{
    enum stag_result result = stag_check_hinted(&qp->core.rnic->stags, &qp->rx.remote_hint, stag,
                                                qp->core.pd, RI_ACCESS_LOCAL_WRITE, to, length,
                                                memory);

    if (unlikely(result == STAG_PD || result == STAG_ACCESS))
        result = rx_check_window_sink(qp, stag, to, length, memory);
    return result;
}
/* rx_tagged.c, rx_send.c: the checks of a segment with payload, and where that goes. They change
 * nothing. */
bool rx_check_write(struct iwarp_qp *qp, const struct rdmap_segment *segment, uint8_t **memory,
                    struct fault *fault);
bool rx_check_response(struct iwarp_qp *qp, const struct rdmap_segment *segment,
                       struct outstanding_read **read, uint8_t **memory, struct fault *fault);
/* Fills the fault of a receive whose memory is not usable (any more). False. */
bool rx_receive_gone(const struct iwarp_qp *qp, struct wqe *wqe, struct fault *fault);

/*
 * rx_direct.c. Payload straight to its place. The first takes the beginning of an FPDU of `whole`
 * octets that ends a read; false: it is left to the reassembly buffer. The second goes on with it
 * (partial.direct): as llp_ops.receive, -EAGAIN while octets are missing; or the octets of the
 * FPDU's new front at the start of the ring, with *behind more; or RX_DIRECT_REFUSED: `fault`.
 */
#define RX_DIRECT_REFUSED ((ssize_t)-4096)
bool rx_direct_begin(struct iwarp_qp *qp, struct stream *stream, const uint8_t *octets,
                     size_t length, uint32_t whole);
ssize_t rx_direct_read(struct iwarp_qp *qp, struct stream *stream, size_t *behind,
                       struct fault *fault);

/* rx_behind.c. Must a segment of this kind be left until earlier requests of the peer are fetched?
 * The second is for one that `fault` refuses. */
bool rx_is_behind(struct iwarp_qp *qp, enum rdmap_opcode opcode);
bool rx_is_refused_behind(struct iwarp_qp *qp, enum rdmap_opcode opcode, const struct fault *fault);
/* It is left: the FPDU waits, and nothing more is read. False: no memory. */
bool rx_wait_behind(struct iwarp_qp *qp, const struct mpa_fpdu *fpdu, enum mpa_result framing);
/* The FPDU that may be taken now, to be freed; NULL: it still waits. */
struct behind *rx_take_behind(struct iwarp_qp *qp, struct stream *stream);

/* rx_terminate.c */
void rx_on_terminate(struct iwarp_qp *qp, const struct rdmap_segment *segment);

/* rx_tagged.c. The oldest of our requests has its complete response. */
void rx_finish_answered(struct iwarp_qp *qp, const struct outstanding_read *read);

/* rx_ack.c: RI_QPM_ACKNOWLEDGED. Requests before `index` that no answer of their own completes are
 * done; the next acknowledgement is about those from it on, or about those behind it if it is not
 * `awaited`. */
void rx_acknowledge(struct iwarp_qp *qp, uint32_t index, bool awaited);
/* The peer has sent its FIN. It closed when it had read all that had come until then, else TCP
 * would have sent a RST in place of the FIN: requests are done whose octets TCP has acknowledged.
 * What is sent behind the FIN is not, and the RST that answers it is not told by a read. */
void rx_acknowledge_read(struct iwarp_qp *qp, struct stream *stream);
/* Does the request take a receive of the peer? */
bool rx_takes_receive(const struct wqe *wqe);
/* Is it a Write with this segment? */
bool rx_is_of_write(const struct wqe *wqe, const struct ddp_hdr *hdr);
/* The request, of those that wait for an acknowledgement, with this segment: those before it are
 * done. NULL: there is none. */
struct wqe *rx_refused_request(struct iwarp_qp *qp, const struct ddp_hdr *hdr);

#endif
