/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, short messages: a Send or an RDMA Write of at most one element and TX_COPY_OCTETS that fits one FPDU of a stream
 * without markers is built in one step, as one run of the arena. Whatever else there is, and a mistake in the request, is
 * the general way's (tx.c, fpdu.c); tests/softrdma/test_short.c compares the octets of both.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "fpdu.h"
#include "rdmap.h"
#include "softrdma.h"

#include "base/crc32c.h"

#include <string.h>

#define INLINE_CRC 192u /* octets; ISA-L is quicker with more */

/* `octets` is a multiple of 4. The instruction by hand: a function for one processor would not be inlined. */
static inline uint32_t sum(const uint8_t *p, uint32_t octets)
{
#if defined(__x86_64__) && defined(__GNUC__)
    uint64_t sum = UINT32_MAX, wide;
    uint32_t half, last;

    if (octets > INLINE_CRC || !__builtin_cpu_supports("sse4.2"))
        return crc32c(0, p, octets);
    for (; octets >= 8; octets -= 8, p += 8) {
        memcpy(&wide, p, 8);
        __asm__("crc32q %1, %0" : "+r"(sum) : "rm"(wide));
    }
    half = (uint32_t)sum;
    if (octets) {
        memcpy(&last, p, 4);
        __asm__("crc32l %1, %0" : "+r"(half) : "rm"(last));
    }
    return ~half;
#else
    return crc32c(0, p, octets);
#endif
}

/* MPA length, DDP and RDMAP control octets, as one word in host order. */
static inline uint32_t first_word(uint32_t ulpdu, uint32_t ddp, enum rdmap_opcode opcode)
{
    return ulpdu << 16 | ddp << 8 | rdmap_ctrl(opcode);
}

/* Both return the octets before the payload. */
static inline uint32_t put_write(uint8_t *at, const struct wqe *wqe, uint32_t octets)
{
    be_put32(at, first_word(DDP_TAGGED_LEN + octets, DDP_CTRL_T | DDP_CTRL_L | DDP_VERSION,
                            RDMAP_WRITE));
    be_put32(at + 4, wqe->rkey);
    be_put64(at + 8, wqe->remote_addr);
    return MPA_HDR_LEN + DDP_TAGGED_LEN;
}

static inline uint32_t put_send(uint8_t *at, const struct wqe *wqe, uint32_t octets, uint32_t msn)
{
    bool solicited = wqe->flags & RI_WR_SOLICITED;

    be_put32(at, first_word(DDP_UNTAGGED_LEN + octets, DDP_CTRL_L | DDP_VERSION,
                            solicited ? RDMAP_SEND_SE : RDMAP_SEND));
    be_put64(at + 4, (uint64_t)DDP_QN_SEND);
    be_put64(at + 12, (uint64_t)msn << 32);
    return MPA_HDR_LEN + DDP_UNTAGGED_LEN;
}

static inline void append(struct tx_batch *batch, uint8_t *fpdu, uint32_t octets)
{
    struct iovec *last = batch->count ? &batch->iov[batch->count - 1] : NULL;

    batch->octets += octets;
    batch->arena_used += octets;
    if (last && (uint8_t *)last->iov_base + last->iov_len == fpdu)
        last->iov_len += octets;
    else
        batch->iov[batch->count++] = (struct iovec){ fpdu, octets };
}

bool tx_short(struct qp *qp, struct wqe *wqe)
{
    uint8_t *fpdu = qp->batch.arena + qp->batch.arena_used, *memory = NULL;
    uint32_t octets = (uint32_t)wqe->length, used;

    if (octets &&
        stag_check_hinted(&qp->rnic->stags, &qp->tx_hint, wqe->sges[0].lkey, qp->pd,
                          RI_ACCESS_LOCAL_READ, wqe->sges[0].addr, octets, &memory) != STAG_OK)
        return false;
    if (wqe->opcode == RI_WR_RDMA_WRITE)
        used = put_write(fpdu, wqe, octets);
    else
        used = put_send(fpdu, wqe, octets, qp->send_msn++);
    if (octets)
        memcpy(fpdu + used, memory, octets);
    used += octets;
    memset(fpdu + used, 0, 4); /* the PAD, and more */
    used = (used + 3u) & ~3u;
    mpa_put_crc(fpdu + used, qp->crc ? sum(fpdu, used) : 0);
    used += MPA_CRC_LEN;
    append(&qp->batch, fpdu, used);
    qp->position += used;
    return true;
}
