/* SPDX-License-Identifier: BSD-3-Clause */
/* Invalidation by the peer, by a request of our own, and with a Read: who may, what ends, in which order, and races. Attributes
 * that change while connected. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "rig.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "providers/softrdma/ddp.h"
#include "providers/softrdma/rdmap.h"
#include "providers/softrdma/terminate.h"

static struct rig rig;
static struct side *const a = &rig.side[0], *const b = &rig.side[1];
static struct side other; /* another QP with a's PD */
static struct raw raw, second;
static struct region region, receive;

static const struct ri_llp_handover plain = { .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8 };
static const struct shape willing = { .flags = RI_QP_BIND_ENABLE | RI_QP_INVALIDATE_ENABLE };

#define OK(call) ck_assert_int_eq((call), RI_OK)
#define LOCAL    (RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE)

static void open_raw(struct side *side, struct raw *peer, const struct shape *shape)
{
    side_open(&rig, side, shape);
    raw_open(peer, &rig, side, false, &plain);
    raw_tagged(peer, RDMAP_WRITE, true, 0, 0, NULL, 0);
    ck_assert(raw_silent(peer));
}

/* Another QP of a's PD. */
static void open_other(void)
{
    struct shape shape = willing;

    shape.pd = a->pd;
    open_raw(&other, &second, &shape);
}

static void close_other(void)
{
    side_close(&other);
    raw_close(&second);
}

static void setup(void)
{
    rig_open(&rig, NULL);
    open_raw(a, &raw, &willing);
    region = region_new(a, 4096, RIG_ALL | RI_ACCESS_BIND);
    receive = region_new(a, 4096, LOCAL);
}

static void teardown(void)
{
    region_free(a, &region);
    region_free(a, &receive);
    raw_close(&raw);
    rig_close(&rig);
}

