/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to a connection manager of RoCEv2 that has connections in every state: near to right
 * ones, with octets changed. No state is left for ever, no event comes twice, what leaves for one
 * message and what is kept are bounded.
 *
 * Input: steps. Two octets: which message of which connection (or what the consumer does); flags
 * and a count of changes; then place and value of each.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/roce/cm_link.h"

#include <string.h>

#define STEPS   48u
#define CHANGES 7u /* at most */

static struct link bed;

static struct link_conn *some_conn(uint32_t which)
{
    struct link_conn *conn = &bed.end[which & 1].conns[which >> 1 & 3];

    return conn->used ? conn : NULL;
}

/* As the peer of the connection would say it. */
static void fill(uint32_t attribute, uint32_t which, const struct link_conn *conn,
                 struct cm_message *message, uint8_t *data)
{
    uint32_t own = conn ? conn->cm.own_id : which, peer = conn ? conn->cm.peer_id : which + 1;

    link_fill_req(&bed, 0x2000 + which, message, data);
    message->attribute_id = (uint16_t)attribute;
    message->private_len = 36;
    message->transaction_id = conn ? conn->cm.transaction_id : which;
    switch (attribute) {
    case CM_REQ: message->req.local_comm_id = peer; break;
    case CM_MRA: message->mra = (struct cm_mra){ peer, own, which & 1, 20 }; break;
    case CM_REJ:
        message->rej = (struct cm_rej){ .local_comm_id = peer,
                                        .remote_comm_id = own,
                                        .reason = CM_REJ_STALE_CONN };
        break;
    case CM_REP:
        message->rep = (struct cm_rep){ .local_comm_id = peer ? peer : 0x4000 + which,
                                        .remote_comm_id = own,
                                        .local_qpn = 0x3000 + which,
                                        .local_ca_guid = LINK_GUID + 1 };
        break;
    case CM_DREQ:
        message->dreq = (struct cm_dreq){ peer, own, conn ? conn->cm.own_qpn : which };
        break;
    case CM_SIDR_REQ:
        message->sidr_req = (struct cm_sidr_req){ which + 1, 0xFFFF,
                                                  cma_service_id(CMA_PS_UDP, LINK_PORT) };
        break;
    case CM_SIDR_REP:
        message->sidr_rep = (struct cm_sidr_rep){ .request_id = own, .qpn = which };
        break;
    default: message->rtu = (struct cm_ids){ peer, own }; break;
    }
}

static void say(uint8_t what, const uint8_t *changes, uint32_t count)
{
    uint32_t attribute = CM_REQ + what % 9u, which = what / 9u % 8u;
    uint8_t data[CM_REQ_PRIVATE], mad[MAD_LEN];
    struct cm_address address = link_address(&bed, which & 1);
    uint32_t before = bed.logged;
    struct cm_message message;

    fill(attribute, which, some_conn(which), &message, data);
    FUZZ_CHECK(cm_put(mad, &message) == MAD_OK);
    for (uint32_t i = 0; i < count; i++)
        mad[changes[2 * i]] ^= changes[2 * i + 1];
    cm_manager_receive(&bed.end[which & 1].manager, &address, mad, MAD_LEN, bed.now);
    link_consume(&bed);
    FUZZ_CHECK(bed.logged - before <= 4);
}

/* What the consumer of a connection may do at any time. */
static void act(uint8_t what)
{
    struct link_conn *conn = some_conn(what >> 3);

    if (!conn || conn->cm.released)
        return;
    switch (what & 7) {
    case 0: cm_conn_disconnect(&conn->cm, "bye", 3, CM_NEVER, bed.now); break;
    case 1: cm_conn_reject(&conn->cm, CM_REJ_CONSUMER_DEFINED, NULL, 0, "no", 2, bed.now); break;
    case 2: cm_conn_heard(&conn->cm, bed.now); break;
    case 3: cm_conn_confirm(&conn->cm, NULL, 0, bed.now); break;
    case 4: link_accept(&bed, conn); break;
    case 5: link_release(&bed, conn); break;
    default: break;
    }
}

static void check_conns(void)
{
    for (uint32_t side = 0; side < 2; side++) {
        FUZZ_CHECK(bed.end[side].manager.conns <= 4 + STEPS);
        for (uint32_t i = 0; i < LINK_CONNS; i++)
            for (uint32_t event = 0; event < LINK_EVENTS; event++)
                FUZZ_CHECK(!bed.end[side].conns[i].used ||
                           bed.end[side].conns[i].events[event] <= 1);
    }
}

static void open_all(uint8_t how)
{
    link_open(&bed, 1, NULL);
    bed.end[1].accepts = how & 1;
    bed.end[0].confirms = how & 2;
    link_connect(&bed, CM_NEVER);
    link_connect(&bed, bed.now + 3 * LINK_S);
    link_ask(&bed);
    if (how & 4)
        link_run(&bed, bed.now + 50 * LINK_MS);
    bed.alone = true;
    bed.end[1].accepts = how & 8;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    open_all(*data);
    data++;
    size--;
    for (uint32_t steps = 0; size >= 2 && steps < STEPS; steps++) {
        uint8_t what = data[0], how = data[1];
        uint32_t count = how >> 4 & CHANGES;

        data += 2;
        size -= 2;
        count = size / 2 < count ? (uint32_t)(size / 2) : count;
        if (how & 1)
            act(what);
        else
            say(what, data, count);
        data += 2u * count;
        size -= 2u * count;
        if (how & 2)
            link_run(&bed, bed.now + (uint64_t)(how & 12) * LINK_S / 4);
        check_conns();
    }
    link_close(&bed);
    return 0;
}
