/* SPDX-License-Identifier: BSD-3-Clause
 * rdma_create_ep: an id with its QP, made from the result of rdma_getaddrinfo. */
#include "cm.h"

#include <stdlib.h>
#include <string.h>

#define RESOLVE_MS 2000

/* A listener keeps the attributes for the QPs of its requests. */
static int make_passive(struct rcm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
                        const struct ibv_qp_init_attr *init)
{
    if (rdma_bind_addr(&id->ibv, res->ai_src_addr))
        return -1;
    if (pd)
        id->ibv.pd = pd;
    id->has_init = init != NULL;
    if (init)
        id->init = *init;
    return 0;
}

static int make_active(struct rcm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
                       struct ibv_qp_init_attr *init)
{
    if (rdma_resolve_addr(&id->ibv, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS) ||
        rdma_resolve_route(&id->ibv, RESOLVE_MS))
        return -1;
    if (init && rdma_create_qp(&id->ibv, pd, init))
        return -1;
    if (!res->ai_connect || !res->ai_connect_len)
        return 0;
    if (res->ai_connect_len > RCM_PRIVATE_DATA)
        return rcm_fail(EINVAL);
    id->connect_data = malloc(res->ai_connect_len);
    if (!id->connect_data)
        return -1;
    memcpy(id->connect_data, res->ai_connect, res->ai_connect_len);
    id->connect_length = (uint8_t)res->ai_connect_len;
    return 0;
}

static bool is_carried(int type)
{
    if (type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD)
        return true;
    ual_log(RI_LOG_WARNING, "rdma_create_ep: queue pairs of type %d are not supported", type);
    return false;
}

VB_PUBLIC int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
                             struct ibv_qp_init_attr *qp_init_attr)
{
    SANITIZER_OUTPUT(id);
    SANITIZER_OUTPUT(qp_init_attr);
    struct rdma_cm_id *made;
    int error;

    if (!id || !res)
        return rcm_fail(EINVAL);
    if (!is_carried(res->ai_qp_type))
        return rcm_fail(EOPNOTSUPP);
    if (qp_init_attr)
        qp_init_attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
    if (rdma_create_id(NULL, &made, NULL, (enum rdma_port_space)res->ai_port_space))
        return -1;
    if (!(res->ai_flags & RAI_PASSIVE ? make_passive(rcm_id_of(made), res, pd, qp_init_attr)
                                      : make_active(rcm_id_of(made), res, pd, qp_init_attr))) {
        *id = made;
        sanitizer_defined(made, sizeof(*made));
        return 0;
    }
    error = errno;
    rdma_destroy_ep(made);
    return rcm_fail(error);
}

VB_PUBLIC void rdma_destroy_ep(struct rdma_cm_id *id)
{
    RCM_OWN(id, );
    rdma_destroy_qp(id);
    rdma_destroy_srq(id);
    rdma_destroy_id(id);
}
