/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: complete requests for which the upper layer has no room. They wait, in order
 * and bounded, and are reported when there is room. */
#include "cm_passive.h"

#include <poll.h>

static unsigned room, refused;
static char order[FAKE_REQUESTS + 1]; /* first octets of the accepted requests */
static int peers[8];

/* The upper layer: takes a request for which it has room. */
static void take(struct fake_request *r)
{
    size_t taken = strlen(order);

    if (room) {
        room--;
        order[taken] = (char)r->private_data[0];
        return;
    }
    refused++;
    kal_defer(r->context->connection);
    r->context->connection = NULL;
}

static void setup_full(void)
{
    setup();
    room = refused = 0;
    memset(order, 0, sizeof(order));
    memset(peers, -1, sizeof(peers));
    fake.on_request = take;
}

static void hang_up_all(void)
{
    for (size_t i = 0; i < sizeof(peers) / sizeof(*peers); i++)
        if (peers[i] >= 0)
            close(peers[i]);
    teardown();
}

static unsigned waiting(void)
{
    return listener->queued;
}

/* Peer i sends a request with one letter, and the lane has processed it. */
static void ask(int i, const char *letter)
{
    unsigned seen = listener->undecided + waiting();

    dial();
    peers[i] = peer;
    peer = -1;
    uint8_t octets[600];
    peer_send(peers[i], octets, frame_request(octets, F_C | F_S, 2, 0x8004, 0xC008, letter, 1));
    fake_until(listener->undecided + waiting() == seen + 1, 10000);
}

static void make_room(unsigned more)
{
    room = more;
    kal_listen_room(listener);
}

static void passes(void)
{
    for (int i = 0; i < 8; i++)
        fake_lane_run(fake.lane);
}

START_TEST(they_come_up_in_order)
{
    room = 1;
    ask(0, "a");
    ask(1, "b");
    ask(2, "c");
    ask(3, "d");
    passes();
    ck_assert_str_eq(order, "a");
    ck_assert_uint_eq(refused, 1); /* the others have not been reported */
    ck_assert_uint_eq(listener->undecided, 1);
    ck_assert_uint_eq(waiting(), 3);
    ck_assert_uint_eq(listener->half_open, 0);
    make_room(1);
    fake_until(refused == 2, 10000);
    passes();
    ck_assert_str_eq(order, "ab");
    ck_assert_uint_eq(refused, 2);
    ck_assert_uint_eq(waiting(), 2);
    make_room(5);
    fake_until(!waiting(), 10000);
    ck_assert_str_eq(order, "abcd");
    ck_assert_uint_eq(room, 3);
    for (int i = 0; i < 4; i++)
        ck_assert(peer_quiet(peers[i]));
    ask(4, "e"); /* as usual */
    ck_assert_str_eq(order, "abcde");
}
END_TEST

/* Two wait, and one more place is left behind that of the first: it is reported once for each time
 * that room is told. */
START_TEST(a_deferred_one_is_not_reported_for_ever)
{
    with((const char *[]){ "backlog", "3", NULL });
    room = 1;
    ask(0, "a");
    ask(1, "b");
    ask(2, "c");
    passes();
    ck_assert_uint_eq(refused, 1);
    make_room(0);
    passes();
    ck_assert_uint_eq(refused, 2);
    ck_assert_uint_eq(listener->undecided, 1);
    ck_assert_uint_eq(waiting(), 2);
    make_room(2);
    fake_until(!waiting(), 10000);
    ck_assert_str_eq(order, "abc");
}
END_TEST

/* Incomplete start-ups do not delay others: the next request to report is at the front of its list,
 * as is the oldest start-up. */
START_TEST(start_ups_and_those_that_wait_are_apart)
{
    struct kal_connection *c;
    int silent[4];

    ask(0, "a");
    for (size_t i = 0; i < 4; i++) {
        dial();
        silent[i] = peer;
        peer = -1;
        fake_until(listener->half_open == i + 1, 10000);
        if (i == 1)
            ask(1, "b");
    }
    for (c = listener->starting; c; c = c->listed_next)
        ck_assert(c->fresh && !c->queued);
    for (c = listener->queue; c; c = c->listed_next)
        ck_assert(c->queued);
    ck_assert_uint_eq(listener->queue->stream.octets[24], 'a');
    make_room(2);
    fake_until(!room, 10000);
    ck_assert_str_eq(order, "ab");
    ck_assert_ptr_null(listener->queue);
    ck_assert_uint_eq(listener->half_open, 4);
    for (size_t i = 0; i < 4; i++)
        close(silent[i]);
}
END_TEST

