/* SPDX-License-Identifier: BSD-3-Clause */
/* How connections end: in order, by the peer, by the consumer, with the exact Terminate and one
 * event each; and the next connection. */
#include "loop.h"

#include <sys/socket.h>

#include "base/crc32c.h"
#include "providers/software/iwarp/codec/mpa.h"

/* ---- in order ---- */

/* C-148: FIN in both directions; receives that are left are flushed on both sides. */
START_TEST(C148_close_in_order)
{
    struct region from, to;

    testbed_connect(&bed, NULL, &plain);
    from = region_new(a, 100000, TESTBED_ALL);
    to = region_new(b, 100000, TESTBED_ALL);
    side_receive(b, 1, region_sge(&to, 0, 100000));
    side_receive(b, 2, region_sge(&to, 0, 100000));
    side_receive(a, 3, region_sge(&from, 0, 100000));
    side_send(a, 4, region_sge(&from, 0, 100000));
    side_expect(b, b->recv_cq, 1, RI_WC_SUCCESS, 100000);
    side_expect(a, a->send_cq, 4, RI_WC_SUCCESS, 100000);
    side_modify(a, RI_QPS_CLOSING);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
    side_expect_event(b, RI_EVENT_LLP_CLOSED, 0);
    side_expect(a, a->recv_cq, 3, RI_WC_FLUSHED, 0);
    side_expect(b, b->recv_cq, 2, RI_WC_FLUSHED, 0);
    expect_state(a, RI_QPS_ERROR);
    expect_state(b, RI_QPS_ERROR);
    /* flushed, and reported although unsignalled */
    ck_assert_int_eq(side_post(b, RI_WR_SEND, 5, 0, NULL, 0, 0, 0), RI_OK);
    side_expect(b, b->send_cq, 5, RI_WC_FLUSHED, 0);
    ck_assert_int_eq(side_post_receive(b, 6, NULL, 0), RI_OK);
    side_expect(b, b->recv_cq, 6, RI_WC_FLUSHED, 0);
}
END_TEST

/* Messages sent before the close arrive completely, whichever side closes. */
START_TEST(close_delivers_what_was_sent)
{
    const uint32_t size = 1 << 20;
    struct region from, to;

    testbed_connect(&bed, NULL, &plain);
    from = region_new(a, size, TESTBED_ALL);
    to = region_new(b, size, TESTBED_ALL);
    memset(from.octets, 0x5a, size);
    side_receive(b, 1, region_sge(&to, 0, size));
    side_send(a, 2, region_sge(&from, 0, size));
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, size); /* in the socket, not at the peer */
    side_modify(a, RI_QPS_CLOSING);
    side_expect(b, b->recv_cq, 1, RI_WC_SUCCESS, size);
    ck_assert(!memcmp(from.octets, to.octets, size));
    side_expect_event(b, RI_EVENT_LLP_CLOSED, 0);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
}
END_TEST

/* A closing side whose peer does not answer ends when its time is over. */
START_TEST(close_is_bounded)
{
    open_speaking(&raw, NULL, &plain);
    side_modify(a, RI_QPS_CLOSING);
    ck_assert(side_idle(a, a->send_cq));
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    ck_assert_uint_eq(bed.fake.events.timer_count, 1);
    fake_host_expire_timers(&bed.fake);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
    raw_wait_end(&raw);
}
END_TEST

/* The QP is destroyed, and its connection closes in order without it. Closing the RNIC waits for
 * that, or forces it. */
