/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's corners: limits of a hand-over, order of messages, ends that cross each other, fairness, memory that goes away. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "rig.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "providers/softrdma/ddp.h"
#include "providers/softrdma/mpa.h"
#include "providers/softrdma/rdmap.h"
#include "providers/softrdma/softrdma.h"
#include "providers/softrdma/terminate.h"

static struct rig rig;
static struct side *const a = &rig.side[0], *const b = &rig.side[1];
static struct tc_rng rng;
static struct raw raw;

static const struct ri_llp_handover plain = { .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8 };
static const struct ri_llp_handover await = {
    .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8, .rtr_await = true
};

static void setup(void)
{
    rng = tc_rng(11);
    raw.fd = -1;
    rig_open(&rig, NULL);
}

static void teardown(void)
{
    raw_close(&raw);
    rig_close(&rig);
}

/* Side a against the hand-written peer; as initiator its ready-to-receive Write is taken off. */
static void connect_raw(bool initiator, const struct ri_llp_handover *handover)
{
    uint8_t ulpdu[64];

    side_open(&rig, a, NULL);
    raw_open(&raw, &rig, a, initiator, handover);
    if (initiator)
        ck_assert_uint_eq(raw_next(&raw, ulpdu, sizeof(ulpdu)), DDP_TAGGED_LEN);
}

struct frame {
    uint8_t octets[70000];
    struct rdmap_segment segment;
};
static struct frame frame;

/* False: the stream has ended. */
static bool next_frame(void)
{
    uint32_t length = raw_next(&raw, frame.octets, sizeof(frame.octets));

    if (!length)
        return false;
    ck_assert_int_eq(rdmap_check(frame.octets, length, 0, &frame.segment), RDMAP_OK);
    return true;
}

static void expect_terminate(uint16_t value)
{
    struct terminate_info info;

    do
        ck_assert_msg(next_frame(), "no Terminate");
    while (frame.segment.opcode != RDMAP_TERMINATE);
    ck_assert_int_eq(
        terminate_parse(frame.segment.payload, frame.segment.payload_len, false, &info),
        TERMINATE_OK);
    ck_assert_msg(info.value == value, "Terminate %04x, not %04x", info.value, value);
    ck_assert(!next_frame()); /* S-059 */
}

static enum ri_status hand_over(struct side *side, int fd, const struct ri_llp_handover *handover)
{
    struct ri_llp_handover own = *handover;
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE | RI_QPM_HANDOVER,
                                   .state = RI_QPS_RTS,
                                   .handover = &own };

    own.size = sizeof(own);
    own.fd = fd;
    return rig.fake.privileged.qp_modify(side->qp, &modify);
}

static void read_request(uint32_t msn, uint32_t size, const struct region *source, uint64_t sink)
{
    const struct rdmap_read_req request = { .sink_stag = 0x5a5a,
                                            .sink_to = sink,
                                            .size = size,
                                            .src_stag = source ? source->keys.rkey : 0,
                                            .src_to = source ? (uintptr_t)source->octets : 0 };
    uint8_t payload[RDMAP_READ_REQ_LEN];

    rdmap_put_read_req(payload, &request);
    raw_untagged(&raw, RDMAP_READ_REQ, true, DDP_QN_READ, msn, 0, payload, sizeof(payload));
}

static void passes(int count)
{
    while (count--) {
        fake_host_run(&rig.fake, NULL);
        fake_host_sleep(&rig.fake, 1, 0);
    }
}

/* ---- hand-over ---- */

