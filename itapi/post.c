/* SPDX-License-Identifier: BSD-3-Clause
 * Work requests. The hot path: one pass over the segments, one request on the stack, no lock of
 * ours, no allocation, no cancellation point. */
#include "work.h"

#include "base/checked.h"

/* Which flags fit the operation. */
#define FLAGS_SEND (FLAGS_COMMON | IT_SOLICITED_WAIT_FLAG | IT_BARRIER_FENCE_FLAG)
#define FLAGS_RDMA (FLAGS_COMMON | IT_BARRIER_FENCE_FLAG)
#define FLAGS_READ (FLAGS_RDMA | IT_UNLINK_LOCAL_SINK)

/* A context has 32 bits. A wider value is none: its lower half must not name another's memory. */
static inline bool is_context(it_rmr_context_t rmr_context)
{
    return likely(rmr_context <= UINT32_MAX);
}

it_status_t __attribute__((cold, noinline)) itapi_post_status(enum ri_status status)
{
    switch (status) {
    case RI_ERR_LIMIT: return IT_ERR_INVALID_LENGTH;
    case RI_ERR_INVALID_ARGUMENT: return IT_ERR_INVALID_NUM_SEGMENTS;
    default: return itapi_status(status);
    }
}

static inline it_status_t post(struct ual_ep *ep, struct ri_send_wr *wr)
{
    enum ri_status status = ual_post_send(ep, wr);

    return unlikely(status != RI_OK) ? itapi_post_status(status) : IT_SUCCESS;
}

/* Inside the call's begin and end no tail call can be, so it is not called at all. */
static inline __attribute__((always_inline)) it_status_t post_message(
    struct ual_ep *ep, const it_lmr_triplet_t *local_segments, size_t num_segments,
    it_dto_cookie_t cookie, it_dto_flags_t dto_flags, uint16_t opcode, uint32_t invalidate_stag)
{
    struct ri_sge sges[SEGMENTS_MAX];
    struct ri_send_wr wr;
    it_status_t status;

    if (unlikely(dto_flags & ~(unsigned int)FLAGS_SEND))
        return IT_ERR_INVALID_DTO_FLAGS;
    status = itapi_message(ep, local_segments, num_segments, opcode, cookie, dto_flags, sges, &wr);
    if (unlikely(status != IT_SUCCESS))
        return status;
    wr.invalidate_stag = invalidate_stag;
    return post(ep, &wr);
}

it_status_t it_post_send(it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
                         size_t num_segments, it_dto_cookie_t cookie, it_dto_flags_t dto_flags)
{
    CALL();
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);

    if (unlikely(!ep))
        return itapi_bad_ep(ep_handle);
    return post_message(ep, local_segments, num_segments, cookie, dto_flags, RI_WR_SEND, 0);
}

it_status_t it_post_send_and_unlink(it_ep_handle_t ep_handle,
                                    const it_lmr_triplet_t *local_segments, size_t num_segments,
                                    it_dto_cookie_t cookie, it_dto_flags_t dto_flags,
                                    it_rmr_context_t rmr_context)
{
    CALL();
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);

    if (unlikely(!ep))
        return itapi_bad_ep(ep_handle);
    if (unlikely(!has_feature(ep->qp.object.device, RI_FEATURE_SEND_INVALIDATE)))
        return IT_ERR_OP_NOT_SUPPORTED;
    if (!is_context(rmr_context))
        return IT_ERR_INVALID_RMR;
    return post_message(ep, local_segments, num_segments, cookie, dto_flags, RI_WR_SEND_INVALIDATE,
                        (uint32_t)rmr_context);
}

/* The handle of a Receive is not that of an EP. */
static it_status_t __attribute__((noinline))
post_srq(it_handle_t handle, const it_lmr_triplet_t *segments, size_t count, it_dto_cookie_t cookie,
         unsigned int flags)
{
    struct ual_srq *srq = LOOKUP(struct ual_srq, SRQ, handle);
    struct ri_sge sges[SEGMENTS_MAX];
    struct ri_recv_wr wr;
    enum ri_status posted;
    uint64_t total;
    it_status_t status;

    if (!srq)
        return ual_lookup((ual_handle)handle, UAL_UD_EP) ? IT_ERR_INVALID_EP_TYPE
                                                         : itapi_bad_handle(IT_ERR_INVALID_HANDLE);
    status = itapi_receive(segments, count, srq->max_sge, srq->pd, cookie, flags, sges, &wr,
                           &total);
    if (unlikely(status != IT_SUCCESS))
        return status;
    posted = ual_post_srq_recv(srq, &wr);
    return unlikely(posted != RI_OK) ? itapi_post_status(posted) : IT_SUCCESS;
}

