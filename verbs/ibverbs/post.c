/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Posts. Work requests are converted on the stack, in groups, and handed to the provider; the
 * scatter/gather elements are passed without a copy. [data]
 *
 * A single request without inline data takes a short path. Inline data is copied before the post,
 * to a slot that depends on the number of inline requests posted before; the QP's lock is held over
 * both. A window bind is posted alone, because its key is chosen with the post.
 */
#include "ibverbs_private.h"

#include <endian.h>

/* --- conversion --- */

#define FLAGS(bits, asked, every)                                                                \
    (((bits)&IBV_SEND_FENCE ? RI_WR_READ_FENCE : 0) | ((bits)&IBV_SEND_SIGNALED ? (asked) : 0) | \
     ((bits)&IBV_SEND_SOLICITED ? RI_WR_SOLICITED : 0) | (every))
#define TABLE(a, e)                                                                              \
    {                                                                                            \
        FLAGS(0, a, e), FLAGS(1, a, e), FLAGS(2, a, e), FLAGS(3, a, e), FLAGS(4, a, e),          \
            FLAGS(5, a, e), FLAGS(6, a, e), FLAGS(7, a, e), FLAGS(8, a, e), FLAGS(9, a, e),      \
            FLAGS(10, a, e), FLAGS(11, a, e), FLAGS(12, a, e), FLAGS(13, a, e), FLAGS(14, a, e), \
            FLAGS(15, a, e),                                                                     \
    }
const uint8_t vb_send_flags[VB_FLAGS_TABLES][VB_FLAGS_MASK + 1] = {
    [VB_FLAGS_ASKED] = TABLE(RI_WR_SIGNALED, 0),
    [VB_FLAGS_ALL] = TABLE(0, RI_WR_SIGNALED),
    [VB_FLAGS_COUNTED] = TABLE(RI_WR_NOTIFY, RI_WR_SIGNALED),
    [VB_FLAGS_COUNTED_ALL] = TABLE(0, RI_WR_SIGNALED | RI_WR_NOTIFY),
};

static inline uint16_t flags_of(const struct vb_qp *qp, const struct ibv_send_wr *wr)
{
    return qp->send_flags[wr->send_flags & VB_FLAGS_MASK];
}

static void convert_atomic(const struct ibv_send_wr *from, struct ri_send_wr *to)
{
    bool swaps = from->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;

    to->opcode = swaps ? RI_WR_ATOMIC_COMPARE_SWAP : RI_WR_ATOMIC_FETCH_ADD;
    to->atomic.remote_addr = from->wr.atomic.remote_addr;
    to->atomic.rkey = from->wr.atomic.rkey;
    to->atomic.compare = from->wr.atomic.compare_add;
    to->atomic.swap_or_add = swaps ? from->wr.atomic.swap : from->wr.atomic.compare_add;
}

static bool convert_send(const struct vb_qp *qp, const struct ibv_send_wr *from,
                         struct ri_send_wr *to, enum ri_wr_opcode opcode)
{
    to->opcode = (uint16_t)opcode;
    if (likely(qp->ibv.qp_base.qp_type != IBV_QPT_UD))
        return true;
    if (!from->wr.ud.ah || !vb_ah_of(from->wr.ud.ah)->ual)
        return false;
    to->ud.ah = vb_ah_of(from->wr.ud.ah)->ual->ah;
    to->ud.remote_qpn = from->wr.ud.remote_qpn;
    to->ud.remote_qkey = from->wr.ud.remote_qkey;
    return true;
}

static inline void convert_rdma(const struct ibv_send_wr *from, struct ri_send_wr *to,
                                enum ri_wr_opcode opcode)
{
    to->opcode = (uint16_t)opcode;
    to->rdma.remote_addr = from->wr.rdma.remote_addr;
    to->rdma.rkey = from->wr.rdma.rkey;
}

/* Converts the fields that depend on the opcode. False: no such operation. */
static inline bool convert_operation(const struct vb_qp *qp, const struct ibv_send_wr *from,
                                     struct ri_send_wr *to)
{
    switch (from->opcode) {
    case IBV_WR_SEND: return convert_send(qp, from, to, RI_WR_SEND);
    case IBV_WR_RDMA_WRITE: convert_rdma(from, to, RI_WR_RDMA_WRITE); return true;
    case IBV_WR_RDMA_READ: convert_rdma(from, to, RI_WR_RDMA_READ); return true;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        convert_rdma(from, to, RI_WR_RDMA_WRITE_IMMEDIATE);
        to->immediate = be32toh(from->imm_data);
        return true;
    case IBV_WR_SEND_WITH_IMM:
        to->immediate = be32toh(from->imm_data);
        return convert_send(qp, from, to, RI_WR_SEND_IMMEDIATE);
    case IBV_WR_SEND_WITH_INV:
        to->opcode = RI_WR_SEND_INVALIDATE;
        to->invalidate_stag = from->invalidate_rkey;
        return true;
    case IBV_WR_LOCAL_INV:
        to->opcode = RI_WR_LOCAL_INVALIDATE;
        to->invalidate_stag = from->invalidate_rkey;
        return true;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD: convert_atomic(from, to); return true;
    default: return false;
    }
}

