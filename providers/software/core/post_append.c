/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any list of posted requests: the checks that need no memory access, and the copy of the request
 * into its slot.
 */
#include "post.h"
#include "regions.h"

#define SEND_FLAGS                                                                            \
    (RI_WR_SIGNALED | RI_WR_SOLICITED | RI_WR_READ_FENCE | RI_WR_LOCAL_FENCE | RI_WR_NOTIFY | \
     RI_WR_COALESCE)

static bool carries_octets(const struct ri_send_wr *wr)
{
    for (uint32_t i = 0; i < wr->num_sge; i++)
        if (wr->sg_list[i].length)
            return true;
    return false;
}

static enum ri_status check_send(const struct qp *qp, const struct ri_send_wr *wr, uint32_t *limit)
{
    switch (wr->opcode) {
    case RI_WR_RDMA_WRITE_IMMEDIATE: *limit = qp->max_write_sge; break;
    case RI_WR_SEND_IMMEDIATE: /* not fused, with payload, it would take two receives */
        *limit = qp->sq.max_sge;
        if (wr->num_sge <= *limit && !atomic_load_explicit(&qp->attr.fused, memory_order_relaxed) &&
            carries_octets(wr))
            return RI_ERR_NOT_SUPPORTED;
        break;
    case RI_WR_ATOMIC_FETCH_ADD:
    case RI_WR_ATOMIC_COMPARE_SWAP:
        *limit = 1;
        if (wr->num_sge != 1 || wr->sg_list[0].length < ATOMIC_OCTETS)
            return RI_ERR_INVALID_ARGUMENT;
        break;
    case RI_WR_SEND_INVALIDATE:
    case RI_WR_SEND: *limit = qp->sq.max_sge; break;
    case RI_WR_BIND_WINDOW:
    case RI_WR_FAST_REGISTER:
    case RI_WR_LOCAL_INVALIDATE: *limit = 0; break;
    case RI_WR_RDMA_READ_INVALIDATE: /* the sink is named, also when it takes no octet */
        *limit = 1;
        if (wr->num_sge != 1)
            return RI_ERR_INVALID_ARGUMENT;
        break;
    case RI_WR_RDMA_WRITE: *limit = qp->max_write_sge; break;
    case RI_WR_RDMA_READ: *limit = qp->max_read_sge; break;
    default: return RI_ERR_NOT_SUPPORTED;
    }
    return wr->flags & ~(uint32_t)SEND_FLAGS ? RI_ERR_INVALID_ARGUMENT : RI_OK;
}

/* Operands that are not elements. */
static enum ri_status take_operands(const struct qp *qp, struct wqe *wqe,
                                    const struct ri_send_wr *wr)
{
    switch (wr->opcode) {
    case RI_WR_LOCAL_INVALIDATE: wqe->wc_flags = WC_NAMES_STAG; /* fall through */
    case RI_WR_SEND_INVALIDATE: wqe->operand = wr->invalidate_stag; break;
    case RI_WR_RDMA_READ_INVALIDATE:
        wqe->wc_flags = WC_NAMES_STAG;
        wqe->operand = wr->sg_list[0].lkey;
        break;
    case RI_WR_BIND_WINDOW: wqe->wc_flags = WC_NAMES_STAG; return mw_describe_bind(wr, wqe);
    case RI_WR_FAST_REGISTER:
        wqe->wc_flags = WC_NAMES_STAG;
        return mr_describe_fast_register(qp, wr, wqe);
    case RI_WR_RDMA_WRITE_IMMEDIATE:
    case RI_WR_SEND_IMMEDIATE: wqe->operand = wr->immediate; break;
    case RI_WR_ATOMIC_FETCH_ADD:
    case RI_WR_ATOMIC_COMPARE_SWAP:
        wqe->length = wqe->sges[0].length = ATOMIC_OCTETS; /* of a longer element */
        wqe->operand = wr->atomic.swap_or_add;
        wqe->compare = wr->atomic.compare;
        wqe->remote_addr = wr->atomic.remote_addr;
        wqe->rkey = wr->atomic.rkey;
        break;
    default: break;
    }
    return RI_OK;
}

/* As append_send(), which has nothing more to do for plain requests. */
static inline enum ri_status append_plain(struct qp *qp, const struct ri_send_wr *wr,
                                          struct posted *posted)
{
    uint32_t octets = wr->sg_list->length;

    spinlock_assert_held(&qp->sq.posting);
    if (!post_plain(qp, wr, octets, atomic_load_explicit(&qp->sq.posted, memory_order_relaxed),
                    octets <= POST_SHORT ? WQE_SHORT : 0))
        return RI_ERR_QUEUE_FULL;
    if (octets <= POST_SHORT) {
        posted->short_octets += octets;
        posted->shorts++;
    } else {
        posted->octets += octets;
        posted->elements++;
        posted->others++;
    }
    return RI_OK;
}

