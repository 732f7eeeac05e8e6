/* SPDX-License-Identifier: BSD-3-Clause */
/* Invalidation by the peer, by a request of ital's consumer, and with a Read: who may invalidate,
 * what becomes invalid, in which order; pending output. */
#include "two_qps.h"

#include <sys/socket.h>

static struct region receive;

static void setup(void)
{
    open_fixture(4096, TESTBED_ALL | RI_ACCESS_BIND);
    receive = region_new(a, 4096, LOCAL);
}

static void teardown(void)
{
    bed_close();
}

static struct ri_send_wr invalidate_request(uint64_t cookie, uint32_t stag)
{
    return (struct ri_send_wr){ .cookie = cookie,
                                .opcode = RI_WR_LOCAL_INVALIDATE,
                                .flags = RI_WR_SIGNALED,
                                .invalidate_stag = stag };
}

static void invalidate(struct side *side, uint32_t stag, enum ri_wc_status status)
{
    struct ri_send_wr wr = invalidate_request(50, stag);
    struct ri_wc wc;

    post(side, &wr);
    wc = side_next(side, side->send_cq);
    ck_assert_msg(wc.status == status, "status %u, expected %d", wc.status, (int)status);
    ck_assert_uint_eq(wc.opcode, RI_WC_LOCAL_INVALIDATE);
    ck_assert_uint_eq(wc.cookie, 50);
    ck_assert_uint_eq(wc.byte_len, 0);
    ck_assert_uint_eq(wc.invalidated_stag, stag);
}

static uint32_t bind_window(struct side *side, bool narrow, struct ri_mw **mw)
{
    struct ri_send_wr wr = { .cookie = 51, .opcode = RI_WR_BIND_WINDOW, .flags = RI_WR_SIGNALED };
    uint32_t stag;

    OK(bed.fake.privileged.mw_allocate(side->pd, narrow, NULL, &stag, mw));
    wr.bind.mw = *mw;
    wr.bind.mr = region.mr;
    wr.bind.addr = (uintptr_t)region.octets;
    wr.bind.length = 64;
    wr.bind.access = RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE;
    wr.bind.new_key = stag + 1;
    post(side, &wr);
    side_expect(side, side->send_cq, 51, RI_WC_SUCCESS, 0);
    return (stag & ~0xffu) | ((stag + 1) & 0xff);
}

static void send_inv(struct raw *peer, uint8_t opcode, uint32_t msn, uint32_t stag, bool last,
                     uint32_t mo, const char *text)
{
    uint8_t ulpdu[256];

    ddp_put_untagged(ulpdu, last, rdmap_ctrl((enum rdmap_opcode)opcode), stag, DDP_QN_SEND, msn,
                     mo);
    memcpy(ulpdu + DDP_UNTAGGED_LEN, text, strlen(text));
    raw_send(peer, ulpdu, DDP_UNTAGGED_LEN + (uint32_t)strlen(text));
}

static void expect_inv(struct side *side, uint64_t cookie, uint32_t octets, uint32_t stag,
                       bool solicited)
{
    struct ri_wc wc = side_next(side, side->recv_cq);

    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.opcode, RI_WC_RECV);
    ck_assert_uint_eq(wc.cookie, cookie);
    ck_assert_uint_eq(wc.byte_len, octets);
    ck_assert_uint_eq(wc.flags, RI_WC_WITH_INVALIDATE | (solicited ? RI_WC_SOLICITED : 0));
    ck_assert_uint_eq(wc.invalidated_stag, stag);
}

/* ---- by the peer ---- */

/* C-123: the payload is placed, then the STag becomes invalid, then the completion is reported.
 * Opcodes 4 and 6. A second invalidation is no error. */
