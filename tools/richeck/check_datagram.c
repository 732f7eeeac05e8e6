/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams: what a UD QP sends and takes, what it loses, which states it has. */
#include "bed.h"

#include <stdlib.h>
#include <string.h>

#define QKEY    0x1230u
#define GRH     40u
#define OCTETS  4096u
#define LENGTH  100u
#define RECEIVE (GRH + LENGTH)

/* A UD QP with one CQ and memory: receives at 0, what it sends at OCTETS / 2. */
static struct end {
    struct node node; /* its context */
    struct ri_cq *cq;
    struct cq_seen seen;
    uint8_t *memory;
    struct ri_mr *mr;
    struct ri_mr_keys keys;
    uint32_t number;
} a, b;

static struct ri_ah *way;

static void create(struct end *end)
{
    struct ri_mr_attr region = { .size = sizeof(region),
                                 .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE,
                                 .length = OCTETS };
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_UD,
                               .context = &end->node,
                               .lane = bed.lanes[0],
                               .max_send_wr = 8,
                               .max_recv_wr = 8,
                               .max_send_sge = 1,
                               .max_recv_sge = 1,
                               .qkey = QKEY };
    struct ri_qp_info info = { .size = sizeof(info) };

    end->seen.node = &end->node;
    end->cq = attr.send_cq = attr.recv_cq = make_cq(32, &end->seen);
    end->memory = region.addr = calloc(1, OCTETS);
    EXPECT(end->memory, "no memory");
    EXPECT_STATUS(register_region(bed.pd, &region, &end->keys, &end->mr), RI_OK);
    EXPECT_STATUS(bed.control.qp_create(bed.pd, &attr, &end->node.qp), RI_OK);
    EXPECT_STATUS(bed.control.qp_query(end->node.qp, &info), RI_OK);
    end->number = info.qpn;
}

static void begin(void)
{
    struct ri_port_attr port = { .size = sizeof(port) };
    struct ri_ah_attr attr = { .size = sizeof(attr), .hop_limit = 1 };

    bed_open();
    bed_need(RI_FEATURE_UD, "RI_FEATURE_UD");
    EXPECT_STATUS(bed.control.query_port(bed.rnic, &port), RI_OK);
    attr.global = port.link_ethernet;
    attr.destination_lid = port.lid;
    memcpy(attr.destination_gid, port.gid, sizeof(port.gid));
    create(&a);
    create(&b);
    EXPECT_STATUS(bed.control.ah_create(bed.pd, &attr, &way), RI_OK);
}

static void ready(void)
{
    begin();
    EXPECT_STATUS(node_modify(&a.node, RI_QPS_RTS), RI_OK);
    EXPECT_STATUS(node_modify(&b.node, RI_QPS_RTS), RI_OK);
}

static void receive(uint64_t cookie)
{
    struct ri_sge sge = { (uintptr_t)b.memory, RECEIVE, b.keys.lkey };
    struct ri_recv_wr wr = { .cookie = cookie, .sg_list = &sge, .num_sge = 1 }, *bad;

    EXPECT_STATUS(bed.data.post_recv(b.node.qp, &wr, &bad), RI_OK);
}

static enum ri_status post_datagram(uint32_t length, uint32_t qkey, uint64_t cookie)
{
    struct ri_sge sge = { (uintptr_t)a.memory + OCTETS / 2, length, a.keys.lkey };
    struct ri_send_wr wr = { .cookie = cookie,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = RI_WR_SEND,
                             .flags = RI_WR_SIGNALED,
                             .ud = { way, b.number, qkey } };
    struct ri_send_wr *bad = NULL;
    enum ri_status status = bed.data.post_send(a.node.qp, &wr, &bad);

    EXPECT(status == RI_OK || bad == &wr, "post_send answers %s, and *bad is not the request",
           ri_status_name(status));
    return status;
}

static void send_datagram(uint32_t qkey, uint64_t cookie)
{
    EXPECT_STATUS(post_datagram(LENGTH, qkey, cookie), RI_OK);
    expect_wc(a.cq, &a.node, cookie, RI_WC_SEND, RI_WC_SUCCESS);
}

static void carries_datagrams(void)
{
    struct ri_wc wc;

    ready();
    for (uint32_t i = 0; i < LENGTH; i++)
        a.memory[OCTETS / 2 + i] = (uint8_t)pick();
    receive(7);
    send_datagram(QKEY, 1);
    wc = expect_wc(b.cq, &b.node, 7, RI_WC_RECV_DATAGRAM, RI_WC_SUCCESS);
    EXPECT(wc.byte_len == RECEIVE, "the receive of a datagram of %u octets has byte_len %u", LENGTH,
           wc.byte_len);
    EXPECT(!memcmp(b.memory + GRH, a.memory + OCTETS / 2, LENGTH),
           "the message does not stand behind 40 octets");
    EXPECT(wc.source.qpn == a.number, "source.qpn is %u; QP %u has sent", wc.source.qpn, a.number);
}

/* A datagram with another key is lost, and nobody is told; the next one finds the receive. */
static void checks_keys(void)
{
    ready();
    receive(7);
    send_datagram(QKEY ^ 1, 1);
    EXPECT(!UNTIL(bed.data.poll(b.cq, 1, &(struct ri_wc){ .cookie = 0 }), 50),
           "a datagram with another Q_Key is received");
    send_datagram(QKEY, 2);
    expect_wc(b.cq, &b.node, 7, RI_WC_RECV_DATAGRAM, RI_WC_SUCCESS);
    EXPECT(!a.node.events && !b.node.events, "the loss of a datagram is told by an event");
}

