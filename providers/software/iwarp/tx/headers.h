/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The headers of the messages that a QP sends, and the check of what it sends from: for the general
 * path (tx_build.c, tx_response.c) and the fast paths (tx_short.c, tx_single.c). The header of a
 * message is written nowhere else. Each returns the octets before the payload. Inside tx only.
 */
#ifndef ITAL_SOFTRDMA_TX_HEADERS_H
#define ITAL_SOFTRDMA_TX_HEADERS_H

#include "fpdu.h"
#include "providers/software/iwarp/codec/rdmap.h"
#include "providers/software/core/regions.h"
#include "transmit.h"

#include <assert.h>

static_assert(RDMAP_SEND + RI_WR_SOLICITED == RDMAP_SEND_SE &&
                  RDMAP_SEND_INV + RI_WR_SOLICITED == RDMAP_SEND_SE_INV &&
                  RDMAP_SEND_IMM + RI_WR_SOLICITED == RDMAP_SEND_SE_IMM,
              "the opcode is the sum");

/* A segment of a Send: `octets` from `offset` on, the `last` one or not. `opcode`: RDMAP_SEND,
 * RDMAP_SEND_INV or RDMAP_SEND_IMM. */
static inline __attribute__((always_inline)) uint32_t tx_put_send(struct iwarp_qp *qp, uint8_t *at,
                                                                  const struct wqe *wqe,
                                                                  enum rdmap_opcode opcode,
                                                                  uint32_t offset, uint32_t octets,
                                                                  bool last)
{
    uint32_t control = rdmap_ctrl(opcode) + (wqe->flags & RI_WR_SOLICITED);
    uint32_t msn = qp->tx.send_msn;

    qp->tx.send_msn += last;
    return ddp_put_untagged_fpdu(at, octets, last, control,
                                 opcode == RDMAP_SEND ? 0 : (uint32_t)wqe->operand, DDP_QN_SEND,
                                 msn, offset);
}

/* The same of an RDMA Write. */
static inline __attribute__((always_inline)) uint32_t tx_put_write(uint8_t *at,
                                                                   const struct wqe *wqe,
                                                                   uint64_t offset, uint32_t octets,
                                                                   bool last)
{
    return ddp_put_tagged_fpdu(at, octets, last, rdmap_ctrl(RDMAP_WRITE), wqe->rkey,
                               wqe->remote_addr + offset);
}

/* All of an RDMA Read Request. It is in the ORD ring with this MSN. */
static inline __attribute__((always_inline)) uint32_t tx_put_read_request(
    uint8_t *at, const struct rdmap_read_req *request, uint32_t msn)
{
    uint32_t head = ddp_put_untagged_fpdu(at, RDMAP_READ_REQ_LEN, true, rdmap_ctrl(RDMAP_READ_REQ),
                                          0, DDP_QN_READ, msn, 0);

    rdmap_put_read_req(at + head, request);
    return head + RDMAP_READ_REQ_LEN;
}

/* The request for a Read of some octets, as its work request has it. */
static inline struct rdmap_read_req tx_describe_read(const struct wqe *wqe)
{
    return (struct rdmap_read_req){ .sink_stag = wqe->sges[0].lkey,
                                    .sink_to = wqe->sges[0].addr,
                                    .size = (uint32_t)wqe->length,
                                    .src_stag = wqe->rkey,
                                    .src_to = wqe->remote_addr };
}

/* A segment of a Read Response. */
static inline __attribute__((always_inline)) uint32_t tx_put_response(uint8_t *at,
                                                                      uint32_t sink_stag,
                                                                      uint64_t sink_to,
                                                                      uint32_t octets, bool last)
{
    return ddp_put_tagged_fpdu(at, octets, last, rdmap_ctrl(RDMAP_READ_RESP), sink_stag, sink_to);
}

/* May the QP use this element for `access`? Then *memory is what it names. `octets` is its length,
 * not 0. */
static inline __attribute__((always_inline)) bool tx_find_local(struct iwarp_qp *qp,
                                                                const struct ri_sge *sge,
                                                                uint32_t access, uint64_t octets,
                                                                uint8_t **memory)
{
    return stag_check_hinted(&qp->core.rnic->stags, &qp->tx.local_hint, sge->lkey, qp->core.pd,
                             access, sge->addr, octets, memory) == STAG_OK;
}

/* All of the FPDU of a short message; its octets. */
static inline __attribute__((always_inline)) uint32_t tx_put_short(struct iwarp_qp *qp,
                                                                   uint8_t *fpdu,
                                                                   const struct wqe *wqe,
                                                                   const uint8_t *memory,
                                                                   uint32_t octets)
{
    uint32_t head = wqe->opcode == RI_WR_RDMA_WRITE
                        ? tx_put_write(fpdu, wqe, 0, octets, true)
                        : tx_put_send(qp, fpdu, wqe, RDMAP_SEND, 0, octets, true);

    if (octets)
        copy_short(fpdu + head, memory, octets);
    return fpdu_seal(qp, fpdu, head + octets);
}

#endif
