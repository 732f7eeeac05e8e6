/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends of a connection that cross each other and the work in progress; memory that is revoked. */
#include "engine.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* ---- ends ---- */

/* The send sees RST first and takes the error from the socket. The read afterwards looks like
 * FIN. */
START_TEST(C152_reset_seen_by_the_send)
{
    const struct linger linger = { .l_onoff = 1 };

    connect_raw(true, &plain);
    setsockopt(raw.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(raw.fd);
    raw.fd = -1;
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_WRITE, 1, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    side_expect_event(a, RI_EVENT_LLP_RESET, 0);
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
}
END_TEST

/* The peer has closed its half and does not read. Pending output waits without keeping the lane
 * awake. */
START_TEST(end_with_output_left)
{
    struct epoll_event event;
    struct region region;

    connect_raw(true, &plain);
    region = region_new(a, 64u << 20, TESTBED_ALL);
    side_write(a, 1, region_sge(&region, 0, 64u << 20), 0, 1);
    testbed_passes(&bed, 50);
    ck_assert_int_eq(shutdown(raw.fd, SHUT_WR), 0);
    side_expect_event(a, RI_EVENT_LLP_CLOSED_BUSY, TERMINATE_STREAM);
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
    testbed_passes(&bed, 3);
    ck_assert(bed.fake.user.lane_arm(bed.fake.lane));
    ck_assert_int_eq(epoll_wait(bed.fake.events.epoll, &event, 1, 0), 0);
    expect_terminate(TERMINATE_STREAM);
}
END_TEST

/* CLOSING is aborted, before and after FIN has left. */
START_TEST(closing_is_cut)
{
    connect_raw(true, &plain);
    side_modify(a, RI_QPS_CLOSING);
    testbed_passes(&bed, _i);
    side_modify(a, RI_QPS_ERROR);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
    raw_wait_end(&raw);
    side_modify(a, RI_QPS_IDLE);
    ck_assert_int_eq(side_query(a).state, RI_QPS_IDLE);
}
END_TEST

/* The peer's FIN is in the socket when the QP is destroyed: the stream ends inside the call,
 * once. */
START_TEST(destroy_after_the_peers_end)
{
    connect_raw(true, &plain);
    ck_assert_int_eq(shutdown(raw.fd, SHUT_WR), 0);
    ck_assert_int_eq(bed.fake.privileged.qp_destroy(a->qp), RI_OK);
    a->qp = NULL;
    testbed_passes(&bed, 3);
    raw_wait_end(&raw);
    ck_assert(!raw.reset);
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
}
END_TEST

static void *run_passes(void *unused)
{
    (void)unused;
    testbed_passes(&bed, 3);
    return NULL;
}

/* Before the send call returns, the peer has read the message and closed, and the lane has seen
 * it. */
static ssize_t send_and_be_left(struct stream *stream, const struct iovec *iov, int count)
{
    ssize_t sent = llp_tcp.send(stream, iov, count);
    pthread_t lane;

    ck_assert(next_frame());
    ck_assert_int_eq(shutdown(raw.fd, SHUT_WR), 0);
    pthread_create(&lane, NULL, run_passes, NULL);
    pthread_join(lane, NULL);
    return sent;
}

/* A request that the peer answered by its FIN is not outstanding: no Terminate. */
START_TEST(C148_fin_answers_what_is_being_sent)
{
    struct llp_ops hooked = llp_tcp;
    struct region region;

    connect_raw(true, &plain);
    region = region_new(a, 64, TESTBED_ALL);
    testbed_passes(&bed, 3);
    hooked.send = send_and_be_left;
    qp_of(a)->stream->sender = &hooked;
    side_send(a, 1, region_sge(&region, 0, 64));
    qp_of(a)->stream->sender = &llp_tcp;
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 64);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
    ck_assert(!next_frame());
}
END_TEST

static const struct region *hooked_region;
static unsigned int sends;
static bool read_told;

/* The response arrives before the call that sent the Read Request returns. If the Read is reported
 * by then, its slot is used again. Before a request has left, the lane checks for completed
 * ones. */
