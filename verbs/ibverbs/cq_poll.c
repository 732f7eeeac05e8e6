/* SPDX-License-Identifier: BSD-3-Clause
 * Polling: completions of the provider as struct ibv_wc; arming. [data] */
#include "ibverbs_private.h"

#include <endian.h>

#define GROUP 16

static const uint8_t statuses[] = {
    [RI_WC_SUCCESS] = IBV_WC_SUCCESS,
    [RI_WC_LOCAL_LENGTH] = IBV_WC_LOC_LEN_ERR,
    [RI_WC_LOCAL_QP] = IBV_WC_LOC_QP_OP_ERR,
    [RI_WC_LOCAL_PROTECTION] = IBV_WC_LOC_PROT_ERR,
    [RI_WC_FLUSHED] = IBV_WC_WR_FLUSH_ERR,
    [RI_WC_BIND] = IBV_WC_MW_BIND_ERR,
    [RI_WC_BAD_RESPONSE] = IBV_WC_BAD_RESP_ERR,
    [RI_WC_REMOTE_ACCESS] = IBV_WC_REM_ACCESS_ERR,
    [RI_WC_REMOTE_OPERATION] = IBV_WC_REM_OP_ERR,
    [RI_WC_REMOTE_INVALID_REQUEST] = IBV_WC_REM_INV_REQ_ERR,
    [RI_WC_TRANSPORT] = IBV_WC_RETRY_EXC_ERR,
    [RI_WC_RNR] = IBV_WC_RNR_RETRY_EXC_ERR,
    [RI_WC_MM_OPERATION] = IBV_WC_LOC_ACCESS_ERR,
    [RI_WC_GENERAL] = IBV_WC_GENERAL_ERR,
};

/* The short conversion takes a completion with status success, no flag of RARE_FLAGS, and an opcode
 * that is not marked RARE: it has only opcode and length. */
#define RARE_FLAGS (RI_WC_WITH_IMMEDIATE | RI_WC_WITH_INVALIDATE | RI_WC_GRH)
#define RARE       0x8000u

