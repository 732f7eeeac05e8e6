/* SPDX-License-Identifier: BSD-3-Clause */
/* Two QPs over loopback, and one QP against a hand-written peer: data, order, flow. Ends and errors: test_loop_end.c. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "rig.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "providers/softrdma/ddp.h"
#include "providers/softrdma/mpa.h"
#include "providers/softrdma/rdmap.h"

static struct rig rig;
static struct side *const a = &rig.side[0], *const b = &rig.side[1];
static struct tc_rng rng;

static const struct ri_llp_handover plain = { .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8 };
static const struct ri_llp_handover no_crc = {
    .mpa_revision = 2, .crc = false, .ird = 8, .ord = 8
};

static void setup(void)
{
    rng = tc_rng(7);
    rig_open(&rig, NULL);
}

static void teardown(void)
{
    rig_close(&rig);
}

/* ---- sizes ---- */

static const uint32_t sizes[] = { 0,    1,    3,    4,     7,     255,     256,     257,
                                  1447, 1448, 4096, 65535, 65536, 1 << 20, 16 << 20 };
#define SIZES (int)(sizeof(sizes) / sizeof(sizes[0]))

static void transfer_send(uint32_t size)
{
    struct region from = region_new(a, size + 16, RIG_ALL), to = region_new(b, size + 16, RIG_ALL);
    struct ri_wc wc;

    tc_fill(&rng, from.octets, size);
    side_receive(b, 2, region_sge(&to, 0, size + 16));
    side_send(a, 1, region_sge(&from, 0, size));
    wc = side_next(b, b->recv_cq);
    ck_assert_uint_eq(wc.cookie, 2);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.byte_len, size);
    ck_assert_uint_eq(wc.opcode, RI_WC_RECV);
    ck_assert_uint_eq(wc.flags, 0);
    ck_assert(!memcmp(from.octets, to.octets, size));
    for (uint32_t i = size; i < size + 16; i++)
        ck_assert_uint_eq(to.octets[i], 0);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, size);
    region_free(a, &from);
    region_free(b, &to);
}

START_TEST(S033_sends)
{
    rig_connect(&rig, NULL, &plain);
    transfer_send(sizes[_i]);
    transfer_send(sizes[_i]);
}
END_TEST

START_TEST(S027_sends_without_crc)
{
    rig_connect(&rig, NULL, &no_crc);
    transfer_send(sizes[_i]);
}
END_TEST

/* The octets before and behind the target stay; a Send behind the Write tells that it is there (C-094). */
static void transfer_write(uint32_t size, const struct ri_llp_handover *handover)
{
    struct region from, to, note;

    rig_connect(&rig, NULL, handover);
    from = region_new(a, size + 16, RI_ACCESS_LOCAL_READ);
    to = region_new(b, size + 32, RIG_ALL);
    note = region_new(b, 16, RI_ACCESS_LOCAL_WRITE);
    tc_fill(&rng, from.octets, size);
    side_receive(b, 3, region_sge(&note, 0, 16));
    side_write(a, 1, region_sge(&from, 0, size), (uintptr_t)to.octets + 13, to.keys.rkey);
    side_send(a, 2, region_sge(&from, 0, 0));
    side_expect(b, b->recv_cq, 3, RI_WC_SUCCESS, 0);
    ck_assert(!memcmp(from.octets, to.octets + 13, size));
    for (uint32_t i = 0; i < 13; i++)
        ck_assert(!to.octets[i] && !to.octets[size + 13 + i]);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, size);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 0);
    region_free(a, &from);
    region_free(b, &to);
    region_free(b, &note);
}

START_TEST(C094_writes)
{
    transfer_write(sizes[_i], &plain);
}
END_TEST

START_TEST(C094_writes_without_crc)
{
    transfer_write(sizes[_i], &no_crc);
}
END_TEST