START_TEST(one_that_waited_is_accepted)
{
    struct fake_request *r;

    ask(0, "a");
    make_room(1);
    fake_until(listener->undecided == 1, 10000);
    r = &fake.requests[1];
    ck_assert_uint_eq(r->request.private_data_length, 1);
    ck_assert_uint_eq(r->request.ird, 4);
    ck_assert_ptr_eq(r->context->connection->context, r->context);
    ck_assert_int_eq(accept_it(r, fake_qp_new(), "yes", 8, 8), RI_OK);
    peer = peers[0];
    peers[0] = -1;
    expect_reply(F_C | F_S, 2, 0x8008, 0x4004, "yes");
    ck_assert_uint_eq(listener->undecided, 0);
}
END_TEST

START_TEST(a_later_one_does_not_overtake)
{
    ask(0, "a");
    room = 2; /* which was not reported yet */
    ask(1, "b");
    passes();
    ck_assert_str_eq(order, "");
    ck_assert_uint_eq(waiting(), 2);
    kal_listen_room(listener);
    fake_until(!waiting(), 10000);
    ck_assert_str_eq(order, "ab");
}
END_TEST

START_TEST(a_moved_one_goes_behind)
{
    struct sockaddr_storage bound;
    struct kal_listener *other = fake_listen("127.0.0.1", 0, 0, &label2, &bound);
    struct fake_request *r;

    room = 1;
    ask(0, "a");
    r = &fake.requests[0];
    ask(1, "b");
    ck_assert_int_eq(kal_migrate(r->context->connection, listener), RI_OK);
    r->context->connection = NULL;
    fake_until(waiting() == 2, 10000);
    make_room(2);
    fake_until(!waiting(), 10000);
    ck_assert_str_eq(order, "aba");
    kal_listen_destroy(other);
}
END_TEST

/* By an end, a reset, or early octets; the next request has its turn. */
START_TEST(the_peer_leaves)
{
    int fd;

    ask(0, "a");
    ask(1, "b");
    fd = listener->queue->stream.fd;
    if (_i == 1)
        abort_on_close(peers[0]);
    if (_i == 2) {
        peer_send(peers[0], "x", 1);
    } else {
        close(peers[0]);
        peers[0] = -1;
    }
    ck_assert_int_ne(tc_wait_fd(fd, POLLIN, tc_deadline(5000)), 0); /* not processed yet */
    make_room(1);
    fake_until(!waiting(), 10000);
    ck_assert_str_eq(order, "b");
    ck_assert_uint_eq(listener->undecided, 1);
    if (_i == 2)
        ck_assert_int_eq(peer_end(peers[0]), 'R');
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 2); /* the listener and b */
    ck_assert_uint_eq(fake.request_count, 2);           /* a refused, b taken */
}
END_TEST

/* However often the lane has retried meanwhile. */
START_TEST(nobody_waits_for_ever)
{
    uint64_t end = tc_deadline(10000);

    with((const char *[]){ "request_timeout", "100", NULL });
    ask(0, "a");
    while (waiting()) {
        ck_assert_msg(!tc_expired(end), "it waits although its time is over");
        kal_listen_room(listener);
        fake_pump(-1, 0, end);
    }
    ck_assert_int_eq(peer_end(peers[0]), 'R'); /* a reset: no second attempt */
    ck_assert_uint_gt(refused, 1);
    ck_assert_uint_eq(fake_log_count("event queue has been full"), 1);
    ck_assert_uint_eq(listener->undecided, 0);
    room = 1;
    ask(1, "b");
    ck_assert_str_eq(order, "b");
}
END_TEST

/* A start-up that began later, and stays incomplete, shows when that time would have passed. */
START_TEST(time_stops_when_it_is_shown)
{
    int clock;

    with((const char *[]){ "request_timeout", "100", NULL });
    ask(0, "a");
    make_room(1);
    fake_until(!waiting(), 10000);
    clock = peer_connect(&at);
    ck_assert_int_eq(peer_end(clock), 'F');
    close(clock);
    passes();
    ck_assert(peer_quiet(peers[0]));
    ck_assert_uint_eq(listener->undecided, 1);
}
END_TEST