/* Indexed by an octet, so no index is out of bounds. */
static const uint16_t opcodes[UINT8_MAX + 1] = {
    [RI_WC_SEND] = IBV_WC_SEND,
    [RI_WC_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
    [RI_WC_RDMA_READ] = IBV_WC_RDMA_READ,
    [RI_WC_FETCH_ADD] = IBV_WC_FETCH_ADD,
    [RI_WC_COMPARE_SWAP] = IBV_WC_COMP_SWAP,
    [RI_WC_BIND_WINDOW] = IBV_WC_BIND_MW | RARE,
    [RI_WC_LOCAL_INVALIDATE] = IBV_WC_LOCAL_INV | RARE,
    [RI_WC_FAST_REGISTER] = IBV_WC_DRIVER1 | RARE,
    [RI_WC_RECV] = IBV_WC_RECV,
    [RI_WC_RECV_IMMEDIATE] = IBV_WC_RECV_RDMA_WITH_IMM,
    [RI_WC_RECV_DATAGRAM] = IBV_WC_RECV | RARE,
};

/* Indexed by slot of the QP. Only pages in use take memory. */
static atomic_uchar failed[1u << UAL_SLOT_BITS];

/* In place of a status: the first failed request of the connection was told. An event may be behind
 * the completions that it explains, and then says nothing of later ones. */
#define TOLD UINT8_MAX

void vb_qp_failed(struct vb_qp *qp, enum ibv_wc_status why)
{
    atomic_uchar *place = &failed[vb_slot_of(qp->ual.object.handle)];
    unsigned char none = IBV_WC_SUCCESS;

    if (why == IBV_WC_SUCCESS)
        atomic_store(place, IBV_WC_SUCCESS);
    else
        atomic_compare_exchange_strong(place, &none, (unsigned char)why);
}

/* The first failed send request reports why the connection has failed; those behind it are
 * flushed. */
static bool tells_failure(const struct ri_wc *wc, enum ibv_wc_status *status)
{
    atomic_uchar *place = &failed[vb_slot_of((ual_handle)wc->context)];
    unsigned char why = atomic_load_explicit(place, memory_order_relaxed);

    if (why == TOLD || (!why && wc->status != RI_WC_FLUSHED && wc->status != RI_WC_TRANSPORT))
        return false;
    why = atomic_exchange(place, TOLD);
    *status = (enum ibv_wc_status)why;
    return why && why != TOLD && wc->status == RI_WC_FLUSHED;
}

static inline enum ibv_wc_status status_of(const struct ri_wc *wc)
{
    enum ibv_wc_status why;

    if (unlikely(wc->status != RI_WC_SUCCESS) && wc->opcode < RI_WC_RECV && tells_failure(wc, &why))
        return why;
    return likely(wc->status < ARRAY_SIZE(statuses)) ? (enum ibv_wc_status)statuses[wc->status]
                                                     : IBV_WC_GENERAL_ERR;
}

static inline enum ibv_wc_opcode opcode_of(const struct ri_wc *wc)
{
    return (enum ibv_wc_opcode)(opcodes[wc->opcode] & ~RARE);
}

static inline unsigned int flags_of(const struct ri_wc *wc)
{
    unsigned int flags = 0;

    if (wc->flags & RI_WC_WITH_IMMEDIATE)
        flags |= IBV_WC_WITH_IMM;
    if ((wc->flags & RI_WC_WITH_INVALIDATE) && wc->opcode >= RI_WC_RECV)
        flags |= IBV_WC_WITH_INV;
    if (wc->flags & RI_WC_GRH)
        flags |= IBV_WC_GRH;
    return flags;
}

enum ibv_wc_status vb_wc_status(const struct ri_wc *wc)
{
    return status_of(wc);
}

enum ibv_wc_opcode vb_wc_opcode(const struct ri_wc *wc)
{
    return opcode_of(wc);
}

unsigned int vb_wc_flags(const struct ri_wc *wc)
{
    return flags_of(wc);
}

static void convert_datagram(const struct ri_wc *from, struct ibv_wc *to)
{
    to->src_qp = from->source.qpn;
    to->slid = from->source.lid;
    to->pkey_index = from->source.pkey_index;
    to->sl = from->source.sl;
    to->dlid_path_bits = from->source.path_bits;
}

static __attribute__((noinline)) void convert_rare(struct ual_device *device,
                                                   const struct ri_wc *from, struct ibv_wc *to)
{
    to->status = status_of(from);
    to->vendor_err = from->vendor_error;
    to->wc_flags = flags_of(from);
    to->imm_data = to->wc_flags & IBV_WC_WITH_IMM ? htobe32(from->immediate) : from->immediate;
    if (from->opcode == RI_WC_RECV_DATAGRAM)
        convert_datagram(from, to);
    if (ual_memory_completion(from))
        ual_memory_of(device, from);
}

static inline void convert(struct ual_device *device, const struct ri_wc *from, struct ibv_wc *to)
{
    uint32_t opcode = opcodes[from->opcode];

    *to = (struct ibv_wc){
        .wr_id = from->cookie,
        .opcode = (enum ibv_wc_opcode)(opcode & ~RARE),
        .byte_len = from->byte_len,
        .qp_num = vb_qp_number_of((ual_handle)from->context),
    };
    if (unlikely(from->status | (from->flags & RARE_FLAGS) | (opcode & RARE)))
        convert_rare(device, from, to);
}

/* If the CQ is empty, run its lanes once and poll again. */
static inline uint32_t take(struct ual_cq *cq, uint32_t count, struct ri_wc *taken)
{
    uint32_t got = ual_cq_poll(cq, count, taken);

    if (likely(got))
        return got;
    ual_cq_run(cq);
    return ual_cq_poll(cq, count, taken);
}

static __attribute__((noinline)) int poll_many(struct ual_cq *cq, int count, struct ibv_wc *wc)
{
    struct ri_wc taken[GROUP];
    int done = 0;

    while (done < count) {
        int room = count - done;
        uint32_t asked = room < GROUP ? (uint32_t)room : GROUP;
        uint32_t got = done ? ual_cq_poll(cq, asked, taken) : take(cq, asked, taken);

        for (uint32_t i = 0; i < got; i++)
            convert(cq->device, &taken[i], &wc[done++]);
        if (got < asked)
            break;
    }
    return done;
}

int vb_poll_cq(struct ibv_cq *ibv, int count, struct ibv_wc *wc)
{
    struct ual_cq *cq = vb_cq_of(ibv)->ual;
    struct ri_wc taken;

    if (unlikely(count != 1))
        return poll_many(cq, count, wc);
    if (!take(cq, 1, &taken))
        return 0;
    convert(cq->device, &taken, wc);
    return 1;
}

int vb_poll_cq_defined(struct ibv_cq *ibv, int count, struct ibv_wc *wc)
{
    int taken = vb_poll_cq(ibv, count, wc);

    if (taken > 0)
        sanitizer_defined(wc, (size_t)taken * sizeof(*wc));
    return taken;
}

#define ARMS_MOST 2u

/* Adds one arm for all completions, or takes one off. */
static void count_arm(struct vb_cq *cq, bool is_new)
{
    uint32_t arms = atomic_load(&cq->armed_for_all);

    while ((is_new ? arms < ARMS_MOST : arms > 0) &&
           !atomic_compare_exchange_weak(&cq->armed_for_all, &arms, is_new ? arms + 1 : arms - 1))
        ;
}

void vb_cq_fired(struct vb_cq *cq)
{
    count_arm(cq, false);
}

/* A CQ that is armed for all completions is not narrowed to solicited ones. The upcall of an
 * earlier arm may come after the next one was made, so it takes off one of two. If both were one
 * arm, all completions count once more: an event too many, and not one too few. */
int vb_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
    struct vb_cq *cq = vb_cq_of(ibv);

    if (!solicited_only)
        count_arm(cq, true);
    ual_cq_arm(cq->ual, atomic_load(&cq->armed_for_all) ? RI_ARM_NEXT : RI_ARM_SOLICITED);
    return 0;
}
