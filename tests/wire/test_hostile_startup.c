/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hostile peers at start-up: thousands of connections that are opened and abandoned, stalled half
 * way, or fed with single octets. Memory and descriptors stay bounded, and a well-behaved
 * connection is established in time beside them. TC_LONG multiplies the counts.
 */
#include "startup_fixture.h"

#include <poll.h>

#define PORT fixture.node.qualifier.conn_qual.port

/* Time limit of a well-behaved connection, whatever the others do. It is below the 5 s after which
 * theirs end. */
#define IN_TIME_MS 4000u

#define HELD 300 /* more than twice the limit of a listener */

static struct octets sample(void)
{
    return enhanced(REQUEST, F_C, W_A | 4, W_C | W_D | 4, "a connection that behaves");
}

/* The server handles the requests and rejects hostile ones; many have gone again. */
static void serve(void)
{
    it_event_t event;

    while (it_evd_dequeue(fixture.node.asked, &event) == IT_SUCCESS)
        it_reject(event.conn_req.cn_est_id, NULL, 0);
}

/* Request, Reply, first FPDU, a message; then it closes. */
static void behave(void)
{
    uint64_t deadline = tc_deadline(IN_TIME_MS);
    it_event_t event;

    fixture.fd = dial(PORT);
    say(fixture.fd, sample());
    for (;;) { /* requests that others have withdrawn meanwhile may precede it */
        event = expect(fixture.node.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
        if (!memcmp(event.conn_req.private_data, "a connection that behaves", 25))
            break;
        it_reject(event.conn_req.cn_est_id, NULL, 0);
    }
    fixture.asked = event;
    accept_it("");
    hear(fixture.fd, enhanced(REPLY, F_C, W_A | DEPTH, W_D | 4, ""));
    say(fixture.fd, join(write0_fpdu(), send_fpdu(1, "message")));
    expect_established();
    expect_received(1, "message");
    ck_assert_msg(!tc_expired(deadline), "a connection that behaves took longer than %u ms",
                  IN_TIME_MS);
    fixture_next();
}

/* Memory and descriptors are back at their former level, except for a few caches. */
static void expect_back(size_t heap_before, int fds_before)
{
    ck_assert_msg(tc_until(tc_fd_count() <= fds_before + 1, 10000), "%d descriptors, %d before",
                  tc_fd_count(), fds_before);
    ck_assert_msg(tc_until(tc_heap() <= heap_before + 65536, 10000),
                  "%zu octets of heap, %zu before", tc_heap(), heap_before);
}

/* ---- opened and abandoned ---- */

static void abandon(struct tc_rng *rng)
{
    struct octets request = sample();
    int fd = dial(PORT);

    memcpy(request.at + 24, "one that does not behaves", 25);
    switch (tc_below(rng, 5)) {
    case 0: break;
    case 1: say(fd, part(request, 0, tc_below(rng, request.length))); break;
    case 2: say(fd, request); break;
    case 3: say(fd, join(request, write0_fpdu())); break;
    default:
        request.at[tc_below(rng, request.length)] ^= (uint8_t)(1 + tc_below(rng, 255));
        say(fd, request);
    }
    if (tc_below(rng, 2))
        reset(&fd);
    else
        hang_up(&fd);
}

START_TEST(C019_X014_opened_and_abandoned_by_the_thousand)
{
    struct tc_rng rng = tc_rng(1);
    unsigned long count = tc_count(4000);
    size_t heap_before = 0;
    int fds_before = 0;

    fixture_passive("");
    for (unsigned long i = 0; i < count; i++) {
        abandon(&rng);
        serve();
        if (i % 100 == 99)
            behave();
        if (i == 199) { /* one-time allocations have been made */
            fds_before = tc_fd_count();
            heap_before = tc_heap();
        }
    }
    behave();
    expect_back(heap_before, fds_before);
}
END_TEST

/* Complete requests that are withdrawn before the consumer reads them. */
START_TEST(C019_withdrawn_requests_do_not_pile_up)
{
    unsigned long count = tc_count(1000);
    struct octets request = sample();
    size_t heap_before;
    int fds_before, shown = 0;
    it_event_t event;

    fixture_passive("");
    behave();
    fds_before = tc_fd_count();
    heap_before = tc_heap();
    memcpy(request.at + 24, "one that does not behaves", 25);
    for (unsigned long i = 0; i < count; i++) {
        int fd = dial(PORT);

        say(fd, request);
        until_read(fd);
        hang_up(&fd);
    }
    expect_back(heap_before, fds_before);
    while (it_evd_dequeue(fixture.node.asked, &event) == IT_SUCCESS) {
        is(IT_ERR_INVALID_CN_EST_ID, it_reject(event.conn_req.cn_est_id, NULL, 0));
        shown++;
    }
    ck_assert_int_le(shown, 16 + 1); /* the EVD's size */
    behave();
}
END_TEST

/* ---- stalled ---- */

/* 0: silent, 1: half a Request, 2: all but its last octet. They stay open while others come and
 * go. */
START_TEST(X014_held_half_way)
{
    static const size_t lengths[] = { 0, 10, 48 };
    struct octets request = sample();
    int fds[HELD], fds_before, alive = 0;
    size_t heap_before;

    fixture_passive("half_open = 128\n");
    behave();
    fds_before = tc_fd_count();
    heap_before = tc_heap();
    for (int i = 0; i < HELD; i++) {
        fds[i] = dial(PORT);
        say(fds[i], part(request, 0, lengths[_i]));
        if (i % 25 == 24)
            behave();
    }
    for (int i = 0; i < HELD; i++)
        alive += !ended(fds[i]);
    /* Option half_open; the last ones wait in the kernel's queue. */
    ck_assert_int_le(alive, 129 + HELD % 25 + 25);
    ck_assert_int_ge(alive, 64); /* otherwise none was stalled */
    behave();
    for (int i = 0; i < HELD; i++)
        close(fds[i]);
    expect_back(heap_before, fds_before);
    behave();
}
END_TEST

/* One octet now and then on each of many. None completes a Request, and all are closed at the time
 * limit. */
START_TEST(X015_slow_octets)
{
    enum { SLOW = 60 };
    struct octets request = sample();
    size_t fed = 0;
    int fds[SLOW], left = SLOW;

    fixture_passive("request_timeout = 400ms\n");
    for (int i = 0; i < SLOW; i++)
        fds[i] = dial(PORT);
    while (left) {
        ck_assert_uint_lt(fed, request.length); /* otherwise one Request would be complete */
        left = 0;
        for (int i = 0; i < SLOW; i++) {
            if (fds[i] < 0)
                continue;
            if (ended(fds[i])) {
                hang_up(&fds[i]);
                continue;
            }
            say(fds[i], part(request, fed, 1));
            left++;
        }
        fed++;
        if (fed % 5 == 0)
            behave();
        poll(NULL, 0, 20); /* the attackers' pace */
    }
    behave();
}
END_TEST

/* Accepted, then silent: each connection's place is released in time. */
START_TEST(C044_X014_first_fpdu_withheld)
{
    enum { SILENT = 12 };
    it_ep_handle_t eps[SILENT];
    int fds[SILENT];

    fixture_passive("request_timeout = 300ms\n");
    for (int i = 0; i < SILENT; i++) {
        ask(enhanced(REQUEST, F_C, W_A | 4, W_C | W_D | 4, ""));
        accept_it("");
        hear(fixture.fd, enhanced(REPLY, F_C, W_A | DEPTH, W_D | 4, ""));
        fds[i] = fixture.fd;
        eps[i] = fixture.node.ep;
        fixture.fd = -1;
        fixture.node.ep = NULL;
    }
    for (int i = 0; i < SILENT; i++)
        expect(fixture.node.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
    for (int i = 0; i < SILENT; i++) {
        hear_rst(fds[i]);
        close(fds[i]);
        ok(it_ep_free(eps[i]));
    }
    fixture_next();
    behave();
}
END_TEST

/* ---- the active side among hostile servers ---- */

START_TEST(X024_answers_that_announce_too_much)
{
    struct octets answer = reply(F_C | F_S, 2, "");
    struct tc_rng rng = tc_rng(2);
    size_t heap_before = 0;

    fixture_active("mpa_fallback = off\n");
    for (unsigned long i = 0; i < tc_count(500); i++) {
        connect_it("");
        tc_fill(&rng, answer.at + 16, 4);
        say(fixture.fd, answer);
        hang_up(&fixture.fd); /* the announced octets do not come */
        ck_assert_int_ne(next(fixture.node.connections).event_number,
                         IT_CM_MSG_CONN_ESTABLISHED_EVENT);
        fixture_next();
        if (i == 20)
            heap_before = tc_heap();
    }
    ck_assert_msg(tc_heap() <= heap_before + 65536, "%zu octets of heap, %zu before", tc_heap(),
                  heap_before);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hostile peers at start-up");
    TCase *opened = tc_case(suite, "opened and abandoned", NULL, fixture_close);
    TCase *held = tc_case(suite, "held", NULL, fixture_close);
    TCase *servers = tc_case(suite, "servers", NULL, fixture_close);

    tc_add_tests(opened, C019_X014_opened_and_abandoned_by_the_thousand,
                 C019_withdrawn_requests_do_not_pile_up);
    tcase_set_timeout(opened, tc_long() ? 300 : 60);
    tcase_add_loop_test(held, X014_held_half_way, 0, 3);
    tc_add_tests(held, X015_slow_octets, C044_X014_first_fpdu_withheld);
    tcase_add_test(servers, X024_answers_that_announce_too_much);
    return tc_main(suite);
}
