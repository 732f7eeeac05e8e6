/* SPDX-License-Identifier: BSD-3-Clause */
/* One QP against a hand-written peer: who may send first, which requests wait for which, how
 * messages are segmented. */
#include "loop.h"

#include "base/clock.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "providers/software/iwarp/codec/mpa.h"

/* ---- against a hand-written peer ---- */

static void take_frame(void)
{
    ck_assert(next_frame());
    ck_assert_int_eq(rdmap_check_queue(&frame.segment, 0), RDMAP_OK);
    ck_assert_int_eq(rdmap_check_payload(&frame.segment), RDMAP_OK);
}

/* C-040: a responder sends nothing until one valid FPDU has come. Posts are accepted and wait
 * meanwhile. */
START_TEST(C040_responder_holds)
{
    const struct ri_llp_handover await = {
        .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8, .rtr_await = true
    };

    side_open(&bed, a, NULL);
    raw_open(&raw, &bed, a, false, &await);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 1, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    ck_assert(raw_silent(&raw));
    ck_assert(side_idle(a, a->send_cq));
    ck_assert(side_query(a).holding);
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    raw_tagged(&raw, RDMAP_WRITE, true, 0, 0, NULL, 0);
    take_frame();
    ck_assert_int_eq(frame.segment.opcode, RDMAP_SEND);
    ck_assert_uint_eq(frame.segment.hdr.msn, 1);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 0);
    ck_assert(!side_query(a).holding);
    side_expect_event(a, RI_EVENT_ESTABLISHED, 0);
}
END_TEST

static uint32_t completed_before; /* UINT32_MAX: it was not told */

static void look_at_established(const struct ri_host *host, void *context,
                                const struct ri_event *event)
{
    uint32_t notable;

    (void)host, (void)context;
    if (event->type == RI_EVENT_ESTABLISHED)
        ck_assert_int_eq(a->recv_cq->ops->cq_peek(a->recv_cq, &completed_before, &notable), RI_OK);
}

/* A thread that sees a receive complete may answer at once: that the connection is established
 * comes first, even if a Send has come with the message that establishes. */
START_TEST(established_is_told_before_a_receive_completes)
{
    const struct ri_llp_handover await = {
        .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8, .rtr_await = true
    };
    struct region region;

    completed_before = UINT32_MAX;
    side_open(&bed, a, NULL);
    region = region_new(a, 64, TESTBED_ALL);
    raw_open(&raw, &bed, a, false, &await);
    side_receive(a, 1, region_sge(&region, 0, 64));
    bed.fake.host.qp_event = look_at_established;
    raw_tagged(&raw, RDMAP_WRITE, true, 0, 0, NULL, 0);
    raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, 1, 0, "hello", 5);
    side_expect(a, a->recv_cq, 1, RI_WC_SUCCESS, 5);
    ck_assert_uint_eq(completed_before, 0);
    raw_close(&raw);
}
END_TEST

/* Side a is a responder whose peer promised no first message, with one Send posted. */
static void open_held(struct raw *peer, const char *const *options)
{
    bed_close();
    testbed_open(&bed, options);
    side_open(&bed, a, NULL);
    raw_open(peer, &bed, a, false, &plain);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 1, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    ck_assert(raw_silent(peer));
    ck_assert(side_query(a).holding);
}

