/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Paths: the address vector of an address handle and of a QP, to verbs and from them.
 */
#include "qp.h"

#include <errno.h>
#include <netinet/in.h>
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

/* ---- conversion ---- */

int path_to_verbs(const struct rnic *rnic, const struct ri_ah_attr *attr, struct ibv_ah_attr *verbs)
{
    bool global = attr->global || rnic->ethernet;

    *verbs = (struct ibv_ah_attr){
        .dlid = attr->destination_lid,
        .sl = attr->sl,
        .src_path_bits = attr->path_bits,
        .static_rate = attr->static_rate,
        .is_global = global,
        .port_num = (uint8_t)(attr->port + 1),
    };
    if (attr->port >= rnic->attr.ports || attr->flow_label >> 20)
        return EINVAL;
    if (!global)
        return 0;
    if (is_none(attr->destination_gid))
        return EINVAL;
    if (!choose_source(rnic, attr, &verbs->grh.sgid_index))
        return EADDRNOTAVAIL;
    memcpy(verbs->grh.dgid.raw, attr->destination_gid, sizeof(verbs->grh.dgid.raw));
    verbs->grh.flow_label = attr->flow_label;
    verbs->grh.traffic_class = attr->traffic_class;
    verbs->grh.hop_limit = attr->hop_limit || !rnic->ethernet ? attr->hop_limit : HOPS;
    return 0;
}

void path_from_verbs(const struct rnic *rnic, const struct ibv_ah_attr *verbs,
                     struct ri_ah_attr *attr)
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
