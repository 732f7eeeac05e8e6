/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects, wrapped and passed to the provider below. */
#include "pass.h"
#include "base/minmax.h"

#include <stdlib.h>

/* The wrapper of an object that is about to be made below. NULL: *status has the reason. */
static void *begin(struct pass_rnic *rnic, enum pass_verb verb, size_t size, enum ri_status *status)
{
    void *made;

    *status = pass_call(rnic, verb);
    if (*status != RI_OK)
        return NULL;
    made = calloc(1, size);
    if (!made)
        *status = RI_ERR_NO_RESOURCES;
    return made;
}

/* Ends a creation: the wrapper of a failed one goes. */
#define COMPLETE(made, kind, rnic_, ops_, context_, out) \
    do {                                                 \
        if (status != RI_OK) {                           \
            free(made);                                  \
            return status;                               \
        }                                                \
        (made)->rnic = (rnic_);                          \
        (made)->number = pass_number(rnic_, kind);       \
        (made)->base.ops = (ops_);                       \
        (made)->base.context = (context_);               \
        *(out) = &(made)->base;                          \
        return RI_OK;                                    \
    } while (0)

/* ---- the RNIC ---- */

enum ri_status pass_close(struct ri_rnic *ri, bool force)
{
    struct pass_rnic *rnic = PASS_OF(rnic, ri);
    enum ri_status status = rnic->ops->close(rnic->below, force);

    if (status == RI_ERR_BUSY || status == RI_ERR_AGAIN)
        return status;
    while (rnic->lanes) {
        struct pass_lane *lane = rnic->lanes;

        rnic->lanes = lane->next;
        free(lane);
    }
    rnic->filter->close(rnic);
    free(rnic);
    return status;
}

enum ri_status pass_query(struct ri_rnic *ri, struct ri_rnic_attr *attr)
{
    struct pass_rnic *rnic = PASS_OF(rnic, ri);
    enum ri_status status = rnic->ops->query(rnic->below, attr);

    if (status == RI_OK && rnic->filter->query)
        rnic->filter->query(rnic, attr);
    return status;
}

enum ri_status pass_query_port(struct ri_rnic *ri, struct ri_port_attr *attr)
{
    struct pass_rnic *rnic = PASS_OF(rnic, ri);

    return rnic->ops->query_port(rnic->below, attr);
}

enum ri_status pass_query_gids(struct ri_rnic *ri, uint32_t port, struct ri_gid *gids,
                               uint32_t *count)
{
    struct pass_rnic *rnic = PASS_OF(rnic, ri);

    return rnic->ops->query_gids(rnic->below, port, gids, count);
}

/* Lanes go with the RNIC, which keeps a list of them. */
enum ri_status pass_lane_open(struct ri_rnic *ri, uint32_t index, void *context,
                              struct ri_lane **lane)
{
    struct pass_rnic *rnic = PASS_OF(rnic, ri);
    struct pass_lane *made = calloc(1, sizeof(*made));
    enum ri_status status = made ? RI_OK : RI_ERR_NO_RESOURCES;

    if (status == RI_OK)
        status = rnic->ops->lane_open(rnic->below, index, context, &made->below);
    if (status == RI_OK) {
        made->next = rnic->lanes;
        rnic->lanes = made;
    }
    COMPLETE(made, PASS_KIND_LANE, rnic, rnic->own_user, context, lane);
}

enum ri_status pass_rnic_counters(struct ri_rnic *ri, const char **names, uint64_t *values,
                                  size_t *count)
{
    struct pass_rnic *rnic = PASS_OF(rnic, ri);

    return rnic->ops->rnic_counters(rnic->below, names, values, count);
}

enum ri_status pass_local_make(struct ri_rnic *ri, int socket, struct ri_local **local, int *fd,
                               const char **why)
{
    struct pass_rnic *rnic = PASS_OF(rnic, ri);

    return rnic->ops->local_make(rnic->below, socket, local, fd, why);
}

enum ri_status pass_local_take(struct ri_rnic *ri, int socket, int fd, struct ri_local **local,
                               const char **why)
{
    struct pass_rnic *rnic = PASS_OF(rnic, ri);

    return rnic->ops->local_take(rnic->below, socket, fd, local, why);
}

void pass_local_drop(struct ri_rnic *ri, struct ri_local *local)
{
    struct pass_rnic *rnic = PASS_OF(rnic, ri);

    rnic->ops->local_drop(rnic->below, local);
}