START_TEST(destroyed_qp_lingers)
{
    enum { WAIT, FORCE, EXPIRE };
    const uint32_t size = 300000;
    struct region from;

    open_speaking(&raw, NULL, &plain);
    from = region_new(a, size, TESTBED_ALL);
    memset(from.octets, 0xa5, size);
    side_send(a, 1, region_sge(&from, 0, size));
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, size);
    side_close(a);
    ck_assert_int_eq(bed.fake.privileged.close(bed.fake.rnic, false), RI_ERR_AGAIN);
    if (_i == WAIT) {
        uint32_t got = 0;

        while (got < size) {
            uint8_t *ulpdu = malloc(MPA_ULPDU_MAX);
            uint32_t length = raw_next(&raw, ulpdu, MPA_ULPDU_MAX);

            ck_assert_uint_gt(length, DDP_UNTAGGED_LEN);
            for (uint32_t i = DDP_UNTAGGED_LEN; i < length; i++)
                if (ulpdu[i] != 0xa5)
                    ck_abort_msg("octet %u", got + i);
            got += length - DDP_UNTAGGED_LEN;
            free(ulpdu);
        }
        raw_wait_end(&raw);
        ck_assert(!raw.reset);
        ck_assert_int_eq(bed.fake.privileged.close(bed.fake.rnic, false), RI_ERR_AGAIN);
        raw_close(&raw);
    } else if (_i == EXPIRE) {
        fake_host_expire_timers(&bed.fake);
    }
    fake_host_close(&bed.fake, _i == FORCE);
    if (_i != WAIT) {
        raw.bed = NULL;
        while (recv(raw.fd, raw.octets, raw.room, 0) > 0)
            ;
        raw_close(&raw);
    }
    fake_host_free(&bed.fake);
    testbed_open(&bed, NULL); /* for the teardown */
}
END_TEST

START_TEST(close_is_busy_with_objects)
{
    side_open(&bed, a, NULL);
    ck_assert_int_eq(bed.fake.privileged.close(bed.fake.rnic, false), RI_ERR_BUSY);
    ck_assert_int_eq(bed.fake.privileged.close(bed.fake.rnic, true), RI_ERR_BUSY);
    ck_assert_int_eq(bed.fake.privileged.pd_destroy(a->pd), RI_ERR_BUSY);
    ck_assert_int_eq(bed.fake.privileged.cq_destroy(a->send_cq), RI_ERR_BUSY);
}
END_TEST

/* ---- by the peer ---- */

static bool keeps_receives(void)
{
    return side_query(a).flags & RI_QP_KEEP_RECEIVES;
}

/* RI_QP_KEEP_RECEIVES: the first request that is unfinished at the end of the peer, or posted
 * behind it, tells that, and receives are flushed with it. Rounds: a FIN, a reset; requests that
 * are posted behind it, or before. */
