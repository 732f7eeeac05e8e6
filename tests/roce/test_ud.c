/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams of the device softroce over the loopback. U-: requirements of the RoCE suite. */
#include "device_bed.h"

#include "base/be.h"
#include "providers/software/roce/codec/bth.h"
#include "providers/software/roce/datagram/datagram.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define A      (&bed[0])
#define B      (&bed[1])
#define HALF   (BED_MEMORY / 2)
#define MOST   4096u
#define SOURCE 5000 /* UDP port of packets by hand */

static struct ri_ah *to_b;

/* --- the bed --- */

static enum ri_status modify(struct end *end, uint32_t mask, enum ri_qp_state state, uint32_t key)
{
    const struct ri_qp_modify modify = {
        .size = sizeof(modify), .mask = mask, .state = state, .qkey = key
    };

    return end->fake.privileged.qp_modify(end->qp, &modify);
}

static enum ri_status to(struct end *end, enum ri_qp_state state)
{
    return modify(end, RI_QPM_STATE, state, 0);
}

static struct ri_ah_attr path_to(const struct end *end)
{
    struct ri_ah_attr path = {
        .size = sizeof(path), .global = true, .hop_limit = 9, .traffic_class = 0xb8
    };

    memcpy(path.destination_gid, end->gid, GID_LEN);
    return path;
}

/* n: as bed_open. Both QPs in RTS, with an address handle from the first to the second. */
static void open_ready(uint32_t n)
{
    struct ri_ah_attr path;

    bed_type = RI_QP_UD;
    bed_open(n, NULL);
    path = path_to(B);
    OK(A->fake.privileged.ah_create(A->pd, &path, &to_b));
    OK(to(A, RI_QPS_RTS));
    OK(to(B, RI_QPS_RTS));
    for (uint32_t i = 0; i < BED_MEMORY; i++)
        A->memory[i] = (uint8_t)(i * 7 + (i >> 8));
}

static void close_ready(void)
{
    OK(A->fake.privileged.ah_destroy(to_b));
    bed_close();
}

static struct ri_send_wr datagram(uint64_t cookie)
{
    return (struct ri_send_wr){ .opcode = RI_WR_SEND,
                                .cookie = cookie,
                                .flags = RI_WR_SIGNALED,
                                .ud = { to_b, B->qpn, BED_KEY } };
}

static void send_one(uint64_t cookie, uint32_t length)
{
    OK(bed_post(A, datagram(cookie), bed_sge(A, 8, length)));
    bed_take(A, A->send_cq, cookie, RI_WC_SUCCESS);
}

static struct ri_wc receive_one(uint64_t cookie, uint32_t length)
{
    struct ri_wc wc = bed_take(B, B->recv_cq, cookie, RI_WC_SUCCESS);

    ck_assert_int_eq(wc.opcode, RI_WC_RECV_DATAGRAM);
    ck_assert_uint_eq(wc.byte_len, UD_GRH + length);
    ck_assert_uint_eq(wc.source.qpn, A->qpn);
    ck_assert(wc.flags & RI_WC_GRH);
    ck_assert_mem_eq(wc.source_gid, A->gid, GID_LEN);
    ck_assert_uint_eq(wc.source.sl, gid_is_ipv4(A->gid) ? 10 : 9);
    return wc;
}

/* --- what arrives --- */