static void transfer_read(uint32_t size, const struct ri_llp_handover *handover)
{
    struct region source, sink;
    struct ri_wc wc;

    rig_connect(&rig, NULL, handover);
    source = region_new(b, size + 16, RI_ACCESS_LOCAL_READ | RI_ACCESS_REMOTE_READ);
    sink = region_new(a, size + 16, RI_ACCESS_LOCAL_WRITE);
    ck_assert_uint_eq(sink.keys.rkey, 0); /* and yet it is a sink */
    tc_fill(&rng, source.octets, size + 16);
    side_read(a, 1, region_sge(&sink, 5, size), (uintptr_t)source.octets + 3, source.keys.rkey);
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.opcode, RI_WC_RDMA_READ);
    ck_assert_uint_eq(wc.byte_len, size);
    ck_assert(!memcmp(sink.octets + 5, source.octets + 3, size));
    ck_assert_uint_eq(sink.octets[4], 0);
    ck_assert_uint_eq(sink.octets[size + 5], 0);
    region_free(b, &source);
    region_free(a, &sink);
}

START_TEST(C103_reads)
{
    transfer_read(sizes[_i], &plain);
}
END_TEST

START_TEST(C103_reads_without_crc)
{
    transfer_read(sizes[_i], &no_crc);
}
END_TEST

/* Both directions at once, from the side that may speak only second too. */
START_TEST(both_directions)
{
    const uint32_t size = 1 << 20;
    struct region from[2], to[2];

    rig_connect(&rig, NULL, &plain);
    for (int i = 0; i < 2; i++) {
        from[i] = region_new(&rig.side[i], size, RIG_ALL);
        to[i] = region_new(&rig.side[i], size, RIG_ALL);
        tc_fill(&rng, from[i].octets, size);
        side_receive(&rig.side[i], 1, region_sge(&to[i], 0, size));
    }
    side_send(b, 2, region_sge(&from[1], 0, size));
    side_send(a, 2, region_sge(&from[0], 0, size));
    for (int i = 0; i < 2; i++) {
        side_expect(&rig.side[i], rig.side[i].recv_cq, 1, RI_WC_SUCCESS, size);
        side_expect(&rig.side[i], rig.side[i].send_cq, 2, RI_WC_SUCCESS, size);
        ck_assert(!memcmp(to[i].octets, from[!i].octets, size));
    }
    for (int i = 0; i < 2; i++) {
        region_free(&rig.side[i], &from[i]);
        region_free(&rig.side[i], &to[i]);
    }
}
END_TEST

/* ---- shapes of requests ---- */

/* S-041, C-078, C-081, C-101, C-109: no element, an element of no length, no STag anywhere. */
START_TEST(S041_zero_length)
{
    struct region region;

    rig_connect(&rig, NULL, &plain);
    region = region_new(b, 64, RIG_ALL);
    ck_assert_int_eq(side_post_receive(b, 10, NULL, 0), RI_OK);
    side_receive(b, 11, region_sge(&region, 0, 64));
    side_receive(b, 12, (struct ri_sge){ .addr = 1, .lkey = 0xdeadbeef });
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 1, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_WRITE, 2, RI_WR_SIGNALED, NULL, 0, 5, 0xbad), RI_OK);
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_READ, 3, RI_WR_SIGNALED, NULL, 0, 5, 0xbad), RI_OK);
    side_send(a, 4, (struct ri_sge){ .addr = 7, .lkey = 0xdeadbeef });
    side_write(a, 5, (struct ri_sge){ .addr = 7, .lkey = 0xdeadbeef }, 0, 0);
    side_read(a, 6, (struct ri_sge){ .addr = 7, .lkey = 0xdeadbeef }, 0, 0);
    side_send(a, 7, (struct ri_sge){ 0 });
    for (uint64_t i = 1; i < 8; i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, 0);
    for (uint64_t i = 10; i < 13; i++)
        side_expect(b, b->recv_cq, i, RI_WC_SUCCESS, 0);
    ck_assert_uint_eq(atomic_load(&a->events.count) + atomic_load(&b->events.count), 0);
    region_free(b, &region);
}
END_TEST

