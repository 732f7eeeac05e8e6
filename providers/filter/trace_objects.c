/* SPDX-License-Identifier: BSD-3-Clause */
/* The RNIC, completion queues, queue pairs and shared receive queues, traced. */
#include "trace.h"

/* The names of lines are those of the operations. */
#define BEGIN(line, object_, kind_, verb) \
    trace_begin(&(line), trace_rnic_of((object_)->rnic), verb, kind_, (object_)->number)

/* ---- the RNIC ---- */

/* The line is written before: the trace ends with the RNIC. */
enum ri_status trace_close(struct ri_rnic *ri, bool force)
{
    struct trace_rnic *rnic = trace_rnic_of(PASS_OF(rnic, ri));
    struct trace_line line;

    trace_begin(&line, rnic, "close", PASS_KIND_RNIC, 0);
    trace_number(&line, "force", force);
    trace_end_event(&line, "begins");
    return pass_close(ri, force);
}

enum ri_status trace_query(struct ri_rnic *ri, struct ri_rnic_attr *attr)
{
    struct trace_line line;
    enum ri_status status;

    trace_begin(&line, trace_rnic_of(PASS_OF(rnic, ri)), "query", PASS_KIND_RNIC, 0);
    status = pass_query(ri, attr);
    if (status == RI_OK) {
        trace_hex(&line, "features", attr->features);
        trace_number(&line, "max_qp", attr->max_qp);
        trace_number(&line, "max_cqe", attr->max_cqe);
        trace_number(&line, "ports", attr->ports);
        trace_number(&line, "lanes", attr->lanes);
    }
    return trace_end(&line, status);
}

enum ri_status trace_query_port(struct ri_rnic *ri, struct ri_port_attr *attr)
{
    struct trace_line line;
    enum ri_status status;

    trace_begin(&line, trace_rnic_of(PASS_OF(rnic, ri)), "query_port", PASS_KIND_RNIC, 0);
    status = pass_query_port(ri, attr);
    trace_number(&line, "port", attr->port);
    if (status == RI_OK) {
        trace_number(&line, "online", attr->online);
        trace_number(&line, "mtu", attr->mtu);
        trace_text(&line, "name", attr->name);
    }
    return trace_end(&line, status);
}

enum ri_status trace_query_gids(struct ri_rnic *ri, uint32_t port, struct ri_gid *gids,
                                uint32_t *count)
{
    struct trace_line line;
    enum ri_status status;

    trace_begin(&line, trace_rnic_of(PASS_OF(rnic, ri)), "query_gids", PASS_KIND_RNIC, 0);
    trace_number(&line, "port", port);
    trace_number(&line, "room", *count);
    status = pass_query_gids(ri, port, gids, count);
    if (status == RI_OK)
        trace_number(&line, "places", *count);
    return trace_end(&line, status);
}

enum ri_status trace_lane_open(struct ri_rnic *ri, uint32_t index, void *context,
                               struct ri_lane **lane)
{
    struct trace_line line;
    enum ri_status status;

    trace_begin(&line, trace_rnic_of(PASS_OF(rnic, ri)), "lane_open", PASS_KIND_RNIC, 0);
    trace_number(&line, "index", index);
    status = pass_lane_open(ri, index, context, lane);
    if (status == RI_OK)
        trace_object(&line, PASS_KIND_LANE, PASS_OF(lane, *lane)->number);
    return trace_end(&line, status);
}

/* ---- protection domains ---- */

enum ri_status trace_pd_create(struct ri_rnic *ri, void *context, struct ri_pd **pd)
{
    struct trace_line line;
    enum ri_status status;

    trace_begin(&line, trace_rnic_of(PASS_OF(rnic, ri)), "pd_create", PASS_KIND_RNIC, 0);
    status = pass_pd_create(ri, context, pd);
    if (status == RI_OK)
        trace_object(&line, PASS_KIND_PD, PASS_OF(pd, *pd)->number);
    return trace_end(&line, status);
}

enum ri_status trace_pd_destroy(struct ri_pd *pd)
{
    struct trace_line line;

    BEGIN(line, PASS_OF(pd, pd), PASS_KIND_PD, "pd_destroy");
    return trace_end(&line, pass_pd_destroy(pd));
}

/* ---- CQs ---- */

enum ri_status trace_cq_create(struct ri_rnic *ri, struct ri_cq_attr *attr, struct ri_cq **cq)
{
    struct trace_line line;
    enum ri_status status;