static void post(struct side *side, struct ri_send_wr *wr)
{
    struct ri_send_wr *bad = NULL;

    OK(rig.fake.user.post_send(side->qp, wr, &bad));
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

    OK(rig.fake.privileged.mw_allocate(side->pd, narrow, NULL, &stag, mw));
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

static struct terminate_info expect_terminate(struct raw *peer, uint16_t value)
{
    static uint8_t ulpdu[128];
    struct terminate_info info;
    uint32_t length = raw_next(peer, ulpdu, sizeof(ulpdu));

    ck_assert_uint_gt(length, DDP_UNTAGGED_LEN);
    ck_assert_uint_eq(ulpdu[1] & RDMAP_CTRL_OP, RDMAP_TERMINATE);
    ck_assert_int_eq(
        terminate_parse(ulpdu + DDP_UNTAGGED_LEN, length - DDP_UNTAGGED_LEN, false, &info),
        TERMINATE_OK);
    ck_assert_msg(info.value == value, "Terminate %04x; expected %04x", info.value, value);
    return info;
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

static void read_request(struct raw *peer, uint32_t msn, uint32_t stag, uint64_t to, uint32_t size)
{
    const struct rdmap_read_req request = { .size = size, .src_stag = stag, .src_to = to };
    uint8_t payload[RDMAP_READ_REQ_LEN];

    rdmap_put_read_req(payload, &request);
    raw_untagged(peer, RDMAP_READ_REQ, true, DDP_QN_READ, msn, 0, payload, sizeof(payload));
}

/* ---- by the peer ---- */

/* C-123: the payload is placed, then the STag is gone, then the completion tells. Opcodes 4 and 6; once more is no error. */
START_TEST(C118_C119_C123_region)
{
    const uint8_t opcode = _i ? RDMAP_SEND_SE_INV : RDMAP_SEND_INV;

    side_receive(a, 1, region_sge(&region, 0, 64)); /* the very region that it invalidates */
    side_receive(a, 2, region_sge(&receive, 0, 64));
    send_inv(&raw, opcode, 1, region.keys.rkey, true, 0, "payload");
    expect_inv(a, 1, 7, region.keys.rkey, _i);
    ck_assert_mem_eq(region.octets, "payload", 7);
    send_inv(&raw, opcode, 2, region.keys.rkey, true, 0, "again");
    expect_inv(a, 2, 5, region.keys.rkey, _i);
    raw_tagged(&raw, RDMAP_WRITE, true, region.keys.rkey, (uintptr_t)region.octets, "late", 4);
    expect_terminate(&raw, TERMINATE_T_STAG);
    ck_assert_mem_eq(region.octets, "payload", 7);
}
END_TEST

/* What follows in the same read finds the STag gone already (C-085, C-110). */
START_TEST(C085_C110_what_follows)
{
    side_receive(a, 1, region_sge(&receive, 0, 64));
    send_inv(&raw, RDMAP_SEND_INV, 1, region.keys.rkey, true, 0, "x");
    if (_i)
        read_request(&raw, 1, region.keys.rkey, (uintptr_t)region.octets, 1);
    else
        raw_tagged(&raw, RDMAP_WRITE, true, region.keys.rkey, (uintptr_t)region.octets, "y", 1);
    expect_terminate(&raw, _i ? TERMINATE_R_STAG : TERMINATE_T_STAG);
    expect_inv(a, 1, 1, region.keys.rkey, false);
    ck_assert_uint_eq(region.octets[0], 0);
}
END_TEST

/* Local use of an invalidated region ends too; it may still be registered anew, or deregistered. */
START_TEST(invalid_region_is_of_no_use)
{
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = LOCAL };
    uint32_t old = region.keys.lkey;

    side_receive(a, 1, region_sge(&receive, 0, 64));
    send_inv(&raw, RDMAP_SEND_INV, 1, region.keys.rkey, true, 0, "x");
    expect_inv(a, 1, 1, region.keys.rkey, false);
    if (_i) {
        OK(rig.fake.privileged.mr_reregister(region.mr, NULL, &attr, &region.keys));
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

/* C-119 to C-122: what is refused, with which value, and what the receive completes with. */
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
    side_open(&rig, b, NULL);
    extra = region_new(_i == OTHER_PD ? b : a, 64, _i == NO_REMOTE_RIGHT ? LOCAL : RIG_ALL);
    switch (_i) {
    case UNKNOWN: stag ^= 0x12345600; break;
    case OTHER_KEY: stag ^= 1; break;
    case OTHER_PD:
    case NO_REMOTE_RIGHT: stag = extra.keys.lkey; break;
    case FREED:
        stag = extra.keys.rkey;
        OK(rig.fake.privileged.mr_deregister(extra.mr));
        extra.mr = NULL;
        break;
    case WINDOW_OF_OTHER_QP: stag = bind_window(&other, true, &mw); break;
    case QP_DOES_NOT_ALLOW: OK(rig.fake.privileged.qp_modify(a->qp, &modify)); break;
    case STAG_ZERO: stag = 0; break;
    default: stag = bind_window(a, false, &mw); break;
    }
    side_receive(a, 1, region_sge(&receive, 0, 64));
    send_inv(&raw, RDMAP_SEND_INV, 1, stag, true, 0, "text");
    expect_terminate(&raw, targets[_i].value);
    side_expect_event(a, RI_EVENT_INVALIDATE_ACCESS, targets[_i].value);
    side_expect(a, a->recv_cq, 1, RI_WC_REMOTE_INVALID_REQUEST, 0);
    if (mw)
        OK(rig.fake.privileged.mw_free(mw));
    region_free(a, &extra);
    close_other();
}
END_TEST

/* A narrow window: bound to this QP, or not bound at all (of this PD). */
START_TEST(C120_window)
{
    struct ri_mw *mw;
    uint32_t stag = bind_window(a, true, &mw);

    if (_i)
        invalidate(a, stag, RI_WC_SUCCESS);
    side_receive(a, 1, region_sge(&receive, 0, 64));
    send_inv(&raw, RDMAP_SEND_INV, 1, stag, true, 0, "text");
    expect_inv(a, 1, 4, stag, false);
    OK(rig.fake.privileged.mr_deregister(region.mr)); /* not bound any more */
    region.mr = NULL;
    raw_tagged(&raw, RDMAP_WRITE, true, stag, (uintptr_t)region.octets, "late", 4);
    expect_terminate(&raw, TERMINATE_T_STAG);
    OK(rig.fake.privileged.mw_free(mw));
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
        expect_terminate(&raw, TERMINATE_OPCODE);
        side_expect(a, a->recv_cq, 1, RI_WC_LOCAL_QP, 0);
        return;
    }
    send_inv(&raw, RDMAP_SEND_INV, 1, region.keys.rkey, true, 3, "two");
    expect_inv(a, 1, 6, region.keys.rkey, false);
    ck_assert_mem_eq(receive.octets, "onetwo", 6);
}
END_TEST

/* S-055, S-044: ours carry the STag in all segments, others carry 0. */
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

/* ---- by ourselves ---- */

/* Earlier requests have read the region, later ones do not find it. Once more is no error. */
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
    expect_terminate(&raw, TERMINATE_LOCAL);
}
END_TEST