static void check_grh(bool ipv4, uint32_t length)
{
    const uint8_t *grh = B->memory, *ip = B->memory + 20;
    const uint32_t octets = BTH_LEN + BTH_DETH_LEN + length + bth_pad(length) + BTH_ICRC_LEN;
    static const uint8_t zeros[20];
    uint32_t sum = 0;

    if (!ipv4) {                                      /* U-021 */
        ck_assert_uint_eq(be_get32(grh), 0x6ba00000); /* ECT(0) beside the class */
        ck_assert_uint_eq(be_get16(grh + 4), 8 + octets);
        ck_assert_uint_eq(be_get16(grh + 6), 17 << 8 | 9);
        ck_assert_mem_eq(grh + 8, A->gid, GID_LEN);
        ck_assert_mem_eq(grh + 24, B->gid, GID_LEN);
        return;
    }
    ck_assert_mem_eq(grh, zeros, 20); /* U-022, U-023 */
    ck_assert_uint_eq(be_get16(ip), 0x45ba);
    ck_assert_uint_eq(be_get16(ip + 2), 28 + octets);
    ck_assert_uint_eq(be_get32(ip + 4), 0x4000);
    ck_assert_uint_eq(be_get16(ip + 8), 9 << 8 | 17);
    ck_assert_mem_eq(ip + 12, A->gid + GID_IPV4, 4);
    ck_assert_mem_eq(ip + 16, B->gid + GID_IPV4, 4);
    for (int i = 0; i < 20; i += 2)
        sum += be_get16(ip + i);
    ck_assert_uint_eq((sum & 0xFFFF) + (sum >> 16), 0xFFFF);
}

START_TEST(U001_U011_U020_U021_U022_U023_U024_a_datagram_arrives_behind_its_header)
{
    static const uint32_t lengths[] = { 0, 1, 3, 64, 1000, MOST };

    open_ready(_i ? 1 : 0);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        memset(B->memory, 0xee, 8192);
        bed_receive(B, i, bed_sge(B, 0, UD_GRH + MOST));
        send_one(100 + i, lengths[i]);
        receive_one(i, lengths[i]);
        ck_assert_mem_eq(B->memory + UD_GRH, A->memory + 8, lengths[i]);
        ck_assert_uint_eq(B->memory[UD_GRH + lengths[i]], 0xee);
        check_grh(_i, lengths[i]);
    }
    ck_assert_uint_eq(bed_qp_counter(A, "datagrams sent"), 6);
    ck_assert_uint_eq(bed_qp_counter(B, "datagrams received"), 6);
    close_ready();
}
END_TEST

START_TEST(U001_immediate_data_and_the_solicited_bit_arrive)
{
    struct ri_send_wr wr;
    struct ri_wc wc;

    open_ready(1);
    bed_receive(B, 1, bed_sge(B, 0, 200));
    wr = datagram(2);
    wr.opcode = RI_WR_SEND_IMMEDIATE;
    wr.flags |= RI_WR_SOLICITED;
    wr.immediate = 0xcafe0003;
    OK(bed_post(A, wr, bed_sge(A, 8, 100)));
    bed_take(A, A->send_cq, 2, RI_WC_SUCCESS);
    wc = receive_one(1, 100);
    ck_assert(wc.flags & RI_WC_WITH_IMMEDIATE);
    ck_assert(wc.flags & RI_WC_SOLICITED);
    ck_assert_uint_eq(wc.immediate, 0xcafe0003);
    close_ready();
}
END_TEST

/* What a peer of another kind gets on UDP port 4791. PSNs count up, whoever it is for. */
START_TEST(P023_U003_U004_what_is_on_the_wire)
{
    struct share_key key = net_test_key(9);
    struct ri_ah_attr path;
    struct ri_send_wr wr;
    uint8_t octets[TEST_PACKET_MAX];
    struct bth_packet packet;
    uint32_t first = 0;
    int fd;

    open_ready(1);
    fd = plain_socket(&key, GID_UDP_PORT);
    path = path_to(B);
    memcpy(path.destination_gid, key.gid, GID_LEN);
    wr = datagram(1);
    OK(A->fake.privileged.ah_create(A->pd, &path, &wr.ud.ah));
    wr.ud.remote_qpn = 0xABCDEF;
    for (uint32_t i = 0; i < 3; i++) {
        ssize_t len;

        OK(bed_post(A, wr, bed_sge(A, 8, 100)));
        bed_take(A, A->send_cq, 1, RI_WC_SUCCESS);
        len = recv(fd, octets, sizeof(octets), 0);
        ck_assert_int_gt(len, 0);
        ck_assert_int_eq(bth_parse(octets, (uint32_t)len, &packet), BTH_OK);
        first = i ? first : packet.psn;
        ck_assert_uint_eq(packet.psn, (first + 2 * i) & BTH_MASK24);
        ck_assert_uint_eq(packet.dest_qpn, 0xABCDEF);
        ck_assert(!packet.ack_req);
        ck_assert_uint_eq(packet.src_qpn, A->qpn);
        ck_assert_uint_eq(packet.q_key, BED_KEY);
        send_one(2, 8); /* to another one: B has no receive */
    }
    close(fd);
    OK(A->fake.privileged.ah_destroy(wr.ud.ah));
    close_ready();
}
END_TEST

