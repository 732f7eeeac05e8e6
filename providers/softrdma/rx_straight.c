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

/* Markers do not go this way, nor what comes before both sides may speak. */
void rx_choose_way(struct qp *qp)
{
    qp->straight = !qp->srq && !qp->markers_receive && !qp->rtr_await && !atomic_load(&qp->holding);
}

/* Each looks at a segment, and says where its payload goes; then places it. */
static inline __attribute__((always_inline)) bool judge_send(struct qp *qp, const uint8_t *ddp,
                                                             uint32_t length, struct wqe *wqe,
                                                             uint8_t **memory)
{
    const struct ri_sge *sge = wqe->sges;

    return be_get32(ddp + 6) == DDP_QN_SEND && be_get32(ddp + 10) == qp->expect_send_msn &&
           !be_get32(ddp + 14) && !qp->message_open && wq_pending(&qp->rq) && wqe->num_sge &&
           length <= sge->length &&
           stag_check_hinted(&qp->rnic->stags, &qp->recv_hint, sge->lkey, qp->recv_pd,
                             RI_ACCESS_LOCAL_WRITE, sge->addr, length, memory) == STAG_OK;
}

static inline void place_send(struct qp *qp, const uint8_t *payload, uint32_t length,
                              struct wqe *wqe, bool solicited, uint8_t *memory)
{
    if (solicited)
        wqe->wc_flags = RI_WC_SOLICITED;
    wqe->byte_len = length;
    qp->expect_send_msn++;
    count_up(&qp->received_messages, 1);
    count_up(&qp->received_octets, length);
    atomic_store_explicit(&qp->rq.next,
                          atomic_load_explicit(&qp->rq.next, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    memcpy(memory, payload, length);
    atomic_store_explicit(&wqe->done, true, memory_order_release);
}

static inline __attribute__((always_inline)) bool judge_write(struct qp *qp, const uint8_t *ddp,
                                                              uint32_t length, uint8_t **memory)
{
    return (qp->flags & RI_QP_WRITE_ENABLE) &&
           qp_check_remote(qp, &qp->rx_hint, be_get32(ddp + 2), RI_ACCESS_REMOTE_WRITE,
                           be_get64(ddp + 6), length, memory) == STAG_OK;
}

static inline void place_write(struct qp *qp, const uint8_t *payload, uint32_t length, bool last,
                               uint8_t *memory)
{
    rx_place(memory, payload, length);
    TRACE3(place, qp->qpn, memory, length);
    if (last)
        count_up(&qp->received_messages, 1);
}

/* The FPDU at the front: its octets when it is done, 0 when it has to go the general way. */
static inline __attribute__((always_inline)) uint32_t take_one(struct qp *qp, const uint8_t *octets,
                                                               size_t length)
{
    const uint8_t *ddp = octets + MPA_HDR_LEN;
    uint32_t front, control, ulpdu_len, size;
    struct wqe *wqe = wq_slot(&qp->rq, atomic_load_explicit(&qp->rq.next, memory_order_relaxed));
    uint8_t *memory;
    bool send;

    if (length < MPA_HDR_LEN + DDP_UNTAGGED_LEN + MPA_CRC_LEN)
        return 0;
    front = be_get32(octets);
    ulpdu_len = front >> 16;
    size = mpa_fpdu_len(ulpdu_len);
    control = front & 0xFFFF;
    if (size > length || ulpdu_len <= DDP_UNTAGGED_LEN)
        return 0;
    send = control == SEND || control == SEND_SE;
    if (!send && control != WRITE && control != WRITE_LAST)
        return 0;
    length = ulpdu_len - (send ? DDP_UNTAGGED_LEN : DDP_TAGGED_LEN);
    if (!(send ? judge_send(qp, ddp, (uint32_t)length, wqe, &memory)
               : judge_write(qp, ddp, (uint32_t)length, &memory)))
        return 0;
    if (qp->crc && !mpa_crc_right(octets, size))
        return 0;
    if (send)
        place_send(qp, ddp + DDP_UNTAGGED_LEN, (uint32_t)length, wqe, control == SEND_SE, memory);
    else
        place_write(qp, ddp + DDP_TAGGED_LEN, (uint32_t)length, control == WRITE_LAST, memory);
    return size;
}

size_t rx_straight(struct qp *qp, const uint8_t *octets, size_t length, uint32_t *pieces)
{
    size_t left = length;

    if (!qp->straight)
        return 0;
    do {
        uint32_t size = take_one(qp, octets, left);

        if (!size)
            break;
        octets += size;
        left -= size;
        ++*pieces;
    } while (left && qp_state(qp) == RI_QPS_RTS);
    return length - left;
}
