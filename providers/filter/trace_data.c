/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posts, completions and arming, traced. A list that is posted makes a line for each request; the
 * time is that of the call, in the first of them. Calls of poll that take nothing, and passes over
 * a lane, make none.
 */
#include "trace.h"

#include "base/clock.h"

static uint64_t octets_of(const struct ri_sge *sge, uint32_t count)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += sge[i].length;
    return sum;
}

/* ---- requests ---- */

static bool is_rdma(uint16_t opcode)
{
    return opcode == RI_WR_RDMA_WRITE || opcode == RI_WR_RDMA_WRITE_IMMEDIATE ||
           opcode == RI_WR_RDMA_READ || opcode == RI_WR_RDMA_READ_INVALIDATE;
}

static bool is_atomic(uint16_t opcode)
{
    return opcode == RI_WR_ATOMIC_FETCH_ADD || opcode == RI_WR_ATOMIC_COMPARE_SWAP;
}

static void describe_rc(struct trace_line *line, const struct ri_send_wr *wr)
{
    if (is_rdma(wr->opcode)) {
        trace_hex(line, "remote", wr->rdma.remote_addr);
        trace_hex(line, "rkey", wr->rdma.rkey);
    } else if (is_atomic(wr->opcode)) {
        trace_hex(line, "remote", wr->atomic.remote_addr);
        trace_hex(line, "rkey", wr->atomic.rkey);
    } else if (wr->opcode == RI_WR_BIND_WINDOW) {
        if (wr->bind.mw)
            trace_object(line, PASS_KIND_MW, PASS_OF(mw, wr->bind.mw)->number);
        if (wr->bind.mr)
            trace_object(line, PASS_KIND_MR, PASS_OF(mr, wr->bind.mr)->number);
        trace_number(line, "length", wr->bind.length);
        trace_bits(line, "access", wr->bind.access, words_access);
    } else if (wr->opcode == RI_WR_FAST_REGISTER && wr->fast_register.mr) {
        trace_object(line, PASS_KIND_MR, PASS_OF(mr, wr->fast_register.mr)->number);
        trace_number(line, "length", wr->fast_register.length);
    }
    if (wr->opcode == RI_WR_SEND_INVALIDATE || wr->opcode == RI_WR_LOCAL_INVALIDATE)
        trace_hex(line, "invalidate", wr->invalidate_stag);
    if (wr->opcode == RI_WR_SEND_IMMEDIATE || wr->opcode == RI_WR_RDMA_WRITE_IMMEDIATE)
        trace_hex(line, "immediate", wr->immediate);
}

/* posted: else its list may be shorter than it says, and is not looked at. */
static void describe_send(struct trace_line *line, const struct pass_qp *qp,
                          const struct ri_send_wr *wr, bool posted)
{
    trace_text(line, "request", word_of_wr(wr->opcode));
    trace_hex(line, "cookie", wr->cookie);
    if (wr->opcode != RI_WR_BIND_WINDOW && wr->opcode != RI_WR_LOCAL_INVALIDATE &&
        wr->opcode != RI_WR_FAST_REGISTER) {
        if (posted)
            trace_number(line, "octets", octets_of(wr->sg_list, wr->num_sge));
        trace_number(line, "sge", wr->num_sge);
    }
    trace_bits(line, "flags", wr->flags, words_wr_flags);
    if (!qp->datagram)
        describe_rc(line, wr);
    else if (wr->ud.ah)
        trace_object(line, PASS_KIND_AH, PASS_OF(ah, wr->ud.ah)->number);
}

/* Calls of the provider below take a list of its own: objects are others there. */
static enum ri_status pass_one_send(struct pass_qp *qp, const struct ri_send_wr *wr)
{
    struct ri_send_wr below, *bad;

    pass_send_wr(qp, wr, &below);
    return ri_qp_ops(qp->below)->post_send(qp->below, &below, &bad);
}

enum ri_status trace_post_send(struct ri_qp *ri, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    struct pass_qp *qp = PASS_OF(qp, ri);
    enum ri_status status = RI_OK;

    for (; wr; wr = wr->next) {
        struct trace_line line;
        uint64_t ns;

        trace_begin(&line, trace_rnic_of(qp->rnic), "post_send", PASS_KIND_QP, qp->number);
        status = pass_one_send(qp, wr);
        ns = clock_now() - line.began;
        describe_send(&line, qp, wr, status == RI_OK);
        trace_end_timed(&line, status, ns);
        if (status == RI_OK)
            continue;
        *bad = wr;
        break;
    }
    return status;
}

