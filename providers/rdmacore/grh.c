/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The source of a datagram, from the 40 octets in front of it.
 */
#include "qp.h"

#include "base/ipv4_header.h"

#include <netinet/in.h>
#include <netinet/ip.h>
#include <string.h>

const uint8_t *datagram_header(const struct ri_recv_wr *wr)
{
    bool whole = wr->num_sge && wr->sg_list[0].length >= IPV4_HEADER_ROOM;

    return whole ? (const uint8_t *)(uintptr_t)wr->sg_list[0].addr : NULL;
}

/* InfiniBand and RoCE over IPv6: the GRH has 40 octets. Over IPv4: the last 20. */
static void source_gid(const uint8_t header[static IPV4_HEADER_ROOM], uint8_t *gid)
{
    const uint8_t *ipv4 = ipv4_header_in(header);

    if (ipv4) {
        memset(gid, 0, 10);
        memset(gid + 10, 0xff, 2);
        memcpy(gid + 12, ipv4 + offsetof(struct iphdr, saddr), 4);
    } else if (header[0] >> 4 == 6) {
        memcpy(gid, header + 8, 16);
    }
}

void datagram_source(const struct ibv_wc *raw, const uint8_t *header, struct ri_wc *wc)
{
    wc->source.qpn = raw->src_qp;
    wc->source.lid = raw->slid;
    wc->source.pkey_index = raw->pkey_index;
    wc->source.sl = raw->sl;
    wc->source.path_bits = raw->dlid_path_bits;
    memset(wc->source_gid, 0, sizeof(wc->source_gid));
    if (!(raw->wc_flags & IBV_WC_GRH))
        return;
    wc->flags |= RI_WC_GRH;
    if (header)
        source_gid(header, wc->source_gid);
}