START_TEST(U001_elements_are_gathered_and_scattered)
{
    struct ri_sge from[3] = { { 0 } }, at[3] = { { 0 } };
    struct ri_recv_wr receive = { .cookie = 1, .sg_list = at, .num_sge = 3 }, *bad_receive;
    struct ri_send_wr wr, *bad;

    open_ready(1);
    for (uint32_t i = 0; i < 3; i++) {
        from[i] = bed_sge(A, 1000 * i, 10 + i);
        at[i] = bed_sge(B, 1000 * i, 25);
    }
    OK(B->qp->ops->post_recv(B->qp, &receive, &bad_receive));
    wr = datagram(2);
    wr.sg_list = from;
    wr.num_sge = 3;
    OK(A->qp->ops->post_send(A->qp, &wr, &bad));
    receive_one(1, 33);
    ck_assert_mem_eq(B->memory + 1015, A->memory, 10); /* 40 = 25 + 15 */
    ck_assert_mem_eq(B->memory + 2000, A->memory + 1000, 11);
    ck_assert_mem_eq(B->memory + 2011, A->memory + 2000, 12);
    close_ready();
}
END_TEST

START_TEST(U005_unsignalled_ones_complete_without_a_word)
{
    open_ready(1);
    for (uint64_t i = 1; i <= 500; i++) { /* the queue has 256 places */
        struct ri_send_wr wr = datagram(i);

        wr.flags = i % 100 ? 0 : RI_WR_SIGNALED;
        OK(bed_post(A, wr, bed_sge(A, 0, 64)));
        if (i % 100 == 0)
            bed_take(A, A->send_cq, i, RI_WC_SUCCESS);
    }
    bed_take_none(A, A->send_cq);
    close_ready();
}
END_TEST

/* --- keys --- */

START_TEST(U007_another_key_is_dropped_and_counted)
{
    struct ri_send_wr wr;

    open_ready(1);
    bed_receive(B, 1, bed_sge(B, 0, 200));
    wr = datagram(2);
    wr.ud.remote_qkey ^= 1;
    OK(bed_post(A, wr, bed_sge(A, 8, 100)));
    bed_take(A, A->send_cq, 2, RI_WC_SUCCESS);
    bed_take_none(B, B->recv_cq);
    ck_assert_uint_eq(bed_qp_counter(B, "datagrams with a wrong Q_Key"), 1);
    OK(modify(B, RI_QPM_QKEY, 0, wr.ud.remote_qkey));
    OK(bed_post(A, wr, bed_sge(A, 8, 100)));
    receive_one(1, 100);
    close_ready();
}
END_TEST

START_TEST(U006_a_key_with_bit_31_stands_for_that_of_the_QP)
{
    struct ri_send_wr wr;

    open_ready(1);
    bed_receive(B, 1, bed_sge(B, 0, 200));
    wr = datagram(2);
    wr.ud.remote_qkey = 0x80000000;
    OK(bed_post(A, wr, bed_sge(A, 8, 100)));
    receive_one(1, 100);
    close_ready();
}
END_TEST