/* Converts all fields but `next`. */
static inline bool convert(const struct vb_qp *qp, const struct ibv_send_wr *from,
                           struct ri_send_wr *to)
{
    to->cookie = from->wr_id;
    to->sg_list = (const struct ri_sge *)(const void *)from->sg_list;
    to->num_sge = (uint32_t)from->num_sge;
    to->flags = flags_of(qp, from);
    return convert_operation(qp, from, to);
}

/* --- send requests --- */

/* Consecutive requests that are posted together. */
struct group {
    struct ri_send_wr wr[VB_GROUP];
    struct ri_sge inlined[VB_GROUP];
    uint32_t count, inline_count;
};

static bool is_inline(const struct ibv_send_wr *wr)
{
    return (wr->send_flags & IBV_SEND_INLINE) &&
           (wr->opcode <= IBV_WR_SEND_WITH_IMM || wr->opcode == IBV_WR_SEND_WITH_INV);
}

static bool take_inline(struct vb_qp *qp, const struct ibv_send_wr *from, struct group *group)
{
    struct ri_sge *place = &group->inlined[group->inline_count];
    struct ri_send_wr *to = &group->wr[group->count];

    if (!qp->inlined ||
        !vb_inline_copy_sges(qp, group->inline_count, from->sg_list, from->num_sge, place))
        return false;
    group->inline_count++;
    to->sg_list = place;
    to->num_sge = place->length ? 1 : 0;
    return true;
}

static bool add(struct vb_qp *qp, const struct ibv_send_wr *from, struct group *group)
{
    struct ri_send_wr *to = &group->wr[group->count];

    if (!convert(qp, from, to) || (is_inline(from) && !take_inline(qp, from, group)))
        return false;
    to->next = NULL;
    if (group->count)
        to[-1].next = to;
    group->count++;
    return true;
}

static uint32_t inline_among(const struct ibv_send_wr *wr, uint32_t count)
{
    uint32_t found = 0;

    for (; count; count--, wr = wr->next)
        found += is_inline(wr);
    return found;
}

/* As ual_qp_post_send. Until the connection is established its connector keeps the requests. */
enum ri_status vb_post_by_gate(struct vb_qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    const struct vb_connector *connector;
    uint32_t gate = atomic_load_explicit(&qp->gate, memory_order_acquire);

    if (likely(gate == VB_GATE_OPEN))
        return ual_qp_post_send(&qp->ual, wr, bad);
    connector = atomic_load_explicit(&qp->connector, memory_order_acquire);
    if (gate == VB_GATE_HELD && connector && connector->hold)
        return connector->hold(qp->connector_context, qp, wr, bad);
    *bad = wr;
    return vb_is_parents(qp->ibv.qp_base.context) ? RI_ERR_DEVICE : RI_ERR_INVALID_STATE;
}

/* Posts the group, which begins with the request `first`. *posted: the number of posted
 * requests. */
static enum ri_status post_group(struct vb_qp *qp, const struct ibv_send_wr *first,
                                 struct group *group, uint32_t *posted)
{
    enum ri_status status = RI_OK;
    struct ri_send_wr *bad = NULL;

    *posted = group->count;
    if (group->count)
        status = vb_post_by_gate(qp, group->wr, &bad);
    if (status != RI_OK)
        *posted = (uint32_t)(bad - group->wr);
    if (group->inline_count)
        vb_inline_posted(qp, inline_among(first, *posted));
    return status;
}

static struct ibv_send_wr *skip(struct ibv_send_wr *wr, uint32_t count)
{
    for (; count; count--)
        wr = wr->next;
    return wr;
}

/* Posts up to VB_GROUP requests. *rest: the first one that is left, or that was refused. */
static int post_some(struct vb_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **rest)
{
    struct group group;
    struct ibv_send_wr *first = wr;
    enum ri_status status;
    uint32_t posted;

    group.count = group.inline_count = 0;
    while (wr && group.count < VB_GROUP && add(qp, wr, &group))
        wr = wr->next;
    status = post_group(qp, first, &group, &posted);
    *rest = skip(first, posted);
    if (status != RI_OK)
        return vb_errno(status);
    return wr && group.count < VB_GROUP && wr->opcode != IBV_WR_BIND_MW ? EINVAL : 0;
}

