/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: what a bind allows and refuses, whose a window is, its region, its order among requests, and races. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "rig.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "providers/softrdma/ddp.h"
#include "providers/softrdma/rdmap.h"
#include "providers/softrdma/terminate.h"

static struct rig rig;
static struct side *const a = &rig.side[0], *const b = &rig.side[1];
static struct side other; /* another QP with a's PD */
static struct raw raw, second;
static struct region region;

static const struct ri_llp_handover plain = { .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8 };
static const struct shape binder = { .flags = RI_QP_BIND_ENABLE | RI_QP_INVALIDATE_ENABLE };

#define OK(call)     ck_assert_int_eq((call), RI_OK)
#define LOCAL        (RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE)
#define BINDABLE     (LOCAL | RI_ACCESS_BIND)
#define REMOTE       (RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE)
#define REGION_SIZE  4096u
#define WINDOW_START 1000u
#define WINDOW_SIZE  100u

struct window {
    struct ri_mw *mw;
    uint32_t stag;
};

static struct window window_new(struct side *side, bool narrow)
{
    struct window window;

    OK(rig.fake.privileged.mw_allocate(side->pd, narrow, NULL, &window.stag, &window.mw));
    return window;
}

static void window_free(struct window *window)
{
    OK(rig.fake.privileged.mw_free(window->mw));
}

/* A window over octets of a region by the next key, which changes window->stag. */
static struct ri_send_wr bind_request(struct window *window, const struct region *of, uint64_t from,
                                      uint64_t length, uint32_t access, bool zero_based)
{
    uint32_t key = (window->stag + 1) & 0xff;

    window->stag = (window->stag & ~0xffu) | key;
    return (struct ri_send_wr){
        .cookie = 77,
        .opcode = RI_WR_BIND_WINDOW,
        .flags = RI_WR_SIGNALED,
        .bind = { .mw = window->mw,
                  .mr = of->mr,
                  .addr = (uintptr_t)of->octets + from,
                  .length = length,
                  .access = access,
                  .new_key = key,
                  .zero_based = zero_based },
    };
}

static void post(struct side *side, struct ri_send_wr *wr)
{
    struct ri_send_wr *bad = NULL;

    OK(rig.fake.user.post_send(side->qp, wr, &bad));
}

static void expect_bound(struct side *side, const struct window *window)
{
    struct ri_wc wc = side_next(side, side->send_cq);

    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.opcode, RI_WC_BIND_WINDOW);
    ck_assert_uint_eq(wc.cookie, 77);
    ck_assert_uint_eq(wc.byte_len, 0);
    ck_assert_uint_eq(wc.invalidated_stag, window->stag);
}

static void bind_now(struct side *side, struct window *window, const struct region *of,
                     uint64_t from, uint64_t length, uint32_t access, bool zero_based)
{
    struct ri_send_wr wr = bind_request(window, of, from, length, access, zero_based);

    post(side, &wr);
    expect_bound(side, window);
}

static void unbind(struct side *side, uint32_t stag)
{
    struct ri_send_wr wr = { .cookie = 78,
                             .opcode = RI_WR_LOCAL_INVALIDATE,
                             .flags = RI_WR_SIGNALED,
                             .invalidate_stag = stag };

    post(side, &wr);
    side_expect(side, side->send_cq, 78, RI_WC_SUCCESS, 0);
}

/* The responder with a QP that may bind; its peer is written by hand. */
static void open_raw(struct side *side, struct raw *peer, const struct shape *shape)
{
    side_open(&rig, side, shape);
    raw_open(peer, &rig, side, false, &plain);
    raw_tagged(peer, RDMAP_WRITE, true, 0, 0, NULL, 0);
    ck_assert(raw_silent(peer));
}

static void setup(void)
{
    rig_open(&rig, NULL);
    open_raw(a, &raw, &binder);
    region = region_new(a, REGION_SIZE, BINDABLE);
}

static void teardown(void)
{
    raw_close(&raw);
    rig_close(&rig);
}

static void read_request(struct raw *peer, uint32_t msn, uint32_t stag, uint64_t to, uint32_t size)
{
    const struct rdmap_read_req request = {
        .sink_stag = 5, .sink_to = 7, .size = size, .src_stag = stag, .src_to = to
    };
    uint8_t payload[RDMAP_READ_REQ_LEN];

    rdmap_put_read_req(payload, &request);
    raw_untagged(peer, RDMAP_READ_REQ, true, DDP_QN_READ, msn, 0, payload, sizeof(payload));
}

