/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of the device softroce over the loopback. U-: requirements of the RoCE suite. */
#include "device_bed.h"

#include "base/be.h"
#include "providers/software/roce/codec/bth.h"
#include "providers/software/roce/datagram/datagram.h"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/route.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef RTF_LOCAL
#define RTF_LOCAL 0x80000000u /* linux/ipv6_route.h, which net/route.h excludes */
#endif

#define A      (&bed[0])
#define B      (&bed[1])
#define LENGTH 100u
#define GROUP  0xEF010203u /* ipv4_group */

static const uint8_t ipv4_group[GID_LEN] = { [10] = 0xff, 0xff, 239, 1, 2, 3 };
static const uint8_t ipv6_group[GID_LEN] = { 0xff, 0x15, [15] = 7 };
static const uint8_t link_group[GID_LEN] = { 0xff, 0x12, [15] = 9 };

/* For each way that a group is reached: of what ends, and the group. */
static const struct {
    uint32_t n; /* of bed_open */
    const uint8_t *group;
} ways[] = { { 1, ipv4_group }, { 0, ipv6_group }, { 0, link_group } };

static struct ri_ah *to_group;

static enum ri_status to(struct end *end, struct ri_qp *qp, enum ri_qp_state state)
{
    const struct ri_qp_modify modify = { .size = sizeof(modify),
                                         .mask = RI_QPM_STATE,
                                         .state = state };

    return end->fake.privileged.qp_modify(qp, &modify);
}

static enum ri_status attach(struct end *end, struct ri_qp *qp, const uint8_t *gid)
{
    return end->fake.privileged.multicast_attach(qp, gid, 0);
}

static enum ri_status detach(struct end *end, struct ri_qp *qp, const uint8_t *gid)
{
    return end->fake.privileged.multicast_detach(qp, gid, 0);
}

/* IPv6 has no route to groups by the loopback: ip -6 route add local ff00::/8 dev lo */
static void route_groups(void)
{
    struct in6_rtmsg route = { .rtmsg_dst = { { { 0xff } } },
                               .rtmsg_dst_len = 8,
                               .rtmsg_type = RTN_LOCAL,
                               .rtmsg_flags = RTF_UP | RTF_LOCAL,
                               .rtmsg_metric = 1024,
                               .rtmsg_ifindex = (int)if_nametoindex("lo") };
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(ioctl(fd, SIOCADDRT, &route), 0);
    close(fd);
}

/* Both QPs in RTS, an address handle of A to the group, nobody attached. */
static void open_ready(uint32_t n, const uint8_t *group)
{
    struct ri_ah_attr path = {
        .size = sizeof(path), .global = true, .hop_limit = 9, .traffic_class = 0xb8
    };

    bed_type = RI_QP_UD;
    bed_open(n, NULL);
    if (!n)
        route_groups();
    memcpy(path.source_gid, A->gid, GID_LEN);
    memcpy(path.destination_gid, group, GID_LEN);
    OK(A->fake.privileged.ah_create(A->pd, &path, &to_group));
    OK(to(A, A->qp, RI_QPS_RTS));
    OK(to(B, B->qp, RI_QPS_RTS));
    for (uint32_t i = 0; i < LENGTH; i++)
        A->memory[i] = (uint8_t)(i * 7 + 1);
}

static void close_ready(void)
{
    OK(A->fake.privileged.ah_destroy(to_group));
    bed_close();
}

static void send_one(uint64_t cookie, uint32_t key)
{
    const struct ri_send_wr wr = { .opcode = RI_WR_SEND_IMMEDIATE,
                                   .cookie = cookie,
                                   .flags = RI_WR_SIGNALED,
                                   .immediate = (uint32_t)cookie,
                                   .ud = { to_group, BTH_QPN_MULTICAST, key } };

    OK(bed_post(A, wr, bed_sge(A, 0, LENGTH)));
    bed_take(A, A->send_cq, cookie, RI_WC_SUCCESS);
}

static void receive_at(struct end *end, struct ri_qp *qp, uint64_t cookie, uint64_t offset)
{
    struct ri_sge sge = bed_sge(end, offset, UD_GRH + LENGTH);
    struct ri_recv_wr wr = { .cookie = cookie, .sg_list = &sge, .num_sge = 1 }, *bad;

    OK(qp->ops->post_recv(qp, &wr, &bad));
}

static void take_one(struct end *end, uint64_t cookie, uint64_t offset, uint32_t immediate)
{
    struct ri_wc wc = bed_take(end, end->recv_cq, cookie, RI_WC_SUCCESS);

    ck_assert_uint_eq(wc.byte_len, UD_GRH + LENGTH);
    ck_assert_uint_eq(wc.immediate, immediate);
    ck_assert_uint_eq(wc.source.qpn, A->qpn);
    ck_assert_mem_eq(wc.source_gid, A->gid, GID_LEN);
    ck_assert_mem_eq(end->memory + offset + UD_GRH, A->memory, LENGTH);
}

/* --- what arrives --- */

