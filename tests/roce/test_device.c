/* SPDX-License-Identifier: BSD-3-Clause */
/* The device softroce over the loopback: operations, states, errors, ends. */
#include "device_bed.h"

#include "base/be.h"
#include "providers/software/roce/codec/bth.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define A    (&bed[0])
#define B    (&bed[1])
#define HALF (BED_MEMORY / 2)

static void fill(uint64_t seed)
{
    struct tc_rng rng = tc_rng(seed);

    tc_fill(&rng, A->memory, BED_MEMORY);
    tc_fill(&rng, B->memory, BED_MEMORY);
}

static struct ri_send_wr request(enum ri_wr_opcode opcode, uint64_t cookie)
{
    struct ri_send_wr wr = { .opcode = (uint16_t)opcode,
                             .cookie = cookie,
                             .flags = RI_WR_SIGNALED,
                             .immediate = 0x01020304 };

    if (opcode == RI_WR_ATOMIC_FETCH_ADD || opcode == RI_WR_ATOMIC_COMPARE_SWAP) {
        wr.atomic.remote_addr = (uintptr_t)B->memory + HALF;
        wr.atomic.rkey = B->keys.rkey;
    } else {
        wr.rdma.remote_addr = (uintptr_t)B->memory + HALF;
        wr.rdma.rkey = B->keys.rkey;
    }
    return wr;
}

/* Else by the wire local (tests/roce/local.tap). */
static bool is_by_udp(void)
{
    return !strcmp(bed_info(A).wire, "udp");
}

/* --- operations --- */

static void send_one(uint32_t length, bool immediate)
{
    struct ri_wc wc;

    bed_receive(B, 2, bed_sge(B, 0, length ? length : 1));
    OK(bed_post(A, request(immediate ? RI_WR_SEND_IMMEDIATE : RI_WR_SEND, 1),
                bed_sge(A, 8, length)));
    bed_take(A, A->send_cq, 1, RI_WC_SUCCESS);
    wc = bed_take(B, B->recv_cq, 2, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.byte_len, length);
    ck_assert_int_eq(!!(wc.flags & RI_WC_WITH_IMMEDIATE), immediate);
    if (immediate)
        ck_assert_uint_eq(wc.immediate, 0x01020304);
    ck_assert_mem_eq(A->memory + 8, B->memory, length);
}

static void write_one(uint32_t length, bool immediate)
{
    if (immediate)
        bed_receive(B, 4, bed_sge(B, 0, 1));
    OK(bed_post(A, request(immediate ? RI_WR_RDMA_WRITE_IMMEDIATE : RI_WR_RDMA_WRITE, 3),
                bed_sge(A, 16, length)));
    bed_take(A, A->send_cq, 3, RI_WC_SUCCESS);
    if (immediate)
        ck_assert_uint_eq(bed_take(B, B->recv_cq, 4, RI_WC_SUCCESS).immediate, 0x01020304);
    ck_assert_mem_eq(A->memory + 16, B->memory + HALF, length);
}

static void read_one(uint32_t length)
{
    OK(bed_post(A, request(RI_WR_RDMA_READ, 5), bed_sge(A, 32, length)));
    bed_take(A, A->send_cq, 5, RI_WC_SUCCESS);
    ck_assert_mem_eq(A->memory + 32, B->memory + HALF, length);
}

