/* SPDX-License-Identifier: BSD-3-Clause */
/* The RNIC in memory: its objects but QPs. See rnicpi_mem.h. */
#include "rnicpi_mem.h"
#include "rnicpi_util.h"

#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/random.h>

/* ---- the RNIC ---- */

enum ri_status ri_mem_rnic_open(struct ri_mem_rnic *rnic, const struct ri_open *open,
                                const struct ri_rnic_attr *attr,
                                void (*serve)(struct ri_mem_qp *qp))
{
    if (ri_regions_open(&rnic->regions, attr->max_mr) != RI_OK)
        return RI_ERR_NO_RESOURCES;
    if (getrandom(&rnic->next_qpn, sizeof(rnic->next_qpn), 0) != sizeof(rnic->next_qpn)) {
        ri_regions_close(&rnic->regions);
        return RI_ERR_NO_RESOURCES;
    }
    rnic->base = (struct ri_rnic){ open->privileged, open->context };
    rnic->host = open->host;
    rnic->user = open->user;
    rnic->attr = attr;
    rnic->serve = serve;
    pthread_mutex_init(&rnic->lock, NULL);
    ri_upcalls_open(&rnic->upcalls, open->host, &rnic->lock);
    return RI_OK;
}

enum ri_status ri_mem_rnic_close(struct ri_mem_rnic *rnic)
{
    uint32_t objects;

    pthread_mutex_lock(&rnic->lock);
    objects = rnic->regions.count;
    for (int kind = 0; kind < RI_MEM_KINDS; kind++)
        objects += rnic->count[kind];
    pthread_mutex_unlock(&rnic->lock);
    if (objects)
        return RI_ERR_BUSY;
    ri_unwatch_now(&rnic->leaving);
    ri_upcalls_close(&rnic->upcalls);
    ri_regions_close(&rnic->regions);
    pthread_mutex_destroy(&rnic->lock);
    return RI_OK;
}

enum ri_status ri_mem_close(struct ri_rnic *rnic, bool force)
{
    enum ri_status status = ri_mem_rnic_close((struct ri_mem_rnic *)rnic);

    (void)force;
    if (status == RI_OK)
        free(rnic);
    return status;
}

bool ri_mem_count(struct ri_mem_rnic *rnic, enum ri_mem_kind kind, int more)
{
    const uint32_t most[RI_MEM_KINDS] = { rnic->attr->max_pd, rnic->attr->max_cq,
                                          rnic->attr->max_qp, rnic->attr->max_ah, UINT32_MAX };
    bool room;

    pthread_mutex_lock(&rnic->lock);
    room = more < 0 || rnic->count[kind] < most[kind];
    rnic->count[kind] += room ? (uint32_t)more : 0;
    pthread_mutex_unlock(&rnic->lock);
    return room;
}

enum ri_status ri_mem_query(struct ri_rnic *base, struct ri_rnic_attr *attr)
{
    const struct ri_mem_rnic *rnic = (struct ri_mem_rnic *)base;

    return ri_sized_copy(attr, rnic->attr, sizeof(*rnic->attr)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

enum ri_status ri_mem_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                                struct ri_lane **lane)
{
    struct ri_mem_rnic *rnic = (struct ri_mem_rnic *)base;

    if (index)
        return RI_ERR_INVALID_ARGUMENT;
    rnic->lane = (struct ri_lane){ rnic->user, context };
    rnic->leaving.host = rnic->host;
    rnic->leaving.lane_context = context;
    rnic->upcalls.lane_context = context;
    *lane = &rnic->lane;
    return RI_OK;
}

uint32_t ri_mem_progress(struct ri_lane *lane, struct ri_cq *first, uint32_t budget,
                         uint64_t *next_deadline)
{
    struct ri_mem_rnic *rnic = ri_mem_rnic_of_lane(lane);
    uint32_t work;

    (void)first, (void)budget;
    *next_deadline = RI_NO_DEADLINE;
    pthread_mutex_lock(&rnic->lock);
    work = ri_upcalls_run(&rnic->upcalls);
    pthread_mutex_unlock(&rnic->lock);
    return work + ri_unwatch_now(&rnic->leaving);
}

bool ri_mem_lane_arm(struct ri_lane *lane)
{
    struct ri_mem_rnic *rnic = ri_mem_rnic_of_lane(lane);
    bool quiet;

    pthread_mutex_lock(&rnic->lock);
    quiet = !ri_unwatch_pending(&rnic->leaving) && !ri_upcalls_pending(&rnic->upcalls);
    pthread_mutex_unlock(&rnic->lock);
    return quiet;
}

void ri_port_add_address(struct ri_port_attr *attr, const struct sockaddr *address,
                         uint8_t prefix_length)
{
    struct ri_address to = { .prefix_length = prefix_length };

    ri_address_copy(&to.sockaddr, address);
    if (attr->address_count < attr->address_capacity)
        attr->addresses[attr->address_count] = to;
    attr->address_count++;
}

/* ---- PDs ---- */

enum ri_status ri_mem_pd_create(struct ri_rnic *base, void *context, struct ri_pd **out)
{
    struct ri_mem_rnic *rnic = (struct ri_mem_rnic *)base;
    struct ri_mem_pd *pd = calloc(1, sizeof(*pd));

    if (!pd || !ri_mem_count(rnic, RI_MEM_PDS, 1)) {
        free(pd);
        return RI_ERR_NO_RESOURCES;
    }
    pd->base = (struct ri_pd){ base->ops, context };
    pd->rnic = rnic;
    *out = &pd->base;
    return RI_OK;
}

enum ri_status ri_mem_pd_destroy(struct ri_pd *base)
{
    struct ri_mem_pd *pd = (struct ri_mem_pd *)base;
    struct ri_mem_rnic *rnic = pd->rnic;
    bool busy;

