/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ibv_wr_*: each call builds one work request in the provider's form, and ibv_wr_complete posts
 * them together. The QP's lock is held from start to complete or abort. An error, such as too many
 * requests, is kept until ibv_wr_complete, which then posts nothing and returns it. [data]
 */
#include "ibverbs_private.h"

#include <endian.h>
#include <stdlib.h>

/* A window bind: its key is chosen with its post. */
struct bind {
    struct ibv_mw *mw;
    uint32_t rkey;
    struct ibv_mw_bind_info info;
};

struct vb_batch {
    int error;
    uint32_t count, inline_count;
    uint32_t requests, sges; /* capacity; sges: of each request */
    struct ri_send_wr *wr;
    struct ri_sge *sge;
    struct bind *bind;
    bool *inlined;
};

static struct vb_qp *qp_of(struct ibv_qp_ex *ibv)
{
    return container_of(ibv, struct vb_qp, ibv);
}

/* --- life --- */

void vb_batch_close(struct vb_qp *qp)
{
    struct vb_batch *batch = qp->batch;

    if (!batch)
        return;
    free(batch->wr);
    free(batch->sge);
    free(batch->bind);
    free(batch->inlined);
    free(batch);
    qp->batch = NULL;
}

/* --- start and end --- */

static void wr_start(struct ibv_qp_ex *ibv)
{
    struct vb_qp *qp = qp_of(ibv);
    struct vb_batch *batch = qp->batch;

    spinlock_lock(&qp->lock);
    batch->error = 0;
    batch->count = batch->inline_count = 0;
}

static void wr_abort(struct ibv_qp_ex *ibv)
{
    spinlock_unlock(&qp_of(ibv)->lock);
}

/* Links the requests from `first` to the next bind. Returns the index behind them. */
static uint32_t link_run(struct vb_batch *batch, uint32_t first)
{
    uint32_t end = first;

    while (end < batch->count && batch->wr[end].opcode != RI_WR_BIND_WINDOW) {
        batch->wr[end].next = &batch->wr[end + 1];
        end++;
    }
    if (end > first)
        batch->wr[end - 1].next = NULL;
    return end;
}

static void count_inline(struct vb_qp *qp, uint32_t first, uint32_t end)
{
    uint32_t count = 0;

    for (uint32_t i = first; i < end; i++)
        count += qp->batch->inlined[i];
    if (count)
        vb_inline_posted(qp, count);
}

static int post_run(struct vb_qp *qp, uint32_t first, uint32_t end)
{
    struct vb_batch *batch = qp->batch;
    struct ri_send_wr *bad = NULL;
    enum ri_status status = vb_post_by_gate(qp, &batch->wr[first], &bad);

    count_inline(qp, first, status == RI_OK ? end : (uint32_t)(bad - batch->wr));
    return vb_errno(status);
}

static int post_bind(struct vb_qp *qp, uint32_t place)
{
    const struct ri_send_wr *wr = &qp->batch->wr[place];
    const struct bind *bind = &qp->batch->bind[place];

    return vb_mw_post_bind(qp, wr->cookie, wr->flags, bind->mw, bind->rkey, &bind->info);
}

static int post_all(struct vb_qp *qp)
{
    struct vb_batch *batch = qp->batch;
    uint32_t place = 0;
    int error = 0;

    while (place < batch->count && !error) {
        uint32_t end = link_run(batch, place);

        if (end > place) {
            error = post_run(qp, place, end);
            place = end;
        } else {
            error = post_bind(qp, place++);
        }
    }
    return error;
}

static int wr_complete(struct ibv_qp_ex *ibv)
{
    struct vb_qp *qp = qp_of(ibv);
    int error = qp->batch->error;

    if (!error)
        error = post_all(qp);
    spinlock_unlock(&qp->lock);
    return error;
}

/* --- requests --- */

static uint16_t flags_of(const struct vb_qp *qp)
{
    return qp->send_flags[qp->ibv.wr_flags & VB_FLAGS_MASK];
}