static void expect_response(struct raw *peer, const void *octets, uint32_t length)
{
    struct rdmap_segment segment;
    uint8_t ulpdu[512];
    uint32_t got = raw_next(peer, ulpdu, sizeof(ulpdu));

    ck_assert_int_eq(rdmap_check(ulpdu, got, 0, &segment), RDMAP_OK);
    ck_assert_int_eq(segment.opcode, RDMAP_READ_RESP);
    ck_assert_uint_eq(segment.payload_len, length);
    ck_assert_mem_eq(segment.payload, octets, length);
}

static void expect_terminate(struct raw *peer, uint16_t value)
{
    struct terminate_info info;
    uint8_t ulpdu[128];
    uint32_t length = raw_next(peer, ulpdu, sizeof(ulpdu));

    ck_assert_uint_gt(length, DDP_UNTAGGED_LEN);
    ck_assert_int_eq(
        terminate_parse(ulpdu + DDP_UNTAGGED_LEN, length - DDP_UNTAGGED_LEN, false, &info),
        TERMINATE_OK);
    ck_assert_msg(info.value == value, "Terminate %04x; expected %04x", info.value, value);
}

/* The Write is placed: a Read of nothing behind it was answered. */
static void write_placed(struct raw *peer, uint32_t msn, uint32_t stag, uint64_t to,
                         const char *text)
{
    raw_tagged(peer, RDMAP_WRITE, true, stag, to, text, (uint32_t)strlen(text));
    read_request(peer, msn, 0, 0, 0);
    expect_response(peer, "", 0);
}

/* ---- what a window is good for ---- */

static uint64_t base_of(bool zero_based)
{
    return zero_based ? 0 : (uintptr_t)region.octets + WINDOW_START;
}

/* Absolute and zero-based, narrow and wide: the peer writes and reads inside, the key is the one that was asked for. */
START_TEST(peer_uses_a_window)
{
    bool narrow = _i & 1, zero = _i & 2;
    struct window window = window_new(a, narrow);
    uint32_t before = window.stag;

    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, zero);
    ck_assert_uint_eq(window.stag >> 8, before >> 8);
    write_placed(&raw, 1, window.stag, base_of(zero), "first");
    write_placed(&raw, 2, window.stag, base_of(zero) + WINDOW_SIZE - 4, "last");
    ck_assert_mem_eq(region.octets + WINDOW_START, "first", 5);
    ck_assert_mem_eq(region.octets + WINDOW_START + WINDOW_SIZE - 4, "last", 4);
    read_request(&raw, 3, window.stag, base_of(zero) + 1, 3);
    expect_response(&raw, "irs", 3);
    window_free(&window);
    region_free(a, &region);
}
END_TEST

/* Writes that a window does not allow: name, value. The key of before the bind, another key, rights, either end. */
static const struct {
    const char *name;
    uint32_t access;
    int32_t key, at;
    uint32_t length;
    uint16_t value;
} bad_writes[] = {
    { "C-084 key of the allocation", REMOTE, -1, 0, 1, TERMINATE_T_STAG },
    { "C-084 another key", REMOTE, 1, 0, 1, TERMINATE_T_STAG },
    { "C-088 right", RI_ACCESS_REMOTE_READ, 0, 0, 1, TERMINATE_T_STREAM },
    { "C-091 before", REMOTE, 0, -1, 1, TERMINATE_T_BOUNDS },
    { "C-092 behind", REMOTE, 0, WINDOW_SIZE, 1, TERMINATE_T_BOUNDS },
    { "C-092 over the end", REMOTE, 0, WINDOW_SIZE - 1, 2, TERMINATE_T_BOUNDS },
};

START_TEST(C084_C088_C091_C092_bad_write)
{
    struct window window = window_new(a, true);

    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, bad_writes[_i].access, false);
    raw_tagged(&raw, RDMAP_WRITE, true,
               (window.stag & ~0xffu) | ((window.stag + (uint32_t)bad_writes[_i].key) & 0xff),
               base_of(false) + (uint64_t)bad_writes[_i].at, "xx", bad_writes[_i].length);
    expect_terminate(&raw, bad_writes[_i].value);
    side_expect_event(a, RI_EVENT_WRITE_ACCESS, bad_writes[_i].value);
    window_free(&window);
    region_free(a, &region);
}
END_TEST

