/* SPDX-License-Identifier: BSD-3-Clause */
/* Fast registration: requests of a privileged QP give a region its memory; requests or a peer take
 * it away. */
#include "two_qps.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define PAGE   4096u
#define PAGES  4u
#define RIGHTS (LOCAL | REMOTE | RI_ACCESS_BIND)

static const struct shape privileged = { .flags = RI_QP_PRIVILEGED | RI_QP_BIND_ENABLE |
                                                  RI_QP_INVALIDATE_ENABLE };
static struct ri_mr *mr;
static struct ri_mr_keys made;
static uint8_t *memory;
static uint64_t pages[PAGES + 1];
static struct region receive;

static struct ri_mr *make_unlinked(struct side *side, uint32_t room, struct ri_mr_keys *keys)
{
    struct ri_mr_attr attr = { .size = sizeof(attr), .pages = room };
    struct ri_mr *unlinked;

    OK(bed.fake.privileged.mr_register(side->pd, &attr, keys, &unlinked));
    return unlinked;
}

static void setup(void)
{
    testbed_open(&bed, NULL);
    open_raw(a, &raw, &privileged);
    memory = mmap(NULL, (PAGES + 1) * (size_t)PAGE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    for (uint32_t i = 0; i <= PAGES; i++)
        pages[i] = (uintptr_t)memory + (uint64_t)i * PAGE;
    receive = region_new(a, PAGE, LOCAL);
    mr = make_unlinked(a, PAGES, &made);
}

static void teardown(void)
{
    OK(bed.fake.privileged.mr_deregister(mr));
    region_free(a, &receive);
    munmap(memory, (PAGES + 1) * (size_t)PAGE);
    raw_close(&raw);
    side_close(a);
    bed_close();
}

/* All pages; the STag's TO is their address. */
static struct ri_send_wr request(uint8_t key)
{
    return (struct ri_send_wr){ .cookie = 7,
                                .opcode = RI_WR_FAST_REGISTER,
                                .flags = RI_WR_SIGNALED,
                                .fast_register = { .mr = mr,
                                                   .pages = pages,
                                                   .length = (uint64_t)PAGES * PAGE,
                                                   .io_addr = pages[0],
                                                   .num_pages = PAGES,
                                                   .page_size = PAGE,
                                                   .access = RIGHTS,
                                                   .new_key = key } };
}

static uint32_t stag_of(uint8_t key)
{
    return (made.lkey & ~0xffu) | key;
}

static void expect_registered(struct side *side, uint32_t stag, enum ri_wc_status status)
{
    struct ri_wc wc = side_next(side, side->send_cq);

    ck_assert_uint_eq(wc.cookie, 7);
    ck_assert_uint_eq(wc.opcode, RI_WC_FAST_REGISTER);
    ck_assert_uint_eq(wc.status, status);
    ck_assert_uint_eq(wc.byte_len, 0);
    ck_assert_uint_eq(wc.invalidated_stag, stag);
}

static void link_now(struct side *side, uint8_t key)
{
    struct ri_send_wr wr = request(key);

    post(side, &wr);
    expect_registered(side, stag_of(key), RI_WC_SUCCESS);
}

static void unlink_now(struct side *side, uint32_t stag)
{
    struct ri_send_wr wr = {
        .cookie = 8,
        .opcode = RI_WR_LOCAL_INVALIDATE,
        .flags = RI_WR_SIGNALED,
        .invalidate_stag = stag,
    };

    post(side, &wr);
    side_expect(side, side->send_cq, 8, RI_WC_SUCCESS, 0);
}

static void peer_invalidates(struct raw *peer, uint32_t stag)
{
    uint8_t ulpdu[DDP_UNTAGGED_LEN];

    ddp_put_untagged(ulpdu, true, rdmap_ctrl(RDMAP_SEND_INV), stag, DDP_QN_SEND, 1, 0);
    raw_send(peer, ulpdu, sizeof(ulpdu));
}

/* --- valid requests --- */

START_TEST(registered_is_written_and_read)
{
    uint8_t text[] = "as it was";

    ck_assert_uint_ne(made.lkey, 0);
    ck_assert_uint_eq(made.rkey, 0);
    link_now(a, 1);
    write_placed(&raw, 1, stag_of(1), pages[1] + 5, "by the peer");
    ck_assert_mem_eq(memory + PAGE + 5, "by the peer", 11);
    memcpy(memory + 3, text, sizeof(text));
    read_request(&raw, 2, stag_of(1), pages[0] + 3, sizeof(text));
    expect_response(&raw, text, sizeof(text));
}
END_TEST

/* Requests behind it in the same list use the region without waiting for its completion. */
START_TEST(requests_behind_it_use_it)
{
    struct ri_sge sge = { .addr = pages[0], .length = 6, .lkey = stag_of(9) };
    struct ri_send_wr send = {
        .cookie = 8,
        .opcode = RI_WR_SEND,
        .flags = RI_WR_SIGNALED,
        .sg_list = &sge,
        .num_sge = 1,
    };
    struct ri_send_wr wr = request(9);
    uint8_t ulpdu[64];

    memcpy(memory, "behind", 6);
    wr.next = &send;
    post(a, &wr);
    expect_registered(a, stag_of(9), RI_WC_SUCCESS);
    side_expect(a, a->send_cq, 8, RI_WC_SUCCESS, 6);
    ck_assert_uint_eq(raw_next(&raw, ulpdu, sizeof(ulpdu)), DDP_UNTAGGED_LEN + 6);
    ck_assert_mem_eq(ulpdu + DDP_UNTAGGED_LEN, "behind", 6);
}
END_TEST

/* The first octet is inside the first page; the TO is an address of its own or zero. Blocks have
 * any size. */
START_TEST(where_it_begins)
{
    struct ri_send_wr wr = request(2);
    uint64_t to = _i == 1 ? 0 : 0x123456789a00;

    for (uint32_t i = 0; i < PAGES; i++)
        pages[i] = (uintptr_t)memory + UINT64_C(100) * i;
    wr.fast_register.page_size = 100;
    wr.fast_register.first_offset = 30;
    wr.fast_register.length = 100 * PAGES - 30;
    wr.fast_register.io_addr = 0x123456789a00;
    wr.fast_register.access |= _i == 1 ? RI_ACCESS_ZERO_BASED : 0;
    post(a, &wr);
    expect_registered(a, stag_of(2), RI_WC_SUCCESS);
    write_placed(&raw, 1, stag_of(2), to, "front");
    ck_assert_mem_eq(memory + 30, "front", 5);
    write_placed(&raw, 2, stag_of(2), to + 100 * PAGES - 30 - 3, "end");
    ck_assert_mem_eq(memory + 397, "end", 3);
    raw_tagged(&raw, RDMAP_WRITE, true, stag_of(2), to + 100 * PAGES - 30 - 2, "end", 3);
    raw_expect_terminate(&raw, TERMINATE_T_BOUNDS);
    ck_assert_uint_eq(memory[400], 0);
}
END_TEST

/* The STag of an earlier registration is invalid. */
START_TEST(registered_again_by_another_key)
{
    link_now(a, 1);
    unlink_now(a, stag_of(1));
    link_now(a, 2);
    write_placed(&raw, 1, stag_of(2), pages[0], "new");
    raw_tagged(&raw, RDMAP_WRITE, true, stag_of(1), pages[0], "old", 3);
    raw_expect_terminate(&raw, TERMINATE_T_STAG);
    ck_assert_mem_eq(memory, "new", 3);
}
END_TEST

START_TEST(unregistered_is_of_no_use)
{
    if (_i) {
        link_now(a, 1);
        unlink_now(a, stag_of(1));
    }
    raw_tagged(&raw, RDMAP_WRITE, true, _i ? stag_of(1) : made.lkey, pages[0], "late", 4);
    raw_expect_terminate(&raw, TERMINATE_T_STAG);
    ck_assert_uint_eq(memory[0], 0);
}
END_TEST

/* A bound window keeps the region busy, and refers to it by its new key. */
START_TEST(windows_are_bound_to_it)
{
    struct region as = { .mr = mr, .octets = memory, .length = (uint64_t)PAGES * PAGE };
    struct window window = window_new(a, true);

    link_now(a, 77);
    bind_now(a, &window, &as, PAGE, 100, RI_ACCESS_REMOTE_WRITE, false);
    write_placed(&raw, 1, window.stag, pages[1], "window");
    ck_assert_int_eq(bed.fake.privileged.mr_deregister(mr), RI_ERR_BUSY);
    unbind(a, window.stag);
    unlink_now(a, stag_of(77));
    window_free(&window);
}
END_TEST

/* --- by the peer --- */

/* the peer invalidates over the QP whose queue registered the region, however many QPs the
 * PD has. Then the region may be registered again. */
START_TEST(X012_peer_of_the_registering_queue_invalidates)
{
    struct shape shape = privileged;
    struct ri_wc wc;

    shape.pd = a->pd;
    open_raw(&other, &second, &shape);
    link_now(a, 1);
    side_receive(a, 3, region_sge(&receive, 0, 64));
    peer_invalidates(&raw, stag_of(1));
    wc = side_next(a, a->recv_cq);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.flags, RI_WC_WITH_INVALIDATE);
    ck_assert_uint_eq(wc.invalidated_stag, stag_of(1));
    link_now(a, 2);
    write_placed(&raw, 1, stag_of(2), pages[0], "again");
    close_other();
}
END_TEST