/* Gather and scatter over elements of every sort, of no length among them; cut elsewhere on each side. */
START_TEST(several_elements)
{
    const uint32_t part = _i ? 30000 : 70;
    struct region from, to;
    struct ri_sge out[8], in[8];
    uint8_t *want = malloc(8 * part), *got = malloc(8 * part);
    uint32_t total = 0, at = 0;

    rig_connect(&rig, NULL, &plain);
    from = region_new(a, 16 * part, RIG_ALL);
    to = region_new(b, 16 * part, RIG_ALL);
    tc_fill(&rng, from.octets, 16 * part);
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t length = i % 3 == 0 ? 0 : part - i;

        out[i] = region_sge(&from, (15 - 2 * i) * part, length);
        memcpy(want + total, from.octets + (15 - 2 * i) * part, length);
        total += length;
    }
    for (uint32_t i = 0; i < 8; i++)
        in[i] = region_sge(&to, 2 * i * part,
                           i == 2   ? 0
                           : i == 7 ? total - at
                                    : (at += part / 2 + i, part / 2 + i));
    ck_assert_int_eq(side_post_receive(b, 1, in, 8), RI_OK);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 2, RI_WR_SIGNALED, out, 8, 0, 0), RI_OK);
    side_expect(b, b->recv_cq, 1, RI_WC_SUCCESS, total);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, total);
    at = 0;
    for (uint32_t i = 0; i < 8; at += in[i++].length)
        memcpy(got + at, to.octets + 2 * i * part, in[i].length);
    ck_assert(!memcmp(want, got, total));

    memset(to.octets, 0, total); /* the same as a Write into one place */
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_WRITE, 3, RI_WR_SIGNALED, out, 8, (uintptr_t)to.octets,
                               to.keys.rkey),
                     RI_OK);
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, total);
    ck_assert(fake_host_until(&rig.fake, !memcmp(want, to.octets, total), RIG_TIMEOUT));
    free(want);
    free(got);
    region_free(a, &from);
    region_free(b, &to);
}
END_TEST

START_TEST(refused_posts)
{
    struct ri_sge sges[9] = { { 0 } };
    struct ri_sge huge[2] = { { .length = UINT32_MAX }, { .length = 1 } };
    struct ri_send_wr good = { .opcode = RI_WR_RDMA_WRITE, .flags = RI_WR_SIGNALED }, *bad = NULL;
    struct ri_send_wr wrong = { .opcode = RI_WR_SEND, .sg_list = sges, .num_sge = 9 };

    side_open(&rig, a, NULL);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 0, 0, NULL, 0, 0, 0),
                     RI_ERR_INVALID_STATE); /* IDLE */
    side_close(a);
    rig_connect(&rig, NULL, &plain);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 0, 0, sges, 9, 0, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_READ, 0, 0, sges, 2, 0, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 0, 0, huge, 2, 0, 0), RI_ERR_LIMIT);
    ck_assert_int_eq(side_post_receive(a, 0, sges, 9), RI_ERR_INVALID_ARGUMENT);
    good.next = &wrong; /* the first of a list goes, the second is named */
    good.cookie = 77;
    ck_assert_int_eq(rig.fake.user.post_send(a->qp, &good, &bad), RI_ERR_INVALID_ARGUMENT);
    ck_assert_ptr_eq(bad, &wrong);
    side_expect(a, a->send_cq, 77, RI_WC_SUCCESS, 0);
    ck_assert_int_eq(atomic_load(&a->events.count), 0);
}
END_TEST

/* ---- slots and completions ---- */

/* Requests that nobody polls fill the queue although they are long done; one completion frees all before it. */
START_TEST(queue_full_and_slots)
{
    const struct shape shape = { .depth = 5 };
    struct ri_wc wc;

    rig_connect(&rig, &shape, &plain);
    for (uint64_t i = 0; i < 5; i++) {
        uint16_t flags = i == 4 ? RI_WR_SIGNALED : 0;

        ck_assert_int_eq(side_post(a, RI_WR_RDMA_WRITE, i, flags, NULL, 0, 0, 0), RI_OK);
    }
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_WRITE, 5, 0, NULL, 0, 0, 0), RI_ERR_QUEUE_FULL);
    wc = side_next(a, a->send_cq); /* of the signalled one */
    ck_assert_uint_eq(wc.cookie, 4);
    for (uint64_t i = 0; i < 5; i++)
        ck_assert_int_eq(side_post(a, RI_WR_RDMA_WRITE, i, 0, NULL, 0, 0, 0), RI_OK);
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_WRITE, 5, 0, NULL, 0, 0, 0), RI_ERR_QUEUE_FULL);
    ck_assert(side_idle(a, a->send_cq));
    for (uint64_t i = 0; i < 5; i++)
        ck_assert_int_eq(side_post_receive(b, i, NULL, 0), RI_OK);
    ck_assert_int_eq(side_post_receive(b, 5, NULL, 0), RI_ERR_QUEUE_FULL);
}
END_TEST

