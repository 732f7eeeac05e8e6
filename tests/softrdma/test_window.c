/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: access through one, which QP may use it, and its region; and the TO of a
 * region. */
#include "two_qps.h"

/* ---- access through a window ---- */

/* Absolute and zero-based, narrow and wide: the peer writes and reads inside. The key is the
 * requested one. */
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
}
END_TEST

/* Writes that a window does not allow: the key before the bind, another key, rights, either end. */
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
    raw_expect_terminate(&raw, bad_writes[_i].value);
    side_expect_event(a, RI_EVENT_WRITE_ACCESS, bad_writes[_i].value);
    window_free(&window);
}
END_TEST

/* C-112: a window without read access. The region's own rights do not help. */
START_TEST(C112_bad_read)
{
    struct window window = window_new(a, true);

    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, RI_ACCESS_REMOTE_WRITE, false);
    read_request(&raw, 1, window.stag, base_of(false), 1);
    raw_expect_terminate(&raw, TERMINATE_R_ACCESS);
    window_free(&window);
}
END_TEST

/* C-087, C-111: only the QP that bound a narrow window may use it, whatever the PD of the other; a
 * wide one belongs to the PD. */
START_TEST(C087_C111_whose_window)
{
    bool narrow = _i & 1, read = _i & 2;
    struct window window = window_new(a, narrow);

    open_other();
    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, false);
    if (read)
        read_request(&second, 1, window.stag, base_of(false), 2);
    else
        raw_tagged(&second, RDMAP_WRITE, true, window.stag, base_of(false), "ok", 2);
    if (narrow) {
        raw_expect_terminate(&second, read ? TERMINATE_R_STREAM : TERMINATE_T_STREAM);
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
    close_other();
}
END_TEST

/* C-086: a wide window does not allow another PD. */
START_TEST(C086_other_pd)
{
    struct window window = window_new(a, false);

    open_raw(b, &second, &willing);
    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, false);
    raw_tagged(&second, RDMAP_WRITE, true, window.stag, base_of(false), "x", 1);
    raw_expect_terminate(&second, TERMINATE_T_STREAM);
    window_free(&window);
    raw_close(&second);
}
END_TEST

/* A window is no local element, although its region is readable and writable. */
START_TEST(no_local_element)
{
    struct window window = window_new(a, _i);
    struct ri_sge sge;

    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, false);
    sge = (struct ri_sge){ base_of(false), 4, window.stag };
    side_receive(a, 1, sge);
    raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, 1, 0, "data", 4);
    raw_expect_terminate(&raw, TERMINATE_LOCAL);
    side_expect(a, a->recv_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    window_free(&window);
}
END_TEST

START_TEST(no_local_source)
{
    struct window window = window_new(a, _i);

    bind_now(a, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, false);
    side_send(a, 1, (struct ri_sge){ base_of(false), 4, window.stag });
    raw_expect_terminate(&raw, TERMINATE_LOCAL);
    side_expect(a, a->send_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    window_free(&window);
}
END_TEST

/* ---- a window and its region ---- */

/* A region cannot be deregistered while windows are bound; each of them counts. */
START_TEST(region_is_busy)
{
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = LOCAL };
    struct window windows[2] = { window_new(a, true), window_new(a, false) };
    struct ri_mr_keys keys = { 5, 6 };

    for (int i = 0; i < 2; i++)
        bind_now(a, &windows[i], &region, 0, 10, REMOTE, false);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(bed.fake.privileged.mr_deregister(region.mr), RI_ERR_BUSY);
        ck_assert_int_eq(bed.fake.privileged.mr_reregister(region.mr, NULL, &attr, &keys),
                         RI_ERR_BUSY);
        ck_assert(keys.lkey == 5 && keys.rkey == 6);
        if (_i == 0)
            unbind(a, windows[i].stag);
        else
            window_free(&windows[i]);
    }
    OK(bed.fake.privileged.mr_reregister(region.mr, NULL, &attr, &keys));
    region_free(a, &region);
    for (int i = 0; i < 2 && _i == 0; i++)
        window_free(&windows[i]);
}
END_TEST

static enum ri_status keep_keys(struct region *of, struct ri_pd *pd, uint32_t access)
{
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = access | RI_ACCESS_KEEP_KEYS };

    return bed.fake.privileged.mr_reregister(of->mr, pd, &attr, &of->keys);
}

/* Other rights under the same STag: the peer uses it before and after. What it may no longer do is
 * refused and places nothing. */
