/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The RNIC: its wires, protection domains.
 */
#include "core.h"
#include "sanitizer.h"

#include <stdlib.h>

enum ri_status core_post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    return qp_wire(container_of(base, struct qp, base))->post_send(base, wr, bad);
}

void rnic_add_wire(struct rnic *rnic, const struct wire *wire, void *part)
{
    struct ri_user_ops *connected = &rnic->connected[wire->slot];

    contract(!rnic->wires[wire->slot] && !rnic->lanes[0]);
    rnic->wires[wire->slot] = wire;
    rnic->parts[wire->slot] = part;
    if (wire->slot == WIRE_NETWORK)
        rnic->qp_octets = wire->qp_octets;
    *connected = *rnic->user;
    if (rnic->options.sanitizers == SANITIZER_OFF)
        connected->post_send = wire->post_send; /* else watched.c asks the QP for its wire */
}

enum ri_status core_pd_create(struct ri_rnic *base, void *context, struct ri_pd **out)
{
    struct rnic *rnic = container_of(base, struct rnic, base);
    enum ri_status status = RI_ERR_LIMIT;
    struct pd *pd;

    if (atomic_fetch_add(&rnic->pds, 1) >= rnic->attr.max_pd)
        goto uncount;
    status = RI_ERR_NO_RESOURCES;
    pd = calloc(1, sizeof(*pd));
    if (!pd)
        goto uncount;
    pd->base.ops = rnic->base.ops;
    pd->base.context = context;
    pd->rnic = rnic;
    pthread_mutex_init(&pd->windows_lock, NULL);
    *out = &pd->base;
    return RI_OK;

uncount:
    atomic_fetch_sub(&rnic->pds, 1);
    return status;
}

enum ri_status core_pd_destroy(struct ri_pd *base)
{
    struct pd *pd = container_of(base, struct pd, base);

    if (atomic_load(&pd->users))
        return RI_ERR_BUSY;
    atomic_fetch_sub(&pd->rnic->pds, 1);
    pthread_mutex_destroy(&pd->windows_lock);
    free(pd);
    return RI_OK;
}