START_TEST(marks_of_completions)
{
    struct ri_recv_wr *bad = NULL, receive = { .cookie = 1, .flags = RI_WR_NOTIFY };
    struct ri_wc wc;

    rig_connect(&rig, NULL, &plain);
    ck_assert_int_eq(rig.fake.user.post_recv(b->qp, &receive, &bad), RI_OK);
    ck_assert_int_eq(side_post_receive(b, 2, NULL, 0), RI_OK);
    ck_assert_int_eq(rig.fake.user.arm(b->recv_cq, RI_ARM_SOLICITED, 0), RI_OK);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 1, RI_WR_SIGNALED | RI_WR_NOTIFY, NULL, 0, 0, 0),
                     RI_OK);
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.flags, RI_WC_NOTIFY);
    wc = side_next(b, b->recv_cq);
    ck_assert_uint_eq(wc.flags, RI_WC_NOTIFY);
    ck_assert_uint_eq(atomic_load(&b->recv_events.count), 0);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 2, RI_WR_SIGNALED | RI_WR_SOLICITED, NULL, 0, 0, 0),
                     RI_OK);
    wc = side_next(b, b->recv_cq);
    ck_assert_uint_eq(wc.flags, RI_WC_SOLICITED);
    ck_assert_uint_eq(atomic_load(&b->recv_events.count), 1);
}
END_TEST

/* ---- against a hand-written peer ---- */

struct frame {
    uint8_t octets[70000];
    uint32_t length;
    struct rdmap_segment segment;
};

static void next_frame(struct raw *raw, struct frame *frame)
{
    frame->length = raw_next(raw, frame->octets, sizeof(frame->octets));
    ck_assert_uint_gt(frame->length, 0);
    ck_assert_int_eq(rdmap_check(frame->octets, frame->length, 0, &frame->segment), RDMAP_OK);
    ck_assert_int_eq(rdmap_check_queue(&frame->segment, 0), RDMAP_OK);
    ck_assert_int_eq(rdmap_check_payload(&frame->segment), RDMAP_OK);
}

/* C-040: a responder is silent until one valid FPDU has come; posts are taken and held meanwhile. */
START_TEST(C040_responder_holds)
{
    const struct ri_llp_handover await = {
        .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8, .rtr_await = true
    };
    static struct frame frame;
    struct raw raw;

    side_open(&rig, a, NULL);
    raw_open(&raw, &rig, a, false, &await);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 1, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    ck_assert(raw_silent(&raw));
    ck_assert(side_idle(a, a->send_cq));
    ck_assert(side_query(a).holding);
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    raw_tagged(&raw, RDMAP_WRITE, true, 0, 0, NULL, 0);
    next_frame(&raw, &frame);
    ck_assert_int_eq(frame.segment.opcode, RDMAP_SEND);
    ck_assert_uint_eq(frame.segment.hdr.msn, 1);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 0);
    ck_assert(!side_query(a).holding);
    side_expect_event(a, RI_EVENT_ESTABLISHED, 0);
    raw_close(&raw);
}
END_TEST