START_TEST(a_request_tells_that_the_peer_has_left)
{
    const struct shape shape = { .flags = RI_QP_KEEP_RECEIVES };
    const struct linger now = { .l_onoff = 1, .l_linger = 0 };
    const bool resets = _i & 1, posts = _i & 2;

    open_speaking(&raw, &shape, &plain);
    ck_assert_int_eq(side_post_receive(a, 1, NULL, 0), RI_OK);
    for (uint64_t cookie = 5; posts && cookie < 7; cookie++)
        ck_assert_int_eq(side_post(a, RI_WR_RDMA_READ, cookie, RI_WR_SIGNALED, NULL, 0, 0, 0),
                         RI_OK);
    if (resets)
        ck_assert_int_eq(setsockopt(raw.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
    close(raw.fd);
    raw.fd = -1;
    if (!posts) {
        side_expect_event(a, resets ? RI_EVENT_LLP_RESET : RI_EVENT_LLP_CLOSED, 0);
        ck_assert(keeps_receives());
        ck_assert(side_idle(a, a->recv_cq));
        for (uint64_t cookie = 5; cookie < 7; cookie++)
            ck_assert_int_eq(side_post(a, RI_WR_SEND, cookie, RI_WR_SIGNALED, NULL, 0, 0, 0),
                             RI_OK);
    }
    side_expect(a, a->send_cq, 5, RI_WC_TRANSPORT, 0);
    ck_assert(!keeps_receives());
    side_expect(a, a->send_cq, 6, RI_WC_FLUSHED, 0);
    side_expect(a, a->recv_cq, 1, RI_WC_FLUSHED, 0);
}
END_TEST

START_TEST(peer_resets)
{
    const struct linger now = { .l_onoff = 1, .l_linger = 0 };

    open_speaking(&raw, NULL, &plain);
    ck_assert_int_eq(side_post_receive(a, 1, NULL, 0), RI_OK);
    ck_assert_int_eq(setsockopt(raw.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
    close(raw.fd);
    raw.fd = -1;
    side_expect_event(a, RI_EVENT_LLP_RESET, 0);
    side_expect(a, a->recv_cq, 1, RI_WC_FLUSHED, 0);
    expect_state(a, RI_QPS_ERROR);
}
END_TEST

/* C-057: FIN inside an FPDU, after its first octet, in the length, in the payload, before the last
 * of the CRC. */
START_TEST(C057_fin_inside_fpdu)
{
    static const size_t cut[] = { 1, 2, 10, 19 };
    uint8_t fpdu[32];

    open_speaking(&raw, NULL, &plain);
    mpa_put_len(fpdu, DDP_TAGGED_LEN);
    ddp_put_tagged(fpdu + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_WRITE), 0, 0);
    mpa_put_trailer(fpdu + MPA_HDR_LEN + DDP_TAGGED_LEN, DDP_TAGGED_LEN,
                    crc32c(0, fpdu, MPA_HDR_LEN + DDP_TAGGED_LEN), true);
    raw_octets(&raw, fpdu, cut[_i]);
    shutdown(raw.fd, SHUT_WR);
    side_expect_event(a, RI_EVENT_LLP_LOST, 0);
    raw_wait_end(&raw);
}
END_TEST

/* C-149: the peer closes while a Read is outstanding. */
START_TEST(C149_fin_while_busy)
{
    struct region sink;
    uint8_t ulpdu[128];
    struct ri_wc wc;

    open_speaking(&raw, NULL, &plain);
    sink = region_new(a, 64, TESTBED_ALL);
    side_read(a, 1, region_sge(&sink, 0, 64), 0, 0x100);
    ck_assert_uint_gt(raw_next(&raw, ulpdu, sizeof(ulpdu)), 0);
    shutdown(raw.fd, SHUT_WR);
    expect_terminate(&raw, TERMINATE_STREAM, ulpdu);
    side_expect_event(a, RI_EVENT_LLP_CLOSED_BUSY, TERMINATE_STREAM);
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.cookie, 1);
    ck_assert_uint_ne(wc.status, RI_WC_SUCCESS);
}
END_TEST

/* C-143, C-146, C-147: delivered whole, never answered; octets behind it are ignored. */
START_TEST(C143_terminate_received)
{
    struct ri_qp_info info;
    uint8_t ulpdu[TERMINATE_ULPDU_MAX], rest[128];
    struct region target;
    uint32_t length;

    open_speaking(&raw, NULL, &plain);
    target = region_new(a, 64, TESTBED_ALL);
    ck_assert_int_eq(side_post_receive(a, 1, NULL, 0), RI_OK);
    length = (uint32_t)terminate_build_ulpdu(ulpdu, TERMINATE_T_BOUNDS, NULL);
    raw_send(&raw, ulpdu, length);
    raw_tagged(&raw, RDMAP_WRITE, true, target.keys.rkey, (uintptr_t)target.octets, "later", 5);
    side_expect_event(a, RI_EVENT_TERMINATE_RECEIVED, TERMINATE_T_BOUNDS);
    side_expect(a, a->recv_cq, 1, RI_WC_FLUSHED, 0);
    ck_assert_uint_eq(target.octets[0], 0);
    info = side_query(a);
    ck_assert_uint_eq(info.terminate_received, TERMINATE_T_BOUNDS);
    ck_assert_uint_eq(info.terminate_sent, 0);
    ck_assert_uint_eq(info.terminate_length, length - DDP_UNTAGGED_LEN);
    ck_assert_mem_eq(info.terminate, ulpdu + DDP_UNTAGGED_LEN, info.terminate_length);
    ck_assert_uint_eq(raw_next(&raw, rest, sizeof(rest)), 0); /* only FIN */
}
END_TEST

/* ---- by the consumer ---- */

START_TEST(consumer_aborts)
{
    open_speaking(&raw, NULL, &plain);
    ck_assert_int_eq(side_post_receive(a, 1, NULL, 0), RI_OK);
    side_modify(a, RI_QPS_ERROR);
    side_expect_event(a, RI_EVENT_LLP_RESET, 0);
    side_expect(a, a->recv_cq, 1, RI_WC_FLUSHED, 0);
    raw_wait_end(&raw);
    ck_assert(raw.reset);
}
END_TEST

START_TEST(consumer_terminates)
{
    uint8_t ulpdu[128];

    open_speaking(&raw, NULL, &plain);
    side_modify(a, RI_QPS_TERMINATE);
    expect_terminate(&raw, TERMINATE_LOCAL, ulpdu);
    side_expect_event(a, RI_EVENT_LOCAL_ERROR, 0);
}
END_TEST

/* A wrong local key, right or range: the completion reports it, the peer gets 0x0000, the other
 * requests are flushed. */
START_TEST(X003_X039_local_protection)
{
    struct region readable, other;
    struct ri_sge sge;
    uint8_t ulpdu[128];

    open_speaking(&raw, NULL, &plain);
    side_open(&bed, b, NULL);
    readable = region_new(a, 64, RI_ACCESS_LOCAL_READ);
    other = region_new(b, 64, TESTBED_ALL);
    sge = region_sge(&readable, 0, 64);
    switch (_i) {
    case 0: sge.lkey ^= 0x55; break;
    case 1: sge.lkey = 0; break;
    case 2: sge.length = 65; break;
    case 3: sge.addr--; break;
    case 4:
        sge = region_sge(&other, 0, 64); /* of another PD */
        break;
    default: break; /* the sink of a Read is not writable */
    }
    if (_i < 5)
        side_send(a, 1, sge);
    else
        side_read(a, 1, sge, 0, 0x100);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 2, 0, NULL, 0, 0, 0), RI_OK);
    expect_terminate(&raw, TERMINATE_LOCAL, ulpdu);
    side_expect(a, a->send_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    side_expect(a, a->send_cq, 2, RI_WC_FLUSHED, 0);
    side_expect_event(a, RI_EVENT_LOCAL_ERROR, 0);
}
END_TEST

/* C-110 reversed: the peer's Terminate names a Read of ital, which completes with that error. */
START_TEST(peer_refuses_read)
{
    const struct ri_llp_handover handover = plain;
    struct region sink, source;
    struct ri_wc wc;

    testbed_connect(&bed, NULL, &handover);
    sink = region_new(a, 64, TESTBED_ALL);
    source = region_new(b, 64, TESTBED_ALL);
    side_read(a, 1, region_sge(&sink, 0, 64), (uintptr_t)source.octets, source.keys.rkey ^ 1);
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_READ, 2, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    side_expect_event(b, RI_EVENT_READ_ACCESS, TERMINATE_R_STAG);
    side_expect_event(a, RI_EVENT_TERMINATE_RECEIVED, TERMINATE_R_STAG);
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.cookie, 1);
    ck_assert_uint_eq(wc.status, RI_WC_REMOTE_ACCESS);
    ck_assert_uint_eq(wc.vendor_error, TERMINATE_R_STAG);
    side_expect(a, a->send_cq, 2, RI_WC_FLUSHED, 0);
}
END_TEST

