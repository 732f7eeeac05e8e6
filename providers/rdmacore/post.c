/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Posts: fills a slot, converts the request on the stack, and passes it to the device. No
 * allocation, one lock.
 */
#include "qp.h"
#include "verbs.h"
#include "base/minmax.h"

#include <endian.h>
#include <errno.h>

static_assert(sizeof(struct ri_sge) == sizeof(struct ibv_sge) &&
                  offsetof(struct ri_sge, addr) == offsetof(struct ibv_sge, addr) &&
                  offsetof(struct ri_sge, length) == offsetof(struct ibv_sge, length) &&
                  offsetof(struct ri_sge, lkey) == offsetof(struct ibv_sge, lkey),
              "elements pass as they are");
static_assert(IBV_SEND_SIGNALED == RI_WR_SIGNALED << 1 && IBV_SEND_SOLICITED == RI_WR_SOLICITED
                                                                                    << 1,
              "flags that differ in place only");

enum { PLAIN = 1, PLAIN_INLINE = PLAIN | IBV_SEND_INLINE };

enum form { NONE, MESSAGE, INVALIDATING, TAGGED, ATOMIC, OTHER };

static const struct {
    uint8_t form, opcode, completion;
    uint8_t plain; /* on the fast path: PLAIN, with IBV_SEND_INLINE if possible */
} forms[] = {
    [RI_WR_SEND] = { MESSAGE, IBV_WR_SEND, RI_WC_SEND, PLAIN_INLINE },
    [RI_WR_SEND_IMMEDIATE] = { MESSAGE, IBV_WR_SEND_WITH_IMM, RI_WC_SEND, 0 },
    /* Never inline: one known driver refuses that. */
    [RI_WR_SEND_INVALIDATE] = { INVALIDATING, IBV_WR_SEND_WITH_INV, RI_WC_SEND, 0 },
    [RI_WR_RDMA_WRITE] = { TAGGED, IBV_WR_RDMA_WRITE, RI_WC_RDMA_WRITE, PLAIN_INLINE },
    [RI_WR_RDMA_WRITE_IMMEDIATE] = { TAGGED, IBV_WR_RDMA_WRITE_WITH_IMM, RI_WC_RDMA_WRITE, 0 },
    [RI_WR_RDMA_READ] = { TAGGED, IBV_WR_RDMA_READ, RI_WC_RDMA_READ, PLAIN },
    [RI_WR_ATOMIC_FETCH_ADD] = { ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD, RI_WC_FETCH_ADD, 0 },
    [RI_WR_ATOMIC_COMPARE_SWAP] = { ATOMIC, IBV_WR_ATOMIC_CMP_AND_SWP, RI_WC_COMPARE_SWAP, 0 },
    [RI_WR_BIND_WINDOW] = { OTHER, IBV_WR_BIND_MW, RI_WC_BIND_WINDOW, 0 },
    [RI_WR_LOCAL_INVALIDATE] = { OTHER, IBV_WR_LOCAL_INV, RI_WC_LOCAL_INVALIDATE, 0 },
};

/* ---- elements ---- */

#define ELEMENTS 32

/* Empty elements have no valid lkey, but some drivers check it. So empty elements are left out. */
static int solid(const struct ri_sge *from, uint32_t count, struct ibv_sge *room,
                 struct ibv_sge **list)
{
    uint32_t empty = 0;
    int kept = 0;

    for (uint32_t i = 0; i < count; i++)
        empty += !from[i].length;
    *list = (struct ibv_sge *)(uintptr_t)from;
    if (!empty || count > ELEMENTS)
        return (int)count;
    for (uint32_t i = 0; i < count; i++)
        if (from[i].length)
            room[kept++] = (struct ibv_sge){ from[i].addr, from[i].length, from[i].lkey };
    *list = room;
    return kept;
}