/* C-112: a window that may be written only. The region's own rights do not help. */
START_TEST(C112_bad_read)
{
    struct window window = window_new(a, true);

    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, RI_ACCESS_REMOTE_WRITE, false);
    read_request(&raw, 1, window.stag, base_of(false), 1);
    expect_terminate(&raw, TERMINATE_R_ACCESS);
    window_free(&window);
    region_free(a, &region);
}
END_TEST

/* C-087, C-111: a narrow window is the binder's, with the same PD or not; a wide one is the PD's. */
START_TEST(C087_C111_whose_window)
{
    bool narrow = _i & 1, read = _i & 2;
    struct shape shape = binder;
    struct window window = window_new(a, narrow);

    shape.pd = a->pd;
    open_raw(&other, &second, &shape);
    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, false);
    if (read)
        read_request(&second, 1, window.stag, base_of(false), 2);
    else
        raw_tagged(&second, RDMAP_WRITE, true, window.stag, base_of(false), "ok", 2);
    if (narrow) {
        expect_terminate(&second, read ? TERMINATE_R_STREAM : TERMINATE_T_STREAM);
        ck_assert_uint_eq(region.octets[WINDOW_START], 0);
    } else if (read) {
        expect_response(&second, "\0\0", 2);
    } else {
        read_request(&second, 1, 0, 0, 0);
        expect_response(&second, "", 0);
        ck_assert_mem_eq(region.octets + WINDOW_START, "ok", 2);
    }
    write_placed(&raw, 1, window.stag, base_of(false), "by its own");
    window_free(&window);
    side_close(&other);
    raw_close(&second);
    region_free(a, &region);
}
END_TEST

/* C-086: not even a wide window is another PD's. */
START_TEST(C086_other_pd)
{
    struct window window = window_new(a, false);

    open_raw(b, &second, &binder);
    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, false);
    raw_tagged(&second, RDMAP_WRITE, true, window.stag, base_of(false), "x", 1);
    expect_terminate(&second, TERMINATE_T_STREAM);
    window_free(&window);
    raw_close(&second);
    region_free(a, &region);
}
END_TEST

/* A window is no local element, though its region may be written and read. */
START_TEST(no_local_element)
{
    struct window window = window_new(a, _i);
    struct ri_sge sge;

    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, false);
    sge = (struct ri_sge){ base_of(false), 4, window.stag };
    side_receive(a, 1, sge);
    raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, 1, 0, "data", 4);
    expect_terminate(&raw, TERMINATE_LOCAL);
    side_expect(a, a->recv_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    window_free(&window);
    region_free(a, &region);
}
END_TEST

START_TEST(no_local_source)
{
    struct window window = window_new(a, _i);

    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, false);
    side_send(a, 1, (struct ri_sge){ base_of(false), 4, window.stag });
    expect_terminate(&raw, TERMINATE_LOCAL);
    side_expect(a, a->send_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    window_free(&window);
    region_free(a, &region);
}
END_TEST

/* ---- what is refused ---- */

enum flaw {
    NO_FLAW,
    QP_MAY_NOT,
    REGION_MAY_NOT,
    REGION_READ_ONLY,
    REGION_WRITE_ONLY,
    REGION_ZERO_BASED,
    REGION_INVALID,
    REGION_OF_OTHER_PD,
    WINDOW_OF_OTHER_PD,
    BOUND_ALREADY,
    BOUND_BY_ANOTHER,
    BEFORE,
    BEHIND,
    WRAPS,
    EMPTY,
    FLAWS
};

