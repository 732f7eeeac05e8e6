/* SPDX-License-Identifier: BSD-3-Clause */
#include "gsi_end.h"

#include "base/be.h"
#include "providers/software/roce/codec/cm.h"

#include <string.h>

static void received(void *context, const struct gsi_mad *mad)
{
    struct gsi_end *end = context;
    uint32_t at = end->count++ % GSI_END_KEPT;

    end->got[at].mad = *mad;
    memcpy(end->got[at].octets, mad->octets, MAD_LEN);
    end->got[at].mad.octets = end->got[at].octets;
}

const char *gsi_end_add_port(struct gsi_end *end, uint32_t address)
{
    static struct net_why why;
    struct share_key key = net_test_key(address);

    if (net_port_open(end->net, key.gid, 0, &end->port[end->ports], &why) != RI_OK)
        return why.text;
    end->ports++;
    return NULL;
}

const char *gsi_end_open(struct gsi_end *end, uint32_t address)
{
    const struct net_options options = { .slots = 8 };
    static struct net_why why;

    memset(end, 0, sizeof(*end));
    if (net_open(&options, &end->net, &why) != RI_OK ||
        gsi_open(end->net, received, end, &end->gsi, &why) != RI_OK)
        return why.text;
    end->rx = net_rx_new(32, true);
    return end->rx ? gsi_end_add_port(end, address) : "no memory";
}

void gsi_end_close(struct gsi_end *end)
{
    gsi_close(end->gsi);
    while (end->ports)
        net_port_close(end->port[--end->ports]);
    net_close(end->net);
    net_rx_free(end->rx);
}

void gsi_end_read(struct gsi_end *end)
{
    for (uint32_t i = 0; i < end->ports; i++)
        gsi_read(end->gsi, end->port[i], end->rx);
}

void gsi_end_serve(struct gsi_end *end)
{
    gsi_serve(end->gsi);
}

void gsi_end_take(struct gsi_end *end)
{
    struct net_packet packet;
    struct bth_packet parsed;

    for (uint32_t i = 0; i < end->ports; i++) {
        net_receive(end->port[i], NET_DATA, end->rx);
        while (net_next(end->rx, &packet))
            if (bth_parse(packet.octets, packet.len, &parsed) == BTH_OK &&
                parsed.dest_qpn == BTH_QPN_GSI)
                gsi_take(end->gsi, end->port[i], &packet, &parsed);
    }
}

struct gsi_service gsi_any(uint64_t id)
{
    return (struct gsi_service){ .id = id, .families = GSI_IPV4 };
}

struct gsi_service gsi_at(uint64_t id, uint32_t address)
{
    struct gsi_service service = { .id = id };

    memcpy(service.gid, net_test_key(address).gid, GID_LEN);
    return service;
}

enum ri_status gsi_end_listen(struct gsi_end *end, const struct gsi_service *service,
                              uint32_t *binding)
{
    struct net_why why;
    enum ri_status status = gsi_bind(end->gsi, service, binding, &why);

    return status == RI_OK ? gsi_listen(end->gsi, *binding, &why) : status;
}

void gsi_put_mad(uint8_t out[static MAD_LEN], uint16_t attribute, uint32_t local_id,
                 uint32_t remote_id, uint64_t service)
{
    uint8_t packet[TEST_PACKET_MAX];

    put_mad(packet, attribute, local_id, remote_id);
    memcpy(out, packet + BTH_LEN + BTH_DETH_LEN, MAD_LEN);
    if (attribute == CM_REQ || attribute == CM_SIDR_REQ)
        be_put64(out + MAD_HEADER_LEN + 8, service);
    out[MAD_LEN - 1] = 0x5A;
}

enum ri_status gsi_end_send(struct gsi_end *end, uint32_t address,
                            const uint8_t mad[static MAD_LEN])
{
    struct net_to to = { .traffic_class = NET_TRAFFIC_CLASS_DEFAULT };
    struct net_path path;

    memcpy(to.gid, net_test_key(address).gid, GID_LEN);
    if (net_path_init(&path, end->port[0], &to) != RI_OK)
        return RI_ERR_INVALID_ARGUMENT;
    return gsi_send(end->gsi, end->port[0], &path, mad);
}
