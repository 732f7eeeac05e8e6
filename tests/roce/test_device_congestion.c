/* SPDX-License-Identifier: BSD-3-Clause */
/* The device softroce where too much comes: who sends is told by CNPs (P-031), and slows down. */
#include "device_bed.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define A (&bed[0])
#define B (&bed[1])

/* --- packets to B that look like A's --- */

static int as_peer(int traffic_class)
{
    struct share_key from = net_test_key(1);
    int fd = plain_socket(&from, 5000);

    ck_assert_int_eq(setsockopt(fd, IPPROTO_IP, IP_TOS, &traffic_class, sizeof(traffic_class)), 0);
    return fd;
}

/* A Send that has come before: it is answered, and changes nothing. */
static void send_duplicate(int fd, uint32_t payload)
{
    struct share_key from = net_test_key(1), to = net_test_key(1);
    uint8_t octets[TEST_PACKET_MAX];
    uint32_t len = put_packet(octets, &from, 5000, &to, 0, B->qpn, A->psn - 1, payload);

    plain_send(fd, &to, octets, len);
}

static bool notified(const void *arg)
{
    return bed_qp_counter(A, "CNPs received") >= *(const uint64_t *)arg;
}

/* --- tests --- */

START_TEST(P031_a_marked_packet_is_answered_by_a_CNP)
{
    const uint64_t one = 1;
    int fd;

    bed_open(1, NULL);
    bed_connect();
    fd = as_peer(2); /* not marked */
    send_duplicate(fd, 64);
    bed_take_none(B, B->recv_cq);
    ck_assert_uint_eq(bed_qp_counter(B, "packets received"), 1);
    ck_assert_uint_eq(bed_qp_counter(B, "CNPs sent"), 0);
    close(fd);
    fd = as_peer(3);
    send_duplicate(fd, 64);
    ck_assert(bed_wait(notified, &one, BED_TIMEOUT));
    ck_assert_uint_eq(bed_qp_counter(B, "CNPs sent"), 1);
    close(fd);
    bed_close();
}
END_TEST

/* Many of one moment, one CNP: the next is 50 us away, and all came before that was looked at. */
START_TEST(P031_marked_packets_of_one_pass_are_answered_once)
{
    const uint64_t one = 1;
    int fd;

    bed_open(1, NULL);
    bed_connect();
    fd = as_peer(3);
    for (int i = 0; i < 20; i++)
        send_duplicate(fd, 64);
    ck_assert(bed_wait(notified, &one, BED_TIMEOUT));
    ck_assert_uint_eq(bed_qp_counter(B, "packets received"), 20);
    ck_assert_uint_eq(bed_qp_counter(B, "CNPs sent"), 1);
    close(fd);
    bed_close();
}
END_TEST

/* Nothing is marked, but the socket's buffer is full: the first pass leaves more than a half. */
START_TEST(a_buffer_that_fills_asks_for_less)
{
    static const char *const options[] = { "receive_buffer", "65536", "gro", "off", NULL };
    const uint64_t one = 1;
    int fd;

    bed_open(1, options);
    bed_connect();
    fd = as_peer(2);
    for (int i = 0; i < 500; i++)
        send_duplicate(fd, 256);
    ck_assert(bed_wait(notified, &one, BED_TIMEOUT));
    ck_assert_uint_gt(bed_qp_counter(B, "CNPs sent"), 0);
    close(fd);
    bed_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_congestion");
    TCase *tcase = tc_case(suite, "CNPs", NULL, NULL);

    tc_add_tests(tcase, P031_a_marked_packet_is_answered_by_a_CNP,
                 P031_marked_packets_of_one_pass_are_answered_once,
                 a_buffer_that_fills_asks_for_less);
    return tc_main(suite);
}