static void refused(enum flaw flaw, bool narrow)
{
    struct shape shape = { .flags = flaw == QP_MAY_NOT ? RI_QP_INVALIDATE_ENABLE : binder.flags,
                           .pd = a->pd };
    uint32_t access = flaw == REGION_MAY_NOT      ? LOCAL
                      : flaw == REGION_READ_ONLY  ? RI_ACCESS_LOCAL_READ | RI_ACCESS_BIND
                      : flaw == REGION_WRITE_ONLY ? RI_ACCESS_LOCAL_WRITE | RI_ACCESS_BIND
                      : flaw == REGION_ZERO_BASED ? BINDABLE | RI_ACCESS_ZERO_BASED
                                                  : BINDABLE;
    uint32_t wanted = flaw == REGION_READ_ONLY    ? RI_ACCESS_REMOTE_WRITE
                      : flaw == REGION_WRITE_ONLY ? RI_ACCESS_REMOTE_READ
                                                  : REMOTE;
    struct side stranger = { .rig = &rig };
    struct region of;
    struct window window;
    struct ri_send_wr wr;
    struct ri_wc wc;

    OK(rig.fake.privileged.pd_create(rig.fake.rnic, NULL, &stranger.pd));
    open_raw(&other, &second, &shape);
    of = region_new(flaw == REGION_OF_OTHER_PD ? &stranger : a, REGION_SIZE, access);
    window = window_new(flaw == WINDOW_OF_OTHER_PD ? &stranger : a, narrow);
    if (flaw == BOUND_ALREADY || flaw == BOUND_BY_ANOTHER)
        bind_now(flaw == BOUND_ALREADY ? &other : a, &window, &of, 0, 10, REMOTE, false);
    if (flaw == REGION_INVALID)
        unbind(&other, of.keys.lkey);
    wr = bind_request(&window, &of, WINDOW_START, WINDOW_SIZE, wanted, false);
    if (flaw == BEFORE)
        wr.bind.addr = (uintptr_t)of.octets - 1;
    if (flaw == BEHIND)
        wr.bind.addr = (uintptr_t)of.octets + REGION_SIZE - WINDOW_SIZE + 1;
    if (flaw == WRAPS)
        wr.bind.length = UINT64_MAX;
    if (flaw == EMPTY)
        wr.bind.length = 0;
    wr.flags = 0; /* a failure is told all the same */
    post(&other, &wr);
    wc = side_next(&other, other.send_cq);
    ck_assert_msg(wc.status == RI_WC_BIND && wc.opcode == RI_WC_BIND_WINDOW, "flaw %d: status %u",
                  flaw, wc.status);
    ck_assert_uint_eq(wc.invalidated_stag, window.stag);
    expect_terminate(&second, TERMINATE_LOCAL);
    side_expect_event(&other, RI_EVENT_LOCAL_ERROR, 0);
    window_free(&window);
    region_free(a, &of);
    side_close(&other);
    raw_close(&second);
    OK(rig.fake.privileged.pd_destroy(stranger.pd));
}

START_TEST(bind_refused)
{
    refused((enum flaw)_i, true);
    if (_i != BOUND_ALREADY && _i != BOUND_BY_ANOTHER) /* a wide window may be bound anew */
        refused((enum flaw)_i, false);
    region_free(a, &region);
}
END_TEST

START_TEST(arguments)
{
    struct window window = window_new(a, true);
    struct ri_send_wr wr = bind_request(&window, &region, 0, 1, RI_ACCESS_LOCAL_READ, false);
    struct ri_send_wr *bad = NULL;
    struct ri_sge sge = { 0, 0, 0 };

    ck_assert_int_eq(rig.fake.user.post_send(a->qp, &wr, &bad), RI_ERR_INVALID_ARGUMENT);
    wr.bind.access = REMOTE;
    wr.bind.mr = NULL;
    ck_assert_int_eq(rig.fake.user.post_send(a->qp, &wr, &bad), RI_ERR_INVALID_ARGUMENT);
    wr.bind.mr = region.mr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ck_assert_int_eq(rig.fake.user.post_send(a->qp, &wr, &bad), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(rig.fake.privileged.pd_destroy(a->pd), RI_ERR_BUSY);
    window_free(&window);
    region_free(a, &region);
}
END_TEST

/* ---- a window and its region ---- */

/* While windows are bound, a region stays; each of them counts. */
START_TEST(region_is_busy)
{
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = LOCAL };
    struct window windows[2] = { window_new(a, true), window_new(a, false) };
    struct ri_mr_keys keys = { 5, 6 };

    for (int i = 0; i < 2; i++)
        bind_now(a, &windows[i], &region, 0, 10, REMOTE, false);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(rig.fake.privileged.mr_deregister(region.mr), RI_ERR_BUSY);
        ck_assert_int_eq(rig.fake.privileged.mr_reregister(region.mr, NULL, &attr, &keys),
                         RI_ERR_BUSY);
        ck_assert(keys.lkey == 5 && keys.rkey == 6);
        if (_i == 0)
            unbind(a, windows[i].stag);
        else
            window_free(&windows[i]);
    }
    OK(rig.fake.privileged.mr_reregister(region.mr, NULL, &attr, &keys));
    region_free(a, &region);
    for (int i = 0; i < 2 && _i == 0; i++)
        window_free(&windows[i]);
}
END_TEST

