/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Datagrams: address handles, and the states of UD queue pairs. path.c converts their address
 * vectors, grh.c finds a datagram's source.
 */
#include "qp.h"
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- address handles ---- */

static struct ah *ah_of(struct ri_ah *base)
{
    return container_of(base, struct ah, base);
}

/* Not all drivers report why there is no handle. On Ethernet they resolve the destination's
 * hardware address, which may fail. */
static enum ri_status no_handle(struct rnic *rnic, int error)
{
    enum ri_status status;

    if (error <= 0 || error == ETIMEDOUT || error == ENETDOWN)
        error = EHOSTUNREACH;
    status = rdmacore_status(error);
    ri_log(rnic->host, RI_LOG_WARNING, "no address handle on %s: %s%s", rnic->device,
           strerror(error),
           status == RI_ERR_UNREACHABLE
               ? "; check that the destination is in a network of the device, and up"
               : "");
    return status;
}

static enum ri_status make_handle(struct pd *pd, const struct ri_ah_attr *attr, struct ibv_ah **out)
{
    struct ibv_ah_attr verbs;
    int error = path_to_verbs(pd->rnic, attr, &verbs);

    if (error)
        return error == EINVAL ? RI_ERR_INVALID_ARGUMENT : no_handle(pd->rnic, error);
    errno = 0;
    *out = rdmacore->create_ah(pd->ibv, &verbs);
    return *out ? RI_OK : no_handle(pd->rnic, errno);
}

enum ri_status rdmacore_ah_create(struct ri_pd *base, const struct ri_ah_attr *attr,
                                  struct ri_ah **out)
{
    struct pd *pd = container_of(base, struct pd, base);
    struct rnic *rnic = pd->rnic;
    enum ri_status status;
    struct ah *ah;

    if (!(rnic->attr.features & RI_FEATURE_UD))
        return RI_ERR_NOT_SUPPORTED;
    ah = calloc(1, sizeof(*ah));
    if (!ah)
        return RI_ERR_NO_RESOURCES;
    status = make_handle(pd, attr, &ah->ibv);
    if (status != RI_OK) {
        free(ah);
        return status;
    }
    ah->base.ops = rnic->base.ops;
    ah->base.context = attr->context;
    ah->pd = pd;
    atomic_fetch_add(&pd->users, 1);
    atomic_fetch_add(&rnic->ahs, 1);
    *out = &ah->base;
    return RI_OK;
}

/* Verbs cannot change an address handle: another one replaces it. */
enum ri_status rdmacore_ah_modify(struct ri_ah *base, const struct ri_ah_attr *attr)
{
    struct ah *ah = ah_of(base);
    struct ibv_ah *fresh;
    enum ri_status status = make_handle(ah->pd, attr, &fresh);
    int error;

    if (status != RI_OK)
        return status;
    error = rdmacore_errno(rdmacore->destroy_ah(ah->ibv));
    if (!rdmacore_destroyed(ah->pd->rnic, error)) {
        rdmacore->destroy_ah(fresh);
        return rdmacore_status(error);
    }
    ah->ibv = fresh;
    return RI_OK;
}

enum ri_status rdmacore_ah_destroy(struct ri_ah *base)
{
    struct ah *ah = ah_of(base);
    struct rnic *rnic = ah->pd->rnic;
    int error = rdmacore_errno(rdmacore->destroy_ah(ah->ibv));

    if (!rdmacore_destroyed(rnic, error))
        return rdmacore_status(error);
    atomic_fetch_sub(&ah->pd->users, 1);
    atomic_fetch_sub(&rnic->ahs, 1);
    free(ah);
    return RI_OK;
}

/* ---- queue pairs ---- */

enum ri_status datagram_start(struct qp *qp)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
    int error;

    if (qp_state(qp) != RI_QPS_IDLE)
        return RI_ERR_INVALID_STATE;
    error = qp_to_state(qp, IBV_QPS_RTR);
    if (!error)
        error = rdmacore_errno(rdmacore->modify_qp(qp->ibv, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
    if (error)
        return rdmacore_status(error);
    atomic_store(&qp->failing, false);
    atomic_store(&qp->ended, false);
    qp_set_state(qp, RI_QPS_RTS);
    cq_watch_errors(qp->send_cq);
    cq_watch_errors(qp->recv_cq);
    return RI_OK;
}

/* An ended QP gets it with its next start. */
enum ri_status datagram_set_qkey(struct qp *qp, uint32_t qkey)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .qkey = qkey };
    enum ri_qp_state state = qp_state(qp);
    uint32_t before = qp->qkey;
    int error = 0;

    qp->qkey = qkey;
    if (state == RI_QPS_RTS)
        error = rdmacore_errno(rdmacore->modify_qp(qp->ibv, &attr, IBV_QP_STATE | IBV_QP_QKEY));
    else if (state == RI_QPS_IDLE)
        error = qp_to_init(qp, qp->port);
    if (error)
        qp->qkey = before;
    return rdmacore_status(error);
}
