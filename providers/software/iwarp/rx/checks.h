/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive: the checks of a segment that depend on the state of the connection, and the changes by a
 * message that passed them, for the common kinds. Both paths call these functions, so each check
 * exists once and no path can omit one. The fast path (rx_fast.c) leaves a segment that fails to
 * the general path (rx_send.c, rx_tagged.c, rx_request.c), which finds the error. All of them run
 * under stream->rx.
 */
#ifndef ITAL_SOFTRDMA_CHECKS_H
#define ITAL_SOFTRDMA_CHECKS_H

#include "rx.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* --- Send --- */

/* MSN and receive (C-070..C-072). `open`: a message is under way; `posted`: a receive is posted. */
static ALWAYS_INLINE bool rx_send_in_turn(const struct iwarp_qp *qp, const struct ddp_hdr *hdr,
                                          bool open, bool posted)
{
    return hdr->msn == qp->rx.expect_send_msn && (open || posted);
}

/* Offset and length (C-076, C-077): `received` octets of the message are placed, and the receive
 * has `room`. */
static ALWAYS_INLINE bool rx_send_fits(const struct ddp_hdr *hdr, uint32_t octets,
                                       uint32_t received, uint64_t room)
{
    return hdr->mo == received && received <= room && octets <= room - received;
}

/* The address for `octets` of an element, from `offset` on. */
static ALWAYS_INLINE bool rx_find_receive(struct iwarp_qp *qp, const struct ri_sge *sge,
                                          uint32_t offset, uint32_t octets, uint8_t **memory)
{
    return stag_check_hinted(&qp->core.rnic->stags, &qp->rx.local_hint, sge->lkey, qp->core.recv_pd,
                             RI_ACCESS_LOCAL_WRITE, sge->addr + offset, octets, memory) == STAG_OK;
}

/* The message is complete: its receive, at `next` of the queue, completes. */
static ALWAYS_INLINE void rx_finish_receive(struct iwarp_qp *qp, struct wqe *wqe, uint32_t next,
                                            uint32_t octets)
{
    wqe->byte_len = octets;
    qp->rx.expect_send_msn++;
    count_up(&qp->core.counters.received_messages, 1);
    count_up(&qp->core.counters.received_octets, octets);
    atomic_store_explicit(&qp->core.rq.next, next + 1, memory_order_relaxed);
    atomic_store_explicit(&wqe->done, true, memory_order_release);
}

/* --- RDMA Write --- */

/* A Write segment that is not empty: the QP's permission, then STag, access right and bounds
 * (C-082..C-088). *result: of the STag. */
static ALWAYS_INLINE bool rx_write_allowed(struct iwarp_qp *qp, const struct ddp_hdr *hdr,
                                           uint32_t octets, enum stag_result *result,
                                           uint8_t **memory)
{
    *result = qp_check_remote(&qp->core, &qp->rx.remote_hint, hdr->stag, RI_ACCESS_REMOTE_WRITE,
                              hdr->to, octets, memory);
    return *result == STAG_OK && qp_allows(&qp->core, RI_QP_WRITE_ENABLE);
}

static ALWAYS_INLINE void rx_end_write(struct iwarp_qp *qp)
{
    qp->rx.write_length = qp->rx.write_octets;
    qp->rx.write_octets = 0;
}

static ALWAYS_INLINE void rx_finish_write(struct iwarp_qp *qp, const uint8_t *memory,
                                          uint32_t octets, bool last)
{
    TRACE3(place, qp->core.qpn, memory, octets);
    qp->rx.write_octets += octets;
    if (last) {
        rx_end_write(qp);
        count_up(&qp->core.counters.received_messages, 1);
    }
}

/* --- requests that are answered --- */

/* MSN (C-106), and fewer than `depth` are unanswered (C-107). */
static ALWAYS_INLINE bool rx_request_counts(const struct iwarp_qp *qp, const struct ddp_hdr *hdr,
                                            uint32_t depth)
{
    return hdr->msn == qp->rx.expect_read_msn && rx_requests_waiting(qp) < depth;
}

/* The QP's permission (C-108); a depth of 0 allows none either. */
static ALWAYS_INLINE bool rx_read_allowed(const struct iwarp_qp *qp)
{
    return qp_allows(&qp->core, RI_QP_READ_ENABLE);
}

/* The source of a Read that is not empty (C-110..C-115). */
static ALWAYS_INLINE enum stag_result rx_check_source(struct iwarp_qp *qp,
                                                      const struct rdmap_read_req *request,
                                                      uint8_t **memory)
{
    return qp_check_remote(&qp->core, &qp->rx.remote_hint, request->src_stag, RI_ACCESS_REMOTE_READ,
                           request->src_to, request->size, memory);
}

/* --- Read Response --- */

/* The oldest of our requests that waits for a response. False: there is none. */
static ALWAYS_INLINE bool rx_oldest_request(const struct iwarp_qp *qp,
                                            struct outstanding_read **read)
{
    uint32_t out = atomic_load_explicit(&qp->reads.ord_out, memory_order_relaxed);

    *read = &qp->reads.ord_ring[out & (qp->reads.ord_size - 1)];
    return out != atomic_load_explicit(&qp->reads.ord_in, memory_order_acquire);
}

/* True: the octets of the segment (at least one) follow those that have arrived (C-096, C-097). */
static ALWAYS_INLINE bool rx_response_goes_on(const struct outstanding_read *read,
                                              const struct ddp_hdr *hdr)
{
    return hdr->stag == read->sink_stag && hdr->to == read->sink_to + read->received;
}

/* True: the segment has no more octets than are missing, and the L bit is set with the last one, or
 * in one empty segment after it (C-098..C-100). */
static ALWAYS_INLINE bool rx_response_fits(const struct outstanding_read *read, uint32_t octets,
                                           bool last)
{
    uint32_t left = read->size - read->received;

    return octets <= left && (!last || octets == left) && (!read->full || last);
}

static ALWAYS_INLINE void rx_finish_response(struct iwarp_qp *qp, struct outstanding_read *read,
                                             const uint8_t *memory, uint32_t octets)
{
    TRACE3(place, qp->core.qpn, memory, octets);
    read->received += octets;
}

#endif
