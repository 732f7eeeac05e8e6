/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams: UD queue pairs, address handles, and the source of a datagram, on the fake device. */
#include "work.h"

#include "tc.h"

#include <arpa/inet.h>
#include <netinet/ip.h>
#include <sys/mman.h>

#define QKEY 0x77u

static struct fake_record record;
static struct ri_qp *ud;
static struct ri_ah *ah;

static const struct ri_privileged_ops *ops(void)
{
    return &set.host.privileged;
}

static enum ri_status modify(uint32_t mask, enum ri_qp_state state, uint32_t qkey)
{
    const struct ri_qp_modify change = {
        .size = sizeof(change), .mask = mask, .state = state, .qkey = qkey
    };

    return ops()->qp_modify(ud, &change);
}

static struct ri_ah_attr towards(const char *gid)
{
    struct ri_ah_attr attr = { .size = sizeof(attr) };

    ck_assert_int_eq(inet_pton(AF_INET6, gid, attr.destination_gid), 1);
    return attr;
}

static enum ri_status make_qp(uint32_t port, struct ri_srq *srq, struct ri_qp **qp)
{
    struct ri_qp_attr attr = {
        .size = sizeof(attr),
        .type = RI_QP_UD,
        .context = &record,
        .send_cq = set.cq,
        .recv_cq = set.cq,
        .srq = srq,
        .max_send_wr = 4,
        .max_recv_wr = srq ? 0 : 4,
        .max_send_sge = 2,
        .max_recv_sge = 2,
        .port = port,
        .qkey = QKEY,
    };

    return ops()->qp_create(set.pd, &attr, qp);
}

static void setup(void)
{
    struct ri_ah_attr attr = towards("fe80::2");

    work_setup();
    ck_assert_int_eq(make_qp(0, NULL, &ud), RI_OK);
    ck_assert_int_eq(ops()->ah_create(set.pd, &attr, &ah), RI_OK);
}

static void start(void)
{
    ck_assert_int_eq(modify(RI_QPM_STATE, RI_QPS_RTS, 0), RI_OK);
}

static void teardown(void)
{
    ck_assert_int_eq(ops()->ah_destroy(ah), RI_OK);
    ck_assert_int_eq(ops()->qp_destroy(ud), RI_OK);
    work_teardown();
}

static enum ri_qp_state state(void)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    ck_assert_int_eq(ops()->qp_query(ud, &info), RI_OK);
    ck_assert_uint_eq(info.qpn, fake_qp(ud)->ibv.qp_num);
    return info.state;
}

static struct ri_send_wr datagram(const struct ri_sge *sge, uint64_t cookie)
{
    return (struct ri_send_wr){ .cookie = cookie,
                                .sg_list = sge,
                                .num_sge = 1,
                                .opcode = RI_WR_SEND,
                                .flags = RI_WR_SIGNALED,
                                .ud = { .ah = ah, .remote_qpn = 0x123456, .remote_qkey = 0x99 } };
}

/* ---- states ---- */

