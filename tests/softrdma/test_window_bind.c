/* SPDX-License-Identifier: BSD-3-Clause */
/* Binding of memory windows: refused cases, binding anew, and the order among requests. */
#include "two_qps.h"

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
    struct shape shape = { .flags = flaw == QP_MAY_NOT ? RI_QP_INVALIDATE_ENABLE : willing.flags,
                           .pd = a->pd };
    uint32_t access = flaw == REGION_MAY_NOT      ? LOCAL
                      : flaw == REGION_READ_ONLY  ? RI_ACCESS_LOCAL_READ | RI_ACCESS_BIND
                      : flaw == REGION_WRITE_ONLY ? RI_ACCESS_LOCAL_WRITE | RI_ACCESS_BIND
                      : flaw == REGION_ZERO_BASED ? BINDABLE | RI_ACCESS_ZERO_BASED
                                                  : BINDABLE;
    uint32_t wanted = flaw == REGION_READ_ONLY    ? RI_ACCESS_REMOTE_WRITE
                      : flaw == REGION_WRITE_ONLY ? RI_ACCESS_REMOTE_READ
                                                  : REMOTE;
    struct side stranger = { .bed = &bed };
    struct region of;
    struct window window;
    struct ri_send_wr wr;
    struct ri_wc wc;

    OK(bed.fake.privileged.pd_create(bed.fake.rnic, NULL, &stranger.pd));
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
    wr.flags = 0; /* a failure is reported nevertheless */
    post(&other, &wr);
    wc = side_next(&other, other.send_cq);
    ck_assert_msg(wc.status == RI_WC_BIND && wc.opcode == RI_WC_BIND_WINDOW, "flaw %d: status %u",
                  flaw, wc.status);
    ck_assert_uint_eq(wc.invalidated_stag, window.stag);
    raw_expect_terminate(&second, TERMINATE_LOCAL);
    side_expect_event(&other, RI_EVENT_LOCAL_ERROR, 0);
    window_free(&window);
    region_free(a, &of);
    close_other();
    OK(bed.fake.privileged.pd_destroy(stranger.pd));
}

START_TEST(bind_refused)
{
    refused((enum flaw)_i, true);
    if (_i != BOUND_ALREADY && _i != BOUND_BY_ANOTHER) /* a wide window may be bound anew */
        refused((enum flaw)_i, false);
}
END_TEST

START_TEST(arguments)
{
    struct window window = window_new(a, true);
    struct ri_send_wr wr = bind_request(&window, &region, 0, 1, RI_ACCESS_LOCAL_READ, false);
    struct ri_send_wr *bad = NULL;
    struct ri_sge sge = { 0, 0, 0 };

    ck_assert_int_eq(bed.fake.user.post_send(a->qp, &wr, &bad), RI_ERR_INVALID_ARGUMENT);
    wr.bind.access = REMOTE;
    wr.bind.mr = NULL;
    ck_assert_int_eq(bed.fake.user.post_send(a->qp, &wr, &bad), RI_ERR_INVALID_ARGUMENT);
    wr.bind.mr = region.mr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ck_assert_int_eq(bed.fake.user.post_send(a->qp, &wr, &bad), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(bed.fake.privileged.pd_destroy(a->pd), RI_ERR_BUSY);
    window_free(&window);
}
END_TEST

/* ---- anew ---- */

/* A wide window is bound anew: the old STag is invalid, the new one is valid. */
START_TEST(wide_window_bound_anew)
{
    struct region second_region = region_new(a, REGION_SIZE, BINDABLE);
    struct window window = window_new(a, false);
    uint32_t old;

    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, true);
    old = window.stag;
    bind_now(a, &window, &second_region, 0, 8, REMOTE, true);
    OK(bed.fake.privileged.mr_deregister(region.mr));
    region.mr = NULL;
    write_placed(&raw, 1, window.stag, 0, "new");
    ck_assert_mem_eq(second_region.octets, "new", 3);
    raw_tagged(&raw, RDMAP_WRITE, true, old, 0, "old", 3);
    raw_expect_terminate(&raw, TERMINATE_T_STAG);
    window_free(&window);
}
END_TEST

/* A refused bind does not change a wide window. */
START_TEST(wide_window_survives_a_refusal)
{
    struct window window = window_new(a, false);
    struct ri_send_wr wr;
    uint32_t old;

    open_other();
    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, false);
    old = window.stag;
    wr = bind_request(&window, &region, 0, REGION_SIZE + 1, REMOTE, false);
    post(&other, &wr);
    ck_assert_uint_eq(side_next(&other, other.send_cq).status, RI_WC_BIND);
    write_placed(&raw, 1, old, base_of(false), "still");
    window_free(&window);
    close_other();
}
END_TEST

/* ---- order ---- */

/* One list: bind, a Send that notifies the peer, unbind behind a response. The Send leaves when the
 * window is valid. */
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
}
END_TEST

/* A fence delays binds and invalidates like any other request. Slots of unsignalled ones are
 * released. */
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
}
END_TEST

/* A Read into a window that the peer may write to; the same request unbinds the window (C-103). */
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
        OK(bed.fake.privileged.mr_deregister(region.mr));
        region.mr = NULL;
        raw_tagged(&raw, RDMAP_WRITE, true, window.stag, 0, "late", 4);
        raw_expect_terminate(&raw, TERMINATE_T_STAG);
    }
    window_free(&window);
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
}
END_TEST

/* The window is freed while a bind waits in the queue: no access is granted, and the region is not
 * busy. */
START_TEST(freed_with_a_bind_queued)
{
    struct window window = window_new(a, _i);
    struct ri_send_wr wr = bind_request(&window, &region, 0, 64, REMOTE, false);

    wr.flags |= RI_WR_COALESCE; /* the next thread that enters tx executes it */
    post(a, &wr);
    window_free(&window);
    side_expect(a, a->send_cq, 77, RI_WC_BIND, 0);
}
END_TEST

/* Requests that wait for the lane when the connection ends are flushed, once each. */
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
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("binding of memory windows");
    TCase *tc = new_case(suite, "bind", open_bindable, bed_close);

    tcase_add_loop_test(tc, bind_refused, NO_FLAW + 1, FLAWS);
    tc_add_tests(tc, arguments, wide_window_bound_anew, wide_window_survives_a_refusal);
    tc_add_loops(tc, 0, 2, bind_is_in_order, fence_holds_bind_back);
    tcase_add_loop_test(tc, C103_read_into_a_window, 0, 4);
    tcase_add_test(tc, read_into_a_window_without_right);
    tcase_add_loop_test(tc, freed_with_a_bind_queued, 0, 2);
    tcase_add_test(tc, flushed_while_waiting);
    return tc_main(suite);
}