/* Option first_message_wait: after so much silence posted requests go, and those posted later. */
START_TEST(a_silent_peer_is_spoken_to_by_option)
{
    static const char *const options[] = { "first_message_wait", "3600000", NULL };

    open_held(&raw, options);
    ck_assert_uint_eq(bed.fake.events.timer_count, 1);
    ck_assert(bed.fake.events.timers[0]->deadline > clock_now() + 3000 * CLOCK_NS_PER_S);
    fake_host_expire_timers(&bed.fake);
    for (uint32_t msn = 1; msn <= 2; msn++) {
        take_frame();
        ck_assert_int_eq(frame.segment.opcode, RDMAP_SEND);
        ck_assert_uint_eq(frame.segment.hdr.msn, msn);
        side_expect(a, a->send_cq, msn, RI_WC_SUCCESS, 0);
        ck_assert(!side_query(a).holding);
        ck_assert_int_eq(side_post(a, RI_WR_SEND, msn + 1, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    }
    ck_assert_uint_eq(bed.fake.logged[RI_LOG_WARNING], 0);
}
END_TEST

/* Without that option nothing goes (C-040), and the log says once what the requests wait for. */
START_TEST(C040_the_log_names_what_is_awaited)
{
    open_held(&raw, NULL);
    ck_assert_uint_eq(bed.fake.events.timer_count, 1);
    fake_host_expire_timers(&bed.fake);
    ck_assert(raw_silent(&raw));
    ck_assert(side_query(a).holding);
    ck_assert_uint_eq(bed.fake.logged[RI_LOG_WARNING], 1);
    raw_tagged(&raw, RDMAP_WRITE, true, 0, 0, NULL, 0);
    take_frame();
    ck_assert_int_eq(frame.segment.opcode, RDMAP_SEND);
}
END_TEST

/* Nothing to say to a peer that was heard, nor where no request waits. */
START_TEST(the_log_is_silent_where_nothing_waits)
{
    side_open(&bed, a, NULL);
    raw_open(&raw, &bed, a, false, &plain);
    if (_i) {
        raw_tagged(&raw, RDMAP_WRITE, true, 0, 0, NULL, 0);
        ck_assert(fake_host_until(&bed.fake, !side_query(a).holding, TESTBED_TIMEOUT));
    }
    fake_host_expire_timers(&bed.fake);
    ck_assert(raw_silent(&raw));
    ck_assert_uint_eq(bed.fake.logged[RI_LOG_WARNING], 0);
}
END_TEST

/* Octets that were read together with the start-up frame: the FPDU in them counts, at any split. */
START_TEST(octets_of_the_handover)
{
    struct ri_llp_handover handover = plain;
    uint8_t fpdu[64];
    uint32_t length;

    ddp_put_untagged(fpdu + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_SEND), 0, DDP_QN_SEND, 1, 0);
    memcpy(fpdu + MPA_HDR_LEN + DDP_UNTAGGED_LEN, "data", 4);
    mpa_put_len(fpdu, DDP_UNTAGGED_LEN + 4);
    length = MPA_HDR_LEN + DDP_UNTAGGED_LEN + 4;
    length += mpa_put_trailer(fpdu + length, DDP_UNTAGGED_LEN + 4, 0, false);
    handover.crc = false;
    handover.bytes_read = fpdu;
    handover.bytes_read_length = (size_t)_i < length ? (size_t)_i : length;
    handover.last_message = "MPA reply";
    handover.last_message_length = 9;
    side_open(&bed, a, NULL);
    {
        struct region region = region_new(a, 16, TESTBED_ALL);

        side_receive(a, 1, region_sge(&region, 0, 16));
        raw_open(&raw, &bed, a, false, &handover);
        if ((uint32_t)_i < length)
            raw_octets(&raw, fpdu + _i, length - (uint32_t)_i);
        side_expect(a, a->recv_cq, 1, RI_WC_SUCCESS, 4);
        ck_assert(!memcmp(region.octets, "data", 4));
        region_free(a, &region);
    }
    {
        char reply[10] = "";

        ck_assert_int_eq(recv(raw.fd, reply, 9, MSG_WAITALL), 9);
        ck_assert_str_eq(reply, "MPA reply");
    }
}
END_TEST

/* The initiator sends first, in the form that was agreed. */
START_TEST(initiator_speaks_first)
{
    static const uint8_t rtr[] = { RI_RTR_NONE, RI_RTR_SEND, RI_RTR_WRITE, RI_RTR_READ };
    static const enum rdmap_opcode opcode[] = { RDMAP_WRITE, RDMAP_SEND, RDMAP_WRITE,
                                                RDMAP_READ_REQ };
    struct ri_llp_handover handover = plain;

    handover.rtr_send = rtr[_i];
    side_open(&bed, a, NULL);
    raw_open(&raw, &bed, a, true, &handover);
    take_frame();
    ck_assert_int_eq(frame.segment.opcode, opcode[_i]);
    if (opcode[_i] == RDMAP_READ_REQ) {
        struct rdmap_read_req request;

        rdmap_get_read_req(frame.segment.payload, &request);
        ck_assert_uint_eq(request.size, 0);
        raw_tagged(&raw, RDMAP_READ_RESP, true, request.sink_stag, request.sink_to, NULL, 0);
    } else {
        ck_assert_uint_eq(frame.segment.payload_len, 0);
    }
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 1, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    take_frame();
    ck_assert_int_eq(frame.segment.opcode, RDMAP_SEND);
    ck_assert_uint_eq(frame.segment.hdr.msn, opcode[_i] == RDMAP_SEND ? 2 : 1);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 0); /* the first message makes no completion */
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
}
END_TEST