    pthread_mutex_lock(&rnic->lock);
    busy = pd->users;
    rnic->count[RI_MEM_PDS] -= !busy;
    pthread_mutex_unlock(&rnic->lock);
    if (busy)
        return RI_ERR_BUSY;
    free(pd);
    return RI_OK;
}

/* ---- CQs ---- */

enum ri_status ri_mem_cq_create(struct ri_rnic *base, struct ri_cq_attr *attr, struct ri_cq **out)
{
    struct ri_mem_rnic *rnic = (struct ri_mem_rnic *)base;
    enum ri_status status;
    struct ri_mem_rnic_cq *cq;

    if (attr->depth > rnic->attr->max_cqe)
        return RI_ERR_LIMIT;
    cq = calloc(1, sizeof(*cq));
    if (!cq || !ri_mem_count(rnic, RI_MEM_CQS, 1)) {
        free(cq);
        return RI_ERR_NO_RESOURCES;
    }
    cq->rnic = rnic;
    status = ri_mem_cq_open(&cq->mem, rnic->host, rnic->user, attr);
    if (status != RI_OK) {
        ri_mem_count(rnic, RI_MEM_CQS, -1);
        free(cq);
        return status;
    }
    *out = &cq->mem.base;
    return RI_OK;
}

enum ri_status ri_mem_cq_set_depth(struct ri_cq *base, uint32_t *depth)
{
    struct ri_mem_rnic_cq *cq = (struct ri_mem_rnic_cq *)base;

    return *depth > cq->rnic->attr->max_cqe ? RI_ERR_LIMIT : ri_mem_cq_resize(&cq->mem, *depth);
}

enum ri_status ri_mem_cq_destroy(struct ri_cq *base)
{
    struct ri_mem_rnic_cq *cq = (struct ri_mem_rnic_cq *)base;
    bool busy;

    pthread_mutex_lock(&cq->mem.lock);
    busy = cq->mem.sources;
    pthread_mutex_unlock(&cq->mem.lock);
    if (busy)
        return RI_ERR_BUSY;
    /* Another thread is between collect and deliver. */
    while (atomic_load(&cq->reports) || ri_mem_cq_close(&cq->mem) == RI_ERR_BUSY)
        sched_yield();
    ri_mem_count(cq->rnic, RI_MEM_CQS, -1);
    free(cq);
    return RI_OK;
}

/* ---- regions ---- */

enum ri_status ri_mem_mr_register(struct ri_pd *base, const struct ri_mr_attr *attr,
                                  struct ri_mr_keys *keys, struct ri_mr **out)
{
    struct ri_mem_pd *pd = (struct ri_mem_pd *)base;
    struct ri_mem_rnic *rnic = pd->rnic;
    enum ri_status status = ri_region_check(attr, rnic->attr->max_mr_length);
    struct ri_region *region;

    if (status == RI_OK &&
        (rnic->attr->features & (RI_FEATURE_DMA | RI_FEATURE_DMA_PINS)) != RI_FEATURE_DMA)
        status = ri_check_memory(attr->addr, attr->length, attr->access & RI_ACCESS_LOCAL_WRITE);
    if (status != RI_OK)
        return status;
    region = calloc(1, sizeof(*region));
    if (!region)
        return RI_ERR_NO_RESOURCES;
    *region = (struct ri_region){ .base = { base->ops, attr->context },
                                  .domain = pd,
                                  .addr = (uintptr_t)attr->addr,
                                  .length = attr->length,
                                  .access = attr->access };
    pthread_mutex_lock(&rnic->lock);
    status = ri_region_add(&rnic->regions, region);
    pd->users += status == RI_OK;
    pthread_mutex_unlock(&rnic->lock);
    if (status != RI_OK) {
        free(region);
        return RI_ERR_NO_RESOURCES;
    }
    *keys = ri_region_keys(region);
    *out = &region->base;
    return RI_OK;
}

enum ri_status ri_mem_mr_deregister(struct ri_mr *base)
{
    struct ri_region *region = (struct ri_region *)base;
    struct ri_mem_pd *pd = region->domain;

    pthread_mutex_lock(&pd->rnic->lock);
    ri_region_remove(&pd->rnic->regions, region);
    pd->users--;
    pthread_mutex_unlock(&pd->rnic->lock);
    free(region);
    return RI_OK;
}

/* ---- address handles ---- */

enum ri_status ri_mem_ah_open(struct ri_mem_ah *ah, struct ri_pd *pd, void *context)
{
    ah->pd = (struct ri_mem_pd *)pd;
    ah->base = (struct ri_ah){ pd->ops, context };
    if (!ri_mem_count(ah->pd->rnic, RI_MEM_AHS, 1))
        return RI_ERR_NO_RESOURCES;
    pthread_mutex_lock(&ah->pd->rnic->lock);
    ah->pd->users++;
    pthread_mutex_unlock(&ah->pd->rnic->lock);
    return RI_OK;
}

enum ri_status ri_mem_ah_destroy(struct ri_ah *base)
{
    struct ri_mem_ah *ah = (struct ri_mem_ah *)base;
    struct ri_mem_rnic *rnic = ah->pd->rnic;

    pthread_mutex_lock(&rnic->lock);
    ah->pd->users--;
    rnic->count[RI_MEM_AHS]--;
    pthread_mutex_unlock(&rnic->lock);
    free(ah);
    return RI_OK;
}