/* What is refused is an error of memory management, for windows one of binding; no peer's rights are looked at. */
START_TEST(local_refused)
{
    struct ri_mw *mw = NULL;
    struct region foreign;
    uint32_t stag;

    open_other();
    side_open(&rig, b, NULL);
    foreign = region_new(b, 64, RIG_ALL);
    stag = _i == 0   ? 0
           : _i == 1 ? region.keys.lkey ^ 1
           : _i == 2 ? foreign.keys.lkey
                     : bind_window(&other, true, &mw);
    invalidate(a, stag, mw ? RI_WC_BIND : RI_WC_MM_OPERATION);
    expect_terminate(&raw, TERMINATE_LOCAL);
    side_expect_event(a, RI_EVENT_LOCAL_ERROR, 0);
    if (mw)
        OK(rig.fake.privileged.mw_free(mw));
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

/* C-103: the sink is invalid when the Read completes, also one that read nothing. */
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
    expect_terminate(&raw, TERMINATE_T_STAG);
}
END_TEST

/* It may not be: a window is bound to it. The Read fails, nobody sees a success. */
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
    expect_terminate(&raw, TERMINATE_LOCAL);
    OK(rig.fake.privileged.mw_free(mw));
}
END_TEST

/* C-102: an answer to a Read whose sink was invalidated meanwhile. */
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
    expect_terminate(&raw, TERMINATE_T_STAG);
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

/* ---- output that names the memory ---- */