static int post_bind(struct vb_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **rest)
{
    int error = vb_mw_post_bind(qp, wr->wr_id, flags_of(qp, wr), wr->bind_mw.mw, wr->bind_mw.rkey,
                                &wr->bind_mw.bind_info);

    *rest = error ? wr : wr->next;
    return error;
}

static int post_list(struct vb_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    int error = 0;

    if (qp->inlined)
        spinlock_lock(&qp->lock);
    while (wr && !error)
        error = wr->opcode == IBV_WR_BIND_MW ? post_bind(qp, wr, &wr) : post_some(qp, wr, &wr);
    if (qp->inlined)
        spinlock_unlock(&qp->lock);
    if (error)
        *bad = wr;
    sanitizer_defined(bad, sizeof(*bad));
    return error;
}

static int refuse(struct ibv_send_wr *wr, struct ibv_send_wr **bad, int error)
{
    *bad = wr;
    sanitizer_defined(bad, sizeof(*bad));
    return error;
}

static inline int post_one(struct vb_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    enum ri_status status;
    struct ri_send_wr to, *ri_bad;

    if (unlikely(!convert(qp, wr, &to)))
        return refuse(wr, bad, EINVAL);
    to.next = NULL;
    status = ual_qp_post_send(&qp->ual, &to, &ri_bad);
    return likely(status == RI_OK) ? 0 : refuse(wr, bad, vb_errno(status));
}

int vb_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct vb_qp *qp = vb_qp_of(ibv);

    if (likely(atomic_load_explicit(&qp->gate, memory_order_acquire) == VB_GATE_OPEN) &&
        likely(!wr->next) && likely(!(wr->send_flags & IBV_SEND_INLINE)) &&
        likely(wr->opcode != IBV_WR_BIND_MW))
        return post_one(qp, wr, bad);
    return post_list(qp, wr, bad);
}

/* --- receives --- */

/* Returns the number of receives. */
static inline uint32_t convert_receives(const struct ibv_recv_wr *wr, struct ri_recv_wr *group)
{
    uint32_t count = 0;

    do {
        struct ri_recv_wr *to = &group[count++];

        to->next = wr->next && count < VB_GROUP ? to + 1 : NULL;
        to->cookie = wr->wr_id;
        to->sg_list = (const struct ri_sge *)(const void *)wr->sg_list;
        to->num_sge = (uint32_t)wr->num_sge;
        to->flags = 0;
        wr = wr->next;
    } while (wr && count < VB_GROUP);
    return count;
}

static struct ibv_recv_wr *skip_receives(struct ibv_recv_wr *wr, uint32_t count)
{
    for (; count; count--)
        wr = wr->next;
    return wr;
}

/* InfiniBand takes none in RESET (IBTA, 10.3.1.1). Other devices have no state INIT: there programs
 * of rdma_cm post before they connect. */
static bool takes_no_receives(struct vb_qp *qp)
{
    return unlikely(__atomic_load_n(&qp->ibv.qp_base.state, __ATOMIC_RELAXED) == IBV_QPS_RESET) &&
           vb_connects_numbers(vb_qp_context(qp));
}

int vb_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct vb_qp *qp = vb_qp_of(ibv);
    struct ri_recv_wr group[VB_GROUP], *ri_bad;

    if (takes_no_receives(qp)) {
        *bad = wr;
        return EINVAL;
    }
    while (wr) {
        uint32_t count = convert_receives(wr, group);
        enum ri_status status = ual_qp_post_recv(&qp->ual, group, &ri_bad);

        if (unlikely(status != RI_OK)) {
            *bad = skip_receives(wr, (uint32_t)(ri_bad - group));
            sanitizer_defined(bad, sizeof(*bad));
            return vb_errno(status);
        }
        wr = skip_receives(wr, count);
    }
    return 0;
}

int vb_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct ual_srq *srq = vb_srq_of(ibv)->ual;
    struct ri_recv_wr group[VB_GROUP], *ri_bad;

    while (wr) {
        uint32_t count = convert_receives(wr, group);
        enum ri_status status = ual_srq_post_recv(srq, group, &ri_bad);

        if (unlikely(status != RI_OK)) {
            *bad = skip_receives(wr, (uint32_t)(ri_bad - group));
            sanitizer_defined(bad, sizeof(*bad));
            return vb_errno(status);
        }
        wr = skip_receives(wr, count);
    }
    return 0;
}