START_TEST(rights_change_and_the_keys_stay)
{
    struct region full = region_new(a, 64, LOCAL);
    const uint32_t stag = full.keys.lkey;
    const uint64_t to = (uintptr_t)full.octets;

    ck_assert_uint_eq(full.keys.rkey, 0);
    OK(keep_keys(&full, NULL, LOCAL | REMOTE));
    ck_assert(full.keys.lkey == stag && full.keys.rkey == stag);
    write_placed(&raw, 1, stag, to, "first");
    OK(keep_keys(&full, NULL, LOCAL | RI_ACCESS_REMOTE_WRITE));
    ck_assert(full.keys.lkey == stag && full.keys.rkey == stag);
    write_placed(&raw, 2, stag, to, "again");
    OK(keep_keys(&full, NULL, LOCAL | RI_ACCESS_REMOTE_READ));
    ck_assert(full.keys.lkey == stag && full.keys.rkey == stag);
    read_request(&raw, 3, stag, to, 5);
    expect_response(&raw, "again", 5);
    raw_tagged(&raw, RDMAP_WRITE, true, stag, to, "never", 5);
    raw_expect_terminate(&raw, TERMINATE_T_STREAM);
    side_expect_event(a, RI_EVENT_WRITE_ACCESS, TERMINATE_T_STREAM);
    ck_assert_mem_eq(full.octets, "again", 5);
    OK(keep_keys(&full, NULL, LOCAL));
    ck_assert(full.keys.lkey == stag && full.keys.rkey == 0);
}
END_TEST

/* What cannot be changed with the same keys, and that the region is as it was. */
START_TEST(keys_that_cannot_stay_are_refused)
{
    struct window window = window_new(a, true);
    const struct ri_mr_keys before = region.keys;

    ck_assert_int_eq(keep_keys(&region, a->pd, BINDABLE), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(keep_keys(&region, NULL, BINDABLE | RI_ACCESS_ZERO_BASED),
                     RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(keep_keys(&region, NULL, REMOTE), RI_ERR_INVALID_ARGUMENT);
    bind_now(a, &window, &region, 0, 10, REMOTE, false);
    ck_assert_int_eq(keep_keys(&region, NULL, LOCAL), RI_ERR_BUSY);
    ck_assert_int_eq(keep_keys(&region, NULL, RI_ACCESS_LOCAL_READ | RI_ACCESS_BIND), RI_ERR_BUSY);
    ck_assert_mem_eq(&region.keys, &before, sizeof(before));
    OK(keep_keys(&region, NULL, BINDABLE | REMOTE));
    OK(keep_keys(&region, NULL, BINDABLE));
    write_placed(&raw, 1, window.stag, (uintptr_t)region.octets, "window");
    window_free(&window);
    OK(keep_keys(&region, NULL, LOCAL));
    unbind(a, region.keys.lkey);
    ck_assert_int_eq(keep_keys(&region, NULL, LOCAL), RI_ERR_INVALID_STATE);
}
END_TEST

/* The region's STag cannot be invalidated either: C-122 by the peer; a local request fails. */
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
        raw_expect_terminate(&raw, TERMINATE_R_INVALIDATE);
        side_expect(a, a->recv_cq, 1, RI_WC_REMOTE_INVALID_REQUEST, 0);
    } else {
        struct ri_send_wr wr = { .cookie = 1,
                                 .opcode = RI_WR_LOCAL_INVALIDATE,
                                 .invalidate_stag = full.keys.lkey };

        post(a, &wr);
        side_expect(a, a->send_cq, 1, RI_WC_MM_OPERATION, 0);
        raw_expect_terminate(&raw, TERMINATE_LOCAL);
    }
    window_free(&window);
}
END_TEST

/* C-085: after it is unbound or freed. */
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
    raw_expect_terminate(&raw, TERMINATE_T_STAG);
    ck_assert_mem_eq(region.octets + WINDOW_START, "good", 4);
    if (_i == 0)
        window_free(&window);
}
END_TEST

/* A narrow window stays, unbound, when the QP that bound it is destroyed: another QP binds it. */
START_TEST(qp_destroy_unbinds)
{
    struct window window = window_new(a, true);
    uint32_t old;

    open_other();
    bind_now(&other, &window, &region, WINDOW_START, WINDOW_SIZE, REMOTE, false);
    old = window.stag;
    ck_assert_int_eq(bed.fake.privileged.mr_deregister(region.mr), RI_ERR_BUSY);
    close_other();
    bind_now(a, &window, &region, 0, 10, REMOTE, true);
    write_placed(&raw, 1, window.stag, 0, "mine");
    ck_assert_mem_eq(region.octets, "mine", 4);
    raw_tagged(&raw, RDMAP_WRITE, true, old, 0, "late", 4);
    raw_expect_terminate(&raw, TERMINATE_T_STAG);
    window_free(&window);
}
END_TEST