/* Some drivers do not accept a receive without elements: it gets an empty one. */
static int solid_receive(const struct ri_recv_wr *wr, struct ibv_sge *room, struct ibv_sge **list)
{
    int kept = solid(wr->sg_list, wr->num_sge, room, list);

    if (kept)
        return kept;
    room[0] = (struct ibv_sge){ .addr = 0 };
    *list = room;
    return 1;
}

/* ---- send queue ---- */

void qp_limit_elements(struct qp *qp)
{
    const struct rnic *rnic = qp->rnic;

    static_assert(sizeof(qp->sge_limits) >= sizeof(forms) / sizeof(forms[0]), "one per opcode");

    for (unsigned int opcode = 0; opcode < sizeof(forms) / sizeof(forms[0]); opcode++) {
        uint32_t limit = forms[opcode].form == ATOMIC  ? 1
                         : forms[opcode].form == OTHER ? 0
                         : opcode == RI_WR_RDMA_READ
                             ? min_u32(qp->max_read_sge, rnic->read_elements)
                         : forms[opcode].form == TAGGED
                             ? min_u32(qp->max_write_sge, rnic->write_elements)
                             : qp->max_send_sge;

        qp->sge_limits[opcode] = limit < UINT8_MAX ? (uint8_t)limit : UINT8_MAX;
    }
}

/* The octets of a short message go in the request, so the device need not read them. */
static inline unsigned int inline_flag(const struct qp *qp, unsigned int plain, uint32_t length)
{
    return length - 1 < qp->max_inline ? plain & (unsigned int)IBV_SEND_INLINE : 0;
}

static unsigned int flags_of(const struct qp *qp, const struct ri_send_wr *wr, uint32_t length)
{
    unsigned int flags = (wr->flags & (RI_WR_SIGNALED | RI_WR_SOLICITED)) << 1;

    if (wr->flags & (RI_WR_READ_FENCE | RI_WR_LOCAL_FENCE))
        flags |= IBV_SEND_FENCE;
    if (wr->flags & RI_WR_INLINE)
        flags |= IBV_SEND_INLINE;
    return flags | inline_flag(qp, forms[wr->opcode].plain, length);
}

/* Requests other than messages, Writes and Reads. */
static void __attribute__((noinline))
describe_other(const struct ri_send_wr *wr, struct ibv_send_wr *raw, uint32_t *stag)
{
    switch (wr->opcode) {
    case RI_WR_ATOMIC_FETCH_ADD:
        raw->wr.atomic.remote_addr = wr->atomic.remote_addr;
        raw->wr.atomic.rkey = wr->atomic.rkey;
        raw->wr.atomic.compare_add = wr->atomic.swap_or_add;
        break;
    case RI_WR_ATOMIC_COMPARE_SWAP:
        raw->wr.atomic.remote_addr = wr->atomic.remote_addr;
        raw->wr.atomic.rkey = wr->atomic.rkey;
        raw->wr.atomic.compare_add = wr->atomic.compare;
        raw->wr.atomic.swap = wr->atomic.swap_or_add;
        break;
    case RI_WR_BIND_WINDOW: window_describe(wr, raw, stag); break;
    default:
        *stag = wr->invalidate_stag;
        raw->invalidate_rkey = wr->invalidate_stag;
        break;
    }
}

/* A soft request, a window operation, or an atomic. The slot is taken. Returns the result of the
 * verb. */
static int __attribute__((noinline))
post_special(struct qp *qp, const struct ri_send_wr *wr, struct ibv_send_wr *raw, bool soft)
{
    struct slot *slot = (struct slot *)(uintptr_t)raw->wr_id;
    struct ibv_send_wr *bad;
    uint32_t stag = 0;

    if (forms[wr->opcode].form >= ATOMIC)
        describe_other(wr, raw, &stag);
    if (forms[wr->opcode].form == OTHER) {
        slot->stag = stag;
        slot->flags |= SLOT_STAG;
    }
    if (soft) {
        wq_soften(&qp->sq, qp->send_cq, slot);
        return 0;
    }
    return forms[wr->opcode].form == OTHER ? window_post(qp, wr, raw)
                                           : ibv_post_send(qp->ibv, raw, &bad);
}