/* The program takes requests slowly: the time of those that wait restarts each time. */
START_TEST(time_begins_anew_when_another_is_taken)
{
    uint64_t end;

    with((const char *[]){ "request_timeout", "400", NULL });
    for (int i = 0; i < 4; i++)
        ask(i, (const char *[]){ "a", "b", "c", "d" }[i]);
    for (unsigned i = 1; i <= 4; i++) {
        end = tc_now_ns() + 250 * 1000000;
        while (tc_now_ns() < end)
            fake_pump(-1, 0, end);
        make_room(1);
        fake_until(strlen(order) == i, 10000);
    }
    ck_assert_str_eq(order, "abcd");
    for (int i = 0; i < 4; i++)
        ck_assert(peer_quiet(peers[i]));
}
END_TEST

/* With three undecided, further peers stay in the kernel's queue. */
START_TEST(c019_they_are_bounded)
{
    with((const char *[]){ "backlog", "3", NULL });
    room = 1;
    ask(0, "a");
    ask(1, "b");
    ask(2, "c");
    dial();
    peers[3] = peer;
    send_request(F_C | F_S, 2, 4, 4, "d");
    peer = -1;
    passes();
    ck_assert_uint_eq(listener->undecided + waiting() + listener->half_open, 3);
    make_room(1);
    fake_until(refused == 2, 10000); /* b is taken, c is not: still three */
    passes();
    ck_assert_uint_eq(listener->undecided + waiting() + listener->half_open, 3);
    ck_assert(peer_quiet(peers[3]));
    fake_destroy(fake.requests[0].context); /* a is decided */
    fake_until(waiting() == 2, 10000);
    make_room(2);
    fake_until(!waiting(), 10000);
    ck_assert_str_eq(order, "abcd");
}
END_TEST

/* Two decisions and three new peers between two runs: accepting pauses again, but requests that
 * wait have their turn before. */
START_TEST(a_decision_is_not_forgotten_over_new_peers)
{
    uint8_t octets[600];

    with((const char *[]){ "backlog", "2", "half_open", "2", NULL });
    room = 8;
    for (int i = 0; i < 3; i++) {
        dial();
        peers[i] = peer;
        peer = -1;
        fake_until(listener->half_open == (i ? 2 : 1), 10000);
        if (i != 1)
            continue;
        peer_send(peers[0], octets, frame_request(octets, F_C | F_S, 2, 4, 4, "a", 1));
        fake_until(listener->undecided == 1, 10000);
    }
    for (int i = 1; i < 3; i++) {
        peer_send(peers[i], octets, frame_request(octets, F_C | F_S, 2, 4, 4, &"abc"[i], 1));
        fake_until(listener->half_open == 2u - (unsigned)i, 10000);
    }
    ck_assert_uint_eq(listener->undecided, 2);
    ck_assert_uint_eq(waiting(), 1);
    ck_assert(!listener->paused);
    fake_destroy(fake.requests[0].context);
    fake_destroy(fake.requests[1].context);
    for (int i = 3; i < 6; i++) {
        peers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(connect(peers[i], (struct sockaddr *)&at, sizeof(struct sockaddr_in)), 0);
    }
    passes();
    ck_assert(listener->paused); /* until one of the new ones is old */
    ck_assert_str_eq(order, "abc");
}
END_TEST

/* Start-ups that were pending when the limit was reached wait, too; each decision lets one be
 * reported. */
START_TEST(c019_what_was_accepted_is_not_dropped)
{
    uint8_t octets[600];

    with((const char *[]){ "backlog", "2", NULL });
    room = 8;
    for (unsigned i = 0; i < 6; i++) {
        dial();
        peers[i] = peer;
        peer = -1;
        fake_until(listener->half_open == i + 1, 10000);
    }
    for (int i = 0; i < 6; i++)
        peer_send(peers[i], octets, frame_request(octets, F_C | F_S, 2, 4, 4, &"abcdef"[i], 1));
    fake_until(listener->undecided == 2 && waiting() == 4, 10000);
    for (unsigned i = 0; i < 4; i++) {
        passes();
        ck_assert_uint_eq(strlen(order), 2 + i);
        fake_destroy(fake.requests[i].context);
        fake_until(strlen(order) == 3 + i, 10000);
    }
    ck_assert_uint_eq(waiting(), 0);
    for (int i = 4; i < 6; i++)
        ck_assert(peer_quiet(peers[i]));
}
END_TEST