/* A side whose socket takes little: a large message stays in the batch, by reference. */
static void open_narrow(struct side *side, struct raw *peer, const struct shape *shape)
{
    int fds[2], small = 4096;

    side_open(&rig, side, shape);
    rig_tcp(fds, 0);
    ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    ck_assert_int_eq(setsockopt(fds[1], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    *peer = (struct raw){ .rig = &rig, .fd = fds[1], .crc = true, .room = 4096 };
    peer->octets = malloc(peer->room);
    fake_host_listen(&rig.fake, peer->fd);
    side_start(side, fds[0], true, &plain);
}

/* What was built before the STag went is sent as it was, by whichever QP of the PD, whoever invalidates. */
START_TEST(built_output_is_kept)
{
    const uint32_t size = 100000;
    struct shape shape = willing;
    struct region large = region_new(a, size, RIG_ALL);
    uint8_t *ulpdu = malloc(70000);
    uint32_t seen = 0;

    shape.pd = a->pd;
    open_narrow(&other, &second, &shape);
    memset(large.octets, 'o', size);
    side_send(&other, 1, region_sge(&large, 0, size));
    ck_assert(side_idle(&other, other.send_cq));
    if (_i == 0) {
        invalidate(a, large.keys.lkey, RI_WC_SUCCESS);
    } else {
        side_receive(a, 1, region_sge(&receive, 0, 64));
        send_inv(&raw, RDMAP_SEND_INV, 1, large.keys.rkey, true, 0, "x");
        expect_inv(a, 1, 1, large.keys.rkey, false);
    }
    memset(large.octets, 'n', size);
    while (seen < size) {
        uint32_t length = raw_next(&second, ulpdu, 70000);

        ck_assert_uint_gt(length, 0);
        if ((ulpdu[1] & RDMAP_CTRL_OP) != RDMAP_SEND)
            continue;
        for (uint32_t i = DDP_UNTAGGED_LEN; i < length; i++)
            ck_assert_uint_eq(ulpdu[i], 'o');
        seen += length - DDP_UNTAGGED_LEN;
    }
    side_expect(&other, other.send_cq, 1, RI_WC_SUCCESS, size);
    free(ulpdu);
    side_close(&other);
    raw_close(&second);
    region_free(a, &large);
}
END_TEST

/* C-116: a response under way ends with the STag. */
START_TEST(C116_response_under_way)
{
    const uint32_t size = 64 << 20; /* more than sockets take */
    struct region large = region_new(a, size, RIG_ALL);
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
    region_free(a, &large);
}
END_TEST

/* ---- attributes while connected ---- */

START_TEST(ord_rises)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_ORD, .ord = 3 };
    uint8_t ulpdu[64];

    for (uint64_t i = 0; i < 12; i++)
        side_read(a, i, region_sge(&region, i, 1), 0, 1);
    for (int i = 0; i < 8; i++) /* ORD of the hand-over */
        ck_assert_uint_gt(raw_next(&raw, ulpdu, sizeof(ulpdu)), 0);
    ck_assert(raw_silent(&raw));
    modify.ord = 10;
    OK(rig.fake.privileged.qp_modify(a->qp, &modify));
    for (int i = 0; i < 2; i++)
        ck_assert_uint_gt(raw_next(&raw, ulpdu, sizeof(ulpdu)), 0);
    ck_assert(raw_silent(&raw));
    ck_assert_uint_eq(side_query(a).ord, 10);
    modify.ord = 100000;
    ck_assert_int_eq(rig.fake.privileged.qp_modify(a->qp, &modify), RI_ERR_LIMIT);
}
END_TEST

/* From none to some. */
START_TEST(ird_rises)
{
    const struct ri_llp_handover none = { .mpa_revision = 2, .crc = true };
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_IRD, .ird = 2 };
    struct shape shape = willing;
    uint8_t ulpdu[4096];

    shape.pd = a->pd;
    side_open(&rig, &other, &shape);
    raw_open(&second, &rig, &other, false, &none);
    raw_tagged(&second, RDMAP_WRITE, true, 0, 0, NULL, 0);
    ck_assert(raw_silent(&second));
    OK(rig.fake.privileged.qp_modify(other.qp, &modify));
    memset(region.octets, 'i', 2000);
    read_request(&second, 1, region.keys.rkey, (uintptr_t)region.octets, 2000);
    ck_assert_uint_eq(raw_next(&second, ulpdu, sizeof(ulpdu)), DDP_TAGGED_LEN + 2000);
    ck_assert_uint_eq(ulpdu[DDP_TAGGED_LEN + 1999], 'i');
    side_modify(&other, RI_QPS_ERROR);
    ck_assert_int_eq(rig.fake.privileged.qp_modify(other.qp, &modify), RI_ERR_INVALID_STATE);
    close_other();
}
END_TEST