/* For a UD QP: the only request is the Send of one datagram, also with immediate data. */
static enum ri_status check_datagram(const struct qp *qp, const struct ri_send_wr *wr,
                                     uint32_t length)
{
    if ((wr->opcode != RI_WR_SEND && wr->opcode != RI_WR_SEND_IMMEDIATE) || !wr->ud.ah)
        return RI_ERR_INVALID_ARGUMENT;
    return length > qp->rnic->attr.max_ud_send ? RI_ERR_LIMIT : RI_OK;
}

static void address_datagram(const struct ri_send_wr *wr, struct ibv_send_wr *raw)
{
    raw->wr.ud.ah = container_of(wr->ud.ah, struct ah, base)->ibv;
    raw->wr.ud.remote_qpn = wr->ud.remote_qpn;
    raw->wr.ud.remote_qkey = wr->ud.remote_qkey;
}

static uint32_t __attribute__((noinline)) sum_of(const struct ri_send_wr *wr)
{
    uint32_t length = 0;

    for (uint32_t i = 0; i < wr->num_sge; i++)
        length += wr->sg_list[i].length;
    return length;
}

/* Sets the remote address of a Write or a Read. */
static void address_memory(const struct ri_send_wr *wr, struct ibv_send_wr *raw)
{
    raw->wr.rdma.remote_addr = wr->rdma.remote_addr;
    raw->wr.rdma.rkey = wr->rdma.rkey;
}

/* The request has more elements than the device supports. A soft request is not split. */
static enum ri_status __attribute__((cold, noinline))
send_many(struct qp *qp, const struct ri_send_wr *wr, bool soft)
{
    uint32_t limit = wr->opcode == RI_WR_RDMA_READ ? qp->max_read_sge : qp->max_write_sge;
    uint8_t completion = forms[wr->opcode].completion;
    struct ibv_send_wr raw;
    struct slot *slot;

    if (forms[wr->opcode].form != TAGGED || qp->datagram || wr->num_sge > limit)
        return RI_ERR_INVALID_ARGUMENT;
    if ((wr->flags & RI_WR_INLINE) && sum_of(wr) > qp->max_inline)
        return RI_ERR_LIMIT;
    if (!soft) {
        raw.opcode = (enum ibv_wr_opcode)forms[wr->opcode].opcode;
        raw.send_flags = flags_of(qp, wr, 0);
        raw.imm_data = htobe32(wr->immediate);
        address_memory(wr, &raw);
        return split_send(qp, wr, completion, &raw);
    }
    slot = wq_take_slot(&qp->sq, wr->cookie, completion, wr->flags & RI_WR_NOTIFY ? SLOT_NOTIFY : 0,
                        0);
    if (!slot)
        return RI_ERR_QUEUE_FULL;
    wq_soften(&qp->sq, qp->send_cq, slot);
    return RI_OK;
}

static enum ri_status send_one(struct qp *qp, const struct ri_send_wr *wr, bool soft)
{
    struct ibv_send_wr raw, *bad;
    struct ibv_sge sges[ELEMENTS];
    struct slot *slot;
    enum ri_status status = RI_OK;
    uint32_t length;
    uint8_t form;
    int error;