/* Incomplete start-ups make room for each other; requests that wait do not. */
START_TEST(they_do_not_give_way)
{
    int half[3];

    with((const char *[]){ "backlog", "3", "half_open", "2", NULL });
    ask(0, "a");
    ask(1, "b");
    for (int i = 0; i < 3; i++)
        half[i] = peer_connect(&at);
    ck_assert_int_eq(peer_end(half[0]), 'R');
    fake_until(listener->half_open == 2, 10000);
    for (int i = 0; i < 3; i++)
        close(half[i]);
    ck_assert_uint_eq(waiting(), 2);
    make_room(2);
    fake_until(!waiting(), 10000);
    ck_assert_str_eq(order, "ab");
}
END_TEST

START_TEST(they_go_with_the_listener)
{
    room = 1;
    ask(0, "a");
    ask(1, "b");
    ask(2, "c");
    if (_i)
        make_room(1); /* the run that would report it is too late */
    kal_listen_destroy(listener);
    listener = NULL;
    ck_assert_int_eq(peer_end(peers[1]), 'R');
    ck_assert_int_eq(peer_end(peers[2]), 'R');
    ck_assert(peer_quiet(peers[0]));
    ck_assert_str_eq(order, "a");
}
END_TEST

/* ---- set A ---- */

static void *a_bring(const char *letter)
{
    struct ri_connect_request asked = {
        .size = sizeof(asked),
        .local = address_of("10.0.0.1", 7),
        .peer = address_of("10.0.0.2", 8),
        .private_data = letter,
        .private_data_length = 1,
        .ird = 3,
        .ord = 4,
        .depths_valid = true,
    };
    struct ri_connection *ri = calloc(1, sizeof(*ri));

    kal_cm_host_request(&fake.rnic.host, fake.a_listener_context, ri, &asked, &ri->context);
    return ri->context;
}

START_TEST(set_a_waits_too)
{
    struct ri_connection_event gone = { .size = sizeof(gone), .type = RI_CONNECTION_FAILED };
    void *first;

    kal_listen_destroy(listener);
    fake_reopen(NULL, RI_FEATURE_CONNECTION_SET_A);
    listener = fake_listen("10.0.0.1", 7, 0, &label, &at);
    first = a_bring("a");
    a_bring("b");
    a_bring("c");
    ck_assert_uint_eq(waiting(), 3);
    kal_cm_host_event(&fake.rnic.host, first, &gone);         /* not reported */
    fake_until(fake.a_destroyed == 1 && refused == 2, 10000); /* b's turn, without success */
    ck_assert_uint_eq(fake.a_calls[2], 0);                    /* it is gone: no refusal */
    make_room(1);
    fake_until(refused == 3, 10000);
    ck_assert_str_eq(order, "b");
    ck_assert_uint_eq(waiting(), 1);
    kal_listen_destroy(listener);
    listener = NULL;
    ck_assert_uint_eq(fake.a_destroyed, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("requests that wait for room");
    TCase *tc = tc_case(suite, "hold", setup_full, hang_up_all);

    tc_add_tests(tc, they_come_up_in_order, a_deferred_one_is_not_reported_for_ever,
                 start_ups_and_those_that_wait_are_apart, one_that_waited_is_accepted,
                 a_later_one_does_not_overtake, a_moved_one_goes_behind);
    tcase_add_loop_test(tc, the_peer_leaves, 0, 3);
    tc_add_tests(tc, nobody_waits_for_ever, time_stops_when_it_is_shown,
                 time_begins_anew_when_another_is_taken, c019_they_are_bounded,
                 a_decision_is_not_forgotten_over_new_peers, c019_what_was_accepted_is_not_dropped,
                 they_do_not_give_way);
    tcase_add_loop_test(tc, they_go_with_the_listener, 0, 2);
    tcase_add_test(tc, set_a_waits_too);
    return tc_main(suite);
}
