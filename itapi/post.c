/* SPDX-License-Identifier: BSD-3-Clause
 * Work requests. The hot path: one pass over the segments, one request on the stack, no lock of ours, no
 * allocation, no cancellation point. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "itapi_private.h"

/* Which flags fit the operation. */
#define FLAGS_COMMON (IT_COMPLETION_FLAG | IT_NOTIFY_FLAG | IT_COALESCE_WR_FLAG)
#define FLAGS_SEND   (FLAGS_COMMON | IT_SOLICITED_WAIT_FLAG | IT_BARRIER_FENCE_FLAG)
#define FLAGS_RDMA   (FLAGS_COMMON | IT_BARRIER_FENCE_FLAG)
#define FLAGS_RECV   FLAGS_COMMON

#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* The flags that both sides have differ in place only: one shift per group. */
static_assert(IT_COMPLETION_FLAG == (int)RI_WR_SIGNALED, "completion");
static_assert(IT_SOLICITED_WAIT_FLAG >> 1 == (int)RI_WR_SOLICITED, "solicited");
static_assert(IT_BARRIER_FENCE_FLAG >> 1 == (int)RI_WR_READ_FENCE, "fence");
static_assert(IT_NOTIFY_FLAG << 4 == (int)RI_WR_NOTIFY, "notify");
static_assert(IT_COALESCE_WR_FLAG == (int)RI_WR_COALESCE, "coalesce");

static inline uint16_t request_flags(unsigned int flags)
{
    return (uint16_t)((flags & (IT_COMPLETION_FLAG | IT_COALESCE_WR_FLAG)) |
                      (flags & (IT_SOLICITED_WAIT_FLAG | IT_BARRIER_FENCE_FLAG)) >> 1 |
                      (flags & IT_NOTIFY_FLAG) << 4);
}

static inline size_t limit_of(uint32_t elements)
{
    return elements < SEGMENTS_MAX ? elements : SEGMENTS_MAX;
}

static it_status_t __attribute__((cold, noinline)) post_status(enum ual_status status)
{
    switch (status) {
    case UAL_ERR_LIMIT: return IT_ERR_INVALID_LENGTH;
    case UAL_ERR_INVALID_ARGUMENT: return IT_ERR_INVALID_NUM_SEGMENTS;
    default: return itapi_status(status);
    }
}

static inline it_status_t post(struct ual_ep *ep, struct ri_send_wr *wr)
{
    enum ual_status status = ual_post_send(ep, wr);

    return unlikely(status != UAL_OK) ? post_status(status) : IT_SUCCESS;
}

it_status_t it_post_send(it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
                         size_t num_segments, it_dto_cookie_t cookie, it_dto_flags_t dto_flags)
{
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);
    struct ri_sge sges[SEGMENTS_MAX];
    struct ri_send_wr wr;
    uint64_t total;
    it_status_t status;

    if (unlikely(!ep))
        return itapi_bad_handle(IT_ERR_INVALID_EP);
    if (unlikely(dto_flags & ~(unsigned int)FLAGS_SEND))
        return IT_ERR_INVALID_DTO_FLAGS;
    status = itapi_segments(local_segments, num_segments, limit_of(ep->attr.max_send_sge), ep->pz,
                            0, sges, &total);
    if (unlikely(status != IT_SUCCESS))
        return status;
    if (unlikely(total > ep->attr.max_payload))
        return IT_ERR_INVALID_LENGTH;
    wr.next = NULL;
    wr.cookie = cookie;
    wr.sg_list = sges;
    wr.num_sge = (uint32_t)num_segments;
    wr.opcode = RI_WR_SEND;
    wr.flags = request_flags(dto_flags);
    wr.immediate = 0;
    wr.invalidate_stag = 0;
    return post(ep, &wr);
}

