/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's start: limits of a hand-over and the octets it brings, a responder that has received
 * nothing. */
#include "engine.h"

#include <sys/socket.h>

static const struct ri_llp_handover await = {
    .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8, .rtr_await = true
};

static enum ri_status hand_over(struct side *side, int fd, const struct ri_llp_handover *handover)
{
    struct ri_llp_handover own = *handover;
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE | RI_QPM_HANDOVER,
                                   .state = RI_QPS_RTS,
                                   .handover = &own };

    own.size = sizeof(own);
    own.fd = fd;
    return bed.fake.privileged.qp_modify(side->qp, &modify);
}

/* ---- hand-over ---- */

START_TEST(handover_limits)
{
    struct ri_llp_handover handover = plain;
    uint8_t *octets = calloc(1, RX_RING_OCTETS + 1);
    int fds[2];

    side_open(&bed, a, NULL);
    testbed_tcp(fds, 0);
    handover.ird = 129; /* more than max_ird: the ring of the Reads would be too small */
    ck_assert_int_eq(hand_over(a, fds[0], &handover), RI_ERR_LIMIT);
    handover.ird = 8;
    handover.ord = 129;
    ck_assert_int_eq(hand_over(a, fds[0], &handover), RI_ERR_LIMIT);
    handover.ord = 8;
    handover.bytes_read = octets;
    handover.bytes_read_length = RX_RING_OCTETS + 1;
    ck_assert_int_eq(hand_over(a, fds[0], &handover), RI_ERR_LIMIT);
    handover.bytes_read_length = RX_RING_OCTETS; /* ULPDUs of length 0 */
    ck_assert_int_eq(hand_over(a, fds[0], &handover), RI_OK);
    side_expect_event(a, RI_EVENT_INTEGRITY, 0x2002);
    free(octets);
    close(fds[1]);
}
END_TEST

/* A QP made without IRD gets one by the hand-over, and with it the memory that Read Responses
 * need. */
START_TEST(ird_of_the_handover)
{
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_RC,
                               .context = &a->events,
                               .max_send_wr = 4,
                               .max_recv_wr = 4,
                               .max_send_sge = 1,
                               .max_recv_sge = 1,
                               .flags = RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE };
    struct region source;

    side_open(&bed, a, NULL);
    ck_assert_int_eq(bed.fake.privileged.qp_destroy(a->qp), RI_OK);
    attr.send_cq = a->send_cq;
    attr.recv_cq = a->recv_cq;
    ck_assert_int_eq(bed.fake.privileged.qp_create(a->pd, &attr, &a->qp), RI_OK);
    source = region_new(a, 8192, TESTBED_ALL);
    tc_fill(&bed_rng, source.octets, 8192);
    raw_open(&raw, &bed, a, false, &plain);
    read_request(1, 4000, &source, 0);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_RESP);
    ck_assert_uint_eq(frame.segment.payload_len, 4000);
    ck_assert(!memcmp(frame.segment.payload, source.octets, 4000));
}
END_TEST

/* A last message longer than the arena, and the first FPDU behind it. */
START_TEST(long_last_message)
{
    const size_t length = 300000;
    struct ri_llp_handover handover = plain;
    uint8_t *message = malloc(length);
    size_t got = 0;

    tc_fill(&bed_rng, message, length);
    handover.last_message = message;
    handover.last_message_length = length;
    side_open(&bed, a, NULL);
    raw_open(&raw, &bed, a, true, &handover);
    while (got < length) {
        uint8_t part[4096];
        ssize_t n = recv(raw.fd, part, length - got < sizeof(part) ? length - got : sizeof(part),
                         MSG_DONTWAIT);

        if (n < 0)
            testbed_passes(&bed, 1);
        ck_assert_int_ne(n, 0);
        ck_assert(n < 0 || !memcmp(part, message + got, (size_t)n));
        got += n > 0 ? (size_t)n : 0;
    }
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_WRITE);
    free(message);
}
END_TEST

/* ---- the responder ---- */

/* C-044. A timer that fires after the message has come does no harm. */
START_TEST(C044_first_message_overdue)
{
    connect_raw(false, &await);
    if (_i) {
        raw_tagged(&raw, RDMAP_WRITE, true, 0, 0, NULL, 0);
        side_expect_event(a, RI_EVENT_ESTABLISHED, 0);
    }
    fake_host_expire_timers(&bed.fake);
    if (_i) {
        ck_assert(raw_silent(&raw));
        ck_assert_uint_eq(atomic_load(&a->events.count), 1);
        return;
    }
    side_expect_event(a, RI_EVENT_LLP_LOST, 0);
    raw_wait_end(&raw);
    ck_assert(raw.reset);
}
END_TEST

/* S-011: a responder that has received nothing sends nothing, not even a Terminate. C-046: it is
 * not established. */
START_TEST(S011_silent_to_the_end)
{
    connect_raw(false, &await);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 1, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    if (_i) {
        ck_assert_int_eq(shutdown(raw.fd, SHUT_WR), 0);
        side_expect_event(a, RI_EVENT_LLP_CLOSED_BUSY, TERMINATE_STREAM);
    } else {
        side_modify(a, RI_QPS_TERMINATE);
        side_expect_event(a, RI_EVENT_LOCAL_ERROR, 0);
    }
    ck_assert(!next_frame());
    ck_assert(!raw.reset);
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
}
END_TEST

/* A refused first FPDU does not establish the connection. The peer has sent, so it gets a
 * Terminate. */
START_TEST(C046_refused_first_message)
{
    connect_raw(false, &await);
    raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, 1, 0, "x", 1);
    expect_terminate(TERMINATE_U_NOBUF);
    side_expect_event(a, RI_EVENT_NO_RECEIVE, TERMINATE_U_NOBUF);
}
END_TEST

/* C-042: the ready-to-receive Read needs no access right; a later zero-length one does (C-108). */
START_TEST(C042_read_as_first_message)
{
    const struct shape shape = { .no_read = true };

    side_open(&bed, a, &shape);
    raw_open(&raw, &bed, a, false, &await);
    read_request(1, 0, NULL, 77);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_RESP);
    ck_assert_uint_eq(frame.segment.payload_len, 0);
    side_expect_event(a, RI_EVENT_ESTABLISHED, 0);
    read_request(2, 0, NULL, 77);
    expect_terminate(TERMINATE_U_QN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma engine: start");
    TCase *tc = new_case(suite, "hand-over", bed_open, bed_close);

    tc_add_tests(tc, handover_limits, ird_of_the_handover, long_last_message);
    tc = new_case(suite, "responder", bed_open, bed_close);
    tc_add_loops(tc, 0, 2, C044_first_message_overdue, S011_silent_to_the_end);
    tc_add_tests(tc, C046_refused_first_message, C042_read_as_first_message);
    return tc_main(suite);
}