    if (unlikely(wr->opcode >= sizeof(forms) / sizeof(forms[0])))
        return RI_ERR_INVALID_ARGUMENT;
    form = forms[wr->opcode].form;
    if (unlikely(form == NONE))
        return RI_ERR_NOT_SUPPORTED;
    if (unlikely(wr->num_sge > qp->sge_limits[wr->opcode]))
        return send_many(qp, wr, soft);
    length = wr->num_sge == 1 ? wr->sg_list[0].length : sum_of(wr);
    if (unlikely((wr->flags & RI_WR_INLINE) && length > qp->max_inline))
        return RI_ERR_LIMIT;
    if (qp->datagram)
        status = check_datagram(qp, wr, length);
    if (status != RI_OK)
        return status;
    slot = wq_take_slot(&qp->sq, wr->cookie, forms[wr->opcode].completion,
                        wr->flags & RI_WR_NOTIFY ? SLOT_NOTIFY : 0, length);
    if (unlikely(!slot))
        return RI_ERR_QUEUE_FULL;
    raw.wr_id = (uintptr_t)slot;
    raw.next = NULL;
    raw.num_sge = solid(wr->sg_list, wr->num_sge, sges, &raw.sg_list);
    raw.opcode = (enum ibv_wr_opcode)forms[wr->opcode].opcode;
    raw.send_flags = flags_of(qp, wr, length);
    raw.imm_data = form == INVALIDATING ? wr->invalidate_stag : htobe32(wr->immediate);
    if (form == TAGGED) {
        address_memory(wr, &raw);
    } else if (form == INVALIDATING) {
        raw.wr.rdma.rkey = wr->invalidate_stag; /* one driver reads the STag here */
    }
    if (qp->datagram)
        address_datagram(wr, &raw);
    if (unlikely(soft || form >= ATOMIC))
        error = post_special(qp, wr, &raw, soft);
    else
        error = ibv_post_send(qp->ibv, &raw, &bad);
    if (unlikely(error) && !post_is_queued(error)) {
        wq_drop_slot(&qp->sq);
        return rdmacore_post_status(rdmacore_errno(error));
    }
    return RI_OK;
}

/* Any list in any state. Releases the lock. */
static enum ri_status __attribute__((noinline))
send_list(struct qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    int state = atomic_load_explicit(&qp->state, memory_order_relaxed);
    bool early = state == RI_QPS_IDLE || (state < 0 && state != DATAGRAM_RTS);
    enum ri_status status = early ? RI_ERR_INVALID_STATE : RI_OK;
    bool soft = state > RI_QPS_RTS, cut;

    /* behind a request that was cut off the others are soft */
    while (status == RI_OK && wr) {
        status = send_one(qp, wr, soft || atomic_load_explicit(&qp->cut, memory_order_relaxed));
        if (status == RI_OK)
            wr = wr->next;
    }
    cut = !soft && atomic_load(&qp->cut);
    spinlock_unlock(&qp->sq.lock);
    if (status != RI_OK)
        *bad = wr;
    if (unlikely(cut))
        split_cut(qp);
    if (soft)
        cq_fire(qp->send_cq);
    return status;
}

/* The device has refused the last request. Releases the lock. */
static enum ri_status __attribute__((cold, noinline)) refused(struct wq *wq, int error)
{
    bool queued = !wq->receive && post_is_queued(error);

    error = rdmacore_errno(error);
    if (!queued)
        wq_drop_slot(wq);
    spinlock_unlock(&wq->lock);
    return queued ? RI_OK : rdmacore_post_status(error);
}

static enum ri_status __attribute__((cold, noinline)) no_slot(struct wq *wq)
{
    spinlock_unlock(&wq->lock);
    return RI_ERR_QUEUE_FULL;
}

/* 0: not for the short path, because it has more than one element, or rare flags or opcodes.
 * Otherwise the value of forms[]. */
static inline unsigned int plain_of(const struct ri_send_wr *wr, unsigned int opcode)
{
    const unsigned int usual = RI_WR_SIGNALED | RI_WR_SOLICITED | RI_WR_COALESCE;

    if (wr->num_sge != 1 || (wr->flags | usual) != usual || wr->next ||
        opcode >= sizeof(forms) / sizeof(forms[0]))
        return 0;
    return forms[opcode].plain;
}

/* Also not on the short path. Both are tail calls there, so the compiler keeps no values over calls
 * except that of the device. */
static enum ri_status __attribute__((cold, noinline))
send_contended(struct qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    spinlock_lock(&qp->sq.lock);
    return send_list(qp, wr, bad);
}