START_TEST(C118_C119_C123_region)
{
    const uint8_t opcode = _i ? RDMAP_SEND_SE_INV : RDMAP_SEND_INV;

    side_receive(a, 1, region_sge(&region, 0, 64)); /* the same region that it invalidates */
    side_receive(a, 2, region_sge(&receive, 0, 64));
    send_inv(&raw, opcode, 1, region.keys.rkey, true, 0, "payload");
    expect_inv(a, 1, 7, region.keys.rkey, _i);
    ck_assert_mem_eq(region.octets, "payload", 7);
    send_inv(&raw, opcode, 2, region.keys.rkey, true, 0, "again");
    expect_inv(a, 2, 5, region.keys.rkey, _i);
    raw_tagged(&raw, RDMAP_WRITE, true, region.keys.rkey, (uintptr_t)region.octets, "late", 4);
    raw_expect_terminate(&raw, TERMINATE_T_STAG);
    ck_assert_mem_eq(region.octets, "payload", 7);
}
END_TEST

/* Segments that follow in the same read find the STag invalid already (C-085, C-110). */
START_TEST(C085_C110_what_follows)
{
    side_receive(a, 1, region_sge(&receive, 0, 64));
    send_inv(&raw, RDMAP_SEND_INV, 1, region.keys.rkey, true, 0, "x");
    if (_i)
        read_request(&raw, 1, region.keys.rkey, (uintptr_t)region.octets, 1);
    else
        raw_tagged(&raw, RDMAP_WRITE, true, region.keys.rkey, (uintptr_t)region.octets, "y", 1);
    raw_expect_terminate(&raw, _i ? TERMINATE_R_STAG : TERMINATE_T_STAG);
    expect_inv(a, 1, 1, region.keys.rkey, false);
    ck_assert_uint_eq(region.octets[0], 0);
}
END_TEST

/* An invalid region cannot be used locally either. It may still be registered anew or
 * deregistered. */
START_TEST(invalid_region_is_of_no_use)
{
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = LOCAL };
    uint32_t old = region.keys.lkey;

    side_receive(a, 1, region_sge(&receive, 0, 64));
    send_inv(&raw, RDMAP_SEND_INV, 1, region.keys.rkey, true, 0, "x");
    expect_inv(a, 1, 1, region.keys.rkey, false);
    if (_i) {
        OK(bed.fake.privileged.mr_reregister(region.mr, NULL, &attr, &region.keys));
        ck_assert_uint_ne(region.keys.lkey, old);
        side_send(a, 2, region_sge(&region, 0, 4));
        side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 4);
    } else {
        side_send(a, 2, region_sge(&region, 0, 4));
        side_expect(a, a->send_cq, 2, RI_WC_LOCAL_PROTECTION, 0);
        side_expect_event(a, RI_EVENT_LOCAL_ERROR, 0);
    }
}
END_TEST

/* C-119 to C-122: refused cases, the Terminate's value, and the status of the receive. */
enum target {
    UNKNOWN,
    OTHER_KEY,
    FREED,
    OTHER_PD,
    WINDOW_OF_OTHER_QP,
    NO_REMOTE_RIGHT,
    QP_DOES_NOT_ALLOW,
    STAG_ZERO,
    WIDE_WINDOW,
    TARGETS
};

static const struct {
    const char *name;
    uint16_t value;
} targets[] = {
    [UNKNOWN] = { "C-119 index", TERMINATE_R_STAG },
    [OTHER_KEY] = { "C-119 key", TERMINATE_R_STAG },
    [FREED] = { "C-119 freed", TERMINATE_R_STAG },
    [OTHER_PD] = { "C-120 PD", TERMINATE_R_INVALIDATE },
    [WINDOW_OF_OTHER_QP] = { "C-120 window", TERMINATE_R_INVALIDATE },
    [NO_REMOTE_RIGHT] = { "C-121 rights", TERMINATE_R_ACCESS },
    [QP_DOES_NOT_ALLOW] = { "C-121 QP", TERMINATE_R_ACCESS },
    [STAG_ZERO] = { "C-122 STag 0", TERMINATE_R_INVALIDATE },
    [WIDE_WINDOW] = { "C-122 wide", TERMINATE_R_INVALIDATE },
};