/* Begins the next request, without data. NULL: no room. */
static struct ri_send_wr *begin(struct ibv_qp_ex *ibv, enum ri_wr_opcode opcode)
{
    struct vb_qp *qp = qp_of(ibv);
    struct vb_batch *batch = qp->batch;
    struct ri_send_wr *wr;

    if (batch->count == batch->requests) {
        batch->error = ENOMEM;
        return NULL;
    }
    batch->inlined[batch->count] = false;
    wr = &batch->wr[batch->count++];
    wr->cookie = ibv->wr_id;
    wr->sg_list = NULL;
    wr->num_sge = 0;
    wr->opcode = (uint16_t)opcode;
    wr->flags = flags_of(qp);
    return wr;
}

static struct ri_send_wr *begin_rdma(struct ibv_qp_ex *ibv, enum ri_wr_opcode opcode, uint32_t rkey,
                                     uint64_t remote_addr)
{
    struct ri_send_wr *wr = begin(ibv, opcode);

    if (wr) {
        wr->rdma.remote_addr = remote_addr;
        wr->rdma.rkey = rkey;
    }
    return wr;
}

static void wr_send(struct ibv_qp_ex *ibv)
{
    begin(ibv, RI_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ibv, __be32 imm_data)
{
    struct ri_send_wr *wr = begin(ibv, RI_WR_SEND_IMMEDIATE);

    if (wr)
        wr->immediate = be32toh(imm_data);
}

static void wr_send_inv(struct ibv_qp_ex *ibv, uint32_t invalidate_rkey)
{
    struct ri_send_wr *wr = begin(ibv, RI_WR_SEND_INVALIDATE);

    if (wr)
        wr->invalidate_stag = invalidate_rkey;
}

static void wr_local_inv(struct ibv_qp_ex *ibv, uint32_t invalidate_rkey)
{
    struct ri_send_wr *wr = begin(ibv, RI_WR_LOCAL_INVALIDATE);

    if (wr)
        wr->invalidate_stag = invalidate_rkey;
}

static void wr_rdma_read(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t remote_addr)
{
    begin_rdma(ibv, RI_WR_RDMA_READ, rkey, remote_addr);
}

static void wr_rdma_write(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t remote_addr)
{
    begin_rdma(ibv, RI_WR_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t remote_addr,
                              __be32 imm_data)
{
    struct ri_send_wr *wr = begin_rdma(ibv, RI_WR_RDMA_WRITE_IMMEDIATE, rkey, remote_addr);

    if (wr)
        wr->immediate = be32toh(imm_data);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t remote_addr,
                              uint64_t compare, uint64_t swap)
{
    struct ri_send_wr *wr = begin(ibv, RI_WR_ATOMIC_COMPARE_SWAP);

    if (!wr)
        return;
    wr->atomic.remote_addr = remote_addr;
    wr->atomic.rkey = rkey;
    wr->atomic.compare = compare;
    wr->atomic.swap_or_add = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t remote_addr,
                                uint64_t add)
{
    struct ri_send_wr *wr = begin(ibv, RI_WR_ATOMIC_FETCH_ADD);

    if (!wr)
        return;
    wr->atomic.remote_addr = remote_addr;
    wr->atomic.rkey = rkey;
    wr->atomic.swap_or_add = add;
}

static void wr_bind_mw(struct ibv_qp_ex *ibv, struct ibv_mw *mw, uint32_t rkey,
                       const struct ibv_mw_bind_info *info)
{
    struct vb_batch *batch = qp_of(ibv)->batch;

    if (begin(ibv, RI_WR_BIND_WINDOW))
        batch->bind[batch->count - 1] = (struct bind){ .mw = mw, .rkey = rkey, .info = *info };
}

/* --- what a request is of --- */

/* The last request begun. NULL: there is none, or an error is pending. */
static struct ri_send_wr *last(struct vb_batch *batch)
{
    if (!batch->count && !batch->error)
        batch->error = EINVAL;
    return batch->error ? NULL : &batch->wr[batch->count - 1];
}

static void wr_set_sge_list(struct ibv_qp_ex *ibv, size_t num_sge, const struct ibv_sge *list)
{
    struct vb_batch *batch = qp_of(ibv)->batch;
    struct ri_send_wr *wr = last(batch);
    struct ri_sge *to;

    if (!wr)
        return;
    if (num_sge > batch->sges) {
        batch->error = EINVAL;
        return;
    }
    to = &batch->sge[(size_t)(batch->count - 1) * batch->sges];
    memcpy(to, list, num_sge * sizeof(*to));
    wr->sg_list = to;
    wr->num_sge = (uint32_t)num_sge;
}

static void wr_set_sge(struct ibv_qp_ex *ibv, uint32_t lkey, uint64_t addr, uint32_t length)
{
    struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

    wr_set_sge_list(ibv, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ibv, size_t num_buf,
                                    const struct ibv_data_buf *buffers)
{
    struct vb_qp *qp = qp_of(ibv);
    struct vb_batch *batch = qp->batch;
    struct ri_send_wr *wr = last(batch);
    struct ri_sge *to;

    if (!wr)
        return;
    to = &batch->sge[(size_t)(batch->count - 1) * batch->sges];
    /* a second setter would take a second slot, which is not counted */
    if (!qp->inlined || batch->inlined[batch->count - 1] ||
        !vb_inline_copy(qp, batch->inline_count, buffers, num_buf, to)) {
        batch->error = EINVAL;
        return;
    }
    batch->inline_count++;
    batch->inlined[batch->count - 1] = true;
    wr->sg_list = to;
    wr->num_sge = to->length ? 1 : 0;
}

static void wr_set_inline_data(struct ibv_qp_ex *ibv, void *addr, size_t length)
{
    struct ibv_data_buf buffer = { .addr = addr, .length = length };

    wr_set_inline_data_list(ibv, 1, &buffer);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ibv, struct ibv_ah *ah, uint32_t remote_qpn,
                           uint32_t remote_qkey)
{
    struct vb_batch *batch = qp_of(ibv)->batch;
    struct ri_send_wr *wr = last(batch);

    if (!wr)
        return;
    if (!vb_ah_of(ah)->ual) {
        batch->error = EOPNOTSUPP;
        return;
    }
    wr->ud.ah = vb_ah_of(ah)->ual->ah;
    wr->ud.remote_qpn = remote_qpn;
    wr->ud.remote_qkey = remote_qkey;
}

/* --- life --- */

static void set_operations(struct ibv_qp_ex *ibv)
{
    ibv->wr_start = wr_start;
    ibv->wr_complete = wr_complete;
    ibv->wr_abort = wr_abort;
    ibv->wr_send = wr_send;
    ibv->wr_send_imm = wr_send_imm;
    ibv->wr_send_inv = wr_send_inv;
    ibv->wr_local_inv = wr_local_inv;
    ibv->wr_rdma_read = wr_rdma_read;
    ibv->wr_rdma_write = wr_rdma_write;
    ibv->wr_rdma_write_imm = wr_rdma_write_imm;
    ibv->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    ibv->wr_atomic_fetch_add = wr_atomic_fetch_add;
    ibv->wr_bind_mw = wr_bind_mw;
    ibv->wr_set_sge = wr_set_sge;
    ibv->wr_set_sge_list = wr_set_sge_list;
    ibv->wr_set_inline_data = wr_set_inline_data;
    ibv->wr_set_inline_data_list = wr_set_inline_data_list;
    ibv->wr_set_ud_addr = wr_set_ud_addr;
}

int vb_batch_open(struct vb_qp *qp, uint32_t requests, uint32_t sges)
{
    struct vb_batch *batch = calloc(1, sizeof(*batch));

    if (!batch)
        return ENOMEM;
    qp->batch = batch;
    batch->requests = requests;
    batch->sges = sges ? sges : 1;
    batch->wr = calloc(requests, sizeof(*batch->wr));
    batch->sge = calloc((size_t)requests * batch->sges, sizeof(*batch->sge));
    batch->bind = calloc(requests, sizeof(*batch->bind));
    batch->inlined = calloc(requests, sizeof(*batch->inlined));
    if (!batch->wr || !batch->sge || !batch->bind || !batch->inlined) {
        vb_batch_close(qp);
        return ENOMEM;
    }
    set_operations(&qp->ibv);
    return 0;
}