START_TEST(U008_keys_with_bit_31_are_for_the_privileged)
{
    struct ri_qp_attr attr = { .size = sizeof(attr), .type = RI_QP_UD, .qkey = 0x80000001 };
    struct ri_qp *qp;

    open_ready(1);
    attr.send_cq = attr.recv_cq = A->send_cq;
    ck_assert_int_eq(A->fake.privileged.qp_create(A->pd, &attr, &qp), RI_ERR_PERMISSION);
    ck_assert_int_eq(modify(A, RI_QPM_QKEY, 0, 0x80000001), RI_ERR_PERMISSION);
    close_ready();
}
END_TEST

/* --- receives --- */

START_TEST(U010_without_a_receive_it_is_dropped_and_counted)
{
    open_ready(1);
    send_one(1, 100);
    bed_take_none(B, B->recv_cq);
    ck_assert_uint_eq(bed_qp_counter(B, "datagrams without a receive"), 1);
    bed_receive(B, 2, bed_sge(B, 0, 200));
    bed_take_none(B, B->recv_cq);
    send_one(3, 50);
    receive_one(2, 50);
    close_ready();
}
END_TEST

START_TEST(U010_a_receive_that_is_too_short_fails_alone)
{
    struct ri_wc wc;

    open_ready(1);
    memset(B->memory, 0xee, 4096);
    bed_receive(B, 1, bed_sge(B, 0, UD_GRH + 99));
    bed_receive(B, 2, bed_sge(B, 1000, UD_GRH + 100));
    send_one(3, 100);
    wc = bed_take(B, B->recv_cq, 1, RI_WC_LOCAL_LENGTH);
    ck_assert_int_eq(wc.opcode, RI_WC_RECV_DATAGRAM);
    ck_assert_uint_eq(B->memory[0], 0xee);
    send_one(4, 100);
    receive_one(2, 100);
    ck_assert_int_eq(bed_state(B), RI_QPS_RTS);
    ck_assert_uint_eq(bed_qp_counter(B, "datagrams longer than the receive"), 1);
    close_ready();
}
END_TEST

START_TEST(U010_a_receive_whose_memory_is_gone_ends_the_QP)
{
    struct ri_sge sge;

    open_ready(1);
    sge = bed_sge(B, 0, 200);
    sge.lkey ^= 0x5a5a00;
    bed_receive(B, 1, sge);
    bed_receive(B, 2, bed_sge(B, 0, 200));
    send_one(3, 100);
    bed_take(B, B->recv_cq, 1, RI_WC_LOCAL_PROTECTION);
    bed_take(B, B->recv_cq, 2, RI_WC_FLUSHED);
    bed_await_event(B, RI_EVENT_LOCAL_ERROR);
    close_ready();
}
END_TEST

START_TEST(U010_QPs_share_receives)
{
    struct ri_srq_attr attr = { .size = sizeof(attr), .max_wr = 8, .max_sge = 2 };
    struct ri_qp_attr qp = { .size = sizeof(qp),
                             .type = RI_QP_UD,
                             .context = &B->events,
                             .max_send_wr = 4,
                             .max_send_sge = 1,
                             .qkey = BED_KEY };
    struct ri_qp_info info = { .size = sizeof(info) };
    struct ri_sge sge;
    struct ri_recv_wr wr = { .cookie = 1, .sg_list = &sge, .num_sge = 1 }, *bad;
    struct ri_srq *srq;
    struct ri_wc wc;

    open_ready(1);
    OK(B->fake.privileged.qp_destroy(B->qp));
    OK(B->fake.privileged.srq_create(B->pd, &attr, &srq));
    qp.send_cq = B->send_cq;
    qp.recv_cq = B->recv_cq;
    qp.lane = B->fake.lane;
    qp.srq = srq;
    OK(B->fake.privileged.qp_create(B->pd, &qp, &B->qp));
    OK(B->fake.privileged.qp_query(B->qp, &info));
    B->qpn = info.qpn;
    OK(to(B, RI_QPS_RTS));
    sge = bed_sge(B, 0, 200);
    OK(B->fake.user.post_srq_recv(srq, &wr, &bad));
    send_one(3, 100);
    wc = receive_one(1, 100);
    ck_assert_mem_eq(B->memory + UD_GRH, A->memory + 8, 100);
    (void)wc;
    OK(B->fake.privileged.qp_destroy(B->qp));
    B->qp = NULL;
    OK(B->fake.privileged.srq_destroy(srq));
    close_ready();
}
END_TEST

