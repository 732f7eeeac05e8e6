/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The device, as it is listed before it is opened: with a doubt, where another user of this host
 * has the UDP port on its addresses.
 */
#include "device.h"

#include "providers/software/host/option_reader.h"
#include "providers/software/roce/net/by_kald.h"
#include "providers/software/roce/net/holder.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct listed {
    struct net_gids gids;
    uint32_t count;
    struct holder holders[HOLDERS_MAX];
    bool by_kald; /* root's kald serves: what root has, it may have for all */
};

static bool is_gone(const uint8_t gid[static GID_LEN])
{
    static const uint8_t zeros[GID_LEN];

    return !memcmp(gid, zeros, GID_LEN);
}

/* Of this host alone. */
static bool is_loopback(const uint8_t gid[static GID_LEN])
{
    static const uint8_t one[GID_LEN] = { [GID_LEN - 1] = 1 };

    return gid_is_ipv4(gid) ? gid[GID_IPV4] == 127 : !memcmp(gid, one, GID_LEN);
}

/* One that peers elsewhere, and everybody here, can use without more words. */
static bool is_for_all(const uint8_t gid[static GID_LEN])
{
    return !is_gone(gid) && !is_loopback(gid) && !net_gid_is_link_local(gid);
}

static bool has_for_all(const struct net_gids *gids)
{
    for (uint32_t i = 0; i < gids->count; i++)
        if (is_for_all(gids->entry[i].gid))
            return true;
    return false;
}

/* The first of the addresses, if other users have all of those that count: those for all, or, where
 * there is none, the others. -1: there is one to use. */
static int find_taken(const struct listed *listed, struct holder *holder)
{
    const struct net_gids *gids = &listed->gids;
    const bool some = has_for_all(gids);
    int first = -1;

    for (uint32_t i = 0; i < gids->count; i++) {
        const uint8_t *gid = gids->entry[i].gid;
        struct holder one;

        if (is_gone(gid) || (some && !is_for_all(gid)))
            continue;
        if (holder_of(listed->holders, listed->count, geteuid(), gid, &one) != HOLDER_OTHER ||
            (listed->by_kald && !one.user && !holder_is_wildcard(&one)))
            return -1;
        if (first < 0) {
            first = (int)i;
            *holder = one;
        }
    }
    return first;
}

static void put_address(const uint8_t gid[static GID_LEN], char out[static INET6_ADDRSTRLEN])
{
    bool ipv4 = gid_is_ipv4(gid);

    inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? gid + GID_IPV4 : gid, out, INET6_ADDRSTRLEN);
}

#define REASON 160

/* False: nothing is known to be in the way. */
static bool find_doubt(uint16_t udp_port, const char *kald, char reason[static REASON])
{
    struct listed *listed = calloc(1, sizeof(*listed));
    char address[INET6_ADDRSTRLEN];
    struct holder holder;
    int taken = -1;
    bool changed;

    if (listed && net_gids_read(&listed->gids, "", &changed) == RI_OK) {
        listed->count = holder_list(udp_port, listed->holders);
        listed->by_kald = listed->count && by_kald_is_there(kald);
        taken = find_taken(listed, &holder);
    }
    if (taken >= 0) {
        put_address(listed->gids.entry[taken].gid, address);
        snprintf(reason, REASON, "user %u%s has UDP port %u of %s, and no other address is free",
                 holder.user, holder.user ? "" : " (root, or the kernel's rdma_rxe)", udp_port,
                 address);
    }
    free(listed);
    return taken >= 0;
}

/* One for the host: its GIDs are the addresses of all network interfaces. */
enum ri_status roce_enumerate(const struct ri_host *host, ri_found_fn found, void *arg)
{
    struct option_reader reader = { .host = host, .status = RI_OK };
    const char *kald = option_text(&reader, "kald");
    char reason[REASON];
    struct ri_device device = {
        .size = sizeof(device),
        .name = DEVICE,
        .transport = RI_TRANSPORT_INFINIBAND,
        .usable = true,
        .flags = RI_DEVICE_ON_REQUEST,
    };

    if (reader.status == RI_OK && find_doubt(GID_UDP_PORT, kald, reason)) {
        device.reason = reason;
        device.advice = "let root start kald(8) before, by which users share an address; or give "
                        "this host another address; ital-run --as roce needs no UDP port";
    }
    found(arg, &device);
    return RI_OK;
}
