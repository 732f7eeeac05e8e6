/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, the straight way: the two kinds of FPDU of which a busy stream consists, judged at a glance.
 *
 *   Send, Send with Solicited Event   the whole message in one segment, into the first element of an own receive
 *   RDMA Write                        any segment
 *
 * What is not plainly in order is left, untouched, to the general way (rx.c), which finds out what it is or what is
 * wrong with it: nothing is refused here, and nothing changes before the last look. So both ways do the same; whoever adds a
 * check there has to see to it that here nothing passes which fails it.
 *
 * Reserved bits that are set lead to the general way, too: so tests send what they like through either.
 */
#ifndef ITAL_SOFTRDMA_RX_STRAIGHT_H
#define ITAL_SOFTRDMA_RX_STRAIGHT_H

#include "mpa.h"
#include "rx.h"

/* The control octets of DDP and RDMAP. */
#define CONTROL(ddp, opcode) (((ddp) | DDP_VERSION) << 8 | RDMAP_VERSION << 6 | (opcode))

/* May what the stream carries now go this way? Markers do not, nor what comes before both sides may speak. */
static inline bool rx_may_go_straight(const struct qp *qp)
{
    return !qp->markers_receive && !qp->rtr_await && !qp->srq &&
           !atomic_load_explicit(&qp->holding, memory_order_relaxed);
}

static inline bool straight_crc(const struct qp *qp, const uint8_t *octets, uint32_t size)
{
    return !qp->crc || mpa_crc_right(octets, size);
}

static inline __attribute__((always_inline)) bool straight_send(struct qp *qp,
                                                                const uint8_t *octets,
                                                                uint32_t size, uint32_t ulpdu_len,
                                                                bool solicited)
{
    const uint8_t *ddp = octets + MPA_HDR_LEN;
    const uint32_t length = ulpdu_len - DDP_UNTAGGED_LEN;
    const uint32_t next = atomic_load_explicit(&qp->rq.next, memory_order_relaxed);
    struct wqe *wqe = wq_slot(&qp->rq, next);
    uint8_t *memory;

    if (ulpdu_len <= DDP_UNTAGGED_LEN || be_get32(ddp + 6) != DDP_QN_SEND ||
        be_get32(ddp + 10) != qp->expect_send_msn || be_get32(ddp + 14) || qp->message_open)
        return false;
    if (next == atomic_load_explicit(&qp->rq.posted, memory_order_acquire) || !wqe->num_sge ||
        length > wqe->sges[0].length)
        return false;
    if (stag_check_hinted(&qp->rnic->stags, &qp->recv_hint, wqe->sges[0].lkey, qp->recv_pd,
                          RI_ACCESS_LOCAL_WRITE, wqe->sges[0].addr, length, &memory) != STAG_OK ||
        !straight_crc(qp, octets, size))
        return false;

    memcpy(memory, ddp + DDP_UNTAGGED_LEN, length);
    wqe->wc_flags = solicited ? RI_WC_SOLICITED : 0;
    wqe_finish(wqe, RI_WC_SUCCESS, length);
    atomic_store_explicit(&qp->rq.next, next + 1, memory_order_relaxed);
    qp->expect_send_msn++;
    count_up(&qp->received_messages, 1);
    count_up(&qp->received_octets, length);
    return true;
}

static inline bool straight_write(struct qp *qp, const uint8_t *octets, uint32_t size,
                                  uint32_t ulpdu_len, bool last)
{
    const uint8_t *ddp = octets + MPA_HDR_LEN;
    const uint32_t length = ulpdu_len - DDP_TAGGED_LEN;
    uint8_t *memory;

    if (ulpdu_len <= DDP_TAGGED_LEN || !(qp->flags & RI_QP_WRITE_ENABLE))
        return false;
    if (qp_check_remote(qp, &qp->rx_hint, be_get32(ddp + 2), RI_ACCESS_REMOTE_WRITE,
                        be_get64(ddp + 6), length, &memory) != STAG_OK ||
        !straight_crc(qp, octets, size))
        return false;

    rx_place(memory, ddp + DDP_TAGGED_LEN, length);
    TRACE3(place, qp->qpn, memory, length);
    if (last)
        count_up(&qp->received_messages, 1);
    return true;
}

/* The FPDU at the front: its octets when it is done, 0 when it has to go the general way. */
static inline uint32_t rx_straight(struct qp *qp, const uint8_t *octets, size_t length)
{
    uint32_t front, control, ulpdu_len, size;
    bool done;

    if (length < MPA_HDR_LEN + DDP_UNTAGGED_LEN + MPA_CRC_LEN)
        return 0;
    front = be_get32(octets);
    ulpdu_len = front >> 16;
    size = mpa_fpdu_len(ulpdu_len);
    if (size > length)
        return 0;
    control = front & 0xFFFF;
    if (control == CONTROL(DDP_CTRL_L, RDMAP_SEND) || control == CONTROL(DDP_CTRL_L, RDMAP_SEND_SE))
        done = straight_send(qp, octets, size, ulpdu_len,
                             control == CONTROL(DDP_CTRL_L, RDMAP_SEND_SE));
    else if ((control | DDP_CTRL_L << 8) == CONTROL(DDP_CTRL_T | DDP_CTRL_L, RDMAP_WRITE))
        done = straight_write(qp, octets, size, ulpdu_len, control & DDP_CTRL_L << 8);
    else
        done = false;
    return done ? size : 0;
}

#endif
