/* SPDX-License-Identifier: BSD-3-Clause */
/* The device softroce where nobody answers: a peer that is gone, a way that became too narrow. */
#include "device_bed.h"

#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define A (&bed[0])
#define B (&bed[1])

/* --- the interface lo of the name space --- */

static void set_interface(const char *name, unsigned long what, struct ifreq *request)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    strcpy(request->ifr_name, name);
    ck_assert_int_eq(ioctl(fd, what, request), 0);
    close(fd);
}

static void set_mtu(int octets)
{
    struct ifreq request = { .ifr_mtu = octets };

    set_interface("lo", SIOCSIFMTU, &request);
}

/* 127.0.0.2 beside 127.0.0.1. */
static void add_address(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(0x7F000002) } };
    struct ifreq request;

    memset(&request, 0, sizeof(request));
    memcpy(&request.ifr_addr, &address, sizeof(address));
    set_interface("lo:1", SIOCSIFADDR, &request);
}

static bool both_know(const void *arg)
{
    (void)arg;
    return atomic_load(&A->fake.rnic_events) && atomic_load(&B->fake.rnic_events);
}

/* --- a peer that is gone --- */

/* B is at an address of its own, whose UDP port nobody has any more when B is closed. */
static void open_apart(void)
{
    bed_open(1, NULL);
    add_address();
    ck_assert(bed_wait(both_know, NULL, BED_TIMEOUT));
    memcpy(B->gid, net_test_key(2).gid, GID_LEN);
    A->timeout = 14; /* 67 ms */
    bed_connect();
}

static void exchange(uint64_t cookie, uint32_t length)
{
    const struct ri_send_wr wr = { .opcode = RI_WR_SEND,
                                   .cookie = cookie,
                                   .flags = RI_WR_SIGNALED };

    bed_receive(B, cookie, bed_sge(B, 0, 4096));
    OK(bed_post(A, wr, bed_sge(A, 0, length)));
    bed_take(A, A->send_cq, cookie, RI_WC_SUCCESS);
    bed_take(B, B->recv_cq, cookie, RI_WC_SUCCESS);
}

/* The first time-out asks, the second has the answer: not all of retry_cnt passes. */
START_TEST(a_peer_whose_process_has_ended_is_told_of_early)
{
    const struct ri_send_wr wr = { .opcode = RI_WR_SEND, .cookie = 2, .flags = RI_WR_SIGNALED };
    unsigned int lines;

    open_apart();
    exchange(1, 100);
    bed_close_end(B);
    lines = A->fake.logged[RI_LOG_INFO];
    OK(bed_post(A, wr, bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 2, RI_WC_TRANSPORT);
    bed_await_event(A, RI_EVENT_LLP_LOST);
    ck_assert_uint_eq(bed_qp_counter(A, "time-outs"), 2);
    ck_assert_uint_eq(A->fake.logged[RI_LOG_INFO], lines + 1);
    bed_close();
}
END_TEST

/* --- a way that is too narrow --- */

/* Short messages pass as before; the first long one ends the connection at once. */
START_TEST(packets_that_are_too_long_for_the_way_end_the_sender)
{
    const struct ri_send_wr wr = { .opcode = RI_WR_SEND, .cookie = 3, .flags = RI_WR_SIGNALED };
    unsigned int warnings;

    bed_open(1, NULL);
    A->timeout = 0; /* silence alone ends nothing */
    bed_connect();
    exchange(1, 1024);
    set_mtu(700);
    exchange(2, 500);
    warnings = A->fake.logged[RI_LOG_WARNING];
    bed_receive(B, 3, bed_sge(B, 0, 4096));
    OK(bed_post(A, wr, bed_sge(A, 0, 1024)));
    bed_take(A, A->send_cq, 3, RI_WC_TRANSPORT);
    bed_await_event(A, RI_EVENT_LLP_LOST);
    ck_assert_int_eq(bed_state(A), RI_QPS_ERROR);
    ck_assert_uint_eq(A->fake.logged[RI_LOG_WARNING], warnings + 1);
    ck_assert_uint_gt(bed_counter(A, "packets that the kernel did not send"), 0);
    bed_close();
}
END_TEST

/* So does a response: the QP that cannot send it has nothing outstanding. */
START_TEST(responses_that_are_too_long_for_the_way_end_the_responder)
{
    struct ri_send_wr wr = { .opcode = RI_WR_RDMA_READ, .cookie = 3, .flags = RI_WR_SIGNALED };

    bed_open(1, NULL);
    bed_connect();
    exchange(1, 1024);
    set_mtu(700);
    wr.rdma.remote_addr = (uintptr_t)B->memory;
    wr.rdma.rkey = B->keys.rkey;
    OK(bed_post(A, wr, bed_sge(A, 0, 1024)));
    bed_await_event(B, RI_EVENT_LLP_LOST);
    ck_assert_int_eq(bed_state(B), RI_QPS_ERROR);
    bed_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_silence");
    TCase *gone = tc_case(suite, "gone", NULL, NULL),
          *narrow = tc_case(suite, "narrow", NULL, NULL);

    tc_add_tests(gone, a_peer_whose_process_has_ended_is_told_of_early);
    tc_add_tests(narrow, packets_that_are_too_long_for_the_way_end_the_sender,
                 responses_that_are_too_long_for_the_way_end_the_responder);
    return tc_main(suite);
}