it_status_t it_post_recv(it_handle_t handle, const it_lmr_triplet_t *local_segments,
                         size_t num_segments, it_dto_cookie_t cookie, it_dto_flags_t dto_flags)
{
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, handle);
    struct ri_sge sges[SEGMENTS_MAX];
    struct ri_recv_wr wr;
    enum ual_status posted;
    uint64_t total;
    it_status_t status;

    if (unlikely(!ep))
        return itapi_bad_handle(IT_ERR_INVALID_HANDLE);
    if (unlikely(dto_flags & ~(unsigned int)FLAGS_RECV))
        return IT_ERR_INVALID_DTO_FLAGS;
    status = itapi_segments(local_segments, num_segments, limit_of(ep->attr.max_recv_sge), ep->pz,
                            RI_ACCESS_LOCAL_WRITE, sges, &total);
    if (unlikely(status != IT_SUCCESS))
        return status;
    if (unlikely(total > ep->attr.max_payload))
        return IT_ERR_INVALID_LENGTH;
    wr.next = NULL;
    wr.cookie = cookie;
    wr.sg_list = sges;
    wr.num_sge = (uint32_t)num_segments;
    wr.flags = dto_flags & IT_NOTIFY_FLAG ? RI_WR_NOTIFY : 0;
    wr.reserved = 0;
    posted = ual_post_recv(ep, &wr);
    return unlikely(posted != UAL_OK) ? post_status(posted) : IT_SUCCESS;
}

static inline it_status_t post_rdma(struct ual_ep *ep, const struct ri_sge *sges, size_t count,
                                    uint16_t opcode, it_dto_cookie_t cookie, unsigned int flags,
                                    it_rdma_addr_t rdma_addr, it_rmr_context_t rmr_context)
{
    struct ri_send_wr wr;

    wr.next = NULL;
    wr.cookie = cookie;
    wr.sg_list = sges;
    wr.num_sge = (uint32_t)count;
    wr.opcode = opcode;
    wr.flags = request_flags(flags);
    wr.immediate = 0;
    wr.invalidate_stag = 0;
    wr.rdma.remote_addr = rdma_addr;
    wr.rdma.rkey = (uint32_t)rmr_context;
    wr.rdma.reserved = 0;
    return post(ep, &wr);
}

it_status_t it_post_rdma_write(it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
                               size_t num_segments, it_dto_cookie_t cookie,
                               it_dto_flags_t dto_flags, it_rdma_addr_t rdma_addr,
                               it_rmr_context_t rmr_context)
{
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);
    struct ri_sge sges[SEGMENTS_MAX];
    uint64_t total;
    it_status_t status;

    if (unlikely(!ep))
        return itapi_bad_handle(IT_ERR_INVALID_EP);
    if (unlikely(dto_flags & ~(unsigned int)FLAGS_RDMA))
        return IT_ERR_INVALID_DTO_FLAGS;
    status = itapi_segments(local_segments, num_segments, limit_of(ep->attr.max_write_sge), ep->pz,
                            0, sges, &total);
    if (unlikely(status != IT_SUCCESS))
        return status;
    return post_rdma(ep, sges, num_segments, RI_WR_RDMA_WRITE, cookie, dto_flags, rdma_addr,
                     rmr_context);
}

/* On iWARP the answer is a tagged message, so its sink must be open to the peer. */
static uint32_t sink_access(const struct ual_ep *ep)
{
    bool tagged = ual_ia_attr(ep->object.ia)->features & RI_FEATURE_READ_SINK_REMOTE_WRITE;

    return RI_ACCESS_LOCAL_WRITE | (tagged ? (uint32_t)RI_ACCESS_REMOTE_WRITE : 0u);
}

it_status_t it_post_rdma_read(it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
                              size_t num_segments, it_dto_cookie_t cookie, it_dto_flags_t dto_flags,
                              it_rdma_addr_t rdma_addr, it_rmr_context_t rmr_context)
{
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);
    struct ri_sge sges[SEGMENTS_MAX];
    uint64_t total;
    it_status_t status;

    if (unlikely(!ep))
        return itapi_bad_handle(IT_ERR_INVALID_EP);
    if (unlikely(dto_flags & ~(unsigned int)FLAGS_RDMA)) /* IT_UNLINK_LOCAL_SINK: docs/status.md */
        return IT_ERR_INVALID_DTO_FLAGS;
    if (unlikely(ep->attr.ord == 0))
        return IT_ERR_RESOURCE_ORD;
    status = itapi_segments(local_segments, num_segments, limit_of(ep->attr.max_read_sge), ep->pz,
                            sink_access(ep), sges, &total);
    if (unlikely(status != IT_SUCCESS))
        return status;
    return post_rdma(ep, sges, num_segments, RI_WR_RDMA_READ, cookie, dto_flags, rdma_addr,
                     rmr_context);
}