START_TEST(handover_limits)
{
    struct ri_llp_handover handover = plain;
    uint8_t *octets = calloc(1, RX_RING_OCTETS + 1);
    int fds[2];

    side_open(&rig, a, NULL);
    rig_tcp(fds, 0);
    handover.ird = 129; /* more than max_ird: the ring of the Reads would be too small */
    ck_assert_int_eq(hand_over(a, fds[0], &handover), RI_ERR_LIMIT);
    handover.ird = 8;
    handover.ord = 129;
    ck_assert_int_eq(hand_over(a, fds[0], &handover), RI_ERR_LIMIT);
    handover.ord = 8;
    handover.bytes_read = octets;
    handover.bytes_read_length = RX_RING_OCTETS + 1;
    ck_assert_int_eq(hand_over(a, fds[0], &handover), RI_ERR_LIMIT);
    handover.bytes_read_length = RX_RING_OCTETS; /* ULPDUs of no length */
    ck_assert_int_eq(hand_over(a, fds[0], &handover), RI_OK);
    side_expect_event(a, RI_EVENT_INTEGRITY, 0x2002);
    free(octets);
    close(fds[1]);
}
END_TEST

/* A QP made without IRD gets one by the hand-over, and with it what Read Responses need. */
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

    side_open(&rig, a, NULL);
    ck_assert_int_eq(rig.fake.privileged.qp_destroy(a->qp), RI_OK);
    attr.send_cq = a->send_cq;
    attr.recv_cq = a->recv_cq;
    ck_assert_int_eq(rig.fake.privileged.qp_create(a->pd, &attr, &a->qp), RI_OK);
    source = region_new(a, 8192, RIG_ALL);
    tc_fill(&rng, source.octets, 8192);
    raw_open(&raw, &rig, a, false, &plain);
    read_request(1, 4000, &source, 0);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_RESP);
    ck_assert_uint_eq(frame.segment.payload_len, 4000);
    ck_assert(!memcmp(frame.segment.payload, source.octets, 4000));
    region_free(a, &source);
}
END_TEST

