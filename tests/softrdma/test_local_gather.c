/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short requests that leave together: Sends, and Writes of the way `vm`, of which one system call
 * has several. Each is what it would be alone, and none waits longer than until its consumer looks.
 */
#include "local_bed.h"

#include "providers/software/core/qp.h"

#include <sys/mman.h>
#include <sys/uio.h>

#define ROOM 65536u

static struct testbed bed;
static struct side *const a = &bed.side[0], *const b = &bed.side[1];
static struct region from, to; /* of a; of b */
static uint32_t calls;

ssize_t __real_process_vm_writev(pid_t pid, const struct iovec *here, unsigned long heres,
                                 const struct iovec *there, unsigned long theres,
                                 unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *here, unsigned long heres,
                                 const struct iovec *there, unsigned long theres,
                                 unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *here, unsigned long heres,
                                 const struct iovec *there, unsigned long theres,
                                 unsigned long flags)
{
    calls++;
    return __real_process_vm_writev(pid, here, heres, there, theres, flags);
}

/* The way is found by a first Write. */
static void open_pair(void)
{
    const char *const options[] = { "local_access", "vm", "sanitizers", "off", NULL };

    local_open(&bed, options);
    testbed_connect(&bed, &(struct shape){ .depth = 128 }, NULL);
    from = region_new(a, ROOM, TESTBED_ALL);
    to = region_new(b, ROOM, TESTBED_ALL);
    region_fill(&from);
    side_write(a, 1000, region_sge(&from, 0, 1), (uintptr_t)to.octets, to.keys.rkey);
    side_expect(a, a->send_cq, 1000, RI_WC_SUCCESS, 1);
    calls = 0;
}

static void close_pair(void)
{
    testbed_close(&bed);
}

static uint64_t direct(void)
{
    const struct qp *qp = container_of(a->qp, struct qp, base);

    return atomic_load(&local_qp(qp)->counters.directly) - 1; /* the first */
}

/* --- lists --- */

#define LIST 20u

struct list {
    struct ri_sge sges[LIST];
    struct ri_send_wr wrs[LIST];
};

/* The Writes of a list, each from its own place; the first is at wrs. */
static void fill(struct list *list, const uint32_t (*spans)[2], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        list->sges[i] = region_sge(&from, 1024 * i, spans[i][1]);
        list->wrs[i] = (struct ri_send_wr){
            .next = i + 1 < count ? &list->wrs[i + 1] : NULL,
            .cookie = i,
            .opcode = RI_WR_RDMA_WRITE,
            .flags = RI_WR_SIGNALED,
            .sg_list = &list->sges[i],
            .num_sge = 1,
            .rdma = { .remote_addr = (uintptr_t)to.octets + spans[i][0], .rkey = to.keys.rkey }
        };
    }
}

static void post(struct list *list)
{
    struct ri_send_wr *bad;

    OK(a->qp->ops->post_send(a->qp, list->wrs, &bad));
}

/* One behind another, with gaps, over others, over ends of pages, of one octet. */
static const uint32_t spans[][2] = { { 0, 64 },    { 64, 64 },   { 128, 64 },   { 256, 64 },
                                     { 4090, 12 }, { 4102, 1 },  { 100, 200 },  { 100, 3 },
                                     { 8191, 1 },  { 8192, 64 }, { 8256, 1024 } };

static void expect_as_one_by_one(uint32_t count)
{
    static uint8_t model[ROOM];

    memset(model, 0, ROOM);
    model[0] = from.octets[0];
    for (uint32_t i = 0; i < count; i++)
        memcpy(model + spans[i][0], from.octets + (size_t)1024 * i, spans[i][1]);
    ck_assert_mem_eq(to.octets, model, ROOM);
}

START_TEST(a_list_is_written_by_one_call)
{
    struct list list;

    fill(&list, spans, ARRAY_SIZE(spans));
    post(&list);
    ck_assert_uint_eq(calls, 1);
    ck_assert_uint_eq(direct(), ARRAY_SIZE(spans));
    expect_as_one_by_one(ARRAY_SIZE(spans));
    for (uint32_t i = 0; i < ARRAY_SIZE(spans); i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, spans[i][1]);
    ck_assert(side_idle(a, a->send_cq));
}
END_TEST

/* At each place: one that is no short Write is executed in its turn. */
START_TEST(what_is_no_short_write_has_its_turn)
{
    static const uint32_t kinds = 3;
    struct list list;
    uint32_t at = (uint32_t)_i / kinds;

    fill(&list, spans, ARRAY_SIZE(spans));
    switch (_i % kinds) {
    case 0: list.wrs[at].flags |= RI_WR_READ_FENCE; break;
    case 1: list.wrs[at].flags |= RI_WR_LOCAL_FENCE; break;
    default: list.sges[at].length = 0; break;
    }
    post(&list);
    for (uint32_t i = 0; i < ARRAY_SIZE(spans); i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, list.sges[i].length);
    if (_i % kinds < 2)
        expect_as_one_by_one(ARRAY_SIZE(spans));
}
END_TEST