/* The short path for one plain request. Its fields are read before anything is written, because the
 * compiler must assume that writes may change them. */
enum ri_status rdmacore_post_send(struct ri_qp *base, struct ri_send_wr *wr,
                                  struct ri_send_wr **bad)
{
    struct qp *qp = container_of(base, struct qp, base);
    struct ibv_send_wr raw, *raw_bad;
    unsigned int opcode = wr->opcode, flags, plain;
    struct slot *slot;
    uint32_t length;
    int error;

    if (unlikely(!spinlock_try_blind(&qp->sq.lock)))
        return send_contended(qp, wr, bad);
    plain = plain_of(wr, opcode);
    if (unlikely(!plain || atomic_load_explicit(&qp->state, memory_order_relaxed) != RI_QPS_RTS))
        return send_list(qp, wr, bad);
    length = wr->sg_list[0].length;
    flags = (wr->flags & (RI_WR_SIGNALED | RI_WR_SOLICITED)) << 1;
    if (length - 1 < qp->max_inline)
        flags |= plain & (unsigned int)IBV_SEND_INLINE;
    else if (unlikely(!length))
        return send_list(qp, wr, bad);
    raw.next = NULL;
    raw.sg_list = (struct ibv_sge *)(uintptr_t)wr->sg_list;
    raw.num_sge = 1;
    raw.opcode = (enum ibv_wr_opcode)forms[opcode].opcode;
    raw.send_flags = flags;
    if (opcode >= RI_WR_RDMA_WRITE) {
        raw.wr.rdma.remote_addr = wr->rdma.remote_addr;
        raw.wr.rdma.rkey = wr->rdma.rkey;
    }
    slot = wq_take_slot(&qp->sq, wr->cookie, forms[opcode].completion, 0, length);
    *bad = wr; /* set before the call, so that only the QP stays live across it */
    if (unlikely(!slot))
        return no_slot(&qp->sq);
    raw.wr_id = (uintptr_t)slot;
    error = ibv_post_send(qp->ibv, &raw, &raw_bad);
    if (unlikely(error))
        return refused(&qp->sq, error);
    spinlock_unlock(&qp->sq.lock);
    return RI_OK;
}

/* ---- receives ---- */

static enum ri_status receive_one(struct qp *qp, const struct ri_recv_wr *wr, bool soft)
{
    struct ibv_recv_wr raw, *bad;
    struct ibv_sge sges[ELEMENTS];
    struct slot *slot;
    int error;

    if (unlikely(wr->num_sge > qp->max_recv_sge))
        return RI_ERR_INVALID_ARGUMENT;
    slot = wq_take_slot(&qp->rq, wr->cookie, qp->datagram ? RI_WC_RECV_DATAGRAM : RI_WC_RECV,
                        (uint8_t)((wr->flags & RI_WR_NOTIFY ? SLOT_NOTIFY : 0) |
                                  (qp->datagram ? SLOT_DATAGRAM : 0)),
                        0);
    if (unlikely(!slot))
        return RI_ERR_QUEUE_FULL;
    if (qp->datagram)
        slot->header = datagram_header(wr);
    if (unlikely(soft)) {
        wq_soften(&qp->rq, qp->recv_cq, slot);
        return RI_OK;
    }
    raw.wr_id = (uintptr_t)slot;
    raw.next = NULL;
    raw.num_sge = solid_receive(wr, sges, &raw.sg_list);
    error = ibv_post_recv(qp->ibv, &raw, &bad);
    if (unlikely(error)) {
        wq_drop_slot(&qp->rq);
        return rdmacore_post_status(rdmacore_errno(error));
    }
    return RI_OK;
}