    trace_begin(&line, trace_rnic_of(PASS_OF(rnic, ri)), "cq_create", PASS_KIND_RNIC, 0);
    trace_number(&line, "depth", attr->depth);
    status = pass_cq_create(ri, attr, cq);
    if (status == RI_OK) {
        trace_number(&line, "given", attr->depth);
        trace_object(&line, PASS_KIND_CQ, PASS_OF(cq, *cq)->number);
    }
    return trace_end(&line, status);
}

enum ri_status trace_cq_resize(struct ri_cq *cq, uint32_t *depth)
{
    struct trace_line line;
    enum ri_status status;

    BEGIN(line, PASS_OF(cq, cq), PASS_KIND_CQ, "cq_resize");
    trace_number(&line, "depth", *depth);
    status = pass_cq_resize(cq, depth);
    if (status == RI_OK)
        trace_number(&line, "given", *depth);
    return trace_end(&line, status);
}

enum ri_status trace_cq_destroy(struct ri_cq *cq)
{
    struct trace_line line;

    BEGIN(line, PASS_OF(cq, cq), PASS_KIND_CQ, "cq_destroy");
    return trace_end(&line, pass_cq_destroy(cq));
}

/* ---- QPs ---- */

enum ri_status trace_qp_create(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **qp)
{
    struct pass_pd *of = PASS_OF(pd, pd);
    struct trace_line line;
    enum ri_status status;

    BEGIN(line, of, PASS_KIND_PD, "qp_create");
    trace_text(&line, "type", word_of_qp_type(attr->type));
    trace_number(&line, "send_wr", attr->max_send_wr);
    trace_number(&line, "recv_wr", attr->max_recv_wr);
    trace_number(&line, "ird", attr->ird);
    trace_number(&line, "ord", attr->ord);
    trace_bits(&line, "flags", attr->flags, words_qp_flags);
    trace_number(&line, "send_cq", PASS_OF(cq, attr->send_cq)->number);
    trace_number(&line, "recv_cq", PASS_OF(cq, attr->recv_cq)->number);
    if (attr->srq)
        trace_object(&line, PASS_KIND_SRQ, PASS_OF(srq, attr->srq)->number);
    status = pass_qp_create(pd, attr, qp);
    if (status == RI_OK) {
        uint64_t number = PASS_OF(qp, *qp)->number;

        trace_remember(trace_rnic_of(of->rnic), PASS_KIND_QP, attr->context, number);
        trace_object(&line, PASS_KIND_QP, number);
    }
    return trace_end(&line, status);
}