/* Those before it are placed, and nothing behind it. */
static void expect_refused_at(uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, spans[i][1]);
    side_expect(a, a->send_cq, at, RI_WC_REMOTE_ACCESS, 0);
    for (uint32_t i = at + 1; i < ARRAY_SIZE(spans); i++)
        side_expect(a, a->send_cq, i, RI_WC_FLUSHED, 0);
    expect_as_one_by_one(at);
}

START_TEST(one_that_is_refused_ends_what_is_placed)
{
    struct list list;

    fill(&list, spans, ARRAY_SIZE(spans));
    list.wrs[_i].rdma.rkey ^= 0x100;
    post(&list);
    ck_assert_uint_eq(direct(), (uint32_t)_i);
    expect_refused_at((uint32_t)_i);
}
END_TEST

/* The kernel stops within a call. What it has placed is done; the peer is asked about the rest,
 * in order, and the page is there when it looks. */
START_TEST(a_page_that_cannot_be_written_divides_them)
{
    struct list list;

    ck_assert_int_eq(mprotect(to.octets + 8192, 4096, PROT_READ), 0);
    fill(&list, spans, ARRAY_SIZE(spans));
    post(&list);
    ck_assert_uint_eq(direct(), 9);
    expect_as_one_by_one(9);
    ck_assert_int_eq(mprotect(to.octets + 8192, 4096, PROT_READ | PROT_WRITE), 0);
    for (uint32_t i = 0; i < ARRAY_SIZE(spans); i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, spans[i][1]);
    expect_as_one_by_one(ARRAY_SIZE(spans));
}
END_TEST

/* --- posts one by one --- */

static void write_one(uint32_t i)
{
    side_write(a, i, region_sge(&from, 64 * i, 64), (uintptr_t)to.octets + (size_t)64 * i,
               to.keys.rkey);
}

/* Passes for the CQ find nothing: its consumer polls. */
static void begin_polling(void)
{
    for (int i = 0; i < 4; i++)
        fake_host_run(&bed.fake, a->send_cq);
}

static void expect_in_order(uint32_t first, uint32_t end)
{
    struct ri_wc wc;

    for (uint32_t i = first; i < end; i++) {
        ck_assert_uint_eq(bed.fake.user.poll(a->send_cq, 1, &wc), 1);
        ck_assert(wc.cookie == i && wc.status == RI_WC_SUCCESS);
    }
    ck_assert_mem_eq(to.octets + (size_t)64 * first, from.octets + (size_t)64 * first,
                     (size_t)64 * (end - first));
}

START_TEST(the_first_leaves_at_once_and_others_by_the_next_poll)
{
    begin_polling();
    for (uint32_t i = 0; i < 6; i++)
        write_one(i);
    ck_assert_uint_eq(direct(), 1);
    expect_in_order(0, 1); /* it takes the last completion */
    ck_assert_uint_eq(direct(), 6);
    ck_assert_uint_eq(calls, 2);
    expect_in_order(1, 6);
}
END_TEST

/* Of the lane, for no CQ. */
START_TEST(a_pass_has_them_leave)
{
    begin_polling();
    for (uint32_t i = 0; i < 6; i++)
        write_one(i);
    fake_host_run(&bed.fake, NULL);
    ck_assert_uint_eq(direct(), 6);
    expect_in_order(0, 6);
}
END_TEST

START_TEST(nobody_sleeps_while_one_waits)
{
    begin_polling();
    write_one(0);
    write_one(1);
    ck_assert(!bed.fake.lane->ops->lane_arm(bed.fake.lane));
    fake_host_run(&bed.fake, NULL);
    ck_assert_uint_eq(direct(), 2);
    expect_in_order(0, 2);
}
END_TEST

START_TEST(many_leave_without_a_poll)
{
    begin_polling();
    for (uint32_t i = 0; i < 100; i++)
        write_one(i);
    ck_assert_uint_eq(direct(), 65); /* alone, then 64 */
    ck_assert_uint_eq(calls, 2);
    fake_host_run(&bed.fake, NULL);
    ck_assert_uint_eq(direct(), 100);
    expect_in_order(0, 100);
}
END_TEST