/* If Reads are not enabled, both ends get an access error. */
START_TEST(read_not_enabled_at_the_peer)
{
    const struct shape disabled = { .no_read = true };
    struct region sink, source;
    struct ri_wc wc;

    testbed_connect(&bed, &disabled, &plain);
    sink = region_new(a, 64, TESTBED_ALL);
    source = region_new(b, 64, TESTBED_ALL);
    side_read(a, 1, region_sge(&sink, 0, 64), (uintptr_t)source.octets, source.keys.rkey);
    side_expect_event(b, RI_EVENT_READ_ACCESS, TERMINATE_U_QN);
    side_expect_event(a, RI_EVENT_TERMINATE_RECEIVED, TERMINATE_U_QN);
    ck_assert(a->events.explained[0]);
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.cookie, 1);
    ck_assert_uint_eq(wc.status, RI_WC_REMOTE_ACCESS);
    ck_assert_uint_eq(wc.vendor_error, TERMINATE_U_QN);
}
END_TEST

/* The Terminate about a Write: while the Write is in progress, about another Write, or after it has
 * completed. */
static const struct {
    uint32_t length;
    uint32_t stag;
    uint64_t offset;
    enum ri_wc_status status;
} refused_writes[] = {
    { 1 << 24, 7, 4096, RI_WC_REMOTE_ACCESS },
    { 1 << 24, 7, (1 << 24) - 1, RI_WC_REMOTE_ACCESS },
    { 1 << 24, 8, 4096, RI_WC_FLUSHED },
    { 1 << 24, 7, 1 << 24, RI_WC_FLUSHED },
    { 64, 7, 0, RI_WC_SUCCESS },
};