static void atomics(void)
{
    struct ri_send_wr add = request(RI_WR_ATOMIC_FETCH_ADD, 6),
                      swap = request(RI_WR_ATOMIC_COMPARE_SWAP, 7);
    uint64_t *at = (uint64_t *)(void *)(B->memory + HALF), *got = (uint64_t *)(void *)A->memory;

    *at = 1000;
    add.atomic.swap_or_add = 23;
    OK(bed_post(A, add, bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 6, RI_WC_SUCCESS);
    ck_assert_uint_eq(*got, 1000);
    ck_assert_uint_eq(*at, 1023);
    swap.atomic.compare = 1023;
    swap.atomic.swap_or_add = 5;
    OK(bed_post(A, swap, bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 7, RI_WC_SUCCESS);
    ck_assert_uint_eq(*got, 1023);
    ck_assert_uint_eq(*at, 5);
}

static const struct {
    uint32_t address, mtu;
} ways[] = { { 1, 256 }, { 1, 512 }, { 1, 1024 }, { 1, 2048 }, { 1, 4096 },
             { 0, 256 }, { 0, 512 }, { 0, 1024 }, { 0, 2048 }, { 0, 4096 } };
#define WAYS 10

START_TEST(every_operation_carries)
{
    static const uint32_t lengths[] = { 0, 1, 255, 256, 4096, 4097, 100003 };

    bed_open(ways[_i].address, NULL);
    A->mtu = B->mtu = ways[_i].mtu;
    bed_connect();
    fill(1);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        send_one(lengths[i], false);
        send_one(lengths[i], true);
        write_one(lengths[i], false);
        write_one(lengths[i], true);
        read_one(lengths[i]);
    }
    atomics();
    ck_assert_uint_eq(bed_counter(A, "packets with a wrong ICRC"), 0);
    ck_assert_uint_eq(bed_counter(B, "packets with a wrong ICRC"), 0);
    bed_close();
}
END_TEST

/* --- states --- */

START_TEST(R061_a_receive_of_INIT_takes_what_comes_in_RTR_and_it_is_told)
{
    bed_open(1, NULL);
    for (enum ri_qp_state state = RI_QPS_INIT; state <= RI_QPS_RTR; state++) {
        OK(bed_to(A, state));
        OK(bed_to(B, state));
        if (state == RI_QPS_INIT)
            bed_receive(B, 2, bed_sge(B, 0, 64));
    }
    OK(bed_to(A, RI_QPS_RTS));
    ck_assert_int_eq(bed_post(B, request(RI_WR_SEND, 9), bed_sge(B, 0, 8)), RI_ERR_INVALID_STATE);
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 64)));
    bed_take(B, B->recv_cq, 2, RI_WC_SUCCESS);
    bed_take(A, A->send_cq, 1, RI_WC_SUCCESS);
    bed_await_event(B, RI_EVENT_COMMUNICATION_ESTABLISHED);
    ck_assert_uint_eq(bed_events(B, RI_EVENT_COMMUNICATION_ESTABLISHED), 1);
    ck_assert_int_eq(bed_state(B), RI_QPS_RTR);
    OK(bed_to(B, RI_QPS_RTS));
    bed_receive(A, 3, bed_sge(A, 0, 64));
    OK(bed_post(B, request(RI_WR_SEND, 4), bed_sge(B, 0, 64)));
    bed_take(A, A->recv_cq, 3, RI_WC_SUCCESS);
    bed_close();
}
END_TEST

static bool is_draining(const struct end *end)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    OK(end->fake.privileged.qp_query(end->qp, &info));
    ck_assert_int_eq(info.state, RI_QPS_SQD);
    return info.draining;
}

/* The first Send has begun and finds no receive; the second waits until the QP is in RTS again. */
START_TEST(R084_SQD_ends_what_was_begun_and_holds_the_rest)
{
    bed_open(1, NULL);
    bed_connect();
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 5000)));
    OK(bed_to(A, RI_QPS_SQD));
    OK(bed_post(A, request(RI_WR_SEND, 2), bed_sge(A, 0, 64)));
    bed_take_none(A, A->send_cq);
    ck_assert_uint_eq(bed_events(A, RI_EVENT_SEND_QUEUE_DRAINED), 0);
    ck_assert(is_draining(A));
    bed_receive(B, 3, bed_sge(B, 0, 5000));
    bed_receive(B, 4, bed_sge(B, 0, 5000));
    bed_take(A, A->send_cq, 1, RI_WC_SUCCESS);
    bed_take(B, B->recv_cq, 3, RI_WC_SUCCESS);
    bed_await_event(A, RI_EVENT_SEND_QUEUE_DRAINED);
    ck_assert(!is_draining(A));
    bed_take_none(B, B->recv_cq);
    OK(bed_to(A, RI_QPS_RTS));
    bed_take(A, A->send_cq, 2, RI_WC_SUCCESS);
    bed_take(B, B->recv_cq, 4, RI_WC_SUCCESS);
    ck_assert_uint_eq(bed_events(A, RI_EVENT_SEND_QUEUE_DRAINED), 1);
    bed_close();
}
END_TEST