/* What connects a QP by numbers: those of the mask. */
static void put_numbers(struct trace_line *line, const struct ri_qp_modify *modify)
{
    const struct {
        uint32_t bit;
        const char *name;
        uint64_t value;
    } numbers[] = {
        { RI_QPM_IRD, "ird", modify->ird },
        { RI_QPM_ORD, "ord", modify->ord },
        { RI_QPM_PORT, "port", modify->port },
        { RI_QPM_PATH_MTU, "path_mtu", modify->path_mtu },
        { RI_QPM_DESTINATION_QPN, "destination_qpn", modify->destination_qpn },
        { RI_QPM_RECEIVE_PSN, "receive_psn", modify->receive_psn },
        { RI_QPM_SEND_PSN, "send_psn", modify->send_psn },
        { RI_QPM_TIMEOUT, "timeout", modify->timeout },
        { RI_QPM_RETRY_COUNT, "retry_count", modify->retry_count },
        { RI_QPM_RNR_RETRY | RI_QPM_RNR, "rnr_retry", modify->rnr_retry },
        { RI_QPM_RNR_TIMER | RI_QPM_RNR, "rnr_timer", modify->rnr_timer },
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (modify->mask & numbers[i].bit)
            trace_number(line, numbers[i].name, numbers[i].value);
    if (modify->mask & RI_QPM_PATH)
        trace_path(line, modify->path);
}

static const char *wire_of(const struct ri_llp_handover *handover)
{
    if (handover->local)
        return "local";
    return handover->stream_ops ? "stream" : "tcp";
}

enum ri_status trace_qp_modify(struct ri_qp *qp, const struct ri_qp_modify *modify)
{
    struct trace_line line;

    BEGIN(line, PASS_OF(qp, qp), PASS_KIND_QP, "qp_modify");
    trace_bits(&line, "mask", modify->mask, words_qp_modify);
    if (modify->mask & RI_QPM_STATE)
        trace_text(&line, "state", word_of_qp_state(modify->state));
    put_numbers(&line, modify);
    if (modify->mask & RI_QPM_HANDOVER) {
        trace_text(&line, "role", modify->handover->initiator ? "initiator" : "responder");
        trace_text(&line, "wire", wire_of(modify->handover));
        trace_number(&line, "crc", modify->handover->crc);
        trace_number(&line, "mpa", modify->handover->mpa_revision);
        trace_number(&line, "agreed_ird", modify->handover->ird);
        trace_number(&line, "agreed_ord", modify->handover->ord);
    }
    return trace_end(&line, pass_qp_modify(qp, modify));
}

enum ri_status trace_qp_query(struct ri_qp *qp, struct ri_qp_info *info)
{
    struct trace_line line;
    enum ri_status status;

    BEGIN(line, PASS_OF(qp, qp), PASS_KIND_QP, "qp_query");
    status = pass_qp_query(qp, info);
    if (status == RI_OK) {
        trace_text(&line, "state", word_of_qp_state(info->state));
        trace_number(&line, "qpn", info->qpn);
        if (info->wire)
            trace_text(&line, "wire", info->wire);
        if (info->way)
            trace_text(&line, "way", info->way);
    }
    return trace_end(&line, status);
}

enum ri_status trace_qp_destroy(struct ri_qp *qp)
{
    struct trace_rnic *rnic = trace_rnic_of(PASS_OF(qp, qp)->rnic);
    const void *context = qp->context;
    struct trace_line line;
    enum ri_status status;

    BEGIN(line, PASS_OF(qp, qp), PASS_KIND_QP, "qp_destroy");
    status = pass_qp_destroy(qp);
    if (status == RI_OK)
        trace_forget(rnic, PASS_KIND_QP, context, line.number);
    return trace_end(&line, status);
}

/* ---- SRQs ---- */

enum ri_status trace_srq_create(struct ri_pd *pd, struct ri_srq_attr *attr, struct ri_srq **srq)
{
    struct pass_pd *of = PASS_OF(pd, pd);
    struct trace_line line;
    enum ri_status status;

    BEGIN(line, of, PASS_KIND_PD, "srq_create");
    trace_number(&line, "max_wr", attr->max_wr);
    trace_number(&line, "max_sge", attr->max_sge);
    status = pass_srq_create(pd, attr, srq);
    if (status == RI_OK) {
        uint64_t number = PASS_OF(srq, *srq)->number;

        trace_remember(trace_rnic_of(of->rnic), PASS_KIND_SRQ, attr->context, number);
        trace_number(&line, "given", attr->max_wr);
        trace_object(&line, PASS_KIND_SRQ, number);
    }
    return trace_end(&line, status);
}

enum ri_status trace_srq_modify(struct ri_srq *srq, uint32_t mask, const struct ri_srq_attr *attr)
{
    struct trace_line line;

    BEGIN(line, PASS_OF(srq, srq), PASS_KIND_SRQ, "srq_modify");
    if (mask & RI_SRQM_MAX_WR)
        trace_number(&line, "max_wr", attr->max_wr);
    if (mask & RI_SRQM_LIMIT)
        trace_number(&line, "limit", attr->limit);
    return trace_end(&line, pass_srq_modify(srq, mask, attr));
}

enum ri_status trace_srq_query(struct ri_srq *srq, struct ri_srq_attr *attr)
{
    struct trace_line line;
    enum ri_status status;

    BEGIN(line, PASS_OF(srq, srq), PASS_KIND_SRQ, "srq_query");
    status = pass_srq_query(srq, attr);
    if (status == RI_OK) {
        trace_number(&line, "max_wr", attr->max_wr);
        trace_number(&line, "limit", attr->limit);
    }
    return trace_end(&line, status);
}

enum ri_status trace_srq_destroy(struct ri_srq *srq)
{
    struct trace_rnic *rnic = trace_rnic_of(PASS_OF(srq, srq)->rnic);
    const void *context = srq->context;
    struct trace_line line;
    enum ri_status status;

    BEGIN(line, PASS_OF(srq, srq), PASS_KIND_SRQ, "srq_destroy");
    status = pass_srq_destroy(srq);
    if (status == RI_OK)
        trace_forget(rnic, PASS_KIND_SRQ, context, line.number);
    return trace_end(&line, status);
}