/* Neither the peer of another QP of the PD, nor the peer of the QP that registered it earlier, may
 * invalidate. */
START_TEST(X012_peer_of_another_queue_does_not)
{
    struct shape shape = privileged;

    shape.pd = a->pd;
    open_raw(&other, &second, &shape);
    if (_i) {
        link_now(a, 1);
        unlink_now(a, stag_of(1));
        link_now(&other, 2);
        side_receive(a, 3, region_sge(&receive, 0, 64));
        peer_invalidates(&raw, stag_of(2));
        raw_expect_terminate(&raw, TERMINATE_R_INVALIDATE);
        write_placed(&second, 1, stag_of(2), pages[0], "valid");
    } else {
        link_now(a, 1);
        side_receive(&other, 3, region_sge(&receive, 0, 64));
        peer_invalidates(&second, stag_of(1));
        raw_expect_terminate(&second, TERMINATE_R_INVALIDATE);
        write_placed(&raw, 1, stag_of(1), pages[0], "valid");
    }
    ck_assert_mem_eq(memory, "valid", 5);
    close_other();
}
END_TEST

/* --- refused at the post --- */

static void refused(struct ri_send_wr wr, enum ri_status status)
{
    struct ri_send_wr *bad = NULL;

    ck_assert_int_eq(a->qp->ops->post_send(a->qp, &wr, &bad), status);
    ck_assert_ptr_eq(bad, &wr);
}