/* Any list in any state. Releases the lock. */
static enum ri_status __attribute__((noinline))
receive_list(struct qp *qp, struct ri_recv_wr *wr, struct ri_recv_wr **bad)
{
    bool soft = atomic_load_explicit(&qp->state, memory_order_relaxed) > RI_QPS_RTS;
    enum ri_status status = qp->srq ? RI_ERR_INVALID_STATE : RI_OK;

    while (status == RI_OK && wr) {
        status = receive_one(qp, wr, soft);
        if (status == RI_OK)
            wr = wr->next;
    }
    spinlock_unlock(&qp->rq.lock);
    if (status != RI_OK)
        *bad = wr;
    if (soft)
        cq_fire(qp->recv_cq);
    return status;
}

static enum ri_status __attribute__((cold, noinline))
receive_contended(struct qp *qp, struct ri_recv_wr *wr, struct ri_recv_wr **bad)
{
    spinlock_lock(&qp->rq.lock);
    return receive_list(qp, wr, bad);
}

enum ri_status rdmacore_post_recv(struct ri_qp *base, struct ri_recv_wr *wr,
                                  struct ri_recv_wr **bad)
{
    struct qp *qp = container_of(base, struct qp, base);
    struct ibv_recv_wr raw, *raw_bad;
    struct slot *slot;
    int error;

    if (unlikely(!spinlock_try_blind(&qp->rq.lock)))
        return receive_contended(qp, wr, bad);
    /* The states of UD lie beyond RTS, too. */
    if (unlikely((unsigned int)atomic_load_explicit(&qp->state, memory_order_relaxed) >
                     RI_QPS_RTS ||
                 qp->srq || wr->num_sge != 1 || !wr->sg_list[0].length || wr->flags || wr->next))
        return receive_list(qp, wr, bad);
    raw.next = NULL;
    raw.sg_list = (struct ibv_sge *)(uintptr_t)wr->sg_list;
    raw.num_sge = 1;
    slot = wq_take_slot(&qp->rq, wr->cookie, RI_WC_RECV, 0, 0);
    *bad = wr;
    if (unlikely(!slot))
        return no_slot(&qp->rq);
    raw.wr_id = (uintptr_t)slot;
    error = ibv_post_recv(qp->ibv, &raw, &raw_bad);
    if (unlikely(error))
        return refused(&qp->rq, error);
    spinlock_unlock(&qp->rq.lock);
    return RI_OK;
}

static enum ri_status shared_one(struct srq *srq, const struct ri_recv_wr *wr)
{
    struct ibv_recv_wr raw, *bad;
    struct ibv_sge sges[ELEMENTS];
    struct slot *slot;
    int error;

    if (unlikely(wr->num_sge > srq->max_sge))
        return RI_ERR_INVALID_ARGUMENT;
    slot = srq->free;
    if (unlikely(!slot || srq->posted >= srq->max_wr))
        return RI_ERR_QUEUE_FULL;
    slot->cookie = wr->cookie;
    slot->flags = wr->flags & RI_WR_NOTIFY ? SLOT_NOTIFY : 0;
    slot->opcode = RI_WC_RECV;
    slot->header = datagram_header(wr); /* the datagram's receive is not known yet */
    raw.wr_id = (uintptr_t)slot;
    raw.next = NULL;
    raw.num_sge = solid_receive(wr, sges, &raw.sg_list);
    srq->free = slot->link;
    srq->posted++;
    error = ibv_post_srq_recv(srq->ibv, &raw, &bad);
    if (unlikely(error)) {
        srq->free = slot;
        srq->posted--;
        return rdmacore_post_status(rdmacore_errno(error));
    }
    return RI_OK;
}

enum ri_status rdmacore_post_srq_recv(struct ri_srq *base, struct ri_recv_wr *wr,
                                      struct ri_recv_wr **bad)
{
    struct srq *srq = container_of(base, struct srq, base);
    enum ri_status status = RI_OK;

    spinlock_lock(&srq->lock);
    for (; wr; wr = wr->next) {
        status = shared_one(srq, wr);
        if (unlikely(status != RI_OK))
            break;
    }
    spinlock_unlock(&srq->lock);
    if (unlikely(status != RI_OK))
        *bad = wr;
    return status;
}