/* Octets that were read with the start-up frame: the FPDU in them counts, cut anywhere. */
START_TEST(octets_of_the_handover)
{
    struct ri_llp_handover handover = plain;
    uint8_t fpdu[64];
    uint32_t length;
    struct raw raw;

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
    side_open(&rig, a, NULL);
    {
        struct region region = region_new(a, 16, RIG_ALL);

        side_receive(a, 1, region_sge(&region, 0, 16));
        raw_open(&raw, &rig, a, false, &handover);
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
    raw_close(&raw);
}
END_TEST

/* The initiator speaks first, with what was agreed. */
START_TEST(initiator_speaks_first)
{
    static const uint8_t rtr[] = { RI_RTR_NONE, RI_RTR_SEND, RI_RTR_WRITE, RI_RTR_READ };
    static const enum rdmap_opcode opcode[] = { RDMAP_WRITE, RDMAP_SEND, RDMAP_WRITE,
                                                RDMAP_READ_REQ };
    struct ri_llp_handover handover = plain;
    static struct frame frame;
    struct raw raw;

    handover.rtr_send = rtr[_i];
    side_open(&rig, a, NULL);
    raw_open(&raw, &rig, a, true, &handover);
    next_frame(&raw, &frame);
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
    next_frame(&raw, &frame);
    ck_assert_int_eq(frame.segment.opcode, RDMAP_SEND);
    ck_assert_uint_eq(frame.segment.hdr.msn, opcode[_i] == RDMAP_SEND ? 2 : 1);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 0); /* nothing of the first message shows */
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    raw_close(&raw);
}
END_TEST

static void open_speaking(struct raw *raw, const struct ri_llp_handover *handover)
{
    side_open(&rig, a, NULL);
    raw_open(raw, &rig, a, false, handover);
    raw_tagged(raw, RDMAP_WRITE, true, 0, 0, NULL, 0);
    ck_assert(raw_silent(raw));
    ck_assert(!side_query(a).holding);
}

/* S-049: with ORD 1 a second Read Request leaves only when the first was answered; what stands behind waits too. */
START_TEST(S049_ord)
{
    struct ri_llp_handover handover = plain;
    struct rdmap_read_req request;
    struct region sink;
    static struct frame frame;
    struct raw raw;

    handover.ord = 1;
    open_speaking(&raw, &handover);
    sink = region_new(a, 64, RIG_ALL);
    for (uint32_t i = 0; i < 3; i++)
        side_read(a, i, region_sge(&sink, 8 * i, 8), 0x1000 + i, 0xaabbcc00 + i);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 3, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    for (uint32_t i = 0; i < 3; i++) {
        next_frame(&raw, &frame);
        ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_REQ);
        ck_assert_uint_eq(frame.segment.hdr.msn, i + 1);
        ck_assert_uint_eq(frame.segment.hdr.qn, DDP_QN_READ);
        rdmap_get_read_req(frame.segment.payload, &request);
        ck_assert_uint_eq(request.size, 8);
        ck_assert(request.src_to == 0x1000 + i && request.src_stag == 0xaabbcc00 + i);
        if (i < 2)
            ck_assert(raw_silent(&raw));
        else
            next_frame(&raw, &frame); /* the Send need not wait for the last */
        raw_tagged(&raw, RDMAP_READ_RESP, true, request.sink_stag, request.sink_to, "answered", 8);
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, 8);
        ck_assert(!memcmp(sink.octets + 8 * i, "answered", 8));
    }
    ck_assert_int_eq(frame.segment.opcode, RDMAP_SEND);
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, 0);
    region_free(a, &sink);
    raw_close(&raw);
}
END_TEST

/* S-064: a fenced request leaves when the Reads before it have been answered, not before. */
START_TEST(S064_fences)
{
    const uint16_t fence = _i ? RI_WR_LOCAL_FENCE : RI_WR_READ_FENCE;
    struct rdmap_read_req request;
    struct region sink;
    static struct frame frame;
    struct raw raw;

    open_speaking(&raw, &plain);
    sink = region_new(a, 64, RIG_ALL);
    side_read(a, 1, region_sge(&sink, 0, 8), 0, 0x100);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 2, RI_WR_SIGNALED | fence, NULL, 0, 0, 0), RI_OK);
    next_frame(&raw, &frame);
    ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_REQ);
    rdmap_get_read_req(frame.segment.payload, &request);
    ck_assert(raw_silent(&raw));
    raw_tagged(&raw, RDMAP_READ_RESP, true, request.sink_stag, request.sink_to, "answered", 8);
    next_frame(&raw, &frame);
    ck_assert_int_eq(frame.segment.opcode, RDMAP_SEND);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 8);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 0);
    region_free(a, &sink);
    raw_close(&raw);
}
END_TEST

/* ---- segments ---- */

