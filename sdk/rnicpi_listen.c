/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners of set A: see rnicpi_set_a.h. */
#include "rnicpi_set_a.h"
#include "rnicpi_util.h"

#include <stdlib.h>

enum ri_status ri_mem_listen(struct ri_rnic *base, const struct ri_listen_param *param,
                             void *context, struct sockaddr_storage *bound,
                             struct ri_listener **out)
{
    struct ri_mem_rnic *rnic = (struct ri_mem_rnic *)base;
    const struct ri_carrier *carrier = rnic->set_a->carrier;
    struct ri_mem_listener *listener;
    uint16_t port;
    enum ri_status status = carrier->port_of(param->address, param->service_id, param->datagram,
                                             &port);

    if (status != RI_OK)
        return status;
    listener = calloc(1, carrier->listener_size);
    if (!listener)
        return RI_ERR_NO_RESOURCES;
    listener->base = (struct ri_listener){ base->ops, context };
    listener->backlog = param->backlog;
    listener->datagram = param->datagram;
    listener->set = rnic->set_a;
    pthread_mutex_lock(&rnic->lock);
    status = carrier->listen(listener, &port);
    if (status == RI_OK)
        ri_set_a_listens(rnic->set_a, listener);
    pthread_mutex_unlock(&rnic->lock);
    if (status != RI_OK) {
        free(listener);
        return status;
    }
    memset(bound, 0, sizeof(*bound));
    ri_address_copy(bound, param->address);
    ri_address_set_port(bound, port);
    *out = &listener->base;
    return RI_OK;
}

enum ri_status ri_mem_listen_destroy(struct ri_listener *base)
{
    struct ri_mem_listener *listener = (struct ri_mem_listener *)base;
    void (*end)(struct ri_mem_listener *) = listener->end;
    struct ri_set_a *set = listener->set;

    pthread_mutex_lock(&set->rnic->lock);
    ri_set_a_forget(set, listener);
    set->carrier->unlisten(listener); /* frees it if it has no `end` */
    pthread_mutex_unlock(&set->rnic->lock);
    if (end)
        end(listener);
    return RI_OK;
}
