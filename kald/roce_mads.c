/* SPDX-License-Identifier: BSD-3-Clause */
/* kald: what comes for QP 1, and the clients that it goes to. A MAD that cannot be passed on is
 * lost, as on any way: senders repeat. */
#include "roce.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "providers/software/roce/codec/bth.h"
#include "providers/software/roce/codec/cm.h"
#include "providers/software/roce/codec/cma.h"
#include "providers/software/roce/net/pass_message.h"

/* Datagrams that are read before others have their turn. */
#define TOGETHER 16
/* A packet of a MAD. */
#define PACKET_LEN (BTH_LEN + BTH_DETH_LEN + MAD_LEN + BTH_ICRC_LEN)

/* ---- in ---- */

static bool gid_of(const struct sockaddr_storage *from, uint8_t gid[static GID_LEN], uint16_t *port)
{
    struct sockaddr_in four;
    struct sockaddr_in6 six;

    memcpy(&four, from, sizeof(four));
    memcpy(&six, from, sizeof(six));
    if (from->ss_family == AF_INET) {
        uint8_t octets[4];

        memcpy(octets, &four.sin_addr, sizeof(octets));
        gid_put_ipv4(gid, octets);
        *port = ntohs(four.sin_port);
        return true;
    }
    memcpy(gid, &six.sin6_addr, GID_LEN);
    *port = ntohs(six.sin6_port);
    return from->ss_family == AF_INET6;
}

/* True: it is a MAD of communication management whose ICRC is right. */
static bool understand(struct roce_address *address, const struct sockaddr_storage *from,
                       const uint8_t *octets, uint32_t len, struct gsi_mad *mad)
{
    struct bth_packet packet;
    enum ids_verdict verdict;

    *mad = (struct gsi_mad){ .scope = address->scope };
    memcpy(mad->destination, address->gid, GID_LEN);
    if (len != PACKET_LEN || !gid_of(from, mad->source, &mad->source_port) ||
        bth_parse(octets, len, &packet) != BTH_OK || !gsi_get(&packet, mad))
        return false;
    verdict = ids_check(ids_find(&address->ids, mad->source, mad->source_port, address->gid),
                        octets, len);
    return verdict == IDS_RIGHT || verdict == IDS_SOLVED;
}

/* ---- whose ---- */

static bool lives(const struct kald_roce *roce, uint32_t slot)
{
    return roce->slots[slot].client && !roce->slots[slot].client->ended;
}

static struct roce_route *route_of(struct kald_roce *roce, uint64_t route)
{
    return &roce->routes[route % ROCE_ROUTES];
}

static bool find_route(struct kald_roce *roce, uint64_t route, uint32_t *slot)
{
    const struct roce_route *known = route_of(roce, route);

    for (uint32_t i = 0; known->client && known->route == route && i < KALD_SLOTS; i++)
        if (lives(roce, i) && roce->slots[i].client->id == known->client) {
            *slot = i;
            return true;
        }
    return false;
}

/* Somebody who can refuse it, in turn. */
static bool find_any(struct kald_roce *roce, uint32_t *slot)
{
    for (uint32_t i = 0; i < KALD_SLOTS; i++) {
        *slot = roce->next++ % KALD_SLOTS;
        if (lives(roce, *slot))
            return true;
    }
    return false;
}

/* False: nobody is to have it. */
static bool find_owner(struct kald_roce *roce, struct gsi_mad *mad, uint32_t *slot)
{
    uint64_t route = gsi_route(mad);
    bool found;

    switch (gsi_kind_of(mad)) {
    case GSI_REQUEST:
        found = kald_roce_hears(roce, gsi_service_id(mad), mad->destination, mad->scope, slot);
        break;
    case GSI_GIVE_UP: return find_route(roce, route, slot);
    case GSI_LEAVE:
        *slot = gsi_remote_id(mad) % KALD_SLOTS;
        found = gsi_remote_id(mad) && lives(roce, *slot);
        break;
    default: return false;
    }
    mad->unclaimed = !found;
    if (!found && !find_route(roce, route, slot) && !find_any(roce, slot))
        return false;
    if (gsi_kind_of(mad) == GSI_REQUEST)
        *route_of(roce, route) = (struct roce_route){ route, roce->slots[*slot].client->id };
    return true;
}

/* It stands at the end of the message; what rdma_cm puts in front of it, addresses and the port,
 * stays. */
void kald_roce_strip(uint8_t mad[static 256], uint16_t attribute)
{
    size_t length = attribute == CM_REQ        ? CMA_REQ_PRIVATE
                    : attribute == CM_SIDR_REQ ? CMA_SIDR_REQ_PRIVATE
                    : attribute == CM_DREQ     ? CM_DREQ_PRIVATE
                                               : 0;

    memset(mad + MAD_LEN - length, 0, length);
}

/* ---- on ---- */

static void pass_on(const struct kald_roce *roce, const struct gsi_mad *mad, uint32_t slot)
{
    uint8_t octets[PASS_LEN(1)];

    pass_put_head(octets, 1);
    pass_put(octets + PASS_HEAD_LEN, mad);
    if (mad->unclaimed)
        kald_roce_strip(octets + sizeof(octets) - MAD_LEN, mad->attribute_id);
    (void)!send(roce->slots[slot].mads, octets, sizeof(octets), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void kald_roce_read(struct kald_source *source, uint32_t events)
{
    struct roce_address *address = container_of(source, struct roce_address, gsi);
    struct kald_roce *roce = address->kald->roce;
    struct sockaddr_storage from;
    uint8_t octets[PACKET_LEN];
    struct gsi_mad mad;
    uint32_t slot;

    (void)events;
    for (int i = 0; i < TOGETHER; i++) {
        socklen_t length = sizeof(from);
        ssize_t got;

        memset(&from, 0, sizeof(from));
        got = recvfrom(source->fd, octets, sizeof(octets), MSG_DONTWAIT | MSG_TRUNC,
                       (struct sockaddr *)&from, &length);
        if (got < 0)
            return;
        if (understand(address, &from, octets, (uint32_t)got, &mad) &&
            find_owner(roce, &mad, &slot))
            pass_on(roce, &mad, slot);
    }
}