START_TEST(C119_C120_C121_C122_refused)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_FLAGS,
                                   .flags = RI_QP_WRITE_ENABLE | RI_QP_READ_ENABLE };
    struct ri_mw *mw = NULL;
    struct region extra;
    uint32_t stag = region.keys.rkey;

    open_other();
    side_open(&bed, b, NULL);
    extra = region_new(_i == OTHER_PD ? b : a, 64, _i == NO_REMOTE_RIGHT ? LOCAL : TESTBED_ALL);
    switch (_i) {
    case UNKNOWN: stag ^= 0x12345600; break;
    case OTHER_KEY: stag ^= 1; break;
    case OTHER_PD:
    case NO_REMOTE_RIGHT: stag = extra.keys.lkey; break;
    case FREED:
        stag = extra.keys.rkey;
        OK(bed.fake.privileged.mr_deregister(extra.mr));
        extra.mr = NULL;
        break;
    case WINDOW_OF_OTHER_QP: stag = bind_window(&other, true, &mw); break;
    case QP_DOES_NOT_ALLOW: OK(bed.fake.privileged.qp_modify(a->qp, &modify)); break;
    case STAG_ZERO: stag = 0; break;
    default: stag = bind_window(a, false, &mw); break;
    }
    side_receive(a, 1, region_sge(&receive, 0, 64));
    send_inv(&raw, RDMAP_SEND_INV, 1, stag, true, 0, "text");
    raw_expect_terminate(&raw, targets[_i].value);
    side_expect_event(a, RI_EVENT_INVALIDATE_ACCESS, targets[_i].value);
    side_expect(a, a->recv_cq, 1, RI_WC_REMOTE_INVALID_REQUEST, 0);
    if (mw)
        OK(bed.fake.privileged.mw_free(mw));
    region_free(a, &extra);
    close_other();
}
END_TEST

/*
 * a peer may invalidate a region while only one stream uses the PD. It may not if there is a
 * second QP, if a QP of another PD receives from an SRQ of this one, or if the interface's option
 * forbids it. When the second QP is gone, it may again.
 */
enum sharer { NOBODY, QP_OF_THE_PD, QP_OF_ITS_SRQ, OPTION_OFF, SHARERS };

static void open_sharer(enum sharer sharer, struct side *second_user, struct ri_srq **srq)
{
    struct ri_srq_attr attr = { .size = sizeof(attr), .max_wr = 4, .max_sge = 1 };
    struct shape shape = willing;

    *srq = NULL;
    if (sharer == QP_OF_ITS_SRQ) {
        OK(bed.fake.privileged.srq_create(a->pd, &attr, srq));
        shape.srq = *srq;
    } else if (sharer == QP_OF_THE_PD) {
        shape.pd = a->pd;
    }
    side_open(&bed, second_user, &shape);
}

/* The region does not change, and others can still write to it. */
static void refused_as_shared(void)
{
    send_inv(&raw, RDMAP_SEND_INV, 1, region.keys.rkey, true, 0, "text");
    raw_expect_terminate(&raw, TERMINATE_R_INVALIDATE);
    side_expect_event(a, RI_EVENT_INVALIDATE_ACCESS, TERMINATE_R_INVALIDATE);
    side_expect(a, a->recv_cq, 1, RI_WC_REMOTE_INVALID_REQUEST, 0);
}

START_TEST(C122_X012_region_of_two_streams)
{
    static const char *const off[] = { "remote_invalidate", "off", NULL };
    struct ri_srq *srq;

    if (_i == OPTION_OFF) {
        region_free(a, &region);
        region_free(a, &receive);
        bed_close();
        open_fixture_with(off, 4096, TESTBED_ALL | RI_ACCESS_BIND);
        receive = region_new(a, 4096, LOCAL);
    }
    open_sharer(_i, &other, &srq);
    side_receive(a, 1, region_sge(&receive, 0, 64));
    if (_i == NOBODY) {
        send_inv(&raw, RDMAP_SEND_INV, 1, region.keys.rkey, true, 0, "text");
        expect_inv(a, 1, 4, region.keys.rkey, false);
    } else {
        refused_as_shared();
    }
    side_close(&other);
    if (srq)
        OK(bed.fake.privileged.srq_destroy(srq));
}
END_TEST