START_TEST(peer_refuses_write)
{
    const uint32_t octets = refused_writes[_i].length;
    uint8_t ulpdu[TERMINATE_ULPDU_MAX], header[DDP_TAGGED_LEN];
    const struct terminate_cause cause = { header, sizeof(header), 1000, NULL };
    struct region source;
    struct ri_wc wc;

    open_speaking(&raw, NULL, &plain);
    source = region_new(a, octets, TESTBED_ALL);
    side_write(a, 1, region_sge(&source, 0, octets), 4096, 7);
    side_write(a, 2, region_sge(&source, 0, 64), 4096 + octets, 7);
    testbed_passes(&bed, 5); /* the peer does not read: the long Write fills the socket */
    ddp_put_tagged(header, true, rdmap_ctrl(RDMAP_WRITE), refused_writes[_i].stag,
                   4096 + refused_writes[_i].offset);
    raw_send(&raw, ulpdu, (uint32_t)terminate_build_ulpdu(ulpdu, TERMINATE_T_STREAM, &cause));
    side_expect_event(a, RI_EVENT_TERMINATE_RECEIVED, TERMINATE_T_STREAM);
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.cookie, 1);
    ck_assert_uint_eq(wc.status, refused_writes[_i].status);
    ck_assert(a->events.explained[0] == (wc.status == RI_WC_REMOTE_ACCESS));
    side_expect(a, a->send_cq, 2, octets == 64 ? RI_WC_SUCCESS : RI_WC_FLUSHED,
                octets == 64 ? 64 : 0);
}
END_TEST

/* ---- refusal and the next connection ---- */

START_TEST(refused_handover)
{
    struct ri_llp_handover handover = plain;
    uint8_t ulpdu[128];

    handover.refuse_code = TERMINATE_RTR;
    side_open(&bed, a, NULL);
    raw_open(&raw, &bed, a, true, &handover);
    expect_terminate(&raw, TERMINATE_RTR, ulpdu);
    expect_state(a, RI_QPS_ERROR);
}
END_TEST

/* ERROR -> IDLE -> a second connection of the same QP. */
START_TEST(qp_is_used_again)
{
    for (int round = 0; round < 3; round++) {
        uint8_t ulpdu[128];

        if (round == 0)
            side_open(&bed, a, NULL);
        else
            side_modify(a, RI_QPS_IDLE);
        memset(&a->events, 0, sizeof(a->events));
        ck_assert_int_eq(side_post_receive(a, 1, NULL, 0), RI_OK);
        raw_open(&raw, &bed, a, false, &plain);
        raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, 1, 0, NULL, 0);
        side_expect(a, a->recv_cq, 1, RI_WC_SUCCESS, 0);
        ck_assert_int_eq(side_post(a, RI_WR_SEND, 2, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
        ck_assert_uint_eq(raw_next(&raw, ulpdu, sizeof(ulpdu)), DDP_UNTAGGED_LEN);
        ck_assert_uint_eq(be_get32(ulpdu + 10), 1); /* MSN */
        side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 0);
        shutdown(raw.fd, SHUT_WR);
        side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
        raw_wait_end(&raw);
        raw_close(&raw);
    }
}
END_TEST

