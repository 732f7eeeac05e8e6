/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, the straight way: the two kinds of FPDU of which a busy stream consists, judged at a glance.
 *
 *   Send, Send with Solicited Event   the whole message in one segment, into the first element of an own receive
 *   RDMA Write                        any segment
 *
 * What is not plainly in order is left, untouched, to the general way (rx.c), which finds out what it is or what is
 * wrong with it: nothing is refused here, and nothing changes before the last look. So both ways do the same; whoever adds a
 * check there has to see to it that nothing passes here which fails it.
 *
 * Reserved bits that are set lead to the general way, too: so tests send what they like through either.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "mpa.h"
#include "rx.h"

/* The control octets of DDP and RDMAP. */
#define CONTROL(ddp, opcode) (((ddp) | DDP_VERSION) << 8 | RDMAP_VERSION << 6 | (opcode))
#define SEND                 CONTROL(DDP_CTRL_L, RDMAP_SEND)
#define SEND_SE              CONTROL(DDP_CTRL_L, RDMAP_SEND_SE)
#define WRITE                CONTROL(DDP_CTRL_T, RDMAP_WRITE)
#define WRITE_LAST           CONTROL(DDP_CTRL_T | DDP_CTRL_L, RDMAP_WRITE)

/* Of the Sends; written back once. */
struct counts {
    uint32_t msn;
    uint64_t octets;
};

/* Markers do not go this way, nor what comes before both sides may speak. */
static inline bool may_go_straight(const struct qp *qp)
{
    return !(qp->markers_receive | qp->rtr_await |
             atomic_load_explicit(&qp->holding, memory_order_relaxed)) &&
           !qp->srq;
}

static inline bool crc_right(const struct qp *qp, const uint8_t *octets, uint32_t size)
{
    return !qp->crc || mpa_crc_right(octets, size);
}

static inline __attribute__((always_inline)) bool on_send(struct qp *qp, const uint8_t *octets,
                                                          uint32_t size, uint32_t length,
                                                          bool solicited, struct counts *counts)
{
    const uint8_t *ddp = octets + MPA_HDR_LEN;
    const uint32_t next = atomic_load_explicit(&qp->rq.next, memory_order_relaxed);
    struct wqe *wqe = wq_slot(&qp->rq, next);
    const struct ri_sge *sge = wqe->sges;
    uint8_t *memory;

    if (be_get32(ddp + 6) != DDP_QN_SEND || be_get32(ddp + 10) != counts->msn ||
        be_get32(ddp + 14) || qp->message_open)
        return false;
    if (next == atomic_load_explicit(&qp->rq.posted, memory_order_acquire) || !wqe->num_sge ||
        length > sge->length)
        return false;
    if (stag_check_hinted(&qp->rnic->stags, &qp->recv_hint, sge->lkey, qp->recv_pd,
                          RI_ACCESS_LOCAL_WRITE, sge->addr, length, &memory) != STAG_OK ||
        !crc_right(qp, octets, size))
        return false;

    memcpy(memory, ddp + DDP_UNTAGGED_LEN, length);
    if (solicited)
        wqe->wc_flags = RI_WC_SOLICITED;
    wqe_finish(wqe, RI_WC_SUCCESS, length);
    atomic_store_explicit(&qp->rq.next, next + 1, memory_order_relaxed);
    counts->msn++;
    counts->octets += length;
    return true;
}

static inline bool on_write(struct qp *qp, const uint8_t *octets, uint32_t size, uint32_t length,
                            bool last)
{
    const uint8_t *ddp = octets + MPA_HDR_LEN;
    uint8_t *memory;

    if (!(qp->flags & RI_QP_WRITE_ENABLE) ||
        qp_check_remote(qp, &qp->rx_hint, be_get32(ddp + 2), RI_ACCESS_REMOTE_WRITE,
                        be_get64(ddp + 6), length, &memory) != STAG_OK ||
        !crc_right(qp, octets, size))
        return false;
    rx_place(memory, ddp + DDP_TAGGED_LEN, length);
    TRACE3(place, qp->qpn, memory, length);
    if (last)
        count_up(&qp->received_messages, 1);
    return true;
}

/* The FPDU at the front: its octets when it is done, 0 when it has to go the general way. */
static inline __attribute__((always_inline)) uint32_t take_one(struct qp *qp, const uint8_t *octets,
                                                               size_t length, struct counts *counts)
{
    uint32_t front, control, ulpdu_len, size;

    if (length < MPA_HDR_LEN + DDP_UNTAGGED_LEN + MPA_CRC_LEN)
        return 0;
    front = be_get32(octets);
    ulpdu_len = front >> 16;
    size = mpa_fpdu_len(ulpdu_len);
    control = front & 0xFFFF;
    if (size > length || ulpdu_len <= DDP_UNTAGGED_LEN)
        return 0;
    if (control == SEND || control == SEND_SE)
        return on_send(qp, octets, size, ulpdu_len - DDP_UNTAGGED_LEN, control == SEND_SE, counts)
                   ? size
                   : 0;
    if (control == WRITE || control == WRITE_LAST)
        return on_write(qp, octets, size, ulpdu_len - DDP_TAGGED_LEN, control == WRITE_LAST) ? size
                                                                                             : 0;
    return 0;
}

size_t rx_straight(struct qp *qp, const uint8_t *octets, size_t length, uint32_t *pieces)
{
    const uint8_t *at = octets, *const end = octets + length;
    struct counts counts = { .msn = qp->expect_send_msn };

    if (!may_go_straight(qp))
        return 0;
    do {
        uint32_t size = take_one(qp, at, (size_t)(end - at), &counts);

        if (!size)
            break;
        at += size;
        ++*pieces;
    } while (at != end && qp_state(qp) == RI_QPS_RTS);
    if (counts.msn != qp->expect_send_msn) {
        count_up(&qp->received_messages, counts.msn - qp->expect_send_msn);
        count_up(&qp->received_octets, counts.octets);
        qp->expect_send_msn = counts.msn;
    }
    return (size_t)(at - octets);
}