/* The other stream still uses the region that the peer wanted to invalidate. When that stream is
 * gone, the peer may. */
START_TEST(X012_the_other_stream_goes_on)
{
    struct side third;
    struct raw peer;
    struct shape shape = willing;

    open_other();
    side_receive(a, 1, region_sge(&receive, 0, 64));
    refused_as_shared();
    write_placed(&second, 1, region.keys.rkey, (uintptr_t)region.octets, "mine");
    ck_assert_mem_eq(region.octets, "mine", 4);
    shape.pd = a->pd;
    open_raw(&third, &peer, &shape);
    OK(bed.fake.privileged.qp_destroy(a->qp));
    a->qp = NULL;
    close_other();
    side_receive(&third, 2, region_sge(&receive, 0, 64));
    send_inv(&peer, RDMAP_SEND_INV, 1, region.keys.rkey, true, 0, "x");
    expect_inv(&third, 2, 1, region.keys.rkey, false);
    side_close(&third);
    raw_close(&peer);
}
END_TEST

/* A narrow window: bound to this QP, or unbound (in this PD). */
START_TEST(C120_window)
{
    struct ri_mw *mw;
    uint32_t stag = bind_window(a, true, &mw);

    if (_i)
        invalidate(a, stag, RI_WC_SUCCESS);
    side_receive(a, 1, region_sge(&receive, 0, 64));
    send_inv(&raw, RDMAP_SEND_INV, 1, stag, true, 0, "text");
    expect_inv(a, 1, 4, stag, false);
    OK(bed.fake.privileged.mr_deregister(region.mr)); /* it is not bound any more */
    region.mr = NULL;
    raw_tagged(&raw, RDMAP_WRITE, true, stag, (uintptr_t)region.octets, "late", 4);
    raw_expect_terminate(&raw, TERMINATE_T_STAG);
    OK(bed.fake.privileged.mw_free(mw));
}
END_TEST

/* Only the last segment invalidates; all of them name the same STag (C-076). */
START_TEST(C076_several_segments)
{
    side_receive(a, 1, region_sge(&receive, 0, 64));
    send_inv(&raw, RDMAP_SEND_INV, 1, region.keys.rkey, false, 0, "one");
    raw_tagged(&raw, RDMAP_WRITE, true, region.keys.rkey, (uintptr_t)region.octets, "ok", 2);
    ck_assert(raw_silent(&raw));
    ck_assert_mem_eq(region.octets, "ok", 2);
    if (_i) {
        send_inv(&raw, RDMAP_SEND_INV, 1, receive.keys.lkey, true, 3, "two");
        raw_expect_terminate(&raw, TERMINATE_OPCODE);
        side_expect(a, a->recv_cq, 1, RI_WC_LOCAL_QP, 0);
        return;
    }
    send_inv(&raw, RDMAP_SEND_INV, 1, region.keys.rkey, true, 3, "two");
    expect_inv(a, 1, 6, region.keys.rkey, false);
    ck_assert_mem_eq(receive.octets, "onetwo", 6);
}
END_TEST

/* S-055, S-044: Sends with Invalidate carry the STag in all segments, others carry 0. */
START_TEST(S055_S044_what_we_send)
{
    struct ri_sge sge = region_sge(&region, 0, 4);
    struct ri_send_wr wr = { .cookie = 1,
                             .opcode = RI_WR_SEND_INVALIDATE,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .invalidate_stag = 0xabcdef12 };
    uint8_t ulpdu[64];

    for (int solicited = 0; solicited < 2; solicited++) {
        wr.flags = RI_WR_SIGNALED | (solicited ? RI_WR_SOLICITED : 0);
        post(a, &wr);
        ck_assert_uint_eq(raw_next(&raw, ulpdu, sizeof(ulpdu)), DDP_UNTAGGED_LEN + 4);
        ck_assert_uint_eq(ulpdu[1], rdmap_ctrl(solicited ? RDMAP_SEND_SE_INV : RDMAP_SEND_INV));
        ck_assert_mem_eq(ulpdu + 2, "\xab\xcd\xef\x12", 4);
        side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 4);
    }
    side_send(a, 2, sge);
    ck_assert_uint_eq(raw_next(&raw, ulpdu, sizeof(ulpdu)), DDP_UNTAGGED_LEN + 4);
    ck_assert_mem_eq(ulpdu + 2, "\0\0\0\0", 4);
}
END_TEST