/* What is filled and not published yet. */
static enum ri_status take_send(struct qp *qp, const struct ri_send_wr *wr, uint32_t limit,
                                struct wqe **out)
{
    struct wqe *wqe;
    enum ri_status status = wq_take(&qp->sq, wr->sg_list, wr->num_sge, limit, &wqe);

    spinlock_assert_held(&qp->sq.posting);
    if (status != RI_OK)
        return status;
    wqe->cookie = wr->cookie;
    wqe->opcode = (uint8_t)wr->opcode;
    wqe->flags = wqe_flags(wr);
    wqe->remote_addr = wr->rdma.remote_addr;
    wqe->rkey = wr->rdma.rkey;
    *out = wqe;
    return take_operands(qp, wqe, wr);
}

/* Elements with octets, and what all have. */
static uint32_t count_solid(const struct ri_send_wr *wr, uint64_t *octets)
{
    uint32_t solid = 0;

    *octets = 0;
    for (uint32_t i = 0; i < wr->num_sge; i++) {
        solid += wr->sg_list[i].length != 0;
        *octets += wr->sg_list[i].length;
    }
    return solid;
}

/*
 * A Read into several elements: a request of the peer names one sink, so it is one for each. The
 * peer answers in order, so the last one alone is signalled, and says how much came in all. A fence
 * counts for the first.
 */
static enum ri_status append_parts(struct qp *qp, const struct ri_send_wr *wr,
                                   struct posted *posted)
{
    const uint16_t fences = RI_WR_READ_FENCE | RI_WR_LOCAL_FENCE;
    struct ri_send_wr part = *wr;
    uint64_t octets;
    uint32_t left = count_solid(wr, &octets);
    struct wqe *wqe;

    spinlock_assert_held(&qp->sq.posting);
    if (octets > UINT32_MAX)
        return RI_ERR_LIMIT;
    if (wq_room(&qp->sq) < left)
        return RI_ERR_QUEUE_FULL;
    part.num_sge = 1;
    for (part.sg_list = wr->sg_list; left; part.sg_list++) {
        if (!part.sg_list->length)
            continue;
        left--;
        part.flags = (uint16_t)((part.flags & ~RI_WR_SIGNALED) |
                                (left ? 0 : wr->flags & RI_WR_SIGNALED));
        take_send(qp, &part, 1, &wqe); /* does not fail: there is room */
        wqe->flags |= left ? WQE_PART : 0;
        wqe->wc_flags = left ? 0 : WC_WHOLE;
        wqe->operand = octets;
        wq_publish(&qp->sq);
        TRACE3(post, qp->qpn, wr->cookie, wr->opcode);
        posted->answered++;
        part.rdma.remote_addr += part.sg_list->length;
        part.flags &= (uint16_t)~fences;
    }
    return RI_OK;
}

static enum ri_status append_send(struct qp *qp, const struct ri_send_wr *wr, struct posted *posted)
{
    struct wqe *wqe;
    uint64_t octets;
    uint32_t limit;
    enum ri_status status = check_send(qp, wr, &limit);

    if (status == RI_OK && wr->opcode == RI_WR_RDMA_READ && wr->num_sge > 1) {
        if (wr->num_sge > limit)
            return RI_ERR_INVALID_ARGUMENT;
        if (count_solid(wr, &octets))
            return append_parts(qp, wr, posted);
    }
    if (status == RI_OK)
        status = take_send(qp, wr, limit, &wqe);
    if (status != RI_OK)
        return status;
    if (wqe_is_answered(wqe)) {
        posted->answered++;
    } else {
        posted->octets += wqe->length;
        posted->elements += wqe->num_sge;
        posted->others++;
    }
    wq_publish(&qp->sq);
    TRACE3(post, qp->qpn, wr->cookie, wr->opcode);
    return RI_OK;
}

enum ri_status post_append(struct qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad,
                           struct posted *posted)
{
    /* checked under posting: see reset_to_idle() in qp_modify.c */
    enum ri_status status = qp_state(qp) == RI_QPS_IDLE ? RI_ERR_INVALID_STATE : RI_OK;

    spinlock_assert_held(&qp->sq.posting);
    for (; wr; wr = wr->next) {
        if (status == RI_OK)
            status = post_is_plain(wr) ? append_plain(qp, wr, posted) : append_send(qp, wr, posted);
        if (status != RI_OK) {
            *bad = wr;
            return status;
        }
        posted->requests++;
        posted->asked = wr->flags & RI_WR_COALESCE;
    }
    return status;
}
