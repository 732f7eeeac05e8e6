/* SPDX-License-Identifier: BSD-3-Clause
 * Work requests: the flags of IT-API in their terms, and what all that are posted have. Inlined in
 * every call of the hot path. */
#ifndef ITAL_ITAPI_WORK_H
#define ITAL_ITAPI_WORK_H

#include "itapi_private.h"

/* Which flags fit the operation. */
#define FLAGS_COMMON (IT_COMPLETION_FLAG | IT_NOTIFY_FLAG | IT_COALESCE_WR_FLAG)
#define FLAGS_RECV   FLAGS_COMMON
#define FLAGS_LINK   (FLAGS_COMMON | IT_BARRIER_FENCE_FLAG)
#define FLAGS_UNLINK (FLAGS_LINK | IT_UNLINK_FENCE_FLAG)

/* The flags that both sides have differ in place only: one shift per group. */
static_assert(IT_COMPLETION_FLAG == (int)RI_WR_SIGNALED, "completion");
static_assert(IT_SOLICITED_WAIT_FLAG >> 1 == (int)RI_WR_SOLICITED, "solicited");
static_assert(IT_BARRIER_FENCE_FLAG >> 1 == (int)RI_WR_READ_FENCE, "fence");
static_assert(IT_UNLINK_FENCE_FLAG >> 1 == (int)RI_WR_LOCAL_FENCE, "unlink fence");
static_assert(IT_NOTIFY_FLAG << 4 == (int)RI_WR_NOTIFY, "notify");
static_assert(IT_COALESCE_WR_FLAG == (int)RI_WR_COALESCE, "coalesce");

static inline uint16_t itapi_request_flags(unsigned int flags)
{
    return (uint16_t)((flags & (IT_COMPLETION_FLAG | IT_COALESCE_WR_FLAG)) |
                      (flags &
                       (IT_SOLICITED_WAIT_FLAG | IT_BARRIER_FENCE_FLAG | IT_UNLINK_FENCE_FLAG)) >>
                          1 |
                      (flags & IT_NOTIFY_FLAG) << 4);
}

/* All but what the operation adds behind it: an address, a destination. */
static inline void itapi_describe(struct ri_send_wr *wr, const struct ri_sge *sges, size_t count,
                                  uint16_t opcode, it_dto_cookie_t cookie, unsigned int flags)
{
    wr->next = NULL;
    wr->cookie = cookie;
    wr->sg_list = sges;
    wr->num_sge = (uint32_t)count;
    wr->opcode = opcode;
    wr->flags = itapi_request_flags(flags);
    wr->immediate = 0;
    wr->invalidate_stag = 0;
}

static inline size_t itapi_limit_of(uint32_t elements)
{
    return min_u32(elements, SEGMENTS_MAX);
}

/* The elements of a Receive as a request; total is checked by the caller. */
static inline it_status_t itapi_receive(const it_lmr_triplet_t *segments, size_t count,
                                        uint32_t limit, const struct ual_pd *pz,
                                        it_dto_cookie_t cookie, unsigned int flags,
                                        struct ri_sge *sges, struct ri_recv_wr *wr, uint64_t *total)
{
    if (unlikely(flags & ~(unsigned int)FLAGS_RECV))
        return IT_ERR_INVALID_DTO_FLAGS;
    wr->next = NULL;
    wr->cookie = cookie;
    wr->sg_list = sges;
    wr->num_sge = (uint32_t)count;
    wr->flags = flags & IT_NOTIFY_FLAG ? RI_WR_NOTIFY : 0;
    wr->reserved = 0;
    return itapi_segments(segments, count, itapi_limit_of(limit), pz, RI_ACCESS_LOCAL_WRITE, sges,
                          total);
}

/* A message of an EP as a request, flags checked. */
static inline it_status_t itapi_message(const struct ual_ep *ep, const it_lmr_triplet_t *segments,
                                        size_t count, uint16_t opcode, it_dto_cookie_t cookie,
                                        unsigned int flags, struct ri_sge *sges,
                                        struct ri_send_wr *wr)
{
    uint64_t total;
    it_status_t status = itapi_segments(segments, count, itapi_limit_of(ep->attr.max_send_sge),
                                        ep->qp.pd, 0, sges, &total);

    if (unlikely(status != IT_SUCCESS))
        return status;
    if (unlikely(total > ep->attr.max_payload))
        return IT_ERR_INVALID_LENGTH;
    itapi_describe(wr, sges, count, opcode, cookie, flags);
    return IT_SUCCESS;
}

#endif