/* Longer than the arena, and the first FPDU behind it. */
START_TEST(long_last_message)
{
    const size_t length = 300000;
    struct ri_llp_handover handover = plain;
    uint8_t *message = malloc(length);
    size_t got = 0;

    tc_fill(&rng, message, length);
    handover.last_message = message;
    handover.last_message_length = length;
    side_open(&rig, a, NULL);
    raw_open(&raw, &rig, a, true, &handover);
    while (got < length) {
        uint8_t part[4096];
        ssize_t n = recv(raw.fd, part, length - got < sizeof(part) ? length - got : sizeof(part),
                         MSG_DONTWAIT);

        if (n < 0)
            passes(1);
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

/* C-044, and no harm when the timer fires although the message has come. */
START_TEST(C044_first_message_overdue)
{
    connect_raw(false, &await);
    if (_i) {
        raw_tagged(&raw, RDMAP_WRITE, true, 0, 0, NULL, 0);
        side_expect_event(a, RI_EVENT_ESTABLISHED, 0);
    }
    fake_host_expire_timers(&rig.fake);
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

/* S-011: who has heard nothing says nothing, not even Terminate. C-046: and is not established. */
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

/* A first FPDU that is refused establishes nothing; here the peer has spoken, so it is told. */
START_TEST(C046_refused_first_message)
{
    connect_raw(false, &await);
    raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, 1, 0, "x", 1);
    expect_terminate(TERMINATE_U_NOBUF);
    side_expect_event(a, RI_EVENT_NO_RECEIVE, TERMINATE_U_NOBUF);
}
END_TEST

/* C-042: the ready-to-receive Read needs no leave; a later one of no length does (C-108). */
START_TEST(C042_read_as_first_message)
{
    const struct shape shape = { .no_read = true };

    side_open(&rig, a, &shape);
    raw_open(&raw, &rig, a, false, &await);
    read_request(1, 0, NULL, 77);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_RESP);
    ck_assert_uint_eq(frame.segment.payload_len, 0);
    side_expect_event(a, RI_EVENT_ESTABLISHED, 0);
    read_request(2, 0, NULL, 77);
    expect_terminate(TERMINATE_U_QN);
}
END_TEST

/* ---- checks ---- */

/* C-073 to C-076 in their order. */
START_TEST(C076_order_of_checks)
{
    struct region region;
    uint8_t octets[64] = { 0 };

    connect_raw(true, &plain);
    region = region_new(a, 64, RIG_ALL);
    side_receive(a, 1, region_sge(&region, 0, 64));
    raw_untagged(&raw, RDMAP_SEND, false, DDP_QN_SEND, 1, 0, octets, 32);
    raw_untagged(&raw, RDMAP_SEND_SE, true, DDP_QN_SEND, 1, _i == 0 ? 31 : 32, octets,
                 _i == 1 ? 33 : 32);
    expect_terminate(_i == 0 ? TERMINATE_U_MO : _i == 1 ? TERMINATE_U_LONG : TERMINATE_OPCODE);
    side_expect(a, a->recv_cq, 1, _i == 2 ? RI_WC_LOCAL_QP : RI_WC_LOCAL_LENGTH, 0);
    region_free(a, &region);
}
END_TEST

/* C-119, C-120, C-121 in their order; the Terminate carries the DDP header. */
START_TEST(C119_invalidate)
{
    static const uint16_t values[] = { TERMINATE_R_STAG, TERMINATE_R_INVALIDATE,
                                       TERMINATE_R_ACCESS };
    struct region own, foreign;
    uint8_t ulpdu[DDP_UNTAGGED_LEN];
    uint32_t stags[3] = { 0 };

    side_open(&rig, b, NULL);
    connect_raw(true, &plain);
    own = region_new(a, 64, RIG_ALL);
    foreign = region_new(b, 64, RIG_ALL);
    stags[0] = own.keys.rkey ^ 0xff;
    stags[1] = foreign.keys.rkey;
    stags[2] = own.keys.rkey;
    side_receive(a, 1, region_sge(&own, 0, 64));
    ddp_put_untagged(ulpdu, true, rdmap_ctrl(RDMAP_SEND_INV), stags[_i], DDP_QN_SEND, 1, 0);
    raw_send(&raw, ulpdu, sizeof(ulpdu));
    expect_terminate(values[_i]);
    ck_assert_uint_eq(frame.segment.payload_len, 24);
    side_expect(a, a->recv_cq, 1, RI_WC_REMOTE_INVALID_REQUEST, 0);
    region_free(a, &own);
    region_free(b, &foreign);
}
END_TEST

/* C-142: malformed or not, a Terminate ends the stream and is not answered. */
START_TEST(C142_terminate_without_last)
{
    uint8_t payload[4] = { 0x02, 0x07 };

    connect_raw(true, &plain);
    raw_untagged(&raw, RDMAP_TERMINATE, false, DDP_QN_TERMINATE, 1, 0, payload, sizeof(payload));
    side_expect_event(a, RI_EVENT_TERMINATE_RECEIVED, 0x0207);
    ck_assert(!next_frame());
    ck_assert_uint_eq(side_query(a).terminate_length, 4);
}
END_TEST

/* ---- order of what is sent ---- */

#define BIG (3u << 20)

/* A Write under way, a Read Request in the middle, another Write behind: no message lies inside another one. */
START_TEST(S051_messages_are_not_mixed)
{
    struct region region;
    uint32_t left = BIG, writes = 0, responses = 0;
    bool write = true;

    connect_raw(true, &plain);
    region = region_new(a, BIG, RIG_ALL);
    side_write(a, 1, region_sge(&region, 0, BIG), 0, 1);
    for (uint32_t msn = 1; msn <= 3; msn++)
        read_request(msn, BIG, &region, 0);
    passes(10); /* the Requests are there before the Write is through */
    side_write(a, 2, region_sge(&region, 0, BIG), 0, 2);
    side_write(a, 3, region_sge(&region, 0, BIG), 0, 3);
    while (writes + responses < 6) {
        ck_assert(next_frame());
        if (left == BIG)
            write = frame.segment.opcode == RDMAP_WRITE;
        ck_assert_int_eq(frame.segment.opcode, write ? RDMAP_WRITE : RDMAP_READ_RESP);
        ck_assert_uint_eq(frame.segment.hdr.to, BIG - left);
        left -= frame.segment.payload_len;
        ck_assert_int_eq(frame.segment.hdr.last, left == 0);
        if (left)
            continue;
        left = BIG;
        *(write ? &writes : &responses) += 1;
        /* they take turns */
        ck_assert_uint_le(writes, responses + 2);
        ck_assert_uint_le(responses, writes + 1);
    }
    for (uint64_t i = 1; i <= 3; i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, BIG);
    region_free(a, &region);
}
END_TEST

/* RI_WR_COALESCE: held, but never forgotten: the lane does not go to sleep over it. */
START_TEST(coalesced_posts)
{
    connect_raw(true, &plain);
    passes(3);
    ck_assert(rig.fake.user.lane_arm(rig.fake.lane));
    for (uint64_t i = 0; i < 3; i++)
        ck_assert_int_eq(
            side_post(a, RI_WR_RDMA_WRITE, i, RI_WR_SIGNALED | RI_WR_COALESCE, NULL, 0, 0, 0),
            RI_OK);
    ck_assert(!rig.fake.user.lane_arm(rig.fake.lane));
    fake_host_run(&rig.fake, NULL);
    ck_assert(rig.fake.user.lane_arm(rig.fake.lane));
    for (uint64_t i = 0; i < 3; i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, 0);
    for (int i = 0; i < 3; i++)
        ck_assert(next_frame());
}
END_TEST

/* ---- ends ---- */

/* RST is seen by the send first, which takes the error from the socket; what is read then looks like FIN. */
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

/* The peer closed its half and reads nothing: what is still to go waits without keeping the lane awake. */
START_TEST(end_with_output_left)
{
    struct epoll_event event;
    struct region region;

    connect_raw(true, &plain);
    region = region_new(a, 64u << 20, RIG_ALL);
    side_write(a, 1, region_sge(&region, 0, 64u << 20), 0, 1);
    passes(50);
    ck_assert_int_eq(shutdown(raw.fd, SHUT_WR), 0);
    side_expect_event(a, RI_EVENT_LLP_CLOSED_BUSY, TERMINATE_STREAM);
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
    passes(3);
    ck_assert(rig.fake.user.lane_arm(rig.fake.lane));
    ck_assert_int_eq(epoll_wait(rig.fake.epoll, &event, 1, 0), 0);
    expect_terminate(TERMINATE_STREAM);
    region_free(a, &region);
}
END_TEST

/* CLOSING that is cut, before and after FIN has left. */
START_TEST(closing_is_cut)
{
    connect_raw(true, &plain);
    side_modify(a, RI_QPS_CLOSING);
    passes(_i);
    side_modify(a, RI_QPS_ERROR);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
    raw_wait_end(&raw);
    side_modify(a, RI_QPS_IDLE);
    ck_assert_int_eq(side_query(a).state, RI_QPS_IDLE);
}
END_TEST

/* The peer's FIN is in the socket when the QP goes: the stream ends inside the call, once. */
START_TEST(destroy_after_the_peers_end)
{
    connect_raw(true, &plain);
    ck_assert_int_eq(shutdown(raw.fd, SHUT_WR), 0);
    ck_assert_int_eq(rig.fake.privileged.qp_destroy(a->qp), RI_OK);
    a->qp = NULL;
    passes(3);
    raw_wait_end(&raw);
    ck_assert(!raw.reset);
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
}
END_TEST

static void *run_passes(void *unused)
{
    (void)unused;
    passes(3);
    return NULL;
}

/* The peer has read the message and closes, and the lane hears of it, before the send call has returned. */
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

/* What the peer answered by its FIN is not outstanding: no Terminate. */
START_TEST(C148_fin_answers_what_is_being_sent)
{
    struct llp_ops hooked = llp_tcp;
    struct region region;

    connect_raw(true, &plain);
    region = region_new(a, 64, RIG_ALL);
    passes(3);
    hooked.send = send_and_be_left;
    container_of(a->qp, struct qp, base)->stream->llp = &hooked;
    side_send(a, 1, region_sge(&region, 0, 64));
    container_of(a->qp, struct qp, base)->stream->llp = &llp_tcp;
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 64);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
    ck_assert(!next_frame());
    region_free(a, &region);
}
END_TEST