/* ---- a region with a TO that the consumer chooses ---- */

/* The last one ends at 2^64 exactly. */
static const uint64_t io_addrs[] = { 0, 0x7000, UINT64_C(0xfedcba9876543210),
                                     UINT64_MAX - REGION_SIZE + 1 };

static struct region region_at(struct side *side, uint64_t io_addr, struct ri_mr_keys *keys)
{
    struct region made = region_new(side, REGION_SIZE, LOCAL);
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .access = BINDABLE | REMOTE | RI_ACCESS_IO_ADDR,
                               .addr = made.octets,
                               .length = made.length,
                               .io_addr = io_addr };

    OK(bed.fake.privileged.mr_deregister(made.mr));
    OK(bed.fake.privileged.mr_register(side->pd, &attr, keys, &made.mr));
    made.keys = *keys;
    return made;
}

/* Writes and Reads of the peer, local elements and a bound window all use that TO. */
START_TEST(io_addr_names_the_first_octet)
{
    const uint64_t io_addr = io_addrs[_i];
    struct window window = window_new(a, true);
    struct ri_mr_keys keys;
    struct region at = region_at(a, io_addr, &keys);
    struct ri_sge sge = { io_addr + 10, 5, keys.lkey };
    struct ri_send_wr bind;
    uint8_t ulpdu[512];

    write_placed(&raw, 1, keys.rkey, io_addr, "first");
    write_placed(&raw, 2, keys.rkey, io_addr + REGION_SIZE - 4, "last");
    ck_assert_mem_eq(at.octets, "first", 5);
    ck_assert_mem_eq(at.octets + REGION_SIZE - 4, "last", 4);
    read_request(&raw, 3, keys.rkey, io_addr + 1, 4);
    expect_response(&raw, "irst", 4);

    OK(side_post_receive(a, 1, &sge, 1));
    raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, 1, 0, "heard", 5);
    side_expect(a, a->recv_cq, 1, RI_WC_SUCCESS, 5);
    ck_assert_mem_eq(at.octets + 10, "heard", 5);
    side_send(a, 2, sge);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 5);
    ck_assert_uint_gt(raw_next(&raw, ulpdu, sizeof(ulpdu)), 5);
    ck_assert_mem_eq(ulpdu + DDP_UNTAGGED_LEN, "heard", 5);

    bind = bind_request(&window, &at, 0, WINDOW_SIZE, REMOTE, false);
    bind.bind.addr = io_addr + WINDOW_START;
    post(a, &bind);
    expect_bound(a, &window);
    write_placed(&raw, 4, window.stag, io_addr + WINDOW_START, "seen");
    ck_assert_mem_eq(at.octets + WINDOW_START, "seen", 4);
    window_free(&window);

    raw_tagged(&raw, RDMAP_WRITE, true, keys.rkey, (uintptr_t)at.octets, "virtual", 7);
    raw_expect_terminate(&raw, TERMINATE_T_BOUNDS);
    region_free(a, &at); /* of another registration than region_new's */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory windows");
    TCase *tc = new_case(suite, "use", open_bindable, bed_close);

    tcase_add_loop_test(tc, peer_uses_a_window, 0, 4);
    tc_add_rows(tc, C084_C088_C091_C092_bad_write, bad_writes);
    tcase_add_test(tc, C112_bad_read);
    tcase_add_loop_test(tc, C087_C111_whose_window, 0, 4);
    tcase_add_test(tc, C086_other_pd);
    tc_add_loops(tc, 0, 2, no_local_element, no_local_source);
    tc = new_case(suite, "region", open_bindable, bed_close);
    tcase_add_loop_test(tc, region_is_busy, 0, 2);
    tc_add_tests(tc, rights_change_and_the_keys_stay, keys_that_cannot_stay_are_refused);
    tc_add_loops(tc, 0, 2, C122_region_with_window, C085_after_the_end);
    tcase_add_test(tc, qp_destroy_unbinds);
    tc = new_case(suite, "io_addr", open_bindable, bed_close);
    tc_add_rows(tc, io_addr_names_the_first_octet, io_addrs);
    return tc_main(suite);
}