/* The region's STag cannot be invalidated either: C-122 by the peer, a failed request of our own. */
START_TEST(C122_region_with_window)
{
    struct window window = window_new(a, true);
    struct region full = region_new(a, 64, BINDABLE | REMOTE);
    uint8_t ulpdu[DDP_UNTAGGED_LEN];

    bind_now(a, &window, &full, 0, 10, REMOTE, false);
    if (_i == 0) {
        OK(side_post_receive(a, 1, NULL, 0));
        ddp_put_untagged(ulpdu, true, rdmap_ctrl(RDMAP_SEND_INV), full.keys.rkey, DDP_QN_SEND, 1,
                         0);
        raw_send(&raw, ulpdu, sizeof(ulpdu));
        expect_terminate(&raw, TERMINATE_R_INVALIDATE);
        side_expect(a, a->recv_cq, 1, RI_WC_REMOTE_INVALID_REQUEST, 0);
    } else {
        struct ri_send_wr wr = { .cookie = 1,
                                 .opcode = RI_WR_LOCAL_INVALIDATE,
                                 .invalidate_stag = full.keys.lkey };

        post(a, &wr);
        side_expect(a, a->send_cq, 1, RI_WC_MM_OPERATION, 0);
        expect_terminate(&raw, TERMINATE_LOCAL);
    }
    window_free(&window);
    region_free(a, &full);
    region_free(a, &region);
}
END_TEST

/* A wide window that is bound anew: the old STag is gone, the new one is good. */
START_TEST(wide_window_bound_anew)
{
    struct region second_region = region_new(a, REGION_SIZE, BINDABLE);
    struct window window = window_new(a, false);
    uint32_t old;

    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, true);
    old = window.stag;
    bind_now(a, &window, &second_region, 0, 8, REMOTE, true);
    OK(rig.fake.privileged.mr_deregister(region.mr));
    region.mr = NULL;
    write_placed(&raw, 1, window.stag, 0, "new");
    ck_assert_mem_eq(second_region.octets, "new", 3);
    raw_tagged(&raw, RDMAP_WRITE, true, old, 0, "old", 3);
    expect_terminate(&raw, TERMINATE_T_STAG);
    window_free(&window);
    region_free(a, &second_region);
    region_free(a, &region);
}
END_TEST

/* A bind that is refused leaves a wide window as it was. */
START_TEST(wide_window_survives_a_refusal)
{
    struct window window = window_new(a, false);
    struct shape shape = binder;
    struct ri_send_wr wr;
    uint32_t old;

    shape.pd = a->pd;
    open_raw(&other, &second, &shape);
    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, false);
    old = window.stag;
    wr = bind_request(&window, &region, 0, REGION_SIZE + 1, REMOTE, false);
    post(&other, &wr);
    ck_assert_uint_eq(side_next(&other, other.send_cq).status, RI_WC_BIND);
    write_placed(&raw, 1, old, base_of(false), "still");
    window_free(&window);
    side_close(&other);
    raw_close(&second);
    region_free(a, &region);
}
END_TEST

/* C-085: after it is unbound, or freed. */
START_TEST(C085_after_the_end)
{
    struct window window = window_new(a, _i != 1);

    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, false);
    write_placed(&raw, 1, window.stag, base_of(false), "good");
    if (_i == 0)
        unbind(a, window.stag);
    else
        window_free(&window);
    raw_tagged(&raw, RDMAP_WRITE, true, window.stag, base_of(false), "late", 4);
    expect_terminate(&raw, TERMINATE_T_STAG);
    ck_assert_mem_eq(region.octets + WINDOW_START, "good", 4);
    if (_i == 0)
        window_free(&window);
    region_free(a, &region);
}
END_TEST