static const struct region *hooked_region;
static unsigned int sends;
static bool read_told;

/* Before the call that took the Read Request returns its response is here; if the Read is told by then its slot is filled
 * anew. Before a request has left, the lane looks for what is complete. */
static ssize_t send_and_be_overtaken(struct stream *stream, const struct iovec *iov, int count)
{
    const struct region *region = hooked_region;
    struct ri_wc wc;
    ssize_t sent;

    if (sends++) {
        raw_tagged(&raw, RDMAP_WRITE, true, 0, 0, NULL, 0);
        passes(3);
        ck_assert_uint_eq(rig.fake.user.poll(a->send_cq, 1, &wc), 0);
        return llp_tcp.send(stream, iov, count);
    }
    sent = llp_tcp.send(stream, iov, count);
    ck_assert(next_frame());
    raw_tagged(&raw, RDMAP_READ_RESP, true, region->keys.rkey, (uintptr_t)region->octets, "data",
               4);
    passes(3);
    read_told = rig.fake.user.poll(a->send_cq, 1, &wc);
    if (read_told)
        side_send(a, 2, region_sge(region, 0, 8));
    return sent;
}

/* Who is inside tx does not take a request for the one that was in its slot before. */
START_TEST(answered_before_the_send_returns)
{
    const struct shape shape = { .depth = 1 };
    struct llp_ops hooked = llp_tcp;
    struct region region;

    raw_open_speaking(&raw, &rig, a, &shape, &plain);
    region = region_new(a, 64, RIG_ALL);
    hooked_region = &region;
    hooked.send = send_and_be_overtaken;
    container_of(a->qp, struct qp, base)->stream->llp = &hooked;
    side_read(a, 1, region_sge(&region, 0, 4), 0, 1);
    if (!read_told) {
        side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 4);
        side_send(a, 2, region_sge(&region, 0, 8));
    }
    container_of(a->qp, struct qp, base)->stream->llp = &llp_tcp;
    ck_assert(next_frame());
    ck_assert_uint_eq(frame.segment.payload_len, 8);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 8);
    region_free(a, &region);
}
END_TEST