/* ---- by a local request ---- */

/* Earlier requests have read the region, later ones do not find it. A second invalidation is no
 * error. */
START_TEST(local_in_order)
{
    struct ri_sge sge = region_sge(&region, 0, 1000);
    struct ri_send_wr after = {
        .cookie = 4, .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED, .sg_list = &sge, .num_sge = 1
    };
    struct ri_send_wr again = invalidate_request(3, region.keys.lkey);
    struct ri_send_wr once = invalidate_request(2, region.keys.lkey);
    struct ri_send_wr before = after;
    uint8_t ulpdu[2000];

    before.cookie = 1;
    before.next = &once;
    once.next = &again;
    again.next = &after;
    memset(region.octets, 'r', 1000);
    post(a, &before);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 1000);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 0);
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, 0);
    side_expect(a, a->send_cq, 4, RI_WC_LOCAL_PROTECTION, 0);
    ck_assert_uint_eq(raw_next(&raw, ulpdu, sizeof(ulpdu)), DDP_UNTAGGED_LEN + 1000);
    ck_assert_uint_eq(ulpdu[DDP_UNTAGGED_LEN + 999], 'r');
    raw_expect_terminate(&raw, TERMINATE_LOCAL);
}
END_TEST

/* A refused request is a memory management error, for windows a bind error. The rights of the peer
 * do not matter. */
START_TEST(local_refused)
{
    struct ri_mw *mw = NULL;
    struct region foreign;
    uint32_t stag;

    open_other();
    side_open(&bed, b, NULL);
    foreign = region_new(b, 64, TESTBED_ALL);
    stag = _i == 0   ? 0
           : _i == 1 ? region.keys.lkey ^ 1
           : _i == 2 ? foreign.keys.lkey
                     : bind_window(&other, true, &mw);
    invalidate(a, stag, mw ? RI_WC_BIND : RI_WC_MM_OPERATION);
    raw_expect_terminate(&raw, TERMINATE_LOCAL);
    side_expect_event(a, RI_EVENT_LOCAL_ERROR, 0);
    if (mw)
        OK(bed.fake.privileged.mw_free(mw));
    region_free(b, &foreign);
    close_other();
}
END_TEST

START_TEST(local_rights_are_enough)
{
    invalidate(a, receive.keys.lkey, RI_WC_SUCCESS);
    side_send(a, 1, region_sge(&receive, 0, 1));
    side_expect(a, a->send_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
}
END_TEST

/* C-103: the sink is invalid when the Read completes, also if it read nothing. */
START_TEST(C103_read_with_invalidate)
{
    struct ri_sge sge = region_sge(&region, 8, _i ? 0 : 4);
    uint8_t ulpdu[64];
    struct ri_wc wc;

    OK(side_post(a, RI_WR_RDMA_READ_INVALIDATE, 1, RI_WR_SIGNALED, &sge, 1, 100, 200));
    ck_assert_uint_gt(raw_next(&raw, ulpdu, sizeof(ulpdu)), 0);
    ck_assert_uint_eq(ulpdu[1] & RDMAP_CTRL_OP, RDMAP_READ_REQ);
    raw_tagged(&raw, RDMAP_WRITE, true, region.keys.rkey, (uintptr_t)region.octets, "good", 4);
    raw_tagged(&raw, RDMAP_READ_RESP, true, _i ? 0 : sge.lkey, _i ? 0 : sge.addr, "read",
               sge.length);
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.byte_len, sge.length);
    ck_assert_uint_eq(wc.flags, RI_WC_WITH_INVALIDATE);
    ck_assert_uint_eq(wc.invalidated_stag, sge.lkey);
    ck_assert_mem_eq(region.octets, "good", 4);
    raw_tagged(&raw, RDMAP_WRITE, true, region.keys.rkey, (uintptr_t)region.octets, "late", 4);
    raw_expect_terminate(&raw, TERMINATE_T_STAG);
}
END_TEST