START_TEST(a_reset_QP_forgets_and_begins_anew)
{
    bed_open(1, NULL);
    for (uint32_t life = 0; life < 5; life++) {
        A->psn = life * 0x333333;
        bed_connect();
        fill(life);
        send_one(3000, false);
        for (uint64_t i = 0; i < 200; i++) /* all slots but some */
            bed_receive(A, i, bed_sge(A, 0, 8));
        OK(bed_post(A, request(RI_WR_SEND, 77), bed_sge(A, 0, 100))); /* waits for a receive */
        bed_take_none(A, A->send_cq);
        OK(bed_to(A, RI_QPS_IDLE));
        OK(bed_to(B, RI_QPS_IDLE));
        bed_take_none(A, A->send_cq);
        bed_take_none(A, A->recv_cq);
        ck_assert_int_eq(bed_state(A), RI_QPS_IDLE);
    }
    ck_assert_uint_eq(atomic_load(&A->events.count), 0);
    bed_close();
}
END_TEST

START_TEST(a_number_rests_when_its_QP_is_destroyed)
{
    uint32_t first;

    bed_open(1, NULL);
    first = A->qpn;
    for (int i = 0; i < 20; i++) {
        struct ri_qp_attr attr = { .size = sizeof(attr),
                                   .type = RI_QP_RC,
                                   .lane = A->fake.lane,
                                   .send_cq = A->send_cq,
                                   .recv_cq = A->recv_cq };
        struct ri_qp_info info = { .size = sizeof(info) };
        struct ri_qp *qp;

        OK(A->fake.privileged.qp_create(A->pd, &attr, &qp));
        OK(A->fake.privileged.qp_query(qp, &info));
        ck_assert_uint_ne(info.qpn, first);
        ck_assert_uint_ne(info.qpn, B->qpn);
        first = info.qpn;
        OK(A->fake.privileged.qp_destroy(qp));
    }
    bed_close();
}
END_TEST

/* --- errors --- */

START_TEST(R083_a_wrong_key_ends_both)
{
    struct ri_send_wr wr = request(_i ? RI_WR_RDMA_READ : RI_WR_RDMA_WRITE, 1);

    bed_open(1, NULL);
    wr = request(_i ? RI_WR_RDMA_READ : RI_WR_RDMA_WRITE, 1);
    wr.rdma.rkey ^= 0x5a5a5a00;
    bed_connect();
    fill(3);
    bed_receive(B, 2, bed_sge(B, 0, 8));
    OK(bed_post(A, wr, bed_sge(A, 0, 3000)));
    OK(bed_post(A, request(RI_WR_SEND, 3), bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 1, RI_WC_REMOTE_ACCESS);
    bed_take(A, A->send_cq, 3, RI_WC_FLUSHED);
    bed_take(B, B->recv_cq, 2, RI_WC_FLUSHED);
    bed_await_event(B, _i ? RI_EVENT_READ_ACCESS : RI_EVENT_WRITE_ACCESS);
    ck_assert_int_eq(bed_state(A), RI_QPS_ERROR);
    ck_assert_int_eq(bed_state(B), RI_QPS_ERROR);
    ck_assert_uint_eq(bed_counter(B, "access errors of peers"), 1);
    bed_close();
}
END_TEST

START_TEST(a_receiver_that_is_not_ready)
{
    bed_open(1, NULL);
    A->rnr_retry = 2;
    bed_connect();
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 1, RI_WC_RNR);
    ck_assert_int_eq(bed_state(A), RI_QPS_ERROR);
    ck_assert_int_eq(bed_state(B), RI_QPS_RTS); /* it hears of nothing */
    bed_close();
}
END_TEST