#define REFUSED(status, member, value)      \
    do {                                    \
        struct ri_send_wr wr_ = request(1); \
                                            \
        wr_.fast_register.member = (value); \
        refused(wr_, (status));             \
    } while (0)

START_TEST(lists_that_do_not_fit)
{
    REFUSED(RI_ERR_INVALID_ARGUMENT, mr, NULL);
    REFUSED(RI_ERR_INVALID_ARGUMENT, pages, NULL);
    REFUSED(RI_ERR_INVALID_ARGUMENT, num_pages, 0);
    REFUSED(RI_ERR_LIMIT, num_pages, PAGES + 1);
    REFUSED(RI_ERR_INVALID_ARGUMENT, page_size, 0);
    REFUSED(RI_ERR_INVALID_ARGUMENT, length, 0);
    REFUSED(RI_ERR_INVALID_ARGUMENT, length, (uint64_t)PAGES * PAGE + 1);
    REFUSED(RI_ERR_INVALID_ARGUMENT, length, UINT64_MAX);
    REFUSED(RI_ERR_INVALID_ARGUMENT, first_offset, 1);
    REFUSED(RI_ERR_INVALID_ARGUMENT, first_offset, PAGE);
    REFUSED(RI_ERR_INVALID_ARGUMENT, first_offset, UINT64_MAX);
    REFUSED(RI_ERR_INVALID_ARGUMENT, io_addr, UINT64_MAX - 5);
    REFUSED(RI_ERR_INVALID_ARGUMENT, access, RI_ACCESS_REMOTE_WRITE);
    REFUSED(RI_ERR_INVALID_ARGUMENT, access, 1u << 20);
    pages[2] += PAGE; /* a gap */
    refused(request(1), RI_ERR_NOT_SUPPORTED);
    pages[0] = UINT64_MAX - 2 * PAGE + 1;
    pages[1] = pages[0] + PAGE;
    pages[2] = 0;
    pages[3] = PAGE;
    REFUSED(RI_ERR_ADDRESS, io_addr, 0);
}
END_TEST

START_TEST(who_may_not)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_FLAGS,
                                   .flags = RI_QP_WRITE_ENABLE | RI_QP_READ_ENABLE };
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = LOCAL };
    struct ri_rnic_attr limits = { .size = sizeof(limits) };
    struct ri_mr_keys keys;
    struct ri_mr *more;

    OK(bed.fake.privileged.query(bed.fake.rnic, &limits));
    ck_assert(limits.features & RI_FEATURE_FAST_REGISTER);
    ck_assert(limits.features & RI_FEATURE_PRIVILEGED_QP);
    attr.pages = limits.max_fast_register_pages + 1;
    ck_assert_int_eq(bed.fake.privileged.mr_register(a->pd, &attr, &keys, &more), RI_ERR_LIMIT);
    ck_assert_int_eq(bed.fake.privileged.mr_reregister(mr, NULL, &attr, &keys),
                     RI_ERR_NOT_SUPPORTED);
    OK(bed.fake.privileged.qp_modify(a->qp, &modify));
    refused(request(1), RI_ERR_NOT_SUPPORTED);
    modify.flags |= RI_QP_PRIVILEGED;
    OK(bed.fake.privileged.qp_modify(a->qp, &modify));
    link_now(a, 1);
}
END_TEST

