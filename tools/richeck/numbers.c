/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections by numbers: what each transition needs, between two nodes of one port. */
#include "bed.h"

#include <stdlib.h>
#include <string.h>

#define GIDS 256u

/* To the port itself. */
static void path_to_self(struct ri_ah_attr *path)
{
    static struct ri_gid gids[GIDS];
    struct ri_port_attr port = { .size = sizeof(port) };
    uint32_t count = GIDS, best = GIDS;

    EXPECT_STATUS(bed.control.query_port(bed.rnic, &port), RI_OK);
    EXPECT_STATUS(bed.control.query_gids(bed.rnic, 0, gids, &count), RI_OK);
    *path = (struct ri_ah_attr){ .size = sizeof(*path),
                                 .hop_limit = 1,
                                 .global = port.link_ethernet,
                                 .destination_lid = port.lid };
    for (uint32_t i = 0; i < count && i < GIDS; i++)
        if (gids[i].type != RI_GID_NONE && (best == GIDS || gids[i].type > gids[best].type))
            best = i;
    if (best == GIDS)
        check_skip("port 0 has no GID");
    memcpy(path->destination_gid, gids[best].gid, sizeof(path->destination_gid));
    memcpy(path->source_gid, gids[best].gid, sizeof(path->source_gid));
}

static uint32_t number_of(struct node *node)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    EXPECT_STATUS(bed.control.qp_query(node->qp, &info), RI_OK);
    return info.qpn;
}

static uint32_t path_mtu(void)
{
    struct ri_port_attr port = { .size = sizeof(port) };
    uint32_t mtu = 4096;

    EXPECT_STATUS(bed.control.query_port(bed.rnic, &port), RI_OK);
    while (mtu > 256 && mtu > port.mtu)
        mtu /= 2;
    return mtu;
}

uint32_t numbers_psn(const struct node *node)
{
    return (uint32_t)((uintptr_t)node >> 4) & 0xffffff;
}

void numbers_step(struct node *node, struct node *peer, enum ri_qp_state state,
                  struct numbers_step *step)
{
    struct ri_qp_modify *modify = &step->modify;

    *modify = (struct ri_qp_modify){ .size = sizeof(*modify),
                                     .mask = RI_QPM_STATE,
                                     .state = state,
                                     .flags = node->attr.flags,
                                     .ird = node->attr.ird,
                                     .ord = node->attr.ord,
                                     .rnr_retry = 7,
                                     .rnr_timer = 12,
                                     .timeout = 14,
                                     .retry_count = 7,
                                     .receive_psn = numbers_psn(peer),
                                     .send_psn = numbers_psn(node),
                                     .path = &step->path };
    if (state == RI_QPS_INIT)
        modify->mask |= RI_QPM_PORT | RI_QPM_FLAGS;
    if (state == RI_QPS_RTS)
        modify->mask |= RI_QPM_SEND_PSN | RI_QPM_TIMEOUT | RI_QPM_RETRY_COUNT | RI_QPM_RNR_RETRY |
                        RI_QPM_ORD;
    if (state != RI_QPS_RTR)
        return;
    modify->mask |= RI_QPM_PATH | RI_QPM_PATH_MTU | RI_QPM_DESTINATION_QPN | RI_QPM_RECEIVE_PSN |
                    RI_QPM_IRD | RI_QPM_RNR_TIMER;
    modify->path_mtu = path_mtu();
    modify->destination_qpn = number_of(peer);
    path_to_self(&step->path);
}

void numbers_to(struct node *node, struct node *peer, enum ri_qp_state state)
{
    struct numbers_step step;
    enum ri_status status;

    numbers_step(node, peer, state, &step);
    status = bed.control.qp_modify(node->qp, &step.modify);
    EXPECT(status == RI_OK, "qp_modify to %s with what it needs answers %s",
           state == RI_QPS_INIT  ? "INIT"
           : state == RI_QPS_RTR ? "RTR"
                                 : "RTS",
           ri_status_name(status));
}

void numbers_connect(struct node *a, struct node *b)
{
    static const enum ri_qp_state states[] = { RI_QPS_INIT, RI_QPS_RTR, RI_QPS_RTS };

    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        numbers_to(a, b, states[i]);
        numbers_to(b, a, states[i]);
    }
}