START_TEST(a_peer_that_is_gone)
{
    bool by_udp;

    bed_open(1, NULL);
    A->timeout = 8; /* 1 ms */
    A->retry_count = 2;
    bed_connect();
    by_udp = is_by_udp();
    send_one(100, false);
    OK(B->fake.privileged.qp_destroy(B->qp));
    B->qp = NULL;
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 1, RI_WC_TRANSPORT);
    bed_await_event(A, RI_EVENT_LLP_LOST);
    if (by_udp)
        ck_assert_uint_gt(bed_counter(B, "packets to unknown queue pairs"), 2);
    bed_close();
}
END_TEST

START_TEST(R082_a_QP_in_ERROR_tells_its_peer_nothing)
{
    bed_open(1, NULL);
    A->timeout = 8; /* 1 ms */
    A->retry_count = 2;
    bed_connect();
    send_one(100, false);
    OK(bed_to(B, RI_QPS_ERROR));
    bed_take_none(A, A->send_cq);
    ck_assert_int_eq(bed_state(A), RI_QPS_RTS);
    OK(bed_post(A, request(RI_WR_SEND, 1), bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 1, RI_WC_TRANSPORT);
    bed_close();
}
END_TEST

START_TEST(a_path_that_cannot_be)
{
    bed_open(1, NULL);
    OK(bed_to(A, RI_QPS_INIT));
    A->gid[GID_IPV4] = 192; /* none of this host's */
    ck_assert_int_eq(bed_to(A, RI_QPS_RTR), RI_ERR_UNREACHABLE);
    memset(A->gid, 0, GID_LEN); /* what fits */
    OK(bed_to(A, RI_QPS_RTR));
    memcpy(A->gid, B->gid, GID_LEN);
    bed_close();
}
END_TEST

START_TEST(the_MTU_of_the_option_is_the_largest)
{
    static const char *const options[] = { "mtu", "512", NULL };
    struct ri_port_attr port = { .size = sizeof(port) };

    bed_open(1, options);
    OK(A->fake.privileged.query_port(A->fake.rnic, &port));
    ck_assert_uint_eq(port.mtu, 512);
    OK(bed_to(A, RI_QPS_INIT));
    A->mtu = 1024;
    ck_assert_int_eq(bed_to(A, RI_QPS_RTR), RI_ERR_INVALID_ARGUMENT);
    A->mtu = 512;
    OK(bed_to(A, RI_QPS_RTR));
    bed_close();
}
END_TEST

/* --- strangers --- */

static void open_over_udp(void)
{
    bed_open(1, NULL);
    bed_connect();
    if (!is_by_udp())
        tc_skip("it is about packets");
}

/* A packet from a port of 127.0.0.1, where both ends are, to a QP of B. */
static void send_from_port(uint16_t port, struct end *to, uint32_t psn)
{
    struct share_key key = net_test_key(1);
    uint8_t octets[TEST_PACKET_MAX];
    int fd = plain_socket(&key, port);

    plain_send(fd, &key, octets,
               put_packet(octets, &key, port, &key, ICRC_DF, to->qpn, psn & 0xFFFFFFu, 64));
    close(fd);
}

/* Another user of the peer's host has its address, but not its UDP port. Known by what the peer
 * has sent, and by what it has acknowledged. */
START_TEST(packets_of_another_port_of_an_own_end_are_dropped)
{
    open_over_udp();
    send_one(64, false); /* from A to B */
    bed_receive(B, 2, bed_sge(B, 0, 64));
    bed_receive(A, 3, bed_sge(A, 0, 64));
    send_from_port(5000, B, A->psn + 1);
    send_from_port(0xC123, A, B->psn);
    bed_take_none(B, B->recv_cq);
    bed_take_none(A, A->recv_cq);
    ck_assert_uint_eq(bed_counter(B, "packets of strangers"), 1);
    ck_assert_uint_eq(bed_counter(A, "packets of strangers"), 1);
    OK(bed_post(B, request(RI_WR_SEND, 4), bed_sge(B, 0, 64)));
    bed_take(A, A->recv_cq, 3, RI_WC_SUCCESS);
    bed_close();
}
END_TEST

/* P-050: rxe and adapters may change it. */
START_TEST(P013_another_kind_of_peer_sends_from_any_port)
{
    open_over_udp();
    for (uint32_t i = 0; i < 3; i++) {
        bed_receive(B, i, bed_sge(B, 0, 64));
        send_from_port((uint16_t)(0xC000 + i), B, A->psn + i);
        bed_take(B, B->recv_cq, i, RI_WC_SUCCESS);
    }
    ck_assert_uint_eq(bed_counter(B, "packets of strangers"), 0);
    bed_close();
}
END_TEST

/* What is no progress tells nothing of the peer; a new connection knows nothing of the last. */
START_TEST(who_guesses_wrong_decides_nothing)
{
    open_over_udp();
    send_from_port(0xC001, B, A->psn + 1000);
    send_one(64, false);
    send_from_port(0xC001, B, A->psn + 1);
    bed_take_none(B, B->recv_cq);
    ck_assert_uint_eq(bed_counter(B, "packets of strangers"), 1);
    for (int i = 0; i < 2; i++)
        OK(bed_to(&bed[i], RI_QPS_IDLE));
    bed_connect();
    bed_receive(B, 2, bed_sge(B, 0, 64));
    send_from_port(0xC001, B, A->psn);
    bed_take(B, B->recv_cq, 2, RI_WC_SUCCESS);
    bed_close();
}
END_TEST

/* What another address of this host sends has no effect, however right it is. */
START_TEST(P013_packets_of_another_address_are_dropped)
{
    struct share_key from = net_test_key(3), to = net_test_key(1);
    uint8_t octets[TEST_PACKET_MAX];
    uint32_t len;
    int fd;

    open_over_udp();
    bed_receive(B, 2, bed_sge(B, 0, 64));
    fd = plain_socket(&from, 5000);
    len = put_packet(octets, &from, 5000, &to, 0, B->qpn, A->psn, 64);
    plain_send(fd, &to, octets, len);
    bed_take_none(B, B->recv_cq);
    ck_assert_uint_eq(bed_counter(B, "packets of strangers"), 1);
    send_one(64, false);
    close(fd);
    bed_close();
}
END_TEST

/* Octets from the peer's address, with an ICRC that is right, and anything in them. */
static uint32_t put_anything(struct tc_rng *rng, uint8_t *octets, const struct share_key *from,
                             const struct share_key *to)
{
    const uint32_t payload = tc_below(rng, 300);
    uint32_t len = put_packet(octets, from, 5000, to, 0, B->qpn, A->psn, payload);
    struct icrc_path path;

    octets[0] = (uint8_t)tc_below(rng, 0x20);
    octets[1] = (uint8_t)(BTH_M | tc_below(rng, 4) << 4);
    be_put32(octets + 8, (uint32_t)(A->psn + tc_below(rng, 3) - 1) & BTH_MASK24);
    if (tc_below(rng, 2))
        octets[8] |= BTH_ACK_REQ;
    if (payload >= 16 && tc_below(rng, 4)) { /* of a RETH */
        be_put64(octets + BTH_LEN, (uintptr_t)B->memory + HALF + tc_below(rng, 64));
        be_put32(octets + BTH_LEN + 8, B->keys.rkey);
        be_put32(octets + BTH_LEN + 12, tc_below(rng, 300));
    }
    icrc_path_init(&path, from->gid, to->gid, 5000);
    icrc_put(octets + len - BTH_ICRC_LEN, icrc_of_packet(&path, 0, octets, len));
    return len;
}

/* Nothing outside of what the peer may write is touched, and the device lives: the next life
 * carries. */
START_TEST(anything_from_the_peer_s_address)
{
    struct share_key from = net_test_key(1), to = net_test_key(1);
    struct tc_rng rng = tc_rng(_i);
    uint8_t octets[TEST_PACKET_MAX], *before = malloc(HALF);
    int fd;

    bed_open(1, NULL);
    fd = plain_socket(&from, 5000);
    for (uint32_t life = 0; life < 40; life++) {
        bed_connect();
        fill(life);
        memcpy(before, B->memory, HALF);
        bed_receive(B, 2, bed_sge(B, HALF + 4096, 200));
        for (int i = 0; i < 40 && bed_state(B) == RI_QPS_RTS; i++) {
            plain_send(fd, &to, octets, put_anything(&rng, octets, &from, &to));
            fake_host_run(&bed[1].fake, NULL);
            fake_host_run(&bed[0].fake, NULL);
        }
        ck_assert_mem_eq(before, B->memory, HALF);
        OK(bed_to(A, RI_QPS_IDLE));
        OK(bed_to(B, RI_QPS_IDLE));
    }
    bed_connect();
    send_one(5000, false);
    close(fd);
    free(before);
    bed_close();
}
END_TEST

/* --- upcalls --- */

static struct ri_qp *other[2];

static struct ri_qp *new_qp(struct end *end, uint32_t *qpn)
{
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_RC,
                               .lane = end->fake.lane,
                               .send_cq = end->send_cq,
                               .recv_cq = end->recv_cq,
                               .max_send_wr = 4,
                               .max_recv_wr = 4,
                               .max_send_sge = 1,
                               .max_recv_sge = 1 };
    struct ri_qp_info info = { .size = sizeof(info) };
    struct ri_qp *qp;

    OK(end->fake.privileged.qp_create(end->pd, &attr, &qp));
    OK(end->fake.privileged.qp_query(qp, &info));
    *qpn = info.qpn;
    return qp;
}