/* One FPDU per TCP segment: S-024, and that MO (S-038) and TO (S-039) count the octets sent, L only at the end (S-034). */
START_TEST(S024_small_segments)
{
    const uint32_t size = 20000;
    const bool write = _i;
    static struct frame frame;
    struct region from;
    struct raw raw = { .rig = &rig, .crc = true };
    socklen_t length = sizeof(int);
    int fds[2], emss = 0;
    uint32_t at = 0, count = 0;

    rig_tcp(fds, 700);
    raw.fd = fds[0];
    raw.room = 4096;
    raw.octets = malloc(raw.room);
    fake_host_listen(&rig.fake, raw.fd);
    side_open(&rig, a, NULL);
    side_start(a, fds[1], false, &plain);
    ck_assert_int_eq(getsockopt(fds[1], IPPROTO_TCP, TCP_MAXSEG, &emss, &length), 0);
    ck_assert_int_le(emss, 700);
    raw_tagged(&raw, RDMAP_WRITE, true, 0, 0, NULL, 0);
    from = region_new(a, size, RIG_ALL);
    tc_fill(&rng, from.octets, size);
    if (write)
        side_write(a, 1, region_sge(&from, 0, size), 0x7fff0123, 0x12345678);
    else
        side_send(a, 1, region_sge(&from, 0, size));
    do {
        next_frame(&raw, &frame);
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
            ck_assert_uint_eq(frame.length, mpa_mulpdu((uint32_t)emss, false)); /* filled */
    } while (!frame.segment.hdr.last);
    ck_assert_uint_eq(at, size);
    ck_assert_uint_ge(count, size / 700);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, size);
    region_free(a, &from);
    raw_close(&raw);
}
END_TEST

/* A Send is done when the socket has its last octet: what is told as done reaches the peer without the lane. */
START_TEST(done_when_the_socket_has_it)
{
    const uint32_t size = 20000, count = 60;
    static uint8_t bin[65536];
    struct raw raw = { .rig = &rig, .crc = true };
    struct region from;
    int fds[2], little = 4096;
    uint64_t done = 0, came = 0, end;
    struct ri_wc wc;

    rig_tcp(fds, 0);
    ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
    ck_assert_int_eq(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)), 0);
    raw.fd = fds[0];
    fake_host_listen(&rig.fake, raw.fd);
    side_open(&rig, a, NULL);
    side_start(a, fds[1], true, &plain);
    from = region_new(a, size, RIG_ALL);
    for (uint64_t i = 0; i < count; i++) { /* all in few batches */
        struct ri_sge sge = region_sge(&from, 0, size);
        uint16_t flags = RI_WR_SIGNALED | (i + 1 < count ? RI_WR_COALESCE : 0);

        ck_assert_int_eq(side_post(a, RI_WR_SEND, i, flags, &sge, 1, 0, 0), RI_OK);
    }
    side_idle(a, a->send_cq);
    while (rig.fake.user.poll(a->send_cq, 1, &wc))
        done++;
    ck_assert_uint_lt(done, count); /* that much does not fit */
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
    ck_assert(fake_host_until(&rig.fake, side_query(a).state == RI_QPS_ERROR, RIG_TIMEOUT));
    region_free(a, &from);
}
END_TEST

/* The socket takes little at a time: FPDUs are cut anywhere and go on where they were. */
START_TEST(partial_writes)
{
    const uint32_t size = 1 << 20;
    struct region from, to, sink;
    int fds[2], little = 4096;

    rig_tcp(fds, 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)), 0);
        side_open(&rig, &rig.side[i], NULL);
        side_start(&rig.side[i], fds[i], i == 0, &plain);
    }
    from = region_new(a, size, RIG_ALL);
    to = region_new(b, size, RIG_ALL);
    sink = region_new(a, size, RIG_ALL);
    tc_fill(&rng, from.octets, size);
    side_receive(b, 1, region_sge(&to, 0, size));
    side_send(a, 2, region_sge(&from, 0, size));
    side_read(a, 3, region_sge(&sink, 0, size), (uintptr_t)to.octets, to.keys.rkey);
    side_expect(b, b->recv_cq, 1, RI_WC_SUCCESS, size);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, size);
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, size);
    ck_assert(!memcmp(from.octets, to.octets, size));
    ck_assert(!memcmp(from.octets, sink.octets, size));
    ck_assert_uint_eq(atomic_load(&a->events.count) + atomic_load(&b->events.count), 0);
    region_free(a, &from);
    region_free(b, &to);
    region_free(a, &sink);
}
END_TEST

