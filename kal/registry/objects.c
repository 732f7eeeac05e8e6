/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects: the provider's operation, with the account taken before and released after. A refusal by
 * either side leaves nothing behind. Regions are pinned here, if the interface wants it, before
 * the provider gets them.
 */
#include "registry.h"
#include "kal/cm/manager.h"

#include <stdlib.h>

/* The end of a create: keeps or releases the account by the provider's result. */
static enum ri_status created(struct kal_rnic *rnic, enum kal_account_kind kind,
                              enum ri_status status)
{
    if (status != RI_OK)
        kal_rnic_give(rnic, kind, 1);
    return kal_rnic_answer(status);
}

static enum ri_status destroyed(struct kal_rnic *rnic, enum kal_account_kind kind,
                                enum ri_status status)
{
    if (status == RI_OK)
        kal_rnic_give(rnic, kind, 1);
    return kal_rnic_answer(status);
}

enum ri_status kal_pd_create(struct kal_rnic *rnic, void *context, struct ri_pd **pd)
{
    enum ri_status status = kal_rnic_take(rnic, KAL_ACCOUNT_PD, 1);

    if (status != RI_OK)
        return status;
    return created(rnic, KAL_ACCOUNT_PD, rnic->ops.pd_create(rnic->ri, context, pd));
}

enum ri_status kal_pd_destroy(struct kal_rnic *rnic, struct ri_pd *pd)
{
    return destroyed(rnic, KAL_ACCOUNT_PD, rnic->ops.pd_destroy(pd));
}

enum ri_status kal_cq_create(struct kal_rnic *rnic, struct ri_cq_attr *attr, struct ri_cq **cq)
{
    enum ri_status status = kal_rnic_take(rnic, KAL_ACCOUNT_CQ, 1);

    if (status != RI_OK)
        return status;
    return created(rnic, KAL_ACCOUNT_CQ, rnic->ops.cq_create(rnic->ri, attr, cq));
}

enum ri_status kal_cq_resize(struct kal_rnic *rnic, struct ri_cq *cq, uint32_t *depth)
{
    return kal_rnic_answer(rnic->ops.cq_resize(cq, depth));
}

enum ri_status kal_cq_destroy(struct kal_rnic *rnic, struct ri_cq *cq)
{
    return destroyed(rnic, KAL_ACCOUNT_CQ, rnic->ops.cq_destroy(cq));
}

enum ri_status kal_qp_create(struct kal_rnic *rnic, struct ri_pd *pd, struct ri_qp_attr *attr,
                             struct ri_qp **qp)
{
    enum ri_status status = kal_rnic_take(rnic, KAL_ACCOUNT_QP, 1);

    if (status != RI_OK)
        return status;
    return created(rnic, KAL_ACCOUNT_QP, rnic->ops.qp_create(pd, attr, qp));
}

enum ri_status kal_qp_query(struct kal_rnic *rnic, struct ri_qp *qp, struct ri_qp_info *info)
{
    return kal_rnic_answer(rnic->ops.qp_query(qp, info));
}

enum ri_status kal_qp_counters(struct kal_rnic *rnic, struct ri_qp *qp, const char **names,
                               uint64_t *values, size_t *count)
{
    return kal_rnic_answer(rnic->ops.qp_counters(qp, names, values, count));
}

enum ri_status kal_qp_destroy(struct kal_rnic *rnic, struct ri_qp *qp)
{
    struct kal_traffic last = { .count = KAL_SEEN_COUNTERS };
    bool counted = rnic->kal->state &&
                   rnic->ops.qp_counters(qp, last.names, last.values, &last.count) == RI_OK;
    enum ri_status status;

    kal_cm_qp_destroy(rnic, qp);
    status = destroyed(rnic, KAL_ACCOUNT_QP, rnic->ops.qp_destroy(qp));
    if (status != RI_OK || !counted)
        return status;
    if (last.count > KAL_SEEN_COUNTERS)
        last.count = KAL_SEEN_COUNTERS;
    pthread_mutex_lock(&rnic->port_lock);
    kal_traffic_add(&rnic->gone, last.count, last.names, last.values);
    pthread_mutex_unlock(&rnic->port_lock);
    return RI_OK;
}

enum ri_status kal_srq_create(struct kal_rnic *rnic, struct ri_pd *pd, struct ri_srq_attr *attr,
                              struct ri_srq **srq)
{
    enum ri_status status = kal_rnic_take(rnic, KAL_ACCOUNT_SRQ, 1);

    if (status != RI_OK)
        return status;
    return created(rnic, KAL_ACCOUNT_SRQ, rnic->ops.srq_create(pd, attr, srq));
}

enum ri_status kal_srq_modify(struct kal_rnic *rnic, struct ri_srq *srq, uint32_t mask,
                              const struct ri_srq_attr *attr)
{
    return kal_rnic_answer(rnic->ops.srq_modify(srq, mask, attr));
}

enum ri_status kal_srq_query(struct kal_rnic *rnic, struct ri_srq *srq, struct ri_srq_attr *attr)
{
    return kal_rnic_answer(rnic->ops.srq_query(srq, attr));
}

enum ri_status kal_srq_destroy(struct kal_rnic *rnic, struct ri_srq *srq)
{
    return destroyed(rnic, KAL_ACCOUNT_SRQ, rnic->ops.srq_destroy(srq));
}

/* ---- regions ---- */