/* A narrow window outlives the QP that bound it, unbound: another QP binds it. */
START_TEST(qp_destroy_unbinds)
{
    struct window window = window_new(a, true);
    struct shape shape = binder;
    uint32_t old;

    shape.pd = a->pd;
    open_raw(&other, &second, &shape);
    bind_now(&other, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, false);
    old = window.stag;
    ck_assert_int_eq(rig.fake.privileged.mr_deregister(region.mr), RI_ERR_BUSY);
    side_close(&other);
    raw_close(&second);
    bind_now(a, &window, &region, 0, 10, REMOTE, true);
    write_placed(&raw, 1, window.stag, 0, "mine");
    ck_assert_mem_eq(region.octets, "mine", 4);
    raw_tagged(&raw, RDMAP_WRITE, true, old, 0, "late", 4);
    expect_terminate(&raw, TERMINATE_T_STAG);
    window_free(&window);
    region_free(a, &region);
}
END_TEST

/* ---- order ---- */

/* In one post: bind, tell the peer, unbind behind an answer. The Send leaves when the window is good. */
START_TEST(bind_is_in_order)
{
    struct window window = window_new(a, _i);
    struct ri_send_wr wr = bind_request(&window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, true);
    struct ri_send_wr tell = { .cookie = 1, .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED };
    struct ri_sge sge = region_sge(&region, 0, 4);
    uint8_t ulpdu[64];

    memcpy(region.octets, &window.stag, 4);
    wr.next = &tell;
    wr.flags = 0;
    tell.sg_list = &sge;
    tell.num_sge = 1;
    post(a, &wr);
    ck_assert_uint_eq(raw_next(&raw, ulpdu, sizeof(ulpdu)), DDP_UNTAGGED_LEN + 4);
    ck_assert_mem_eq(ulpdu + DDP_UNTAGGED_LEN, &window.stag, 4);
    write_placed(&raw, 1, window.stag, 0, "at once");
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 4);
    ck_assert(side_idle(a, a->send_cq));
    window_free(&window);
    region_free(a, &region);
}
END_TEST

/* Fences hold binds and invalidates back as any other request; slots of unsignalled ones come free. */
START_TEST(fence_holds_bind_back)
{
    struct window window = window_new(a, true);
    struct ri_send_wr wr = bind_request(&window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, false);
    uint8_t ulpdu[64];

    wr.flags = RI_WR_SIGNALED | (_i ? RI_WR_LOCAL_FENCE : RI_WR_READ_FENCE);
    side_read(a, 1, region_sge(&region, 0, 1), 0, 1);
    post(a, &wr);
    ck_assert_uint_gt(raw_next(&raw, ulpdu, sizeof(ulpdu)), 0);
    ck_assert(side_idle(a, a->send_cq));
    raw_tagged(&raw, RDMAP_READ_RESP, true, region.keys.lkey, (uintptr_t)region.octets, "r", 1);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 1);
    expect_bound(a, &window);
    for (int i = 0; i < 200; i++) { /* the queue holds 64 */
        unbind(a, window.stag);
        wr = bind_request(&window, &region, 0, 10, REMOTE, false);
        wr.flags = 0;
        post(a, &wr);
    }
    window_free(&window);
    region_free(a, &region);
}
END_TEST

/* Read into a window that the peer may write to, and unbind it with the same request (C-103). */
START_TEST(C103_read_into_a_window)
{
    struct window window = window_new(a, _i & 1);
    bool invalidate = _i & 2;
    struct ri_sge sge;
    struct ri_wc wc;
    uint8_t ulpdu[64];

    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, RI_ACCESS_REMOTE_WRITE, true);
    sge = (struct ri_sge){ 8, 4, window.stag };
    OK(side_post(a, invalidate ? RI_WR_RDMA_READ_INVALIDATE : RI_WR_RDMA_READ, 1, RI_WR_SIGNALED,
                 &sge, 1, 100, 200));
    ck_assert_uint_gt(raw_next(&raw, ulpdu, sizeof(ulpdu)), 0);
    raw_tagged(&raw, RDMAP_READ_RESP, true, window.stag, 8, "sink", 4);
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.opcode, RI_WC_RDMA_READ);
    ck_assert_uint_eq(wc.flags, invalidate ? RI_WC_WITH_INVALIDATE : 0);
    ck_assert_mem_eq(region.octets + WINDOW_START + 8, "sink", 4);
    if (invalidate) {
        ck_assert_uint_eq(wc.invalidated_stag, window.stag);
        OK(rig.fake.privileged.mr_deregister(region.mr));
        region.mr = NULL;
        raw_tagged(&raw, RDMAP_WRITE, true, window.stag, 0, "late", 4);
        expect_terminate(&raw, TERMINATE_T_STAG);
    }
    window_free(&window);
    region_free(a, &region);
}
END_TEST

