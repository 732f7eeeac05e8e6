/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Address handles: paths of datagrams and of QPs that are connected by numbers; the way back to the
 * sender of a datagram.
 */
#include "ibverbs_private.h"

#include "base/ipv4_header.h"

#include <endian.h>
#include <netinet/ip.h>
#include <stdlib.h>

int vb_path(struct vb_context *context, const struct ibv_ah_attr *from, struct ri_ah_attr *to)
{
    struct ri_ah_attr path = {
        .size = sizeof(path),
        .port = from->port_num - 1u,
        .destination_lid = from->dlid,
        .sl = from->sl,
        .hop_limit = from->grh.hop_limit,
        .traffic_class = from->grh.traffic_class,
        .path_bits = from->src_path_bits,
        .global = from->is_global,
        .flow_label = from->grh.flow_label,
        .static_rate = from->static_rate,
    };
    int error = 0;

    if (from->port_num < 1 || from->port_num > ual_device_attr(context->device)->ports)
        return EINVAL;
    if (from->is_global)
        error = vb_gid_at(context, from->port_num, from->grh.sgid_index, path.source_gid);
    else if (vb_is_ethernet(context, from->port_num))
        error = EINVAL; /* a LID is no address there */
    memcpy(path.destination_gid, from->grh.dgid.raw, sizeof(path.destination_gid));
    if (!error)
        *to = path;
    return error;
}

/* Without RI_FEATURE_UD there are no datagrams, so nothing can be sent with an address handle.
 * Programs create one to check whether a peer is reachable. */
struct ibv_ah *ibv_create_ah(struct ibv_pd *ibv, struct ibv_ah_attr *attr)
{
    VB_CALL;
    VB_OWN(ibv->context, NULL);
    static _Atomic uint32_t made;
    struct vb_context *context = vb_context_of(ibv->context);
    struct vb_ah *ah = calloc(1, sizeof(*ah));
    struct ri_ah_attr asked;
    int error;

    if (!ah)
        return NULL;
    error = vb_path(context, attr, &asked);
    if (error)
        goto free_ah;
    if (ual_device_attr(context->device)->features & RI_FEATURE_UD)
        error = vb_errno(ual_ah_create(vb_pd_of(ibv)->ual, &asked, 0, &ah->ual));
    if (error)
        goto free_ah;
    ah->ibv.context = ibv->context;
    ah->ibv.pd = ibv;
    ah->ibv.handle = atomic_fetch_add(&made, 1);
    return &ah->ibv;
free_ah:
    free(ah);
    errno = error;
    return NULL;
}

int ibv_destroy_ah(struct ibv_ah *ibv)
{
    VB_CALL;
    VB_OWN(ibv->context, EIO);
    struct vb_ah *ah = vb_ah_of(ibv);
    enum ri_status status = ah->ual ? ual_ah_free(ah->ual) : RI_OK;

    if (status == RI_OK)
        free(ah);
    return vb_errno(status);
}

/* --- the way back --- */

#define HOP_LIMIT 64

/* What the header in front of a datagram says. */
struct header {
    union ibv_gid source, destination;
    uint32_t flow_label;
    uint8_t traffic_class;
};

static void map_ipv4(const uint8_t *address, union ibv_gid *gid)
{
    memset(gid, 0, 10);
    memset(gid->raw + 10, 0xff, 2);
    memcpy(gid->raw + 12, address, 4);
}

static void read_header(const struct ibv_grh *grh, struct header *header)
{
    const uint8_t *ipv4 = ipv4_header_in((const uint8_t *)grh);
    uint32_t word;

    memset(header, 0, sizeof(*header));
    if (ipv4) {
        header->traffic_class = ipv4[1];
        map_ipv4(ipv4 + offsetof(struct iphdr, saddr), &header->source);
        map_ipv4(ipv4 + offsetof(struct iphdr, daddr), &header->destination);
        return;
    }
    word = be32toh(grh->version_tclass_flow);
    header->flow_label = word & 0xfffff;
    header->traffic_class = (uint8_t)(word >> 20);
    header->source = grh->sgid;
    header->destination = grh->dgid;
}

static int find_gid(struct vb_context *context, uint8_t port_num, const union ibv_gid *gid,
                    uint8_t *index)
{
    uint32_t places = vb_gids_count(context);
    uint8_t there[16];

    for (uint32_t i = 0; i < places && i <= UINT8_MAX; i++)
        if (!vb_gid_at(context, port_num, i, there) && !memcmp(there, gid->raw, sizeof(there))) {
            *index = (uint8_t)i;
            return 0;
        }
    return ENOENT;
}

int ibv_init_ah_from_wc(struct ibv_context *ibv, uint8_t port_num, struct ibv_wc *wc,
                        struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
    VB_CALL;
    VB_OWN(ibv, -1);
    SANITIZER_OUTPUT(attr);
    struct header header;
    int error;

    *attr = (struct ibv_ah_attr){
        .dlid = wc->slid, .sl = wc->sl, .src_path_bits = wc->dlid_path_bits, .port_num = port_num
    };
    if (!(wc->wc_flags & IBV_WC_GRH))
        return 0;
    read_header(grh, &header);
    attr->is_global = 1;
    attr->grh.dgid = header.source;
    attr->grh.flow_label = header.flow_label;
    attr->grh.traffic_class = header.traffic_class;
    attr->grh.hop_limit = HOP_LIMIT;
    error = find_gid(vb_context_of(ibv), port_num, &header.destination, &attr->grh.sgid_index);
    if (error)
        errno = error;
    return error ? -1 : 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                     uint8_t port_num)
{
    struct ibv_ah_attr attr;

    return ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) ? NULL
                                                                      : ibv_create_ah(pd, &attr);
}