struct region {
    /* First member: the part for ual */
    struct kal_region shown;
    /* Pinned range, and how */
    const void *addr;
    uint64_t length;
    enum kal_pin_way pinned;
    /* Octets that it counts in rnic->registered */
    uint64_t registered;
    /* The identifier is registered at the host */
    bool shared;
    uint32_t shared_id;
};

static bool needs_pin(const struct kal_rnic *rnic, const struct ri_mr_attr *attr)
{
    return rnic->pin.way != KAL_PIN_NONE && attr->addr && attr->length;
}

/* Releases what the region has at the host, and frees the record. */
static void release(struct kal_rnic *rnic, struct region *region)
{
    atomic_fetch_sub_explicit(&rnic->registered, region->registered, memory_order_relaxed);
    if (region->shared)
        kal_rnic_unshare(rnic, region->shared_id);
    if (region->pinned != KAL_PIN_NONE)
        kal_rnic_unpin(rnic, region->addr, region->length, region->pinned);
    free(region);
}

static enum ri_status pin(struct kal_rnic *rnic, const struct ri_mr_attr *attr,
                          struct region *region)
{
    if (!needs_pin(rnic, attr))
        return RI_OK;
    region->addr = attr->addr;
    region->length = attr->length;
    return kal_rnic_pin(rnic, attr->addr, attr->length, &region->pinned);
}

enum ri_status kal_region_create(struct kal_rnic *rnic, struct ri_pd *pd,
                                 const struct ri_mr_attr *attr, struct kal_region **region)
{
    struct ri_mr_attr asked = *attr;
    struct region *made;
    enum ri_status status = kal_rnic_take(rnic, KAL_ACCOUNT_MR, 1);

    if (status != RI_OK)
        return status;
    made = calloc(1, sizeof(*made));
    if (!made) {
        status = RI_ERR_NO_RESOURCES;
        goto give_account;
    }
    status = pin(rnic, attr, made);
    if (status != RI_OK)
        goto release;
    if (attr->shared && (rnic->attr.features & RI_FEATURE_SHARED_MR)) {
        made->shared = kal_rnic_share(rnic, attr->shared_id, attr->length);
        made->shared_id = attr->shared_id;
        asked.shared = made->shared;
    }
    status = kal_rnic_answer(rnic->ops.mr_register(pd, &asked, &made->shown.keys, &made->shown.mr));
    if (status != RI_OK)
        goto release;
    made->registered = attr->length;
    atomic_fetch_add_explicit(&rnic->registered, attr->length, memory_order_relaxed);
    *region = &made->shown;
    return RI_OK;

release:
    release(rnic, made);
give_account:
    kal_rnic_give(rnic, KAL_ACCOUNT_MR, 1);
    return status;
}

enum ri_status kal_region_modify(struct kal_rnic *rnic, struct kal_region *region, struct ri_pd *pd,
                                 const struct ri_mr_attr *attr)
{
    struct ri_mr_keys keys = region->keys;
    enum ri_status status = rnic->ops.mr_reregister(region->mr, pd, attr, &keys);

    if (status == RI_OK)
        region->keys = keys;
    return kal_rnic_answer(status);
}

enum ri_status kal_region_destroy(struct kal_rnic *rnic, struct kal_region *region)
{
    struct region *made = (struct region *)region;
    enum ri_status status = destroyed(rnic, KAL_ACCOUNT_MR, rnic->ops.mr_deregister(region->mr));

    if (status == RI_OK)
        release(rnic, made);
    return status;
}

enum ri_status kal_mw_create(struct kal_rnic *rnic, struct ri_pd *pd, bool narrow, void *context,
                             uint32_t *stag, struct ri_mw **mw)
{
    enum ri_status status = kal_rnic_take(rnic, KAL_ACCOUNT_MW, 1);

    if (status != RI_OK)
        return status;
    return created(rnic, KAL_ACCOUNT_MW, rnic->ops.mw_allocate(pd, narrow, context, stag, mw));
}

enum ri_status kal_mw_destroy(struct kal_rnic *rnic, struct ri_mw *mw)
{
    return destroyed(rnic, KAL_ACCOUNT_MW, rnic->ops.mw_free(mw));
}

/* ---- address handles ---- */

enum ri_status kal_ah_create(struct kal_rnic *rnic, struct ri_pd *pd, const struct ri_ah_attr *attr,
                             struct ri_ah **ah)
{
    enum ri_status status = kal_rnic_take(rnic, KAL_ACCOUNT_AH, 1);

    if (status != RI_OK)
        return status;
    return created(rnic, KAL_ACCOUNT_AH, rnic->ops.ah_create(pd, attr, ah));
}

enum ri_status kal_ah_modify(struct kal_rnic *rnic, struct ri_ah *ah, const struct ri_ah_attr *attr)
{
    return kal_rnic_answer(rnic->ops.ah_modify(ah, attr));
}

enum ri_status kal_multicast_attach(struct kal_rnic *rnic, struct ri_qp *qp, const uint8_t gid[16],
                                    uint16_t lid)
{
    return kal_rnic_answer(rnic->ops.multicast_attach(qp, gid, lid));
}

enum ri_status kal_multicast_detach(struct kal_rnic *rnic, struct ri_qp *qp, const uint8_t gid[16],
                                    uint16_t lid)
{
    return kal_rnic_answer(rnic->ops.multicast_detach(qp, gid, lid));
}

enum ri_status kal_ah_destroy(struct kal_rnic *rnic, struct ri_ah *ah)
{
    return destroyed(rnic, KAL_ACCOUNT_AH, rnic->ops.ah_destroy(ah));
}