static void check_grh(const uint8_t *grh, const uint8_t *group)
{
    if (gid_is_ipv4(group)) {
        ck_assert_uint_eq(be_get16(grh + 28), 9 << 8 | 17); /* the hop limit of the handle */
        ck_assert_mem_eq(grh + 36, group + GID_IPV4, 4);
        return;
    }
    ck_assert_uint_eq(grh[7], 9);
    ck_assert_mem_eq(grh + 24, group, GID_LEN);
}

START_TEST(U040_to_U048_a_group_gets_datagrams)
{
    const uint8_t *group = ways[_i].group;

    open_ready(ways[_i].n, group);
    receive_at(B, B->qp, 1, 4096);
    send_one(10, BED_KEY);
    bed_take_none(B, B->recv_cq); /* it is not attached */
    OK(attach(B, B->qp, group));
    send_one(11, BED_KEY);
    take_one(B, 1, 4096, 11);
    check_grh(B->memory + 4096, group);
    receive_at(B, B->qp, 2, 4096);
    send_one(12, BED_KEY ^ 1);
    bed_take_none(B, B->recv_cq); /* U-007 */
    ck_assert_uint_eq(bed_qp_counter(B, "datagrams with a wrong Q_Key"), 1);
    OK(detach(B, B->qp, group));
    send_one(13, BED_KEY);
    bed_take_none(B, B->recv_cq);
    close_ready();
}
END_TEST

static struct ri_qp *another_qp(struct end *end, uint32_t key)
{
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_UD,
                               .context = &end->events,
                               .lane = end->fake.lane,
                               .send_cq = end->recv_cq,
                               .recv_cq = end->recv_cq,
                               .max_send_wr = 4,
                               .max_recv_wr = 4,
                               .max_send_sge = 1,
                               .max_recv_sge = 1,
                               .qkey = key };
    struct ri_qp *qp;

    OK(end->fake.privileged.qp_create(end->pd, &attr, &qp));
    return qp;
}

/* Also the sender's, and one of another QP with another Q_Key gets none. */
START_TEST(U046_U048_each_attached_QP_gets_one_copy)
{
    struct ri_qp *second, *stranger;

    open_ready(1, ipv4_group);
    second = another_qp(B, BED_KEY);
    stranger = another_qp(B, BED_KEY ^ 1);
    OK(to(B, second, RI_QPS_RTS));
    OK(to(B, stranger, RI_QPS_RTS));
    for (int i = 0; i < 2; i++) {
        OK(attach(A, A->qp, ipv4_group));
        OK(attach(B, B->qp, ipv4_group));
        OK(attach(B, second, ipv4_group));
        OK(attach(B, stranger, ipv4_group));
    }
    receive_at(A, A->qp, 1, 4096);
    receive_at(A, A->qp, 2, 8192);
    receive_at(B, B->qp, 3, 4096);
    receive_at(B, second, 4, 8192);
    receive_at(B, stranger, 5, 12288);
    send_one(10, BED_KEY);
    take_one(A, 1, 4096, 10);
    take_one(B, 3, 4096, 10);
    take_one(B, 4, 8192, 10);
    bed_take_none(A, A->recv_cq);
    bed_take_none(B, B->recv_cq);
    OK(detach(B, B->qp, ipv4_group)); /* once: it was attached once */
    ck_assert_int_eq(detach(B, B->qp, ipv4_group), RI_ERR_INVALID_ARGUMENT);
    OK(detach(B, second, ipv4_group));
    OK(detach(B, stranger, ipv4_group));
    OK(detach(A, A->qp, ipv4_group));
    OK(B->fake.privileged.qp_destroy(second));
    OK(B->fake.privileged.qp_destroy(stranger));
    close_ready();
}
END_TEST

/* The groups of a QP are told apart by address, also if both have the same interface. */
START_TEST(U046_another_group_is_not_heard)
{
    uint8_t other[GID_LEN];

    open_ready(1, ipv4_group);
    memcpy(other, ipv4_group, GID_LEN);
    other[15]++;
    OK(attach(A, A->qp, ipv4_group)); /* of this process, but not of this RNIC */
    OK(attach(B, B->qp, other));
    receive_at(B, B->qp, 1, 4096);
    send_one(10, BED_KEY);
    bed_take_none(B, B->recv_cq);
    OK(attach(B, B->qp, ipv4_group));
    send_one(11, BED_KEY);
    take_one(B, 1, 4096, 11);
    OK(detach(B, B->qp, ipv4_group));
    OK(detach(B, B->qp, other));
    OK(detach(A, A->qp, ipv4_group));
    close_ready();
}
END_TEST

/* --- states --- */

START_TEST(a_QP_hears_its_group_again_after_IDLE)
{
    open_ready(1, ipv4_group);
    OK(attach(B, B->qp, ipv4_group));
    OK(to(B, B->qp, RI_QPS_ERROR));
    send_one(10, BED_KEY);
    OK(to(B, B->qp, RI_QPS_IDLE));
    send_one(11, BED_KEY);
    receive_at(B, B->qp, 1, 4096);
    bed_take_none(B, B->recv_cq);
    OK(to(B, B->qp, RI_QPS_RTS));
    send_one(12, BED_KEY);
    take_one(B, 1, 4096, 12);
    ck_assert_int_eq(B->fake.privileged.qp_destroy(B->qp), RI_ERR_BUSY);
    OK(detach(B, B->qp, ipv4_group));
    close_ready();
}
END_TEST