START_TEST(read_into_a_window_without_right)
{
    struct window window = window_new(a, true);
    struct ri_sge sge;

    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, RI_ACCESS_REMOTE_READ, true);
    sge = (struct ri_sge){ 8, 4, window.stag };
    OK(side_post(a, RI_WR_RDMA_READ, 1, RI_WR_SIGNALED, &sge, 1, 100, 200));
    side_expect(a, a->send_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    window_free(&window);
    region_free(a, &region);
}
END_TEST

/* A bind is queued when its window goes: nothing is exposed, the region is free. */
START_TEST(freed_with_a_bind_queued)
{
    struct window window = window_new(a, _i);
    struct ri_send_wr wr = bind_request(&window, &region, 0, 64, REMOTE, false);

    wr.flags |= RI_WR_COALESCE; /* executed by the next that comes into tx */
    post(a, &wr);
    window_free(&window);
    side_expect(a, a->send_cq, 77, RI_WC_BIND, 0);
    region_free(a, &region);
}
END_TEST

/* Requests that wait for the lane when the connection ends are flushed, each once. */
START_TEST(flushed_while_waiting)
{
    struct window window = window_new(a, true);
    struct ri_send_wr wr = { .cookie = 1, .opcode = RI_WR_LOCAL_INVALIDATE };

    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, false);
    wr.invalidate_stag = window.stag;
    wr.flags = RI_WR_SIGNALED;
    post(a, &wr);
    wr = bind_request(&window, &region, 0, 1, REMOTE, false);
    wr.cookie = 2;
    post(a, &wr);
    side_modify(a, RI_QPS_ERROR);
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
    side_expect(a, a->send_cq, 2, RI_WC_FLUSHED, 0);
    ck_assert(side_idle(a, a->send_cq));
    window_free(&window);
    region_free(a, &region);
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

static struct ri_wc wait_wc(struct side *side, struct ri_cq *cq)
{
    uint64_t end = tc_deadline(RIG_TIMEOUT);
    struct ri_wc wc;

    (void)side;
    while (!rig.fake.user.poll(cq, 1, &wc)) {
        if (tc_expired(end))
            ck_abort_msg("no completion");
        sched_yield();
    }
    return wc;
}

struct binder_thread {
    struct side *exposes, *writes; /* the two ends of a connection */
    bool narrow;
    unsigned long rounds, wrong;
    pthread_t thread;
};

/* Bind, have the peer's side write through it, unbind; the octets of the next round must not appear before their bind. */
static void *bind_and_write(void *arg)
{
    struct binder_thread *t = arg;
    struct region exposed = region_new(t->exposes, 256, BINDABLE);
    struct region source = region_new(t->writes, 256, LOCAL);
    struct window window = window_new(t->exposes, t->narrow);

    for (uint32_t round = 1; round <= t->rounds && !t->wrong; round++) {
        uint64_t at = round % 4 * 64;
        struct ri_send_wr wr = bind_request(&window, &exposed, at, 64, REMOTE, true);
        struct ri_send_wr undo = { .opcode = RI_WR_LOCAL_INVALIDATE, .flags = RI_WR_SIGNALED };
        uint32_t found;

        post(t->exposes, &wr);
        t->wrong += wait_wc(t->exposes, t->exposes->send_cq).status != RI_WC_SUCCESS;
        memcpy(source.octets, &round, sizeof(round));
        side_write(t->writes, 1, region_sge(&source, 0, 64), 0, window.stag);
        t->wrong += wait_wc(t->writes, t->writes->send_cq).status != RI_WC_SUCCESS;
        side_read(t->writes, 2, region_sge(&source, 128, 64), 0, window.stag);
        t->wrong += wait_wc(t->writes, t->writes->send_cq).status != RI_WC_SUCCESS;
        memcpy(&found, source.octets + 128, sizeof(found));
        t->wrong += found != round;
        memcpy(&found, exposed.octets + at, sizeof(found));
        t->wrong += found != round;
        undo.invalidate_stag = window.stag;
        if (t->narrow || round % 3) {
            post(t->exposes, &undo);
            t->wrong += wait_wc(t->exposes, t->exposes->send_cq).status != RI_WC_SUCCESS;
        }
    }
    window_free(&window);
    region_free(t->exposes, &exposed);
    region_free(t->writes, &source);
    return NULL;
}