/* Both ends have a second QP, which is connected; the first ones are, too. */
static void connect_two_pairs(void)
{
    struct ri_qp *first[2] = { A->qp, B->qp };
    uint32_t qpn[2] = { A->qpn, B->qpn };

    for (int i = 0; i < 2; i++)
        other[i] = bed[i].qp = new_qp(&bed[i], &bed[i].qpn);
    bed_connect();
    for (int i = 0; i < 2; i++) {
        bed[i].qp = first[i];
        bed[i].qpn = qpn[i];
    }
    bed_connect();
}

static void destroy_other(const struct ri_host *host, void *context)
{
    (void)host, (void)context;
    if (other[0])
        OK(A->fake.privileged.qp_destroy(other[0]));
    other[0] = NULL;
}

static bool is_destroyed(const void *arg)
{
    (void)arg;
    return !other[0];
}

/* In one run: a Send, whose upcall destroys the QP for which an acknowledgement is behind it. */
START_TEST(an_upcall_destroys_the_QP_of_the_next_packet)
{
    struct ri_recv_wr receive = { .cookie = 1 }, *bad_receive;
    struct ri_send_wr send = { .opcode = RI_WR_SEND }, *bad;

    bed_open(1, NULL);
    connect_two_pairs();
    OK(other[1]->ops->post_recv(other[1], &receive, &bad_receive));
    OK(other[0]->ops->post_send(other[0], &send, &bad));
    bed_receive(A, 2, bed_sge(A, 0, 64));
    OK(A->fake.user.arm(A->recv_cq, RI_ARM_NEXT, 0));
    A->fake.host.cq_event = destroy_other;
    OK(bed_post(B, request(RI_WR_SEND, 3), bed_sge(B, 0, 64)));
    fake_host_run(&B->fake, NULL); /* its acknowledgement is behind the Send */
    fake_host_run(&A->fake, NULL);
    ck_assert(is_by_udp() ? is_destroyed(NULL) : bed_wait(is_destroyed, NULL, BED_TIMEOUT));
    bed_take(A, A->recv_cq, 2, RI_WC_SUCCESS);
    bed_take(B, B->recv_cq, 1, RI_WC_SUCCESS);
    if (is_by_udp())
        ck_assert_uint_eq(bed_counter(A, "packets to unknown queue pairs"), 1);
    bed_take(B, B->send_cq, 3, RI_WC_SUCCESS);
    send_one(64, false);
    OK(B->fake.privileged.qp_destroy(other[1]));
    bed_close();
}
END_TEST

