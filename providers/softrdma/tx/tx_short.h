/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The FPDU of a short message, in one step: tx_short.c, tx_single.c.
 */
#ifndef ITAL_SOFTRDMA_TX_SHORT_H
#define ITAL_SOFTRDMA_TX_SHORT_H

#include "fpdu.h"
#include "providers/softrdma/codec/rdmap.h"
#include "providers/softrdma/objects/regions.h"
#include "transmit.h"

#include <assert.h>

/* MPA length, DDP and RDMAP control octets, as one word in host order. */
static inline uint32_t short_first_word(uint32_t ulpdu, uint32_t ddp, enum rdmap_opcode opcode)
{
    return ulpdu << 16 | ddp << 8 | rdmap_ctrl(opcode);
}

/* Headers are stored as they are read to be summed, eight octets at once: what was stored in parts
 * would have to be waited for. */
static inline void put_words(uint8_t *at, uint32_t first, uint32_t second)
{
    be_put64(at, (uint64_t)first << 32 | second);
}

/* Both return the octets before the payload. */
static inline uint32_t short_put_write(uint8_t *at, const struct wqe *wqe, uint32_t octets)
{
    put_words(at,
              short_first_word(DDP_TAGGED_LEN + octets, DDP_CTRL_T | DDP_CTRL_L | DDP_VERSION,
                               RDMAP_WRITE),
              wqe->rkey);
    be_put64(at + 8, wqe->remote_addr);
    return MPA_HDR_LEN + DDP_TAGGED_LEN;
}

static_assert(RDMAP_SEND + RI_WR_SOLICITED == RDMAP_SEND_SE, "the opcode is the sum");

static inline uint32_t short_put_send(uint8_t *at, const struct wqe *wqe, uint32_t octets,
                                      uint32_t msn)
{
    be_put32(at, short_first_word(DDP_UNTAGGED_LEN + octets, DDP_CTRL_L | DDP_VERSION, RDMAP_SEND) +
                     (wqe->flags & RI_WR_SOLICITED));
    be_put64(at + 4, (uint64_t)DDP_QN_SEND);
    be_put64(at + 12, (uint64_t)msn << 32);
    return MPA_HDR_LEN + DDP_UNTAGGED_LEN;
}

/* May the consumer read there? Then *memory is the payload. `octets` is its length, not 0. */
static inline __attribute__((always_inline)) bool short_find(struct qp *qp, const struct wqe *wqe,
                                                             uint32_t octets, uint8_t **memory)
{
    return stag_check_hinted(&qp->rnic->stags, &qp->tx.local_hint, wqe->sges[0].lkey, qp->pd,
                             RI_ACCESS_LOCAL_READ, wqe->sges[0].addr, octets, memory) == STAG_OK;
}

/* All of the FPDU; its octets. */
static inline __attribute__((always_inline)) uint32_t short_put_fpdu(struct qp *qp, uint8_t *fpdu,
                                                                     const struct wqe *wqe,
                                                                     const uint8_t *memory,
                                                                     uint32_t octets)
{
    uint32_t used;

    if (wqe->opcode == RI_WR_RDMA_WRITE)
        used = short_put_write(fpdu, wqe, octets);
    else
        used = short_put_send(fpdu, wqe, octets, qp->tx.send_msn++);
    if (octets)
        copy_short(fpdu + used, memory, octets);
    return fpdu_seal(qp, fpdu, used + octets);
}

#endif
