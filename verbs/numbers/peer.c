/* SPDX-License-Identifier: BSD-3-Clause
 * The peer of a QP: where it is, and what both ends agree to. */
#include "numbers_private.h"

#include <arpa/inet.h>

/* --- where it is --- */

/* A GID as an address; a link-local one gets the scope of our own address. */
static void address_of(const union ibv_gid *gid, const struct sockaddr_storage *own, uint16_t port,
                       struct sockaddr_storage *address)
{
    union address *to = (union address *)(void *)address;

    memset(address, 0, sizeof(*address));
    if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)gid->raw)) {
        to->four.sin_family = AF_INET;
        to->four.sin_port = htons(port);
        memcpy(&to->four.sin_addr, gid->raw + 12, 4);
        return;
    }
    to->six.sin6_family = AF_INET6;
    to->six.sin6_port = htons(port);
    memcpy(&to->six.sin6_addr, gid->raw, sizeof(gid->raw));
    if (IN6_IS_ADDR_LINKLOCAL(&to->six.sin6_addr))
        to->six.sin6_scope_id = ((const union address *)(const void *)own)->six.sin6_scope_id;
}

/* Without a GID there is the LID, which is 0 for every port. So the peer can be at this port
 * only, as on InfiniBand for a QP whose destination is the port's own LID. */
static int check_lid(const struct link *link, const struct ibv_qp_attr *attr)
{
    if (!attr->ah_attr.dlid)
        return 0;
    ual_log(RI_LOG_WARNING,
            "ibv_modify_qp: QP 0x%06x: no GID of the peer is given, and no port has LID 0x%x; use "
            "-g 0, or the program's option for the GID index",
            link->number, attr->ah_attr.dlid);
    return EINVAL;
}

int link_set_peer(struct link *link, const struct ibv_qp_attr *attr)
{
    bool by_lid = !attr->ah_attr.is_global;
    uint32_t index = by_lid ? 0 : attr->ah_attr.grh.sgid_index;
    union ibv_gid dgid = attr->ah_attr.grh.dgid;
    struct sockaddr_storage source, destination;
    int error = by_lid ? check_lid(link, attr) : 0;

    if (!error)
        error = vb_gid_address(link->numbers->context, index, &source);
    if (error)
        return error;
    if (by_lid)
        vb_gid_of_address((const struct sockaddr *)&source, &dgid);
    address_of(&dgid, &source, (uint16_t)(attr->dest_qp_num >> 8), &destination);
    if (source.ss_family != destination.ss_family) {
        ual_log(RI_LOG_WARNING,
                "ibv_modify_qp: QP 0x%06x: the GID of index %u and the peer's are not of one "
                "address family; use another index",
                link->number, index);
        return EINVAL;
    }
    link->by_lid = by_lid;
    link->source = source;
    link->destination = destination;
    link->peer_qpn = attr->dest_qp_num;
    link->peer_gid = dgid;
    vb_gid_of_address((const struct sockaddr *)&source, &link->own_gid);
    return 0;
}

/* --- what both ends can do --- */

/* Under the lock. The peer's rnr_retry is not known: it is set after the connection has begun. Most
 * programs give both ends the same, so this side's stands for it. */
static struct vb_terms terms_of(const struct link *link)
{
    return (struct vb_terms){ .rnr_retry = link->agreed & HELLO_RNR ? link->rnr_retry : 0,
                              .rnr_timer = link->rnr_timer,
                              .fused_immediate = link->agreed & HELLO_FUSED,
                              .acknowledged = link->agreed & HELLO_ACKNOWLEDGED };
}

/* No lock held. The program may change its part meanwhile. */
void link_apply_terms(struct link *link)
{
    struct vb_terms terms, now;

    pthread_mutex_lock(&link->numbers->lock);
    now = terms_of(link);
    do {
        terms = now;
        pthread_mutex_unlock(&link->numbers->lock);
        vb_qp_agree(link->qp, &terms);
        pthread_mutex_lock(&link->numbers->lock);
        now = terms_of(link);
    } while (now.rnr_retry != terms.rnr_retry || now.fused_immediate != terms.fused_immediate);
    pthread_mutex_unlock(&link->numbers->lock);
}

/* No lock held. */
void link_agree(struct link *link, uint8_t peer_flags)
{
    pthread_mutex_lock(&link->numbers->lock);
    link->agreed = peer_flags & requests_own_flags(link->numbers);
    pthread_mutex_unlock(&link->numbers->lock);
    link_apply_terms(link);
}