enum ri_status pass_counters_and(struct ri_rnic *rnic, const char *name, uint64_t value,
                                 const char **names, uint64_t *values, size_t *count)
{
    const size_t room = *count;
    enum ri_status status = pass_rnic_counters(rnic, names, values, count);

    if (status == RI_ERR_NOT_SUPPORTED) {
        *count = 0;
        status = RI_OK;
    }
    if (status != RI_OK)
        return status;
    if (*count < room) {
        names[*count] = name;
        values[*count] = value;
    }
    ++*count;
    return RI_OK;
}

/* ---- protection domains ---- */

enum ri_status pass_pd_create(struct ri_rnic *ri, void *context, struct ri_pd **pd)
{
    struct pass_rnic *rnic = PASS_OF(rnic, ri);
    enum ri_status status;
    struct pass_pd *made = begin(rnic, PASS_PD_CREATE, sizeof(*made), &status);

    if (made)
        status = rnic->ops->pd_create(rnic->below, context, &made->below);
    COMPLETE(made, PASS_KIND_PD, rnic, ri->ops, context, pd);
}

enum ri_status pass_pd_destroy(struct ri_pd *pd)
{
    struct pass_pd *old = PASS_OF(pd, pd);
    enum ri_status status = old->rnic->ops->pd_destroy(old->below);

    if (status == RI_OK)
        free(old);
    return status;
}

/* ---- CQs ---- */

enum ri_status pass_cq_create(struct ri_rnic *ri, struct ri_cq_attr *attr, struct ri_cq **cq)
{
    struct pass_rnic *rnic = PASS_OF(rnic, ri);
    enum ri_status status;
    struct pass_cq *made = begin(rnic, PASS_CQ_CREATE, rnic->filter->cq_size, &status);
    void *context = attr->context;

    if (made) {
        made->rnic = rnic;
        made->base = (struct ri_cq){ .ops = rnic->own_user, .context = context };
        attr->context = made;
        status = rnic->ops->cq_create(rnic->below, attr, &made->below);
        attr->context = context;
    }
    COMPLETE(made, PASS_KIND_CQ, rnic, rnic->own_user, context, cq);
}

enum ri_status pass_cq_resize(struct ri_cq *cq, uint32_t *depth)
{
    struct pass_cq *pass = PASS_OF(cq, cq);
    enum ri_status status = pass_call(pass->rnic, PASS_CQ_RESIZE);

    return status != RI_OK ? status : pass->rnic->ops->cq_resize(pass->below, depth);
}

enum ri_status pass_cq_destroy(struct ri_cq *cq)
{
    struct pass_cq *old = PASS_OF(cq, cq);
    enum ri_status status = old->rnic->ops->cq_destroy(old->below);

    if (status != RI_OK)
        return status;
    if (old->rnic->filter->cq_close)
        old->rnic->filter->cq_close(old);
    free(old);
    return RI_OK;
}

/* ---- QPs ---- */

/* Objects that attributes name. The caller's structure is changed for the call, and changed back:
 * what was given is written into it. */
struct named {
    struct ri_cq *send_cq, *recv_cq;
    struct ri_srq *srq;
    struct ri_lane *lane;
};

static struct named name_below(struct ri_qp_attr *attr)
{
    struct named named = { attr->send_cq, attr->recv_cq, attr->srq, attr->lane };

    attr->send_cq = PASS_OF(cq, named.send_cq)->below;
    attr->recv_cq = PASS_OF(cq, named.recv_cq)->below;
    attr->srq = named.srq ? PASS_OF(srq, named.srq)->below : NULL;
    attr->lane = named.lane ? PASS_OF(lane, named.lane)->below : NULL;
    return named;
}

static void name_above(struct ri_qp_attr *attr, const struct named *named)
{
    attr->send_cq = named->send_cq;
    attr->recv_cq = named->recv_cq;
    attr->srq = named->srq;
    attr->lane = named->lane;
}

static void describe(struct pass_qp *qp, const struct ri_qp_attr *attr, struct pass_rnic *rnic)
{
    qp->rnic = rnic;
    qp->base = (struct ri_qp){ .ops = rnic->own_user, .context = attr->context };
    qp->send_cq = PASS_OF(cq, attr->send_cq);
    qp->recv_cq = PASS_OF(cq, attr->recv_cq);
    qp->srq = attr->srq ? PASS_OF(srq, attr->srq) : NULL;
    qp->lane_context = attr->lane ? attr->lane->context : NULL;
    qp->datagram = attr->type == RI_QP_UD;
}