it_status_t it_post_recv(it_handle_t handle, const it_lmr_triplet_t *local_segments,
                         size_t num_segments, it_dto_cookie_t cookie, it_dto_flags_t dto_flags)
{
    CALL();
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, handle);
    struct ri_sge sges[SEGMENTS_MAX];
    struct ri_recv_wr wr;
    enum ri_status posted;
    uint64_t total;
    it_status_t status;

    if (unlikely(!ep))
        return post_srq(handle, local_segments, num_segments, cookie, dto_flags);
    if (unlikely(ep->attr.srq))
        return IT_ERR_INVALID_EP;
    status = itapi_receive(local_segments, num_segments, ep->attr.max_recv_sge, ep->qp.pd, cookie,
                           dto_flags, sges, &wr, &total);
    if (unlikely(status != IT_SUCCESS))
        return status;
    if (unlikely(total > ep->attr.max_payload))
        return IT_ERR_INVALID_LENGTH;
    posted = ual_post_recv(ep, &wr);
    return unlikely(posted != RI_OK) ? itapi_post_status(posted) : IT_SUCCESS;
}

static inline void describe_rdma(struct ri_send_wr *wr, const struct ri_sge *sges, size_t count,
                                 uint16_t opcode, it_dto_cookie_t cookie, unsigned int flags,
                                 it_rdma_addr_t rdma_addr, it_rmr_context_t rmr_context)
{
    itapi_describe(wr, sges, count, opcode, cookie, flags);
    wr->rdma.remote_addr = rdma_addr;
    wr->rdma.rkey = (uint32_t)rmr_context;
    wr->rdma.reserved = 0;
}

static inline it_status_t post_rdma(struct ual_ep *ep, const struct ri_sge *sges, size_t count,
                                    uint16_t opcode, it_dto_cookie_t cookie, unsigned int flags,
                                    it_rdma_addr_t rdma_addr, it_rmr_context_t rmr_context)
{
    struct ri_send_wr wr;

    describe_rdma(&wr, sges, count, opcode, cookie, flags, rdma_addr, rmr_context);
    return post(ep, &wr);
}

it_status_t it_post_rdma_write(it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
                               size_t num_segments, it_dto_cookie_t cookie,
                               it_dto_flags_t dto_flags, it_rdma_addr_t rdma_addr,
                               it_rmr_context_t rmr_context)
{
    CALL();
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);
    struct ri_sge sges[SEGMENTS_MAX];
    uint64_t total;
    it_status_t status;

    if (unlikely(!ep))
        return itapi_bad_ep(ep_handle);
    if (unlikely(dto_flags & ~(unsigned int)FLAGS_RDMA))
        return IT_ERR_INVALID_DTO_FLAGS;
    if (!is_context(rmr_context))
        return IT_ERR_INVALID_RMR;
    status = itapi_segments(local_segments, num_segments, itapi_limit_of(ep->attr.max_write_sge),
                            ep->qp.pd, 0, sges, &total);
    if (unlikely(status != IT_SUCCESS))
        return status;
    return post_rdma(ep, sges, num_segments, RI_WR_RDMA_WRITE, cookie, dto_flags, rdma_addr,
                     rmr_context);
}

/* On iWARP the answer is a tagged message, so its sink must be open to the peer. */
static uint32_t sink_access(const struct ual_ep *ep)
{
    bool tagged = ual_device_attr(ep->qp.object.device)->features &
                  RI_FEATURE_READ_SINK_REMOTE_WRITE;

    return RI_ACCESS_LOCAL_WRITE | (tagged ? (uint32_t)RI_ACCESS_REMOTE_WRITE : 0u);
}

/* The checks of all Reads. One segment where its sink is to be unlinked, so that it is clear
 * which. */
static inline it_status_t check_read(const struct ual_ep *ep, size_t num_segments,
                                     unsigned int flags, it_rmr_context_t rmr_context)
{
    if (unlikely(flags & ~(unsigned int)FLAGS_READ))
        return IT_ERR_INVALID_DTO_FLAGS;
    if (unlikely(flags & IT_UNLINK_LOCAL_SINK)) {
        if (!has_feature(ep->qp.object.device, RI_FEATURE_READ_INVALIDATE))
            return IT_ERR_INVALID_DTO_FLAGS;
        if (num_segments != 1)
            return IT_ERR_INVALID_NUM_SEGMENTS;
    }
    if (!is_context(rmr_context))
        return IT_ERR_INVALID_RMR;
    return unlikely(ep->ord == 0) ? IT_ERR_RESOURCE_ORD : IT_SUCCESS;
}