/* --- what is refused --- */

START_TEST(what_is_no_group_is_refused)
{
    static const uint8_t none[][GID_LEN] = { { [10] = 0xff, 0xff, 223, 255, 255, 255 },
                                             { [10] = 0xff, 0xff, 240, 0, 0, 1 },
                                             { 0xfe, 0x80, [15] = 1 },
                                             { 0 } };

    open_ready(1, ipv4_group);
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        ck_assert_int_eq(attach(B, B->qp, none[i]), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(detach(B, B->qp, ipv4_group), RI_ERR_INVALID_ARGUMENT);
    close_ready();
}
END_TEST

START_TEST(a_connected_QP_is_refused)
{
    bed_type = RI_QP_RC;
    bed_open(1, NULL);
    ck_assert_int_eq(attach(A, A->qp, ipv4_group), RI_ERR_INVALID_ARGUMENT);
    bed_close();
}
END_TEST

START_TEST(there_are_so_many_groups_and_no_more)
{
    struct ri_rnic_attr attr = { .size = sizeof(attr) };
    uint8_t group[GID_LEN];
    struct ri_qp *qps[65];

    open_ready(1, ipv4_group);
    OK(B->fake.privileged.query(B->fake.rnic, &attr));
    memcpy(group, ipv4_group, GID_LEN);
    for (uint32_t i = 0; i <= attr.max_multicast_groups; i++) {
        group[14] = (uint8_t)(i >> 8);
        group[15] = (uint8_t)i;
        ck_assert_int_eq(attach(B, B->qp, group),
                         i < attr.max_multicast_groups ? RI_OK : RI_ERR_LIMIT);
    }
    group[14] = 0;
    ck_assert_uint_eq(attr.max_multicast_qps, 64);
    for (uint32_t i = 0; i < 64; i++) {
        qps[i] = another_qp(B, BED_KEY);
        ck_assert_int_eq(attach(B, qps[i], group), i < 63 ? RI_OK : RI_ERR_LIMIT);
    }
    for (uint32_t i = 0; i < 64; i++) {
        ck_assert_int_eq(detach(B, qps[i], group), i < 63 ? RI_OK : RI_ERR_INVALID_ARGUMENT);
        OK(B->fake.privileged.qp_destroy(qps[i]));
    }
    for (uint32_t i = 0; i < attr.max_multicast_groups; i++) {
        group[14] = (uint8_t)(i >> 8);
        group[15] = (uint8_t)i;
        OK(detach(B, B->qp, group));
    }
    close_ready();
}
END_TEST

/* --- what is counted --- */

START_TEST(packets_of_a_group_that_is_left_stay_counted)
{
    uint64_t before;

    open_ready(1, ipv4_group);
    OK(attach(B, B->qp, ipv4_group));
    receive_at(B, B->qp, 1, 4096);
    send_one(10, BED_KEY);
    take_one(B, 1, 4096, 10);
    before = bed_counter(B, "packets received");
    ck_assert_uint_eq(before, 1);
    OK(detach(B, B->qp, ipv4_group));
    ck_assert_uint_eq(bed_counter(B, "packets received"), before);
    close_ready();
}
END_TEST

/* --- other processes --- */

START_TEST(U048_the_group_is_left_although_a_child_lives)
{
    int began[2], ends[2];
    char octet = 0;
    pid_t child;

    open_ready(1, ipv4_group);
    OK(attach(B, B->qp, ipv4_group));
    ck_assert(tc_is_member(GROUP));
    ck_assert_int_eq(pipe(began), 0);
    ck_assert_int_eq(pipe(ends), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        close(ends[1]);
        _exit(write(began[1], &octet, 1) != 1 || read(ends[0], &octet, 1) < 0);
    }
    ck_assert_int_eq(read(began[0], &octet, 1), 1);
    receive_at(B, B->qp, 1, 4096);
    send_one(10, BED_KEY);
    take_one(B, 1, 4096, 10);
    OK(detach(B, B->qp, ipv4_group));
    ck_assert(!tc_is_member(GROUP));
    close(ends[1]);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    close_ready();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("roce_multicast");
    TCase *tc = tc_case(suite, "groups", NULL, NULL);

    tc_add_rows(tc, U040_to_U048_a_group_gets_datagrams, ways);
    tc_add_tests(tc, U046_U048_each_attached_QP_gets_one_copy, U046_another_group_is_not_heard,
                 a_QP_hears_its_group_again_after_IDLE, what_is_no_group_is_refused,
                 a_connected_QP_is_refused, there_are_so_many_groups_and_no_more,
                 packets_of_a_group_that_is_left_stay_counted,
                 U048_the_group_is_left_although_a_child_lives);
    return tc_main(suite);
}