enum ri_status pass_qp_create(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **qp)
{
    struct pass_rnic *rnic = PASS_OF(pd, pd)->rnic;
    enum ri_status status;
    struct pass_qp *made = begin(rnic, PASS_QP_CREATE, rnic->filter->qp_size, &status);
    struct named named;

    if (!made)
        return status;
    describe(made, attr, rnic);
    status = rnic->filter->qp_open ? rnic->filter->qp_open(made, attr) : RI_OK;
    if (status != RI_OK)
        goto free_qp;
    named = name_below(attr);
    status = rnic->ops->qp_create(PASS_OF(pd, pd)->below, attr, &made->below);
    name_above(attr, &named);
    if (status != RI_OK)
        goto close_filter;
    made->max_sge = max_u32(max_u32(attr->max_send_sge, attr->max_read_sge), attr->max_write_sge);
    made->number = pass_number(rnic, PASS_KIND_QP);
    *qp = &made->base;
    return RI_OK;

close_filter:
    if (rnic->filter->qp_close)
        rnic->filter->qp_close(made);
free_qp:
    free(made);
    return status;
}

enum ri_status pass_qp_modify(struct ri_qp *qp, const struct ri_qp_modify *modify)
{
    struct pass_qp *pass = PASS_OF(qp, qp);
    enum ri_status status = pass_call(pass->rnic, PASS_QP_MODIFY);

    if (status == RI_OK)
        status = pass->rnic->ops->qp_modify(pass->below, modify);
    if (status == RI_OK && pass->rnic->filter->qp_modified)
        pass->rnic->filter->qp_modified(pass, modify);
    return status;
}

enum ri_status pass_qp_query(struct ri_qp *qp, struct ri_qp_info *info)
{
    struct pass_qp *pass = PASS_OF(qp, qp);

    return pass->rnic->ops->qp_query(pass->below, info);
}

enum ri_status pass_qp_destroy(struct ri_qp *qp)
{
    struct pass_qp *old = PASS_OF(qp, qp);
    enum ri_status status = old->rnic->ops->qp_destroy(old->below);

    if (status != RI_OK)
        return status;
    if (old->rnic->filter->qp_close)
        old->rnic->filter->qp_close(old);
    free(old);
    return RI_OK;
}

enum ri_status pass_qp_counters(struct ri_qp *qp, const char **names, uint64_t *values,
                                size_t *count)
{
    struct pass_qp *pass = PASS_OF(qp, qp);

    return pass->rnic->ops->qp_counters(pass->below, names, values, count);
}

/* ---- SRQs ---- */

enum ri_status pass_srq_create(struct ri_pd *pd, struct ri_srq_attr *attr, struct ri_srq **srq)
{
    struct pass_rnic *rnic = PASS_OF(pd, pd)->rnic;
    enum ri_status status;
    struct pass_srq *made = begin(rnic, PASS_SRQ_CREATE, rnic->filter->srq_size, &status);

    if (made) {
        made->rnic = rnic;
        status = rnic->filter->srq_open ? rnic->filter->srq_open(made) : RI_OK;
        if (status == RI_OK) {
            status = rnic->ops->srq_create(PASS_OF(pd, pd)->below, attr, &made->below);
            if (status != RI_OK && rnic->filter->srq_close)
                rnic->filter->srq_close(made);
        }
    }
    COMPLETE(made, PASS_KIND_SRQ, rnic, rnic->own_user, attr->context, srq);
}

enum ri_status pass_srq_modify(struct ri_srq *srq, uint32_t mask, const struct ri_srq_attr *attr)
{
    struct pass_srq *pass = PASS_OF(srq, srq);
    enum ri_status status = pass_call(pass->rnic, PASS_SRQ_MODIFY);

    return status != RI_OK ? status : pass->rnic->ops->srq_modify(pass->below, mask, attr);
}

enum ri_status pass_srq_query(struct ri_srq *srq, struct ri_srq_attr *attr)
{
    struct pass_srq *pass = PASS_OF(srq, srq);

    return pass->rnic->ops->srq_query(pass->below, attr);
}

enum ri_status pass_srq_destroy(struct ri_srq *srq)
{
    struct pass_srq *old = PASS_OF(srq, srq);
    enum ri_status status = old->rnic->ops->srq_destroy(old->below);