START_TEST(states)
{
    struct fake_qp *qp = fake_qp(ud);
    uint32_t number = qp->ibv.qp_num;
    struct ri_sge sge = segment(10);
    struct ri_send_wr wr = datagram(&sge, 1);

    ck_assert_int_eq(qp->ibv.qp_type, IBV_QPT_UD);
    ck_assert_int_eq(state(), RI_QPS_IDLE);
    ck_assert_int_eq(qp->state, IBV_QPS_INIT);
    ck_assert_int_eq(qp->last_mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    ck_assert_uint_eq(qp->last.qkey, QKEY);
    ck_assert_uint_eq(qp->last.port_num, 1);
    ck_assert_int_eq(post(ud, &wr), RI_ERR_INVALID_STATE);
    start();
    ck_assert_int_eq(state(), RI_QPS_RTS);
    ck_assert_uint_eq(qp->modified[IBV_QPS_RTR], 1);
    ck_assert_int_eq(qp->state, IBV_QPS_RTS);
    ck_assert_int_eq(qp->last_mask, IBV_QP_STATE | IBV_QP_SQ_PSN);
    ck_assert_int_eq(modify(RI_QPM_STATE, RI_QPS_RTS, 0), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(modify(RI_QPM_STATE, RI_QPS_IDLE, 0), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(post(ud, &wr), RI_OK);
    ck_assert_int_eq(modify(RI_QPM_STATE, RI_QPS_ERROR, 0), RI_OK);
    ck_assert_int_eq(state(), RI_QPS_ERROR);
    ck_assert_int_eq(modify(RI_QPM_STATE, RI_QPS_RTS, 0), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(modify(RI_QPM_STATE, RI_QPS_IDLE, 0), RI_OK);
    flushed(1, RI_WC_SEND);
    ck_assert_uint_eq(fake_qp(ud)->modified[IBV_QPS_RESET], 1);
    ck_assert_int_eq(state(), RI_QPS_IDLE);
    start();
    ck_assert_uint_eq(fake_qp(ud)->ibv.qp_num, number); /* its peers use this number */
    wr.cookie = 2;
    ck_assert_int_eq(post(ud, &wr), RI_OK);
    fake_sent(ud, set.cq, 1, IBV_WC_SUCCESS);
    ck_assert_uint_eq(next().cookie, 2);
}
END_TEST

START_TEST(key_changes_in_every_state)
{
    struct fake_qp *qp = fake_qp(ud);

    ck_assert_int_eq(modify(RI_QPM_QKEY, RI_QPS_IDLE, 5), RI_OK);
    ck_assert_uint_eq(qp->last.qkey, 5);
    start();
    ck_assert_int_eq(modify(RI_QPM_QKEY, RI_QPS_IDLE, 6), RI_OK);
    ck_assert_int_eq(qp->last_mask, IBV_QP_STATE | IBV_QP_QKEY);
    ck_assert_uint_eq(qp->last.qkey, 6);
    fake_fail_call(1, EPERM);
    ck_assert_int_eq(modify(RI_QPM_QKEY, RI_QPS_IDLE, 7), RI_ERR_PERMISSION);
    ck_assert_int_eq(modify(RI_QPM_STATE, RI_QPS_ERROR, 0), RI_OK);
    ck_assert_int_eq(modify(RI_QPM_STATE, RI_QPS_IDLE, 0), RI_OK);
    ck_assert_uint_eq(qp->last.qkey, 6); /* the refused one changed nothing */
    start();
    ck_assert_int_eq(modify(RI_QPM_STATE, RI_QPS_ERROR, 0), RI_OK);
    ck_assert_int_eq(modify(RI_QPM_QKEY, RI_QPS_IDLE, 8), RI_OK);
    ck_assert_int_eq(modify(RI_QPM_STATE, RI_QPS_IDLE, 0), RI_OK);
    ck_assert_uint_eq(qp->last.qkey, 8); /* with the next start */
}
END_TEST

START_TEST(wrong_queue_pairs)
{
    struct ri_qp_modify change = { .size = sizeof(change),
                                   .mask = RI_QPM_FLAGS,
                                   .flags = RI_QP_READ_ENABLE };
    struct ri_qp *other;

    ck_assert_int_eq(make_qp(1, NULL, &other), RI_ERR_INVALID_ARGUMENT); /* only one port */
    ck_assert_int_eq(ops()->qp_modify(ud, &change), RI_ERR_INVALID_ARGUMENT);
    change.mask = RI_QPM_QKEY;
    ck_assert_int_eq(ops()->qp_modify(set.qp, &change), RI_ERR_NOT_SUPPORTED);
    change =
        (struct ri_qp_modify){ .size = sizeof(change), .mask = RI_QPM_STATE, .state = RI_QPS_RTS };
    ck_assert_int_eq(ops()->qp_modify(set.qp, &change), RI_ERR_NOT_SUPPORTED);
}
END_TEST

/* The first error, on either queue, ends the QP once; the other requests are flushed. */
START_TEST(error_makes_it_nonoperational_once)
{
    struct ri_sge sge = segment(10);
    struct ri_send_wr wr = datagram(&sge, 1);
    struct ri_wc wc;

    start();
    ck_assert_int_eq(post(ud, &wr), RI_OK);
    wr.cookie = 2;
    ck_assert_int_eq(post(ud, &wr), RI_OK);
    ck_assert_int_eq(receive(ud, 3, 0), RI_OK);
    if (_i)
        fake_received(ud, set.cq, 0, IBV_WC_LOC_LEN_ERR, 0);
    else
        fake_sent(ud, set.cq, 0, IBV_WC_LOC_QP_OP_ERR);
    wc = next();
    ck_assert_int_eq(wc.status, _i ? RI_WC_LOCAL_LENGTH : RI_WC_LOCAL_QP);
    ck_assert_uint_eq(wc.opcode, _i ? RI_WC_RECV_DATAGRAM : RI_WC_SEND);
    ck_assert_uint_eq(told(&record), 1);
    ck_assert_int_eq(record.type[0], RI_EVENT_LOCAL_ERROR);
    ck_assert_int_eq(state(), RI_QPS_ERROR);
    ck_assert_int_eq(fake_qp(ud)->state, IBV_QPS_ERR);
    fake_sent(ud, set.cq, 1, IBV_WC_WR_FLUSH_ERR);
    flushed(2, RI_WC_SEND);
    if (!_i) {
        fake_received(ud, set.cq, 0, IBV_WC_WR_FLUSH_ERR, 0);
        flushed(3, RI_WC_RECV_DATAGRAM);
    }
    wr.cookie = 4;
    ck_assert_int_eq(post(ud, &wr), RI_OK); /* flushed here, without the device */
    flushed(4, RI_WC_SEND);
    ck_assert_int_eq(receive(ud, 5, 0), RI_OK);
    flushed(5, RI_WC_RECV_DATAGRAM);
    ck_assert_uint_eq(told(&record), 1);
}
END_TEST

START_TEST(error_without_a_poll)
{
    struct ri_sge sge = segment(10);
    struct ri_send_wr wr = datagram(&sge, 1);

    start();
    ck_assert_int_eq(post(ud, &wr), RI_OK);
    fake_sent(ud, set.cq, 0, IBV_WC_LOC_QP_OP_ERR);
    fake_run(&set);
    ck_assert_uint_eq(told(&record), 1);
    ck_assert_int_eq(next().status, RI_WC_LOCAL_QP);
    fake_async(IBV_EVENT_QP_FATAL, &fake_qp(ud)->ibv); /* of a QP that has ended */
    fake_run(&set);
    ck_assert_uint_eq(told(&record), 1);
}
END_TEST

/* ---- sending ---- */

START_TEST(send_is_addressed)
{
    struct ri_sge sge = segment(100);
    struct ri_send_wr wr = datagram(&sge, 11);
    const struct ibv_send_wr *sent = fake_qp(ud)->sent;

    start();
    wr.flags |= RI_WR_SOLICITED;
    ck_assert_int_eq(post(ud, &wr), RI_OK);
    ck_assert_int_eq(sent->opcode, IBV_WR_SEND);
    ck_assert_uint_eq(sent->send_flags, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
    ck_assert_ptr_eq(sent->wr.ud.ah, &fake_ah(ah)->ibv);
    ck_assert_uint_eq(sent->wr.ud.remote_qpn, 0x123456);
    ck_assert_uint_eq(sent->wr.ud.remote_qkey, 0x99);
    ck_assert_uint_eq(fake_qp(ud)->sge[0].length, 100);
    fake_sent(ud, set.cq, 0, IBV_WC_SUCCESS);
    ck_assert_uint_eq(next().byte_len, 100);
    wr.opcode = RI_WR_SEND_IMMEDIATE;
    wr.immediate = 0x1234;
    ck_assert_int_eq(post(ud, &wr), RI_OK);
    ck_assert_int_eq(fake_qp(ud)->sent[1].opcode, IBV_WR_SEND_WITH_IMM);
    ck_assert_uint_eq(fake_qp(ud)->sent[1].imm_data, htobe32(0x1234));
}
END_TEST

START_TEST(wrong_sends)
{
    static const uint16_t others[] = { RI_WR_SEND_INVALIDATE, RI_WR_RDMA_WRITE, RI_WR_RDMA_READ,
                                       RI_WR_ATOMIC_FETCH_ADD };
    struct ri_sge sge = segment(1025);
    struct ri_send_wr wr = datagram(&sge, 1);

    start();
    ck_assert_int_eq(post(ud, &wr), RI_ERR_LIMIT); /* more than a packet holds */
    sge.length = 1024;
    ck_assert_int_eq(post(ud, &wr), RI_OK);
    sge.length = 8;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        wr.opcode = others[i];
        ck_assert_int_eq(post(ud, &wr), RI_ERR_INVALID_ARGUMENT);
    }
    wr.opcode = RI_WR_SEND;
    wr.ud.ah = NULL;
    ck_assert_int_eq(post(ud, &wr), RI_ERR_INVALID_ARGUMENT);
    ck_assert_uint_eq(fake_qp(ud)->sends, 1);
    fake_fail_posts(ENOMEM);
    wr.ud.ah = ah;
    ck_assert_int_eq(post(ud, &wr), RI_ERR_QUEUE_FULL);
}
END_TEST

/* ---- receiving ---- */

static void ipv4_header(uint8_t *octets, const char *source)
{
    struct iphdr ip = { .version = 4, .ihl = 5, .ttl = 64, .protocol = 17 };
    uint32_t sum = 0;
    uint16_t words[10];

    ck_assert_int_eq(inet_pton(AF_INET, source, &ip.saddr), 1);
    memcpy(words, &ip, sizeof(ip));
    for (size_t i = 0; i < 10; i++)
        sum += words[i];
    sum = (sum & 0xffff) + (sum >> 16);
    ip.check = (uint16_t) ~(sum + (sum >> 16));
    memcpy(octets + 20, &ip, sizeof(ip));
}

static void ipv6_header(uint8_t *octets, const char *source)
{
    octets[0] = 0x60;
    ck_assert_int_eq(inet_pton(AF_INET6, source, octets + 8), 1);
}

static void arrive(struct ri_qp *qp, uint64_t wr_id, unsigned int flags)
{
    struct ibv_wc raw = { .wr_id = wr_id,
                          .opcode = IBV_WC_RECV,
                          .byte_len = 140,
                          .qp_num = fake_qp(qp)->ibv.qp_num,
                          .src_qp = 0xabcdef,
                          .wc_flags = flags,
                          .pkey_index = 3,
                          .slid = 0x5678,
                          .sl = 4,
                          .dlid_path_bits = 2 };

    fake_complete(set.cq, &raw);
}

static void from(const struct ri_wc *wc, const char *gid)
{
    uint8_t expected[16];

    ck_assert_int_eq(inet_pton(AF_INET6, gid, expected), 1);
    ck_assert_mem_eq(wc->source_gid, expected, 16);
    ck_assert_int_eq(wc->status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc->opcode, RI_WC_RECV_DATAGRAM);
    ck_assert_uint_eq(wc->byte_len, 140);
    ck_assert_uint_eq(wc->source.qpn, 0xabcdef);
    ck_assert_uint_eq(wc->source.lid, 0x5678);
    ck_assert_uint_eq(wc->source.pkey_index, 3);
    ck_assert_uint_eq(wc->source.sl, 4);
    ck_assert_uint_eq(wc->source.path_bits, 2);
}

/* RoCE over IPv4 leaves any contents in the first 20 octets, even something like the other
 * header. */
START_TEST(source_is_told)
{
    static const char *const gids[] = { "::", "2001:db8::7", "::ffff:192.0.2.5", "::ffff:192.0.2.5",
                                        "2001:db8::4500:0" };
    uint8_t *octets = (uint8_t *)data;
    struct ri_wc wc;

    start();
    if (_i == 1 || _i == 3 || _i == 4)
        ipv6_header(octets, "2001:db8::7");
    if (_i == 2 || _i == 3 || _i == 4)
        ipv4_header(octets, "192.0.2.5");
    if (_i == 4)
        octets[39] ^= 1; /* the header checksum of IPv4 is wrong: this is the end of a GID */
    ck_assert_int_eq(receive(ud, 21, 0), RI_OK);
    arrive(ud, fake_qp(ud)->received[0], _i ? IBV_WC_GRH : 0);
    wc = next();
    ck_assert_uint_eq(wc.cookie, 21);
    ck_assert_uint_eq(wc.flags, _i ? RI_WC_GRH : 0);
    from(&wc, gids[_i]);
}
END_TEST

/* The header spans two elements: it is delivered, but not parsed. Posted before the start, with a
 * mark. */
START_TEST(header_in_pieces)
{
    struct ri_sge sges[2] = { segment(20), segment(200) };
    struct ri_recv_wr wr = { .cookie = 22, .sg_list = sges, .num_sge = 2, .flags = RI_WR_NOTIFY };
    struct ri_recv_wr *bad;
    struct ri_wc wc;

    ipv6_header((uint8_t *)data, "2001:db8::7");
    ck_assert_int_eq(set.host.user.post_recv(ud, &wr, &bad), RI_OK);
    start();
    arrive(ud, fake_qp(ud)->received[0], IBV_WC_GRH);
    wc = next();
    ck_assert_uint_eq(wc.flags, RI_WC_GRH | RI_WC_NOTIFY);
    from(&wc, "::");
}
END_TEST

/* A datagram has arrived when its memory is freed, and then its queue pair is destroyed, before the
 * poll: its memory is not read. */
START_TEST(memory_gone_before_the_queue_pair)
{
    uint8_t *octets = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ri_sge sge = { .addr = (uintptr_t)octets, .length = 200 };
    struct ri_recv_wr wr = { .cookie = 24, .sg_list = &sge, .num_sge = 1 }, *bad;
    struct ri_qp *qp;

    ck_assert_ptr_ne(octets, MAP_FAILED);
    ck_assert_int_eq(make_qp(0, NULL, &qp), RI_OK);
    ipv6_header(octets, "2001:db8::7");
    ck_assert_int_eq(set.host.user.post_recv(qp, &wr, &bad), RI_OK);
    arrive(qp, fake_qp(qp)->received[0], IBV_WC_GRH);
    ck_assert_int_eq(munmap(octets, 4096), 0);
    ck_assert_int_eq(ops()->qp_destroy(qp), RI_OK);
    nothing();
}
END_TEST

START_TEST(receives_of_an_srq)
{
    struct ri_srq_attr attr = { .size = sizeof(attr), .max_wr = 2, .max_sge = 1 };
    struct ri_sge sge = segment(200);
    struct ri_recv_wr wr = { .cookie = 23, .sg_list = &sge, .num_sge = 1 }, *bad;
    struct ri_srq *srq;
    struct ri_qp *qp;
    struct ri_wc wc;

    ck_assert_int_eq(ops()->srq_create(set.pd, &attr, &srq), RI_OK);
    ck_assert_int_eq(make_qp(0, srq, &qp), RI_OK);
    ipv6_header((uint8_t *)data, "2001:db8::7");
    ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_OK);
    arrive(qp, fake_srq(srq)->received[0], IBV_WC_GRH);
    wc = next();
    ck_assert_uint_eq(wc.cookie, 23);
    from(&wc, "2001:db8::7");
    ck_assert_int_eq(ops()->qp_destroy(qp), RI_OK);
    ck_assert_int_eq(ops()->srq_destroy(srq), RI_OK);
}
END_TEST

/* ---- address handles ---- */

static const struct {
    const char *destination, *source; /* NULL: any suitable one */
    int index;                        /* -1: none matches */
} choices[] = {
    { "fe80::2", NULL, 4 },          /* of several equal ones the second version of RoCE */
    { "::ffff:10.0.0.9", NULL, 2 },  /* the longest common prefix */
    { "::ffff:192.0.2.5", NULL, 1 }, /* the only other one of its kind */
    { "2001:db8::5", NULL, 3 },      /* */
    { "fe80::2", "fe80::1", 4 },     /* */
    { "::ffff:10.0.0.9", "::ffff:192.0.2.1", 1 },
    { "fe80::2", "fe80::77", -1 }, /* not of this port */
};

START_TEST(source_of_a_handle)
{
    struct ri_ah_attr attr = towards(choices[_i].destination);
    struct ri_ah *other;

    fake_gid(0, "fe80::1", IBV_GID_TYPE_ROCE_V1);
    fake_gid(1, "::ffff:192.0.2.1", IBV_GID_TYPE_ROCE_V2);
    fake_gid(2, "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2);
    fake_gid(3, "2001:db8::1", IBV_GID_TYPE_ROCE_V2);
    fake_gid(4, "fe80::1", IBV_GID_TYPE_ROCE_V2);
    if (choices[_i].source)
        ck_assert_int_eq(inet_pton(AF_INET6, choices[_i].source, attr.source_gid), 1);
    if (choices[_i].index < 0) {
        ck_assert_int_eq(ops()->ah_create(set.pd, &attr, &other), RI_ERR_UNREACHABLE);
        ck_assert_uint_eq(set.host.logged[RI_LOG_WARNING], 1);
        return;
    }
    ck_assert_int_eq(ops()->ah_create(set.pd, &attr, &other), RI_OK);
    ck_assert_uint_eq(fake_ah(other)->attr.grh.sgid_index, choices[_i].index);
    ck_assert_uint_eq(fake_ah(other)->attr.is_global, 1); /* set or not: it is RoCE */
    ck_assert_uint_eq(fake_ah(other)->attr.grh.hop_limit, 64);
    ck_assert_int_eq(ops()->ah_destroy(other), RI_OK);
}
END_TEST

START_TEST(no_source_of_that_kind)
{
    struct ri_ah_attr attr = towards("::ffff:10.0.0.9");
    struct ri_ah *other;

    ck_assert_int_eq(ops()->ah_create(set.pd, &attr, &other), RI_ERR_UNREACHABLE);
}
END_TEST

START_TEST(handle_is_made_and_changed)
{
    struct ri_ah_attr attr = towards("fe80::3");
    const struct ibv_ah_attr *verbs;
    struct ri_ah *before = ah;

    attr.destination_lid = 0x1234;
    attr.sl = 5;
    attr.path_bits = 1;
    attr.static_rate = 6;
    attr.flow_label = 0xfffff;
    attr.traffic_class = 8;
    attr.hop_limit = 9;
    ck_assert_int_eq(ops()->ah_modify(ah, &attr), RI_OK);
    ck_assert_ptr_eq(ah, before);
    verbs = &fake_ah(ah)->attr;
    ck_assert_mem_eq(verbs->grh.dgid.raw, attr.destination_gid, 16);
    ck_assert_uint_eq(verbs->grh.flow_label, 0xfffff);
    ck_assert_uint_eq(verbs->grh.traffic_class, 8);
    ck_assert_uint_eq(verbs->grh.hop_limit, 9);
    ck_assert_uint_eq(verbs->dlid, 0x1234);
    ck_assert_uint_eq(verbs->sl, 5);
    ck_assert_uint_eq(verbs->src_path_bits, 1);
    ck_assert_uint_eq(verbs->static_rate, 6);
    ck_assert_uint_eq(verbs->port_num, 1);
    ck_assert_int_eq(ops()->pd_destroy(set.pd), RI_ERR_BUSY);
}
END_TEST

/* The device cannot change its handle: the old one stays, and no second one is left. */
START_TEST(handle_cannot_be_changed)
{
    struct ri_ah_attr attr = towards("fe80::5");
    struct fake_ah *before = fake_ah(ah);

    fake_fail_destroy(EBUSY);
    ck_assert_int_eq(ops()->ah_modify(ah, &attr), RI_ERR_BUSY);
    ck_assert_ptr_eq(fake_ah(ah), before);
    fake_fail_destroy(ENODEV); /* of a device that is gone */
    ck_assert_int_eq(ops()->ah_modify(ah, &attr), RI_OK);
    ck_assert_mem_eq(fake_ah(ah)->attr.grh.dgid.raw, attr.destination_gid, 16);
}
END_TEST

static const struct {
    int error;
    enum ri_status status;
} failures[] = {
    { EINVAL, RI_ERR_INVALID_ARGUMENT },
    { ENOMEM, RI_ERR_NO_RESOURCES },
    { ENETUNREACH, RI_ERR_UNREACHABLE },
    { ETIMEDOUT, RI_ERR_UNREACHABLE }, /* nobody answers there */
    { ENETDOWN, RI_ERR_UNREACHABLE },
    { -1, RI_ERR_UNREACHABLE }, /* drivers that do not say */
};

START_TEST(handle_cannot_be_made)
{
    struct ri_ah_attr attr = towards("fe80::4");
    struct ri_ah *other;

    fake_fail_call(1, failures[_i].error);
    ck_assert_int_eq(ops()->ah_create(set.pd, &attr, &other), failures[_i].status);
    fake_fail_call(1, failures[_i].error);
    ck_assert_int_eq(ops()->ah_modify(ah, &attr), failures[_i].status);
    ck_assert_uint_eq(fake_ah(ah)->attr.grh.dgid.raw[15], 2); /* as it was */
    ck_assert_uint_eq(set.host.logged[RI_LOG_WARNING], 2);
}
END_TEST

START_TEST(wrong_handles)
{
    struct ri_ah_attr attr = towards("fe80::4");
    struct ri_ah *other;

    attr.port = 1;
    ck_assert_int_eq(ops()->ah_create(set.pd, &attr, &other), RI_ERR_INVALID_ARGUMENT);
    attr.port = 0;
    attr.flow_label = 0x100000;
    ck_assert_int_eq(ops()->ah_create(set.pd, &attr, &other), RI_ERR_INVALID_ARGUMENT);
    attr = towards("::");
    ck_assert_int_eq(ops()->ah_create(set.pd, &attr, &other), RI_ERR_INVALID_ARGUMENT);
}
END_TEST

/* Within a subnet of InfiniBand a LID is all it takes. */
START_TEST(handle_of_infiniband)
{
    struct ri_ah_attr attr = { .size = sizeof(attr), .destination_lid = 7 };
    struct ri_ah *other;

    fake_infiniband();
    work_setup();
    ck_assert_int_eq(ops()->ah_create(set.pd, &attr, &other), RI_OK);
    ck_assert_uint_eq(fake_ah(other)->attr.is_global, 0);
    ck_assert_uint_eq(fake_ah(other)->attr.dlid, 7);
    ck_assert_int_eq(ops()->ah_destroy(other), RI_OK);
    attr = towards("2001:db8::1");
    attr.global = true;
    ck_assert_int_eq(ops()->ah_create(set.pd, &attr, &other), RI_OK);
    ck_assert_uint_eq(fake_ah(other)->attr.is_global, 1);
    ck_assert_uint_eq(fake_ah(other)->attr.grh.hop_limit, 0); /* the caller's affair */
    ck_assert_int_eq(ops()->ah_destroy(other), RI_OK);
    work_teardown();
}
END_TEST

#define GROUP 0xEF010203u /* 239.1.2.3 */

/* Over the second version of RoCE the host is a member meanwhile: a driver does not see to it. */
START_TEST(group_of_a_queue_pair)
{
    static const uint8_t group[16] = { [10] = 0xff, 0xff, 239, 1, 2, 3 }, own[16] = { 0xfe, 0x80 };
    struct ri_qp *qp;

    if (_i)
        fake_gid(0, "::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V2);
    ck_assert_int_eq(make_qp(0, NULL, &qp), RI_OK);
    ck_assert_int_eq(ops()->multicast_attach(qp, own, 0), RI_ERR_INVALID_ARGUMENT);
    fake_fail_call(1, ENOMEM);
    ck_assert_int_eq(ops()->multicast_attach(qp, group, 7), RI_ERR_NO_RESOURCES);
    ck_assert(!tc_is_member(GROUP));
    ck_assert_int_eq(ops()->multicast_attach(qp, group, 7), RI_OK);
    ck_assert_int_eq(ops()->multicast_attach(qp, group, 7), RI_OK);
    ck_assert_int_eq(tc_is_member(GROUP), _i);
    ck_assert_int_eq(ops()->qp_destroy(qp), RI_ERR_BUSY);
    ck_assert_int_eq(ops()->multicast_detach(qp, group, 8), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(ops()->multicast_detach(qp, group, 7), RI_OK);
    ck_assert_int_eq(ops()->multicast_detach(qp, group, 7), RI_ERR_INVALID_ARGUMENT);
    ck_assert(!tc_is_member(GROUP));
    ck_assert_int_eq(ops()->qp_destroy(qp), RI_OK);
}
END_TEST

START_TEST(second_port)
{
    struct ri_ah_attr attr = towards("fe80::2");
    struct ri_rnic_attr limits = { .size = sizeof(limits) };

    fake_two_ports();
    work_setup();
    ck_assert_int_eq(ops()->query(set.host.rnic, &limits), RI_OK);
    ck_assert_uint_eq(limits.max_ud_send, 512); /* fits a packet of both */
    ck_assert_int_eq(make_qp(2, NULL, &ud), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(make_qp(1, NULL, &ud), RI_OK);
    ck_assert_uint_eq(fake_qp(ud)->last.port_num, 2);
    attr.port = 1;
    ck_assert_int_eq(ops()->ah_create(set.pd, &attr, &ah), RI_OK);
    ck_assert_uint_eq(fake_ah(ah)->attr.port_num, 2);
    teardown();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdmacore_datagram");
    TCase *queues = tc_case(suite, "queue pairs", setup, teardown),
          *handles = tc_case(suite, "handles", setup, teardown);
    TCase *others = tc_case(suite, "other devices", NULL, NULL);

    tc_add_tests(queues, states, key_changes_in_every_state, wrong_queue_pairs);
    tcase_add_loop_test(queues, error_makes_it_nonoperational_once, 0, 2);
    tc_add_tests(queues, error_without_a_poll, send_is_addressed, wrong_sends);
    tcase_add_loop_test(queues, source_is_told, 0, 5);
    tc_add_tests(queues, header_in_pieces, receives_of_an_srq, memory_gone_before_the_queue_pair);
    tcase_add_loop_test(queues, group_of_a_queue_pair, 0, 2);
    tc_add_rows(handles, source_of_a_handle, choices);
    tc_add_tests(handles, no_source_of_that_kind, handle_is_made_and_changed,
                 handle_cannot_be_changed);
    tc_add_rows(handles, handle_cannot_be_made, failures);
    tcase_add_test(handles, wrong_handles);
    tc_add_tests(others, handle_of_infiniband, second_port);
    return tc_main(suite);
}
