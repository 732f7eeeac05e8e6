/* SPDX-License-Identifier: BSD-3-Clause */
/* An SEVD that overflows: who gets the event, what is refused until it is reset, and how it is
 * reset. The SEVD is that of affiliated errors, which gets one for each connection that a peer
 * breaks. */
#include "dto.h"
#include "opened.h"

#include <poll.h>

static struct buffer here, there;
static it_evd_handle_t unaffiliated;
static int fd; /* of the EVD of affiliated errors at b */

static void open_with(const char *name, unsigned int flags)
{
    pair_open(&pair, name);
    ok(it_evd_free(pair.b.affiliated));
    ok(it_evd_create(pair.b.ia, IT_ASYNC_AFF_EVENT_STREAM,
                     (it_evd_flags_t)(flags | IT_EVD_CREATE_FD), 1, 0, NULL, &pair.b.affiliated,
                     &fd));
    ok(it_evd_create(pair.b.ia, IT_ASYNC_UNAFF_EVENT_STREAM, (it_evd_flags_t)0, 8, 0, NULL,
                     &unaffiliated, NULL));
    here = buffer_make(&pair.a, 64, IT_PRIV_LOCAL);
    there = buffer_make(&pair.b, 64, IT_PRIV_LOCAL); /* no remote access */
}

/* b gets one more affiliated error. It is queued, or dropped, when the end of the connection is
 * reported. */
static void break_connection(void)
{
    it_lmr_triplet_t one = segment(&here, 0, 64);
    it_event_t event;

    pair_connect(&pair, pair_family(&pair));
    ok(it_post_rdma_write(pair.a.ep, &one, 1, 1, BOTH, address_in(&there, 0), there.context));
    expect(pair.a.requests, WRITE);
    pair_broken(&pair);
    while (it_evd_dequeue(pair.a.affiliated, &event) == IT_SUCCESS)
        ;
    ok(it_ep_reset(pair.a.ep));
    ok(it_ep_reset(pair.b.ep));
}

/* The first fills the EVD, the second overflows it. */
static void overflow(void)
{
    break_connection();
    ck_assert_int_gt(tc_wait_fd(fd, POLLIN, tc_deadline(PATIENCE)), 0);
    break_connection();
}

static bool is_overflowed(void)
{
    it_evd_param_t params;

    ok(it_evd_query(pair.b.affiliated, IT_EVD_PARAM_OVERFLOWED, &params));
    return params.evd_overflowed == IT_TRUE;
}

static void expect_told(void)
{
    it_event_t event = expect(unaffiliated, IT_ASYNC_UNAFF_SEVD_ENQUEUE_FAILURE);

    ck_assert_ptr_eq(event.unaff_async.ia, pair.b.ia);
    ck_assert_ptr_eq(event.unaff_async.evd, unaffiliated);
}

static void take(void)
{
    expect(pair.b.affiliated, IT_ASYNC_AFF_EP_RDMAW_ACCESS_VIOLATION);
}

static void expect_waits(it_status_t status)
{
    it_event_t event;

    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(pair.b.affiliated, &event));
    is(status, it_evd_wait(pair.b.affiliated, 0, &event, NULL));
    is(status, it_evd_wait(pair.b.affiliated, 1000, &event, NULL));
}

START_TEST(told_once_and_waits_are_refused_until_it_is_reset)
{
    it_evd_param_t reset = { .evd_overflowed = IT_FALSE };
    it_event_t event;

    open_with(IFACE, IT_EVD_OVERFLOW_NOTIFY);
    for (int round = 0; round < 2; round++) {
        ck_assert(!is_overflowed());
        overflow();
        expect_told();
        ck_assert(is_overflowed());
        break_connection();
        expect_nothing(unaffiliated); /* still the same overflow */
        take();
        expect_waits(IT_ERR_INVALID_EVD_STATE);
        is(IT_ERR_INVALID_EVD_STATE,
           it_evd_wait(pair.b.affiliated, IT_TIMEOUT_INFINITE, &event, NULL));
        ok(it_evd_modify(pair.b.affiliated, IT_EVD_PARAM_OVERFLOWED, &reset));
        expect_waits(IT_ERR_TIMEOUT_EXPIRED);
    }
}
END_TEST

START_TEST(it_resets_itself_where_that_was_asked_for)
{
    open_with(IFACE, IT_EVD_OVERFLOW_NOTIFY | IT_EVD_OVERFLOW_AUTO_RESET);
    for (int round = 0; round < 2; round++) {
        overflow();
        expect_told();
        ck_assert(is_overflowed());
        take();
        ck_assert(!is_overflowed());
        expect_waits(IT_ERR_TIMEOUT_EXPIRED);
    }
}
END_TEST

START_TEST(nobody_is_told_who_did_not_ask)
{
    open_with(IFACE, IT_EVD_OVERFLOW_DEFAULT);
    overflow();
    expect_nothing(unaffiliated);
    ck_assert(is_overflowed());
    take();
    expect_waits(IT_ERR_TIMEOUT_EXPIRED);
    ck_assert(is_overflowed());
}
END_TEST

/* A larger queue overflows later. */
START_TEST(a_larger_queue_has_room)
{
    it_evd_param_t params = { .sevd_queue_size = 3 };

    open_with(IFACE, IT_EVD_OVERFLOW_NOTIFY);
    ok(it_evd_modify(pair.b.affiliated, IT_EVD_PARAM_QUEUE_SIZE, &params));
    overflow();
    break_connection();
    expect_nothing(unaffiliated);
    ck_assert(!is_overflowed());
    break_connection();
    expect_told();
    for (int i = 0; i < 3; i++)
        take();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("overflow");
    TCase *tc = tc_case(suite, "affiliated errors", NULL, fx_close);

    add_where(tc, FX_SOFTRDMA, told_once_and_waits_are_refused_until_it_is_reset,
              it_resets_itself_where_that_was_asked_for, nobody_is_told_who_did_not_ask,
              a_larger_queue_has_room);
    return tc_main(suite);
}