static ssize_t send_and_be_overtaken(struct stream *stream, const struct iovec *iov, int count)
{
    const struct region *region = hooked_region;
    struct ri_wc wc;
    ssize_t sent;

    if (sends++) {
        raw_tagged(&raw, RDMAP_WRITE, true, 0, 0, NULL, 0);
        testbed_passes(&bed, 3);
        ck_assert_uint_eq(bed.fake.user.poll(a->send_cq, 1, &wc), 0);
        return llp_tcp.send(stream, iov, count);
    }
    sent = llp_tcp.send(stream, iov, count);
    ck_assert(next_frame());
    raw_tagged(&raw, RDMAP_READ_RESP, true, region->keys.rkey, (uintptr_t)region->octets, "data",
               4);
    testbed_passes(&bed, 3);
    read_told = bed.fake.user.poll(a->send_cq, 1, &wc);
    if (read_told)
        side_send(a, 2, region_sge(region, 0, 8));
    return sent;
}

/* A thread inside tx does not mistake a request for the previous one of its slot. */
START_TEST(answered_before_the_send_returns)
{
    const struct shape shape = { .depth = 1 };
    struct llp_ops hooked = llp_tcp;
    struct region region;

    raw_open_speaking(&raw, &bed, a, &shape, &plain);
    region = region_new(a, 64, TESTBED_ALL);
    hooked_region = &region;
    hooked.send = send_and_be_overtaken;
    qp_of(a)->stream->sender = &hooked;
    side_read(a, 1, region_sge(&region, 0, 4), 0, 1);
    if (!read_told) {
        side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 4);
        side_send(a, 2, region_sge(&region, 0, 8));
    }
    qp_of(a)->stream->sender = &llp_tcp;
    ck_assert(next_frame());
    ck_assert_uint_eq(frame.segment.payload_len, 8);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 8);
}
END_TEST

static ssize_t send_nothing(struct stream *stream, const struct iovec *iov, int count)
{
    (void)stream, (void)iov, (void)count;
    return -EAGAIN;
}

/* The peer answers a Read that has not left: the completion follows when it has. */
START_TEST(answered_before_it_was_sent)
{
    const struct shape shape = { .depth = 1 };
    struct llp_ops hooked = llp_tcp;
    struct region region;
    struct ri_wc wc;

    raw_open_speaking(&raw, &bed, a, &shape, &plain);
    region = region_new(a, 64, TESTBED_ALL);
    hooked.send = send_nothing;
    qp_of(a)->stream->sender = &hooked;
    side_read(a, 1, region_sge(&region, 0, 0), 0, 1);
    raw_tagged(&raw, RDMAP_READ_RESP, true, 0, 0, NULL, 0);
    testbed_passes(&bed, 3);
    ck_assert_uint_eq(bed.fake.user.poll(a->send_cq, 1, &wc), 0);
    qp_of(a)->stream->sender = &llp_tcp;
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 0);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_REQ);
    side_send(a, 2, region_sge(&region, 0, 8));
    ck_assert(next_frame());
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 8);
}
END_TEST

/* One error per queue: of two errors that cross, the second is flushed like the others. */
START_TEST(one_error_per_queue)
{
    struct region region;
    struct ri_sge bad;

    connect_raw(true, &plain);
    region = region_new(a, 64, TESTBED_ALL);
    side_read(a, 1, region_sge(&region, 0, 64), 0, 1);
    ck_assert(next_frame());
    /* fails the Read when the segment is received */
    raw_tagged(&raw, RDMAP_READ_RESP, true, 0xbad, 0, "data", 4);
    bad = region_sge(&region, 60, 64);
    side_write(a, 2, bad, 0, 1); /* fails at once, by itself */
    side_write(a, 3, region_sge(&region, 0, 8), 0, 1);
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
    side_expect(a, a->send_cq, 2, RI_WC_LOCAL_PROTECTION, 0);
    side_expect(a, a->send_cq, 3, RI_WC_FLUSHED, 0);
    side_expect_event(a, RI_EVENT_LOCAL_ERROR, 0);
}
END_TEST