/* --- refused at execution --- */

enum in_turn { VALID_ALREADY, FOREIGN_PD, NOT_MAPPED, READ_ONLY, FREED, IN_TURNS };

START_TEST(refused_in_its_turn)
{
    struct ri_send_wr wr = request(1);
    uint32_t stag = stag_of(1);
    struct ri_mr_keys keys;
    struct ri_mr *foreign = NULL;

    switch (_i) {
    case VALID_ALREADY: link_now(a, 2); break;
    case FOREIGN_PD:
        open_raw(&other, &second, &privileged);
        foreign = make_unlinked(&other, PAGES, &keys);
        wr.fast_register.mr = foreign;
        stag = (keys.lkey & ~0xffu) | 1;
        break;
    case NOT_MAPPED: ck_assert_int_eq(munmap(memory + PAGE, PAGE), 0); break;
    case READ_ONLY: ck_assert_int_eq(mprotect(memory + PAGE, PAGE, PROT_READ), 0); break;
    default: break;
    }
    if (_i == FREED) { /* while it waits behind another request */
        struct ri_sge sink = region_sge(&receive, 0, 8);
        struct ri_mr *gone = make_unlinked(a, PAGES, &keys);
        uint8_t ulpdu[64];

        side_read(a, 1, sink, 0, 1);
        ck_assert_uint_gt(raw_next(&raw, ulpdu, sizeof(ulpdu)), 0);
        wr.flags |= RI_WR_READ_FENCE;
        wr.fast_register.mr = gone;
        stag = (keys.lkey & ~0xffu) | 1;
        post(a, &wr);
        OK(bed.fake.privileged.mr_deregister(gone));
        raw_tagged(&raw, RDMAP_READ_RESP, true, sink.lkey, sink.addr, "12345678", 8);
        side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 8);
    } else {
        post(a, &wr);
    }
    expect_registered(a, stag, RI_WC_MM_OPERATION);
    raw_expect_terminate(&raw, TERMINATE_LOCAL);
    if (foreign) {
        OK(bed.fake.privileged.mr_deregister(foreign));
        close_other();
    }
}
END_TEST

/* Requests that are flushed at the end of the connection register nothing. */
START_TEST(flushed)
{
    struct ri_sge sink = region_sge(&receive, 0, 8);
    struct ri_send_wr wr = request(1);
    uint8_t ulpdu[64];

    side_read(a, 1, sink, 0, 1);
    ck_assert_uint_gt(raw_next(&raw, ulpdu, sizeof(ulpdu)), 0);
    wr.flags |= RI_WR_READ_FENCE;
    post(a, &wr);
    side_modify(a, RI_QPS_ERROR);
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
    expect_registered(a, stag_of(1), RI_WC_FLUSHED);
}
END_TEST

/* Flags that change concurrently with posts do not disturb the others. This thread may execute what
 * the other one posted; the CQ is not armed, so it wakes the sleeper. */
static void *change_flags(void *stop)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_FLAGS };

    while (!atomic_load((atomic_bool *)stop)) {
        modify.flags = RI_QP_PRIVILEGED | (modify.flags ^ RI_QP_READ_ENABLE);
        OK(bed.fake.privileged.qp_modify(a->qp, &modify));
        fake_host_wake(&bed.fake);
    }
    return NULL;
}

START_TEST(flags_change_beside_posts)
{
    atomic_bool stop = false;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, change_flags, &stop), 0);
    for (uint32_t i = 1; i <= 200; i++) {
        link_now(a, (uint8_t)i);
        unlink_now(a, stag_of((uint8_t)i));
    }
    atomic_store(&stop, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fast registration");
    TCase *tc = new_case(suite, "registered", setup, teardown);

    tc_add_tests(tc, registered_is_written_and_read, requests_behind_it_use_it);
    tcase_add_loop_test(tc, where_it_begins, 0, 2);
    tcase_add_test(tc, registered_again_by_another_key);
    tcase_add_loop_test(tc, unregistered_is_of_no_use, 0, 2);
    tc_add_tests(tc, windows_are_bound_to_it, X012_peer_of_the_registering_queue_invalidates);
    tcase_add_loop_test(tc, X012_peer_of_another_queue_does_not, 0, 2);
    tc = new_case(suite, "refused", setup, teardown);
    tc_add_tests(tc, lists_that_do_not_fit, who_may_not);
    tcase_add_loop_test(tc, refused_in_its_turn, 0, IN_TURNS);
    tcase_add_test(tc, flushed);
    tc = new_case(suite, "threads", setup, teardown);
    tcase_add_test(tc, flags_change_beside_posts);
    return tc_main(suite);
}