static void refuses_long_datagrams(void)
{
    ready();
    if (bed.attr.max_ud_send == UINT32_MAX)
        check_skip("max_ud_send has no beyond");
    EXPECT_STATUS(post_datagram(bed.attr.max_ud_send + 1, QKEY, 1), RI_ERR_LIMIT);
}

static void has_three_states(void)
{
    begin();
    EXPECT(node_modify(&a.node, RI_QPS_CLOSING) != RI_OK, "a UD QP goes to CLOSING");
    EXPECT(node_modify(&a.node, RI_QPS_TERMINATE) != RI_OK, "a UD QP goes to TERMINATE");
    EXPECT_STATUS(post_datagram(LENGTH, QKEY, 1), RI_ERR_INVALID_STATE);
    EXPECT_STATUS(node_modify(&a.node, RI_QPS_RTS), RI_OK);
    EXPECT(node_state(&a.node) == RI_QPS_RTS, "qp_modify to RTS leaves another state");
    EXPECT_STATUS(node_modify(&b.node, RI_QPS_RTS), RI_OK);
    receive(7);
    EXPECT_STATUS(node_modify(&b.node, RI_QPS_ERROR), RI_OK);
    expect_wc(b.cq, &b.node, 7, RI_WC_RECV_DATAGRAM, RI_WC_FLUSHED);
}

static void fails_once(void)
{
    ready();
    a.keys.lkey ^= 0x5a5a5a00;
    EXPECT_STATUS(post_datagram(LENGTH, QKEY, 1), RI_OK);
    expect_wc(a.cq, &a.node, 1, RI_WC_SEND, RI_WC_LOCAL_PROTECTION);
    EXPECT(UNTIL(a.node.events, 5000), "no event comes of a UD QP that fails");
    EXPECT(a.node.type[0] == RI_EVENT_LOCAL_ERROR || a.node.type[0] == RI_EVENT_QP_FATAL,
           "the event of a UD QP that fails is %d", (int)a.node.type[0]);
    EXPECT(node_state(&a.node) == RI_QPS_ERROR, "a UD QP that failed is in state %d",
           (int)node_state(&a.node));
}

/* Groups are those of organizations (RFC 2365, RFC 4291): who else hears nothing of them. */
static void attaches_to_groups(void)
{
    static const uint8_t ipv6[16] = { 0xff, 0x18, [15] = 0x77 };
    static const uint8_t ipv4[16] = { [10] = 0xff, 0xff, 239, 192, 7, 7 };
    struct ri_port_attr port = { .size = sizeof(port) };
    const uint8_t *group;
    struct node other;

    begin();
    bed_need(RI_FEATURE_MULTICAST, "RI_FEATURE_MULTICAST");
    EXPECT_STATUS(bed.control.query_port(bed.rnic, &port), RI_OK);
    group = port.link_ethernet && !memcmp(port.gid, ipv4, 12) ? ipv4 : ipv6;
    node_create(&other, NULL);
    EXPECT_STATUS(bed.control.multicast_attach(other.qp, group, 0), RI_ERR_INVALID_ARGUMENT);
    EXPECT_STATUS(bed.control.multicast_attach(b.node.qp, port.gid, 0), RI_ERR_INVALID_ARGUMENT);
    EXPECT_STATUS(bed.control.multicast_detach(b.node.qp, group, 0), RI_ERR_INVALID_ARGUMENT);
    EXPECT_STATUS(bed.control.multicast_attach(b.node.qp, group, 0), RI_OK);
    EXPECT_STATUS(bed.control.multicast_attach(b.node.qp, group, 0), RI_OK);
    EXPECT(bed.control.qp_destroy(b.node.qp) == RI_ERR_BUSY,
           "{multicast-destroy} a QP that is attached is destroyed");
    EXPECT_STATUS(bed.control.multicast_detach(b.node.qp, group, 0), RI_OK);
    EXPECT_STATUS(bed.control.multicast_detach(b.node.qp, group, 0), RI_ERR_INVALID_ARGUMENT);
    EXPECT_STATUS(bed.control.qp_destroy(b.node.qp), RI_OK);
}

const struct check datagram_checks[] = {
    { "ud-send", "datagram", "a datagram arrives behind 40 octets; the receive says from whom",
      carries_datagrams, 0, NULL },
    { "ud-qkey", "datagram", "a datagram with another Q_Key is lost in silence", checks_keys, 0,
      "ud-send" },
    { "ud-length", "post-bad", "a datagram beyond max_ud_send is refused", refuses_long_datagrams,
      0, "ud-send" },
    { "ud-states", "qp-ud", "a UD QP has the states IDLE, RTS and ERROR", has_three_states, 0,
      NULL },
    { "ud-error", "qp-ud", "the first error takes a UD QP to ERROR, with an event", fails_once, 0,
      "ud-send" },
    { "ud-multicast", "multicast", "a UD QP is attached to groups, once to each",
      attaches_to_groups, 0, NULL },
    { .name = NULL },
};
