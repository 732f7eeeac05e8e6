/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of receive share: how a check that fails is told, and one function per kind of
 * message. All of them run under stream->rx; false: `fault` is filled and ends the connection.
 *
 *   rx.c  stream of octets, FPDUs, Terminate   rx_tagged.c  Write, Read Response
 *   rx_send.c  Send family, Immediate Data     rx_request.c  Read Request
 *   rx_atomic.c  Atomic Request and Response   rx_fast.c  the fast path
 *   checks.h  what both paths check
 */
#ifndef ITAL_SOFTRDMA_RX_H
#define ITAL_SOFTRDMA_RX_H

#include "providers/softrdma/codec/rdmap.h"
#include "providers/softrdma/objects/regions.h"
#include "providers/softrdma/tx/transmit.h"
#include "receive.h"

#include "base/trace.h"

#include <string.h>

struct fault {
    uint16_t value; /* Terminate to send */
    enum ri_event_type event;
    const char *detail;
    struct wqe *wqe; /* the receive or Read that fails by it, or NULL */
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
 * Consumers poll memory for the end of what the peer writes, and memcpy promises no order: the
 * octets from the last 8-octet boundary to the end are stored last, each with release order (a
 * fence would do; race detectors know none).
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

/* The same for memory of this STag, as option guard has it. False: it cannot be written any
 * more. */
bool rx_place_guarded(const struct qp *qp, uint32_t stag, uint8_t *to, const uint8_t *from,
                      uint32_t octets);
static inline bool rx_put(const struct qp *qp, uint32_t stag, uint8_t *to, const uint8_t *from,
                          uint32_t octets)
{
    if (unlikely(qp->rnic->options.guard))
        return rx_place_guarded(qp, stag, to, from, octets);
    rx_place(to, from, octets);
    return true;
}

/* rx_fast.c: whole FPDUs from the front for as long as they are of the common kinds and in order.
 * Where rx.fast only. */
struct rx_taken {
    const uint8_t *end; /* behind the octets that were taken */
    uint64_t fpdus;     /* FPDUs; besides, when some had to do with Reads, what: */
};
#define RX_TAKEN_READS (UINT64_C(1) << 32) /* whatever: all that may follow from it is to be done */
/* one request and nothing else, and its answer is sent */
#define RX_TAKEN_ANSWERED (UINT64_C(1) << 33)
#define RX_TAKEN_RESPONSE (UINT64_C(1) << 34) /* one response and nothing else */
struct rx_taken rx_fast(struct qp *qp, const uint8_t *octets, const uint8_t *end);

bool rx_on_write(struct qp *qp, const struct rdmap_segment *segment, struct fault *fault);
bool rx_on_send(struct qp *qp, const struct rdmap_segment *segment, struct fault *fault);
bool rx_on_read_request(struct qp *qp, const struct rdmap_segment *segment, struct fault *fault);
bool rx_on_read_response(struct qp *qp, const struct rdmap_segment *segment, struct fault *fault);
bool rx_on_immediate(struct qp *qp, const struct rdmap_segment *segment, struct fault *fault);
bool rx_on_atomic_request(struct qp *qp, const struct rdmap_segment *segment, struct fault *fault);
bool rx_on_atomic_response(struct qp *qp, const struct rdmap_segment *segment, struct fault *fault);

/* rx_request.c: has a request of the peer the right form and MSN, and are fewer than `depth`
 * unanswered? And: it, in `ulpdu`, is to be answered in its turn; its MSN is filled in. */
bool rx_request_in_turn(const struct qp *qp, const struct rdmap_segment *segment, uint32_t depth,
                        struct fault *fault);
void rx_queue_request(struct qp *qp, const uint8_t *ulpdu, const struct inbound_read *request);
static inline uint32_t rx_requests_waiting(const struct qp *qp)
{
    return atomic_load_explicit(&qp->reads.ird_in, memory_order_relaxed) -
           atomic_load_explicit(&qp->reads.ird_out, memory_order_acquire);
}
/* A REVOKED entry that no access uses any more becomes INVALID (rx_invalidate.c). Inside a pass
 * of the lane, with rx of the QP held, and of no other. */
void invalidate_quiet(struct qp *qp, struct stag_entry *entry);
/* Revoked and quiet at once, there; false: refused. */
bool invalidate_now(struct qp *qp, uint32_t stag, bool remote, enum invalidate_result *result);

/* May the answer to a request of ours be placed there? In a region, or (rx_tagged.c) in a window
 * that the peer may write to. */
enum stag_result rx_check_window_sink(struct qp *qp, uint32_t stag, uint64_t to, uint64_t length,
                                      uint8_t **memory);
static inline __attribute__((always_inline)) enum stag_result rx_check_sink(
    struct qp *qp, uint32_t stag, uint64_t to, uint64_t length, uint8_t **memory)
{
    enum stag_result result = stag_check_hinted(&qp->rnic->stags, &qp->rx.remote_hint, stag, qp->pd,
                                                RI_ACCESS_LOCAL_WRITE, to, length, memory);

    if (unlikely(result == STAG_PD || result == STAG_ACCESS))
        result = rx_check_window_sink(qp, stag, to, length, memory);
    return result;
}
/* rx_tagged.c. The oldest of our requests that wait for an answer has it, whole. */
void rx_finish_answered(struct qp *qp, const struct outstanding_read *read);

#endif