    if (status != RI_OK)
        return status;
    if (old->rnic->filter->srq_close)
        old->rnic->filter->srq_close(old);
    free(old);
    return RI_OK;
}

/* ---- memory ---- */

enum ri_status pass_mr_register(struct ri_pd *pd, const struct ri_mr_attr *attr,
                                struct ri_mr_keys *keys, struct ri_mr **mr)
{
    struct pass_rnic *rnic = PASS_OF(pd, pd)->rnic;
    enum ri_status status;
    struct pass_mr *made = begin(rnic, PASS_MR_REGISTER, sizeof(*made), &status);

    if (made)
        status = rnic->ops->mr_register(PASS_OF(pd, pd)->below, attr, keys, &made->below);
    COMPLETE(made, PASS_KIND_MR, rnic, rnic->base.ops, attr->context, mr);
}

enum ri_status pass_mr_reregister(struct ri_mr *mr, struct ri_pd *pd, const struct ri_mr_attr *attr,
                                  struct ri_mr_keys *keys)
{
    struct pass_mr *pass = PASS_OF(mr, mr);
    enum ri_status status = pass_call(pass->rnic, PASS_MR_REREGISTER);

    return status != RI_OK ? status
                           : pass->rnic->ops->mr_reregister(
                                 pass->below, pd ? PASS_OF(pd, pd)->below : NULL, attr, keys);
}

enum ri_status pass_mr_deregister(struct ri_mr *mr)
{
    struct pass_mr *old = PASS_OF(mr, mr);
    enum ri_status status = old->rnic->ops->mr_deregister(old->below);

    if (status == RI_OK)
        free(old);
    return status;
}

enum ri_status pass_mw_allocate(struct ri_pd *pd, bool narrow, void *context, uint32_t *stag,
                                struct ri_mw **mw)
{
    struct pass_rnic *rnic = PASS_OF(pd, pd)->rnic;
    enum ri_status status;
    struct pass_mw *made = begin(rnic, PASS_MW_ALLOCATE, sizeof(*made), &status);

    if (made)
        status = rnic->ops->mw_allocate(PASS_OF(pd, pd)->below, narrow, context, stag,
                                        &made->below);
    COMPLETE(made, PASS_KIND_MW, rnic, rnic->base.ops, context, mw);
}

enum ri_status pass_mw_free(struct ri_mw *mw)
{
    struct pass_mw *old = PASS_OF(mw, mw);
    enum ri_status status = old->rnic->ops->mw_free(old->below);

    if (status == RI_OK)
        free(old);
    return status;
}

/* ---- address handles ---- */

enum ri_status pass_ah_create(struct ri_pd *pd, const struct ri_ah_attr *attr, struct ri_ah **ah)
{
    struct pass_rnic *rnic = PASS_OF(pd, pd)->rnic;
    enum ri_status status;
    struct pass_ah *made = begin(rnic, PASS_AH_CREATE, sizeof(*made), &status);

    if (made)
        status = rnic->ops->ah_create(PASS_OF(pd, pd)->below, attr, &made->below);
    COMPLETE(made, PASS_KIND_AH, rnic, rnic->base.ops, attr->context, ah);
}

enum ri_status pass_ah_modify(struct ri_ah *ah, const struct ri_ah_attr *attr)
{
    struct pass_ah *pass = PASS_OF(ah, ah);
    enum ri_status status = pass_call(pass->rnic, PASS_AH_MODIFY);

    return status != RI_OK ? status : pass->rnic->ops->ah_modify(pass->below, attr);
}

enum ri_status pass_ah_destroy(struct ri_ah *ah)
{
    struct pass_ah *old = PASS_OF(ah, ah);
    enum ri_status status = old->rnic->ops->ah_destroy(old->below);

    if (status == RI_OK)
        free(old);
    return status;
}

/* ---- groups ---- */

enum ri_status pass_multicast_attach(struct ri_qp *qp, const uint8_t gid[16], uint16_t lid)
{
    struct pass_qp *pass = PASS_OF(qp, qp);
    enum ri_status status = pass_call(pass->rnic, PASS_MULTICAST_ATTACH);

    return status != RI_OK ? status : pass->rnic->ops->multicast_attach(pass->below, gid, lid);
}

enum ri_status pass_multicast_detach(struct ri_qp *qp, const uint8_t gid[16], uint16_t lid)
{
    struct pass_qp *pass = PASS_OF(qp, qp);

    return pass->rnic->ops->multicast_detach(pass->below, gid, lid);
}