/* Any other request behind them takes them along: order is that of the posts. */
START_TEST(another_request_takes_them_along)
{
    begin_polling();
    side_receive(b, 9, region_sge(&to, ROOM - 1024, 1024));
    for (uint32_t i = 0; i < 6; i++)
        write_one(i);
    ck_assert_uint_eq(direct(), 1);
    side_send(a, 6, region_sge(&from, 0, 1024)); /* not short */
    ck_assert_uint_eq(direct(), 6);
    side_expect(b, b->recv_cq, 9, RI_WC_SUCCESS, 1024);
    expect_in_order(0, 6);
    side_expect(a, a->send_cq, 6, RI_WC_SUCCESS, 1024);
}
END_TEST

START_TEST(none_waits_for_a_consumer_that_does_not_poll)
{
    if (_i) {
        begin_polling();
        OK(bed.fake.user.arm(a->send_cq, RI_ARM_NEXT, 0));
    }
    for (uint32_t i = 0; i < 6; i++)
        write_one(i);
    ck_assert_uint_eq(direct(), 6);
    expect_in_order(0, 6);
}
END_TEST

START_TEST(an_end_in_order_takes_them_along)
{
    struct ri_wc wc;

    begin_polling();
    for (uint32_t i = 0; i < 6; i++)
        write_one(i);
    ck_assert_uint_eq(direct(), 1);
    side_modify(a, RI_QPS_CLOSING);
    for (uint32_t i = 0; i < 6; i++) {
        ck_assert(fake_host_until(&bed.fake, bed.fake.user.poll(a->send_cq, 1, &wc) == 1,
                                  TESTBED_TIMEOUT));
        ck_assert(wc.cookie == i && wc.status == RI_WC_SUCCESS);
    }
    ck_assert_mem_eq(to.octets, from.octets, 384);
}
END_TEST

/* --- Sends --- */

static uint32_t published(void)
{
    const struct qp *qp = container_of(a->qp, struct qp, base);

    return atomic_load(&local_qp(qp)->given);
}

static void receive_and_send(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        side_receive(b, i, region_sge(&to, 4096 + 64 * i, 64));
    begin_polling();
    for (uint32_t i = 0; i < count; i++)
        side_send(a, i, region_sge(&from, 64 * i, 64));
}

static void expect_received(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        side_expect(b, b->recv_cq, i, RI_WC_SUCCESS, 64);
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, 64);
    }
    ck_assert_mem_eq(to.octets + 4096, from.octets, (size_t)64 * count);
}

START_TEST(sends_leave_by_the_next_pass)
{
    receive_and_send(6);
    ck_assert_uint_eq(published(), 1);
    fake_host_run(&bed.fake, a->send_cq);
    ck_assert_uint_eq(published(), 6);
    expect_received(6);
}
END_TEST

START_TEST(many_sends_leave_without_a_pass)
{
    receive_and_send(40);
    ck_assert_uint_eq(published(), 33); /* alone, then 16 and 16 */
    expect_received(40);
}
END_TEST

/* Sends and Writes in turn: what waits keeps its order. */
START_TEST(sends_and_writes_keep_their_order)
{
    for (uint32_t i = 0; i < 10; i++)
        side_receive(b, i, region_sge(&to, 4096 + 64 * i, 64));
    begin_polling();
    for (uint32_t i = 0; i < 20; i += 2) {
        side_send(a, i, region_sge(&from, 64 * i, 64));
        write_one(i + 1);
    }
    for (uint32_t i = 0; i < 20; i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, 64);
    for (uint32_t i = 0; i < 10; i++) {
        side_expect(b, b->recv_cq, i, RI_WC_SUCCESS, 64);
        ck_assert_mem_eq(to.octets + 4096 + 64 * i, from.octets + 128 * i, 64);
        ck_assert_mem_eq(to.octets + 128 * i + 64, from.octets + 128 * i + 64, 64);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_gather");
    TCase *lists = tc_case(suite, "lists", open_pair, close_pair);
    TCase *sends = tc_case(suite, "sends", open_pair, close_pair);
    TCase *posts = tc_case(suite, "posts", open_pair, close_pair);

    tc_add_tests(lists, a_list_is_written_by_one_call, a_page_that_cannot_be_written_divides_them);
    tcase_add_loop_test(lists, what_is_no_short_write_has_its_turn, 0, 3 * (int)ARRAY_SIZE(spans));
    tcase_add_loop_test(lists, one_that_is_refused_ends_what_is_placed, 0, (int)ARRAY_SIZE(spans));
    tc_add_tests(posts, the_first_leaves_at_once_and_others_by_the_next_poll, a_pass_has_them_leave,
                 nobody_sleeps_while_one_waits, many_leave_without_a_poll,
                 another_request_takes_them_along, an_end_in_order_takes_them_along);
    tcase_add_loop_test(posts, none_waits_for_a_consumer_that_does_not_poll, 0, 2);
    tc_add_tests(sends, sends_leave_by_the_next_pass, many_sends_leave_without_a_pass,
                 sends_and_writes_keep_their_order);
    return tc_main(suite);
}