/* Four connections of one PD, each with a thread; the lane has its own. */
START_TEST(bind_and_unbind_under_traffic)
{
    static struct side sides[4][2];
    struct binder_thread threads[4] = { 0 };
    pthread_t lane;
    int fds[2];

    rig_open(&rig, NULL);
    ck_assert_int_eq(pthread_create(&lane, NULL, run_lane, NULL), 0);
    for (int i = 0; i < 4; i++) {
        struct shape shape = binder;

        shape.pd = i ? sides[0][0].pd : NULL;
        rig_tcp(fds, 0);
        for (int j = 0; j < 2; j++) {
            side_open(&rig, &sides[i][j], &shape);
            side_start(&sides[i][j], fds[j], j == 0, &plain);
            shape.pd = sides[0][0].pd;
        }
        threads[i].exposes = &sides[i][i & 1];
        threads[i].writes = &sides[i][!(i & 1)];
        threads[i].narrow = i & 2;
        threads[i].rounds = tc_count(600);
    }
    for (int i = 0; i < 4; i++) /* a responder speaks when it has heard the other */
        ck_assert(tc_until(!side_query(&sides[i][1]).holding, RIG_TIMEOUT));
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i].thread, NULL, bind_and_write, &threads[i]), 0);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(threads[i].thread, NULL), 0);
        ck_assert_uint_eq(threads[i].wrong, 0);
    }
    for (int i = 3; i >= 0; i--)
        for (int j = 1; j >= 0; j--)
            side_close(&sides[i][j]);
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
    Suite *suite = suite_create("memory windows");
    TCase *tc = new_case(suite, "use");

    tcase_add_loop_test(tc, peer_uses_a_window, 0, 4);
    tcase_add_loop_test(tc, C084_C088_C091_C092_bad_write, 0,
                        (int)(sizeof(bad_writes) / sizeof(bad_writes[0])));
    tcase_add_test(tc, C112_bad_read);
    tcase_add_loop_test(tc, C087_C111_whose_window, 0, 4);
    tcase_add_test(tc, C086_other_pd);
    tcase_add_loop_test(tc, no_local_element, 0, 2);
    tcase_add_loop_test(tc, no_local_source, 0, 2);
    tc = new_case(suite, "bind");
    tcase_add_loop_test(tc, bind_refused, NO_FLAW + 1, FLAWS);
    tcase_add_test(tc, arguments);
    tcase_add_test(tc, wide_window_bound_anew);
    tcase_add_test(tc, wide_window_survives_a_refusal);
    tcase_add_loop_test(tc, bind_is_in_order, 0, 2);
    tcase_add_loop_test(tc, fence_holds_bind_back, 0, 2);
    tcase_add_loop_test(tc, C103_read_into_a_window, 0, 4);
    tcase_add_test(tc, read_into_a_window_without_right);
    tcase_add_loop_test(tc, freed_with_a_bind_queued, 0, 2);
    tcase_add_test(tc, flushed_while_waiting);
    tc = new_case(suite, "region");
    tcase_add_loop_test(tc, region_is_busy, 0, 2);
    tcase_add_loop_test(tc, C122_region_with_window, 0, 2);
    tcase_add_loop_test(tc, C085_after_the_end, 0, 2);
    tcase_add_test(tc, qp_destroy_unbinds);
    tc = tcase_create("races");
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, bind_and_unbind_under_traffic);
    suite_add_tcase(suite, tc);
    return tc_main(suite);
}