static void describe_recv(struct trace_line *line, const struct ri_recv_wr *wr, bool posted)
{
    trace_hex(line, "cookie", wr->cookie);
    if (posted)
        trace_number(line, "octets", octets_of(wr->sg_list, wr->num_sge));
    trace_number(line, "sge", wr->num_sge);
}

/* Receives name no object: the list is passed as it is. */
static enum ri_status describe_list(struct trace_line *line, const struct ri_recv_wr *wr,
                                    enum ri_status status, const struct ri_recv_wr *bad)
{
    uint64_t ns = clock_now() - line->began;
    size_t head = line->length;

    for (; wr; wr = wr->next) {
        enum ri_status its = status != RI_OK && wr == bad ? status : RI_OK;

        line->length = head;
        describe_recv(line, wr, its == RI_OK);
        trace_end_timed(line, its, ns);
        if (its != RI_OK)
            break;
        ns = 0;
    }
    return status;
}

enum ri_status trace_post_recv(struct ri_qp *ri, struct ri_recv_wr *wr, struct ri_recv_wr **bad)
{
    struct pass_qp *qp = PASS_OF(qp, ri);
    struct trace_line line;
    enum ri_status status;

    trace_begin(&line, trace_rnic_of(qp->rnic), "post_recv", PASS_KIND_QP, qp->number);
    status = ri_qp_ops(qp->below)->post_recv(qp->below, wr, bad);
    return describe_list(&line, wr, status, status == RI_OK ? NULL : *bad);
}

enum ri_status trace_post_srq_recv(struct ri_srq *ri, struct ri_recv_wr *wr,
                                   struct ri_recv_wr **bad)
{
    struct pass_srq *srq = PASS_OF(srq, ri);
    struct trace_line line;
    enum ri_status status;

    trace_begin(&line, trace_rnic_of(srq->rnic), "post_srq_recv", PASS_KIND_SRQ, srq->number);
    status = srq->below->ops->post_srq_recv(srq->below, wr, bad);
    return describe_list(&line, wr, status, status == RI_OK ? NULL : *bad);
}

/* ---- completions ---- */

static void write_completion(const struct pass_cq *cq, const struct ri_wc *wc)
{
    struct trace_rnic *rnic = trace_rnic_of(cq->rnic);
    struct trace_line line;

    trace_begin(&line, rnic, "completion", PASS_KIND_QP,
                trace_number_of(rnic, PASS_KIND_QP, wc->context));
    trace_text(&line, "of", word_of_wc(wc->opcode));
    trace_hex(&line, "cookie", wc->cookie);
    trace_number(&line, "octets", wc->byte_len);
    trace_object(&line, PASS_KIND_CQ, cq->number);
    trace_bits(&line, "flags", wc->flags, words_wc_flags);
    if (wc->flags & RI_WC_WITH_IMMEDIATE)
        trace_hex(&line, "immediate", wc->immediate);
    else if (wc->flags & RI_WC_WITH_INVALIDATE)
        trace_hex(&line, "invalidated", wc->invalidated_stag);
    if (wc->status != RI_WC_SUCCESS && wc->vendor_error)
        trace_hex(&line, "vendor_error", wc->vendor_error);
    trace_end_event(&line, word_of_wc_status(wc->status));
}

uint32_t trace_poll(struct ri_cq *ri, uint32_t count, struct ri_wc *wc)
{
    const struct pass_cq *cq = PASS_OF(cq, ri);
    uint32_t taken = cq->below->ops->poll(cq->below, count, wc);

    for (uint32_t i = 0; i < taken; i++)
        write_completion(cq, &wc[i]);
    return taken;
}

enum ri_status trace_arm(struct ri_cq *ri, enum ri_arm kind, uint32_t count)
{
    const struct pass_cq *cq = PASS_OF(cq, ri);
    struct trace_line line;

    trace_begin(&line, trace_rnic_of(cq->rnic), "arm", PASS_KIND_CQ, cq->number);
    trace_text(&line, "kind", word_of_arm(kind));
    if (kind == RI_ARM_NTH)
        trace_number(&line, "count", count);
    return trace_end(&line, cq->below->ops->arm(cq->below, kind, count));
}