/* The region has a bound window, so it cannot be invalidated: the Read fails and no success is
 * reported. */
START_TEST(read_with_invalidate_refused)
{
    struct ri_sge sge = region_sge(&region, 8, 4);
    struct ri_mw *mw;
    uint8_t ulpdu[64];

    bind_window(a, true, &mw);
    OK(side_post(a, RI_WR_RDMA_READ_INVALIDATE, 1, 0, &sge, 1, 100, 200));
    ck_assert_uint_gt(raw_next(&raw, ulpdu, sizeof(ulpdu)), 0);
    raw_tagged(&raw, RDMAP_READ_RESP, true, sge.lkey, sge.addr, "read", 4);
    side_expect(a, a->send_cq, 1, RI_WC_MM_OPERATION, 0);
    raw_expect_terminate(&raw, TERMINATE_LOCAL);
    OK(bed.fake.privileged.mw_free(mw));
}
END_TEST

/* C-102: a response to a Read whose sink was invalidated meanwhile. */
START_TEST(C102_sink_invalidated)
{
    struct ri_sge sge = region_sge(&region, 8, 4);
    uint8_t ulpdu[64];

    side_read(a, 1, sge, 100, 200);
    ck_assert_uint_gt(raw_next(&raw, ulpdu, sizeof(ulpdu)), 0);
    side_receive(a, 9, region_sge(&receive, 0, 64));
    send_inv(&raw, RDMAP_SEND_INV, 1, region.keys.rkey, true, 0, "x");
    expect_inv(a, 9, 1, region.keys.rkey, false);
    raw_tagged(&raw, RDMAP_READ_RESP, true, sge.lkey, sge.addr, "late", 4);
    side_expect(a, a->send_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    raw_expect_terminate(&raw, TERMINATE_T_STAG);
    ck_assert_uint_eq(region.octets[8], 0);
}
END_TEST

START_TEST(arguments)
{
    struct ri_sge sges[2] = { region_sge(&region, 0, 1), region_sge(&region, 1, 1) };

    ck_assert_int_eq(side_post(a, RI_WR_LOCAL_INVALIDATE, 1, 0, sges, 1, 0, 0),
                     RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_READ_INVALIDATE, 1, 0, sges, 2, 0, 0),
                     RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_READ_INVALIDATE, 1, 0, NULL, 0, 0, 0),
                     RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(side_post(a, RI_WR_FAST_REGISTER, 1, 0, NULL, 0, 0, 0), RI_ERR_NOT_SUPPORTED);
}
END_TEST

/* ---- output that refers to the memory ---- */

/* A side with a small socket buffer: a large message stays in the batch by reference. With small
 * segments it is one batch. */