/* ---- soak ---- */

/*
 * Random Sends, Writes and Reads of random sizes in both directions, several under way; all data is compared. A slot is one
 * request at a time: free again when it completed and, for a Send, its receive did, for a Write, its octets are there.
 */
#define SOAK_SLOTS 8u
#define SOAK_INBOX 16u
#define SOAK_ROOM  (256u << 10)

struct soak_slot {
    struct region local, remote; /* remote: in the peer's memory */
    enum ri_wr_opcode opcode;
    uint32_t length;
    bool busy, completed, arrived;
};

static struct soak {
    struct soak_slot slot[SOAK_SLOTS];
    struct region inbox[SOAK_INBOX];
    uint32_t order[SOAK_INBOX]; /* slots of Sends, oldest first */
    uint32_t sends, arrivals;
} soak[2];

static void soak_open(int who)
{
    struct side *own = &rig.side[who], *peer = &rig.side[!who];

    for (uint32_t i = 0; i < SOAK_SLOTS; i++) {
        soak[who].slot[i].local = region_new(own, SOAK_ROOM, RIG_ALL);
        soak[who].slot[i].remote = region_new(peer, SOAK_ROOM, RIG_ALL);
    }
    for (uint32_t i = 0; i < SOAK_INBOX; i++) {
        soak[who].inbox[i] = region_new(own, SOAK_ROOM, RI_ACCESS_LOCAL_WRITE);
        side_receive(own, i, region_sge(&soak[who].inbox[i], 0, SOAK_ROOM));
    }
}

static void soak_close(int who)
{
    for (uint32_t i = 0; i < SOAK_SLOTS; i++) {
        region_free(&rig.side[who], &soak[who].slot[i].local);
        region_free(&rig.side[!who], &soak[who].slot[i].remote);
    }
    for (uint32_t i = 0; i < SOAK_INBOX; i++)
        region_free(&rig.side[who], &soak[who].inbox[i]);
}

/* False: no slot is free. */
static bool soak_post(int who)
{
    static const enum ri_wr_opcode opcodes[] = { RI_WR_SEND, RI_WR_RDMA_WRITE, RI_WR_RDMA_READ };
    uint32_t at = (uint32_t)tc_below(&rng, SOAK_SLOTS);
    struct soak_slot *slot = &soak[who].slot[at];
    struct ri_sge sge;

    if (slot->busy)
        return false;
    slot->opcode = opcodes[tc_below(&rng, 3)];
    slot->length = (uint32_t)tc_below(&rng, tc_below(&rng, 4) ? 3000 : SOAK_ROOM + 1);
    slot->busy = true;
    slot->completed = slot->arrived = false;
    if (slot->opcode == RI_WR_SEND)
        soak[who].order[soak[who].sends++ % SOAK_INBOX] = at;
    tc_fill(&rng, slot->opcode == RI_WR_RDMA_READ ? slot->remote.octets : slot->local.octets,
            slot->length);
    sge = region_sge(&slot->local, 0, slot->length);
    ck_assert_int_eq(side_post(&rig.side[who], slot->opcode, at, RI_WR_SIGNALED, &sge, 1,
                               (uintptr_t)slot->remote.octets, slot->remote.keys.rkey),
                     RI_OK);
    return true;
}

static void soak_poll(int who)
{
    struct side *side = &rig.side[who];
    struct soak *own = &soak[who], *peer = &soak[!who];
    struct ri_wc wc;

    while (rig.fake.user.poll(side->send_cq, 1, &wc) == 1) {
        ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
        ck_assert_uint_eq(wc.byte_len, own->slot[wc.cookie].length);
        own->slot[wc.cookie].completed = true;
    }
    while (rig.fake.user.poll(side->recv_cq, 1, &wc) == 1) {
        struct soak_slot *slot = &peer->slot[peer->order[peer->arrivals++ % SOAK_INBOX]];
        struct region *inbox = &own->inbox[wc.cookie];

        ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
        ck_assert_uint_eq(wc.byte_len, slot->length);
        ck_assert(!memcmp(slot->local.octets, inbox->octets, slot->length));
        slot->arrived = true;
        side_receive(side, wc.cookie, region_sge(inbox, 0, SOAK_ROOM));
    }
}