/* Segments without octets are not checked otherwise, but here the request unlinks their LMR. */
static it_status_t __attribute__((noinline))
read_and_unlink(struct ual_ep *ep, const it_lmr_triplet_t *segment, struct ri_sge *sge,
                it_dto_cookie_t cookie, unsigned int flags, it_rdma_addr_t rdma_addr,
                it_rmr_context_t rmr_context)
{
    struct ual_mr *mr = LOOKUP(struct ual_mr, MR, segment->lmr);
    struct ri_send_wr wr;
    enum ri_status posted;

    if (!mr || mr->pd != ep->qp.pd)
        return itapi_bad_handle(IT_ERR_INVALID_LMR);
    sge->lkey = mr->lkey;
    describe_rdma(&wr, sge, 1, RI_WR_RDMA_READ_INVALIDATE, cookie, flags, rdma_addr, rmr_context);
    posted = ual_ep_takes_sends(ep) ? ual_mr_post_read(mr, &ep->qp, &wr) : RI_ERR_INVALID_STATE;
    return posted == RI_OK ? IT_SUCCESS : itapi_post_status(posted);
}

it_status_t it_post_rdma_read(it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
                              size_t num_segments, it_dto_cookie_t cookie, it_dto_flags_t dto_flags,
                              it_rdma_addr_t rdma_addr, it_rmr_context_t rmr_context)
{
    CALL();
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);
    struct ri_sge sges[SEGMENTS_MAX];
    uint64_t total;
    it_status_t status;

    if (unlikely(!ep))
        return itapi_bad_ep(ep_handle);
    status = check_read(ep, num_segments, dto_flags, rmr_context);
    if (unlikely(status != IT_SUCCESS))
        return status;
    status = itapi_segments(local_segments, num_segments, itapi_limit_of(ep->attr.max_read_sge),
                            ep->qp.pd, sink_access(ep), sges, &total);
    if (unlikely(status != IT_SUCCESS))
        return status;
    if (unlikely(dto_flags & IT_UNLINK_LOCAL_SINK))
        return read_and_unlink(ep, local_segments, sges, cookie, dto_flags, rdma_addr, rmr_context);
    return post_rdma(ep, sges, num_segments, RI_WR_RDMA_READ, cookie, dto_flags, rdma_addr,
                     rmr_context);
}

/* --- sinks that are RMRs --- */

/* The state after the last link that was posted: that is what a later request finds. */
static it_status_t rmr_segment(const it_rmr_triplet_t *from, const struct ual_ep *ep,
                               struct ual_mw *mw, struct ri_sge *sge)
{
    struct ual_mw_state state;
    uint64_t start, base;

    ual_mw_query(mw, &state);
    if (!state.linked || (state.narrow && state.qp != ep->qp.object.handle) ||
        !(state.access & RI_ACCESS_REMOTE_WRITE))
        return IT_ERR_ACCESS;
    if (state.access & RI_ACCESS_ZERO_BASED) {
        start = from->addr.rel;
        base = 0;
    } else {
        start = (uintptr_t)from->addr.abs;
        base = (uintptr_t)state.addr;
    }
    if (!checked_inside(start, from->length, base, state.length))
        return IT_ERR_RANGE;
    *sge = (struct ri_sge){ start, (uint32_t)from->length, state.stag };
    return IT_SUCCESS;
}

/* As of LMRs: one without octets is checked only if the request unlinks it. */
static it_status_t rmr_segments(const it_rmr_triplet_t *segments, size_t count, bool unlink,
                                const struct ual_ep *ep, struct ri_sge *sges)
{
    uint64_t sum = 0;

    if (count > itapi_limit_of(ep->attr.max_read_sge))
        return IT_ERR_INVALID_NUM_SEGMENTS;
    if (count && !segments)
        return IT_ERR_FAULT;
    for (size_t i = 0; i < count; i++) {
        struct ual_mw *mw = LOOKUP(struct ual_mw, MW, segments[i].rmr);
        it_status_t status;

        if (!segments[i].length && !unlink) {
            sges[i] = (struct ri_sge){ 0 };
            continue;
        }
        if (!mw || ual_mw_pd(mw) != ep->qp.pd)
            return itapi_bad_handle(IT_ERR_INVALID_RMR);
        status = rmr_segment(&segments[i], ep, mw, &sges[i]);
        if (status != IT_SUCCESS)
            return status;
        sum += segments[i].length;
        if (sum > UINT32_MAX)
            return IT_ERR_INVALID_LENGTH;
    }
    return IT_SUCCESS;
}