/* A full CQ loses nothing, but the connection ends (0x0207); this is reported once. */
START_TEST(X021_X025_overflow_ends_the_connection)
{
    const struct shape shape = { .cqe = 2 };
    struct ri_wc wc;

    side_open(&bed, a, &shape);
    raw_open(&raw, &bed, a, true, &plain);
    for (uint64_t i = 0; i < 4; i++)
        ck_assert_int_eq(side_post(a, RI_WR_RDMA_WRITE, i, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    expect_terminate(TERMINATE_STREAM);
    side_expect_event(a, RI_EVENT_QP_OVERFLOW, TERMINATE_STREAM);
    ck_assert_uint_eq(atomic_load(&a->send_events.cq_errors), 1);
    for (uint64_t i = 0; i < 4; i++) {
        wc = side_next(a, a->send_cq);
        ck_assert_uint_eq(wc.cookie, i);
        ck_assert_uint_eq(wc.status, i < 3 ? RI_WC_SUCCESS : RI_WC_FLUSHED);
    }
    ck_assert(side_idle(a, a->send_cq));
}
END_TEST

/* ---- memory that is revoked ---- */

/* half of a Write is in the socket, half in a batch. Its region is deregistered and the
 * memory unmapped. Segments that were built leave unchanged; the others fail. */
START_TEST(X006_deregister_under_way)
{
    const uint32_t size = _i ? 400000 : 32u << 20;
    struct region region, before;
    const int small = 4096;
    uint32_t got = 0;

    side_open(&bed, a, NULL);
    /* With small segments it is one batch. */
    raw_open_segments(&raw, &bed, a, true, NULL, _i ? 8948 : 0);
    region = region_new(a, size, TESTBED_ALL);
    before = region_new(a, size, TESTBED_ALL);
    tc_fill(&bed_rng, region.octets, size);
    memcpy(before.octets, region.octets, size);
    {
        const struct iwarp_qp *qp = qp_of(a);

        ck_assert_int_eq(setsockopt(qp->stream->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)),
                         0);
    }
    side_write(a, 1, region_sge(&region, 0, size), 0, 1);
    testbed_passes(&bed, 5);
    ck_assert(side_idle(a, a->send_cq)); /* the socket has no room for all of it */
    region_free(a, &region);
    while (next_frame()) {
        if (frame.segment.opcode == RDMAP_TERMINATE)
            break;
        if (!frame.segment.payload_len)
            continue;
        ck_assert_uint_eq(frame.segment.hdr.to, got);
        ck_assert(!memcmp(frame.segment.payload, before.octets + got, frame.segment.payload_len));
        got += frame.segment.payload_len;
        if (_i && got == size)
            break;
    }
    if (_i) {
        ck_assert_uint_eq(got, size);
        side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, size);
        ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    } else {
        ck_assert_uint_lt(got, size);
        ck_assert_int_eq(frame.segment.opcode, RDMAP_TERMINATE);
        side_expect(a, a->send_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
        side_expect_event(a, RI_EVENT_LOCAL_ERROR, 0);
    }
}
END_TEST

/* Two walks at once, here one nested in the other, do not restart each other. */
static uint32_t visits;
static const struct memory_range nothing;

static void visit_and_walk(struct qp *qp, enum leave what, const struct memory_range *range,
                           bool in_pass)
{
    (void)range, (void)in_pass;
    if (++visits < 10 && what == LEAVE_MEMORY)
        lanes_leave(qp->rnic, qp->pd, LEAVE_RIGHTS, &nothing);
}

START_TEST(walks_do_not_meet)
{
    struct wire walked = iwarp_wire;
    struct qp *qp;

    walked.leave = visit_and_walk;
    visits = 0;
    testbed_connect(&bed, NULL, NULL);
    qp = &qp_of(a)->core;
    atomic_store(&qp->wire, &walked);
    lanes_leave(qp->rnic, qp->pd, LEAVE_MEMORY, &nothing);
    atomic_store(&qp->wire, &iwarp_wire);
    ck_assert_uint_eq(visits, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma engine: ends");
    TCase *tc = new_case(suite, "ends", bed_open, bed_close);

    tc_add_tests(tc, C152_reset_seen_by_the_send, end_with_output_left);
    tcase_add_loop_test(tc, closing_is_cut, 0, 3);
    tc_add_tests(tc, destroy_after_the_peers_end, C148_fin_answers_what_is_being_sent,
                 answered_before_the_send_returns, answered_before_it_was_sent, one_error_per_queue,
                 X021_X025_overflow_ends_the_connection);
    tc = new_case(suite, "memory", bed_open, bed_close);
    tcase_add_loop_test(tc, X006_deregister_under_way, 0, 2);
    tcase_add_test(tc, walks_do_not_meet);
    return tc_main(suite);
}
