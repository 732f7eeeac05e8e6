/* SPDX-License-Identifier: BSD-3-Clause
 * Scripts with reorder, over the provider ib and the tests' own rdma-core (tests/rdmacore): what
 * may change places does, what may not does not, and nothing is lost. */
#include "tests/rdmacore/work.h"

#include "tc.h"

static char path[] = "/tmp/ital-reorder.XXXXXX";

/* Opens the device with the script. One QP is connected; its two queues have one CQ. */
static void open_with(const char *script)
{
    const char *build = getenv("TC_TOP_BUILDDIR");
    char filters[4200];
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

    ck_assert_ptr_nonnull(file);
    fputs(script, file);
    ck_assert_int_eq(fclose(file), 0);
    snprintf(filters, sizeof(filters), "%s/providers/filter/.libs/vf_fault.so=%s",
             build ? build : ".", path);
    setenv("ITAL_TEST_FILTERS", filters, 1);
    work_setup();
    unlink(path);
}

/* The next completion is this one. */
static void comes(uint64_t cookie, uint8_t opcode)
{
    struct ri_wc wc = next();

    ck_assert_int_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.opcode, opcode);
    ck_assert_uint_eq(wc.cookie, cookie);
}

static void send_completes(unsigned int n)
{
    fake_sent(set.qp, set.cq, n, IBV_WC_SUCCESS);
}

static void receive_completes(unsigned int n)
{
    fake_received(set.qp, set.cq, n, IBV_WC_SUCCESS, 10);
}

START_TEST(another_queue_goes_first)
{
    open_with("reorder send at 1\n");
    send_to(set.qp, 1, RI_WR_SIGNALED);
    ck_assert_int_eq(receive(set.qp, 7, 0), RI_OK);
    ck_assert_int_eq(receive(set.qp, 8, 0), RI_OK);
    send_completes(0);
    receive_completes(0);
    receive_completes(1);
    comes(7, RI_WC_RECV);
    comes(1, RI_WC_SEND);
    comes(8, RI_WC_RECV);
    nothing();
    work_teardown();
}
END_TEST

START_TEST(one_queue_keeps_its_order)
{
    open_with("reorder send\n");
    for (uint64_t cookie = 1; cookie <= 4; cookie++)
        send_to(set.qp, cookie, RI_WR_SIGNALED);
    for (unsigned int n = 0; n < 4; n++)
        send_completes(n);
    for (uint64_t cookie = 1; cookie <= 4; cookie++)
        comes(cookie, RI_WC_SEND);
    nothing();
    work_teardown();
}
END_TEST

START_TEST(alone_it_does_not_wait)
{
    open_with("reorder send\n");
    send_to(set.qp, 1, RI_WR_SIGNALED);
    ck_assert_int_eq(receive(set.qp, 7, 0), RI_OK);
    send_completes(0);
    comes(1, RI_WC_SEND);
    receive_completes(0);
    comes(7, RI_WC_RECV);
    nothing();
    work_teardown();
}
END_TEST

/* One poll takes all of them in the new order. */
START_TEST(several_by_one_poll)
{
    struct ri_wc wc[8];

    open_with("reorder receive every 2\n");
    for (uint64_t cookie = 0; cookie < 2; cookie++) {
        send_to(set.qp, cookie, RI_WR_SIGNALED);
        ck_assert_int_eq(receive(set.qp, 10 + cookie, 0), RI_OK);
    }
    receive_completes(0);
    send_completes(0);
    send_completes(1);
    receive_completes(1);
    ck_assert_uint_eq(set.host.user.poll(set.cq, 8, wc), 4);
    ck_assert_uint_eq(wc[0].cookie, 0);
    ck_assert_uint_eq(wc[1].cookie, 10);
    ck_assert_uint_eq(wc[2].cookie, 1);
    ck_assert_uint_eq(wc[3].cookie, 11);
    nothing();
    work_teardown();
}
END_TEST

/* The QP goes while one of its completions is held behind another's: it is not polled any more. */
START_TEST(a_queue_pair_that_goes_takes_its_completion)
{
    struct ri_wc wc;

    open_with("reorder send at 1\n");
    send_to(set.qp, 1, RI_WR_SIGNALED);
    ck_assert_int_eq(receive(set.qp, 7, 0), RI_OK);
    send_completes(0);
    receive_completes(0);
    comes(7, RI_WC_RECV);
    ck_assert_int_eq(set.host.privileged.qp_destroy(set.qp), RI_OK);
    set.qp = NULL;
    ck_assert_uint_eq(set.host.user.poll(set.cq, 1, &wc), 0);
    work_teardown();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("filter: reorder");
    TCase *all = tc_case(suite, "reorder", NULL, NULL);

    tc_add_tests(all, another_queue_goes_first, one_queue_keeps_its_order, alone_it_does_not_wait,
                 several_by_one_poll, a_queue_pair_that_goes_takes_its_completion);
    return tc_main(suite);
}
