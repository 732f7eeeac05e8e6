/* SPDX-License-Identifier: BSD-3-Clause
 * Thread domains and parent domains. The first promise that one thread uses an object: that makes
 * nothing cheaper here. A parent domain passes for its PD; its allocators are not called, because
 * no queue is in memory that a device reads. */
#include "ibverbs_private.h"

#include <stdlib.h>

struct vb_td {
    struct ibv_td ibv; /* first */
    _Atomic uint32_t parents;
};

struct parent_domain {
    struct vb_pd pd; /* first */
    struct vb_td *td;
};

static struct vb_td *td_of(struct ibv_td *td)
{
    return (struct vb_td *)td;
}

struct ibv_td *vb_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    VB_OWN(context, NULL);
    struct vb_td *td;

    if (attr->comp_mask) {
        errno = EINVAL;
        return NULL;
    }
    td = calloc(1, sizeof(*td));
    if (!td)
        return NULL;
    td->ibv.context = context;
    return &td->ibv;
}

int vb_dealloc_td(struct ibv_td *td)
{
    VB_OWN(td->context, EIO);
    if (atomic_load(&td_of(td)->parents))
        return EBUSY;
    free(td_of(td));
    return 0;
}

/* 0 or an error number. A later rdma-core has more flags: programs try without them then. */
static int check(const struct ibv_context *context, const struct ibv_parent_domain_init_attr *attr)
{
    const uint32_t allocators = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;

    if (attr->comp_mask & ~(allocators | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT))
        return EOPNOTSUPP;
    if ((attr->comp_mask & allocators) && (!attr->alloc || !attr->free))
        return EINVAL;
    return attr->pd && attr->pd->context == context && !vb_pd_of(attr->pd)->protection &&
                   (!attr->td || attr->td->context == context)
               ? 0
               : EINVAL;
}

struct ibv_pd *vb_alloc_parent_domain(struct ibv_context *context,
                                      struct ibv_parent_domain_init_attr *attr)
{
    VB_OWN(context, NULL);
    struct parent_domain *domain;
    int error = check(context, attr);

    if (error) {
        errno = error;
        return NULL;
    }
    domain = calloc(1, sizeof(*domain));
    if (!domain)
        return NULL;
    domain->pd.protection = vb_pd_of(attr->pd);
    domain->pd.ibv = *attr->pd;
    domain->pd.ual = domain->pd.protection->ual;
    atomic_fetch_add(&domain->pd.protection->parents, 1);
    if (attr->td) {
        domain->td = td_of(attr->td);
        atomic_fetch_add(&domain->td->parents, 1);
    }
    return &domain->pd.ibv;
}

int vb_dealloc_parent_domain(struct vb_pd *pd)
{
    struct parent_domain *domain = container_of(pd, struct parent_domain, pd);

    atomic_fetch_sub(&pd->protection->parents, 1);
    if (domain->td)
        atomic_fetch_sub(&domain->td->parents, 1);
    free(domain);
    return 0;
}