it_status_t it_post_rdma_read_to_rmr(it_ep_handle_t ep_handle,
                                     const it_rmr_triplet_t *local_segments, size_t num_segments,
                                     it_dto_cookie_t cookie, it_dto_flags_t dto_flags,
                                     it_rdma_addr_t rdma_addr, it_rmr_context_t rmr_context)
{
    CALL();
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);
    bool unlink = dto_flags & IT_UNLINK_LOCAL_SINK;
    struct ri_sge sges[SEGMENTS_MAX];
    struct ri_send_wr wr;
    enum ri_status posted;
    it_status_t status;

    if (!ep)
        return itapi_bad_ep(ep_handle);
    if (!has_feature(ep->qp.object.device,
                     RI_FEATURE_READ_INVALIDATE)) /* rdma_read_local_extensions */
        return IT_ERR_OP_NOT_SUPPORTED;
    status = check_read(ep, num_segments, dto_flags, rmr_context);
    if (status == IT_SUCCESS)
        status = rmr_segments(local_segments, num_segments, unlink, ep, sges);
    if (status != IT_SUCCESS)
        return status;
    describe_rdma(&wr, sges, num_segments, unlink ? RI_WR_RDMA_READ_INVALIDATE : RI_WR_RDMA_READ,
                  cookie, dto_flags, rdma_addr, rmr_context);
    if (!unlink)
        posted = ual_post_send(ep, &wr);
    else if (ual_ep_takes_sends(ep))
        posted = ual_mw_post_read(LOOKUP(struct ual_mw, MW, local_segments->rmr), &ep->qp, &wr);
    else
        posted = RI_ERR_INVALID_STATE;
    return posted == RI_OK ? IT_SUCCESS : itapi_post_status(posted);
}

/* --- atomics --- */

/* Is the word in memory aligned? With relative addressing its offset says nothing alone. Its LMR
 * was looked at before. */
static bool aligned(const it_lmr_triplet_t *result)
{
    const struct ual_mr *mr = LOOKUP(struct ual_mr, MR, result->lmr);
    uintptr_t at = mr->access & RI_ACCESS_ZERO_BASED ? (uintptr_t)mr->addr + result->addr.rel
                                                     : (uintptr_t)result->addr.abs;

    return at % sizeof(uint64_t) == 0;
}

it_status_t it_post_atomic(it_ep_handle_t ep_handle, it_atomic_op_t op, uint64_t swap_or_add,
                           uint64_t compare, const it_lmr_triplet_t *result, it_dto_cookie_t cookie,
                           it_dto_flags_t dto_flags, it_rdma_addr_t rdma_addr,
                           it_rmr_context_t rmr_context)
{
    CALL();
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);
    struct ri_send_wr wr = { 0 };
    struct ri_sge sge;
    uint64_t total;
    it_status_t status;

    if (unlikely(!ep))
        return itapi_bad_ep(ep_handle);
    if (unlikely(!has_feature(ep->qp.object.device, RI_FEATURE_ATOMICS)))
        return IT_ERR_OP_NOT_SUPPORTED;
    if (unlikely(op != IT_FETCH_AND_ADD && op != IT_COMPARE_AND_SWAP))
        return IT_ERR_INVALID_ATOMIC_OP;
    if (unlikely(dto_flags & ~(unsigned int)FLAGS_RDMA))
        return IT_ERR_INVALID_DTO_FLAGS;
    if (unlikely(!result))
        return IT_ERR_FAULT;
    if (unlikely(result->length != sizeof(uint64_t)))
        return IT_ERR_INVALID_LENGTH;
    if (!is_context(rmr_context))
        return IT_ERR_INVALID_RMR;
    if (unlikely(ep->ord == 0))
        return IT_ERR_RESOURCE_ORD;
    status = itapi_segments(result, 1, 1, ep->qp.pd, RI_ACCESS_LOCAL_WRITE, &sge, &total);
    if (unlikely(status != IT_SUCCESS))
        return status;
    if (unlikely(!aligned(result)))
        return IT_ERR_INVALID_ADDRESS;
    itapi_describe(&wr, &sge, 1,
                   op == IT_FETCH_AND_ADD ? RI_WR_ATOMIC_FETCH_ADD : RI_WR_ATOMIC_COMPARE_SWAP,
                   cookie, dto_flags);
    wr.atomic.remote_addr = rdma_addr;
    wr.atomic.swap_or_add = swap_or_add;
    wr.atomic.compare = compare;
    wr.atomic.rkey = (uint32_t)rmr_context;
    return post(ep, &wr);
}