START_TEST(access_changes)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_FLAGS,
                                   .flags = RI_QP_READ_ENABLE };

    raw_tagged(&raw, RDMAP_WRITE, true, region.keys.rkey, (uintptr_t)region.octets, "yes", 3);
    ck_assert(raw_silent(&raw));
    OK(rig.fake.privileged.qp_modify(a->qp, &modify));
    raw_tagged(&raw, RDMAP_WRITE, true, region.keys.rkey, (uintptr_t)region.octets, "not", 3);
    expect_terminate(&raw, TERMINATE_T_STREAM);
    ck_assert_mem_eq(region.octets, "yes", 3);
    modify.flags = RI_QP_PRIVILEGED;
    ck_assert_int_eq(rig.fake.privileged.qp_modify(a->qp, &modify), RI_ERR_NOT_SUPPORTED);
}
END_TEST

/* ---- races ---- */

static atomic_bool stop;

static void *run_lane(void *arg)
{
    struct fake_host *fake = &rig.fake;

    (void)arg;
    while (!atomic_load(&stop))
        fake_host_sleep(fake, fake_host_run(fake, NULL), 100000);
    return NULL;
}

static struct ri_wc wait_wc(struct ri_cq *cq)
{
    uint64_t end = tc_deadline(RIG_TIMEOUT);
    struct ri_wc wc;

    while (!rig.fake.user.poll(cq, 1, &wc)) {
        if (tc_expired(end))
            ck_abort_msg("no completion");
        sched_yield();
    }
    return wc;
}

struct pair {
    struct side sides[2];
    bool remote;
    unsigned long rounds, wrong;
    pthread_t thread;
};

#define LENGTH 30000u

static atomic_uint working;

static unsigned long not_all(const uint8_t *octets, uint8_t value)
{
    unsigned long wrong = 0;

    for (uint32_t i = 0; i < LENGTH; i++)
        wrong += octets[i] != value;
    return wrong;
}

/* Register, send out of it, have it written by the peer, invalidate it (the peer, or ourselves), change the memory at once,
 * deregister: the Send has arrived as it was, the Write is whole. */
static void one_round(struct pair *p, struct region *theirs, uint8_t *memory, uint32_t round)
{
    struct side *one = &p->sides[0], *two = &p->sides[1];
    const struct ri_mr_attr attr = {
        .size = sizeof(attr), .access = RIG_ALL, .addr = memory, .length = 2 * LENGTH
    };
    struct region mine = { .octets = memory, .length = 2 * LENGTH };
    struct ri_send_wr inv = { .opcode = p->remote ? RI_WR_SEND_INVALIDATE : RI_WR_LOCAL_INVALIDATE,
                              .flags = RI_WR_SIGNALED };

    OK(rig.fake.privileged.mr_register(one->pd, &attr, &mine.keys, &mine.mr));
    memset(memory, (int)(round & 0x7f), LENGTH);
    memset(theirs->octets, (int)(round & 0x7f) | 0x80, LENGTH);
    side_receive(two, 1, region_sge(theirs, LENGTH, LENGTH));
    side_receive(one, 2, region_sge(&mine, 0, 0));
    side_send(one, 3, region_sge(&mine, 0, LENGTH));
    side_write(two, 4, region_sge(theirs, 0, LENGTH), (uintptr_t)memory + LENGTH, mine.keys.rkey);
    inv.invalidate_stag = mine.keys.rkey;
    if (p->remote) {
        post(two, &inv);
        p->wrong += wait_wc(one->recv_cq).flags != RI_WC_WITH_INVALIDATE;
    } else {
        side_send(two, 5, region_sge(theirs, 0, 0));
        p->wrong += wait_wc(one->recv_cq).status != RI_WC_SUCCESS;
        post(one, &inv);
    }
    p->wrong += wait_wc(one->send_cq).status != RI_WC_SUCCESS;
    if (!p->remote)
        p->wrong += wait_wc(one->send_cq).opcode != RI_WC_LOCAL_INVALIDATE;
    p->wrong += not_all(memory + LENGTH, (uint8_t)((round & 0x7f) | 0x80));
    memset(memory, 0xff, 2 * LENGTH);
    p->wrong += wait_wc(two->recv_cq).status != RI_WC_SUCCESS;
    p->wrong += not_all(theirs->octets + LENGTH, (uint8_t)(round & 0x7f));
    for (int i = 0; i < 2; i++)
        p->wrong += wait_wc(two->send_cq).status != RI_WC_SUCCESS;
    OK(rig.fake.privileged.mr_deregister(mine.mr));
}