/* Posts `count` unsignalled Sends, which the peer reads. */
static void send_unsignalled(struct raw *peer, uint32_t count)
{
    uint8_t ulpdu[128];

    for (uint32_t i = 0; i < count; i++)
        ck_assert_int_eq(side_post(a, RI_WR_SEND, i, 0, NULL, 0, 0, 0), RI_OK);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_uint_eq(raw_next(peer, ulpdu, sizeof(ulpdu)), DDP_UNTAGGED_LEN);
}

static void close_by_peer(struct raw *peer)
{
    shutdown(peer->fd, SHUT_WR);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
    raw_wait_end(peer);
    raw_close(peer);
    memset(&a->events, 0, sizeof(a->events));
}

/* Round 0: no completion covers the unsignalled requests of the first connection. Round 1: one
 * completion is still in the CQ, and the slots behind it are released without it. */
START_TEST(unsignalled_requests_end_with_their_connection)
{
    const struct shape shape = { .depth = 4 };
    uint32_t signalled = (uint32_t)_i, free = 4 - signalled;
    uint8_t ulpdu[128];

    open_speaking(&raw, &shape, &plain);
    if (signalled) {
        ck_assert_int_eq(side_post(a, RI_WR_SEND, 7, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
        ck_assert_uint_eq(raw_next(&raw, ulpdu, sizeof(ulpdu)), DDP_UNTAGGED_LEN);
    }
    send_unsignalled(&raw, free);
    close_by_peer(&raw);
    side_modify(a, RI_QPS_IDLE);
    ck_assert_int_eq(side_post_receive(a, 1, NULL, 0), RI_OK);
    raw_open(&raw, &bed, a, false, &plain);
    raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, 1, 0, NULL, 0);
    side_expect(a, a->recv_cq, 1, RI_WC_SUCCESS, 0);
    send_unsignalled(&raw, free);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 9, 0, NULL, 0, 0, 0), RI_ERR_QUEUE_FULL);
    if (signalled) {
        side_expect(a, a->send_cq, 7, RI_WC_SUCCESS, 0);
        send_unsignalled(&raw, signalled);
    }
    close_by_peer(&raw);
    ck_assert(side_idle(a, a->send_cq));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma ends");
    TCase *tc = new_case(suite, "in order", bed_open, bed_close);

    tc_add_tests(tc, C148_close_in_order, close_delivers_what_was_sent, close_is_bounded);
    tcase_add_loop_test(tc, destroyed_qp_lingers, 0, 3);
    tcase_add_test(tc, close_is_busy_with_objects);
    tc = new_case(suite, "by the peer", bed_open, bed_close);
    tcase_add_test(tc, peer_resets);
    tc_add_loops(tc, 0, 4, a_request_tells_that_the_peer_has_left, C057_fin_inside_fpdu);
    tc_add_tests(tc, C149_fin_while_busy, C143_terminate_received, peer_refuses_read,
                 read_not_enabled_at_the_peer);
    tc_add_rows(tc, peer_refuses_write, refused_writes);
    tc = new_case(suite, "by the consumer", bed_open, bed_close);
    tc_add_tests(tc, consumer_aborts, consumer_terminates);
    tcase_add_loop_test(tc, X003_X039_local_protection, 0, 6);
    tc_add_tests(tc, refused_handover, qp_is_used_again);
    tcase_add_loop_test(tc, unsignalled_requests_end_with_their_connection, 0, 2);
    return tc_main(suite);
}