/* --- limits, states --- */

START_TEST(U002_what_is_longer_than_the_MTU_is_refused_at_the_post)
{
    struct ri_rnic_attr attr = { .size = sizeof(attr) };

    open_ready(1);
    OK(A->fake.privileged.query(A->fake.rnic, &attr));
    ck_assert_uint_eq(attr.max_ud_send, MOST);
    ck_assert_int_eq(bed_post(A, datagram(1), bed_sge(A, 0, MOST + 1)), RI_ERR_LIMIT);
    send_one(2, MOST);
    close_ready();
}
END_TEST

START_TEST(U012_other_operations_and_flags_are_refused)
{
    struct ri_send_wr wr;

    open_ready(1);
    for (uint16_t opcode = 0; opcode <= RI_WR_FAST_REGISTER; opcode++) {
        if (opcode == RI_WR_SEND || opcode == RI_WR_SEND_IMMEDIATE)
            continue;
        wr = datagram(1);
        wr.opcode = opcode;
        ck_assert_int_eq(bed_post(A, wr, bed_sge(A, 0, 8)), RI_ERR_INVALID_ARGUMENT);
    }
    wr = datagram(1);
    wr.flags |= RI_WR_READ_FENCE;
    ck_assert_int_eq(bed_post(A, wr, bed_sge(A, 0, 8)), RI_ERR_INVALID_ARGUMENT);
    wr = datagram(1);
    wr.ud.ah = NULL;
    ck_assert_int_eq(bed_post(A, wr, bed_sge(A, 0, 8)), RI_ERR_INVALID_ARGUMENT);
    wr = datagram(1);
    wr.ud.remote_qpn = 1u << 24;
    ck_assert_int_eq(bed_post(A, wr, bed_sge(A, 0, 8)), RI_ERR_INVALID_ARGUMENT);
    close_ready();
}
END_TEST

START_TEST(U012_IDLE_sends_nothing_and_receives_wait_there)
{
    bed_type = RI_QP_UD;
    open_ready(1);
    for (int life = 0; life < 3; life++) {
        OK(to(B, RI_QPS_ERROR));
        OK(to(B, RI_QPS_IDLE));
        ck_assert_int_eq(bed_state(B), RI_QPS_IDLE);
        ck_assert_int_eq(bed_post(B, datagram(9), bed_sge(B, 0, 8)), RI_ERR_INVALID_STATE);
        bed_receive(B, 1, bed_sge(B, 0, 200));
        send_one(2, 100);
        bed_take_none(B, B->recv_cq);
        OK(to(B, RI_QPS_RTS));
        ck_assert_int_eq(to(B, RI_QPS_RTS), RI_ERR_INVALID_STATE);
        send_one(3, 100);
        receive_one(1, 100);
    }
    close_ready();
}
END_TEST