static ssize_t send_nothing(struct stream *stream, const struct iovec *iov, int count)
{
    (void)stream, (void)iov, (void)count;
    return -EAGAIN;
}

/* A peer answers a Read that has not left: it is told when it has. */
START_TEST(answered_before_it_was_sent)
{
    const struct shape shape = { .depth = 1 };
    struct llp_ops hooked = llp_tcp;
    struct region region;
    struct ri_wc wc;

    raw_open_speaking(&raw, &rig, a, &shape, &plain);
    region = region_new(a, 64, RIG_ALL);
    hooked.send = send_nothing;
    container_of(a->qp, struct qp, base)->stream->llp = &hooked;
    side_read(a, 1, region_sge(&region, 0, 0), 0, 1);
    raw_tagged(&raw, RDMAP_READ_RESP, true, 0, 0, NULL, 0);
    passes(3);
    ck_assert_uint_eq(rig.fake.user.poll(a->send_cq, 1, &wc), 0);
    container_of(a->qp, struct qp, base)->stream->llp = &llp_tcp;
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 0);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_REQ);
    side_send(a, 2, region_sge(&region, 0, 8));
    ck_assert(next_frame());
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 8);
    region_free(a, &region);
}
END_TEST

/* One error per queue: the second of two that cross each other is flushed like the rest. */
START_TEST(one_error_per_queue)
{
    struct region region;
    struct ri_sge bad;

    connect_raw(true, &plain);
    region = region_new(a, 64, RIG_ALL);
    side_read(a, 1, region_sge(&region, 0, 64), 0, 1);
    ck_assert(next_frame());
    raw_tagged(&raw, RDMAP_READ_RESP, true, 0xbad, 0, "data",
               4); /* fails the Read, when it is read */
    bad = region_sge(&region, 60, 64);
    side_write(a, 2, bad, 0, 1); /* fails by itself, now */
    side_write(a, 3, region_sge(&region, 0, 8), 0, 1);
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
    side_expect(a, a->send_cq, 2, RI_WC_LOCAL_PROTECTION, 0);
    side_expect(a, a->send_cq, 3, RI_WC_FLUSHED, 0);
    side_expect_event(a, RI_EVENT_LOCAL_ERROR, 0);
    region_free(a, &region);
}
END_TEST

