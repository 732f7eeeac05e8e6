/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Extended CQs: the program reads a completion member by member, directly from the provider's
 * completion. [data]
 */
#include "ibverbs_private.h"

#include "base/clock.h"

#include <endian.h>

static inline struct vb_cq *cq_of(struct ibv_cq_ex *cq)
{
    return (struct vb_cq *)cq; /* its first member */
}

static int next(struct vb_cq *cq)
{
    if (!ual_cq_poll(cq->ual, 1, &cq->current))
        return ENOENT;
    cq->ibv.wr_id = cq->current.cookie;
    cq->ibv.status = vb_wc_status(&cq->current);
    if (unlikely(ual_memory_completion(&cq->current)))
        ual_memory_of(cq->ual->device, &cq->current);
    return 0;
}

static int start_poll(struct ibv_cq_ex *ibv, struct ibv_poll_cq_attr *attr)
{
    struct vb_cq *cq = cq_of(ibv);

    if (attr->comp_mask)
        return EINVAL;
    if (!next(cq))
        return 0;
    ual_cq_run(cq->ual);
    return next(cq);
}

static int next_poll(struct ibv_cq_ex *ibv)
{
    return next(cq_of(ibv));
}

/* A provider tells no time: a completion's is that of the poll that found it. */
static int stamped(struct vb_cq *cq, int found)
{
    if (found == 0) {
        cq->polled_at = clock_now();
        cq->polled_at_wall = clock_wall();
    }
    return found;
}

static int start_poll_stamped(struct ibv_cq_ex *ibv, struct ibv_poll_cq_attr *attr)
{
    return stamped(cq_of(ibv), start_poll(ibv, attr));
}

static int next_poll_stamped(struct ibv_cq_ex *ibv)
{
    return stamped(cq_of(ibv), next_poll(ibv));
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ibv)
{
    return cq_of(ibv)->polled_at;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ibv)
{
    return cq_of(ibv)->polled_at_wall;
}

static void end_poll(struct ibv_cq_ex *ibv)
{
    (void)ibv;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ibv)
{
    return vb_wc_opcode(&cq_of(ibv)->current);
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ibv)
{
    return cq_of(ibv)->current.vendor_error;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ibv)
{
    return cq_of(ibv)->current.byte_len;
}

/* After a Send with Invalidate this is the STag, not converted. */
static __be32 read_imm_data(struct ibv_cq_ex *ibv)
{
    const struct ri_wc *wc = &cq_of(ibv)->current;

    return wc->flags & RI_WC_WITH_IMMEDIATE ? htobe32(wc->immediate) : wc->invalidated_stag;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ibv)
{
    return vb_qp_number_of((ual_handle)cq_of(ibv)->current.context);
}

static uint32_t read_src_qp(struct ibv_cq_ex *ibv)
{
    return cq_of(ibv)->current.source.qpn;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ibv)
{
    return vb_wc_flags(&cq_of(ibv)->current);
}

static uint32_t read_slid(struct ibv_cq_ex *ibv)
{
    return cq_of(ibv)->current.source.lid;
}

static uint8_t read_sl(struct ibv_cq_ex *ibv)
{
    return cq_of(ibv)->current.source.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ibv)
{
    return cq_of(ibv)->current.source.path_bits;
}

/* vb_create_cq_ex refuses the fields whose functions are not set here. */
void vb_cq_extended(struct ibv_cq_ex *cq)
{
    cq->start_poll = start_poll;
    cq->next_poll = next_poll;
    cq->end_poll = end_poll;
    cq->read_opcode = read_opcode;
    cq->read_vendor_err = read_vendor_err;
    cq->read_byte_len = read_byte_len;
    cq->read_imm_data = read_imm_data;
    cq->read_qp_num = read_qp_num;
    cq->read_src_qp = read_src_qp;
    cq->read_wc_flags = read_wc_flags;
    cq->read_slid = read_slid;
    cq->read_sl = read_sl;
    cq->read_dlid_path_bits = read_dlid_path_bits;
    cq->read_completion_ts = read_completion_ts;
    cq->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

void vb_cq_stamped(struct ibv_cq_ex *cq)
{
    cq->start_poll = start_poll_stamped;
    cq->next_poll = next_poll_stamped;
}