/* S-049: with ORD 1 a second Read Request leaves only when the first was answered. Requests behind
 * it wait too. */
START_TEST(S049_ord)
{
    struct ri_llp_handover handover = plain;
    struct rdmap_read_req request;
    struct region sink;

    handover.ord = 1;
    open_speaking(&raw, NULL, &handover);
    sink = region_new(a, 64, TESTBED_ALL);
    for (uint32_t i = 0; i < 3; i++)
        side_read(a, i, region_sge(&sink, 8 * i, 8), 0x1000 + i, 0xaabbcc00 + i);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 3, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    for (uint32_t i = 0; i < 3; i++) {
        take_frame();
        ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_REQ);
        ck_assert_uint_eq(frame.segment.hdr.msn, i + 1);
        ck_assert_uint_eq(frame.segment.hdr.qn, DDP_QN_READ);
        rdmap_get_read_req(frame.segment.payload, &request);
        ck_assert_uint_eq(request.size, 8);
        ck_assert(request.src_to == 0x1000 + i && request.src_stag == 0xaabbcc00 + i);
        if (i < 2)
            ck_assert(raw_silent(&raw));
        else
            take_frame(); /* the Send need not wait for the last Read */
        raw_tagged(&raw, RDMAP_READ_RESP, true, request.sink_stag, request.sink_to, "answered", 8);
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, 8);
        ck_assert(!memcmp(sink.octets + 8 * i, "answered", 8));
    }
    ck_assert_int_eq(frame.segment.opcode, RDMAP_SEND);
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, 0);
}
END_TEST

/* S-064: a fenced request leaves when the Reads before it have been answered, not before. */
START_TEST(S064_fences)
{
    const uint16_t fence = _i ? RI_WR_LOCAL_FENCE : RI_WR_READ_FENCE;
    struct rdmap_read_req request;
    struct region sink;

    open_speaking(&raw, NULL, &plain);
    sink = region_new(a, 64, TESTBED_ALL);
    side_read(a, 1, region_sge(&sink, 0, 8), 0, 0x100);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 2, RI_WR_SIGNALED | fence, NULL, 0, 0, 0), RI_OK);
    take_frame();
    ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_REQ);
    rdmap_get_read_req(frame.segment.payload, &request);
    ck_assert(raw_silent(&raw));
    raw_tagged(&raw, RDMAP_READ_RESP, true, request.sink_stag, request.sink_to, "answered", 8);
    take_frame();
    ck_assert_int_eq(frame.segment.opcode, RDMAP_SEND);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 8);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 0);
}
END_TEST

/* ---- segments ---- */

/* One FPDU per TCP segment: S-024. MO (S-038) and TO (S-039) count the octets sent, and only the
 * last segment has L (S-034). */
START_TEST(S024_small_segments)
{
    const uint32_t size = 20000;
    const bool write = _i;
    struct region from;
    socklen_t length = sizeof(int);
    int fds[2], emss = 0;
    uint32_t at = 0, count = 0;

    testbed_tcp(fds, 700);
    raw = (struct raw){ .bed = &bed, .crc = true };
    raw.fd = fds[0];
    raw.room = 4096;
    raw.octets = malloc(raw.room);
    fake_host_listen(&bed.fake, raw.fd);
    side_open(&bed, a, NULL);
    side_start(a, fds[1], false, &plain);
    ck_assert_int_eq(getsockopt(fds[1], IPPROTO_TCP, TCP_MAXSEG, &emss, &length), 0);
    ck_assert_int_le(emss, 700);
    raw_tagged(&raw, RDMAP_WRITE, true, 0, 0, NULL, 0);
    from = region_new(a, size, TESTBED_ALL);
    tc_fill(&bed_rng, from.octets, size);
    if (write)
        side_write(a, 1, region_sge(&from, 0, size), 0x7fff0123, 0x12345678);
    else
        side_send(a, 1, region_sge(&from, 0, size));
    do {
        take_frame();
        ck_assert_uint_le(raw.last_fpdu, (uint32_t)emss);
        if (write) {
            ck_assert_uint_eq(frame.segment.hdr.stag, 0x12345678);
            ck_assert(frame.segment.hdr.to == 0x7fff0123 + at);
        } else {
            ck_assert_uint_eq(frame.segment.hdr.msn, 1);
            ck_assert_uint_eq(frame.segment.hdr.mo, at);
        }
        ck_assert_uint_le(at + frame.segment.payload_len, size);
        ck_assert(!memcmp(frame.segment.payload, from.octets + at, frame.segment.payload_len));
        at += frame.segment.payload_len;
        count++;
        if (!frame.segment.hdr.last)
            ck_assert_uint_eq(frame.length, mpa_mulpdu((uint32_t)emss, false)); /* a full segment */
    } while (!frame.segment.hdr.last);
    ck_assert_uint_eq(at, size);
    ck_assert_uint_ge(count, size / 700);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, size);
}
END_TEST

