/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Datagrams: address handles, and the states of UD queue pairs. grh.c finds a datagram's source.
 */
#include "qp.h"
#include "verbs.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define HOPS 64u /* default of an IP packet's hop limit */

/* ---- which GID of the port is the source ---- */

static bool is_none(const uint8_t *gid)
{
    static const uint8_t none[16];

    return !memcmp(gid, none, sizeof(none));
}

/* IPv4, link-local IPv6, other IPv6: on RoCE a packet's source must be of the destination's
 * kind. */
static unsigned int kind_of(const uint8_t *gid)
{
    const struct in6_addr *address = (const struct in6_addr *)(const void *)gid;

    return IN6_IS_ADDR_V4MAPPED(address) ? 1 : IN6_IS_ADDR_LINKLOCAL(address) ? 2 : 3;
}

static unsigned int same_bits(const uint8_t *a, const uint8_t *b)
{
    for (unsigned int i = 0; i < 16; i++)
        if (a[i] != b[i])
            return i * 8 + (unsigned int)__builtin_clz((unsigned int)(a[i] ^ b[i]) << 24);
    return 128;
}

/* How well a table entry suits; 0: not at all. Routable RoCE (v2) comes before v1. */
static unsigned int suits(const struct rnic *rnic, const struct ibv_gid_entry *entry,
                          const struct ri_ah_attr *attr)
{
    const uint8_t *gid = entry->gid.raw;
    unsigned int routable = entry->gid_type == IBV_GID_TYPE_ROCE_V2;

    if (is_none(gid))
        return 0;
    if (!is_none(attr->source_gid))
        return memcmp(gid, attr->source_gid, 16) ? 0 : 1 + routable;
    if (rnic->ethernet && kind_of(gid) != kind_of(attr->destination_gid))
        return 0;
    return 1 + routable + 2 * same_bits(gid, attr->destination_gid);
}

static bool choose_source(const struct rnic *rnic, const struct ri_ah_attr *attr, uint8_t *index)
{
    unsigned int best = 0;

    for (uint32_t i = 0; i < RDMACORE_GIDS; i++) {
        struct ibv_gid_entry entry;
        unsigned int fit;

        memset(&entry, 0, sizeof(entry));
        if (rdmacore->query_gid(rnic->verbs, attr->port + 1, i, &entry))
            continue;
        fit = suits(rnic, &entry, attr);
        if (fit > best)
            *index = (uint8_t)i;
        best = fit > best ? fit : best;
    }
    return best != 0;
}

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
    struct rnic *rnic = pd->rnic;
    bool global = attr->global || rnic->ethernet;
    struct ibv_ah_attr verbs = {
        .dlid = attr->destination_lid,
        .sl = attr->sl,
        .src_path_bits = attr->path_bits,
        .static_rate = attr->static_rate,
        .is_global = global,
        .port_num = (uint8_t)(attr->port + 1),
    };

    if (attr->port >= rnic->attr.ports || attr->flow_label >> 20)
        return RI_ERR_INVALID_ARGUMENT;
    if (global && is_none(attr->destination_gid))
        return RI_ERR_INVALID_ARGUMENT;
    if (global && !choose_source(rnic, attr, &verbs.grh.sgid_index))
        return no_handle(rnic, EADDRNOTAVAIL);
    if (global) {
        memcpy(verbs.grh.dgid.raw, attr->destination_gid, sizeof(verbs.grh.dgid.raw));
        verbs.grh.flow_label = attr->flow_label;
        verbs.grh.traffic_class = attr->traffic_class;
        verbs.grh.hop_limit = attr->hop_limit || !rnic->ethernet ? attr->hop_limit : HOPS;
    }
    errno = 0;
    *out = rdmacore->create_ah(pd->ibv, &verbs);
    return *out ? RI_OK : no_handle(rnic, errno);
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

void datagram_path(struct rnic *rnic, const struct ibv_ah_attr *verbs, struct ri_ah_attr *attr)
{
    struct ibv_gid_entry source;

    *attr = (struct ri_ah_attr){
        .size = sizeof(*attr),
        .port = verbs->port_num ? verbs->port_num - 1u : 0,
        .destination_lid = verbs->dlid,
        .sl = verbs->sl,
        .path_bits = verbs->src_path_bits,
        .static_rate = verbs->static_rate,
        .global = verbs->is_global,
    };
    if (!verbs->is_global)
        return;
    memcpy(attr->destination_gid, verbs->grh.dgid.raw, sizeof(attr->destination_gid));
    attr->flow_label = verbs->grh.flow_label;
    attr->traffic_class = verbs->grh.traffic_class;
    attr->hop_limit = verbs->grh.hop_limit;
    memset(&source, 0, sizeof(source));
    if (!rdmacore->query_gid(rnic->verbs, attr->port + 1, verbs->grh.sgid_index, &source))
        memcpy(attr->source_gid, source.gid.raw, sizeof(attr->source_gid));
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