/* Requests that ended since the last call. */
static uint32_t soak_ended(int who)
{
    uint32_t ended = 0;

    for (uint32_t i = 0; i < SOAK_SLOTS; i++) {
        struct soak_slot *slot = &soak[who].slot[i];
        bool equal;

        if (!slot->busy || !slot->completed || (slot->opcode == RI_WR_SEND && !slot->arrived))
            continue;
        equal = slot->opcode == RI_WR_SEND ||
                !memcmp(slot->local.octets, slot->remote.octets, slot->length);
        ck_assert(equal || slot->opcode == RI_WR_RDMA_WRITE); /* a Write may still be under way */
        slot->busy = !equal;
        ended += equal;
    }
    return ended;
}

static uint32_t soak_round(void)
{
    uint32_t ended = 0;

    for (int who = 0; who < 2; who++) {
        soak_poll(who);
        ended += soak_ended(who);
    }
    return ended;
}

START_TEST(soak_random)
{
    unsigned long want = tc_count(4000), posted = 0, done = 0;
    uint64_t end = tc_deadline(60000);

    memset(soak, 0, sizeof(soak));
    rig_connect(&rig, NULL, _i ? &no_crc : &plain);
    for (int who = 0; who < 2; who++)
        soak_open(who);
    while (done < want) {
        uint32_t pieces, ended;

        while (posted < want && soak_post((int)tc_below(&rng, 2)))
            posted++;
        pieces = fake_host_run(&rig.fake, NULL);
        ended = soak_round();
        done += ended;
        if (!ended)
            fake_host_sleep(&rig.fake, pieces, tc_remaining_ms(end));
        ck_assert_msg(!tc_expired(end), "%lu of %lu requests ended in time", done, want);
    }
    ck_assert_uint_eq(atomic_load(&a->events.count) + atomic_load(&b->events.count), 0);
    for (int who = 0; who < 2; who++)
        soak_close(who);
}
END_TEST

static TCase *new_case(Suite *suite, const char *name)
{
    TCase *tc = tcase_create(name);

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 0.001 * tc_timeout_ms(90000));
    suite_add_tcase(suite, tc);
    return tc;
}

int main(void)
{
    Suite *suite = suite_create("softrdma loop");
    TCase *tc = new_case(suite, "data");

    tcase_add_loop_test(tc, S033_sends, 0, SIZES);
    tcase_add_loop_test(tc, S027_sends_without_crc, 0, SIZES);
    tcase_add_loop_test(tc, C094_writes, 0, SIZES);
    tcase_add_loop_test(tc, C094_writes_without_crc, 0, SIZES);
    tcase_add_loop_test(tc, C103_reads, 0, SIZES);
    tcase_add_loop_test(tc, C103_reads_without_crc, 0, SIZES);
    tcase_add_test(tc, both_directions);
    tc = new_case(suite, "requests");
    tcase_add_test(tc, S041_zero_length);
    tcase_add_loop_test(tc, several_elements, 0, 2);
    tcase_add_test(tc, refused_posts);
    tcase_add_test(tc, queue_full_and_slots);
    tcase_add_test(tc, marks_of_completions);
    tc = new_case(suite, "flow");
    tcase_add_test(tc, C040_responder_holds);
    tcase_add_loop_test(tc, octets_of_the_handover, 0, 30);
    tcase_add_loop_test(tc, initiator_speaks_first, 0, 4);
    tcase_add_test(tc, S049_ord);
    tcase_add_loop_test(tc, S064_fences, 0, 2);
    tc = new_case(suite, "segments");
    tcase_add_loop_test(tc, S024_small_segments, 0, 2);
    tcase_add_test(tc, done_when_the_socket_has_it);
    tcase_add_test(tc, partial_writes);
    tc = new_case(suite, "soak");
    tcase_add_loop_test(tc, soak_random, 0, 2);
    return tc_main(suite);
}