/* Nothing is lost when the CQ is full, but the connection ends (0x0207), told once. */
START_TEST(overflow_ends_the_connection)
{
    const struct shape shape = { .cqe = 2 };
    struct ri_wc wc;

    side_open(&rig, a, &shape);
    raw_open(&raw, &rig, a, true, &plain);
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

/* ---- fairness ---- */

/* A peer that sends more than a pass's budget does not keep the others waiting. */
START_TEST(flood)
{
    static uint8_t fpdus[400 * 20];
    struct raw other = { .fd = -1 };
    struct ri_wc wc;
    uint32_t got = 0;

    for (int i = 0; i < 400; i++) {
        uint8_t *fpdu = fpdus + 20 * i;

        mpa_put_len(fpdu, DDP_TAGGED_LEN);
        ddp_put_tagged(fpdu + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_WRITE), 0, 0);
        memset(fpdu + MPA_HDR_LEN + DDP_TAGGED_LEN, 0, 4);
    }
    {
        struct ri_llp_handover no_crc = plain;

        no_crc.crc = false;
        side_open(&rig, a, NULL);
        side_open(&rig, b, NULL);
        raw_open(&raw, &rig, a, false, &no_crc);
        raw_open(&other, &rig, b, false, &no_crc);
    }
    ck_assert_int_eq(side_post_receive(b, 1, NULL, 0), RI_OK);
    passes(3);
    for (int pass = 0; pass < 3 && !got; pass++) {
        raw_octets(&raw, fpdus, sizeof(fpdus));
        if (!pass)
            raw_untagged(&other, RDMAP_SEND, true, DDP_QN_SEND, 1, 0, NULL, 0);
        fake_host_run(&rig.fake, NULL); /* without epoll: what is hot is read by turns */
        got = rig.fake.user.poll(b->recv_cq, 1, &wc);
    }
    ck_assert_uint_eq(got, 1);
    raw_close(&other);
}
END_TEST

/* A lower layer that takes everything at once. */
static unsigned int null_sends;

static ssize_t null_send(struct stream *stream, const struct iovec *iov, int count)
{
    ssize_t octets = 0;

    (void)stream;
    for (int i = 0; i < count; i++)
        octets += (ssize_t)iov[i].iov_len;
    null_sends++;
    return octets;
}

static ssize_t null_receive(struct stream *stream, void *buffer, size_t length)
{
    (void)stream;
    (void)buffer;
    (void)length;
    return -EAGAIN;
}

static uint32_t null_emss(struct stream *stream)
{
    (void)stream;
    return 1460;
}

static void null_finish(struct stream *stream)
{
    (void)stream;
}

static void null_close(struct stream *stream, bool reset)
{
    (void)reset;
    close(stream->fd);
}

/* What one visitor writes is bounded; the rest goes by and by. */
START_TEST(one_visitor_does_not_write_for_ever)
{
    static const struct llp_ops null = { null_send, null_receive, null_emss, null_finish,
                                         null_close };
    const uint32_t size = 64u << 20;
    struct ri_llp_handover handover = plain;
    struct region region;
    int fds[2];

    side_open(&rig, a, NULL);
    rig_tcp(fds, 0);
    handover.fd = fds[0];
    handover.initiator = true;
    ck_assert_int_eq(qp_start(container_of(a->qp, struct qp, base), &handover, &null), RI_OK);
    region = region_new(a, size, RIG_ALL);
    null_sends = 0;
    side_write(a, 1, region_sge(&region, 0, size), 0, 0);
    ck_assert_uint_le(null_sends, 2 * TX_ROUNDS);
    ck_assert(!rig.fake.user.lane_arm(rig.fake.lane));
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, size);
    ck_assert_uint_ge(null_sends, size / TX_BATCH_OCTETS);
    region_free(a, &region);
    close(fds[1]);
}
END_TEST