static void open_narrow(struct side *side, struct raw *peer, const struct shape *shape, bool crc)
{
    struct ri_llp_handover handover = plain;
    int fds[2], small = 4096;

    handover.crc = crc;
    side_open(&bed, side, shape);
    testbed_tcp(fds, 8948);
    ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    ck_assert_int_eq(setsockopt(fds[1], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    *peer = (struct raw){ .bed = &bed, .fd = fds[1], .crc = crc, .room = 4096 };
    peer->octets = malloc(peer->room);
    fake_host_listen(&bed.fake, peer->fd);
    side_start(side, fds[0], true, &handover);
}

/* Segments built before the invalidation are sent unchanged: by any QP of the PD for a local
 * invalidation, by its only QP for the peer's. The same for the answer to a Read, which refers to
 * the memory without CRC. */
START_TEST(built_output_is_kept)
{
    const uint32_t size = 180000;
    const bool local = _i % 2 == 0, answer = _i >= 2;
    const uint8_t opcode = answer ? RDMAP_READ_RESP : RDMAP_SEND;
    const uint32_t head = answer ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
    struct shape shape = willing;
    struct region large, small;
    uint8_t *ulpdu = malloc(70000);
    uint32_t seen = 0;

    shape.pd = local ? a->pd : NULL;
    open_narrow(&other, &second, &shape, !answer);
    large = region_new(&other, size, TESTBED_ALL);
    small = region_new(&other, 64, LOCAL);
    memset(large.octets, 'o', size);
    if (answer)
        read_request(&second, 1, large.keys.rkey, (uintptr_t)large.octets, size);
    else
        side_send(&other, 1, region_sge(&large, 0, size));
    ck_assert(side_idle(&other, other.send_cq));
    if (local) {
        invalidate(a, large.keys.lkey, RI_WC_SUCCESS);
    } else {
        side_receive(&other, 1, region_sge(&small, 0, 64));
        send_inv(&second, RDMAP_SEND_INV, 1, large.keys.rkey, true, 0, "x");
        expect_inv(&other, 1, 1, large.keys.rkey, false);
    }
    memset(large.octets, 'n', size);
    while (seen < size) {
        uint32_t length = raw_next(&second, ulpdu, 70000);

        ck_assert_uint_gt(length, 0);
        if ((ulpdu[1] & RDMAP_CTRL_OP) != opcode)
            continue;
        for (uint32_t i = head; i < length; i++)
            ck_assert_uint_eq(ulpdu[i], 'o');
        seen += length - head;
    }
    if (!answer)
        side_expect(&other, other.send_cq, 1, RI_WC_SUCCESS, size);
    free(ulpdu);
    region_free(&other, &large);
    region_free(&other, &small);
    close_other();
}
END_TEST

/* C-116: a response in progress ends with the STag. */
START_TEST(C116_response_under_way)
{
    const uint32_t size = 64 << 20; /* more than the socket buffers hold */
    struct region large = region_new(a, size, TESTBED_ALL);
    uint8_t *ulpdu = malloc(70000);
    uint32_t seen = 0, length;

    open_other();
    read_request(&second, 1, large.keys.rkey, (uintptr_t)large.octets, size);
    ck_assert(side_idle(&other, other.send_cq));
    invalidate(a, large.keys.lkey, RI_WC_SUCCESS);
    while ((length = raw_next(&second, ulpdu, 70000)) &&
           (ulpdu[1] & RDMAP_CTRL_OP) != RDMAP_TERMINATE)
        seen += (ulpdu[1] & RDMAP_CTRL_OP) == RDMAP_READ_RESP ? length - DDP_TAGGED_LEN : 0;
    ck_assert_uint_eq(length, TERMINATE_ULPDU_MAX);
    ck_assert_mem_eq(ulpdu + DDP_UNTAGGED_LEN, "\x01\x00", 2);
    ck_assert_uint_lt(seen, size);
    side_expect_event(&other, RI_EVENT_READ_ACCESS, TERMINATE_R_STAG);
    free(ulpdu);
    close_other();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("invalidation");
    TCase *tc = new_case(suite, "by the peer", setup, teardown);

    tc_add_loops(tc, 0, 2, C118_C119_C123_region, C085_C110_what_follows,
                 invalid_region_is_of_no_use);
    tcase_add_loop_test(tc, C119_C120_C121_C122_refused, 0, TARGETS);
    tcase_add_loop_test(tc, C122_X012_region_of_two_streams, 0, SHARERS);
    tcase_add_test(tc, X012_the_other_stream_goes_on);
    tc_add_loops(tc, 0, 2, C120_window, C076_several_segments);
    tcase_add_test(tc, S055_S044_what_we_send);
    tc = new_case(suite, "by ourselves", setup, teardown);
    tcase_add_test(tc, local_in_order);
    tcase_add_loop_test(tc, local_refused, 0, 4);
    tcase_add_test(tc, local_rights_are_enough);
    tcase_add_loop_test(tc, C103_read_with_invalidate, 0, 2);
    tc_add_tests(tc, read_with_invalidate_refused, C102_sink_invalidated, arguments);
    tc = new_case(suite, "output", setup, teardown);
    tcase_add_loop_test(tc, built_output_is_kept, 0, 4);
    tcase_add_test(tc, C116_response_under_way);
    return tc_main(suite);
}