START_TEST(U012_ERROR_flushes_both_queues)
{
    open_ready(1);
    bed_receive(B, 1, bed_sge(B, 0, 200));
    OK(to(B, RI_QPS_ERROR));
    bed_take(B, B->recv_cq, 1, RI_WC_FLUSHED);
    OK(to(A, RI_QPS_ERROR));
    OK(bed_post(A, datagram(2), bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 2, RI_WC_FLUSHED);
    ck_assert_int_eq(to(A, RI_QPS_CLOSING), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(to(A, RI_QPS_INIT), RI_ERR_INVALID_STATE);
    close_ready();
}
END_TEST

START_TEST(U012_memory_that_is_not_usable_ends_the_sender)
{
    struct ri_sge sge;

    open_ready(1);
    sge = bed_sge(A, 0, 100);
    sge.lkey ^= 0x5a5a00;
    OK(bed_post(A, datagram(1), sge));
    bed_take(A, A->send_cq, 1, RI_WC_LOCAL_PROTECTION);
    bed_await_event(A, RI_EVENT_LOCAL_ERROR);
    ck_assert_int_eq(bed_state(A), RI_QPS_ERROR);
    OK(bed_post(A, datagram(2), bed_sge(A, 0, 100)));
    bed_take(A, A->send_cq, 2, RI_WC_FLUSHED);
    close_ready();
}
END_TEST

/* --- address handles --- */

START_TEST(U030_U031_what_an_address_handle_needs)
{
    struct ri_ah_attr path;
    struct ri_ah *ah;

    open_ready(1);
    path = path_to(B);
    path.global = false;
    ck_assert_int_eq(A->fake.privileged.ah_create(A->pd, &path, &ah), RI_ERR_INVALID_ARGUMENT);
    path = path_to(B);
    path.port = 1;
    ck_assert_int_eq(A->fake.privileged.ah_create(A->pd, &path, &ah), RI_ERR_INVALID_ARGUMENT);
    path = path_to(B);
    path.source_gid[15] = 77; /* no address of this host's */
    ck_assert_int_eq(A->fake.privileged.ah_create(A->pd, &path, &ah), RI_ERR_UNREACHABLE);
    ck_assert_uint_eq(bed_counter(A, "address handles"), 1);
    close_ready();
}
END_TEST

START_TEST(U030_a_handle_that_is_changed_leads_elsewhere)
{
    struct ri_ah_attr path;

    open_ready(1);
    bed_receive(B, 1, bed_sge(B, 0, 200));
    path = path_to(B);
    path.destination_gid[15] = 2; /* 127.0.0.2: nobody's */
    OK(A->fake.privileged.ah_modify(to_b, &path));
    send_one(2, 100);
    bed_take_none(B, B->recv_cq);
    path = path_to(B);
    OK(A->fake.privileged.ah_modify(to_b, &path));
    send_one(3, 100);
    receive_one(1, 100);
    close_ready();
}
END_TEST

START_TEST(U033_a_handle_of_another_PD_is_refused)
{
    struct ri_ah_attr path;
    struct ri_send_wr wr;
    struct ri_pd *pd;

    open_ready(1);
    OK(A->fake.privileged.pd_create(A->fake.rnic, NULL, &pd));
    path = path_to(B);
    wr = datagram(1);
    OK(A->fake.privileged.ah_create(pd, &path, &wr.ud.ah));
    ck_assert_int_eq(A->fake.privileged.pd_destroy(pd), RI_ERR_BUSY);
    ck_assert_int_eq(bed_post(A, wr, bed_sge(A, 0, 8)), RI_ERR_INVALID_ARGUMENT);
    OK(A->fake.privileged.ah_destroy(wr.ud.ah));
    OK(A->fake.privileged.pd_destroy(pd));
    close_ready();
}
END_TEST

/* To a QP of the same RNIC: the one that sends. */
START_TEST(U009_a_QP_hears_itself)
{
    struct ri_send_wr wr;
    struct ri_recv_wr receive = { .cookie = 1, .num_sge = 1 }, *bad;
    struct ri_sge sge;

    open_ready(1);
    sge = bed_sge(A, HALF, 200);
    receive.sg_list = &sge;
    OK(A->qp->ops->post_recv(A->qp, &receive, &bad));
    wr = datagram(2);
    wr.ud.remote_qpn = A->qpn;
    OK(bed_post(A, wr, bed_sge(A, 8, 100)));
    ck_assert_uint_eq(bed_take(A, A->recv_cq, 1, RI_WC_SUCCESS).source.qpn, A->qpn);
    ck_assert_mem_eq(A->memory + HALF + UD_GRH, A->memory + 8, 100);
    close_ready();
}
END_TEST

/* --- hostile packets --- */

struct hand {
    int fd;
    struct share_key from, to;
};

static void finish_by_hand(const struct hand *hand, uint8_t *octets, uint32_t len)
{
    struct icrc_path path;

    icrc_path_init(&path, hand->from.gid, hand->to.gid, SOURCE);
    icrc_put(octets + len - BTH_ICRC_LEN, icrc_of_packet(&path, 0, octets, len));
    plain_send(hand->fd, &hand->to, octets, len);
}

static void by_hand(const struct hand *hand, const struct bth_packet *packet, uint32_t cut,
                    int32_t pad)
{
    uint8_t octets[TEST_PACKET_MAX] = { 0 };
    uint32_t len = bth_put(octets, packet) + packet->payload_len + bth_pad(packet->payload_len) +
                   BTH_ICRC_LEN - cut;

    if (pad >= 0)
        octets[1] = (uint8_t)((octets[1] & ~BTH_PAD) | pad << 4);
    finish_by_hand(hand, octets, len);
}

static void by_hand_as(const struct hand *hand, const struct bth_packet *packet, uint8_t opcode)
{
    uint8_t octets[TEST_PACKET_MAX] = { 0 };
    uint32_t len = bth_put(octets, packet) + packet->payload_len + bth_pad(packet->payload_len) +
                   BTH_ICRC_LEN;

    octets[0] = opcode;
    finish_by_hand(hand, octets, len);
}

static struct bth_packet good_packet(void)
{
    return (struct bth_packet){ .opcode = BTH_UD | BTH_SEND_ONLY,
                                .p_key = BTH_P_KEY,
                                .dest_qpn = B->qpn,
                                .q_key = BED_KEY,
                                .src_qpn = 0x123456,
                                .payload_len = 100 };
}

static struct hand open_hand(void)
{
    struct hand hand = { .from = net_test_key(3), .to = net_test_key(1) };

    hand.fd = plain_socket(&hand.from, SOURCE);
    return hand;
}

START_TEST(U007_U009_U010_bad_packets_take_no_receive)
{
    struct bth_packet packet;
    struct hand hand;
    struct ri_wc wc;

    open_ready(1);
    hand = open_hand();
    bed_receive(B, 1, bed_sge(B, 0, 8192));
    packet = good_packet();
    packet.q_key++;
    by_hand(&hand, &packet, 0, -1);
    packet = good_packet();
    packet.dest_qpn ^= 0x800000; /* unknown */
    by_hand(&hand, &packet, 0, -1);
    packet = good_packet();
    packet.payload_len = 0;
    by_hand(&hand, &packet, 4, -1); /* half a DETH */
    packet.opcode = BTH_UD | BTH_SEND_ONLY_IMM;
    by_hand(&hand, &packet, 4, -1); /* no immediate data */
    by_hand(&hand, &packet, 0, 3);  /* a pad of nothing */
    packet = good_packet();
    packet.p_key = 0x7FFE;
    by_hand(&hand, &packet, 0, -1);
    for (int service = 0; service < 2; service++) { /* RC, UC */
        packet = good_packet();
        packet.opcode = (uint8_t)(service * BTH_UC | BTH_SEND_ONLY);
        by_hand(&hand, &packet, 0, -1);
        packet.opcode = (uint8_t)(service * BTH_UC | BTH_WRITE_ONLY);
        by_hand(&hand, &packet, 0, -1);
    }
    for (uint32_t n = 0; n < 0x20; n++) { /* opcodes that UD has not */
        packet = good_packet();
        if (n != BTH_SEND_ONLY && n != BTH_SEND_ONLY_IMM)
            by_hand_as(&hand, &packet, (uint8_t)(BTH_UD | n));
    }
    bed_take_none(B, B->recv_cq);
    packet = good_packet();
    by_hand(&hand, &packet, 0, -1);
    wc = bed_take(B, B->recv_cq, 1, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.source.qpn, 0x123456);
    ck_assert_mem_eq(wc.source_gid, hand.from.gid, GID_LEN);
    ck_assert_uint_eq(bed_qp_counter(B, "datagrams with a wrong Q_Key"), 1);
    ck_assert_uint_ge(bed_qp_counter(B, "datagrams that are malformed"), 2);
    ck_assert_int_eq(bed_state(B), RI_QPS_RTS);
    close(hand.fd);
    close_ready();
}
END_TEST

/* Longer than any MTU: no port of this kind sends it, and the receive would have room. */
START_TEST(U001_what_is_longer_than_4096_octets_is_dropped)
{
    struct bth_packet packet;
    struct hand hand;

    open_ready(1);
    hand = open_hand();
    bed_receive(B, 1, bed_sge(B, 0, 8192));
    packet = good_packet();
    packet.payload_len = MOST + 4;
    by_hand(&hand, &packet, 0, -1);
    bed_take_none(B, B->recv_cq);
    packet.payload_len = MOST;
    by_hand(&hand, &packet, 0, -1);
    bed_take(B, B->recv_cq, 1, RI_WC_SUCCESS);
    close(hand.fd);
    close_ready();
}
END_TEST

/* A connected QP hears no datagrams. */
START_TEST(R060_a_datagram_to_a_connected_QP_is_dropped)
{
    struct bth_packet packet;
    struct hand hand;

    bed_type = RI_QP_RC;
    bed_open(1, NULL);
    bed_connect();
    hand = open_hand();
    hand.from = net_test_key(1);
    close(hand.fd);
    hand.fd = plain_socket(&hand.from, SOURCE);
    bed_receive(B, 1, bed_sge(B, 0, 8192));
    packet = good_packet();
    by_hand(&hand, &packet, 0, -1);
    bed_take_none(B, B->recv_cq);
    close(hand.fd);
    bed_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ud");
    TCase *arrival = tc_case(suite, "arrival", NULL, NULL);
    TCase *keys = tc_case(suite, "keys", NULL, NULL);
    TCase *receives = tc_case(suite, "receives", NULL, NULL);
    TCase *states = tc_case(suite, "states", NULL, NULL);
    TCase *handles = tc_case(suite, "handles", NULL, NULL);
    TCase *hostile = tc_case(suite, "hostile", NULL, NULL);

    tcase_add_loop_test(
        arrival, U001_U011_U020_U021_U022_U023_U024_a_datagram_arrives_behind_its_header, 0, 2);
    tc_add_tests(arrival, P023_U003_U004_what_is_on_the_wire,
                 U001_immediate_data_and_the_solicited_bit_arrive,
                 U001_elements_are_gathered_and_scattered,
                 U005_unsignalled_ones_complete_without_a_word, U009_a_QP_hears_itself);
    tc_add_tests(keys, U007_another_key_is_dropped_and_counted,
                 U006_a_key_with_bit_31_stands_for_that_of_the_QP,
                 U008_keys_with_bit_31_are_for_the_privileged);
    tc_add_tests(receives, U010_without_a_receive_it_is_dropped_and_counted,
                 U010_a_receive_that_is_too_short_fails_alone,
                 U010_a_receive_whose_memory_is_gone_ends_the_QP, U010_QPs_share_receives);
    tc_add_tests(states, U002_what_is_longer_than_the_MTU_is_refused_at_the_post,
                 U012_other_operations_and_flags_are_refused,
                 U012_IDLE_sends_nothing_and_receives_wait_there, U012_ERROR_flushes_both_queues,
                 U012_memory_that_is_not_usable_ends_the_sender);
    tc_add_tests(handles, U030_U031_what_an_address_handle_needs,
                 U030_a_handle_that_is_changed_leads_elsewhere,
                 U033_a_handle_of_another_PD_is_refused);
    tc_add_tests(hostile, U007_U009_U010_bad_packets_take_no_receive,
                 U001_what_is_longer_than_4096_octets_is_dropped,
                 R060_a_datagram_to_a_connected_QP_is_dropped);
    return tc_main(suite);
}