static void *work(void *arg)
{
    struct pair *p = arg;
    struct region theirs = region_new(&p->sides[1], 2 * LENGTH, RIG_ALL);
    uint8_t *memory = malloc(2 * LENGTH);

    memset(memory, 0, 2 * LENGTH);
    for (uint32_t round = 0; round < p->rounds && !p->wrong; round++)
        one_round(p, &theirs, memory, round);
    free(memory);
    region_free(&p->sides[1], &theirs);
    atomic_fetch_sub(&working, 1);
    return NULL;
}

static void set_ord(struct side *side, uint32_t ord)
{
    const struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_ORD, .ord = ord };

    OK(rig.fake.privileged.qp_modify(side->qp, &modify));
    sched_yield();
}

/* Four connections of one PD: each invalidation looks at the output of all of them. */
START_TEST(invalidate_under_traffic)
{
    static struct pair pairs[4];
    pthread_t lane;
    int fds[2];

    rig_open(&rig, NULL);
    ck_assert_int_eq(pthread_create(&lane, NULL, run_lane, NULL), 0);
    for (int i = 0; i < 4; i++) {
        struct shape shape = willing;

        shape.pd = i ? pairs[0].sides[0].pd : NULL;
        rig_tcp(fds, 0);
        for (int j = 0; j < 2; j++) {
            side_open(&rig, &pairs[i].sides[j], &shape);
            side_start(&pairs[i].sides[j], fds[j], j == 0, &plain);
            shape.pd = pairs[0].sides[0].pd;
        }
        pairs[i].remote = i & 1;
        pairs[i].rounds = tc_count(200);
    }
    for (int i = 0; i < 4; i++)
        ck_assert(tc_until(!side_query(&pairs[i].sides[1]).holding, RIG_TIMEOUT));
    atomic_store(&working, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&pairs[i].thread, NULL, work, &pairs[i]), 0);
    for (uint32_t i = 0; atomic_load(&working);
         i++) /* a control verb that wants tx and rx meanwhile */
        set_ord(&pairs[i % 4].sides[i / 4 % 2], 4 + i % 5);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(pairs[i].thread, NULL), 0);
        ck_assert_uint_eq(pairs[i].wrong, 0);
    }
    for (int i = 3; i >= 0; i--)
        for (int j = 1; j >= 0; j--)
            side_close(&pairs[i].sides[j]);
    atomic_store(&stop, true);
    fake_host_wake(&rig.fake);
    ck_assert_int_eq(pthread_join(lane, NULL), 0);
    rig_close(&rig);
}
END_TEST

static struct pair writer_pair;

/* Writes without end into a region until the connection is over. */
static void *write_for_ever(void *arg)
{
    struct side *side = &writer_pair.sides[1];
    const struct region *target = arg;
    struct region source = region_new(side, LENGTH, RIG_ALL);
    struct ri_wc wc = { .status = RI_WC_SUCCESS };

    memset(source.octets, 'w', LENGTH);
    for (uint32_t posted = 0, done = 0; wc.status == RI_WC_SUCCESS;) {
        if (posted - done < 8)
            side_write(side, posted++, region_sge(&source, 0, LENGTH), (uintptr_t)target->octets,
                       target->keys.rkey);
        else
            done += rig.fake.user.poll(side->send_cq, 1, &wc);
    }
    region_free(side, &source);
    return NULL;
}