/* --- threads --- */

#define POSTS 20000u

static atomic_uint posted;

static void *post_writes(void *arg)
{
    (void)arg;
    while (atomic_fetch_add(&posted, 1) < POSTS) {
        struct ri_send_wr wr = request(RI_WR_RDMA_WRITE, 1);
        enum ri_status status;

        do
            status = bed_post(A, wr, bed_sge(A, 0, 700));
        while (status == RI_ERR_QUEUE_FULL);
        ck_assert_int_eq(status, RI_OK);
    }
    return NULL;
}

struct count {
    uint32_t *done;
};

static bool all_are_done(const void *arg)
{
    const struct count *count = arg;
    struct ri_wc wc[32];
    uint32_t got;

    OK(A->fake.user.arm(A->send_cq, RI_ARM_NEXT, 0));
    while ((got = A->fake.user.poll(A->send_cq, 32, wc))) {
        for (uint32_t i = 0; i < got; i++)
            ck_assert_int_eq(wc[i].status, RI_WC_SUCCESS);
        *count->done += got;
    }
    return *count->done == POSTS;
}

/* A post may complete by itself, where both ends are of one host: no lane has anything to do. */
static void wake_lane(const struct ri_host *host, void *context)
{
    (void)context;
    host->wake(host, &A->fake.events);
}