/* A Send completes when the socket has its last octet. It then reaches the peer without the
 * lane. */
START_TEST(done_when_the_socket_has_it)
{
    const uint32_t size = 20000, count = 60;
    static uint8_t bin[65536];
    struct region from;
    int fds[2], little = 4096;
    uint64_t done = 0, came = 0, end;
    struct ri_wc wc;

    testbed_tcp(fds, 0);
    raw = (struct raw){ .bed = &bed, .crc = true };
    ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
    ck_assert_int_eq(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)), 0);
    raw.fd = fds[0];
    fake_host_listen(&bed.fake, raw.fd);
    side_open(&bed, a, NULL);
    side_start(a, fds[1], true, &plain);
    from = region_new(a, size, TESTBED_ALL);
    for (uint64_t i = 0; i < count; i++) { /* all in few batches */
        struct ri_sge sge = region_sge(&from, 0, size);
        uint16_t flags = RI_WR_SIGNALED | (i + 1 < count ? RI_WR_COALESCE : 0);

        ck_assert_int_eq(side_post(a, RI_WR_SEND, i, flags, &sge, 1, 0, 0), RI_OK);
    }
    side_idle(a, a->send_cq);
    while (bed.fake.user.poll(a->send_cq, 1, &wc))
        done++;
    ck_assert_uint_lt(done, count); /* the socket does not hold that much */
    end = tc_deadline(5000);
    while (came < done * size) {
        ssize_t n;

        ck_assert_msg(tc_wait_fd(raw.fd, POLLIN, end) == POLLIN, "%ju octets came, %ju are done",
                      (uintmax_t)came, (uintmax_t)(done * size));
        n = recv(raw.fd, bin, sizeof(bin), 0);
        ck_assert_int_gt(n, 0);
        came += (uint64_t)n;
    }
    raw_close(&raw);
    ck_assert(fake_host_until(&bed.fake, side_query(a).state == RI_QPS_ERROR, TESTBED_TIMEOUT));
}
END_TEST

/* The socket accepts few octets at a time: FPDUs are split anywhere and continue at that octet. */
START_TEST(partial_writes)
{
    const uint32_t size = 1 << 20;
    struct region from, to, sink;
    int fds[2], little = 4096;

    testbed_tcp(fds, 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)), 0);
        side_open(&bed, &bed.side[i], NULL);
        side_start(&bed.side[i], fds[i], i == 0, &plain);
    }
    from = region_new(a, size, TESTBED_ALL);
    to = region_new(b, size, TESTBED_ALL);
    sink = region_new(a, size, TESTBED_ALL);
    tc_fill(&bed_rng, from.octets, size);
    side_receive(b, 1, region_sge(&to, 0, size));
    side_send(a, 2, region_sge(&from, 0, size));
    side_read(a, 3, region_sge(&sink, 0, size), (uintptr_t)to.octets, to.keys.rkey);
    side_expect(b, b->recv_cq, 1, RI_WC_SUCCESS, size);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, size);
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, size);
    ck_assert(!memcmp(from.octets, to.octets, size));
    ck_assert(!memcmp(from.octets, sink.octets, size));
    ck_assert_uint_eq(atomic_load(&a->events.count) + atomic_load(&b->events.count), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma loop: peer");
    TCase *tc = new_case(suite, "flow", bed_open, bed_close);

    tc_add_tests(tc, C040_responder_holds, established_is_told_before_a_receive_completes,
                 a_silent_peer_is_spoken_to_by_option, C040_the_log_names_what_is_awaited);
    tcase_add_loop_test(tc, the_log_is_silent_where_nothing_waits, 0, 2);
    tcase_add_loop_test(tc, octets_of_the_handover, 0, 30);
    tcase_add_loop_test(tc, initiator_speaks_first, 0, 4);
    tcase_add_test(tc, S049_ord);
    tcase_add_loop_test(tc, S064_fences, 0, 2);
    tc = new_case(suite, "segments", bed_open, bed_close);
    tcase_add_loop_test(tc, S024_small_segments, 0, 2);
    tc_add_tests(tc, done_when_the_socket_has_it, partial_writes);
    return tc_main(suite);
}