/* after the completion of the invalidation nothing is placed any more, in the middle of the peer's Writes. */
START_TEST(nothing_is_placed_afterwards)
{
    pthread_t lane, writer;
    int fds[2];

    rig_open(&rig, NULL);
    atomic_store(&stop, false);
    ck_assert_int_eq(pthread_create(&lane, NULL, run_lane, NULL), 0);
    for (unsigned long round = 0; round < tc_count(60); round++) {
        struct side *const one = &writer_pair.sides[0];
        struct ri_send_wr wr;
        struct region target;

        rig_tcp(fds, 0);
        for (int j = 0; j < 2; j++)
            side_open(&rig, &writer_pair.sides[j], &willing);
        target = region_new(one, LENGTH, RIG_ALL);
        for (int j = 0; j < 2; j++)
            side_start(&writer_pair.sides[j], fds[j], j == 1, &plain);
        ck_assert(tc_until(!side_query(one).holding, RIG_TIMEOUT));
        ck_assert_int_eq(pthread_create(&writer, NULL, write_for_ever, &target), 0);
        ck_assert(tc_until(__atomic_load_n(&target.octets[LENGTH - 1], __ATOMIC_ACQUIRE) == 'w',
                           RIG_TIMEOUT));
        wr = invalidate_request(1, target.keys.lkey);
        post(one, &wr);
        if (wait_wc(one->send_cq).status == RI_WC_SUCCESS) {
            memset(target.octets, 0, LENGTH);
            ck_assert(tc_until(side_query(one).state == RI_QPS_ERROR, RIG_TIMEOUT));
            for (uint32_t i = 0; i < LENGTH; i++)
                ck_assert_uint_eq(target.octets[i], 0);
        } /* else a Write came between the revocation and its completion, and ended the connection */
        ck_assert_int_eq(pthread_join(writer, NULL), 0);
        region_free(one, &target);
        side_close(one);
        side_close(&writer_pair.sides[1]);
    }
    atomic_store(&stop, true);
    fake_host_wake(&rig.fake);
    ck_assert_int_eq(pthread_join(lane, NULL), 0);
    rig_close(&rig);
}
END_TEST

static TCase *new_case(Suite *suite, const char *name)
{
    TCase *tc = tcase_create(name);

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    suite_add_tcase(suite, tc);
    return tc;
}

int main(void)
{
    Suite *suite = suite_create("invalidation");
    TCase *tc = new_case(suite, "by the peer");

    tcase_add_loop_test(tc, C118_C119_C123_region, 0, 2);
    tcase_add_loop_test(tc, C085_C110_what_follows, 0, 2);
    tcase_add_loop_test(tc, invalid_region_is_of_no_use, 0, 2);
    tcase_add_loop_test(tc, C119_C120_C121_C122_refused, 0, TARGETS);
    tcase_add_loop_test(tc, C120_window, 0, 2);
    tcase_add_loop_test(tc, C076_several_segments, 0, 2);
    tcase_add_test(tc, S055_S044_what_we_send);
    tc = new_case(suite, "by ourselves");
    tcase_add_test(tc, local_in_order);
    tcase_add_loop_test(tc, local_refused, 0, 4);
    tcase_add_test(tc, local_rights_are_enough);
    tcase_add_loop_test(tc, C103_read_with_invalidate, 0, 2);
    tcase_add_test(tc, read_with_invalidate_refused);
    tcase_add_test(tc, C102_sink_invalidated);
    tcase_add_test(tc, arguments);
    tc = new_case(suite, "output");
    tcase_add_loop_test(tc, built_output_is_kept, 0, 2);
    tcase_add_test(tc, C116_response_under_way);
    tc = new_case(suite, "attributes");
    tcase_add_test(tc, ord_rises);
    tcase_add_test(tc, ird_rises);
    tcase_add_test(tc, access_changes);
    tc = tcase_create("races");
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, invalidate_under_traffic);
    tcase_add_test(tc, nothing_is_placed_afterwards);
    suite_add_tcase(suite, tc);
    return tc_main(suite);
}