/* ---- memory that goes away ---- */

/* a Write lies half in the socket, half in a batch; its region is deregistered and the memory unmapped. What was
 * built goes out as it was; what was not fails. */
START_TEST(X006_deregister_under_way)
{
    const uint32_t size = _i ? 200000 : 32u << 20;
    struct region region, before;
    const int small = 4096;
    uint32_t got = 0;

    side_open(&rig, a, NULL);
    raw_open(&raw, &rig, a, true, &plain);
    region = region_new(a, size, RIG_ALL);
    before = region_new(a, size, RIG_ALL);
    tc_fill(&rng, region.octets, size);
    memcpy(before.octets, region.octets, size);
    {
        const struct qp *qp = container_of(a->qp, struct qp, base);

        ck_assert_int_eq(setsockopt(qp->stream->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)),
                         0);
    }
    side_write(a, 1, region_sge(&region, 0, size), 0, 1);
    passes(5);
    ck_assert(side_idle(a, a->send_cq)); /* not all of it fits into the socket */
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
    region_free(a, &before);
}
END_TEST

/* Two that walk at once, here one inside the other, do not make each other begin again. */
static void visit_none(struct qp *qp, void *arg)
{
    (void)qp;
    (void)arg;
}

static void visit_and_walk(struct qp *qp, void *visits)
{
    if (++*(uint32_t *)visits < 10)
        lane_visit_qps(qp->lane, qp->pd, visit_none, NULL);
}

START_TEST(walks_do_not_meet)
{
    const struct qp *qp;
    uint32_t visits = 0;

    rig_connect(&rig, NULL, NULL);
    qp = container_of(a->qp, struct qp, base);
    lane_visit_qps(qp->lane, qp->pd, visit_and_walk, &visits);
    ck_assert_uint_eq(visits, 1);
}
END_TEST

static TCase *new_case(Suite *suite, const char *name)
{
    TCase *tc = tcase_create(name);

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 0.001 * tc_timeout_ms(60000));
    suite_add_tcase(suite, tc);
    return tc;
}

int main(void)
{
    Suite *suite = suite_create("softrdma engine");
    TCase *tc = new_case(suite, "hand-over");

    tcase_add_test(tc, handover_limits);
    tcase_add_test(tc, ird_of_the_handover);
    tcase_add_test(tc, long_last_message);
    tc = new_case(suite, "responder");
    tcase_add_loop_test(tc, C044_first_message_overdue, 0, 2);
    tcase_add_loop_test(tc, S011_silent_to_the_end, 0, 2);
    tcase_add_test(tc, C046_refused_first_message);
    tcase_add_test(tc, C042_read_as_first_message);
    tc = new_case(suite, "checks");
    tcase_add_loop_test(tc, C076_order_of_checks, 0, 3);
    tcase_add_loop_test(tc, C119_invalidate, 0, 3);
    tcase_add_test(tc, C142_terminate_without_last);
    tc = new_case(suite, "order");
    tcase_add_test(tc, S051_messages_are_not_mixed);
    tcase_add_test(tc, coalesced_posts);
    tc = new_case(suite, "ends");
    tcase_add_test(tc, C152_reset_seen_by_the_send);
    tcase_add_test(tc, end_with_output_left);
    tcase_add_loop_test(tc, closing_is_cut, 0, 3);
    tcase_add_test(tc, destroy_after_the_peers_end);
    tcase_add_test(tc, C148_fin_answers_what_is_being_sent);
    tcase_add_test(tc, answered_before_the_send_returns);
    tcase_add_test(tc, answered_before_it_was_sent);
    tcase_add_test(tc, one_error_per_queue);
    tcase_add_test(tc, overflow_ends_the_connection);
    tc = new_case(suite, "fairness");
    tcase_add_test(tc, flood);
    tcase_add_test(tc, one_visitor_does_not_write_for_ever);
    tc = new_case(suite, "memory");
    tcase_add_loop_test(tc, X006_deregister_under_way, 0, 2);
    tcase_add_test(tc, walks_do_not_meet);
    return tc_main(suite);
}