/* Posts beside passes: two threads post, one runs the lanes. */
START_TEST(two_threads_post_beside_the_passes)
{
    uint32_t done = 0;
    const struct count count = { &done };
    pthread_t threads[2];

    bed_open(1, NULL);
    A->fake.host.cq_event = wake_lane;
    bed_connect();
    atomic_store(&posted, 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, post_writes, NULL), 0);
    ck_assert_msg(bed_wait(all_are_done, &count, 60000), "%u of %u are done", done, POSTS);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    bed_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device");
    TCase *operations = tc_case(suite, "operations", NULL, NULL);
    TCase *states = tc_case(suite, "states", NULL, NULL);
    TCase *errors = tc_case(suite, "errors", NULL, NULL);
    TCase *strangers = tc_case(suite, "strangers", NULL, NULL);
    TCase *threads = tc_case(suite, "threads", NULL, NULL);

    tcase_add_loop_test(operations, every_operation_carries, 0, WAYS);
    tc_add_tests(states, R061_a_receive_of_INIT_takes_what_comes_in_RTR_and_it_is_told,
                 R084_SQD_ends_what_was_begun_and_holds_the_rest,
                 a_reset_QP_forgets_and_begins_anew, a_number_rests_when_its_QP_is_destroyed);
    tcase_add_loop_test(errors, R083_a_wrong_key_ends_both, 0, 2);
    tc_add_tests(errors, a_receiver_that_is_not_ready, a_peer_that_is_gone,
                 R082_a_QP_in_ERROR_tells_its_peer_nothing, a_path_that_cannot_be,
                 the_MTU_of_the_option_is_the_largest);
    tc_add_tests(strangers, P013_packets_of_another_address_are_dropped,
                 packets_of_another_port_of_an_own_end_are_dropped,
                 P013_another_kind_of_peer_sends_from_any_port, who_guesses_wrong_decides_nothing);
    tcase_add_loop_test(strangers, anything_from_the_peer_s_address, 0, 4);
    tc_add_tests(threads, an_upcall_destroys_the_QP_of_the_next_packet,
                 two_threads_post_beside_the_passes);
    return tc_main(suite);
}
